//! What is under way on channels that are removed from a running daemon's file.

use crate::common::*;
use crate::flow::{Flows, Skewed, reordered};
use crate::reload::{carries, channel, reload, reload_with};

#[test]
fn no_datagram_that_is_under_way_on_a_slow_channel_is_lost_when_the_channel_is_removed() {
    let Some(net) = Skewed::by("300ms") else { return };
    let lab = &net.lab;
    // Nothing goes twice or again. A machine that is busy has time, and each channel carries half.
    let mode = format!("mode = \"ordered\"\nreorder_deadline = \"20s\"\ndead_after = \"5s\"\n{EQUAL_SHARES}");
    let hub = interface("fs0", "[\"10.77.0.1/24\"]", &net.hub_key.0, "listen_port = 51900\n")
        + &peer("site", &net.site_key.1, "[\"10.77.0.2/32\"]", &mode);
    let one = interface("fs0", "[\"10.77.0.2/24\"]", &net.site_key.0, "")
        + &peer("hub", &net.hub_key.1, "[\"10.77.0.1/32\"]", &mode)
        + &udp("one", "eth0", "192.168.1.1:51900");
    let both = one.clone() + &udp("two", "eth1", "192.168.2.1:51900");
    let hub = lab.daemon("hub", "hub", &hub);
    let site = lab.daemon("site", "site", &both);
    for round in 0..3 {
        for daemon in [&site, &hub] {
            daemon.wait_up(2);
        }
        let flows = [Flows::new(lab, 6000, 7000 + round, 1), Flows::back(lab, 6000, 7000 + round, 1)];
        let (before, dropped) = ([&site, &hub].map(|daemon| carries(daemon, "two")), kernel_drops());
        std::thread::scope(|scope| {
            for flow in &flows {
                scope.spawn(|| flow.send(0, 3000));
            }
            for (daemon, before) in [&site, &hub].into_iter().zip(before) {
                daemon.wait("both carry", |d| carries(d, "two") > before + 10_000);
            }
            assert_eq!(reload(lab, "site", &site, &one), ["peer hub: channel two: removed"]);
            // Nor does the file cut off what is under way when it is read again, and as little when it is refused.
            lab.config("site", &one.replace("ordered", "reliable"));
            assert!(!reload_with(lab, "site", &site, &[]).status.success());
            assert!(reload(lab, "site", &site, &one).is_empty());
        });
        for (flow, from) in flows.iter().zip(["site", "hub"]) {
            let arrived = flow.arrived(3000);
            let numbers: Vec<u32> = arrived.values().flatten().map(|number| number.0).collect();
            let missing: Vec<u32> = (0..3000).filter(|number| !numbers.contains(number)).collect();
            if !missing.is_empty() {
                let dropped = kernel_drops() - dropped;
                let [site, hub] = [&site, &hub].map(Daemon::status);
                println!("the kernel's backlog dropped {dropped} meanwhile\nsite: {site:#}\nhub: {hub:#}");
                panic!("round {round}, from the {from}: {} missing: {missing:?}", missing.len());
            }
            assert_eq!((numbers.len(), reordered(&arrived)), (3000, 0), "round {round}, from the {from}");
        }
        for daemon in [&site, &hub] {
            daemon.wait("it is gone", |d| channel(d, "two").is_none());
        }
        assert_eq!(reload(lab, "site", &site, &both), ["peer hub: channel two: added"]);
    }
    site.stop();
    hub.stop();
}

/// Packets that the kernel dropped between devices since it began, of all namespaces: what no end sees.
fn kernel_drops() -> u64 {
    let table = std::fs::read_to_string("/proc/net/softnet_stat").expect("the kernel's table");
    let dropped = |line: &str| line.split(' ').nth(1).and_then(|word| u64::from_str_radix(word, 16).ok());
    table.lines().map(|line| dropped(line).expect("its second column")).sum()
}
