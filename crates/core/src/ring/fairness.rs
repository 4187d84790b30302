//! What a fairness algorithm sees of its node and says to it: one instance for each ringlet of a node.
//!
//! The node counts packets in; the algorithm sends control messages against the data and sets the rates at which the
//! node's own packets enter, one for each egress. It knows nothing of queues, packets or classes beyond what it is told.

use super::topology::Topology;
use super::{NodeId, Ringlet};
use crate::units::{Rate, Time};
use core::fmt;

/// What an algorithm may know when it computes.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The ring as this node knows it.
    pub topology: &'a Topology,
    /// This node.
    pub node: NodeId,
    /// The ringlet of the data.
    pub ringlet: Ringlet,
    /// What this node's outgoing link of the ringlet has for shared traffic: its capacity less reservations.
    pub capacity: Rate,
    /// The rate that shares in control messages refer to; the same for the whole ring.
    pub nominal: Rate,
    /// Bytes in transit that wait for the outgoing link, and how many may.
    pub transit: u64,
    /// Room of the transit queue in bytes.
    pub transit_limit: u64,
    /// Of the node's own traffic on this ringlet, by the index of the egress.
    pub station: &'a [Station],
}

/// The node's own traffic to one egress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Station {
    /// Bytes that came from the host so far, dropped ones included.
    pub offered: u64,
    /// Bytes that wait, for their limiter or, released by it, for the multiplexer.
    pub waiting: u64,
}

/// Why a control message was refused: counted, and without effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Refused {
    /// Not a message of this algorithm: another length, version or algorithm.
    Malformed,
    /// Made for another number of nodes.
    Nodes,
    /// Older than one that was taken, or taken already.
    Stale,
    /// From a node that this one cannot hear from on this ringlet, or that does not exist.
    Sender,
}

/// Names of the reasons to refuse a fairness message, as counters, by [`Refused::index`].
pub const REASONS: [&str; 4] = ["fairness_malformed", "fairness_nodes", "fairness_stale", "fairness_sender"];

impl Refused {
    /// The reason's place in [`REASONS`].
    pub const fn index(self) -> usize {
        match self {
            Refused::Malformed => 0,
            Refused::Nodes => 1,
            Refused::Stale => 2,
            Refused::Sender => 3,
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::Malformed => "not a message of this algorithm",
            Refused::Nodes => "made for another number of nodes",
            Refused::Stale => "older than one that was taken",
            Refused::Sender => "from a node that cannot have sent it",
        })
    }
}

/// A fairness algorithm, for one ringlet at one node. Times never go back.
pub trait Fairness {
    /// A packet that shares fairly came to the multiplexer of the outgoing link: in transit, or from the station when its
    /// limiter let it pass, whether or not there was room.
    fn on_arrival(&mut self, now: Time, ingress: NodeId, bytes: u32);

    /// A packet that shares fairly was given to the outgoing link.
    fn on_sent(&mut self, now: Time, ingress: NodeId, egress: NodeId, bytes: u32);

    /// A control message about this ringlet came from the node downstream.
    ///
    /// # Errors
    /// Why it was refused; then nothing changed.
    fn handle_control(&mut self, now: Time, view: &View<'_>, message: &[u8]) -> Result<(), Refused>;

    /// [`Fairness::poll_timeout`] is due.
    fn handle_timeout(&mut self, now: Time, view: &View<'_>);

    /// The topology, the capacity or the reservations are others now.
    fn handle_change(&mut self, now: Time, view: &View<'_>);

    /// When there is something to do next.
    fn poll_timeout(&self) -> Option<Time>;

    /// A control message for the node upstream, to be sent at once; to be asked until there is none.
    fn poll_control(&mut self) -> Option<&[u8]>;

    /// The rate at which the node's packets to `egress` may enter the ring. `None`: at any.
    fn limit(&self, egress: NodeId) -> Option<Rate>;

    /// The fair rate of `node` for its outgoing link, as a share of the nominal rate, as this node knows it: for people,
    /// metrics and tests. `None` where the algorithm has no such thing.
    fn fair(&self, node: NodeId) -> Option<f64>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn every_reason_has_its_counter_and_its_words() {
        for (reason, counter, words) in [
            (Refused::Malformed, "fairness_malformed", "not a message of this algorithm"),
            (Refused::Nodes, "fairness_nodes", "made for another number of nodes"),
            (Refused::Stale, "fairness_stale", "older than one that was taken"),
            (Refused::Sender, "fairness_sender", "from a node that cannot have sent it"),
        ] {
            assert_eq!((REASONS[reason.index()], reason.to_string().as_str()), (counter, words));
        }
    }
}
