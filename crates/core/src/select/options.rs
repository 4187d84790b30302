//! The one table of the policies' options: configuration, checks, help and documentation all read it.

use super::active_backup::{FailOverMac, PrimaryReselect};
use super::flush;
use super::ieee8023ad::{AdSelect, LacpRate};
use super::policy::{Policy, PolicyError, Settings};
use super::xor::HashPolicy;
use crate::quantity;
use crate::units::{Bytes, ChannelId, Span};
use crate::wire::mac::Mac;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

/// A link that an option names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkRef {
    /// By its name; [`Settings::resolve`] makes it a number.
    Name(String),
    /// By its number.
    Number(ChannelId),
}

impl LinkRef {
    /// The link by its number, once that is known.
    pub fn number(&self) -> Option<ChannelId> {
        match self {
            LinkRef::Number(link) => Some(*link),
            LinkRef::Name(_) => None,
        }
    }

    pub(super) fn resolve(&self, names: &[&str]) -> Option<LinkRef> {
        let found = match self {
            LinkRef::Name(name) => names.iter().position(|n| n == name),
            LinkRef::Number(link) => Some(link.index()),
        };
        found.filter(|n| *n < names.len()).map(|n| LinkRef::Number(ChannelId(n as u8)))
    }
}

impl fmt::Display for LinkRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkRef::Name(name) => f.write_str(name),
            LinkRef::Number(link) => write!(f, "{}", link.0),
        }
    }
}

/// A value of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A length of time; `None`: the word that the option has for it, such as `adaptive`.
    Span(Option<Span>),
    /// A number; `None`: the word that the option has for it, such as `auto`.
    Count(Option<u64>),
    /// Bytes.
    Bytes(Bytes),
    /// On or off.
    Flag(bool),
    /// One of the option's words, by its place.
    Choice(usize),
    /// A link, or none.
    Link(Option<LinkRef>),
    /// A station's hardware address, or none.
    Mac(Option<Mac>),
}

/// What values an option takes.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// From the first to the second, or the word.
    Span(Span, Span, Option<&'static str>),
    /// From the first to the second, or the word.
    Count(u64, u64, Option<&'static str>),
    /// From the first to the second.
    Bytes(u64, u64),
    /// `on` or `off`; Linux's 1 and 0 as well.
    Flag,
    /// One of these words; Linux's numbers as well.
    Choice(&'static [&'static str]),
    /// A link by name or number, or `none`.
    Link,
    /// A station's hardware address, or `none`.
    Mac,
}

/// One option.
#[derive(Clone, Copy)]
pub struct OptionSpec {
    /// As it is written; Linux's name where Linux has it.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// What it does, for people. The default is in the policy's settings.
    pub help: &'static str,
    /// Where it is; `None`: the policy does not have it.
    field: fn(&Settings) -> Option<&dyn Field>,
    field_mut: fn(&mut Settings) -> Option<&mut dyn Field>,
}

impl fmt::Debug for OptionSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "option {}", self.name)
    }
}

/// A setting that an option reads and writes.
trait Field {
    fn value(&self) -> Value;
    /// Takes a value that the option's kind allows.
    fn take(&mut self, value: Value);
}

macro_rules! field {
    ($type:ty, $pattern:pat => $taken:expr, $self:ident => $value:expr) => {
        impl Field for $type {
            fn value(&self) -> Value {
                let $self = self;
                $value
            }

            fn take(&mut self, value: Value) {
                if let $pattern = value {
                    *self = $taken;
                }
            }
        }
    };
}

field!(u16, Value::Count(Some(n)) => n as u16, this => Value::Count(Some(u64::from(*this))));
field!(u32, Value::Count(Some(n)) => n as u32, this => Value::Count(Some(u64::from(*this))));
field!(Option<u32>, Value::Count(n) => n.map(|n| n as u32), this => Value::Count(this.map(u64::from)));
field!(Span, Value::Span(Some(span)) => span, this => Value::Span(Some(*this)));
field!(Option<Span>, Value::Span(span) => span, this => Value::Span(*this));
field!(Bytes, Value::Bytes(bytes) => bytes, this => Value::Bytes(*this));
field!(bool, Value::Flag(flag) => flag, this => Value::Flag(*this));
field!(Option<Mac>, Value::Mac(mac) => mac, this => Value::Mac(*this));
field!(Option<LinkRef>, Value::Link(link) => link, this => Value::Link(this.clone()));

