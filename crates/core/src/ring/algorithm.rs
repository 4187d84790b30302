//! Fairness algorithms by their names, their settings, and the instances that they make.

use super::dba::Dba;
use super::dvsr::{self, Dvsr};
use super::explicit::Explicit;
use super::fairness::{Fairness, Refused, View};
use super::rpr::{self, Rpr};
use super::{NodeId, Ringlet};
use crate::options::{self, Dialect, Family, Field, Fields, Member, OptionError};
use crate::units::{Rate, Span, Time};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

/// How a ring shares its links, with the options of that way.
///
/// As text: `NAME` or `NAME:OPTION=VALUE,…`, such as `dvsr:bits=8,suballocation=equal`. Shown in the same form, with what
/// is not the default.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Algorithm {
    /// `dvsr`: distributed virtual-time scheduling in rings.
    Dvsr(dvsr::Config),
    /// `rpr-am`: IEEE 802.17, aggressive mode.
    RprAm(rpr::Config),
    /// `rpr-cm`: IEEE 802.17, conservative mode.
    RprCm(rpr::Config),
    /// `dba`: distributed bandwidth allocation.
    Dba,
    /// `explicit`: max-min with explicit rates.
    Explicit,
    /// `fifo`: no control, as a ring of Gigabit Ethernet.
    Fifo,
}

impl Default for Algorithm {
    fn default() -> Algorithm {
        Algorithm::Dvsr(dvsr::Config::default())
    }
}

/// An algorithm of the table: its name and what it is.
pub type AlgorithmSpec = Member<Algorithm>;

/// All algorithms.
pub const ALGORITHMS: &[AlgorithmSpec] = &[
    member(
        "dvsr",
        "distributed virtual-time scheduling: one message circles with a fair rate for each link",
        Algorithm::default,
    ),
    member("rpr-am", "IEEE 802.17, aggressive mode: a congested node advertises its own rate", || {
        Algorithm::RprAm(rpr::Config::aggressive())
    }),
    member("rpr-cm", "IEEE 802.17, conservative mode: a congested node divides its link among active nodes", || {
        Algorithm::RprCm(rpr::Config::conservative())
    }),
    member("dba", "distributed bandwidth allocation: a fair rate from the sum of arrivals, in constant time", || {
        Algorithm::Dba
    }),
    member("explicit", "max-min with explicit rates, by the counts of the last interval", || Algorithm::Explicit),
    member("fifo", "no control: a ring of Gigabit Ethernet", || Algorithm::Fifo),
];

const fn member(name: &'static str, help: &'static str, plain: fn() -> Algorithm) -> AlgorithmSpec {
    Member { name, mode: None, main: None, help, plain }
}

impl Family for Algorithm {
    const WHAT: &'static str = "fairness algorithm";
    const DIALECT: Dialect = Dialect::Plain;
    const MEMBERS: &'static [AlgorithmSpec] = ALGORITHMS;

    fn same(&self, other: &Algorithm) -> bool {
        core::mem::discriminant(self) == core::mem::discriminant(other)
    }

    fn fields(&self) -> Fields<'_> {
        match self {
            Algorithm::Dvsr(config) => dvsr::OPTIONS.fields(config),
            Algorithm::RprAm(config) => rpr::AGGRESSIVE_OPTIONS.fields(config),
            Algorithm::RprCm(config) => rpr::CONSERVATIVE_OPTIONS.fields(config),
            Algorithm::Dba | Algorithm::Explicit | Algorithm::Fifo => Vec::new(),
        }
    }

    fn field_mut(&mut self, option: &str) -> Option<&mut dyn Field> {
        match self {
            Algorithm::Dvsr(config) => dvsr::OPTIONS.field_mut(config, option),
            Algorithm::RprAm(config) => rpr::AGGRESSIVE_OPTIONS.field_mut(config, option),
            Algorithm::RprCm(config) => rpr::CONSERVATIVE_OPTIONS.field_mut(config, option),
            Algorithm::Dba | Algorithm::Explicit | Algorithm::Fifo => None,
        }
    }
}

impl FromStr for Algorithm {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Algorithm, OptionError> {
        options::parse(text)
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        options::write(self, f)
    }
}

/// An algorithm at work, for one ringlet at one node.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Agent {
    /// Distributed virtual-time scheduling.
    Dvsr(Box<Dvsr>),
    /// IEEE 802.17, either mode.
    Rpr(Rpr),
    /// Distributed bandwidth allocation.
    Dba(Dba),
    /// Max-min with explicit rates.
    Explicit(Explicit),
    /// No control.
    Fifo,
}

