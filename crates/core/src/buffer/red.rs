//! Random early detection (RED), plain, gentle and adaptive.
//!
//! Source: Floyd and Jacobson, "Random Early Detection Gateways for Congestion Avoidance", IEEE/ACM Transactions on
//! Networking 1(4), 1993, figure 2 and section 7; "gentle": Floyd 2000; adaptive: Floyd, Gummadi and Shenker, "Adaptive
//! RED", 2001, figure 1 and section 4.
//!
//! | paper | field |
//! |---|---|
//! | min_th, max_th, as shares of the buffer | `least`, `most` |
//! | w_q | `weight` |
//! | max_p, of adaptive RED the present one | `probability` |
//! | avg, of what is taken of the buffer | `average` |
//! | count | `count` |
//! | q_time, s | in [`Average`] |
//!
//! Packets that can be marked are marked while the average is below `most`; beyond it all are dropped (RFC 3168, 7), or
//! with `gentle` more and more up to twice `most`. A packet that does not fit is dropped as by drop-tail.
//!
//! Departures: what is taken of the buffer counts in the unit of its limit, and all packets have the same probability
//! whatever their length (RFC 7141). s, the time of a transmission, is measured from packets that left one behind the
//! other. Cost: O(1), a power after an idle time. Invariants: `average` and `probability` are from 0 to 1; no packet is
//! dropped early while `average` is below `least`.

use super::average::Average;
use super::policy::{Backlog, ConfigError, Leaving, Policy, Reason, Verdict};
use super::tail::DropTail;
use crate::options::Share;
use crate::rng::Rng;
use crate::units::{FlowNumber, Span, Time};

/// Adaptive RED: how often max_p is looked at, and its bounds.
const INTERVAL: Span = Span::from_millis(500);
const LEAST_PROBABILITY: f64 = 0.01;
const MOST_PROBABILITY: f64 = 0.5;
/// Adaptive RED: what max_p is multiplied by where it is too large.
const DECREASE: f64 = 0.9;

/// Settings of [`Red`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedConfig {
    /// min_th: share of the buffer, taken on average, from which on packets are dropped. As text by default 0.2.
    pub least: Share,
    /// max_th: from which on all are, or with `gentle` more and more. As text by default 0.6, three times `least`.
    pub most: Share,
    /// max_p: the probability at `most`; where it is adaptive, at first. As text by default 0.1.
    pub probability: Share,
    /// w_q: weight of the newest sample in the average. As text by default 0.002.
    pub weight: Share,
    /// Whether the probability grows on to one at twice `most`, and does not jump there. As text by default on.
    pub gentle: bool,
    /// Whether the probability follows the average, which it holds halfway between `least` and `most`. As text by default
    /// off.
    pub adaptive: bool,
}

impl RedConfig {
    /// The defaults.
    pub const PLAIN: RedConfig = RedConfig {
        least: Share::from_millionths(200_000),
        most: Share::from_millionths(600_000),
        probability: Share::from_millionths(100_000),
        weight: Share::from_millionths(2000),
        gentle: true,
        adaptive: false,
    };

    /// Checks the settings.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let [least, most] = [self.least, self.most].map(|share| u64::from(share.millionths()));
        if least < most {
            return Ok(());
        }
        Err(ConfigError::Order { setting: "most", value: most, other: "least", bound: least })
    }
}

/// Random early detection.
#[derive(Clone, Debug)]
pub struct Red {
    config: RedConfig,
    rng: Rng,
    probability: f64,
    average: Average,
    /// Packets since the last that was hit while the average is between the thresholds; `None`: it was below.
    count: Option<u64>,
    adapted: Time,
}

impl Red {
    /// One with these settings, which were checked; draws by `seed`.
    pub fn new(config: RedConfig, seed: u64) -> Red {
        let probability = config.probability.as_f64();
        Red {
            config,
            rng: Rng::new(seed),
            probability,
            average: Average::new(config.weight.as_f64()),
            count: None,
            adapted: Time::ZERO,
        }
    }

    /// Adaptive RED, figure 1.
    fn adapt(&mut self, now: Time) {
        if now.since(self.adapted) < INTERVAL {
            return;
        }
        self.adapted = now;
        let (least, most) = (self.config.least.as_f64(), self.config.most.as_f64());
        let (low, high) = (least + 0.4 * (most - least), least + 0.6 * (most - least));
        if self.average.value() > high && self.probability <= MOST_PROBABILITY {
            self.probability += LEAST_PROBABILITY.min(self.probability / 4.0);
        } else if self.average.value() < low && self.probability >= LEAST_PROBABILITY {
            self.probability *= DECREASE;
        }
    }

