//! The `emulate` command as a user meets it: exit statuses, messages, output.

#[path = "common/child.rs"]
mod child;
#[path = "../../live/tests/privilege/mod.rs"]
mod privilege;

use privilege::may_make_namespaces;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn fairspan(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairspan"));
    command.arg("emulate").args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(args: &[&str]) -> (Option<i32>, String, String) {
    let output = child::output(&mut fairspan(args));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn bad_usage_and_bad_input_are_status_2_and_say_what_would_be_right() {
    for (args, part) in [
        (&[][..], "--a"),
        (&["--a", "x"], "--b"),
        (&["--a", "x", "--b", "y", "--rate", "100"], "100Mbit"),
        (&["--a", "x", "--b", "y", "--loss", "2"], "1%"),
        (&["--a", "x", "--b", "y", "--backward", "colour=red"], "colour"),
        (&["--a", "x", "--b", "y", "--backward", "rate"], "NAME=VALUE"),
        (&["--a", "x", "--b", "y", "--trace", "/nonexistent"], "/nonexistent"),
        (&["--a", "x", "--b", "y", "--loss", "1%", "--gilbert", "1% 2%"], "--gilbert"),
        (&["--a", "x", "--b", "y", "--duration", "soon"], "--duration"),
        (&["--a", "x:", "--b", "y"], "NETNS:DEV"),
        (&["--a", "lo", "--b", "y"], "lo: no Ethernet device"),
        (&["--config", "/nonexistent.toml"], "/nonexistent.toml"),
        (&["--config", "f", "--a", "x", "--b", "y"], "--config"),
    ] {
        let (status, stdout, stderr) = run(args);
        assert_eq!(status, Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(part), "{args:?}: {stderr}");
        assert_eq!(stdout, "", "{args:?}");
    }
}

#[test]
fn a_bad_file_is_status_2_and_names_the_line_or_the_link_and_setting() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("links.toml");
    let file = path.to_str().expect("text");
    for (text, part) in [
        ("[[link]]\na = \"x\"\nb = \"y\"\nboth = { rat = \"1Mbit\" }\n", "line 4"),
        (
            "[[link]]\nname = \"dsl\"\na = \"x\"\nb = \"y\"\nforward = { delay = \"fast\" }\n",
            "link dsl, forward: delay",
        ),
        ("seed = 1\n", "no link"),
    ] {
        std::fs::write(&path, text).expect("written");
        let (status, _, stderr) = run(&["--config", file]);
        assert_eq!(status, Some(2), "{stderr}");
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
}

/// A namespace with two devices that lead nowhere.
struct Space(String);

impl Space {
    fn new(test: &str) -> Option<Space> {
        if !may_make_namespaces() {
            return None;
        }
        let name = format!("fs-{}-{test}", std::process::id());
        ip(&["netns", "add", &name]).expect("a namespace (package iproute2)");
        let space = Space(name);
        for pair in [("p0", "q0"), ("p1", "q1")] {
            ip(&["-n", &space.0, "link", "add", pair.0, "type", "veth", "peer", "name", pair.1]).expect("made");
            for device in [pair.0, pair.1] {
                ip(&["-n", &space.0, "link", "set", device, "addrgenmode", "none"]).expect("set");
                ip(&["-n", &space.0, "link", "set", device, "up"]).expect("set");
            }
        }
        Some(space)
    }

    fn port(&self, device: &str) -> String {
        format!("{}:{device}", self.0)
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        ip(&["netns", "del", &self.0]);
    }
}

fn ip(args: &[&str]) -> Option<Output> {
    Command::new("ip").args(args).output().ok().filter(|output| output.status.success())
}

/// Starts it and waits until its ports are open.
fn started(args: &[&str]) -> Child {
    use std::io::{BufRead, BufReader};
    let mut child = fairspan(args).spawn().expect("started");
    let stderr = BufReader::new(child.stderr.take().expect("piped"));
    let (ready, is_ready) = std::sync::mpsc::channel();
    // Reads all that it says, so that it never waits for us.
    std::thread::spawn(move || {
        for line in stderr.lines().map_while(Result::ok).filter(|line| line.contains("emulating")) {
            let _ = ready.send(line);
        }
    });
    if let Err(error) = is_ready.recv_timeout(child::PATIENCE) {
        child.kill().expect("killed");
        panic!("it is not ready: {error}");
    }
    child
}

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([name, &child.id().to_string()]).status().expect("kill");
    assert!(status.success());
}

#[test]
fn ctrl_c_ends_it_with_130_and_one_json_document_and_sigterm_with_0() {
    let Some(space) = Space::new("signals") else { return };
    let (a, b) = (space.port("p0"), space.port("p1"));
    for (name, status) in [("-INT", 130), ("-TERM", 0)] {
        let child = started(&["--a", &a, "--b", &b, "--rate", "10Mbit", "--seed", "77", "--json"]);
        signal(&child, name);
        let output = child::ended(child);
        assert_eq!(output.status.code(), Some(status));
        let text = String::from_utf8(output.stdout).expect("text");
        assert_eq!(text.lines().count(), 1, "{text}");
        let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(json["seed"], 77);
        assert_eq!(json["links"][0]["a"], a.as_str());
        assert_eq!(json["links"][0]["forward"]["drops"]["loss"], 0);
        assert!(json["links"][0]["backward"]["lateness"]["p99_ns"].is_u64());
    }
}

#[test]
fn a_file_of_links_runs_for_its_duration_and_ends_with_0_and_a_table() {
    let Some(space) = Space::new("file") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("trace"), "1\n2\n").expect("written");
    let path = folder.path().join("links.toml");
    let text = format!(
        "seed = 5\n[[link]]\nname = \"lte\"\na = \"{}\"\nb = \"{}\"\nboth = {{ trace = \"trace\", delay = \"5ms\" }}\n",
        space.port("p0"),
        space.port("p1"),
    );
    std::fs::write(&path, text).expect("written");
    let start = Instant::now();
    let (status, stdout, stderr) = run(&["--config", path.to_str().expect("text"), "--duration", "300ms"]);
    assert_eq!(status, Some(0), "{stderr}");
    assert!(start.elapsed() >= Duration::from_millis(300));
    assert!(stdout.contains("lte") && stderr.contains("seed 5"), "{stdout}{stderr}");
}

