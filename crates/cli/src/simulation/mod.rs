//! Scenarios run on a terminal: with a line that tells how far they are, until a signal comes.

mod progress;

pub(crate) use fairspan_study::simulation::{Batch, Captures, Expected, Finished, bad_input, expected, read};

use crate::testbed::Interrupt;
use fairspan_sim::scenario::File;
use fairspan_study::simulation::{self, Meter};
use progress::Progress;

/// How to run.
#[derive(Debug, Default)]
pub(crate) struct Options<'a> {
    /// Threads at most; 0: as many as there are cores.
    pub(crate) jobs: usize,
    /// What is recorded of each run.
    pub(crate) captures: Option<&'a Captures>,
    /// What the progress is of; none is shown without it.
    pub(crate) progress: Option<&'a str>,
}

/// Runs all of `file`.
///
/// # Errors
/// As for [`simulation::run`].
pub(crate) fn run(file: &File, options: &Options<'_>, interrupt: &Interrupt) -> Result<Batch, fairspan_study::Error> {
    let mut progress = Progress::new(options.progress);
    let how = simulation::Options { jobs: options.jobs, captures: options.captures, ..Default::default() };
    let outcome = simulation::run(file, &how, &mut |meter: &Meter| {
        progress.show(meter);
        interrupt.check().is_err()
    });
    progress.finish();
    outcome
}
