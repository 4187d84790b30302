//! Runs every point and seed of a file, on all cores; the order of the results does not depend on who is first.
//!
//! A single run stays on the calling thread: it needs no other, and a small scenario is over before one has started.

use super::capture::Captures;
use super::meter::Meter;
use crate::Error;
use fairspan_sim::results::Results;
use fairspan_sim::scenario::{File, Run};
use fairspan_sim::world::World;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Events between two looks at whether to stop: a few milliseconds.
const SLICE: u64 = 50_000;
/// How often whoever watches is asked while other threads run.
const LOOK: Duration = Duration::from_millis(100);

/// Whoever waits for the runs. It is asked on the thread that called [`run`], every tenth of a second or more often.
pub trait Watch {
    /// Looks at how far they are, and says whether to stop.
    fn look(&mut self, meter: &Meter) -> bool;
}

impl<F: FnMut(&Meter) -> bool> Watch for F {
    fn look(&mut self, meter: &Meter) -> bool {
        self(meter)
    }
}

/// How to run.
#[derive(Clone, Copy, Default)]
pub struct Options<'a> {
    /// Threads at most; 0: as many as there are cores.
    pub jobs: usize,
    /// What is recorded of each run.
    pub captures: Option<&'a Captures>,
    /// Numbers of the runs that are wanted; `None`: all of the file.
    pub runs: Option<(usize, usize)>,
    /// What is done to each run before it begins, on the thread that runs it: parts of one's own are put in here.
    pub prepare: Option<&'a (dyn Fn(&mut Run) + Sync)>,
}

/// One run that came to its end.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Its number in the file, from 0.
    pub number: usize,
    /// The point of the sweeps, from 0.
    pub point: usize,
    /// Swept parameters and their values.
    pub parameters: Vec<(String, String)>,
    /// What came out.
    pub results: Results,
}

/// The runs of a file that came to their end.
#[derive(Debug)]
pub struct Batch {
    /// In the order of their numbers.
    pub finished: Vec<Finished>,
    /// How many there are in the file.
    pub planned: usize,
    /// Whether a signal came before the last one was done.
    pub interrupted: bool,
}

/// Runs all of `file`.
///
/// # Errors
/// [`Error::Input`] where a combination of swept values cannot be run; what went wrong in a run.
pub fn run(file: &File, options: &Options<'_>, watch: &mut dyn Watch) -> Result<Batch, Error> {
    let (first, end) = options.runs.map_or((0, file.count()), |(first, end)| (first, end.min(file.count())));
    let planned = end.saturating_sub(first);
    let wanted = first..first + planned;
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
    let (mut finished, interrupted) = if jobs <= 1 {
        in_turn(file, wanted, options, watch, &meter)?
    } else {
        spread(file, wanted, jobs, options, watch, &meter)?
    };
    finished.sort_by_key(|run| run.number);
    Ok(Batch { finished, planned, interrupted })
}

type Outcome = Result<(Vec<Finished>, bool), Error>;

/// One run after the other on this thread.
fn in_turn(file: &File, wanted: Range<usize>, options: &Options<'_>, watch: &mut dyn Watch, meter: &Meter) -> Outcome {
    let planned = wanted.len();
    let mut finished = Vec::new();
    for run in wanted.map_while(|number| file.run(number)) {
        let run = run.map_err(super::file::bad_input)?;
        match one(run, options, meter, &mut || watch.look(meter))? {
            Some(done) => {
                finished.push(done);
                // Short runs never ask themselves.
                if finished.len() < planned && watch.look(meter) {
                    return Ok((finished, true));
                }
            }
            None => return Ok((finished, true)),
        }
    }
    Ok((finished, false))
}

/// Runs on `jobs` threads, each taking the next one that nobody has.
fn spread(
    file: &File,
    wanted: Range<usize>,
    jobs: usize,
    options: &Options<'_>,
    watch: &mut dyn Watch,
    meter: &Meter,
) -> Outcome {
    let (next, stop) = (AtomicUsize::new(wanted.start), AtomicBool::new(false));
    let (end, planned) = (wanted.end, wanted.len());
    let mut finished = Vec::new();
    let mut failure = None;
    let mut interrupted = false;
    std::thread::scope(|scope| {
        let (report, reports) = mpsc::channel();
        for _ in 0..jobs {
            let (report, next, stop) = (report.clone(), &next, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(run) = file.run(number).filter(|_| number < end) else { break };
                    let done = run
                        .map_err(super::file::bad_input)
                        .and_then(|run| guarded(run, options, meter, &mut || stop.load(Ordering::Relaxed)));
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
            if watch.look(meter) {
                interrupted = finished.len() < planned;
                stop.store(true, Ordering::Relaxed);
            }
        }
    });
    match failure {
        Some(error) => Err(error),
        None => Ok((std::mem::take(&mut finished), interrupted && finished.len() < planned)),
    }
}

/// [`one`], where a panic ends the other runs as well, and not only this thread.
fn guarded(
    run: Run,
    options: &Options<'_>,
    meter: &Meter,
    stop: &mut dyn FnMut() -> bool,
) -> Result<Option<Finished>, Error> {
    let (number, seed) = (run.number, run.seed);
    // What the run had at hand is not looked at again.
    catch_unwind(AssertUnwindSafe(|| one(run, options, meter, stop))).unwrap_or_else(|panic| {
        let told = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let told = told.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Err(Error::Panic { number, seed, told })
    })
}

/// One run from beginning to end, or `None` where `stop` said so half-way.
fn one(
    mut run: Run,
    options: &Options<'_>,
    meter: &Meter,
    stop: &mut dyn FnMut() -> bool,
) -> Result<Option<Finished>, Error> {
    if let Some(prepare) = options.prepare {
        prepare(&mut run);
    }
    let mut capture = match options.captures {
        Some(captures) => Some(captures.begin(&mut run)?),
        None => None,
    };
    let mut world = World::shared(Arc::new(run.scenario)).map_err(|error| Error::Input(error.to_string()))?;
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
    let results = world.finish().map_err(|source| Error::Run { number: run.number, seed: run.seed, source })?;
    if let Some(capture) = capture {
        capture.finish()?;
    }
    meter.end();
    Ok(Some(Finished { number: run.number, point: run.point, parameters: run.parameters, results }))
}
