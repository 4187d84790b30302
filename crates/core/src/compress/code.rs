//! A packet as it differs from a reference.
//!
//! Two bytes, the *mask*, say which fields follow and how wide they are (one byte for UDP); then come the fields in the order of
//! the table. All numbers are big-endian. A *step* is by how much the packet's number in its flow bucket is ahead of the reference's.
//!
//! | field | bits of the mask | 0 | 1 | 2 | 3 |
//! |---|---|---|---|---|---|
//! | TCP's sequence number | 15, 14 | as in the reference | as if all between were as long | u24 beyond the reference's less 2^20 | u32 |
//! | its acknowledgment | 13, 12 | as in the reference | u16 beyond | u24 beyond | u32 |
//! | IPv4's identification | 11, 10 | as in the reference | a step beyond | u16 | (not used) |
//! | whether PSH is set | 9 | no | yes | | |
//! | the checksum of TCP or UDP | 8 | the pseudo-header's sum | u16 | | |
//! | timestamp | 7, 6 | as in the reference | u8 beyond | u16 beyond | u32 |
//! | its echo | 5, 4 | as in the reference | u8 beyond | u16 beyond | u32 |
//! | window | 3 | as in the reference | u16 | | |
//! | type of service | 2 | as in the reference | u8 | | |
//! | tail | 1 | none | a byte with its words, then the tail | | |
//! | (zero) | 0 | | | | |
//!
//! A mask of UDP has the identification in its bits 1 and 0, the checksum in bit 2 and the type of service in bit 3; the others are zero.
//!
//! **Equal lengths.** Frames leave by segmentation offload, which wants datagrams of one length. So what a packet needed, those after it
//! have too until the reference changes: a *least* mask goes in, and no field is narrower than it says.

use super::form::{Form, Standing};
use super::headers::{ACK, Headers, MOST, MOST_TAIL, PSH, Reference};
use crate::packet::at;
use crate::wire::short::short;

/// Bytes of the longest of what stands between the envelope and the payload.
pub const MOST_CODED: usize = 47;
/// How far a TCP sequence number may lie before the reference's and still be three bytes.
const BEFORE: u32 = 1 << 20;

const SEQUENCE: u16 = 14;
const ACKNOWLEDGMENT: u16 = 12;
const IDENTIFICATION: u16 = 10;
const PUSH: u16 = 9;
const CHECKSUM: u16 = 8;
const STAMP: u16 = 6;
const ECHO: u16 = 4;
const WINDOW: u16 = 3;
const TOS: u16 = 2;
const TAIL: u16 = 1;

/// What stands between a frame's envelope and the rest of its packet.
#[derive(Clone, Copy, Debug)]
pub struct Coded {
    bytes: [u8; MOST_CODED],
    len: u8,
    /// How many bytes at the packet's beginning it stands for.
    pub skip: usize,
    /// What kind of frame it is of.
    pub form: Form,
    /// The reference that the packet is coded against, or becomes if it founds one.
    pub reference: u16,
}

impl Coded {
    /// Nothing yet.
    pub(super) const fn new(form: Form, reference: u16) -> Coded {
        Coded { bytes: [0; MOST_CODED], len: 0, skip: 0, form, reference }
    }

    /// The bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// What is longest has room: a test holds that.
    #[inline]
    pub(super) fn push<const N: usize>(&mut self, bytes: [u8; N]) {
        let at = usize::from(self.len);
        self.bytes[at..at + N].copy_from_slice(&bytes);
        self.len += N as u8;
    }

    pub(super) fn push_all(&mut self, bytes: &[u8]) {
        let at = usize::from(self.len);
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len() as u8;
    }

    /// Writes the number of the reference that the packet becomes, for which room was left at the beginning.
    #[inline]
    pub(super) fn put_number(&mut self, number: u16) {
        self.bytes[..2].copy_from_slice(&number.to_be_bytes());
    }

    /// All of an IP header but what follows from other things: version and header length of IPv4, lengths, protocol, checksum.
    pub(super) fn push_ip(&mut self, headers: &Headers) {
        let b = &headers.bytes;
        if headers.shape.v6 {
            self.push_all(&b[..4]);
            self.push_all(&b[7..40]);
        } else {
            self.push([b[1], b[4], b[5], b[6], b[7], b[8]]);
            self.push_all(&b[12..20]);
        }
    }

