//! A recorded run replays byte for byte.

use crate::bond_network::{Net, Wire, config, packet};
use fairspan_core::bond::{Aqm, ChannelReport, Link, Mode, Scheduler, Transmit};
use fairspan_core::record::{Output, Recorder, ReplayError, replay};
use fairspan_core::units::{ChannelId, Rate, Span, Time};
use proptest::prelude::*;

/// A busy run with everything in it; gives both recordings.
fn run(mode: Mode, scheduler: Scheduler, codel: bool, seed: u64, steps: u32) -> [Vec<u8>; 2] {
    let mut settings = config(3);
    settings.mode = mode;
    settings.scheduler = if mode == Mode::Stripe { Scheduler::Srr } else { scheduler };
    settings.policy = if codel { "balance-rr:0,flush=on,updelay=10ms" } else { "traffic_meter" }.parse().unwrap();
    if codel {
        settings.aqm = Aqm::CoDel { target: Span::from_millis(1), interval: Span::from_millis(20) };
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
        mode in prop_oneof![Just(Mode::Ordered), Just(Mode::Stripe), Just(Mode::Duplicate), Just(Mode::Backup), Just(Mode::Plain), Just(Mode::Flow)],
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
        while let Some(Transmit { channel, codepoint, head, packet, tos }) = bond.poll_transmit(at) {
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
    assert!(matches!(replay(b"fairspan record 1\n1234", |_| ()), Err(ReplayError::Truncated { .. })));
}
