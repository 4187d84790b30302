//! A packet as the queues of the simulator see it.

use crate::engine::pool::Handle;
use crate::tcp::segment::Mark;
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
    mark: Mark,
}

impl Waiting {
    /// A packet of a flow that goes from the first of `ends` to the second, or in `reverse`.
    #[inline]
    pub(crate) fn new(packet: Handle, size: u32, [from, to]: [u32; 2], reverse: bool, dscp: u8) -> Waiting {
        let ends = if reverse { [to, from] } else { [from, to] };
        Waiting { packet, size, ends, class: dscp >> 3, mark: Mark::default() }
    }

    /// With the mark that the packet has: one that is capable can be marked here.
    #[inline]
    pub(crate) fn with_mark(self, mark: Mark) -> Waiting {
        Waiting { mark, ..self }
    }

    /// Whether it was marked, here or before.
    #[inline]
    pub(crate) fn is_marked(&self) -> bool {
        self.mark == Mark::Experienced
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

    fn is_scalable(&self) -> bool {
        matches!(self.mark, Mark::Scalable | Mark::Experienced)
    }

    fn mark(&mut self) -> bool {
        let capable = self.mark != Mark::Incapable;
        if capable {
            self.mark = Mark::Experienced;
        }
        capable
    }
}
