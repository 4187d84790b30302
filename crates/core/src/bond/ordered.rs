//! Order within each flow.
//!
//! What it is: every packet carries the number of its flow bucket, its sequence number there, and its number in the
//! bond. A packet that is next in its bucket is delivered at once; one behind a gap waits. The gap is given up when
//! every channel that carries data has passed it: a channel has passed when it brought a packet, or a marker's high
//! water, numbered no lower than the packet behind the gap. At latest it is given up when that packet has waited for
//! the deadline, or when memory is needed. What arrives behind a given-up gap is late, and dropped, so no flow is ever
//! delivered out of order; and a gap holds up its own bucket only. Packets of a sender that sends again what is lost raise no high
//! water: markers alone do, which then say below what number nothing comes again. From such a sender a gap waits for its deadline
//! also while no channel carries data, because what is missing comes again when one does.
//!
//! Source: our own; the rule "missing below the least sequence number over all links is lost" is RFC 1990 section 4.1.
//!
//! | symbol | field |
//! |---|---|
//! | next expected of a bucket | `Bucket::next` |
//! | first packet behind the gap | `Bucket::first`, its bond number is the bucket's key in `waiting` |
//! | H_c, channel c's high water | `high[c]` |
//! | min H_c over the channels that carry data | `passed` |
//!
//! Frames say the low 24 bits of numbers ([`short`]), heartbeats the whole high water. A number of the bond is the nearest to the
//! highest seen; a high water that is further from it than half a turn (2^23) takes its place. So a misreading, which takes more than
//! 2^23 packets lost in a row or one held back for as many, ends with the next heartbeat. A number of a bucket is the nearest to the next
//! expected, but where the packet is the newest of the bond: then it is the newest of its bucket too, and its number lies ahead, however many were lost.
//!
//! Cost: in order O(1), no allocation. Behind a gap O(1) for its place, O(log buckets) when the first packet behind the
//! gap changes, O(channels) when the slowest channel moves. Memory: `limit` bytes in all, over packets, slots and
//! places; a bucket's places reach at most [`Ordered::AHEAD`] numbers ahead.
//!
//! Invariants: delivered numbers of a bucket rise strictly within an epoch; a held packet has a place in its
//! bucket, strictly ahead of `next`; `used` is at most `limit` between calls.

use super::event::{Stats, Why};
use super::slots::{NIL, Slots};
use super::waiting::Waiting;
use crate::packet::Packet;
use crate::units::{ChannelId, Span, Time};
use crate::wire::short;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::mem::size_of;

/// What the slot of a held packet is taken to cost: the vector of slots may have doubled just now, hence twice its
/// size. The same for every type of packet, so that a recording replays.
const SLOT_COST: usize = 192;
/// How far back the first packet of an unknown bucket leaves room for packets that it overtook.
const LOOK_BACK: u32 = 256;
/// What a high water differs by from the highest number seen where that was misread.
const HALF: u64 = 1 << 23;

#[derive(Debug)]
struct Bucket {
    /// The number that is delivered next.
    next: u32,
    /// The lowest number held; meaningless while `count` is 0.
    first: u32,
    /// How many are held.
    count: u32,
    /// False until a packet shows where a peer that ran before us is.
    known: bool,
    /// Slots of held packets.
    places: Slots,
}

#[derive(Debug)]
struct Held<P> {
    packet: Option<P>,
    bond: u64,
    arrival: Time,
    cost: usize,
    bucket: u32,
    number: u32,
    /// Neighbours in order of arrival; `newer` also links free slots.
    older: u32,
    newer: u32,
}

/// The receiver's state.
#[derive(Debug)]
pub(super) struct Ordered<P> {
    deadline: Span,
    limit: usize,
    used: usize,
    /// Of that, places of buckets that hold nothing.
    idle: usize,
    buckets: Vec<Bucket>,
    /// What `known` is in a bucket that comes into being.
    from_start: bool,
    slots: Vec<Held<P>>,
    free: u32,
    oldest: u32,
    newest: u32,
    waiting: Waiting,
    high: [u64; ChannelId::LIMIT],
    wait_for: u64,
    passed: u64,
    /// The sender sends again what is lost.
    resends: bool,
    /// The highest bond number seen, unwrapped to 64 bits; 0 before the first.
    top: u64,
    out: VecDeque<P>,
}

