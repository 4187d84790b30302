//! PFD that finds its threshold and its probability by itself.
//!
//! What it is: [`Pfd`], whose thresh and p are looked at every [`INTERVAL`]. Where nothing speaks against it, one early drop in a
//! bufferful of arrivals is aimed at, from [`USUAL_THRESHOLD`] on: p is one over the packets that the buffer holds, and at
//! most the paper's 0.02. Large buffers so have few early drops, each of which costs a round trip of growth. Two signs move
//! them away from there, and without either they come back. A buffer of which the overflow takes more than a twentieth of
//! what arrives, while the link is busy, was too late with its drops: p grows and thresh sinks. A link that falls idle though
//! packets were dropped early had too many of them, or too soon: p shrinks and thresh rises. That goes first where both
//! happen: the buffer is small for its sources then, overflow is what it lives with, and who pays for that is the same.
//! A flow of which nearly all bytes are that arrive loses none early: there is hardly anybody to spare, and over links that
//! lose frames, vary or fail its sender would have too little under way.
//!
//! Source: the wish in hybrid-gateways 3.6; that loss and idleness tell too little and too much is Feng et al., "BLUE: A New
//! Class of Active Queue Management Algorithms", 1999.
//!
//! | what | field |
//! |---|---|
//! | thresh, p, at present | `threshold`, `probability` |
//! | mean size of what arrives | `size` |
//! | who sends most, and how much of what arrived lately is its | `Heaviest` |
//!
//! Cost: that of [`Pfd`], and O(1) an interval. Invariants: p and thresh are within [`PROBABILITIES`] and [`THRESHOLDS`]; who
//! pays is as in PFD.

use super::pfd::{Pfd, PfdConfig};
use super::policy::{Backlog, Bounds, Policy, Room, Verdict};
use crate::units::{FlowNumber, Span, Time};

/// How often the two are looked at: the round trips of most connections are below that.
const INTERVAL: Span = Span::from_millis(100);
const PROBABILITIES: (f64, f64) = (0.002, 0.5);
/// Overflow takes too much from one packet on in so many that arrive.
const TOO_MANY: u64 = 20;
const THRESHOLDS: (f64, f64) = (0.05, 0.6);
/// What is left of a packet's weight after the next one, and what share of all is nearly all.
const KEEPS: f64 = 63.0 / 64.0;
const NEARLY_ALL: f64 = 7.0 / 8.0;
/// By how much the heaviest flow may lead: another one is known after so many bytes more.
const VOTES: u64 = 100_000;
/// Where they are without a sign: the paper's p at most.
const USUAL_THRESHOLD: f64 = 0.4;
const MOST_USUAL: f64 = 0.02;
/// How far they come back in an interval.
const BACK: f64 = 1.0 / 16.0;

/// Probabilistic fair drop that adapts.
#[derive(Clone, Debug)]
pub struct PfdAdaptive {
    pfd: Pfd,
    law: Law,
    heaviest: Heaviest,
}

/// What was seen since `began`, and what follows from it.
#[derive(Clone, Debug)]
struct Law {
    began: Time,
    arrived: u64,
    overflows: u64,
    fell_idle: bool,
    dropped_early: bool,
    /// What was dropped early in the interval before may make the link idle in this one.
    dropped_before: bool,
    threshold: f64,
    probability: f64,
    /// Bytes of a packet that arrives, on average.
    size: f64,
    /// What the buffer may hold; nothing before anything has arrived.
    bounds: Bounds,
}

impl Law {
    const fn new() -> Law {
        Law {
            began: Time::ZERO,
            arrived: 0,
            overflows: 0,
            fell_idle: false,
            dropped_early: false,
            dropped_before: false,
            threshold: USUAL_THRESHOLD,
            probability: MOST_USUAL,
            size: 0.0,
            bounds: Bounds { packets: 0, bytes: 0, memory: 0 },
        }
    }

