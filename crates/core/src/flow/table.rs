//! The flow table: what each flow did last, for a bounded number of flows.
//!
//! What it is: a hash table of sets of eight, each set its own small segmented LRU. An entry is on probation until its
//! flow's second packet, then protected; at most six of a set are protected, and the one of them that was quiet longest
//! goes back on probation for another. A new flow takes an empty or expired place, else that of the flow on probation
//! that was quiet longest. So flows of one packet push out each other and never a flow that is at work, and a flow that is
//! at work is pushed out only by six others of its set that have had a packet since its own.
//!
//! Source: ours, for the burst-round-robin paper's section 8 (its table is a list that never forgets); segmented LRU is
//! Karedla, Love and Wherry, "Caching strategies to improve disk system performance", 1994.
//!
//! An entry is one word, so that a set is a cache line and the table small: what a packet costs here is the way to memory.
//!
//! | bits | what |
//! |---|---|
//! | 16 | of the flow's hash, beside those that choose the set: two flows that agree in all of them count as one. That is safe, as they share a link and so keep their order, and befalls one new flow of 8192 |
//! | 2 | empty, new (no link yet), on probation, protected |
//! | 6 | the link |
//! | 40 | an instant, in ns (up to 549 s of expiry; for a day in 256 ns), modulo 2^40: past ones up to the expiry count, and up to 2^34 future ones. A flow that was quiet for 18 min and not pushed out may by chance be taken for one that was not: it keeps a link where it could have chosen |
//!
//! Cost: O(1): one set, one cache line, and one more where entries have a value. Nothing is ever swept, and nothing allocated
//! after construction. A table half full has room for 99 of 100 flows in their sets; take `flows` twice of what is to be
//! remembered. Invariants: never more than six protected of a set; memory is what `flows` says.

use crate::units::{ChannelId, Span, Time};
use alloc::boxed::Box;
use alloc::vec;

/// Entries of a set.
const WAYS: usize = 8;
/// Most of them that are protected.
const PROTECTED: usize = 6;

/// The word's instant: its bits, how far ahead it may lie, and what the longest expiry must fit into.
const INSTANT: u64 = (1 << 40) - 1;
const AHEAD: u64 = 1 << 34;
const LONGEST: u64 = 1 << 39;

const LINK: u32 = 40;
const STATE: u32 = 46;
const TAG: u32 = 48;

const EMPTY: u64 = 0;
const NEW: u64 = 1;
const PROBATION: u64 = 2;
const PROTECTED_STATE: u64 = 3;

#[inline]
const fn state(word: u64) -> u64 {
    (word >> STATE) & 3
}

#[inline]
const fn with_state(word: u64, state: u64) -> u64 {
    word & !(3 << STATE) | state << STATE
}

/// The entry of a flow, at the time of a packet.
#[derive(Debug)]
pub struct Entry<'a, V> {
    word: &'a mut u64,
    clock: Clock,
    now: Time,
    /// What else is remembered.
    pub value: &'a mut V,
}

/// What is known of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known<V> {
    /// The link that its last packet took; `None` where there was no link to take.
    pub link: Option<ChannelId>,
    /// The instant that was noted with it.
    pub at: Time,
    /// What else is remembered.
    pub value: V,
}

/// A cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Set([u64; WAYS]);

/// How instants are written down.
#[derive(Clone, Copy, Debug)]
struct Clock {
    shift: u32,
    expiry: u64,
}

impl Clock {
    fn new(expiry: Span) -> Clock {
        let shift = (u64::BITS - expiry.as_nanos().leading_zeros()).saturating_sub(LONGEST.trailing_zeros());
        Clock { shift, expiry: (expiry.as_nanos() >> shift).max(1) }
    }

    /// How long ago the word's instant is; a future one is not.
    #[inline]
    fn age(self, word: u64, now: Time) -> u64 {
        let age = (now.as_nanos() >> self.shift).wrapping_sub(word) & INSTANT;
        if age > INSTANT - AHEAD { 0 } else { age }
    }

    #[inline]
    fn is_expired(self, word: u64, now: Time) -> bool {
        self.age(word, now) >= self.expiry
    }

    #[inline]
    fn read(self, word: u64, now: Time) -> Time {
        let now = now.as_nanos() >> self.shift;
        let age = now.wrapping_sub(word) & INSTANT;
        let at = if age > INSTANT - AHEAD { now.saturating_add(INSTANT + 1 - age) } else { now.saturating_sub(age) };
        Time::from_nanos(at << self.shift)
    }

