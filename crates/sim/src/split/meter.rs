//! How much waits over time: the mean, the most, the last.

use crate::engine::measured::Measured;
use crate::results::Waiting;
use fairspan_core::units::Time;

/// A level in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Meter {
    level: u64,
    since: Time,
    /// Bytes times nanoseconds in the measured time.
    area: u128,
    most: u64,
}

impl Meter {
    /// The level from now on.
    pub(super) fn set(&mut self, now: Time, measured: Measured, level: u64) {
        self.area += u128::from(measured.part(self.since, now)) * u128::from(self.level);
        (self.since, self.level) = (now, level);
        if measured.counts(now) {
            self.most = self.most.max(level);
        }
    }

    /// What it was over the measured time, which has ended.
    pub(super) fn result(&mut self, now: Time, measured: Measured) -> Waiting {
        self.set(now, measured, self.level);
        let span = (measured.span().as_nanos() as f64).max(1.0);
        Waiting { mean: self.area as f64 / span, max: self.most, last: self.level }
    }
}
