//! The links of the demo.

use crate::testbed::paths::Paths;
use anyhow::Result;
use fairspan_core::units::{Rate, Span};
use fairspan_live::emulate::{Limit, Profile};

/// A link of the demo, the same in both directions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    /// Its name, and that of the interfaces at its ends.
    pub(crate) name: &'static str,
    /// Mbit/s, Ethernet headers included.
    pub(crate) rate_mbit: u32,
    /// One way.
    pub(crate) delay_ms: u32,
}

impl Link {
    /// What it carries, Ethernet headers included.
    pub(crate) fn rate(&self) -> Rate {
        Rate::from_mbit(u64::from(self.rate_mbit))
    }
}

/// The three links. No loss; a queue of 100 ms before each.
pub(crate) const LINKS: [Link; 3] = [
    Link { name: "fibre", rate_mbit: 100, delay_ms: 10 },
    Link { name: "dsl", rate_mbit: 40, delay_ms: 25 },
    Link { name: "lte", rate_mbit: 10, delay_ms: 40 },
];

/// What a link's queue holds: what it sends in this time.
const QUEUE: Span = Span::from_millis(100);

/// Two hosts, and the links between them.
pub(crate) fn build() -> Result<Paths> {
    Paths::new(&LINKS.map(|link| {
        let mut profile = Profile::new(link.rate(), Span::from_millis(u64::from(link.delay_ms)));
        profile.queue = Limit::Bytes(link.rate().bytes_in(QUEUE).as_u64());
        (link.name, profile)
    }))
}
