//! Parity ahead of need at the sender: blocks of several urgent packets, and how many rows go with each.
//!
//! What it is: second frames ([`twice`](super::twice)) are parity in blocks of one packet. Where an urgent stream is dense enough that
//! a block of two packets or more fits into what it may wait, its packets go in blocks: runs of one flow bucket. A block ends with as
//! many packets as come within that time, or with the time, and then its rows (`core/parity`) leave (`parity.rs`). A packet itself waits for nothing.
//! Streams that are not dense, and those for which there is no room here, are told so ([`Cover::on_packet`]) and keep their second frames.
//!
//! How many rows: as many as leave one block in [`RESIDUAL`] that loses more ([`Demand`], one for each traffic class and one for
//! all else). A block fails of which a packet has to go again in spite of its rows.
//!
//! What becomes of a packet that the feedback calls lost ([`Cover::on_lost`]): where its block's rows have gone and can mend it, it is held until the peer's
//! word that it did could be here, and goes again after that. The peer tells which packets it rebuilt; those are kept no longer ([`Cover::mended`]). Where
//! the loss is known before the rows have gone, or more is lost than there are rows, nothing can be gained, and it goes again at once. So
//! where a round trip is shorter than a block, no block ever fails, and rows end by themselves.
//!
//! Cost: O(streams) an urgent packet and the code's, m additions an octet for m rows; O(held) where something is lost. No allocation once
//! it has grown. Memory: [`STREAMS`] streams with [`MOST_ROWS`] rows as long as the longest packet each, and [`BLOCKS`] blocks of 200 bytes; [`WAITING`] rows.
//! Invariants: a packet is in one block at most; a block's packets follow each other in their bucket; what is held goes again or has arrived.

use super::channel::bit;
use crate::flow::accounts::AccountId;
use crate::packet::Packet;
use crate::parity::Encoder;
use crate::parity::demand::Demand;
use crate::path::flight::Note;
use crate::units::{ChannelId, Span, Time};
use crate::wire::parity::{MOST_PACKETS, MOST_ROWS, Mended};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// One block in so many may lose more than its rows mend.
pub(super) const RESIDUAL: u32 = 4096;
/// What an urgent packet may wait for a row where its class says no latency budget.
pub(super) const WAIT: Span = Span::from_millis(15);
/// Streams that have blocks at one time, and what has been idle for how long makes room.
const STREAMS: usize = 16;
const IDLE: Span = Span::from_secs(1);
/// Blocks of a stream that are remembered until their packets' fate is known.
const BLOCKS: usize = 64;
/// Rows that may wait for a channel.
const WAITING: usize = 64;
/// Lost packets that may be held at one time.
const HELD: usize = 256;
/// A stream's rate is known after so many packets. A pause counts for no longer than this.
const KNOWN: u32 = 8;
const PAUSE: Span = Span::from_millis(50);
/// The octets of a packet's number in the bond, which are coded before it.
pub(super) const NUMBER: usize = 3;

/// The rows and blocks of a sender.
#[derive(Debug)]
pub(super) struct Cover<P> {
    streams: Vec<Stream>,
    /// For what matches no traffic class, then for each.
    demands: Vec<Demand>,
    /// Rows that are to go, the first first.
    pub(super) waiting: VecDeque<Waiting<P>>,
    /// When the first of them may go, if it may not yet.
    pub(super) at: Option<Time>,
    held: Vec<Held>,
    /// Rows for which there was no room, since it was last asked.
    skipped: u64,
}

/// A flow bucket whose packets are urgent.
#[derive(Debug)]
struct Stream {
    bucket: u16,
    /// The account of the flow of its last packet.
    account: AccountId,
    /// Whose demand it adds to.
    lane: usize,
    /// When its last packet went, and how far apart they are.
    last: Time,
    gap: Span,
    packets: u32,
    encoder: Encoder,
    /// What is coded of one packet.
    octets: Vec<u8>,
    open: Option<Open>,
    blocks: VecDeque<Block>,
}

/// The block that grows.
#[derive(Clone, Copy, Debug)]
struct Open {
    block: Block,
    /// It ends then, or with so many packets.
    until: Time,
    most: u8,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    /// The first packet's number in its bucket.
    first: u32,
    packets: u8,
    rows: u8,
    /// The channels that carried its packets.
    carried: u64,
    /// Its packets that were told to be lost, a bit each.
    lost: u16,
    /// When the last of its rows that have gone will have been answered for.
    told: Option<Time>,
    notes: [Note; MOST_PACKETS],
}

