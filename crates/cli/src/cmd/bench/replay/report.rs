//! What `bench replay` found: the JSON document and the table.

use super::folder::{LEAD, Recording};
use crate::cmd::bench::share;
use comfy_table::{Cell, CellAlignment, Table, presets};
use serde::Serialize;

/// What share of the processors' time in use leaves them none to spare.
const BUSY: f64 = 0.9;

/// What was the same for all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// TCP's congestion control.
    pub(super) cc: &'static str,
    /// The bond's mode.
    pub(super) mode: &'static str,
    pub(super) simulated: bool,
    /// What capacities were multiplied by.
    pub(super) scale: f64,
    /// The second of each file at which it began.
    pub(super) from: u32,
}

/// What came out of one recording.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Found {
    /// Mbit/s of application data through the bond.
    pub(super) mbit: f64,
    /// What a full Ethernet frame carries of application data through the bond.
    pub(super) share: f64,
    /// The share of the processors' time that was in use meanwhile; of a simulation none.
    pub(super) processors: Option<f64>,
}

impl Found {
    /// Of a bond of mode `mode` whose largest packet has `mtu` bytes.
    pub(super) fn new(mbit: f64, mode: &str, mtu: usize, processors: Option<f64>) -> Found {
        Found { mbit, share: share::payload(mtu as f64, mode), processors }
    }
}

/// Says what came out of one recording, as soon as it is known.
pub(super) fn tell(recording: &Recording, found: &Found) {
    eprintln!(
        "{:<36} {} links  capacity {:7.2}  best alone {:7.2}  bond {:7.2} Mbit/s",
        recording.name,
        recording.links.len(),
        recording.capacity(found.share),
        recording.best().1,
        found.mbit
    );
}

/// The document that `fairspan bench replay --json` prints.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    series: Vec<Row>,
    #[serde(skip)]
    settings: Settings,
}

/// One file.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    links: Vec<String>,
    cc: &'static str,
    mode: &'static str,
    simulated: bool,
    from: u32,
    seconds: f64,
    scale: f64,
    capacity_mbit: f64,
    best_single: String,
    best_single_mbit: f64,
    bond_mbit: f64,
    payload_share: f64,
    ratio_of_sum: f64,
    ratio_of_best: f64,
    processors_percent: Option<f64>,
}

impl Report {
    /// Puts what was found beside what the links carry.
    pub(super) fn new(settings: Settings, recordings: &[Recording], found: &[Found]) -> Report {
        let row = |(recording, found): (&Recording, &Found)| {
            let (capacity, (best, alone)) = (recording.capacity(found.share), recording.best());
            Row {
                name: recording.name.clone(),
                links: recording.links.iter().map(|link| link.name.clone()).collect(),
                cc: settings.cc,
                mode: settings.mode,
                simulated: settings.simulated,
                from: settings.from,
                seconds: rounded(recording.length.as_secs_f64()),
                scale: settings.scale,
                capacity_mbit: rounded(capacity),
                best_single: best.to_owned(),
                best_single_mbit: rounded(alone),
                bond_mbit: rounded(found.mbit),
                payload_share: rounded(found.share),
                ratio_of_sum: rounded(found.mbit / capacity),
                ratio_of_best: rounded(found.mbit / alone),
                processors_percent: found.processors.map(|share| (share * 100.0).round()),
            }
        };
        Report { series: recordings.iter().zip(found).map(row).collect(), settings }
    }

