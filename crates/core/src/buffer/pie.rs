//! PIE: packets are dropped as they arrive, with a probability that a controller finds from the delay.
//!
//! Source: RFC 8033 (Pan et al.), section 4 and appendix A.
//!
//! | RFC 8033 | here |
//! |---|---|
//! | QDELAY_REF, T_UPDATE, MAX_BURST | `target`, [`UPDATE`], [`BURST`] |
//! | drop_prob_, accu_prob_ | `probability`, `accumulated` |
//! | current and old qdelay | `delay`, `old_delay` |
//! | burst_allowance_ | `allowance` |
//! | MEAN_PKTSIZE | [`MEAN_PACKET`] |
//! | mark_ecnth | [`MOST_MARKED`] |
//!
//! Departures: the delay is what the last packet that went had waited (section 5.2 allows timestamps), and 0 while nothing
//! waits. There is no timer: what its updates would have done is done when the next packet comes or goes; after [`MOST_UPDATES`]
//! that were missed everything starts anew. Cost: O(1); up to [`MOST_UPDATES`] updates after a pause. Invariant:
//! `probability` is from 0 to 1.

use super::policy::{Backlog, Leaving, Policy, Reason, Verdict};
use super::tail::DropTail;
use crate::rng::Rng;
use crate::units::{FlowNumber, Span, Time};

/// How often the probability is computed.
const UPDATE: Span = Span::from_millis(15);
/// How long a burst may last that is let in.
const BURST: Span = Span::from_millis(150);
/// Gains per second of delay, and of its growth.
const ALPHA: f64 = 0.125;
const BETA: f64 = 1.25;
const MEAN_PACKET: u64 = 1024;
/// Up to this probability packets are marked that can be; beyond they are dropped all the same.
const MOST_MARKED: f64 = 0.1;
/// Derandomisation: below the first nothing is dropped, from the second on everything.
const ACCUMULATED: (f64, f64) = (0.85, 8.5);
const MOST_UPDATES: u64 = 1000;

/// Proportional integral controller enhanced.
#[derive(Clone, Debug)]
pub struct Pie {
    target: Span,
    rng: Rng,
    law: Law,
}

#[derive(Clone, Debug)]
struct Law {
    probability: f64,
    accumulated: f64,
    delay: Span,
    old_delay: Span,
    allowance: Span,
    updated: Time,
}

impl Law {
    const fn new(now: Time) -> Law {
        Law {
            probability: 0.0,
            accumulated: 0.0,
            delay: Span::ZERO,
            old_delay: Span::ZERO,
            allowance: BURST,
            updated: now,
        }
    }

    /// RFC 8033, 4.2.
    fn update(&mut self, target: Span) {
        let [delay, old, target_s] = [self.delay, self.old_delay, target].map(Span::as_secs_f64);
        let mut step = ALPHA * (delay - target_s) + BETA * (delay - old);
        step /= match self.probability {
            p if p < 0.000_001 => 2048.0,
            p if p < 0.000_01 => 512.0,
            p if p < 0.000_1 => 128.0,
            p if p < 0.001 => 32.0,
            p if p < 0.01 => 8.0,
            p if p < 0.1 => 2.0,
            _ => 1.0,
        };
        if self.probability >= 0.1 {
            step = step.min(0.02);
        }
        self.probability += step;
        if self.delay == Span::ZERO && self.old_delay == Span::ZERO {
            self.probability *= 0.98;
        }
        self.probability = self.probability.clamp(0.0, 1.0);
        self.allowance = self.allowance - UPDATE;
        if self.probability == 0.0 && delay < target_s / 2.0 && old < target_s / 2.0 {
            self.allowance = BURST;
        }
        self.old_delay = self.delay;
    }
}

impl Pie {
    /// One that holds the delay at `target`; draws by `seed`.
    pub fn new(target: Span, seed: u64) -> Pie {
        Pie { target, rng: Rng::new(seed), law: Law::new(Time::ZERO) }
    }

    /// Makes up for the updates until `now`.
    fn catch_up(&mut self, now: Time) {
        let missed = now.since(self.law.updated).as_nanos() / UPDATE.as_nanos();
        if missed > MOST_UPDATES {
            self.law = Law::new(now);
            return;
        }
        for _ in 0..missed {
            self.law.update(self.target);
        }
        self.law.updated += UPDATE.times(missed);
    }

    /// RFC 8033, 4.1 and 4.4: whether the packet is to be hit.
    fn hits(&mut self, bytes: u64) -> bool {
        let law = &mut self.law;
        if law.allowance > Span::ZERO {
            return false;
        }
        if law.probability == 0.0 {
            law.accumulated = 0.0;
        }
        let calm = law.old_delay.as_nanos() < self.target.as_nanos() / 2 && law.probability < 0.2;
        if calm || bytes <= 2 * MEAN_PACKET {
            return false;
        }
        law.accumulated += law.probability;
        if law.accumulated < ACCUMULATED.0 {
            return false;
        }
        let hit = law.accumulated >= ACCUMULATED.1 || self.rng.unit() < law.probability;
        if hit {
            law.accumulated = 0.0;
        }
        hit
    }
}

