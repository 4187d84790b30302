//! A queue: a discipline and a policy, and the bounds of what waits.
//!
//! Cost: those of the two. It allocates while it grows to the most that ever waited, and never after. Invariants: every
//! packet that goes in comes out once, from `dequeue`, `take` or `poll_dropped`, or at once in [`Admit::Refused`]; once
//! `poll_dropped` is drained, what waits is within the bounds, but for what was put in by `readmit`.

use super::discipline::{Discipline, Entry, Index, Taken, Unit};
use super::fifo::Fifo;
use super::parcel::Parcel;
use super::{AnyDiscipline, DisciplineConfig};
use crate::buffer::{
    AnyPolicy, Backlog, Bounds, ConfigError, Leaving, Limit, Policy, PolicyConfig, Reason, Verdict, Victim,
};
use crate::units::{FlowNumber, Span, Time};
use alloc::collections::VecDeque;

/// What waits, as settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Who goes first. Default FIFO.
    pub discipline: DisciplineConfig,
    /// Who is let in, marked, dropped. Default drop-tail.
    pub buffer: PolicyConfig,
    /// When it is full. Default 1000 packets.
    pub limit: Limit,
}

impl Default for Config {
    fn default() -> Config {
        Config { discipline: DisciplineConfig::default(), buffer: PolicyConfig::default(), limit: Limit::Packets(1000) }
    }
}

impl Config {
    /// Most packets, or most bytes, that a queue may be set to hold.
    pub const MOST_PACKETS: u32 = 1 << 26;
    /// See [`Config::MOST_PACKETS`].
    pub const MOST_BYTES: u64 = 1 << 40;

    /// First in, first out, and drop-tail: what needs no list of packets, since it is arithmetic
    /// ([`Schedule`](crate::link::Schedule)).
    pub fn is_plain(&self) -> bool {
        self.discipline == DisciplineConfig::Fifo && self.buffer == PolicyConfig::DropTail
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// Names the first setting that cannot work, and its range.
    pub fn check(&self) -> Result<(), ConfigError> {
        let (setting, value, most) = match self.limit {
            Limit::Packets(n) => ("limit (packets)", u64::from(n), u64::from(Self::MOST_PACKETS)),
            Limit::Bytes(n) => ("limit (bytes)", n, Self::MOST_BYTES),
        };
        if !(1..=most).contains(&value) {
            return Err(ConfigError::Range { setting, value, least: 1, most });
        }
        self.discipline.check()?;
        self.buffer.check()
    }
}

/// What became of a packet that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Admit<P> {
    /// It waits.
    Queued,
    /// It does not.
    Refused(P, Reason),
}

/// A packet that the policy dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped<P> {
    /// Whose it was.
    pub flow: FlowNumber,
    /// The packet.
    pub packet: P,
    /// Why.
    pub reason: Reason,
}

/// Packets that wait: `D` orders them, a policy decides who may.
///
/// After [`enqueue`](Queue::enqueue) and after [`dequeue`](Queue::dequeue) drain [`poll_dropped`](Queue::poll_dropped): a
/// policy may drop others than the packet in question.
#[derive(Clone, Debug)]
pub struct Queue<P, D = AnyDiscipline<P>> {
    discipline: D,
    /// The only packet that waits, of which a discipline that remembers nothing need not know.
    lone: Option<Entry<P>>,
    /// Whether the order and the policy are the same if it does not.
    spares: bool,
    policy: AnyPolicy,
    /// Whether the policy is asked only of what does not fit.
    passive: bool,
    /// Whether it is asked of what goes.
    judges: bool,
    bounds: Bounds,
    packets: u64,
    bytes: u64,
    memory: u64,
    /// Who is evicted until what waits is within its bounds.
    evicting: Option<(Victim, Reason)>,
    dropped: VecDeque<Dropped<P>>,
    marked: u64,
}

impl<P: Parcel> Queue<P> {
    /// An empty queue; `seed` keys the hash of a stochastic discipline.
    ///
    /// # Errors
    /// Names the first setting that cannot work.
    pub fn new(config: &Config, seed: u64) -> Result<Queue<P>, ConfigError> {
        config.check()?;
        let unit = match config.limit {
            Limit::Packets(_) => Unit::Packets,
            Limit::Bytes(_) => Unit::Bytes,
        };
        let index = match config.buffer.victim() {
            None | Some(Victim::Any(_)) => Index::None,
            Some(Victim::Oldest) => Index::Age,
            Some(Victim::Longest | Victim::LongestHead | Victim::AboveShare(_)) => Index::Longest(unit),
            Some(Victim::Suspect) => Index::Suspect(unit),
            Some(Victim::LargestFinish) => Index::Finish,
        };
        let discipline = AnyDiscipline::new(config.discipline, index, seed);
        let policy = AnyPolicy::new(config.buffer, seed);
        // CoDel goes by the numbers of queues.
        let spares = discipline.forgets() && !matches!(config.buffer, PolicyConfig::CoDel { .. });
        let queue = Queue::with(discipline, policy, &config.buffer, config.limit.into());
        Ok(Queue { spares, ..queue })
    }
}

