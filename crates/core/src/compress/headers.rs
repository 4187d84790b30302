//! Headers that are understood: IPv4 without options or IPv6 without extensions, then TCP or UDP.
//!
//! Of TCP, segments that are neither the first nor the last of their connection: flags ACK, with or without PSH, and no urgent data. Its
//! options are none, or the timestamps as Linux and others lay them out (two bytes of padding in front), and then whatever
//! else there is, the *tail*, such as SACK blocks. Fragments are not understood, nor is a packet with a length or a checksum of its IP
//! header that is not right: all that follows from something else is then left out and made anew.

use super::form::Standing;
use crate::ip::{TCP, UDP, checksum};
use crate::packet::at;

/// Bytes of the longest headers that a reference may have: IPv6, TCP and timestamps.
pub(super) const MOST: usize = 72;
/// Bytes of the longest tail.
pub(super) const MOST_TAIL: usize = 20;
/// How the timestamps begin: two no-operations, their kind and length (RFC 7323 appendix A).
const STAMPS: [u8; 4] = [1, 1, 8, 10];
/// Bytes of the timestamps with their padding.
const STAMPS_LEN: usize = 12;
/// TCP's flags ACK and PSH.
pub(super) const ACK: u8 = 0x10;
pub(super) const PSH: u8 = 0x08;

/// Which headers there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) v6: bool,
    pub(super) udp: bool,
    /// TCP's timestamps.
    pub(super) stamps: bool,
}

impl Shape {
    /// Bytes of the IP header.
    #[inline]
    pub(super) const fn ip(self) -> usize {
        if self.v6 { 40 } else { 20 }
    }

    /// Bytes of the transport header, without a tail.
    #[inline]
    pub(super) const fn transport(self) -> usize {
        match self {
            Shape { udp: true, .. } => 8,
            Shape { stamps: true, .. } => 20 + STAMPS_LEN,
            _ => 20,
        }
    }

    /// Bytes of both.
    #[inline]
    pub(super) const fn len(self) -> usize {
        self.ip() + self.transport()
    }

    /// Where the checksum of the transport header is.
    #[inline]
    pub(super) const fn checksum(self) -> usize {
        self.ip() + if self.udp { 6 } else { 16 }
    }
}

/// The headers of a packet, and what is left out of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Headers {
    pub(super) shape: Shape,
    /// The headers without the tail; zeros behind them.
    pub(super) bytes: [u8; MOST],
    /// Bytes of TCP options behind the headers.
    pub(super) tail: usize,
    /// Bytes behind all headers.
    pub(super) payload: usize,
}

impl Headers {
    /// Reads the headers of a packet that is `size` bytes long, of which at least all headers are there; `None`: they are not understood.
    #[inline]
    pub(super) fn read(packet: &[u8], size: usize) -> Option<Headers> {
        let (v6, protocol) = match packet.first()? {
            0x45 => (false, v4(packet.first_chunk()?, size)?),
            first if first >> 4 == 6 => (true, v6(packet.first_chunk()?, size)?),
            _ => return None,
        };
        let ip = if v6 { 40 } else { 20 };
        let (shape, tail) = match protocol {
            TCP => {
                let (stamps, tail) = tcp(packet, ip)?;
                (Shape { v6, udp: false, stamps }, tail)
            }
            UDP => {
                let length = at::<2>(packet, ip + 4).map(|length| usize::from(u16::from_be_bytes(*length)))?;
                (length == size - ip && length >= 8).then_some((Shape { v6, udp: true, stamps: false }, 0))?
            }
            _ => return None,
        };
        let len = shape.len();
        let payload = size.checked_sub(len + tail)?;
        let mut bytes = [0; MOST];
        // A length that the compiler knows makes it a few moves.
        match packet.first_chunk::<MOST>() {
            Some(all) => {
                bytes = *all;
                bytes[len..].fill(0);
            }
            None => bytes[..len].copy_from_slice(packet.get(..len)?),
        }
        (packet.len() >= len + tail).then_some(Headers { shape, bytes, tail, payload })
    }

