//! What control messages take of a node's links, and the settings by which they leave enough.
//!
//! Source: ours. The paper's links of 622 Mbit/s lose a thousandth to control messages of a millisecond; on links of a few
//! Mbit/s the same messages would be most of what passes. A link that loses more than a [`PART`]th is refused, with the
//! numbers that work.
//!
//! | symbol | meaning |
//! |---|---|
//! | f | the algorithm's messages: one each interval, or as often as the algorithm advertises |
//! | k | keepalives, where neighbours are watched |
//! | r | reports: one of each node in each refresh, without announcements |
//! | C | what the link carries |
//!
//! Each frame counts what the link adds to it, without a data frame's head. Fits: f + k + r <= C / [`PART`]. Cost: constant.

use super::{Config, HEAD};
use crate::quantity::{show_rate, show_span};
use crate::ring::algorithm::Algorithm;
use crate::ring::control::{HEAD_LEN, KEEPALIVE_LEN, REPORT_LEN};
use crate::ring::message::{self, Bits};
use crate::ring::rpr;
use crate::ring::{Side, discovery};
use crate::units::{Rate, Span};
use alloc::format;
use alloc::string::String;
use core::fmt;

/// Which part of a link control messages may take.
const PART: u64 = 4;
/// Longest interval between messages of a kind that settings allow.
const LONGEST: Span = Span::from_secs(1);

/// Control messages that take too much of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ControlLoad {
    /// Which link.
    pub side: Side,
    /// What they take.
    pub rate: Rate,
    /// What the link carries.
    pub capacity: Rate,
    /// The setting that is to be otherwise, with its value, and perhaps another one; empty: only a faster link helps.
    pub remedy: String,
    /// What a link carries that has enough room for them as they are.
    pub least: Rate,
}

impl fmt::Display for ControlLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rate, capacity, least) = (show_rate(self.rate), show_rate(self.capacity), show_rate(self.least));
        write!(f, "control messages take {rate} of a link that carries {capacity}, and a quarter is the most: ")?;
        match self.remedy.as_str() {
            "" => write!(f, "no interval helps; use links of {least} or more, or fewer nodes"),
            remedy => write!(f, "write {remedy}, or use links of {least} or more"),
        }
    }
}

/// Bits a second of each kind.
#[derive(Clone, Copy, Debug)]
struct Taken {
    fairness: u64,
    keepalives: u64,
    reports: u64,
}

impl Taken {
    fn sum(self) -> u64 {
        self.fairness.saturating_add(self.keepalives).saturating_add(self.reports)
    }
}

impl Config {
    /// The first link of which control messages take more than a quarter, if there is one. `keepalive`: whether the user may
    /// set how often neighbours are told of one's life.
    pub fn control_overload(&self, keepalive: bool) -> Option<ControlLoad> {
        Side::BOTH.into_iter().find_map(|side| {
            let (taken, capacity) = (self.taken(side), self.capacity[side.index()]);
            let budget = capacity.as_bits_per_sec() / PART;
            (taken.sum() > budget).then(|| ControlLoad {
                side,
                rate: Rate::from_bits_per_sec(taken.sum()),
                capacity,
                remedy: self.remedy(taken, budget, keepalive),
                least: Rate::from_bits_per_sec(round_up(taken.sum().saturating_mul(PART))),
            })
        })
    }

    fn taken(&self, side: Side) -> Taken {
        let overhead = self.overhead[side.index()].saturating_sub(HEAD);
        let each = |length: usize, span: Span| bits(length + overhead, span);
        let (keepalives, reports) = match &self.discovery {
            None => (0, 0),
            Some(discovery::Config { keepalive, refresh, .. }) => (
                keepalive.map_or(0, |span| each(KEEPALIVE_LEN, span)),
                refresh.map_or(0, |span| each(REPORT_LEN, span).saturating_mul(self.nodes as u64)),
            ),
        };
        let fairness = self.fairness().map_or(0, |(length, span)| each(length, span));
        Taken { fairness, keepalives, reports }
    }

    /// The length of the algorithm's control frames, and the time between them.
    fn fairness(&self) -> Option<(usize, Span)> {
        // What the frame says first, and of which ringlet it is.
        let frame = |message: usize| HEAD_LEN + 1 + message;
        match &self.algorithm {
            Algorithm::Dvsr(dvsr) => Some((frame(message::length(dvsr.bits, self.nodes)), self.interval)),
            Algorithm::Dba | Algorithm::Explicit => {
                Some((frame(message::length(Bits::Sixteen, self.nodes)), self.interval))
            }
            Algorithm::RprAm(rpr) | Algorithm::RprCm(rpr) => {
                Some((frame(rpr::MESSAGE), rpr.advertisement(self.nominal)))
            }
            Algorithm::Fifo => None,
        }
    }

