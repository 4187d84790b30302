//! The matching rate of one connection, found by itself.
//!
//! What it is: a gate before the right-hand send buffer of one split connection. It knows how much waits there unsent (the
//! level) and how fast that drains, and says when the next packet of the connection may be served, so that the level stays
//! near a small target: above zero, so that TCP never starves, and not growing, so that what waits does so in the
//! fair-queueing subsystem, where it can be dropped. Source: hybrid-gateways 4.3 (what the rate must be), 4.4.4 (that it must
//! not count acknowledgments), 4.5 (finding it is left open there; the rule is ours).
//!
//! | symbol | here |
//! |---|---|
//! | L, the level: bytes written to the send buffer and not sent | `level + given` |
//! | d, the drain: bytes a second sent for the first time | `drain` |
//! | T, the target | [`Gate::target`]: four segments, 10 ms of the drain, or what the settings have, whichever is most |
//! | m, the matching rate | d (T/L)^4: the drain at the target, sixteen times it at half the target |
//!
//! Below a quarter of the target the gate is open: whatever the send buffer takes at once is not held back, so slow start and
//! every later rise of the window find their data, whatever the drain was. Above it m pulls the level back to the target with
//! a time constant of a quarter of the time in which the target drains. The drain is measured over a round trip; where nothing waited at some moment
//! of it, it could have been more than it was, and does not fall at once. Were the drain measured wrong by a factor k, the level would come to
//! rest at T k^(1/4). Only payload is counted: acknowledgments pass with other flows.
//!
//! Where nothing drains at all, packets still pass, one in 200 ms (L/T)^4, since they may carry the acknowledgment that the other
//! direction waits for: two directions that are both full would otherwise wait for each other for ever. After t seconds
//! that is T (25 t s / T)^(1/5) bytes for segments of s bytes: 21 segments after ten minutes.
//!
//! Cost: O(1). Invariant: a gate whose level is below a quarter of its target is open.

use crate::units::{Span, Time};

/// The target in segments, at least.
const SEGMENTS: u64 = 4;
/// The target as a time of the drain.
const TARGET: Span = Span::from_millis(10);
/// The drain is measured over a round trip, from the first to the second.
const WINDOW: (Span, Span) = (Span::from_millis(100), Span::from_secs(1));
/// How long a packet waits at most at the target.
const TRICKLE: Span = Span::from_millis(200);
/// A segment before there is any.
const SEGMENT: u64 = 536;

/// The gate before the send buffer of one direction of a connection.
#[derive(Clone, Debug)]
pub struct Gate {
    /// The target at least.
    least: u64,
    level: u64,
    /// Bytes that passed since the level was told.
    given: u64,
    /// The largest payload that passed.
    segment: u64,
    /// Bytes a second; zero before there was any.
    drain: u64,
    measured_from: Time,
    drained_before: u64,
    /// Nothing waited at some moment since: what drained was what came.
    starved: bool,
    /// When a packet last passed, and its payload.
    last: Time,
    last_bytes: u64,
    ready_at: Time,
}

impl Gate {
    /// An open gate before an empty buffer, whose target is never below `least` bytes.
    pub fn new(now: Time, least: u64) -> Gate {
        Gate {
            least,
            level: 0,
            given: 0,
            segment: SEGMENT,
            drain: 0,
            measured_from: now,
            drained_before: 0,
            starved: false,
            last: now,
            last_bytes: 0,
            ready_at: Time::ZERO,
        }
    }

    /// Bytes that should wait unsent.
    pub fn target(&self) -> u64 {
        let drained = u128::from(self.drain) * u128::from(TARGET.as_nanos()) / 1_000_000_000;
        u64::try_from(drained).unwrap_or(u64::MAX).max(SEGMENTS * self.segment).max(self.least)
    }

    /// What drains, in bytes a second.
    pub fn drain(&self) -> u64 {
        self.drain
    }

    /// The largest payload that passed, or what is taken for one before.
    pub(super) fn segment(&self) -> u64 {
        self.segment
    }

    /// `unsent` bytes wait in the send buffer, `sent` have been sent for the first time in all; `round_trip` is the right-hand
    /// connection's, zero where it is not known.
    pub fn on_level(&mut self, now: Time, unsent: u64, sent: u64, round_trip: Span) {
        (self.level, self.given) = (unsent, 0);
        self.starved |= unsent == 0;
        let elapsed = now.since(self.measured_from);
        if elapsed >= round_trip.max(WINDOW.0).min(WINDOW.1) {
            let bytes = u128::from(sent.saturating_sub(self.drained_before)) * 1_000_000_000;
            let sample = u64::try_from(bytes / u128::from(elapsed.as_nanos().max(1))).unwrap_or(u64::MAX);
            let average = self.drain / 2 + sample / 2;
            self.drain = if self.starved { average.max(sample) } else { sample };
            (self.measured_from, self.drained_before, self.starved) = (now, sent, unsent == 0);
        }
        self.settle();
    }

    /// A packet with so much payload passes.
    pub fn on_passed(&mut self, now: Time, payload: u64) {
        self.given = self.given.saturating_add(payload);
        self.segment = self.segment.max(payload);
        (self.last, self.last_bytes) = (now, payload);
        self.settle();
    }

