//! PI2, coupled: one controller finds a probability from the delay; what is Classic is hit by its square, what is L4S by a multiple of it.
//!
//! What it is: PIE's controller without its table, whose output squared is what Reno and CUBIC need, and whose output times `coupling` is what
//! senders need that answer each mark in proportion, so that flows of both kinds have about the same rate. Besides, packets of the
//! latter are marked when they themselves waited beyond `threshold`. With the discipline [`dual`](crate::queue::Dual) it is DualPI2;
//! with any other one both kinds share the queues, and a plain FIFO with it is the PI2 of the paper. At a full buffer it is drop-tail.
//!
//! Source: RFC 9332 (De Schepper, Briscoe, White), appendix A, figures 2 to 7; De Schepper, Bondarenko, Tsang, Briscoe, "PI2: A Linearized AQM for both
//! Classic and Scalable TCP", CoNEXT 2016.
//!
//! | RFC 9332 | here |
//! |---|---|
//! | target, RTT_max, k | `target`, `rtt`, `coupling` of [`Pi2Config`] |
//! | Tupdate = min(target, RTT_max/3) | `every` |
//! | alpha = 0.1 Tupdate/RTT_max^2, beta = 0.3/RTT_max | `alpha`, `beta`, a second |
//! | p', prevq | `base`, `before` |
//! | p_CL = k p', p_C = p'^2 | `coupled`, `squared` |
//! | minTh, range | `threshold`, `ramp` |
//! | Th_len = 1 packet | by its own delay a packet is marked only if another one stays behind it |
//! | p_Cmax = min(1/k^2, 1), p_Lmax = 1 | from p_CL = 1 on, which is p_C = 1/k^2, there is overload |
//! | cq.count, lq.count | `counts`; a hit comes when one is reached, not exceeded |
//!
//! | packet | without overload | with overload |
//! |---|---|---|
//! | L4S (ECT(1) or CE) | marked by max(p'_L, p_CL) | dropped by p_C, else marked by p_CL |
//! | Classic | marked by p_C, dropped where it cannot be | dropped by p_C |
//!
//! Departures: the native ramp of L4S is a step by default (`ramp` of 0, the threshold 1 ms, as in Linux); the RFC's example is
//! `threshold=800us,ramp=400us`. The controller goes by the longer of both queues' delays, as in Linux: an L4S queue that nobody can bring
//! down is overload too, also where nothing Classic waits. There is no timer: what its updates would have done is done when the next packet comes or goes, from when
//! the first packets came; a likelihood above one is one, so that counts do not grow for ever; of a longer time in which one packet stays the first, the last [`MOST_UPDATES`] count.
//! Worked example (defaults; Tupdate 15 ms, alpha 0.15/s, beta 3/s): p' = 0, the delay 0, then 25 ms at an update: p' = 0.15 * 0.010 + 3 * 0.025 = 0.0765,
//! so p_CL = 0.153 and p_C = 0.00585. At the next update with 25 ms again, p' = 0.078.
//! Cost: O(1), and an update each 15 ms. Invariants: p' is from 0 to 1; below overload no L4S packet is dropped but by a full buffer.

use super::policy::{Backlog, Leaving, Policy, Reason, Verdict};
use super::tail::DropTail;
use crate::options::{Field, Fields, Kind, OptionSpec};
use crate::units::{FlowNumber, Span, Time};
use alloc::vec;

/// Where the counts of what is Classic and of what is L4S lie.
const CLASSIC: usize = 0;
const LOW: usize = 1;
const MOST_UPDATES: u64 = 1000;

/// Settings of [`Pi2`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pi2Config {
    /// The wait that is held, of what is Classic. As text by default 15 ms.
    pub target: Span,
    /// The longest round trip that is expected. As text by default 100 ms.
    pub rtt: Span,
    /// k. As text by default 2.
    pub coupling: u32,
    /// From which wait on an L4S packet is marked. As text by default 1 ms.
    pub threshold: Span,
    /// Over which further wait that grows from none to all. As text by default 0: a step.
    pub ramp: Span,
}

const TIME: Kind = Kind::Span(Span::from_micros(1), Span::from_secs(60), None);
/// A target is also how often there is an update: a shorter one would cost more than it tells.
static TARGET: OptionSpec = OptionSpec::new(
    "target",
    Kind::Span(Span::from_micros(100), Span::from_secs(60), None),
    "wait that is held, of what is Classic",
);
static RTT: OptionSpec = OptionSpec::new(
    "rtt",
    Kind::Span(Span::from_millis(1), Span::from_secs(60), None),
    "the longest round trip that is expected",
);
static COUPLING: OptionSpec =
    OptionSpec::new("coupling", Kind::Count(1, 16, None), "how many times as likely L4S packets are marked, as p'");
