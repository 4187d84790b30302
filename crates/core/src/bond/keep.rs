//! Packets that were sent and are kept until the peer told of them, so that what is lost can be sent again.
//!
//! What it is: every packet that leaves is kept with its numbers in the bond and in its flow bucket. It goes when the peer told that
//! it arrived ([`Flight`](crate::path::flight)), when it is given up because it is too old, or when memory is needed. What is lost
//! waits here to be sent again, as often as it is lost: the first lost first of what matches no traffic class, and of each class, because a
//! class that is confined to a slow channel must keep no other waiting. The floor is the lowest number that is still kept:
//! nothing below it is ever sent again, which is what the peer may be told (a heartbeat's high water).
//!
//! Source: a sender's scoreboard as RFC 9000 section 13.3 has it (new frames carry what lost ones did; a frame itself is never
//! repeated). Ours is that any path may carry it again.
//!
//! | symbol | field |
//! |---|---|
//! | class of a packet, by which it has a deadline | `Kept::class`; each class is a list in the order of sending |
//! | lost and to be sent again | `Kept::lost`, and a place in its lane of `again` |
//! | floor | the lower of the two lists' first numbers |
//!
//! Cost: O(1) a packet, no allocation once it has grown. Memory: `limit` bytes over packets and their places; the oldest packet goes
//! when more is needed. Invariants: a packet is sent again only where its last frame is lost, so never twice for one loss; what was
//! given up or has arrived is never sent; whatever is said of a frame that is not the packet's last one, or of a place that has been
//! used again since, changes nothing but that the packet has arrived.

use super::class::SPREAD;
use super::event::Stats;
use super::number::Numbers;
use super::queue::Queued;
use crate::flow::accounts::AccountId;
use crate::packet::Packet;
use crate::path::flight::{Note, Settled};
use crate::units::{ChannelId, Span, Time};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// No place.
const NIL: u32 = u32::MAX;
/// What the place of a kept packet is taken to cost: the vector may have doubled just now, hence twice its size.
const PLACE_COST: usize = 192;
/// Classes of packets: DSCP EF, and all else.
pub(super) const CLASSES: usize = 2;

/// The class of a packet with this type of service: expedited forwarding (RFC 3246) has its own.
#[inline]
pub(super) fn class_of(tos: u8) -> usize {
    usize::from(tos >> 2 == 46)
}

/// What a packet has besides its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct About {
    pub(super) bucket: u16,
    pub(super) numbers: Numbers,
    pub(super) tos: u8,
    pub(super) account: AccountId,
}

impl About {
    /// What `queued` has, and its numbers.
    #[inline]
    pub(super) fn of<P, N>(queued: &Queued<P, N>, numbers: Numbers) -> About {
        About { bucket: queued.bucket, numbers, tos: queued.tos, account: queued.account }
    }
}

#[derive(Debug)]
struct Kept<P> {
    /// Gone while the driver seals it.
    packet: Option<P>,
    about: About,
    /// When it went first.
    since: Time,
    /// The frame that it went in last.
    number: u64,
    channel: ChannelId,
    generation: u32,
    /// Neighbours in its class; `newer` also links free places.
    older: u32,
    newer: u32,
    used: bool,
    lost: bool,
}

#[derive(Clone, Copy, Debug)]
struct List {
    oldest: u32,
    newest: u32,
}

/// A packet that is the first of its lane to be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lost {
    /// When it went first.
    pub(super) since: Time,
    pub(super) lane: usize,
    /// The channel that lost it.
    pub(super) by: ChannelId,
    pub(super) bucket: u16,
}

/// The packets that are kept.
#[derive(Debug)]
pub(super) struct Keeper<P> {
    limit: usize,
    used: usize,
    places: Vec<Kept<P>>,
    free: u32,
    lists: [List; CLASSES],
    /// To be sent again, what was settled since among it: of what matches no traffic class, then of each.
    again: Vec<VecDeque<Note>>,
    /// How many are in all lanes of `again`.
    waiting: usize,
    /// How many flow buckets what matches no traffic class has.
    buckets: usize,
    /// Whose packet the driver has, to be given back.
    lent: Option<Note>,
}

