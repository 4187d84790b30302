//! What a running daemon has given up, and that it works without.

use crate::common::*;
use crate::lifecycle::roles;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::sync::{Mutex, MutexGuard, PoisonError};

const NET_ADMIN: u64 = 1 << 12;
const NET_RAW: u64 = 1 << 13;

/// A line of every thread's `/proc/PID/task/TID/status`.
fn of_each_thread(daemon: &Daemon, key: &str) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", daemon.pid())).expect("a process");
    let line = |status: String| {
        let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).map(str::trim);
        line.unwrap_or_else(|| panic!("no {key}")).to_owned()
    };
    tasks
        .map(|task| line(std::fs::read_to_string(task.expect("a thread").path().join("status")).expect("read")))
        .collect()
}

/// A setting of the kernel that is another one while a test runs.
struct Setting(&'static str, String);

impl Setting {
    /// `None` where it cannot be written.
    fn new(path: &'static str, value: &str) -> Option<Setting> {
        let before = std::fs::read_to_string(path).expect("the setting");
        std::fs::write(path, value).ok()?;
        Some(Setting(path, before))
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        let _ = std::fs::write(self.0, &self.1);
    }
}

/// While a test runs, users may open the TUN device, as is usual; what opens it needs CAP_NET_ADMIN all the same. One test at a
/// time: its end puts back what was.
pub(crate) struct OpenDevice(u32, #[expect(dead_code, reason = "held")] MutexGuard<'static, ()>);

static OPENED: Mutex<()> = Mutex::new(());

const DEVICE: &str = "/dev/net/tun";

impl OpenDevice {
    pub(crate) fn new() -> OpenDevice {
        let alone = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        let mode = std::fs::metadata(DEVICE).expect("the device").mode() & 0o777;
        std::fs::set_permissions(DEVICE, std::fs::Permissions::from_mode(0o666)).expect("a mode");
        OpenDevice(mode, alone)
    }
}

impl Drop for OpenDevice {
    fn drop(&mut self) {
        let _ = std::fs::set_permissions(DEVICE, std::fs::Permissions::from_mode(self.0));
    }
}

/// Holds the sets of all threads to what a daemon keeps.
fn assert_confined(daemon: &Daemon) {
    for (set, most) in [
        ("CapPrm", NET_ADMIN | NET_RAW),
        ("CapEff", NET_ADMIN | NET_RAW),
        ("CapBnd", NET_ADMIN | NET_RAW),
        ("CapInh", 0),
        ("CapAmb", 0),
    ] {
        for has in of_each_thread(daemon, set) {
            assert_eq!(u64::from_str_radix(&has, 16).expect("a set") & !most, 0, "{set}: {has}");
        }
    }
    assert!(of_each_thread(daemon, "NoNewPrivs").iter().all(|value| value == "1"));
    assert!(of_each_thread(daemon, "Seccomp").iter().all(|value| value == "2"));
    let status = daemon.status();
    let holds = |what: &str| status["confinement"][what]["holds"].as_str().unwrap_or_default().to_owned();
    assert_eq!((holds("capabilities").as_str(), holds("seccomp").as_str()), ("on", "on"), "{status}");
    assert_ne!(holds("landlock"), "", "{status}");
}

#[test]
fn a_daemon_of_each_role_keeps_two_capabilities_at_most_and_removes_what_it_added() {
    let Some(lab) = Lab::new(&["host", "other"]) else { return };
    lab.cable(("host", "eth0", ""), ("other", "eth0", ""));
    let before = lab.traces("host");
    for (role, text) in roles() {
        let daemon = lab.daemon("host", role, &text);
        assert_confined(&daemon);
        // A device that goes and comes back is opened and set apart again.
        lab.ip("host", &["link", "set", "eth0", "down"]);
        lab.ip("host", &["link", "set", "eth0", "up"]);
        let shown = lab.fairspan("host", &["status", "--socket", &daemon.socket.display().to_string()]);
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        assert!(shown.contains("CAP_NET_ADMIN, CAP_NET_RAW") && shown.contains("seccomp"), "{shown}");
        assert!(!daemon.log().contains("Operation not permitted"), "{}", daemon.log());
        daemon.stop();
        assert_eq!(lab.traces("host"), before, "{role}");
    }
}

#[test]
fn a_daemon_with_a_user_of_its_own_connects_moves_keeps_its_memory_and_ends_in_order() {
    let Some(pair) = Pair::new() else { return };
    let lab = &pair.lab;
    let _device = OpenDevice::new();
    // The user has to reach its folders.
    std::fs::set_permissions(lab.path(""), std::fs::Permissions::from_mode(0o711)).expect("a mode");
    let hub = lab.daemon("hub", "hub", &pair.hub_config("", ""));
    let folder = lab.path("nobody");
    let config = pair
        .site_config("user = \"nobody\"\nmetrics = \"127.0.0.1:9310\"\nrecord = \"FOLDER/fs0.record\"", "")
        .replace("SOCKET", "FOLDER/site.sock")
        .replace("FOLDER", &folder.display().to_string())
        .replace("\"10.77.0.1/32\", \"fd77::1/128\"", "\"0.0.0.0/0\", \"::/0\"");
    // Root's own groups, which what this thread starts has too.
    let group = rustix::process::Gid::from_raw(4);
    rustix::thread::set_thread_groups(&[group]).expect("a group");
    let mut site = lab.start("site", "site", &config);
    site.socket = folder.join("site.sock");
    site.wait_answer();
    site.wait_up(2);
    assert_confined(&site);
    assert!(of_each_thread(&site, "Uid").iter().all(|uids| uids.split_whitespace().all(|uid| uid != "0")));
    assert!(of_each_thread(&site, "Groups").iter().all(String::is_empty));
    lab.transfer("site", "hub", "10.77.0.1:5001", 2);
    // Roaming: another address on one link, and a device that vanishes and comes back.
    lab.ip("site", &["address", "del", "192.168.1.2/24", "dev", "eth0"]);
    lab.ip("site", &["address", "add", "192.168.1.3/24", "dev", "eth0"]);
    lab.ip("site", &["link", "del", "eth1"]);
    site.wait("one channel", |site| site.channels_up() <= 1);
    lab.cable(("site", "eth1", "192.168.2.2/24"), ("hub", "eth1", "192.168.2.1/24"));
    site.wait_up(2);
    lab.transfer("site", "hub", "10.77.0.1:5002", 2);
    let page = lab.run("site", || {
        use std::io::{Read as _, Write as _};
        let mut stream = std::net::TcpStream::connect("127.0.0.1:9310").expect("the metrics");
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("written");
        let mut page = String::new();
        stream.read_to_string(&mut page).expect("read");
        page
    });
    assert!(page.contains("fairspan_uptime_seconds"), "{page}");
    let recording = std::fs::metadata(folder.join("fs0.record")).expect("a recording");
    assert!(recording.uid() != 0 && recording.mode() & 0o777 == 0o600);
    assert!(!site.log().contains("ermitted") && !site.log().contains("ermission"), "{}", site.log());
    site.stop();
    let memory = std::fs::read_dir(folder.join("site.sock.state")).expect("the memory").count();
    assert_eq!(memory, 1);
    let after = lab.traces("site");
    assert!(["fs0", "fwmark", "51900"].iter().all(|trace| !after.contains(trace)), "{after}");
    hub.stop();
}

#[test]
fn a_restraint_that_is_left_out_is_told_and_a_user_that_is_none_is_refused() {
    let Some(lab) = Lab::new(&["host"]) else { return };
    let (_, text) = &roles()[0];
    let daemon = lab.daemon("host", "peers", &text.replace("[[peer]]", "confine = [\"landlock\"]\n[[peer]]"));
    let status = daemon.status();
    assert_eq!(status["confinement"]["seccomp"]["holds"], "off");
    assert!(
        status["confinement"]["capabilities"]["detail"].as_str().is_some_and(|why| why.contains("interface.confine"))
    );
    assert!(of_each_thread(&daemon, "Seccomp").iter().all(|value| value == "0"));
    daemon.stop();
    let mut none = lab.start("host", "none", &text.replace("[[peer]]", "user = \"nobody-such\"\n[[peer]]"));
    assert_eq!(none.ended().code(), Some(1));
    none.wait_log("interface.user: there is no user `nobody-such`");
}

#[test]
fn folders_that_a_daemon_did_not_make_stay_whose_they_are() {
    let Some(pair) = Pair::new() else { return };
    let lab = &pair.lab;
    std::fs::set_permissions(lab.path(""), std::fs::Permissions::from_mode(0o711)).expect("a mode");
    let _device = OpenDevice::new();
    let folder = |name: &str, mode| {
        let path = lab.path(name);
        std::fs::create_dir(&path).expect("a folder");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("a mode");
        path
    };
    let owner = |path: &std::path::Path| std::fs::metadata(path).expect("there").uid();
    let (closed, open) = (folder("closed", 0o755), folder("open", 0o1777));
    let with = |control: &std::path::Path, state: &std::path::Path| {
        let text = pair.site_config("user = \"nobody\"", "");
        let text = text.replace("SOCKET.state", &state.display().to_string());
        text.replace("SOCKET", &control.join("x.sock").display().to_string())
    };
    for (control, state, setting) in [(&closed, &open, "control_socket"), (&open, &closed, "state_dir")] {
        let mut refused = lab.start("site", setting, &with(control, state));
        assert_eq!(refused.ended().code(), Some(1), "{}", refused.log());
        refused.wait_log(&format!("interface.user: `nobody` cannot write in `{}`", closed.display()));
        refused.wait_log(&format!("{setting} must be in a folder of its own"));
    }
    // Root is another user there, once it has given up its capabilities.
    let theirs = folder("theirs", 0o755);
    std::os::unix::fs::chown(&theirs, Some(65_534), None).expect("another owner");
    let as_root = with(&theirs, &theirs).replace("user = \"nobody\"", "");
    let mut refused = lab.start("site", "root", &as_root);
    assert_eq!(refused.ended().code(), Some(3), "{}", refused.log());
    refused.wait_log("is user 65534's");
    refused.wait_log("name that user in interface.user");
    let mut daemon = lab.start("site", "works", &with(&open, &open.join("state")));
    daemon.socket = open.join("x.sock");
    daemon.wait_answer();
    assert_eq!([&closed, &open].map(|path| owner(path)), [0, 0]);
    assert_ne!(owner(&open.join("state")), 0, "what it made is its user's");
    daemon.stop();
}

#[test]
fn nobody_looks_into_a_daemon_that_has_become_another_user() {
    let Some(pair) = Pair::new() else { return };
    let lab = &pair.lab;
    std::fs::set_permissions(lab.path(""), std::fs::Permissions::from_mode(0o711)).expect("a mode");
    let _device = OpenDevice::new();
    // What a process is that changes its user: with 1, its memory is open to that user.
    let Some(_dumped) = Setting::new("/proc/sys/fs/suid_dumpable", "1") else {
        println!("skipped: fs.suid_dumpable cannot be written");
        return;
    };
    let text = pair.site_config("user = \"nobody\"", "");
    let mut site =
        lab.start("site", "site", &text.replace("SOCKET", &lab.path("theirs/site.sock").display().to_string()));
    site.socket = lab.path("theirs/site.sock");
    site.wait_answer();
    let status = std::fs::metadata(format!("/proc/{}/status", site.pid())).expect("a process");
    assert_eq!(status.uid(), 0, "a process that may be dumped or traced is its user's");
    site.stop();
}
