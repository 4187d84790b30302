//! Policies by their names, their settings, and the selectors that they make.

use super::options::{self, OptionSpec, Value};
use super::{
    Frame, Links, Select, active_backup, alb, balance_rr, broadcast, brr, cut_off_least_queue, fastest_transmit,
    flowlet, flush, ieee8023ad, least_queue, n_to_one, potent, supervision, tlb, traffic_meter, xor,
};
use crate::set::LinkSet;
use crate::units::{ChannelId, Time};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

/// How links are chosen, with the options of that way.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Policy {
    /// `balance-rr`, Linux mode 0.
    BalanceRr(balance_rr::Config),
    /// `active-backup`, Linux mode 1.
    ActiveBackup(active_backup::Config),
    /// `balance-xor`, Linux mode 2.
    BalanceXor(xor::Config),
    /// `broadcast`, Linux mode 3.
    Broadcast,
    /// `802.3ad`, Linux mode 4.
    Ieee8023ad(ieee8023ad::Config),
    /// `balance-tlb`, Linux mode 5.
    BalanceTlb(tlb::Config),
    /// `balance-alb`, Linux mode 6.
    BalanceAlb(alb::Config),
    /// `brr`, mode 7 of the burst-round-robin paper.
    Brr(brr::Config),
    /// `flowlet`.
    Flowlet(flowlet::Config),
    /// `least_queue`.
    LeastQueue,
    /// `n_to_one`.
    NToOne(n_to_one::Config),
    /// `n_to_one_primary`.
    NToOnePrimary(n_to_one::PrimaryConfig),
    /// `cut_off_least_queue`.
    CutOffLeastQueue(cut_off_least_queue::Config),
    /// `layer34-xor`.
    Layer34Xor,
    /// `fastest_transmit`.
    FastestTransmit(fastest_transmit::Config),
    /// `traffic_meter`.
    TrafficMeter(traffic_meter::Config),
    /// `potent`.
    Potent(potent::Config),
}

/// A policy of the table: its name and what it is.
#[derive(Clone, Copy, Debug)]
pub struct PolicySpec {
    /// As it is written.
    pub name: &'static str,
    /// The number of the Linux bonding mode, where it is one; 7 is the paper's.
    pub mode: Option<u8>,
    /// The option that may be given without its name, as in `brr:12ms`.
    pub main: Option<&'static str>,
    /// What it does, for people.
    pub help: &'static str,
    default: fn() -> Policy,
}

impl PolicySpec {
    /// The options that the policy has, in the order of the table, each with its default as it is written.
    pub fn options(&self) -> impl Iterator<Item = (&'static OptionSpec, String)> {
        // With what an option of its own switches on, so that no option is left out.
        let all = Settings { flush: Some(flush::Config::default()), ..Settings::from((self.default)()) };
        let plain = Settings::from((self.default)());
        options::OPTIONS.iter().filter_map(move |option| {
            let value = option.get(&plain).or_else(|| option.get(&all))?;
            Some((option, option.show(&value)))
        })
    }
}

