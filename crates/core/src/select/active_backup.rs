//! `active-backup`: one link; another one when it fails.
//!
//! What it is: Linux bonding mode 1. One link carries everything. It stays until it fails; then the primary link takes
//! over, else the first usable one. A primary link that comes back takes over again as `primary_reselect` says; the first
//! time that it is usable it takes over in any case.
//! Source: `bonding.rst`, and the 6.1 driver for the order of links. The driver's [`Current`] link is used by balance-tlb,
//! balance-alb (what is not balanced) and balance-rr (IGMP) as well.
//!
//! Departures: links join all at once here, so that a bond begins with its primary link where that is usable, else with
//! its first usable one. A link whose rate is not known is faster than any, as in the driver, where "unknown" is the
//! highest number.
//!
//! Cost: O(1) a packet, O(links) a change. Invariant: while a link is usable, one is chosen.

use super::PolicyConfig;
use super::{Frame, Links, Select};
use crate::options::{Kind, LinkRef, OptionSpec, Table, Words, option, words};
use crate::set::LinkSet;
use crate::units::{ChannelId, Time};

/// When the primary link is used again after it came back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PrimaryReselect {
    /// At once.
    #[default]
    Always,
    /// If it is faster than the one in use, or as fast and full duplex where that is not.
    Better,
    /// Only when the one in use fails.
    Failure,
}

words!(PrimaryReselect { Always = "always", Better = "better", Failure = "failure" });

/// Whose Ethernet address a bond of Ethernet links sends from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailOverMac {
    /// The bond's own, on all links.
    #[default]
    None,
    /// That of the device in use; the bond's changes with it.
    Active,
    /// The bond's, which the device in use is given; the device that had it before gets the other one's.
    Follow,
}

words!(FailOverMac { None = "none", Active = "active", Follow = "follow" });

/// The settings of `active-backup`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// The link that is used whenever it can be. Default none.
    pub primary: Option<LinkRef>,
    /// When it is used again after it came back. Default always. The first time that it can be used, it is.
    pub primary_reselect: PrimaryReselect,
    /// Whose address an Ethernet bond sends from. Default the bond's own on all links.
    pub fail_over_mac: FailOverMac,
}

/// The option, of every policy that has it.
pub(super) const PRIMARY: OptionSpec =
    OptionSpec::new("primary", Kind::Link, "the link that is used whenever it can be, as primary_reselect says");

/// The option, of every policy that has it.
pub(super) const PRIMARY_RESELECT: OptionSpec = OptionSpec::new(
    "primary_reselect",
    Kind::Choice(PrimaryReselect::WORDS),
    "when the primary link is used again after it came back: at once, if it is faster than the one in use, or only when that one fails",
);

impl PolicyConfig for Config {
    const NAME: &'static str = "active-backup";
    const MODE: Option<u8> = Some(1);
    const MAIN: Option<&'static str> = Some("primary");
    const HELP: &'static str = "one link; another one when it fails";
    const OPTIONS: Table<Config> = Table(&[
        option!(PRIMARY => primary),
        option!(PRIMARY_RESELECT => primary_reselect),
        option!(fail_over_mac: Kind::Choice(FailOverMac::WORDS), "whose address an Ethernet bond sends from: the bond's own on all links, that of the device in use (active), or the bond's own, which the device in use is given (follow)"),
    ]);
    const LOOKS_AT_QUEUES: bool = false;
    type Selector = ActiveBackup;

    fn selector(&self, _seed: u64) -> ActiveBackup {
        ActiveBackup::new(self.clone())
    }
}

/// The link in use, of a bond that prefers one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Current {
    primary: Option<ChannelId>,
    reselect: PrimaryReselect,
    link: Option<ChannelId>,
    /// The primary link was usable before.
    begun: bool,
}

impl Current {
    /// None yet. `primary` is preferred as `reselect` says.
    pub fn new(primary: Option<ChannelId>, reselect: PrimaryReselect) -> Current {
        Current { primary, reselect, link: None, begun: false }
    }

    /// The link in use; `None` while none is usable.
    #[inline]
    pub fn link(&self) -> Option<ChannelId> {
        self.link
    }

    /// Chooses again among what is usable now. Whether that is another link than before.
    pub fn update(&mut self, links: &Links) -> bool {
        let before = self.link;
        let usable = links.usable();
        let current = self.link.filter(|link| usable.contains(*link));
        let primary = self.primary.filter(|link| usable.contains(*link));
        self.link = match (primary, current) {
            (Some(primary), Some(current)) => {
                let takes_over = match self.reselect {
                    _ if !self.begun => true,
                    PrimaryReselect::Always => true,
                    PrimaryReselect::Better => rank(links, primary) > rank(links, current),
                    PrimaryReselect::Failure => false,
                };
                Some(if takes_over { primary } else { current })
            }
            (one, other) => one.or(other).or_else(|| usable.first()),
        };
        self.begun |= primary.is_some();
        self.link != before
    }
}

/// The higher, the better: speed, then duplex.
fn rank(links: &Links, link: ChannelId) -> (u64, bool) {
    links
        .get(link)
        .map_or((0, false), |state| (state.rate.map_or(u64::MAX, |rate| rate.as_bits_per_sec()), state.full_duplex))
}

