//! What telling flows apart and serving them fairly costs for each packet of captures.
//!
//! Source: hybrid-gateways paper, chapter 2, which asks what a gateway can afford. It counts operations by formula ([`operations`]) over
//! the number of active flows ([`active`]). Beside that stands what our own disciplines and policies take, over the very same
//! packets ([`measured`]); and what follows from both ([`advice`]).
//!
//! What it is: packets are kept with their instants, sizes and flows ([`Sequence`]). They are played over one link, faster or slower
//! than they were captured, so that they load it as asked ([`Sequence::pace`]): what a link costs that is a bottleneck shows
//! only where packets wait. A flow is active while it has a packet at the link, waiting or being sent: the timeout of zero.

pub mod active;
pub mod advice;
pub mod measured;
pub mod meter;
pub mod operations;
mod sequence;

pub use sequence::{Config, Packet, Sequence};