impl<P: Parcel> Queue<P, Fifo<P>> {
    /// An empty FIFO queue; `seed` determines what the policy draws.
    pub fn fifo(buffer: PolicyConfig, bounds: Bounds, seed: u64) -> Queue<P, Fifo<P>> {
        Queue::with(Fifo::default(), AnyPolicy::new(buffer, seed), &buffer, bounds)
    }

    /// As [`readmit`](Queue::readmit), but in front of the first packet that does not go before it, in a queue that is in
    /// such an order.
    pub fn insert(&mut self, since: Time, packet: P, goes_first: impl Fn(&P) -> bool) {
        let entry = self.count(since, FlowNumber::default(), packet);
        self.discipline.insert(entry, goes_first);
    }
}

impl<P: Parcel, D: Discipline<P>> Queue<P, D> {
    fn with(discipline: D, policy: AnyPolicy, config: &PolicyConfig, bounds: Bounds) -> Queue<P, D> {
        Queue {
            discipline,
            lone: None,
            spares: false,
            policy,
            passive: config.is_passive(),
            judges: config.judges_leaving(),
            bounds,
            packets: 0,
            bytes: 0,
            memory: 0,
            evicting: None,
            dropped: VecDeque::new(),
            marked: 0,
        }
    }

    /// Other bounds from now on. What waits beyond them stays until another packet comes.
    #[inline]
    pub fn set_bounds(&mut self, bounds: Bounds) {
        self.bounds = bounds;
    }

    /// Gives `flow` a share of this weight (1 to [`MOST_WEIGHT`](super::MOST_WEIGHT)) from the next packet on that finds none
    /// of it waiting; 1 is that of all others.
    pub fn set_weight(&mut self, flow: FlowNumber, weight: u32) {
        self.discipline.set_weight(flow, weight);
    }

    /// Gives `flow` so much room in the buffer in proportion to others, which have 1 (1 to
    /// [`MOST_ROOM`](super::MOST_ROOM)): where the policy looks for the longest queue, lengths are over room. By round-trip
    /// time, as hybrid-gateways 3.4.3 has it.
    pub fn set_room(&mut self, flow: FlowNumber, room: u32) {
        self.discipline.set_room(flow, room);
    }

    /// Gives `flow` this bound of delay from the next packet on that comes to the head of its queue, where delays are bounded flow
    /// by flow.
    pub fn set_delay(&mut self, flow: FlowNumber, delay: Span) {
        self.discipline.set_delay(flow, delay);
    }

    /// A packet of `flow` arrives.
    #[inline]
    pub fn enqueue(&mut self, now: Time, flow: FlowNumber, packet: P) -> Admit<P> {
        if self.lets_in(&packet) {
            self.readmit(now, flow, packet);
            return Admit::Queued;
        }
        self.admit(now, flow, packet)
    }

    /// What may wait.
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Whether [`enqueue`](Queue::enqueue) lets this packet in without a question to the policy: then
    /// [`readmit`](Queue::readmit) does the same.
    #[inline]
    pub fn lets_in(&self, packet: &P) -> bool {
        let bytes = self.bytes + u64::from(packet.size().max(1));
        self.passive && self.bounds.hold(self.packets + 1, bytes, self.memory + packet.memory())
    }

    /// A packet arrives, and the policy is asked.
    #[inline(never)]
    fn admit(&mut self, now: Time, flow: FlowNumber, mut packet: P) -> Admit<P> {
        self.tell_time(now);
        let backlog = Backlog {
            packets: self.packets,
            bytes: self.bytes,
            memory: self.memory,
            bounds: self.bounds,
            size: u64::from(packet.size().max(1)),
            cost: packet.memory(),
            by_flow: self.discipline.by_flow(),
        };
        match self.policy.admit(now, flow, &packet, &backlog) {
            Verdict::Pass => {}
            Verdict::Mark(_) if packet.mark() => self.marked += 1,
            Verdict::Mark(reason) | Verdict::Drop(reason) => return Admit::Refused(packet, reason),
            Verdict::Evict(victim, reason) => self.evicting = Some((victim, reason)),
            Verdict::PushOut(victim, reason) => {
                self.readmit(now, flow, packet);
                self.push_out(victim, reason);
                return Admit::Queued;
            }
        }
        self.readmit(now, flow, packet);
        Admit::Queued
    }