/// The selector.
#[derive(Clone, Debug)]
pub struct ActiveBackup {
    current: Current,
}

impl ActiveBackup {
    /// With these settings. A primary link that is still a name ([`super::Settings::resolve`]) is none.
    pub fn new(config: Config) -> ActiveBackup {
        let primary = config.primary.as_ref().and_then(LinkRef::number);
        ActiveBackup { current: Current::new(primary, config.primary_reselect) }
    }

    /// The link in use; `None` while none is usable.
    pub fn current(&self) -> Option<ChannelId> {
        self.current.link()
    }
}

impl Select for ActiveBackup {
    #[inline]
    fn select(&mut self, _now: Time, _frame: &Frame<'_>, links: &Links) -> LinkSet {
        if self.current.link().is_none_or(|link| !links.usable().contains(link)) {
            self.current.update(links);
        }
        LinkSet::of(self.current.link())
    }

    fn on_links(&mut self, _now: Time, links: &Links) {
        self.current.update(links);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::select::{Layer, LinkState, Policy, Settings};
    use crate::units::Rate;

    fn state(usable: bool, mbit: u64, full_duplex: bool) -> LinkState {
        LinkState { usable, rate: Some(Rate::from_mbit(mbit)), full_duplex, ..LinkState::default() }
    }

    struct Bond {
        links: Links,
        selector: ActiveBackup,
    }

    impl Bond {
        fn new(text: &str, links: &[LinkState]) -> Bond {
            let settings: Settings = text.parse().unwrap();
            let Policy::ActiveBackup(mut config) = settings.policy else { panic!("another policy") };
            config.primary = config.primary.and_then(|link| link.resolve(&["0", "1", "2"]));
            let mut bond = Bond { links: Links::new(links.iter().copied()), selector: ActiveBackup::new(config) };
            bond.selector.on_links(Time::ZERO, &bond.links);
            bond
        }

        fn set(&mut self, link: u8, state: LinkState) -> Option<u8> {
            self.links.set(ChannelId(link), state);
            self.selector.on_links(Time::ZERO, &self.links);
            self.current()
        }

        fn current(&mut self) -> Option<u8> {
            let frame = Frame { bytes: &[], len: 0, layer: Layer::Ip };
            let chosen = self.selector.select(Time::ZERO, &frame, &self.links);
            assert_eq!(chosen.first(), self.selector.current());
            assert!(chosen.len() <= 1);
            chosen.first().map(|link| link.0)
        }
    }

    #[test]
    fn the_link_in_use_stays_until_it_fails() {
        let (up, down) = (state(true, 100, true), state(false, 100, true));
        let mut bond = Bond::new("active-backup", &[up; 3]);
        assert_eq!(bond.current(), Some(0));
        assert_eq!(bond.set(0, down), Some(1));
        assert_eq!(bond.set(0, up), Some(1), "it does not go back");
        assert_eq!(bond.set(1, down), Some(0));
        assert_eq!(bond.set(0, down), Some(2));
        assert_eq!(bond.set(2, down), None);
        assert_eq!(bond.set(1, up), Some(1));
    }

    #[test]
    fn a_primary_link_that_comes_back_takes_over_as_primary_reselect_says() {
        let (up, down) = (state(true, 100, true), state(false, 100, true));
        let slow = state(true, 10, true);
        let half = state(true, 100, false);
        for (reselect, other, back) in [
            ("always", up, Some(1)),
            ("failure", slow, Some(0)),
            ("better", slow, Some(1)),
            ("better", half, Some(1)),
            ("better", up, Some(0)),
            ("better", state(true, 1000, false), Some(0)),
        ] {
            let mut bond = Bond::new(&alloc::format!("active-backup:1,primary_reselect={reselect}"), &[other, up, up]);
            assert_eq!(bond.current(), Some(1), "{reselect}: it begins with the primary link");
            assert_eq!(bond.set(1, down), Some(0));
            assert_eq!(bond.set(1, up), back, "{reselect} with {other:?}");
            assert_eq!(bond.set(0, down), Some(1));
        }
    }

    /// As a 6.1 kernel was seen to do.
    #[test]
    fn the_first_time_that_it_is_usable_the_primary_link_takes_over_in_any_case() {
        let (up, down) = (state(true, 100, true), state(false, 100, true));
        for reselect in ["always", "better", "failure"] {
            let mut bond = Bond::new(&alloc::format!("active-backup:1,primary_reselect={reselect}"), &[up, down, up]);
            assert_eq!(bond.current(), Some(0));
            assert_eq!(bond.set(1, up), Some(1), "{reselect}");
            assert_eq!(bond.set(1, down), Some(0));
            let again = if reselect == "always" { 1 } else { 0 };
            assert_eq!(bond.set(1, up), Some(again), "{reselect}: only once");
        }
    }

    #[test]
    fn a_link_that_failed_unannounced_is_not_used() {
        let mut bond = Bond::new("active-backup", &[state(true, 100, true); 2]);
        bond.links.set(ChannelId(0), state(false, 100, true));
        assert_eq!(bond.current(), Some(1));
    }
}
