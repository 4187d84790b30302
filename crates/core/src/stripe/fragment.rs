//! Fragments: long packets cut to the smallest quantum, real-time packets ahead of them.
//!
//! Source: striping §7.2; the header is RFC 2686 §3's long sequence number format with classes; what counts as lost is
//! RFC 1990 §4.1.
//!
//! ```text
//!  0 1 2     5 6 7 8                                             31
//! +-+-+-------+-+-+-----------------------------------------------+
//! |B|E| class |0|0|               sequence number                 |
//! +-+-+-------+-+-+-----------------------------------------------+
//! ```
//!
//! Each class has sequence numbers of its own, so a packet of one class may go between two fragments of another. Bulk
//! traffic is class 0; real-time traffic is class 1 and goes first, whole unless it is longer than a fragment.
//!
//! The receiver keeps, per class and link, the last sequence number that came; M is the least of them. Links are FIFO,
//! so what is missing at or below M is lost, and a packet that it belongs to is discarded. A link that has nothing to
//! send would hold M back: the sender puts a null fragment on it (B and E, no bytes).
//!
//! An owner with a clock says when a fragment came, and what has waited for too long is given up ([`Reassembler::handle_timeout`]).
//!
//! Cost: O(1) amortised per fragment and O(links) for M; `window` / 64 words at most to find the oldest that waits. Memory: `window` slots a class and `buffer` bytes in all. A packet's
//! last fragment is the packet itself, of which the first bytes do not go; so a packet of one fragment is never copied.

use super::held::Held as Places;
use crate::causal::set;
use crate::packet::Packet;
use crate::units::{Bytes, ChannelId, Time};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use thiserror::Error;

/// Bytes of the header.
pub const HEADER_LEN: usize = 4;
/// Classes that are used: bulk and real-time.
pub const CLASSES: usize = 2;

const SEQUENCE_MASK: u32 = 0x00ff_ffff;
/// As many fragments in a row that come too late tell of a sender that counts from elsewhere.
const LOST_COUNT: u32 = 64;
/// A sender whose first fragment that is seen has a smaller number is taken to be at its start.
const AT_START: u32 = 4096;
/// One with a smaller number than this is, and what came before it was for us.
const NEAR_START: u32 = 64;
/// Congestion experienced, of the two bits of ECN (RFC 3168).
const CE: u8 = 3;

/// A fragment's class of service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Fragmented; waits for real-time packets.
    Bulk = 0,
    /// Ahead of all bulk fragments.
    RealTime = 1,
}

/// A fragment's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The first fragment of its packet.
    pub begin: bool,
    /// The last fragment of its packet.
    pub end: bool,
    /// The class.
    pub class: Class,
    /// The sequence number in its class, below 2^24.
    pub sequence: u32,
}

/// Why a frame is no fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FragmentError {
    /// Fewer than four bytes.
    #[error("a fragment has at least {HEADER_LEN} bytes; this one has {have}")]
    Truncated {
        /// Bytes present.
        have: usize,
    },
    /// A class that is not used.
    #[error("unknown class {found}; classes 0 (bulk) and 1 (real-time) are used")]
    Class {
        /// The class found.
        found: u8,
    },
    /// Bits that must be zero.
    #[error("reserved bits are set in {found:#04x}")]
    Reserved {
        /// The first byte.
        found: u8,
    },
    /// A link that is no member.
    #[error("channel {0} is no member of the bundle")]
    Link(ChannelId),
}

