//! What arrived on a path of the frames that the peer counted, and when to tell it.
//!
//! What it is: the highest number, which of the 64 before it arrived, how many frames, bytes and marks in all, and when the
//! highest came. A report goes when 32 frames are not reported, 5 ms after the first of them, and at once where one of the three
//! numbers before is missing: on a link that keeps order the next frame shows a loss, and the third makes it one. 64 numbers overlap with the report before, so that one
//! lost report costs no knowledge; the counts bridge longer gaps.
//!
//! Source: ours. The ideas are those of RFC 9000 section 13.2 (acknowledge at once what came out of order), RFC 8888 (which
//! numbers came, and when) and RFC 3611.
//!
//! Frames say the low 24 bits of their numbers, and so does what is told of them ([`Flight`](super::flight) reads no more): the upper
//! bits are counted here from the first frame on, and mean nothing to the peer. More than 2^23 frames that are lost in a row do no harm
//! therefore. One frame that is late by as many (held back by somebody for minutes) is taken for one far ahead, and all that follow for
//! late ones. So 64 in a row that are behind all that is told begin anew.
//!
//! Cost: O(1) a frame. Memory: fixed. Invariant: a frame is counted once; one that is more than 64 behind the highest is not
//! counted at all, as if it were lost.

use crate::units::{ChannelId, Span, Time};
use crate::wire::envelope::Feedback;
use crate::wire::short::{ahead, short};

/// Longest time from an arrival to its report.
pub(crate) const REPORT_WITHIN: Span = Span::from_millis(5);
/// So many frames make a report at once.
const REPORT_EVERY: u32 = 32;
/// So many later frames make a loss of one that is missing.
const SHOWS: u32 = 3;
/// What is so far behind the highest is not told.
const TOLD: i32 = 65;
/// So many of those in a row show that the highest is not what it seems.
const STRAYS: u8 = 64;

/// What arrived on one path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Receipts {
    started: bool,
    highest: u32,
    /// Bit n: the number n + 1 before the highest arrived.
    set: u64,
    packets: u32,
    bytes: u32,
    marked: u32,
    arrived: Time,
    unreported: u32,
    due: Option<Time>,
    /// A report is due that no channel takes.
    kept_back: bool,
    /// What is due tells of a number that is missing.
    gap: bool,
    /// How many frames in a row were too far behind to be told.
    strays: u8,
}

impl Receipts {
    /// The frame of which the number's low 24 bits are `number`, of `bytes`, arrived; `marked`: with the mark of congestion.
    #[inline]
    pub(crate) fn on_arrival(&mut self, now: Time, number: u32, bytes: usize, marked: bool) {
        let mut gap = false;
        let step = ahead(number, self.highest);
        let behind = step.unsigned_abs();
        if self.started && step <= -TOLD {
            self.strays += 1;
            if self.strays < STRAYS {
                return;
            }
            self.started = false;
        }
        self.strays = 0;
        if !self.started {
            (self.started, self.highest, self.set, self.arrived) = (true, short(number), 0, now);
        } else if step > 0 {
            gap = step > 1;
            // The highest becomes one of those before.
            self.set = (self.set << 1 | 1).checked_shl(behind - 1).unwrap_or(0);
            (self.highest, self.arrived) = (self.highest.wrapping_add(behind), now);
        } else {
            let bit = 1u64.checked_shl(behind.wrapping_sub(1)).unwrap_or(0);
            if self.set & bit != 0 || bit == 0 {
                return;
            }
            self.set |= bit;
            gap = true;
        }
        gap |= self.packets >= SHOWS && self.set & ((1 << SHOWS) - 1) != (1 << SHOWS) - 1;
        self.gap |= gap;
        self.packets = self.packets.wrapping_add(1);
        self.bytes = self.bytes.wrapping_add(bytes as u32);
        self.marked = self.marked.wrapping_add(u32::from(marked));
        self.unreported += 1;
        let due = if gap || self.unreported >= REPORT_EVERY { now } else { now + REPORT_WITHIN };
        self.due = Some(self.due.map_or(due, |at| at.min(due)));
    }

    /// When [`Receipts::poll`] gives something.
    #[inline]
    pub(crate) fn timeout(&self) -> Option<Time> {
        self.due
    }

    /// No channel takes the report that is due: it waits for [`Receipts::release`], or for what arrives next.
    pub(crate) fn keep_back(&mut self) {
        self.kept_back |= self.due.take().is_some();
    }

    /// A channel takes reports again: one that was kept back is due.
    pub(crate) fn release(&mut self, now: Time) {
        if core::mem::take(&mut self.kept_back) {
            self.due = Some(now);
        }
    }

    /// Whether the report that is due tells of a number that is missing.
    pub(crate) fn tells_gap(&self) -> bool {
        self.gap
    }