    #[inline]
    fn push_u24(&mut self, value: u32) {
        let [_, a, b, c] = value.to_be_bytes();
        self.push([a, b, c]);
    }
}

/// Bytes that the fields of this mask take, without a tail.
pub(super) const fn width(mask: u16) -> u32 {
    const WIDE: [u32; 4] = [0, 0, 3, 4];
    const ACK_WIDE: [u32; 4] = [0, 2, 3, 4];
    const STAMP_WIDE: [u32; 4] = [0, 1, 2, 4];
    WIDE[(mask >> SEQUENCE & 3) as usize]
        + ACK_WIDE[(mask >> ACKNOWLEDGMENT & 3) as usize]
        + if mask >> IDENTIFICATION & 3 == 2 { 2 } else { 0 }
        + if mask >> CHECKSUM & 1 == 1 { 2 } else { 0 }
        + STAMP_WIDE[(mask >> STAMP & 3) as usize]
        + STAMP_WIDE[(mask >> ECHO & 3) as usize]
        + if mask >> WINDOW & 1 == 1 { 2 } else { 0 }
        + if mask >> TOS & 1 == 1 { 1 } else { 0 }
}

/// What of a mask the packets after it are to have too: all fields but the flag and the tail.
const LASTING: u16 = !(1 << PUSH | 1 << TAIL | 1);

/// The fields that every packet has: timestamps soon need a byte each.
pub(super) const LEAST: u16 = 1 << STAMP | 1 << ECHO;

/// The TCP sequence number of a packet with `payload` that is `step` behind the reference, if all between are as long as it.
#[inline]
fn foreseen(reference: &Reference, payload: usize, step: u32) -> u32 {
    let at = reference.headers.shape.ip() + 4;
    let between = step.wrapping_sub(1).wrapping_mul(payload as u32);
    reference.headers.long(at).wrapping_add(reference.headers.payload as u32).wrapping_add(between)
}

/// The identification a step beyond the reference's.
#[inline]
fn foreseen_identification(reference: &Reference, step: u32) -> u16 {
    reference.headers.short(4).wrapping_add(step as u16)
}

/// Whether all is alike that is never written.
#[inline]
fn fits(headers: &Headers, reference: &Reference, standing: Standing) -> bool {
    let (one, other) = (&headers.bytes, &reference.headers.bytes);
    let ip = headers.shape.ip();
    if headers.shape != reference.headers.shape
        || standing.bucket != reference.bucket
        || one[ip..ip + 4] != other[ip..ip + 4]
    {
        return false;
    }
    if headers.shape.v6 {
        // The flow label, then the next header to the addresses.
        one[1] & 15 == other[1] & 15 && one[2..4] == other[2..4] && one[6..40] == other[6..40]
    } else {
        one[6..10] == other[6..10] && one[12..20] == other[12..20]
    }
}

/// Writes a packet as it differs from `reference`, no field narrower than in `least`. Returns the new least mask; `None`: it cannot be written so.
#[inline]
pub(super) fn encode(
    coded: &mut Coded,
    headers: &Headers,
    packet: &[u8],
    reference: &Reference,
    standing: Standing,
    least: u16,
) -> Option<u16> {
    if !fits(headers, reference, standing) {
        return None;
    }
    let (old, shape) = (&reference.headers, headers.shape);
    let step = short(standing.sequence.wrapping_sub(reference.sequence));
    let ip = shape.ip();
    let mut mask = least & LASTING & if shape.stamps { LASTING } else { !(15 << ECHO) };
    let begin = usize::from(coded.len);
    coded.push([0]);
    if !shape.udp {
        coded.push([0]);
        mask = numbers(coded, mask, headers, reference, step);
    }
    if !shape.v6 {
        let value = headers.short(4);
        let code = match least >> IDENTIFICATION & 3 {
            0 | 1 if value == old.short(4) => 0,
            0 | 1 if value == foreseen_identification(reference, step) => 1,
            _ => 2,
        };
        if code == 2 {
            coded.push(value.to_be_bytes());
        }
        mask = mask & !(3 << IDENTIFICATION) | code << IDENTIFICATION;
    }
    if shape.stamps {
        mask = stamp(coded, mask, STAMP, headers.long(ip + 24), old.long(ip + 24));
        mask = stamp(coded, mask, ECHO, headers.long(ip + 28), old.long(ip + 28));
    }
    let mut literal = |at: u16, same: bool| {
        mask |= u16::from(!same) << at;
        mask >> at & 1 == 1
    };
    if !shape.udp && literal(WINDOW, headers.short(ip + 14) == old.short(ip + 14)) {
        coded.push(headers.short(ip + 14).to_be_bytes());
    }
    let sum = headers.short(shape.checksum());
    let made = crate::ip::checksum::add(reference.pseudo + headers.covered(), &[]) as u16;
    if literal(CHECKSUM, sum == made) {
        coded.push(sum.to_be_bytes());
    }
    if literal(TOS, headers.tos() == old.tos()) {
        coded.push([headers.tos()]);
    }
    let lasting = mask;
    if headers.tail > 0 {
        mask |= 1 << TAIL;
        coded.push([headers.tail as u8 / 4]);
        coded.push_all(packet.get(shape.len()..shape.len() + headers.tail)?);
    }
    if !shape.udp && headers.bytes[ip + 13] & PSH != 0 {
        mask |= 1 << PUSH;
    }
    if shape.udp {
        let short = mask >> IDENTIFICATION & 3 | (mask >> CHECKSUM & 1) << 2 | (mask >> TOS & 1) << 3;
        coded.bytes[begin] = short as u8;
    } else {
        coded.bytes[begin..begin + 2].copy_from_slice(&mask.to_be_bytes());
    }
    coded.skip = shape.len() + headers.tail;
    Some(lasting)
}