impl Header {
    /// The header's bytes.
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let flags = u32::from(self.begin) << 31 | u32::from(self.end) << 30 | (self.class as u32) << 26;
        (flags | (self.sequence & SEQUENCE_MASK)).to_be_bytes()
    }

    /// Reads the header at the beginning of `frame`; the payload follows it.
    ///
    /// # Errors
    /// [`FragmentError`] says what was wrong.
    pub fn decode(frame: &[u8]) -> Result<(Header, &[u8]), FragmentError> {
        let (head, payload) =
            frame.split_first_chunk::<HEADER_LEN>().ok_or(FragmentError::Truncated { have: frame.len() })?;
        let class = match (head[0] >> 2) & 15 {
            0 => Class::Bulk,
            1 => Class::RealTime,
            found => return Err(FragmentError::Class { found }),
        };
        if head[0] & 3 != 0 {
            return Err(FragmentError::Reserved { found: head[0] });
        }
        let sequence = u32::from_be_bytes(*head) & SEQUENCE_MASK;
        Ok((Header { begin: head[0] & 0x80 != 0, end: head[0] & 0x40 != 0, class, sequence }, payload))
    }
}

/// A fragment to send: its header, then the bytes of `packet` but the first `skip`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece<P> {
    /// What stands before the bytes.
    pub header: Header,
    /// The packet itself where this is its last fragment, else a copy of what goes.
    pub packet: P,
    /// How many bytes of it went before.
    pub skip: usize,
}

/// Cuts packets into fragments.
#[derive(Clone, Debug)]
pub struct Fragmenter<P> {
    queue: [VecDeque<P>; CLASSES],
    /// Bytes of the head packet that are sent already.
    sent: [usize; CLASSES],
    sequence: [u32; CLASSES],
    payload: usize,
    bytes: u64,
    buffer: u64,
}

impl<P: Packet> Fragmenter<P> {
    /// Fragments of at most `largest` bytes, header included (at least 5; less counts as 5), and at most `buffer` bytes
    /// of packets that wait.
    pub fn new(largest: Bytes, buffer: Bytes) -> Fragmenter<P> {
        let mut fragmenter = Fragmenter {
            queue: Default::default(),
            sent: [0; CLASSES],
            sequence: [0; CLASSES],
            payload: 0,
            bytes: 0,
            buffer: buffer.as_u64(),
        };
        fragmenter.set_payload(largest.as_u64().saturating_sub(HEADER_LEN as u64) as usize);
        fragmenter
    }

    /// The next fragments have at most so many bytes of a packet (at least one).
    pub fn set_payload(&mut self, payload: usize) {
        self.payload = payload.clamp(1, 1 << 30);
    }

    /// Bytes that wait.
    pub fn waiting(&self) -> Bytes {
        Bytes::new(self.bytes)
    }

    /// Takes a packet to send.
    ///
    /// # Errors
    /// The packet, when it is empty or the buffer is full.
    pub fn push(&mut self, class: Class, packet: P) -> Result<(), P> {
        let len = packet.bytes().len() as u64;
        if len == 0 || len > self.buffer.saturating_sub(self.bytes) {
            return Err(packet);
        }
        self.bytes += len;
        self.queue[class as usize].push_back(packet);
        Ok(())
    }

    /// The length of the next fragment, header included; `None` when nothing waits.
    pub fn next_len(&self) -> Option<Bytes> {
        let class = self.next_class()?;
        let left = self.queue[class as usize].front()?.bytes().len() - self.sent[class as usize];
        Some(Bytes::from(left.min(self.payload) + HEADER_LEN))
    }

    /// Appends the next fragment to `frame` and says its class: real-time first. `None` when nothing waits.
    pub fn poll(&mut self, frame: &mut Vec<u8>) -> Option<Class> {
        let (header, from, to) = self.next()?;
        let packet = self.queue[header.class as usize].front()?.bytes();
        frame.extend_from_slice(&header.encode());
        frame.extend_from_slice(packet.get(from..to).unwrap_or(&[]));
        self.advance(&header, from, to);
        Some(header.class)
    }

