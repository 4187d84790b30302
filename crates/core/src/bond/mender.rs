//! Parity at the receiver: packets that are missing of a block are rebuilt before they come again.
//!
//! What it is: a sender's first row of a flow bucket announces that its packets go in blocks ([`cover`](super::cover)). From then on copies of that bucket's
//! last [`RECENT`] packets are kept, as parity needs those that were delivered too, and rows of blocks of which something is missing. When as many rows
//! are there as packets are missing, those are rebuilt (`core/parity`). A bucket without a row for [`QUIET`] is forgotten.
//!
//! Nothing waits here: what is missing may still be under way, or come again. It is dropped then, as any second copy is.
//!
//! Hostile rows: a row that a block cannot have, one there twice, one shorter than a length and a number or another packet count for a known block are
//! refused. Blocks that never become whole go, the oldest first. What rows rebuild is checked by whoever asked, as what comes in a packet's frame is.
//!
//! Bounds: [`STREAMS`] buckets, [`BLOCKS`] blocks of each, [`LIMIT`] bytes over all, and [`SPARE`] buffers of [`SPARE_BYTES`]. Cost: O(streams) and a copy an urgent packet while a bucket
//! is announced; a look at each block that waits, of which there are none where nothing is lost. Nothing is allocated for packets and rows once buffers
//! have grown; a block that is mended takes some small vectors.

use super::config::{Config, Mode};
use super::cover::NUMBER;
use crate::parity::{self, LENGTH};
use crate::units::{Span, Time};
use crate::wire::parity::{MOST_PACKETS, Row};
use crate::wire::short;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Flow buckets whose packets are kept at one time.
const STREAMS: usize = 16;
/// Packets of each.
const RECENT: usize = 256;
/// Blocks of each whose rows are kept.
const BLOCKS: usize = 8;
/// Bytes of packets and rows.
const LIMIT: usize = 8_000_000;
/// What has no row for so long is forgotten.
const QUIET: Span = Span::from_secs(30);
/// Buffers of rows that are used again, and how long they may be.
const SPARE: usize = 32;
const SPARE_BYTES: usize = 16_384;

/// The packets and rows of a receiver.
#[derive(Debug, Default)]
pub(super) struct Mender {
    streams: Vec<Stream>,
    used: usize,
    spare: Vec<Vec<u8>>,
}

#[derive(Debug)]
struct Stream {
    bucket: u16,
    /// When its last row came.
    since: Time,
    /// The highest number, by an upper part of our own, once there was one.
    highest: Option<u32>,
    /// By number, modulo [`RECENT`].
    recent: Vec<Recent>,
    blocks: VecDeque<Block>,
}

/// What is coded of a packet, where there is anything.
#[derive(Debug, Default)]
struct Recent {
    sequence: u32,
    octets: Vec<u8>,
}

#[derive(Debug)]
struct Block {
    first: u32,
    packets: u8,
    rows: Vec<parity::Row>,
}

/// Why a row is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused;

/// What was rebuilt of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rebuilt {
    /// The block's first number.
    pub(super) first: u32,
    /// Bit n: its packet n.
    pub(super) places: u16,
}

impl Stream {
    /// What is coded of packet `sequence`, if it is here.
    fn find(&self, sequence: u32) -> Option<&[u8]> {
        let recent = self.recent.get(sequence as usize % RECENT)?;
        (recent.sequence == sequence && !recent.octets.is_empty()).then_some(recent.octets.as_slice())
    }

    fn missing(&self, first: u32, packets: u8) -> usize {
        (0..u32::from(packets)).filter(|n| self.find(first.wrapping_add(*n)).is_none()).count()
    }

    /// Packet `sequence` is here. It is not kept where it was before, where it is too old, and where there is no memory for it.
    fn put(&mut self, sequence: u32, number: &[u8; NUMBER], packet: &[u8], used: &mut usize) {
        let Some(recent) = self.recent.get_mut(sequence as usize % RECENT) else { return };
        if !recent.octets.is_empty() && !is_before(recent.sequence, sequence) {
            return;
        }
        let before = recent.octets.capacity();
        recent.octets.clear();
        let length = NUMBER + packet.len();
        if *used - before + length.max(before) > LIMIT {
            return;
        }
        recent.sequence = sequence;
        recent.octets.reserve_exact(length);
        recent.octets.extend_from_slice(number);
        recent.octets.extend_from_slice(packet);
        *used = *used - before + recent.octets.capacity();
    }

