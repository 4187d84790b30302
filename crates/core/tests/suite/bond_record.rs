//! A recorded run replays byte for byte.

use crate::bond_network::{Net, Wire, config, packet};
use fairspan_core::bond::{ChannelReport, Config, Link, MarkerPlace, Mode, Scheduler, Transmit};
use fairspan_core::buffer::PolicyConfig;
use fairspan_core::record::{Output, Recorder, ReplayError, replay};
use fairspan_core::units::{Bytes, ChannelId, Rate, Span, Time};
use proptest::prelude::*;

/// A busy run with everything in it; gives both recordings.
fn run(mode: Mode, scheduler: Scheduler, codel: bool, seed: u64, steps: u32) -> [Vec<u8>; 2] {
    let mut settings = config(3);
    settings.mode = mode;
    settings.scheduler = if mode == Mode::Stripe { Scheduler::Srr } else { scheduler };
    settings.policy = if codel { "balance-rr:0,flush=on,updelay=10ms" } else { "traffic_meter" }.parse().unwrap();
    if codel {
        settings.buffer = PolicyConfig::CoDel { target: Span::from_millis(1), interval: Span::from_millis(20) };
    }
    for (n, channel) in settings.channels.iter_mut().enumerate() {
        channel.rate = Some(Rate::from_mbit(4 << n));
    }
    let wires = vec![Wire { loss: 0.1, ..Wire::new(5) }, Wire { twice: 0.1, ..Wire::new(20) }, Wire::new(40)];
    let mut net = Net::settled(settings, wires, seed);
    for n in 0..steps {
        let size = 40 + net.rng.below(1500) as usize;
        net.host((n % 2) as usize, packet((n % 7) as u16, n, size));
        if n % 50 == 17 {
            let channel = (n / 50 % 3) as u8;
            let report = ChannelReport { path_mtu: Some(1400), rate: Some(Rate::from_mbit(5)), rtt: None };
            let now = net.now;
            net.ends[0].report(now, ChannelId(channel), report);
            net.set_link(0, channel, if n % 100 == 17 { Link::Down } else { Link::Up });
            net.ends[0].set_blocked(now, ChannelId(0), n % 100 == 17);
            net.ends[1].join(now, ChannelId(3), Default::default()).unwrap();
        }
        net.run(Span::from_micros(400));
    }
    net.run(Span::from_secs(1));
    [0, 1].map(|end| net.ends[end].finish().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn a_recorded_run_replays_identically(
        mode in prop_oneof![Just(Mode::Ordered), Just(Mode::Stripe), Just(Mode::Duplicate), Just(Mode::Backup), Just(Mode::Plain), Just(Mode::Flow), Just(Mode::Reliable)],
        scheduler in prop_oneof![Just(Scheduler::Srr), Just(Scheduler::Rfq)], codel: bool, seed: u64,
    ) {
        for log in run(mode, scheduler, codel, seed, 300) {
            let done = replay(&log, |_| ()).map_err(|e| TestCaseError::fail(e.to_string()))?;
            prop_assert!(done.digests > 2 && done.frames > 100, "{done:?}");
        }
    }

    #[test]
    fn a_changed_input_is_detected(seed: u64, at in 0.0..1.0f64, bit in 0u8..8) {
        // Flip one bit of a payload byte: it comes out elsewhere, so the digests must differ.
        let log = &run(Mode::Ordered, Scheduler::Srr, false, seed, 60)[0];
        let mut entries = vec![];
        for start in 0..log.len() - 40 {
            // The payload of `packet`: after the UDP header, counting bytes mixed with the number.
            if log[start..].starts_with(&[0x45, 0]) && log[start + 12..start + 20] == [10, 1, 0, 1, 10, 2, 0, 1] {
                entries.push(start + 28);
            }
        }
        prop_assert!(!entries.is_empty());
        let place = entries[(at * entries.len() as f64) as usize];
        let mut changed = log.clone();
        changed[place] ^= 1 << bit;
        let result = replay(&changed, |_| ());
        prop_assert!(matches!(result, Err(ReplayError::Diverged { .. })), "{result:?}");
    }

    #[test]
    fn a_cut_recording_says_so_and_never_panics(seed: u64, at in 0.0..1.0f64, byte: u8) {
        let log = &run(Mode::Ordered, Scheduler::Srr, false, seed, 20)[0];
        let place = (at * log.len() as f64) as usize;
        let _ = replay(&log[..place], |_| ());
        let mut damaged = log.clone();
        damaged[place] ^= byte;
        let _ = replay(&damaged, |_| ());
    }
}

#[test]
fn the_outputs_of_a_replay_are_the_bytes_themselves() {
    let now = Time::from_millis(1);
    let mut bond = Recorder::<Vec<u8>, Vec<u8>>::new(config(2), now, 7, Some(vec![])).unwrap();
    let mut live = vec![];
    let mut at = now;
    for n in 0..50 {
        bond.set_link(at, ChannelId(n % 2), Link::Up);
        bond.handle_host(at, packet(1, u32::from(n), 100));
        while let Some(Transmit { channel, codepoint, head, packet, tos, .. }) = bond.poll_transmit(at) {
            live.push((channel, codepoint, head.as_slice().to_vec(), packet.unwrap_or_default(), tos));
        }
        at += Span::from_millis(30);
        bond.handle_timeout(at);
    }
    let log = bond.finish().unwrap();
    let mut again = vec![];
    let done = replay(&log, |output| {
        if let Output::Transmit(channel, codepoint, head, packet, tos) = output {
            again.push((channel, codepoint, head.to_vec(), packet.to_vec(), tos));
        }
    });
    assert_eq!(done.unwrap().frames, live.len() as u64);
    assert_eq!(live, again);
}

#[test]
fn what_is_no_recording_is_said() {
    assert_eq!(replay(b"something else", |_| ()), Err(ReplayError::Magic));
    assert!(matches!(replay(b"fairspan record 2\n1234", |_| ()), Err(ReplayError::Truncated { .. })));
    assert_eq!(replay(b"fairspan record 1\n1234", |_| ()), Err(ReplayError::Version));
}

/// A change of the settings that a kept recording was made with.
type Change = fn(&mut Config);

/// The kept recordings: their names, and how they came about.
#[rustfmt::skip]
const KEPT: &[(&str, &str, Change)] = &[
    ("ordered", "brr", |c| (c.probe_mtu, c.icmp_source_v4) = (true, Some([10, 9, 8, 7]))),
    ("ordered-codel-rfq", "brr", |c| {
        (c.scheduler, c.buffer) = (Scheduler::Rfq, PolicyConfig::CoDel { target: Span::from_millis(1), interval: Span::from_millis(20) });
    }),
    ("reliable", "brr", |c| {
        (c.mode, c.resend_within, c.resend_within_ef) = (Mode::Reliable, Some(Span::from_millis(90)), Some(Span::from_millis(30)));
        c.resend_bytes = 1 << 18;
    }),
    ("backup", "brr", |c| c.mode = Mode::Backup),
    ("duplicate", "brr", |c| c.mode = Mode::Duplicate),
    ("duplicate-two-copies", "brr", |c| (c.mode, c.copies) = (Mode::Duplicate, 2)),
    ("stripe", "brr", |c| c.mode = Mode::Stripe),
    ("stripe-credits", "brr", |c| {
        (c.mode, c.scheduler, c.credits, c.marker_rounds) = (Mode::Stripe, Scheduler::Grr, true, 3);
        (c.marker_place, c.stripe_buffer) = (MarkerPlace::Middle, Some(Bytes::new(20_000)));
    }),
    ("plain", "brr", |c| (c.mode, c.scheduler) = (Mode::Plain, Scheduler::Rr)),
    ("flow-brr", "brr:2ms", |c| c.mode = Mode::Flow),
    ("flow-balance-rr-flush", "balance-rr:0,flush=on,updelay=10ms", |c| c.mode = Mode::Flow),
    ("flow-broadcast", "broadcast", |c| c.mode = Mode::Flow),
    ("flow-traffic-meter", "traffic_meter", |c| c.mode = Mode::Flow),
    ("flow-least-queue", "least_queue:arp_interval=100ms,missed_max=3", |c| c.mode = Mode::Flow),
    ("flow-xor", "balance-xor:layer3+4", |c| c.mode = Mode::Flow),
];

fn kept(name: &str, end: usize) -> std::path::PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite/recordings");
    std::path::Path::new(folder).join(format!("{name}-{end}.record"))
}

