//! What values an option takes: how they are read, shown, checked and described.

use super::error::OptionError;
use super::share::Share;
use super::value::{LinkRef, Value};
use crate::quantity;
use crate::units::{Bytes, ChannelId, Rate, Span};
use crate::wire::mac::Mac;
use alloc::format;
use alloc::string::{String, ToString};
use core::net::{Ipv4Addr, Ipv6Addr};

/// Least, most, and the word for "none of these".
type Or = Option<&'static str>;

/// What values an option takes.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A length of time from the first to the second, or the word.
    Span(Span, Span, Or),
    /// A whole number from the first to the second, or the word.
    Count(u64, u64, Or),
    /// Bytes from the first to the second, or the word.
    Bytes(u64, u64, Or),
    /// Bits per second from the first to the second, or the word.
    Rate(Rate, Rate, Or),
    /// A share of one from the first to the second.
    Share(Share, Share),
    /// `on` or `off`.
    Flag,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A link by name or number, or `none`.
    Link,
    /// A station's hardware address, or `none`.
    Mac,
    /// An IPv4 address, or `none`.
    Ipv4,
    /// An IPv6 address, or `none`.
    Ipv6,
    /// Text that this function accepts.
    Text(fn(&str) -> Result<(), OptionError>),
}

/// Who writes the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Every time has its unit, flags are `on` and `off`, choices are words.
    Plain,
    /// Linux's bonding options as well: times without a unit are milliseconds, flags may be 1 and 0, choices numbers.
    Linux,
}

impl Kind {
    /// The value that `text` says; `None`: it is none that the option takes.
    pub fn parse(self, text: &str, dialect: Dialect) -> Option<Value> {
        let linux = dialect == Dialect::Linux;
        let value = match self {
            Kind::Span(.., Some(word)) if text == word => Value::Span(None),
            Kind::Span(..) => Value::Span(Some(match text.parse() {
                Ok(ms) if linux && ms <= 86_400_000 => Span::from_millis(ms),
                _ => quantity::parse_span(text).ok()?,
            })),
            Kind::Count(.., Some(word)) if text == word => Value::Count(None),
            Kind::Count(..) => Value::Count(Some(text.parse().ok()?)),
            Kind::Bytes(.., Some(word)) if text == word => Value::Bytes(None),
            Kind::Bytes(..) => Value::Bytes(Some(match text.parse() {
                Ok(number) => Bytes::new(number),
                Err(_) => quantity::parse_bytes(text).ok()?,
            })),
            Kind::Rate(.., Some(word)) if text == word => Value::Rate(None),
            Kind::Rate(..) => Value::Rate(Some(quantity::parse_rate(text).ok()?)),
            Kind::Share(..) => Value::Share(Share::parse(text)?),
            Kind::Flag => Value::Flag(match text {
                "on" => true,
                "off" => false,
                "1" | "true" if linux => true,
                "0" | "false" if linux => false,
                _ => return None,
            }),
            Kind::Choice(words) => {
                let number = || text.parse().ok().filter(|_| linux);
                Value::Choice(words.iter().position(|word| *word == text).or_else(number)?)
            }
            Kind::Link if text == "none" => Value::Link(None),
            Kind::Link if text.is_empty() => return None,
            // A number is always a number, so that what is shown is read alike whatever the links are called.
            Kind::Link => Value::Link(Some(match text.parse() {
                Ok(number) => LinkRef::Number(ChannelId(number)),
                Err(_) => LinkRef::Name(text.into()),
            })),
            Kind::Mac if text == "none" => Value::Mac(None),
            Kind::Mac => Value::Mac(Some(text.parse().ok()?)),
            Kind::Ipv4 if text == "none" => Value::Ipv4(None),
            Kind::Ipv4 => Value::Ipv4(Some(text.parse::<Ipv4Addr>().ok()?.octets())),
            Kind::Ipv6 if text == "none" => Value::Ipv6(None),
            Kind::Ipv6 => Value::Ipv6(Some(text.parse::<Ipv6Addr>().ok()?.octets())),
            Kind::Text(_) => Value::Text(text.into()),
        };
        self.allows(&value).then_some(value)
    }

