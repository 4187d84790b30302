//! A virtual output queue: what waits at the station for one egress, and how much of it is released.
//!
//! | queue | order | where |
//! |---|---|---|
//! | `Fifo` | first in, first out, with drop-tail: the first packets are the released ones | by default, and for what has a reservation |
//! | `Ordered` | any discipline of [`queue`](crate::queue) with any policy of [`buffer`](crate::buffer) | where the settings name one |
//!
//! An ordered queue chooses a packet when the link takes one, and not when the limiter lets one pass: in between a better one
//! may come. So there releases are permits. Limiters and the counts of demand must know at once what a permit is worth. The
//! first one is worth the packet that would go now; any other the mean of what no permit was given for. What a permit was
//! wrong by is part of the next one, so that what was charged and what was sent are the same bytes.
//!
//! Cost: constant per packet, or that of discipline and policy. Invariants: no more is released than waits; while nothing is
//! dropped, the worth of all permits ever given and what is `unpaid` are the bytes of all packets that came.

use super::frame::Head;
use crate::buffer::{Bounds, Reason};
use crate::ip::ecn;
use crate::packet::Packet;
use crate::queue::{Admit, Config, ConfigError, End, Parcel, Queue, class_of, host_of, is_scalable};
use crate::units::{FlowNumber, Time};
use alloc::boxed::Box;
use alloc::collections::VecDeque;

/// A packet and what is known of it.
#[derive(Debug)]
pub(super) struct Held<P> {
    pub(super) head: Head,
    /// Bytes on the wire.
    pub(super) wire: u32,
    /// Whose it is, where it comes from the station.
    pub(super) flow: FlowNumber,
    pub(super) packet: P,
}

impl<P: Packet> Held<P> {
    /// Bytes of the limit that it takes: those of the wire, or of the memory if they are more.
    fn charge(&self) -> u64 {
        u64::from(self.wire).max(self.packet.footprint() as u64)
    }
}

impl<P: Packet> Parcel for Held<P> {
    fn size(&self) -> u32 {
        self.wire
    }

    fn memory(&self) -> u64 {
        self.charge()
    }

    fn mark(&mut self) -> bool {
        ecn::mark(self.packet.bytes_mut())
    }

    fn host(&self, end: End) -> u128 {
        host_of(self.packet.bytes(), end)
    }

    fn class(&self) -> u8 {
        class_of(self.packet.bytes())
    }

    fn is_scalable(&self) -> bool {
        is_scalable(self.packet.bytes())
    }
}

/// How much is released.
#[derive(Clone, Copy, Debug, Default)]
struct Released {
    now: usize,
    /// At any time: what is taken back and released again counts once.
    counted: usize,
}

impl Released {
    /// One more: whether it is the first time.
    #[inline]
    fn add(&mut self) -> bool {
        self.now += 1;
        let fresh = self.now > self.counted;
        self.counted = self.counted.max(self.now);
        fresh
    }

    /// One of them goes.
    #[inline]
    fn remove(&mut self) {
        self.now = self.now.saturating_sub(1);
        self.counted = self.counted.saturating_sub(1);
    }
}

/// What waits for one egress.
#[derive(Debug)]
pub(super) struct OutputQueue<P> {
    packets: Packets<P>,
    released: Released,
}

#[derive(Debug)]
enum Packets<P> {
    Fifo(Fifo<P>),
    Ordered(Box<Ordered<P>>),
}

/// First in, first out.
#[derive(Debug)]
struct Fifo<P> {
    packets: VecDeque<Held<P>>,
    /// Sum of charges.
    charged: u64,
}

/// In the order of a discipline.
#[derive(Debug)]
struct Ordered<P> {
    queue: Queue<Held<P>>,
    /// Bytes that came and were in no permit.
    unpaid: u64,
    /// One that the policy did not let in though there was room: as one that came and was dropped.
    refused: Option<(u32, Reason)>,
}

impl<P: Packet> OutputQueue<P> {
    /// First in, first out, with drop-tail.
    pub(super) const FIFO: OutputQueue<P> = OutputQueue {
        packets: Packets::Fifo(Fifo { packets: VecDeque::new(), charged: 0 }),
        released: Released { now: 0, counted: 0 },
    };

