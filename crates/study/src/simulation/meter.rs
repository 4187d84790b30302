//! How far the runs of a study are.

use fairspan_core::units::{Span, Time};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A run in parts: the meter counts these.
pub const PARTS: u64 = 1 << 20;

/// What all threads have done.
#[derive(Debug)]
pub struct Meter {
    planned: usize,
    finished: AtomicUsize,
    parts: AtomicU64,
    simulated: AtomicU64,
}

/// How far one run was when it was looked at last.
#[derive(Debug)]
pub struct Place {
    end: Time,
    now: Time,
    parts: u64,
}

impl Meter {
    /// Of `planned` runs, none of which has begun.
    pub fn new(planned: usize) -> Meter {
        let zero = || AtomicU64::new(0);
        Meter { planned, finished: AtomicUsize::new(0), parts: zero(), simulated: zero() }
    }

    /// A run begins.
    pub fn begin(&self, end: Time) -> Place {
        Place { end, now: Time::ZERO, parts: 0 }
    }

    /// It has come to `now`.
    pub fn advance(&self, place: &mut Place, now: Time) {
        let share = now.as_nanos() as f64 / place.end.as_nanos().max(1) as f64;
        let parts = (share * PARTS as f64) as u64;
        self.parts.fetch_add(parts.saturating_sub(place.parts), Ordering::Relaxed);
        self.simulated.fetch_add(now.since(place.now).as_nanos(), Ordering::Relaxed);
        (place.now, place.parts) = (now, parts.max(place.parts));
    }

    /// It is over.
    pub fn end(&self) {
        self.finished.fetch_add(1, Ordering::Relaxed);
    }

    /// How many runs there are.
    pub fn planned(&self) -> usize {
        self.planned
    }

    /// How many of them are over.
    pub fn finished(&self) -> usize {
        self.finished.load(Ordering::Relaxed)
    }

    /// What is done of them all, in [`PARTS`] a run.
    pub fn parts(&self) -> u64 {
        self.parts.load(Ordering::Relaxed).min(self.planned as u64 * PARTS)
    }

    /// Simulated time in all.
    pub fn simulated(&self) -> Span {
        Span::from_nanos(self.simulated.load(Ordering::Relaxed))
    }
}