impl<P: Packet> Keeper<P> {
    /// Nothing is kept; at most `limit` bytes may be. What matches no traffic class has so many flow `buckets`, and there are so many
    /// traffic `classes`.
    pub(super) fn new(limit: usize, buckets: usize, classes: usize) -> Keeper<P> {
        let list = List { oldest: NIL, newest: NIL };
        Keeper {
            limit,
            used: 0,
            places: Vec::new(),
            free: NIL,
            lists: [list; CLASSES],
            again: (0..=classes).map(|_| VecDeque::new()).collect(),
            waiting: 0,
            buckets,
            lent: None,
        }
    }

    /// At most `limit` bytes may be kept, from the next packet on.
    pub(super) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Memory that it takes.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// A packet leaves for the first time; its bytes are to come by [`Keeper::give_back`].
    #[inline]
    pub(super) fn keep(&mut self, now: Time, about: About) -> Note {
        const { assert!(2 * size_of::<Kept<P>>() <= PLACE_COST, "the packet type is too large: box it") };
        let slot = if self.free == NIL {
            self.places.push(Kept {
                packet: None,
                about,
                since: now,
                number: 0,
                channel: ChannelId(0),
                generation: 0,
                older: NIL,
                newer: NIL,
                used: false,
                lost: false,
            });
            self.places.len() as u32 - 1
        } else {
            let slot = self.free;
            self.free = self.places[slot as usize].newer;
            slot
        };
        let list = &mut self.lists[class_of(about.tos)];
        let older = core::mem::replace(&mut list.newest, slot);
        match self.places.get_mut(older as usize) {
            Some(kept) => kept.newer = slot,
            None => list.oldest = slot,
        }
        let kept = &mut self.places[slot as usize];
        (kept.about, kept.since, kept.older, kept.newer, kept.used) = (about, now, older, NIL, true);
        self.used += PLACE_COST;
        let note = Note { slot, generation: kept.generation };
        self.lent = Some(note);
        note
    }

    /// The packet of `note` went in the frame `number` of `channel`.
    #[inline]
    pub(super) fn sent(&mut self, note: Note, channel: ChannelId, number: u64) {
        if let Some(kept) = self.find(note) {
            (kept.channel, kept.number, kept.lost) = (channel, number, false);
        }
    }

    /// Whether the driver has a packet that is to be given back.
    #[inline]
    pub(super) fn wants_back(&self) -> bool {
        self.lent.is_some()
    }

    /// The packet that went out last, sealed by now. What there is no memory for goes, the oldest first.
    #[inline]
    pub(super) fn give_back(&mut self, packet: P, stats: &mut Stats) {
        let Some(note) = self.lent.take() else { return };
        let cost = packet.footprint();
        while self.used + cost > self.limit && self.give_up_oldest(stats) {}
        if let Some(kept) = self.find(note) {
            kept.packet = Some(packet);
            self.used += cost;
        }
    }

    /// The peer told what became of a frame.
    #[inline]
    pub(super) fn settle(&mut self, channel: ChannelId, settled: Settled, stats: &mut Stats) {
        let Some(kept) = self.find(settled.note) else { return };
        if settled.delivered {
            self.remove(settled.note.slot);
        } else if !kept.lost && (kept.channel, kept.number) == (channel, settled.number) {
            self.lose(settled.note, stats);
        }
    }

    /// Of the packet whose last frame was lost by these news: what it is, if it is kept and does not wait to be sent again.
    pub(super) fn lost_by(&self, channel: ChannelId, settled: Settled) -> Option<About> {
        let kept = self.places.get(settled.note.slot as usize)?;
        let last = kept.used && kept.generation == settled.note.generation && !kept.lost && !settled.delivered;
        (last && (kept.channel, kept.number) == (channel, settled.number)).then_some(kept.about)
    }