impl<P: Packet> Ordered<P> {
    /// How many numbers ahead of the next one a bucket can hold.
    pub(super) const AHEAD: u32 = 1 << 16;

    /// The state before the first packet. `limit` bounds the memory, `deadline` the wait. There are `buckets` buckets
    /// to begin with, and more as the peer names them.
    pub(super) fn new(buckets: usize, limit: usize, deadline: Span) -> Ordered<P> {
        let mut ordered = Ordered {
            deadline,
            limit,
            used: 0,
            idle: 0,
            buckets: Vec::new(),
            from_start: false,
            slots: Vec::new(),
            free: NIL,
            oldest: NIL,
            newest: NIL,
            waiting: Waiting::new(),
            high: [0; ChannelId::LIMIT],
            wait_for: 0,
            passed: u64::MAX,
            resends: false,
            top: 0,
            out: VecDeque::with_capacity(64),
        };
        ordered.extend(buckets);
        ordered
    }

    fn extend(&mut self, buckets: usize) {
        let known = self.from_start;
        self.buckets.resize_with(buckets, || Bucket { next: 0, first: 0, count: 0, known, places: Slots::EMPTY });
        self.waiting.extend(buckets);
    }

    /// A packet that needs no order.
    #[inline]
    pub(super) fn push(&mut self, packet: P) {
        self.out.push_back(packet);
    }

    /// What waits is given up after `deadline` from now on.
    pub(super) fn set_deadline(&mut self, deadline: Span) {
        self.deadline = deadline;
    }

