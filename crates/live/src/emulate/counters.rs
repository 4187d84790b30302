//! What an emulator counts, shared between its thread and whoever reads.

use fairspan_core::link::DropReason as Drop;
use fairspan_core::units::Span;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Live counters of one direction; one writer, any number of readers.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) received_frames: AtomicU64,
    pub(super) received_bytes: AtomicU64,
    pub(super) sent_frames: AtomicU64,
    pub(super) sent_bytes: AtomicU64,
    pub(super) drops: [AtomicU64; DROPS],
    pub(super) oversize: AtomicU64,
    pub(super) lateness: Histogram,
}

/// Kinds of drops: those of the schedule, then those of the machine that runs it.
pub(super) const DROPS: usize = 8;

/// Drops that are the machine's, not the emulated link's.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    Ring = 3,
    Memory = 4,
    TooLong = 5,
    Refused = 6,
    PortDown = 7,
}

impl Counters {
    pub(super) fn dropped(&self, why: Drop) {
        let index = match why {
            Drop::Loss => 0,
            Drop::Queue(_) => 1,
            Drop::Outage => 2,
        };
        add(&self.drops[index], 1);
    }

    pub(super) fn fault(&self, fault: Fault, frames: u64) {
        add(&self.drops[fault as usize], frames);
    }

    pub(super) fn snapshot(&self) -> DirectionStats {
        let [loss, queue, outage, ring, memory, too_long, refused, port_down] =
            std::array::from_fn(|n| self.drops[n].load(Relaxed));
        DirectionStats {
            received_frames: self.received_frames.load(Relaxed),
            received_bytes: self.received_bytes.load(Relaxed),
            sent_frames: self.sent_frames.load(Relaxed),
            sent_bytes: self.sent_bytes.load(Relaxed),
            drops: Drops { loss, queue, outage, ring, memory, too_long, refused, port_down },
            oversize: self.oversize.load(Relaxed),
            lateness: self.lateness.snapshot(),
        }
    }
}

pub(super) fn add(counter: &AtomicU64, n: u64) {
    // One writer: no read-modify-write instruction is needed.
    counter.store(counter.load(Relaxed).wrapping_add(n), Relaxed);
}

/// Counters of one direction of a link at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct DirectionStats {
    /// Frames that arrived.
    pub received_frames: u64,
    /// Their bytes, Ethernet headers included.
    pub received_bytes: u64,
    /// Frames that left at the far end.
    pub sent_frames: u64,
    /// Their bytes, Ethernet headers included.
    pub sent_bytes: u64,
    /// Frames that did not, by reason.
    pub drops: Drops,
    /// Frames longer than the port's MTU allows: a sender's segmentation offload is on. They are forwarded, and
    /// take the capacity of the frames they stand for.
    pub oversize: u64,
    /// How late frames left, against their due time.
    pub lateness: Lateness,
}

/// Frames dropped, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Drops {
    /// The emulated loss process.
    pub loss: u64,
    /// The emulated queue was full.
    pub queue: u64,
    /// An emulated outage.
    pub outage: u64,
    /// The kernel's receive ring was full: the emulator came too late to empty it.
    pub ring: u64,
    /// The memory for frames on their way was used up.
    pub memory: u64,
    /// The far port's MTU is too small for the frame.
    pub too_long: u64,
    /// The far port's driver refused the frame.
    pub refused: u64,
    /// The far port was down.
    pub port_down: u64,
}

impl Drops {
    /// All of them.
    pub fn total(&self) -> u64 {
        let Drops { loss, queue, outage, ring, memory, too_long, refused, port_down } = self;
        loss + queue + outage + ring + memory + too_long + refused + port_down
    }
}

/// How late frames left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Lateness {
    /// Frames measured.
    pub frames: u64,
    /// Median, nanoseconds.
    pub p50_ns: u64,
    /// 99th percentile, nanoseconds.
    pub p99_ns: u64,
    /// 99.9th percentile, nanoseconds.
    pub p999_ns: u64,
    /// Largest, nanoseconds.
    pub max_ns: u64,
    /// Frames within 0.5 ms of their due time.
    pub within_500us: u64,
}

const SUB: usize = 16;
const BUCKETS: usize = 64 * SUB;
const HALF_MILLISECOND: u64 = 500_000;

/// Spans in buckets of 1/16 octave: a percentile is exact to 6 %.
#[derive(Debug)]
pub(super) struct Histogram {
    buckets: Box<[AtomicU64]>,
    max: AtomicU64,
    within: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram {
            buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            max: AtomicU64::new(0),
            within: AtomicU64::new(0),
        }
    }
}

impl Histogram {
    pub(super) fn record(&self, span: Span) {
        let ns = span.as_nanos();
        add(&self.buckets[bucket(ns)], 1);
        if ns > self.max.load(Relaxed) {
            self.max.store(ns, Relaxed);
        }
        if ns <= HALF_MILLISECOND {
            add(&self.within, 1);
        }
    }

    fn snapshot(&self) -> Lateness {
        let counts: Vec<u64> = self.buckets.iter().map(|bucket| bucket.load(Relaxed)).collect();
        let frames: u64 = counts.iter().sum();
        let max_ns = self.max.load(Relaxed);
        let quantile = |per_mille: u64| {
            let rank = (frames * per_mille).div_ceil(1000).max(1);
            let mut seen = 0;
            let at = counts.iter().position(|count| {
                seen += count;
                seen >= rank
            });
            at.map_or(0, |index| upper(index).min(max_ns))
        };
        Lateness {
            frames,
            p50_ns: quantile(500),
            p99_ns: quantile(990),
            p999_ns: quantile(999),
            max_ns,
            within_500us: self.within.load(Relaxed),
        }
    }
}

fn bucket(ns: u64) -> usize {
    if ns < SUB as u64 {
        return ns as usize;
    }
    let octave = 63 - ns.leading_zeros() as usize;
    (octave - 3) * SUB + (ns >> (octave - 4)) as usize - SUB
}

/// The largest value of a bucket.
fn upper(index: usize) -> u64 {
    let (octave, sub) = (index / SUB, (index % SUB) as u64);
    match octave {
        0 => sub,
        _ => (((SUB as u64 + sub + 1) as u128) << (octave - 1)).saturating_sub(1).min(u128::from(u64::MAX)) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_a_bucket_whose_bound_is_within_a_sixteenth() {
        let mut last = 0;
        for ns in (0..2000).chain((11..64).flat_map(|n| [(1u64 << n) - 1, 1 << n, (1 << n) + (1 << (n - 1))])) {
            let bound = upper(bucket(ns));
            assert!(bound >= ns && bound - ns <= ns / SUB as u64, "{ns} {bound}");
            assert!(bucket(ns) < BUCKETS);
            last = last.max(bucket(ns));
        }
        assert!(bucket(u64::MAX) >= last && bucket(u64::MAX) < BUCKETS);
    }

    #[test]
    fn percentiles_of_known_samples() {
        let histogram = Histogram::default();
        assert_eq!(histogram.snapshot(), Lateness::default());
        for us in 1..=1000 {
            histogram.record(Span::from_micros(us));
        }
        let lateness = histogram.snapshot();
        assert_eq!((lateness.frames, lateness.max_ns, lateness.within_500us), (1000, 1_000_000, 500));
        let near = |ns: u64, us: u64| (us * 1000..=us * 1063).contains(&ns);
        assert!(near(lateness.p50_ns, 500) && near(lateness.p99_ns, 990), "{lateness:?}");
    }
}
