//! What `fairspan trace flows` tells: a table, JSON, CSV, and a page with plots.

use super::active::{Series, shown};
use crate::report::html::Page;
use crate::report::plot::{Axis, Line, Plot};
use crate::report::text::Rows;
use fairspan_core::units::Span;
use fairspan_trace::flows::{Config, Flows, Row};
use fairspan_trace::skipped::Tally;
use serde::Serialize;
use serde_json::{Map, Number, Value};
use std::fmt::Write as _;

/// What `--json` prints.
#[derive(Serialize)]
pub(super) struct Document {
    packets: u64,
    classified: u64,
    skipped: Map<String, Value>,
    table_size: u32,
    results: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    definition: String,
    timeout_s: Option<Number>,
    flows: u64,
    max_active: u32,
    operations: u64,
    collisions: u64,
    hash_efficiency: f64,
}

impl Document {
    /// Of these counts, and a hash table of so many chains.
    pub(super) fn of(flows: &Flows, table_size: u32) -> Document {
        let tally = flows.tally();
        Document {
            packets: tally.packets,
            classified: tally.classified,
            skipped: skipped(tally),
            table_size,
            results: flows.rows().map(|row| Entry::of(&row, tally.packets)).collect(),
        }
    }
}

/// Reasons and numbers.
pub(crate) fn skipped(tally: &Tally) -> Map<String, Value> {
    tally.skipped().map(|(reason, packets)| (reason.name().to_owned(), packets.into())).collect()
}

impl Entry {
    fn of(row: &Row, packets: u64) -> Entry {
        let counts = &row.counts;
        Entry {
            definition: row.definition.to_string(),
            timeout_s: row.timeout.and_then(seconds),
            flows: counts.created,
            max_active: counts.most,
            operations: counts.created + counts.expired,
            collisions: counts.collisions,
            hash_efficiency: row.hash_efficiency(packets),
        }
    }
}

/// Whole where it is.
fn seconds(span: Span) -> Option<Number> {
    match span.as_nanos() {
        whole if whole % 1_000_000_000 == 0 => Some((whole / 1_000_000_000).into()),
        _ => Number::from_f64(span.as_secs_f64()),
    }
}

/// The results as CSV.
pub(super) fn csv(flows: &Flows) -> String {
    let mut out = "definition,timeout_s,flows,max_active,operations,collisions,hash_efficiency\n".to_owned();
    for row in flows.rows() {
        let Entry { definition, timeout_s, flows, max_active, operations, collisions, hash_efficiency } =
            Entry::of(&row, flows.tally().packets);
        let timeout = timeout_s.map_or_else(|| "none".to_owned(), |number| number.to_string());
        let _ =
            writeln!(out, "{definition},{timeout},{flows},{max_active},{operations},{collisions},{hash_efficiency}");
    }
    out
}

/// The results as a table.
pub(super) fn rows(flows: &Flows) -> Rows {
    let tally = flows.tally();
    let head =
        ["definition", "timeout", "flows", "most at once", "most sampled", "operations", "collisions", "efficiency"];
    let cells = |one: Row| {
        let Entry { definition, flows, max_active, operations, collisions, hash_efficiency, .. } =
            Entry::of(&one, tally.packets);
        vec![
            definition,
            shown(one.timeout),
            flows.to_string(),
            max_active.to_string(),
            one.most_sampled.to_string(),
            operations.to_string(),
            collisions.to_string(),
            format!("{hash_efficiency:.6}"),
        ]
    };
    Rows { head: head.map(str::to_owned).to_vec(), rows: flows.rows().map(cells).collect(), more: 0 }
}

/// What the table is of.
pub(super) fn about(flows: &Flows, table_size: u32) -> String {
    let span = flows.span().as_secs_f64();
    format!("{}, {span:.3} s; a hash table of {table_size} chains", packets(flows.tally()))
}

/// The page. `gateway`: what counts under a gateway depend on.
pub(super) fn page(flows: &Flows, config: &Config, gateway: Option<&str>, series: &Series) -> String {
    let mut page = Page::new("Flows");
    page.note(&format!("{}.", about(flows, config.table_size)));
    gateway.into_iter().for_each(|told| page.note(&format!("{told}.")));
    page.table(&rows(flows));
    let timeouts = config.timeouts.len();
    let line = |name: String, place: usize| Line { name, points: series.line(place), errors: Vec::new(), paper: false };
    let timeout = |timeout: &Option<Span>| match timeout {
        None => "no timeout".to_owned(),
        some => format!("timeout {}", shown(*some)),
    };
    page.heading("Active flows over time");
    for (number, definition) in config.definitions.iter().enumerate() {
        let lines = config.timeouts.iter().enumerate();
        let lines = lines.map(|(place, span)| line(timeout(span), number * timeouts + place));
        page.plot(&plot(format!("{definition}, by timeout (as Figure 2.3)"), lines.collect()));
    }
    if config.definitions.len() > 1 {
        for (place, span) in config.timeouts.iter().enumerate() {
            let lines = config.definitions.iter().enumerate();
            let lines = lines.map(|(number, definition)| line(definition.to_string(), number * timeouts + place));
            page.plot(&plot(format!("{}, by definition (as Figure 2.4)", timeout(span)), lines.collect()));
        }
    }
    page.finish()
}

fn plot(title: String, lines: Vec<Line>) -> String {
    let x = Axis { label: "time (s)".to_owned(), log: false };
    let y = Axis { label: "active flows".to_owned(), log: false };
    Plot { title, x, y, lines }.svg()
}

/// All packets, and those that were skipped.
pub(crate) fn packets(tally: &Tally) -> String {
    let skipped: Vec<String> =
        tally.skipped().map(|(reason, packets)| format!("{} {packets}", reason.name())).collect();
    let skipped =
        if skipped.is_empty() { "none skipped".to_owned() } else { format!("skipped: {}", skipped.join(", ")) };
    format!("{} packets, {} of them classified, {skipped}", tally.packets, tally.classified)
}
