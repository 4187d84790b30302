//! The time that is measured.

use fairspan_core::units::{Span, Time};

/// The time that is measured: from the end of the warm-up to the end of the run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    pub(crate) from: Time,
    pub(crate) until: Time,
}

impl Measured {
    /// Of a run of this duration.
    pub(crate) fn new(warm_up: Span, duration: Span) -> Measured {
        Measured { from: Time::ZERO + warm_up, until: Time::ZERO + duration }
    }

    /// Whether an instant counts.
    #[inline]
    pub(crate) fn counts(self, now: Time) -> bool {
        now >= self.from
    }

    /// How long it is.
    pub(crate) fn span(self) -> Span {
        self.until.since(self.from)
    }

    /// Nanoseconds of a span that lie in it.
    #[inline]
    pub(crate) fn part(self, start: Time, end: Time) -> u64 {
        end.min(self.until).since(start.max(self.from)).as_nanos()
    }
}
