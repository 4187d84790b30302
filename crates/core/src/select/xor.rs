//! `balance-xor` and `layer34-xor`: a hash of the headers chooses the link.
//!
//! What it is: Linux bonding mode 2, and the variant of the burst-round-robin paper's section 7. The link is the hash
//! modulo the number of usable links, counted in their order: a flow keeps its link while the usable links stay the same,
//! and all flows are dealt anew when they do not. The hashes: [`super::hash`].
//!
//! Cost: O(1) but for dissected tunnels; no state.

use super::PolicyConfig;
pub use super::hash::HashPolicy;
use super::{Frame, Links, Select, hash};
use crate::options::{Kind, OptionSpec, Table, Words, option};
use crate::set::LinkSet;
use crate::units::Time;

/// The settings of `balance-xor`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Which headers choose. Default layer 2.
    pub xmit_hash_policy: HashPolicy,
}

/// The settings of `layer34-xor`: there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Layer34Config;

/// The option, of every policy that has it.
pub(super) const XMIT_HASH_POLICY: OptionSpec =
    OptionSpec::new("xmit_hash_policy", Kind::Choice(HashPolicy::WORDS), "which headers choose the link");

impl PolicyConfig for Config {
    const NAME: &'static str = "balance-xor";
    const MODE: Option<u8> = Some(2);
    const MAIN: Option<&'static str> = Some("xmit_hash_policy");
    const HELP: &'static str = "a hash of the headers chooses the link";
    const OPTIONS: Table<Config> = Table(&[option!(XMIT_HASH_POLICY => xmit_hash_policy)]);
    const LOOKS_AT_QUEUES: bool = false;
    type Selector = Xor;

    fn selector(&self, _seed: u64) -> Xor {
        Xor::new(*self)
    }
}

impl PolicyConfig for Layer34Config {
    const NAME: &'static str = "layer34-xor";
    const HELP: &'static str = "exclusive or of ports and addresses, modulo the links";
    const OPTIONS: Table<Layer34Config> = Table(&[]);
    const LOOKS_AT_QUEUES: bool = false;
    type Selector = Xor;

    fn selector(&self, _seed: u64) -> Xor {
        Xor::layer34()
    }
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
