//! Buffer policies: which packets are let in, marked, refused or evicted.
//!
//! A policy ([`Policy`]) sees each packet when it comes and when it is about to go, with what waits besides
//! ([`Backlog`], [`Leaving`]), and answers with a [`Verdict`]. It never holds packets and knows nothing of their order:
//! that is a [discipline's](crate::queue::Discipline), and any policy works with any discipline.
//!
//! | policy | file | refuses | evicts | marks |
//! |---|---|---|---|---|
//! | drop-tail | `tail.rs` | what comes to a full buffer | | |
//! | drop-front | `front.rs` | | the oldest packet | |
//! | longest queue | `longest.rs` | | the newest packet of the longest queue | |
//! | CoDel | `codel.rs` | what comes to a full buffer | | packets of a queue that stands; drops those that cannot be |
//!
//! Another policy is its own file and its lines in this one, and is then a setting of bonds, stations of rings, links of the
//! emulator and links of the simulator.

mod codel;
mod front;
mod longest;
mod policy;
mod tail;

pub use codel::CoDel;
pub use front::DropFront;
pub use longest::LongestQueue;
pub use policy::{Backlog, Bounds, ConfigError, Leaving, Limit, Policy, Reason, Room, Verdict, Victim};
pub use tail::DropTail;

use crate::options::{self, Dialect, Family, Field, Fields, Kind, Member, OptionError, OptionSpec, Value};
use crate::units::{FlowNumber, Span, Time};
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

/// Which policy, with its settings. As text: its name, then options, such as `codel:target=5ms,interval=100ms`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PolicyConfig {
    /// `drop-tail`: what arrives at a full buffer is dropped.
    #[default]
    DropTail,
    /// `drop-front`: the oldest packet of a full buffer is dropped.
    DropFront,
    /// `longest-queue`: the newest packet of the longest queue of a full buffer is dropped.
    LongestQueue,
    /// `codel` (RFC 8289): marks or drops when packets waited longer than `target` for a whole `interval`.
    CoDel {
        /// Wait that is always fine. As text by default 5 ms.
        target: Span,
        /// How long it may last: a round trip. As text by default 100 ms.
        interval: Span,
    },
}

impl PolicyConfig {
    /// Checks the settings.
    ///
    /// # Errors
    /// Names the first setting that cannot work, and what would.
    pub fn check(&self) -> Result<(), ConfigError> {
        match *self {
            PolicyConfig::CoDel { target, interval } => CoDel::check(target, interval),
            _ => Ok(()),
        }
    }

    /// Whether only packets that do not fit are its business: all that fit may pass, and all that go. A queue need not ask it
    /// of any other.
    pub(crate) fn is_passive(&self) -> bool {
        match self {
            PolicyConfig::DropTail | PolicyConfig::DropFront | PolicyConfig::LongestQueue => true,
            PolicyConfig::CoDel { .. } => false,
        }
    }

    /// Whether packets that wait may have to go for one that arrives.
    pub fn evicts(&self) -> bool {
        self.victim().is_some()
    }

    /// Which packets it evicts: a discipline keeps an order of them only where it must.
    pub(crate) fn victim(&self) -> Option<Victim> {
        match self {
            PolicyConfig::DropFront => Some(Victim::Oldest),
            PolicyConfig::LongestQueue => Some(Victim::Longest),
            PolicyConfig::DropTail | PolicyConfig::CoDel { .. } => None,
        }
    }
}

static TARGET: OptionSpec = OptionSpec::new("target", TIME, "wait that is always fine");
static INTERVAL: OptionSpec = OptionSpec::new("interval", TIME, "how long it may last: a round trip");
const TIME: Kind = Kind::Span(Span::from_micros(1), Span::from_secs(60), None);

const fn member(name: &'static str, help: &'static str, plain: fn() -> PolicyConfig) -> Member<PolicyConfig> {
    Member { name, mode: None, main: None, help, plain }
}

