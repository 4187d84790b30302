//! Gateways before a bond, as the documentation's pair of files has it: two daemons on each of two hosts.
//!
//! ```text
//! client -- lan0 site =sat0= wan0 =sat0= hub lan0 -- server
//!                     =dsl0= wan1 =dsl0=
//! ```

use crate::common::*;
use crate::reliable::{Emulator, emulate};

/// The documentation's files.
const GATEWAY: &str = include_str!("../../../../docs/examples/gateway-before-bond.toml");
const BOND: &str = include_str!("../../../../docs/examples/bond-behind-gateway.toml");

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

#[test]
fn downloads_through_gateways_before_a_bond_of_lossy_links_are_exact_and_split_at_both_ends() {
    let Some((lab, _emulators)) = hosts() else { return };
    let (site_key, hub_key) = (keys(), keys());
    let mut site = with_socket(BOND).replace("xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=", &hub_key.1);
    site =
        site.replace("private_key_file = \"/etc/fairspan/private.key\"", &format!("private_key = \"{}\"", site_key.0));
    for net in ["192.168.1", "192.168.2"] {
        site = site.replacen("203.0.113.1:51900", &format!("{net}.1:51900"), 1);
    }
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
