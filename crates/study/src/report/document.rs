//! The JSON document of a simulation: what `sim --json` prints and `summary.json` holds.
//!
//! Nothing in it depends on the machine: the same file with the same seeds gives the same bytes.

use super::estimate::{Estimate, alike, estimates};
use crate::simulation::{Batch, Expected, Finished};
use fairspan_sim::results::{
    BondResult, Conservation, FlowResult, LinkResult, MediumResult, Partitions, RingResult, Series, SplitResult,
};
use fairspan_sim::scenario::File;
use serde::Serialize;
use serde_json::{Map, Value};

/// The program's version.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The whole.
#[derive(Serialize)]
pub struct Document<'a> {
    /// Of the program.
    version: &'static str,
    /// The scenario.
    scenario: Head<'a>,
    /// Runs in the file: points of its sweeps, times seeds.
    planned: usize,
    /// Whether a signal ended it before all were done.
    interrupted: bool,
    /// Those that were.
    runs: Vec<Run<'a>>,
    /// What several seeds tell of the metrics that the file plots or expects, point by point.
    estimates: Vec<Estimate<'a>>,
    /// Points at which all seeds gave the same to the digit: they are no samples there.
    seeds_alike: Vec<usize>,
    /// What the file expects, and what came out.
    expectations: Vec<Judged<'a>>,
    /// Whether all expectations hold; `null` without any.
    holds: Option<bool>,
}

#[derive(Serialize)]
struct Head<'a> {
    file: &'a str,
    title: &'a str,
    paper: Option<&'a str>,
    figure: Option<&'a str>,
    /// All of the file, and what was set from outside: with the program's version, what it takes to run this again.
    text: &'a str,
    settings: Vec<Setting<'a>>,
}

#[derive(Serialize)]
struct Setting<'a> {
    key: &'a str,
    value: &'a str,
}

/// One run. Times in seconds, rates in bit/s, sizes in bytes.
#[derive(Serialize)]
struct Run<'a> {
    run: usize,
    point: usize,
    parameters: Map<String, Value>,
    seed: u64,
    /// Hexadecimal: it has 64 bits, and many readers of JSON have 53.
    log_hash: String,
    events: u64,
    measured_s: f64,
    goodput: f64,
    jain: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partitions: Option<Partitions>,
    conservation: &'a Conservation,
    flows: &'a [FlowResult],
    links: &'a [LinkResult],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    media: &'a [MediumResult],
    bonds: Vec<Bond<'a>>,
    rings: &'a [RingResult],
    splits: &'a [SplitResult],
    series_interval_s: f64,
    series: &'a [Series],
}

#[derive(Serialize)]
struct Bond<'a> {
    name: &'a str,
    held_max: u64,
    counters: Map<String, Value>,
}

#[derive(Serialize)]
struct Judged<'a> {
    at: Map<String, Value>,
    #[serde(flatten)]
    expected: Numbers<'a>,
}

#[derive(Serialize)]
struct Numbers<'a> {
    metric: &'a str,
    unit: &'a str,
    value: Option<f64>,
    within: Option<f64>,
    least: Option<f64>,
    most: Option<f64>,
    ours: f64,
    deviation: Option<f64>,
    holds: bool,
    source: &'a str,
    claim: Option<&'a str>,
    key: Option<&'a str>,
}

impl<'a> Document<'a> {
    /// The document of what was run of `file`.
    pub fn new(file: &'a File, batch: &'a Batch, expected: &'a [Expected]) -> Document<'a> {
        Document {
            version: VERSION,
            scenario: Head {
                file: file.name(),
                title: file.title(),
                paper: file.paper(),
                figure: file.figure(),
                text: file.text(),
                settings: file.settings().iter().map(|(key, value)| Setting { key, value }).collect(),
            },
            planned: batch.planned,
            interrupted: batch.interrupted,
            runs: batch.finished.iter().map(run).collect(),
            estimates: estimates(file, &batch.finished),
            seeds_alike: alike(&batch.finished).points,
            expectations: expected.iter().map(judged).collect(),
            holds: (!expected.is_empty()).then(|| expected.iter().all(|expected| expected.holds)),
        }
    }

    /// On one line.
    pub fn to_json(&self) -> String {
        // Keys are texts, and numbers that JSON does not know become `null`: nothing of this can fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

fn texts(pairs: &[(String, String)]) -> Map<String, Value> {
    pairs.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str()))).collect()
}

fn run(finished: &Finished) -> Run<'_> {
    let results = &finished.results;
    Run {
        run: finished.number,
        point: finished.point,
        parameters: texts(&finished.parameters),
        seed: results.seed,
        log_hash: hash(results.log_hash),
        events: results.events,
        measured_s: results.measured_s,
        goodput: results.goodput,
        jain: results.jain,
        partitions: results.partitions,
        conservation: &results.conservation,
        flows: &results.flows,
        links: &results.links,
        media: &results.media,
        bonds: results.bonds.iter().map(bond).collect(),
        rings: &results.rings,
        splits: &results.splits,
        series_interval_s: results.series_interval_s,
        series: &results.series,
    }
}

fn bond(bond: &BondResult) -> Bond<'_> {
    let counters = bond.counters.iter().map(|(name, value)| (name.clone(), Value::from(*value))).collect();
    Bond { name: &bond.name, held_max: bond.held_max, counters }
}

fn judged(expected: &Expected) -> Judged<'_> {
    let claim = expected.claim.as_ref();
    Judged {
        at: texts(&expected.at),
        expected: Numbers {
            metric: &expected.metric,
            unit: &expected.unit,
            value: expected.value,
            within: expected.within,
            least: expected.least,
            most: expected.most,
            ours: expected.ours,
            deviation: expected.deviation,
            holds: expected.holds,
            source: &expected.source,
            claim: claim.map(|claim| claim.0.as_str()),
            key: claim.map(|claim| claim.1.as_str()).filter(|key| !key.is_empty()),
        },
    }
}

/// The hash of an event log, as it is printed everywhere.
pub(super) fn hash(hash: u64) -> String {
    format!("{hash:016x}")
}