impl Field for Option<flush::Config> {
    fn value(&self) -> Value {
        Value::Flag(self.is_some())
    }

    fn take(&mut self, value: Value) {
        *self = (value == Value::Flag(true)).then(|| self.unwrap_or_default());
    }
}

/// A setting that is one of a list of words.
macro_rules! choice {
    ($type:ty, $($member:path),+) => {
        impl Field for $type {
            fn value(&self) -> Value {
                Value::Choice([$($member),+].iter().position(|member| member == self).unwrap_or(0))
            }

            fn take(&mut self, value: Value) {
                if let Value::Choice(n) = value && let Some(member) = [$($member),+].get(n) {
                    *self = *member;
                }
            }
        }
    };
}

/// In the order of Linux's numbers.
const HASH_POLICIES: &[&str] = &["layer2", "layer3+4", "layer2+3", "encap2+3", "encap3+4", "vlan+srcmac"];
choice!(
    HashPolicy,
    HashPolicy::Layer2,
    HashPolicy::Layer34,
    HashPolicy::Layer23,
    HashPolicy::Encap23,
    HashPolicy::Encap34,
    HashPolicy::VlanSrcmac
);
choice!(LacpRate, LacpRate::Slow, LacpRate::Fast);
choice!(AdSelect, AdSelect::Stable, AdSelect::Bandwidth, AdSelect::Count);
choice!(PrimaryReselect, PrimaryReselect::Always, PrimaryReselect::Better, PrimaryReselect::Failure);
choice!(FailOverMac, FailOverMac::None, FailOverMac::Active, FailOverMac::Follow);

macro_rules! option {
    ($name:literal, $kind:expr, $help:literal, $($pattern:pat => $field:expr),+) => {
        OptionSpec {
            name: $name,
            kind: $kind,
            help: $help,
            field: |settings| match settings {
                $($pattern => Some(&$field),)+
                #[allow(unreachable_patterns, reason = "what every policy has matches all settings")]
                _ => None,
            },
            field_mut: |settings| match settings {
                $($pattern => Some(&mut $field),)+
                #[allow(unreachable_patterns, reason = "what every policy has matches all settings")]
                _ => None,
            },
        }
    };
}

const MS: Span = Span::from_millis(1);
const DAY: Span = Span::from_secs(86_400);