/// A row that is to go.
#[derive(Debug)]
pub(super) struct Waiting<P> {
    pub(super) since: Time,
    pub(super) bucket: u16,
    /// Its block's first number, and how many packets that has.
    pub(super) first: u32,
    pub(super) packets: u8,
    pub(super) row: u8,
    /// The channels that carried the block's packets.
    pub(super) carried: u64,
    /// The account of its flow.
    pub(super) account: AccountId,
    pub(super) octets: P,
}

/// A lost packet that parity may mend.
#[derive(Clone, Copy, Debug)]
struct Held {
    due: Time,
    note: Note,
    bucket: u16,
    first: u32,
}

/// What is to be done with a packet that is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It goes again.
    Again,
    /// It is held until its time.
    Held,
}

impl<P: Packet> Cover<P> {
    /// Nothing was sent; there are so many traffic classes.
    pub(super) fn new(classes: usize) -> Cover<P> {
        Cover {
            streams: Vec::new(),
            demands: (0..=classes).map(|_| Demand::new(RESIDUAL)).collect(),
            waiting: VecDeque::new(),
            at: None,
            held: Vec::new(),
            skipped: 0,
        }
    }

    /// An urgent packet of `bucket` goes for the first time; `sequence` is its number there, and it is of the traffic class `lane` less one, or of none. The place of
    /// its stream; `None`: there is no room for it, or too little is known of it yet.
    pub(super) fn on_packet(&mut self, now: Time, bucket: u16, sequence: u32, lane: usize) -> Option<usize> {
        let place =
            self.streams.iter().position(|stream| stream.bucket == bucket).or_else(|| self.admit(now, bucket))?;
        let stream = &mut self.streams[place];
        stream.lane = lane.min(self.demands.len() - 1);
        let gap = now.since(stream.last).min(PAUSE).as_nanos();
        let before = stream.gap.as_nanos();
        stream.gap = Span::from_nanos(if stream.packets <= 1 { gap } else { before - before / 8 + gap / 8 });
        stream.last = now;
        stream.packets = stream.packets.saturating_add(1);
        let follows = |open: &Open| open.block.first.wrapping_add(open.block.packets.into()) == sequence;
        if stream.open.as_ref().is_some_and(|open| now >= open.until || !follows(open)) {
            self.end(now, place);
        }
        (self.streams[place].packets >= KNOWN).then_some(place)
    }

    /// A place for the stream of `bucket`.
    fn admit(&mut self, now: Time, bucket: u16) -> Option<usize> {
        let place = if self.streams.len() < STREAMS {
            self.streams.push(Stream {
                bucket,
                account: AccountId::default(),
                lane: 0,
                last: now,
                gap: Span::ZERO,
                packets: 0,
                encoder: Encoder::default(),
                octets: Vec::new(),
                open: None,
                blocks: VecDeque::new(),
            });
            self.streams.len() - 1
        } else {
            let idle = |stream: &Stream| now.since(stream.last) >= IDLE;
            let place = self.streams.iter().position(idle)?;
            self.end(now, place);
            place
        };
        let stream = &mut self.streams[place];
        (stream.bucket, stream.last, stream.gap, stream.packets) = (bucket, now, Span::ZERO, 0);
        stream.blocks.clear();
        Some(place)
    }

    /// The packet that this stream has now is of a flow with this account.
    pub(super) fn set_account(&mut self, place: usize, account: AccountId) {
        self.streams[place].account = account;
    }

    /// Whether a block of this stream is open.
    pub(super) fn is_open(&self, place: usize) -> bool {
        self.streams[place].open.is_some()
    }

    /// A block begins with packet `sequence`, whose rows may leave after `wait` at latest; `false`: no second packet will come by then.
    pub(super) fn begin(&mut self, now: Time, place: usize, sequence: u32, wait: Span) -> bool {
        let stream = &mut self.streams[place];
        let more = wait.as_nanos() / stream.gap.as_nanos().max(1);
        if more == 0 {
            return false;
        }
        let rows = self.demands[stream.lane].rows().min(MOST_ROWS as u32) as u8;
        stream.encoder.begin(rows.into());
        let none = Note::NONE;
        let block =
            Block { first: sequence, packets: 0, rows, carried: 0, lost: 0, told: None, notes: [none; MOST_PACKETS] };
        let most = more.saturating_add(1).min(MOST_PACKETS as u64) as u8;
        stream.open = Some(Open { block, until: now + wait, most });
        true
    }

