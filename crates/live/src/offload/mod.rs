//! Segmentation in user space: 64 kB units of segments from and to the TUN, packets from and to the channels.
//!
//! Pure functions on bytes. [`split()`] turns a unit into packets, [`Joiner`] packets into units, by the rules of
//! Linux's own GSO and GRO, so that what leaves is what the host would have sent and received itself.

pub(crate) mod checksum;
pub(crate) mod frame;
mod header;
mod join;
mod split;
#[cfg(test)]
mod tests;

pub use crate::pool::complete_checksum;
pub use checksum::sum;
pub use header::VnetHeader;
pub use join::{Head, JoinError, Joiner, MAX_SEGMENTS, Offloads, Unit};
pub use split::{SplitError, split};
