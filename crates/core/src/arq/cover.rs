//! Parity ahead of need at the sender: which packets a block has, and how many rows go with it.
//!
//! What it is: blocks are runs of packets that are sent for the first time. A block ends with `parity_packets` of them, or
//! `parity_wait` after its first, so that a receiver never waits longer than that for a row. Its rows (`core/parity`) go then, before the
//! next packet, each by the path that has the most room. What is acknowledged by then needs none.
//!
//! How many rows: as many as leave one block in `parity_residual` that loses more ([`Demand`]). A block fails of which something was asked
//! for in spite of its rows.
//!
//! | symbol | here |
//! |---|---|
//! | what a block would have taken | one row more than it had, and as many as packets were asked for |
//!
//! A block never has more rows than packets: a packet alone goes twice. Bounds: rows are at most `most_rows`; blocks are kept until they
//! are acknowledged, one for each packet in the retransmission buffer at most. Cost: the code's, and O(log blocks) for what is asked for.

use super::config::{Config, Parity};
use super::frame::Header;
use super::octets::Octets;
use super::{MOST_PACKETS, Seq};
use crate::parity::demand::Demand;
use crate::parity::{self, Encoder};
use crate::units::{Span, Time};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// What the header of a row and a length under the code take more than the header of a packet.
const MORE: usize = Header::PARITY_LENGTH - Header::LENGTH + parity::LENGTH;

/// The sender's parity.
#[derive(Debug)]
pub(super) struct Cover {
    encoder: Encoder,
    octets: Vec<u8>,
    longest: usize,
    most_packets: u32,
    most_rows: u32,
    wait: Span,
    demand: Demand,
    /// The block that has come last, until its rows are gone.
    current: Option<Current>,
    /// Blocks before it of which something is not acknowledged.
    blocks: VecDeque<Block>,
}

#[derive(Clone, Copy, Debug)]
struct Current {
    block: Block,
    since: Time,
    /// Of its longest packet on the wire.
    size: u32,
    /// Once it has ended: the row that goes next.
    next: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    first: Seq,
    count: u32,
    rows: u32,
    asked: u32,
}

impl Block {
    /// The number behind its last.
    fn end(&self) -> Seq {
        self.first.plus(self.count)
    }
}

/// A row that is to go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    /// Its block's first number, and how many there are.
    pub(super) first: Seq,
    pub(super) count: u8,
    pub(super) number: u8,
    /// What it takes on the wire.
    pub(super) size: u32,
}

impl Cover {
    pub(super) fn new(config: &Config) -> Option<Cover> {
        let most_rows = match config.parity {
            Parity::None => return None,
            Parity::Xor => 1,
            Parity::ReedSolomon => parity::MOST_ROWS as u32,
        };
        let residual = config.parity_residual.clamp(1, MOST_PACKETS);
        Some(Cover {
            encoder: Encoder::default(),
            octets: Vec::new(),
            longest: longest(config),
            most_packets: config.parity_packets.clamp(1, parity::MOST_PACKETS as u32),
            most_rows,
            wait: config.parity_wait,
            demand: Demand::new(residual),
            current: None,
            blocks: VecDeque::new(),
        })
    }

    /// A packet goes for the first time, of `size` bytes on the wire. No row waits. What is longer than a receiver takes is not covered.
    pub(super) fn on_sent<P: Octets>(&mut self, now: Time, seq: Seq, packet: &P, size: u32) {
        self.octets.clear();
        packet.write(&mut self.octets);
        if self.octets.len() > self.longest {
            self.end();
            return;
        }
        let current = self.current.get_or_insert_with(|| {
            let rows = self.demand.rows().min(self.most_rows);
            self.encoder.begin(rows as usize);
            Current { block: Block { first: seq, count: 0, rows, asked: 0 }, since: now, size: 0, next: None }
        });
        // It is not longer than two octets tell, and a block ends before it is full.
        self.encoder.add(&self.octets);
        current.block.count += 1;
        current.size = current.size.max(size);
        if current.block.count >= self.most_packets {
            self.end();
        }
    }

    /// The block that is open ends.
    fn end(&mut self) {
        let Some(current) = self.current.as_mut().filter(|current| current.next.is_none()) else { return };
        self.demand.on_block();
        current.block.rows = current.block.rows.min(current.block.count);
        current.next = Some(0);
        self.blocks.push_back(current.block);
        if current.block.rows == 0 {
            self.current = None;
        }
    }

