//! First in, first out, over all flows.
//!
//! Cost: O(1). Invariants: what waits is within the limit once `poll_dropped` is drained; order is that of arrival.
//! Longest-queue drop finds one queue here, whose newest packet is the one that arrives: tail drop.

use super::{Admit, Buffer, Dropped, FlowId, Limit, QueueDiscipline, Reason};
use crate::units::Time;
use alloc::collections::VecDeque;

/// One queue for all.
#[derive(Clone, Debug)]
pub struct Fifo<P> {
    queue: VecDeque<(FlowId, P, u32)>,
    bytes: u64,
    limit: Limit,
    front: bool,
}

impl<P> Fifo<P> {
    /// An empty queue.
    pub fn new(limit: Limit, buffer: &Buffer) -> Fifo<P> {
        Fifo { queue: VecDeque::new(), bytes: 0, limit, front: matches!(buffer, Buffer::DropFront) }
    }

    fn take(&mut self) -> Option<(FlowId, P)> {
        let (flow, packet, size) = self.queue.pop_front()?;
        self.bytes -= u64::from(size);
        Some((flow, packet))
    }
}

impl<P> QueueDiscipline<P> for Fifo<P> {
    #[inline]
    fn enqueue(&mut self, _now: Time, flow: FlowId, packet: P, size: u32) -> Admit<P> {
        if self.limit.exceeded(1, u64::from(size)) {
            return Admit::Refused(packet, Reason::TooLarge);
        }
        if !self.front && self.limit.exceeded(self.queue.len() + 1, self.bytes + u64::from(size)) {
            return Admit::Refused(packet, Reason::Full);
        }
        self.queue.push_back((flow, packet, size));
        self.bytes += u64::from(size);
        Admit::Queued
    }

    #[inline]
    fn dequeue(&mut self, _now: Time) -> Option<(FlowId, P)> {
        self.take()
    }

    #[inline]
    fn poll_dropped(&mut self, _now: Time) -> Option<Dropped<P>> {
        if !self.limit.exceeded(self.queue.len(), self.bytes) {
            return None;
        }
        self.take().map(|(flow, packet)| Dropped { flow, packet, reason: Reason::Front })
    }

    fn packets(&self) -> usize {
        self.queue.len()
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn active_flows(&self) -> usize {
        usize::from(!self.queue.is_empty())
    }
}
