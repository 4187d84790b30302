//! Packets under way, each in a slot; queues and links hold the slots' numbers.

use crate::packet::Packet;

/// The number of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Handle(pub u32);

/// All packets under way. It grows to the most that ever were, and then takes no more memory.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    slots: Vec<Packet>,
    free: Vec<u32>,
}

impl Pool {
    /// Packets under way.
    pub fn live(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Takes a packet in.
    #[inline]
    pub fn insert(&mut self, packet: Packet) -> Handle {
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = packet;
                Handle(slot)
            }
            None => {
                self.slots.push(packet);
                Handle(self.slots.len() as u32 - 1)
            }
        }
    }

    /// Frees a slot. Its content may be read until the next [`Pool::insert`].
    #[inline]
    pub fn free(&mut self, handle: Handle) {
        self.free.push(handle.0);
    }
}

impl std::ops::Index<Handle> for Pool {
    type Output = Packet;
    #[inline]
    fn index(&self, handle: Handle) -> &Packet {
        &self.slots[handle.0 as usize]
    }
}

impl std::ops::IndexMut<Handle> for Pool {
    #[inline]
    fn index_mut(&mut self, handle: Handle) -> &mut Packet {
        &mut self.slots[handle.0 as usize]
    }
}