    /// The next fragment: real-time first. `None` when nothing waits, and where memory for a copy is refused: what is left of that packet
    /// does not go then.
    pub fn poll_piece(&mut self) -> Option<Piece<P>> {
        let (header, from, to) = self.next()?;
        if header.end {
            let packet = self.advance(&header, from, to)?;
            return Some(Piece { header, packet, skip: from });
        }
        let bytes = self.queue[header.class as usize].front()?.bytes();
        let Some(packet) = P::from_bytes(bytes.get(from..to).unwrap_or(&[])) else {
            let rest = bytes.len() - from;
            (self.sent[header.class as usize], self.bytes) = (0, self.bytes - rest as u64);
            self.queue[header.class as usize].pop_front();
            return None;
        };
        self.advance(&header, from, to);
        Some(Piece { header, packet, skip: 0 })
    }

    /// The next fragment's header, and which bytes of its packet it has.
    fn next(&self) -> Option<(Header, usize, usize)> {
        let class = self.next_class()?;
        let (from, length) = (self.sent[class as usize], self.queue[class as usize].front()?.bytes().len());
        let to = length.min(from + self.payload);
        let sequence = self.sequence[class as usize];
        Some((Header { begin: from == 0, end: to == length, class, sequence }, from, to))
    }

    /// That fragment goes; the packet, if it was the last of it.
    fn advance(&mut self, header: &Header, from: usize, to: usize) -> Option<P> {
        let class = header.class as usize;
        self.sequence[class] = (self.sequence[class] + 1) & SEQUENCE_MASK;
        self.bytes -= (to - from) as u64;
        self.sent[class] = if header.end { 0 } else { to };
        if header.end { self.queue[class].pop_front() } else { None }
    }

    /// Appends a null fragment of `class` to `frame`: for a link that has been idle while others sent.
    pub fn null(&mut self, class: Class, frame: &mut Vec<u8>) -> bool {
        self.null_header(class).map(|header| frame.extend_from_slice(&header.encode())).is_some()
    }

    /// The header of a null fragment of `class`, which is all of it; `None` in the middle of a packet.
    pub fn null_header(&mut self, class: Class) -> Option<Header> {
        // Between two fragments of one packet it would look like a packet of its own and break the other in two.
        if self.sent[class as usize] != 0 {
            return None;
        }
        let sequence = self.sequence[class as usize];
        self.sequence[class as usize] = (sequence + 1) & SEQUENCE_MASK;
        Some(Header { begin: true, end: true, class, sequence })
    }

    fn next_class(&self) -> Option<Class> {
        [Class::RealTime, Class::Bulk].into_iter().find(|&c| !self.queue[c as usize].is_empty())
    }
}

/// Plain counters of a [`Reassembler`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FragmentStats {
    /// Packets put together.
    pub packets: u64,
    /// Fragments known lost.
    pub lost: u64,
    /// Fragments discarded because another one of their packet was lost, or their packet was too long.
    pub discarded: u64,
    /// Fragments that came twice, or after they were given up.
    pub late: u64,
    /// Fragments that came from beyond the window; the window moved on.
    pub beyond: u64,
    /// Fragments given up because the buffer was full.
    pub overflow: u64,
    /// Times that something was given up because it had waited for too long.
    pub expired: u64,
    /// Packets for which memory was refused.
    pub no_memory: u64,
}

/// Settings of a [`Reassembler`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReassemblerConfig {
    /// Most fragments of one class between the oldest missing and the newest, at most 2^22. Default 4096.
    pub window: u32,
    /// Most bytes buffered. Default 4 MB.
    pub buffer: Bytes,
    /// The longest packet that is put together. Default 65,535 bytes.
    pub max_packet: Bytes,
}

impl Default for ReassemblerConfig {
    fn default() -> ReassemblerConfig {
        ReassemblerConfig { window: 4096, buffer: Bytes::new(4_000_000), max_packet: Bytes::new(65_535) }
    }
}

#[derive(Clone, Debug)]
struct Held<P> {
    begin: bool,
    end: bool,
    payload: P,
    tos: u8,
    came: Time,
}

impl<P: Packet> Held<P> {
    fn len(&self) -> u64 {
        self.payload.bytes().len() as u64
    }
}