/// A short run in which channels fail, stall, are reported and join.
fn kept_run(policy: &str, change: Change, seed: u64) -> [Vec<u8>; 2] {
    let mut settings = config(3);
    settings.policy = policy.parse().unwrap();
    // Probes are long; one recording has them.
    settings.probe_mtu = false;
    change(&mut settings);
    for (n, channel) in settings.channels.iter_mut().enumerate() {
        channel.rate = Some(Rate::from_mbit(4 << n));
        channel.priority = n as u32;
    }
    let wires = vec![Wire { loss: 0.1, ..Wire::new(2) }, Wire { twice: 0.1, ..Wire::new(9) }, Wire::new(5)];
    let mut net = Net::settled(settings.clone(), wires, seed);
    // End 0 sees its peer start anew.
    net.restart(1, settings, seed ^ 77);
    for n in 0..40 {
        let size = if n == 5 { 1480 } else { 40 + net.rng.below(80) as usize };
        net.host((n % 2) as usize, packet((n % 5) as u16, n, size));
        let now = net.now;
        match n {
            8 => {
                let report = ChannelReport { path_mtu: Some(1400), rate: Some(Rate::from_mbit(5)), rtt: None };
                net.ends[0].report(now, ChannelId(1), report);
            }
            12 => net.set_link(0, 0, Link::Down),
            16 => net.set_link(0, 0, Link::Up),
            20 => net.ends[1].set_blocked(now, ChannelId(2), true),
            24 => net.ends[0].join(now, ChannelId(3), Default::default()).unwrap(),
            28 => net.wires[1].cut = [true, true],
            _ => {}
        }
        net.run(Span::from_millis(if n < 24 { 3 } else { 10 }));
    }
    net.ends[1].set_blocked(net.now, ChannelId(2), false);
    net.run(Span::from_millis(900));
    [0, 1].map(|end| net.ends[end].finish().unwrap())
}

/// Writes those of [`KEPT`] that are missing. What stands is never written again: it is what older versions recorded.
#[test]
#[ignore = "writes into the source tree"]
fn missing_kept_recordings_are_written() {
    for (number, (name, policy, change)) in KEPT.iter().enumerate() {
        for (end, log) in kept_run(policy, *change, 1 + number as u64).iter().enumerate() {
            if !kept(name, end).exists() {
                std::fs::write(kept(name, end), log).unwrap();
            }
        }
    }
}

#[test]
fn every_kept_recording_of_an_older_version_replays_byte_for_byte() {
    for (name, ..) in KEPT {
        for end in 0..2 {
            let log = std::fs::read(kept(name, end)).unwrap_or_else(|e| panic!("{name}, end {end}: {e}"));
            let done = replay(&log, |_| ()).unwrap_or_else(|e| panic!("{name}, end {end}: {e}"));
            assert!(done.digests > 1 && done.frames > 20 && done.packets > 5, "{name}, end {end}: {done:?}");
        }
    }
}