    /// The packet of `note` has arrived, whatever becomes of its frames.
    pub(super) fn arrived(&mut self, note: Note) {
        if self.find(note).is_some() {
            self.remove(note.slot);
        }
    }

    /// The frame that `note` went in last is taken for lost, whatever becomes of it.
    pub(super) fn lose(&mut self, note: Note, stats: &mut Stats) {
        let Some(kept) = self.find(note).filter(|kept| !kept.lost) else { return };
        kept.lost = true;
        if kept.packet.is_some() {
            let bucket = kept.about.bucket;
            let lane = self.lane(bucket);
            self.again[lane].push_back(note);
            self.waiting += 1;
        } else {
            // The driver kept it.
            self.remove(note.slot);
            stats.given_up += 1;
        }
    }

    /// Where packets of `bucket` wait to be sent again.
    fn lane(&self, bucket: u16) -> usize {
        let class = usize::from(bucket).checked_sub(self.buckets).map_or(0, |place| 1 + place / SPREAD);
        class.min(self.again.len() - 1)
    }

    /// The first packet of each lane that is to be sent again, in the order of the lanes.
    pub(super) fn next_again(&self) -> impl Iterator<Item = Lost> {
        self.again.iter().enumerate().filter_map(|(lane, notes)| {
            let note = notes.front()?;
            let kept = self.places.get(note.slot as usize)?;
            let lost = Lost { since: kept.since, lane, by: kept.channel, bucket: kept.about.bucket };
            (kept.lost && kept.generation == note.generation).then_some(lost)
        })
    }

    /// The packet that the driver has, which went last.
    pub(super) fn lent(&self) -> Option<Note> {
        self.lent
    }

    /// Passes over what was settled before it could be sent again.
    #[inline]
    pub(super) fn forget_settled(&mut self) {
        if self.waiting == 0 {
            return;
        }
        for notes in &mut self.again {
            while let Some(note) = notes.front()
                && let Some(kept) = self.places.get(note.slot as usize)
                && !(kept.lost && kept.generation == note.generation)
            {
                notes.pop_front();
                self.waiting -= 1;
            }
        }
    }

    /// Whether anything may have to be sent again.
    #[inline]
    pub(super) fn has_again(&self) -> bool {
        self.waiting != 0
    }

    /// The packet of `note`, if it is under way and not taken for lost.
    pub(super) fn under_way(&self, note: Note) -> Option<(About, &P)> {
        let kept = self.places.get(note.slot as usize)?;
        let under_way = kept.used && kept.generation == note.generation && !kept.lost;
        Some((kept.about, kept.packet.as_ref().filter(|_| under_way)?))
    }

    /// Takes what [`Keeper::next_again`] told of `lane`. It is lent, and to be [sent](Keeper::sent).
    pub(super) fn take_again(&mut self, lane: usize) -> Option<(Note, About, P)> {
        let note = self.again.get_mut(lane)?.pop_front()?;
        self.waiting -= 1;
        let kept = self.find(note)?;
        let (about, packet) = (kept.about, kept.packet.take()?);
        kept.lost = false;
        self.used -= packet.footprint();
        self.lent = Some(note);
        Some((note, about, packet))
    }

    /// Gives up what went longer ago than its class allows. Returns whether there was any.
    pub(super) fn expire(&mut self, now: Time, within: [Span; CLASSES], stats: &mut Stats) -> bool {
        let before = stats.given_up;
        for (class, within) in within.into_iter().enumerate() {
            while let Some(kept) = self.places.get(self.lists[class].oldest as usize)
                && kept.since + within <= now
            {
                self.remove(self.lists[class].oldest);
                stats.given_up += 1;
            }
        }
        stats.given_up != before
    }

