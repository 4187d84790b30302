//! `balance-xor` and `layer34-xor`: a hash of the headers chooses the link.

use super::{Frame, LinkSet, Links, Select};
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
pub struct Xor;

impl Xor {
    /// With these settings.
    pub fn new(_config: Config) -> Xor {
        Xor
    }

    /// `layer34-xor`.
    pub fn layer34() -> Xor {
        Xor
    }
}

impl Select for Xor {
    fn select(&mut self, _now: Time, _frame: &Frame<'_>, _links: &Links) -> LinkSet {
        todo!()
    }
}
