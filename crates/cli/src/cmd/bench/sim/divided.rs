//! One large world as a whole, and in parts: what more cores bring.

use super::own::{Own, show};
use crate::measure::median;
use crate::measure::process::Run;
use crate::testbed::Interrupt;
use anyhow::{Context, Result};
use serde::Serialize;
use std::path::Path;

/// The scenario, as it stands in the repository.
const SCENARIO: &str = include_str!("../../../../../../scenarios/workloads/large-tree.toml");
/// Parts at most: nobody has measured more.
const MOST: usize = 16;

/// One way to run it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Way {
    /// 1: as a whole.
    partitions: usize,
    /// Threads.
    jobs: usize,
    wall_s: f64,
    /// How many times as fast as the whole.
    speedup: f64,
}

impl Way {
    /// The row of the table.
    pub(crate) fn cells(&self) -> [String; 4] {
        [
            self.partitions.to_string(),
            self.jobs.to_string(),
            format!("{:.2}", self.wall_s),
            format!("{:.2}", self.speedup),
        ]
    }
}

/// Runs it as a whole, in as many parts as there are cores on one thread, and on all cores: medians of so many rounds after one that does not
/// count. Nothing where there is one core.
pub(crate) fn measure(own: &Own, directory: &Path, runs: u32, interrupt: &Interrupt) -> Result<Vec<Way>> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from).min(MOST);
    if cores < 2 {
        eprintln!("one core: nothing to divide a world among");
        return Ok(Vec::new());
    }
    let file = directory.join("large-tree.toml");
    std::fs::write(&file, SCENARIO)?;
    let ways = [(1, 1), (cores, 1), (cores, cores)];
    let mut walls = [(); 3].map(|()| Vec::new());
    let mut replay = None;
    for round in 0..=runs {
        for (place, (partitions, jobs)) in ways.into_iter().enumerate() {
            interrupt.check()?;
            let set = format!("partitions={partitions}");
            let run = own.run_with(&file, &["--set", &set, "--jobs", &jobs.to_string()])?;
            show("large-tree", round, runs, &format!("{partitions} part(s), {jobs} thread(s)"), &run);
            if round > 0 {
                walls[place].push(run.wall_s);
            }
            // Threads change nothing.
            if partitions > 1 {
                let told = told(&run)?;
                let first = replay.get_or_insert_with(|| told.clone());
                anyhow::ensure!(*first == told, "the same file gave {first} and {told}");
            }
        }
    }
    let walls = walls.map(|walls| median(&walls));
    let whole = walls[0].context("no sample")?;
    let way = |((partitions, jobs), wall): ((usize, usize), Option<f64>)| {
        let wall_s = wall.context("no sample")?;
        let rounded = |value: f64| (value * 1e3).round() / 1e3;
        Ok(Way { partitions, jobs, wall_s: rounded(wall_s), speedup: rounded(whole / wall_s) })
    };
    ways.into_iter().zip(walls).map(way).collect()
}

/// The line that replays a run: its seed, its log's hash, its events.
fn told(run: &Run) -> Result<String> {
    let line = run.output.lines().find(|line| line.starts_with("seed ") && line.contains("log hash"));
    line.map(str::to_owned).context("a summary without the hash of its log")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_replays_a_run_is_read_off_the_summary() {
        let run = |output: &str| Run { wall_s: 1.0, cpu_s: 1.0, peak_mb: 1.0, output: output.into() };
        let summary = "7 packets sent\nseed 1, log hash c8780cab663d723c, 460924 events\nwarning: nothing\n";
        assert_eq!(told(&run(summary)).unwrap(), "seed 1, log hash c8780cab663d723c, 460924 events");
        assert!(told(&run("seed 1\n")).is_err());
    }
}
