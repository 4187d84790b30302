//! Reliable flows over several paths: core's EFL-MP at both ends, and the schemes that its paper compares it with.
//!
//! Source: efl-mp 2.1, 4 and Figures 1 to 3. What is measured of a reliable flow are its packets as the receiver's application gets
//! them, whole and in order; its latency is from their first transmission to their delivery.
//!
//! | paper | here |
//! |---|---|
//! | EFLMP-proposed, EFLMP-conventional | [`Scheme::EflMp`] with trigger `published`, `timer` |
//! | LAH: a hash on addresses, one path for a flow | [`Scheme::Lah`]: the first path, with the same machine |
//! | LARR: round robin without reorder buffers | [`Scheme::Larr`]: reorder buffers of no packets |
//! | MTCP: numbers for each path and for the flow | [`Scheme::Mtcp`]: `two_stage.rs` |
//! | IDEAL | [`Scheme::Ideal`]: reckoned from the links, nothing is sent |
//! | (ours) | [`Scheme::Bound`]: IDEAL less what reorder buffers of this size cost after each loss: `reckoned.rs` |
//!
//! Headers are written to octets and read again, as on a wire.

mod ends;
pub(crate) mod joined;
mod payload;
mod reckoned;
mod two_stage;

pub use payload::Complexity;

use crate::model::Scheme;
use fairspan_core::arq::Config;

/// The state that `scheme` keeps for a flow over `paths` paths: counted in the ends as they are built.
pub fn complexity(scheme: Scheme, config: &Config, paths: usize) -> Complexity {
    ends::Ends::new(scheme, config, paths).complexity()
}