    /// When [`Keeper::expire`] has something to do.
    #[inline]
    pub(super) fn timeout(&self, within: [Span; CLASSES]) -> Option<Time> {
        let first = |(list, within): (&List, Span)| Some(self.places.get(list.oldest as usize)?.since + within);
        self.lists.iter().zip(within).filter_map(first).min()
    }

    /// The lowest number that is kept.
    pub(super) fn floor(&self) -> Option<u32> {
        let first = |list: &List| Some(self.places.get(list.oldest as usize)?.about.numbers.bond);
        let [one, other] = self.lists.each_ref().map(first);
        match (one, other) {
            (Some(one), Some(other)) if (one.wrapping_sub(other) as i32) < 0 => Some(one),
            (one, None) => one,
            (_, other) => other,
        }
    }

    /// Gives all up: the peer is another one.
    pub(super) fn give_up_all(&mut self, stats: &mut Stats) {
        while self.give_up_oldest(stats) {}
    }

    fn give_up_oldest(&mut self, stats: &mut Stats) -> bool {
        let since = |list: &List| self.places.get(list.oldest as usize).map(|kept| (kept.since, list.oldest));
        let Some((_, slot)) = self.lists.iter().filter_map(since).min() else { return false };
        self.remove(slot);
        stats.given_up += 1;
        true
    }

    #[inline]
    fn find(&mut self, note: Note) -> Option<&mut Kept<P>> {
        self.places.get_mut(note.slot as usize).filter(|kept| kept.used && kept.generation == note.generation)
    }