/// All options.
#[rustfmt::skip]
pub const OPTIONS: &[OptionSpec] = &[
    option!("packets_per_slave", Kind::Count(0, 65_535, None), "packets on a link before the next one's turn; 0: a random link for each packet",
        Settings { policy: Policy::BalanceRr(c), .. } => c.packets_per_slave),
    option!("primary", Kind::Link, "the link that is used whenever it can be, as primary_reselect says",
        Settings { policy: Policy::ActiveBackup(c), .. } => c.primary,
        Settings { policy: Policy::BalanceTlb(c), .. } => c.primary,
        Settings { policy: Policy::BalanceAlb(c), .. } => c.primary,
        Settings { policy: Policy::NToOnePrimary(c), .. } => c.primary,
        Settings { policy: Policy::CutOffLeastQueue(c), .. } => c.primary),
    option!("primary_reselect", Kind::Choice(&["always", "better", "failure"]), "when the primary link is used again after it came back: at once, if it is faster than the one in use, or only when that one fails",
        Settings { policy: Policy::ActiveBackup(c), .. } => c.primary_reselect,
        Settings { policy: Policy::BalanceTlb(c), .. } => c.primary_reselect,
        Settings { policy: Policy::BalanceAlb(c), .. } => c.primary_reselect),
    option!("fail_over_mac", Kind::Choice(&["none", "active", "follow"]), "whose address an Ethernet bond sends from: the bond's own on all links, or that of the device in use; follow, which gives devices the bond's address in turn, is Linux's and refused by a [bond]",
        Settings { policy: Policy::ActiveBackup(c), .. } => c.fail_over_mac),
    option!("xmit_hash_policy", Kind::Choice(HASH_POLICIES), "which headers choose the link",
        Settings { policy: Policy::BalanceXor(c), .. } => c.xmit_hash_policy,
        Settings { policy: Policy::Ieee8023ad(c), .. } => c.xmit_hash_policy,
        Settings { policy: Policy::BalanceTlb(c), .. } => c.xmit_hash_policy),
    option!("lacp_rate", Kind::Choice(&["slow", "fast"]), "how often the partner is asked to send LACPDUs: every 30 s or every second",
        Settings { policy: Policy::Ieee8023ad(c), .. } => c.lacp_rate),
    option!("lacp_active", Kind::Flag, "whether LACPDUs are sent to a partner that sends none",
        Settings { policy: Policy::Ieee8023ad(c), .. } => c.lacp_active),
    option!("ad_select", Kind::Choice(&["stable", "bandwidth", "count"]), "which aggregator is used: the best one until it has no link left, the one of the highest rate, or the one of most links",
        Settings { policy: Policy::Ieee8023ad(c), .. } => c.ad_select),
    option!("min_links", Kind::Count(0, 64, None), "fewer links than this in the aggregator: none is used",
        Settings { policy: Policy::Ieee8023ad(c), .. } => c.min_links),
    option!("ad_actor_sys_prio", Kind::Count(1, 65_535, None), "the system priority in LACPDUs; the lower one decides",
        Settings { policy: Policy::Ieee8023ad(c), .. } => c.ad_actor_sys_prio),
    option!("ad_user_port_key", Kind::Count(0, 1_023, None), "the upper ten bits of the ports' key",
        Settings { policy: Policy::Ieee8023ad(c), .. } => c.ad_user_port_key),
    option!("ad_actor_system", Kind::Mac, "the system's address in LACPDUs; none: the bond's own address",
        Settings { policy: Policy::Ieee8023ad(c), .. } => c.ad_actor_system),
    option!("tlb_dynamic_lb", Kind::Flag, "whether flows move as loads change; off: the hash alone chooses",
        Settings { policy: Policy::BalanceTlb(c), .. } => c.tlb_dynamic_lb),
    option!("lp_interval", Kind::Span(Span::from_secs(1), DAY, None), "how often learning packets tell the switch where addresses are",
        Settings { policy: Policy::BalanceTlb(c), .. } => c.lp_interval,
        Settings { policy: Policy::BalanceAlb(c), .. } => c.lp_interval),
    option!("threshold", Kind::Span(Span::from_micros(1), DAY, Some("adaptive")), "a packet that comes this long after the one before it in its flow starts a new burst; adaptive: where the measured delays and queues of the links allow it",
        Settings { policy: Policy::Brr(c), .. } => c.threshold,
        Settings { policy: Policy::Potent(c), .. } => c.threshold),
    option!("timeout", Kind::Span(Span::from_micros(1), DAY, Some("adaptive")), "a packet that comes this long after the one before it in its flow starts a new flowlet",
        Settings { policy: Policy::Flowlet(c), .. } => c.timeout),
    option!("flows", Kind::Count(16, 1 << 26, None), "most flows that are remembered",
        Settings { policy: Policy::Brr(c), .. } => c.flows,
        Settings { policy: Policy::Flowlet(c), .. } => c.flows,
        Settings { policy: Policy::Potent(c), .. } => c.flows),
    option!("expiry", Kind::Span(MS, DAY, None), "a flow without packets for this long is forgotten",
        Settings { policy: Policy::Brr(c), .. } => c.expiry,
        Settings { policy: Policy::Flowlet(c), .. } => c.expiry,
        Settings { policy: Policy::Potent(c), .. } => c.expiry),
    option!("weighted", Kind::Flag, "whether links of higher rate or weight get bursts in proportion",
        Settings { policy: Policy::Brr(c), .. } => c.weighted),
    option!("heavy", Kind::Count(1, 64, None), "how many flows at most count as heavy and are moved on purpose",
        Settings { policy: Policy::Potent(c), .. } => c.heavy),
    option!("n", Kind::Count(1, 65_535, Some("auto")), "packets on the fastest link for each on a slow one; auto: the ratio of their rates or weights",
        Settings { policy: Policy::NToOne(c), .. } => c.n,
        Settings { policy: Policy::NToOnePrimary(c), .. } => c.n),
    option!("size", Kind::Bytes(1, 65_535), "packets above this size are large; n_to_one_primary: of this size and above",
        Settings { policy: Policy::NToOnePrimary(c), .. } => c.size,
        Settings { policy: Policy::CutOffLeastQueue(c), .. } => c.size),
    option!("window", Kind::Span(Span::from_micros(10), Span::from_secs(10), None), "the time constant of the traffic meters",
        Settings { policy: Policy::TrafficMeter(c), .. } => c.window),
    option!("pattern", Kind::Flag, "whether the distribution pattern alone decides: what a link was given does not drain while it is idle",
        Settings { policy: Policy::FastestTransmit(c), .. } => c.pattern),
    option!("miimon", Kind::Span(Span::ZERO, Span::from_secs(60), None), "of an Ethernet bond, 0: a link without carrier is used all the same; else it is not, from the moment that the system says so, whatever time this is",
        Settings { supervision: c, .. } => c.miimon),
    option!("updelay", Kind::Span(Span::ZERO, Span::from_secs(600), None), "how long a link must be well before it is used again",
        Settings { supervision: c, .. } => c.updelay),
    option!("downdelay", Kind::Span(Span::ZERO, Span::from_secs(600), None), "how long a link that failed is still used",
        Settings { supervision: c, .. } => c.downdelay),
    option!("arp_interval", Kind::Span(Span::ZERO, Span::from_secs(60), None), "how often links are probed: by the bond's own probes towards a peer, by ARP from an Ethernet bond; 0: the bond's defaults",
        Settings { supervision: c, .. } => c.arp_interval),
    option!("missed_max", Kind::Count(1, 255, None), "probes without an answer until a link counts as down",
        Settings { supervision: c, .. } => c.missed_max),
    option!("flush", Kind::Flag, "whether a flow moves only when a marker tells that all it has on the old link has arrived",
        Settings { flush, .. } => *flush),
    option!("flush_wait", Kind::Span(Span::ZERO, Span::from_secs(10), None), "longest that a flow's packets are held for that; then the flow stays where it is",
        Settings { flush: Some(c), .. } => c.wait),
];

