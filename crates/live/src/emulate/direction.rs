//! One direction of an emulated link: the frames that wait for it, those under way, and the memory for both.
//!
//! First in, first out with drop-tail, a frame's fate is known when it arrives, and it lies in order of departure from then
//! on. With another discipline or policy it waits in the link's [`Server`], which is asked again whenever a transmission
//! has ended by then: so that a frame that was read late still meets the queue that it would have met in time.

use super::counters::{Counters, Fault};
use crate::sys::packet::VNET_HEADER;

use fairspan_core::flow::{FlowHash, Frame, Layer, ethernet};
use fairspan_core::link::{DropReason, Served, Server};
use fairspan_core::queue::{self, End, Parcel};
use fairspan_core::units::{FlowNumber, Time};
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

/// Length of the common buffers; longer ones are not kept for reuse.
const BUFFER: usize = 2048;
const KEPT: usize = 16 * 1024;

/// One direction of a link.
pub(super) struct Direction {
    /// Index of the port where frames arrive, and of the one where they leave.
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) server: Server<Held>,
    /// Tells flows apart, for disciplines that do.
    pub(super) hash: FlowHash,
    pub(super) counters: Arc<Counters>,
    /// Frames under way in order of departure.
    pub(super) line: VecDeque<Entry>,
    /// Frames under way whose order may still change (`reorder` only).
    pub(super) unordered: BinaryHeap<Entry>,
    pub(super) accepted: u64,
}

/// A frame that waits: virtio-net header and frame, and the bytes that it counts.
#[derive(Debug)]
pub(super) struct Held {
    bytes: Vec<u8>,
    counted: u32,
}

impl Held {
    fn frame(&self) -> &[u8] {
        self.bytes.get(VNET_HEADER..).unwrap_or_default()
    }

    /// Its flow.
    fn flow(&self, hash: &FlowHash) -> FlowNumber {
        let bytes = self.frame();
        hash.flow(&Frame { bytes, len: bytes.len(), layer: Layer::Ethernet }).number()
    }
}

impl Parcel for Held {
    fn size(&self) -> u32 {
        self.counted
    }

    /// Sets the ECN field of the IP packet within, if that is capable of it.
    fn mark(&mut self) -> bool {
        ethernet::mark(self.bytes.get_mut(VNET_HEADER..).unwrap_or_default())
    }

    fn host(&self, end: End) -> u128 {
        queue::host_of_frame(self.frame(), end)
    }

    fn class(&self) -> u8 {
        queue::class_of_frame(self.frame())
    }

    fn is_scalable(&self) -> bool {
        queue::is_scalable_frame(self.frame())
    }
}

/// A frame under way: virtio-net header and frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) due: Time,
    number: u64,
    pub(super) bytes: Vec<u8>,
}