impl Agent {
    /// The instance of `algorithm` for the data of `ringlet` at `node` of a ring of `nodes` nodes, with control messages
    /// every `interval` (algorithms whose standard fixes another one take that).
    pub fn new(
        algorithm: &Algorithm,
        node: NodeId,
        ringlet: Ringlet,
        nodes: usize,
        interval: Span,
        now: Time,
    ) -> Agent {
        match algorithm {
            Algorithm::Dvsr(config) => Agent::Dvsr(Box::new(Dvsr::new(config, node, ringlet, nodes, interval, now))),
            Algorithm::RprAm(config) => {
                Agent::Rpr(Rpr::new(rpr::Mode::Aggressive, config, node, ringlet, nodes, interval, now))
            }
            Algorithm::RprCm(config) => {
                Agent::Rpr(Rpr::new(rpr::Mode::Conservative, config, node, ringlet, nodes, interval, now))
            }
            Algorithm::Dba => Agent::Dba(Dba::new(node, ringlet, nodes, interval, now)),
            Algorithm::Explicit => Agent::Explicit(Explicit::new(node, ringlet, nodes, interval, now)),
            Algorithm::Fifo => Agent::Fifo,
        }
    }
}

macro_rules! each {
    ($agent:expr, $inner:ident => $call:expr, $fifo:expr) => {
        match $agent {
            Agent::Dvsr($inner) => $call,
            Agent::Rpr($inner) => $call,
            Agent::Dba($inner) => $call,
            Agent::Explicit($inner) => $call,
            Agent::Fifo => $fifo,
        }
    };
}

impl Fairness for Agent {
    #[inline]
    fn on_arrival(&mut self, now: Time, ingress: NodeId, bytes: u32) {
        each!(self, agent => agent.on_arrival(now, ingress, bytes), ());
    }

    #[inline]
    fn on_sent(&mut self, now: Time, ingress: NodeId, egress: NodeId, bytes: u32) {
        each!(self, agent => agent.on_sent(now, ingress, egress, bytes), ());
    }

    fn handle_control(&mut self, now: Time, view: &View<'_>, message: &[u8]) -> Result<(), Refused> {
        each!(self, agent => agent.handle_control(now, view, message), Err(Refused::Malformed))
    }

    fn handle_timeout(&mut self, now: Time, view: &View<'_>) {
        each!(self, agent => agent.handle_timeout(now, view), ());
    }

    fn handle_change(&mut self, now: Time, view: &View<'_>) {
        each!(self, agent => agent.handle_change(now, view), ());
    }

    fn poll_timeout(&self) -> Option<Time> {
        each!(self, agent => agent.poll_timeout(), None)
    }

    fn poll_control(&mut self) -> Option<&[u8]> {
        each!(self, agent => agent.poll_control(), None)
    }

    fn limit(&self, egress: NodeId) -> Option<Rate> {
        each!(self, agent => agent.limit(egress), None)
    }

    fn fair(&self, node: NodeId) -> Option<f64> {
        each!(self, agent => agent.fair(node), None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn algorithms_are_read_as_they_are_shown() {
        for text in [
            "dvsr",
            "dvsr:bits=8",
            "dvsr:bits=8,suballocation=equal,window=1,spare=0",
            "dvsr:spare=0.0005",
            "rpr-am",
            "rpr-am:queue=single",
            "rpr-cm",
            "rpr-cm:queue=dual",
            "rpr-am:destination_queues=off,lp_coef=1,age_coef=1,aging_interval=200us,queue_threshold=0.25",
            "rpr-cm:ramp_down_coef=512,low_threshold=0.855,round_trip=1500us,access_timer=2ms,active_window=2",
            "dba",
            "explicit",
            "fifo",
        ] {
            let algorithm: Algorithm = text.parse().unwrap();
            assert_eq!(algorithm.to_string(), text);
        }
        assert_eq!("dvsr:bits=16".parse(), Ok(Algorithm::default()));
        assert_eq!(" DVSR : bits = 8 ".parse::<Algorithm>().unwrap().to_string(), "dvsr:bits=8");
    }

    #[test]
    fn what_is_wrong_in_a_text_is_named_with_what_would_be_right() {
        for (text, message) in [
            ("drr", "`drr` is no fairness algorithm; known are dvsr, rpr-am, rpr-cm, dba, explicit, fifo"),
            ("dvsr:bits=9", "bits is `9`; write one of 8, 16"),
            ("dvsr:bits=8,bits=8", "bits is given twice; keep one"),
            (
                "dvsr:8",
                "dvsr takes no value `8`; write OPTION=VALUE, with one of bits, suballocation, window, spare, start",
            ),
            ("fifo:bits=8", "fifo has no option `bits`; it has none"),
            ("dvsr:window=0", "window is `0`; write a number from 1 to 1024"),
            ("dvsr:spare=0.5", "spare is `0.5`; write a share from 0 to 0.1, such as 0"),
            ("dvsr:", ""),
        ] {
            match text.parse::<Algorithm>() {
                Ok(algorithm) => assert_eq!((message, algorithm), ("", Algorithm::default()), "{text}"),
                Err(error) => assert_eq!(error.to_string(), message, "{text}"),
            }
        }
    }

    #[test]
    fn every_option_takes_its_default_again() {
        for member in ALGORITHMS {
            for (option, default) in member.options() {
                let mut algorithm = member.plain();
                algorithm.set(option.name, &default).unwrap();
                assert_eq!(algorithm, member.plain(), "{}", option.name);
            }
        }
    }
}
