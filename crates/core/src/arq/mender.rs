//! Parity at the receiver: what is missing of a block is rebuilt before it is asked for.
//!
//! What it is: the octets of the last packets are kept, as parity needs those that were delivered too, and rows until their block is
//! whole. When as many rows are there as packets are missing, those are rebuilt (`core/parity`).
//!
//! When nothing is to be expected any more: paths keep order, and each packet tells how many before it are of a block whose rows have not
//! all left ([`Header::covers`](super::Header::covers)). When all paths have brought a packet that left later than a block's rows, those have come
//! or are lost. What is late by time has `parity_wait` more.
//!
//! Hostile parity: a block of numbers that were all delivered, or that are further ahead than any buffer reaches, rows longer than the longest
//! packet, two sizes of one block, and a row twice are refused. What rows rebuild is taken for a packet, as what comes in a packet's frame is:
//! whoever carries frames checks whose they are.
//!
//! Bounds: octets of as many packets as the reorder buffers and two blocks hold; rows of [`MOST_BLOCKS`] blocks, the oldest go first. Cost:
//! a copy a packet; a look at each block that waits for packets, of which there are none where nothing is lost.

use super::config::{Config, Parity};
use super::cover::longest;
use super::dropped::Dropped;
use super::frame::Header;
use super::octets::Octets;
use super::{MOST_PACKETS, Seq};
use crate::parity::{self, Row, Unmendable};
use crate::units::Span;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Most blocks whose rows are kept.
const MOST_BLOCKS: usize = 64;
/// Most packets whose octets are kept.
const MOST_RECENT: usize = 1 << 16;

/// The receiver's parity.
#[derive(Debug)]
pub(super) struct Mender {
    wait: Span,
    longest: usize,
    /// By number, modulo its length.
    recent: Vec<Option<Recent>>,
    blocks: VecDeque<Block>,
}

#[derive(Clone, Debug)]
struct Recent {
    seq: Seq,
    octets: Vec<u8>,
}

#[derive(Debug)]
struct Block {
    first: Seq,
    count: u8,
    rows: Vec<Row>,
}

impl Block {
    fn last(&self) -> Seq {
        self.first.plus(u32::from(self.count) - 1)
    }

    fn has(&self, seq: Seq) -> bool {
        (0..i32::from(self.count)).contains(&seq.ahead_of(self.first))
    }
}

impl Mender {
    pub(super) fn new(config: &Config, paths: usize) -> Option<Mender> {
        let held = config.reorder_packets.saturating_mul(paths);
        let most = held.saturating_add(2 * parity::MOST_PACKETS).min(MOST_RECENT);
        (config.parity != Parity::None).then(|| Mender {
            wait: config.parity_wait,
            longest: longest(config),
            recent: alloc::vec![None; most],
            blocks: VecDeque::new(),
        })
    }

    /// How much longer what is late may take.
    pub(super) fn wait(&self) -> Span {
        self.wait
    }

    /// A packet is here.
    #[inline]
    pub(super) fn keep<P: Octets>(&mut self, seq: Seq, packet: &P) {
        let place = seq.0 as usize % self.recent.len();
        let slot = self.recent[place].get_or_insert_with(|| Recent { seq, octets: Vec::new() });
        slot.seq = seq;
        slot.octets.clear();
        packet.write(&mut slot.octets);
    }

    /// It found no room.
    pub(super) fn forget(&mut self, seq: Seq) {
        let place = seq.0 as usize % self.recent.len();
        self.recent[place].take_if(|recent| recent.seq == seq);
    }

    /// A row has come, while `next` is to be delivered next.
    pub(super) fn on_row(&mut self, next: Seq, header: &Header, octets: &[u8]) -> Result<(), Dropped> {
        let lengths = parity::LENGTH..=parity::LENGTH + self.longest;
        let shape = (1..=parity::MOST_PACKETS).contains(&header.covers.into())
            && usize::from(header.row) < parity::MOST_ROWS
            && lengths.contains(&octets.len());
        if !shape {
            return Err(Dropped::Parity);
        }
        let block = Block { first: header.seq, count: header.covers, rows: Vec::new() };
        let ahead = block.last().ahead_of(next);
        if ahead > MOST_PACKETS as i32 {
            return Err(Dropped::Beyond);
        }
        while self.blocks.front().is_some_and(|block| block.last().ahead_of(next) < 0) {
            self.blocks.pop_front();
        }
        if ahead < 0 {
            return Err(Dropped::Old);
        }
        if missing(&self.recent, &block) == 0 {
            return Ok(());
        }
        let place = self.blocks.iter().position(|known| known.first == block.first).unwrap_or_else(|| {
            if self.blocks.len() == MOST_BLOCKS {
                self.blocks.pop_front();
            }
            self.blocks.push_back(block);
            self.blocks.len() - 1
        });
        let block = &mut self.blocks[place];
        if block.count != header.covers || block.rows.iter().any(|row| row.number == header.row) {
            return Err(Dropped::Parity);
        }
        block.rows.push(Row { number: header.row, octets: octets.to_vec() });
        Ok(())
    }

