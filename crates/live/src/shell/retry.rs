//! When what cannot be had is tried again.

use fairspan_core::units::Span;

/// How soon at first, and how late at most.
const AGAIN: (Span, Span) = (Span::from_secs(1), Span::from_secs(30));

/// How long is waited after a wait of `pause` that was in vain; zero: after the first failure.
pub(super) fn longer(pause: Span) -> Span {
    pause.times(2).clamp(AGAIN.0, AGAIN.1)
}