    /// A block that has waited long enough ends.
    #[inline]
    pub(super) fn on_time(&mut self, now: Time) {
        if self.current.is_some_and(|current| now >= current.since + self.wait) {
            self.end();
        }
    }

    /// When [`Cover::on_time`] has something to do.
    #[inline]
    pub(super) fn due(&self) -> Option<Time> {
        let open = self.current.filter(|current| current.next.is_none() && current.block.rows > 0)?;
        Some(open.since + self.wait)
    }

    /// The row that goes next.
    #[inline]
    pub(super) fn waiting(&self) -> Option<Waiting> {
        let Current { block, size, next, .. } = self.current?;
        let (count, size) = (block.count as u8, size + MORE as u32);
        Some(Waiting { first: block.first, count, number: next? as u8, size })
    }

    /// It has gone; gives what it was.
    pub(super) fn take(&mut self) -> &[u8] {
        let Some(current) = &mut self.current else { return &[] };
        let row = current.next.unwrap_or(0);
        current.next = Some(row + 1);
        if row + 1 >= current.block.rows {
            self.current = None;
        }
        self.encoder.row(row as usize).unwrap_or(&[])
    }

    /// Rows that wait.
    #[inline]
    pub(super) fn rows(&self) -> usize {
        self.current.map_or(0, |current| current.next.map_or(0, |next| (current.block.rows - next) as usize))
    }

    /// How many packets before this one are of a block whose rows have not all gone.
    #[inline]
    pub(super) fn before(&self, seq: Seq) -> u8 {
        let Some(Current { block, .. }) = self.current else { return 0 };
        let before = seq.ahead_of(block.first);
        if block.rows > 0 && (0..block.count as i32).contains(&before) { before as u8 } else { 0 }
    }

    /// All before `first` is acknowledged.
    #[inline]
    pub(super) fn on_acked(&mut self, first: Seq) {
        if self.current.is_some_and(|current| first.ahead_of(current.block.end()) >= 0) {
            self.end();
            self.current = None;
        }
        while self.blocks.front().is_some_and(|block| first.ahead_of(block.end()) >= 0) {
            self.blocks.pop_front();
        }
    }

    /// A packet is missing at the receiver, whatever parity it had.
    pub(super) fn on_asked(&mut self, seq: Seq) {
        let place = self.blocks.partition_point(|block| block.first.ahead_of(seq) <= 0);
        let Some(block) = place.checked_sub(1).and_then(|place| self.blocks.get_mut(place)) else { return };
        if seq.ahead_of(block.end()) < 0 {
            block.asked += 1;
            let needed = block.asked.max(block.rows + 1).min(block.count).min(self.most_rows);
            self.demand.on_missed(needed);
        }
    }
}

