//! Policies by their names, their settings, and the selectors that they make.

use super::options::{self, OptionSpec, Value};
use super::{
    Frame, LinkSet, Links, Select, active_backup, alb, balance_rr, broadcast, brr, cut_off_least_queue,
    fastest_transmit, flowlet, flush, ieee8023ad, least_queue, n_to_one, potent, supervision, tlb, traffic_meter, xor,
};
use crate::units::{ChannelId, Time};
use alloc::boxed::Box;
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
    FastestTransmit,
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
        default: || Policy::FastestTransmit },
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

    /// Sets the option `name`.
    ///
    /// # Errors
    /// The policy does not have it, or not with that value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), PolicyError> {
        let option = self.options().find(|option| option.name == name).ok_or_else(|| PolicyError::Option {
            policy: self.policy.name(),
            option: name.into(),
            known: self.known(),
        })?;
        option.set(self, option.parse(value)?)
    }

    pub(super) fn known(&self) -> String {
        self.options().map(|option| option.name).collect::<Vec<_>>().join(", ")
    }

    /// Gives the options that name links their numbers; `names` are the links' names, in order. A link may also be given
    /// by its number.
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
        let mut settings = Settings::from(Policy::named(name.trim())?);
        let spec = settings.policy.spec();
        let mut given: Vec<String> = Vec::new();
        for (n, part) in rest.split(',').map(str::trim).enumerate() {
            if part.is_empty() && rest.is_empty() {
                break;
            }
            let (option, value) = match (part.split_once('='), spec.main) {
                (Some((option, value)), _) => (option.trim(), value.trim()),
                (None, Some(main)) if n == 0 => (main, part),
                (None, _) => {
                    let (policy, known) = (spec.name, settings.known());
                    return Err(PolicyError::Bare { policy, value: part.into(), known });
                }
            };
            if given.iter().any(|name| name == option) {
                let option = options::OPTIONS.iter().find(|o| o.name == option).map_or("", |o| o.name);
                return Err(PolicyError::Twice { option });
            }
            settings.set(option, value)?;
            given.push(option.into());
        }
        Ok(settings)
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spec = self.policy.spec();
        f.write_str(spec.name)?;
        let plain = Settings::from((spec.default)());
        let mut before = ":";
        let named = |option: &&OptionSpec| spec.main != Some(option.name);
        let (first, rest) = (self.options().filter(|o| !named(o)), self.options().filter(named));
        for option in first.chain(rest) {
            let value = option.get(self);
            if value == option.get(&plain) {
                continue;
            }
            f.write_str(before)?;
            before = ",";
            if spec.main != Some(option.name) {
                write!(f, "{}=", option.name)?;
            }
            if let Some(value) = value {
                f.write_str(&option.show(&value))?;
            }
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
    /// The settings cannot work, or not with these links.
    pub fn new(settings: &Settings, links: &Links, seed: u64) -> Result<Selector, PolicyError> {
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
            Policy::FastestTransmit => Selector::FastestTransmit(fastest_transmit::FastestTransmit::new()),
            Policy::TrafficMeter(config) => Selector::TrafficMeter(traffic_meter::TrafficMeter::new(*config)),
            Policy::Potent(config) => Selector::Potent(Box::new(potent::Potent::new(*config, seed))),
        };
        selector.on_links(Time::ZERO, links);
        Ok(selector)
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
