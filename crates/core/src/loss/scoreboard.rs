//! What was sent and is not acknowledged yet.
//!
//! What it is: a ring with an entry for each segment outstanding, in the order of their positions, without gaps between
//! them; entries carry what is known of them, and sums are kept of what the entries say. Used with SACK and without. Positions
//! are a stream's, where each byte (and TCP's SYN and FIN) has one, or the numbers of packets, where each packet has one;
//! sums are of bytes. Source: RFC 6675, sections 3 and 4 (Update, IsLost, SetPipe, NextSeg); RFC 2018, section 5.
//!
//! | RFC 6675 | here |
//! |---|---|
//! | HighACK | the front's start |
//! | HighData | the back's end |
//! | HighRxt | `retransmitted_to` |
//! | pipe | [`Scoreboard::in_flight`] |
//! | IsLost | the flag LOST, set by [`Scoreboard::mark_lost`] |
//!
//! Departures: bookkeeping is by segments, not bytes: a SACK block marks those that it covers in full, and a segment that
//! is acknowledged in part gets shorter. Cost: O(1) amortised a segment; a block is looked up in O(log n), and of a block
//! that grew only the growth is walked. Invariant: the sums are those of the entries' flags.

use crate::units::Time;
use alloc::collections::VecDeque;

/// Its receipt was reported by SACK.
pub const SACKED: u8 = 1;
/// It is taken for lost.
pub const LOST: u8 = 2;
/// A retransmission of it is under way, sent since it was last taken for lost.
pub const RETRANSMITTED: u8 = 4;
/// It was sent more than once.
pub const EVER: u8 = 8;

/// A segment outstanding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent<T> {
    /// The position after its last.
    pub end: u64,
    /// When it was last sent.
    pub sent_at: Time,
    /// How many positions it takes.
    pub length: u32,
    /// How many bytes it counts.
    pub bytes: u32,
    /// See the constants.
    pub flags: u8,
    /// What the sender wants to remember of its last sending.
    pub stamp: T,
}

impl<T> Sent<T> {
    /// Its first position.
    #[inline]
    pub fn start(&self) -> u64 {
        self.end - u64::from(self.length)
    }

    /// Whether one of `flag` is set.
    #[inline]
    pub fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// What was found lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Its bytes; zero: nothing.
    pub bytes: u64,
    /// The position after the last of it.
    pub end: u64,
}

/// The segments outstanding.
#[derive(Clone, Debug)]
pub struct Scoreboard<T> {
    ring: VecDeque<Sent<T>>,
    outstanding: u64,
    sacked: u64,
    sacked_segments: u32,
    lost: u64,
    retransmitted: u64,
    /// Lost, and not retransmitted since.
    waiting: u64,
    highest_sacked: u64,
    /// Below it, everything that is not SACKed has been marked by `mark_lost`.
    judged_to: u64,
    /// Nothing below it is waiting.
    waiting_from: u64,
    /// After the highest position retransmitted since recovery began.
    retransmitted_to: u64,
    /// The blocks that the last ACK had.
    blocks: [(u64, u64); 4],
    /// What was marked as lost and `take_lost` has not given yet.
    untold: Lost,
}

impl<T> Default for Scoreboard<T> {
    fn default() -> Scoreboard<T> {
        Scoreboard {
            ring: VecDeque::new(),
            outstanding: 0,
            sacked: 0,
            sacked_segments: 0,
            lost: 0,
            retransmitted: 0,
            waiting: 0,
            highest_sacked: 0,
            judged_to: 0,
            waiting_from: 0,
            retransmitted_to: 0,
            blocks: [(0, 0); 4],
            untold: Lost::default(),
        }
    }
}

impl<T: Copy> Scoreboard<T> {
    /// Whether nothing is outstanding.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Segments outstanding.
    #[inline]
    pub fn len(&self) -> usize {
        self.ring.len()
    }