    /// Bytes that it holds.
    fn bytes(&self) -> usize {
        let rows = self.blocks.iter().flat_map(|block| &block.rows).map(|row| row.octets.capacity());
        self.recent.iter().map(|recent| recent.octets.capacity()).chain(rows).sum()
    }
}

impl Mender {
    /// What takes the peer's rows, if they are taken.
    pub(super) fn of(config: &Config) -> Option<Box<Mender>> {
        (config.parity && config.mode == Mode::Reliable).then(Box::default)
    }

    /// Whether no bucket is announced.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// Whether rows of `bucket` wait for packets or further rows.
    pub(super) fn waits(&self, bucket: u16) -> bool {
        self.streams.iter().any(|stream| stream.bucket == bucket && !stream.blocks.is_empty())
    }

    /// Memory that packets and rows take.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// The peer is another one.
    pub(super) fn forget(&mut self) {
        *self = Mender::default();
    }

    /// Packet `sequence` of `bucket`, whose number in the bond is `bond`, is here; both numbers have 24 bits.
    pub(super) fn keep(&mut self, now: Time, bucket: u16, sequence: u32, bond: u32, packet: &[u8]) {
        let Some(place) = self.streams.iter().position(|stream| stream.bucket == bucket) else { return };
        if now.since(self.streams[place].since) >= QUIET {
            return self.remove(place);
        }
        let stream = &mut self.streams[place];
        let highest = *stream.highest.get_or_insert(sequence);
        let sequence = short::nearest(sequence, highest);
        if is_before(highest, sequence) {
            stream.highest = Some(sequence);
        }
        let [_, number @ ..] = bond.to_be_bytes();
        stream.put(sequence, &number, packet, &mut self.used);
    }

    /// A row has come.
    pub(super) fn on_row(&mut self, now: Time, row: Row, octets: &[u8]) -> Result<(), Refused> {
        if row.row >= row.packets || octets.len() < LENGTH + NUMBER {
            return Err(Refused);
        }
        let Some(place) = self.streams.iter().position(|stream| stream.bucket == row.bucket) else {
            self.announce(now, row.bucket);
            return Ok(());
        };
        let stream = &mut self.streams[place];
        stream.since = now;
        // Nothing came since it was announced: nothing can be rebuilt.
        let Some(highest) = stream.highest else { return Ok(()) };
        let first = highest.wrapping_add_signed(i32::from(row.first.wrapping_sub(highest as u16) as i16));
        let behind = highest.wrapping_sub(first) as i32;
        if behind.unsigned_abs() as usize >= RECENT || stream.missing(first, row.packets) == 0 {
            return Ok(());
        }
        let known = stream.blocks.iter().position(|block| block.first == first);
        if let Some(block) = known.and_then(|place| stream.blocks.get(place))
            && (block.packets != row.packets || block.rows.iter().any(|known| known.number == row.row))
        {
            return Err(Refused);
        }
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.clear();
        if self.used + octets.len().max(copy.capacity()) > LIMIT {
            return Ok(());
        }
        copy.extend_from_slice(octets);
        self.used += copy.capacity();
        let at = known.unwrap_or_else(|| {
            if stream.blocks.len() == BLOCKS
                && let Some(block) = stream.blocks.pop_front()
            {
                free(block, &mut self.spare, &mut self.used);
            }
            stream.blocks.push_back(Block { first, packets: row.packets, rows: Vec::new() });
            stream.blocks.len() - 1
        });
        if let Some(block) = stream.blocks.get_mut(at) {
            block.rows.push(parity::Row { number: row.row, octets: copy });
        }
        Ok(())
    }