impl Ord for Entry {
    /// The greatest entry is the one that leaves first.
    fn cmp(&self, other: &Entry) -> std::cmp::Ordering {
        (other.due, other.number).cmp(&(self.due, self.number))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Direction {
    /// A frame of `len` wire bytes arrives; `fill` copies it into a buffer with room for `room` bytes.
    pub(super) fn arrive(
        &mut self,
        at: Time,
        len: usize,
        room: usize,
        memory: &mut Memory,
        fill: impl FnOnce(&mut Vec<u8>),
    ) {
        let holds = self.server.holds_packets();
        let mut due = Time::ZERO;
        if !holds {
            match self.server.pass(at, len) {
                Ok(passage) => due = passage.due,
                Err(why) => return self.counters.dropped(why),
            }
        }
        let Some(mut bytes) = memory.take(room) else { return self.counters.fault(Fault::Memory, 1) };
        fill(&mut bytes);
        if !holds {
            return self.accept(due, bytes);
        }
        self.advance(at, memory);
        let counted = u32::try_from(self.server.schedule().counted(len)).unwrap_or(u32::MAX);
        let held = Held { bytes, counted };
        let flow = held.flow(&self.hash);
        if let Err((held, why)) = self.server.offer(at, flow, held) {
            self.drop(held, why, memory);
        }
        self.drop_evicted(memory);
        if self.server.is_idle() {
            self.serve(at, memory);
        }
    }

    /// Begins the transmissions that begin by `now`.
    pub(super) fn advance(&mut self, now: Time, memory: &mut Memory) {
        while let Some(at) = self.server.next_ready().filter(|at| *at <= now) {
            self.serve(at, memory);
        }
    }

    /// The link is free at `at`: begins the next transmission.
    fn serve(&mut self, at: Time, memory: &mut Memory) {
        loop {
            let served = self.server.serve(at);
            self.drop_evicted(memory);
            match served {
                Some(Served { packet, passage: Ok(passage) }) => return self.accept(passage.due, packet.bytes),
                Some(Served { packet, passage: Err(why) }) => self.drop(packet, why, memory),
                None => return,
            }
            if !self.server.is_idle() {
                return;
            }
        }
    }

    fn drop_evicted(&mut self, memory: &mut Memory) {
        while let Some((held, why)) = self.server.poll_dropped() {
            self.drop(held, why, memory);
        }
    }

    fn drop(&mut self, held: Held, why: DropReason, memory: &mut Memory) {
        self.counters.dropped(why);
        memory.give_back(held.bytes);
    }

    fn accept(&mut self, due: Time, bytes: Vec<u8>) {
        let entry = Entry { due, number: self.accepted, bytes };
        self.accepted += 1;
        if self.server.schedule().profile().reorder {
            self.unordered.push(entry);
        } else {
            self.line.push_back(entry);
        }
    }

    /// When the next frame is to leave.
    pub(super) fn next_due(&self) -> Option<Time> {
        let unordered = self.unordered.peek().map(|entry| entry.due);
        let ordered = self.line.front().map(|entry| entry.due);
        ordered.into_iter().chain(unordered).min()
    }

    /// When there is something to do: a frame is to leave, or the link takes the next one.
    pub(super) fn next_event(&self) -> Option<Time> {
        self.next_due().into_iter().chain(self.server.next_ready()).min()
    }
}

/// Buffers for frames under way, reused, and bounded in total.
pub(super) struct Memory {
    free: Vec<Vec<u8>>,
    used: usize,
    limit: usize,
}

impl Memory {
    pub(super) fn new(limit: usize) -> Memory {
        Memory { free: Vec::new(), used: 0, limit }
    }

    /// An empty buffer with room for `len` bytes, or `None` at the limit.
    fn take(&mut self, len: usize) -> Option<Vec<u8>> {
        let mut buffer = match self.free.pop() {
            Some(buffer) => buffer,
            None if self.used + BUFFER.max(len) > self.limit => return None,
            None => Vec::with_capacity(BUFFER),
        };
        buffer.clear();
        buffer.reserve(len);
        self.used += buffer.capacity();
        Some(buffer)
    }

    pub(super) fn give_back(&mut self, buffer: Vec<u8>) {
        self.used = self.used.saturating_sub(buffer.capacity());
        if buffer.capacity() <= KEPT {
            self.free.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairspan_core::ip::ecn;
    use fairspan_core::link::{Capacity, Profile};
    use fairspan_core::units::{Rate, Span};

    fn direction(discipline: &str, buffer: &str) -> Direction {
        let profile = Profile {
            capacity: Capacity::Constant(Rate::from_mbit(8)),
            discipline: discipline.parse().expect("a discipline"),
            buffer: buffer.parse().expect("a policy"),
            ..Profile::default()
        };
        Direction {
            from: 0,
            to: 1,
            server: Server::new(profile, 1, 1).expect("valid"),
            hash: FlowHash::new(1),
            counters: Arc::default(),
            line: VecDeque::new(),
            unordered: BinaryHeap::new(),
            accepted: 0,
        }
    }

    /// A virtio-net header and a frame of 1000 bytes with an IPv4 packet to `port`, ECN-capable.
    fn frame(port: u8) -> Vec<u8> {
        let mut bytes = vec![0; VNET_HEADER + 1000];
        let ip = &mut bytes[VNET_HEADER + 12..];
        ip[..2].copy_from_slice(&[0x08, 0x00]);
        ip[2..14].copy_from_slice(&[0x45, ecn::ECT_0, 0x03, 0xda, 0, 0, 0, 0, 64, 17, 0, 0]);
        ip[14..22].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        ip[25] = port;
        let sum = fairspan_core::ip::checksum::of(&ip[2..22]);
        ip[12..14].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    #[test]
    fn a_fair_queue_sends_the_frame_of_another_flow_before_those_that_wait() {
        let order = |discipline: &str| {
            let (mut direction, mut memory) = (direction(discipline, "drop-tail"), Memory::new(1 << 20));
            for port in [1, 1, 1, 1, 2] {
                direction.arrive(Time::ZERO, 1000, 1100, &mut memory, |buffer| *buffer = frame(port));
            }
            direction.advance(Time::from_millis(10), &mut memory);
            let line = direction.line.iter();
            line.map(|entry| (entry.due.since(Time::ZERO), entry.bytes[VNET_HEADER + 37])).collect::<Vec<_>>()
        };
        let ms = Span::from_millis;
        assert_eq!(order("fifo"), [(ms(1), 1), (ms(2), 1), (ms(3), 1), (ms(4), 1), (ms(5), 2)]);
        assert_eq!(order("round-robin"), [(ms(1), 1), (ms(2), 1), (ms(3), 2), (ms(4), 1), (ms(5), 1)]);
        assert_eq!(order("sfq"), [(ms(1), 1), (ms(2), 2), (ms(3), 1), (ms(4), 1), (ms(5), 1)]);
    }

    #[test]
    fn codel_marks_the_frames_of_a_standing_queue_with_a_valid_checksum_and_gives_all_memory_back() {
        let (mut direction, mut memory) = (direction("fifo", "codel"), Memory::new(1 << 24));
        let mut marked = 0;
        for n in 0..2000u64 {
            // Eleven frames in the time of ten.
            let at = Time::from_nanos(n * 909_091);
            direction.arrive(at, 1000, 1100, &mut memory, |buffer| *buffer = frame(1));
            for entry in direction.line.drain(..) {
                let ip = &entry.bytes[VNET_HEADER + 14..VNET_HEADER + 34];
                assert_eq!(fairspan_core::ip::checksum::of(ip), 0);
                marked += u32::from(ip[1] & 3 == ecn::CE);
            }
        }
        assert!(marked > 10, "{marked}");
        assert_eq!(direction.counters.snapshot().drops.total(), 0);
        direction.advance(Time::MAX, &mut memory);
        assert_eq!(direction.server.held_packets(), 0);
        assert_eq!(direction.next_event(), direction.next_due());
    }

    #[test]
    fn what_a_policy_drops_is_counted_and_its_buffer_used_again() {
        let (mut direction, mut memory) = (direction("fifo", "drop-front"), Memory::new(1 << 24));
        for _ in 0..3000 {
            direction.arrive(Time::ZERO, 1000, 1100, &mut memory, |buffer| buffer.extend_from_slice(&frame(1)));
        }
        // One is in transmission and a thousand wait.
        assert_eq!(direction.counters.snapshot().drops.queue, 3000 - 1001);
        assert_eq!(memory.used, 1001 * BUFFER);
    }

    #[test]
    fn memory_is_bounded_and_reused() {
        let mut memory = Memory::new(2 * BUFFER);
        let a = memory.take(100).expect("room");
        let b = memory.take(100).expect("room");
        assert!(memory.take(100).is_none());
        memory.give_back(a);
        assert!(memory.take(1500).is_some());
        memory.give_back(b);
    }
}
