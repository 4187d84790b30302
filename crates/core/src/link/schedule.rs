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
use super::profile::{DuringOutage, Loss, Profile, ProfileError, Spell, outage_at};
use crate::buffer::{Limit, Reason};
use crate::rng::Rng;
use crate::shared::Shared;
use crate::units::{Span, Time};
use alloc::boxed::Box;
use alloc::collections::VecDeque;

/// Longest that a frame may stay in the queue of a link that stands still; then it counts as lost in an outage.
const PATIENCE: Span = Span::from_secs(600);

/// Frames of a round of [`Schedule::let_release_wander`], at least and at most.
const RELEASE_ROUND: (u64, u64) = (200, 400);

/// Frames below this length take the fast path: their work and the carry fit 64 bits.
const LONGEST_STEADY: u64 = 1 << 31;

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
    /// The queue would not have it, or not any longer.
    Queue(Reason),
    /// The link was in an outage.
    Outage,
}

/// The times of a frame that gets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// Its transmission begins.
    pub start: Time,
    /// Its transmission ends.
    pub end: Time,
    /// It leaves the far end.
    pub due: Time,
    /// Its bytes as they count against capacity and queue.
    pub counted: u64,
}

/// The schedule of one direction.
///
/// A simulation has many links, and every cache line of one that a frame touches costs memory accesses. So the order
/// of the fields is fixed: 64 bytes of what every frame moves, 64 bytes of what it asks for, and the rest apart.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Schedule {
    /// No arrival precedes the one before it.
    now: Time,
    busy_until: Time,
    carry: u64,
    /// The rate where it is constant and nothing holds the link up: the fast path. Otherwise zero.
    steady: u64,
    /// On the fast path, of the last length: whole nanoseconds of work, what is left of a nanosecond.
    work: (u64, u64),
    base_delay: Span,
    last_due: Time,
    /// The length, counted, that `work` is of.
    work_of: u32,
    overhead: i32,
    queue: Limit,
    lossy: bool,
    /// The delay is not always the same.
    varies: bool,
    reorder: bool,
    /// Outages lose what they meet.
    cut: bool,
    /// Start (or when their room is free) and counted bytes of the transmissions that have not begun.
    waiting: VecDeque<(Time, u64)>,
    waiting_bytes: u64,
    /// How far into its transmission a frame's room becomes free, and by how much that grows a frame, as fractions of
    /// 2^64. See [`Schedule::let_release_wander`].
    release: (u64, u64),
    rest: Box<Rest>,
}

/// What a frame needs only where its link is more than a constant rate and delay.
#[derive(Clone, Debug)]
struct Rest {
    profile: Shared<Profile>,
    rng: Rng,
    /// The Gilbert model's state.
    bad: bool,
    spare_normal: Option<f64>,
    /// On a trace: the opportunity in use and the bytes left of it.
    opportunity: (u64, u64),
}

