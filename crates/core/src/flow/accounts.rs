//! Accounts of the flows that pass a queue: what each sent and lost, how evenly they share, and how long their packets wait.
//!
//! What it is: an account for each of a bounded number of flows, in the order of their last packets. A new flow takes the
//! account of the one that was quiet longest and has nothing waiting; where there is none such, all further flows share one
//! account. A packet carries the number of its account, so that a flow is looked for once for each packet. Where flows are numbered by a hash,
//! several have one number: an account that was quiet for 10 s is another flow's if the next packet is.
//!
//! A packet is *sparse* if none of its flow waits when it comes: calls, questions for names, and the first packets of
//! everything else are such. A flow is *backlogged* in a second in which one of its packets finds another.
//!
//! Source: ours; Jain's index is R. Jain, D. Chiu, W. Hawe, DEC-TR-301, 1984. Cost: O(1) a packet; a report looks at every
//! account. Memory: 200 bytes for each of [`FLOWS`] at most, and those of [`ways`](super::ways). Invariants: an account that packets are held for is not
//! given to another; what was received is what was sent, dropped, and waits.

use super::label::Label;
use super::slots::Slots;
use super::ways::{WayReport, Ways};
use crate::units::{FlowNumber, Span, Time};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// Most flows with accounts of their own.
pub const FLOWS: usize = 4096;
/// How long waits are told of: from this long ago to twice that.
const WAITS_FOR: Span = Span::from_secs(10);
/// After so many seconds without a packet the next one says whose the account is.
const QUIET: u64 = 10;
/// What flows share for which there is no account.
const OTHERS: u32 = 0;
const NONE: u32 = u32::MAX;
const SECOND: u64 = 1_000_000_000;

/// The number of an account, and whether the packet is sparse: what a packet carries while it waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountId(u32);

/// The packet is sparse.
const SPARSE: u32 = 1 << 31;

impl AccountId {
    #[inline]
    fn place(self) -> usize {
        (self.0 & !SPARSE) as usize
    }

    #[inline]
    fn is_sparse(self) -> bool {
        self.0 & SPARSE != 0
    }
}

/// What a flow did.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowReport {
    /// What it is called.
    pub label: Label,
    /// Packets that were sent.
    pub packets: u64,
    /// Their bytes, as the link counts them.
    pub bytes: u64,
    /// Of these, bytes in the last whole second.
    pub last_second: u64,
    /// Packets that were dropped.
    pub dropped: u64,
    /// Packets that were marked, "congestion experienced".
    pub marked: u64,
    /// Packets that wait.
    pub waiting: u32,
    /// What its owner noted of most of what it sent.
    pub noted: Option<u8>,
    /// By which ways it left.
    pub ways: Vec<WayReport>,
}

/// How flows share, and how long packets wait.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    /// Flows that sent in the last whole second.
    pub active: usize,
    /// Jain's index over what they sent in it; `None` where there was none.
    pub jain: Option<f64>,
    /// Those of them that were backlogged.
    pub backlogged: usize,
    /// Jain's index over these: flows that take less than their share are no sign of unfairness.
    pub backlogged_jain: Option<f64>,
    /// How long sparse packets waited that left in the last 10 to 20 s.
    pub sparse: Quantiles,
    /// How long all packets waited that left then.
    pub all: Quantiles,
}

/// A median and a 99th percentile, each at most an eighth too high; `None` where there was no packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quantiles {
    /// How many packets.
    pub packets: u64,
    /// What half of them did not exceed.
    pub median: Option<Span>,
    /// What 99 % of them did not exceed.
    pub p99: Option<Span>,
}

#[derive(Clone, Debug)]
struct Account {
    label: Label,
    flow: u32,
    packets: u64,
    bytes: u64,
    dropped: u64,
    marked: u64,
    waiting: u32,
    /// The second that `sent` and `backlogged` are of, and the same of the one before.
    second: u64,
    sent: [u64; 2],
    backlogged: [bool; 2],
    older: u32,
    newer: u32,
}

