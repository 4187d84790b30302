//! The settings of traffic classes: which packets are of a class, and what is done with them.
//!
//! What it is: classes stand in an order, and the first that a packet matches decides ([`matching`](crate::flow::matching)). A packet that
//! matches none is treated as if there were no classes. Each end classes what it sends; the peer need not know of it. As text, for
//! recordings: a class a line, its options between tabs.

use crate::flow::matching::{Dscp, List, Matcher, Name, Network, Ports, Protocol};
use crate::options::{Dialect, Field, Kind, OptionError, Table, Value, Words, option, words};
use crate::units::Span;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::{self, Display};
use core::str::FromStr;

/// Flow buckets of each class.
pub(super) const SPREAD: usize = 64;

/// What is done with the packets of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClassMode {
    /// They are spread over the channels, and what is lost is sent again.
    #[default]
    Reliable,
    /// They go before others, by the channel that brings each first, and nothing delays them at the other end.
    Prompt,
    /// Each goes on all channels of the class, before others; the first copy is delivered.
    Duplicate,
    /// They go by one channel of the class: the usable one of the best priority.
    Backup,
}

words!(ClassMode { Reliable = "reliable", Prompt = "prompt", Duplicate = "duplicate", Backup = "backup" });

/// The settings of one class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClassConfig {
    /// For people; another for each class.
    pub name: String,
    /// Any of these code points.
    pub dscp: List<Dscp>,
    /// Any of these protocols.
    pub protocol: List<Protocol>,
    /// Any of these ports, at either end.
    pub port: List<Ports>,
    /// Any of these addresses, at either end.
    pub address: List<Network>,
    /// What is done with the packets.
    pub mode: ClassMode,
    /// The channels that carry them, as long as one of them works. Default: all.
    pub channels: List<Name>,
    /// No others carry them even then: what would need another is dropped. Default false.
    pub only: bool,
    /// Only channels carry them whose delay is at most so much longer than that of the fastest usable one. Default none.
    pub latency: Option<Span>,
}

/// Texts that are lists of these.
macro_rules! list {
    ($item:ty) => {
        Kind::Text(|text| text.parse::<List<$item>>().map(drop))
    };
}

/// The options of a class.
#[rustfmt::skip]
pub const CLASS_OPTIONS: Table<ClassConfig> = Table(&[
    option!(name: Kind::Text(name_is_good), "for people and metrics"),
    option!(dscp: list!(Dscp), "any of these code points, by name or number"),
    option!(protocol: list!(Protocol), "any of these protocols"),
    option!(port: list!(Ports), "any of these ports, at either end"),
    option!(address: list!(Network), "any of these addresses or networks, at either end"),
    option!(mode: Kind::Choice(ClassMode::WORDS), "what is done with its packets"),
    option!(channels: list!(Name), "the channels that carry it as long as one of them works"),
    option!(only: Kind::Flag, "whether no other channel carries it even when none of them works"),
    option!(latency: Kind::Span(Span::ZERO, Span::from_secs(10), Some("none")), "only channels carry it that take at most so much longer than the fastest"),
]);

fn name_is_good(name: &str) -> Result<(), OptionError> {
    let good = (1..=64).contains(&name.len()) && !name.chars().any(char::is_control);
    let expected = "write 1 to 64 bytes, and no control characters";
    let wrong = OptionError::Value { option: "name", value: name.into(), expected: expected.into() };
    if good { Ok(()) } else { Err(wrong) }
}

impl ClassConfig {
    /// Whether every packet matches.
    fn is_for_all(&self) -> bool {
        self.dscp.0.is_empty() && self.protocol.0.is_empty() && self.port.0.is_empty() && self.address.0.is_empty()
    }

    /// Whether not every channel may carry it.
    pub(super) fn chooses(&self) -> bool {
        !self.channels.0.is_empty() || self.latency.is_some()
    }

    pub(super) fn matcher(&self) -> Matcher {
        Matcher::new(&self.dscp, &self.protocol, &self.port, &self.address)
    }
}

/// The classes of a bond, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Classes(pub Vec<ClassConfig>);

impl Classes {
    /// Most classes of a bond.
    pub const LIMIT: usize = 64;

