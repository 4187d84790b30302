//! A queue for each channel, where a policy chooses when a packet comes.
//!
//! What it is: FIFOs, each bounded by [`Config::queue_time`] at its channel's rate, and served each in turn. A packet may
//! have an instant before which it does not leave, and numbers; one that comes back from a channel that failed goes in
//! front of those with higher numbers. Cost: O(1) a packet, O(channels) to find the next channel that may send; no
//! allocation once queues have grown. Invariant: `memory` is the sum of what the packets cost; `waiting` has a bit for each
//! line that is not empty.
//!
//! [`Config::queue_time`]: super::Config::queue_time

use super::channel::{Channels, bit, each};
use super::event::Stats;
use super::ledger::Ledger;
use super::number::Numbers;
use super::queue::{self, ChannelQueue, Queued};
use crate::packet::Packet;
use crate::units::{Bytes, ChannelId, Time};
use alloc::vec::Vec;

/// Bytes in a queue above which the host is asked to wait, where channels without a rate set the pace.
pub(super) const BACK_PRESSURE: usize = 256 * 1024;
/// Bytes that may wait for a channel without a rate.
pub(super) const UNPACED: usize = 2 * BACK_PRESSURE;

/// What is known of a packet in a line beside the packet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Note {
    pub(super) numbers: Numbers,
    /// It begins to leave then at the earliest.
    pub(super) not_before: Time,
}

/// A packet in a line.
pub(super) type Waiting<P> = Queued<P, Note>;

/// A channel's queue.
#[derive(Debug)]
pub(super) struct Line<P> {
    pub(super) queue: ChannelQueue<P, Note>,
    /// Bytes that it may hold.
    pub(super) limit: usize,
    /// Wire bytes that a packet has on top of its own.
    pub(super) extra: usize,
    /// When all that it holds will have left, as far as packets that wait for their instant tell.
    pub(super) until: Time,
}

/// The queues of all channels.
#[derive(Debug)]
pub(super) struct Lines<P> {
    lines: Vec<Line<P>>,
    /// The channels for which packets wait.
    waiting: u64,
    memory: usize,
    /// The channel that sent last.
    last: ChannelId,
}

impl<P: Packet> Lines<P> {
    /// No channel yet.
    pub(super) fn new() -> Lines<P> {
        Lines { lines: Vec::new(), waiting: 0, memory: 0, last: ChannelId(0) }
    }

    /// How many channels have a line.
    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    /// Adds a line for the next channel.
    pub(super) fn add(&mut self, queue: ChannelQueue<P, Note>) {
        self.lines.push(Line { queue, limit: 0, extra: 0, until: Time::ZERO });
    }

    /// The line of `channel`.
    #[inline]
    pub(super) fn get(&self, channel: ChannelId) -> Option<&Line<P>> {
        self.lines.get(channel.index())
    }

    /// As [`Lines::get`]; what the queue holds is changed by the methods below only.
    #[inline]
    pub(super) fn get_mut(&mut self, channel: ChannelId) -> Option<&mut Line<P>> {
        self.lines.get_mut(channel.index())
    }

    /// Whether no packet waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Memory that the packets take.
    #[inline]
    pub(super) fn memory(&self) -> usize {
        self.memory
    }

    /// Packets that wait for `channel`, and their bytes.
    pub(super) fn queued(&self, channel: ChannelId) -> (usize, Bytes) {
        self.get(channel).map_or((0, Bytes::ZERO), |line| (line.queue.len(), Bytes::from(line.queue.bytes())))
    }

    /// The number in the bond of the first packet that waits for `channel`.
    pub(super) fn first_number(&self, channel: ChannelId) -> Option<u32> {
        Some(self.get(channel)?.queue.first()?.note.numbers.bond)
    }

    /// When the first packet that waits for `channel` may leave.
    #[inline]
    fn not_before(&self, channel: ChannelId) -> Time {
        let first = self.get(channel).and_then(|line| line.queue.first());
        first.map_or(Time::ZERO, |first| first.note.not_before)
    }

    /// When a channel for which packets wait may send.
    pub(super) fn ready_at(&self, channels: &Channels) -> Option<Time> {
        let ready = |channel: ChannelId| {
            let ready = channels.get(channel).filter(|c| c.is_up())?.ready_at()?;
            Some(ready.max(self.not_before(channel)))
        };
        each(self.waiting).filter_map(ready).min()
    }

    /// Whether `channel` has room for a packet of `size` bytes.
    #[inline]
    pub(super) fn has_room(&self, channel: ChannelId, size: usize) -> bool {
        self.get(channel).is_some_and(|line| line.queue.bytes() + size <= line.limit)
    }

    /// Adds a packet for `channel`.
    #[inline]
    pub(super) fn push(&mut self, channel: ChannelId, queued: Waiting<P>) {
        let Some(line) = self.lines.get_mut(channel.index()) else { return };
        self.memory += queue::cost::<P, Note>(&queued.packet);
        line.queue.push(queued);
        self.waiting |= bit(channel);
    }

    /// Adds a packet for `channel` at the place that its number in the bond has.
    pub(super) fn insert(&mut self, channel: ChannelId, queued: Waiting<P>) {
        let Some(line) = self.lines.get_mut(channel.index()) else { return };
        self.memory += queue::cost::<P, Note>(&queued.packet);
        self.waiting |= bit(channel);
        let bond = queued.note.numbers.bond;
        line.queue.insert(queued, |other| (other.note.numbers.bond.wrapping_sub(bond) as i32) < 0);
    }