    /// What can be rebuilt now that this packet is here, or a row of its block.
    #[inline]
    pub(super) fn mend(&mut self, seq: Seq) -> Vec<(Seq, Vec<u8>)> {
        match self.blocks.iter().position(|block| block.has(seq)) {
            Some(place) => self.mend_block(place),
            None => Vec::new(),
        }
    }

    fn mend_block(&mut self, place: usize) -> Vec<(Seq, Vec<u8>)> {
        let recent = &self.recent;
        let Some(block) = self.blocks.get_mut(place) else { return Vec::new() };
        if missing(recent, block) > block.rows.len() {
            return Vec::new();
        }
        let first = block.first;
        let packet = |place: usize| find(recent, first.plus(place as u32));
        let owned = |(place, octets): (usize, &[u8])| (first.plus(place as u32), octets.to_vec());
        let rebuilt = match parity::mend(block.count.into(), packet, &mut block.rows) {
            Ok(rebuilt) => rebuilt.into_iter().map(owned).collect(),
            Err(Unmendable::TooFew { .. } | Unmendable::Unlike) => Vec::new(),
        };
        self.blocks.remove(place);
        rebuilt
    }
}

/// The octets of a packet, if they are here.
fn find(recent: &[Option<Recent>], seq: Seq) -> Option<&[u8]> {
    let one = recent[seq.0 as usize % recent.len()].as_ref()?;
    (one.seq == seq).then_some(one.octets.as_slice())
}

/// How many of a block's packets are not here.
fn missing(recent: &[Option<Recent>], block: &Block) -> usize {
    (0..u32::from(block.count)).filter(|n| find(recent, block.first.plus(*n)).is_none()).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parity::Encoder;
    use crate::units::{ChannelId, Time};

    fn mender(paths: usize) -> Mender {
        let config = Config { parity: Parity::ReedSolomon, reorder_packets: 40, ..Config::default() };
        Mender::new(&config, paths).expect("parity is wanted")
    }

    /// The header of a row of `count` packets from `seq` on.
    fn row(seq: u32, count: u8, row: u8) -> Header {
        Header {
            kind: crate::arq::Kind::Parity,
            restart: 0,
            path: ChannelId(0),
            seq: Seq(seq),
            sent: Time::ZERO,
            held: Span::ZERO,
            received: Time::ZERO,
            rtt: Span::ZERO,
            stream: 0,
            opening: true,
            missing: (Seq(0), 0),
            covers: count,
            row,
        }
    }

    /// The rows of a block of these numbers, each of which is its own packet.
    fn rows(numbers: core::ops::Range<u32>, count: usize) -> Vec<Vec<u8>> {
        let mut encoder = Encoder::default();
        encoder.begin(count);
        numbers.for_each(|n| assert!(encoder.add(&n.to_be_bytes())));
        (0..count).map(|n| encoder.row(n).expect("it was asked for").to_vec()).collect()
    }

    #[test]
    fn rows_of_blocks_that_were_delivered_are_kept_no_longer_than_until_the_next_one_comes() {
        let mut mender = mender(2);
        let octets = rows(0..4, 1);
        for first in [0, 4] {
            assert_eq!(mender.on_row(Seq(0), &row(first, 4, 0), &octets[0]), Ok(()));
            assert!(mender.mend(Seq(first)).is_empty(), "four are missing");
        }
        assert_eq!(mender.blocks.len(), 2);
        assert_eq!(mender.on_row(Seq(5), &row(8, 4, 0), &octets[0]), Ok(()));
        let kept: Vec<Seq> = mender.blocks.iter().map(|block| block.first).collect();
        assert_eq!(kept, [Seq(4), Seq(8)]);
    }

    #[test]
    fn a_block_may_end_as_far_ahead_as_a_buffer_may_be_long() {
        let octets = rows(0..4, 1);
        let mut mender = mender(2);
        assert_eq!(mender.on_row(Seq(0), &row(MOST_PACKETS - 3, 4, 0), &octets[0]), Ok(()));
        assert_eq!(mender.on_row(Seq(0), &row(MOST_PACKETS - 2, 4, 0), &octets[0]), Err(Dropped::Beyond));
    }

    #[test]
    fn a_packet_that_found_no_room_is_rebuilt_as_one_that_never_came() {
        for forgets in [true, false] {
            let mut mender = mender(1);
            // The octets of 168 packets are kept.
            (1000..1004).for_each(|n| mender.keep(Seq(n), &n));
            if forgets {
                mender.forget(Seq(1002));
                // Another one lies in its place.
                mender.forget(Seq(1003 + 168));
            }
            assert_eq!(mender.on_row(Seq(1000), &row(1000, 4, 0), &rows(1000..1004, 1)[0]), Ok(()));
            let rebuilt = mender.mend(Seq(1000));
            assert_eq!(
                rebuilt,
                if forgets { alloc::vec![(Seq(1002), 1002_u32.to_be_bytes().to_vec())] } else { Vec::new() }
            );
        }
    }
}
