//! What the network says of packets that a gateway sends in somebody else's name: the gateway has to hear it.

use crate::common::*;
use crate::gateway::{bypassed, config, connect, lab, lab_of, number};
use std::io::{ErrorKind, Read as _, Write as _};

/// Lets a host forward.
fn forwards(lab: &Lab, host: &str) {
    lab.run(host, || {
        for setting in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            std::fs::write(format!("/proc/sys/net/{setting}"), "1").expect("forwarding");
        }
    });
}

#[test]
fn a_path_that_carries_shorter_packets_than_both_ends_know_carries_all_of_a_stream() {
    let Some(lab) = lab_of(&["client", "gw", "server", "far"]) else { return };
    lab.cable(("server", "eth1", "10.97.3.1/24"), ("far", "eth0", "10.97.3.2/24"));
    lab.ip("server", &["address", "add", "fd97:3::1/64", "dev", "eth1", "nodad"]);
    lab.ip("far", &["address", "add", "fd97:3::2/64", "dev", "eth0", "nodad"]);
    // A router asks for its neighbours from these.
    for device in ["eth0", "eth1"] {
        lab.ip("server", &["address", "add", "fe80::2/64", "dev", device, "nodad"]);
    }
    // Only towards the far end: what that says in its handshake would be too long.
    lab.ip("server", &["link", "set", "eth1", "mtu", "1280"]);
    forwards(&lab, "server");
    for (family, from, to) in [("-4", "10.97.3.1", "10.97.2.2"), ("-6", "fd97:3::1", "fd97:2::2")] {
        lab.ip("far", &[family, "route", "add", "default", "via", from]);
        let network = if family == "-4" { "10.97.3.0/24" } else { "fd97:3::/64" };
        lab.ip("gw", &[family, "route", "add", network, "via", to]);
    }
    let daemon = lab.daemon("gw", "gw", &config("bypass_below = \"0ms\""));
    for server in ["10.97.3.2:5001", "[fd97:3::2]:5001"] {
        let listener = lab.listen("far", server);
        let mut near = connect(&lab, server).expect("connected");
        let mut far = accept(&listener);
        far.set_read_timeout(Some(PATIENCE)).expect("set");
        let writer = std::thread::spawn(move || near.write_all(&[7; 100_000]));
        let mut all = Vec::new();
        far.read_to_end(&mut all).expect("all, and the end");
        assert!(all.len() == 100_000 && all.iter().all(|byte| *byte == 7), "{} bytes", all.len());
        writer.join().expect("the writer").expect("written");
    }
    assert_eq!(number(&daemon, "opened"), 2);
    daemon.stop();
}

#[test]
fn who_may_not_be_called_is_told_of_by_the_first_answer() {
    let Some(lab) = lab() else { return };
    forwards(&lab, "server");
    for (network, by) in [("10.97.3.0/24", "10.97.2.2"), ("fd97:3::/64", "fd97:2::2")] {
        lab.ip("gw", &["route", "add", network, "via", by]);
        lab.ip("server", &["route", "add", "prohibit", network]);
    }
    let daemon = lab.daemon("gw", "gw", &config("bypass_below = \"0ms\""));
    for (server, kind) in
        [("10.97.3.2:5001", ErrorKind::HostUnreachable), ("[fd97:3::2]:5001", ErrorKind::PermissionDenied)]
    {
        assert_eq!(connect(&lab, server).expect_err("nobody may").kind(), kind, "{server}");
    }
    // The caller did not have to ask again.
    assert_eq!((bypassed(&daemon, "call_failed"), bypassed(&daemon, "unanswered")), (2, 0));
    daemon.stop();
}
