//! How a daemon begins and ends: in order, killed, and where it cannot.

use crate::common::*;
use rustix::process::{Signal, Uid};
use rustix::thread::set_thread_res_uid;
use socket2::{Domain, SockAddr, Socket, Type};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[test]
fn sigterm_and_sigint_leave_nothing_behind() {
    let Some(pair) = Pair::new() else { return };
    let lab = &pair.lab;
    let before = (lab.traces("site"), lab.traces("hub"));
    for (signal, code) in [(Signal::TERM, 0), (Signal::INT, 130)] {
        // A default route, so that there are rules and a table to leave behind.
        let mut hub = lab.daemon("hub", "hub", &pair.hub_config("", ""));
        let site = pair.site_config("", "").replace("\"10.77.0.1/32\", \"fd77::1/128\"", "\"0.0.0.0/0\", \"::/0\"");
        let mut site = lab.daemon("site", "site", &site);
        site.wait_up(2);
        assert!(lab.traces("site").contains("not from all fwmark"), "{}", lab.traces("site"));
        assert_ne!((lab.traces("site"), lab.traces("hub")), before);
        for daemon in [&mut hub, &mut site] {
            daemon.signal(signal);
            assert_eq!(daemon.ended().code(), Some(code), "{}", daemon.log());
            assert!(!daemon.socket.exists());
        }
        assert_eq!((lab.traces("site"), lab.traces("hub")), before);
    }
}

#[test]
fn a_service_manager_hears_that_a_daemon_of_any_role_is_ready_alive_and_ends() {
    let Some(lab) = Lab::new(&["host", "other"]) else { return };
    lab.cable(("host", "eth0", ""), ("other", "eth0", ""));
    for (role, text) in roles() {
        let path = lab.path(&format!("{role}.notify"));
        let manager = UnixDatagram::bind(&path).expect("a socket");
        manager.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let named = path.display().to_string();
        // Half a second: several times in the time that this test takes.
        let variables = [("NOTIFY_SOCKET", named.as_str()), ("WATCHDOG_USEC", "500000")];
        let mut daemon = lab.start_with(&["up"], &variables, "host", role, &text);
        let hear = || {
            let mut bytes = [0; 256];
            let length = manager.recv(&mut bytes).unwrap_or_else(|error| panic!("{role}: {error}"));
            String::from_utf8_lossy(&bytes[..length]).into_owned()
        };
        let ready = hear();
        let name = ["fs0", "bond0", "ring0"].into_iter().find(|name| text.contains(name)).expect("a name");
        assert!(ready.starts_with(&format!("READY=1\nSTATUS={name}, MTU ")), "{ready}");
        // It is up when it says so.
        daemon.status();
        assert_eq!([hear(), hear(), hear()], ["WATCHDOG=1"; 3]);
        daemon.signal(Signal::TERM);
        assert_eq!(daemon.ended().code(), Some(0), "{}", daemon.log());
        let rest: Vec<String> = std::iter::repeat_with(hear).take_while(|message| message != "STOPPING=1").collect();
        assert!(rest.iter().all(|message| message == "WATCHDOG=1"), "{rest:?}");
    }
}

