//! When each frame of one direction leaves: the emulator's arithmetic, without sockets or clocks.
//!
//! A frame's fate is decided when it arrives, from its arrival time and length alone: the link serves in order of
//! arrival, and its capacity is known in advance. So a frame that the process picks up late is still judged, and
//! leaves, as if it had been picked up at once.
//!
//! Semantics: netem's loss models and its order (loss before the queue); a tail-drop queue in front of a link that
//! serialises at its capacity (HTB, or mahimahi's mm-link on a trace); then delay and jitter.
//!
//! | symbol | field |
//! |---|---|
//! | end of the last transmission | `busy_until` |
//! | work done beyond a nanosecond's end, in bit x 10^-9 s x bit/s | `carry` |
//! | transmissions that have not begun | `waiting` |
//!
//! Cost: O(1) a frame (amortised) at a constant rate; a series or trace adds the steps that a frame spans.
//! Invariants: departures never precede arrivals; without `reorder` they never decrease; back-to-back frames at a
//! constant rate depart at exact multiples of the bit time, rounded up to the nanosecond, without drift.

use super::capacity::{Capacity, OPPORTUNITY};
use super::profile::{DuringOutage, Loss, Profile, ProfileError, Queue, outage_at};
use crate::rng::Rng;
use crate::units::{Span, Time};
use alloc::collections::VecDeque;

/// Longest that a frame may stay in the queue of a link that stands still; then it counts as lost in an outage.
const PATIENCE: Span = Span::from_secs(600);

/// What happens to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It leaves the far end at this time.
    Deliver(Time),
    /// It is lost.
    Drop(Drop),
}

/// Why a frame is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Drop {
    /// The loss process took it.
    Loss,
    /// The queue was full.
    Queue,
    /// The link was in an outage.
    Outage,
}

/// The schedule of one direction.
#[derive(Clone, Debug)]
pub struct Schedule {
    profile: Profile,
    overhead: i64,
    rng: Rng,
    /// The Gilbert model's state.
    bad: bool,
    spare_normal: Option<f64>,
    /// No arrival precedes the one before it.
    now: Time,
    busy_until: Time,
    carry: u128,
    /// On a trace: the opportunity in use and the bytes left of it.
    opportunity: (u64, u64),
    /// Start and counted bytes of the transmissions that have not begun.
    waiting: VecDeque<(Time, u64)>,
    waiting_bytes: u64,
    last_due: Time,
}

impl Schedule {
    /// An idle link. `seed` determines loss and jitter.
    ///
    /// # Errors
    /// Those of [`Profile::check`].
    pub fn new(profile: Profile, seed: u64) -> Result<Schedule, ProfileError> {
        profile.check()?;
        Ok(Schedule {
            overhead: profile.overhead(),
            profile,
            rng: Rng::new(seed),
            bad: false,
            spare_normal: None,
            now: Time::ZERO,
            busy_until: Time::ZERO,
            carry: 0,
            opportunity: (0, 0),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            last_due: Time::ZERO,
        })
    }

    /// The settings.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// A frame of `len` bytes arrives at `at`. An arrival before an earlier call's is taken to come with it.
    pub fn offer(&mut self, at: Time, len: usize) -> Verdict {
        let now = at.max(self.now);
        self.now = now;
        if self.loses() {
            return Verdict::Drop(Drop::Loss);
        }
        while let Some((start, bytes)) = self.waiting.front().copied().filter(|(start, _)| *start <= now) {
            debug_assert!(start <= now);
            self.waiting.pop_front();
            self.waiting_bytes -= bytes;
        }
        let counted = (len as i64).saturating_add(self.overhead).max(1) as u64;
        let full = match self.profile.queue {
            Queue::Frames(limit) => self.waiting.len() >= limit,
            Queue::Bytes(limit) => self.waiting_bytes.saturating_add(counted) > limit,
        };
        // A link that is free takes the frame at once, whatever the limit of the queue.
        if full && self.busy_until > now {
            return Verdict::Drop(Drop::Queue);
        }
        let Some((start, end)) = self.serve(now, counted) else {
            return Verdict::Drop(Drop::Outage);
        };
        if start > now {
            self.waiting.push_back((start, counted));
            self.waiting_bytes += counted;
        }
        if self.profile.during_outage == DuringOutage::Lose && !self.profile.outages.is_empty() {
            let (down, until) = outage_at(&self.profile.outages, start);
            if down || until < end {
                return Verdict::Drop(Drop::Outage);
            }
        }
        let mut due = end + self.delay();
        if !self.profile.reorder {
            due = due.max(self.last_due);
            self.last_due = due;
        }
        Verdict::Deliver(due)
    }

    /// A delay that every frame spends at least, whatever the draw (four standard deviations below the mean: a
    /// lower draw has a chance of 3 in 100,000 and costs accuracy only).
    pub fn least_delay(&self) -> Span {
        self.profile.delay - self.profile.jitter.times(4)
    }