impl Schedule {
    /// An idle link. `seed` determines loss and jitter.
    ///
    /// # Errors
    /// Those of [`Profile::check`].
    pub fn new(profile: impl Into<Shared<Profile>>, seed: u64) -> Result<Schedule, ProfileError> {
        let profile = profile.into();
        profile.check()?;
        let holds = profile.during_outage == DuringOutage::Hold && !profile.outages.is_empty();
        let steady = match profile.capacity {
            // The carry stays below the rate, and must have room for a rate more.
            Capacity::Constant(rate) if !holds && rate.as_bits_per_sec() < 1 << 62 => rate.as_bits_per_sec(),
            _ => 0,
        };
        Ok(Schedule {
            now: Time::ZERO,
            busy_until: Time::ZERO,
            carry: 0,
            steady,
            work: (0, 0),
            base_delay: profile.delay,
            last_due: Time::ZERO,
            work_of: 0,
            overhead: profile.overhead(),
            queue: profile.queue,
            lossy: profile.loss != Loss::None || profile.spells.iter().any(|spell| spell.loss > 0.0),
            varies: profile.jitter > Span::ZERO || profile.spells.iter().any(|spell| spell.delay > Span::ZERO),
            reorder: profile.reorder,
            cut: profile.during_outage == DuringOutage::Lose && !profile.outages.is_empty(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            release: (0, 0),
            rest: Box::new(Rest { profile, rng: Rng::new(seed), bad: false, spare_normal: None, opportunity: (0, 0) }),
        })
    }

    /// Frees a frame's room in the queue not when its transmission begins but at an instant of it that moves slowly
    /// from begin to end and again, a round in 200 to 400 frames, drawn for each link. Equal frames at equal rates
    /// otherwise find the room at the same point of every turn, and whoever comes just after it gets all of it for as
    /// long as the clocks agree (Floyd and Jacobson 1992, "On traffic phase effects"). No frame is delayed, and the
    /// queue's limit holds. It moves slowly since an independent instant for each frame would favour the arrivals
    /// late in a turn: they alone profit from two rooms that come close together.
    pub fn let_release_wander(&mut self) {
        let (least, most) = (u64::MAX / RELEASE_ROUND.1, u64::MAX / RELEASE_ROUND.0);
        self.release = (self.rest.rng.next_u64(), least + self.rest.rng.below(most - least));
    }

    /// The settings.
    pub fn profile(&self) -> &Profile {
        &self.rest.profile
    }

    /// A frame of `len` bytes arrives at `at`. An arrival before an earlier call's is taken to come with it.
    pub fn offer(&mut self, at: Time, len: usize) -> Verdict {
        match self.pass(at, len) {
            Ok(passage) => Verdict::Deliver(passage.due),
            Err(reason) => Verdict::Drop(reason),
        }
    }

    /// As [`offer`](Schedule::offer), with all times of the frame.
    ///
    /// # Errors
    /// Why it is lost.
    #[inline]
    pub fn pass(&mut self, at: Time, len: usize) -> Result<Passage, Drop> {
        let now = at.max(self.now);
        self.now = now;
        if self.lose(now) {
            return Err(Drop::Loss);
        }
        self.expire(now);
        // A link that is free takes the frame at once, whatever the limit of the queue.
        if self.busy_until > now {
            let counted = self.counted(len);
            let full = match self.queue {
                Limit::Packets(limit) => self.waiting.len() >= limit as usize,
                Limit::Bytes(limit) => self.waiting_bytes.saturating_add(counted) > limit,
            };
            if full {
                return Err(Drop::Queue(Reason::Full));
            }
        }
        self.transmit(now, len)
    }

    /// Draws whether a frame that comes at `at` is lost by chance: the first thing that happens to a frame in
    /// [`offer`](Schedule::offer). For a driver that has a queue of its own before the link.
    #[inline]
    pub fn lose(&mut self, at: Time) -> bool {
        self.lossy && self.draw_loss(at)
    }

    /// Sends a frame of `len` bytes behind all before it, without asking the queue's limit: the last thing that
    /// happens to a frame in [`offer`](Schedule::offer).
    ///
    /// # Errors
    /// [`Drop::Outage`].
    #[inline]
    pub fn transmit(&mut self, at: Time, len: usize) -> Result<Passage, Drop> {
        self.transmit_counted(at, self.counted(len))
    }

    /// As [`transmit`](Schedule::transmit), for what counts `counted` bytes.
    ///
    /// # Errors
    /// [`Drop::Outage`].
    #[inline]
    pub(super) fn transmit_counted(&mut self, at: Time, counted: u64) -> Result<Passage, Drop> {
        let now = at.max(self.now);
        self.now = now;
        let (start, end) = self.serve(now, counted).ok_or(Drop::Outage)?;
        if start > now {
            let (part, step) = self.release;
            self.release.0 = part.wrapping_add(step);
            let late = (u128::from(end.since(start).as_nanos()) * u128::from(part)) >> 64;
            self.waiting.push_back((start + Span::from_nanos(late as u64), counted));
            self.waiting_bytes += counted;
        }
        if self.cut {
            let (down, until) = outage_at(&self.rest.profile.outages, start);
            if down || until < end {
                return Err(Drop::Outage);
            }
        }
        let mut due = end + self.delay(end);
        if !self.reorder {
            due = due.max(self.last_due);
            self.last_due = due;
        }
        Ok(Passage { start, end, due, counted })
    }

    /// Frames and bytes that wait at `at`; the one in transmission does not count.
    pub fn waiting(&mut self, at: Time) -> (usize, u64) {
        self.expire(at.max(self.now));
        (self.waiting.len(), self.waiting_bytes)
    }

    /// When the queue will have room for a frame of `len` bytes that comes at `at` or later: `at` if it has.
    pub fn room_at(&mut self, at: Time, len: usize) -> Time {
        let now = at.max(self.now);
        self.expire(now);
        if self.busy_until <= now {
            return now;
        }
        match self.rest.profile.queue {
            Limit::Packets(limit) => {
                let over = (self.waiting.len() + 1).checked_sub(limit.max(1) as usize).and_then(|n| n.checked_sub(1));
                over.and_then(|last| self.waiting.get(last)).map_or(now, |(start, _)| *start)
            }
            Limit::Bytes(limit) => {
                let mut bytes = self.waiting_bytes.saturating_add(self.counted(len));
                let mut room = now;
                for (start, counted) in &self.waiting {
                    if bytes <= limit {
                        return room;
                    }
                    bytes -= counted;
                    room = *start;
                }
                // A free link takes what its queue never could.
                if bytes <= limit { room } else { self.busy_until }
            }
        }
    }

    /// Bytes that waited at the last arrival, that one counted.
    #[inline]
    pub fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }

    /// Until when the link transmits what it was given so far.
    #[inline]
    pub fn busy_until(&self) -> Time {
        self.busy_until
    }

    /// Whether frames may be lost by chance.
    #[inline]
    pub fn is_lossy(&self) -> bool {
        self.lossy
    }

    /// What a frame of `len` bytes counts.
    #[inline]
    pub fn counted(&self, len: usize) -> u64 {
        (len as i64).saturating_add(i64::from(self.overhead)).max(1) as u64
    }

    #[inline]
    fn expire(&mut self, now: Time) {
        while let Some(&(start, bytes)) = self.waiting.front()
            && start <= now
        {
            self.waiting.pop_front();
            self.waiting_bytes -= bytes;
        }
    }

    /// A delay that every frame spends at least, whatever the draw (four standard deviations below the mean: a
    /// lower draw has a chance of 3 in 100,000 and costs accuracy only).
    pub fn least_delay(&self) -> Span {
        self.rest.profile.delay - self.rest.profile.jitter.times(4)
    }

    /// Serialises `counted` bytes after everything before them: begin and end of the transmission.
    #[inline]
    fn serve(&mut self, now: Time, counted: u64) -> Option<(Time, Time)> {
        if self.steady > 0 && counted < LONGEST_STEADY {
            return Some(self.serve_steady(now, counted));
        }
        self.serve_any(now, counted)
    }

    /// As [`serve_rate`](Schedule::serve_rate) at a constant rate, in 64 bits, with a division only where the length
    /// changes.
    #[inline]
    fn serve_steady(&mut self, now: Time, counted: u64) -> (Time, Time) {
        let (mut begin, mut carry) = (self.busy_until, self.carry);
        if now > begin {
            (begin, carry) = (now, 0);
        }
        if u64::from(self.work_of) != counted {
            let work = counted * 8_000_000_000;
            (self.work_of, self.work) = (counted as u32, (work / self.steady, work % self.steady));
        }
        let (mut needed, rest) = self.work;
        if rest > carry {
            needed += 1;
            carry += self.steady - rest;
        } else {
            carry -= rest;
        }
        let end = begin + Span::from_nanos(needed);
        (self.carry, self.busy_until) = (carry, end);
        (begin, end)
    }

