//! `[shape]`: two devices joined as by a cable, with a queue of choice in each direction.

use super::{ConfigError, Interface, Reader};
use fairspan_core::options::Entry;
use fairspan_core::shape::{Config, OPTIONS};
use fairspan_core::units::Rate;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use std::fmt;
use toml::{Spanned, Value};

/// `[shape]`: the devices, and what is done between them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shape {
    /// `a`: one device; the configuration waits for one that does not exist yet.
    pub a: String,
    /// `b`: the other one.
    pub b: String,
    /// From `a` to `b`: the settings of `[shape]`, and in their place those of `[shape.forward]`.
    pub forward: Config,
    /// From `b` to `a`: likewise with `[shape.backward]`.
    pub backward: Config,
}

/// Settings of the section that are no options of a shaper.
const OWN: [&str; 4] = ["a", "b", "forward", "backward"];

/// `[shape]` as it is written; of the two sections below it the options alone.
#[derive(Default)]
pub(super) struct RawShape {
    a: Option<Spanned<String>>,
    b: Option<Spanned<String>>,
    forward: Option<RawDirection>,
    backward: Option<RawDirection>,
    options: Options,
}

/// Options, each as it is written.
type Options = Vec<(&'static Entry<Config>, Spanned<Value>)>;

/// `[shape.forward]`, `[shape.backward]`.
struct RawDirection(Options);

/// The option of that name in a file.
fn option(name: &str) -> Option<&'static Entry<Config>> {
    OPTIONS.iter().find(|entry| entry.spec.file == Some(name))
}

/// A setting that the section has: one of these, or an option.
#[derive(Clone, Copy)]
struct Known(&'static [&'static str]);

impl<'de> DeserializeSeed<'de> for Known {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        let key = String::deserialize(deserializer)?;
        if self.0.contains(&key.as_str()) || option(&key).is_some() {
            return Ok(key);
        }
        let known = self.0.iter().copied().chain(OPTIONS.iter().filter_map(|entry| entry.spec.file));
        let known: Vec<String> = known.map(|name| format!("`{name}`")).collect();
        Err(D::Error::custom(format!("unknown field `{key}`, expected one of {}", known.join(", "))))
    }
}

impl<'de> Visitor<'de> for Known {
    type Value = RawShape;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the settings of a shaper")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawShape, A::Error> {
        let mut raw = RawShape::default();
        while let Some(key) = map.next_key_seed(self)? {
            match key.as_str() {
                "a" => raw.a = Some(map.next_value()?),
                "b" => raw.b = Some(map.next_value()?),
                "forward" => raw.forward = Some(map.next_value()?),
                "backward" => raw.backward = Some(map.next_value()?),
                _ => raw.options.extend(option(&key).zip(Some(map.next_value()?))),
            }
        }
        Ok(raw)
    }
}

impl<'de> Deserialize<'de> for RawShape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RawShape, D::Error> {
        deserializer.deserialize_map(Known(&OWN))
    }
}

impl<'de> Deserialize<'de> for RawDirection {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RawDirection, D::Error> {
        Ok(RawDirection(deserializer.deserialize_map(Known(&[]))?.options))
    }
}

