//! Fairness algorithms by their names, their settings, and the instances that they make.

use super::dba::Dba;
use super::dvsr::{self, Dvsr};
use super::explicit::Explicit;
use super::fairness::{Fairness, Refused, View};
use super::options::{OPTIONS, OptionSpec};
use super::rpr::{self, Rpr};
use super::{NodeId, Ringlet};
use crate::units::{Rate, Span, Time};
use alloc::boxed::Box;
use alloc::string::{String, ToString};
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
#[derive(Clone, Copy, Debug)]
pub struct AlgorithmSpec {
    /// As it is written.
    pub name: &'static str,
    /// What it does, for people.
    pub help: &'static str,
    default: fn() -> Algorithm,
}

impl AlgorithmSpec {
    /// The algorithm with its defaults.
    pub fn plain(&self) -> Algorithm {
        (self.default)()
    }
}

/// All algorithms.
#[rustfmt::skip]
pub const ALGORITHMS: &[AlgorithmSpec] = &[
    AlgorithmSpec { name: "dvsr", help: "distributed virtual-time scheduling: one message circles with a fair rate for each link",
        default: || Algorithm::Dvsr(dvsr::Config::default()) },
    AlgorithmSpec { name: "rpr-am", help: "IEEE 802.17, aggressive mode: a congested node advertises its own rate",
        default: || Algorithm::RprAm(rpr::Config::aggressive()) },
    AlgorithmSpec { name: "rpr-cm", help: "IEEE 802.17, conservative mode: a congested node divides its link among active nodes",
        default: || Algorithm::RprCm(rpr::Config::conservative()) },
    AlgorithmSpec { name: "dba", help: "distributed bandwidth allocation: a fair rate from the sum of arrivals, in constant time",
        default: || Algorithm::Dba },
    AlgorithmSpec { name: "explicit", help: "max-min with explicit rates, by the counts of the last interval",
        default: || Algorithm::Explicit },
    AlgorithmSpec { name: "fifo", help: "no control: a ring of Gigabit Ethernet",
        default: || Algorithm::Fifo },
];

/// Why a text is no algorithm, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AlgorithmError {
    /// No algorithm of that name.
    #[error("`{name}` is no fairness algorithm; known are {known}")]
    Unknown {
        /// What was given.
        name: String,
        /// All names.
        known: String,
    },
    /// An option that the algorithm does not have.
    #[error("{algorithm} has no option `{option}`; it has {known}")]
    Option {
        /// The algorithm.
        algorithm: &'static str,
        /// What was given.
        option: String,
        /// The algorithm's options.
        known: String,
    },
    /// Something that is not `OPTION=VALUE`.
    #[error("{algorithm} takes no `{text}`; write OPTION=VALUE, with {known}")]
    Bare {
        /// The algorithm.
        algorithm: &'static str,
        /// What was given.
        text: String,
        /// The algorithm's options.
        known: String,
    },
    /// A value that the option does not take.
    #[error("{option} is `{value}`; {expected}")]
    Value {
        /// The option.
        option: &'static str,
        /// What was given.
        value: String,
        /// What would be right.
        expected: String,
    },
    /// An option given twice.
    #[error("{option} is given twice; keep one")]
    Twice {
        /// The option.
        option: &'static str,
    },
}

impl Algorithm {
    /// Its entry in the table.
    pub fn spec(&self) -> &'static AlgorithmSpec {
        let same = |spec: &&AlgorithmSpec| core::mem::discriminant(&spec.plain()) == core::mem::discriminant(self);
        ALGORITHMS.iter().find(same).unwrap_or(&ALGORITHMS[0])
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.spec().name
    }

    /// The options that it has.
    pub fn options(&self) -> impl Iterator<Item = &'static OptionSpec> {
        OPTIONS.iter().filter(|option| option.applies(self))
    }

    pub(super) fn known(&self) -> String {
        match self.options().map(|option| option.name).collect::<Vec<_>>() {
            names if names.is_empty() => "none".into(),
            names => names.join(", "),
        }
    }
}

impl FromStr for Algorithm {
    type Err = AlgorithmError;

    fn from_str(text: &str) -> Result<Algorithm, AlgorithmError> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let name = name.trim();
        let spec = ALGORITHMS.iter().find(|spec| spec.name.eq_ignore_ascii_case(name));
        let mut algorithm = spec.map(AlgorithmSpec::plain).ok_or_else(|| AlgorithmError::Unknown {
            name: name.into(),
            known: ALGORITHMS.iter().map(|spec| spec.name).collect::<Vec<_>>().join(", "),
        })?;
        let mut given: Vec<&'static str> = Vec::new();
        for part in rest.split(',').map(str::trim).filter(|_| !rest.trim().is_empty()) {
            let (algorithm_name, known) = (algorithm.name(), algorithm.known());
            let Some((option, value)) = part.split_once('=') else {
                return Err(AlgorithmError::Bare { algorithm: algorithm_name, text: part.into(), known });
            };
            let (option, value) = (option.trim(), value.trim());
            let Some(found) = algorithm.options().find(|spec| spec.name == option) else {
                return Err(AlgorithmError::Option { algorithm: algorithm_name, option: option.to_string(), known });
            };
            if given.contains(&found.name) {
                return Err(AlgorithmError::Twice { option: found.name });
            }
            given.push(found.name);
            found.set(&mut algorithm, value)?;
        }
        Ok(algorithm)
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spec = self.spec();
        f.write_str(spec.name)?;
        let plain = spec.plain();
        let mut before = ':';
        for option in self.options().filter(|option| option.show(self) != option.show(&plain)) {
            write!(f, "{before}{}={}", option.name, option.show(self).unwrap_or_default())?;
            before = ',';
        }
        Ok(())
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
            ("dvsr:8", "dvsr takes no `8`; write OPTION=VALUE, with bits, suballocation, window, spare"),
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
    fn every_option_belongs_to_an_algorithm_and_takes_its_default_again() {
        for option in OPTIONS {
            let mut owners = ALGORITHMS.iter().map(AlgorithmSpec::plain).filter(|plain| option.applies(plain));
            let mut owner = owners.next().unwrap_or_else(|| panic!("{} belongs to nothing", option.name));
            let plain = owner.clone();
            option
                .set(
                    &mut owner,
                    &plain.clone().options().find(|o| o.name == option.name).unwrap().show(&plain).unwrap(),
                )
                .unwrap();
            assert_eq!(owner, plain);
        }
    }
}