/// All policies.
#[rustfmt::skip]
pub const POLICIES: &[PolicySpec] = &[
    PolicySpec { name: "balance-rr", mode: Some(0), main: Some("packets_per_slave"),
        help: "each link in turn, packet by packet",
        default: || Policy::BalanceRr(balance_rr::Config::default()) },
    PolicySpec { name: "active-backup", mode: Some(1), main: Some("primary"),
        help: "one link; another one when it fails",
        default: || Policy::ActiveBackup(active_backup::Config::default()) },
    PolicySpec { name: "balance-xor", mode: Some(2), main: Some("xmit_hash_policy"),
        help: "a hash of the headers chooses the link",
        default: || Policy::BalanceXor(xor::Config::default()) },
    PolicySpec { name: "broadcast", mode: Some(3), main: None,
        help: "every packet on every link",
        default: || Policy::Broadcast },
    PolicySpec { name: "802.3ad", mode: Some(4), main: Some("xmit_hash_policy"),
        help: "a hash chooses among the links of the active aggregator (IEEE 802.1AX)",
        default: || Policy::Ieee8023ad(ieee8023ad::Config::default()) },
    PolicySpec { name: "balance-tlb", mode: Some(5), main: Some("tlb_dynamic_lb"),
        help: "each destination to the link with the most room, moved as loads change",
        default: || Policy::BalanceTlb(tlb::Config::default()) },
    PolicySpec { name: "balance-alb", mode: Some(6), main: None,
        help: "as balance-tlb, and what is received is balanced by ARP and neighbour discovery",
        default: || Policy::BalanceAlb(alb::Config::default()) },
    PolicySpec { name: "brr", mode: Some(7), main: Some("threshold"),
        help: "burst round robin: each burst of a flow to the link that was idle longest",
        default: || Policy::Brr(brr::Config::default()) },
    PolicySpec { name: "flowlet", mode: None, main: Some("timeout"),
        help: "each flowlet to a link chosen anew",
        default: || Policy::Flowlet(flowlet::Config::default()) },
    PolicySpec { name: "least_queue", mode: None, main: None,
        help: "the link with the shortest queue; of equals the fastest",
        default: || Policy::LeastQueue },
    PolicySpec { name: "n_to_one", mode: None, main: Some("n"),
        help: "N packets on the fast link for each on a slow one",
        default: || Policy::NToOne(n_to_one::Config::default()) },
    PolicySpec { name: "n_to_one_primary", mode: None, main: Some("size"),
        help: "large packets on the fastest link, small ones N to one",
        default: || Policy::NToOnePrimary(n_to_one::PrimaryConfig::default()) },
    PolicySpec { name: "cut_off_least_queue", mode: None, main: Some("size"),
        help: "large packets on the fastest link, small ones to the shortest queue",
        default: || Policy::CutOffLeastQueue(cut_off_least_queue::Config::default()) },
    PolicySpec { name: "layer34-xor", mode: None, main: None,
        help: "exclusive or of ports and addresses, modulo the links",
        default: || Policy::Layer34Xor },
    PolicySpec { name: "fastest_transmit", mode: None, main: None,
        help: "the link that will have transmitted the packet first (multilink frame relay)",
        default: || Policy::FastestTransmit(fastest_transmit::Config::default()) },
    PolicySpec { name: "traffic_meter", mode: None, main: Some("window"),
        help: "the link with the lowest traffic meter (SuperPipe); the receiver puts packets in order",
        default: || Policy::TrafficMeter(traffic_meter::Config::default()) },
    PolicySpec { name: "potent", mode: None, main: Some("threshold"),
        help: "the few heavy flows moved on purpose, the rest by burst",
        default: || Policy::Potent(potent::Config::default()) },
];

/// A policy and what goes with every policy.
///
/// As text: `NAME`, `NAME:VALUE` for the main option, or `NAME:[VALUE,]OPTION=VALUE,…`, such as `balance-xor:layer2+3` or
/// `brr:12ms,expiry=30s`. Shown in the same form, with what is not the default.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// How links are chosen.
    pub policy: Policy,
    /// When a link counts as up or down.
    pub supervision: supervision::Config,
    /// Flows move only when what they have on the old link is known to have arrived; `None` (the default): at once.
    pub flush: Option<flush::Config>,
}

impl From<Policy> for Settings {
    fn from(policy: Policy) -> Settings {
        Settings { policy, supervision: supervision::Config::default(), flush: None }
    }
}