    /// A number of two bytes.
    #[inline]
    pub(super) fn short(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.bytes[at], self.bytes[at + 1]])
    }

    /// A number of four bytes.
    #[inline]
    pub(super) fn long(&self, at: usize) -> u32 {
        u32::from_be_bytes([self.bytes[at], self.bytes[at + 1], self.bytes[at + 2], self.bytes[at + 3]])
    }

    #[inline]
    pub(super) fn put_short(&mut self, at: usize, value: u16) {
        self.bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
    }

    #[inline]
    pub(super) fn put_long(&mut self, at: usize, value: u32) {
        self.bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
    }

    /// The type of service or traffic class.
    #[inline]
    pub(super) fn tos(&self) -> u8 {
        if self.shape.v6 { self.bytes[0] << 4 | self.bytes[1] >> 4 } else { self.bytes[1] }
    }

    #[inline]
    pub(super) fn put_tos(&mut self, tos: u8) {
        if self.shape.v6 {
            self.bytes[0] = self.bytes[0] & 0xf0 | tos >> 4;
            self.bytes[1] = self.bytes[1] & 0x0f | tos << 4;
        } else {
            self.bytes[1] = tos;
        }
    }

    /// Writes all that follows from the rest: lengths, and the checksum of the IP header. `false`: the packet would be too long.
    #[inline]
    pub(super) fn finish(&mut self) -> bool {
        let shape = self.shape;
        let behind = shape.transport() + self.tail + self.payload;
        let length = if shape.v6 { behind } else { behind + 20 };
        let (Ok(length), Ok(behind)) = (u16::try_from(length), u16::try_from(behind)) else { return false };
        if shape.v6 {
            self.put_short(4, length);
        } else {
            self.put_short(2, length);
            self.put_short(10, 0);
            let sum = checksum::of(&self.bytes[..20]);
            self.put_short(10, sum);
        }
        if shape.udp {
            self.put_short(shape.ip() + 4, behind);
        } else {
            // Its reserved bits are zero.
            self.bytes[shape.ip() + 12] = ((shape.transport() + self.tail) as u8 / 4) << 4;
        }
        true
    }

    /// The sum of addresses and protocol in the pseudo-header, which is the same in all packets of a flow.
    #[inline]
    pub(super) fn pseudo(&self) -> u32 {
        let protocol = u32::from(if self.shape.udp { UDP } else { TCP });
        let addresses = if self.shape.v6 { &self.bytes[8..40] } else { &self.bytes[12..20] };
        checksum::add(protocol, addresses)
    }

    /// Bytes that the transport header's checksum covers.
    #[inline]
    pub(super) fn covered(&self) -> u32 {
        (self.shape.transport() + self.tail + self.payload) as u32
    }
}

/// The protocol of an IPv4 packet whose header is as it should be.
#[inline]
fn v4(b: &[u8; 20], size: usize) -> Option<u8> {
    let word = |at: usize| u16::from_be_bytes([b[at], b[at + 1]]);
    // No fragment: neither an offset nor more of them.
    let whole = word(6) & 0x3fff == 0;
    // The sum that there is has to be the one that would be made: there are two ways to write a zero.
    let made = checksum::finish(checksum::add(checksum::add(0, &b[..10]), &b[12..]));
    (whole && usize::from(word(2)) == size && made == word(10)).then_some(b[9])
}

/// The protocol of an IPv6 packet without extensions.
#[inline]
fn v6(b: &[u8; 40], size: usize) -> Option<u8> {
    (usize::from(u16::from_be_bytes([b[4], b[5]])) + 40 == size).then_some(b[6])
}

/// Whether a segment has timestamps, and how many bytes of options besides.
#[inline]
fn tcp(packet: &[u8], ip: usize) -> Option<(bool, usize)> {
    let b = at::<20>(packet, ip)?;
    let options = (usize::from(b[12] >> 4) * 4).checked_sub(20)?;
    let plain = b[12] & 15 == 0 && b[13] & !PSH == ACK && b[18..] == [0, 0];
    let stamps = options >= STAMPS_LEN && at::<4>(packet, ip + 20) == Some(&STAMPS);
    let tail = if stamps { options - STAMPS_LEN } else { options };
    (plain && tail <= MOST_TAIL).then_some((stamps, tail))
}

/// Headers of a packet that both ends remember, and where it stands.
#[derive(Clone, Copy, Debug)]
pub struct Reference {
    pub(super) headers: Headers,
    pub(super) bucket: u16,
    /// 24 bits.
    pub(super) sequence: u32,
    /// [`Headers::pseudo`] of every packet of its flow.
    pub(super) pseudo: u32,
}

impl Reference {
    /// The reference that a packet with these headers becomes; `None`: it has a tail, and becomes none.
    #[inline]
    pub(super) fn of(headers: &Headers, standing: Standing) -> Option<Reference> {
        let Standing { bucket, sequence } = standing;
        let sequence = crate::wire::short::short(sequence);
        (headers.tail == 0).then(|| Reference { headers: *headers, bucket, sequence, pseudo: headers.pseudo() })
    }
}
