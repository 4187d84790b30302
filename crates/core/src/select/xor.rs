//! `balance-xor` and `layer34-xor`: a hash of the headers chooses the link.
//!
//! What it is: Linux bonding mode 2, and the variant of the burst-round-robin paper's section 7. The link is the hash
//! modulo the number of usable links, counted in their order: a flow keeps its link while the usable links stay the same,
//! and all flows are dealt anew when they do not. The hashes: [`super::hash`].
//!
//! Cost: O(1) but for dissected tunnels; no state.

use super::{Frame, Links, Select, hash};
use crate::set::LinkSet;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::testing;
    use crate::select::{Layer, LinkState};
    use crate::units::ChannelId;

    #[test]
    fn a_flow_keeps_its_link_until_the_usable_links_change_and_then_all_are_in_use() {
        let mut links = Links::new([LinkState::default(); 3]);
        for mut xor in [Xor::new(Config { xmit_hash_policy: HashPolicy::Layer34 }), Xor::layer34()] {
            let mut of = |port: u16, links: &Links| {
                let bytes = testing::udp4(1, 2, port, 443, &[]);
                let frame = Frame { bytes: &bytes, len: bytes.len(), layer: Layer::Ip };
                let all = [xor.select(Time::ZERO, &frame, links), xor.select(Time::ZERO, &frame, links)];
                assert_eq!((all[0], all[0].len()), (all[1], 1));
                all[0].first().map(ChannelId::index)
            };
            links.set(ChannelId(1), LinkState::default());
            let mut counts = [0; 3];
            (0..300).for_each(|port| counts[of(port, &links).expect("a link")] += 1);
            assert!(counts.iter().all(|&n| n > 60), "{counts:?}");
            links.set(ChannelId(1), LinkState { usable: false, ..LinkState::default() });
            assert!((0..300).all(|port| of(port, &links) != Some(1)));
        }
        let none = Links::new([LinkState { usable: false, ..LinkState::default() }]);
        let frame = Frame { bytes: &[], len: 0, layer: Layer::Ip };
        assert_eq!(Xor::layer34().select(Time::ZERO, &frame, &none), LinkSet::EMPTY);
        assert_eq!(Xor::new(Config::default()).select(Time::ZERO, &frame, &none), LinkSet::EMPTY);
    }
}