#[derive(Clone, Debug)]
struct Stream<P> {
    /// The sequence number of `ring[0]`: everything before is delivered or given up.
    head: u32,
    ring: VecDeque<Option<Held<P>>>,
    /// Which of its places are not empty, by their sequence numbers.
    taken: Places,
    /// Offset up to which the ring is known to hold one unfinished packet without gaps.
    scanned: usize,
    /// The last sequence number that came by each link.
    last: [Option<u32>; ChannelId::LIMIT],
    /// How many fragments in a row came too late.
    late: u32,
    /// How many numbers from the head on may have gone to somebody else, before the sender was met.
    foreign: u32,
}

impl<P> Stream<P> {
    fn new(window: u32) -> Stream<P> {
        Stream {
            head: 0,
            ring: VecDeque::new(),
            taken: Places::new(window),
            scanned: 0,
            last: [None; ChannelId::LIMIT],
            late: 0,
            foreign: 0,
        }
    }
}

/// Puts packets together again.
#[derive(Clone, Debug)]
pub struct Reassembler<P> {
    config: ReassemblerConfig,
    links: u64,
    stream: [Stream<P>; CLASSES],
    bytes: u64,
    ready: VecDeque<(P, u8)>,
    /// What stands before a packet's last fragment while it is put together.
    before: Vec<u8>,
    stats: FragmentStats,
}

impl<P: Packet> Reassembler<P> {
    /// A reassembler for a bundle of these links (a mask). Both ends begin with sequence number 0.
    pub fn new(mut config: ReassemblerConfig, links: u64) -> Reassembler<P> {
        config.window = config.window.clamp(1, 1 << 22);
        let window = config.window;
        Reassembler {
            config,
            links,
            stream: [Stream::new(window), Stream::new(window)],
            bytes: 0,
            ready: VecDeque::new(),
            before: Vec::new(),
            stats: FragmentStats::default(),
        }
    }

    /// The sender is another one, which may be long on its way: forgets what waits, and takes the first number for what comes. What was before it
    /// counts as lost only if it is known that the sender has `begun` since.
    pub fn meet(&mut self, class: Class, sequence: u32, begun: bool) {
        let stream = &mut self.stream[class as usize];
        let held: u64 = stream.ring.iter().flatten().map(|held| held.payload.footprint() as u64).sum();
        self.bytes -= held;
        *stream = Stream::new(self.config.window);
        stream.head = if sequence < AT_START { 0 } else { sequence & SEQUENCE_MASK };
        stream.foreign = if begun || sequence < NEAR_START { 0 } else { distance(sequence, stream.head) as u32 };
    }

    /// The bundle's links from now on. A link that left holds nothing up; one that joined counts for M at once.
    pub fn set_links(&mut self, links: u64) {
        for channel in set::bits(links & !self.links) {
            for stream in &mut self.stream {
                stream.last[channel.index()] = None;
            }
        }
        self.links = links;
        self.advance(0);
        self.advance(1);
    }

    /// A frame arrived on `link`. Drain [`poll`](Self::poll) afterwards.
    ///
    /// # Errors
    /// [`FragmentError`] says why it is no fragment.
    pub fn handle(&mut self, link: ChannelId, frame: &[u8]) -> Result<(), FragmentError> {
        if self.links & set::bit(link) == 0 {
            return Err(FragmentError::Link(link));
        }
        let (header, payload) = Header::decode(frame)?;
        match P::from_bytes(payload) {
            Some(payload) => self.handle_fragment(Time::ZERO, link, header, payload, 0),
            None => self.stats.no_memory += 1,
        }
        Ok(())
    }