    /// Bounds the memory from the next packet on.
    pub(super) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Memory in use, in bytes.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// The next packet for the host.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<P> {
        self.out.pop_front()
    }

    /// When the oldest held packet has waited long enough.
    pub(super) fn timeout(&self) -> Option<Time> {
        self.slots.get(self.oldest as usize).map(|held| held.arrival + self.deadline)
    }

    /// Forgets all sequence numbers: the peer started anew. What is held is delivered first. `from_start`: the
    /// peer's first packets are still to come; otherwise it may be in the middle.
    pub(super) fn reset(&mut self, from_start: bool, stats: &mut Stats) {
        while let Some(held) = self.slots.get(self.oldest as usize) {
            let bucket = held.bucket;
            let last = self.last_held(bucket);
            self.give_up(bucket, last.wrapping_add(1), Why::Passed, stats);
        }
        self.from_start = from_start;
        for bucket in &mut self.buckets {
            bucket.next = 0;
            bucket.known = from_start;
        }
        self.high = [0; ChannelId::LIMIT];
        self.top = 0;
        self.resends = false;
        self.refresh_passed();
    }

    /// Sets the channels that carry data: the ones that a gap waits for.
    pub(super) fn wait_for(&mut self, channels: u64, stats: &mut Stats) {
        if channels != self.wait_for {
            self.wait_for = channels;
            self.refresh_passed();
            self.release(stats);
        }
    }

    /// A packet arrived on `channel`: number `number` of `bucket`, `bond` of the bond, of both the low 24 bits.
    #[inline]
    #[allow(clippy::too_many_arguments)]
    pub(super) fn handle(
        &mut self,
        now: Time,
        channel: ChannelId,
        bucket: u16,
        number: u32,
        bond: u32,
        packet: P,
        stats: &mut Stats,
    ) {
        let bond = self.read(bond);
        self.place(now, bucket, number, bond, packet, stats);
        self.on_high(channel, bond.0, stats);
    }

    /// The same of a packet that comes again where it is lost: that it came shows nothing of those before it.
    pub(super) fn handle_kept(&mut self, now: Time, bucket: u16, number: u32, bond: u32, packet: P, stats: &mut Stats) {
        let bond = self.read(bond);
        if !self.resends {
            self.resends = true;
            self.refresh_passed();
        }
        self.place(now, bucket, number, bond, packet, stats);
    }

    #[inline(always)]
    fn place(&mut self, now: Time, bucket: u16, number: u32, bond: (u64, bool), packet: P, stats: &mut Stats) {
        let (bond, newest) = bond;
        if usize::from(bucket) >= self.buckets.len() {
            self.extend((usize::from(bucket) + 1).next_power_of_two());
        }
        let b = &mut self.buckets[usize::from(bucket)];
        if short::short(b.next ^ number) == 0 && b.count == 0 && b.known {
            b.next = b.next.wrapping_add(1);
            self.out.push_back(packet);
        } else {
            let number = if newest { short::from_on(number, b.next) } else { short::nearest(number, b.next) };
            self.handle_other(now, u32::from(bucket), number, bond, packet, stats);
        }
    }

    /// A marker arrived on `channel`: all that uses it up to number `high` of the bond was sent before.
    pub(super) fn on_marker(&mut self, channel: ChannelId, high: u32, stats: &mut Stats) {
        let high = self.unwrap(high);
        if high.abs_diff(self.top) >= HALF {
            self.top = high;
        }
        self.on_high(channel, high, stats);
    }

    /// Gives up the gaps in front of packets that waited for the deadline.
    pub(super) fn handle_timeout(&mut self, now: Time, stats: &mut Stats) {
        while let Some(held) = self.slots.get(self.oldest as usize) {
            if held.arrival + self.deadline > now {
                break;
            }
            let (bucket, number) = (held.bucket, held.number);
            self.give_up(bucket, number, Why::Deadline, stats);
        }
    }

    /// The 64-bit number of which the low 24 bits are `bond`, next to the highest seen, and whether it is now the highest.
    #[inline]
    fn read(&mut self, bond: u32) -> (u64, bool) {
        let before = self.top;
        let full = self.unwrap(if before == 0 { short::short(bond) } else { short::nearest(bond, before as u32) });
        (full, full > before)
    }

    /// The 64-bit number of which the low half is `number`, next to the highest seen.
    #[inline]
    fn unwrap(&mut self, number: u32) -> u64 {
        if self.top == 0 {
            self.top = 1 << 32 | u64::from(number);
            return self.top;
        }
        let ahead = number.wrapping_sub(self.top as u32) as i32;
        let full = self.top.wrapping_add_signed(i64::from(ahead));
        self.top = self.top.max(full);
        full
    }

    #[inline]
    fn on_high(&mut self, channel: ChannelId, bond: u64, stats: &mut Stats) {
        let Some(high) = self.high.get_mut(channel.index()) else { return };
        let old = *high;
        if bond <= old {
            return;
        }
        *high = bond;
        // Nothing waits, or another channel is the slowest: then `passed` stands.
        if self.oldest != NIL && (old <= self.passed || self.passed == u64::MAX) {
            self.refresh_passed();
            self.release(stats);
        }
    }

    fn refresh_passed(&mut self) {
        let mut rest = self.wait_for;
        let mut least = if rest == 0 && self.resends { 0 } else { u64::MAX };
        while rest != 0 {
            least = least.min(self.high[rest.trailing_zeros() as usize]);
            rest &= rest - 1;
        }
        self.passed = least;
    }

    /// Gives up every gap that all channels have passed.
    fn release(&mut self, stats: &mut Stats) {
        while let Some((bond, bucket)) = self.waiting.first() {
            if bond > self.passed {
                break;
            }
            let first = self.buckets[bucket as usize].first;
            self.give_up(bucket, first, Why::Passed, stats);
        }
    }

    #[cold]
    #[inline(never)]
    fn handle_other(&mut self, now: Time, bucket: u32, number: u32, bond: u64, packet: P, stats: &mut Stats) {
        let b = &mut self.buckets[bucket as usize];
        if !b.known {
            b.known = true;
            b.next = number.wrapping_sub(number.min(LOOK_BACK));
        }
        if (number.wrapping_sub(b.next) as i32) < 0 {
            stats.late += 1;
            return;
        }
        if number.wrapping_sub(b.next) >= Self::AHEAD {
            let next = number.wrapping_sub(Self::AHEAD - 1);
            self.give_up(bucket, next, Why::Jump, stats);
        }
        if self.buckets[bucket as usize].next == number {
            self.out.push_back(packet);
            self.buckets[bucket as usize].next = number.wrapping_add(1);
            self.drain(bucket);
            return;
        }
        let b = &self.buckets[bucket as usize];
        if (number.wrapping_sub(b.next) as usize) < b.places.len() && b.places.slot(number).is_some() {
            stats.duplicates += 1;
            return;
        }
        const { assert!(2 * size_of::<Held<P>>() <= SLOT_COST, "the packet type is too large: box it") };
        let cost = packet.footprint() + SLOT_COST;
        self.hold(now, bucket, number, bond, packet, cost, stats);
    }

    #[allow(clippy::too_many_arguments)]
    fn hold(&mut self, now: Time, bucket: u32, number: u32, bond: u64, packet: P, cost: usize, stats: &mut Stats) {
        loop {
            let b = &self.buckets[bucket as usize];
            let ahead = number.wrapping_sub(b.next);
            if ahead as i32 <= 0 || self.limit < cost {
                // Making room gave up the gap in front of this packet, or it alone is beyond the bound.
                if ahead as i32 >= 0 {
                    self.give_up(bucket, number, Why::Memory, stats);
                    self.out.push_back(packet);
                    self.buckets[bucket as usize].next = number.wrapping_add(1);
                    self.drain(bucket);
                } else {
                    stats.late += 1;
                }
                return;
            }
            let wanted = Slots::length_for(ahead);
            let growth = Slots::bytes_of(wanted).saturating_sub(b.places.bytes());
            // While it grows, the old places are still there.
            let passing = if growth > 0 { b.places.bytes() } else { 0 };
            if self.used + cost + growth + passing <= self.limit {
                if growth > 0 {
                    self.grow(bucket, wanted);
                }
                break;
            }
            if !self.release_places(bucket) && !self.give_up_oldest(stats) {
                // Nothing is held: only these places are too many for the bound. Let go of what is in front.
                self.give_up(bucket, number, Why::Memory, stats);
            }
        }
        let slot = self.new_slot(Held {
            packet: Some(packet),
            bond,
            arrival: now,
            cost,
            bucket,
            number,
            older: self.newest,
            newer: NIL,
        });
        match self.slots.get_mut(self.newest as usize) {
            Some(held) => held.newer = slot,
            None => self.oldest = slot,
        }
        self.newest = slot;
        self.used += cost;
        stats.held_packets += 1;
        let b = &mut self.buckets[bucket as usize];
        b.places.put(number, slot);
        if b.count == 0 {
            self.idle -= b.places.bytes();
        }
        let becomes_first = b.count == 0 || (number.wrapping_sub(b.first) as i32) < 0;
        b.count += 1;
        if becomes_first {
            b.first = number;
            self.waiting.set(bucket, bond);
            if self.newest == self.oldest {
                self.refresh_passed();
            }
            self.release(stats);
        }
    }

    fn new_slot(&mut self, held: Held<P>) -> u32 {
        if let Some(slot) = self.slots.get_mut(self.free as usize) {
            let at = self.free;
            self.free = slot.newer;
            *slot = held;
            return at;
        }
        self.slots.push(held);
        self.slots.len() as u32 - 1
    }

    /// Gives `bucket` `length` places, a power of two above the old length.
    fn grow(&mut self, bucket: u32, length: usize) {
        let b = &mut self.buckets[bucket as usize];
        let old = core::mem::replace(&mut b.places, Slots::new(length));
        let growth = b.places.bytes() - old.bytes();
        self.used += growth;
        if b.count == 0 {
            self.idle += growth;
        }
        for slot in old.slots() {
            b.places.put(self.slots[slot as usize].number, slot);
        }
    }

    /// Frees the places of buckets that hold nothing, but for `keep`. Returns whether that gave anything.
    fn release_places(&mut self, keep: u32) -> bool {
        // Worth the walk over all buckets only when it frees a good part of the bound, or of what it passes.
        if self.idle < (self.limit / 8).max(self.buckets.len()) {
            return false;
        }
        let before = self.used;
        for (n, b) in self.buckets.iter_mut().enumerate() {
            if b.count == 0 && n as u32 != keep {
                let bytes = b.places.bytes();
                self.used -= bytes;
                self.idle -= bytes;
                b.places = Slots::EMPTY;
            }
        }
        self.used < before
    }

    fn give_up_oldest(&mut self, stats: &mut Stats) -> bool {
        let Some(held) = self.slots.get(self.oldest as usize) else { return false };
        let (bucket, number) = (held.bucket, held.number);
        self.give_up(bucket, number, Why::Memory, stats);
        true
    }

    /// Moves `bucket` on so that `next` is what it expects, delivering what it holds before that, and what follows.
    fn give_up(&mut self, bucket: u32, next: u32, why: Why, stats: &mut Stats) {
        let b = &self.buckets[bucket as usize];
        let mut missing = next.wrapping_sub(b.next);
        if missing as i32 <= 0 {
            return;
        }
        // What is held lies from `first` on.
        let mut number = b.first;
        while self.buckets[bucket as usize].count > 0 {
            number = self.buckets[bucket as usize].places.next(number).unwrap_or(next);
            if (next.wrapping_sub(number) as i32) <= 0 {
                break;
            }
            missing -= u32::from(self.take(bucket, number));
        }
        stats.on_gap(why, missing);
        self.buckets[bucket as usize].next = next;
        self.drain(bucket);
    }

    /// Delivers what is held from `next` on without a gap, and finds the first packet behind the next gap.
    fn drain(&mut self, bucket: u32) {
        let before = self.buckets[bucket as usize].count;
        while self.buckets[bucket as usize].count > 0 {
            let next = self.buckets[bucket as usize].next;
            if !self.take(bucket, next) {
                break;
            }
            self.buckets[bucket as usize].next = next.wrapping_add(1);
        }
        let b = &mut self.buckets[bucket as usize];
        if b.count == 0 {
            if before > 0 || self.waiting.holds(bucket) {
                self.waiting.remove(bucket);
            }
            return;
        }
        // What was first may have been delivered; what is held lies from there on.
        let from = if (b.first.wrapping_sub(b.next) as i32) < 0 { b.next } else { b.first };
        let Some(first) = b.places.next(from) else { return };
        let Some(slot) = b.places.slot(first) else { return };
        b.first = first;
        self.waiting.set(bucket, self.slots[slot as usize].bond);
    }

    /// Delivers the held packet `number` of `bucket`, if there is one.
    fn take(&mut self, bucket: u32, number: u32) -> bool {
        let b = &mut self.buckets[bucket as usize];
        let Some(slot) = b.places.take(number) else { return false };
        b.count -= 1;
        if b.count == 0 {
            self.idle += b.places.bytes();
        }
        let held = &mut self.slots[slot as usize];
        let (older, newer) = (held.older, held.newer);
        self.used -= held.cost;
        if let Some(packet) = held.packet.take() {
            self.out.push_back(packet);
        }
        held.newer = self.free;
        self.free = slot;
        match self.slots.get_mut(older as usize) {
            Some(held) => held.newer = newer,
            None => self.oldest = newer,
        }
        match self.slots.get_mut(newer as usize) {
            Some(held) => held.older = older,
            None => self.newest = older,
        }
        true
    }

    /// The highest number held in `bucket`, which holds something.
    fn last_held(&self, bucket: u32) -> u32 {
        let b = &self.buckets[bucket as usize];
        let length = b.places.len() as u32;
        let held = |n: &u32| b.places.slot(*n).is_some();
        (0..length).rev().map(|n| b.next.wrapping_add(n)).find(held).unwrap_or(b.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Bytes;

    /// A packet in a slot of a pool, known by its number.
    struct Pooled(u32);

    impl Packet for Pooled {
        fn bytes(&self) -> &[u8] {
            &[]
        }
        fn bytes_mut(&mut self) -> &mut [u8] {
            &mut []
        }
        fn size(&self) -> Bytes {
            Bytes::new(1448)
        }
        fn footprint(&self) -> usize {
            2048
        }
        fn strip(&mut self, _: usize) {}
        fn truncate(&mut self, _: usize) {}
        fn duplicate(&self) -> Option<Pooled> {
            None
        }
        fn from_bytes(_: &[u8]) -> Option<Pooled> {
            None
        }
    }

    fn started(limit: usize) -> (Ordered<Pooled>, Stats) {
        let (mut ordered, mut stats) = (Ordered::new(1024, limit, Span::from_millis(500)), Stats::default());
        ordered.reset(true, &mut stats);
        ordered.wait_for(0b11, &mut stats);
        (ordered, stats)
    }

    #[test]
    fn the_default_bound_holds_a_gigabit_per_second_for_300_ms() {
        // 1448 bytes of payload are 1538 on the wire (Ethernet with preamble and gap); 300 ms of that on channel 0,
        // while channel 1 is 300 ms behind with the flow's first packet.
        let packets = 1_000_000_000 / 8 * 3 / 10 / 1538;
        let limit = super::super::Config::default().hold_bytes;
        let (mut ordered, mut stats) = started(limit);
        for n in 1..packets {
            let now = Time::from_nanos(u64::from(n) * 12_304);
            ordered.handle(now, ChannelId(0), 7, n, n + 1, Pooled(n), &mut stats);
        }
        assert!(ordered.pop().is_none());
        assert!(ordered.used() <= limit && limit < 64_000_000);
        ordered.handle(Time::from_millis(300), ChannelId(1), 7, 0, 1, Pooled(0), &mut stats);
        for n in 0..packets {
            assert_eq!(ordered.pop().map(|p| p.0), Some(n));
        }
        assert_eq!((stats.packets_missing, stats.late, ordered.used()), (0, 0, ordered.idle));
    }

    #[test]
    fn at_the_bound_the_oldest_gap_is_given_up_first() {
        let (mut ordered, mut stats) = started(10 * (2048 + SLOT_COST) + 8 * 64 * 4);
        // Buckets 0 to 3 each wait for their number 0; bucket 0 longest.
        for n in 0..10u32 {
            let bucket = (n % 4) as u16;
            let now = Time::from_millis(n.into());
            ordered.handle(now, ChannelId(0), bucket, 1 + n / 4, n + 5, Pooled(n), &mut stats);
        }
        assert!(ordered.pop().is_none());
        ordered.handle(Time::from_millis(20), ChannelId(0), 5, 1, 30, Pooled(99), &mut stats);
        let out: Vec<u32> = core::iter::from_fn(|| ordered.pop()).map(|p| p.0).collect();
        assert!(out.starts_with(&[0, 4, 8]), "all of bucket 0, in order: {out:?}");
        assert!(!out.contains(&99) && stats.gaps_memory >= 1);
    }

    #[test]
    fn numbers_wrap_without_a_gap_those_of_frames_and_whole_ones() {
        for start in [0x00ff_ffff - 300, u32::MAX - 300] {
            let (mut ordered, mut stats) = started(1 << 20);
            ordered.reset(false, &mut stats);
            ordered.on_marker(ChannelId(0), start - 1, &mut stats);
            for n in 0..600u32 {
                // Pairs change places, so that every second packet waits.
                let n = start.wrapping_add(n ^ 1);
                let channel = ChannelId((n % 2) as u8);
                ordered.handle(Time::ZERO, channel, 0, short::short(n), short::short(n), Pooled(n), &mut stats);
            }
            ordered.on_marker(ChannelId(0), start.wrapping_add(600), &mut stats);
            ordered.on_marker(ChannelId(1), start.wrapping_add(600), &mut stats);
            let out: Vec<u32> = core::iter::from_fn(|| ordered.pop()).map(|p| p.0.wrapping_sub(start)).collect();
            assert_eq!(out, (0..600).collect::<Vec<_>>());
            assert_eq!((stats.late, stats.packets_missing), (0, 255), "what may have gone before the first");
        }
    }

    /// Packets with these numbers, all of bucket 0 and of channel 0; what comes out.
    fn kept(ordered: &mut Ordered<Pooled>, numbers: impl IntoIterator<Item = u32>, stats: &mut Stats) -> Vec<u32> {
        for n in numbers {
            // The bond has more than one bucket: its numbers are ahead.
            let bond = short::short(n.wrapping_mul(2).wrapping_add(1));
            ordered.handle_kept(Time::ZERO, 0, short::short(n), bond, Pooled(n), stats);
        }
        core::iter::from_fn(|| ordered.pop()).map(|p| p.0).collect()
    }

    /// The last of what comes out after ten packets from `first` on and heartbeats behind them.
    fn last_ten(ordered: &mut Ordered<Pooled>, first: u32, stats: &mut Stats) -> Vec<u32> {
        let mut out = kept(ordered, first..first + 10, stats);
        (0..2).for_each(|c| ordered.on_marker(ChannelId(c), 2 * first + 100, stats));
        out.extend(core::iter::from_fn(|| ordered.pop()).map(|p| p.0));
        out.split_off(out.len() - 10)
    }

    #[test]
    fn after_any_number_of_losses_in_a_row_flows_go_on_at_the_next_heartbeat_at_latest() {
        for lost in [1 << 16, 1 << 20, 3_000_000, 4_190_000, 5_000_000, 1 << 23, 12_000_000, 1 << 24, 100_000_000] {
            let (mut ordered, mut stats) = started(1 << 20);
            assert_eq!(kept(&mut ordered, 0..10, &mut stats), (0..10).collect::<Vec<_>>());
            let next = 10 + lost;
            // Two numbers of the bond a packet: without a heartbeat it is read right up to half a turn.
            if 2 * lost + 2 >= 1 << 23 {
                let high = 2 * next - 1;
                (0..2).for_each(|c| ordered.on_marker(ChannelId(c), high, &mut stats));
            }
            let out = last_ten(&mut ordered, next, &mut stats);
            assert_eq!((out, stats.late), ((next..next + 10).collect(), 0), "{lost} lost");
        }
    }

    #[test]
    fn a_packet_that_comes_late_by_less_than_half_a_turn_is_late_and_one_held_back_for_longer_ends_with_a_heartbeat() {
        let (mut ordered, mut stats) = started(1 << 20);
        kept(&mut ordered, 0..10, &mut stats);
        // The bond has gone on with another bucket: numbers up to 8,000,000.
        (0..2).for_each(|c| ordered.on_marker(ChannelId(c), 8_000_000, &mut stats));
        assert_eq!((kept(&mut ordered, [5], &mut stats), stats.late), (Vec::new(), 1));
        (0..2).for_each(|c| ordered.on_marker(ChannelId(c), 8_990_000, &mut stats));
        // Held back by somebody for 9,000,000 packets: it reads as the newest of all, and what comes then is read right nevertheless.
        kept(&mut ordered, [6], &mut stats);
        assert!(ordered.top > 1 << 32 | 16_000_000);
        assert_eq!(last_ten(&mut ordered, 4_500_000, &mut stats), (4_500_000..4_500_010).collect::<Vec<_>>());
        // After a second one it is not: until a heartbeat.
        kept(&mut ordered, [1_000_000], &mut stats);
        kept(&mut ordered, [4_600_000], &mut stats);
        assert!(ordered.top > 1 << 32 | 25_000_000);
        (0..2).for_each(|c| ordered.on_marker(ChannelId(c), 9_300_000, &mut stats));
        assert_eq!(ordered.top, 1 << 32 | 9_300_000);
        assert_eq!(last_ten(&mut ordered, 4_700_000, &mut stats), (4_700_000..4_700_010).collect::<Vec<_>>());
    }
}