    fn serve_any(&mut self, now: Time, counted: u64) -> Option<(Time, Time)> {
        let begin = now.max(self.busy_until);
        let (begin, end) = match &self.rest.profile.capacity {
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
        let hold = self.rest.profile.during_outage == DuringOutage::Hold && !self.rest.profile.outages.is_empty();
        // In units of bit x ns per second: what a rate of 1 bit/s does in 1 ns.
        let whole = u128::from(counted) * 8_000_000_000;
        let mut work = whole.saturating_sub(u128::from(self.carry));
        // What a frame of less than a nanosecond leaves serves the next one.
        self.carry = u128::from(self.carry).saturating_sub(whole) as u64;
        let (mut at, patience) = (begin, begin + PATIENCE);
        let mut begun = false;
        loop {
            let (down, outage_edge) = if hold { outage_at(&self.rest.profile.outages, at) } else { (false, Time::MAX) };
            let (rate, edge) = match &self.rest.profile.capacity {
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
                    // Below the rate: less than a nanosecond's work.
                    self.carry += (needed * rate - work) as u64;
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
        let Capacity::Trace(trace) = &self.rest.profile.capacity else { return None };
        let hold = self.rest.profile.during_outage == DuringOutage::Hold && !self.rest.profile.outages.is_empty();
        let (mut number, mut left) = self.rest.opportunity;
        // What remains of an opportunity serves only frames that were there when it came.
        if left == 0 || trace.time(number) < now {
            number = trace.first_at(now).max(if left == 0 { number } else { number + 1 });
            left = OPPORTUNITY;
        }
        let (mut work, mut begin) = (counted, None);
        let patience = now + PATIENCE;
        loop {
            let at = trace.time(number);
            if hold && outage_at(&self.rest.profile.outages, at).0 {
                left = 0;
            }
            if left > 0 {
                begin = begin.or(Some(at));
                let take = left.min(work);
                left -= take;
                work -= take;
                if work == 0 {
                    // A used-up opportunity moves on to the next, so that `left == 0` means "not yet looked at".
                    self.rest.opportunity = if left == 0 { (number + 1, 0) } else { (number, left) };
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

    fn draw_loss(&mut self, at: Time) -> bool {
        let rest = &mut *self.rest;
        let strikes = |spell: &Spell, rng: &mut Rng| spell.loss > 0.0 && rng.unit() < spell.loss;
        let worse = Spell::at(&rest.profile.spells, at).any(|spell| strikes(spell, &mut rest.rng));
        // The usual process goes on by frames, lost or not.
        worse | self.draw_usual_loss()
    }

    fn draw_usual_loss(&mut self) -> bool {
        match self.rest.profile.loss {
            Loss::None => false,
            Loss::Independent(p) => self.rest.rng.unit() < p,
            Loss::Gilbert { p, r, bad, good } => {
                let (leave, lose) = if self.rest.bad { (r, bad) } else { (p, good) };
                let lost = self.rest.rng.unit() < lose;
                if self.rest.rng.unit() < leave {
                    self.rest.bad = !self.rest.bad;
                }
                lost
            }
        }
    }

    #[inline]
    fn delay(&mut self, at: Time) -> Span {
        if self.varies {
            return self.draw_delay(at);
        }
        self.base_delay
    }

    fn draw_delay(&mut self, at: Time) -> Span {
        let mut delay = self.base_delay;
        if self.rest.profile.jitter > Span::ZERO {
            let offset = self.normal() * self.rest.profile.jitter.as_nanos() as f64;
            let drawn = self.rest.profile.delay.as_nanos() as f64 + offset;
            delay = Span::from_nanos(libm::round(drawn.max(0.0)) as u64);
        }
        Spell::at(&self.rest.profile.spells, at).fold(delay, |delay, spell| delay + spell.delay)
    }

    /// A draw from the standard normal distribution (Marsaglia's polar method).
    fn normal(&mut self) -> f64 {
        if let Some(spare) = self.rest.spare_normal.take() {
            return spare;
        }
        loop {
            let (x, y) = (2.0 * self.rest.rng.unit() - 1.0, 2.0 * self.rest.rng.unit() - 1.0);
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                let factor = libm::sqrt(-2.0 * libm::log(square) / square);
                self.rest.spare_normal = Some(y * factor);
                return x * factor;
            }
        }
    }
}