    /// A fragment came at `now` on `link`, in a frame with this type of service. Drain [`poll_marked`](Self::poll_marked) afterwards.
    pub fn handle_fragment(&mut self, now: Time, link: ChannelId, header: Header, payload: P, tos: u8) {
        let class = header.class as usize;
        let window = self.config.window as i32;
        let mut offset = distance(header.sequence, self.stream[class].head);
        if offset < 0 {
            self.stats.late += 1;
            self.stream[class].late += 1;
            if self.stream[class].late < LOST_COUNT {
                return;
            }
            // More was lost than half of the numbers, or the count began anew.
            self.meet(header.class, header.sequence, false);
            offset = distance(header.sequence, self.stream[class].head);
        }
        self.stream[class].late = 0;
        if offset >= window {
            // Too much is missing before it: the oldest is given up.
            self.stats.beyond += 1;
            self.skip(class, (offset - window) as usize + 1);
            offset = distance(header.sequence, self.stream[class].head);
        }
        let stream = &mut self.stream[class];
        // A link is FIFO: an older number than the last is a disorder of the link, and says nothing about loss.
        let last = &mut stream.last[link.index() & (ChannelId::LIMIT - 1)];
        if last.is_none_or(|l| distance(header.sequence, l) > 0) {
            *last = Some(header.sequence);
        }
        let offset = offset as usize;
        while stream.ring.len() <= offset {
            stream.ring.push_back(None);
        }
        match stream.ring.get_mut(offset) {
            Some(slot @ None) => {
                self.bytes += payload.footprint() as u64;
                stream.taken.set(header.sequence, true);
                *slot = Some(Held { begin: header.begin, end: header.end, payload, tos, came: now });
            }
            _ => self.stats.late += 1,
        }
        self.advance(class);
        while self.bytes > self.config.buffer.as_u64() {
            // The class that holds more gives up its oldest fragment or gap.
            let class = usize::from(self.stream[1].ring.len() > self.stream[0].ring.len());
            self.stats.overflow += u64::from(self.stream[class].ring.front().is_some_and(Option::is_some));
            self.skip(class, 1);
            self.advance(class);
        }
    }

    /// The next complete packet.
    pub fn poll(&mut self) -> Option<P> {
        Some(self.poll_marked()?.0)
    }

    /// The next complete packet, and the type of service of its first fragment's frame; if any of its fragments met congestion, this says
    /// so (RFC 3168 section 5.3).
    pub fn poll_marked(&mut self) -> Option<(P, u8)> {
        self.ready.pop_front()
    }

    /// Since when the oldest fragment waits.
    pub fn waits_since(&self) -> Option<Time> {
        (0..CLASSES).filter_map(|class| Some(self.first_held(class)?.1.came)).min()
    }

    /// What is missing before fragments that came until `oldest` is given up, and so are packets that such fragments do not complete.
    pub fn handle_timeout(&mut self, oldest: Time) {
        for class in 0..CLASSES {
            while let Some((at, held)) = self.first_held(class)
                && held.came <= oldest
            {
                // Before it nothing; or it is itself what is not complete.
                let gap = if at > 0 { at } else { self.stream[class].scanned.max(1) };
                self.stats.expired += 1;
                self.skip(class, gap);
                self.advance(class);
            }
        }
    }

    /// The first fragment that waits, and how many before it are missing.
    fn first_held(&self, class: usize) -> Option<(usize, &Held<P>)> {
        let stream = &self.stream[class];
        let at = stream.taken.first(stream.head)?;
        Some((at, stream.ring.get(at)?.as_ref()?))
    }

    /// Bytes of fragments that wait for others.
    pub fn buffered(&self) -> Bytes {
        Bytes::new(self.bytes)
    }

    /// Places that are taken by fragments that wait and by those that are missing between them.
    pub fn places(&self) -> usize {
        self.stream.iter().map(|stream| stream.ring.len()).sum()
    }

    /// Counters.
    pub fn stats(&self) -> &FragmentStats {
        &self.stats
    }

