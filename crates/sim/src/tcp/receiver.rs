//! What arrives: reassembly, the window, and when to acknowledge.
//!
//! What it is: the receiving half of a connection. It keeps ranges of positions, not bytes; decides between an ACK now, one
//! later and none; chooses the SACK blocks; and offers a window that does not tempt the peer into small segments. Source:
//! RFC 9293, 3.10.7.4 (acceptance), 3.8.6.2.2 (silly windows), 3.8.6.3 and RFC 5681, 4.2 (delayed ACKs); RFC 2018,
//! section 4 and RFC 2883 (blocks); RFC 7323, 2.3 and 4.3 (scaling, what to echo).
//!
//! | RFC 9293 | here |
//! |---|---|
//! | RCV.NXT | `next` |
//! | RCV.NXT + RCV.WND | `edge` |
//! | RCV.BUFF, Fr | `buffer`, 1/2 |
//!
//! Departures: with `receive_buffer_maximum` above `receive_buffer`, the buffer becomes twice what the application read in
//! the last round trip, more while that grows, as Linux does it; the round trip is that of the peer's timestamps or the
//! time a window takes to arrive. Linux's slow opening of its first window and its accounting of overhead are left out.
//! At most [`RANGES`] separate ranges are kept; what would make one more is dropped like a packet lost. Cost: O(1) in order,
//! O(log n) and a move of at most n/2 ranges out of order. Invariants: ranges are apart and above `next`; nothing beyond
//! `edge` was ever offered.

use super::config::Config;
use fairspan_core::units::{Span, Time};
use std::collections::VecDeque;

/// Most separate ranges beyond a gap.
const RANGES: usize = 1 << 16;

/// What became of a segment's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// In order: something became readable.
    InOrder,
    /// Kept behind a gap.
    OutOfOrder,
    /// All of it was there already.
    Duplicate,
    /// Beyond the window, or one range too many.
    Refused,
}

/// The receiving half.
#[derive(Clone, Debug)]
pub(super) struct Receiver {
    next: u64,
    read: u64,
    ranges: VecDeque<(u64, u64)>,
    /// Blocks to report, the most recent first; all are ranges or were part of one.
    recent: [(u64, u64); 4],
    /// A duplicate to report in the next ACK.
    duplicate: Option<(u64, u64)>,
    dsack: bool,
    fin: Option<u64>,

    edge: u64,
    buffer: u64,
    buffer_maximum: u64,
    /// What may be offered beyond what was read, whatever the buffer holds.
    limit: u64,
    /// Shift of the windows that we offer.
    shift: u8,
    mss: u64,

    ack_now: bool,
    /// Bytes arrived since the last ACK.
    unacknowledged: u64,
    /// And segments.
    segments: u64,
    /// When the delayed ACK is due.
    due: Time,
    delay: Span,
    delay_minimum: Span,
    delay_maximum: Span,
    ack_every: u64,
    ack_small_segments: bool,
    quick_acks: u32,
    quick_left: u32,
    last_data: Time,
    /// The largest payload seen.
    largest: u64,

    tuning: Tuning,
}

/// How fast the application takes data in (receive buffer growth).
#[derive(Clone, Copy, Debug, Default)]
struct Tuning {
    since: Time,
    from: u64,
    last: u64,
    round_trip: Span,
    /// Where a window that began to arrive at `window_since` ends.
    window_end: u64,
    window_since: Time,
}

impl Receiver {
    pub(super) fn new(config: &Config, now: Time) -> Receiver {
        let buffer = config.receive_buffer.as_u64();
        let buffer_maximum = buffer.max(config.receive_buffer_maximum.as_u64());
        Receiver {
            next: 0,
            read: 1,
            ranges: VecDeque::new(),
            recent: [(0, 0); 4],
            duplicate: None,
            dsack: config.dsack,
            fin: None,
            edge: 0,
            buffer,
            buffer_maximum,
            limit: u64::MAX,
            shift: 0,
            mss: u64::from(config.mss),
            ack_now: false,
            unacknowledged: 0,
            segments: 0,
            due: Time::MAX,
            delay: config.delayed_ack,
            delay_minimum: config.delayed_ack,
            delay_maximum: config.delayed_ack_maximum.max(config.delayed_ack),
            ack_every: u64::from(config.ack_every),
            ack_small_segments: config.ack_small_segments,
            quick_acks: config.quick_acks,
            quick_left: config.quick_acks,
            last_data: now,
            largest: 0,
            tuning: Tuning { last: buffer / 2, ..Tuning::default() },
        }
    }

