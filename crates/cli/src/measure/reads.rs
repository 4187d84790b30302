//! Traffic as on PCI Express, in Ethernet frames: reads, their completions, and posted writes.
//!
//! A host `left` reads memory of a host `right`. A request is a header alone and names a tag; the answer is completions of
//! [`PAYLOAD`] bytes each, on the same tag. With each read goes a posted write of [`PAYLOAD`] bytes, which nobody answers. As
//! many reads are outstanding as there are tags. A read whose answer is not whole in [`PATIENCE`] is given up and counted, and its
//! tag is used again, as a root complex does at its completion timeout.

use super::frames::{DEAD, HEAD, Head, Kind, LEAST, STILL, Station, Tally};
use crate::testbed::{Interrupt, Namespace};
use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use Ordering::{Acquire, Relaxed, Release};

/// Bytes of a completion and of a write.
pub(crate) const PAYLOAD: usize = 128;
/// After so long a read is given up. (PCI Express allows up to 64 s; most wait for 50 ms.)
pub(crate) const PATIENCE: Duration = Duration::from_millis(500);
/// Longest latency that is told apart, in nanoseconds.
const LONGEST: u64 = 60_000_000_000;

/// The two hosts and what they do.
pub(crate) struct Reads<'a> {
    /// Who reads.
    pub(crate) left: &'a Namespace,
    /// Whose memory is read.
    pub(crate) right: &'a Namespace,
    /// The device of both.
    pub(crate) device: &'a str,
    /// Reads outstanding at most.
    pub(crate) tags: u16,
    /// Completions of a read.
    pub(crate) parts: u8,
    /// What does not count for latencies and rates.
    pub(crate) warm_up: Duration,
    /// What does.
    pub(crate) duration: Duration,
}

/// Frames of one direction. What became of them counts from the first to the last, rates without the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Direction {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) twice: u64,
    pub(crate) out_of_order: u64,
    pub(crate) damaged: u64,
    /// Frames that arrived in each second.
    pub(crate) frames_s: f64,
    /// Mbit/s of payload: of completions, or of writes.
    pub(crate) payload_mbit: f64,
}

impl Direction {
    fn new(sent: u64, tally: &Tally, counted: Counted, seconds: f64) -> Direction {
        Direction {
            sent,
            received: tally.received,
            twice: tally.twice,
            out_of_order: tally.out_of_order,
            damaged: tally.damaged,
            frames_s: counted.frames as f64 / seconds,
            payload_mbit: (counted.payloads * PAYLOAD as u64 * 8) as f64 / 1e6 / seconds,
        }
    }
}

/// What a run found.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// From the request to the last completion, in nanoseconds; of reads that ended after the warm-up.
    pub(crate) latency: Histogram<u64>,
    /// Reads whose answer was whole.
    pub(crate) reads: u64,
    /// Reads that were given up.
    pub(crate) given_up: u64,
    /// Requests and writes.
    pub(crate) outward: Direction,
    /// Completions.
    pub(crate) inward: Direction,
}

/// Arrivals in the time that counts.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    frames: u64,
    payloads: u64,
}

/// A read that waits for its answer.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    at: u64,
    /// A bit for each part that is missing.
    missing: u64,
}

/// What both hosts know.
struct Shared<'a> {
    began: Instant,
    run: u32,
    reads: &'a Reads<'a>,
    interrupt: &'a Interrupt,
    /// Frames that the right sent in answer to those that had arrived there, and these.
    answered: AtomicU64,
    arrived: AtomicU64,
    over: AtomicBool,
}

impl Shared<'_> {
    fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    fn counts(&self, now: u64) -> bool {
        let from = self.reads.warm_up.as_nanos() as u64;
        (from..from + self.reads.duration.as_nanos() as u64).contains(&now)
    }
}

