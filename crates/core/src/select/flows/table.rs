//! The flow table: what each flow did last, for a bounded number of flows.
//!
//! What it is: a hash table of sets of eight, each set its own small segmented LRU. An entry is on probation until its
//! flow's second packet, then protected; at most six of a set are protected, and the one of them that was quiet longest
//! goes back on probation for another. A new flow takes an empty or expired place, else that of the flow on probation
//! that was quiet longest. So flows of one packet push out each other and never a flow that is at work, and a flow that is
//! at work is pushed out only by six others of its set that have had a packet since its own.
//!
//! Source: ours, for the burst-round-robin paper's section 8 (its table is a list that never forgets); segmented LRU is
//! Karedla, Love and Wherry, "Caching strategies to improve disk system performance", 1994. A flow is known by 32 bits of its
//! hash beyond those that choose the set: two that agree in all of them count as one, which is safe (they share a link)
//! and rare (8 in 2^32 for each new flow).
//!
//! Cost: O(1): one set, two cache lines where entries have no value of their own. Nothing is ever swept, and nothing
//! allocated after construction. A table half full has room for 99 of 100 flows in their sets; take `flows` twice of what is
//! to be remembered. Invariants: never more than six protected of a set; memory is what `flows` says.

use crate::units::{ChannelId, Span, Time};
use alloc::boxed::Box;
use alloc::vec;

/// Entries of a set.
const WAYS: usize = 8;
/// Most of them that are protected.
const PROTECTED: usize = 6;
const NO_LINK: u8 = u8::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
enum State {
    Empty,
    Probation,
    Protected,
}

/// What a flow did last.
#[derive(Clone, Copy, Debug)]
pub struct Entry<V> {
    at: Time,
    tag: u32,
    state: State,
    link: u8,
    /// What else is remembered.
    pub value: V,
}

/// Two cache lines where `V` is nothing.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Set<V>([Entry<V>; WAYS]);

/// What happened in a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Flows that got an entry.
    pub new: u64,
    /// Flows that lost theirs to another before they expired.
    pub evicted: u64,
}

/// The entries of flows, by the flows' hashes.
#[derive(Clone, Debug)]
pub struct Table<V> {
    sets: Box<[Set<V>]>,
    expiry: Span,
    stats: Stats,
}

impl<V: Copy + Default> Entry<V> {
    fn empty() -> Entry<V> {
        Entry { at: Time::ZERO, tag: 0, state: State::Empty, link: NO_LINK, value: V::default() }
    }

    /// The link that its last packet took; `None` in a new entry.
    #[inline]
    pub fn link(&self) -> Option<ChannelId> {
        (self.link != NO_LINK).then_some(ChannelId(self.link))
    }

    /// The instant that was noted with the link; in a new entry when it was made.
    #[inline]
    pub fn at(&self) -> Time {
        self.at
    }

    /// Notes the link that a packet takes, and an instant, from which the flow's age counts: that of the packet or later.
    #[inline]
    pub fn set(&mut self, at: Time, link: ChannelId) {
        (self.at, self.link) = (at, link.0);
    }

    pub(super) fn take_over(&mut self, from: &Entry<V>) {
        (self.at, self.link, self.value) = (from.at, from.link, from.value);
    }

    #[inline]
    fn expired(&self, now: Time, expiry: Span) -> bool {
        now.since(self.at) >= expiry
    }
}

impl<V: Copy + Default> Table<V> {
    /// Room for at most `flows` flows, at least a set; a flow is forgotten `expiry` after its noted instant.
    pub fn new(flows: u32, expiry: Span) -> Table<V> {
        let sets = (flows as usize / WAYS).max(1);
        Table { sets: vec![Set([Entry::empty(); WAYS]); sets].into_boxed_slice(), expiry, stats: Stats::default() }
    }

    #[inline]
    fn set_of(&self, hash: u64) -> usize {
        (((hash >> 32) * self.sets.len() as u64) >> 32) as usize
    }