    /// A policy that goes by the clock is told when the first packets came, before that changes.
    #[inline]
    fn tell_time(&mut self, now: Time) {
        if let Some(policy) = self.policy.is_due(now) {
            let heads = match &self.lone {
                Some(entry) => [Some(entry.since), None],
                None => self.discipline.heads(),
            };
            policy.on_time(now, heads);
        }
    }

    /// Marks the victim, or drops it where it cannot be marked.
    fn push_out(&mut self, victim: Victim, reason: Reason) {
        self.settle();
        if self.discipline.find(victim).is_some_and(|entry| entry.packet.mark()) {
            self.marked += 1;
        } else if let Some(entry) = self.discipline.evict(victim) {
            self.discount(&entry);
            self.dropped.push_back(Dropped { flow: entry.flow, packet: entry.packet, reason });
        }
    }

    /// A packet that came at `since` and was let in before comes back: neither policy nor bounds are asked.
    #[inline]
    pub fn readmit(&mut self, since: Time, flow: FlowNumber, packet: P) {
        let entry = self.count(since, flow, packet);
        if self.spares && self.packets == 1 {
            self.lone = Some(entry);
            return;
        }
        self.settle();
        self.discipline.enqueue(entry);
    }

    /// The discipline takes the packet that was alone.
    #[inline]
    fn settle(&mut self) {
        if let Some(entry) = self.lone.take() {
            self.discipline.enqueue(entry);
        }
    }

    /// Takes the packet that goes next.
    #[inline]
    fn next(&mut self, now: Time) -> Option<Taken<P>> {
        match self.lone.take() {
            Some(entry) => Some(Taken { queue: 0, key: entry.flow.0, behind: 0, entry }),
            None => self.discipline.dequeue(now),
        }
    }

    /// The packet that goes next, once the policy has had its say. `None` also tells the discipline that the link has
    /// fallen idle.
    #[inline]
    pub fn dequeue(&mut self, now: Time) -> Option<Entry<P>> {
        if self.judges { self.release(now) } else { self.take(now) }
    }

    /// The packet that goes next, of which the policy is asked.
    #[inline(never)]
    fn release(&mut self, now: Time) -> Option<Entry<P>> {
        self.tell_time(now);
        loop {
            let Taken { mut entry, queue, key, behind } = self.next(now)?;
            self.discount(&entry);
            let is_scalable = entry.packet.is_scalable();
            let leaving = Leaving { waited: now.since(entry.since), queue, key, behind, is_scalable };
            let reason = match self.policy.release(now, entry.flow, &entry.packet, &leaving) {
                Verdict::Pass | Verdict::Evict(..) | Verdict::PushOut(..) => return Some(entry),
                Verdict::Mark(_) if entry.packet.mark() => {
                    self.marked += 1;
                    return Some(entry);
                }
                Verdict::Mark(reason) | Verdict::Drop(reason) => reason,
            };
            self.dropped.push_back(Dropped { flow: entry.flow, packet: entry.packet, reason });
        }
    }

    /// The packet that goes next, whatever the policy may say.
    #[inline]
    pub fn take(&mut self, now: Time) -> Option<Entry<P>> {
        let taken = self.next(now)?;
        self.discount(&taken.entry);
        Some(taken.entry)
    }

    /// What [`take`](Queue::take) would give.
    #[inline]
    pub fn peek(&self) -> Option<&Entry<P>> {
        self.lone.as_ref().or_else(|| self.discipline.peek())
    }

    /// Takes out a packet that came before `oldest`, if there is one.
    pub fn expire(&mut self, oldest: Time) -> Option<Entry<P>> {
        self.settle();
        let entry = self.discipline.expire(oldest)?;
        self.discount(&entry);
        Some(entry)
    }

    /// A packet that the policy dropped since.
    #[inline]
    pub fn poll_dropped(&mut self) -> Option<Dropped<P>> {
        if self.dropped.is_empty() && self.evicting.is_none() {
            return None;
        }
        self.drop_next()
    }

    #[inline(never)]
    fn drop_next(&mut self) -> Option<Dropped<P>> {
        if let Some(dropped) = self.dropped.pop_front() {
            return Some(dropped);
        }
        let (victim, reason) = self.evicting?;
        self.settle();
        if !self.bounds.hold(self.packets, self.bytes, self.memory)
            && let Some(entry) = self.discipline.evict(victim)
        {
            self.discount(&entry);
            self.evicting = Some((victim.next(), reason));
            return Some(Dropped { flow: entry.flow, packet: entry.packet, reason });
        }
        self.evicting = None;
        None
    }

    /// From when on [`dequeue`](Queue::dequeue) gives a packet; `None` while nothing waits.
    pub fn next_ready(&self) -> Option<Time> {
        if self.lone.is_some() { Some(Time::ZERO) } else { self.discipline.next_ready() }
    }

