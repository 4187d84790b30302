//! Packets in recycled slots.
//!
//! A [`PacketBuf`] owns one slot of memory. Dropping it puts the slot on a free list of the dropping thread, and the
//! next packet of that size class takes it from there: in steady state no packet costs an allocation. The free list
//! is bounded ([`set_free_limit`]); beyond the bound slots go back to the allocator. A slot that crosses threads is
//! freed where it is dropped.
//!
//! Size classes (bytes): 256, 1664, 10240, 66048. A 1500-byte packet with the heads of a channel fits the second, a
//! 9000-byte one the third, any IP packet the last. What is larger gets an exact slot that is not recycled.

use crate::offload::checksum;
use fairspan_core::packet::Packet;
use fairspan_core::units::Bytes;
use std::cell::RefCell;
use std::fmt;

/// Slot sizes of the classes, in bytes, ascending.
pub const SLOT_SIZES: [usize; 4] = [256, 1664, 10_240, 66_048];

/// Bytes of room in front of a packet that is received: compressed headers become longer by less than that.
const ROOM: usize = 64;

/// Bytes that a thread's free list holds at most, unless [`set_free_limit`] says otherwise.
pub const DEFAULT_FREE_LIMIT: Bytes = Bytes::new(16 << 20);

/// A packet in a slot of the pool.
///
/// The bytes that count are a window of the slot: [`strip`](PacketBuf::strip) moves its start,
/// [`truncate`](PacketBuf::truncate) its end, and neither copies.
pub struct PacketBuf {
    slot: Box<[u8]>,
    start: u32,
    end: u32,
    /// The TCP or UDP checksum field holds only the (folded, not complemented) sum of the pseudo header; the rest
    /// is still to be added. Set on packets that the host's kernel left to the device to finish, so that a channel
    /// that authenticates its content may carry the flag instead of the sum. Before such a packet is sent in the
    /// clear, [`complete_checksum`] must run.
    pub checksum_partial: bool,
}

impl PacketBuf {
    /// A packet of `len` bytes whose contents are whatever the slot held before: to be overwritten.
    ///
    /// # Panics
    /// When `len` is 4 GiB or more.
    pub fn with_len(len: usize) -> PacketBuf {
        let end = u32::try_from(len).expect("a packet is shorter than 4 GiB");
        PacketBuf { slot: take(len), start: 0, end, checksum_partial: false }
    }

    /// The same, with room in front for [`prepend`](PacketBuf::prepend) as far as the slot has some to spare: no packet needs a larger slot
    /// for it.
    ///
    /// # Panics
    /// When `len` is 4 GiB or more.
    pub fn with_room(len: usize) -> PacketBuf {
        let mut packet = PacketBuf::with_len(len);
        let room = ROOM.min(packet.slot.len() - len) as u32;
        (packet.start, packet.end) = (room, packet.end + room);
        packet
    }

    /// A packet with the bytes of `bytes`.
    ///
    /// # Panics
    /// When `bytes` is 4 GiB or longer.
    pub fn copy_from(bytes: &[u8]) -> PacketBuf {
        let mut packet = PacketBuf::with_len(bytes.len());
        packet.as_mut_slice().copy_from_slice(bytes);
        packet
    }

    /// A packet with the bytes of `head` followed by those of `tail`.
    pub(crate) fn from_parts(head: &[u8], tail: &[u8]) -> PacketBuf {
        let mut packet = PacketBuf::with_len(head.len() + tail.len());
        let (first, second) = packet.as_mut_slice().split_at_mut(head.len());
        first.copy_from_slice(head);
        second.copy_from_slice(tail);
        packet
    }

    /// The bytes of the packet.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        &self.slot[self.start as usize..self.end as usize]
    }

    /// The bytes of the packet, to change.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.slot[self.start as usize..self.end as usize]
    }

    /// The number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        (self.end - self.start) as usize
    }

    /// Whether no byte is left.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Removes the first `n` bytes; all of them when there are fewer.
    #[inline]
    pub fn strip(&mut self, n: usize) {
        self.start += n.min(self.len()) as u32;
    }

    /// Puts `bytes` in front. The packet takes another slot, and is copied, where its own has no room for them.
    #[inline]
    pub fn prepend(&mut self, bytes: &[u8]) {
        let start = self.start as usize;
        match start.checked_sub(bytes.len()) {
            Some(first) => {
                self.slot[first..start].copy_from_slice(bytes);
                self.start = first as u32;
            }
            None => {
                let checksum_partial = self.checksum_partial;
                *self = PacketBuf::from_parts(bytes, self.as_slice());
                self.checksum_partial = checksum_partial;
            }
        }
    }

    /// Keeps the first `n` bytes; all of them when there are fewer.
    #[inline]
    pub fn truncate(&mut self, n: usize) {
        self.end = self.start + n.min(self.len()) as u32;
    }

    /// The memory that this packet holds: what a memory bound has to count.
    #[inline]
    pub fn slot_bytes(&self) -> Bytes {
        Bytes::from(self.slot.len())
    }
}

