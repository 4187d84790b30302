//! Headers of the host's packets, compressed over a path that loses and reorders frames.
//!
//! What it is: the sender remembers headers of a flow, the *references*, and has the peer remember them. A packet then carries what
//! differs from one reference, and the receiver rebuilds the rest, byte for byte. A packet whose headers cannot be rebuilt so goes whole.
//!
//! Source: the idea of RFC 5795 (robust header compression) and RFC 6846 (its TCP profile). Ours departs in what keeps both ends alike.
//! There, a packet is coded against what the receiver is thought to have, and a check sum finds out when it has something else. Here
//! nothing is thought: in mode `reliable` the peer tells of every frame whether it arrived. Only when it told that the very frame arrived
//! which carried a reference are packets coded against that reference, and each against one reference, never against the packet before
//! it. So no loss, no reordering and no second copy can make the two ends differ, and there is nothing to resynchronise.
//!
//! | part | file |
//! |---|---|
//! | which headers are understood, and what a reference is | `headers` |
//! | how a packet is written as a difference from a reference, and read again | `code` |
//! | what the sender remembers: flows, references, which of them are confirmed | `compressor` |
//! | what the receiver remembers | `decompressor` |
//!
//! A reference has a number of 16 bits: a place among [`PLACES`] (10 bits) and how often that place was used (6 bits). A place is used
//! again two seconds after its reference was given up at the earliest, so a number comes again after 128 s at the earliest.
//! A receiver takes a reference only if it is newer than what its place holds, and a frame whose reference it does not hold counts as not arrived.
//!
//! Cost: O(1) a packet, no allocation once it has grown. Memory: at most [`PLACES`] references of [`Reference`]'s size at each end, and 2048 flows at the sender.

mod code;
mod compressor;
mod decompressor;
mod headers;
#[cfg(test)]
mod tests;

pub use code::{Coded, MOST_CODED};
pub use compressor::{Coding, Compressor};
pub use decompressor::{Decompressor, Unfit};
pub use headers::Reference;

/// How many references there may be at a time.
pub const PLACES: usize = 1 << PLACE_BITS;
const PLACE_BITS: u32 = 10;
/// How often a place is used before its number comes again.
const TURNS: u16 = 1 << (16 - PLACE_BITS);

/// The place of the reference of this number.
#[inline]
const fn place_of(number: u16) -> usize {
    number as usize & (PLACES - 1)
}

/// Which use of its place a reference of this number is.
#[inline]
const fn turn_of(number: u16) -> u16 {
    number >> PLACE_BITS
}

/// The number of the reference that is the `turn`th at `place`.
#[inline]
const fn number_of(place: u16, turn: u16) -> u16 {
    turn << PLACE_BITS | place
}

/// Where a packet stands among those of its flow bucket, as its envelope says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The flow bucket.
    pub bucket: u16,
    /// Its number in it; the low 24 bits count.
    pub sequence: u32,
}

/// What a compressed frame carries beside what its envelope says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A packet as it differs from a reference.
    Coded,
    /// The same, and the packet becomes a reference.
    Renews,
    /// A packet whose headers but what follows from others are all there, and which becomes a reference.
    Founds {
        /// It is IPv6.
        v6: bool,
        /// It is UDP, and TCP otherwise.
        udp: bool,
    },
}

impl Form {
    const CODED: u8 = 0;
    const RENEWS: u8 = 1;
    const FOUNDS: u8 = 2;
    const V6: u8 = 4;
    const UDP: u8 = 8;

    /// Four bits that say it.
    #[inline]
    pub const fn to_bits(self) -> u8 {
        match self {
            Form::Coded => Form::CODED,
            Form::Renews => Form::RENEWS,
            Form::Founds { v6, udp } => Form::FOUNDS | if v6 { Form::V6 } else { 0 } | if udp { Form::UDP } else { 0 },
        }
    }

    /// What the four bits say; `None`: nothing yet.
    #[inline]
    pub const fn from_bits(bits: u8) -> Option<Form> {
        match bits {
            Form::CODED => Some(Form::Coded),
            Form::RENEWS => Some(Form::Renews),
            _ if bits & 3 == Form::FOUNDS => {
                Some(Form::Founds { v6: bits & Form::V6 != 0, udp: bits & Form::UDP != 0 })
            }
            _ => None,
        }
    }
}