    #[inline]
    fn write(self, at: Time, now: Time) -> u64 {
        let (at, now) = (at.as_nanos() >> self.shift, now.as_nanos() >> self.shift);
        at.min(now.saturating_add(AHEAD - 1)) & INSTANT
    }
}

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
    sets: Box<[Set]>,
    values: Box<[V]>,
    clock: Clock,
    stats: Stats,
}

impl<V: Copy + Default> Entry<'_, V> {
    /// The link that its last packet took; `None` in a new entry.
    #[inline]
    pub fn link(&self) -> Option<ChannelId> {
        (state(*self.word) > NEW).then_some(ChannelId((*self.word >> LINK) as u8 & 63))
    }

    /// The instant that was noted with the link; in a new entry when it was made.
    #[inline]
    pub fn at(&self) -> Time {
        self.clock.read(*self.word, self.now)
    }

    /// Notes the link that a packet takes, and an instant, from which the flow's age counts: that of the packet or later.
    #[inline]
    pub fn set(&mut self, at: Time, link: ChannelId) {
        let state = state(*self.word).max(PROBATION);
        let tag = *self.word >> TAG;
        *self.word = tag << TAG | state << STATE | u64::from(link.0 & 63) << LINK | self.clock.write(at, self.now);
    }

    /// Notes what is known of it under another hash.
    pub(super) fn take_over(&mut self, known: &Known<V>) {
        if let Some(link) = known.link {
            self.set(known.at, link);
            *self.value = known.value;
        }
    }
}

impl<V: Copy + Default> Table<V> {
    /// Room for at most `flows` flows, at least a set; a flow is forgotten `expiry` after its noted instant.
    pub fn new(flows: u32, expiry: Span) -> Table<V> {
        let sets = (flows as usize / WAYS).max(1);
        Table {
            sets: vec![Set([EMPTY; WAYS]); sets].into_boxed_slice(),
            values: vec![V::default(); sets * WAYS].into_boxed_slice(),
            clock: Clock::new(expiry),
            stats: Stats::default(),
        }
    }

    #[inline]
    fn set_of(&self, hash: u64) -> usize {
        (((hash >> 32) * self.sets.len() as u64) >> 32) as usize
    }