    /// Whether the value is one that the option takes.
    pub fn allows(self, value: &Value) -> bool {
        match (self, value) {
            (Kind::Span(.., word), Value::Span(None))
            | (Kind::Count(.., word), Value::Count(None))
            | (Kind::Bytes(.., word), Value::Bytes(None))
            | (Kind::Rate(.., word), Value::Rate(None)) => word.is_some(),
            (Kind::Choice(words), Value::Choice(n)) => *n < words.len(),
            (Kind::Mac, Value::Mac(mac)) => mac.is_none_or(Mac::is_unicast),
            (Kind::Text(check), Value::Text(text)) => check(text).is_ok(),
            (Kind::Share(least, most), Value::Share(share)) => (least..=most).contains(share),
            _ => match (self.range(), number(value)) {
                (Some((least, most)), Some(n)) => (least..=most).contains(&n),
                (range, _) => range.is_none(),
            },
        }
    }

    /// The least and the most where the option is a number, in nanoseconds, bytes or bits per second.
    pub fn range(self) -> Option<(u64, u64)> {
        match self {
            Kind::Span(least, most, _) => Some((least.as_nanos(), most.as_nanos())),
            Kind::Count(least, most, _) | Kind::Bytes(least, most, _) => Some((least, most)),
            Kind::Rate(least, most, _) => Some((least.as_bits_per_sec(), most.as_bits_per_sec())),
            _ => None,
        }
    }

    /// What it takes, for people.
    pub fn expected(self) -> String {
        let or = |word: Or| word.map(|word| format!(", or {word}")).unwrap_or_default();
        match self {
            Kind::Span(least, most, word) => {
                format!("write a time from {} to {}{}", quantity::show_span(least), quantity::show_span(most), or(word))
            }
            Kind::Count(least, most, word) => format!("write a number from {least} to {most}{}", or(word)),
            Kind::Bytes(least, most, word) => format!("write bytes from {least} to {most}{}", or(word)),
            Kind::Rate(least, most, word) => {
                format!(
                    "write a rate from {} to {}{}",
                    quantity::exact_rate(least),
                    quantity::exact_rate(most),
                    or(word)
                )
            }
            Kind::Share(least, most) => format!("write a share from {least} to {most}, such as {least}"),
            Kind::Flag => "write on or off".into(),
            Kind::Choice(words) => format!("write one of {}", words.join(", ")),
            Kind::Link => "write a link's name or number, or none".into(),
            Kind::Mac => "write one station's address such as 02:00:5e:10:00:01, or none".into(),
            Kind::Ipv4 => "write an address such as 10.77.0.1, or none".into(),
            Kind::Ipv6 => "write an address such as fd77::1, or none".into(),
            Kind::Text(_) => "write text".into(),
        }
    }

    /// `value` as it is written; [`Kind::parse`] reads the same one.
    pub fn show(self, value: &Value) -> String {
        match (value, self) {
            (Value::Span(Some(span)), _) => quantity::show_span(*span),
            (Value::Bytes(Some(bytes)), _) => bytes.as_u64().to_string(),
            (Value::Count(Some(n)), _) => n.to_string(),
            (Value::Rate(Some(rate)), _) => quantity::exact_rate(*rate),
            (Value::Share(share), _) => share.to_string(),
            (Value::Flag(flag), _) => if *flag { "on" } else { "off" }.into(),
            (Value::Choice(n), Kind::Choice(words)) => (*words.get(*n).unwrap_or(&"")).into(),
            (Value::Link(Some(link)), _) => link.to_string(),
            (Value::Mac(Some(mac)), _) => mac.to_string(),
            (Value::Ipv4(Some(address)), _) => Ipv4Addr::from(*address).to_string(),
            (Value::Ipv6(Some(address)), _) => Ipv6Addr::from(*address).to_string(),
            (Value::Text(text), _) => text.clone(),
            (Value::Span(None), Kind::Span(.., Some(word)))
            | (Value::Count(None), Kind::Count(.., Some(word)))
            | (Value::Bytes(None), Kind::Bytes(.., Some(word)))
            | (Value::Rate(None), Kind::Rate(.., Some(word))) => word.into(),
            _ => "none".into(),
        }
    }
}

/// The number that a value is, in the unit of [`Kind::range`].
pub(super) fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Span(span) => span.map(Span::as_nanos),
        Value::Count(n) => *n,
        Value::Bytes(bytes) => bytes.map(Bytes::as_u64),
        Value::Rate(rate) => rate.map(Rate::as_bits_per_sec),
        _ => None,
    }
}