    /// Whether the policy is asked only of packets that do not fit: whatever goes may go.
    #[inline]
    pub fn is_passive(&self) -> bool {
        self.passive
    }

    /// How many wait.
    #[inline]
    pub fn packets(&self) -> usize {
        self.packets as usize
    }

    /// Their bytes.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The memory that they take.
    #[inline]
    pub fn memory(&self) -> u64 {
        self.memory
    }

    /// How many packets were marked so far.
    #[inline]
    pub fn marked(&self) -> u64 {
        self.marked
    }

    /// How many flows have a packet waiting; one where the discipline does not tell flows apart.
    pub fn active_flows(&self) -> usize {
        self.discipline.active_flows() + usize::from(self.lone.is_some())
    }

    #[inline]
    fn count(&mut self, since: Time, flow: FlowNumber, packet: P) -> Entry<P> {
        let size = packet.size().max(1);
        self.packets += 1;
        self.bytes += u64::from(size);
        self.memory += packet.memory();
        if !self.passive
            && let Some(policy) = self.policy.counts_flows()
        {
            policy.on_came(flow, size);
        }
        Entry { packet, flow, size, since }
    }

    #[inline]
    fn discount(&mut self, entry: &Entry<P>) {
        self.packets -= 1;
        self.bytes -= u64::from(entry.size);
        self.memory -= entry.packet.memory();
        if !self.passive
            && let Some(policy) = self.policy.counts_flows()
        {
            policy.on_left(entry.flow, entry.size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Family;
    use crate::queue::End;
    use crate::rng::Rng;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    /// A packet of one of three hosts, which can be marked once if its number is even.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Numbered {
        number: u32,
        size: u32,
        marked: bool,
    }

    impl Parcel for Numbered {
        fn size(&self) -> u32 {
            self.size
        }

        fn memory(&self) -> u64 {
            64
        }

        fn mark(&mut self) -> bool {
            self.number.is_multiple_of(2) && !core::mem::replace(&mut self.marked, true)
        }

        fn host(&self, _end: End) -> u128 {
            u128::from(self.number % 3)
        }

        fn class(&self) -> u8 {
            (self.number % 5) as u8
        }

        fn is_scalable(&self) -> bool {
            self.number.is_multiple_of(4)
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn a_discipline_that_never_hears_of_a_lone_packet_does_what_one_does_that_hears_of_all(
            discipline in proptest::sample::select(DisciplineConfig::MEMBERS.iter().map(|member| (member.plain)()).collect::<Vec<_>>()),
            buffer in proptest::sample::select(PolicyConfig::MEMBERS.iter().map(|member| (member.plain)()).collect::<Vec<_>>()),
            most in 1u32..8, seed: u64, comes in 30u64..65,
        ) {
            let config = Config { discipline, buffer, limit: Limit::Packets(most) };
            let mut spared = Queue::new(&config, seed).unwrap();
            let mut all = Queue { spares: false, ..spared.clone() };
            let (mut rng, mut now) = (Rng::new(seed), Time::ZERO);
            for number in 0..200 {
                now += Span::from_micros(rng.below(20_000));
                match rng.below(100) {
                    draw if draw < comes => {
                        let (flow, size) = (FlowNumber(rng.below(4) as u32), 1 + rng.below(1500) as u32);
                        let packet = Numbered { number, size, marked: false };
                        prop_assert_eq!(spared.enqueue(now, flow, packet), all.enqueue(now, flow, packet));
                    }
                    95.. => {
                        let oldest = Time::from_nanos(now.as_nanos().saturating_sub(100_000_000));
                        prop_assert_eq!(spared.expire(oldest), all.expire(oldest));
                    }
                    94 => [&mut spared, &mut all].into_iter().for_each(|queue| {
                        queue.set_weight(FlowNumber(1), 1 + number % 3);
                        queue.set_room(FlowNumber(2), 1 + number % 3);
                    }),
                    93 => prop_assert_eq!(spared.take(now), all.take(now)),
                    _ => prop_assert_eq!(spared.dequeue(now), all.dequeue(now)),
                }
                loop {
                    let dropped = spared.poll_dropped();
                    prop_assert_eq!(dropped, all.poll_dropped());
                    if dropped.is_none() {
                        break;
                    }
                }
                prop_assert_eq!(spared.peek(), all.peek());
                prop_assert_eq!(spared.next_ready(), all.next_ready());
                prop_assert_eq!((spared.packets(), spared.bytes(), spared.memory()), (all.packets(), all.bytes(), all.memory()));
                prop_assert_eq!((spared.active_flows(), spared.marked()), (all.active_flows(), all.marked()));
            }
        }
    }
}
