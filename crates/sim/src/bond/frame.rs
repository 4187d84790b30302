//! What core's bond holds in a simulation: the header bytes of a packet, its length, and which packet it is.
//!
//! A bond of the gateway holds packets in slots of a pool; here it holds [`Frame`]s. A frame that carries a packet of
//! the simulation knows its ticket, and the [`Ledger`] hears of every copy that is made and of every one that is
//! dropped, wherever that happens in the core: so a packet that the bond drops is not lost to the count of packets.
//!
//! The headers that a bond reads, and the longest envelope of a data frame, fit [`SHORT`] bytes: such frames lie in
//! boxes that the ledger keeps for the next, and so do the bond's own messages. Longer ones, such as SYNs with their options, are
//! allocated.

use crate::packet::{Body, Packet};
use crate::tcp::segment::Flags;
use crate::wire;
use fairspan_core::packet::Packet as CorePacket;
use fairspan_core::units::Bytes;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a short frame.
const SHORT: usize = 62;
/// No ticket.
const NONE: u32 = u32::MAX;
/// Of a segment that is no SYN the bond reads IPv4's header and TCP's first 20 bytes.
const READ: usize = 40;

/// How much of a packet a frame has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// What a bond reads that compresses nothing: [`READ`] bytes, and all headers of a SYN and of what has nothing but headers.
    Read,
    /// All headers.
    Headers,
    /// Every byte, payload included.
    All,
}

/// A packet or message as core's bond holds it.
#[derive(Debug)]
pub(crate) struct Frame {
    content: Content,
    /// What counts, the payload that is not there included.
    size: u32,
    /// [`NONE`]: it carries no packet of the simulation.
    ticket: u32,
    ledger: Option<Arc<Ledger>>,
}

#[derive(Debug)]
enum Content {
    Short(Box<Short>),
    Long(Vec<u8>),
}

#[derive(Clone, Debug)]
struct Short {
    from: u8,
    to: u8,
    data: [u8; SHORT],
}

/// Copies of packets that were made and dropped inside the core since it was last read.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    made: Vec<u32>,
    dropped: Vec<u32>,
    /// By ticket: the nodes where the packet comes from and where it goes to, if they are known.
    ends: Vec<Option<[u32; 2]>>,
    /// Kept as boxes: they go back into frames as they are.
    #[allow(clippy::vec_box)]
    boxes: Vec<Box<Short>>,
}

impl Ledger {
    /// The packet with this ticket goes from the first of `ends` to the second.
    fn set_ends(&self, ticket: u32, ends: Option<[u32; 2]>) {
        self.with(|entries| {
            let places = entries.ends.len().max(ticket as usize + 1);
            entries.ends.resize(places, None);
            entries.ends[ticket as usize] = ends;
        });
    }

    fn with<T>(&self, act: impl FnOnce(&mut Entries) -> T) -> T {
        // Nothing panics while it is held.
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A copy that was made.
    pub(crate) fn poll_made(&self) -> Option<u32> {
        self.with(|entries| entries.made.pop())
    }

    /// A copy, or the original, that was dropped.
    pub(crate) fn poll_dropped(&self) -> Option<u32> {
        self.with(|entries| entries.dropped.pop())
    }
}

impl Content {
    /// A copy of `head` and `rest`, in a box of the ledger's if there is one and they fit.
    fn of(ledger: Option<&Ledger>, head: &[u8], rest: &[u8]) -> Content {
        let length = head.len() + rest.len();
        if length > SHORT {
            return Content::Long([head, rest].concat());
        }
        let kept = ledger.and_then(|ledger| ledger.with(|entries| entries.boxes.pop()));
        let mut short = kept.unwrap_or_else(|| Box::new(Short { from: 0, to: 0, data: [0; SHORT] }));
        (short.from, short.to) = (0, length as u8);
        short.data[..head.len()].copy_from_slice(head);
        short.data[head.len()..length].copy_from_slice(rest);
        Content::Short(short)
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Content::Short(short) => &short.data[usize::from(short.from)..usize::from(short.to)],
            Content::Long(bytes) => bytes,
        }
    }
}

impl Frame {
    /// A packet, as the host hands it to the bond, between `ends`, if they are known.
    pub(crate) fn new(
        packet: &Packet,
        ends: Option<[u32; 2]>,
        ticket: u32,
        ledger: &Arc<Ledger>,
        extent: Extent,
    ) -> Frame {
        let content = if extent == Extent::All {
            let mut bytes = Vec::with_capacity(packet.size as usize);
            wire::encode(packet, &mut bytes);
            Content::Long(bytes)
        } else {
            let mut bytes = [0; wire::MOST_HEADERS];
            let length = wire::headers(packet, &mut bytes);
            let syn = matches!(&packet.body, Body::Segment(segment) if segment.flags.has(Flags::SYN));
            let all = syn || extent == Extent::Headers || length == packet.size as usize;
            Content::of(Some(ledger), &[], &bytes[..if all { length } else { length.min(READ) }])
        };
        ledger.set_ends(ticket, ends);
        Frame { content, size: packet.size, ticket, ledger: Some(Arc::clone(ledger)) }
    }

    /// A message of a bond's own.
    pub(crate) fn message(head: &[u8], ledger: &Arc<Ledger>) -> Frame {
        let content = Content::of(Some(ledger), &[], head);
        Frame { content, size: head.len() as u32, ticket: NONE, ledger: Some(Arc::clone(ledger)) }
    }

