//! Children that a test waits for, but never for ever.
#![allow(dead_code, unreachable_pub)]

use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long a child may take to its end: several times what a busy machine needs.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Runs `command` to its end; the test fails, with what it printed, if that does not come.
pub fn output(command: &mut Command) -> Output {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    ended(child.unwrap_or_else(|error| panic!("{command:?}: {error}")))
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