    /// The report that is due, on the frames of the epoch whose tag is `of` on `channel`.
    pub(crate) fn poll(&mut self, now: Time, channel: ChannelId, of: u8) -> Option<Feedback> {
        self.due.filter(|at| *at <= now)?;
        (self.due, self.kept_back, self.unreported, self.gap) = (None, false, 0, false);
        let held = now.since(self.arrived).as_nanos() / 1_000;
        Some(Feedback {
            channel,
            of,
            highest: self.highest,
            packets: self.packets,
            marked: self.marked,
            held: u32::try_from(held).unwrap_or(u32::MAX),
            bytes: self.bytes,
            arrived: self.arrived.as_nanos(),
            set: self.set,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    const US: fn(u64) -> Time = |us| Time::from_nanos(us * 1000);

    fn report(receipts: &mut Receipts, now: Time) -> Option<Feedback> {
        receipts.poll(now, ChannelId(3), 9)
    }

    #[test]
    fn a_report_goes_within_five_milliseconds_or_thirty_two_frames() {
        let mut receipts = Receipts::default();
        receipts.on_arrival(US(10), 1, 1000, false);
        assert_eq!((receipts.timeout(), report(&mut receipts, US(5009))), (Some(US(5010)), None));
        let first = report(&mut receipts, US(5010)).unwrap();
        assert_eq!((first.highest, first.packets, first.bytes, first.held), (1, 1, 1000, 5000));
        for n in 2..=33 {
            assert_eq!(report(&mut receipts, US(6000)), None);
            receipts.on_arrival(US(6000), n, 1000, n == 5);
        }
        let second = report(&mut receipts, US(6000)).unwrap();
        assert_eq!((second.highest, second.packets, second.marked, second.set), (33, 33, 1, (1 << 32) - 1));
    }

    #[test]
    fn a_gap_is_told_at_once_and_so_is_what_fills_it() {
        let mut receipts = Receipts::default();
        for n in [1, 2, 4] {
            receipts.on_arrival(US(n), n as u32, 100, false);
        }
        assert_eq!(report(&mut receipts, US(4)).map(|r| (r.highest, r.set)), Some((4, 0b110)));
        receipts.on_arrival(US(5), 3, 100, false);
        assert_eq!(report(&mut receipts, US(5)).map(|r| (r.highest, r.set)), Some((4, 0b111)));
        receipts.on_arrival(US(6), 3, 100, false);
        assert_eq!((receipts.timeout(), receipts.packets), (None, 4), "twice is once");
    }

    #[test]
    fn numbers_are_read_on_over_their_wrap_and_over_any_number_of_losses() {
        let mut receipts = Receipts::default();
        for number in [0x00ff_fffe, 0x00ff_ffff, 0, 1] {
            receipts.on_arrival(US(1), number, 100, false);
        }
        assert_eq!(report(&mut receipts, US(5002)).map(|r| (r.highest, r.set)), Some((0x0100_0001, 0b111)));
        // Lost are 9,000,000, which reads as if it were behind; the 64th says that it is not.
        for n in 0..63 {
            receipts.on_arrival(US(6000), 9_000_002 + n, 100, false);
            assert_eq!((receipts.timeout(), receipts.packets), (None, 4));
        }
        receipts.on_arrival(US(6000), 9_000_065, 100, false);
        receipts.on_arrival(US(6000), 9_000_066, 100, false);
        assert_eq!(report(&mut receipts, US(11_000)).map(|r| (r.highest, r.set, r.packets)), Some((9_000_066, 1, 6)));
    }

    #[test]
    fn a_frame_that_was_held_back_for_half_a_turn_costs_what_64_frames_tell() {
        let mut receipts = Receipts::default();
        let now = US(1);
        receipts.on_arrival(now, 9_000_000, 100, false);
        receipts.on_arrival(now, 10, 100, false);
        assert!(receipts.highest > 9_000_000, "taken for one ahead");
        for n in 1..=200 {
            receipts.on_arrival(now, 9_000_000 + n, 100, false);
        }
        assert_eq!((receipts.highest, receipts.set, receipts.packets), (9_000_200, u64::MAX, 2 + 200 - 63));
    }

    proptest! {
        #[test]
        fn agrees_with_a_set_of_numbers(start in 0u32..1 << 24, steps in prop::collection::vec(-80i64..80, 1..300)) {
            let mut receipts = Receipts::default();
            let (mut model, mut top, mut packets) = (BTreeSet::new(), i64::from(start), 0u32);
            for (n, step) in steps.into_iter().enumerate() {
                let number = if n == 0 { top } else { top + step };
                receipts.on_arrival(US(1), number as u32, 1, false);
                if number > top - 65 && (n == 0 || number > top || number >= i64::from(start) - 64) && model.insert(number) {
                    packets += 1;
                }
                top = top.max(number);
                prop_assert_eq!(receipts.highest, top as u32);
                prop_assert_eq!(receipts.packets, packets);
                for behind in 1..=64i64 {
                    prop_assert_eq!(receipts.set >> (behind - 1) & 1 == 1, model.contains(&(top - behind)));
                }
            }
        }
    }
}