    /// When the next packet may pass; [`Time::ZERO`]: at any time.
    #[inline]
    pub fn ready_at(&self) -> Time {
        self.ready_at
    }

    fn settle(&mut self) {
        let (level, target) = (self.level.saturating_add(self.given), self.target());
        if level < target.div_ceil(4) {
            self.ready_at = Time::ZERO;
            return;
        }
        // (L/T)^4 in thousandths; a level of a thousand targets is as good as any above it.
        let share = u128::from((u128::from(level) * 1000 / u128::from(target)).min(1_000_000) as u64);
        let fourth = share * share * share * share / 1_000_000_000;
        let trickle = u128::from(TRICKLE.as_nanos()) * fourth / 1000;
        let matched = match self.drain {
            0 => trickle,
            drain => u128::from(self.last_bytes) * 1_000_000 * fourth / u128::from(drain),
        };
        let span = u64::try_from(matched.min(trickle)).unwrap_or(u64::MAX);
        self.ready_at = self.last + Span::from_nanos(span);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A send buffer that drains at a rate, behind a gate that always has packets of `size` before it.
    struct Buffer {
        now: Time,
        unsent: u64,
        sent: u64,
        owed: u64,
    }

    impl Buffer {
        const STEP: Span = Span::from_micros(200);

        /// Runs for `span`; gives the least and the most level in it, and the bytes that drained.
        fn run(&mut self, gate: &mut Gate, rate: u64, size: u64, span: Span) -> (u64, u64, u64) {
            let (until, before) = (self.now + span, self.sent);
            let (mut least, mut most) = (u64::MAX, 0);
            while self.now < until {
                self.now += Buffer::STEP;
                self.owed += rate * Buffer::STEP.as_nanos();
                let bytes = (self.owed / 1_000_000_000).min(self.unsent);
                // What could not be used is gone, but for a nanosecond's remainder.
                self.owed %= 1_000_000_000;
                self.unsent -= bytes;
                self.sent += bytes;
                gate.on_level(self.now, self.unsent, self.sent, Span::from_millis(500));
                while gate.ready_at() <= self.now && self.unsent < 1 << 30 {
                    gate.on_passed(self.now, size);
                    self.unsent += size;
                    gate.on_level(self.now, self.unsent, self.sent, Span::from_millis(500));
                }
                (least, most) = (least.min(self.unsent), most.max(self.unsent));
            }
            (least, most, self.sent - before)
        }
    }

    fn empty() -> (Buffer, Gate) {
        (Buffer { now: Time::ZERO, unsent: 0, sent: 0, owed: 0 }, Gate::new(Time::ZERO, 0))
    }

    proptest! {
        #[test]
        fn the_level_neither_starves_nor_grows_at_any_drain(rate in 50_000u64..20_000_000, size in 100u64..1460) {
            let (mut buffer, mut gate) = empty();
            buffer.run(&mut gate, rate, size, Span::from_secs(4));
            let (least, most, drained) = buffer.run(&mut gate, rate, size, Span::from_secs(6));
            let target = gate.target();
            prop_assert!(least > 0, "starved at {rate} B/s with packets of {size} B");
            prop_assert!(most <= 2 * target + size, "{most} B wait where {target} B should");
            // All that it could drain in 6 s, but for what the steps round away.
            prop_assert!(drained >= rate * 6 - rate / 20, "{drained} B of {}", rate * 6);
        }

        #[test]
        fn a_drain_that_changes_is_matched_within_five_seconds(
            before in 50_000u64..5_000_000, after in 50_000u64..5_000_000,
        ) {
            let (mut buffer, mut gate) = empty();
            buffer.run(&mut gate, before, 1460, Span::from_secs(10));
            buffer.run(&mut gate, after, 1460, Span::from_secs(5));
            let (least, most, _) = buffer.run(&mut gate, after, 1460, Span::from_secs(5));
            prop_assert!(least > 0 && most <= 2 * gate.target() + 1460, "{least} to {most} B, target {}", gate.target());
        }
    }

    #[test]
    fn a_buffer_that_takes_everything_at_once_is_never_held_back() {
        let mut gate = Gate::new(Time::ZERO, 0);
        let (mut now, mut sent) = (Time::ZERO, 0);
        for _ in 0..10_000 {
            now += Span::from_micros(10);
            assert!(gate.ready_at() <= now);
            gate.on_passed(now, 1460);
            sent += 1460;
            gate.on_level(now, 0, sent, Span::from_millis(500));
        }
    }

    #[test]
    fn a_receiver_that_stops_is_given_little_more_and_not_nothing() {
        let (mut buffer, mut gate) = empty();
        buffer.run(&mut gate, 1_000_000, 1460, Span::from_secs(5));
        let before = buffer.unsent;
        buffer.run(&mut gate, 0, 1460, Span::from_secs(600));
        let grown = buffer.unsent - before;
        assert!((1460..30 * 1460).contains(&grown), "{grown} B");
        let target = gate.target();
        buffer.run(&mut gate, 1_000_000, 1460, Span::from_secs(5));
        assert!(buffer.unsent <= 2 * target.max(gate.target()) + 1460, "{} B", buffer.unsent);
    }
}