    /// The entry of the flow with this hash, a new one if it is not known. To be called for each packet: an entry's second
    /// call protects it.
    #[inline]
    pub fn touch(&mut self, now: Time, hash: u64) -> Entry<'_, V> {
        let (index, tag, clock) = (self.set_of(hash), tag_of(hash), self.clock);
        let set = &mut self.sets[index].0;
        let way = match find(set, tag) {
            Some(way) if !clock.is_expired(set[way], now) => {
                if state(set[way]) == PROBATION {
                    protect(set, way, clock, now);
                }
                return Entry { word: &mut set[way], clock, now, value: &mut self.values[index * WAYS + way] };
            }
            Some(way) => way,
            None => {
                let way = victim(set, clock, now);
                self.stats.evicted += u64::from(state(set[way]) != EMPTY && !clock.is_expired(set[way], now));
                way
            }
        };
        self.stats.new += 1;
        set[way] = tag << TAG | NEW << STATE | clock.write(now, now);
        let value = &mut self.values[index * WAYS + way];
        *value = V::default();
        Entry { word: &mut set[way], clock, now, value }
    }

    /// What is known of the flow, if it is not expired; nothing is renewed.
    pub fn peek(&self, now: Time, hash: u64) -> Option<Known<V>> {
        let index = self.set_of(hash);
        let set = &self.sets[index].0;
        let way = find(set, tag_of(hash)).filter(|way| !self.clock.is_expired(set[*way], now))?;
        let link = (state(set[way]) > NEW).then_some(ChannelId((set[way] >> LINK) as u8 & 63));
        Some(Known { link, at: self.clock.read(set[way], now), value: self.values[index * WAYS + way] })
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

/// A flow's tag. None is 0, so that it tells an empty place as well.
#[inline]
fn tag_of(hash: u64) -> u64 {
    (hash & 0xffff).max(1)
}

/// The place of the entry with this tag. All are looked at, without a branch for each.
#[inline]
fn find(set: &[u64; WAYS], tag: u64) -> Option<usize> {
    let mut found = 0u32;
    for (way, word) in set.iter().enumerate() {
        found |= u32::from(word >> TAG == tag) << way;
    }
    (found != 0).then_some(found.trailing_zeros() as usize % WAYS)
}

/// The place for a new flow. One that is not protected exists, so that none that is at work is taken.
fn victim(set: &[u64; WAYS], clock: Clock, now: Time) -> usize {
    let rank = |word: u64| match (state(word), clock.age(word, now)) {
        (EMPTY, _) => (0, 0),
        (_, age) if age >= clock.expiry => (0, u64::MAX - age),
        (state, age) => (state.max(PROBATION), u64::MAX - age),
    };
    (0..WAYS).min_by_key(|way| rank(set[*way])).unwrap_or(0)
}

/// Protects `way`, in place of the one that was quiet longest where six are protected.
fn protect(set: &mut [u64; WAYS], way: usize, clock: Clock, now: Time) {
    let protected = || (0..WAYS).filter(|way| state(set[*way]) == PROTECTED_STATE);
    if protected().count() >= PROTECTED
        && let Some(oldest) = protected().max_by_key(|way| clock.age(set[*way], now))
    {
        set[oldest] = with_state(set[oldest], PROBATION);
    }
    set[way] = with_state(set[way], PROTECTED_STATE);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    const EXPIRY: Span = Span::from_secs(60);

    #[test]
    fn a_set_is_a_cache_line() {
        assert_eq!((size_of::<Set>(), align_of::<Set>()), (64, 64));
    }

    #[test]
    fn instants_are_read_as_they_were_written_whatever_the_expiry() {
        for (expiry, unit) in [(EXPIRY, 1), (Span::from_secs(500), 1), (Span::from_secs(86_400), 256)] {
            let mut table = Table::<()>::new(8, expiry);
            // Long after the origin, so that the word has wrapped.
            let start = 5_000_000_000_000_000u64;
            for (written, read) in
                [(0u64, 0u64), (7_777, 3_000_000_000), (4_000_000_123, 1_000), (expiry.as_nanos() - 300, 0)]
            {
                let now = Time::from_nanos(start + read + written);
                let at = Time::from_nanos(start + read);
                table.touch(at, 1).set(at, ChannelId(63));
                let entry = table.touch(now, 1);
                assert_eq!(entry.link(), Some(ChannelId(63)));
                assert_eq!(entry.at().as_nanos(), at.as_nanos() / unit * unit);
                // And ahead of the packet, as far as it may be.
                let mut entry = table.touch(now, 1);
                entry.set(now + Span::from_millis(300), ChannelId(62));
                assert_eq!(entry.at().as_nanos(), (now.as_nanos() + 300_000_000) / unit * unit);
                entry.set(Time::MAX, ChannelId(1));
                assert!((17_179_000_000..17_180_000_000).contains(&(entry.at().since(now).as_nanos() / unit)));
                table = Table::new(8, expiry);
            }
        }
    }

    #[test]
    fn a_flow_is_forgotten_when_it_expires() {
        let mut table = Table::<u8>::new(64, EXPIRY);
        let mut entry = table.touch(Time::ZERO, 5);
        entry.set(Time::from_millis(7), ChannelId(3));
        *entry.value = 9;
        let last = Time::from_millis(60_006);
        assert_eq!(table.touch(last, 5).link(), Some(ChannelId(3)));
        assert_eq!(table.peek(last, 5).map(|entry| entry.value), Some(9));
        assert!(table.peek(Time::from_millis(60_007), 5).is_none());
        let entry = table.touch(Time::from_millis(60_007), 5);
        assert_eq!((entry.link(), *entry.value, entry.at()), (None, 0, Time::from_millis(60_007)));
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
                let mut entry = table.touch(at, established[turn % 1000]);
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
        fn a_set_is_a_segmented_lru(flows in proptest::collection::vec((1u64..15, 1u64..40), 1..400)) {
            let mut table = Table::<()>::new(8, Span::from_nanos(300));
            let (mut model, mut now) = (Model::default(), 0);
            for (flow, gap) in flows {
                now += gap;
                let at = Time::from_nanos(now);
                let mut entry = table.touch(at, flow);
                prop_assert_eq!(entry.link().is_some(), model.touch(now, flow, 300));
                entry.set(at, ChannelId(0));
                let protected = table.sets[0].0.iter().filter(|word| state(**word) == PROTECTED_STATE).count();
                prop_assert!(protected <= PROTECTED);
            }
        }
    }
}
