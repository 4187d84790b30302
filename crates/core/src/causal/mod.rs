//! Causal disciplines: which queue to serve, or which channel to send on, knowing only what went before.
//!
//! Source: striping §3.1-3.7. A causal fair-queueing discipline is a triple (s0, f, g): an initial state, a function
//! f(s) that selects a queue, and a function g(s, p) that gives the state after packet p. The same triple shares
//! load (it *pushes* to the selected channel) and resequences (it *pulls* from the selected channel's buffer and
//! waits while that is empty); theorem 3.1 carries fairness over, theorem 4.1 order.
//!
//! | paper | here |
//! |---|---|
//! | s0 | the constructors |
//! | f(s) | [`Causal::select`] |
//! | g(s, p) | [`Causal::update`] |
//! | fair queue, Figure 2 | [`FairQueue`] |
//! | load sharer, Figure 3 | [`LoadSharer`] |
//! | resequencer, Theorem 4.1 | [`Resequencer`] |
//!
//! Departure: [`Causal::pass`], which the paper needs nowhere since it looks at backlogged queues only; a fair queue
//! in use meets empty queues and must not stop there.

mod cycle;
mod grr;
mod rfq;
mod rr;
pub(crate) mod set;
mod srr;
mod surplus;
mod uses;

pub(crate) use cycle::{Cycle, Links, Ring};
pub use grr::Grr;
pub use rfq::Rfq;
pub use rr::Rr;
pub use set::{ChannelSet, SetError, Unit};
pub use srr::Srr;
pub(crate) use surplus::Turns;
pub use uses::{FairQueue, LoadSharer, Resequencer};

use crate::units::{Bytes, ChannelId};

/// A causal discipline: the next choice depends only on the choices and lengths before it.
pub trait Causal {
    /// f(s): the channel of the next packet. Pure: the same answer until the next [`update`](Causal::update).
    fn select(&self) -> ChannelId;

    /// g(s, p): a packet of `len` bytes was sent to, or taken from, the selected channel.
    fn update(&mut self, len: Bytes);

    /// Leaves the selected channel without a packet, because its queue is empty (fair queueing without backlog).
    /// Called once per member at most, one after the other, it selects every member once.
    fn pass(&mut self);
}