impl Account {
    const fn new(label: Label, flow: u32) -> Account {
        Account {
            label,
            flow,
            packets: 0,
            bytes: 0,
            dropped: 0,
            marked: 0,
            waiting: 0,
            second: 0,
            sent: [0; 2],
            backlogged: [false; 2],
            older: NONE,
            newer: NONE,
        }
    }

    /// Begins another second, if `now` is in one.
    #[inline]
    fn turn(&mut self, now: Time) {
        let second = now.as_nanos() / SECOND;
        if second != self.second {
            let next = second == self.second + 1;
            (self.sent, self.backlogged) =
                ([0, if next { self.sent[0] } else { 0 }], [false, next && self.backlogged[0]]);
            self.second = second;
        }
    }

    /// What it sent in the last whole second, and whether it was backlogged then.
    fn last_second(&self, now: Time) -> (u64, bool) {
        match (now.as_nanos() / SECOND).wrapping_sub(self.second) {
            0 => (self.sent[1], self.backlogged[1]),
            1 => (self.sent[0], self.backlogged[0]),
            _ => (0, false),
        }
    }
}

/// The accounts of a queue's flows.
#[derive(Clone, Debug)]
pub struct Accounts {
    slots: Slots,
    accounts: Vec<Account>,
    ways: Ways,
    most: usize,
    oldest: u32,
    newest: u32,
    sparse: Waits,
    all: Waits,
}

impl Default for Accounts {
    fn default() -> Accounts {
        Accounts::new(FLOWS)
    }
}

impl Accounts {
    /// Accounts for at most so many flows.
    pub fn new(most: usize) -> Accounts {
        let mut ways = Ways::default();
        ways.begin(OTHERS as usize);
        Accounts {
            slots: Slots::new(),
            accounts: vec![Account::new(Label::Others, 0)],
            ways,
            most,
            oldest: NONE,
            newest: NONE,
            sparse: Waits::default(),
            all: Waits::default(),
        }
    }

    /// Packets leave by so many ways, if they do by more than one; never by fewer than was said before.
    pub fn extend(&mut self, ways: usize) {
        self.ways.extend(ways);
    }

    /// The number `way` is another way's from now on.
    pub fn forget_way(&mut self, way: usize) {
        self.ways.forget(way);
    }

    /// A packet of `flow` comes, which waits or is dropped from now on; `label` is asked of a flow that is new.
    #[inline]
    pub fn on_arrival(&mut self, now: Time, flow: FlowNumber, label: impl FnOnce() -> Label) -> AccountId {
        let id = match self.slots.slot(flow.0) {
            Some(id) => {
                if now.as_nanos() / SECOND >= self.accounts[id as usize].second + QUIET {
                    self.look_again(id, label);
                }
                if id != self.newest {
                    self.unlink(id);
                    self.link(id);
                }
                id
            }
            None => self.open(flow, label),
        };
        let account = &mut self.accounts[id as usize];
        account.turn(now);
        let is_sparse = account.waiting == 0;
        account.backlogged[0] |= !is_sparse;
        account.waiting += 1;
        AccountId(if is_sparse && id != OTHERS { id | SPARSE } else { id })
    }

    /// A packet leaves, of so many bytes, after it `waited`.
    #[inline]
    pub fn on_sent(&mut self, now: Time, id: AccountId, bytes: u64, waited: Span, is_marked: bool) {
        let account = &mut self.accounts[id.place()];
        account.turn(now);
        account.waiting = account.waiting.saturating_sub(1);
        account.packets += 1;
        account.bytes += bytes;
        account.sent[0] += bytes;
        account.marked += u64::from(is_marked);
        let (span, bucket) = (now.as_nanos() / WAITS_FOR.as_nanos(), bucket(waited));
        self.all.record(span, bucket);
        if id.is_sparse() {
            self.sparse.record(span, bucket);
        }
    }

    /// A packet is dropped.
    #[inline]
    pub fn on_dropped(&mut self, id: AccountId) {
        let account = &mut self.accounts[id.place()];
        account.waiting = account.waiting.saturating_sub(1);
        account.dropped += 1;
    }

    /// So many bytes of a packet, or of a copy of it, leave by `way`.
    #[inline]
    pub fn on_left(&mut self, now: Time, id: AccountId, way: usize, bytes: u64) {
        self.ways.on_left(now, id.place(), way, bytes);
    }