impl Reads<'_> {
    /// Reads for the time that is set, then waits until all is answered or given up, and no frame is under way. `run`: another for each that frames of
    /// which may still be on the way.
    ///
    /// # Errors
    /// A device cannot be opened or went down; or the interrupt.
    pub(crate) fn run(&self, run: u32, interrupt: &Interrupt) -> Result<Found> {
        let mut near = self.left.enter(|| Station::open(self.device))?;
        let mut far = self.right.enter(|| Station::open(self.device))?;
        near.begin(run, far.mac());
        far.begin(run, near.mac());
        let shared = Shared {
            began: Instant::now(),
            run,
            reads: self,
            interrupt,
            answered: AtomicU64::new(0),
            arrived: AtomicU64::new(0),
            over: AtomicBool::new(false),
        };
        let (asked, answered) = std::thread::scope(|scope| {
            let answering = scope.spawn(|| answer(&mut far, &shared));
            let asked = ask(&mut near, &shared);
            shared.over.store(true, Relaxed);
            (asked, answering.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        let (asked, (outward, arrived)) = (asked?, answered?);
        let seconds = self.duration.as_secs_f64();
        Ok(Found {
            latency: asked.latency,
            reads: asked.reads,
            given_up: asked.given_up,
            outward: Direction::new(near.numbered, &outward, arrived, seconds),
            inward: Direction::new(far.numbered, &asked.tally, asked.arrived, seconds),
        })
    }
}

struct Asked {
    latency: Histogram<u64>,
    reads: u64,
    given_up: u64,
    tally: Tally,
    arrived: Counted,
}

/// The left's part.
fn ask(station: &mut Station, shared: &Shared<'_>) -> Result<Asked> {
    let reads = shared.reads;
    let mut asked = Asked {
        latency: Histogram::new_with_max(LONGEST, 3).context("a histogram")?,
        reads: 0,
        given_up: 0,
        tally: Tally::new(shared.run),
        arrived: Counted::default(),
    };
    let mut tags: Vec<Option<Outstanding>> = vec![None; usize::from(reads.tags)];
    let end = (reads.warm_up + reads.duration).as_nanos() as u64;
    let patience = PATIENCE.as_nanos() as u64;
    let (mut last, mut moved) = ((0, 0), Instant::now());
    let mut marked = moved;
    loop {
        shared.interrupt.check()?;
        let now = shared.now();
        if now >= end && marked.elapsed() > STILL && station.mark() {
            marked = Instant::now();
        }
        for tag in 0..reads.tags {
            let place = &mut tags[usize::from(tag)];
            if place.is_some_and(|read| now.saturating_sub(read.at) > patience) {
                asked.given_up += 1;
                *place = None;
            }
            if place.is_none() && now < end {
                *place = Some(Outstanding { at: now, missing: (1 << reads.parts) - 1 });
                station.push(Head { kind: Kind::Request, part: 0, tag, at: now }, LEAST - HEAD);
                station.push(Head { kind: Kind::Write, part: 0, tag, at: now }, PAYLOAD);
            }
        }
        station.flush()?;
        let arrived = station.receive(|bytes| {
            let Some(head) = asked.tally.take(bytes).filter(|head| head.kind == Kind::Completion) else { return };
            let now = shared.now();
            if shared.counts(now) {
                asked.arrived.frames += 1;
                asked.arrived.payloads += 1;
            }
            let Some(place) = tags.get_mut(usize::from(head.tag)) else { return };
            let Some(read) = place.as_mut().filter(|read| read.at == head.at) else { return };
            read.missing &= !(1u64 << (head.part % 64));
            if read.missing == 0 {
                asked.reads += 1;
                if shared.counts(now) {
                    asked.latency.saturating_record(now.saturating_sub(read.at));
                }
                *place = None;
            }
        });
        let there = (shared.arrived.load(Acquire), asked.tally.received);
        if there != last {
            (last, moved) = (there, Instant::now());
        }
        if now >= end && tags.iter().all(Option::is_none) {
            let all = there.0 >= station.numbered && there.1 >= shared.answered.load(Relaxed);
            // The right answers a mark when it has one: nothing is under way, but for what a mark overtook.
            let last = asked.tally.marks > 0 && moved.elapsed() > 5 * STILL;
            if all || last || moved.elapsed() > DEAD {
                return Ok(asked);
            }
        }
        if arrived == 0 {
            station.wait()?;
        }
    }
}

/// The right's part: what arrived there, and how much of it in the time that counts.
fn answer(station: &mut Station, shared: &Shared<'_>) -> Result<(Tally, Counted)> {
    let mut tally = Tally::new(shared.run);
    let mut counted = Counted::default();
    let mut asked: Vec<Head> = Vec::new();
    let mut marks = 0;
    while !shared.over.load(Relaxed) {
        let arrived = station.receive(|bytes| {
            let Some(head) = tally.take(bytes) else { return };
            if shared.counts(shared.now()) {
                counted.frames += 1;
                counted.payloads += u64::from(head.kind == Kind::Write);
            }
            if head.kind == Kind::Request {
                asked.push(head);
            }
        });
        for request in asked.drain(..) {
            for part in 0..shared.reads.parts {
                station.push(Head { kind: Kind::Completion, part, ..request }, PAYLOAD);
            }
        }
        station.flush()?;
        if tally.marks > marks && station.mark() {
            marks = tally.marks;
            station.flush()?;
        }
        shared.answered.store(station.numbered, Relaxed);
        shared.arrived.store(tally.received, Release);
        if arrived == 0 {
            station.wait()?;
        }
    }
    Ok((tally, counted))
}
