//! Parity over urgent packets: rows leave, and what is lost is rebuilt from those that come.
//!
//! What it is: the bond's side of [`cover`](super::cover) and [`mender`](super::mender), with the setting `parity`, towards a peer whose heartbeats say that
//! it takes rows. A row goes behind urgent packets and before all others, by the channel that brings it first of those that carried none of its
//! block's packets, if that channel's way is at most half of the budget longer than the shortest; otherwise by whatever channel brings it first. What is
//! left of the budget is how long a block may take. So what a row mends is there within the budget, but for the wait for a channel.
//!
//! The budget is the `latency` of the packet's traffic class, else [`WAIT`]. Packets of a block have their transport checksum finished before they leave: both
//! ends must code the same bytes whatever the channel.
//!
//! What a row is to the path: a frame with a number, so that the law, the pacer and the feedback know of it; it is never sent again.
//!
//! What is rebuilt is delivered as a packet with its numbers that arrived. Feedback does not tell of it, as its frame did not arrive; a
//! message of its own does ([`Mended`]), by the two fastest channels. Where both are lost, the packet goes again, and is dropped as a second one.
//!
//! Cost: O(channels) a block and a row.

use super::Bond;
use super::channel::{bit, each};
use super::cover::{WAIT, Waiting};
use super::equalize::Arrival;
use super::frame::{Codepoint, Transmit};
use super::keep::About;
use super::mender::{Mender, Rebuilt};
use super::receive::Opened;
use crate::ip::{Header, Version, checksum, ecn};
use crate::packet::Packet;
use crate::path::flight::Note;
use crate::units::{ChannelId, Span, Time};
use crate::wire::envelope::Message;
use crate::wire::parity::{LEN, Mended, Parity, Row};
use crate::wire::stamp::Stamp;

/// A row that waited for a channel for so long is of no use any more.
const LATE: Span = Span::from_millis(20);
/// How much later than a round trip the peer's word may come of what a row mended, beside how much that varies.
const WORD: Span = Span::from_millis(5);

impl<P: Packet> Bond<P> {
    /// Puts an urgent packet, which goes by `channel` for the first time and is kept by `note`, into its stream's block; `false`: it has none.
    pub(super) fn cover(&mut self, now: Time, channel: ChannelId, note: Note, about: About, packet: &mut P) -> bool {
        let lane = self.classed.place_of(about.bucket).map_or(0, |class| class + 1);
        let Some(cover) = &mut self.protect.cover else { return false };
        let Some(place) = cover.on_packet(now, about.bucket, about.numbers.sequence, lane) else { return false };
        cover.set_account(place, about.account);
        if !cover.is_open(place) {
            let wait = self.block_time(now, channel, about.bucket);
            let Some(cover) = &mut self.protect.cover else { return false };
            if !cover.begin(now, place, about.numbers.sequence, wait) {
                return false;
            }
        }
        packet.complete_checksum();
        let Some(cover) = &mut self.protect.cover else { return false };
        cover.add(now, place, note, channel, about.numbers.bond, packet.bytes());
        true
    }

    /// What packets of `bucket` may wait for.
    fn budget(&self, bucket: u16) -> Span {
        self.classed.of_bucket(bucket).and_then(|class| class.config.latency).unwrap_or(WAIT)
    }

    /// How long a block may take of which the first packet goes by `channel`.
    fn block_time(&self, now: Time, channel: ChannelId, bucket: u16) -> Span {
        let budget = self.budget(bucket);
        let reference = self.channels.reference();
        let Some((at, by)) = self.row_by(now, bit(channel), bucket) else { return budget };
        budget - (at.since(now) + self.way(by, reference) - self.way(channel, reference))
    }