    /// The owner notes something of a packet with so many bytes, by a number of its own.
    #[inline]
    pub fn on_noted(&mut self, now: Time, id: AccountId, note: u8, bytes: u64) {
        self.ways.on_noted(now, id.place(), note, bytes);
    }

    /// How many flows have accounts of their own.
    pub fn flows(&self) -> usize {
        self.slots.len()
    }

    /// The flows that sent most in the last whole second, and then in all, at most so many, heaviest first.
    pub fn heaviest(&self, now: Time, most: usize) -> Vec<FlowReport> {
        let used = |account: &Account| account.packets + account.dropped > 0 || account.waiting > 0;
        let all = self.accounts.iter().enumerate().filter(|(_, account)| used(account));
        let mut flows: Vec<(u64, u64, usize)> =
            all.map(|(place, account)| (account.last_second(now).0, account.bytes, place)).collect();
        flows.sort_by_key(|(last_second, bytes, _)| core::cmp::Reverse((*last_second, *bytes)));
        flows.truncate(most);
        flows.into_iter().map(|(.., place)| self.report(now, place)).collect()
    }

    fn report(&self, now: Time, place: usize) -> FlowReport {
        let account = &self.accounts[place];
        FlowReport {
            label: account.label,
            packets: account.packets,
            bytes: account.bytes,
            last_second: account.last_second(now).0,
            dropped: account.dropped,
            marked: account.marked,
            waiting: account.waiting,
            noted: self.ways.noted(now, place),
            ways: self.ways.report(now, place),
        }
    }

    /// How flows share, and how long packets wait.
    pub fn summary(&self, now: Time) -> Summary {
        let own = self.accounts.iter().skip(1);
        let sent: Vec<(u64, bool)> =
            own.map(|account| account.last_second(now)).filter(|(sent, _)| *sent > 0).collect();
        let index = |flows: &mut dyn Iterator<Item = u64>| {
            let rates: Vec<f64> = flows.map(|bytes| bytes as f64).collect();
            (rates.len(), (!rates.is_empty()).then(|| jain(rates)))
        };
        let (active, all) = index(&mut sent.iter().map(|(bytes, _)| *bytes));
        let (backlogged, theirs) = index(&mut sent.iter().filter(|(_, waited)| *waited).map(|(bytes, _)| *bytes));
        Summary {
            active,
            jain: all,
            backlogged,
            backlogged_jain: theirs,
            sparse: self.sparse.quantiles(now),
            all: self.all.quantiles(now),
        }
    }

    #[cold]
    fn open(&mut self, flow: FlowNumber, label: impl FnOnce() -> Label) -> u32 {
        let id = if self.accounts.len() <= self.most {
            self.accounts.push(Account::new(Label::Unknown, 0));
            self.accounts.len() as u32 - 1
        } else {
            let oldest = self.oldest;
            match self.accounts.get(oldest as usize) {
                Some(account) if account.waiting == 0 => {
                    self.slots.remove(account.flow);
                    self.unlink(oldest);
                    oldest
                }
                _ => return OTHERS,
            }
        };
        self.accounts[id as usize] = Account::new(label(), flow.0);
        self.ways.begin(id as usize);
        self.slots.insert(flow.0, id);
        self.link(id);
        id
    }

    /// An account that was quiet begins anew where the packet that comes is another flow's.
    #[cold]
    fn look_again(&mut self, id: u32, label: impl FnOnce() -> Label) {
        let account = &mut self.accounts[id as usize];
        let label = label();
        if account.waiting == 0 && account.label != label {
            let Account { flow, older, newer, .. } = *account;
            *account = Account { older, newer, ..Account::new(label, flow) };
            self.ways.begin(id as usize);
        }
    }

    /// Puts an account behind all others, as the one that was used last.
    #[inline]
    fn link(&mut self, id: u32) {
        let newest = core::mem::replace(&mut self.newest, id);
        let account = &mut self.accounts[id as usize];
        (account.older, account.newer) = (newest, NONE);
        match self.accounts.get_mut(newest as usize) {
            Some(before) => before.newer = id,
            None => self.oldest = id,
        }
    }

