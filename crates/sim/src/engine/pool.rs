//! Packets under way, each in a slot; queues and links hold the slots' numbers.
//!
//! What every hop asks for is apart from what only the ends of a flow read: of the thousands of packets in a full queue the
//! first takes 48 bytes each, so that they stay in a core's own cache, and a TCP segment 76 more elsewhere.

use crate::packet::{Body, Packet};
use crate::tcp::segment::{Mark, Segment};
use fairspan_core::units::Time;

/// The number of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Handle(pub u32);

/// What is known of a packet on its way: the fields of [`Packet`] less its segment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slot {
    /// See [`Packet`].
    pub flow: u32,
    /// See [`Packet`].
    pub step: u32,
    /// See [`Packet`].
    pub number: u64,
    /// See [`Packet`].
    pub created: Time,
    /// See [`Packet`].
    pub size: u32,
    /// See [`Packet`].
    pub connection: u32,
    /// See [`Packet`].
    pub reverse: bool,
    /// See [`Packet`].
    pub dscp: u8,
    /// Of a segment: its mark of congestion now. What is none can have none.
    pub mark: Mark,
    /// What it carries.
    pub content: Content,
}

/// What a packet carries: a [`Body`] whose segment lies elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A datagram.
    Datagram,
    /// A TCP segment: [`Pool::segment`].
    Segment,
    /// A frame, by its number.
    Frame(u32),
}

/// All packets under way. It grows to the most that ever were, and then takes no more memory.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    slots: Vec<Slot>,
    /// The segments of slots that have any: as long as the last such slot needs.
    segments: Vec<Segment>,
    free: Vec<u32>,
}

impl Pool {
    /// Packets under way.
    pub fn live(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Takes a packet in.
    #[inline(always)]
    pub fn insert(&mut self, packet: Packet) -> Handle {
        let Packet { flow, reverse, number, size, created, connection, step, dscp, body } = packet;
        let (mark, content) = match &body {
            Body::Datagram => (Mark::default(), Content::Datagram),
            Body::Segment(segment) => (segment.mark, Content::Segment),
            Body::Frame(frame) => (Mark::default(), Content::Frame(*frame)),
        };
        let slot = Slot { flow, step, number, created, size, connection, reverse, dscp, mark, content };
        let handle = match self.free.pop() {
            Some(place) => {
                self.slots[place as usize] = slot;
                Handle(place)
            }
            None => {
                self.slots.push(slot);
                Handle(self.slots.len() as u32 - 1)
            }
        };
        if let Body::Segment(segment) = body {
            self.keep(handle, segment);
        }
        handle
    }

    #[inline]
    fn keep(&mut self, handle: Handle, segment: Segment) {
        let place = handle.0 as usize;
        if self.segments.len() <= place {
            self.segments.resize(place + 1, Segment::default());
        }
        self.segments[place] = segment;
    }

    /// The packet in a slot.
    #[inline]
    pub fn packet(&self, handle: Handle) -> Packet {
        let Slot { flow, step, number, created, size, connection, reverse, dscp, mark, content } = self[handle];
        let body = match content {
            Content::Datagram => Body::Datagram,
            Content::Segment => Body::Segment(Segment { mark, ..self.segments[handle.0 as usize] }),
            Content::Frame(frame) => Body::Frame(frame),
        };
        Packet { flow, reverse, number, size, created, connection, step, dscp, body }
    }

    /// The segment in a slot, where there is one; its mark is the slot's.
    #[inline]
    pub fn segment(&mut self, handle: Handle) -> Option<&mut Segment> {
        (self[handle].content == Content::Segment).then(|| &mut self.segments[handle.0 as usize])
    }

    /// Frees a slot. Its content may be read until the next [`Pool::insert`].
    #[inline]
    pub fn free(&mut self, handle: Handle) {
        self.free.push(handle.0);
    }
}

impl std::ops::Index<Handle> for Pool {
    type Output = Slot;
    #[inline]
    fn index(&self, handle: Handle) -> &Slot {
        &self.slots[handle.0 as usize]
    }
}

impl std::ops::IndexMut<Handle> for Pool {
    #[inline]
    fn index_mut(&mut self, handle: Handle) -> &mut Slot {
        &mut self.slots[handle.0 as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn body() -> impl Strategy<Value = Body> {
        let marks = [Mark::Incapable, Mark::Scalable, Mark::Capable, Mark::Experienced];
        prop_oneof![
            Just(Body::Datagram),
            any::<u32>().prop_map(Body::Frame),
            (any::<u32>(), any::<u16>(), proptest::sample::select(marks.to_vec())).prop_map(
                |(sequence, window, mark)| { Body::Segment(Segment { sequence, window, mark, ..Segment::default() }) }
            ),
        ]
    }

    proptest! {
        #[test]
        fn packets_come_out_as_they_went_in_and_slots_are_used_again(
            steps in proptest::collection::vec((any::<bool>(), any::<u32>(), body()), 0..200),
        ) {
            let (mut pool, mut model, mut most) = (Pool::default(), Vec::new(), 0);
            for (number, (come, value, body)) in (0..).zip(steps) {
                if come || model.is_empty() {
                    let (flow, size, created) = (value, value >> 7, Time::from_nanos(number));
                    let (connection, step) = (value >> 3, value >> 5);
                    let (reverse, dscp) = (value % 2 == 0, (value % 64) as u8);
                    let packet = Packet { flow, reverse, number, size, created, connection, step, dscp, body };
                    model.push((pool.insert(packet.clone()), packet));
                } else {
                    let (handle, packet) = model.swap_remove(value as usize % model.len());
                    prop_assert_eq!(pool.packet(handle), packet);
                    pool.free(handle);
                }
                most = most.max(model.len());
                prop_assert_eq!((pool.live(), pool.slots.len()), (model.len(), most));
            }
            for (handle, packet) in model {
                prop_assert_eq!(pool.packet(handle), packet);
            }
        }
    }

    #[test]
    fn a_slot_takes_less_than_a_line_of_the_cache_and_a_queue_marks_the_segment_in_it() {
        assert_eq!(size_of::<Slot>(), 48);
        let segment = Segment { mark: Mark::Capable, sequence: 7, ..Segment::default() };
        let created = Time::ZERO;
        let body = Body::Segment(segment);
        let packet =
            Packet { flow: 1, reverse: false, number: 0, size: 40, created, connection: 0, step: 0, dscp: 0, body };
        let mut pool = Pool::default();
        let handle = pool.insert(packet);
        pool[handle].mark = Mark::Experienced;
        assert_eq!(pool.packet(handle).body, Body::Segment(Segment { mark: Mark::Experienced, ..segment }));
    }
}