    fn remove(&mut self, slot: u32) {
        let kept = &mut self.places[slot as usize];
        let (older, newer, class) = (kept.older, kept.newer, class_of(kept.about.tos));
        self.used -= PLACE_COST + kept.packet.take().map_or(0, |packet| packet.footprint());
        kept.generation = kept.generation.wrapping_add(1);
        (kept.used, kept.lost, kept.newer) = (false, false, self.free);
        self.free = slot;
        let list = &mut self.lists[class];
        match self.places.get_mut(older as usize) {
            Some(kept) => kept.newer = newer,
            None => list.oldest = newer,
        }
        match self.places.get_mut(newer as usize) {
            Some(kept) => kept.older = older,
            None => list.newest = older,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: fn(u64) -> Time = Time::from_millis;
    const WITHIN: [Span; CLASSES] = [Span::from_millis(200), Span::from_millis(50)];
    const EF: u8 = 46 << 2;

    fn about(bond: u32, tos: u8) -> About {
        About {
            bucket: 0,
            numbers: Numbers { sequence: bond, bond, ..Numbers::default() },
            tos,
            account: AccountId::default(),
        }
    }

    /// Sends packet `bond` as the frame `number` of channel 0.
    fn send(keeper: &mut Keeper<Vec<u8>>, at: u64, bond: u32, tos: u8, stats: &mut Stats) -> Note {
        let note = keeper.keep(MS(at), about(bond, tos));
        keeper.sent(note, ChannelId(0), u64::from(bond));
        keeper.give_back(Vec::from([bond as u8; 100]), stats);
        note
    }

    fn settled(note: Note, number: u64, delivered: bool) -> Settled {
        Settled { note, number, delivered }
    }

    #[test]
    fn what_is_lost_goes_again_with_its_numbers_until_it_arrives() {
        let (mut keeper, mut stats) = (Keeper::new(1 << 20, 1, 0), Stats::default());
        let note = send(&mut keeper, 0, 7, 0, &mut stats);
        for number in 7..10 {
            keeper.settle(ChannelId(0), settled(note, number, false), &mut stats);
            let lost = Lost { since: MS(0), lane: 0, by: ChannelId(0), bucket: 0 };
            assert_eq!(keeper.next_again().collect::<Vec<_>>(), [lost]);
            let (again, about, packet) = keeper.take_again(0).unwrap();
            assert_eq!((again, about.numbers.bond, packet[0], keeper.has_again()), (note, 7, 7, false));
            keeper.sent(note, ChannelId(0), number + 1);
            keeper.give_back(packet, &mut stats);
        }
        assert_eq!(keeper.floor(), Some(7));
        keeper.settle(ChannelId(0), settled(note, 3, true), &mut stats);
        assert_eq!((keeper.floor(), keeper.used(), stats.given_up), (None, 0, 0), "any of its frames may have arrived");
    }

    #[test]
    fn a_loss_that_was_mended_is_not_mended_again() {
        let (mut keeper, mut stats) = (Keeper::new(1 << 20, 1, 0), Stats::default());
        let note = send(&mut keeper, 0, 7, 0, &mut stats);
        keeper.settle(ChannelId(0), settled(note, 7, false), &mut stats);
        let (_, _, packet) = keeper.take_again(0).unwrap();
        keeper.sent(note, ChannelId(1), 1);
        keeper.give_back(packet, &mut stats);
        for told in [settled(note, 7, false), settled(note, 1, false), settled(Note { generation: 9, ..note }, 1, true)]
        {
            keeper.settle(ChannelId(0), told, &mut stats);
        }
        assert!(!keeper.has_again() && keeper.floor() == Some(7));
        // The place is used anew, and what comes late is of the one before.
        keeper.settle(ChannelId(1), settled(note, 1, true), &mut stats);
        let next = send(&mut keeper, 1, 8, 0, &mut stats);
        assert!(next.slot == note.slot && next != note);
        keeper.settle(ChannelId(0), settled(note, 8, true), &mut stats);
        assert_eq!(keeper.floor(), Some(8));
    }

    #[test]
    fn what_is_lost_of_a_traffic_class_waits_behind_nothing_of_another() {
        let (mut keeper, mut stats) = (Keeper::new(1 << 20, 10, 2), Stats::default());
        // Two of the first class, one of the second, and one that matches none.
        let buckets = [10, 10 + SPREAD as u16 - 1, 10 + SPREAD as u16, 9];
        for (bond, bucket) in (1..).zip(buckets) {
            let note = keeper.keep(MS(u64::from(bond)), About { bucket, ..about(bond, 0) });
            keeper.sent(note, ChannelId(0), u64::from(bond));
            keeper.give_back(Vec::from([bond as u8; 100]), &mut stats);
            keeper.settle(ChannelId(0), settled(note, u64::from(bond), false), &mut stats);
        }
        let lanes =
            |keeper: &Keeper<Vec<u8>>| keeper.next_again().map(|lost| (lost.lane, lost.bucket)).collect::<Vec<_>>();
        assert_eq!(lanes(&keeper), [(0, 9), (1, 10), (2, 10 + SPREAD as u16)]);
        assert_eq!(keeper.take_again(2).map(|(_, about, _)| about.numbers.bond), Some(3));
        assert_eq!(lanes(&keeper), [(0, 9), (1, 10)]);
        // What becomes too old meanwhile does not go again.
        assert!(keeper.expire(MS(201), WITHIN, &mut stats) && stats.given_up == 1);
        keeper.forget_settled();
        assert_eq!(lanes(&keeper), [(0, 9), (1, 10 + SPREAD as u16 - 1)]);
        assert!(keeper.take_again(1).is_some() && keeper.take_again(0).is_some() && !keeper.has_again());
    }

    #[test]
    fn each_class_is_given_up_at_its_own_deadline() {
        let (mut keeper, mut stats) = (Keeper::new(1 << 20, 1, 0), Stats::default());
        for (bond, tos) in [(1, 0), (2, EF), (3, EF | 1), (4, 0)] {
            send(&mut keeper, u64::from(bond), bond, tos, &mut stats);
        }
        assert_eq!(keeper.timeout(WITHIN), Some(MS(52)));
        assert!(!keeper.expire(MS(51), WITHIN, &mut stats));
        assert!(keeper.expire(MS(53), WITHIN, &mut stats));
        assert_eq!((stats.given_up, keeper.floor(), keeper.timeout(WITHIN)), (2, Some(1), Some(MS(201))));
        assert!(keeper.expire(MS(500), WITHIN, &mut stats));
        assert_eq!((stats.given_up, keeper.floor(), keeper.used(), keeper.timeout(WITHIN)), (4, None, 0, None));
    }

    #[test]
    fn a_peer_that_never_tells_costs_bounded_memory_and_each_packet_is_counted() {
        let (mut keeper, mut stats) = (Keeper::new(1 << 17, 1, 0), Stats::default());
        for bond in 1..=100_000u32 {
            send(&mut keeper, 0, bond, 0, &mut stats);
            assert!(keeper.used() <= 1 << 17);
        }
        let kept = keeper.used() / (PLACE_COST + 100);
        assert_eq!(stats.given_up + kept as u64, 100_000);
        assert!(keeper.places.len() < 1000, "{}", keeper.places.len());
        keeper.give_up_all(&mut stats);
        assert_eq!((stats.given_up, keeper.used()), (100_000, 0));
    }

    #[test]
    fn a_packet_that_the_driver_does_not_give_back_is_given_up_when_it_is_lost() {
        let (mut keeper, mut stats) = (Keeper::<Vec<u8>>::new(1 << 20, 1, 0), Stats::default());
        let note = keeper.keep(MS(0), about(1, 0));
        keeper.sent(note, ChannelId(0), 1);
        keeper.settle(ChannelId(0), settled(note, 1, false), &mut stats);
        assert_eq!((keeper.has_again(), keeper.floor(), stats.given_up), (false, None, 1));
    }

    proptest! {
        /// Whatever is told of any frame: each packet ends once, delivered or given up, and what goes again was lost.
        #[test]
        fn hostile_news_keeps_the_books(
            start: u32,
            steps in prop::collection::vec((0u8..8, 0u32..40, 0u64..40, 0u8..3, any::<bool>()), 1..400),
        ) {
            let (mut keeper, mut stats) = (Keeper::new(1 << 14, 1, 0), Stats::default());
            let (mut notes, mut sent, mut delivered, mut now) = (Vec::new(), 0u64, 0u64, 0);
            for (what, which, number, channel, flag) in steps {
                now += 3;
                let kept = |keeper: &Keeper<Vec<u8>>| keeper.places.iter().filter(|kept| kept.used).count() as u64;
                match what {
                    0..=2 => {
                        let bond = start.wrapping_add(sent as u32);
                        sent += 1;
                        notes.push(send(&mut keeper, now, bond, if flag { EF } else { 0 }, &mut stats));
                    }
                    3 | 4 => {
                        let note = notes.get(which as usize).copied().unwrap_or(Note { slot: which, generation: which });
                        let told = settled(note, u64::from(start.wrapping_add(number as u32)), flag);
                        let before = (kept(&keeper), stats.given_up);
                        keeper.settle(ChannelId(channel), told, &mut stats);
                        delivered += before.0 - kept(&keeper) - (stats.given_up - before.1);
                    }
                    5 | 6 => {
                        keeper.forget_settled();
                        if let Some((note, _, packet)) = keeper.take_again(0) {
                            keeper.sent(note, ChannelId(channel), number);
                            keeper.give_back(packet, &mut stats);
                        }
                    }
                    _ => drop(keeper.expire(MS(now), WITHIN, &mut stats)),
                }
                prop_assert_eq!(kept(&keeper) + delivered + stats.given_up, sent);
                let bytes: usize = keeper.places.iter().filter(|kept| kept.used).map(|kept| {
                    PLACE_COST + kept.packet.as_ref().map_or(0, Vec::len)
                }).sum();
                prop_assert!(keeper.used() == bytes && bytes <= 1 << 14);
                let least = keeper.places.iter().filter(|kept| kept.used)
                    .map(|kept| kept.about.numbers.bond.wrapping_sub(start)).min();
                prop_assert_eq!(keeper.floor().map(|floor| floor.wrapping_sub(start)), least);
            }
        }
    }
}