    /// RFC 7323 §2.3: the least shift with which the largest window can be offered.
    pub(super) fn wanted_shift(config: &Config) -> u8 {
        let most = config.receive_buffer.max(config.receive_buffer_maximum).as_u64();
        (0..14).find(|shift| most >> shift <= 0xffff).unwrap_or(14)
    }

    /// The peer's SYN came; its windows and ours are scaled from now on, ours by `shift`.
    pub(super) fn on_open(&mut self, now: Time, shift: u8, mss: u64) {
        self.next = 1;
        self.shift = shift;
        self.mss = mss;
        self.last_data = now;
        self.tuning.since = now;
        self.tuning.from = self.read;
        self.tuning.window_since = now;
    }

    /// RCV.NXT.
    #[inline]
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// The right edge of the widest window offered.
    #[inline]
    pub(super) fn edge(&self) -> u64 {
        self.edge.max(self.next)
    }

    /// Whether the peer's FIN has been passed.
    pub(super) fn is_finished(&self) -> bool {
        self.fin.is_some_and(|fin| self.next > fin)
    }

    /// Whether there are gaps.
    #[inline]
    pub(super) fn has_gaps(&self) -> bool {
        !self.ranges.is_empty()
    }

    pub(super) fn readable(&self) -> u64 {
        let end = if self.is_finished() { self.next - 1 } else { self.next };
        end.saturating_sub(self.read)
    }

    /// Payload bytes that came in order.
    pub(super) fn delivered(&self) -> u64 {
        self.read - 1 + self.readable()
    }

    /// An ACK goes out with the next segment, at once.
    #[inline]
    pub(super) fn acknowledge_now(&mut self) {
        self.ack_now = true;
    }

    #[inline]
    pub(super) fn wants_ack(&self) -> bool {
        self.ack_now
    }

    /// When a delayed ACK is due.
    #[inline]
    pub(super) fn due(&self) -> Time {
        self.due
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        if self.due <= now {
            self.due = Time::MAX;
            self.ack_now = true;
            // Linux: a delay that expired was too short for the peer's pace.
            self.delay = self.delay.times(2).min(self.delay_maximum);
        }
    }

    /// Payload from `start` to `end`, and a FIN after it if `fin`. `SEG.LEN` is above zero.
    pub(super) fn handle(&mut self, now: Time, start: u64, end: u64, fin: bool) -> Arrival {
        let arrival = self.place(start, end, fin);
        match arrival {
            Arrival::InOrder => self.on_in_order(now, end - start, fin),
            // RFC 5681 §4.2: out of order, or filling a gap: at once. RFC 9293, 3.10.7.4: unacceptable: at once.
            _ => self.ack_now = true,
        }
        arrival
    }