    /// The packets of `bucket` are kept from now on.
    fn announce(&mut self, now: Time, bucket: u16) {
        if let Some(quiet) = self.streams.iter().position(|stream| now.since(stream.since) >= QUIET) {
            self.remove(quiet);
        }
        if self.streams.len() < STREAMS {
            let mut recent = Vec::new();
            recent.resize_with(RECENT, Recent::default);
            self.streams.push(Stream { bucket, since: now, highest: None, recent, blocks: VecDeque::new() });
        }
    }

    fn remove(&mut self, place: usize) {
        let stream = self.streams.swap_remove(place);
        self.used -= stream.bytes();
    }

    /// Rebuilds what can be of a block of `bucket`: gives `take` each packet's number there and in the bond, both of 24 bits, and its bytes. What it
    /// takes counts as rebuilt. `None`: there is nothing more to rebuild.
    pub(super) fn mend(&mut self, bucket: u16, mut take: impl FnMut(u32, u32, &[u8]) -> bool) -> Option<Rebuilt> {
        let stream = self.streams.iter_mut().find(|stream| stream.bucket == bucket)?;
        let whole = |block: &Block| stream.missing(block.first, block.packets) <= block.rows.len();
        let place = stream.blocks.iter().position(whole)?;
        let mut block = stream.blocks.remove(place)?;
        let (first, before) = (block.first, block.rows.iter().map(|row| row.octets.capacity()).sum::<usize>());
        let packet = |place: usize| stream.find(first.wrapping_add(place as u32));
        let mut places = 0;
        // Rows that are not those of the packets rebuild nothing.
        if let Ok(rebuilt) = parity::mend(block.packets.into(), packet, &mut block.rows) {
            for (place, octets) in rebuilt {
                let sequence = short::short(first.wrapping_add(place as u32));
                if let Some((number @ [n0, n1, n2], packet)) = octets.split_first_chunk::<NUMBER>()
                    && take(sequence, u32::from_be_bytes([0, *n0, *n1, *n2]), packet)
                {
                    places |= 1 << (place % MOST_PACKETS);
                    // Further rows find it here.
                    stream.put(first.wrapping_add(place as u32), number, packet, &mut self.used);
                }
            }
        }
        // Rows became as long as the longest of them.
        let after = block.rows.iter().map(|row| row.octets.capacity()).sum::<usize>();
        self.used = self.used - before + after;
        free(block, &mut self.spare, &mut self.used);
        Some(Rebuilt { first, places })
    }
}

/// A block is no more.
fn free(block: Block, spare: &mut Vec<Vec<u8>>, used: &mut usize) {
    for row in block.rows {
        *used -= row.octets.capacity();
        if spare.len() < SPARE && row.octets.capacity() <= SPARE_BYTES {
            spare.push(row.octets);
        }
    }
}

