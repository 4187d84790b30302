//! Runs every point and seed of a file, on all cores; the order of the results does not depend on who is first.
//!
//! A single run stays on the calling thread: it needs no other, and a small scenario is over before one has started.

use super::capture::Captures;
use super::progress::{Meter, Progress};
use crate::exit::BadInput;
use crate::testbed::{Interrupt, Interrupted};
use anyhow::{Context, Result};
use fairspan_sim::results::Results;
use fairspan_sim::scenario::{File, Run};
use fairspan_sim::world::{World, WorldError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Events between two looks at signals and progress: a few milliseconds.
const SLICE: u64 = 50_000;
/// How often the screen follows.
const LOOK: Duration = Duration::from_millis(100);

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

/// One run that came to its end.
#[derive(Clone, Debug)]
pub(crate) struct Finished {
    /// Its number in the file, from 0.
    pub(crate) number: usize,
    /// The point of the sweeps, from 0.
    pub(crate) point: usize,
    /// Swept parameters and their values.
    pub(crate) parameters: Vec<(String, String)>,
    /// What came out.
    pub(crate) results: Results,
}

/// The runs of a file that came to their end.
#[derive(Debug)]
pub(crate) struct Batch {
    /// In the order of their numbers.
    pub(crate) finished: Vec<Finished>,
    /// How many there are in the file.
    pub(crate) planned: usize,
    /// Whether a signal came before the last one was done.
    pub(crate) interrupted: bool,
}

/// Runs all of `file`.
///
/// # Errors
/// [`BadInput`] where a combination of swept values cannot be run; what went wrong in a run.
pub(crate) fn run(file: &File, options: &Options<'_>, interrupt: &Interrupt) -> Result<Batch> {
    let planned = file.count();
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = if planned < 2 {
        1
    } else if options.jobs == 0 {
        cores()
    } else {
        options.jobs
    }
    .min(planned);
    let meter = Meter::new(planned);
    let mut progress = Progress::new(options.progress);
    let outcome = if jobs <= 1 {
        in_turn(file, options, interrupt, &meter, &mut progress)
    } else {
        spread(file, jobs, options, interrupt, &meter, &mut progress)
    };
    progress.finish();
    let (mut finished, interrupted) = outcome?;
    finished.sort_by_key(|run| run.number);
    Ok(Batch { finished, planned, interrupted })
}

type Outcome = Result<(Vec<Finished>, bool)>;

/// One run after the other on this thread.
fn in_turn(
    file: &File,
    options: &Options<'_>,
    interrupt: &Interrupt,
    meter: &Meter,
    progress: &mut Progress,
) -> Outcome {
    let mut finished = Vec::new();
    for run in file.runs() {
        let run = run.map_err(super::file::bad_input)?;
        let done = one(run, options.captures, meter, &mut || {
            progress.show(meter);
            interrupt.check().is_err()
        })?;
        match done {
            Some(done) => finished.push(done),
            None => return Ok((finished, true)),
        }
    }
    Ok((finished, false))
}

/// Runs on `jobs` threads, each taking the next one that nobody has.
fn spread(
    file: &File,
    jobs: usize,
    options: &Options<'_>,
    interrupt: &Interrupt,
    meter: &Meter,
    progress: &mut Progress,
) -> Outcome {
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let mut finished = Vec::new();
    let mut failure = None;
    let mut interrupted = false;
    std::thread::scope(|scope| {
        let (report, reports) = mpsc::channel();
        for _ in 0..jobs {
            let (report, next, stop, captures) = (report.clone(), &next, &stop, options.captures);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let Some(run) = file.run(next.fetch_add(1, Ordering::Relaxed)) else { break };
                    let done = run
                        .map_err(|errors| anyhow::Error::new(super::file::bad_input(errors)))
                        .and_then(|run| one(run, captures, meter, &mut || stop.load(Ordering::Relaxed)));
                    if report.send(done).is_err() {
                        break;
                    }
                }
            });
        }
        drop(report);
        loop {
            match reports.recv_timeout(LOOK) {
                Ok(Ok(Some(done))) => finished.push(done),
                // Told to stop half-way.
                Ok(Ok(None)) => {}
                Ok(Err(error)) => {
                    failure.get_or_insert(error);
                    stop.store(true, Ordering::Relaxed);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            progress.show(meter);
            if interrupt.check() == Err(Interrupted) {
                interrupted = finished.len() < file.count();
                stop.store(true, Ordering::Relaxed);
            }
        }
    });
    match failure {
        Some(error) => Err(error),
        None => Ok((std::mem::take(&mut finished), interrupted && finished.len() < file.count())),
    }
}

/// One run from beginning to end, or `None` where `stop` said so half-way.
fn one(
    mut run: Run,
    captures: Option<&Captures>,
    meter: &Meter,
    stop: &mut dyn FnMut() -> bool,
) -> Result<Option<Finished>> {
    let mut capture = match captures {
        Some(captures) => Some(captures.begin(&mut run)?),
        None => None,
    };
    let mut world = World::shared(Arc::new(run.scenario)).map_err(|error| BadInput(error.to_string()))?;
    let end = world.end();
    let mut before = meter.begin(end);
    loop {
        let over = world.advance_some(end, SLICE);
        if let Some(capture) = &mut capture {
            capture.write(&world.take_captured())?;
        }
        meter.advance(&mut before, world.now());
        if over {
            break;
        }
        if stop() {
            return Ok(None);
        }
    }
    let results = world.finish().map_err(failed).with_context(|| format!("run {}", run.number))?;
    if let Some(capture) = capture {
        capture.finish()?;
    }
    meter.end();
    Ok(Some(Finished { number: run.number, point: run.point, parameters: run.parameters, results }))
}

/// A run that is wrong in itself is our error, not the scenario's.
fn failed(error: WorldError) -> anyhow::Error {
    anyhow::Error::new(error)
}