    /// When and by which channel a row of a block of `bucket` goes whose packets went by `carried`.
    fn row_by(&self, now: Time, carried: u64, bucket: u16) -> Option<(Time, ChannelId)> {
        let reference = self.channels.reference();
        let carriers = self.carriers(bucket);
        let least = each(carriers).map(|c| self.way(c, reference)).min()?;
        let most = least + Span::from_nanos(self.budget(bucket).as_nanos() / 2);
        let arrival = |c: ChannelId| {
            let at = self.channels[c].ready_at()?.max(now);
            Some((at + self.way(c, reference), at, c))
        };
        let others = each(carriers & !carried).filter(|c| self.way(*c, reference) <= most);
        let first = others.filter_map(arrival).min().or_else(|| each(carriers).filter_map(arrival).min());
        first.map(|(_, at, channel)| (at, channel))
    }

    /// The next row, if a channel may send it.
    #[inline(never)]
    pub(super) fn next_row(&mut self, now: Time) -> Option<Transmit<P>> {
        self.protect.cover.as_mut()?.at = None;
        loop {
            let &Waiting { since, bucket, carried, .. } = self.protect.cover.as_ref()?.waiting.front()?;
            let way = if now.since(since) > LATE { None } else { self.row_by(now, carried, bucket) };
            let cover = self.protect.cover.as_mut()?;
            let Some((at, channel)) = way else {
                cover.waiting.pop_front();
                self.stats.parity_skipped += 1;
                continue;
            };
            if at > now {
                cover.at = Some(at);
                return None;
            }
            let waiting = cover.waiting.pop_front()?;
            return Some(self.send_row(now, channel, waiting));
        }
    }

    fn send_row(&mut self, now: Time, channel: ChannelId, waiting: Waiting<P>) -> Transmit<P> {
        let Waiting { bucket, first, packets, row, octets, account, .. } = waiting;
        let size = octets.size().as_u64() as usize;
        let frame = LEN + size;
        let c = &mut self.channels[channel];
        let number = c.path.on_counted(now, c.wire(frame), false);
        let handling = c.on_data_sent(now, frame);
        self.stats.parity_sent += 1;
        let told = now + c.path.rtt().unwrap_or(Span::ZERO) + c.path.delay.variation() + WORD;
        if let Some(cover) = &mut self.protect.cover {
            cover.on_row(bucket, first, told);
        }
        self.classed.on_sent(bucket, channel, size, true);
        self.ingress.ledger.on_frame(now, account, channel, size);
        let row = Row { number, row, packets, bucket, first: first as u16 };
        let head = self.number.control(Message::Parity(Parity::Row(row)));
        let tos = ecn::entry(0, self.config.copy_dscp);
        Transmit { channel, codepoint: Codepoint::Envelope, head, packet: Some(octets), skip: 0, tos, handling }
    }

    /// Blocks end, and packets that parity did not mend go again.
    pub(super) fn on_parity_timeout(&mut self, now: Time) {
        let Some(cover) = &mut self.protect.cover else { return };
        self.stats.parity_skipped += cover.on_time(now);
        while let Some(note) = cover.poll_held(now) {
            if let Some(keeper) = &mut self.protect.keeper
                && let Some((About { bucket, numbers, .. }, _)) = keeper.under_way(note)
            {
                cover.on_missed(bucket, numbers.sequence);
                keeper.lose(note, &mut self.stats);
            }
        }
    }

    /// The setting says otherwise than before.
    pub(super) fn switch_parity(&mut self, now: Time) {
        if let Some(cover) = &mut self.protect.cover {
            cover.forget(now);
        }
        self.on_parity_timeout(now);
        self.mender = Mender::of(&self.config);
    }

    /// The peer is another one.
    pub(super) fn forget_parity(&mut self) {
        if let Some(cover) = &mut self.protect.cover {
            // What it held was given up.
            cover.forget(Time::ZERO);
        }
        if let Some(mender) = &mut self.mender {
            mender.forget();
        }
    }

    /// A packet as it left is here.
    #[inline]
    pub(super) fn keep_for_parity(&mut self, now: Time, bucket: u16, sequence: u32, bond: u32, packet: &P) {
        if let Some(mender) = self.mender.as_mut().filter(|mender| !mender.is_empty()) {
            mender.keep(now, bucket, sequence, bond, packet.bytes());
        }
    }