impl Drop for PacketBuf {
    #[inline]
    fn drop(&mut self) {
        let slot = std::mem::take(&mut self.slot);
        // While the thread ends its free list may be gone already; the slot is then simply freed.
        let _ = FREE.try_with(|free| {
            if let Ok(mut free) = free.try_borrow_mut() {
                free.put(slot);
            }
        });
    }
}

impl fmt::Debug for PacketBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacketBuf")
            .field("len", &self.len())
            .field("slot", &self.slot.len())
            .field("checksum_partial", &self.checksum_partial)
            .finish()
    }
}

impl AsRef<[u8]> for PacketBuf {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

/// Finishes the TCP or UDP checksum of a packet that is [`checksum_partial`](PacketBuf::checksum_partial) and clears
/// the flag; a packet that is not is left alone. False when the packet is no whole TCP or UDP packet, so that there
/// is nothing to finish; it must then be dropped.
pub fn complete_checksum(packet: &mut PacketBuf) -> bool {
    if !packet.checksum_partial {
        return true;
    }
    if !checksum::complete(packet.as_mut_slice()) {
        return false;
    }
    packet.checksum_partial = false;
    true
}

impl Packet for PacketBuf {
    fn bytes(&self) -> &[u8] {
        self.as_slice()
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.as_mut_slice()
    }

    fn size(&self) -> Bytes {
        Bytes::from(self.len())
    }

    fn footprint(&self) -> usize {
        self.slot_bytes().as_u64() as usize
    }

    fn complete_checksum(&mut self) {
        // A packet too malformed to have one keeps what it has: the far end's host will drop it.
        let _ = complete_checksum(self);
    }

    fn strip(&mut self, n: usize) {
        PacketBuf::strip(self, n);
    }

    fn prepend(&mut self, bytes: &[u8]) -> bool {
        if bytes.len() + self.len() > u32::MAX as usize {
            return false;
        }
        PacketBuf::prepend(self, bytes);
        true
    }

    fn truncate(&mut self, n: usize) {
        PacketBuf::truncate(self, n);
    }

    fn duplicate(&self) -> Option<PacketBuf> {
        let mut copy = PacketBuf::copy_from(self.as_slice());
        copy.checksum_partial = self.checksum_partial;
        Some(copy)
    }

    fn from_bytes(bytes: &[u8]) -> Option<PacketBuf> {
        u32::try_from(bytes.len()).ok()?;
        Some(PacketBuf::copy_from(bytes))
    }
}

/// Sets how many bytes of free slots this thread keeps ([`DEFAULT_FREE_LIMIT`] at first), and frees what exceeds it.
pub fn set_free_limit(limit: Bytes) {
    let _ = FREE.try_with(|free| {
        if let Ok(mut free) = free.try_borrow_mut() {
            free.limit = limit.as_u64() as usize;
            free.trim();
        }
    });
}

/// The bytes of free slots that this thread holds now.
pub fn free_bytes() -> Bytes {
    FREE.try_with(|free| free.try_borrow().map_or(Bytes::ZERO, |free| Bytes::from(free.held))).unwrap_or(Bytes::ZERO)
}

struct FreeList {
    classes: [Vec<Box<[u8]>>; SLOT_SIZES.len()],
    held: usize,
    limit: usize,
}

impl FreeList {
    #[inline]
    fn put(&mut self, slot: Box<[u8]>) {
        let size = slot.len();
        if self.held + size > self.limit {
            return;
        }
        if let Some(class) = SLOT_SIZES.iter().position(|&s| s == size) {
            self.held += size;
            self.classes[class].push(slot);
        }
    }

