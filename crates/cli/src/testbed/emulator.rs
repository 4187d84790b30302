//! Emulated links between the interfaces of a namespace, by this project's own emulator, in this process.

use super::Namespace;
use anyhow::{Context, Result};
use fairspan_live::emulate::{self, Link, Options, PortName, Profile};

/// A link to emulate.
#[derive(Clone, Debug)]
pub(crate) struct Line<'a> {
    /// What it is called.
    pub(crate) name: &'a str,
    /// The interfaces it joins.
    pub(crate) ends: [&'a str; 2],
    /// Its rate, delay, loss and queue, from the first of the ends to the second and back.
    pub(crate) profiles: [Profile; 2],
}

/// Starts the links between interfaces of `namespace`; they end when the emulator is dropped.
pub(crate) fn start<'a>(namespace: &Namespace, lines: impl IntoIterator<Item = Line<'a>>) -> Result<emulate::Emulator> {
    let links = lines
        .into_iter()
        .map(|line| {
            let [left, right] =
                line.ends.map(|device| PortName { namespace: Some(namespace.name().into()), device: device.into() });
            let [forward, backward] = line.profiles;
            Link { name: line.name.into(), a: left, b: right, forward, backward }
        })
        .collect();
    let emulator = emulate::Emulator::start(links, Options::default()).context("cannot start the link emulator")?;
    for warning in emulator.warnings() {
        eprintln!("fairspan: the emulated links are less true than they should be: {warning}");
    }
    Ok(emulator)
}