/// Why a text or settings are no policy, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// No policy of that name.
    #[error("`{name}` is no policy; known are {known}")]
    Unknown {
        /// What was given.
        name: String,
        /// All names.
        known: String,
    },
    /// An option that the policy does not have.
    #[error("{policy} has no option `{option}`; it has {known}")]
    Option {
        /// The policy.
        policy: &'static str,
        /// What was given.
        option: String,
        /// The policy's options.
        known: String,
    },
    /// A value without the option's name, where the policy has none that goes without.
    #[error("{policy} takes no value `{value}`; write OPTION=VALUE, with one of {known}")]
    Bare {
        /// The policy.
        policy: &'static str,
        /// What was given.
        value: String,
        /// The policy's options.
        known: String,
    },
    /// A value that the option does not take.
    #[error("{option} is `{value}`; {expected}")]
    Value {
        /// The option.
        option: &'static str,
        /// What was given.
        value: String,
        /// What would be right.
        expected: String,
    },
    /// An option given twice.
    #[error("{option} is given twice; keep one")]
    Twice {
        /// The option.
        option: &'static str,
    },
    /// A link that does not exist.
    #[error("{option} names link `{link}`; the links are {known}")]
    Link {
        /// The option.
        option: &'static str,
        /// What was given.
        link: String,
        /// The links.
        known: String,
    },
    /// Settings that cannot work together, or with these links.
    #[error("{setting} does not work with {with}; {instead}")]
    Conflict {
        /// The setting.
        setting: String,
        /// What it does not work with.
        with: String,
        /// What would work.
        instead: String,
    },
}

impl PolicyError {
    /// The option that is wrong, where it is one; so that a reader of files can tell the line.
    pub fn option(&self) -> Option<&str> {
        match self {
            PolicyError::Option { option, .. } => Some(option),
            PolicyError::Value { option, .. } | PolicyError::Twice { option } | PolicyError::Link { option, .. } => {
                Some(option)
            }
            PolicyError::Conflict { setting, .. } => setting.split('=').next(),
            PolicyError::Unknown { .. } | PolicyError::Bare { .. } => None,
        }
    }
}

impl Policy {
    /// Its entry in the table.
    pub fn spec(&self) -> &'static PolicySpec {
        let same = |spec: &&PolicySpec| core::mem::discriminant(&(spec.default)()) == core::mem::discriminant(self);
        POLICIES.iter().find(same).unwrap_or(&POLICIES[0])
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.spec().name
    }

    /// Whether it looks at what waits for the links and how long that takes: [`LinkState::backlog`], [`LinkState::free`].
    ///
    /// [`LinkState::backlog`]: super::LinkState::backlog
    /// [`LinkState::free`]: super::LinkState::free
    pub fn looks_at_queues(&self) -> bool {
        !matches!(
            self,
            Policy::BalanceRr(_)
                | Policy::ActiveBackup(_)
                | Policy::BalanceXor(_)
                | Policy::Broadcast
                | Policy::Ieee8023ad(_)
                | Policy::Layer34Xor
        )
    }

    /// The policy of that name, or Linux mode of that number, with its defaults.
    ///
    /// # Errors
    /// There is none.
    pub fn named(name: &str) -> Result<Policy, PolicyError> {
        let spec = POLICIES.iter().find(|spec| {
            spec.name.eq_ignore_ascii_case(name) || spec.mode.is_some_and(|mode| name.parse() == Ok(mode))
        });
        spec.map(|spec| (spec.default)()).ok_or_else(|| PolicyError::Unknown {
            name: name.into(),
            known: POLICIES.iter().map(|spec| spec.name).collect::<Vec<_>>().join(", "),
        })
    }
}

