//! A flood of the smallest Ethernet frames, one way: as many as arrive without loss.
//!
//! The sender has at most [`WINDOW`] frames under way, less than rings and socket buffers hold, so that the slowest part of the way
//! works all the time and drops hardly anything. When nothing arrives for [`STILL`], a mark is sent behind what is under way, and the
//! window is open again for what is missing when it arrives. At the end the last frames are waited for in the same way.

use super::frames::{DEAD, HEAD, Head, Kind, LEAST, STILL, Station, Tally};
use crate::testbed::{Interrupt, Namespace};
use anyhow::{Context, Result};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Frames under way at most.
pub(crate) const WINDOW: u64 = 2048;
/// Frames that are made at once.
const BURST: u64 = 64;

/// The two hosts.
pub(crate) struct Flood<'a> {
    /// Who sends.
    pub(crate) left: &'a Namespace,
    /// Who receives.
    pub(crate) right: &'a Namespace,
    /// The device of both.
    pub(crate) device: &'a str,
    /// The cores on which they run.
    pub(crate) cores: [usize; 2],
    /// What does not count for the rate.
    pub(crate) warm_up: Duration,
    /// What does.
    pub(crate) duration: Duration,
}

/// What a run found. What became of frames counts from the first to the last, all else without the warm-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Found {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) twice: u64,
    pub(crate) out_of_order: u64,
    pub(crate) damaged: u64,
    /// Frames that arrived in each second.
    pub(crate) frames_s: f64,
    /// Processor seconds a frame of whatever `used` is asked about.
    pub(crate) cpu_s: [f64; 2],
}

/// Keeps the calling thread, and what it starts from now on, on one core.
///
/// # Errors
/// There is no such core for this process.
pub(crate) fn pin(core: usize) -> Result<()> {
    pin_thread(None, core)
}

/// The same for another thread.
///
/// # Errors
/// There is no such core for this process, or no such thread.
pub(crate) fn pin_thread(thread: Option<Pid>, core: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(thread, &set).with_context(|| format!("cannot keep a thread on core {core}"))
}

impl Flood<'_> {
    /// Sends for the time that is set, then waits for what is under way. `used` gives the processor seconds that the two sides
    /// have used so far. `run`: another for each that frames of which may still be on the way.
    ///
    /// # Errors
    /// A device cannot be opened or went down; or the interrupt.
    pub(crate) fn run(&self, run: u32, interrupt: &Interrupt, used: impl Fn() -> Result<[f64; 2]>) -> Result<Found> {
        let mut near = self.left.enter(|| Station::open(self.device))?;
        let mut far = self.right.enter(|| Station::open(self.device))?;
        near.begin(run, far.mac());
        far.begin(run, near.mac());
        let (there, stop, over) = (There::default(), AtomicBool::new(false), AtomicBool::new(false));
        let (measured, sent, received) = std::thread::scope(|scope| {
            let receiving = scope.spawn(|| receive(&mut far, run, self.cores[1], &there, &over));
            let sending = scope.spawn(|| send(&mut near, self.cores[0], &there, &stop));
            let measured = self.watch(interrupt, &there.arrived, used);
            stop.store(true, Relaxed);
            let sent = sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            over.store(true, Relaxed);
            (measured, sent, receiving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        // A host that failed explains what was measured.
        let (sent, tally) = (sent?, received?);
        let (frames_s, cpu_s) = measured?;
        Ok(Found {
            sent,
            received: tally.received,
            twice: tally.twice,
            out_of_order: tally.out_of_order,
            damaged: tally.damaged,
            frames_s,
            cpu_s,
        })
    }

    fn watch(
        &self,
        interrupt: &Interrupt,
        arrived: &AtomicU64,
        used: impl Fn() -> Result<[f64; 2]>,
    ) -> Result<(f64, [f64; 2])> {
        interrupt.sleep(self.warm_up)?;
        let (before, used_before, began) = (arrived.load(Relaxed), used()?, Instant::now());
        interrupt.sleep(self.duration)?;
        let (after, used_after, took) = (arrived.load(Relaxed), used()?, began.elapsed());
        let frames = (after - before) as f64;
        let each = |side: usize| (used_after[side] - used_before[side]) / frames.max(1.0);
        Ok((frames / took.as_secs_f64(), [each(0), each(1)]))
    }
}

/// What the right has of the frames.
#[derive(Debug, Default)]
struct There {
    arrived: AtomicU64,
    /// Those before the last mark that are missing.
    lost: AtomicU64,
}

/// The left's part: frames sent.
fn send(station: &mut Station, core: usize, there: &There, stop: &AtomicBool) -> Result<u64> {
    pin(core)?;
    let (mut last, mut moved) = (0, Instant::now());
    let mut marked = moved;
    loop {
        let settled = there.arrived.load(Relaxed) + there.lost.load(Relaxed);
        if settled != last {
            (last, moved) = (settled, Instant::now());
        }
        let under_way = station.numbered.saturating_sub(settled);
        let over = stop.load(Relaxed);
        if over && (under_way == 0 || moved.elapsed() > DEAD) {
            return Ok(station.numbered);
        }
        if under_way > 0 && moved.elapsed() > STILL && marked.elapsed() > STILL && station.mark() {
            marked = Instant::now();
        }
        if !over && under_way + BURST <= WINDOW {
            for _ in 0..BURST {
                station.push(Head { kind: Kind::Flood, part: 0, tag: 0, at: 0 }, LEAST - HEAD);
            }
            station.flush()?;
        } else {
            // Whoever forwards on this core has it meanwhile.
            std::thread::sleep(Duration::from_micros(20));
            station.flush()?;
        }
    }
}

/// The right's part.
fn receive(station: &mut Station, run: u32, core: usize, there: &There, over: &AtomicBool) -> Result<Tally> {
    pin(core)?;
    let mut tally = Tally::new(run);
    while !over.load(Relaxed) {
        let arrivals = station.receive(|bytes| {
            tally.take(bytes);
        });
        if arrivals == 0 {
            station.wait()?;
        }
        there.arrived.store(tally.received, Relaxed);
        there.lost.store(tally.lost, Relaxed);
    }
    Ok(tally)
}
