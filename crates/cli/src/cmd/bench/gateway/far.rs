//! Downloads over a long link.

use super::bed::{Bed, CONGESTION};
use super::relays::Gateway;
use crate::measure::exchange::Exchange;
use crate::measure::load::{Clients, Ending, Fate, Plan, Record, Served};
use crate::testbed::Interrupt;
use anyhow::{Context, Result, bail};
use fairspan_core::quantity::exact_rate;
use fairspan_core::units::{Rate, Span};
use fairspan_live::emulate::{Loss, Profile};
use std::path::Path;
use std::time::Duration;

/// After so long without a byte on any connection, none will come.
const PATIENCE: Duration = Duration::from_secs(120);

/// Where connections are split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Nowhere: the gateways forward.
    Unsplit,
    /// At the server's side of the link.
    AtServer,
    /// At both sides.
    AtBoth,
    /// At both sides, each of which is an end of a reliable bond over the link.
    Bond,
}

impl Way {
    pub(super) const ALL: [Way; 4] = [Way::Unsplit, Way::AtServer, Way::AtBoth, Way::Bond];

    pub(super) fn name(self) -> &'static str {
        match self {
            Way::Unsplit => "unsplit",
            Way::AtServer => "a gateway at the server's side",
            Way::AtBoth => "a gateway at each side",
            Way::Bond => "the same, a bond between them",
        }
    }
}

/// A long link, the same both ways.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Long {
    pub(super) rate: Rate,
    pub(super) round_trip: Span,
    /// The share of frames that it loses.
    pub(super) loss: f64,
}

impl Long {
    pub(super) fn profile(&self) -> Profile {
        let mut profile = Profile::new(self.rate, Span::from_nanos(self.round_trip.as_nanos() / 2));
        if self.loss > 0.0 {
            profile.loss = Loss::Independent(self.loss);
        }
        profile
    }

    pub(super) fn mbit(&self) -> f64 {
        self.rate.as_bits_per_sec() as f64 / 1e6
    }

    /// The product of rate and delay, in bytes.
    pub(super) fn product(&self) -> u64 {
        (self.rate.as_bits_per_sec() as f64 / 8.0 * self.round_trip.as_nanos() as f64 / 1e9) as u64
    }

    /// What stands in `[gateway]` of the gateways at its ends; `more` stands in place of what it names too.
    pub(super) fn settings(&self, way: Way, more: &[String]) -> Vec<String> {
        // A little below what the link carries, so that packets wait in the gateway. A bond adds headers of its own.
        let hundredths = if way == Way::Bond { 93 } else { 98 };
        let rate = Rate::from_bits_per_sec(self.rate.as_bits_per_sec() / 100 * hundredths);
        settings(
            &[
                format!("rate = \"{}\"", exact_rate(rate)),
                "congestion = \"bbr\"".to_owned(),
                format!("initial_window = \"{}kB\"", self.product() / 1000),
                "bypass_below = \"0ms\"".to_owned(),
            ],
            more,
        )
    }
}

/// The lines of `own` whose setting is not in `more`, and those of `more`.
pub(super) fn settings(own: &[String], more: &[String]) -> Vec<String> {
    let name = |line: &str| line.split('=').next().unwrap_or_default().trim().to_owned();
    let own = own.iter().filter(|line| more.iter().all(|other| name(other) != name(line)));
    own.chain(more).cloned().collect()
}

/// Starts the gateways that `way` has.
pub(super) fn gateways(
    interrupt: &Interrupt,
    bed: &Bed,
    way: Way,
    settings: &[String],
    directory: &Path,
) -> Result<Vec<Gateway>> {
    let namespaces = match way {
        Way::Unsplit => &[][..],
        Way::AtServer => bed.gateways.get(1..).context("no gateway at the server's side")?,
        Way::AtBoth => &bed.gateways[..],
        Way::Bond => return Gateway::start_bond(interrupt, bed, settings, directory),
    };
    namespaces.iter().map(|namespace| Gateway::start(interrupt, namespace, settings, directory)).collect()
}

/// One download.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Download {
    /// From the first SYN to the last byte.
    pub(super) seconds: f64,
    /// From the first SYN to the first byte.
    pub(super) first_s: f64,
    /// Of application data, from the first byte to the last.
    pub(super) mbit: f64,
}

/// Downloads `bytes`, each of which is checked.
pub(super) fn download(interrupt: &Interrupt, bed: &Bed, bytes: u64) -> Result<Download> {
    let to = bed.server_address()?;
    let plan = Plan { to, from: None, up: 0, down: bytes, ending: Ending::Orderly };
    let clients = Clients { congestion: CONGESTION, opening: 1, checks: true, patience: PATIENCE };
    let exchange = Exchange { from: &bed.client, to: &bed.server, listen: to, plans: &[plan], clients };
    let (record, served) =
        exchange.run(interrupt, |_, _| Ok(true), |mut results| results.records.pop().context("no connection"))?;
    exact(&record, served)?;
    let (first, last) = (record.first.context("no byte came")?, record.last.context("no byte came")?);
    let between = (last - first).as_secs_f64().max(1e-9);
    Ok(Download { seconds: last.as_secs_f64(), first_s: first.as_secs_f64(), mbit: bytes as f64 * 8.0 / between / 1e6 })
}

fn exact(record: &Record, served: Served) -> Result<()> {
    if record.fate != Fate::Exact || served.wrong > 0 {
        bail!(
            "a download did not end well: {:?} after {} bytes; at the server {served:?}",
            record.fate,
            record.received
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_stands_in_place_of_the_default() {
        let link = Long { rate: Rate::from_mbit(70), round_trip: Span::from_millis(600), loss: 0.0 };
        assert_eq!(link.product(), 5_250_000);
        let lines = link.settings(Way::AtBoth, &["congestion = \"cubic\"".to_owned(), "queue = \"64kB\"".to_owned()]);
        assert_eq!(
            lines,
            [
                "rate = \"68600kbit\"",
                "initial_window = \"5250kB\"",
                "bypass_below = \"0ms\"",
                "congestion = \"cubic\"",
                "queue = \"64kB\""
            ]
        );
    }
}