    fn trim(&mut self) {
        for class in self.classes.iter_mut().rev() {
            while self.held > self.limit {
                let Some(slot) = class.pop() else { break };
                self.held -= slot.len();
            }
            class.shrink_to_fit();
        }
    }
}

thread_local! {
    static FREE: RefCell<FreeList> = const {
        RefCell::new(FreeList {
            classes: [const { Vec::new() }; SLOT_SIZES.len()],
            held: 0,
            limit: DEFAULT_FREE_LIMIT.as_u64() as usize,
        })
    };
}

/// A slot of at least `len` bytes: a recycled one, else a new one.
#[inline]
fn take(len: usize) -> Box<[u8]> {
    let Some(class) = SLOT_SIZES.iter().position(|&size| len <= size) else {
        return vec![0; len].into_boxed_slice();
    };
    let recycled = FREE.try_with(|free| {
        let mut free = free.try_borrow_mut().ok()?;
        let slot = free.classes[class].pop()?;
        free.held -= slot.len();
        Some(slot)
    });
    match recycled {
        Ok(Some(slot)) => slot,
        _ => vec![0; SLOT_SIZES[class]].into_boxed_slice(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each test runs in a thread of its own, so that it sees a free list of its own.
    fn in_fresh_thread(test: impl FnOnce() + Send + 'static) {
        std::thread::spawn(test).join().expect("the test thread");
    }

    #[test]
    fn a_dropped_slot_is_used_again() {
        in_fresh_thread(|| {
            for len in [1, 256, 257, 1500, 9000, 65_535] {
                let packet = PacketBuf::with_len(len);
                let address = packet.as_slice().as_ptr();
                drop(packet);
                let before = free_bytes();
                let again = PacketBuf::with_len(len);
                assert_eq!(again.as_slice().as_ptr(), address, "length {len}");
                assert_eq!(free_bytes() + again.slot_bytes(), before);
            }
        });
    }

    #[test]
    fn strip_and_truncate_move_the_window_and_never_leave_the_slot() {
        let mut packet = PacketBuf::copy_from(b"0123456789");
        packet.strip(3);
        assert_eq!(packet.as_slice(), b"3456789");
        packet.truncate(4);
        assert_eq!(packet.as_slice(), b"3456");
        packet.truncate(9);
        assert_eq!(packet.as_slice(), b"3456");
        packet.strip(usize::MAX);
        assert!(packet.is_empty());
        assert_eq!(PacketBuf::from_parts(b"ab", b"cde").as_slice(), b"abcde");
    }

    #[test]
    fn headers_come_in_front_in_the_same_slot_or_in_another_and_no_packet_has_a_larger_slot_for_that() {
        for len in (0..=300).chain([1500, 1600, 1601, 1664, 9000, 10_240, 66_048, 70_000]) {
            let mut packet = PacketBuf::with_room(len);
            assert_eq!((packet.len(), packet.slot_bytes()), (len, PacketBuf::with_len(len).slot_bytes()), "{len}");
            packet.as_mut_slice().iter_mut().zip((0..=255u8).cycle()).for_each(|(byte, n)| *byte = n);
            packet.checksum_partial = true;
            let (address, before) = (packet.as_slice().as_ptr(), packet.as_slice().to_vec());
            packet.prepend(&[9; 52]);
            assert_eq!(packet.as_slice(), [&[9; 52][..], &before].concat(), "{len}");
            assert!(packet.checksum_partial);
            let room = SLOT_SIZES.iter().find(|size| len <= **size).is_some_and(|size| size - len >= 52);
            assert_eq!(packet.as_slice()[52..].as_ptr() == address, room, "{len}");
        }
    }

    #[test]
    fn a_duplicate_has_the_bytes_and_the_checksum_flag() {
        let mut packet = PacketBuf::copy_from(b"abc");
        packet.checksum_partial = true;
        packet.strip(1);
        let copy = packet.duplicate().expect("memory");
        assert_eq!(copy.as_slice(), b"bc");
        assert!(copy.checksum_partial);
        assert!(!PacketBuf::copy_from(b"abc").checksum_partial);
    }

    #[test]
    fn the_free_list_never_exceeds_its_limit() {
        in_fresh_thread(|| {
            set_free_limit(Bytes::new(10 * 1664 + 100));
            let packets: Vec<_> = (0..100).map(|_| PacketBuf::with_len(1500)).collect();
            drop(packets);
            assert_eq!(free_bytes(), Bytes::new(10 * 1664));
            drop(PacketBuf::with_len(100_000));
            assert_eq!(free_bytes(), Bytes::new(10 * 1664), "an odd size is not kept");
            set_free_limit(Bytes::new(1664 * 3));
            assert_eq!(free_bytes(), Bytes::new(1664 * 3));
            set_free_limit(Bytes::ZERO);
            assert_eq!(free_bytes(), Bytes::ZERO);
        });
    }

    #[test]
    fn a_packet_may_be_dropped_on_another_thread() {
        let packet = PacketBuf::copy_from(&[7; 1500]);
        in_fresh_thread(move || {
            assert_eq!(free_bytes(), Bytes::ZERO);
            drop(packet);
            assert_eq!(free_bytes(), Bytes::new(1664));
        });
    }
}