impl Reader<'_> {
    /// The section; `alone` says that no other role stands beside it.
    pub(super) fn shape(
        &self,
        interface: &Interface,
        raw: Spanned<RawShape>,
        alone: bool,
    ) -> Result<Shape, ConfigError> {
        let span = raw.span();
        let raw = raw.into_inner();
        if !alone {
            let problem = "stands beside a [ring], a [bond] or [[peer]]s: give each its own file";
            return Err(self.error(span, "shape", problem));
        }
        let meaningless = [
            (!interface.addresses.is_empty(), "address", "a shaper is no interface of this host"),
            (interface.mtu.is_some(), "mtu", "frames have the length that they have: set the devices' MTU"),
            (interface.private_key.is_some(), "private_key", "nothing is encrypted"),
            (interface.listen_port.is_some(), "listen_port", "nobody calls"),
            (interface.listen_tcp_port.is_some(), "listen_tcp_port", "nobody calls"),
            (interface.record.is_some(), "record", "only a bond with a [[peer]] is recorded"),
            (interface.padding, "padding", "nothing is encrypted"),
            (interface.lock, "lock", "this host sends nothing through a shaper"),
        ];
        if let Some((_, setting, why)) = meaningless.iter().find(|(given, ..)| *given) {
            let problem = format!("has no meaning beside [shape]: {why}; leave it out");
            return Err(self.error(span, &format!("interface.{setting}"), problem));
        }
        let device = |value: &Option<Spanned<String>>, setting, example| match value {
            Some(device) => self.link_device(device, setting),
            None => {
                let problem = format!("missing: name one of the two Ethernet devices, such as \"{example}\"");
                Err(self.error(span.clone(), setting, problem))
            }
        };
        let (a, b) = (device(&raw.a, "shape.a", "eth0")?, device(&raw.b, "shape.b", "eth1")?);
        if a == b {
            let place = raw.b.as_ref().map_or(span.clone(), Spanned::span);
            let problem = format!("`{b}` is `shape.a` as well: a shaper stands between two devices");
            return Err(self.error(place, "shape.b", problem));
        }
        let direction = |own: Option<RawDirection>, name: &str| {
            let own = own.map_or_else(Vec::new, |RawDirection(options)| options);
            let section = format!("shape.{name}");
            let has_rate = own.iter().chain(&raw.options).any(|(entry, _)| entry.spec.name == "rate");
            if !has_rate {
                let problem = format!(
                    "missing: write somewhat less than the narrowest link carries from {}, such as \"40Mbit\"",
                    if name == "forward" { "a to b" } else { "b to a" }
                );
                return Err(self.error(span.clone(), "shape.rate", problem));
            }
            let mut config = Config::new(Rate::from_mbit(1));
            for (entry, value) in &raw.options {
                self.option("shape", entry, value, &mut config)?;
            }
            for (entry, value) in &own {
                self.option(&section, entry, value, &mut config)?;
            }
            Ok(config)
        };
        Ok(Shape { forward: direction(raw.forward, "forward")?, backward: direction(raw.backward, "backward")?, a, b })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config as File;
    use super::*;
    use fairspan_core::units::Span;
    use std::path::Path;

    const HEAD: &str = "[interface]\nname = \"wan\"\n[shape]\n";
    const DEVICES: &str = "a = \"eth0\"\nb = \"eth1\"\n";

    fn parse(text: &str) -> Result<File, ConfigError> {
        File::parse(Path::new("x.toml"), text)
    }

    #[test]
    fn settings_hold_for_both_directions_unless_a_direction_has_its_own() {
        let text = format!(
            "{HEAD}{DEVICES}rate = \"40Mbit\"\noverhead = 18\nmin_packet = 64\ndiscipline = \"flow-queue\"\n\
             [shape.backward]\nrate = \"10Mbit\"\nbuffer = \"codel:target=10ms\"\nqueue = \"300ms\"\natm = true\n"
        );
        let shape = parse(&text).expect("good").shape.expect("a shaper");
        assert_eq!((shape.a.as_str(), shape.b.as_str()), ("eth0", "eth1"));
        let mut forward = Config::new(Rate::from_mbit(40));
        (forward.overhead, forward.min_packet) = (18, 64);
        forward.discipline = "flow-queue".parse().expect("a discipline");
        assert_eq!(shape.forward, forward);
        let mut backward = forward;
        (backward.rate, backward.queue, backward.atm) = (Rate::from_mbit(10), Span::from_millis(300), true);
        backward.buffer = "codel:target=10ms".parse().expect("a policy");
        assert_eq!(shape.backward, backward);
    }

    /// Each row: what follows `[shape]`, the line and setting that the error names, and a word of advice.
    #[test]
    fn each_error_names_line_setting_and_what_would_be_right() {
        let with = |more: &str| format!("{DEVICES}rate = \"1Mbit\"\n{more}\n");
        let rows = [
            ("a = \"eth0\"\nrate = \"1Mbit\"".to_owned(), 3, "shape.b", "eth1"),
            ("b = \"eth0\"\nrate = \"1Mbit\"".to_owned(), 3, "shape.a", "eth0"),
            ("a = \"eth0\"\nb = \"eth0\"\nrate = \"1Mbit\"".to_owned(), 5, "shape.b", "two devices"),
            ("a = \"lo\"\nb = \"eth0\"\nrate = \"1Mbit\"".to_owned(), 4, "shape.a", "this host alone"),
            (DEVICES.to_owned(), 3, "shape.rate", "a to b"),
            (format!("{DEVICES}[shape.forward]\nrate = \"1Mbit\""), 3, "shape.rate", "b to a"),
            (format!("{DEVICES}rate = \"fast\""), 6, "shape.rate", "from 8kbit to 100Gbit"),
            (format!("{DEVICES}rate = \"1kbit\""), 6, "shape.rate", "from 8kbit to 100Gbit"),
            (with("discipline = \"fair\""), 7, "shape.discipline", "drr"),
            (with("discipline = \"drr:quantum=0\""), 7, "shape.discipline", "quantum"),
            (with("buffer = \"red:gentle=maybe\""), 7, "shape.buffer", "on or off"),
            (with("buffer = \"codel:target=200ms,interval=100ms\""), 7, "shape.buffer", "greater"),
            (with("queue = \"100\""), 7, "shape.queue", "no known unit"),
            (with("queue = \"1h\""), 7, "shape.queue", "to 10s"),
            (with("overhead = 2000"), 7, "shape.overhead", "0 to 1000"),
            (with("atm = 1"), 7, "shape.atm", "on or off"),
            (with("colour = \"red\""), 7, "", "`min_packet`"),
            (with("[shape.forward]\na = \"eth2\""), 8, "", "`rate`"),
            (with("[shape.backward]\nmin_packet = -1"), 8, "shape.backward.min_packet", "0 to 1000"),
        ];
        for (text, line, setting, advice) in rows {
            let error = parse(&format!("{HEAD}{text}")).expect_err(&text);
            assert_eq!((error.line, error.setting.as_str()), (line, setting), "{text}\n{error}");
            assert!(error.problem.contains(advice), "{text}\n{error}");
        }
        let beside = |text: &str| parse(&format!("{text}{DEVICES}rate = \"1Mbit\"\n")).expect_err(text).to_string();
        let error = beside("[interface]\nname = \"wan\"\naddress = [\"10.0.0.1/24\"]\n[shape]\n");
        assert!(error.contains("interface.address: has no meaning beside [shape]"), "{error}");
        let error = beside("[interface]\nname = \"wan\"\n[[peer]]\n[shape]\n");
        assert!(error.contains("give each its own file"), "{error}");
    }
}