static THRESHOLD: OptionSpec = OptionSpec::new("threshold", TIME, "wait from which on an L4S packet is marked");
static RAMP: OptionSpec = OptionSpec::new(
    "ramp",
    Kind::Span(Span::ZERO, Span::from_secs(60), None),
    "further wait over which that grows from none to all; 0: a step",
);

impl Pi2Config {
    /// The defaults.
    pub const PLAIN: Pi2Config = Pi2Config {
        target: Span::from_millis(15),
        rtt: Span::from_millis(100),
        coupling: 2,
        threshold: Span::from_millis(1),
        ramp: Span::ZERO,
    };

    pub(super) fn fields(&self) -> Fields<'_> {
        vec![
            (&TARGET, &self.target as &dyn Field),
            (&RTT, &self.rtt),
            (&COUPLING, &self.coupling),
            (&THRESHOLD, &self.threshold),
            (&RAMP, &self.ramp),
        ]
    }

    pub(super) fn field_mut(&mut self, option: &str) -> Option<&mut dyn Field> {
        match option {
            "target" => Some(&mut self.target),
            "rtt" => Some(&mut self.rtt),
            "coupling" => Some(&mut self.coupling),
            "threshold" => Some(&mut self.threshold),
            "ramp" => Some(&mut self.ramp),
            _ => None,
        }
    }
}

/// The coupled controller.
#[derive(Clone, Debug)]
pub struct Pi2 {
    config: Pi2Config,
    every: Span,
    alpha: f64,
    beta: f64,
    base: f64,
    before: Span,
    updated: Time,
    counts: [f64; 2],
}

impl Pi2 {
    /// One with these settings, whose probability is 0.
    pub fn new(config: Pi2Config) -> Pi2 {
        let every = config.target.min(Span::from_nanos(config.rtt.as_nanos() / 3));
        let rtt = config.rtt.as_secs_f64();
        Pi2 {
            config,
            every,
            alpha: 0.1 * every.as_secs_f64() / (rtt * rtt),
            beta: 0.3 / rtt,
            base: 0.0,
            before: Span::ZERO,
            updated: Time::ZERO,
            counts: [0.0; 2],
        }
    }

    /// Whether an update is due, for which [`on_time`](Pi2::on_time) is to be told what waits.
    #[inline]
    pub(crate) fn is_due(&self, now: Time) -> bool {
        now.since(self.updated) >= self.every
    }

    /// Makes up for the updates until `now`. The first packets of the queues, which have been the first ones since the last update or
    /// have come since, came at `heads`.
    pub(crate) fn on_time(&mut self, now: Time, heads: [Option<Time>; 2]) {
        let missed = now.since(self.updated).as_nanos() / self.every.as_nanos().max(1);
        if heads == [None; 2] {
            self.pause(missed);
            return;
        }
        self.updated += self.every.times(missed.saturating_sub(MOST_UPDATES));
        for _ in 0..missed.min(MOST_UPDATES) {
            self.updated += self.every;
            let delay = heads.iter().flatten().map(|came| self.updated.since(*came)).max();
            self.update(delay.unwrap_or(Span::ZERO));
        }
    }

    /// So many updates in one, while nothing waits: each goes down as far as the one before, and none below nothing.
    fn pause(&mut self, updates: u64) {
        if updates > 0 {
            self.update(Span::ZERO);
            let step = self.alpha * self.config.target.as_secs_f64();
            self.base = (self.base - step * (updates - 1) as f64).max(0.0);
            self.updated += self.every.times(updates);
        }
    }

    /// RFC 9332, figure 5.
    fn update(&mut self, delay: Span) {
        let [delay_s, target, before] = [delay, self.config.target, self.before].map(Span::as_secs_f64);
        let step = self.alpha * (delay_s - target) + self.beta * (delay_s - before);
        self.base = (self.base + step).clamp(0.0, 1.0);
        self.before = delay;
    }

    /// p_CL, which may be above one.
    fn coupled(&self) -> f64 {
        f64::from(self.config.coupling) * self.base
    }

    /// p_C.
    fn squared(&self) -> f64 {
        self.base * self.base
    }

    /// laqm(): how likely a packet is marked for its own delay.
    fn native(&self, leaving: &Leaving) -> f64 {
        if leaving.behind == 0 || leaving.waited <= self.config.threshold {
            return 0.0;
        }
        let beyond = leaving.waited - self.config.threshold;
        if beyond >= self.config.ramp { 1.0 } else { beyond.as_secs_f64() / self.config.ramp.as_secs_f64() }
    }

    /// recur(): true so often, evenly.
    fn recurs(&mut self, kind: usize, likelihood: f64) -> bool {
        let count = &mut self.counts[kind];
        *count += likelihood.min(1.0);
        let hit = *count > 1.0 - 1e-9;
        if hit {
            *count -= 1.0;
        }
        hit
    }
}