    /// The next packet of the block that is open goes by `channel`, and is kept by `note`.
    pub(super) fn add(&mut self, now: Time, place: usize, note: Note, channel: ChannelId, bond: u32, packet: &[u8]) {
        let stream = &mut self.streams[place];
        let Some(open) = &mut stream.open else { return };
        if open.block.rows > 0 {
            let [_, number @ ..] = bond.to_be_bytes();
            stream.octets.clear();
            stream.octets.extend_from_slice(&number);
            stream.octets.extend_from_slice(packet);
            // A block ends before the code's own bound.
            stream.encoder.add(&stream.octets);
        }
        if let Some(kept) = open.block.notes.get_mut(usize::from(open.block.packets)) {
            *kept = note;
            open.block.packets += 1;
            open.block.carried |= bit(channel);
        }
        if open.block.packets >= open.most {
            self.end(now, place);
        }
    }

    /// The block that is open ends, and its rows are to go.
    fn end(&mut self, now: Time, place: usize) {
        let stream = &mut self.streams[place];
        let Some(Open { mut block, .. }) = stream.open.take() else { return };
        self.demands[stream.lane].on_block();
        // A packet alone goes twice.
        block.rows = block.rows.min(block.packets);
        for row in 0..block.rows {
            let octets = stream.encoder.row(row.into()).and_then(P::from_bytes);
            if self.waiting.len() < WAITING
                && let Some(octets) = octets
            {
                let Block { first, packets, carried, .. } = block;
                let Stream { bucket, account, .. } = *stream;
                self.waiting.push_back(Waiting { since: now, bucket, first, packets, row, carried, account, octets });
            } else {
                self.skipped += 1;
            }
        }
        if stream.blocks.len() == BLOCKS {
            stream.blocks.pop_front();
        }
        stream.blocks.push_back(block);
    }

    /// Blocks end whose time has come. How many rows found no room since it was last asked.
    pub(super) fn on_time(&mut self, now: Time) -> u64 {
        for place in 0..self.streams.len() {
            if self.streams[place].open.as_ref().is_some_and(|open| open.until <= now) {
                self.end(now, place);
            }
        }
        core::mem::take(&mut self.skipped)
    }

    /// When there is something to do: a block ends, a row may go, or a held packet goes again.
    pub(super) fn timeout(&self) -> Option<Time> {
        let ends = self.streams.iter().filter_map(|stream| Some(stream.open.as_ref()?.until));
        let row = self.at.filter(|_| !self.waiting.is_empty());
        ends.chain(row).chain(self.held.iter().map(|held| held.due)).min()
    }

    /// A row of this block has gone; by `told` the peer's word of what it mended could be here.
    pub(super) fn on_row(&mut self, bucket: u16, first: u32, told: Time) {
        let stream = self.streams.iter_mut().find(|stream| stream.bucket == bucket);
        let block = stream.and_then(|stream| stream.blocks.iter_mut().rfind(|block| block.first == first));
        if let Some(block) = block {
            block.told = Some(block.told.map_or(told, |before| before.max(told)));
        }
    }

    /// Packet `sequence` of `bucket`, kept by `note`, is told to be lost.
    pub(super) fn on_lost(&mut self, now: Time, bucket: u16, sequence: u32, note: Note) -> Fate {
        let Some(stream) = self.streams.iter_mut().find(|stream| stream.bucket == bucket) else { return Fate::Again };
        let of = |block: &&mut Block| {
            let place = sequence.wrapping_sub(block.first);
            place < block.packets.into() && block.notes.get(place as usize) == Some(&note)
        };
        let Some(block) = stream.blocks.iter_mut().rev().find(of) else { return Fate::Again };
        let (first, one) = (block.first, 1 << (sequence.wrapping_sub(block.first) & 15));
        if block.lost & one != 0 {
            // It went again, and that is lost too.
            return Fate::Again;
        }
        block.lost |= one;
        let needed = block.lost.count_ones();
        if needed > block.rows.into() {
            self.demands[stream.lane].on_missed(needed.min(MOST_ROWS as u32));
            // Nothing mends those before it either.
            let others = self.held.iter_mut().filter(|held| held.bucket == bucket && held.first == first);
            others.for_each(|held| held.due = now);
            return Fate::Again;
        }
        match block.told {
            Some(due) if due > now && self.held.len() < HELD => {
                self.held.push(Held { due, note, bucket, first });
                Fate::Held
            }
            // Too late, or before the rows have gone: what goes again now comes no later.
            _ => Fate::Again,
        }
    }

