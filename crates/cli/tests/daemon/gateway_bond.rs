//! Gateways before a bond, as the documentation's pairs of files have it: two daemons on each of two hosts, or one.
//!
//! ```text
//! client -- lan0 site =sat0= wan0 =sat0= hub lan0 -- server
//!                     =dsl0= wan1 =dsl0=
//! ```

use crate::common::*;
use crate::gateway::assert_nothing_left_on;
use crate::reliable::{Emulator, emulate};
use serde_json::Value;

/// The documentation's files.
const GATEWAY: &str = include_str!("../../../../docs/examples/gateway-before-bond.toml");
const BOND: &str = include_str!("../../../../docs/examples/bond-behind-gateway.toml");

/// The same in one daemon.
const SITE: &str = include_str!("../../../../docs/examples/split-site.toml");
const HUB: &str = include_str!("../../../../docs/examples/split-hub.toml");

fn hosts() -> Option<(Lab, [Emulator; 2])> {
    let lab = Lab::new(&["client", "site", "wan0", "wan1", "hub", "server"])?;
    lab.cable(("client", "eth0", "10.10.0.2/24"), ("site", "lan0", "10.10.0.1/24"));
    lab.cable(("server", "eth0", "10.20.0.2/24"), ("hub", "lan0", "10.20.0.1/24"));
    for (device, wan, net) in [("sat0", "wan0", "192.168.1"), ("dsl0", "wan1", "192.168.2")] {
        lab.cable(("site", device, &format!("{net}.2/24")), (wan, "near", ""));
        lab.cable((wan, "far", ""), ("hub", device, &format!("{net}.1/24")));
    }
    for (host, router) in [("client", "10.10.0.1"), ("server", "10.20.0.1")] {
        lab.ip(host, &["route", "add", "default", "via", router]);
    }
    for host in ["site", "hub"] {
        lab.run(host, || std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("forwarding"));
    }
    let emulators = [("wan0", "30ms"), ("wan1", "10ms")].map(|(wan, delay)| emulate(&lab, wan, delay, "3%"));
    Some((lab, emulators))
}

/// The example with this test's sockets and memory.
fn with_socket(example: &str) -> String {
    let own = "[interface]\ncontrol_socket = \"SOCKET\"\nstate_dir = \"SOCKET.state\"\n";
    let text = example.replace("[interface]\n", own);
    assert_ne!(text, example);
    text
}

/// An example with this test's keys and addresses too.
fn with_keys(example: &str, own: &str, other: &str) -> String {
    let mut text = with_socket(example);
    for key in ["xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=", "TrMvSoP4jYQlY6RIzBgbssQqY3vxI2Pi+y71lOWWXX0="] {
        text = text.replace(key, other);
    }
    text = text.replace("private_key_file = \"/etc/fairspan/private.key\"", &format!("private_key = \"{own}\""));
    for net in ["192.168.1", "192.168.2"] {
        text = text.replacen("203.0.113.1:51900", &format!("{net}.1:51900"), 1);
    }
    text
}

#[test]
fn downloads_through_gateways_before_a_bond_of_lossy_links_are_exact_and_split_at_both_ends() {
    let Some((lab, _emulators)) = hosts() else { return };
    let (site_key, hub_key) = (keys(), keys());
    let site = with_keys(BOND, &site_key.0, &hub_key.1);
    let hub = interface("fairspan0", "[\"10.77.0.1/24\"]", &hub_key.0, "listen_port = 51900\n")
        + &peer("site", &site_key.1, "[\"10.77.0.2/32\", \"10.10.0.0/16\"]", "mode = \"reliable\"\n");
    let gateway = format!("{}bypass_below = \"0ms\"\n", with_socket(GATEWAY));
    // The gateway may be there before the bond.
    let gateways = ["site", "hub"].map(|host| lab.daemon(host, &format!("gw-{host}"), &gateway));
    let hub = lab.daemon("hub", "hub", &hub);
    let site = lab.daemon("site", "site", &site);
    for bond in [&site, &hub] {
        bond.wait_up(2);
    }
    for daemon in &gateways {
        daemon.wait("the bond is there", |daemon| daemon.status()["gateway"]["state"] == "up");
    }
    lab.transfer("server", "client", "10.10.0.2:5001", 4);
    lab.transfer("client", "server", "10.20.0.2:5002", 4);
    for daemon in &gateways {
        let told = &daemon.status()["gateway"];
        assert_eq!(told["opened"], 2, "{told}");
    }
    // The bond has carried them, over links that lose.
    for bond in [&site, &hub] {
        assert!(bond.peer_counter("resent") > 0, "{}", bond.status());
    }
    for daemon in gateways {
        daemon.stop();
    }
    site.stop();
    hub.stop();
}

#[test]
fn one_daemon_at_each_end_is_the_bond_and_the_gateway_and_downloads_are_exact_and_split_at_both_ends() {
    let Some((lab, _emulators)) = hosts() else { return };
    let (site_key, hub_key) = (keys(), keys());
    let all = |text: String| text.replace("[peer.split]", "[peer.split]\nbypass_below = \"0ms\"");
    let site = all(with_keys(SITE, &site_key.0, &hub_key.1));
    let hub = all(with_keys(HUB, &hub_key.0, &site_key.1));
    let daemons = [("hub", &hub), ("site", &site)].map(|(host, text)| (host, lab.daemon(host, host, text)));
    for (_, daemon) in &daemons {
        daemon.wait_up(2);
    }
    lab.transfer("server", "client", "10.10.0.2:5001", 4);
    lab.transfer("client", "server", "10.20.0.2:5002", 4);
    for (host, daemon) in daemons {
        let told = daemon.status()["peers"][0]["split"].clone();
        assert_eq!(
            (&told["opened"], &told["long"], &told["up"]),
            (&2.into(), &"fairspan0".into(), &true.into()),
            "{told}"
        );
        assert!(daemon.peer_counter("resent") > 0, "{}", daemon.status());
        let file = lab.path(&format!("{host}.toml"));
        let doctor = lab.fairspan(host, &["gateway", "doctor", file.to_str().expect("text"), "--json"]);
        let findings: Value = serde_json::from_slice(&doctor.stdout).expect("JSON");
        assert_eq!(doctor.status.code(), Some(0), "{findings}");
        let rules = findings.as_array().expect("a list").iter().find(|finding| finding["subject"] == "rules");
        assert_eq!(rules.map(|rules| &rules["verdict"]), Some(&"good".into()), "{findings}");
        let shown = lab.fairspan(host, &["status", "--socket", daemon.socket.to_str().expect("text")]);
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        assert!(shown.contains("long link fairspan0"), "{shown}");
        daemon.stop();
        assert_nothing_left_on(&lab, host);
    }
}
