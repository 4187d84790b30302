//! `scripts/bounded.sh`, through which `make test` runs every test program: one that hangs is told of, ended and counted.

#[path = "common/child.rs"]
mod child;
#[path = "../../live/tests/privilege/mod.rs"]
mod privilege;

use privilege::may_make_namespaces;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Runs a shell script under a bound of so many seconds; what goes to descriptor 3 comes on standard error.
fn bounded(seconds: u32, script: &str) -> Output {
    bounded_by(&["sh", "-c", "exec 3>&2; exec \"$@\"", "sh"], seconds, script)
}

fn bounded_by(shell: &[&str], seconds: u32, script: &str) -> Output {
    let bounded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/bounded.sh");
    let mut command = Command::new(shell[0]);
    command.args(&shell[1..]).arg(bounded).args(["sh", "-c", script]);
    // This test may itself run under a bound.
    command.env("FAIRSPAN_TEST_LIMIT", seconds.to_string()).env_remove("FAIRSPAN_TEST_DEADLINE");
    child::output(&mut command)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn lives(pid: &str) -> bool {
    Path::new("/proc").join(pid.trim()).exists()
}

/// What comes true within a minute.
fn eventually<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "not within a minute");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_program_that_ends_in_time_keeps_its_output_and_status() {
    let output = bounded(30, "echo test result: ok. 3 passed\\; 0 failed\\; 0 ignored\\; 0 measured; exit 0");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text(&output.stdout).lines().count(), 1, "{}", text(&output.stdout));
    assert!(text(&output.stderr).contains("... ok: 3 passed"), "{}", text(&output.stderr));
    let output = bounded(30, "echo words before the end; exit 7");
    assert_eq!(output.status.code(), Some(7));
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(err.contains("FAILED: status 7") && err.contains("words before the end"), "{err}");
    assert!(out.contains("(status 7) ... FAILED\ntest result: FAILED. 0 passed; 1 failed;"), "for who counts: {out}");
}

#[test]
fn a_program_that_cannot_run_here_says_why_and_is_no_failure() {
    let output = bounded(30, "echo some words; echo no such thing here; exit 77");
    assert_eq!(output.status.code(), Some(77));
    assert_eq!(text(&output.stdout), "some words\nno such thing here\n");
    assert!(text(&output.stderr).ends_with("... skipped: no such thing here\n"), "{}", text(&output.stderr));
}

#[test]
fn a_program_that_hangs_is_shown_killed_with_its_children_and_counted_as_failed() {
    let start = Instant::now();
    // It and its child hear no signal but SIGKILL; the child is in a session of its own.
    // Long enough for a busy machine to begin it.
    let output = bounded(8, "trap '' TERM INT HUP; echo last words; setsid sleep 300 & echo $! $$; sleep 301");
    assert_eq!(output.status.code(), Some(124));
    assert!(start.elapsed() < Duration::from_secs(150), "{:?}", start.elapsed());
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(err.contains("did not end within 8 s") && err.contains("last words"), "{err}");
    assert!(err.contains("sleep 300") && err.contains("sleep 301"), "all that runs is shown: {err}");
    assert!(err.contains("thread sleep: sleeping in "), "and where it waits: {err}");
    assert!(out.contains("test result: FAILED. 0 passed; 1 failed;"), "{out}");
    let pids = out.lines().nth(1).expect("two process numbers");
    eventually(|| (!pids.split_whitespace().any(lives)).then_some(()));
}

#[test]
fn namespaces_that_a_killed_program_left_are_removed() {
    if !may_make_namespaces() {
        return;
    }
    // With a list of namespaces of its own: whoever else makes namespaces removes what is left in the common one.
    let apart =
        "mkdir -p /run/netns && mount -t tmpfs tmpfs /run/netns && \"$@\" 3>&2; status=$?; ip netns list; exit $status";
    let shell = ["unshare", "--mount", "--propagation", "private", "sh", "-c", apart, "sh"];
    let output = bounded_by(&shell, 8, "ip netns add fs-$$-left; echo $$; ip netns exec fs-$$-left sleep 300");
    assert_eq!(output.status.code(), Some(124));
    let out = text(&output.stdout);
    let name = format!("fs-{}-left", out.lines().next().expect("a process number"));
    assert!(text(&output.stderr).contains(&format!("removed namespace {name}")), "{}", text(&output.stderr));
    assert!(!out.contains(&name), "{out}");
}

#[test]
fn an_interrupted_program_leaves_no_process_no_file_and_no_namespace() {
    let folder = tempfile::tempdir().expect("a folder");
    let told = folder.path().join("told");
    let bounded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/bounded.sh");
    // It hears neither signal, and its child is in a session of its own.
    let hangs = "trap '' TERM INT; touch \"$TMPDIR/file\"; setsid sleep 300 & echo $$ $! \"$TMPDIR\" >\"$0\"";
    let keeps =
        if may_make_namespaces() { "ip netns add fs-$$-kept; ip netns exec fs-$$-kept sleep 302" } else { "sleep 302" };
    for signal in ["INT", "TERM"] {
        let mut command = Command::new("sh");
        command.args(["-c", "exec 3>&1; exec \"$@\"", "sh"]).arg(&bounded).args([
            "sh",
            "-c",
            &format!("{hangs}; {keeps}"),
        ]);
        command.arg(&told).env_remove("FAIRSPAN_TEST_DEADLINE").stdout(Stdio::null()).stderr(Stdio::null());
        let mut running = command.spawn().expect("it starts");
        let words = eventually(|| std::fs::read_to_string(&told).ok().filter(|text| text.ends_with('\n')));
        let (pids, temporary) = words.trim().rsplit_once(' ').expect("processes and a folder");
        assert!(Path::new(temporary).join("file").exists());
        assert!(
            Command::new("kill")
                .args([&format!("-{signal}"), &running.id().to_string()])
                .status()
                .expect("`kill`")
                .success()
        );
        assert_eq!(running.wait().expect("its end").code(), Some(130), "{signal}");
        eventually(|| (!pids.split(' ').any(lives)).then_some(()));
        assert!(!Path::new(temporary).exists(), "{temporary}");
        let name = format!("fs-{}-kept", pids.split(' ').next().expect("the first"));
        let names = Command::new("ip").args(["netns", "list"]).output().expect("`ip`");
        assert!(!text(&names.stdout).contains(&name), "{}", text(&names.stdout));
        std::fs::remove_file(&told).expect("removed");
    }
}

#[test]
fn after_the_time_for_all_tests_no_program_is_started() {
    let bounded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/bounded.sh");
    let mut command = Command::new("sh");
    // Without descriptor 3: where it is open, it tells of the test program that this is.
    command.args(["-c", "exec 3>&-; exec \"$@\"", "sh"]).arg(bounded).args(["sh", "-c", "echo it was"]);
    command.env("FAIRSPAN_TEST_DEADLINE", "1000000000");
    let output = child::output(&mut command);
    let out = text(&output.stdout);
    assert_eq!(output.status.code(), Some(124));
    assert!(out.contains("was not started") && !out.contains("it was\n"), "{out}");
    assert!(text(&output.stderr).contains("the time for all tests is over"), "{}", text(&output.stderr));
}