    /// p_b: the probability by the average alone.
    fn base(&self) -> f64 {
        let (least, most) = (self.config.least.as_f64(), self.config.most.as_f64());
        if self.average.value() < most {
            self.probability * (self.average.value() - least) / (most - least)
        } else if self.config.gentle {
            self.probability + (1.0 - self.probability) * (self.average.value() - most) / most
        } else {
            1.0
        }
    }
}

impl<P> Policy<P> for Red {
    fn admit(&mut self, now: Time, flow: FlowNumber, packet: &P, backlog: &Backlog) -> Verdict {
        self.average.on_arrival(now, backlog.fill_before(), backlog.packets == 0);
        if self.config.adaptive {
            self.adapt(now);
        }
        let verdict = DropTail.admit(now, flow, packet, backlog);
        if verdict != Verdict::Pass {
            self.count = Some(0);
            return verdict;
        }
        if self.average.value() < self.config.least.as_f64() {
            self.count = None;
            return Verdict::Pass;
        }
        let base = self.base();
        let count = self.count.map_or(0, |count| count + 1);
        self.count = Some(count);
        // p_a = p_b / (1 - count p_b): packets that are hit lie apart evenly. As in the figure, count is 1 for the next one.
        let rest = 1.0 - count as f64 * base;
        if rest > 0.0 && self.rng.unit() >= base / rest {
            return Verdict::Pass;
        }
        self.count = Some(0);
        if self.average.value() < self.config.most.as_f64() {
            Verdict::Mark(Reason::Early)
        } else {
            Verdict::Drop(Reason::Average)
        }
    }

    fn release(&mut self, now: Time, _flow: FlowNumber, _packet: &P, _leaving: &Leaving) -> Verdict {
        self.average.on_left(now);
        Verdict::Pass
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Limit;

    /// One whose average is what is taken just now, between a quarter and three quarters.
    fn red(probability: f64, adaptive: bool) -> Red {
        let [least, most] = [250_000, 750_000].map(Share::from_millionths);
        let mut red = Red::new(RedConfig { least, most, weight: Share::ONE, adaptive, ..RedConfig::PLAIN }, 1);
        red.probability = probability;
        red
    }

    /// What becomes of a packet that finds so many in a buffer for a hundred.
    fn admit(red: &mut Red, now: Time, packets: u64) -> Verdict {
        let bounds = Limit::Packets(100).into();
        let backlog = Backlog { packets, bytes: 0, memory: 0, bounds, size: 100, cost: 0, by_flow: false };
        red.admit(now, FlowNumber(0), &(), &backlog)
    }

    // Adaptive RED, figure 1: up by the lesser of 0.01 and a quarter, or down to nine tenths, outside of 0.45 to 0.55.
    #[test]
    fn the_probability_grows_above_the_middle_fifth_and_falls_below_it_within_its_bounds() {
        for (from, packets, to) in [
            (0.1, 44, 0.09),
            (0.1, 45, 0.1),
            (0.1, 50, 0.1),
            (0.1, 55, 0.1),
            (0.1, 56, 0.11),
            (0.02, 56, 0.025),
            (0.005, 40, 0.005),
            (0.01, 40, 0.009),
            (0.5, 60, 0.51),
            (0.501, 60, 0.501),
        ] {
            let mut red = red(from, true);
            admit(&mut red, Time::from_millis(499), packets);
            assert_eq!(red.probability, from, "too early");
            admit(&mut red, Time::from_millis(500), packets);
            assert!((red.probability - to).abs() < 1e-12, "{from} {packets}: {}", red.probability);
        }
    }

    #[test]
    fn packets_are_counted_from_the_lower_threshold_on() {
        // At it nothing is hit yet; they count. Below they do not.
        for (packets, verdict) in [(25, Verdict::Mark(Reason::Early)), (24, Verdict::Pass)] {
            let mut red = red(0.1, false);
            assert!((0..100).all(|_| admit(&mut red, Time::ZERO, packets) == Verdict::Pass));
            assert_eq!(admit(&mut red, Time::ZERO, 50), verdict, "{packets}");
        }
    }
}
