//! Runs every point and seed of a file, on all cores; the order of the results does not depend on who is first.
//!
//! A single run whose world is not divided stays on the calling thread: it needs no other, and a small scenario is over before one has started.

use super::capture::Captures;
use super::meter::Meter;
use super::parts;
use crate::Error;
use fairspan_core::units::Time;
use fairspan_sim::model::Scenario;
use fairspan_sim::results::{Captured, Results};
use fairspan_sim::scenario::{File, Run};
use fairspan_sim::world::{Division, World};
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
    /// What is done to each run before it begins, on the thread that runs it, and all of it, even where its world is divided: parts of one's
    /// own are put in here.
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
    let threads = if options.jobs == 0 { cores() } else { options.jobs };
    let jobs = threads.min(planned.max(1));
    // What runs leave over, a run's own parts may have.
    let each = threads / jobs;
    let meter = Meter::new(planned);
    let (mut finished, interrupted) = if jobs <= 1 {
        in_turn(file, wanted, options, each, watch, &meter)?
    } else {
        spread(file, wanted, (jobs, each), options, watch, &meter)?
    };
    finished.sort_by_key(|run| run.number);
    Ok(Batch { finished, planned, interrupted })
}

type Outcome = Result<(Vec<Finished>, bool), Error>;

/// One run after the other on this thread, each with `each` of them where its world is divided.
fn in_turn(
    file: &File,
    wanted: Range<usize>,
    options: &Options<'_>,
    each: usize,
    watch: &mut dyn Watch,
    meter: &Meter,
) -> Outcome {
    let planned = wanted.len();
    let mut finished = Vec::new();
    for run in wanted.map_while(|number| file.run(number)) {
        let run = run.map_err(super::file::bad_input)?;
        match one(run, options, each, meter, &mut || watch.look(meter))? {
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

/// Runs on `jobs` threads, each with `each` of them for the parts of a divided world, each taking the next one that nobody has.
fn spread(
    file: &File,
    wanted: Range<usize>,
    (jobs, each): (usize, usize),
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
                        .and_then(|run| guarded(run, options, each, meter, &mut || stop.load(Ordering::Relaxed)));
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
    threads: usize,
    meter: &Meter,
    stop: &mut dyn FnMut() -> bool,
) -> Result<Option<Finished>, Error> {
    let (number, seed) = (run.number, run.seed);
    // What the run had at hand is not looked at again.
    catch_unwind(AssertUnwindSafe(|| one(run, options, threads, meter, stop))).unwrap_or_else(|panic| {
        let told = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let told = told.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Err(Error::Panic { number, seed, told })
    })
}

/// Runs a world that is not divided to its end, or `None` where `look` said so half-way.
fn whole(scenario: Arc<Scenario>, look: parts::Look<'_>) -> Result<Option<World>, Error> {
    let mut world = World::shared(scenario).map_err(|error| Error::Input(error.to_string()))?;
    loop {
        let over = world.advance_some(world.end(), SLICE);
        let go_on = look(world.take_captured(), world.now())?;
        if over {
            return Ok(Some(world));
        }
        if !go_on {
            return Ok(None);
        }
    }
}

/// One run from beginning to end, on so many threads where its world is divided, or `None` where `stop` said so half-way.
fn one(
    mut run: Run,
    options: &Options<'_>,
    threads: usize,
    meter: &Meter,
    stop: &mut dyn FnMut() -> bool,
) -> Result<Option<Finished>, Error> {
    // What a thread was prepared with is not known to others.
    let threads = if options.prepare.is_some() { 1 } else { threads };
    if let Some(prepare) = options.prepare {
        prepare(&mut run);
    }
    let mut capture = match options.captures {
        Some(captures) => Some(captures.begin(&mut run)?),
        None => None,
    };
    let scenario = Arc::new(run.scenario);
    let mut before = meter.begin(Time::ZERO + scenario.duration);
    let mut look = |captured: Vec<Captured>, now: Time| {
        if let Some(capture) = &mut capture {
            capture.write(&captured)?;
        }
        meter.advance(&mut before, now);
        Ok(!stop())
    };
    let division = Arc::new(Division::new(&scenario));
    let world = if division.count() > 1 {
        parts::run(&scenario, &division, threads, &mut look)?
    } else {
        whole(scenario, &mut look)?
    };
    let Some(world) = world else { return Ok(None) };
    let results = world.finish().map_err(|source| Error::Run { number: run.number, seed: run.seed, source })?;
    if let Some(capture) = capture {
        capture.finish()?;
    }
    meter.end();
    Ok(Some(Finished { number: run.number, point: run.point, parameters: run.parameters, results }))
}