/// Writes a segment's sequence number and acknowledgment; the mask with their widths.
#[inline]
fn numbers(coded: &mut Coded, mask: u16, headers: &Headers, reference: &Reference, step: u32) -> u16 {
    let (old, ip) = (&reference.headers, headers.shape.ip());
    let (value, from) = (headers.long(ip + 4), old.long(ip + 4));
    let beyond = value.wrapping_sub(from).wrapping_add(BEFORE);
    let sequence = match mask >> SEQUENCE & 3 {
        0 | 1 if value == from => 0,
        0 | 1 if value == foreseen(reference, headers.payload, step) => 1,
        0..3 if beyond < 1 << 24 => 2,
        _ => 3,
    };
    match sequence {
        2 => coded.push_u24(beyond),
        3 => coded.push(value.to_be_bytes()),
        _ => {}
    }
    let value = headers.long(ip + 8);
    let beyond = value.wrapping_sub(old.long(ip + 8));
    let acknowledgment = match mask >> ACKNOWLEDGMENT & 3 {
        0 if beyond == 0 => 0,
        0 | 1 if beyond < 1 << 16 => 1,
        0..3 if beyond < 1 << 24 => 2,
        _ => 3,
    };
    match acknowledgment {
        0 => {}
        1 => coded.push((beyond as u16).to_be_bytes()),
        2 => coded.push_u24(beyond),
        _ => coded.push(value.to_be_bytes()),
    }
    mask & !(15 << ACKNOWLEDGMENT) | sequence << SEQUENCE | acknowledgment << ACKNOWLEDGMENT
}

/// Writes one of the timestamps; the mask with its width.
#[inline]
fn stamp(coded: &mut Coded, mask: u16, at: u16, value: u32, from: u32) -> u16 {
    let beyond = value.wrapping_sub(from);
    let code = match mask >> at & 3 {
        0 if beyond == 0 => 0,
        0 | 1 if beyond < 1 << 8 => 1,
        0..3 if beyond < 1 << 16 => 2,
        _ => 3,
    };
    match code {
        0 => {}
        1 => coded.push([beyond as u8]),
        2 => coded.push((beyond as u16).to_be_bytes()),
        _ => coded.push(value.to_be_bytes()),
    }
    mask & !(3 << at) | code << at
}

/// Takes fields from the beginning of bytes.
struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Fields<'_> {
    #[inline]
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let bytes = at::<N>(self.bytes, self.at)?;
        self.at += N;
        Some(*bytes)
    }

    #[inline]
    fn u8(&mut self) -> Option<u32> {
        self.take::<1>().map(|[a]| u32::from(a))
    }

    #[inline]
    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    #[inline]
    fn u24(&mut self) -> Option<u32> {
        self.take().map(|[a, b, c]| u32::from_be_bytes([0, a, b, c]))
    }

    #[inline]
    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    #[inline]
    fn stamp(&mut self, code: u16, from: u32) -> Option<u32> {
        Some(match code & 3 {
            0 => from,
            1 => from.wrapping_add(self.u8()?),
            2 => from.wrapping_add(self.u16()?.into()),
            _ => self.u32()?,
        })
    }
}