    /// What to write so that all fits into `budget`; empty where nothing does.
    fn remedy(&self, taken: Taken, budget: u64, settable: bool) -> String {
        let Some(rest) = budget.checked_sub(taken.reports).filter(|rest| *rest > 0) else { return String::new() };
        // Keepalives stay as they are where they leave the algorithm half.
        let seldom = taken.keepalives > if settable { rest / 2 } else { rest };
        if seldom && !settable {
            return String::new();
        }
        let (keepalives, fairness) = match seldom {
            false => (taken.keepalives, rest - taken.keepalives),
            true if taken.fairness <= rest / 2 => (rest - taken.fairness, taken.fairness),
            true => (rest / 2, rest / 2),
        };
        let keepalive = self.discovery.as_ref().and_then(|discovery| discovery.keepalive).filter(|_| seldom);
        let keepalive = keepalive.map(|span| longer(span, taken.keepalives, keepalives));
        let message = self.fairness().filter(|_| taken.fairness > fairness);
        let message = message.map(|(_, span)| longer(span, taken.fairness, fairness));
        if [keepalive, message].into_iter().flatten().any(|span| span > LONGEST) {
            return String::new();
        }
        let message = message.map(|span| match &self.algorithm {
            Algorithm::RprAm(_) | Algorithm::RprCm(_) => {
                format!("the algorithm's advertisement_interval={} or longer", show_span(span))
            }
            _ => format!("interval = \"{}\" or longer", show_span(span)),
        });
        let keepalive = keepalive.map(|span| {
            let silence = show_span(span.times(3));
            format!("keepalive = \"{}\" or longer with a silence of {silence} or longer", show_span(span))
        });
        match (message, keepalive) {
            (Some(one), Some(other)) => format!("{one} and {other}"),
            (one, other) => one.or(other).unwrap_or_default(),
        }
    }
}

/// What frames of so many bytes take, one each `span`.
fn bits(bytes: usize, span: Span) -> u64 {
    let bits = bytes as u128 * 8 * 1_000_000_000;
    bits.div_ceil(u128::from(span.as_nanos().max(1))).try_into().unwrap_or(u64::MAX)
}

/// The span, in whole microseconds of two digits, in which what takes `now` each `span` takes no more than `most`.
fn longer(span: Span, now: u64, most: u64) -> Span {
    let micros = (u128::from(span.as_nanos()) * u128::from(now)).div_ceil(u128::from(most.max(1)) * 1000);
    Span::from_micros(round_up(micros.try_into().unwrap_or(u64::MAX)))
}