    /// A packet arrives and finds `backlog`.
    fn on_arrival(&mut self, backlog: &Backlog) {
        let size = backlog.size as f64;
        self.size += if self.size > 0.0 { (size - self.size) / 64.0 } else { size };
        self.bounds = backlog.bounds;
        self.fell_idle |= backlog.packets == 0;
        self.arrived += 1;
    }

    /// An interval has ended at `now`.
    fn end(&mut self, now: Time) {
        let too_much = self.fell_idle && (self.dropped_early || self.dropped_before);
        let too_late = self.overflows * TOO_MANY > self.arrived;
        if too_much {
            self.probability *= 0.8;
            self.threshold += self.threshold / 8.0;
        } else if too_late {
            self.probability *= 1.25;
            self.threshold -= self.threshold / 8.0;
        } else {
            // Packets that the buffer holds.
            let holds = (self.bounds.bytes as f64 / self.size.max(1.0)).min(self.bounds.packets as f64);
            let usual = MOST_USUAL.min(1.0 / holds.max(1.0));
            self.probability += BACK * (usual - self.probability);
            self.threshold += BACK * (USUAL_THRESHOLD - self.threshold);
        }
        self.probability = self.probability.clamp(PROBABILITIES.0, PROBABILITIES.1);
        self.threshold = self.threshold.clamp(THRESHOLDS.0, THRESHOLDS.1);
        self.dropped_before = self.dropped_early;
        (self.began, self.arrived, self.overflows) = (now, 0, 0);
        (self.fell_idle, self.dropped_early) = (false, false);
    }
}

/// Who sends most, by majority vote (Boyer and Moore), and its share of what arrived lately.
#[derive(Clone, Debug, Default)]
struct Heaviest {
    flow: Option<FlowNumber>,
    /// Bytes of its packets less those of others, at most [`VOTES`].
    votes: u64,
    /// Its bytes and those of all, each packet counting for less than the one behind it.
    own: f64,
    all: f64,
}

impl Heaviest {
    /// A packet of so many bytes arrives. Whether nearly everything that did lately is of one flow.
    fn on_arrival(&mut self, flow: FlowNumber, size: u64) -> bool {
        self.own *= KEEPS;
        self.all = self.all * KEEPS + size as f64;
        if self.flow == Some(flow) {
            self.votes = (self.votes + size).min(VOTES);
            self.own += size as f64;
        } else if self.votes >= size {
            self.votes -= size;
        } else {
            (self.flow, self.votes, self.own) = (Some(flow), size, size as f64);
        }
        self.own > NEARLY_ALL * self.all
    }
}

impl PfdAdaptive {
    /// One that begins where nothing speaks against it yet; draws by `seed`.
    pub fn new(seed: u64) -> PfdAdaptive {
        let (mut pfd, law) = (Pfd::new(PfdConfig::PLAIN, seed), Law::new());
        pfd.set(law.threshold, law.probability);
        PfdAdaptive { pfd, law, heaviest: Heaviest::default() }
    }
}