    #[inline]
    fn unlink(&mut self, id: u32) {
        let Account { older, newer, .. } = self.accounts[id as usize];
        match self.accounts.get_mut(older as usize) {
            Some(account) => account.newer = newer,
            None => self.oldest = newer,
        }
        match self.accounts.get_mut(newer as usize) {
            Some(account) => account.older = older,
            None => self.newest = older,
        }
    }
}

/// Jain's fairness index over rates: (sum x)^2 / (n sum x^2), from 1/n (one has all) to 1 (all have the same). 1 where
/// there is nothing to share.
///
/// Source: R. Jain, D. Chiu, W. Hawe, DEC-TR-301, 1984. Flows without any traffic are the caller's to leave out.
pub fn jain(rates: impl IntoIterator<Item = f64>) -> f64 {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for rate in rates {
        count += 1.0;
        sum += rate;
        squares += rate * rate;
    }
    if squares == 0.0 { 1.0 } else { sum * sum / (count * squares) }
}

/// Parts of a doubling.
const PARTS: usize = 8;
/// Waits of up to 2^42 ns, more than an hour.
const BUCKETS: usize = 40 * PARTS;

/// How often each wait occurred, in buckets of an eighth of a doubling, in the last two spans of [`WAITS_FOR`].
#[derive(Clone, Debug)]
struct Waits {
    counts: [Box<[u32; BUCKETS]>; 2],
    /// Which of these spans the first counts are of.
    span: u64,
}

impl Default for Waits {
    fn default() -> Waits {
        Waits { counts: [Box::new([0; BUCKETS]), Box::new([0; BUCKETS])], span: 0 }
    }
}

impl Waits {
    #[inline]
    fn record(&mut self, span: u64, bucket: usize) {
        if span != self.span {
            self.turn(span);
        }
        let count = &mut self.counts[0][bucket];
        *count = count.saturating_add(1);
    }

    #[cold]
    fn turn(&mut self, span: u64) {
        self.counts.swap(0, 1);
        self.counts[0].fill(0);
        if span != self.span + 1 {
            self.counts[1].fill(0);
        }
        self.span = span;
    }

    fn quantiles(&self, now: Time) -> Quantiles {
        let told = match (now.as_nanos() / WAITS_FOR.as_nanos()).wrapping_sub(self.span) {
            0 => &self.counts[..],
            1 => &self.counts[..1],
            _ => &[],
        };
        let count = |bucket: usize| told.iter().map(|counts| u64::from(counts[bucket])).sum::<u64>();
        let packets: u64 = (0..BUCKETS).map(count).sum();
        let at = |percent: u64| {
            let rank = (packets * percent).div_ceil(100).max(1);
            let mut seen = 0;
            (0..BUCKETS).find(|bucket| {
                seen += count(*bucket);
                seen >= rank
            })
        };
        Quantiles { packets, median: at(50).map(upper), p99: at(99).map(upper) }
    }
}

#[inline]
fn bucket(wait: Span) -> usize {
    let ns = wait.as_nanos();
    if ns < PARTS as u64 {
        return ns as usize;
    }
    let shift = (63 - ns.leading_zeros()) as usize - PARTS.trailing_zeros() as usize;
    ((shift + 1) * PARTS + ((ns >> shift) as usize & (PARTS - 1))).min(BUCKETS - 1)
}

