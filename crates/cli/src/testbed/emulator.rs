//! The link emulator between the interfaces of a namespace.

use super::Namespace;
use anyhow::Result;

/// A link to emulate, the same in both directions, no loss.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// What it is called.
    pub(crate) name: &'static str,
    /// The interfaces it joins.
    pub(crate) left: String,
    pub(crate) right: String,
    /// Bits a second, Ethernet headers included.
    pub(crate) rate_bits: u64,
    /// One way.
    pub(crate) delay_ms: u64,
    /// What waits for the link at most.
    pub(crate) queue_bytes: u64,
}

/// Emulated links at work; dropped, they end.
#[derive(Debug)]
pub(crate) struct Emulator {}

impl Emulator {
    pub(crate) fn start(_namespace: &Namespace, lines: &[Line]) -> Result<Emulator> {
        anyhow::bail!("not yet: {lines:?}")
    }
}
