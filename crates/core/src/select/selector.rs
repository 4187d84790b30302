//! What every policy takes and gives, and what a policy's settings say of it.

use super::links::Links;
use crate::flow::Frame;
use crate::options::Table;
use crate::set::LinkSet;
use crate::units::{ChannelId, Time};

/// Chooses links for packets.
pub trait Select {
    /// The links that carry `frame`: one, or all of several copies; empty where no link is usable. Any bytes may come.
    fn select(&mut self, now: Time, frame: &Frame<'_>, links: &Links) -> LinkSet;

    /// As [`Select::select`], for a caller that can let a packet wait for its instant: also when the packet may begin to leave
    /// its link, those behind it waiting as well. A policy that does not need that says: at once.
    fn select_held(&mut self, now: Time, frame: &Frame<'_>, links: &Links) -> (LinkSet, Time) {
        (self.select(now, frame, links), Time::ZERO)
    }

    /// Links joined, left, came up, went down or have other rates. To be called before the next `select`.
    fn on_links(&mut self, _now: Time, _links: &Links) {}

    /// When [`Select::handle_timeout`] is to be called at the latest.
    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    /// Does what is due at `now`. Calling it early or late does no harm.
    fn handle_timeout(&mut self, _now: Time, _links: &Links) {}

    /// The one link that carries what is not balanced, of the policies that have one (`active-backup`, `balance-tlb`,
    /// `balance-alb`): an Ethernet bond listens to it and announces when it changes.
    fn current(&self) -> Option<ChannelId> {
        None
    }

    /// What a policy that goes by bursts did so far; zeros for others.
    fn stats(&self) -> BurstStats {
        BurstStats::default()
    }
}

/// What a policy that goes by bursts did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BurstStats {
    /// Flows that were new, or had been forgotten.
    pub flows: u64,
    /// Bursts, each flow's first included.
    pub bursts: u64,
    /// Packets that took another link than the one before them in their flow.
    pub moves: u64,
    /// Flows that lost their place in the table to others before they expired.
    pub evicted: u64,
}

/// The settings of one policy: what it is, and the selector that they make.
pub trait PolicyConfig: Default + 'static {
    /// As it is written.
    const NAME: &'static str;
    /// The number of the Linux bonding mode, where it is one; 7 is the burst-round-robin paper's.
    const MODE: Option<u8> = None;
    /// The option that may be given without its name, as in `brr:12ms`.
    const MAIN: Option<&'static str> = None;
    /// What it does, for people.
    const HELP: &'static str;
    /// Its options.
    const OPTIONS: Table<Self>;
    /// Whether it looks at what waits for the links and how long that takes: [`LinkState::backlog`], [`LinkState::free`].
    ///
    /// [`LinkState::backlog`]: super::LinkState::backlog
    /// [`LinkState::free`]: super::LinkState::free
    const LOOKS_AT_QUEUES: bool = true;
    /// The policy at work.
    type Selector;

    /// The policy at work. `seed`: for what is random, and the keys of hashes that strangers must not predict.
    fn selector(&self, seed: u64) -> Self::Selector;
}
