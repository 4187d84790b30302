//! A whole ring under attack by its control frames: every one that is refused is counted, and the shares are back soon after.

use crate::ring_network::{Network, node};
use fairspan_core::ring::control::{Kind, begin, seal};
use fairspan_core::ring::discovery;
use fairspan_core::ring::message::Bits;
use fairspan_core::ring::message::{self, Head};
use fairspan_core::ring::{Ringlet, Side};
use fairspan_core::rng::Rng;
use fairspan_core::units::{Rate, Span};

const NODES: usize = 8;
const DELAY: Span = Span::from_micros(100);

/// A message of fairness over `side` of node `to`, as its neighbour could send it, with any rates. Of the numbers it
/// knows nothing, or how many messages were made before.
fn forged(rng: &mut Rng, to: usize, side: Side, made: Option<u32>) -> Vec<u8> {
    let neighbour = if side == Side::East { to % NODES + 1 } else { (to + NODES - 2) % NODES + 1 };
    let foreign = rng.below(10) == 0;
    let sequence = match made {
        Some(made) if rng.below(2) == 0 => made.wrapping_add(rng.below(80) as u32),
        _ => rng.next_u64() as u32 >> rng.below(32),
    };
    let codes: Vec<u16> = (0..NODES + usize::from(foreign)).map(|_| 1 + rng.below(65535) as u16).collect();
    let originator = node(if rng.below(4) > 0 { 1 } else { 1 + rng.below(NODES as u64) as usize });
    let mut body = vec![];
    message::encode(Head { kind: message::Kind::Dvsr, bits: Bits::Sixteen, originator, sequence }, &codes, &mut body);
    let mut frame = vec![];
    begin(&mut frame, Kind::Fairness, node(neighbour));
    frame.push(side.ringlet() as u8);
    frame.extend(body);
    if rng.below(10) == 0 {
        frame.truncate(frame.len() - 3);
    }
    seal(&mut frame);
    if rng.below(10) == 0 {
        let at = rng.below(frame.len() as u64) as usize;
        frame[at] ^= 1;
    }
    frame
}

#[test]
fn shares_are_right_again_two_ring_times_after_forged_messages_end_and_four_after_those_of_who_counts_along() {
    for (discovers, counts, most) in [(false, false, 2.0), (true, false, 2.0), (false, true, 4.0), (true, true, 4.0)] {
        let mut ring = Network::new(NODES, Rate::from_mbit(100), DELAY, |config| {
            config.interval = DELAY.times(NODES as u64);
            if discovers {
                config.discovery = Some(discovery::Config::new(config.node, NODES, config.nominal));
            }
        });
        ring.run(Span::from_millis(200));
        let flows: Vec<usize> = (1..=4).map(|from| ring.flow(from, 5, Rate::from_mbit(90))).collect();
        ring.run(Span::from_millis(300));
        let limits = |ring: &mut Network| -> Vec<f64> {
            (1..=4)
                .map(|n| ring.at(n).limit(Ringlet::Zero, node(5)).map_or(100e6, |r| r.as_bits_per_sec() as f64))
                .collect()
        };
        let right = |limits: &[f64]| limits.iter().all(|limit| (limit - 25e6).abs() < 0.5e6);
        assert!(right(&limits(&mut ring)), "{:?}", limits(&mut ring));
        let mut rng = Rng::new(1);
        let (mut harm, mut worst) = (0, Span::ZERO);
        for _ in 0..20 {
            for _ in 0..40 {
                for _ in 0..=rng.below(3) {
                    let (to, side) = (1 + rng.below(NODES as u64) as usize, Side::BOTH[rng.below(2) as usize]);
                    let made = ring.now.as_nanos() / DELAY.times(NODES as u64).as_nanos();
                    let frame = forged(&mut rng, to, side, counts.then_some(made as u32));
                    ring.with(to, |node, now| node.handle_control(now, side, &frame));
                }
                ring.run(Span::from_micros(rng.below(500)));
            }
            harm += u64::from(!right(&limits(&mut ring)));
            let end = ring.now;
            while ring.now.since(end) < Span::from_millis(20) {
                ring.run(Span::from_micros(20));
                if !right(&limits(&mut ring)) {
                    worst = worst.max(ring.now.since(end));
                }
            }
        }
        for node in 1..=NODES {
            let at = ring.at(node);
            let discovery = at.discovery().map_or(0, |discovery| discovery.stats().refused.iter().sum());
            let stats = at.stats();
            let by_reason = discovery + stats.fairness_refused.iter().sum::<u64>();
            assert!(by_reason == stats.control_refused || !discovers, "every refused frame has its reason: {stats:?}");
        }
        let refused: u64 = (1..=NODES).map(|n| ring.at(n).stats().control_refused).sum();
        assert!((harm >= 5 || !counts) && refused > 500, "the enemy must be one: {harm}, {refused} refused");
        let ring_times = worst.as_secs_f64() / DELAY.times(NODES as u64).as_secs_f64();
        println!("discovery {discovers}, counts along {counts}: {ring_times:.2} ring times");
        assert!(ring_times <= most, "{ring_times:.2} ring times");
        let received = ring.received(Span::from_millis(200));
        assert!(flows.iter().all(|&flow| (received[flow] - 25.0).abs() < 0.3), "{received:?}");
        assert_eq!(ring.transit_drops(), 0);
        ring.assert_conserved();
    }
}
