//! How RPR's rates oscillate, computed and not simulated: the rings paper's models of one cycle, section IV-B.
//!
//! Aggressive mode, two flows (Figure 7), intervals k = 0, 1, … of the upstream rate:
//!
//! | paper | here |
//! |---|---|
//! | r_0 = r_min, the downstream rate | `least` |
//! | r_k = r_{k-1} + (C - r_{k-1}) / rampcoef | [`grown`] |
//! | R, the RIAS rate of the upstream flow | `fair` |
//! | K: the last r_k that is at most r_max; L: the queue begins to fill | `fills` |
//! | M: the queue reaches its threshold B_t | `full` |
//! | N: the news of it has come upstream | `rates.len() - 1` |
//!
//! The paper's K and L name the same moment but for one interval, the one before and the one after the rate passes R.
//! Its r_max is the rate that fills the link: with the queue behind it the rate goes further.
//!
//! Departure: what control messages take of the links may be counted. Where little is left for the queue to grow by, as in
//! Figure 9(a) with 5 Mbit/s downstream, that is what the period hangs on.
//!
//! Conservative mode, one flow of N that does not bring all it may: it grows until the low-pass filtered load of its link
//! reaches the threshold, then begins at C/n_a again. The filter remembers the cycle before, so cycles are computed until
//! they repeat.
//!
//! Loss: equation (7) is the mean shortfall of a cycle, in bit/s. As a fraction it is divided here by R, the RIAS rate of the
//! flow. Where it comes out below zero the queue never empties, the link is always busy, and nothing is lost.

/// One cycle of a rate.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cycle {
    /// r_0 to r_N, bit/s.
    pub(crate) rates: Vec<f64>,
    /// L: the first interval in which the queue fills (aggressive mode).
    pub(crate) fills: usize,
    /// M: the interval in which it reaches its threshold (aggressive mode).
    pub(crate) full: usize,
}

impl Cycle {
    /// Equation (7), as a fraction of `fair`, the RIAS rate.
    pub(crate) fn loss(&self, fair: f64) -> f64 {
        let short: f64 = self.rates.iter().map(|rate| fair - rate).sum();
        (short / (self.rates.len() - 1) as f64 / fair).max(0.0)
    }

    /// The lowest rate.
    pub(crate) fn least(&self) -> f64 {
        self.rates[0]
    }

    /// r_N, the highest rate.
    pub(crate) fn most(&self) -> f64 {
        *self.rates.last().expect("a cycle has a rate")
    }

    pub(crate) fn mean(&self) -> f64 {
        self.rates.iter().sum::<f64>() / self.rates.len() as f64
    }
}

fn grown(rate: f64, capacity: f64, coefficient: f64) -> f64 {
    rate + (capacity - rate) / coefficient
}

/// The two flows of Figure 7 under aggressive mode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Aggressive {
    /// C, bit/s.
    pub(crate) capacity: f64,
    /// What the downstream flow sends, bit/s; less than half of C.
    pub(crate) downstream: f64,
    /// rampcoef.
    pub(crate) ramp: f64,
    /// tau_a, seconds.
    pub(crate) aging: f64,
    /// tau_p, seconds.
    pub(crate) delay: f64,
    /// B_t, bytes.
    pub(crate) threshold: f64,
    /// What control messages take of each link, bit/s; the paper's model knows none.
    pub(crate) control: f64,
}

impl Aggressive {
    /// The RIAS rate of the upstream flow, if it wants all it can get.
    pub(crate) fn fair(&self) -> f64 {
        self.capacity - self.downstream
    }

    /// One cycle.
    pub(crate) fn cycle(&self) -> Cycle {
        let left = self.fair() - self.control;
        let mut rates = vec![self.downstream];
        let (mut queue, mut fills, mut full) = (0.0, None, None);
        loop {
            let rate = grown(rates[rates.len() - 1], self.capacity, self.ramp);
            let k = rates.len();
            rates.push(rate);
            if rate > left {
                fills.get_or_insert(k);
                queue += self.aging * (rate.min(self.capacity - self.control) - left) / 8.0;
                if queue >= self.threshold {
                    full.get_or_insert(k);
                }
            }
            if let (Some(fills), Some(full)) = (fills, full)
                && (k - full) as f64 * self.aging >= self.delay - 1e-12
            {
                return Cycle { rates, fills, full };
            }
        }
    }
}