    /// As `config` says; its limit is room for charges.
    pub(super) fn new(config: &Config, seed: u64) -> Result<OutputQueue<P>, ConfigError> {
        if config.is_plain() {
            return Ok(OutputQueue::FIFO);
        }
        let mut queue = Queue::new(config, seed)?;
        let room = Bounds::from(config.limit);
        queue.set_bounds(Bounds { bytes: u64::MAX, memory: room.bytes, ..room });
        let packets = Packets::Ordered(Box::new(Ordered { queue, unpaid: 0, refused: None }));
        Ok(OutputQueue { packets, released: Released::default() })
    }

    #[inline]
    fn len(&self) -> usize {
        match &self.packets {
            Packets::Fifo(fifo) => fifo.packets.len(),
            Packets::Ordered(ordered) => ordered.queue.packets(),
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether something waits for a limiter.
    #[inline]
    pub(super) fn waits(&self) -> bool {
        self.released.now < self.len()
    }

    #[inline]
    pub(super) fn has_released(&self) -> bool {
        self.released.now > 0
    }

    /// Takes a packet in, or gives it back; `limit`: the room. Others may be [dropped](OutputQueue::poll_dropped) for it.
    #[inline]
    pub(super) fn offer(&mut self, now: Time, held: Held<P>, limit: u64) -> Result<(), Held<P>> {
        match &mut self.packets {
            Packets::Fifo(fifo) => {
                let charged = fifo.charged + held.charge();
                if charged > limit {
                    return Err(held);
                }
                fifo.charged = charged;
                fifo.packets.push_back(held);
            }
            Packets::Ordered(ordered) => ordered.offer(now, held)?,
        }
        Ok(())
    }

    /// Releases one more: its bytes on the wire, and whether it is the first time. `shares`: whether it shares fairly.
    #[inline]
    pub(super) fn release(&mut self, shares: bool) -> Option<(u32, bool)> {
        let wire = match &mut self.packets {
            Packets::Fifo(fifo) => {
                let held = fifo.packets.get_mut(self.released.now)?;
                held.head.shares = shares;
                held.wire
            }
            Packets::Ordered(ordered) => ordered.permit(self.released.now)?,
        };
        Some((wire, self.released.add()))
    }

    /// Leaves at most `most` released.
    pub(super) fn take_back(&mut self, most: usize) {
        if self.released.now > most {
            if let Packets::Ordered(ordered) = &mut self.packets {
                ordered.revoke(self.released.now, most);
            }
            self.released.now = most;
        }
    }

    /// Takes the packet that goes next, once the policy has had its say.
    #[inline]
    pub(super) fn pop(&mut self, now: Time) -> Option<Held<P>> {
        let held = match &mut self.packets {
            Packets::Fifo(fifo) => {
                let held = fifo.packets.pop_front()?;
                fifo.charged -= held.charge();
                held
            }
            Packets::Ordered(ordered) => ordered.pop(now)?,
        };
        self.released.remove();
        Some(held)
    }

    /// Whether the policy may have [dropped](OutputQueue::poll_dropped) something.
    #[inline]
    pub(super) fn may_drop(&self) -> bool {
        matches!(self.packets, Packets::Ordered(_))
    }

    /// Takes a packet out that goes elsewhere.
    pub(super) fn withdraw(&mut self, now: Time) -> Option<Held<P>> {
        match &mut self.packets {
            Packets::Fifo(_) => self.pop(now),
            Packets::Ordered(ordered) => {
                let held = ordered.queue.take(now)?.packet;
                if ordered.queue.packets() == 0 {
                    ordered.unpaid = 0;
                }
                self.released.remove();
                Some(held)
            }
        }
    }

    /// A packet that the policy dropped since: its bytes on the wire, and why. What nothing was permitted for goes first.
    pub(super) fn poll_dropped(&mut self) -> Option<(u32, Reason)> {
        let Packets::Ordered(ordered) = &mut self.packets else { return None };
        let refused = ordered.refused.take();
        let dropped = || ordered.queue.poll_dropped().map(|dropped| (dropped.packet.wire, dropped.reason));
        let (wire, reason) = refused.or_else(dropped)?;
        let left = ordered.queue.packets();
        if left >= self.released.now {
            ordered.unpaid = ordered.unpaid.saturating_sub(u64::from(wire));
        }
        self.released.now = self.released.now.min(left);
        self.released.counted = self.released.counted.min(left);
        Some((wire, reason))
    }

    /// How many packets the policy marked so far.
    pub(super) fn marked(&self) -> u64 {
        match &self.packets {
            Packets::Fifo(_) => 0,
            Packets::Ordered(ordered) => ordered.queue.marked(),
        }
    }
}

/// Apart, so that the plain queue's way is short.
impl<P: Packet> Ordered<P> {
    #[inline(never)]
    fn offer(&mut self, now: Time, held: Held<P>) -> Result<(), Held<P>> {
        let (flow, wire) = (held.flow, held.wire);
        match self.queue.enqueue(now, flow, held) {
            Admit::Queued => {
                self.unpaid += u64::from(wire);
                Ok(())
            }
            Admit::Refused(_, reason) if reason.is_early() => {
                self.unpaid += u64::from(wire);
                self.refused = Some((wire, reason));
                Ok(())
            }
            Admit::Refused(held, _) => Err(held),
        }
    }

    #[inline(never)]
    fn pop(&mut self, now: Time) -> Option<Held<P>> {
        Some(self.queue.dequeue(now)?.packet)
    }

    /// A permit more than the `given` ones: its worth.
    #[inline(never)]
    fn permit(&mut self, given: usize) -> Option<u32> {
        let rest = self.queue.packets().checked_sub(given).filter(|rest| *rest > 0)?;
        let worth = if given == 0 {
            let first = self.queue.peek()?.packet.wire;
            self.unpaid.saturating_sub(self.queue.bytes().saturating_sub(u64::from(first)))
        } else {
            self.unpaid / rest as u64
        };
        let worth = u32::try_from(worth).unwrap_or(u32::MAX);
        self.unpaid -= u64::from(worth);
        Some(worth)
    }

    /// Of `given` permits all but `left` are worth nothing any more.
    fn revoke(&mut self, given: usize, left: usize) {
        let paid = self.queue.bytes().saturating_sub(self.unpaid);
        self.unpaid += paid - paid * left as u64 / given as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::{Limit, PolicyConfig};
    use crate::ip::{Header, testing};
    use crate::options::Family;
    use crate::queue::DisciplineConfig;
    use crate::ring::protection::Path;
    use crate::ring::{Class, NodeId, Ringlet};
    use alloc::vec::Vec;

    fn queue<P: Packet>(discipline: DisciplineConfig, buffer: PolicyConfig) -> OutputQueue<P> {
        let mut config = Config::default();
        (config.discipline, config.buffer, config.limit) = (discipline, buffer, Limit::Bytes(100_000));
        OutputQueue::new(&config, 1).unwrap()
    }

    fn held<P>(flow: u32, wire: u32, packet: P) -> Held<P> {
        let path =
            Path { ingress: NodeId::at(0), egress: NodeId::at(1), ringlet: Ringlet::Zero, wrapped: false, ttl: 8 };
        Held { head: Head { path, class: Class::C, shares: true }, wire, flow: FlowNumber(flow), packet }
    }

    /// Every discipline, with packets of unlike sizes of two flows. First all are released at once and most of that is
    /// taken back; then one is released as one goes.
    #[test]
    fn what_permits_are_worth_is_what_is_sent() {
        for discipline in DisciplineConfig::MEMBERS.iter().map(|member| (member.plain)()) {
            let mut queue = queue::<u32>(discipline, PolicyConfig::LongestQueue);
            let mut came = 0;
            for number in 0..20 {
                for (flow, wire) in [(1, 64), (2, 1500), (3, 700)] {
                    assert!(queue.offer(Time::ZERO, held(flow, wire, number), 100_000).is_ok());
                    came += u64::from(wire);
                }
            }
            let all: Vec<(u32, bool)> = core::iter::from_fn(|| queue.release(true)).collect();
            assert_eq!(all.iter().map(|(worth, _)| u64::from(*worth)).sum::<u64>(), came, "{discipline}");
            assert!(all.iter().all(|(_, fresh)| *fresh) && !queue.waits());
            queue.take_back(2);
            let (mut paid, mut sent, mut fresh) = (came / 30, 0, 0);
            for _ in 0..2 {
                sent += queue.pop(Time::ZERO).map_or(0, |held| u64::from(held.wire));
            }
            assert!(!queue.has_released(), "{discipline}");
            for number in 0..1000 {
                let Some((worth, first)) = queue.release(true) else { panic!("{discipline}: nothing waits") };
                let held = queue.pop(Time::ZERO).expect("one is released");
                (paid, sent, fresh) = (paid + u64::from(worth), sent + u64::from(held.wire), fresh + u32::from(first));
                assert!(sent.abs_diff(paid) <= 3_100, "{discipline}: {sent} sent, {paid} paid");
                assert!(queue.offer(Time::ZERO, self::held(held.flow.0, held.wire, number), 100_000).is_ok());
            }
            assert_eq!(fresh, 1000 - 58, "{discipline}: what was released before counts no second time");
        }
    }

    #[test]
    fn a_better_packet_that_comes_after_the_release_goes_first_and_the_next_permit_makes_up_for_it() {
        let mut queue = queue::<u32>("sfq".parse().unwrap(), PolicyConfig::LongestQueue);
        for number in 0..3 {
            assert!(queue.offer(Time::ZERO, held(1, 1000, number), 100_000).is_ok());
        }
        assert_eq!(queue.release(true), Some((1000, true)));
        assert_eq!(queue.pop(Time::ZERO).map(|held| held.packet), Some(0));
        assert_eq!(queue.release(true), Some((1000, true)));
        assert!(queue.offer(Time::ZERO, held(2, 100, 7), 100_000).is_ok());
        assert_eq!(queue.pop(Time::ZERO).map(|held| held.packet), Some(7), "its flow has had nothing");
        assert_eq!(queue.release(true), Some((100, true)), "900 were paid already");
        assert_eq!(queue.release(true), Some((1000, true)));
        assert!(queue.release(true).is_none());
    }

    #[test]
    fn a_packet_is_told_apart_by_what_stands_in_it() {
        let mut packet = testing::udp4(1, 2, 3, 4, &[0; 100]);
        packet[1] = 46 << 2 | 1;
        testing::seal4(&mut packet);
        let (one, other) = (held(1, 128, packet), held(1, 128, testing::udp4(3, 4, 3, 4, &[0; 100])));
        assert_ne!(one.host(End::Source), other.host(End::Source));
        assert_ne!(one.host(End::Source), one.host(End::Destination));
        assert_eq!(one.host(End::Source), host_of(one.packet.bytes(), End::Source));
        assert_eq!((one.class(), other.class()), (class_of(one.packet.bytes()), class_of(other.packet.bytes())));
        assert!(one.class() != other.class() && one.is_scalable() && !other.is_scalable());
    }

    #[test]
    fn what_is_taken_back_is_worth_what_it_was_and_an_empty_queue_owes_nothing() {
        let mut queue = queue::<u32>("sfq".parse().unwrap(), PolicyConfig::LongestQueue);
        for number in 0..4 {
            assert!(queue.offer(Time::ZERO, held(1, 1000, number), 100_000).is_ok());
        }
        for _ in 0..4 {
            assert_eq!(queue.release(true), Some((1000, true)));
        }
        queue.take_back(3);
        assert_eq!(queue.release(true), Some((1000, false)), "of four paid ones three are left");
        queue.take_back(0);
        assert!(!queue.has_released() && queue.waits());
        let worth: Vec<_> = core::iter::from_fn(|| queue.release(true)).collect();
        assert_eq!(worth, [(1000, false); 4]);
        let left: Vec<_> = core::iter::from_fn(|| queue.withdraw(Time::ZERO)).map(|held| held.packet).collect();
        assert_eq!((left, queue.is_empty(), queue.has_released()), (alloc::vec![0, 1, 2, 3], true, false));
        assert!(queue.offer(Time::ZERO, held(1, 300, 4), 100_000).is_ok() && !queue.is_empty());
        assert_eq!(queue.release(true), Some((300, true)));
    }

    #[test]
    fn what_is_withdrawn_unpaid_is_paid_by_nobody_else() {
        let mut queue = queue::<u32>("sfq".parse().unwrap(), PolicyConfig::LongestQueue);
        assert!(queue.offer(Time::ZERO, held(1, 1000, 0), 100_000).is_ok());
        assert!(queue.withdraw(Time::ZERO).is_some());
        assert!(queue.offer(Time::ZERO, held(1, 300, 1), 100_000).is_ok());
        assert_eq!(queue.release(true), Some((300, true)));
    }

    #[test]
    fn what_a_policy_does_not_let_in_though_there_is_room_has_come_and_was_dropped() {
        let mut queue =
            queue::<u32>("sfq".parse().unwrap(), "early-random:probability=1,threshold=0.5".parse().unwrap());
        let mut dropped = 0;
        for number in 0..100 {
            assert!(queue.offer(Time::ZERO, held(1, 1000, number), 100_000).is_ok(), "it is not given back");
            while let Some((wire, reason)) = queue.poll_dropped() {
                assert!(wire == 1000 && reason.is_early());
                dropped += 1;
            }
        }
        assert!((45..=55).contains(&dropped), "{dropped}");
        let worth: Vec<u32> = core::iter::from_fn(|| queue.release(true)).map(|(worth, _)| worth).collect();
        assert_eq!(worth, alloc::vec![1000; 100 - dropped]);
    }

    #[test]
    fn what_finds_no_room_is_given_back() {
        let mut queue = queue::<u32>("sfq".parse().unwrap(), PolicyConfig::DropTail);
        let taken = (0..200).filter(|number| queue.offer(Time::ZERO, held(1, 1000, *number), 100_000).is_ok()).count();
        assert_eq!((taken, queue.poll_dropped()), (100, None));
    }

    #[test]
    fn what_a_policy_evicts_was_not_released_while_there_is_another() {
        let mut queue = queue::<u32>("drr".parse().unwrap(), PolicyConfig::LongestQueue);
        for number in 0..100 {
            assert!(queue.offer(Time::ZERO, held(1, 1000, number), 100_000).is_ok());
        }
        for _ in 0..10 {
            assert_eq!(queue.release(true), Some((1000, true)));
        }
        assert!(queue.offer(Time::ZERO, held(2, 1000, 100), 100_000).is_ok());
        assert_eq!(queue.poll_dropped(), Some((1000, Reason::Longest)));
        assert_eq!(queue.poll_dropped(), None);
        let left: u32 = core::iter::from_fn(|| queue.release(true)).map(|(worth, _)| worth).sum();
        assert_eq!(left, 90_000, "of a hundred that wait ten were released");
    }

    #[test]
    fn codel_marks_packets_that_can_be_marked_and_drops_the_others_by_name() {
        let codel: PolicyConfig = "codel".parse().unwrap();
        for (tos, marks) in [(2, true), (0, false)] {
            let mut queue = queue::<Vec<u8>>(DisciplineConfig::Fifo, codel);
            let (mut marked, mut standing) = (0, 0);
            for ms in 0..2_000 {
                let now = Time::from_millis(ms);
                let mut packet = testing::udp4(1, 2, 3, 4, &[0; 100]);
                packet[1] = tos;
                testing::seal4(&mut packet);
                assert!(queue.offer(now, held(1, 128, packet), 100_000).is_ok());
                let _ = queue.release(true);
                if ms >= 50 && queue.has_released() {
                    let held = queue.pop(now).expect("50 ms wait");
                    let header = Header::parse(&held.packet, held.packet.len()).unwrap();
                    assert_eq!(crate::ip::checksum::of(&held.packet[..20]), 0);
                    marked += u64::from(header.tos & 3 == ecn::CE);
                }
                while let Some((_, reason)) = queue.poll_dropped() {
                    assert_eq!(reason, Reason::Standing);
                    standing += 1;
                }
            }
            assert_eq!(queue.marked(), marked);
            assert_eq!((marked > 5, standing > 5), (marks, !marks), "{marked} marked, {standing} dropped");
        }
    }
}