    /// The table, for people.
    pub(super) fn table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::UTF8_BORDERS_ONLY);
        let head = ["", "links", "seconds", "capacity", "best alone", "", "bond", "of sum", "of best"];
        table.set_header(head.iter().enumerate().map(|(column, text)| aligned(column, text)));
        for row in &self.series {
            let cells = [
                row.name.clone(),
                row.links.len().to_string(),
                row.seconds.to_string(),
                format!("{:.1}", row.capacity_mbit),
                row.best_single.clone(),
                format!("{:.1}", row.best_single_mbit),
                format!("{:.1}", row.bond_mbit),
                format!("{:.0} %", 100.0 * row.ratio_of_sum),
                format!("{:.0} %", 100.0 * row.ratio_of_best),
            ];
            table.add_row(cells.iter().enumerate().map(|(column, text)| aligned(column, text)));
        }
        format!("{table}\n\n{}{}", self.summary(), self.warning())
    }

    fn summary(&self) -> String {
        let Settings { cc, mode, simulated, scale, from } = self.settings;
        let ratios = || self.series.iter().map(|row| row.ratio_of_sum);
        let mean = ratios().sum::<f64>() / self.series.len().max(1) as f64;
        let worst = ratios().fold(f64::INFINITY, f64::min);
        let above = self.series.iter().filter(|row| row.ratio_of_best > 1.0).count();
        format!(
            "Of the sum: mean {:.1} %, least {:.1} %; above the best link alone: {above} of {}.\n\
             {} TCP connection ({cc}) through a bond (mode {mode}, no rate configured), Mbit/s (10^6 bits) of application data\n\
             from second {from} of each file on, after {} s at the mean rates{}. Capacity: the mean sum of the rates less the\n\
             bond's headers. Best alone: the largest mean rate of one link, known only afterwards, less plain TCP's headers.\n",
            100.0 * mean,
            100.0 * worst,
            self.series.len(),
            if simulated { "Simulated: one" } else { "One real" },
            LEAD.as_secs_f64(),
            if scale == 1.0 { String::new() } else { format!("; all capacities times {scale}") },
        )
    }

    /// Where the machine and not the links may have been what limited.
    fn warning(&self) -> String {
        let busy = |row: &&Row| row.processors_percent.is_some_and(|percent| percent >= 100.0 * BUSY);
        let names: Vec<&str> = self.series.iter().filter(busy).map(|row| row.name.as_str()).collect();
        if names.is_empty() {
            return String::new();
        }
        format!(
            "The processors had no time to spare, so that this machine may be what limited, with: {}.\n--scale 0.25 replays a \
             quarter of the rates, and --simulated needs no speed.\n",
            names.join(", ")
        )
    }
}

/// Three decimals.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

fn aligned(column: usize, text: &str) -> Cell {
    Cell::new(text).set_alignment(if matches!(column, 0 | 4) { CellAlignment::Left } else { CellAlignment::Right })
}

#[cfg(test)]
mod tests {
    use super::super::folder::Track;
    use super::*;
    use fairspan_core::link::Series;
    use fairspan_core::units::{Rate, Span};

    #[test]
    fn the_json_has_the_documented_keys_and_a_busy_machine_is_told() {
        let track = |name: &str, mbit| Track {
            name: name.into(),
            series: Series::new(vec![(Span::ZERO, Rate::from_mbit(mbit))], Span::from_secs(2)).unwrap(),
            delay: Span::from_millis(20),
        };
        let links = vec![track("one", 30), track("two", 10)];
        let recording = Recording { name: "r".into(), links, length: Span::from_secs(2) };
        let settings = Settings { cc: "cubic", mode: "reliable", simulated: false, scale: 1.0, from: 3 };
        let report = Report::new(settings, &[recording], &[Found::new(28.0, "ordered", 1431, Some(0.951))]);
        assert_eq!(
            serde_json::to_string(&report).unwrap(),
            r#"{"series":[{"name":"r","links":["one","two"],"cc":"cubic","mode":"reliable","simulated":false,"from":3,"seconds":2.0,"scale":1.0,"capacity_mbit":36.433,"best_single":"one","best_single_mbit":28.692,"bond_mbit":28.0,"payload_share":0.911,"ratio_of_sum":0.769,"ratio_of_best":0.976,"processors_percent":95.0}]}"#
        );
        let table = report.table();
        assert!(table.contains("mean 76.9 %, least 76.9 %; above the best link alone: 0 of 1"), "{table}");
        assert!(table.contains("no time to spare") && table.contains("with: r."), "{table}");
    }
}