/// The flow nearest to the congested link in Figure 11 under conservative mode, the others sending little.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conservative {
    /// C, bit/s.
    pub(crate) capacity: f64,
    /// What the other flows send together, bit/s.
    pub(crate) others: f64,
    /// What the flow has to send, bit/s.
    pub(crate) demand: f64,
    /// n_a.
    pub(crate) active: f64,
    /// rampcoef.
    pub(crate) ramp: f64,
    /// LPCOEF; 1: not filtered.
    pub(crate) low_pass: f64,
    /// low_threshold, as a share of C.
    pub(crate) threshold: f64,
}

impl Conservative {
    /// A cycle like those before and after it, of what the flow sends.
    pub(crate) fn cycle(&self) -> Cycle {
        let least = self.capacity / self.active;
        let mut load = least + self.others;
        let mut before: Vec<f64> = Vec::new();
        // A filter forgets: that it takes a thousand cycles is out of the question.
        for _ in 0..1000 {
            let mut rates = vec![];
            let mut allowed = least;
            loop {
                let rate = allowed.min(self.demand);
                rates.push(rate);
                load += ((rate + self.others).min(self.capacity) - load) / self.low_pass;
                if load >= self.threshold * self.capacity {
                    break;
                }
                allowed = grown(allowed, self.capacity, self.ramp);
            }
            if rates == before {
                break;
            }
            before = rates;
        }
        Cycle { rates: before, fills: 0, full: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIGURE_9A: Aggressive = Aggressive {
        capacity: 622e6,
        downstream: 5e6,
        ramp: 64.0,
        aging: 1e-4,
        delay: 1e-4,
        threshold: 25_000.0,
        control: 0.0,
    };

    #[test]
    fn a_cycle_of_the_aggressive_mode_goes_from_the_downstream_rate_to_past_the_spare_capacity() {
        let cycle = FIGURE_9A.cycle();
        assert_eq!(cycle.least(), 5e6);
        assert!(cycle.rates.is_sorted());
        // 617 (63/64)^k < 5 from k = 306 on.
        assert_eq!(cycle.fills, 306);
        assert!(cycle.rates[cycle.fills - 1] <= 617e6 && cycle.rates[cycle.fills] > 617e6);
        let queue =
            |until: usize| cycle.rates[cycle.fills..=until].iter().map(|r| (r - 617e6) * 1e-4 / 8.0).sum::<f64>();
        assert!(queue(cycle.full - 1) < 25_000.0 && queue(cycle.full) >= 25_000.0);
        assert_eq!(cycle.rates.len() - 1, cycle.full + 1, "one interval's delay");
    }

    #[test]
    fn the_loss_is_greatest_between_a_trickle_and_the_balanced_rate() {
        let loss = |downstream: f64| {
            let flows = Aggressive { downstream: downstream * 1e6, ..FIGURE_9A };
            flows.cycle().loss(flows.fair())
        };
        assert!(loss(5.0) < loss(75.0) && loss(75.0) > loss(200.0), "{} {} {}", loss(5.0), loss(75.0), loss(200.0));
        assert_eq!(loss(311.0), 0.0);
        // By hand: without a queue, delay or steps the mean of an exponential from d to C - d.
        let flows = Aggressive { downstream: 62.2e6, threshold: 0.0, delay: 0.0, ramp: 10_000.0, ..FIGURE_9A };
        let mean = 622e6 - (0.9_f64 - 0.1) * 622e6 / 9.0_f64.ln();
        let expected = (0.9 * 622e6 - mean) / (0.9 * 622e6);
        assert!((flows.cycle().loss(flows.fair()) - expected).abs() < 1e-3);
    }

    #[test]
    fn a_cycle_of_the_conservative_mode_goes_from_an_equal_share_to_the_threshold_and_further_if_filtered() {
        let flow = Conservative {
            capacity: 622e6,
            others: 5e6,
            demand: 600e6,
            active: 2.0,
            ramp: 64.0,
            low_pass: 1.0,
            threshold: 0.8,
        };
        let cycle = flow.cycle();
        assert_eq!(cycle.least(), 311e6);
        assert!((cycle.most() - 492.6e6).abs() < 311e6 / 64.0, "low_threshold - epsilon, {}", cycle.most());
        let filtered = Conservative { low_pass: 64.0, ..flow }.cycle();
        assert!(filtered.most() > 540e6 && filtered.rates.len() > cycle.rates.len());
        assert!(filtered.loss(600e6) < cycle.loss(600e6));
    }
}