    /// Takes all that waits for `channel`, and leaves `empty` in its place.
    pub(super) fn replace(
        &mut self,
        channel: ChannelId,
        empty: ChannelQueue<P, Note>,
    ) -> Option<ChannelQueue<P, Note>> {
        let line = self.lines.get_mut(channel.index())?;
        let left = core::mem::replace(&mut line.queue, empty);
        self.waiting &= !bit(channel);
        self.memory -= left.memory();
        Some(left)
    }

    /// The next channel, each in turn, that may send now and has a packet.
    #[inline]
    pub(super) fn next_ready(&self, now: Time, channels: &Channels) -> Option<ChannelId> {
        let after = u64::MAX.checked_shl(u32::from(self.last.0) + 1).unwrap_or(0);
        each(self.waiting & after).chain(each(self.waiting & !after)).find(|channel| {
            let open = channels.get(*channel).is_some_and(|c| c.is_up() && c.ready_at().is_some_and(|at| at <= now));
            open && self.not_before(*channel) <= now
        })
    }

    /// Takes the first packet of `channel`, if the queue's policy lets one through, which `stats` counts.
    #[inline]
    pub(super) fn pop(
        &mut self,
        now: Time,
        channel: ChannelId,
        stats: &mut Stats,
        ledger: &mut Ledger,
    ) -> Option<Waiting<P>> {
        let line = self.lines.get_mut(channel.index())?;
        let before = line.queue.memory();
        let queued = line.queue.pop(now, stats, ledger);
        self.memory -= before - line.queue.memory();
        if line.queue.is_empty() {
            self.waiting &= !bit(channel);
            line.until = Time::ZERO;
        }
        if queued.is_some() {
            self.last = channel;
        }
        queued
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::{ChannelConfig, Config};
    use super::*;
    use crate::buffer::PolicyConfig;
    use crate::flow::accounts::AccountId;
    use crate::path::Counting;
    use alloc::vec;

    fn lines(count: usize) -> (Lines<Vec<u8>>, Channels) {
        let (mut lines, mut channels) = (Lines::new(), Channels::new(Counting::default()));
        for n in 0..count {
            lines.add(ChannelQueue::fifo(PolicyConfig::DropTail, 1));
            lines.get_mut(ChannelId(n as u8)).unwrap().limit = 3000;
            channels.join(Time::ZERO, ChannelId(n as u8), ChannelConfig::default());
            channels[ChannelId(n as u8)].path.signs.up = true;
        }
        (lines, channels)
    }

    fn packet(bond: u32, not_before: u64) -> Waiting<Vec<u8>> {
        let note = Note { numbers: Numbers { bond, ..Numbers::default() }, not_before: Time::from_millis(not_before) };
        Queued::new(Time::ZERO, vec![0; 1000], 0, 0, AccountId::default()).noted(note)
    }

    #[test]
    fn channels_send_in_turn_and_none_before_its_packets_instant() {
        let (mut lines, channels) = lines(3);
        for (channel, at) in [(0, 0), (0, 0), (1, 5), (2, 0)] {
            lines.push(ChannelId(channel), packet(0, at));
        }
        let mut order = Vec::new();
        while let Some(channel) = lines.next_ready(Time::ZERO, &channels) {
            assert!(
                lines.pop(Time::ZERO, channel, &mut Stats::default(), &mut Ledger::new(&Config::default())).is_some()
            );
            order.push(channel.0);
        }
        assert_eq!(order, [2, 0, 0], "after the last one, which was 0 at the start");
        assert_eq!(lines.ready_at(&channels), Some(Time::from_millis(5)));
        assert_eq!(lines.next_ready(Time::from_millis(5), &channels), Some(ChannelId(1)));
    }

    #[test]
    fn what_comes_back_goes_before_higher_numbers_across_the_wrap() {
        let (mut lines, _) = lines(1);
        for bond in [u32::MAX - 1, 2, 3] {
            lines.push(ChannelId(0), packet(bond, 0));
        }
        lines.insert(ChannelId(0), packet(1, 0));
        let mut bonds = Vec::new();
        while let Some(first) = lines.first_number(ChannelId(0)) {
            lines.pop(Time::ZERO, ChannelId(0), &mut Stats::default(), &mut Ledger::new(&Config::default()));
            bonds.push(first);
        }
        assert_eq!(bonds, [u32::MAX - 1, 1, 2, 3]);
        assert!(lines.is_empty() && lines.memory() == 0);
    }

    #[test]
    fn room_and_memory_are_counted_and_given_back() {
        let (mut lines, _) = lines(1);
        for bond in 1..=3 {
            assert!(lines.has_room(ChannelId(0), 1000));
            lines.push(ChannelId(0), packet(bond, 0));
        }
        assert!(!lines.has_room(ChannelId(0), 1) && !lines.has_room(ChannelId(1), 0));
        assert_eq!(lines.queued(ChannelId(0)), (3, Bytes::new(3000)));
        let left = lines.replace(ChannelId(0), ChannelQueue::fifo(PolicyConfig::DropTail, 1)).unwrap();
        assert_eq!((left.len(), lines.memory(), lines.is_empty()), (3, 0, true));
    }
}
