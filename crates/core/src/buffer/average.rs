//! What is taken of a buffer on average: an exponential mean over samples, which goes down while nothing waits.
//!
//! Source: Floyd and Jacobson 1993, section 4 and figure 2. s, the time of a transmission, is measured from packets that left one behind the
//! other. Cost: O(1), a power after an idle time. Invariant: it is from 0 to 1.

use crate::units::Time;

/// An average of what is taken.
#[derive(Clone, Debug)]
pub(super) struct Average {
    /// w_q.
    weight: f64,
    value: f64,
    /// When a packet left last, if something has waited ever since.
    last_left: Option<Time>,
    /// Between two packets that left one behind the other, on average, in nanoseconds.
    gap: f64,
}

impl Average {
    pub(super) fn new(weight: f64) -> Average {
        Average { weight, value: 0.0, last_left: None, gap: 0.0 }
    }

    #[inline]
    pub(super) fn value(&self) -> f64 {
        self.value
    }

    /// A packet comes and finds `fill` of the buffer taken. `idle`: nothing waits.
    pub(super) fn on_arrival(&mut self, now: Time, fill: f64, idle: bool) {
        if idle
            && let Some(since) = self.last_left.take()
            && self.gap > 0.0
        {
            self.value *= libm::pow(1.0 - self.weight, now.since(since).as_nanos() as f64 / self.gap);
        }
        self.value += self.weight * (fill - self.value);
    }

    /// A packet leaves.
    pub(super) fn on_left(&mut self, now: Time) {
        if let Some(last) = self.last_left.replace(now) {
            let gap = now.since(last).as_nanos() as f64;
            self.gap = if self.gap > 0.0 { self.gap + (gap - self.gap) / 8.0 } else { gap };
        }
    }

    /// A packet leaves, and `fill` of the buffer stays taken, which is another sample.
    pub(super) fn on_departure(&mut self, now: Time, fill: f64) {
        self.on_left(now);
        self.value += self.weight * (fill - self.value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, wanted: f64) -> bool {
        (found - wanted).abs() < 1e-12
    }

    #[test]
    fn while_nothing_waits_it_falls_as_if_packets_had_left_as_fast_as_before() {
        let mut average = Average::new(0.5);
        average.on_arrival(Time::ZERO, 1.0, false);
        // 100 ns apart, and then 180: on average 100 + 80/8.
        for ns in [0, 100, 280] {
            average.on_left(Time::from_nanos(ns));
        }
        average.on_arrival(Time::from_nanos(280 + 220), 0.0, true);
        assert!(near(average.value(), 0.5 * 0.25 * 0.5), "{}", average.value());
        // How fast the one before left is not known here.
        let mut average = Average::new(0.5);
        average.on_arrival(Time::ZERO, 1.0, false);
        average.on_left(Time::from_nanos(10));
        average.on_arrival(Time::from_nanos(20), 0.0, true);
        assert!(near(average.value(), 0.25), "{}", average.value());
    }
}