    /// The next held packet whose time has come.
    pub(super) fn poll_held(&mut self, now: Time) -> Option<Note> {
        let place = self.held.iter().position(|held| held.due <= now)?;
        Some(self.held.swap_remove(place).note)
    }

    /// The packet of `note`, which was held, goes again: its block's rows did not mend it.
    pub(super) fn on_missed(&mut self, bucket: u16, sequence: u32) {
        let Some(stream) = self.streams.iter().find(|stream| stream.bucket == bucket) else { return };
        let of = |block: &&Block| sequence.wrapping_sub(block.first) < block.packets.into();
        let Some(block) = stream.blocks.iter().rev().find(of) else { return };
        let needed = block.lost.count_ones().max(u32::from(block.rows) + 1);
        self.demands[stream.lane].on_missed(needed.min(block.packets.into()).min(MOST_ROWS as u32));
    }

    /// What the packets are kept by that the peer rebuilt.
    pub(super) fn mended(&self, mended: Mended) -> impl Iterator<Item = Note> {
        let stream = self.streams.iter().find(|stream| stream.bucket == mended.bucket);
        let of = |block: &&Block| block.first as u16 == mended.first;
        let block = stream.and_then(|stream| stream.blocks.iter().rev().find(of)).copied();
        let place = move |place: usize| {
            let block = block.filter(|block| place < block.packets.into() && mended.places >> place & 1 == 1)?;
            block.notes.get(place).copied()
        };
        (0..MOST_PACKETS).filter_map(place)
    }

    /// How many packets and rows the newest block had of the streams of this class, or of none.
    pub(super) fn newest(&self, lane: usize) -> Option<(u8, u8)> {
        let of = self.streams.iter().filter(|stream| stream.lane == lane && !stream.blocks.is_empty());
        let stream = of.max_by_key(|stream| stream.last)?;
        stream.blocks.back().map(|block| (block.packets, block.rows))
    }