    fn place(&mut self, start: u64, end: u64, fin: bool) -> Arrival {
        let edge = self.edge();
        let (left, right) = (start.max(self.next), end.min(edge));
        if fin && end <= edge && end >= self.next {
            self.fin = Some(end);
        }
        if left >= right {
            let fin_next = self.fin == Some(self.next);
            if fin && fin_next {
                self.next += 1;
                return Arrival::InOrder;
            }
            if end > start && end <= self.next {
                // RFC 2883 §4: the duplicate's own extent.
                self.report_duplicate(start, end);
            }
            return if end <= self.next { Arrival::Duplicate } else { Arrival::Refused };
        }
        if start < self.next {
            self.report_duplicate(start, self.next);
        }
        if left > self.next {
            return self.keep(left, right);
        }
        if self.ranges.is_empty() {
            self.next = right;
        } else {
            // RFC 5681 §4.2: a segment that fills a gap, all or part.
            self.ack_now = true;
            self.next = right;
            while let Some(&(from, to)) = self.ranges.front() {
                if from > self.next {
                    break;
                }
                if from < right {
                    self.report_duplicate(from, to.min(right));
                }
                self.next = self.next.max(to);
                self.ranges.pop_front();
            }
            for block in &mut self.recent {
                if block.1 <= self.next {
                    *block = (0, 0);
                }
            }
        }
        if self.fin == Some(self.next) {
            self.next += 1;
            self.ack_now = true;
        }
        Arrival::InOrder
    }

    /// Keeps a range beyond the gap.
    fn keep(&mut self, left: u64, right: u64) -> Arrival {
        // The ranges that touch it: [first, last).
        let first = self.ranges.partition_point(|(_, to)| *to < left);
        let last = first + self.ranges.iter().skip(first).take_while(|(from, _)| *from <= right).count();
        if first == last {
            if self.ranges.len() >= RANGES {
                return Arrival::Refused;
            }
            self.ranges.insert(first, (left, right));
            self.report((left, right));
            return Arrival::OutOfOrder;
        }
        let (from, to) = (self.ranges[first].0, self.ranges[last - 1].1);
        let covered = from <= left && right <= to && last - first == 1;
        if covered {
            self.report_duplicate(left, right);
        } else if let Some(&(a, b)) = self.ranges.range(first..last).find(|(a, b)| (*a).max(left) < (*b).min(right)) {
            // RFC 2883 §4.2: a part of it came before.
            self.report_duplicate(a.max(left), b.min(right));
        }
        let merged = (from.min(left), to.max(right));
        self.ranges[first] = merged;
        if last - first > 1 {
            self.ranges.drain(first + 1..last);
        }
        self.report(merged);
        if covered { Arrival::Duplicate } else { Arrival::OutOfOrder }
    }

    /// RFC 2018 §4: the first block is that of the segment that caused the ACK; the others repeat the latest ones.
    fn report(&mut self, block: (u64, u64)) {
        let mut list = [block, (0, 0), (0, 0), (0, 0)];
        let others = self.recent.iter().filter(|(l, r)| r > l && !(block.0 <= *l && *r <= block.1));
        for (place, other) in list[1..].iter_mut().zip(others) {
            *place = *other;
        }
        self.recent = list;
    }

    fn report_duplicate(&mut self, left: u64, right: u64) {
        if self.dsack {
            self.duplicate.get_or_insert((left, right));
        }
    }

    fn on_in_order(&mut self, now: Time, length: u64, fin: bool) {
        self.largest = self.largest.max(length).min(self.mss);
        let pause = now.since(self.last_data);
        self.last_data = now;
        self.unacknowledged += length;
        self.segments += 1;
        self.measure_window(now);
        if self.ack_now || fin || self.delay_minimum == Span::ZERO {
            self.ack_now = true;
            return;
        }
        if self.delay_minimum < self.delay_maximum {
            self.adapt_delay(pause);
        }
        if self.quick_left > 0 {
            self.quick_left -= 1;
            self.ack_now = true;
        } else if self.unacknowledged >= self.ack_every * self.largest
            || (self.ack_small_segments && self.segments >= self.ack_every)
        {
            // RFC 5681 §4.2: at least every second full-sized segment.
            self.ack_now = true;
        } else if self.due == Time::MAX {
            self.due = now + self.delay;
        }
    }

    /// The delay follows the gaps between arrivals; after a long one the beginning's quick ACKs come back (as in Linux).
    fn adapt_delay(&mut self, pause: Span) {
        let half = Span::from_nanos(self.delay_minimum.as_nanos() / 2);
        let halved = Span::from_nanos(self.delay.as_nanos() / 2);
        if pause <= half {
            self.delay = halved + half;
        } else if pause < self.delay {
            self.delay = halved + pause;
        } else if pause > Span::from_secs(1) {
            self.quick_left = self.quick_acks;
        }
        self.delay = self.delay.max(self.delay_minimum).min(self.delay_maximum);
    }

