//! Emulated links between the interfaces of a namespace, by this project's own emulator, in this process.

use super::Namespace;
use anyhow::{Context, Result};
use fairspan_core::units::{Rate, Span};
use fairspan_live::emulate::{self, Limit, Link, Options, PortName, Profile};

/// A link to emulate, the same in both directions, without loss.
#[derive(Clone, Debug)]
pub(crate) struct Line<'a> {
    /// What it is called.
    pub(crate) name: &'a str,
    /// The interfaces it joins.
    pub(crate) ends: [&'a str; 2],
    /// What it carries, Ethernet headers included.
    pub(crate) rate: Rate,
    /// One way.
    pub(crate) delay: Span,
    /// How many bytes may wait for it.
    pub(crate) queue: u64,
}

/// Starts the links between interfaces of `namespace`; they end when the emulator is dropped.
pub(crate) fn start(namespace: &Namespace, lines: &[Line<'_>]) -> Result<emulate::Emulator> {
    let links = lines
        .iter()
        .map(|line| {
            let mut profile = Profile::new(line.rate, line.delay);
            profile.queue = Limit::Bytes(line.queue);
            let [left, right] =
                line.ends.map(|device| PortName { namespace: Some(namespace.name().into()), device: device.into() });
            Link::new(line.name, left, right, profile)
        })
        .collect();
    let emulator = emulate::Emulator::start(links, Options::default()).context("cannot start the link emulator")?;
    for warning in emulator.warnings() {
        eprintln!("fairspan: the emulated links are less true than they should be: {warning}");
    }
    Ok(emulator)
}
