//! Flows that move only when what they have on the old link is known to have arrived.

use crate::units::Span;

/// The settings of marker flushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Longest that a flow's packets are held; then the flow stays where it is. Zero: they are never held, and the flow
    /// moves only if nothing of it is under way. Default 50 ms.
    pub wait: Span,
}

impl Default for Config {
    fn default() -> Config {
        Config { wait: Span::from_millis(50) }
    }
}