/// The longest wait of a bucket.
fn upper(bucket: usize) -> Span {
    let (doublings, part) = (bucket / PARTS, (bucket % PARTS) as u64);
    Span::from_nanos(match doublings {
        0 => part,
        _ => ((PARTS as u64 + part + 1) << (doublings - 1)) - 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Span = Span::from_millis(1);

    fn named(n: u32) -> Label {
        Label::Ethernet {
            ether_type: n as u16,
            source: crate::wire::mac::Mac([0; 6]),
            destination: crate::wire::mac::Mac([0; 6]),
        }
    }

    /// A packet of `flow` that comes at `now` and leaves after `waited`.
    fn pass(accounts: &mut Accounts, now: Time, flow: u32, bytes: u64, waited: Span) {
        let id = accounts.on_arrival(now, FlowNumber(flow), || named(flow));
        accounts.on_sent(now + waited, id, bytes, waited, false);
    }

    #[test]
    fn every_wait_lies_in_a_bucket_whose_end_is_at_most_an_eighth_above_it() {
        let mut last = 0;
        for ns in (0..3000).chain((12..41).flat_map(|n| [(1u64 << n) - 1, 1 << n, (1 << n) + (1 << (n - 1))])) {
            let (bucket, end) = (bucket(Span::from_nanos(ns)), upper(bucket(Span::from_nanos(ns))).as_nanos());
            assert!(end >= ns && end - ns <= ns / 8, "{ns} {end}");
            assert!(bucket >= last && bucket < BUCKETS);
            last = bucket;
        }
        assert_eq!(bucket(Span::from_nanos(u64::MAX)), BUCKETS - 1);
    }

    #[test]
    fn what_a_flow_sent_in_the_last_whole_second_says_who_is_active_and_how_evenly_they_share() {
        let mut accounts = Accounts::default();
        let at = |ms| Time::from_millis(ms);
        for (flow, bytes) in [(1, 3000), (2, 3000), (3, 100)] {
            pass(&mut accounts, at(500), flow, bytes, MS);
        }
        // Flow 1 finds its own packet waiting, so it is backlogged.
        let first = accounts.on_arrival(at(600), FlowNumber(1), || named(1));
        let second = accounts.on_arrival(at(600), FlowNumber(1), || named(1));
        accounts.on_sent(at(601), first, 500, MS, true);
        accounts.on_dropped(second);
        assert_eq!(accounts.summary(at(900)).active, 0, "the second is not over");
        let summary = accounts.summary(at(1900));
        assert_eq!((summary.active, summary.backlogged), (3, 1));
        let even = jain([3500.0, 3000.0, 100.0]);
        assert_eq!((summary.jain, summary.backlogged_jain), (Some(even), Some(1.0)));
        let heaviest = accounts.heaviest(at(1900), 2);
        assert_eq!(heaviest.len(), 2);
        let FlowReport { label, packets, bytes, last_second, dropped, marked, waiting, .. } = heaviest[0];
        assert_eq!((label, packets, bytes, last_second), (named(1), 2, 3500, 3500));
        assert_eq!((dropped, marked, waiting), (1, 1, 0));
        // A packet in the next second keeps what was before; two seconds later nobody is active.
        pass(&mut accounts, at(1950), 2, 10, MS);
        assert_eq!(accounts.summary(at(1960)).active, 3);
        assert_eq!((accounts.summary(at(2960)).active, accounts.summary(at(4000)).jain), (1, None));
    }

    #[test]
    fn the_wait_of_sparse_packets_is_told_apart_and_forgotten_after_twenty_seconds() {
        let mut accounts = Accounts::default();
        let now = Time::from_millis(5000);
        // A download of which ten packets always wait for 50 ms, and a call whose packets wait for 1 ms.
        let bulk: Vec<AccountId> = (0..10).map(|_| accounts.on_arrival(now, FlowNumber(1), || named(1))).collect();
        for id in bulk {
            accounts.on_sent(now, id, 1500, Span::from_millis(50), false);
        }
        for _ in 0..4 {
            pass(&mut accounts, now, 2, 200, MS);
        }
        let Summary { sparse, all, .. } = accounts.summary(now);
        // The download's first packet found none of its own.
        assert_eq!((sparse.packets, all.packets), (5, 14));
        let near = |span: Option<Span>, ms: u64| {
            span.is_some_and(|s| (ms * 1000..=ms * 1125).contains(&(s.as_nanos() / 1000)))
        };
        assert!(near(sparse.median, 1) && near(all.median, 50) && near(all.p99, 50), "{sparse:?} {all:?}");
        assert_eq!(accounts.summary(Time::from_millis(15_000)).sparse.packets, 5);
        assert_eq!(accounts.summary(Time::from_millis(20_000)).sparse, Quantiles::default());
        pass(&mut accounts, Time::from_millis(40_000), 2, 200, MS);
        assert_eq!(accounts.summary(Time::from_millis(40_001)).sparse.packets, 1);
    }

    #[test]
    fn a_new_flow_takes_the_account_of_the_quietest_and_none_that_packets_wait_for() {
        let mut accounts = Accounts::new(2);
        let now = Time::from_millis(1);
        let held = accounts.on_arrival(now, FlowNumber(1), || named(1));
        pass(&mut accounts, now, 2, 10, MS);
        pass(&mut accounts, now, 3, 10, MS);
        let labels = |accounts: &Accounts| accounts.heaviest(now, 10).iter().map(|flow| flow.label).collect::<Vec<_>>();
        // Flow 1 was quiet for longest, but its packet waits: so flow 3 has no account of its own.
        assert_eq!(labels(&accounts), [Label::Others, named(2), named(1)]);
        accounts.on_sent(now, held, 10, MS, false);
        pass(&mut accounts, now, 4, 10, MS);
        assert!(labels(&accounts).contains(&named(4)) && !labels(&accounts).contains(&named(1)));
        assert_eq!(accounts.flows(), 2);
    }

    #[test]
    fn an_account_that_was_quiet_is_of_the_flow_that_comes_then_and_one_that_goes_on_keeps_what_it_counted() {
        let mut accounts = Accounts::default();
        accounts.extend(1);
        let from = |accounts: &mut Accounts, ms: u64, source: u32| {
            let now = Time::from_millis(ms);
            let id = accounts.on_arrival(now, FlowNumber(7), || named(source));
            accounts.on_sent(now, id, 100, MS, false);
            accounts.on_left(now, id, 0, 100);
            let told = accounts.heaviest(now, 2);
            (told[0].label, told[0].packets, told[0].ways[0].bytes, told.len())
        };
        assert_eq!(from(&mut accounts, 1000, 1), (named(1), 1, 100, 1));
        assert_eq!(from(&mut accounts, 10_900, 2), (named(1), 2, 200, 1), "two flows of one number");
        assert_eq!(from(&mut accounts, 21_000, 1), (named(1), 3, 300, 1), "it comes back");
        assert_eq!(from(&mut accounts, 31_000, 2), (named(2), 1, 100, 1), "the first has ended");
        // What waits is of the flow that it was.
        let now = Time::from_millis(32_000);
        accounts.on_arrival(now, FlowNumber(7), || named(2));
        assert_eq!(from(&mut accounts, 50_000, 3), (named(2), 2, 200, 1));
    }

    proptest! {
        /// Beside a list that forgets nothing but what it has to, by the same rule.
        #[test]
        fn accounts_agree_with_a_plain_list(steps in proptest::collection::vec((0u32..12, 0u8..4), 1..300)) {
            let mut accounts = Accounts::new(5);
            let mut list: Vec<(u32, u64)> = Vec::new(); // by last packet; packets sent since it has its account
            let mut held: Vec<(u32, AccountId)> = Vec::new();
            for (n, (flow, step)) in steps.into_iter().enumerate() {
                let now = Time::from_nanos(n as u64);
                if step == 0 {
                    if let Some((flow, id)) = held.pop() {
                        accounts.on_sent(now, id, 1, MS, false);
                        list.iter_mut().filter(|(f, _)| *f == flow).for_each(|(_, sent)| *sent += 1);
                    }
                    continue;
                }
                let id = accounts.on_arrival(now, FlowNumber(flow), || named(flow));
                match list.iter().position(|(f, _)| *f == flow) {
                    Some(at) => {
                        let entry = list.remove(at);
                        list.push(entry);
                    }
                    None if list.len() < 5 => list.push((flow, 0)),
                    None if held.iter().all(|(f, _)| *f != list[0].0) => {
                        list.remove(0);
                        list.push((flow, 0));
                    }
                    None => {
                        prop_assert_eq!(id.place(), OTHERS as usize);
                        accounts.on_dropped(id);
                        continue;
                    }
                }
                held.push((flow, id));
            }
            prop_assert_eq!(accounts.flows(), list.len());
            for (flow, sent) in list {
                let id = accounts.slots.slot(flow).expect("an account");
                let waiting = held.iter().filter(|(f, _)| *f == flow).count() as u32;
                let account = &accounts.accounts[id as usize];
                prop_assert_eq!((account.label, account.packets, account.waiting), (named(flow), sent, waiting));
            }
        }
    }
}
