//! The three uses of one causal discipline: fair queue, load sharer, resequencer (striping §3.2, §4).

use super::Causal;
use crate::packet::Packet;
use crate::units::ChannelId;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Shares load: says on which channel each packet goes (striping Figure 3).
#[derive(Clone, Debug)]
pub struct LoadSharer<C> {
    discipline: C,
}

impl<C: Causal> LoadSharer<C> {
    /// A load sharer in state s0 of `discipline`.
    pub fn new(discipline: C) -> LoadSharer<C> {
        LoadSharer { discipline }
    }

    /// The channel for `packet`, which counts as sent there.
    pub fn assign<P: Packet>(&mut self, packet: &P) -> ChannelId {
        let channel = self.discipline.select();
        self.discipline.update(packet.size());
        channel
    }

    /// The discipline's state.
    pub fn discipline(&self) -> &C {
        &self.discipline
    }
}

/// Restores the order that a [`LoadSharer`] of the same discipline took apart, while nothing is lost: logical
/// reception (striping §4, theorem 4.1). It waits for the channel whose turn it is.
///
/// Buffers are as large as the skew asks; [`stripe::Receiver`](crate::stripe::Receiver) bounds them and survives loss.
#[derive(Clone, Debug)]
pub struct Resequencer<C, P> {
    discipline: C,
    queue: Vec<VecDeque<P>>,
}

impl<C: Causal, P: Packet> Resequencer<C, P> {
    /// A resequencer in state s0 of `discipline`.
    pub fn new(discipline: C) -> Resequencer<C, P> {
        Resequencer { discipline, queue: (0..ChannelId::LIMIT).map(|_| VecDeque::new()).collect() }
    }

    /// Physical reception: `packet` arrived on `channel`. A channel number out of range hands the packet back.
    ///
    /// # Errors
    /// The packet, when `channel` is not below [`ChannelId::LIMIT`].
    pub fn handle(&mut self, channel: ChannelId, packet: P) -> Result<(), P> {
        match self.queue.get_mut(channel.index()) {
            Some(queue) => {
                queue.push_back(packet);
                Ok(())
            }
            None => Err(packet),
        }
    }

    /// Logical reception: the next packet in the sender's order, with its channel, if it is here already.
    pub fn poll(&mut self) -> Option<(ChannelId, P)> {
        let channel = self.discipline.select();
        let packet = self.queue.get_mut(channel.index())?.pop_front()?;
        self.discipline.update(packet.size());
        Some((channel, packet))
    }

    /// How many packets wait.
    pub fn len(&self) -> usize {
        self.queue.iter().map(VecDeque::len).sum()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.queue.iter().all(VecDeque::is_empty)
    }

    /// The discipline's state.
    pub fn discipline(&self) -> &C {
        &self.discipline
    }
}

/// Shares one channel among queues (striping Figure 2). While every queue is backlogged it is the paper's causal
/// execution; an empty queue is passed over, so it is work-conserving.
#[derive(Clone, Debug)]
pub struct FairQueue<C, P> {
    inner: Resequencer<C, P>,
    len: usize,
}

impl<C: Causal, P: Packet> FairQueue<C, P> {
    /// An empty fair queue in state s0 of `discipline`.
    pub fn new(discipline: C) -> FairQueue<C, P> {
        FairQueue { inner: Resequencer::new(discipline), len: 0 }
    }

    /// Appends `packet` to `queue`.
    ///
    /// # Errors
    /// The packet, when `queue` is not below [`ChannelId::LIMIT`].
    pub fn enqueue(&mut self, queue: ChannelId, packet: P) -> Result<(), P> {
        self.inner.handle(queue, packet)?;
        self.len += 1;
        Ok(())
    }

    /// The next packet to send and its queue. `None` when no member of the discipline has one.
    pub fn dequeue(&mut self) -> Option<(ChannelId, P)> {
        if self.len == 0 {
            return None;
        }
        for _ in 0..=ChannelId::LIMIT {
            if let Some(served) = self.inner.poll() {
                self.len -= 1;
                return Some(served);
            }
            self.inner.discipline.pass();
        }
        None
    }

    /// How many packets wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The discipline's state.
    pub fn discipline(&self) -> &C {
        &self.inner.discipline
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causal::{ChannelSet, Grr, Rfq, Rr, Srr};
    use crate::units::Bytes;
    use std::vec;

    #[test]
    fn every_discipline_passes_empty_queues_and_serves_all() {
        fn serve<C: Causal>(discipline: C) {
            let mut queue = FairQueue::new(discipline);
            for i in [3u8, 1, 3, 3, 1] {
                queue.enqueue(ChannelId(i), vec![i; 10]).unwrap();
            }
            assert_eq!((queue.len(), queue.is_empty()), (5, false));
            let mut served = vec![];
            while let Some((channel, packet)) = queue.dequeue() {
                assert_eq!(channel.0, packet[0]);
                served.push(channel.0);
            }
            served.sort_unstable();
            assert_eq!(served, [1, 1, 3, 3, 3]);
            assert_eq!((queue.len(), queue.is_empty()), (0, true));
            assert_eq!(queue.enqueue(ChannelId(64), vec![0]), Err(vec![0]));
        }
        let set = ChannelSet::of(&[100, 200, 300, 400], Bytes::new(100)).unwrap();
        serve(Srr::new(&set).unwrap());
        serve(Rr::new(&set).unwrap());
        serve(Grr::new(&set).unwrap());
        serve(Rfq::new(&set, 9).unwrap());
    }

    #[test]
    fn what_waits_for_its_turn_is_counted_until_it_is_taken() {
        let set = ChannelSet::of(&[100, 100], Bytes::new(100)).unwrap();
        let mut order = Resequencer::new(Srr::new(&set).unwrap());
        assert!(order.is_empty());
        order.handle(ChannelId(1), vec![1; 100]).unwrap();
        order.handle(ChannelId(1), vec![1; 100]).unwrap();
        assert_eq!((order.poll(), order.len(), order.is_empty()), (None, 2, false));
        order.handle(ChannelId(0), vec![0; 100]).unwrap();
        assert_eq!([order.poll(), order.poll()].map(|taken| taken.map(|(channel, _)| channel.0)), [Some(0), Some(1)]);
        assert_eq!((order.poll(), order.len()), (None, 1));
    }
}