    /// The ticket of the packet that it carries, which is no longer this frame's to account for.
    pub(crate) fn take_ticket(&mut self) -> Option<u32> {
        Some(std::mem::replace(&mut self.ticket, NONE)).filter(|ticket| *ticket != NONE)
    }

    /// Puts an envelope in front.
    pub(crate) fn wrap(&mut self, head: &[u8]) {
        if head.is_empty() {
            return;
        }
        self.size += head.len() as u32;
        if let Content::Short(short) = &mut self.content {
            let (from, to) = (usize::from(short.from), usize::from(short.to));
            if to - from + head.len() <= SHORT {
                short.data.copy_within(from..to, head.len());
                short.data[..head.len()].copy_from_slice(head);
                (short.from, short.to) = (0, (to - from + head.len()) as u8);
                return;
            }
        }
        self.content = Content::of(None, head, self.content.bytes());
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        let Some(ledger) = &self.ledger else { return };
        let content = std::mem::replace(&mut self.content, Content::Long(Vec::new()));
        ledger.with(|entries| {
            if self.ticket != NONE {
                entries.dropped.push(self.ticket);
            }
            if let Content::Short(short) = content {
                entries.boxes.push(short);
            }
        });
    }
}

impl CorePacket for Frame {
    fn bytes(&self) -> &[u8] {
        self.content.bytes()
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.content {
            Content::Short(short) => &mut short.data[usize::from(short.from)..usize::from(short.to)],
            Content::Long(bytes) => bytes,
        }
    }

    fn size(&self) -> Bytes {
        Bytes::new(u64::from(self.size))
    }

    /// As the gateway's pool has it: the slot that it would lie in.
    fn footprint(&self) -> usize {
        let size = self.size as usize;
        [256, 1664, 10_240, 66_048].into_iter().find(|slot| size <= *slot).unwrap_or(size)
    }

    fn hosts(&self) -> Option<[u64; 2]> {
        let ledger = self.ledger.as_ref()?;
        let ends = ledger.with(|entries| entries.ends.get(self.ticket as usize).copied().flatten())?;
        Some(ends.map(u64::from))
    }

    fn strip(&mut self, n: usize) {
        self.size = self.size.saturating_sub(n as u32);
        match &mut self.content {
            Content::Short(short) => short.from = (short.from + n as u8).min(short.to),
            Content::Long(bytes) => drop(bytes.drain(..n.min(bytes.len()))),
        }
    }

    fn prepend(&mut self, bytes: &[u8]) -> bool {
        self.wrap(bytes);
        true
    }

    fn truncate(&mut self, n: usize) {
        self.size = n as u32;
        match &mut self.content {
            Content::Short(short) => short.to = short.to.min(short.from + n as u8),
            Content::Long(bytes) => bytes.truncate(n),
        }
    }

    fn duplicate(&self) -> Option<Frame> {
        if let Some(ledger) = self.ledger.as_ref().filter(|_| self.ticket != NONE) {
            ledger.with(|entries| entries.made.push(self.ticket));
        }
        let content = Content::of(self.ledger.as_deref(), &[], self.bytes());
        Some(Frame { content, size: self.size, ticket: self.ticket, ledger: self.ledger.clone() })
    }

    fn from_bytes(bytes: &[u8]) -> Option<Frame> {
        let content = Content::of(None, &[], bytes);
        Some(Frame { content, size: bytes.len() as u32, ticket: NONE, ledger: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::segment::Segment;
    use fairspan_core::units::Time;

    fn packet(body: Body, size: u32) -> Packet {
        let created = Time::ZERO;
        Packet { flow: 1, reverse: false, number: 1, size, created, connection: 0, step: 0, dscp: 0, body }
    }

    #[test]
    fn every_copy_is_accounted_for_once_wherever_it_ends() {
        let ledger = Arc::new(Ledger::default());
        let frame = Frame::new(&packet(Body::Datagram, 1000), None, 7, &ledger, Extent::Read);
        let mut copy = frame.duplicate().unwrap();
        assert_eq!((ledger.poll_made(), ledger.poll_made()), (Some(7), None));
        drop(frame);
        assert_eq!((ledger.poll_dropped(), ledger.poll_dropped()), (Some(7), None));
        assert_eq!(copy.take_ticket(), Some(7));
        drop(copy);
        drop(Frame::from_bytes(&[1; 100]));
        assert_eq!(ledger.poll_dropped(), None);
    }

    #[test]
    fn envelopes_come_off_again_and_the_size_is_that_of_the_whole_packet() {
        let ledger = Arc::new(Ledger::default());
        let syn = Segment { flags: Flags::SYN, ..Segment::default() };
        for (body, size) in [(Body::Datagram, 1500), (Body::Segment(syn), 40), (Body::Segment(Segment::default()), 40)]
        {
            for extent in [Extent::Read, Extent::Headers, Extent::All] {
                let mut frame = Frame::new(&packet(body, size), None, 0, &ledger, extent);
                let before = frame.bytes().to_vec();
                assert_eq!(before.len() == size as usize, extent == Extent::All || size == 40);
                for head in [2, 12, 32] {
                    frame.wrap(&vec![9; head]);
                    assert_eq!(frame.size(), Bytes::new(u64::from(size) + head as u64));
                    assert_eq!(frame.bytes()[..head], vec![9; head]);
                    frame.strip(head);
                    assert_eq!((frame.bytes(), frame.size()), (&before[..], Bytes::new(u64::from(size))));
                }
                assert_eq!(frame.footprint(), if size == 1500 { 1664 } else { 256 });
            }
        }
    }
}