    /// The application reads; gives how many bytes.
    pub(super) fn take(&mut self, now: Time, max: u64) -> u64 {
        let bytes = self.readable().min(max);
        self.read += bytes;
        if self.buffer < self.buffer_maximum {
            self.grow(now);
        }
        if bytes > 0 {
            self.tell_larger_window();
        }
        bytes
    }

    /// From now on no more than this is offered beyond what was read; what was offered before stays.
    pub(super) fn limit_window(&mut self, limit: u64) {
        let larger = limit > self.limit;
        self.limit = limit;
        if larger {
            self.tell_larger_window();
        }
    }

    /// RFC 9293, 3.8.6.2.2: a larger window is worth an ACK of its own when it grows by a segment or half the buffer; by half of
    /// what it will be, as there are ACKs for data under way otherwise. What the field cannot say is no news.
    fn tell_larger_window(&mut self) {
        let (offered, possible) = (self.edge().saturating_sub(self.next), self.possible().min(0xffff << self.shift));
        let grown = possible.saturating_sub(offered);
        if !self.is_finished() && grown >= self.worthwhile() && possible >= 2 * offered {
            self.ack_now = true;
        }
    }

    /// A round trip by the peer's timestamps, for the buffer's growth.
    pub(super) fn on_round_trip(&mut self, sample: Span) {
        let before = self.tuning.round_trip.as_nanos();
        let sample = sample.as_nanos().max(1_000_000);
        self.tuning.round_trip = Span::from_nanos(if before == 0 { sample } else { (7 * before + sample) / 8 });
    }

    fn measure_window(&mut self, now: Time) {
        if self.buffer == self.buffer_maximum || self.next < self.tuning.window_end {
            return;
        }
        let span = now.since(self.tuning.window_since);
        if self.tuning.window_end > 0 && (self.tuning.round_trip == Span::ZERO || span < self.tuning.round_trip) {
            self.tuning.round_trip = span;
        }
        self.tuning.window_since = now;
        self.tuning.window_end = self.edge();
    }

    /// Linux, tcp_rcv_space_adjust: what was read in a round trip, twice, and twice the growth on top.
    fn grow(&mut self, now: Time) {
        let tuning = self.tuning;
        if tuning.round_trip == Span::ZERO || now.since(tuning.since) < tuning.round_trip {
            return;
        }
        let copied = self.read - tuning.from;
        if copied > tuning.last {
            let wanted = 2 * copied + 16 * self.mss;
            let growth = wanted as u128 * u128::from(copied - tuning.last) / u128::from(tuning.last.max(1));
            let wanted = (u128::from(wanted) + 2 * growth).min(u128::from(self.buffer_maximum)) as u64;
            self.buffer = self.buffer.max(wanted);
            self.tuning.last = copied;
        }
        self.tuning.since = now;
        self.tuning.from = self.read;
    }

    /// The widest window that the buffer allows.
    fn possible(&self) -> u64 {
        (self.read + self.buffer.min(self.limit)).saturating_sub(self.next)
    }

    /// RFC 9293, 3.8.6.2.2: min( Fr * RCV.BUFF, Eff.snd.MSS ).
    fn worthwhile(&self) -> u64 {
        (self.buffer / 2).min(self.mss)
    }

    /// An ACK goes out now: gives the window field. `scaled`: not on a SYN.
    pub(super) fn on_send(&mut self, scaled: bool) -> u16 {
        self.ack_now = false;
        self.unacknowledged = 0;
        self.segments = 0;
        self.due = Time::MAX;
        let possible = self.possible();
        let offered = self.edge().saturating_sub(self.next);
        // The right edge stays until it can move by enough, and never goes back.
        let window = if possible >= offered + self.worthwhile() { possible } else { offered };
        let shift = if scaled { self.shift } else { 0 };
        // RFC 7323 §2.3: rounded down; §2.4: the edge may seem to go back by less than 2^shift.
        let field = (window >> shift).min(0xffff);
        self.edge = self.edge.max(self.next + (field << shift));
        field as u16
    }