impl<P> Policy<P> for Pie {
    fn admit(&mut self, now: Time, flow: FlowNumber, packet: &P, backlog: &Backlog) -> Verdict {
        if backlog.packets == 0 {
            self.law.delay = Span::ZERO;
        }
        self.catch_up(now);
        match DropTail.admit(now, flow, packet, backlog) {
            Verdict::Pass if self.hits(backlog.bytes) => {
                if self.law.probability < MOST_MARKED {
                    Verdict::Mark(Reason::Delay)
                } else {
                    Verdict::Drop(Reason::Delay)
                }
            }
            verdict => verdict,
        }
    }

    fn release(&mut self, now: Time, _flow: FlowNumber, _packet: &P, leaving: &Leaving) -> Verdict {
        self.catch_up(now);
        self.law.delay = leaving.waited;
        Verdict::Pass
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Limit;

    const TARGET: Span = Span::from_millis(15);

    fn law(probability: f64, delay_us: u64, old_us: u64) -> Law {
        let (delay, old_delay) = (Span::from_micros(delay_us), Span::from_micros(old_us));
        Law { probability, delay, old_delay, allowance: Span::ZERO, ..Law::new(Time::ZERO) }
    }

    // RFC 8033, 4.2: 8 ms above the target are 0.001, of which the smaller part counts, the smaller p is.
    #[test]
    fn the_gain_grows_with_the_probability_and_each_bound_belongs_to_the_greater_gain() {
        for (at, divisor, below) in [
            (0.000_001, 512.0, 2048.0),
            (0.000_01, 128.0, 512.0),
            (0.000_1, 32.0, 128.0),
            (0.001, 8.0, 32.0),
            (0.01, 2.0, 8.0),
            (0.1, 1.0, 2.0),
        ] {
            for (probability, divisor) in [(at, divisor), (at * 0.999_999, below)] {
                let mut law = law(probability, 23_000, 23_000);
                law.update(TARGET);
                let step = (law.probability - probability) * divisor;
                assert!((step - 0.001).abs() < 1e-9, "{probability}: {step}");
            }
        }
    }

    // RFC 8033, 4.2: the burst is allowed again when p is 0 and both delays are below half the target.
    #[test]
    fn a_burst_is_allowed_again_when_both_delays_are_below_half_the_target() {
        for (delay, old, again) in [(7499, 7499, true), (7500, 7000, false), (7000, 7500, false), (7499, 7000, true)] {
            let mut law = law(0.0, delay, old);
            law.update(TARGET);
            assert_eq!((law.probability, law.allowance == BURST), (0.0, again), "{delay} {old}");
        }
    }

    fn pie(law: Law, seed: u64) -> Pie {
        Pie { law, ..Pie::new(TARGET, seed) }
    }

    #[test]
    fn a_thousand_missed_updates_are_made_up_for_and_after_more_it_begins_anew() {
        for (updates, probability) in [(1000, 1.0), (1001, 0.0)] {
            let mut pie = pie(law(0.5, 100_000, 100_000), 1);
            pie.catch_up(Time::ZERO + UPDATE.times(updates));
            assert_eq!((pie.law.probability, pie.law.updated), (probability, Time::ZERO + UPDATE.times(updates)));
        }
    }

    // RFC 8033, 4.1.
    #[test]
    fn nothing_is_hit_while_the_delay_is_below_half_the_target_and_the_probability_below_a_fifth() {
        for (probability, old, hit) in [(0.2, 0, true), (0.19, 7500, true), (0.19, 7499, false)] {
            let due = Law { accumulated: 8.5, ..law(probability, old, old) };
            assert_eq!(pie(due, 1).hits(2049), hit, "{probability} {old}");
        }
    }

    // RFC 8033, 4.4: nothing below 0.85 accumulated, everything from 8.5 on.
    #[test]
    fn from_what_has_just_accumulated_on_packets_are_hit_at_random() {
        for (accumulated, any) in [(0.6, true), (0.599, false)] {
            let hits = |seed| pie(Law { accumulated, ..law(0.25, 20_000, 20_000) }, seed).hits(9000);
            assert_eq!((0..100).any(hits), any, "{accumulated}");
        }
    }

    #[test]
    fn up_to_a_tenth_packets_are_marked_and_from_then_on_dropped() {
        for (probability, verdict) in [(0.0999, Verdict::Mark(Reason::Delay)), (0.1, Verdict::Drop(Reason::Delay))] {
            let mut pie = pie(Law { accumulated: 8.5, ..law(probability, 20_000, 20_000) }, 1);
            let bounds = Limit::Packets(100).into();
            let backlog = Backlog { packets: 9, bytes: 9000, memory: 0, bounds, size: 100, cost: 0, by_flow: false };
            assert_eq!(pie.admit(Time::ZERO, FlowNumber(0), &(), &backlog), verdict, "{probability}");
        }
    }
}
