//! Rings on busy hosts: processes that stand still now and then are no failed links.

use crate::ring_control::{Net, node};
use fairspan_core::ring::Ringlet;
use fairspan_core::units::{Span, Time};

const MS: Span = Span::from_millis(1);

/// A ring of four that has been up for a second.
fn ring(seed: u64) -> Net {
    let mut net = Net::new(4, Span::from_micros(200), seed);
    net.settle(Span::from_secs(1));
    net.run_for(Span::from_secs(1));
    net
}

fn failures(net: &Net) -> Vec<u64> {
    (0..net.nodes.len()).map(|at| net.at(at).stats().failures).collect()
}

/// The nodes of one host, none of which had a processor: what each hears of the others when it wakes depends on who is first.
#[test]
fn a_host_that_stands_still_with_all_its_nodes_fails_no_link() {
    let mut net = ring(1);
    for stall in [13, 30, 100, 250, 2000] {
        for first in 0..4 {
            let until = net.now + MS.times(stall);
            // Whoever is first finds nothing to read: the others have sent nothing.
            for (at, asleep) in net.asleep.iter_mut().enumerate() {
                *asleep = until + MS.times((at + 4 - first) as u64 % 4).min(MS.times(2));
            }
            net.run_for(MS.times(stall) + Span::from_millis(200));
        }
    }
    assert_eq!((failures(&net), net.agrees()), (vec![0; 4], true));
}

#[test]
fn a_node_that_stands_still_again_and_again_fails_once_and_its_links_cut_is_found_as_fast_as_ever() {
    let mut net = ring(2);
    for _ in 0..60 {
        net.asleep[1] = net.now + MS.times(40);
        net.run_for(Span::from_millis(500));
    }
    assert!(net.agrees());
    // Of 60 times, its neighbours took it for dead the first one: each of its two links failed once, at both ends.
    assert_eq!(failures(&net), [1, 2, 1, 0]);
    // It knows nothing of its neighbours that would let it wait, so it finds a cut as fast as ever, and tells.
    net.set_broken(0, true);
    let took = net.settle(Span::from_secs(1));
    assert!(took < MS.times(14), "{took:?}");
    net.set_broken(0, false);
    net.settle(Span::from_secs(1));
    // When it dies, they give it three times 40 ms, and eight times the silence at most.
    let dead = net.nodes[1].take();
    let took = net.settle(Span::from_secs(1));
    assert!(took > MS.times(90) && took < MS.times(100), "{took:?}");
    drop(dead);
}

#[test]
fn a_node_that_is_always_late_finds_a_cut_all_the_same() {
    let mut net = ring(3);
    net.set_broken(0, true);
    let cut = net.now;
    let found = |net: &Net| !net.at(1).topology().way(node(0), Ringlet::Zero).up;
    // Only what it finds by itself: the other end is gone.
    net.nodes[0] = None;
    while !found(&net) {
        assert!(net.now < cut + Span::from_millis(400), "not found after {:?}", net.now.since(cut));
        net.asleep[1] = net.now + MS.times(30);
        net.run_for(MS.times(30));
    }
    assert!(net.now > Time::ZERO);
}