    /// Gives up the oldest `n` sequence numbers.
    fn skip(&mut self, class: usize, n: usize) {
        let stream = &mut self.stream[class];
        for at in 0..n.min(stream.ring.len()) {
            if let Some(Some(held)) = stream.ring.pop_front() {
                self.bytes -= held.payload.footprint() as u64;
                self.stats.discarded += 1;
                stream.taken.set(stream.head.wrapping_add(at as u32), false);
            } else {
                self.stats.lost += u64::from(at >= stream.foreign as usize);
            }
        }
        stream.foreign = stream.foreign.saturating_sub(n as u32);
        stream.head = (stream.head.wrapping_add(n as u32)) & SEQUENCE_MASK;
        stream.scanned = 0;
    }

    /// Delivers and gives up what can be, from the head on.
    fn advance(&mut self, class: usize) {
        loop {
            let lost_below = self.lost_below(class);
            let stream = &mut self.stream[class];
            let at = stream.scanned;
            match stream.ring.get(at) {
                Some(Some(held)) if held.begin != (at == 0) => {
                    // No beginning, or a new one inside a packet: what was before cannot be finished.
                    self.skip(class, at.max(1));
                }
                Some(Some(held)) if held.end => self.complete(class, at + 1),
                Some(Some(_)) => stream.scanned += 1,
                // RFC 1990 §4.1: missing, and every link is past it.
                Some(None) if at < lost_below => self.skip(class, at + 1),
                _ => return,
            }
        }
    }

    /// Offsets from the head below this that are missing are lost: M + 1.
    fn lost_below(&self, class: usize) -> usize {
        let stream = &self.stream[class];
        let mut least = i32::MAX;
        for link in set::bits(self.links) {
            match stream.last[link.index()] {
                Some(last) => least = least.min(distance(last, stream.head)),
                None => return 0,
            }
        }
        usize::try_from(least.saturating_add(1)).unwrap_or(0)
    }

    /// The first `n` fragments are one packet.
    fn complete(&mut self, class: usize, n: usize) {
        let stream = &mut self.stream[class];
        let fits = |len: u64| len <= self.config.max_packet.as_u64();
        let (mut len, mut mark, mut first, mut last) = (0u64, 0, None, None);
        self.before.clear();
        (0..n as u32).for_each(|at| stream.taken.set(stream.head.wrapping_add(at), false));
        for held in stream.ring.drain(..n).flatten() {
            len += held.len();
            self.bytes -= held.payload.footprint() as u64;
            mark |= u8::from(held.tos & CE == CE) * CE;
            first.get_or_insert(held.tos);
            if let Some(before) = last.replace(held.payload).filter(|_| fits(len)) {
                self.before.extend_from_slice(P::bytes(&before));
            }
        }
        stream.head = (stream.head.wrapping_add(n as u32)) & SEQUENCE_MASK;
        stream.foreign = stream.foreign.saturating_sub(n as u32);
        stream.scanned = 0;
        let Some(mut packet) = last.filter(|_| len > 0) else { return }; // a null fragment
        if !fits(len) {
            self.stats.discarded += n as u64;
        } else if !self.before.is_empty() && !packet.prepend(&self.before) {
            self.stats.no_memory += 1;
        } else {
            self.stats.packets += 1;
            self.ready.push_back((packet, first.unwrap_or(0) | mark));
        }
    }
}

