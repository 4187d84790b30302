//! The settings of a splitting gateway, each once.

use crate::buffer::{Limit, PfdConfig, PolicyConfig};
use crate::options::{Field, Kind, OptionError, Table, Value, Words, option, words};
use crate::quantity::{exact_rate, parse_rate};
use crate::queue::{ConfigError, DisciplineConfig};
use crate::units::{Bytes, Rate};
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;

/// What the gateway is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Fair queueing before TCP, first in first out behind it (Figure 4.3).
    #[default]
    TwoServer,
    /// One queue, first in, first out, which TCP packets pass twice (Figure 4.2).
    Vanilla,
    /// Nothing is split, and nothing is queued.
    Off,
}

words!(Mode { TwoServer = "two-server", Vanilla = "vanilla", Off = "off" });

/// How fast the fair-queueing subsystem serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Matching {
    /// `auto`: each connection at the rate that matches its right-hand one, found from that one's send buffer.
    #[default]
    Auto,
    /// `540 packets/s`: all packets together, acknowledgments too, whatever their size, as the paper has it.
    Packets(u32),
    /// `1.7Mbit`: all packets together, by their size.
    Bits(Rate),
    /// `unlimited`: as they come.
    Unlimited,
}

/// How fast packets go that are not split, where the rate of connections finds itself and no ceiling bounds all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Datagrams {
    /// As they come.
    #[default]
    Pass,
    /// Each flow at most as fast as the fastest connection that the link holds back.
    Follow,
}

words!(Datagrams { Pass = "pass", Follow = "follow" });

/// Most packets a second.
const MOST_PACKETS: u32 = 1_000_000_000;
/// Most bytes of all send buffers.
const MOST_BUFFER: u64 = 1 << 40;
/// Rates that a server may have.
const RATES: (Rate, Rate) = (Rate::from_bits_per_sec(1000), Rate::from_bits_per_sec(1_000_000_000_000));

impl FromStr for Matching {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Matching, OptionError> {
        let wrong = || OptionError::Value {
            option: "matching",
            value: text.into(),
            expected: String::from("auto, unlimited, a rate such as 1.7Mbit, or such as 540 packets/s"),
        };
        match text {
            "auto" => return Ok(Matching::Auto),
            "unlimited" => return Ok(Matching::Unlimited),
            _ => {}
        }
        if let Some(number) = text.strip_suffix("packets/s") {
            let number = number.trim().parse().ok().filter(|n| (1..=MOST_PACKETS).contains(n));
            return number.map(Matching::Packets).ok_or_else(wrong);
        }
        let rate = parse_rate(text).ok().filter(|rate| (RATES.0..=RATES.1).contains(rate));
        rate.map(Matching::Bits).ok_or_else(wrong)
    }
}

impl fmt::Display for Matching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Matching::Auto => f.write_str("auto"),
            Matching::Packets(number) => f.write_str(&format!("{number} packets/s")),
            Matching::Bits(rate) => f.write_str(&exact_rate(*rate)),
            Matching::Unlimited => f.write_str("unlimited"),
        }
    }
}

impl Field for Matching {
    fn value(&self) -> Value {
        Value::Text(self.to_string())
    }

    fn take(&mut self, value: Value) {
        if let Value::Text(text) = value
            && let Ok(matching) = text.parse()
        {
            *self = matching;
        }
    }
}

/// What a gateway does with packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// What it is. Default `two-server`.
    pub mode: Mode,
    /// How fast the fair-queueing subsystem serves. Default `auto`.
    pub matching: Matching,
    /// What it serves in all, at most, by the size of packets; `None`, the default: no bound. To be just below what the outgoing
    /// link carries where packets that are not split shall share it fairly.
    pub ceiling: Option<Rate>,
    /// How fast packets go that are not split, with `matching` `auto` and no ceiling. Default `pass`.
    pub datagrams: Datagrams,
    /// Which packet from outside goes next. Default `sfq` (4.4.5).
    pub discipline: DisciplineConfig,
    /// Which packets are let in, marked, dropped. Default `pfd` (4.4.5).
    pub buffer: PolicyConfig,
    /// Room of the fair-queueing subsystem. Default 1000 packets.
    pub queue: Limit,
    /// Whether the window offered on the left follows from the room on the right. Default yes.
    pub flow_control: bool,
    /// What a matched connection keeps unsent at least, where [`Gate::target`](super::matching::Gate::target) would be less. To be what
    /// TCP sends at once, where its buffer is looked at but now and then. Default 0.
    pub backlog: Bytes,
    /// Room of all right-hand send buffers together, shared by round trip, with flow control. Default 16 MB.
    pub send_buffer: Bytes,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            mode: Mode::default(),
            matching: Matching::default(),
            ceiling: None,
            datagrams: Datagrams::default(),
            discipline: DisciplineConfig::Sfq,
            buffer: PolicyConfig::Pfd(PfdConfig::PLAIN),
            queue: Limit::Packets(1000),
            flow_control: true,
            backlog: Bytes::ZERO,
            send_buffer: Bytes::new(16_000_000),
        }
    }
}

