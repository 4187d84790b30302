//! What `bench sim` found: the JSON document and the tables.

use super::divided::Way;
use super::scaling::Point;
use crate::measure::median;
use crate::measure::process::Run;
use comfy_table::{Cell, CellAlignment, Table, presets};
use serde::Serialize;
use std::collections::BTreeMap;

/// One scenario: our runs and those of the rivals that could run it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples {
    /// Its name.
    pub(crate) scenario: &'static str,
    /// Events that ours handles.
    pub(crate) events: u64,
    /// What came out of ours, in words.
    pub(crate) outcome: String,
    /// Ours.
    pub(crate) own: Vec<Run>,
    /// Theirs.
    pub(crate) rivals: Vec<Contestant>,
}

/// One rival's runs of one scenario.
#[derive(Clone, Debug)]
pub(crate) struct Contestant {
    /// Its name.
    pub(crate) name: &'static str,
    /// Whether it stands in the JSON document.
    pub(crate) reported: bool,
    /// Its runs that count.
    pub(crate) runs: Vec<Run>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Wall {
    wall_s: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Scenario {
    name: &'static str,
    wall_s: f64,
    peak_mb: f64,
    events: u64,
    rivals: BTreeMap<&'static str, Wall>,
}

/// The document that `fairspan bench sim --json` prints.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Report {
    scenarios: Vec<Scenario>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    scaling: Vec<Point>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    divided: Vec<Way>,
}

impl Report {
    /// Sums up: medians. A rival without a run is left out; `None` if ours has none.
    pub(crate) fn new(samples: &[Samples], scaling: Vec<Point>, divided: Vec<Way>) -> Option<Report> {
        let scenarios = samples.iter().map(|samples| {
            let rivals = samples.rivals.iter().filter(|rival| rival.reported);
            Some(Scenario {
                name: samples.scenario,
                wall_s: rounded(wall(&samples.own)?),
                peak_mb: (peak(&samples.own)? * 100.0).round() / 100.0,
                events: samples.events,
                rivals: rivals.filter_map(|r| Some((r.name, Wall { wall_s: rounded(wall(&r.runs)?) }))).collect(),
            })
        });
        Some(Report { scenarios: scenarios.collect::<Option<_>>()?, scaling, divided })
    }

    /// The tables, for people.
    pub(crate) fn tables(&self, samples: &[Samples], metrics: &str) -> String {
        let mut table = table(&["scenario", "simulator", "wall s", "least", "peak MB", "ours / its", "result"], 2);
        for samples in samples {
            let own = wall(&samples.own);
            let ours = ("fairspan", &samples.own, samples.outcome.clone());
            let theirs = samples.rivals.iter().filter_map(|rival| {
                let run = rival.runs.last()?;
                let said: Vec<&str> = run.output.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
                Some((rival.name, &rival.runs, said.join(", ")))
            });
            for (row, (name, runs, outcome)) in std::iter::once(ours).chain(theirs).enumerate() {
                let (Some(median), Some(peak)) = (wall(runs), peak(runs)) else { continue };
                let least = runs.iter().map(|run| run.wall_s).fold(f64::INFINITY, f64::min);
                let share = own.filter(|_| row > 0).map_or("-".to_owned(), |own| format!("{:.2}", own / median));
                let cells = [
                    if row == 0 { samples.scenario.to_owned() } else { String::new() },
                    name.to_owned(),
                    format!("{median:.3}"),
                    format!("{least:.3}"),
                    format!("{peak:.1}"),
                    share,
                    outcome,
                ];
                add(&mut table, &cells, 2);
            }
        }
        let runs = samples.first().map_or(0, |samples| samples.own.len());
        let mut text = format!(
            "{table}\n\nWhole processes, from start to end: medians of {runs} interleaved run(s) after one that does not \
             count.\nMB = 10^6 bytes, resident at most. Ours computes, as `fairspan sim` does by itself:\n{metrics}.\n\
             The rivals count bytes or packets of each flow, and nothing else.\n"
        );
        if !self.scaling.is_empty() {
            let mut curve = self::table(&["traffic", "flows", "events", "ns an event", "other s", "peak MB"], 1);
            for point in &self.scaling {
                add(&mut curve, &point.cells(), 1);
            }
            text += &format!(
                "\nThe same traffic shared out among more and more flows, each with a link of its own. Processor time of one\n\
                 simulated second's events; the other time goes into reading the scenario, building and reporting:\n{curve}\n"
            );
        }
        if !self.divided.is_empty() {
            let mut ways = self::table(&["partitions", "threads", "wall s", "times as fast"], 0);
            for way in &self.divided {
                add(&mut ways, &way.cells(), 0);
            }
            text += &format!(
                "\nA fat tree of 1,024 hosts at 10 Gbit/s, each of which sends to another one, for 2 ms: whole processes, medians of\n\
                 {runs} interleaved run(s) after one that does not count. Threads change nothing but the time:\n{ways}\n"
            );
        }
        text
    }
}

fn wall(runs: &[Run]) -> Option<f64> {
    median(&runs.iter().map(|run| run.wall_s).collect::<Vec<_>>())
}

fn peak(runs: &[Run]) -> Option<f64> {
    median(&runs.iter().map(|run| run.peak_mb).collect::<Vec<_>>())
}

/// A tenth of a millisecond.
fn rounded(seconds: f64) -> f64 {
    (seconds * 1e4).round() / 1e4
}

fn table(head: &[&str], words: usize) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header(head.iter().enumerate().map(|(column, text)| aligned(column, text, words)));
    table
}