#[test]
fn a_missing_device_is_status_2_and_a_vanished_one_status_1() {
    let Some(space) = Space::new("gone") else { return };
    let (status, _, stderr) = run(&["--a", &space.port("p0"), "--b", &space.port("nothing")]);
    assert_eq!(status, Some(2), "{stderr}");
    assert!(stderr.contains("no such device"), "{stderr}");
    let child = started(&["--a", &space.port("p0"), "--b", &space.port("p1")]);
    ip(&["-n", &space.0, "link", "del", "p0"]).expect("deleted");
    assert_eq!(child::ended(child).status.code(), Some(1));
}

#[test]
fn without_privileges_it_is_status_3() {
    let Some(space) = Space::new("nobody") else { return };
    // The same program without capabilities, by util-linux' setpriv.
    let port = |device: &str| format!("/run/netns/{}:{device}", space.0);
    let (a, b) = (port("p0"), port("p1"));
    if Command::new("setpriv").arg("--version").output().is_err() {
        println!("skipped: needs setpriv");
        return;
    }
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-all", "--inh-caps", "-all", "--clear-groups", "--reuid", "65534"]);
    command.args([env!("CARGO_BIN_EXE_fairspan"), "emulate", "--a", &a, "--b", &b]);
    let output = child::output(&mut command);
    let stderr = String::from_utf8_lossy(&output.stderr);
    if stderr.contains("setpriv:") {
        println!("skipped: nobody may not run the program here: {stderr}");
        return;
    }
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("CAP_NET_RAW"), "{stderr}");
}