impl Settings {
    /// The options that these settings have.
    pub fn options(&self) -> impl Iterator<Item = &'static OptionSpec> {
        options::OPTIONS.iter().filter(|option| option.get(self).is_some())
    }

    /// The policy `name` with these options, in any order, each as its name and its value.
    ///
    /// # Errors
    /// There is no such policy, it does not have an option or not with that value, an option comes twice, or the
    /// options cannot work together.
    pub fn build<'a>(
        name: &str,
        options: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Settings, PolicyError> {
        let mut settings = Settings::from(Policy::named(name)?);
        let place = |name: &str| options::OPTIONS.iter().position(|option| option.name == name);
        let mut given: Vec<_> = options.into_iter().map(|(name, value)| (place(name), name, value)).collect();
        // An option that another one switches on stands behind it in the table.
        given.sort_by_key(|(place, ..)| *place);
        for pair in given.windows(2) {
            if let [(Some(n), name, _), (_, next, _)] = pair
                && name == next
            {
                return Err(PolicyError::Twice { option: options::OPTIONS[*n].name });
            }
        }
        for (_, name, value) in given {
            settings.set(name, value)?;
        }
        settings.check()?;
        Ok(settings)
    }

    /// Sets the option `name`.
    ///
    /// # Errors
    /// The policy does not have it, or not with that value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), PolicyError> {
        let Some(option) = self.options().find(|option| option.name == name) else {
            let (policy, option) = (self.policy.name(), name.into());
            if self.policy.spec().options().any(|(option, _)| option.name == name) {
                let conflict = |setting: &str, with: &str, instead: &str| PolicyError::Conflict {
                    setting: setting.into(),
                    with: with.into(),
                    instead: instead.into(),
                };
                return Err(conflict(name, "flush=off", "write flush=on as well, or leave it out"));
            }
            return Err(PolicyError::Option { policy, option, known: self.known() });
        };
        option.set(self, option.parse(value)?)
    }

    /// Whether the options can work together.
    ///
    /// # Errors
    /// Two of them cannot: which, and what would be right.
    pub fn check(&self) -> Result<(), PolicyError> {
        let show = |name: &str| self.options().find(|option| option.name == name).map(|option| option.written(self));
        let span = |name: &str| {
            let option = self.options().find(|option| option.name == name)?;
            if let Some(Value::Span(span)) = option.get(self) { span } else { None }
        };
        let conflict = |setting: &str, with: String, instead: &str| {
            let setting = show(setting).unwrap_or_else(|| setting.into());
            Err(PolicyError::Conflict { setting, with, instead: instead.into() })
        };
        for gap in ["threshold", "timeout"] {
            if let (Some(gap_span), Some(expiry), Some(with)) = (span(gap), span("expiry"), show(gap))
                && expiry < gap_span
            {
                let instead = "a flow that is forgotten within a burst changes its link there: expire it later";
                return conflict("expiry", with, instead);
            }
        }
        let policy = self.policy.spec();
        match self.policy {
            Policy::Broadcast if self.flush.is_some() => {
                conflict("flush", policy.name.into(), "its flows are on every link and never move: leave flush out")
            }
            Policy::TrafficMeter(_) if self.flush.is_some() => {
                conflict("flush", policy.name.into(), "its receiver puts packets in order: leave flush out")
            }
            _ => Ok(()),
        }
    }

    pub(super) fn known(&self) -> String {
        self.options().map(|option| option.name).collect::<Vec<_>>().join(", ")
    }

    /// Whether every number that an option has for a link is one that a link can have.
    fn check_links(&self) -> Result<(), PolicyError> {
        for option in self.options() {
            if let Some(Value::Link(Some(link))) = option.get(self)
                && link.number().is_some_and(|link| link.index() >= ChannelId::LIMIT)
            {
                let known = format!("numbered from 0 to {}", ChannelId::LIMIT - 1);
                return Err(PolicyError::Link { option: option.name, link: link.to_string(), known });
            }
        }
        Ok(())
    }

    /// Gives the options that name links their numbers; `names` are the links' names, in order.
    ///
    /// # Errors
    /// There is no such link.
    pub fn resolve(&mut self, names: &[&str]) -> Result<(), PolicyError> {
        let options: Vec<_> = self.options().collect();
        for option in options {
            if let Some(Value::Link(Some(link))) = option.get(self) {
                let found = link.resolve(names).ok_or_else(|| PolicyError::Link {
                    option: option.name,
                    link: link.to_string(),
                    known: names.join(", "),
                })?;
                option.set(self, Value::Link(Some(found)))?;
            }
        }
        Ok(())
    }
}