impl Config {
    /// The queue from outside, as it is with this mode.
    pub(super) fn queue_config(&self) -> crate::queue::Config {
        let mut queue = crate::queue::Config::default();
        queue.limit = self.queue;
        if self.mode == Mode::TwoServer {
            (queue.discipline, queue.buffer) = (self.discipline, self.buffer);
        }
        queue
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// Names the first setting that cannot work, and its range.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.queue_config().check()?;
        let range = |setting, value, least, most| {
            if (least..=most).contains(&value) {
                Ok(())
            } else {
                Err(ConfigError::Range { setting, value, least, most })
            }
        };
        let rates = (RATES.0.as_bits_per_sec(), RATES.1.as_bits_per_sec());
        if let Some(ceiling) = self.ceiling {
            range("ceiling", ceiling.as_bits_per_sec(), rates.0, rates.1)?;
        }
        match self.matching {
            Matching::Packets(number) => range("matching", number.into(), 1, MOST_PACKETS.into())?,
            Matching::Bits(rate) => range("matching", rate.as_bits_per_sec(), rates.0, rates.1)?,
            Matching::Auto | Matching::Unlimited => {}
        }
        range("send_buffer", self.send_buffer.as_u64(), 1, MOST_BUFFER)
    }
}

/// Every setting that is one value, with its name; `queue` is read with its units by whoever reads limits.
#[rustfmt::skip]
pub const OPTIONS: Table<Config> = Table(&[
    option!(mode: Kind::Choice(Mode::WORDS), "fair queueing before TCP, one queue for all, or no gateway at all", file "mode"),
    option!(matching: Kind::Text(|text| text.parse::<Matching>().map(drop)), "how fast packets from outside are served", file "matching"),
    option!(ceiling: Kind::Rate(RATES.0, RATES.1, Some("unlimited")), "what is served in all, at most", file "ceiling"),
    option!(datagrams: Kind::Choice(Datagrams::WORDS), "whether packets that are not split go as they come, or as fast as connections may", file "datagrams"),
    option!(discipline: Kind::Text(|text| text.parse::<DisciplineConfig>().map(drop)), "which packet from outside goes next", file "discipline"),
    option!(buffer: Kind::Text(|text| text.parse::<PolicyConfig>().map(drop)), "which packets are let in, marked, dropped", file "buffer"),
    option!(flow_control: Kind::Flag, "whether the window offered on one side follows from the room on the other", file "flow_control"),
    option!(send_buffer: Kind::Bytes(1, MOST_BUFFER, None), "room of all send buffers together, shared by round trip", file "send_buffer"),
]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matching_rate_reads_back_as_it_is_written() {
        for text in ["auto", "unlimited", "540 packets/s", "1700000bit"] {
            let matching: Matching = text.parse().unwrap();
            assert_eq!(matching.to_string().parse::<Matching>().unwrap(), matching, "{text}");
        }
        for text in ["", "0 packets/s", "540", "-1Mbit", "fast"] {
            let error = text.parse::<Matching>().unwrap_err().to_string();
            assert!(error.contains("540 packets/s"), "{error}");
        }
    }

    #[test]
    fn defaults_are_allowed_and_what_cannot_work_is_named() {
        let mut config = Config::default();
        config.check().unwrap();
        assert!(OPTIONS.out_of_range(&config).is_none());
        config.send_buffer = Bytes::ZERO;
        assert!(config.check().unwrap_err().to_string().contains("send_buffer"));
        config = Config { matching: Matching::Packets(0), ..Config::default() };
        assert!(config.check().unwrap_err().to_string().contains("matching"));
    }
}