/// Peers, an Ethernet bond and a ring's node, each on `eth0`.
pub(crate) fn roles() -> [(&'static str, String); 3] {
    let peers = interface("fs0", "[\"10.77.0.2/24\"]", "", "")
        + &peer("hub", "", "[\"10.77.0.1/32\"]", "")
        + &ethernet("one", "eth0", "");
    let bond = interface("bond0", "[\"10.78.0.2/24\"]", "", "")
        + "[bond]\npolicy = \"active-backup\"\n[[bond.link]]\ndevice = \"eth0\"\n";
    let ring = interface("ring0", "[\"10.79.0.1/24\"]", "", "")
        + "[ring]\nnode = 1\nnodes = 2\nrate = \"100Mbit\"\n[ring.east]\nkind = \"ethernet\"\ndevice = \"eth0\"\n";
    [("peers", peers), ("bond", bond), ("ring", ring)]
}

#[test]
fn up_runs_whichever_the_file_describes_and_the_ring_s_own_commands_are_for_rings() {
    let Some(lab) = Lab::new(&["host", "other"]) else { return };
    lab.cable(("host", "eth0", ""), ("other", "eth0", ""));
    let before = lab.traces("host");
    for (role, text) in roles() {
        let daemon = lab.daemon("host", role, &text);
        let status = daemon.status();
        let has = [
            ("peers", status["peers"].as_array().is_some_and(|peers| !peers.is_empty())),
            ("bond", status["bond"].is_object()),
            ("ring", status["ring"].is_object()),
        ];
        assert!(has.iter().all(|(name, has)| *has == (*name == role)), "{role}: {status}");
        daemon.wait_log("ready");
        let socket = daemon.socket.display().to_string();
        let shown = lab.fairspan("host", &["ring", "status", "--socket", &socket]);
        assert_eq!(shown.status.code(), Some(if role == "ring" { 0 } else { 1 }), "{shown:?}");
        daemon.stop();

        let mut daemon = lab.start_by(&["ring", "up"], "host", role, &text);
        if role == "ring" {
            daemon.wait_answer();
            daemon.stop();
        } else {
            assert_eq!(daemon.ended().code(), Some(2), "{}", daemon.log());
            daemon.wait_log("there is no [ring]");
        }
        assert_eq!(lab.traces("host"), before, "{role}");
    }
}

#[test]
fn what_a_killed_daemon_left_is_replaced_and_then_undone() {
    let Some(pair) = Pair::new() else { return };
    let lab = &pair.lab;
    // What the hub sends has to pass it, although the way to the hub leads into the tunnel for all but the daemon.
    let setting = |name: &str| PathBuf::from("/proc/sys/net/ipv4/conf/all").join(name);
    let strict = setting("rp_filter");
    lab.run("site", move || std::fs::write(strict, "1").expect("a strict filter"));
    let before = lab.traces("site");
    let hub = lab.daemon("hub", "hub", &pair.hub_config("", ""));
    let config = pair.site_config("", "").replace("\"10.77.0.1/32\", \"fd77::1/128\"", "\"0.0.0.0/0\", \"::/0\"");
    let site = lab.daemon("site", "site", &config);
    site.wait_up(2);
    let socket = site.socket.clone();
    site.kill();
    assert!(socket.exists() && lab.traces("site").contains("fwmark"), "a killed daemon cannot clean up");
    let marks = setting("src_valid_mark");
    let marks = lab.run("site", move || std::fs::read_to_string(marks).expect("a setting"));
    assert_eq!(marks.trim(), "0", "what holds for all interfaces is as it was");
    let site = lab.daemon("site", "site", &config);
    site.wait_up(2);
    lab.transfer("site", "hub", "10.77.0.1:5001", 2);
    let rules = lab.ip("site", &["rule"]);
    assert_eq!(rules.matches("fwmark").count(), 1, "the stale rules are gone: {rules}");
    site.stop();
    assert_eq!(lab.traces("site"), before);
    hub.stop();
}

#[test]
fn a_second_daemon_of_the_same_name_says_so_and_leaves_the_first_alone() {
    let Some(pair) = Pair::new() else { return };
    let lab = &pair.lab;
    let (site, hub) = pair.start();
    // The same control socket, and then another socket but the same interface.
    let mut second = lab.start("site", "site", &pair.site_config("", ""));
    assert_eq!(second.ended().code(), Some(1));
    site.wait_log("another daemon with this interface name is running");
    let mut third = lab.start("site", "other", &pair.site_config("", ""));
    assert_eq!(third.ended().code(), Some(1));
    assert!(third.log().contains("fs0"), "{}", third.log());
    assert_eq!(third.log().lines().count(), 1, "one clear line: {}", third.log());
    lab.transfer("site", "hub", "10.77.0.1:5001", 2);
    std::mem::drop((second, third));
    assert!(site.socket.exists());
    site.stop();
    hub.stop();
}

#[test]
fn a_port_in_use_is_named() {
    let Some(pair) = Pair::new() else { return };
    let lab = &pair.lab;
    let before = lab.traces("hub");
    let _taken = lab.udp("hub", "0.0.0.0:51900");
    let mut hub = lab.start("hub", "hub", &pair.hub_config("", ""));
    assert_eq!(hub.ended().code(), Some(1));
    assert!(hub.log().contains("listen_port 51900") && hub.log().contains("in use"), "{}", hub.log());
    assert_eq!(lab.traces("hub"), before);
}

#[test]
fn two_bonds_on_one_device_are_refused_and_the_first_goes_on() {
    let Some(lab) = Lab::new(&["host", "other"]) else { return };
    lab.cable(("host", "eth0", ""), ("other", "eth0", ""));
    let [_, (_, bond), _] = roles();
    let first = lab.daemon("host", "first", &bond);
    let mut second = lab.start("host", "second", &bond.replace("bond0", "bond1").replace("10.78", "10.79"));
    assert_eq!(second.ended().code(), Some(1), "{}", second.log());
    second.wait_log("device eth0: another daemon has this device");
    assert!(first.status()["bond"].is_object());
    first.kill();
    let third = lab.daemon("host", "second", &bond.replace("bond0", "bond1"));
    third.stop();
}

#[test]
fn a_user_who_may_run_no_bond_keeps_none_from_starting() {
    let Some(lab) = Lab::new(&["host", "other"]) else { return };
    lab.cable(("host", "eth0", ""), ("other", "eth0", ""));
    let [_, (_, bond), _] = roles();
    for listens in [true, false] {
        let _taken = lab.run("host", move || {
            let nobody = Uid::from_raw(65_534);
            set_thread_res_uid(nobody, nobody, nobody).expect("another user");
            let taken = Socket::new(Domain::UNIX, Type::STREAM, None).expect("a socket");
            let name = SockAddr::unix("\0fairspan bond eth0").expect("a name");
            // Whoever forks keeps the one before for a moment.
            let end = Instant::now() + PATIENCE;
            while let Err(error) = taken.bind(&name) {
                assert!(Instant::now() < end, "{error}");
                std::thread::sleep(Duration::from_millis(10));
            }
            if listens {
                taken.listen(1).expect("others may connect");
            }
            taken
        });
        let daemon = lab.daemon("host", "bond", &bond);
        daemon.wait_log(if listens { "a process of user 65534 has the name" } else { "a process of an unknown user" });
        assert!(daemon.status()["bond"].is_object());
        daemon.stop();
    }
}

#[test]
fn a_daemon_that_crashes_leaves_its_keys_in_no_core_file() {
    let Some(pair) = Pair::new() else { return };
    let config = pair.lab.config("site", &pair.site_config("", ""));
    let crash = |program: &str, args: &[&str], ready: &dyn Fn() -> bool| {
        let mut command = std::process::Command::new("prlimit");
        command.args(["--core=unlimited", "ip", "netns", "exec", &pair.lab.name("site"), program]).args(args);
        let mut child = command.current_dir(pair.lab.path("")).spawn().expect("started");
        let end = std::time::Instant::now() + PATIENCE;
        while !ready() {
            assert!(std::time::Instant::now() < end, "{program} is not ready");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let pid = rustix::process::Pid::from_raw(child.id() as i32).expect("a process");
        rustix::process::kill_process(pid, Signal::ABORT).expect("signalled");
        let status = child.wait().expect("its end");
        assert_eq!(status.signal(), Some(Signal::ABORT.as_raw()), "{program}");
        status.core_dumped()
    };
    let made = pair.lab.path("made");
    let touch = format!("touch {}; while :; do sleep 1; done", made.display());
    if !crash("sh", &["-c", &touch], &|| made.exists()) {
        eprintln!("skipped: nothing leaves a core file here");
        return;
    }
    let socket = pair.lab.path("site.sock");
    let config = config.display().to_string();
    assert!(!crash(env!("CARGO_BIN_EXE_fairspan"), &["up", &config], &|| socket.exists()));
}

#[test]
fn without_privileges_the_status_is_3_and_the_message_says_what_is_missing() {
    let Some(pair) = Pair::new() else { return };
    let lab = &pair.lab;
    let config = lab.config("site", &pair.site_config("", ""));
    let mut command = std::process::Command::new("ip");
    command.args(["netns", "exec", &lab.name("site"), "setpriv", "--bounding-set", "-all", "--inh-caps", "-all"]);
    let output = child::output(command.args([env!("CARGO_BIN_EXE_fairspan"), "up"]).arg(config));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("CAP_NET_ADMIN") || said.contains("root"), "{said}");
}

#[test]
fn an_interface_deleted_by_someone_else_ends_the_daemon_with_a_message() {
    let Some(pair) = Pair::new() else { return };
    let lab = &pair.lab;
    let before = lab.traces("site");
    let (mut site, hub) = pair.start();
    lab.ip("site", &["link", "del", "fs0"]);
    let status = site.ended();
    assert_eq!((status.code(), status.signal()), (Some(1), None), "{}", site.log());
    let last = site.log().lines().last().unwrap_or_default().to_owned();
    assert!(last.starts_with("fairspan: ") && last.contains("fs0"), "{last}");
    assert_eq!(lab.traces("site"), before);
    assert!(!site.socket.exists());

    // The same while the bond takes nothing from the host, because no channel works and its queue is full.
    drop(hub);
    let site = lab.daemon("site", "site", &pair.site_config("", ""));
    let socket = lab.udp("site", "10.77.0.2:7");
    for _ in 0..30_000 {
        let _ = socket.send_to(&[0; 1200], "10.77.0.1:7");
    }
    lab.ip("site", &["link", "del", "fs0"]);
    let mut site = site;
    assert_eq!(site.ended().code(), Some(1), "{}", site.log());
}

#[test]
fn either_side_killed_and_started_again_carries_traffic() {
    let Some(pair) = Pair::new() else { return };
    let lab = &pair.lab;
    for (mode, port) in [("ordered", 7001), ("stripe", 7003), ("duplicate", 7005)] {
        let more = format!("mode = \"{mode}\"");
        let (hub_config, site_config) = (pair.hub_config("", &more), pair.site_config("", &more));
        let mut hub = lab.daemon("hub", "hub", &hub_config);
        let mut site = lab.daemon("site", "site", &site_config);
        site.wait_up(2);
        for victim in ["hub", "site"] {
            if victim == "hub" {
                hub.kill();
                hub = lab.daemon("hub", "hub", &hub_config);
            } else {
                site.kill();
                site = lab.daemon("site", "site", &site_config);
            }
            let target = format!("10.77.0.1:{}", if victim == "hub" { port } else { port + 1 });
            lab.echo("hub", &target);
            let took = lab.until_answered("site", "10.77.0.2:7000", &target);
            let took = took.unwrap_or_else(|| panic!("{mode}, {victim} restarted: nothing\n{}", site.log()));
            // The other end notices after three seconds of silence, or by the new handshake at once.
            println!("{mode}, {victim} restarted: traffic after {took:?}");
        }
        site.wait_up(2);
        lab.transfer("site", "hub", "10.77.0.1:5001", 2);
        site.stop();
        hub.stop();
    }
}
