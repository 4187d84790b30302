//! The rate of what was sent, as IEEE 802.17 measures it: a byte count that ages, then a low-pass filter.

/// Bytes of one kind of traffic, counted as they leave the scheduler.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Meter {
    /// Since the last interval's end.
    counted: u64,
    /// 802.17's addRate, fwRate: the count with what is left of earlier ones.
    aged: f64,
    /// 802.17's lpAddRate, lpFwRate, in bit/s.
    filtered: f64,
}

impl Meter {
    #[inline]
    pub(super) fn count(&mut self, bytes: u32) {
        self.counted += u64::from(bytes);
    }

    /// What was counted so far in this interval; the next one begins.
    pub(super) fn take(&mut self) -> f64 {
        core::mem::take(&mut self.counted) as f64
    }

    /// An interval of `seconds` ends in which `bytes` were counted.
    pub(super) fn tick(&mut self, bytes: f64, seconds: f64, age: f64, low_pass: f64) {
        // The count that has aged for ever is `age` times the one of an interval.
        self.aged += bytes - self.aged / age;
        let rate = self.aged * 8.0 / (age * seconds);
        self.filtered += (rate - self.filtered) / low_pass;
    }

    /// In bit/s.
    pub(super) fn rate(&self) -> f64 {
        self.filtered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steady(bytes: u32, ticks: usize, age: f64, low_pass: f64) -> f64 {
        let mut meter = Meter::default();
        for _ in 0..ticks {
            meter.count(bytes);
            let counted = meter.take();
            meter.tick(counted, 1e-4, age, low_pass);
        }
        meter.rate()
    }

    #[test]
    fn without_filters_the_rate_is_that_of_the_last_interval() {
        assert!((steady(1250, 1, 1.0, 1.0) - 100e6).abs() < 1e-3);
        let mut meter = Meter::default();
        meter.tick(1250.0, 1e-4, 1.0, 1.0);
        meter.tick(0.0, 1e-4, 1.0, 1.0);
        assert_eq!(meter.rate(), 0.0);
    }

    #[test]
    fn a_steady_rate_is_measured_as_it_is_and_a_step_is_followed_as_the_filter_says() {
        assert!((steady(1250, 3000, 4.0, 64.0) - 100e6).abs() < 1e-3);
        // 1 - (63/64)^64
        assert!((steady(1250, 64, 1.0, 64.0) / 100e6 - 0.635_004).abs() < 1e-5);
    }
}
