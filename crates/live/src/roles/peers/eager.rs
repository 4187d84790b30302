//! When what failed is tried again soon.

use fairspan_core::units::{Span, Time};

/// For how long after a change of an address channels that failed are tried again, and how often.
const EAGER_FOR: Span = Span::from_secs(2);
const EAGER_EVERY: Span = Span::from_millis(50);

/// What failed is tried again soon.
#[derive(Clone, Copy, Debug)]
pub(super) struct Eager {
    pub(super) due: Time,
    until: Time,
}

impl Eager {
    /// From now on.
    pub(super) fn from(now: Time) -> Eager {
        Eager { due: now, until: now + EAGER_FOR }
    }

    /// The next time, if there is one.
    pub(super) fn next(self, now: Time) -> Option<Eager> {
        Some(Eager { due: now + EAGER_EVERY, ..self }).filter(|_| now < self.until)
    }
}
