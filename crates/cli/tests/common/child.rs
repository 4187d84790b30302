//! Children that a test waits for, but never for ever.
#![allow(dead_code, unreachable_pub)]

use std::process::{Child, Command, Output, Stdio};
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

/// Waits for a child's end; the test fails, with what it printed, if that does not come. A child that prints more than a
/// pipe holds (64 kB) would wait for a reader instead.
pub fn ended(mut child: Child) -> Output {
    let end = Instant::now() + PATIENCE;
    while child.try_wait().expect("a status").is_none() {
        if Instant::now() >= end {
            child.kill().expect("killed");
            let output = child.wait_with_output().expect("its output");
            let said = [&output.stdout[..], &output.stderr].concat();
            panic!("not at its end after {PATIENCE:?}: {}", String::from_utf8_lossy(&said));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().expect("its output")
}