    /// The blocks to report, at most `most`: a duplicate first (RFC 2883 §4), then the latest. Gives their count.
    pub(super) fn blocks(&mut self, most: usize, blocks: &mut [(u64, u64); 4]) -> usize {
        let mut count = 0;
        let mut put = |block| {
            if count < most {
                blocks[count] = block;
                count += 1;
            }
        };
        if let Some((left, right)) = self.duplicate.take() {
            put((left, right));
            // RFC 2883 §4, (5): the range that the duplicate lies in comes second.
            if let Some(&range) = self.recent.iter().find(|(l, r)| *l <= left && right <= *r && right > left) {
                put(range);
                self.report(range);
                self.recent[1..].iter().filter(|(l, r)| r > l).for_each(|block| put(*block));
                return count;
            }
        }
        self.recent.iter().filter(|(l, r)| r > l).for_each(|block| put(*block));
        count
    }

    /// Whether a duplicate is to be reported.
    #[inline]
    pub(super) fn has_duplicate(&self) -> bool {
        self.duplicate.is_some()
    }

    /// The peer has no use for blocks.
    pub(super) fn disable_duplicates(&mut self) {
        self.dsack = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1000;

    fn receiver(buffer: u64) -> Receiver {
        let buffer = fairspan_core::units::Bytes::new(buffer);
        let config = Config { receive_buffer: buffer, receive_buffer_maximum: buffer, ..Config::default() };
        let mut receiver = Receiver::new(&config, Time::ZERO);
        receiver.on_open(Time::ZERO, 0, MSS);
        assert_eq!(u64::from(receiver.on_send(true)), buffer.as_u64());
        receiver
    }

    #[test]
    fn a_window_that_the_field_cannot_say_brings_no_ack() {
        // The buffer has room for far more than 65,535 bytes, and there is no scaling.
        let buffer = fairspan_core::units::Bytes::new(1 << 20);
        let config = Config { receive_buffer: buffer, receive_buffer_maximum: buffer, ..Config::default() };
        let mut receiver = Receiver::new(&config, Time::ZERO);
        receiver.on_open(Time::ZERO, 0, MSS);
        assert_eq!(receiver.on_send(true), 0xffff);
        receiver.handle(Time::ZERO, 1, 1 + MSS, false);
        assert_eq!(receiver.take(Time::ZERO, u64::MAX), MSS);
        assert!(!receiver.wants_ack(), "the first segment waits for a second");
        receiver.handle(Time::ZERO, 1 + MSS, 1 + 2 * MSS, false);
        assert!(receiver.wants_ack());
    }

    fn blocks(receiver: &mut Receiver) -> Vec<(u64, u64)> {
        let mut blocks = [(0, 0); 4];
        let count = receiver.blocks(4, &mut blocks);
        blocks[..count].to_vec()
    }

    fn segment(receiver: &mut Receiver, n: u64) -> Arrival {
        receiver.handle(Time::ZERO, 1 + n * MSS, 1 + (n + 1) * MSS, false)
    }

    #[test]
    fn every_second_segment_is_acknowledged_at_once_and_a_single_one_after_the_delay() {
        let mut r = receiver(20_000);
        assert_eq!(segment(&mut r, 0), Arrival::InOrder);
        assert!(!r.wants_ack());
        assert_eq!(r.due(), Time::from_millis(200));
        assert_eq!(segment(&mut r, 1), Arrival::InOrder);
        assert!(r.wants_ack());
        r.on_send(true);
        assert!(!r.wants_ack() && r.due() == Time::MAX);
        segment(&mut r, 2);
        r.handle_timeout(Time::from_millis(199));
        assert!(!r.wants_ack());
        r.handle_timeout(Time::from_millis(200));
        assert!(r.wants_ack());
    }

    // RFC 2018, section 4, example of case 2 and 3: eight segments, lost ones leave blocks with the latest first.
    #[test]
    fn blocks_come_with_the_latest_first_and_are_repeated() {
        let mut r = receiver(20_000);
        for (n, expected) in [
            (1, vec![(1001, 2001)]),
            (3, vec![(3001, 4001), (1001, 2001)]),
            (5, vec![(5001, 6001), (3001, 4001), (1001, 2001)]),
            (7, vec![(7001, 8001), (5001, 6001), (3001, 4001), (1001, 2001)]),
            (9, vec![(9001, 10_001), (7001, 8001), (5001, 6001), (3001, 4001)]),
        ] {
            assert_eq!(segment(&mut r, n), Arrival::OutOfOrder);
            assert!(r.wants_ack());
            assert_eq!(blocks(&mut r), expected);
        }
        // The gap between two blocks fills: one block, in front.
        segment(&mut r, 4);
        assert_eq!(blocks(&mut r), [(3001, 6001), (9001, 10_001), (7001, 8001)]);
        // The first gap fills: cumulatively acknowledged, and no block any more.
        assert_eq!(segment(&mut r, 0), Arrival::InOrder);
        assert_eq!(r.next(), 2001);
        assert_eq!(blocks(&mut r), [(3001, 6001), (9001, 10_001), (7001, 8001)]);
        segment(&mut r, 2);
        assert_eq!(r.next(), 6001);
        assert_eq!(blocks(&mut r), [(9001, 10_001), (7001, 8001)]);
    }

    #[test]
    fn duplicates_are_reported_once_and_before_the_range_they_lie_in() {
        let mut r = receiver(20_000);
        segment(&mut r, 0);
        assert_eq!(segment(&mut r, 0), Arrival::Duplicate);
        assert_eq!(blocks(&mut r), [(1, 1001)]);
        assert_eq!(blocks(&mut r), []);
        segment(&mut r, 4);
        segment(&mut r, 2);
        assert_eq!(segment(&mut r, 4), Arrival::Duplicate);
        assert_eq!(blocks(&mut r), [(4001, 5001), (4001, 5001), (2001, 3001)]);
    }

    #[test]
    fn the_window_closes_and_opens_again_only_by_a_segment_or_half_the_buffer() {
        let mut r = receiver(4000);
        for n in 0..4 {
            segment(&mut r, n);
        }
        assert_eq!(r.on_send(true), 0);
        assert_eq!(segment(&mut r, 4), Arrival::Refused);
        assert_eq!(r.on_send(true), 0);
        assert_eq!(r.take(Time::ZERO, 999), 999);
        assert!(!r.wants_ack());
        assert_eq!(r.take(Time::ZERO, 1), 1);
        assert!(r.wants_ack());
        assert_eq!(r.on_send(true), 1000);
    }

    #[test]
    fn a_fin_counts_once_everything_before_it_is_there() {
        let mut r = receiver(20_000);
        r.handle(Time::ZERO, 1001, 2001, true);
        assert_eq!((r.next(), r.is_finished()), (1, false));
        segment(&mut r, 0);
        assert_eq!((r.next(), r.is_finished(), r.readable()), (2002, true, 2000));
        assert!(r.wants_ack());
        assert_eq!(r.handle(Time::ZERO, 2001, 2001, true), Arrival::Duplicate);
        assert_eq!(r.take(Time::ZERO, 9999), 2000);
    }

    #[test]
    fn a_small_range_is_not_kept_beyond_the_window() {
        let mut r = receiver(20_000);
        assert_eq!(r.handle(Time::ZERO, 20_001, 20_101, false), Arrival::Refused);
        assert_eq!(r.handle(Time::ZERO, 19_901, 20_101, false), Arrival::OutOfOrder);
        assert_eq!(blocks(&mut r), [(19_901, 20_001)]);
    }
}
