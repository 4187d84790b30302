//! What a bond of Ethernet links gives: frames to send, what to do with those that came, and news.

use crate::set::LinkSet;
use crate::units::ChannelId;
use crate::wire::mac::Mac;

/// A frame to send.
#[derive(Debug)]
pub struct Transmit<P> {
    /// On which links: one, or all of several copies.
    pub links: LinkSet,
    /// The source address to write into it; `None`: the one that is in it.
    pub source: Option<Mac>,
    /// The frame from its first address on, without the check sequence.
    pub frame: P,
}

/// What to do with a frame that a link received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Give it to the host.
    Deliver {
        /// With this destination address written into it; `None`: the one that is in it.
        destination: Option<Mac>,
    },
    /// It was for the bond itself: LACP, or an answer to a probe.
    Consumed,
    /// It does not go on; counted.
    Dropped,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A link counts as usable now.
    LinkUp {
        /// Which.
        link: ChannelId,
    },
    /// A link counts as unusable now.
    LinkDown {
        /// Which.
        link: ChannelId,
    },
    /// The link that a policy with one current link uses is another one now, or there is none.
    Current {
        /// Which.
        link: Option<ChannelId>,
    },
    /// LACP: a link has another partner, or (zero) none.
    Partner {
        /// The link.
        link: ChannelId,
        /// The partner's system.
        system: Mac,
    },
    /// LACP: another aggregator is in use; `None`: no link is up.
    Aggregator {
        /// Its number.
        number: Option<u16>,
    },
    /// LACP: a link hears this very bond.
    Loopback {
        /// The link.
        link: ChannelId,
    },
    /// LACP: a link has not come into synchronization for a minute.
    Churned {
        /// The link.
        link: ChannelId,
        /// Whether it is the partner's end that did not.
        partner: bool,
    },
    /// The address of a link is another one now: its device is to have it (`fail_over_mac=follow`).
    LinkAddress {
        /// The link.
        link: ChannelId,
        /// Which.
        mac: Mac,
    },
    /// The bond's address is another one now: the host's interface is to have it.
    Address {
        /// Which.
        mac: Mac,
    },
}