impl<P> Policy<P> for PfdAdaptive {
    fn admit(&mut self, now: Time, flow: FlowNumber, packet: &P, backlog: &Backlog) -> Verdict {
        if now.since(self.law.began) >= INTERVAL {
            self.law.end(now);
            self.pfd.set(self.law.threshold, self.law.probability);
        }
        let alone = self.heaviest.on_arrival(flow, backlog.size) && backlog.by_flow;
        let verdict = match backlog.room() {
            Room::Enough if alone => Verdict::Pass,
            _ => self.pfd.admit(now, flow, packet, backlog),
        };
        self.law.on_arrival(backlog);
        self.law.overflows += u64::from(matches!(verdict, Verdict::Evict(..)));
        self.law.dropped_early |= matches!(verdict, Verdict::PushOut(..));
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Limit;
    use alloc::vec::Vec;

    const FULL: Backlog = Backlog {
        packets: 100,
        bytes: 100_000,
        memory: 0,
        bounds: crate::buffer::Bounds { packets: 100, bytes: u64::MAX, memory: u64::MAX },
        size: 1000,
        cost: 0,
        by_flow: true,
    };

    /// A second of arrivals that find this each.
    fn second(policy: &mut PfdAdaptive, from: &mut u64, found: &[u64]) {
        for ms in 0..1000 {
            *from += 1;
            let packets = found[ms % found.len()];
            let backlog = Backlog { packets, ..FULL };
            let _ = policy.admit(Time::from_millis(*from), FlowNumber(ms as u32 % 3), &(), &backlog);
        }
    }

    #[test]
    fn overflow_makes_it_drop_more_and_sooner_and_an_idle_link_less_and_later() {
        let (mut policy, mut ms) = (PfdAdaptive::new(3), 0);
        assert_eq!(FULL.room(), Room::TooLittle);
        second(&mut policy, &mut ms, &[100]);
        let (p, threshold) = (policy.law.probability, policy.law.threshold);
        assert!(p > 0.1 && threshold < 0.2, "{p} {threshold}");
        second(&mut policy, &mut ms, &[0, 90, 90]);
        assert!(policy.law.probability < p / 4.0 && policy.law.threshold > 2.0 * threshold, "{:?}", policy.law);
        // An idle link without early drops says nothing: both come back to where they usually are, one in a bufferful.
        for _ in 0..20 {
            second(&mut policy, &mut ms, &[0]);
        }
        let Law { probability, threshold, .. } = policy.law;
        assert!((probability - 0.01).abs() < 1e-3 && (threshold - USUAL_THRESHOLD).abs() < 1e-3, "{:?}", policy.law);
    }

    #[test]
    fn a_link_that_falls_idle_after_early_drops_goes_before_overflow() {
        // A quarter overflows, so it is always too late; where the link falls idle too, p stays low.
        let after = |found: &[u64]| {
            let (mut policy, mut ms) = (PfdAdaptive::new(3), 0);
            (0..3).for_each(|_| second(&mut policy, &mut ms, found));
            (policy.law.probability, policy.law.threshold)
        };
        let (both, late) = (after(&[100, 0, 90, 90]), after(&[100, 90, 90, 90]));
        assert!(both.0 < 0.05 && late.0 > 0.3, "{both:?} {late:?}");
        assert!(both.1 > 2.0 * late.1, "{both:?} {late:?}");
    }

    #[test]
    fn a_flow_of_which_nearly_everything_is_loses_nothing_before_the_buffer_is_full() {
        // Of ten packets so many are of other flows.
        let early = |others: u64, by_flow| {
            let mut policy = PfdAdaptive::new(3);
            let backlog = Backlog { packets: 90, by_flow, ..FULL };
            let flow = |ms: u64| FlowNumber(if ms % 10 < others { 2 + (ms % 3) as u32 } else { 1 });
            let verdict = |ms| (ms, policy.admit(Time::from_millis(ms), flow(ms), &(), &backlog));
            (0..4000).map(verdict).filter(|(ms, verdict)| *ms > 500 && matches!(verdict, Verdict::PushOut(..))).count()
        };
        assert_eq!((early(0, true), early(1, true)), (0, 0));
        assert!(early(3, true) > 10 && early(8, true) > 10 && early(0, false) > 10);
        let verdict = PfdAdaptive::new(3).admit(Time::ZERO, FlowNumber(1), &(), &FULL);
        assert!(matches!(verdict, Verdict::Evict(..)), "{verdict:?}");
    }

    #[test]
    fn who_sends_most_is_known_again_soon_after_another_one_does() {
        let mut heaviest = Heaviest::default();
        assert!((0..200).all(|_| heaviest.on_arrival(FlowNumber(1), 1000)));
        // It is so for some packets more, then not until the other one leads by as much.
        let answers: Vec<bool> = (0..400).map(|_| heaviest.on_arrival(FlowNumber(2), 1000)).collect();
        assert!(answers[..5].iter().all(|answer| *answer) && !answers[50] && !answers[200]);
        assert!(answers[300..].iter().all(|answer| *answer));
        let halves = (0..1000u32).filter(|n| heaviest.on_arrival(FlowNumber(n % 2), 1000)).count();
        assert!(halves < 20, "{halves}");
    }

    #[test]
    fn both_stay_in_their_ranges_whatever_comes() {
        let (mut policy, mut ms) = (PfdAdaptive::new(3), 0);
        for found in [&[100u64][..], &[0, 99], &[0], &[100, 0], &[u64::MAX / 2]] {
            for _ in 0..60 {
                second(&mut policy, &mut ms, found);
                let Law { probability, threshold, .. } = policy.law;
                assert!((PROBABILITIES.0..=PROBABILITIES.1).contains(&probability), "{probability}");
                assert!((THRESHOLDS.0..=THRESHOLDS.1).contains(&threshold), "{threshold}");
            }
        }
        // Time that goes back, and a buffer without bounds.
        let backlog = Backlog { bounds: Limit::Bytes(u64::MAX).into(), ..FULL };
        assert_eq!(policy.admit(Time::ZERO, FlowNumber(1), &(), &backlog), Verdict::Pass);
    }
    #[test]
    fn another_flow_is_known_after_as_many_bytes_more_and_seven_eighths_are_not_yet_nearly_all() {
        let mut heaviest = Heaviest::default();
        (0..3).for_each(|_| assert!(heaviest.on_arrival(FlowNumber(1), 1000)));
        (0..3).for_each(|_| {
            assert_eq!((heaviest.on_arrival(FlowNumber(2), 1000), heaviest.flow), (false, Some(FlowNumber(1))))
        });
        heaviest.on_arrival(FlowNumber(2), 1000);
        assert_eq!(heaviest.flow, Some(FlowNumber(2)));
        // 63,000 of 72,000.
        let mut heaviest = Heaviest::default();
        assert!(heaviest.on_arrival(FlowNumber(1), 64_000));
        assert!(!heaviest.clone().on_arrival(FlowNumber(2), 9000) && heaviest.on_arrival(FlowNumber(2), 8999));
    }

    #[test]
    fn the_size_of_a_packet_is_averaged_over_64() {
        let mut law = Law::new();
        law.on_arrival(&Backlog { size: 6400, ..FULL });
        law.on_arrival(&Backlog { size: 12_800, ..FULL });
        assert_eq!(law.size, 6500.0);
    }

    #[test]
    fn what_an_interval_says_moves_both_a_step() {
        let bounds = Bounds { packets: u64::MAX, bytes: 100_000, memory: u64::MAX };
        let quiet = Law { arrived: 20, size: 1000.0, bounds, ..Law::new() };
        let idle = Law { fell_idle: true, ..quiet.clone() };
        // A hundred packets fit: p goes a sixteenth of the way to one in a hundred.
        for (law, probability, threshold) in [
            (quiet.clone(), 0.02 - 0.01 / 16.0, 0.4),
            (Law { overflows: 1, ..quiet.clone() }, 0.02 - 0.01 / 16.0, 0.4),
            (Law { overflows: 1, arrived: 19, ..quiet.clone() }, 0.025, 0.35),
            (Law { dropped_early: true, ..idle.clone() }, 0.016, 0.45),
            (Law { dropped_before: true, ..idle.clone() }, 0.016, 0.45),
            (idle, 0.02 - 0.01 / 16.0, 0.4),
        ] {
            let mut after = law.clone();
            after.end(Time::ZERO);
            let off = (after.probability - probability).abs().max((after.threshold - threshold).abs());
            assert!(off < 1e-12, "{law:?} {after:?}");
        }
    }
}
