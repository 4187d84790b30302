//! The one table of the fairness algorithms' options: configuration, command line, checks and help all read it.

use super::algorithm::{Algorithm, AlgorithmError};
use super::dvsr::{Bits, Suballocation};
use super::rpr::{LEAST_INTERVAL, LONGEST_INTERVAL, Queue};
use crate::quantity;
use crate::units::Span;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

/// A share of one, in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(u32);

impl Share {
    /// All.
    pub const ONE: Share = Share(1_000_000);

    /// `n` millionths.
    pub const fn from_millionths(n: u32) -> Share {
        Share(n)
    }

    /// In millionths.
    pub const fn millionths(self) -> u32 {
        self.0
    }

    /// As a number.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / 1e6
    }

    /// From a decimal number of at most six places.
    fn parse(text: &str) -> Option<Share> {
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        if part.len() > 6 || !part.bytes().all(|byte| byte.is_ascii_digit()) || whole.starts_with('+') {
            return None;
        }
        let part: u32 = format!("{part:0<6}").parse().ok()?;
        whole.parse::<u32>().ok()?.checked_mul(1_000_000)?.checked_add(part).map(Share)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / 1_000_000, self.0 % 1_000_000);
        let digits = format!("{part:06}");
        match digits.trim_end_matches('0') {
            "" => write!(f, "{whole}"),
            digits => write!(f, "{whole}.{digits}"),
        }
    }
}

/// What values an option takes.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A whole number from the first to the second.
    Count(u32, u32),
    /// A share from the first to the second.
    Share(Share, Share),
    /// A length of time from the first to the second, at most 4 s, or the word.
    Span(Span, Span, Option<&'static str>),
    /// `on` or `off`.
    Flag,
    /// One of these words.
    Choice(&'static [&'static str]),
}

/// One option.
#[derive(Clone, Copy)]
pub struct OptionSpec {
    /// As it is written.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// What it does, for people. The default is in the algorithm's settings.
    pub help: &'static str,
    field: fn(&mut Algorithm) -> Option<&mut dyn Field>,
}

impl fmt::Debug for OptionSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "option {}", self.name)
    }
}

/// A setting that an option reads and writes, as a number: a count, millionths, nanoseconds (0: the word), or the place of
/// a word.
trait Field {
    fn value(&self) -> u32;
    /// Takes a value that the option's kind allows.
    fn take(&mut self, value: u32);
}

impl Field for u32 {
    fn value(&self) -> u32 {
        *self
    }

    fn take(&mut self, value: u32) {
        *self = value;
    }
}

impl Field for Share {
    fn value(&self) -> u32 {
        self.0
    }

    fn take(&mut self, value: u32) {
        self.0 = value;
    }
}

impl Field for bool {
    fn value(&self) -> u32 {
        u32::from(*self)
    }

    fn take(&mut self, value: u32) {
        *self = value != 0;
    }
}

impl Field for Span {
    fn value(&self) -> u32 {
        u32::try_from(self.as_nanos()).unwrap_or(u32::MAX)
    }

    fn take(&mut self, value: u32) {
        *self = Span::from_nanos(value.into());
    }
}

impl Field for Option<Span> {
    fn value(&self) -> u32 {
        self.map_or(0, |span| span.value())
    }

    fn take(&mut self, value: u32) {
        *self = (value != 0).then(|| Span::from_nanos(value.into()));
    }
}

macro_rules! choice {
    ($type:ty, $($member:path),+) => {
        impl Field for $type {
            fn value(&self) -> u32 {
                [$($member),+].iter().position(|member| member == self).unwrap_or(0) as u32
            }

            fn take(&mut self, value: u32) {
                if let Some(member) = [$($member),+].get(value as usize) {
                    *self = *member;
                }
            }
        }
    };
}

choice!(Bits, Bits::Eight, Bits::Sixteen);
choice!(Suballocation, Suballocation::MaxMin, Suballocation::Equal);
choice!(Queue, Queue::Single, Queue::Dual);