    /// A row, or word of what ours mended.
    #[inline(never)]
    pub(super) fn on_parity(&mut self, now: Time, channel: ChannelId, tag: u8, parity: Parity, mut frame: P, tos: u8) {
        if !self.peer.is_current(tag) {
            self.stats.stale_epoch += 1;
            return;
        }
        match parity {
            Parity::Mended(mended) => self.on_mended(now, channel, mended),
            Parity::Row(row) => {
                let bytes = frame.size().as_u64() as usize;
                frame.strip(LEN);
                let taken = self.mender.as_mut().is_some_and(|mender| mender.on_row(now, row, frame.bytes()).is_ok());
                if !taken {
                    self.stats.bad_parity += 1;
                    self.channels[channel].stats.received_invalid += 1;
                    return;
                }
                self.stats.parity_received += 1;
                let c = &mut self.channels[channel];
                c.stats.received_packets += 1;
                c.stats.received_bytes += bytes as u64;
                self.on_heard(now, channel);
                self.on_traffic(now);
                self.on_number(now, channel, tag, row.number, bytes, tos, true);
                self.mend(now, channel, row.bucket);
            }
        }
    }

    /// Rebuilds what can be of `bucket`, and tells the peer.
    #[inline(never)]
    pub(super) fn mend(&mut self, now: Time, channel: ChannelId, bucket: u16) {
        let Some(of) = self.peer.tag() else { return };
        let Some(mut mender) = self.mender.take() else { return };
        while let Some(Rebuilt { first, places }) =
            mender.mend(bucket, |sequence, bond, packet| self.on_rebuilt(now, channel, bucket, sequence, bond, packet))
        {
            if places == 0 {
                self.stats.bad_parity += 1;
                continue;
            }
            let mended = Message::Parity(Parity::Mended(Mended { of, bucket, first: first as u16, places }));
            let by = self.fastest(now).unwrap_or(channel);
            self.send_control(by, mended, 0);
            let others = self.channels.in_use() & !bit(by);
            if let Some((second, _)) = self.earliest(now, others, None) {
                self.send_control(second, mended, 0);
            }
        }
        self.mender = Some(mender);
    }

    /// A packet was rebuilt: it is what arrived, if it is one.
    fn on_rebuilt(
        &mut self,
        now: Time,
        channel: ChannelId,
        bucket: u16,
        sequence: u32,
        bond: u32,
        bytes: &[u8],
    ) -> bool {
        let Ok(header) = Header::parse(bytes, bytes.len()) else { return false };
        let right =
            header.version == Version::V6 || bytes.get(..header.payload).is_some_and(|ip| checksum::of(ip) == 0);
        if header.total != bytes.len() || !right {
            return false;
        }
        let Some(packet) = P::from_bytes(bytes) else {
            self.stats.memory_refused += 1;
            return false;
        };
        // The outer header's mark of congestion went with its frame.
        let Some(Opened(packet)) = self.finish_packet(&header, packet, 0) else { return false };
        self.stats.rebuilt += 1;
        let arrival = Arrival::Kept { bucket, number: sequence, bond, packet };
        self.resequence.handle_kept(now, channel, Stamp::NONE, true, arrival, &mut self.stats);
        true
    }

    /// The peer rebuilt packets of a block: they have arrived.
    fn on_mended(&mut self, now: Time, channel: ChannelId, mended: Mended) {
        if mended.of != self.number.epoch() as u8 {
            self.stats.stale_epoch += 1;
            return;
        }
        self.channels[channel].stats.received_control += 1;
        self.on_heard(now, channel);
        if let (Some(cover), Some(keeper)) = (&self.protect.cover, &mut self.protect.keeper) {
            cover.mended(mended).for_each(|note| keeper.arrived(note));
        }
    }
}