impl OptionSpec {
    /// Its value in `settings`; `None`: the policy does not have it.
    pub fn get(&self, settings: &Settings) -> Option<Value> {
        (self.field)(settings).map(Field::value)
    }

    /// Sets a value that [`OptionSpec::parse`] gave.
    ///
    /// # Errors
    /// The policy does not have the option.
    pub fn set(&self, settings: &mut Settings, value: Value) -> Result<(), PolicyError> {
        let policy = settings.policy.name();
        let Some(field) = (self.field_mut)(settings) else {
            return Err(PolicyError::Option { policy, option: self.name.into(), known: settings.known() });
        };
        field.take(value);
        Ok(())
    }

    /// The value that `text` says.
    ///
    /// # Errors
    /// It is none that the option takes.
    pub fn parse(&self, text: &str) -> Result<Value, PolicyError> {
        let wrong = || PolicyError::Value { option: self.name, value: text.into(), expected: self.expected() };
        let within = |n: u64, least: u64, most: u64| if (least..=most).contains(&n) { Ok(n) } else { Err(wrong()) };
        let number = |text: &str| text.parse::<u64>().map_err(|_| wrong());
        Ok(match self.kind {
            Kind::Span(.., Some(word)) if text == word => Value::Span(None),
            Kind::Span(least, most, _) => {
                // Linux's bonding options of this kind are milliseconds where they have no unit.
                let span = match text.parse() {
                    Ok(ms) if ms <= 86_400_000 => Span::from_millis(ms),
                    _ => quantity::parse_span(text).map_err(|_| wrong())?,
                };
                within(span.as_nanos(), least.as_nanos(), most.as_nanos())?;
                Value::Span(Some(span))
            }
            Kind::Count(.., Some(word)) if text == word => Value::Count(None),
            Kind::Count(least, most, _) => Value::Count(Some(within(number(text)?, least, most)?)),
            Kind::Bytes(least, most) => {
                let bytes =
                    number(text).or_else(|_| quantity::parse_bytes(text).map(Bytes::as_u64).map_err(|_| wrong()))?;
                Value::Bytes(Bytes::new(within(bytes, least, most)?))
            }
            Kind::Flag => match text {
                "on" | "1" | "true" => Value::Flag(true),
                "off" | "0" | "false" => Value::Flag(false),
                _ => return Err(wrong()),
            },
            Kind::Choice(words) => {
                let found = words.iter().position(|word| *word == text).or_else(|| text.parse().ok());
                Value::Choice(found.filter(|n| *n < words.len()).ok_or_else(wrong)?)
            }
            Kind::Link if text == "none" => Value::Link(None),
            Kind::Link if text.is_empty() => return Err(wrong()),
            // A number is always a number, so that what is shown is read alike whatever the links are called.
            Kind::Link => Value::Link(Some(match text.parse() {
                Ok(number) => LinkRef::Number(ChannelId(number)),
                Err(_) => LinkRef::Name(text.into()),
            })),
            Kind::Mac if text == "none" => Value::Mac(None),
            Kind::Mac => Value::Mac(Some(text.parse().ok().filter(|mac: &Mac| mac.is_unicast()).ok_or_else(wrong)?)),
        })
    }