impl<P> Policy<P> for Pi2 {
    fn admit(&mut self, now: Time, flow: FlowNumber, packet: &P, backlog: &Backlog) -> Verdict {
        DropTail.admit(now, flow, packet, backlog)
    }

    /// RFC 9332, figure 6.
    fn release(&mut self, _now: Time, _flow: FlowNumber, _packet: &P, leaving: &Leaving) -> Verdict {
        let (coupled, squared) = (self.coupled(), self.squared());
        let overload = coupled >= 1.0;
        match (leaving.is_scalable, overload) {
            (true, false) => {
                let likelihood = self.native(leaving).max(coupled);
                if self.recurs(LOW, likelihood) { Verdict::Mark(Reason::Delay) } else { Verdict::Pass }
            }
            (true, true) => {
                if self.recurs(LOW, squared) {
                    Verdict::Drop(Reason::Delay)
                } else if self.recurs(LOW, coupled) {
                    Verdict::Mark(Reason::Delay)
                } else {
                    Verdict::Pass
                }
            }
            (false, _) if !self.recurs(CLASSIC, squared) => Verdict::Pass,
            (false, false) => Verdict::Mark(Reason::Delay),
            (false, true) => Verdict::Drop(Reason::Delay),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Span = Span::from_millis(15);

    fn pi2() -> Pi2 {
        Pi2::new(Pi2Config::PLAIN)
    }

    /// One whose p' is `base`.
    fn at(base: f64) -> Pi2 {
        Pi2 { base, ..pi2() }
    }

    fn leaving(waited_us: u64, behind: u64, is_scalable: bool) -> Leaving {
        Leaving { waited: Span::from_micros(waited_us), queue: 0, key: 0, behind, is_scalable }
    }

    /// How many of `count` packets are marked, and how many dropped.
    fn hits(pi2: &mut Pi2, count: usize, leaving: &Leaving) -> (usize, usize) {
        let verdicts: std::vec::Vec<Verdict> =
            (0..count).map(|_| pi2.release(Time::ZERO, FlowNumber(0), &(), leaving)).collect();
        let of = |wanted| verdicts.iter().filter(|verdict| **verdict == wanted).count();
        (of(Verdict::Mark(Reason::Delay)), of(Verdict::Drop(Reason::Delay)))
    }

    fn near(found: f64, wanted: f64) -> bool {
        (found - wanted).abs() < 1e-9
    }

    // RFC 9332, figure 2: Tupdate, alpha, beta; figure 5, with the card's worked example.
    #[test]
    fn the_controller_s_numbers_are_those_of_the_rfc_s_pseudo_code() {
        let mut pi2 = pi2();
        assert_eq!(pi2.every, STEP);
        assert!(near(pi2.alpha, 0.15) && near(pi2.beta, 3.0), "{} {}", pi2.alpha, pi2.beta);
        let now = Time::ZERO + STEP;
        assert!(!pi2.is_due(Time::from_nanos(14_999_999)) && pi2.is_due(now));
        // The first packet came 10 ms before the time began to count.
        let came = Time::from_millis(5);
        pi2.on_time(Time::from_millis(15), [None, None]);
        assert!(near(pi2.base, 0.0), "below the target it stays at nothing");
        pi2.on_time(Time::from_millis(30), [Some(came), None]);
        assert!(near(pi2.base, 0.15 * 0.010 + 3.0 * 0.025), "{}", pi2.base);
        assert!(near(pi2.coupled(), 0.153) && near(pi2.squared(), 0.00585225));
        pi2.on_time(Time::from_millis(45), [Some(Time::from_millis(20)), None]);
        assert!(near(pi2.base, 0.078), "{}", pi2.base);
        // The queue is empty: down by alpha 15 ms + beta 25 ms, and then by alpha 15 ms each time.
        pi2.on_time(Time::from_millis(60), [None, None]);
        assert!(near(pi2.base, 0.078 - 0.15 * 0.015 - 3.0 * 0.025), "{}", pi2.base);
    }

    #[test]
    fn updates_that_were_missed_are_made_up_for_one_by_one() {
        let heads = [Some(Time::from_millis(2)), Some(Time::from_millis(7))];
        let (mut late, mut prompt) = (pi2(), pi2());
        for n in 1..=20 {
            prompt.on_time(Time::from_millis(15 * n), heads);
        }
        late.on_time(Time::from_millis(309), heads);
        assert!(near(late.base, prompt.base) && late.base > 0.9, "{} {}", late.base, prompt.base);
        assert_eq!(late.updated, prompt.updated);
        // With nothing that waits a pause is made up for at once, however long it was.
        let mut paused = late.clone();
        for n in 21..=400 {
            prompt.on_time(Time::from_millis(15 * n), [None, None]);
            paused.on_time(Time::from_millis(15 * n), [None, None]);
        }
        let mut whole = late.clone();
        whole.on_time(Time::from_millis(6000), [None, None]);
        assert!(
            near(whole.base, paused.base) && near(whole.base, prompt.base) && whole.base < late.base,
            "{}",
            whole.base
        );
        assert_eq!(whole.updated, paused.updated);
        late.on_time(Time::from_millis(3_600_000), [None, None]);
        assert!(near(late.base, 0.0));
        assert_eq!(late.updated, Time::from_millis(3_600_000));
    }

    // RFC 9332, 2.1: p_C = p'^2, p_CL = k p'.
    #[test]
    fn of_a_thousand_packets_classic_ones_are_hit_by_the_square_and_l4s_ones_by_twice_the_base() {
        for (base, low, classic) in [(0.1, 200, 10), (0.2, 400, 40), (0.45, 900, 202)] {
            assert_eq!(hits(&mut at(base), 1000, &leaving(100, 1500, true)), (low, 0), "{base}");
            assert_eq!(hits(&mut at(base), 1000, &leaving(100, 1500, false)), (classic, 0), "{base}");
        }
    }

    // RFC 9332, figure 6: from p_CL = 1 on, p_C = 1/4, nothing Classic is marked any more, and L4S packets are dropped by p_C.
    #[test]
    fn in_overload_all_are_dropped_by_the_square_whether_they_could_be_marked_or_not() {
        for (base, dropped) in [(0.5, 250), (0.8, 640), (1.0, 1000)] {
            let (marked, lost) = hits(&mut at(base), 1000, &leaving(100, 1500, false));
            assert_eq!((marked, lost), (0, dropped), "{base}");
            let (marked, lost) = hits(&mut at(base), 1000, &leaving(100, 1500, true));
            assert_eq!((marked, lost), (1000 - dropped, dropped), "{base}: what is not dropped is marked");
        }
        assert_eq!(hits(&mut at(0.499), 1000, &leaving(100, 1500, true)).1, 0);
    }

    // RFC 9332, figure 3's laqm(), with the RFC's ramp and as a step.
    #[test]
    fn a_packet_that_waited_beyond_the_threshold_is_marked_unless_it_is_alone() {
        for (waited, marked) in [(999, 0), (1000, 0), (1001, 100), (90_000, 100)] {
            assert_eq!(hits(&mut pi2(), 100, &leaving(waited, 40, true)), (marked, 0), "{waited}");
            assert_eq!(hits(&mut pi2(), 100, &leaving(waited, 0, true)), (0, 0), "alone, {waited}");
            assert_eq!(hits(&mut pi2(), 100, &leaving(waited, 40, false)), (0, 0), "Classic, {waited}");
        }
        let ramp = Pi2Config { threshold: Span::from_micros(800), ramp: Span::from_micros(400), ..Pi2Config::PLAIN };
        for (waited, marked) in [(800, 0), (900, 25), (1000, 50), (1200, 100)] {
            assert_eq!(hits(&mut Pi2::new(ramp), 100, &leaving(waited, 40, true)), (marked, 0), "{waited}");
        }
        // The greater of both probabilities counts.
        assert_eq!(hits(&mut Pi2 { base: 0.3, ..Pi2::new(ramp) }, 100, &leaving(900, 40, true)), (60, 0));
    }

    // 100 us: a target that is as often updated. In 200 s nothing waits; of p' = 0.5, alpha 100 us = 10^-7 goes in each of 2,000,000 updates.
    #[test]
    fn a_short_target_is_updated_as_often_and_a_long_pause_counts_whole() {
        let mut short = Pi2 { base: 0.5, ..Pi2::new(Pi2Config { target: Span::from_micros(100), ..Pi2Config::PLAIN }) };
        assert!((short.alpha - 0.001).abs() < 1e-12, "{}", short.alpha);
        short.on_time(Time::from_millis(200_000), [None, None]);
        assert!((short.base - 0.3).abs() < 1e-6, "{}", short.base);
        assert!("pi2:target=99us".parse::<crate::buffer::PolicyConfig>().is_err());
        assert!("pi2:target=100us".parse::<crate::buffer::PolicyConfig>().is_ok());
    }

    #[test]
    fn a_queue_of_l4s_packets_that_stands_is_seen_where_nothing_classic_waits() {
        let mut pi2 = pi2();
        pi2.on_time(Time::from_millis(1000), [None, Some(Time::ZERO)]);
        assert!(pi2.coupled() >= 1.0, "{}", pi2.base);
    }
    #[test]
    fn before_an_update_is_due_nothing_changes() {
        let mut pi2 = at(0.5);
        pi2.on_time(Time::from_millis(14), [None, None]);
        assert_eq!((pi2.base, pi2.updated), (0.5, Time::ZERO));
    }
}