impl FromStr for Settings {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Settings, PolicyError> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let name = name.trim();
        let spec = Policy::named(name)?.spec();
        let parts = rest.split(',').map(str::trim).enumerate().filter(|_| !rest.trim().is_empty());
        let pairs = parts.map(|(n, part)| match (part.split_once('='), spec.main) {
            (Some((option, value)), _) => Ok((option.trim(), value.trim())),
            (None, Some(main)) if n == 0 => Ok((main, part)),
            (None, _) => {
                let known = Settings::from((spec.default)()).known();
                Err(PolicyError::Bare { policy: spec.name, value: part.into(), known })
            }
        });
        Settings::build(name, pairs.collect::<Result<Vec<_>, _>>()?)
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spec = self.policy.spec();
        f.write_str(spec.name)?;
        let plain = Settings::from((spec.default)());
        // What the defaults do not have comes with its own.
        let flushing = Settings { flush: Some(flush::Config::default()), ..plain.clone() };
        let default = |option: &OptionSpec| option.get(&plain).or_else(|| option.get(&flushing));
        let mut before = ":";
        let main = |option: &&OptionSpec| spec.main == Some(option.name);
        let (first, rest) = (self.options().filter(main), self.options().filter(|option| !main(option)));
        for option in first.chain(rest).filter(|option| option.get(self) != default(option)) {
            f.write_str(before)?;
            before = ",";
            let text = option.written(self);
            let text = if main(&option) { text.split_once('=').map_or("", |(_, value)| value) } else { &text };
            f.write_str(text)?;
        }
        Ok(())
    }
}

/// A policy at work.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Selector {
    /// `balance-rr`.
    BalanceRr(balance_rr::BalanceRr),
    /// `active-backup`.
    ActiveBackup(active_backup::ActiveBackup),
    /// `balance-xor` and `layer34-xor`.
    Xor(xor::Xor),
    /// `broadcast`.
    Broadcast(broadcast::Broadcast),
    /// `802.3ad`.
    Ieee8023ad(ieee8023ad::Ieee8023ad),
    /// `balance-tlb`.
    BalanceTlb(Box<tlb::BalanceTlb>),
    /// `balance-alb`: what is sent. What is received is balanced by the Ethernet bond.
    BalanceAlb(Box<alb::BalanceAlb>),
    /// `brr`.
    Brr(Box<brr::Brr>),
    /// `flowlet`.
    Flowlet(Box<flowlet::Flowlet>),
    /// `least_queue`.
    LeastQueue(least_queue::LeastQueue),
    /// `n_to_one` and `n_to_one_primary`.
    NToOne(n_to_one::NToOne),
    /// `cut_off_least_queue`.
    CutOffLeastQueue(cut_off_least_queue::CutOffLeastQueue),
    /// `fastest_transmit`.
    FastestTransmit(fastest_transmit::FastestTransmit),
    /// `traffic_meter`.
    TrafficMeter(traffic_meter::TrafficMeter),
    /// `potent`.
    Potent(Box<potent::Potent>),
}

impl Selector {
    /// The selector of `settings` over `links`. `seed`: for what is random, and the keys of hashes that strangers must not
    /// predict.
    ///
    /// # Errors
    /// The settings cannot work, or name a link by a number that no link has. A link that is named and was not given a
    /// number yet ([`Settings::resolve`]) counts as none: it may join later.
    pub fn new(settings: &Settings, links: &Links, seed: u64) -> Result<Selector, PolicyError> {
        settings.check()?;
        settings.check_links()?;
        let mut selector = match &settings.policy {
            Policy::BalanceRr(config) => Selector::BalanceRr(balance_rr::BalanceRr::new(*config, seed)),
            Policy::ActiveBackup(config) => Selector::ActiveBackup(active_backup::ActiveBackup::new(config.clone())),
            Policy::BalanceXor(config) => Selector::Xor(xor::Xor::new(*config)),
            Policy::Layer34Xor => Selector::Xor(xor::Xor::layer34()),
            Policy::Broadcast => Selector::Broadcast(broadcast::Broadcast),
            Policy::Ieee8023ad(config) => Selector::Ieee8023ad(ieee8023ad::Ieee8023ad::new(*config)),
            Policy::BalanceTlb(config) => Selector::BalanceTlb(Box::new(tlb::BalanceTlb::new(config.clone()))),
            Policy::BalanceAlb(config) => Selector::BalanceAlb(Box::new(alb::BalanceAlb::new(config.clone()))),
            Policy::Brr(config) => Selector::Brr(Box::new(brr::Brr::new(*config, seed))),
            Policy::Flowlet(config) => Selector::Flowlet(Box::new(flowlet::Flowlet::new(*config, seed))),
            Policy::LeastQueue => Selector::LeastQueue(least_queue::LeastQueue::new()),
            Policy::NToOne(config) => Selector::NToOne(n_to_one::NToOne::new(*config)),
            Policy::NToOnePrimary(config) => Selector::NToOne(n_to_one::NToOne::primary(config.clone())),
            Policy::CutOffLeastQueue(config) => {
                Selector::CutOffLeastQueue(cut_off_least_queue::CutOffLeastQueue::new(config.clone()))
            }
            Policy::FastestTransmit(config) => {
                Selector::FastestTransmit(fastest_transmit::FastestTransmit::new(*config))
            }
            Policy::TrafficMeter(config) => Selector::TrafficMeter(traffic_meter::TrafficMeter::new(*config)),
            Policy::Potent(config) => Selector::Potent(Box::new(potent::Potent::new(*config, seed))),
        };
        selector.on_links(Time::ZERO, links);
        Ok(selector)
    }
}