    /// What it takes, for people.
    pub fn expected(&self) -> String {
        let or = |word: Option<&str>| word.map(|word| format!(", or {word}")).unwrap_or_default();
        match self.kind {
            Kind::Span(least, most, word) => {
                format!("write a time from {} to {}{}", quantity::show_span(least), quantity::show_span(most), or(word))
            }
            Kind::Count(least, most, word) => format!("write a number from {least} to {most}{}", or(word)),
            Kind::Bytes(least, most) => format!("write bytes from {least} to {most}"),
            Kind::Flag => "write on or off".into(),
            Kind::Choice(words) => format!("write one of {}", words.join(", ")),
            Kind::Link => "write a link's name or number, or none".into(),
            Kind::Mac => "write one station's address such as 02:00:5e:10:00:01, or none".into(),
        }
    }

    /// `NAME=VALUE` as `settings` have it; nothing behind the sign where they do not.
    pub fn written(&self, settings: &Settings) -> String {
        format!("{}={}", self.name, self.get(settings).map(|value| self.show(&value)).unwrap_or_default())
    }

    /// `value` as it is written.
    pub fn show(&self, value: &Value) -> String {
        match (value, self.kind) {
            (Value::Span(Some(span)), _) => quantity::show_span(*span),
            (Value::Count(Some(n)), _) => n.to_string(),
            (Value::Bytes(bytes), _) => bytes.as_u64().to_string(),
            (Value::Flag(flag), _) => if *flag { "on" } else { "off" }.into(),
            (Value::Choice(n), Kind::Choice(words)) => (*words.get(*n).unwrap_or(&"")).into(),
            (Value::Link(Some(link)), _) => link.to_string(),
            (Value::Mac(Some(mac)), _) => mac.to_string(),
            (Value::Span(None), Kind::Span(.., Some(word))) | (Value::Count(None), Kind::Count(.., Some(word))) => {
                word.into()
            }
            _ => "none".into(),
        }
    }
}