/// Whether number `a` is before `b`.
fn is_before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parity::Encoder;
    use crate::rng::Rng;
    use proptest::prelude::*;

    const NOW: Time = Time::from_millis(1);

    fn bytes(sequence: u32) -> Vec<u8> {
        (0..20 + sequence % 50).map(|n| (n ^ sequence) as u8).collect()
    }

    fn bond(sequence: u32) -> u32 {
        short::short(sequence.wrapping_mul(3))
    }

    /// The rows of the block of `packets` from `first` on.
    fn block(first: u32, packets: u8, rows: u8) -> Vec<(Row, Vec<u8>)> {
        let mut encoder = Encoder::default();
        encoder.begin(rows.into());
        for sequence in (0..u32::from(packets)).map(|n| first.wrapping_add(n)) {
            let [_, number @ ..] = bond(sequence).to_be_bytes();
            encoder.add(&[&number[..], &bytes(sequence)].concat());
        }
        let row = |row| {
            (Row { number: 0, row, packets, bucket: 9, first: first as u16 }, encoder.row(row.into()).unwrap().to_vec())
        };
        (0..rows).map(row).collect()
    }

    fn keep(mender: &mut Mender, sequence: u32) {
        mender.keep(NOW, 9, short::short(sequence), bond(sequence), &bytes(sequence));
    }

    /// What is rebuilt now, each checked.
    fn rebuilt(mender: &mut Mender, near: u32) -> Vec<u32> {
        let mut all = Vec::new();
        while mender
            .mend(9, |sequence, number, packet| {
                let sequence = short::nearest(sequence, near);
                assert_eq!((number, packet), (bond(sequence), &bytes(sequence)[..]));
                all.push(sequence);
                true
            })
            .is_some()
        {}
        all
    }

    #[test]
    fn a_bucket_is_kept_once_a_row_announced_it_and_forgotten_when_none_comes() {
        let mut mender = Mender::default();
        keep(&mut mender, 0);
        assert!(mender.is_empty());
        let [(row, octets)] = &block(0, 4, 1)[..] else { panic!("one") };
        assert_eq!(mender.on_row(NOW, *row, octets), Ok(()));
        assert!(!mender.is_empty() && rebuilt(&mut mender, 0).is_empty());
        (4..12).filter(|n| *n != 6).for_each(|n| keep(&mut mender, n));
        let [(row, octets)] = &block(4, 4, 1)[..] else { panic!("one") };
        assert_eq!(mender.on_row(NOW, *row, octets), Ok(()));
        assert_eq!(rebuilt(&mut mender, 0), [6]);
        assert_eq!((mender.on_row(NOW, *row, octets), rebuilt(&mut mender, 0)), (Ok(()), Vec::new()), "once");
        let used = mender.used();
        assert!(used > 200);
        mender.keep(NOW + QUIET, 9, 12, 12, &[1; 40]);
        assert!(mender.is_empty() && mender.used() == 0);
    }

    #[test]
    fn numbers_wrap_without_harm() {
        for start in [0x00ff_fff0_u32, 0xfff0, 0x0001_fff0] {
            let mut mender = Mender::default();
            let first = block(start, 4, 1).remove(0);
            assert_eq!(mender.on_row(NOW, first.0, &first.1), Ok(()));
            let mut all = Vec::new();
            for n in (0..200).step_by(4) {
                let first = start + n;
                (first..first + 4).filter(|n| n % 4 != 1).for_each(|n| keep(&mut mender, n));
                for (row, octets) in block(first, 4, 1) {
                    assert_eq!(mender.on_row(NOW, row, &octets), Ok(()));
                }
                all.extend(rebuilt(&mut mender, first));
            }
            assert_eq!(all, (0..50).map(|n| start + 4 * n + (5 - start % 4) % 4).collect::<Vec<_>>(), "{start:x}");
        }
    }

    proptest! {
        /// Packets and rows come in any order, some never, some twice: what is rebuilt is what was sent, and as many rows as packets are missing rebuild all.
        #[test]
        fn any_order_rebuilds_what_was_sent(start in 0u32..1 << 24, packets in 1u8..=16, rows in 1u8..=8, seed: u64) {
            let mut rng = Rng::new(seed);
            let rows = rows.min(packets);
            let mut mender = Mender::default();
            let announced = block(start, packets, 1).remove(0);
            prop_assert!(mender.on_row(NOW, announced.0, &announced.1).is_ok());
            keep(&mut mender, start.wrapping_sub(1) & 0x00ff_ffff);
            let coded = block(start, packets, rows);
            let mut events: Vec<usize> = (0..usize::from(packets) + coded.len()).filter(|_| rng.below(4) > 0).collect();
            (1..events.len()).rev().for_each(|last| events.swap(last, rng.below(last as u64 + 1) as usize));
            let (mut here, mut got) = (0, Vec::new());
            for event in &events {
                match event.checked_sub(packets.into()) {
                    None => {
                        keep(&mut mender, start.wrapping_add(*event as u32));
                        here += 1;
                    }
                    Some(row) => prop_assert!(mender.on_row(NOW, coded[row].0, &coded[row].1).is_ok()),
                }
                got.extend(rebuilt(&mut mender, start));
            }
            let arrived = events.iter().filter(|event| **event < packets.into()).count();
            let came = events.len() - arrived;
            prop_assert_eq!(here, arrived);
            let missing = usize::from(packets) - arrived;
            if missing <= came {
                for n in 0..u32::from(packets) {
                    let known = events.contains(&(n as usize)) || got.contains(&start.wrapping_add(n));
                    prop_assert!(known, "{}", n);
                }
            }
            got.sort_unstable();
            got.dedup_by(|a, b| { assert!(a != b, "twice"); false });
        }
    }
}
