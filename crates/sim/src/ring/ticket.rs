//! What core's node holds in a simulation: which packet it is and how long, and nothing of its bytes.
//!
//! A node drops packets in many places. Whichever it drops, the [`Ledger`] hears of: a ticket that ends anywhere but at
//! [`Ticket::redeem`] was dropped. So no packet is lost to the count of packets.

use crate::engine::pool::Handle;
use fairspan_core::packet::Packet;
use fairspan_core::units::Bytes;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Stands for a packet in the ring's nodes and links.
#[derive(Debug)]
pub(crate) struct Ticket {
    /// `None` once it was redeemed.
    handle: Option<Handle>,
    size: u32,
    ledger: Arc<Ledger>,
}

/// Packets dropped since it was last read.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Mostly there are none, and this is cheaper to ask.
    count: AtomicUsize,
    dropped: Mutex<Vec<Handle>>,
}

impl Ledger {
    /// Whether there is anything.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// A packet that was dropped.
    pub(crate) fn poll_dropped(&self) -> Option<Handle> {
        if self.is_empty() {
            return None;
        }
        // Nothing panics while it is held.
        let handle = self.dropped.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        self.count.fetch_sub(1, Ordering::Relaxed);
        Some(handle)
    }

    fn push(&self, handle: Handle) {
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner).push(handle);
        self.count.fetch_add(1, Ordering::Relaxed);
    }
}

impl Ticket {
    /// For a packet of `size` bytes.
    pub(crate) fn new(handle: Handle, size: u32, ledger: &Arc<Ledger>) -> Ticket {
        Ticket { handle: Some(handle), size, ledger: Arc::clone(ledger) }
    }

    /// The packet, which nobody accounts for any more.
    #[inline]
    pub(crate) fn redeem(mut self) -> Option<Handle> {
        self.handle.take()
    }

    /// The packet.
    #[inline]
    pub(crate) fn handle(&self) -> Option<Handle> {
        self.handle
    }

    /// Its length.
    #[inline]
    pub(crate) fn length(&self) -> u32 {
        self.size
    }
}

impl Drop for Ticket {
    #[inline]
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            self.ledger.push(handle);
        }
    }
}

impl Packet for Ticket {
    fn bytes(&self) -> &[u8] {
        &[]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut []
    }

    fn size(&self) -> Bytes {
        Bytes::new(u64::from(self.size))
    }

    fn footprint(&self) -> usize {
        self.size as usize
    }

    fn strip(&mut self, n: usize) {
        self.size = self.size.saturating_sub(n as u32);
    }

    fn truncate(&mut self, n: usize) {
        self.size = self.size.min(n as u32);
    }

    /// There is one of each packet.
    fn duplicate(&self) -> Option<Ticket> {
        None
    }

    /// A node makes no packets.
    fn from_bytes(_bytes: &[u8]) -> Option<Ticket> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_that_ends_unredeemed_is_told_once_and_a_redeemed_one_is_not() {
        let ledger = Arc::new(Ledger::default());
        drop(Ticket::new(Handle(7), 1000, &ledger));
        assert_eq!(Ticket::new(Handle(8), 1000, &ledger).redeem(), Some(Handle(8)));
        assert!(!ledger.is_empty());
        assert_eq!((ledger.poll_dropped(), ledger.poll_dropped()), (Some(Handle(7)), None));
        assert!(ledger.is_empty());
    }
}
