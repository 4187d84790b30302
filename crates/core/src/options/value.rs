//! Values of options, and the fields of settings that hold them.

use super::share::Share;
use crate::units::{Bytes, ChannelId, Rate, Span};
use crate::wire::mac::Mac;
use alloc::string::String;
use core::fmt;

/// A link that an option names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkRef {
    /// By its name; [`LinkRef::resolve`] makes it a number.
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

    /// The link by its number among links of these names; `None`: there is no such link.
    pub fn resolve(&self, names: &[&str]) -> Option<LinkRef> {
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

/// A value of an option. `None` is the word that the option has for it, such as `adaptive` or `none`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A length of time.
    Span(Option<Span>),
    /// A number.
    Count(Option<u64>),
    /// Bytes.
    Bytes(Option<Bytes>),
    /// Bits per second.
    Rate(Option<Rate>),
    /// A share of one.
    Share(Share),
    /// On or off.
    Flag(bool),
    /// One of the option's words, by its place.
    Choice(usize),
    /// A link.
    Link(Option<LinkRef>),
    /// A station's hardware address.
    Mac(Option<Mac>),
    /// An IPv4 address.
    Ipv4(Option<[u8; 4]>),
    /// An IPv6 address.
    Ipv6(Option<[u8; 16]>),
    /// Text with rules of its own.
    Text(String),
}

/// A field of a component's settings that an option reads and writes.
pub trait Field {
    /// What it is.
    fn value(&self) -> Value;

    /// Takes a value that the option's kind allows; others change nothing.
    fn take(&mut self, value: Value);
}

macro_rules! field {
    ($($type:ty: $pattern:pat => $taken:expr, $self:ident => $value:expr;)+) => {
        $(impl Field for $type {
            fn value(&self) -> Value {
                let $self = self;
                $value
            }

            fn take(&mut self, value: Value) {
                if let $pattern = value {
                    *self = $taken;
                }
            }
        })+
    };
}

field! {
    u16: Value::Count(Some(n)) => n as u16, this => Value::Count(Some(u64::from(*this)));
    u32: Value::Count(Some(n)) => n as u32, this => Value::Count(Some(u64::from(*this)));
    Option<u32>: Value::Count(n) => n.map(|n| n as u32), this => Value::Count(this.map(u64::from));
    u64: Value::Count(Some(n)) => n, this => Value::Count(Some(*this));
    Span: Value::Span(Some(span)) => span, this => Value::Span(Some(*this));
    Option<Span>: Value::Span(span) => span, this => Value::Span(*this);
    Bytes: Value::Bytes(Some(bytes)) => bytes, this => Value::Bytes(Some(*this));
    Option<Bytes>: Value::Bytes(bytes) => bytes, this => Value::Bytes(*this);
    Rate: Value::Rate(Some(rate)) => rate, this => Value::Rate(Some(*this));
    Option<Rate>: Value::Rate(rate) => rate, this => Value::Rate(*this);
    Share: Value::Share(share) => share, this => Value::Share(*this);
    bool: Value::Flag(flag) => flag, this => Value::Flag(*this);
    Option<Mac>: Value::Mac(mac) => mac, this => Value::Mac(*this);
    Option<LinkRef>: Value::Link(link) => link, this => Value::Link(this.clone());
    Option<[u8; 4]>: Value::Ipv4(address) => address, this => Value::Ipv4(*this);
    Option<[u8; 16]>: Value::Ipv6(address) => address, this => Value::Ipv6(*this);
    String: Value::Text(text) => text, this => Value::Text(this.clone());
}

/// A number that is a count of things, or one of bytes: the option's kind says which.
impl Field for usize {
    fn value(&self) -> Value {
        Value::Count(Some(*self as u64))
    }

    fn take(&mut self, value: Value) {
        match value {
            Value::Count(Some(n)) => *self = n as usize,
            Value::Bytes(Some(bytes)) => *self = bytes.as_u64() as usize,
            _ => {}
        }
    }
}