macro_rules! option {
    ($name:literal, $kind:expr, $help:literal, $($pattern:pat => $field:expr),+) => {
        OptionSpec {
            name: $name,
            kind: $kind,
            help: $help,
            field: |algorithm| match algorithm {
                $($pattern => Some(&mut $field),)+
                _ => None,
            },
        }
    };
}

const fn share(millionths: u32) -> Share {
    Share::from_millionths(millionths)
}

/// All options.
#[rustfmt::skip]
pub const OPTIONS: &[OptionSpec] = &[
    option!("bits", Kind::Choice(&["8", "16"]), "size of a fair rate in control messages",
        Algorithm::Dvsr(c) => c.bits),
    option!("suballocation", Kind::Choice(&["max-min", "equal"]), "how a node shares its rate on a link among its flows to several nodes: what each can use, or equal parts whether used or not",
        Algorithm::Dvsr(c) => c.suballocation),
    option!("window", Kind::Count(1, 1024), "most intervals over which a steady rate is measured; 1: the last interval alone",
        Algorithm::Dvsr(c) => c.window),
    option!("spare", Kind::Share(share(0), share(100_000)), "share of a link that is not given away, so that queues drain",
        Algorithm::Dvsr(c) => c.spare),
    option!("queue", Kind::Choice(&["single", "dual"]), "transit queues: one, which goes before the station; or two, the second in turn with the station",
        Algorithm::RprAm(c) | Algorithm::RprCm(c) => c.queue),
    option!("destination_queues", Kind::Flag, "a limiter for each egress (802.17 leaves it to the station); off: one for all",
        Algorithm::RprAm(c) | Algorithm::RprCm(c) => c.destination_queues),
    option!("lp_coef", Kind::Count(1, 512), "rates are low-pass filtered with 1/lp_coef for the last interval (802.17, 10.2.2); 1: not filtered",
        Algorithm::RprAm(c) | Algorithm::RprCm(c) => c.lp_coef),
    option!("age_coef", Kind::Count(1, 16), "byte counts keep 1 - 1/age_coef from interval to interval (802.17, 10.2.2); 1: nothing",
        Algorithm::RprAm(c) | Algorithm::RprCm(c) => c.age_coef),
    option!("ramp_up_coef", Kind::Count(2, 512), "each interval a rate that may grow makes up 1/ramp_up_coef of what it lacks of the capacity (802.17, 10.2.2)",
        Algorithm::RprAm(c) | Algorithm::RprCm(c) => c.ramp_up_coef),
    option!("ramp_down_coef", Kind::Count(2, 512), "each interval beyond high_threshold the fair rate loses 1/ramp_down_coef (802.17, rampDnCoef)",
        Algorithm::RprCm(c) => c.ramp_down_coef),
    option!("aging_interval", Kind::Span(LEAST_INTERVAL, LONGEST_INTERVAL, Some("auto")), "time between computations; auto: 100 us from 622 Mbit/s on, else 400 us (802.17, agingInterval)",
        Algorithm::RprAm(c) | Algorithm::RprCm(c) => c.aging_interval),
    option!("advertisement_interval", Kind::Span(LEAST_INTERVAL, LONGEST_INTERVAL, Some("auto")), "time between control messages; auto: the aging interval",
        Algorithm::RprAm(c) | Algorithm::RprCm(c) => c.advertisement_interval),
    option!("queue_threshold", Kind::Share(share(0), Share::ONE), "a node is congested while more than this share of its transit queue is full (802.17, 10.2.2 stqLowThreshold)",
        Algorithm::RprAm(c) => c.queue_threshold),
    option!("low_threshold", Kind::Share(share(0), Share::ONE), "a node is congested while its link carries more than this share (the paper's; 802.17 has 0.855)",
        Algorithm::RprCm(c) => c.low_threshold),
    option!("high_threshold", Kind::Share(share(0), Share::ONE), "the fair rate of a congested node shrinks while its link carries more than this share (802.17, 10.2.2 rateHighThreshold)",
        Algorithm::RprCm(c) => c.high_threshold),
    option!("round_trip", Kind::Span(LEAST_INTERVAL, LONGEST_INTERVAL, Some("auto")), "least time between two changes of a congested node's fair rate (802.17, FRTT); auto: an advertisement interval for each node",
        Algorithm::RprCm(c) => c.round_trip),
    option!("access_timer", Kind::Span(LEAST_INTERVAL, LONGEST_INTERVAL, None), "a node is congested when transit has kept its station from sending for so long",
        Algorithm::RprAm(c) | Algorithm::RprCm(c) => c.access_timer),
    option!("active_window", Kind::Count(1, 512), "aging intervals for which a node counts as active after a packet of it",
        Algorithm::RprAm(c) | Algorithm::RprCm(c) => c.active_window),
];

