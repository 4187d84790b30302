//! A policy with what goes with every policy, as text and from text, and the selector that they make.

use super::{Links, Policy, PolicyConfig, Select, Selector, flush, supervision};
use crate::options::{self, Dialect, Family, Field, Fields, Kind, Member, OptionError, OptionSpec, Value};
use crate::units::{ChannelId, Time};
use alloc::string::ToString;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

/// A policy of the table: its name and what it is.
pub type PolicySpec = Member<Settings>;

macro_rules! members {
    ($($(#[$doc:meta])* $policy:ident($config:ty),)+) => {
        /// All policies.
        pub const POLICIES: &[PolicySpec] = &[$(Member {
            name: <$config>::NAME,
            mode: <$config>::MODE,
            main: <$config>::MAIN,
            help: <$config>::HELP,
            plain: || Settings::from(Policy::$policy(<$config>::default())),
        }),+];
    };
}

policies!(members);

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

static FLUSH: OptionSpec = OptionSpec::new(
    "flush",
    Kind::Flag,
    "whether a flow moves only when a marker tells that all it has on the old link has arrived",
);

impl Family for Settings {
    const WHAT: &'static str = "policy";
    const DIALECT: Dialect = Dialect::Linux;
    const MEMBERS: &'static [PolicySpec] = POLICIES;

    fn same(&self, other: &Settings) -> bool {
        core::mem::discriminant(&self.policy) == core::mem::discriminant(&other.policy)
    }

    fn fields(&self) -> Fields<'_> {
        let mut fields = self.policy.fields();
        fields.extend(supervision::OPTIONS.fields(&self.supervision));
        fields.push((&FLUSH, &self.flush));
        fields.extend(self.flush.iter().flat_map(|config| flush::OPTIONS.fields(config)));
        fields
    }

    fn field_mut(&mut self, option: &str) -> Option<&mut dyn Field> {
        if option == FLUSH.name {
            return Some(&mut self.flush);
        }
        let flush = self.flush.as_mut().and_then(|config| flush::OPTIONS.field_mut(config, option));
        let common = flush.or_else(|| supervision::OPTIONS.field_mut(&mut self.supervision, option));
        common.or_else(|| self.policy.field_mut(option))
    }

    fn with_everything(self) -> Settings {
        Settings { flush: Some(flush::Config::default()), ..self }
    }

    fn set(&mut self, option: &str, text: &str) -> Result<(), OptionError> {
        if self.flush.is_none() && flush::OPTIONS.find(option).is_some() {
            return Err(OptionError::Conflict {
                setting: option.into(),
                with: "flush=off".into(),
                instead: "write flush=on as well, or leave it out".into(),
            });
        }
        options::set(self, option, text)
    }

    /// Whether the options can work together.
    fn check(&self) -> Result<(), OptionError> {
        let span = |name: &str| if let Some(Value::Span(span)) = self.get(name) { span } else { None };
        let conflict = |name: &str, with: &str, instead: &str| {
            let setting = self.written(name).unwrap_or_else(|| name.into());
            Err(OptionError::Conflict { setting, with: with.into(), instead: instead.into() })
        };
        for gap in ["threshold", "timeout"] {
            if let (Some(gap_span), Some(expiry), Some(with)) = (span(gap), span("expiry"), self.written(gap))
                && expiry < gap_span
            {
                let instead = "a flow that is forgotten within a burst changes its link there: expire it later";
                return conflict("expiry", &with, instead);
            }
        }
        let name = self.policy.name();
        match self.policy {
            Policy::Broadcast(_) if self.flush.is_some() => {
                conflict("flush", name, "its flows are on every link and never move: leave flush out")
            }
            Policy::TrafficMeter(_) if self.flush.is_some() => {
                conflict("flush", name, "its receiver puts packets in order: leave flush out")
            }
            _ => Ok(()),
        }
    }
}

impl Settings {
    /// Whether the options can work together, and every number that one has for a link is one that a link can have.
    fn check_with_links(&self) -> Result<(), OptionError> {
        self.check()?;
        for (spec, field) in self.fields() {
            if let Value::Link(Some(link)) = field.value()
                && link.number().is_some_and(|link| link.index() >= ChannelId::LIMIT)
            {
                let known = alloc::format!("numbered from 0 to {}", ChannelId::LIMIT - 1);
                return Err(OptionError::Link { option: spec.name, link: link.to_string(), known });
            }
        }
        Ok(())
    }

    /// Gives the options that name links their numbers; `names` are the links' names, in order.
    ///
    /// # Errors
    /// There is no such link.
    pub fn resolve(&mut self, names: &[&str]) -> Result<(), OptionError> {
        let values: Vec<_> = self.fields().into_iter().map(|(spec, field)| (spec, field.value())).collect();
        for (spec, value) in values {
            if let Value::Link(Some(link)) = value {
                let found = link.resolve(names).ok_or_else(|| OptionError::Link {
                    option: spec.name,
                    link: link.to_string(),
                    known: names.join(", "),
                })?;
                if let Some(field) = self.field_mut(spec.name) {
                    field.take(Value::Link(Some(found)));
                }
            }
        }
        Ok(())
    }
}

impl Selector {
    /// The selector of `settings` over `links`. `seed`: for what is random, and the keys of hashes that strangers must not
    /// predict.
    ///
    /// # Errors
    /// The settings cannot work, or name a link by a number that no link has. A link that is named and was not given a
    /// number yet ([`Settings::resolve`]) counts as none: it may join later.
    pub fn new(settings: &Settings, links: &Links, seed: u64) -> Result<Selector, OptionError> {
        settings.check_with_links()?;
        let mut selector = settings.policy.selector(seed);
        selector.on_links(Time::ZERO, links);
        Ok(selector)
    }
}

/// A policy as an option of a bond.
impl Field for Settings {
    fn value(&self) -> Value {
        Value::Text(self.to_string())
    }

    fn take(&mut self, value: Value) {
        if let Value::Text(text) = value
            && let Ok(settings) = text.parse()
        {
            *self = settings;
        }
    }
}

impl FromStr for Settings {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Settings, OptionError> {
        options::parse(text)
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        options::write(self, f)
    }
}

#[cfg(test)]
mod tests;
