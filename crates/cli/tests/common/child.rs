//! Children that a test waits for, but never for ever.
#![allow(dead_code, unreachable_pub)]

use rustix::process::{Pid, Signal, kill_process};
use std::io::Read;
use std::process::{Child, Command, Output, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a child may take to its end: several times what a busy machine needs.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// Runs `command` to its end; the test fails, with what it printed, if that does not come.
pub fn output(command: &mut Command) -> Output {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    ended(child.unwrap_or_else(|error| panic!("{command:?}: {error}")))
}

/// Waits until a child catches SIGINT: one that comes sooner would merely kill it.
pub fn catches_interrupt(child: &Child) {
    let end = Instant::now() + PATIENCE;
    let caught = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).expect("a process");
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("what it catches");
        u64::from_str_radix(mask.trim(), 16).expect("a mask") & 0b10 != 0
    };
    while !caught() {
        assert!(Instant::now() < end, "it does not catch SIGINT");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs a command that makes a namespace whose name ends in `name`, interrupts it then, and looks that it leaves none.
pub fn is_interrupted_and_leaves_no_namespace(command: &mut Command, name: &str) {
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started");
    catches_interrupt(&child);
    let names = format!("fs-{}-", child.id());
    let namespaces = || String::from_utf8(output(Command::new("ip").args(["netns", "list"])).stdout).expect("text");
    let end = Instant::now() + PATIENCE;
    while !namespaces().contains(&format!("{names}{name}")) {
        assert!(Instant::now() < end, "it makes no namespaces");
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = Pid::from_raw(child.id() as i32).expect("a number");
    kill_process(pid, Signal::INT).expect("interrupted");
    assert_eq!(ended(child).status.code(), Some(130));
    assert!(!namespaces().contains(&names), "{}", namespaces());
}

/// Waits for a child's end, and reads meanwhile what it prints; the test fails, with that, if the end does not come.
pub fn ended(mut child: Child) -> Output {
    let (stdout, stderr) = (read_all(child.stdout.take()), read_all(child.stderr.take()));
    let end = Instant::now() + PATIENCE;
    let status = loop {
        match child.try_wait().expect("a status") {
            Some(status) => break Some(status),
            None if Instant::now() >= end => break None,
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    if status.is_none() {
        child.kill().expect("killed");
        child.wait().expect("a status");
    }
    let [stdout, stderr] = [stdout, stderr].map(|reader| reader.join().expect("a reader"));
    match status {
        Some(status) => Output { status, stdout, stderr },
        None => panic!("not at its end after {PATIENCE:?}: {}", String::from_utf8_lossy(&[stdout, stderr].concat())),
    }
}

/// Reads a pipe to its end, if there is one: a child that prints more than a pipe holds (64 kB) waits for a reader.
fn read_all(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut all = Vec::new();
        if let Some(mut pipe) = pipe {
            pipe.read_to_end(&mut all).expect("its output");
        }
        all
    })
}