    /// The peer is another one, or takes no parity any more: what is held goes again.
    pub(super) fn forget(&mut self, now: Time) {
        self.waiting.clear();
        self.streams.clear();
        self.held.iter_mut().for_each(|held| held.due = now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Time = Time::from_millis;
    const MINE: ChannelId = ChannelId(1);
    const LONG: Span = Span::from_micros(12_500);

    fn note(sequence: u32) -> Note {
        Note { slot: sequence, generation: 1 }
    }

    /// Sends packets `from` to `to` of bucket 7, one every `every` ms, in blocks that may take [`LONG`]; how many were in blocks.
    fn send(cover: &mut Cover<Vec<u8>>, from: u32, to: u32, every: u64) -> usize {
        let mut covered = 0;
        for sequence in from..to {
            let now = MS(u64::from(sequence) * every);
            cover.on_time(now);
            let Some(place) = cover.on_packet(now, 7, sequence, 0) else { continue };
            if cover.is_open(place) || cover.begin(now, place, sequence, LONG) {
                cover.add(now, place, note(sequence), MINE, sequence + 1, &[sequence as u8; 50]);
                covered += 1;
            }
        }
        covered
    }

    /// The first numbers, packets and row numbers of the rows that wait.
    fn rows(cover: &mut Cover<Vec<u8>>) -> Vec<(u32, u8, u8)> {
        cover.waiting.drain(..).map(|waiting| (waiting.first, waiting.packets, waiting.row)).collect()
    }

    #[test]
    fn a_block_has_as_many_packets_as_come_in_time_and_what_is_not_dense_has_none() {
        let mut cover = Cover::new(0);
        assert_eq!(send(&mut cover, 0, 17, 5), 10, "the rate is known after some packets");
        assert_eq!(rows(&mut cover), [(7, 3, 0), (10, 3, 0), (13, 3, 0)]);
        assert!(cover.waiting.is_empty() && cover.timeout() == Some(MS(16 * 5) + LONG));
        cover.on_time(MS(16 * 5) + LONG);
        assert_eq!((rows(&mut cover), cover.timeout()), (Vec::from([(16, 1, 0)]), None), "its time ends it too");
        let mut cover = Cover::new(0);
        assert_eq!(send(&mut cover, 0, 100, 13), 0);
        let mut cover = Cover::new(0);
        send(&mut cover, 0, 200, 0);
        assert!(rows(&mut cover).iter().all(|(_, packets, _)| usize::from(*packets) == MOST_PACKETS));
    }

    #[test]
    fn a_packet_that_does_not_follow_ends_its_block() {
        let mut cover = Cover::new(0);
        send(&mut cover, 0, 12, 1);
        assert!(rows(&mut cover).is_empty());
        send(&mut cover, 13, 14, 1);
        assert_eq!(rows(&mut cover), [(7, 5, 0)]);
        let row = Cover::<Vec<u8>>::new(0);
        assert!(row.waiting.is_empty() && row.timeout().is_none());
    }

    #[test]
    fn a_lost_packet_is_held_for_the_peers_word_and_more_losses_than_rows_go_again_at_once() {
        let mut cover = Cover::new(0);
        send(&mut cover, 0, 40, 1);
        let now = MS(40);
        assert_eq!(cover.on_lost(now, 7, 8, note(8)), Fate::Again, "its row has not gone");
        cover.on_row(7, 20, MS(90));
        assert_eq!(cover.on_lost(now, 7, 22, note(21)), Fate::Again, "another packet");
        assert_eq!(cover.on_lost(now, 7, 36, note(36)), Fate::Again, "a block that is open");
        assert_eq!((cover.on_lost(now, 7, 22, note(22)), cover.timeout()), (Fate::Held, Some(MS(33) + LONG)));
        assert_eq!(cover.poll_held(MS(89)), None);
        assert_eq!(cover.on_lost(now, 7, 22, note(22)), Fate::Again, "it went again and was lost again");
        assert_eq!(cover.demands[0].rows(), 1);
        assert_eq!(cover.on_lost(now, 7, 24, note(24)), Fate::Again);
        assert_eq!((cover.poll_held(now), cover.poll_held(now)), (Some(note(22)), None), "nothing mends it now");
        assert_eq!(cover.demands[0].rows(), 2, "two would have mended it");
        cover.on_missed(7, 22);
        assert_eq!(cover.demands[0].rows(), 2);
    }

    #[test]
    fn the_peers_word_names_the_packets_of_one_block() {
        let mut cover = Cover::new(0);
        send(&mut cover, 0, 30, 1);
        let mended = |bucket, first, places| Mended { of: 0, bucket, first, places };
        let notes = |mended| cover.mended(mended).map(|note| note.slot).collect::<Vec<_>>();
        assert_eq!(notes(mended(7, 7, 0b101)), [7, 9]);
        assert_eq!(notes(mended(7, 7, !0)), (7..20).collect::<Vec<_>>());
        assert!(
            notes(mended(8, 7, 1)).is_empty() && notes(mended(7, 8, 1)).is_empty() && notes(mended(7, 7, 0)).is_empty()
        );
    }

    #[test]
    fn streams_blocks_rows_and_what_is_held_are_bounded() {
        let mut cover = Cover::<Vec<u8>>::new(0);
        for sequence in 0..1_500 {
            for bucket in 0..40 {
                if let Some(place) = cover.on_packet(MS(0), bucket, sequence, 0) {
                    assert!(cover.is_open(place) || cover.begin(MS(0), place, sequence, Span::from_millis(1)));
                    cover.add(MS(0), place, note(sequence), MINE, 1, &[0; 40]);
                }
            }
        }
        assert_eq!((cover.streams.len(), cover.waiting.len()), (STREAMS, WAITING));
        assert!(cover.streams.iter().all(|stream| stream.blocks.len() <= BLOCKS) && cover.on_time(MS(0)) > 1_000);
        let blocks: Vec<_> = cover.streams.iter().map(|s| (s.bucket, s.blocks.clone())).collect();
        for (bucket, block) in blocks.iter().flat_map(|(bucket, blocks)| blocks.iter().map(move |b| (*bucket, b))) {
            cover.on_row(bucket, block.first, MS(50));
            if block.rows > 0 {
                cover.on_lost(MS(1), bucket, block.first, note(block.first));
            }
        }
        assert_eq!(cover.held.len(), HELD);
        assert_eq!(cover.on_packet(MS(500), 41, 0, 0), None, "no stream is idle");
        assert!((0..KNOWN).all(|n| cover.on_packet(MS(1_001), 41, n, 0).is_none() || n + 1 == KNOWN));
        assert!(cover.streams.iter().any(|stream| stream.bucket == 41));
        cover.forget(MS(2_000));
        assert_eq!((0..).map_while(|_| cover.poll_held(MS(2_000))).count(), HELD);
    }
}