    /// Serialises `counted` bytes after everything before them: begin and end of the transmission.
    fn serve(&mut self, now: Time, counted: u64) -> Option<(Time, Time)> {
        let begin = now.max(self.busy_until);
        let (begin, end) = match &self.profile.capacity {
            Capacity::Trace(_) => self.serve_trace(now, counted)?,
            _ => self.serve_rate(begin, counted)?,
        };
        self.busy_until = end;
        Some((begin, end))
    }

    fn serve_rate(&mut self, mut begin: Time, counted: u64) -> Option<(Time, Time)> {
        if begin > self.busy_until {
            self.carry = 0;
        }
        let hold = self.profile.during_outage == DuringOutage::Hold && !self.profile.outages.is_empty();
        // In units of bit x ns per second: what a rate of 1 bit/s does in 1 ns.
        let mut work = (u128::from(counted) * 8_000_000_000).saturating_sub(self.carry);
        self.carry = 0;
        let (mut at, patience) = (begin, begin + PATIENCE);
        let mut begun = false;
        loop {
            let (down, outage_edge) = if hold { outage_at(&self.profile.outages, at) } else { (false, Time::MAX) };
            let (rate, edge) = match &self.profile.capacity {
                Capacity::Unlimited | Capacity::Trace(_) if down => (0, outage_edge),
                Capacity::Unlimited | Capacity::Trace(_) => return Some((at, at)),
                Capacity::Constant(rate) => (rate.as_bits_per_sec(), outage_edge),
                Capacity::Series(series) => {
                    let (rate, edge) = series.at(at);
                    (rate.as_bits_per_sec(), edge.min(outage_edge))
                }
            };
            let rate = if down { 0 } else { u128::from(rate) };
            if rate > 0 {
                if !begun {
                    (begin, begun) = (at, true);
                }
                let needed = work.div_ceil(rate);
                let room = u128::from(edge.since(at).as_nanos());
                if needed <= room {
                    self.carry = needed * rate - work;
                    return Some((begin, at + Span::from_nanos(needed as u64)));
                }
                work -= rate * room;
            }
            at = edge;
            if at > patience {
                return None;
            }
        }
    }

    fn serve_trace(&mut self, now: Time, counted: u64) -> Option<(Time, Time)> {
        let Capacity::Trace(trace) = &self.profile.capacity else { return None };
        let hold = self.profile.during_outage == DuringOutage::Hold && !self.profile.outages.is_empty();
        let (mut number, mut left) = self.opportunity;
        // What remains of an opportunity serves only frames that were there when it came.
        if left == 0 || trace.time(number) < now {
            number = trace.first_at(now).max(if left == 0 { number } else { number + 1 });
            left = OPPORTUNITY;
        }
        let (mut work, mut begin) = (counted, None);
        let patience = now + PATIENCE;
        loop {
            let at = trace.time(number);
            if hold && outage_at(&self.profile.outages, at).0 {
                left = 0;
            }
            if left > 0 {
                begin = begin.or(Some(at));
                let take = left.min(work);
                left -= take;
                work -= take;
                if work == 0 {
                    // A used-up opportunity moves on to the next, so that `left == 0` means "not yet looked at".
                    self.opportunity = if left == 0 { (number + 1, 0) } else { (number, left) };
                    return Some((begin.unwrap_or(at), at));
                }
            }
            number += 1;
            left = OPPORTUNITY;
            if at > patience {
                return None;
            }
        }
    }

    fn loses(&mut self) -> bool {
        match self.profile.loss {
            Loss::None => false,
            Loss::Independent(p) => self.rng.unit() < p,
            Loss::Gilbert { p, r, bad, good } => {
                let (leave, lose) = if self.bad { (r, bad) } else { (p, good) };
                let lost = self.rng.unit() < lose;
                if self.rng.unit() < leave {
                    self.bad = !self.bad;
                }
                lost
            }
        }
    }

    fn delay(&mut self) -> Span {
        if self.profile.jitter == Span::ZERO {
            return self.profile.delay;
        }
        let offset = self.normal() * self.profile.jitter.as_nanos() as f64;
        let delay = self.profile.delay.as_nanos() as f64 + offset;
        Span::from_nanos(libm::round(delay.max(0.0)) as u64)
    }

    /// A draw from the standard normal distribution (Marsaglia's polar method).
    fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare_normal.take() {
            return spare;
        }
        loop {
            let (x, y) = (2.0 * self.rng.unit() - 1.0, 2.0 * self.rng.unit() - 1.0);
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                let factor = libm::sqrt(-2.0 * libm::log(square) / square);
                self.spare_normal = Some(y * factor);
                return x * factor;
            }
        }
    }
}
