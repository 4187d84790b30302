//! `[[peer.class]]`: traffic of a peer's bond that is treated in its own way.
//!
//! Options are core's ([`CLASS_OPTIONS`]), by their own names. A list is written as one, or as its only word or number.

use super::{Channel, ConfigError, Reader};
use fairspan_core::bond::{CLASS_OPTIONS, ClassConfig, Classes, Config as BondConfig, Mode};
use fairspan_core::options::{Dialect, Entry, Kind, Value as OptionValue};
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use std::fmt;
use std::ops::Range;
use toml::{Spanned, Value};

/// A class as it is written: options and values.
#[derive(Default)]
pub(super) struct RawClass(Vec<(&'static Entry<ClassConfig>, Spanned<Value>)>);

impl<'de> Deserialize<'de> for RawClass {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RawClass, D::Error> {
        struct Settings;

        impl<'de> Visitor<'de> for Settings {
            type Value = RawClass;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the settings of a class")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawClass, A::Error> {
                let mut raw = RawClass::default();
                while let Some(Key(entry)) = map.next_key()? {
                    raw.0.push((entry, map.next_value()?));
                }
                Ok(raw)
            }
        }

        deserializer.deserialize_map(Settings)
    }
}

/// A setting that a class has.
struct Key(&'static Entry<ClassConfig>);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Key, D::Error> {
        let key = String::deserialize(deserializer)?;
        CLASS_OPTIONS.find(&key).map(Key).ok_or_else(|| {
            let known: Vec<String> = CLASS_OPTIONS.iter().map(|entry| format!("`{}`", entry.spec.name)).collect();
            D::Error::custom(format!("unknown field `{key}`, expected one of {}", known.join(", ")))
        })
    }
}

impl RawClass {
    /// Where an option is written.
    fn place(&self, name: &str) -> Option<Range<usize>> {
        self.0.iter().find(|(entry, _)| entry.spec.name == name).map(|(_, value)| value.span())
    }
}

/// The words and numbers of a list as one text, with commas between them.
pub(super) fn words(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.contains(',') => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Array(list) if !list.iter().any(Value::is_array) => {
            list.iter().map(words).collect::<Option<Vec<_>>>().map(|words| words.join(","))
        }
        _ => None,
    }
}

/// What a value says that is written for this option.
fn read(entry: &Entry<ClassConfig>, value: &Value) -> Result<OptionValue, String> {
    let spec = &entry.spec;
    match (value, spec.kind) {
        (Value::Boolean(flag), Kind::Flag) => Ok(OptionValue::Flag(*flag)),
        (_, Kind::Flag) => Err("write true or false".into()),
        (Value::String(text), Kind::Text(check)) if spec.name == "name" => {
            check(text).map_err(|error| error.to_string())?;
            Ok(OptionValue::Text(text.clone()))
        }
        (value, Kind::Text(check)) if spec.name != "name" => {
            let text = words(value).ok_or("write a word or a number without commas, or a list of them")?;
            check(&text).map_err(|error| error.to_string())?;
            Ok(OptionValue::Text(text))
        }
        (Value::String(text), Kind::Choice(words)) => {
            let unknown = || format!("`{text}` is none of {}", words.join(", "));
            spec.kind.parse(text, Dialect::Plain).ok_or_else(unknown)
        }
        (Value::String(text), kind) => {
            kind.parse(text, Dialect::Plain).ok_or_else(|| format!("is `{text}`; {}", spec.expected()))
        }
        _ => Err(spec.expected()),
    }
}

impl Reader<'_> {
    /// The classes of a peer, whose bond is so far `bond` and whose channels are `channels`: none where it listens.
    pub(super) fn classes(
        &self,
        raw: &[Spanned<RawClass>],
        bond: &BondConfig,
        channels: &[Channel],
    ) -> Result<Classes, ConfigError> {
        let mut classes = Classes::default();
        for (n, raw) in raw.iter().enumerate() {
            if bond.mode != Mode::Reliable {
                let mode = bond.mode;
                let problem = format!(
                    "is for mode = \"reliable\", and this is mode `{mode}`: write that mode, whose classes have modes of their own, \
                     or leave this out"
                );
                return Err(self.error(raw.span(), "peer.class", problem));
            }
            let mut class = ClassConfig::default();
            class.name = format!("class{n}");
            for (entry, value) in &raw.get_ref().0 {
                let read = read(entry, value.get_ref())
                    .map_err(|problem| self.error(value.span(), &format!("peer.class.{}", entry.spec.name), problem))?;
                entry.set(&mut class, read);
            }
            if let Some(name) = class.channels.0.iter().find(|name| channels.iter().all(|c| c.name != name.0))
                && !channels.is_empty()
            {
                let known: Vec<&str> = channels.iter().map(|channel| channel.name.as_str()).collect();
                let problem = format!("`{name}` is none of this peer's channels: {}", known.join(", "));
                let place = raw.get_ref().place("channels").unwrap_or(raw.span());
                return Err(self.error(place, "peer.class.channels", problem));
            }
            classes.0.push(class);
        }
        classes.check().map_err(|(class, option, problem)| {
            let whole = raw.get(class).map_or(0..0, Spanned::span);
            let place = raw.get(class).and_then(|raw| raw.get_ref().place(option));
            self.error(place.unwrap_or(whole), &format!("peer.class.{option}"), problem)
        })?;
        Ok(classes)
    }
}
