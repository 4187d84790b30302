//! What the receiver remembers: the references that frames brought.
//!
//! Whoever counts a frame as arrived must have taken the reference in it first: the sender relies on that. A reference is taken if it is newer
//! than the one that its place holds, so that a frame from long before changes nothing. Turns are compared as serial numbers of six bits.
//!
//! Cost: O(1) a packet. Memory: as many references as the highest place that was used, at most [`PLACES`](super::PLACES).

use super::code;
use super::form::{Form, Standing};
use super::headers::{Headers, MOST, MOST_TAIL, Reference};
use super::number::{TURNS, place_of, turn_of};
use crate::packet::{Packet, at};
use alloc::vec::Vec;

/// Why no packet came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// The frame is coded against the reference of this number, which is not here.
    Unknown(u16),
    /// No sender would write that.
    Malformed,
    /// There was no memory for the packet.
    Memory,
}

/// The receiver's end.
#[derive(Clone, Debug, Default)]
pub struct Decompressor {
    places: Vec<Option<(u16, Reference)>>,
}

impl Decompressor {
    /// Makes the packet of `frame` whole again, which is left without the `head` bytes of its envelope. Returns the packet's flow bucket, and
    /// whether the frame may be told of: a reference that it brought is here.
    ///
    /// # Errors
    /// Says why not. The frame is of no use then.
    pub fn restore<P: Packet>(
        &mut self,
        frame: &mut P,
        head: usize,
        form: Form,
        number: u16,
        sequence: u32,
    ) -> Result<(u16, bool), Unfit> {
        let size = frame.size().as_u64() as usize;
        let (bucket, new, headers) = match form {
            Form::Founds { v6, udp } => {
                let bucket = at::<2>(frame.bytes(), head).copied().map(u16::from_be_bytes).ok_or(Unfit::Malformed)?;
                let (bytes, len, taken) = founding(frame.bytes(), head + 2, size, v6, udp).ok_or(Unfit::Malformed)?;
                put(frame, taken, &bytes[..len])?;
                let size = frame.size().as_u64() as usize;
                let headers = Headers::read(frame.bytes(), size).ok_or(Unfit::Malformed)?;
                (bucket, Some(number), headers)
            }
            Form::Coded | Form::Renews => {
                let (new, from) = match form {
                    Form::Renews => {
                        let new = at::<2>(frame.bytes(), head).copied().map(u16::from_be_bytes);
                        (Some(new.ok_or(Unfit::Malformed)?), head + 2)
                    }
                    _ => (None, head),
                };
                let reference = self.find(number).ok_or(Unfit::Unknown(number))?;
                let rebuilt = code::decode(frame.bytes(), from, size, reference, sequence).ok_or(Unfit::Malformed)?;
                let bucket = reference.bucket;
                let (bytes, len): ([u8; MOST + MOST_TAIL], usize) = rebuilt.bytes();
                put(frame, rebuilt.taken, &bytes[..len])?;
                (bucket, new, rebuilt.headers)
            }
        };
        let Some(new) = new else { return Ok((bucket, true)) };
        let reference = Reference::of(&headers, Standing { bucket, sequence }).ok_or(Unfit::Malformed)?;
        Ok((bucket, self.take(new, reference)))
    }

    /// The peer is another one: nothing of what is here is its.
    pub fn forget_all(&mut self) {
        self.places.clear();
    }

    /// How many places there are, used or not.
    #[cfg(test)]
    pub(super) fn places(&self) -> usize {
        self.places.len()
    }

    #[inline]
    fn find(&self, number: u16) -> Option<&Reference> {
        let (turn, reference) = self.places.get(place_of(number))?.as_ref()?;
        (*turn == turn_of(number)).then_some(reference)
    }

    /// Takes a reference; whether it is here now.
    fn take(&mut self, number: u16, reference: Reference) -> bool {
        let (place, turn) = (place_of(number), turn_of(number));
        if self.places.len() <= place {
            self.places.resize(place + 1, None);
        }
        let held = &mut self.places[place];
        if let Some((before, _)) = held {
            // The same turn is the same frame a second time, or one so long after that it is the one that counts.
            if turn.wrapping_sub(*before) % TURNS >= TURNS / 2 {
                return false;
            }
        }
        *held = Some((turn, reference));
        true
    }
}

/// Puts headers in place of what a frame begins with.
#[inline]
fn put<P: Packet>(frame: &mut P, taken: usize, headers: &[u8]) -> Result<(), Unfit> {
    frame.strip(taken);
    if frame.prepend(headers) { Ok(()) } else { Err(Unfit::Memory) }
}

/// The IP header of a packet that founds a reference, its length, and how far it stood in the frame.
fn founding(frame: &[u8], from: usize, size: usize, v6: bool, udp: bool) -> Option<([u8; 40], usize, usize)> {
    let mut bytes = [0; 40];
    let protocol = if udp { crate::ip::UDP } else { crate::ip::TCP };
    let (len, taken) = if v6 {
        bytes[..4].copy_from_slice(at::<4>(frame, from)?);
        bytes[7..].copy_from_slice(at::<33>(frame, from + 4)?);
        bytes[6] = protocol;
        (40, from + 37)
    } else {
        let [tos, id0, id1, place0, place1, ttl, addresses @ ..] = at::<14>(frame, from)?;
        bytes[..2].copy_from_slice(&[0x45, *tos]);
        bytes[4..10].copy_from_slice(&[*id0, *id1, *place0, *place1, *ttl, protocol]);
        bytes[12..20].copy_from_slice(addresses);
        (20, from + 14)
    };
    let behind = size.checked_sub(taken)?;
    if v6 {
        bytes[4..6].copy_from_slice(&u16::try_from(behind).ok()?.to_be_bytes());
    } else {
        bytes[2..4].copy_from_slice(&u16::try_from(behind + 20).ok()?.to_be_bytes());
        let sum = crate::ip::checksum::of(&bytes[..20]);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    Some((bytes, len, taken))
}
