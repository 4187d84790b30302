//! The law over a small link, and its rules one by one.

use super::*;
use crate::loss::delivery_rate::{DeliveryRate, Stamp};
use alloc::collections::VecDeque;
use std::vec::Vec;

const PACKET: u64 = 1000;
/// 8 Mbit/s in bytes a microsecond, and 100 ms: a path of 100 packets.
const RATE: f64 = 1.0;
const TRIP: u64 = 100_000;

/// A sender over a link with room for so many bytes that loses every `loses`th packet; `look` sees it every millisecond.
fn run(seconds: u64, queue: f64, loses: u64, mut look: impl FnMut(f64, &Bbr, f64)) {
    let mut law = Bbr::new(&window::Config::new(PACKET as u32));
    let mut rate = DeliveryRate::numbered();
    let mut under_way: VecDeque<(u64, u64, Stamp, bool)> = VecDeque::new();
    let (mut free, mut paced, mut sent, mut in_flight) = (0.0_f64, 0.0_f64, 0_u64, 0_u64);
    for micros in (0..seconds * 1_000_000).step_by(100) {
        let now = Time::from_nanos(micros * 1000);
        while let Some(&(at, sent_at, stamp, lost)) = under_way.front().filter(|packet| packet.0 <= micros) {
            under_way.pop_front();
            let before = Bytes::new(in_flight);
            in_flight -= PACKET;
            if lost {
                law.on_lost(&Congested { now, bytes: Bytes::new(PACKET), ..Congested::new(in_flight) });
                continue;
            }
            rate.on_delivered(now, PACKET, Time::from_nanos(sent_at * 1000), false, &stamp);
            let rtt = Some(Span::from_micros(at - sent_at));
            law.on_acked(&Acked { now, in_flight: before, rtt, delivery: rate.sample(), ..Acked::new(0, PACKET) });
        }
        while (in_flight + PACKET) as f64 <= law.window && paced <= micros as f64 {
            let stamp = rate.on_sent(now, in_flight == 0);
            law.on_sent(&Sent { now, bytes: Bytes::new(PACKET), in_flight: Bytes::new(in_flight), end: sent });
            let pace = law.pacing_rate().map_or(f64::INFINITY, |rate| rate.as_bits_per_sec() as f64 / 8e6);
            paced = paced.max(micros as f64 - 100.0) + PACKET as f64 / pace;
            let full = free - micros as f64 > queue / RATE;
            (sent, in_flight) = (sent + 1, in_flight + PACKET);
            let lost = full || (loses > 0 && sent.is_multiple_of(loses));
            if !lost {
                free = free.max(micros as f64) + PACKET as f64 / RATE;
            }
            under_way.push_back((free.max(micros as f64) as u64 + TRIP, micros, stamp, lost));
        }
        if micros % 1000 == 0 {
            look(micros as f64 / 1e6, &law, (free - micros as f64).max(0.0) * RATE);
        }
    }
}

/// The states that it was in, one after the other, with when each began.
fn states(seconds: u64, queue: f64, loses: u64) -> Vec<(State, f64)> {
    let mut states: Vec<(State, f64)> = Vec::new();
    let same = |a: State, b: State| core::mem::discriminant(&a) == core::mem::discriminant(&b);
    run(seconds, queue, loses, |now, law, _| {
        if states.last().is_none_or(|last| !same(last.0, law.state)) {
            states.push((law.state, now));
        }
    });
    states
}

#[test]
fn it_starts_drains_and_then_probes_in_turn_every_few_seconds() {
    let states = states(30, 1e6, 0);
    let names: Vec<State> = states.iter().map(|state| state.0).collect();
    // The drain is over with a queue that is empty, so there is nothing to slow down for.
    assert_eq!(names[..5], [State::Startup, State::Drain, State::Cruise, State::Refill, State::Up], "{states:?}");
    // Ten packets to a hundred is less than four doublings, and three flat rounds follow.
    assert!((0.4..1.5).contains(&states[1].1), "{states:?}");
    let began = |wanted: fn(State) -> bool| states.iter().filter(move |state| wanted(state.0)).map(|state| state.1);
    let up: Vec<f64> = began(|state| state == State::Up).collect();
    assert!(up.len() >= 5, "{states:?}");
    for pair in states.windows(2).filter(|pair| pair[1].0 == State::Up) {
        assert_eq!(pair[0].0, State::Refill, "{states:?}");
        // A round of refilling.
        assert!((0.09..0.15).contains(&(pair[1].1 - pair[0].1)), "{states:?}");
    }
    // Two to three seconds of waiting and what the phases take; a look at the round trip lets it wait anew.
    assert!(up.windows(2).all(|pair| (2.0..7.0).contains(&(pair[1] - pair[0]))), "{up:?}");
    let looks = |state: State| matches!(state, State::ProbeTrip { .. });
    let trips: Vec<f64> = began(|state| matches!(state, State::ProbeTrip { .. })).collect();
    assert!(trips.len() >= 4 && trips.windows(2).all(|pair| (5.0..8.0).contains(&(pair[1] - pair[0]))), "{trips:?}");
    for pair in states.windows(2).filter(|pair| looks(pair[0].0)) {
        assert!((0.2..0.45).contains(&(pair[1].1 - pair[0].1)), "200 ms, once little enough is under way: {states:?}");
    }
}

