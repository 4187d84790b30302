//! `policy`: text such as `"brr:12ms"`, or a table such as `{ name = "brr", threshold = "12ms" }`.

use super::{Channel, ConfigError, Reader};
use fairspan_core::options::{Family, OptionError, Words, build};
use fairspan_core::select::xor::HashPolicy;
use fairspan_core::select::{Policy, Settings};
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use std::fmt;
use std::ops::Range;
use toml::{Spanned, Value};

/// What would be right where `policy` is neither text nor a table.
const FORMS: &str = "\"brr:12ms\" or { name = \"brr\", threshold = \"12ms\" }";

/// `policy` as it is written, with the place of each option.
#[derive(Debug)]
pub(super) enum RawPolicy {
    Text(String),
    Table(Vec<(Spanned<String>, Spanned<Value>)>),
}

impl<'de> Deserialize<'de> for RawPolicy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RawPolicy, D::Error> {
        struct Forms;

        impl<'de> Visitor<'de> for Forms {
            type Value = RawPolicy;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(FORMS)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<RawPolicy, E> {
                Ok(RawPolicy::Text(text.into()))
            }

            fn visit_i64<E: Error>(self, mode: i64) -> Result<RawPolicy, E> {
                Ok(RawPolicy::Text(mode.to_string()))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawPolicy, A::Error> {
                let mut table = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    table.push(pair);
                }
                Ok(RawPolicy::Table(table))
            }
        }

        deserializer.deserialize_any(Forms)
    }
}

impl RawPolicy {
    /// Whether `option` is written, in a table.
    pub(super) fn has(&self, option: &str) -> bool {
        self.place(option).is_some()
    }

    /// Where `option` is written, if it is in a table.
    fn place(&self, option: &str) -> Option<Range<usize>> {
        match self {
            RawPolicy::Text(_) => None,
            RawPolicy::Table(table) => table.iter().find(|(key, _)| key.get_ref() == option).map(|(key, _)| key.span()),
        }
    }
}

impl Reader<'_> {
    /// The policy that `raw` says; `setting` names it in errors.
    pub(super) fn policy(&self, raw: &Spanned<RawPolicy>, setting: &str) -> Result<Settings, ConfigError> {
        let wrong = |error: OptionError| self.policy_error(raw, setting, error.option(), &error.to_string());
        let table = match raw.get_ref() {
            RawPolicy::Text(text) => return text.parse().map_err(wrong),
            RawPolicy::Table(table) => table,
        };
        let mut name = None;
        let mut options = Vec::new();
        for (key, value) in table {
            let text = match value.get_ref() {
                Value::String(text) => text.clone(),
                Value::Integer(n) => n.to_string(),
                Value::Boolean(flag) => flag.to_string(),
                other => {
                    let problem = format!("`{other}`: write text, a number, true or false");
                    return Err(self.error(value.span(), &format!("{setting}.{}", key.get_ref()), problem));
                }
            };
            match key.get_ref().as_str() {
                "name" => name = Some(text),
                option => options.push((option, text)),
            }
        }
        let Some(name) = name else {
            return Err(self.error(raw.span(), &format!("{setting}.name"), format!("missing: write {FORMS}")));
        };
        build::<Settings>(&name, options.iter().map(|(option, text)| (*option, text.as_str()))).map_err(|error| match (
            error.option(),
            raw.get_ref().place("name"),
        ) {
            (None, Some(place)) => self.error(place, &format!("{setting}.name"), error),
            _ => wrong(error),
        })
    }

    /// `problem` with the policy that `raw` says, or with an option of it, at that option's place.
    pub(super) fn policy_error(
        &self,
        raw: &Spanned<RawPolicy>,
        setting: &str,
        option: Option<&str>,
        problem: &str,
    ) -> ConfigError {
        match option.and_then(|option| Some((option, raw.get_ref().place(option)?))) {
            Some((option, place)) => self.error(place, &format!("{setting}.{option}"), problem),
            None => self.error(raw.span(), setting, problem),
        }
    }

    /// The policy of a peer in mode `flow` over these channels, and what of it works and is hardly meant.
    pub(super) fn peer_policy(
        &self,
        raw: &Spanned<RawPolicy>,
        channels: &[Channel],
    ) -> Result<(Settings, Option<ConfigError>), ConfigError> {
        const SETTING: &str = "peer.policy";
        let settings = self.policy(raw, SETTING)?;
        let frames = match settings.policy {
            Policy::BalanceAlb(_) => {
                Some("balance-alb answers neighbours by ARP on Ethernet links: use balance-tlb here, or a [bond]")
            }
            Policy::Ieee8023ad(_) => {
                Some("802.3ad speaks LACP with a switch on Ethernet links: use balance-xor here, or a [bond]")
            }
            _ => None,
        };
        if let Some(problem) = frames {
            return Err(self.policy_error(raw, SETTING, Some("name"), problem));
        }
        let default = settings.member().plain();
        for (name, why) in [
            ("arp_validate", "is about ARP answers on Ethernet links, and a peer answers the bond's own probes"),
            ("arp_all_targets", "is about ARP answers on Ethernet links, and there is one peer, which answers"),
            ("fail_over_mac", "is about hardware addresses of Ethernet links, and a peer sees none of them"),
            ("lp_interval", "is about a switch that learns addresses, and there is none before a peer"),
        ] {
            let changed = settings.get(name) != default.get(name);
            if changed || raw.get_ref().has(name) {
                let problem = format!("{name} {why}: leave it out, or use a [bond]");
                return Err(self.policy_error(raw, SETTING, Some(name), &problem));
            }
        }
        if !channels.is_empty() {
            let names: Vec<&str> = channels.iter().map(|channel| channel.name.as_str()).collect();
            let resolved = settings.clone().resolve(&names);
            resolved.map_err(|e| self.policy_error(raw, SETTING, e.option(), &e.to_string()))?;
        }
        let notice = addresses_only(&settings, channels)
            .map(|problem| self.policy_error(raw, SETTING, Some("xmit_hash_policy"), &problem));
        Ok((settings, notice))
    }
}

/// What is wrong with a hash of Ethernet addresses where packets have none.
fn addresses_only(settings: &Settings, channels: &[Channel]) -> Option<String> {
    let hash = match &settings.policy {
        Policy::BalanceXor(config) => config.xmit_hash_policy,
        Policy::BalanceTlb(config) => config.xmit_hash_policy,
        _ => return None,
    };
    if !matches!(hash, HashPolicy::Layer2 | HashPolicy::VlanSrcmac) {
        return None;
    }
    let name = hash.word();
    (channels.len() != 1).then(|| {
        format!(
            "{name} chooses by Ethernet addresses, and packets of this interface have none: all IPv4 packets take one \
             channel, and all IPv6 packets; write xmit_hash_policy=layer3+4, or layer2+3"
        )
    })
}