impl OptionSpec {
    /// Whether `algorithm` has it.
    pub fn applies(&self, algorithm: &Algorithm) -> bool {
        (self.field)(&mut algorithm.clone()).is_some()
    }

    /// Its value in `algorithm` as it is written; `None`: the algorithm does not have it.
    pub fn show(&self, algorithm: &Algorithm) -> Option<String> {
        let value = (self.field)(&mut algorithm.clone())?.value();
        Some(match self.kind {
            Kind::Count(..) => value.to_string(),
            Kind::Share(..) => Share(value).to_string(),
            Kind::Span(.., Some(word)) if value == 0 => word.into(),
            Kind::Span(..) => quantity::show_span(Span::from_nanos(value.into())),
            Kind::Flag => (if value == 0 { "off" } else { "on" }).into(),
            Kind::Choice(words) => (*words.get(value as usize).unwrap_or(&"")).into(),
        })
    }

    /// Sets it in `algorithm`.
    ///
    /// # Errors
    /// The algorithm does not have it, or not with that value.
    pub fn set(&self, algorithm: &mut Algorithm, text: &str) -> Result<(), AlgorithmError> {
        let wrong = || AlgorithmError::Value { option: self.name, value: text.into(), expected: self.expected() };
        let value = match self.kind {
            Kind::Count(least, most) => text.parse().ok().filter(|n| (least..=most).contains(n)),
            Kind::Share(least, most) => {
                Share::parse(text).filter(|share| (least..=most).contains(share)).map(Share::millionths)
            }
            Kind::Span(.., Some(word)) if text == word => Some(0),
            Kind::Span(least, most, _) => {
                quantity::parse_span(text).ok().filter(|span| (least..=most).contains(span)).map(|span| span.value())
            }
            Kind::Flag => ["off", "on"].iter().position(|word| *word == text).map(|n| n as u32),
            Kind::Choice(words) => words.iter().position(|word| *word == text).map(|n| n as u32),
        };
        let known = algorithm.known();
        let name = algorithm.name();
        let Some(field) = (self.field)(algorithm) else {
            return Err(AlgorithmError::Option { algorithm: name, option: self.name.into(), known });
        };
        field.take(value.ok_or_else(wrong)?);
        Ok(())
    }

    /// What it takes, for people.
    pub fn expected(&self) -> String {
        match self.kind {
            Kind::Count(least, most) => format!("write a number from {least} to {most}"),
            Kind::Share(least, most) => format!("write a share from {least} to {most}, such as {least}"),
            Kind::Span(least, most, word) => {
                let word = word.map(|word| format!(", or {word}")).unwrap_or_default();
                format!("write a time from {} to {}{word}", quantity::show_span(least), quantity::show_span(most))
            }
            Kind::Flag => "write on or off".into(),
            Kind::Choice(words) => format!("write one of {}", words.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_decimal_numbers_of_six_places() {
        for (text, millionths) in [("0", 0), ("1", 1_000_000), ("0.0003", 300), ("0.95", 950_000), ("0.000001", 1)] {
            let share = Share::parse(text).unwrap();
            assert_eq!((share.millionths(), share.to_string()), (millionths, text.to_string()));
        }
        for text in ["", ".", "-1", "+1", "0.0000001", "1e-3", "0.+1", "99999", "nan"] {
            assert_eq!(Share::parse(text), None, "{text}");
        }
    }
}