    /// The entry of the flow with this hash, a new one if it is not known. To be called for each packet: an entry's second
    /// call protects it.
    #[inline]
    pub fn touch(&mut self, now: Time, hash: u64) -> &mut Entry<V> {
        let (index, tag, expiry) = (self.set_of(hash), hash as u32, self.expiry);
        let set = &mut self.sets[index].0;
        let way = match find(set, tag) {
            Some(way) if !set[way].expired(now, expiry) => {
                if set[way].state == State::Probation {
                    protect(set, way);
                }
                return &mut set[way];
            }
            Some(way) => way,
            None => {
                let way = victim(set, now, expiry);
                let entry = &set[way];
                self.stats.evicted += u64::from(entry.state != State::Empty && !entry.expired(now, expiry));
                way
            }
        };
        self.stats.new += 1;
        set[way] = Entry { at: now, tag, state: State::Probation, ..Entry::empty() };
        &mut set[way]
    }

    /// The flow's entry, if it is known and not expired; nothing is renewed.
    pub fn peek(&self, now: Time, hash: u64) -> Option<&Entry<V>> {
        let set = &self.sets[self.set_of(hash)].0;
        find(set, hash as u32).map(|way| &set[way]).filter(|entry| !entry.expired(now, self.expiry))
    }

    /// Most flows that it holds.
    pub fn capacity(&self) -> usize {
        self.sets.len() * WAYS
    }

    /// What happened so far.
    pub fn stats(&self) -> Stats {
        self.stats
    }
}

/// The place of the entry with this tag. All are looked at, without a branch for each: both lines are then fetched at once, and the
/// next packet's as well while this one's are under way.
#[inline]
fn find<V>(set: &[Entry<V>; WAYS], tag: u32) -> Option<usize> {
    let mut found = 0u32;
    for (way, entry) in set.iter().enumerate() {
        found |= u32::from((entry.tag == tag) & (entry.state != State::Empty)) << way;
    }
    (found != 0).then_some(found.trailing_zeros() as usize % WAYS)
}

/// The place for a new flow. One that is not protected exists, so that none that is at work is taken.
fn victim<V: Copy + Default>(set: &[Entry<V>; WAYS], now: Time, expiry: Span) -> usize {
    let rank = |entry: &Entry<V>| match entry.state {
        State::Empty => (State::Empty, Time::ZERO),
        _ if entry.expired(now, expiry) => (State::Empty, entry.at),
        state => (state, entry.at),
    };
    (0..WAYS).min_by_key(|way| rank(&set[*way])).unwrap_or(0)
}

