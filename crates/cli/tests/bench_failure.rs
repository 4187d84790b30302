//! `fairspan bench failure` as a user meets it. How long anything takes, is not asked here.

#[path = "common/child.rs"]
mod child;
#[path = "../../live/tests/privilege/mod.rs"]
mod privilege;

use privilege::may_make_namespaces;
use std::process::Command;

fn bench(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairspan"));
    command.args(["bench", "failure"]).args(args);
    command
}

#[test]
fn bad_usage_is_status_2_and_says_what_would_be_right() {
    for (args, part) in [
        (&["--only", "loses"][..], "loses-10"),
        (&["--only", "fails"], "better-fails"),
        (&["--runs", "0"], "1..=1000"),
        (&["carrier"], "unexpected argument"),
    ] {
        let output = child::output(&mut bench(args));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(part), "{args:?}: {said}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn the_help_has_each_case_with_what_it_is() {
    let output = child::output(&mut bench(&["--help"]));
    let said = String::from_utf8_lossy(&output.stdout);
    for part in ["all-down", "Both links carry nothing for 20 s", "rebinding", "stopped", "removed", "flaps", "--json"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn an_interrupt_leaves_nothing_behind() {
    if !may_make_namespaces() {
        return;
    }
    // What stands on another device, what a translator leads to, and what waits for a daemon.
    for case in ["removed", "rebinding", "stopped"] {
        child::is_interrupted_and_leaves_no_namespace(&mut bench(&["--only", case, "--runs", "1"]), "near");
    }
}
