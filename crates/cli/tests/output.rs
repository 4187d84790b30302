//! What becomes of a command whose output nobody takes.

#[path = "common/child.rs"]
mod child;

use std::fs::File;
use std::io::{Seek, Write};
use std::process::{Command, Stdio};

#[test]
fn a_command_whose_output_the_disk_does_not_take_says_so_and_fails() {
    let mut key = tempfile::tempfile().expect("a file");
    key.write_all(b"QHRWemFtcGxlLWtleS1leGFtcGxlLWtleS1leGFtcGw=\n").expect("written");
    let rows: [&[&str]; 5] = [&["keygen"], &["keygen", "--psk"], &["pubkey"], &["man"], &["select", "--policies"]];
    for arguments in rows {
        key.rewind().expect("rewound");
        let mut command = Command::new(env!("CARGO_BIN_EXE_fairspan"));
        command.args(arguments).stdin(key.try_clone().expect("the key"));
        command.stdout(File::options().write(true).open("/dev/full").expect("the full disk")).stderr(Stdio::piped());
        let output = child::ended(command.spawn().expect("started"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{arguments:?}: {said}");
        assert!(said.starts_with("fairspan: ") && said.contains("No space left on device"), "{arguments:?}: {said}");
    }
}