/// Protects `way`, in place of the one that was quiet longest where six are protected.
fn protect<V: Copy + Default>(set: &mut [Entry<V>; WAYS], way: usize) {
    let protected = || (0..WAYS).filter(|way| set[*way].state == State::Protected);
    if protected().count() >= PROTECTED
        && let Some(oldest) = protected().min_by_key(|way| set[*way].at)
    {
        set[oldest].state = State::Probation;
    }
    set[way].state = State::Protected;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    const EXPIRY: Span = Span::from_secs(60);

    #[test]
    fn an_entry_without_a_value_is_sixteen_bytes_and_a_set_two_cache_lines() {
        assert_eq!((size_of::<Entry<()>>(), size_of::<Set<()>>(), align_of::<Set<()>>()), (16, 128, 64));
    }

    #[test]
    fn a_flow_is_forgotten_when_it_expires() {
        let mut table = Table::<u8>::new(64, EXPIRY);
        let entry = table.touch(Time::ZERO, 5);
        entry.set(Time::from_millis(7), ChannelId(3));
        entry.value = 9;
        let last = Time::from_millis(60_006);
        assert_eq!(table.touch(last, 5).link(), Some(ChannelId(3)));
        assert_eq!(table.peek(last, 5).map(|entry| entry.value), Some(9));
        assert!(table.peek(Time::from_millis(60_007), 5).is_none());
        let entry = table.touch(Time::from_millis(60_007), 5);
        assert_eq!((entry.link(), entry.value, entry.at()), (None, 0, Time::from_millis(60_007)));
        assert_eq!(table.stats(), Stats { new: 2, evicted: 0 });
    }

    /// Sends `flood` packets a second of flows that have `packets` packets each, for three seconds, among 1000 flows that had
    /// two packets before it began and have one each `every`; the share of their packets that found their flow's entry gone.
    fn lost_under_flood(flood: u64, packets: u64, every: Span, seed: u64) -> f64 {
        let mut table = Table::<()>::new(65_536, EXPIRY);
        let mut rng = Rng::new(seed);
        let established: Vec<u64> = (0..1000).map(|_| rng.next_u64()).collect();
        for flow in established.iter().chain(&established) {
            table.touch(Time::ZERO, *flow).set(Time::ZERO, ChannelId(1));
        }
        let mut strangers: Vec<u64> = (0..packets).map(|_| rng.next_u64()).collect();
        let (mut sent, mut lost, mut turn) = (0u64, 0u64, 0usize);
        let step = every.as_nanos() / 1000;
        let mut next = 0;
        for n in 0..3 * flood {
            let now = n * 1_000_000_000 / flood;
            while next <= now {
                let at = Time::from_nanos(next);
                let entry = table.touch(at, established[turn % 1000]);
                sent += 1;
                lost += u64::from(entry.link().is_none());
                entry.set(at, ChannelId(1));
                (next, turn) = (next + step, turn + 1);
            }
            // Each stranger sends its packets among those of `packets` others.
            let which = (n % packets) as usize;
            if rng.below(packets) == 0 {
                strangers[which] = rng.next_u64();
            }
            let at = Time::from_nanos(now);
            table.touch(at, strangers[which]).set(at, ChannelId(0));
        }
        assert_eq!(table.capacity(), 65_536);
        let expected = 1000 * 3_000_000_000 / every.as_nanos();
        assert!(sent.abs_diff(expected) <= 1000, "{sent} packets, not {expected}");
        lost as f64 / sent as f64
    }

    #[test]
    fn established_flows_keep_their_place_in_a_flood_of_a_million_new_flows_a_second() {
        // The flood fills the whole table every 65 ms: what is only kept by age would be lost at the second of these.
        for every in [5, 250] {
            assert_eq!(lost_under_flood(1_000_000, 1, Span::from_millis(every), 1), 0.0, "a packet each {every} ms");
        }
    }

    #[test]
    fn a_flood_of_flows_with_three_packets_does_not_displace_what_is_busier() {
        assert_eq!(lost_under_flood(1_000_000, 3, Span::from_millis(25), 2), 0.0);
    }

    #[test]
    fn a_table_half_full_holds_99_of_100_flows() {
        let mut table = Table::<()>::new(1 << 16, EXPIRY);
        let mut rng = Rng::new(3);
        let flows: Vec<u64> = (0..1 << 15).map(|_| rng.next_u64()).collect();
        for flow in &flows {
            table.touch(Time::ZERO, *flow);
        }
        let held = flows.iter().filter(|flow| table.peek(Time::ZERO, **flow).is_some()).count();
        // 32,493 expected: all but what of a Poisson number of mean 4 lies above 8, in each of 8192 sets; standard deviation
        // 23: six deviations either way.
        assert!((32_355..32_631).contains(&held), "{held}");
    }

    /// A set as a list, youngest last, and the rules of the file's head said plainly.
    #[derive(Default)]
    struct Model(Vec<(u64, u64, bool)>);

    impl Model {
        fn touch(&mut self, now: u64, flow: u64, expiry: u64) -> bool {
            let known = self.0.iter().position(|(f, ..)| *f == flow);
            if let Some(place) = known {
                let (_, at, protected) = self.0[place];
                if now - at < expiry {
                    let others: Vec<usize> = (0..self.0.len()).filter(|n| self.0[*n].2).collect();
                    if !protected && others.len() == 6 {
                        let oldest = *others.iter().min_by_key(|n| self.0[**n].1).unwrap();
                        self.0[oldest].2 = false;
                    }
                    self.0[place] = (flow, now, true);
                    return true;
                }
                self.0.remove(place);
            } else if self.0.len() == 8 {
                let class = |n: &usize| {
                    let (_, at, protected) = self.0[*n];
                    (if now - at >= expiry { 0 } else { 1 + u8::from(protected) }, at)
                };
                let place = (0..8).min_by_key(class).unwrap();
                self.0.remove(place);
            }
            self.0.push((flow, now, false));
            false
        }
    }

    proptest! {
        #[test]
        fn a_set_is_a_segmented_lru(flows in proptest::collection::vec((0u64..14, 1u64..40), 1..400)) {
            let mut table = Table::<()>::new(8, Span::from_nanos(300));
            let (mut model, mut now) = (Model::default(), 0);
            for (flow, gap) in flows {
                now += gap;
                let at = Time::from_nanos(now);
                let entry = table.touch(at, flow);
                prop_assert_eq!(entry.link().is_some(), model.touch(now, flow, 300));
                entry.set(at, ChannelId(0));
                let protected = table.sets[0].0.iter().filter(|entry| entry.state == State::Protected).count();
                prop_assert!(protected <= PROTECTED);
            }
        }
    }
}