/// How far sequence number `a` is ahead of `b`, modulo 2^24.
fn distance(a: u32, b: u32) -> i32 {
    ((a.wrapping_sub(b) << 8) as i32) >> 8
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    fn frame(begin: bool, end: bool, class: Class, sequence: u32, payload: &[u8]) -> Vec<u8> {
        let mut f = Header { begin, end, class, sequence }.encode().to_vec();
        f.extend_from_slice(payload);
        f
    }

    #[test]
    fn the_header_is_these_bytes() {
        let header = Header { begin: true, end: false, class: Class::RealTime, sequence: 0x01_0203 };
        assert_eq!(header.encode(), [0x84, 1, 2, 3]);
        assert_eq!(Header::decode(&[0x84, 1, 2, 3, 9]), Ok((header, &[9u8][..])));
        assert_eq!(Header::decode(&[0x40, 0, 0]), Err(FragmentError::Truncated { have: 3 }));
        assert_eq!(Header::decode(&[0xbc, 0, 0, 0]), Err(FragmentError::Class { found: 15 }));
        assert_eq!(Header::decode(&[0x81, 0, 0, 0]), Err(FragmentError::Reserved { found: 0x81 }));
    }

    #[test]
    fn a_fragment_is_lost_when_every_link_is_past_it_and_not_before() {
        let mut r: Reassembler<Vec<u8>> = Reassembler::new(ReassemblerConfig::default(), 0b11);
        let b = Class::Bulk;
        // 0 of packet A is lost; 1 ends A; 2 is packet B.
        r.handle(ChannelId(0), &frame(false, true, b, 1, b"a")).unwrap();
        r.handle(ChannelId(0), &frame(true, true, b, 2, b"b")).unwrap();
        assert_eq!(r.poll(), None, "number 0 may still come by link 1");
        r.handle(ChannelId(1), &frame(true, true, b, 3, b"c")).unwrap();
        assert_eq!((r.poll(), r.poll(), r.poll()), (Some(b"b".to_vec()), Some(b"c".to_vec()), None));
        assert_eq!((r.stats().lost, r.stats().discarded), (1, 1));
        assert_eq!(r.buffered(), Bytes::ZERO);
    }

    #[test]
    fn what_a_sender_that_is_met_on_its_way_sent_before_is_not_lost() {
        for (begun, lost) in [(false, 1), (true, 2001)] {
            let mut r: Reassembler<Vec<u8>> = Reassembler::new(ReassemblerConfig::default(), 0b11);
            r.meet(Class::Bulk, 2000, begun);
            // Number 2001 is lost.
            for (link, sequence) in [(0, 2000), (0, 2002), (1, 2003)] {
                r.handle(ChannelId(link), &frame(true, true, Class::Bulk, sequence, b"x")).unwrap();
            }
            assert_eq!((std::iter::from_fn(|| r.poll()).count(), r.stats().lost), (3, lost));
        }
    }

    #[test]
    fn a_null_fragment_on_an_idle_link_reveals_the_loss() {
        let mut r: Reassembler<Vec<u8>> = Reassembler::new(ReassemblerConfig::default(), 0b11);
        r.handle(ChannelId(0), &frame(true, true, Class::Bulk, 1, b"x")).unwrap();
        assert_eq!(r.poll(), None);
        r.handle(ChannelId(1), &frame(true, true, Class::Bulk, 2, b"")).unwrap();
        assert_eq!((r.poll(), r.poll()), (Some(b"x".to_vec()), None));
        assert_eq!(r.stats().lost, 1);
    }

    #[test]
    fn hostile_numbers_and_endless_packets_stay_within_the_bounds() {
        let config = ReassemblerConfig { window: 64, buffer: Bytes::new(2000), max_packet: Bytes::new(1500) };
        let mut r: Reassembler<Vec<u8>> = Reassembler::new(config, 0b11);
        let mut rng = crate::rng::Rng::new(3);
        for i in 0..20_000u32 {
            let sequence = if i % 3 == 0 { rng.next_u64() as u32 } else { i };
            let f =
                frame(rng.below(9) == 0, rng.below(9) == 0, Class::Bulk, sequence, &vec![1; rng.below(900) as usize]);
            r.handle(ChannelId(rng.below(2) as u8), &f).unwrap();
            assert!(r.buffered() <= Bytes::new(2000));
            assert!(r.stream[0].ring.len() <= 64);
            let first = r.stream[0].ring.iter().position(Option::is_some);
            assert_eq!(r.first_held(0).map(|(at, _)| at), first);
            while let Some(p) = r.poll() {
                assert!(p.len() <= 1500);
            }
        }
        assert!(r.stats().beyond > 0 && r.stats().overflow > 0, "{:?}", r.stats());
        assert_eq!(r.handle(ChannelId(7), &[0; 9]), Err(FragmentError::Link(ChannelId(7))));
    }
}
