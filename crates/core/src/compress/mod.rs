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
//! | what a frame says of how its packet is written | `form` |
//! | numbers of references | `number` |
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
mod form;
mod headers;
mod number;
#[cfg(test)]
mod tests;

pub use code::{Coded, MOST_CODED};
pub use compressor::{Coding, Compressor};
pub use decompressor::{Decompressor, Unfit};
pub use form::{Form, Standing};
pub use headers::Reference;
pub use number::PLACES;