/// Headers that were rebuilt.
#[derive(Debug)]
pub(super) struct Rebuilt {
    pub(super) headers: Headers,
    pub(super) tail: [u8; MOST_TAIL],
    /// Bytes of the frame that they stood in.
    pub(super) taken: usize,
}

impl Rebuilt {
    /// The headers as they stand in the packet, and how long they are.
    #[inline]
    pub(super) fn bytes(&self) -> ([u8; MOST + MOST_TAIL], usize) {
        let (len, tail) = (self.headers.shape.len(), self.headers.tail);
        let mut bytes = [0; MOST + MOST_TAIL];
        bytes[..MOST].copy_from_slice(&self.headers.bytes);
        bytes[len..len + MOST_TAIL].copy_from_slice(&self.tail);
        (bytes, len + tail)
    }
}

/// Reads what [`encode`] wrote, from byte `from` of a frame that is `size` bytes long; `None`: nobody wrote that.
#[inline]
pub(super) fn decode(frame: &[u8], from: usize, size: usize, reference: &Reference, sequence: u32) -> Option<Rebuilt> {
    let old = &reference.headers;
    let shape = old.shape;
    let step = short(sequence.wrapping_sub(reference.sequence));
    let ip = shape.ip();
    let mut f = Fields { bytes: frame, at: from };
    let mask = match shape.udp {
        true => {
            let mask = f.u8()? as u16;
            if mask >> 4 != 0 {
                return None;
            }
            (mask & 3) << IDENTIFICATION | (mask >> 2 & 1) << CHECKSUM | (mask >> 3 & 1) << TOS
        }
        false => f.u16()?,
    };
    let mut headers = *old;
    let mut rebuilt_tail = [0; MOST_TAIL];
    let mut follows = false;
    // What the shape has no place for has no bits.
    let none = 1 | if shape.v6 { 3 << IDENTIFICATION } else { 0 } | if shape.stamps { 0 } else { 15 << ECHO };
    if mask & none != 0 {
        return None;
    }
    if !shape.udp {
        match mask >> SEQUENCE & 3 {
            0 => {}
            1 => follows = true,
            2 => headers.put_long(ip + 4, old.long(ip + 4).wrapping_add(f.u24()?).wrapping_sub(BEFORE)),
            _ => headers.put_long(ip + 4, f.u32()?),
        }
        let from = old.long(ip + 8);
        let acknowledgment = match mask >> ACKNOWLEDGMENT & 3 {
            0 => from,
            1 => from.wrapping_add(f.u16()?.into()),
            2 => from.wrapping_add(f.u24()?),
            _ => f.u32()?,
        };
        headers.put_long(ip + 8, acknowledgment);
        headers.bytes[ip + 13] = if mask >> PUSH & 1 == 1 { ACK | PSH } else { ACK };
    }
    match mask >> IDENTIFICATION & 3 {
        0 => {}
        1 => headers.put_short(4, foreseen_identification(reference, step)),
        2 => headers.put_short(4, f.u16()?),
        _ => return None,
    }
    if shape.stamps {
        headers.put_long(ip + 24, f.stamp(mask >> STAMP, old.long(ip + 24))?);
        headers.put_long(ip + 28, f.stamp(mask >> ECHO, old.long(ip + 28))?);
    }
    if mask >> WINDOW & 1 == 1 {
        headers.put_short(ip + 14, f.u16()?);
    }
    let sum = if mask >> CHECKSUM & 1 == 1 { Some(f.u16()?) } else { None };
    if mask >> TOS & 1 == 1 {
        headers.put_tos(f.u8()? as u8);
    }
    if mask >> TAIL & 1 == 1 {
        headers.tail = f.u8()? as usize * 4;
        let room = rebuilt_tail.get_mut(..headers.tail).filter(|room| !room.is_empty())?;
        room.copy_from_slice(frame.get(f.at..f.at + headers.tail)?);
        f.at += headers.tail;
    }
    headers.payload = size.checked_sub(f.at)?;
    if follows {
        headers.put_long(ip + 4, foreseen(reference, headers.payload, step));
    }
    let made = || crate::ip::checksum::add(reference.pseudo + headers.covered(), &[]) as u16;
    let sum = sum.unwrap_or_else(made);
    headers.put_short(shape.checksum(), sum);
    headers.finish().then_some(Rebuilt { headers, tail: rebuilt_tail, taken: f.at })
}