impl Family for PolicyConfig {
    const WHAT: &'static str = "buffer policy";
    const DIALECT: Dialect = Dialect::Plain;
    const MEMBERS: &'static [Member<PolicyConfig>] = &[
        member("drop-tail", "drops what comes to a full queue", || PolicyConfig::DropTail),
        member("drop-front", "drops the packet that waits longest when the queue is full", || PolicyConfig::DropFront),
        member("longest-queue", "drops the newest packet of the longest queue when the queue is full", || {
            PolicyConfig::LongestQueue
        }),
        member(
            "codel",
            "as drop-tail; besides, when packets have waited for longer than target for a whole interval, it marks one, and \
             then others more and more often; a packet without ECN is dropped instead",
            || PolicyConfig::CoDel { target: Span::from_millis(5), interval: Span::from_millis(100) },
        ),
    ];

    fn same(&self, other: &PolicyConfig) -> bool {
        core::mem::discriminant(self) == core::mem::discriminant(other)
    }

    fn fields(&self) -> Fields<'_> {
        match self {
            PolicyConfig::CoDel { target, interval } => vec![(&TARGET, target as &dyn Field), (&INTERVAL, interval)],
            _ => Vec::new(),
        }
    }

    fn field_mut(&mut self, option: &str) -> Option<&mut dyn Field> {
        match (self, option) {
            (PolicyConfig::CoDel { target, .. }, "target") => Some(target),
            (PolicyConfig::CoDel { interval, .. }, "interval") => Some(interval),
            _ => None,
        }
    }

    fn check(&self) -> Result<(), OptionError> {
        let conflict = |error: ConfigError| OptionError::Conflict {
            setting: self.name().into(),
            with: "these options".into(),
            instead: error.to_string(),
        };
        PolicyConfig::check(self).map_err(conflict)
    }
}

impl Field for PolicyConfig {
    fn value(&self) -> Value {
        Value::Text(self.to_string())
    }

    fn take(&mut self, value: Value) {
        if let Value::Text(text) = value
            && let Ok(config) = text.parse()
        {
            *self = config;
        }
    }
}

impl FromStr for PolicyConfig {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<PolicyConfig, OptionError> {
        options::parse(text)
    }
}

impl fmt::Display for PolicyConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        options::write(self, f)
    }
}

/// A policy chosen by [`PolicyConfig`].
#[derive(Clone, Debug)]
pub enum AnyPolicy {
    /// [`DropTail`].
    DropTail(DropTail),
    /// [`DropFront`].
    DropFront(DropFront),
    /// [`LongestQueue`].
    LongestQueue(LongestQueue),
    /// [`CoDel`].
    CoDel(CoDel),
}

impl From<PolicyConfig> for AnyPolicy {
    fn from(config: PolicyConfig) -> AnyPolicy {
        match config {
            PolicyConfig::DropTail => AnyPolicy::DropTail(DropTail),
            PolicyConfig::DropFront => AnyPolicy::DropFront(DropFront),
            PolicyConfig::LongestQueue => AnyPolicy::LongestQueue(LongestQueue),
            PolicyConfig::CoDel { target, interval } => AnyPolicy::CoDel(CoDel::new(target, interval)),
        }
    }
}

macro_rules! each {
    ($self:ident, $policy:ident => $call:expr) => {
        match $self {
            AnyPolicy::DropTail($policy) => $call,
            AnyPolicy::DropFront($policy) => $call,
            AnyPolicy::LongestQueue($policy) => $call,
            AnyPolicy::CoDel($policy) => $call,
        }
    };
}

impl<P> Policy<P> for AnyPolicy {
    #[inline]
    fn admit(&mut self, now: Time, flow: FlowNumber, packet: &P, backlog: &Backlog) -> Verdict {
        each!(self, policy => policy.admit(now, flow, packet, backlog))
    }

    #[inline]
    fn release(&mut self, now: Time, flow: FlowNumber, packet: &P, leaving: &Leaving) -> Verdict {
        each!(self, policy => policy.release(now, flow, packet, leaving))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_passive_policy_lets_all_pass_that_fits_and_all_that_goes() {
        let bounds = Limit::Packets(10).into();
        let backlog = Backlog { packets: 9, bytes: 13_500, memory: 0, bounds, size: 1500, cost: 0, by_flow: true };
        let leaving = Leaving { waited: Span::from_secs(1), queue: 0, key: 0, behind: 13_500 };
        for member in PolicyConfig::MEMBERS {
            let config = (member.plain)();
            let mut policy = AnyPolicy::from(config);
            let passes = (0..1000).map(Time::from_millis).all(|now| {
                let admitted = policy.admit(now, FlowNumber(1), &(), &backlog);
                (admitted, policy.release(now, FlowNumber(1), &(), &leaving)) == (Verdict::Pass, Verdict::Pass)
            });
            assert_eq!(passes, config.is_passive(), "{}", member.name);
        }
    }
}
