//! What `fairspan sim` says on a terminal.

use super::document::hash;
use super::estimate::estimates;
use super::text::{self, MOST_ROWS, index, quantity};
use super::transfers;
use super::warnings::warnings;
use super::words::short;
use crate::simulation::{Batch, Expected};
use fairspan_sim::results::Results;
use fairspan_sim::scenario::File;
use std::fmt::Write as _;

/// Everything, as the terminal shows it.
pub fn summary(file: &File, batch: &Batch, expected: &[Expected]) -> String {
    let mut out = String::new();
    let title = if file.title().is_empty() { file.name() } else { file.title() };
    let _ = writeln!(out, "{title}");
    match batch.finished.as_slice() {
        [only] if batch.planned == 1 => one(&mut out, &only.results),
        [] => {}
        finished => out += &text::runs(file, finished, 3 * MOST_ROWS).text(),
    }
    let estimates = estimates(file, &batch.finished);
    if let Some(one) = estimates.first() {
        let _ = writeln!(out, "means over {} seeds, ± half of the interval that holds them with 95 %:", one.seeds);
        out += &text::means(file, &estimates, 3 * MOST_ROWS).text();
    }
    for line in text::pooled(&estimates) {
        let _ = writeln!(out, "{line}");
    }
    let classes = transfers::rows(file, &batch.finished, 3 * MOST_ROWS);
    if !classes.rows.is_empty() {
        out += &classes.text();
    }
    for warning in warnings(&batch.finished) {
        let _ = writeln!(out, "warning: {warning}");
    }
    if !expected.is_empty() {
        out += &text::expectations(file, expected).text();
    }
    if batch.interrupted {
        let _ = writeln!(out, "interrupted: {} of {} runs were finished", batch.finished.len(), batch.planned);
    }
    out
}

/// One run: its tables, and the line that replays it.
fn one(out: &mut String, results: &Results) {
    *out += &text::flows(results).text();
    if !results.links.is_empty() {
        *out += &text::links(results).text();
    }
    if !results.bonds.is_empty() {
        *out += &text::bonds(results).text();
    }
    for rows in text::ring_tables(results) {
        *out += &rows.text();
    }
    if !results.conservation.dropped.is_empty() {
        *out += &text::drops(results).text();
    }
    let conservation = &results.conservation;
    let dropped: u64 = conservation.dropped.iter().map(|dropped| dropped.packets).sum();
    let _ = writeln!(
        out,
        "goodput {} in all over {} s, Jain's index {}",
        quantity(results.goodput, "bit/s"),
        short(results.measured_s),
        index(results.jain)
    );
    let _ = writeln!(
        out,
        "{} packets sent = {} delivered + {dropped} dropped + {} on the way",
        conservation.sent, conservation.delivered, conservation.in_flight
    );
    let _ = writeln!(out, "seed {}, log hash {}, {} events", results.seed, hash(results.log_hash), results.events);
}