    /// One of them, from the oldest position on.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&Sent<T>> {
        self.ring.get(index)
    }

    /// The one of the lowest position.
    #[inline]
    pub fn front(&self) -> Option<&Sent<T>> {
        self.ring.front()
    }

    /// Bytes that are taken to be under way: RFC 6675's pipe.
    #[inline]
    pub fn in_flight(&self) -> u64 {
        self.outstanding - self.sacked - self.lost + self.retransmitted
    }

    /// Bytes whose receipt SACK reported.
    #[inline]
    pub fn sacked(&self) -> u64 {
        self.sacked
    }

    /// Segments whose receipt SACK reported.
    #[inline]
    pub fn sacked_segments(&self) -> u32 {
        self.sacked_segments
    }

    /// Bytes to be sent again.
    #[inline]
    pub fn waiting(&self) -> u64 {
        self.waiting
    }

    /// A new segment of `length` positions and `bytes` bytes was sent; it begins where the last one ended.
    #[inline]
    pub fn push(&mut self, now: Time, end: u64, length: u32, bytes: u32, stamp: T) {
        debug_assert!(self.ring.back().is_none_or(|last| last.end == end - u64::from(length)));
        self.ring.push_back(Sent { end, sent_at: now, length, bytes, flags: 0, stamp });
        self.outstanding += u64::from(bytes);
    }

    #[inline]
    fn withdraw(&mut self, bytes: u64, flags: u8) {
        if flags & (SACKED | LOST | RETRANSMITTED) != 0 {
            self.sacked -= if flags & SACKED != 0 { bytes } else { 0 };
            self.lost -= if flags & LOST != 0 { bytes } else { 0 };
            self.retransmitted -= if flags & RETRANSMITTED != 0 { bytes } else { 0 };
            self.waiting -= if flags & (LOST | RETRANSMITTED) == LOST { bytes } else { 0 };
        }
    }

    fn enter(&mut self, bytes: u64, flags: u8) {
        self.sacked += if flags & SACKED != 0 { bytes } else { 0 };
        self.lost += if flags & LOST != 0 { bytes } else { 0 };
        self.retransmitted += if flags & RETRANSMITTED != 0 { bytes } else { 0 };
        self.waiting += if flags & (LOST | RETRANSMITTED) == LOST { bytes } else { 0 };
    }

    fn set(&mut self, index: usize, flags: u8) {
        let Sent { bytes, flags: old, .. } = self.ring[index];
        self.withdraw(u64::from(bytes), old);
        self.enter(u64::from(bytes), flags);
        self.sacked_segments -= u32::from(old & SACKED != 0);
        self.sacked_segments += u32::from(flags & SACKED != 0);
        self.ring[index].flags = flags;
    }

    /// Everything below `position` is acknowledged; tells each segment that this completes.
    #[inline]
    pub fn acknowledge(&mut self, position: u64, mut each: impl FnMut(&Sent<T>)) {
        while let Some(front) = self.ring.front() {
            if front.end > position {
                break;
            }
            each(front);
            let (bytes, flags) = (u64::from(front.bytes), front.flags);
            self.ring.pop_front();
            self.withdraw(bytes, flags);
            self.sacked_segments -= u32::from(flags & SACKED != 0);
            self.outstanding -= bytes;
        }
        if let Some(front) = self.ring.front_mut()
            && front.start() < position
        {
            // A segment of a stream, where each byte has its position.
            let cut = (position - front.start()) as u32;
            let bytes = cut.min(front.bytes);
            front.length -= cut;
            front.bytes -= bytes;
            let flags = front.flags;
            self.withdraw(u64::from(bytes), flags);
            self.outstanding -= u64::from(bytes);
        }
    }

    /// The index of the segment that contains `position`, or of the first one after it.
    pub fn find(&self, position: u64) -> usize {
        // Most lookups are for the front.
        match self.ring.front() {
            Some(front) if front.end > position => 0,
            _ => self.ring.partition_point(|sent| sent.end <= position),
        }
    }

    /// RFC 6675, Update(): the peer has the block from `left` to `right`. Tells each segment that this is new of, and gives
    /// their bytes.
    pub fn sack(&mut self, left: u64, right: u64, mut each: impl FnMut(&Sent<T>)) -> u64 {
        let Some(back) = self.ring.back() else { return 0 };
        // RFC 2018 §5; RFC 6675 §5: only what is outstanding counts.
        if right > back.end || left >= right {
            return 0;
        }
        let seen = self.blocks.iter().find(|(l, r)| *l <= left && left < *r).map_or(left, |(_, r)| *r);
        let mut bytes = 0;
        let mut index = self.find(seen.min(right));
        while let Some(sent) = self.ring.get(index).filter(|sent| sent.end <= right) {
            if sent.start() >= left && !sent.is(SACKED) {
                bytes += u64::from(sent.bytes);
                each(sent);
                let (flags, end) = (sent.flags, sent.end);
                self.set(index, flags & !(LOST | RETRANSMITTED) | SACKED);
                self.highest_sacked = self.highest_sacked.max(end);
            }
            index += 1;
        }
        bytes
    }

    /// Keeps the blocks of an ACK, so that the next need not walk them again.
    pub fn remember_blocks(&mut self, blocks: [(u64, u64); 4]) {
        // A block that ends inside a segment has not marked that one: it is remembered up to there only.
        self.blocks = blocks.map(|(left, right)| {
            let edge = self.ring.get(self.find(right)).map_or(right, |sent| sent.start());
            (left, right.min(edge))
        });
    }

    /// RFC 6675, IsLost(), for all at once: marks what has `threshold` discontiguous SACKed runs above it, or more than
    /// `threshold - 1` segments of `mss` bytes SACKed. Gives the bytes newly marked.
    pub fn mark_lost(&mut self, threshold: u32, mss: u64) -> u64 {
        if self.sacked == 0 || self.highest_sacked <= self.judged_to {
            return 0;
        }
        let enough = u64::from(threshold - 1) * mss;
        let (mut bytes, mut runs, mut above) = (0, 0, false);
        let mut index = self.find(self.highest_sacked - 1);
        // Down from the highest: what is below `judged_to` has been marked, so the walk ends there.
        let boundary = loop {
            let Some(sent) = self.ring.get(index).filter(|sent| sent.end > self.judged_to) else { return 0 };
            if sent.is(SACKED) {
                runs += u32::from(!above);
                bytes += u64::from(sent.bytes);
                above = true;
                if runs >= threshold || bytes > enough {
                    break sent.start();
                }
            } else {
                above = false;
            }
            if index == 0 {
                return 0;
            }
            index -= 1;
        };
        let (mut at, mut marked) = (self.find(self.judged_to), 0);
        while let Some(sent) = self.ring.get(at).copied().filter(|sent| sent.end <= boundary) {
            if !sent.is(SACKED | LOST) {
                marked += self.lose(at);
            }
            at += 1;
        }
        self.judged_to = boundary;
        marked
    }

    /// Marks one segment as lost (again, if its retransmission is lost); gives its bytes.
    pub fn lose(&mut self, index: usize) -> u64 {
        let sent = self.ring[index];
        self.set(index, sent.flags & !RETRANSMITTED | LOST);
        self.waiting_from = self.waiting_from.min(sent.start());
        if sent.flags & (LOST | RETRANSMITTED) != LOST {
            self.untold.bytes += u64::from(sent.bytes);
            self.untold.end = self.untold.end.max(sent.end);
        }
        u64::from(sent.bytes)
    }

    /// Whether [`Scoreboard::take_lost`] has something to give.
    #[inline]
    pub fn has_untold(&self) -> bool {
        self.untold.bytes > 0
    }

    /// What was marked as lost since this was asked last.
    #[inline]
    pub fn take_lost(&mut self) -> Lost {
        core::mem::take(&mut self.untold)
    }

    /// A timeout: nothing is under way any more. What was SACKed counts still, or not (RFC 2018, section 8).
    pub fn lose_all(&mut self, keep_sacked: bool) {
        if !keep_sacked {
            self.forget_sacked();
        }
        for index in 0..self.ring.len() {
            if !self.ring[index].is(SACKED) {
                self.lose(index);
            }
        }
        self.judged_to = self.ring.back().map_or(0, |back| back.end);
    }

    fn forget_sacked(&mut self) {
        for index in 0..self.ring.len() {
            let flags = self.ring[index].flags;
            self.set(index, flags & !SACKED);
        }
        self.highest_sacked = 0;
        self.blocks = [(0, 0); 4];
    }

    /// What is marked as lost is not, after all.
    pub fn unlose(&mut self) {
        for index in 0..self.ring.len() {
            let flags = self.ring[index].flags;
            self.set(index, flags & !LOST);
        }
        self.judged_to = 0;
    }

    /// Recovery begins.
    pub fn begin_recovery(&mut self) {
        self.retransmitted_to = 0;
    }

    /// NextSeg(), rule 1: the first segment that is lost and not sent again.
    #[inline]
    pub fn next_lost(&mut self) -> Option<usize> {
        if self.waiting == 0 {
            return None;
        }
        let mut index = self.find(self.waiting_from);
        while let Some(sent) = self.ring.get(index) {
            if sent.flags & (LOST | RETRANSMITTED) == LOST {
                self.waiting_from = sent.start();
                return Some(index);
            }
            index += 1;
        }
        None
    }

    /// NextSeg(), rule 3: the first segment below the highest SACKed one that is neither SACKed nor sent again.
    pub fn next_doubtful(&mut self) -> Option<usize> {
        let mut index = self.find(self.retransmitted_to);
        while let Some(sent) = self.ring.get(index).filter(|sent| sent.end <= self.highest_sacked) {
            if !sent.is(SACKED | RETRANSMITTED) {
                return Some(index);
            }
            index += 1;
        }
        None
    }

    /// NextSeg(), rule 4: the last segment, if it is not SACKed.
    pub fn last_unsacked(&self) -> Option<usize> {
        self.ring.iter().rposition(|sent| !sent.is(SACKED))
    }

    /// It is being sent again; gives it as it was.
    pub fn retransmit(&mut self, index: usize, now: Time, stamp: T) -> Sent<T> {
        let sent = self.ring[index];
        self.set(index, sent.flags | RETRANSMITTED | EVER);
        self.ring[index].sent_at = now;
        self.ring[index].stamp = stamp;
        self.retransmitted_to = self.retransmitted_to.max(sent.end);
        sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;
    use std::vec::Vec;

    const MSS: u64 = 100;

    /// Ten segments of 100 bytes from position 1.
    fn ten() -> Scoreboard<()> {
        let mut board = Scoreboard::<()>::default();
        for n in 1..=10 {
            board.push(Time::from_millis(n), 1 + n * MSS, 100, 100, ());
        }
        board
    }

    fn lost(board: &Scoreboard<()>) -> Vec<u64> {
        board.ring.iter().filter(|sent| sent.is(LOST)).map(|sent| sent.start()).collect()
    }

    fn check(board: &Scoreboard<()>) {
        let sum = |wanted: &dyn Fn(&Sent<()>) -> bool| -> u64 {
            board.ring.iter().filter(|sent| wanted(sent)).map(|sent| u64::from(sent.bytes)).sum()
        };
        assert_eq!(board.outstanding, sum(&|_| true));
        assert_eq!(board.sacked, sum(&|s| s.is(SACKED)));
        assert_eq!(board.sacked_segments as usize, board.ring.iter().filter(|s| s.is(SACKED)).count());
        assert_eq!(board.lost, sum(&|s| s.is(LOST)));
        assert_eq!(board.retransmitted, sum(&|s| s.is(RETRANSMITTED)));
        assert_eq!(board.waiting, sum(&|s| s.is(LOST) && !s.is(RETRANSMITTED)));
    }

    #[test]
    fn three_sacked_segments_above_make_a_segment_lost_and_two_do_not() {
        let mut board = ten();
        assert_eq!(board.sack(101, 301, |_| ()), 200);
        assert_eq!(board.mark_lost(3, MSS), 0, "2 * SMSS is not more than (DupThresh - 1) * SMSS");
        assert_eq!(board.sack(101, 401, |_| ()), 100);
        assert_eq!(board.mark_lost(3, MSS), 100);
        assert_eq!(lost(&board), [1]);
        assert_eq!(board.in_flight(), 1000 - 300 - 100);
        check(&board);
    }

    #[test]
    fn three_discontiguous_runs_above_make_a_segment_lost_however_short() {
        let mut board = Scoreboard::<()>::default();
        for n in 1..=8 {
            board.push(Time::ZERO, 1 + n * 10, 10, 10, ());
        }
        for left in [11, 31] {
            board.sack(left, left + 10, |_| ());
            assert_eq!(board.mark_lost(3, MSS), 0);
        }
        board.sack(51, 61, |_| ());
        assert_eq!(board.mark_lost(3, MSS), 10);
        assert_eq!(lost(&board), [1]);
        check(&board);
    }

    #[test]
    fn retransmissions_go_in_order_and_count_as_under_way() {
        let mut board = ten();
        board.sack(201, 301, |_| ());
        board.sack(501, 901, |_| ());
        board.mark_lost(3, MSS);
        assert_eq!(lost(&board), [1, 101, 301, 401]);
        let mut again = vec![];
        while let Some(index) = board.next_lost() {
            again.push(board.retransmit(index, Time::from_millis(50), ()).start());
        }
        assert_eq!(again, [1, 101, 301, 401]);
        // 901 is neither lost nor SACKed; the four are under way again.
        assert_eq!(board.in_flight(), 500);
        check(&board);
    }

    #[test]
    fn an_ack_inside_a_segment_shortens_it() {
        let mut board = ten();
        board.lose(0);
        let mut complete = 0;
        board.acknowledge(151, |_| complete += 1);
        assert_eq!((complete, board.front().unwrap().start(), board.in_flight()), (1, 151, 850));
        check(&board);
    }

    #[test]
    fn a_timeout_forgets_sacks_unless_told_to_keep_them() {
        for keep in [false, true] {
            let mut board = ten();
            board.sack(301, 401, |_| ());
            board.lose_all(keep);
            assert_eq!(board.in_flight(), 0);
            assert_eq!(board.waiting(), if keep { 900 } else { 1000 });
            check(&board);
            assert_eq!(board.sack(301, 401, |_| ()), if keep { 0 } else { 100 });
            check(&board);
        }
    }

    #[test]
    fn blocks_that_grow_or_lie_outside_mark_what_they_cover_once() {
        let mut board = ten();
        assert_eq!(board.sack(301, 451, |_| ()), 100, "half a segment does not count");
        board.remember_blocks([(301, 451), (0, 0), (0, 0), (0, 0)]);
        assert_eq!(board.sack(301, 601, |_| ()), 200);
        assert_eq!(board.sack(901, 1101, |_| ()), 0, "beyond what was sent");
        assert_eq!(board.sack(601, 601, |_| ()), 0);
        assert_eq!(board.sacked(), 300);
        assert_eq!(board.highest_sacked, 601);
        check(&board);
    }

    #[test]
    fn numbered_packets_count_their_bytes_and_what_was_lost_is_told_once() {
        let mut board = Scoreboard::<()>::default();
        for n in 0..6 {
            board.push(Time::ZERO, n + 1, 1, 200 + n as u32, ());
        }
        assert_eq!(board.in_flight(), 1215);
        let mut arrived = vec![];
        assert_eq!(board.sack(3, 6, |sent| arrived.push(sent.start())), 203 + 204 + 205);
        assert_eq!(arrived, [3, 4, 5]);
        assert_eq!(board.mark_lost(3, 200), 200 + 201 + 202);
        assert_eq!((board.take_lost(), board.take_lost()), (Lost { bytes: 603, end: 3 }, Lost::default()));
        board.acknowledge(6, |_| ());
        assert!(board.is_empty() && board.in_flight() == 0);
        check(&board);
    }
}
