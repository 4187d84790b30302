//! When a link counts as up or down.

use crate::units::Span;

/// How links are supervised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// How often a link's carrier is looked at; zero: not at all. Default 100 ms.
    pub miimon: Span,
    /// How long a link must be well before it is used again. Default zero.
    pub updelay: Span,
    /// How long a link that failed is still used. Default zero.
    pub downdelay: Span,
    /// How often links are probed; zero (the default): the bond's own defaults.
    pub arp_interval: Span,
    /// Probes without an answer until a link counts as down. Default 2.
    pub missed_max: u16,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            miimon: Span::from_millis(100),
            updelay: Span::ZERO,
            downdelay: Span::ZERO,
            arp_interval: Span::ZERO,
            missed_max: 2,
        }
    }
}