/// The longest packet that blocks take.
pub(super) fn longest(config: &Config) -> usize {
    usize::try_from(config.segment.as_u64()).unwrap_or(usize::MAX).min(u16::MAX.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cover(parity: Parity) -> Cover {
        let config = Config { parity, parity_packets: 4, parity_residual: 8, ..Config::default() };
        Cover::new(&config).expect("parity is wanted")
    }

    /// Sends a block and gives its number of rows.
    fn block(cover: &mut Cover, first: u32, count: u32) -> usize {
        (first..first + count).for_each(|n| cover.on_sent(Time::ZERO, Seq(n), &n, 192));
        cover.on_time(Time::from_millis(1000));
        let rows = cover.rows();
        (0..rows).for_each(|_| assert_eq!(cover.take().len(), 6, "a number's four octets and its length"));
        rows
    }

    #[test]
    fn a_row_that_was_missed_goes_with_as_many_blocks_as_one_of_which_may_fail() {
        let mut cover = cover(Parity::ReedSolomon);
        let mut first = 0;
        let mut next = |cover: &mut Cover| {
            first += 4;
            block(cover, first, 4)
        };
        let rows: Vec<usize> = (0..10).map(|_| next(&mut cover)).collect();
        assert_eq!(rows, [1, 1, 1, 1, 1, 1, 1, 1, 0, 0], "one at first");
        // Three of a block's packets are asked for, which had no row; three rows would have mended it.
        [41, 42, 43].into_iter().for_each(|n| cover.on_asked(Seq(n)));
        let rows: Vec<usize> = (0..26).map(|_| next(&mut cover)).collect();
        assert_eq!(rows, [[3; 8].as_slice(), &[2; 8], &[1; 8], &[0; 2]].concat());
        // One is asked for in spite of a row: two would have mended it.
        cover.on_asked(Seq(4));
        assert_eq!(next(&mut cover), 2);
        // Short blocks have as many rows as packets; numbers that are acknowledged are of no block.
        assert_eq!(block(&mut cover, 1000, 1), 1);
        cover.on_acked(Seq(1001));
        cover.on_asked(Seq(1000));
        assert_eq!((cover.blocks.len(), block(&mut cover, 1001, 4)), (0, 2));
    }

    #[test]
    fn the_exclusive_or_is_one_row_whatever_is_lost() {
        let mut cover = cover(Parity::Xor);
        assert_eq!(block(&mut cover, 0, 4), 1);
        (0..4).for_each(|n| cover.on_asked(Seq(n)));
        assert_eq!(block(&mut cover, 4, 4), 1);
    }

    #[test]
    fn a_block_ends_by_its_number_or_its_time_and_what_is_acknowledged_needs_no_row() {
        let mut cover = cover(Parity::Xor);
        let at = Time::from_millis(5);
        cover.on_sent(at, Seq(7), &7_u32, 192);
        cover.on_sent(at, Seq(8), &8_u32, 300);
        assert_eq!((cover.due(), cover.rows(), cover.before(Seq(8))), (Some(Time::from_millis(7)), 0, 1));
        cover.on_time(Time::from_millis(7));
        let waiting = cover.waiting().expect("a row");
        assert_eq!((waiting.first, waiting.count, waiting.size, cover.before(Seq(8))), (Seq(7), 2, 306, 1));
        cover.on_acked(Seq(9));
        assert!(cover.waiting().is_none() && cover.due().is_none());
        assert_eq!(cover.before(Seq(8)), 0, "no parity is to come");
        assert_eq!(cover.before(Seq(9)), 0);
        let [longest, long] = [1500, 1501].map(|length| alloc::vec![0_u8; length]);
        cover.on_sent(at, Seq(9), &9_u32, 192);
        cover.on_sent(at, Seq(10), &longest, 1540);
        cover.on_sent(at, Seq(11), &long, 1541);
        assert_eq!(cover.waiting().map(|waiting| waiting.count), Some(2), "a block ends before what it cannot take");
    }

    #[test]
    fn what_is_between_two_blocks_is_of_neither() {
        let mut cover = cover(Parity::ReedSolomon);
        (0..8).for_each(|n| assert_eq!(block(&mut cover, 4 * n, 4), 1));
        let long = alloc::vec![0_u8; 1501];
        cover.on_sent(Time::ZERO, Seq(32), &long, 1541);
        assert_eq!(block(&mut cover, 33, 4), 0);
        cover.on_asked(Seq(32));
        assert_eq!(block(&mut cover, 37, 4), 0);
        cover.on_asked(Seq(33));
        assert_eq!(block(&mut cover, 41, 4), 1);
    }

    #[test]
    fn a_block_that_gets_no_row_wakes_nobody_and_no_packet_tells_of_it() {
        let mut cover = cover(Parity::ReedSolomon);
        (0..8).for_each(|n| assert_eq!(block(&mut cover, 4 * n, 4), 1));
        (32..34).for_each(|n| cover.on_sent(Time::ZERO, Seq(n), &n, 192));
        assert_eq!((cover.due(), cover.before(Seq(33)), cover.rows()), (None, 0, 0));
    }

    #[test]
    fn rows_wait_until_each_has_gone_and_packets_of_other_blocks_are_not_told_of() {
        let mut cover = cover(Parity::ReedSolomon);
        block(&mut cover, 0, 4);
        (1..4).for_each(|n| cover.on_asked(Seq(n)));
        (4..8).for_each(|n| cover.on_sent(Time::ZERO, Seq(n), &n, 192));
        for (rows, number) in [(3, 0), (2, 1), (1, 2)] {
            assert_eq!((cover.rows(), cover.waiting().map(|waiting| waiting.number)), (rows, Some(number)));
            assert_eq!([3, 4, 5, 7, 8].map(|n| cover.before(Seq(n))), [0, 0, 1, 3, 0]);
            cover.take();
        }
        assert_eq!((cover.rows(), cover.waiting().map(|waiting| waiting.number)), (0, None));
    }
}