    /// Whether they can work together.
    ///
    /// # Errors
    /// The class that cannot, which of its options, what is wrong and what would be right.
    pub fn check(&self) -> Result<(), (usize, &'static str, String)> {
        if self.0.len() > Classes::LIMIT {
            return Err((Classes::LIMIT, "name", format!("there are {} classes; at most 64 work", self.0.len())));
        }
        for (n, class) in self.0.iter().enumerate() {
            let wrong = |option, problem: String| Err((n, option, problem));
            let before = &self.0[..n];
            if let Err(error) = name_is_good(&class.name) {
                return wrong("name", error.to_string());
            }
            if before.iter().any(|other| other.name == class.name) {
                return wrong("name", "is the name of a class before it: give each its own".into());
            }
            if let Some(all) = before.iter().find(|other| other.is_for_all()) {
                let problem = format!("comes behind `{}`, which every packet matches: put that one last", all.name);
                return wrong("name", problem);
            }
            if class.only && class.channels.0.is_empty() {
                return wrong("only", "needs `channels`: name those that may carry it".into());
            }
        }
        Ok(())
    }
}

impl Display for Classes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let default = ClassConfig::default();
        for (n, class) in self.0.iter().enumerate() {
            f.write_str(if n > 0 { "\n" } else { "" })?;
            let said = CLASS_OPTIONS.iter().filter(|entry| entry.get(class) != entry.get(&default));
            for (n, entry) in said.enumerate() {
                let (tab, name) = (if n > 0 { "\t" } else { "" }, entry.spec.name);
                write!(f, "{tab}{name}={}", entry.spec.show(&entry.get(class)))?;
            }
        }
        Ok(())
    }
}

impl FromStr for Classes {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Classes, OptionError> {
        let mut classes = Classes::default();
        for line in text.lines() {
            let mut class = ClassConfig::default();
            for part in line.split('\t') {
                let (name, value) = part.split_once('=').unwrap_or((part, ""));
                let known = || CLASS_OPTIONS.iter().map(|entry| entry.spec.name).collect::<Vec<_>>().join(", ");
                let Some(entry) = CLASS_OPTIONS.find(name) else {
                    return Err(OptionError::Option { of: "class", option: name.into(), known: known() });
                };
                entry.set(&mut class, entry.spec.parse(value, Dialect::Plain)?);
            }
            classes.0.push(class);
        }
        Ok(classes)
    }
}

impl Field for Classes {
    fn value(&self) -> Value {
        Value::Text(self.to_string())
    }

    fn take(&mut self, value: Value) {
        if let Value::Text(text) = value
            && let Ok(classes) = text.parse()
        {
            *self = classes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    const TEXT: &str = "name=calls\tdscp=EF,CS5\tprotocol=udp\tport=443,5060-5080\taddress=198.51.100.0/24\tmode=prompt\tchannels=dsl,my fibre\tonly=on\tlatency=20ms\nname=rest\tmode=backup";

    #[test]
    fn classes_are_written_as_they_are_read_with_what_is_not_the_default() {
        let classes: Classes = TEXT.parse().unwrap();
        assert_eq!((classes.0.len(), classes.to_string().as_str()), (2, TEXT));
        let [calls, rest] = &classes.0[..] else { panic!("two") };
        assert_eq!((calls.mode, calls.latency, calls.only), (ClassMode::Prompt, Some(Span::from_millis(20)), true));
        assert_eq!(calls.channels, List(vec![Name("dsl".into()), Name("my fibre".into())]));
        assert_eq!((rest.name.as_str(), rest.chooses(), calls.chooses()), ("rest", false, true));
        assert_eq!("".parse(), Ok(Classes::default()));
        for wrong in ["name=", "name=a\tcolour=red", "name=a\tmode=stripe", "name=a\tport=0", "name=a\tonly", "x"] {
            assert!(wrong.parse::<Classes>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_cannot_work_is_named_with_its_class_and_its_option() {
        let check = |text: &str| text.parse::<Classes>().unwrap().check();
        assert_eq!(check(TEXT), Ok(()));
        let wrong = |text: &str, class, option| {
            let (which, what, problem) = check(text).unwrap_err();
            assert_eq!((which, what), (class, option), "{problem}");
        };
        wrong("name=a\tport=1\nname=a\tport=2", 1, "name");
        wrong("name=a\nname=b\tport=2", 1, "name");
        wrong("name=a\tport=1\nport=2", 1, "name");
        wrong("name=a\tport=1\tonly=on", 0, "only");
        let many: Vec<String> = (1..=65).map(|n| format!("name=c{n}\tport={n}")).collect();
        wrong(&many.join("\n"), 64, "name");
        assert_eq!(check(&many[..64].join("\n")), Ok(()));
    }
}
