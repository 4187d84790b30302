//! What a queue needs to know of a packet, and nothing more.

/// A packet as a queue sees it.
pub trait Parcel {
    /// What it counts in bytes: for the order, for a limit in bytes, for the link. Taken as one where it is zero, so that
    /// such a limit bounds memory.
    fn size(&self) -> u32;

    /// The memory that holding it takes, where that is bounded.
    fn memory(&self) -> u64 {
        0
    }

    /// Marks it, "congestion experienced"; false where it cannot be marked.
    fn mark(&mut self) -> bool {
        false
    }
}

/// A packet of which no more is known than its size. It cannot be marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opaque<P> {
    /// The packet.
    pub packet: P,
    /// What it counts in bytes.
    pub size: u32,
}

impl<P> Parcel for Opaque<P> {
    #[inline]
    fn size(&self) -> u32 {
        self.size
    }
}