/// The least number of two digits, and zeros, that is no less.
fn round_up(number: u64) -> u64 {
    let mut unit = 1u64;
    while number / unit >= 100 {
        unit *= 10;
    }
    number.div_ceil(unit).saturating_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::NodeId;
    use alloc::string::ToString;

    fn config(algorithm: &str, mbit: u64, nodes: usize) -> Config {
        let mut config = Config::new(NodeId::at(0), nodes, Rate::from_mbit(mbit));
        config.algorithm = algorithm.parse().expect("an algorithm");
        config.discovery = Some(discovery::Config::new(NodeId::at(0), nodes, Rate::from_mbit(mbit)));
        config.overhead = [78; 2];
        config
    }

    /// Four nodes, DVSR with 16 bits: 8 + 1 + 8 + 8 = 25 bytes and 72, each 1 ms: 776 kbit/s; keepalives of 40 and 72, each
    /// 3 ms: 298,667 bit/s; reports of 56 and 72, four a second: 4,096 bit/s. Together 1,078,763 bit/s.
    #[test]
    fn what_control_messages_take_is_what_their_frames_are_long() {
        let taken = config("dvsr", 100, 4).taken(Side::East);
        assert_eq!((taken.fairness, taken.keepalives, taken.reports), (776_000, 298_667, 4_096));
        assert_eq!(config("fifo", 100, 4).taken(Side::East).fairness, 0);
        // 8 + 1 + 10 and 72, each 400 us.
        assert_eq!(config("rpr-am", 100, 4).taken(Side::West).fairness, 1_820_000);
    }

    #[test]
    fn a_link_that_would_lose_more_than_a_quarter_is_named_with_the_numbers_that_work() {
        assert_eq!(config("dvsr", 5, 4).control_overload(true), None);
        let load = config("dvsr", 4, 4).control_overload(true).expect("more than a megabit");
        assert_eq!((load.side, load.capacity), (Side::East, Rate::from_mbit(4)));
        let text = load.to_string();
        assert!(text.contains("interval = \"1200us\"") && text.contains("4.4 Mbit/s"), "{text}");
    }

    /// As above, the remedy on links of so many bits a second.
    #[track_caller]
    fn remedy(mut config: Config, capacity: u64, settable: bool) -> Option<String> {
        config.capacity = [Rate::from_bits_per_sec(capacity); 2];
        config.control_overload(settable).map(|load| load.remedy)
    }

    #[test]
    fn the_remedy_names_what_is_too_often_alone_and_leaves_each_half_where_it_is_both() {
        let dvsr = || config("dvsr", 100, 4);
        assert_eq!(remedy(dvsr(), 4 * 1_078_763, true), None, "just a quarter");
        assert_eq!(remedy(dvsr(), 4 * 1_078_763 - 4, true).as_deref(), Some("interval = \"1100us\" or longer"));
        // Beside reports there is twice what keepalives take, and a little less.
        let half = Some("interval = \"2600us\" or longer");
        assert_eq!(remedy(dvsr(), 4 * (2 * 298_667 + 4_096), true).as_deref(), half);
        let both =
            "interval = \"2600us\" or longer and keepalive = \"3100us\" or longer with a silence of 9300us or longer";
        assert_eq!(remedy(dvsr(), 4 * (2 * 298_665 + 4_096), true).as_deref(), Some(both));
        let mut seldom = dvsr();
        seldom.interval = Span::from_millis(100);
        let keepalive = Some("keepalive = \"3800us\" or longer with a silence of 11400us or longer");
        assert_eq!(remedy(seldom.clone(), 1_000_000, true).as_deref(), keepalive);
        assert_eq!(remedy(seldom, 1_000_000, false).as_deref(), Some(""), "keepalives are as they are");
        assert_eq!(remedy(dvsr(), 4_000_000, false).as_deref(), Some("interval = \"1200us\" or longer"));
    }

    #[test]
    fn no_remedy_is_an_interval_of_more_than_a_second() {
        let mut alone = config("dvsr", 100, 4);
        alone.discovery = None;
        assert_eq!(remedy(alone.clone(), 4 * 776, true).as_deref(), Some("interval = \"1s\" or longer"));
        assert_eq!(remedy(alone, 4 * 775, true).as_deref(), Some(""));
    }

    /// Whatever the ring: what is told to be written fits, and what is a hundredth shorter does not always.
    #[test]
    fn what_the_remedy_says_fits_and_so_does_the_rate() {
        let mut refused = 0;
        for algorithm in ["dvsr", "dvsr:bits=8", "rpr-am", "rpr-cm", "dba", "explicit", "fifo"] {
            for nodes in [2, 8, 40, 255] {
                for kbit in [100, 300, 1000, 2000, 3000, 5000, 10_000, 20_000] {
                    let mut config = config(algorithm, 1, nodes);
                    config.capacity = [Rate::from_bits_per_sec(kbit * 1000); 2];
                    let Some(load) = config.control_overload(true) else { continue };
                    refused += 1;
                    let mut faster = config.clone();
                    faster.capacity = [load.least; 2];
                    assert_eq!(faster.control_overload(true), None, "{algorithm}, {nodes} nodes, {kbit}: {load}");
                    follow(&mut config, &load.remedy);
                    assert!(load.remedy.is_empty() || config.control_overload(true).is_none(), "{kbit}: {load}");
                }
            }
        }
        assert!(refused > 60, "{refused}");
    }

    /// Does what a remedy says.
    fn follow(config: &mut Config, remedy: &str) {
        let span = |after: &str| {
            let text = remedy.split(after).nth(1)?.trim_start_matches('"');
            let end = text.find(['"', ' ']).unwrap_or(text.len());
            crate::quantity::parse_span(&text[..end]).ok()
        };
        if let Some(interval) = span("interval = ") {
            config.interval = interval;
        }
        if let Some(interval) = span("advertisement_interval=") {
            let text = format!("{}:advertisement_interval={}", config.algorithm, show_span(interval));
            config.algorithm = text.parse().expect("an algorithm");
        }
        if let (Some(keepalive), Some(discovery)) = (span("keepalive = "), &mut config.discovery) {
            discovery.keepalive = Some(keepalive);
        }
    }
}
