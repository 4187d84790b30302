//! `balance-xor` and `layer34-xor`: a hash of the headers chooses the link.
//!
//! What it is: Linux bonding mode 2, and the variant of the burst-round-robin paper's section 7. The link is the hash
//! modulo the number of usable links, counted in their order: a flow keeps its link while the usable links stay the same,
//! and all flows are dealt anew when they do not. The hashes: [`super::hash`].
//!
//! Cost: O(1) but for dissected tunnels; no state.

use super::{Frame, LinkSet, Links, Select, hash};
use crate::units::Time;

/// Which headers choose the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HashPolicy {
    /// Ethernet addresses and type.
    #[default]
    Layer2,
    /// Addresses and ports.
    Layer34,
    /// Ethernet and IP addresses.
    Layer23,
    /// As layer 2+3, of the inner packet of a tunnel.
    Encap23,
    /// As layer 3+4, of the inner packet of a tunnel.
    Encap34,
    /// VLAN tag and Ethernet source.
    VlanSrcmac,
}

/// The settings of `balance-xor`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Which headers choose. Default layer 2.
    pub xmit_hash_policy: HashPolicy,
}

/// The selector.
#[derive(Clone, Debug)]
pub struct Xor {
    /// `None`: as the paper has it.
    policy: Option<HashPolicy>,
}

impl Xor {
    /// With these settings.
    pub fn new(config: Config) -> Xor {
        Xor { policy: Some(config.xmit_hash_policy) }
    }

    /// `layer34-xor`.
    pub fn layer34() -> Xor {
        Xor { policy: None }
    }
}

impl Select for Xor {
    #[inline]
    fn select(&mut self, _now: Time, frame: &Frame<'_>, links: &Links) -> LinkSet {
        match self.policy {
            Some(policy) => hash::choose(links.usable(), hash::hash(policy, frame)),
            None => {
                let usable = links.usable();
                let n = hash::ports_and_addresses(frame).checked_rem(usable.len() as u128);
                LinkSet::of(n.and_then(|n| usable.nth(n as usize)))
            }
        }
    }
}