#[test]
fn it_finds_the_rate_within_two_per_cent_and_leaves_the_queue_nearly_empty() {
    let (mut sum, mut count) = (0.0, 0.0);
    run(30, 1e6, 0, |now, law, queue| {
        if now > 5.0 {
            (sum, count) = (sum + queue, count + 1.0);
            // Bytes a microsecond are 1e6 a second.
            assert!((0.98..1.02).contains(&(law.largest() / 1e6)), "{now}: {}", law.largest());
            assert!((law.trip / 1e3 - TRIP as f64) < 0.05 * TRIP as f64, "{now}: {}", law.trip);
        }
    });
    assert!(sum / count < 15_000.0, "{} of 100,000", sum / count);
}

#[test]
fn losses_above_two_per_cent_of_a_probe_bound_what_is_under_way_and_fewer_do_not() {
    // Room for ten packets beside a hundred: startup overshoots, and probes do.
    let mut long = f64::INFINITY;
    run(30, 10_000.0, 0, |_, law, _| long = law.long);
    assert!((100_000.0..125_000.0).contains(&long), "{long}");
    // One in two hundred is lost whatever is sent, in a queue that never fills.
    let mut rate = 0.0;
    run(30, 1e6, 200, |_, law, _| rate = law.largest());
    assert!((0.97..1.02).contains(&(rate / 1e6)), "{rate}");
}

#[test]
fn a_round_with_losses_takes_three_tenths_and_one_with_marks_a_third_of_their_share() {
    let settled = || {
        let mut law = Bbr::new(&window::Config::new(PACKET as u32));
        (law.state, law.window, law.most, law.trip, law.full.reached) = (State::Cruise, 200_000.0, [1e6; 2], 1e8, true);
        law.delivered = 100_000;
        law
    };
    let mut law = settled();
    law.signals.losses = 1;
    law.close_signals();
    assert_eq!((law.short, law.bw_short), (140_000.0, 700_000.0));
    law.latest = [900_000.0, 120_000.0];
    law.signals.losses = 1;
    law.close_signals();
    assert_eq!((law.short, law.bw_short), (120_000.0, 900_000.0), "but not below what was delivered meanwhile");
    let mut law = settled();
    law.signals.marked = 50_000.0;
    law.close_signals();
    let alpha = 1.0 - 0.5 / 16.0;
    assert!((law.alpha - alpha).abs() < 1e-12 && (law.short - 200_000.0 * (1.0 - alpha / 3.0)).abs() < 1e-6);
    assert_eq!(law.bw_short, 1e6, "marks bound the volume and not the rate");
    let mut law = settled();
    (law.state, law.signals.losses) = (State::Up, 3);
    law.close_signals();
    assert!(law.short.is_infinite(), "who probes looks at how much is lost");
}

#[test]
fn silence_leaves_one_packet_and_the_window_comes_back_a_round_later_or_when_it_was_for_nothing() {
    let mut law = Bbr::new(&window::Config::new(PACKET as u32));
    law.on_undo();
    assert_eq!(law.window(), Bytes::new(10_000), "nothing to take back");
    (law.window, law.long, law.delivered) = (50_000.0, 80_000.0, 5000);
    law.on_timeout(&Congested::new(50_000));
    assert_eq!(law.window(), Bytes::new(PACKET));
    let mut undone = law.clone();
    undone.long = 20_000.0;
    undone.on_undo();
    assert_eq!((undone.window(), undone.long), (Bytes::new(50_000), 80_000.0));
    // What comes was sent before: the window grows by it, and is not what it was.
    let acknowledge = |law: &mut Bbr, before: u64, ms: u64| {
        let delivery = Some(Sample {
            delivered: Bytes::new(PACKET),
            interval: Span::from_millis(100),
            prior_delivered: Bytes::new(before),
            delivered_at: Time::from_millis(ms),
            app_limited: false,
        });
        let rtt = Some(Span::from_millis(100));
        law.on_acked(&Acked { now: Time::from_millis(ms), rtt, delivery, ..Acked::new(ms, PACKET) });
    };
    acknowledge(&mut law, 4500, 100);
    assert!(law.window() < Bytes::new(10_000), "{:?}", law.window());
    acknowledge(&mut law, 5000, 200);
    assert!(law.window() >= Bytes::new(50_000), "{:?}", law.window());
}

#[test]
fn a_probe_loses_too_much_above_two_per_cent_of_what_was_under_way_then() {
    let mut law = Bbr::new(&window::Config::new(PACKET as u32));
    law.sendings.newest = Sending { delivered: 0, in_flight: 100_000.0, lost: 5000 };
    law.lost = 7000;
    assert!(!law.is_too_high());
    law.lost = 7001;
    assert!(law.is_too_high());
}