impl Selector {
    /// What a policy that goes by bursts did so far; zeros for others.
    pub fn stats(&self) -> brr::Stats {
        match self {
            Selector::Brr(selector) => selector.stats(),
            Selector::Flowlet(selector) => selector.stats(),
            Selector::Potent(selector) => selector.stats(),
            _ => brr::Stats::default(),
        }
    }
}

macro_rules! each {
    ($self:ident, $selector:ident => $what:expr) => {
        match $self {
            Selector::BalanceRr($selector) => $what,
            Selector::ActiveBackup($selector) => $what,
            Selector::Xor($selector) => $what,
            Selector::Broadcast($selector) => $what,
            Selector::Ieee8023ad($selector) => $what,
            Selector::BalanceTlb($selector) => $what,
            Selector::BalanceAlb($selector) => $what,
            Selector::Brr($selector) => $what,
            Selector::Flowlet($selector) => $what,
            Selector::LeastQueue($selector) => $what,
            Selector::NToOne($selector) => $what,
            Selector::CutOffLeastQueue($selector) => $what,
            Selector::FastestTransmit($selector) => $what,
            Selector::TrafficMeter($selector) => $what,
            Selector::Potent($selector) => $what,
        }
    };
}

impl Select for Selector {
    #[inline]
    fn select(&mut self, now: Time, frame: &Frame<'_>, links: &Links) -> LinkSet {
        each!(self, selector => selector.select(now, frame, links))
    }

    #[inline]
    fn select_held(&mut self, now: Time, frame: &Frame<'_>, links: &Links) -> (LinkSet, Time) {
        each!(self, selector => selector.select_held(now, frame, links))
    }

    fn on_links(&mut self, now: Time, links: &Links) {
        each!(self, selector => selector.on_links(now, links));
    }

    fn poll_timeout(&self) -> Option<Time> {
        each!(self, selector => selector.poll_timeout())
    }

    fn handle_timeout(&mut self, now: Time, links: &Links) {
        each!(self, selector => selector.handle_timeout(now, links));
    }

    fn current(&self) -> Option<ChannelId> {
        each!(self, selector => selector.current())
    }
}

#[cfg(test)]
mod tests {
    use super::super::LinkState;
    use super::super::options::{Kind, LinkRef, OPTIONS};
    use super::*;
    use crate::rng::Rng;
    use crate::units::{Bytes, Span};
    use alloc::vec;

    fn parse(text: &str) -> Result<Settings, PolicyError> {
        text.parse()
    }

    fn shown(text: &str) -> String {
        parse(text).unwrap_or_else(|e| panic!("{text}: {e}")).to_string()
    }