fn add(table: &mut Table, cells: &[String], words: usize) {
    table.add_row(cells.iter().enumerate().map(|(column, text)| aligned(column, text, words)));
}

/// The first columns, and one behind the numbers, are words.
fn aligned(column: usize, text: &str, words: usize) -> Cell {
    let left = column < words || column == 6;
    Cell::new(text).set_alignment(if left { CellAlignment::Left } else { CellAlignment::Right })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(walls: &[f64]) -> Vec<Run> {
        let run = |&wall_s: &f64| Run { wall_s, cpu_s: wall_s, peak_mb: 5.123, output: "packets 7\n".into() };
        walls.iter().map(run).collect()
    }

    fn samples() -> Samples {
        let rival = |name, reported, walls| Contestant { name, reported, runs: runs(walls) };
        Samples {
            scenario: "dumbbell",
            events: 12,
            outcome: "packets 8".into(),
            own: runs(&[0.05, 0.04, 0.061_26]),
            rivals: vec![rival("ns2", true, &[0.2]), rival("ns2, lean", false, &[0.1]), rival("ns3", true, &[])],
        }
    }

    #[test]
    fn the_json_has_the_documented_keys_and_medians() {
        let report = Report::new(&[samples()], Vec::new(), Vec::new()).unwrap();
        assert_eq!(
            serde_json::to_string(&report).unwrap(),
            r#"{"scenarios":[{"name":"dumbbell","wall_s":0.05,"peak_mb":5.12,"events":12,"rivals":{"ns2":{"wall_s":0.2}}}]}"#
        );
    }

    #[test]
    fn without_runs_of_our_own_there_is_no_report() {
        assert_eq!(Report::new(&[Samples { own: Vec::new(), ..samples() }], Vec::new(), Vec::new()), None);
    }

    #[test]
    fn the_table_has_every_contestant_that_ran_its_share_and_what_came_out() {
        let samples = [samples()];
        let text = Report::new(&samples, Vec::new(), Vec::new()).unwrap().tables(&samples, "the metrics");
        let row =
            |name: &str| text.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{name}: {text}"));
        assert!(row("fairspan ").contains("0.050") && row("fairspan ").contains("packets 8"), "{text}");
        assert!(row("ns2, lean").contains("0.50") && row("ns2, lean").contains("packets 7"), "{text}");
        assert!(!text.contains("ns3") && text.contains("the metrics"), "{text}");
    }
}
