//! A level over time: its mean weighted with time, and its maximum.

use fairspan_core::units::Time;

/// The level of a queue or buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Occupancy {
    level: u64,
    max: u64,
    begin: Time,
    since: Time,
    /// Level times nanoseconds.
    area: u128,
}

impl Occupancy {
    /// Zero from `begin` on.
    pub fn new(begin: Time) -> Occupancy {
        Occupancy { begin, since: begin, ..Occupancy::default() }
    }

    /// The level is `level` from `now` on.
    #[inline]
    pub fn set(&mut self, now: Time, level: u64) {
        self.area += u128::from(self.level) * u128::from(now.since(self.since).as_nanos());
        self.since = now;
        self.level = level;
        self.max = self.max.max(level);
    }

    /// The level now.
    pub fn level(&self) -> u64 {
        self.level
    }

    /// The measurement begins, at the level that there is.
    pub fn begin(&mut self, now: Time) {
        *self = Occupancy { level: self.level, max: self.level, begin: now, since: now, area: 0 };
    }

    /// Largest level.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Mean level from the measurement's begin until `now`; zero over no time.
    pub fn mean(&self, now: Time) -> f64 {
        let whole = now.since(self.begin).as_nanos();
        let area = self.area + u128::from(self.level) * u128::from(now.since(self.since).as_nanos());
        if whole == 0 { 0.0 } else { area as f64 / whole as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_weighs_levels_with_their_time() {
        let mut queue = Occupancy::new(Time::ZERO);
        queue.set(Time::from_millis(10), 3000);
        queue.set(Time::from_millis(20), 1000);
        assert_eq!(queue.mean(Time::from_millis(40)), (3000.0 * 10.0 + 1000.0 * 20.0) / 40.0);
        assert_eq!((queue.max(), queue.level()), (3000, 1000));
    }

    #[test]
    fn what_was_before_the_measurement_counts_only_as_the_level_at_its_begin() {
        let mut queue = Occupancy::new(Time::ZERO);
        queue.set(Time::from_millis(1), 9000);
        queue.set(Time::from_millis(2), 500);
        queue.begin(Time::from_millis(10));
        queue.set(Time::from_millis(15), 0);
        assert_eq!((queue.mean(Time::from_millis(20)), queue.max()), (250.0, 500));
        assert_eq!(Occupancy::new(Time::ZERO).mean(Time::ZERO), 0.0);
    }
}
