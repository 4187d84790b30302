//! A packet as the queues of the simulator see it.

use crate::engine::pool::Handle;
use fairspan_core::queue::{End, Parcel};

/// A packet that waits in a discipline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) packet: Handle,
    /// Bytes that it counts.
    pub(crate) size: u32,
    /// The nodes where it comes from and where it goes to.
    ends: [u32; 2],
    class: u8,
}

impl Waiting {
    /// A packet of a flow that goes from the first of `ends` to the second, or in `reverse`.
    #[inline]
    pub(crate) fn new(packet: Handle, size: u32, [from, to]: [u32; 2], reverse: bool, dscp: u8) -> Waiting {
        Waiting { packet, size, ends: if reverse { [to, from] } else { [from, to] }, class: dscp >> 3 }
    }
}

impl Parcel for Waiting {
    #[inline]
    fn size(&self) -> u32 {
        self.size
    }

    fn host(&self, end: End) -> u128 {
        let [source, destination] = self.ends;
        u128::from(if end == End::Source { source } else { destination })
    }

    fn class(&self) -> u8 {
        self.class
    }
}