    #[test]
    fn what_is_not_the_default_is_shown_in_the_form_that_is_read() {
        for (text, expected) in [
            ("brr", "brr"),
            (" BRR : 12ms ", "brr"),
            ("7:24ms", "brr:24ms"),
            ("brr:threshold=24ms, expiry=90s", "brr:24ms,expiry=90s"),
            ("brr:adaptive,expiry=90000", "brr:adaptive,expiry=90s"),
            ("balance-xor:layer2", "balance-xor"),
            ("2:1", "balance-xor:layer3+4"),
            ("balance-rr:2", "balance-rr:2"),
            ("0", "balance-rr"),
            ("n_to_one:auto", "n_to_one"),
            ("n_to_one_primary:1000,primary=3,n=7", "n_to_one_primary:1000,primary=3,n=7"),
            ("active-backup:eth1", "active-backup:eth1"),
            ("least_queue:updelay=200", "least_queue:updelay=200ms"),
            ("brr:flush_wait=10ms,flush=on", "brr:flush=on,flush_wait=10ms"),
            ("traffic_meter:1.5ms", "traffic_meter:1500us"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn each_error_names_what_was_wrong_and_what_would_be_right() {
        for (text, option, advice) in [
            ("round-robin", None, "balance-rr, active-backup"),
            ("", None, "known are balance-rr"),
            ("8", None, "known are"),
            ("brr:12parsecs", Some("threshold"), "write a time from 1us to 24h"),
            ("brr:0ms", Some("threshold"), "or adaptive"),
            ("brr:12ms,12ms", None, "write OPTION=VALUE"),
            ("brr:,expiry=9s", Some("threshold"), "write a time"),
            ("least_queue:5", None, "write OPTION=VALUE, with one of miimon"),
            ("broadcast:threshold=5ms", Some("threshold"), "updelay"),
            ("brr:expiry=1s,expiry=1s", Some("expiry"), "twice"),
            ("brr:12ms,threshold=12ms", Some("threshold"), "twice"),
            ("brr:2s,expiry=1s", Some("expiry"), "expire it later"),
            ("brr:weighted=perhaps", Some("weighted"), "on or off"),
            ("brr:flush_wait=5ms", Some("flush_wait"), "write flush=on as well"),
            ("brr:flush=off,flush_wait=5ms", Some("flush_wait"), "write flush=on as well"),
            ("broadcast:flush=on", Some("flush"), "leave flush out"),
            ("balance-xor:layer5", Some("xmit_hash_policy"), "vlan+srcmac"),
            ("balance-rr:65536", Some("packets_per_slave"), "from 0 to 65535"),
            ("balance-rr:-1", Some("packets_per_slave"), "from 0 to 65535"),
            ("cut_off_least_queue:99999999999999999999", Some("size"), "from 1 to 65535"),
        ] {
            let error = parse(text).expect_err(text);
            assert_eq!(error.option(), option, "{text}: {error}");
            assert!(error.to_string().contains(advice), "{text}: {error}");
        }
    }

    #[test]
    fn a_link_is_named_by_its_name_or_number_and_must_exist() {
        let names = ["eth0", "eth1", "7"];
        let resolved = |text: &str| {
            let mut settings = parse(text).unwrap();
            settings.resolve(&names).map(|()| settings.to_string()).map_err(|e| e.to_string())
        };
        assert_eq!(resolved("active-backup:eth1").as_deref(), Ok("active-backup:1"));
        assert_eq!(resolved("active-backup:2").as_deref(), Ok("active-backup:2"));
        for text in ["active-backup:eth2", "active-backup:7", "active-backup:64"] {
            assert!(resolved(text).unwrap_err().contains("the links are eth0, eth1, 7"), "{text}");
        }
        let links = Links::new([LinkState::default(); 2]);
        let make = |text: &str| Selector::new(&parse(text).unwrap(), &links, 1);
        assert_eq!(make("n_to_one_primary:primary=64").unwrap_err().option(), Some("primary"));
        assert!(make("n_to_one_primary:primary=63").is_ok() && make("n_to_one_primary:primary=later").is_ok());
    }

    #[test]
    fn names_and_modes_of_policies_and_names_of_options_are_not_used_twice() {
        for (n, spec) in POLICIES.iter().enumerate() {
            assert_eq!(Policy::named(spec.name).unwrap().name(), spec.name);
            let same = |other: &PolicySpec| other.name == spec.name || (spec.mode.is_some() && other.mode == spec.mode);
            assert!(!POLICIES[..n].iter().any(same), "{}", spec.name);
            if let Some(main) = spec.main {
                assert!(spec.options().any(|(option, _)| option.name == main), "{}: {main}", spec.name);
            }
        }
        for (n, option) in OPTIONS.iter().enumerate() {
            assert!(!OPTIONS[..n].iter().any(|other| other.name == option.name), "{}", option.name);
            assert!(POLICIES.iter().any(|spec| spec.options().any(|(one, _)| one.name == option.name)), "{option:?}");
        }
    }

    #[test]
    fn every_option_of_every_policy_has_a_default_that_is_accepted_and_changes_nothing() {
        for spec in POLICIES {
            for (option, default) in spec.options() {
                let flush = if option.name == "flush_wait" { "flush=on," } else { "" };
                let text = format!("{}:{flush}{}={default}", spec.name, option.name);
                let without = format!("{}:{flush}", spec.name);
                if parse(&without).is_ok() {
                    assert_eq!(parse(&text), parse(&without), "{text}");
                }
            }
        }
    }

    /// A value that the option takes, near its bounds more often than chance would have it.
    fn value(option: &OptionSpec, rng: &mut Rng) -> Value {
        let between = |rng: &mut Rng, least: u64, most: u64| match rng.below(6) {
            0 => least,
            1 => most,
            2 => least + rng.below(most - least + 1),
            // Of all orders of magnitude.
            _ => {
                let magnitude = rng.below(50);
                (least + rng.below(1 << magnitude)).min(most)
            }
        };
        match option.kind {
            Kind::Span(.., Some(_)) if rng.below(4) == 0 => Value::Span(None),
            Kind::Span(least, most, _) => {
                Value::Span(Some(Span::from_nanos(between(rng, least.as_nanos(), most.as_nanos()))))
            }
            Kind::Count(.., Some(_)) if rng.below(4) == 0 => Value::Count(None),
            Kind::Count(least, most, _) => Value::Count(Some(between(rng, least, most))),
            Kind::Bytes(least, most) => Value::Bytes(Bytes::new(between(rng, least, most))),
            Kind::Flag => Value::Flag(rng.below(2) == 0),
            Kind::Choice(words) => Value::Choice(rng.below(words.len() as u64) as usize),
            Kind::Mac => Value::Mac(
                (rng.below(4) > 0).then(|| format!("02:00:5e:10:00:{:02x}", rng.below(256)).parse().unwrap()),
            ),
            Kind::Link => Value::Link(match rng.below(3) {
                0 => None,
                1 => Some(LinkRef::Number(ChannelId(rng.below(64) as u8))),
                _ => Some(LinkRef::Name(format!("wan-{}.{}", rng.below(3), rng.below(100)))),
            }),
        }
    }

    #[test]
    fn all_settings_survive_being_shown_and_read() {
        for seed in 0..20_000 {
            let mut rng = Rng::new(seed);
            let spec = &POLICIES[rng.below(POLICIES.len() as u64) as usize];
            let mut settings = Settings::from((spec.default)());
            for option in OPTIONS {
                if option.get(&settings).is_some() && rng.below(3) == 0 {
                    let value = value(option, &mut rng);
                    // As text and as a value.
                    assert_eq!(option.parse(&option.show(&value)).as_ref(), Ok(&value), "seed {seed}: {option:?}");
                    option.set(&mut settings, value.clone()).unwrap();
                    assert_eq!(option.get(&settings), Some(value), "seed {seed}: {option:?}");
                }
            }
            let text = settings.to_string();
            match parse(&text) {
                Ok(read) => assert_eq!(read, settings, "seed {seed}: {text}"),
                Err(e) => assert_eq!(Err(e), settings.check(), "seed {seed}: {text}"),
            }
        }
    }

    #[test]
    fn any_text_is_settings_or_an_error() {
        let words = [
            "brr", "802.3ad", "n_to_one", ":", ":", ",", "=", "flush", "primary", "on", "9", "auto", " ", "é", "\0",
            "-",
        ];
        for seed in 0..20_000 {
            let mut rng = Rng::new(seed);
            let pick = |_| words[rng.below(words.len() as u64) as usize];
            let text: String = vec![(); 9].into_iter().map(pick).collect();
            if let Ok(settings) = parse(&text) {
                assert_eq!(parse(&settings.to_string()), Ok(settings), "{text}");
            }
        }
    }
}
