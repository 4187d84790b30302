//! What waits to leave on one channel: sealed datagrams, in batches that each leave by one call.

use crate::channel::udp::{Batch, Destination, Sent, UdpSocket};
use std::collections::VecDeque;

/// Empty batches, 64 kB each, for all channels of a daemon; as many as ever waited at once.
pub(super) type Pool = Vec<Batch>;

/// Most batches that wait on one channel. The bond stops when told that the channel is blocked; what it sends all the
/// same, and more than this holds, is dropped.
const LIMIT: usize = 16;

/// The datagrams that wait on one channel.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    batches: VecDeque<Batch>,
}

impl Outbox {
    /// Adds a datagram of `len` bytes that `fill` writes. False when it refuses, or too much waits.
    pub(super) fn push(
        &mut self,
        pool: &mut Pool,
        destination: Destination,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> bool {
        if self.batches.back_mut().and_then(|batch| batch.room(destination, len)).is_none() {
            if self.batches.len() >= LIMIT {
                return false;
            }
            self.batches.push_back(pool.pop().unwrap_or_default());
        }
        let Some(batch) = self.batches.back_mut() else { return false };
        match batch.room(destination, len).and_then(fill) {
            Some(len) => {
                batch.commit(len);
                true
            }
            None => false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Sends what waits, as far as the socket takes it. [`Sent::Done`] when nothing waits any more; the worst of the
    /// others is told otherwise, and after [`Sent::Down`] nothing waits either.
    pub(super) fn flush(&mut self, pool: &mut Pool, socket: &mut UdpSocket) -> Sent {
        let mut outcome = Sent::Done;
        while let Some(batch) = self.batches.front_mut() {
            match socket.send(batch) {
                Sent::Done => {}
                too_big @ Sent::TooBig { .. } => outcome = too_big,
                full @ (Sent::Blocked | Sent::Congested) => return full,
                Sent::Down => {
                    self.clear(pool);
                    return Sent::Down;
                }
            }
            pool.extend(self.batches.pop_front());
        }
        outcome
    }

    /// Forgets what waits.
    pub(super) fn clear(&mut self, pool: &mut Pool) {
        for mut batch in self.batches.drain(..) {
            batch.clear();
            pool.push(batch);
        }
    }
}
