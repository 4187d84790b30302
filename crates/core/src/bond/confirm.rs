//! The stripe's order, confirmed by numbers.
//!
//! What it is: logical reception says what comes next, and where both ends are in step it is right. With the setting
//! `confirm_order` each data frame has a number besides, one count for all packets of the bond, and what logical reception
//! gives is compared with it. A packet that is next goes on at once. One that came before its turn, as after a loss until the
//! next marker, waits until what is missing has come or cannot come any more, by the rule of mode `ordered`
//! ([`ordered`](super::ordered)) with one bucket for all. So nothing is ever delivered out of order, and while nothing is lost
//! nothing is sorted.
//!
//! Source: striping §4, the last paragraph: the number is needed for confirmation only, and guarantees the order where sender
//! and receiver lose synchronisation.
//!
//! | paper | here |
//! |---|---|
//! | the number that the sender inserts | `Message::Ordered` with bucket 0 |
//! | confirmation | [`Confirm::turn`]; a packet that fails it counts as `stripe_misplaced` |
//! | FIFO although synchronisation is lost | the gap that mode `ordered` knows |
//!
//! A heartbeat's high water tells that a channel has passed a number. It counts when logical reception has given all
//! that the channel brought before it.
//!
//! Cost: O(1) a packet in order; behind a gap that of mode `ordered`. Ten bytes a frame. Invariant: numbers of
//! delivered packets rise, within a life of the sender.

use super::channel::{bit, each};
use crate::packet::Packet;
use crate::units::{Bytes, ChannelId};
use crate::wire::short::ahead;

/// The bucket of all packets.
pub(super) const BUCKET: u16 = 0;

/// A packet in logical reception, with where it came and what its number was.
#[derive(Clone, Debug)]
pub(super) struct Placed<P> {
    pub(super) packet: P,
    pub(super) channel: ChannelId,
    pub(super) number: Option<Number>,
}

/// What a numbered frame says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number {
    /// The sender's life.
    pub(super) tag: u8,
    pub(super) sequence: u32,
    pub(super) bond: u32,
}

impl<P: Packet> Packet for Placed<P> {
    fn bytes(&self) -> &[u8] {
        self.packet.bytes()
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.packet.bytes_mut()
    }

    fn size(&self) -> Bytes {
        self.packet.size()
    }

    fn footprint(&self) -> usize {
        self.packet.footprint()
    }

    fn strip(&mut self, n: usize) {
        self.packet.strip(n);
    }

    fn truncate(&mut self, n: usize) {
        self.packet.truncate(n);
    }

    fn duplicate(&self) -> Option<Placed<P>> {
        let packet = self.packet.duplicate()?;
        Some(Placed { packet, channel: self.channel, number: self.number })
    }

    fn from_bytes(bytes: &[u8]) -> Option<Placed<P>> {
        Some(Placed { packet: P::from_bytes(bytes)?, channel: ChannelId(0), number: None })
    }
}

/// What the receiver knows of the order that was given.
#[derive(Clone, Debug)]
pub(super) struct Confirm {
    /// The furthest number given.
    last: Option<u32>,
    /// High waters that wait behind what logical reception holds, and the channels that have one.
    marks: [u32; ChannelId::LIMIT],
    marked: u64,
}

impl Default for Confirm {
    fn default() -> Confirm {
        Confirm { last: None, marks: [0; ChannelId::LIMIT], marked: 0 }
    }
}

impl Confirm {
    /// Logical reception gave `bond`: whether that is behind what it gave before.
    pub(super) fn turn(&mut self, bond: u32) -> bool {
        if self.last.is_some_and(|last| ahead(bond, last) <= 0) {
            return false;
        }
        self.last = Some(bond);
        true
    }

    /// Every number up to `high` that uses `channel` has arrived there, or will not.
    pub(super) fn mark(&mut self, channel: ChannelId, high: u32) {
        self.marks[channel.index() & (ChannelId::LIMIT - 1)] = high;
        self.marked |= bit(channel);
    }

    /// The next high water of a channel of which nothing is held any more, as `is_free` says.
    pub(super) fn next_mark(&mut self, is_free: impl Fn(ChannelId) -> bool) -> Option<(ChannelId, u32)> {
        let channel = each(self.marked).find(|channel| is_free(*channel))?;
        self.marked &= !bit(channel);
        Some((channel, self.marks[channel.index() & (ChannelId::LIMIT - 1)]))
    }

    /// Another life of the peer.
    pub(super) fn reset(&mut self) {
        *self = Confirm::default();
    }
}
