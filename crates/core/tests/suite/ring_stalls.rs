//! Rings on busy hosts: processes that stand still now and then are no failed links.

use crate::ring_control::{Net, node};
use fairspan_core::ring::{Ringlet, Side};
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

/// Eight nodes on a busy host: those of even places stand still for up to 300 ms again and again, the others for up to 6 ms, half of the
/// silence; and now and then all of them for as long, but for 2 ms. Gives by place how often it was called silent, and the times at which one
/// was that had not stood still for long.
fn busy(seed: u64, span: Span) -> ([u64; 8], Vec<(Time, usize)>) {
    let mut net = Net::new(8, Span::from_micros(200), seed);
    net.settle(Span::from_secs(1));
    net.run_for(Span::from_secs(1));
    let (mut called, mut wronged) = ([0; 8], Vec::new());
    let mut long = [Time::ZERO; 8];
    let heard = |net: &Net| [0, 1, 2, 3, 4, 5, 6, 7].map(|at| Side::BOTH.map(|side| net.at(at).accepts(side)));
    let (mut before, end) = (heard(&net), net.now + span);
    while net.now < end {
        if net.rng.below(500) == 0 {
            let until = net.now + MS.times(1 + net.rng.below(300));
            net.asleep = [(); 8].map(|()| until + MS.times(net.rng.below(3))).to_vec();
        }
        for (at, long) in long.iter_mut().enumerate() {
            if net.asleep[at] <= net.now && net.rng.below(20) == 0 {
                let longest = if at % 2 == 0 && net.rng.below(10) == 0 { 300 } else { 6 };
                net.asleep[at] = net.now + MS.times(1 + net.rng.below(longest));
            }
            if net.asleep[at].since(net.now) >= MS.times(9) {
                *long = net.asleep[at];
            }
        }
        net.run_for(MS);
        let now = heard(&net);
        for at in 0..8 {
            for (side, other) in [(0, (at + 1) % 8), (1, (at + 7) % 8)] {
                if before[at][side] && !now[at][side] {
                    called[other] += 1;
                    // Eight times the silence is the most that a neighbour is given.
                    if long[other] == Time::ZERO || net.now.since(long[other]) > MS.times(100) {
                        wronged.push((net.now, other));
                    }
                }
            }
        }
        before = now;
    }
    (called, wronged)
}

#[test]
fn on_a_busy_host_nobody_is_called_silent_but_who_stood_still_for_long_however_late_the_caller_is() {
    let (mut even, mut odd) = (0, 0);
    for seed in 10..13 {
        let (called, wronged) = busy(seed, Span::from_secs(20));
        assert_eq!(wronged, [], "seed {seed}: called silent without having stood still");
        even += called.iter().step_by(2).sum::<u64>();
        odd += called.iter().skip(1).step_by(2).sum::<u64>();
    }
    assert!(even > 20, "{even}: stalls of up to 300 ms are beyond what any neighbour is given");
    assert_eq!(odd, 0, "stalls of up to 6 ms are not, nor those of the whole host");
}
