//! Mode `reliable` over a link that loses one frame in twenty: counts, no rates.

use crate::common::*;
use crate::flow::{Flows, reordered};
use std::process::{Child, Command, Stdio};

/// A link between the devices `near` and `far` of a namespace; it ends with this.
pub(crate) struct Emulator(Child);

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A link that delays and loses, in both directions.
pub(crate) fn emulate(lab: &Lab, namespace: &str, delay: &str, loss: &str) -> Emulator {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &lab.name(namespace), env!("CARGO_BIN_EXE_fairspan"), "emulate"]);
    command.args(["--a", "near", "--b", "far", "--delay", delay, "--loss", loss]);
    let emulator = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    Emulator(emulator.expect("the emulator"))
}

#[test]
fn what_a_link_loses_arrives_all_the_same_once_and_in_order() {
    let Some(lab) = Lab::new(&["site", "wan", "hub"]) else { return };
    lab.cable(("site", "eth0", "192.168.1.2/24"), ("hub", "eth0", "192.168.1.1/24"));
    lab.cable(("site", "eth1", "192.168.2.2/24"), ("wan", "near", ""));
    lab.cable(("wan", "far", ""), ("hub", "eth1", "192.168.2.1/24"));
    let _emulator = emulate(&lab, "wan", "20ms", "5%");
    let (site_key, hub_key) = (keys(), keys());
    // Deadlines that no slow machine misses; and equal shares, so that half of the packets meet the losses.
    let mode = "mode = \"reliable\"\nmeasure_rates = false\nresend_within = \"30s\"\nreorder_deadline = \"60s\"\n";
    let hub = interface("fs0", "[\"10.77.0.1/24\"]", &hub_key.0, "listen_port = 51900\n")
        + &peer("site", &site_key.1, "[\"10.77.0.2/32\"]", mode);
    let site = interface("fs0", "[\"10.77.0.2/24\"]", &site_key.0, "")
        + &peer("hub", &hub_key.1, "[\"10.77.0.1/32\"]", mode)
        + &udp("one", "eth0", "192.168.1.1:51900")
        + &udp("two", "eth1", "192.168.2.1:51900");
    let hub = lab.daemon("hub", "hub", &hub);
    let site = lab.daemon("site", "site", &site);
    site.wait_up(2);
    hub.wait_up(2);
    let flows = Flows::new(&lab, 6000, 7000, 7);
    flows.send(0, 600);
    let arrived = flows.arrived(4200);
    assert_eq!(arrived.len(), 7);
    for (port, numbers) in &arrived {
        let numbers: Vec<u32> = numbers.iter().map(|number| number.0).collect();
        let [full, missing] = [site.peer_counter("queue_full"), hub.peer_counter("packets_missing")];
        let delivered = hub.peer_counter("delivered_packets");
        let all: Vec<u32> = (0..600).collect();
        assert_eq!(numbers, all, "flow {port}: {full} did not get in, {missing} missing, {delivered} delivered");
    }
    assert_eq!(reordered(&arrived), 0);
    lab.transfer("site", "hub", "10.77.0.1:7000", 8);
    // Some hundred frames were lost: one in twenty of half of what went.
    let resent = site.peer_counter("resent");
    assert!(resent >= 50, "{resent} frames went again");
    assert_eq!((site.peer_counter("given_up"), hub.peer_counter("packets_missing")), (0, 0));
    site.stop();
    hub.stop();
}
