//! What the figures of chapter 3 vary and measure, and their values at a point.

use crate::claims::bench::FigureRun;
use crate::claims::variation::is;
use fairspan_sim::results::Results;

pub(super) const QUEUE: &str = "link.bottleneck.queue";
pub(super) const BUFFER: &str = "link.bottleneck.buffer";
pub(super) const ROOM: &str = "flow.f#.room";
pub(super) const RED: &str = "red";
pub(super) const LQD: &str = "longest-queue-front";
pub(super) const RND: &str = "random-longest";
pub(super) const PFD: &str = "pfd";
pub(super) const OTHERS: [&str; 3] = [RED, LQD, RND];
pub(super) const QUASI: &str = "pfd:quasi=on";
pub(super) const JAIN: &str = "Jain's index";
pub(super) const MBIT: f64 = 1e-6;

pub(super) fn goodput(results: &Results) -> f64 {
    results.goodput * MBIT
}

pub(super) fn jain(results: &Results) -> f64 {
    results.jain.unwrap_or(0.0)
}

/// Both together: what the paper calls a combined perspective, which it does not define.
pub(super) fn both(results: &Results) -> f64 {
    goodput(results) * jain(results)
}

/// A value at a point, seed by seed.
pub(super) fn values(run: &FigureRun, wanted: &[(&str, &str)], value: fn(&Results) -> f64) -> Vec<f64> {
    let here = run.batch.finished.iter().filter(|run| wanted.iter().all(|(name, at)| is(&run.parameters, name, at)));
    here.map(|run| value(&run.results)).collect()
}
