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
//! | longest queue | `longest.rs` | | the newest packet of the longest queue, or the oldest | |
//! | largest finish number | `finish.rs` | | the packet that a fair discipline would finish last | |
//! | random drop | `random.rs` | | one packet of all | |
//! | random longest queue (RND) | `above_share.rs` | | the oldest packet of a queue above its share | |
//! | early random drop | `early_random.rs` | what comes to a full buffer | | one of those that arrive, from a threshold on |
//! | RED | `red.rs` | what comes to a full buffer, or to one that is too full on average | | one of those that arrive |
//! | FRED | `fred.rs` | as RED; besides, what comes of a flow that has too much itself | | one of those that arrive, of flows with more than their part |
//! | PFD, and one that adapts | `pfd.rs`, `pfd_adaptive.rs` | | the oldest packet of the longest queue | from a threshold on, that packet |
//! | PIE | `pie.rs` | what comes to a full buffer | | one of those that arrive, by the delay |
//! | PI2, coupled | `pi2.rs` | what comes to a full buffer | | packets that go, by the delay: Classic ones by the square, L4S ones by a multiple |
//! | CoDel | `codel.rs` | what comes to a full buffer | | packets of a queue that stands; drops those that cannot be |
//!
//! Another policy is its own file and its lines in this one, and is then a setting of bonds, stations of rings, links of the
//! emulator and links of the simulator. One from a crate outside goes into [`PolicyConfig::Own`].

mod above_share;
mod average;
mod codel;
mod early_random;
mod finish;
mod fred;
mod front;
mod longest;
mod pfd;
mod pfd_adaptive;
mod pi2;
mod pie;
mod policy;
mod random;
mod red;
mod tail;

pub use above_share::AboveShare;
pub use codel::CoDel;
pub use early_random::EarlyRandom;
pub use finish::LargestFinish;
pub use fred::{Fred, FredConfig};
pub use front::DropFront;
pub use longest::LongestQueue;
pub use pfd::{Pfd, PfdConfig};
pub use pfd_adaptive::PfdAdaptive;
pub use pi2::{Pi2, Pi2Config};
pub use pie::Pie;
pub use policy::{Backlog, Bounds, ConfigError, Leaving, Limit, Policy, Reason, Room, Verdict, Victim};
pub use random::RandomDrop;
pub use red::{Red, RedConfig};
pub use tail::DropTail;

use crate::options::{self, Dialect, Family, Field, Fields, Kind, Member, OptionError, OptionSpec, Share, Value};
use crate::own::own;
use crate::units::{FlowNumber, Span, Time};
use alloc::boxed::Box;
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
    /// `longest-queue-front`: the oldest packet of the longest queue of a full buffer is dropped ("LQD").
    LongestQueueFront,
    /// `largest-finish`: the packet with the largest finish number is dropped from a full buffer.
    LargestFinish,
    /// `random-drop`: one packet of all that wait in a full buffer is dropped.
    RandomDrop,
    /// `random-longest`: the oldest packet of a queue of a full buffer is dropped, which is drawn from those above their
    /// share ("RND").
    RandomLongest,
    /// `early-random`: from a threshold on, packets that arrive are marked or dropped at random.
    EarlyRandom {
        /// Share of the buffer up to which none is. As text by default 0.5.
        threshold: Share,
        /// How likely each is. As text by default 0.02.
        probability: Share,
    },
    /// `red`: random early detection.
    Red(RedConfig),
    /// `fred`: flow random early drop.
    Fred(FredConfig),
    /// `pfd`: probabilistic fair drop.
    Pfd(PfdConfig),
    /// `pfd-adaptive`: probabilistic fair drop that finds its threshold and probability by itself.
    PfdAdaptive,
    /// `pie` (RFC 8033): packets that arrive are marked or dropped with a probability that holds the wait at `target`.
    Pie {
        /// The wait. As text by default 15 ms.
        target: Span,
    },
    /// `pi2` (RFC 9332, appendix A): marks or drops packets that go, by the delay; L4S ones more often, by marks alone.
    Pi2(Pi2Config),
    /// `codel` (RFC 8289): marks or drops when packets waited longer than `target` for a whole `interval`.
    CoDel {
        /// Wait that is always fine. As text by default 5 ms.
        target: Span,
        /// How long it may last: a round trip. As text by default 100 ms.
        interval: Span,
    },
    /// A policy of one's own. It has no name in texts, and sees no packet, only what is known of it.
    Own {
        /// Makes it.
        make: PolicyMaker,
        /// Which packets it evicts or pushes out, if it ever does: a discipline finds only those for which it was made.
        victim: Option<Victim>,
    },
}

own! {
    /// Makes a buffer policy of one's own from the seed of what it draws, for [`PolicyConfig::Own`].
    PolicyMaker(u64) -> OwnPolicy: Policy<()>
}

/// The packets that are a policy's business.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Judges {
    WhatDoesNotFit,
    Arrivals,
    ArrivalsAndDepartures,
}

impl PolicyConfig {
    /// Checks the settings.
    ///
    /// # Errors
    /// Names the first setting that cannot work, and what would.
    pub fn check(&self) -> Result<(), ConfigError> {
        match *self {
            PolicyConfig::CoDel { target, interval } => CoDel::check(target, interval),
            PolicyConfig::Red(config) => config.check(),
            _ => Ok(()),
        }
    }

    /// Which packets are its business: a queue need not ask it of any other.
    fn judges(&self) -> Judges {
        match self {
            PolicyConfig::DropTail
            | PolicyConfig::DropFront
            | PolicyConfig::LongestQueue
            | PolicyConfig::LongestQueueFront
            | PolicyConfig::LargestFinish
            | PolicyConfig::RandomDrop
            | PolicyConfig::RandomLongest => Judges::WhatDoesNotFit,
            PolicyConfig::EarlyRandom { .. } | PolicyConfig::Pfd(_) | PolicyConfig::PfdAdaptive => Judges::Arrivals,
            PolicyConfig::Red(_)
            | PolicyConfig::Fred(_)
            | PolicyConfig::Pie { .. }
            | PolicyConfig::Pi2(_)
            | PolicyConfig::CoDel { .. }
            | PolicyConfig::Own { .. } => Judges::ArrivalsAndDepartures,
        }
    }

    /// Whether all packets that fit may pass, and all that go.
    pub(crate) fn is_passive(&self) -> bool {
        self.judges() == Judges::WhatDoesNotFit
    }

    /// Whether what goes is its business.
    pub(crate) fn judges_leaving(&self) -> bool {
        self.judges() == Judges::ArrivalsAndDepartures
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
            PolicyConfig::LongestQueueFront => Some(Victim::LongestHead),
            PolicyConfig::LargestFinish => Some(Victim::LargestFinish),
            PolicyConfig::RandomDrop => Some(Victim::Any(0)),
            PolicyConfig::RandomLongest => Some(Victim::AboveShare(0)),
            PolicyConfig::Pfd(config) => Some(config.victim()),
            PolicyConfig::PfdAdaptive => Some(PfdConfig::PLAIN.victim()),
            PolicyConfig::Own { victim, .. } => *victim,
            PolicyConfig::DropTail
            | PolicyConfig::EarlyRandom { .. }
            | PolicyConfig::Red(_)
            | PolicyConfig::Fred(_)
            | PolicyConfig::Pie { .. }
            | PolicyConfig::Pi2(_)
            | PolicyConfig::CoDel { .. } => None,
        }
    }
}

static TARGET: OptionSpec = OptionSpec::new("target", TIME, "wait that is always fine");
static INTERVAL: OptionSpec = OptionSpec::new("interval", TIME, "how long it may last: a round trip");
static WAIT: OptionSpec = OptionSpec::new("target", TIME, "wait that is held");
static THRESHOLD: OptionSpec = OptionSpec::new("threshold", SHARE, "share of the queue up to which nothing is dropped");
static PROBABILITY: OptionSpec =
    OptionSpec::new("probability", SHARE, "how likely a packet that arrives beyond costs one");
static LEAST: OptionSpec =
    OptionSpec::new("least", SHARE, "share of the queue, on average, from which on packets are dropped");
static MOST: OptionSpec = OptionSpec::new("most", SHARE, "share, on average, beyond which all are, or more and more");
static AT_MOST: OptionSpec = OptionSpec::new("probability", SHARE, "how likely each is dropped at the upper share");
static WEIGHT: OptionSpec = OptionSpec::new("weight", SHARE, "weight of the newest sample in the average");
static GENTLE: OptionSpec =
    OptionSpec::new("gentle", Kind::Flag, "beyond the upper share more and more are dropped, not all");
static ADAPTIVE: OptionSpec =
    OptionSpec::new("adaptive", Kind::Flag, "the probability holds the average between the shares");
static FRED_LEAST: OptionSpec = OptionSpec::new(
    "least",
    SHARE,
    "share of the queue, on average, from which on packets are dropped, at twice that all; no flow has more",
);
static FRED_PROBABILITY: OptionSpec =
    OptionSpec::new("probability", SHARE, "how likely each is dropped at twice that share");
static SPARED: OptionSpec =
    OptionSpec::new("spared", Kind::Count(1, 1 << 20, None), "a flow with fewer packets loses none at random");
static MANY: OptionSpec =
    OptionSpec::new("many", Kind::Flag, "at twice the share each flow may have two packets, in place of none");
static QUASI: OptionSpec =
    OptionSpec::new("quasi", Kind::Flag, "who pays is the longest queue that was seen, not the longest that is");
const SHARE: Kind = Kind::Share(Share::from_millionths(1), Share::ONE);
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
            "longest-queue-front",
            "drops the oldest packet of the longest queue when the queue is full (LQD)",
            || PolicyConfig::LongestQueueFront,
        ),
        member(
            "largest-finish",
            "drops the packet with the largest finish number when the queue is full; without finish numbers the newest of the queue \
             with the most bytes",
            || PolicyConfig::LargestFinish,
        ),
        member("random-drop", "drops one packet of all when the queue is full", || PolicyConfig::RandomDrop),
        member(
            "random-longest",
            "drops the oldest packet of a flow that has more than its share, any of them, when the queue is full (RND)",
            || PolicyConfig::RandomLongest,
        ),
        member(
            "early-random",
            "as drop-tail; besides, from a threshold on, it marks or drops packets that arrive with a fixed probability",
            || PolicyConfig::EarlyRandom {
                threshold: Share::from_millionths(500_000),
                probability: Share::from_millionths(20_000),
            },
        ),
        member(
            "red",
            "as drop-tail; besides, it marks or drops packets that arrive with a probability that grows with the average \
             length of the queue",
            || PolicyConfig::Red(RedConfig::PLAIN),
        ),
        member(
            "fred",
            "flow random early drop: as red, but flows that have less than their part lose nothing at random, and who has too much \
             again and again gets no more than its part; with many=on each flow may have two packets where else none is let in",
            || PolicyConfig::Fred(FredConfig::PLAIN),
        ),
        member(
            "pfd",
            "probabilistic fair drop: from a threshold on, a packet that arrives may cost the longest queue its oldest packet, \
             which is marked or dropped; when the queue is full it always does",
            || PolicyConfig::Pfd(PfdConfig::PLAIN),
        ),
        member(
            "pfd-adaptive",
            "as pfd, with a threshold and a probability that follow from overflows and from times without any packet",
            || PolicyConfig::PfdAdaptive,
        ),
        member(
            "pie",
            "as drop-tail; besides, it marks or drops packets that arrive with a probability that holds the wait (RFC 8033)",
            || PolicyConfig::Pie { target: Span::from_millis(15) },
        ),
        member(
            "codel",
            "as drop-tail; besides, when packets have waited for longer than target for a whole interval, it marks one, and \
             then others more and more often; a packet without ECN is dropped instead",
            || PolicyConfig::CoDel { target: Span::from_millis(5), interval: Span::from_millis(100) },
        ),
        member(
            "pi2",
            "as drop-tail; besides, it marks or drops packets that go with the square of a probability that holds the wait, and marks \
             those of L4S with a multiple of it, and when they waited beyond threshold (RFC 9332)",
            || PolicyConfig::Pi2(Pi2Config::PLAIN),
        ),
    ];

    fn same(&self, other: &PolicyConfig) -> bool {
        core::mem::discriminant(self) == core::mem::discriminant(other)
    }

    fn fields(&self) -> Fields<'_> {
        match self {
            PolicyConfig::CoDel { target, interval } => vec![(&TARGET, target as &dyn Field), (&INTERVAL, interval)],
            PolicyConfig::Pi2(pi2) => pi2.fields(),
            PolicyConfig::Pie { target } => vec![(&WAIT, target as &dyn Field)],
            PolicyConfig::EarlyRandom { threshold, probability } => {
                vec![(&THRESHOLD, threshold as &dyn Field), (&PROBABILITY, probability)]
            }
            PolicyConfig::Red(red) => vec![
                (&LEAST, &red.least as &dyn Field),
                (&MOST, &red.most),
                (&AT_MOST, &red.probability),
                (&WEIGHT, &red.weight),
                (&GENTLE, &red.gentle),
                (&ADAPTIVE, &red.adaptive),
            ],
            PolicyConfig::Fred(fred) => vec![
                (&FRED_LEAST, &fred.least as &dyn Field),
                (&FRED_PROBABILITY, &fred.probability),
                (&WEIGHT, &fred.weight),
                (&SPARED, &fred.spared),
                (&MANY, &fred.many),
            ],
            PolicyConfig::Pfd(pfd) => {
                vec![(&THRESHOLD, &pfd.threshold as &dyn Field), (&PROBABILITY, &pfd.probability), (&QUASI, &pfd.quasi)]
            }
            _ => Vec::new(),
        }
    }

    fn field_mut(&mut self, option: &str) -> Option<&mut dyn Field> {
        match (self, option) {
            (PolicyConfig::CoDel { target, .. } | PolicyConfig::Pie { target }, "target") => Some(target),
            (PolicyConfig::EarlyRandom { threshold, .. }, "threshold") => Some(threshold),
            (PolicyConfig::EarlyRandom { probability, .. }, "probability") => Some(probability),
            (PolicyConfig::Red(red), "least") => Some(&mut red.least),
            (PolicyConfig::Red(red), "most") => Some(&mut red.most),
            (PolicyConfig::Red(red), "probability") => Some(&mut red.probability),
            (PolicyConfig::Red(red), "weight") => Some(&mut red.weight),
            (PolicyConfig::Red(red), "gentle") => Some(&mut red.gentle),
            (PolicyConfig::Red(red), "adaptive") => Some(&mut red.adaptive),
            (PolicyConfig::Fred(fred), "least") => Some(&mut fred.least),
            (PolicyConfig::Fred(fred), "probability") => Some(&mut fred.probability),
            (PolicyConfig::Fred(fred), "weight") => Some(&mut fred.weight),
            (PolicyConfig::Fred(fred), "spared") => Some(&mut fred.spared),
            (PolicyConfig::Fred(fred), "many") => Some(&mut fred.many),
            (PolicyConfig::Pfd(pfd), "threshold") => Some(&mut pfd.threshold),
            (PolicyConfig::Pfd(pfd), "probability") => Some(&mut pfd.probability),
            (PolicyConfig::Pfd(pfd), "quasi") => Some(&mut pfd.quasi),
            (PolicyConfig::CoDel { interval, .. }, "interval") => Some(interval),
            (PolicyConfig::Pi2(pi2), option) => pi2.field_mut(option),
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
    /// [`LargestFinish`].
    LargestFinish(LargestFinish),
    /// [`RandomDrop`].
    RandomDrop(RandomDrop),
    /// [`AboveShare`].
    AboveShare(AboveShare),
    /// [`EarlyRandom`].
    EarlyRandom(EarlyRandom),
    /// [`Red`].
    Red(Red),
    /// [`Fred`].
    Fred(Fred),
    /// [`Pfd`].
    Pfd(Pfd),
    /// [`PfdAdaptive`].
    PfdAdaptive(PfdAdaptive),
    /// [`Pie`].
    Pie(Pie),
    /// [`Pi2`].
    Pi2(Pi2),
    /// [`CoDel`].
    CoDel(CoDel),
    /// One's own.
    Own(Box<dyn OwnPolicy>),
}

impl AnyPolicy {
    /// The policy that `config` names, which was [checked](PolicyConfig::check); what it draws, it draws by `seed`.
    pub fn new(config: PolicyConfig, seed: u64) -> AnyPolicy {
        match config {
            PolicyConfig::DropTail => AnyPolicy::DropTail(DropTail),
            PolicyConfig::DropFront => AnyPolicy::DropFront(DropFront),
            PolicyConfig::LongestQueue => AnyPolicy::LongestQueue(LongestQueue { head: false }),
            PolicyConfig::LongestQueueFront => AnyPolicy::LongestQueue(LongestQueue { head: true }),
            PolicyConfig::LargestFinish => AnyPolicy::LargestFinish(LargestFinish),
            PolicyConfig::RandomDrop => AnyPolicy::RandomDrop(RandomDrop::new(seed)),
            PolicyConfig::RandomLongest => AnyPolicy::AboveShare(AboveShare::new(seed)),
            PolicyConfig::EarlyRandom { threshold, probability } => {
                AnyPolicy::EarlyRandom(EarlyRandom::new(threshold, probability, seed))
            }
            PolicyConfig::Red(config) => AnyPolicy::Red(Red::new(config, seed)),
            PolicyConfig::Fred(config) => AnyPolicy::Fred(Fred::new(config, seed)),
            PolicyConfig::Pfd(config) => AnyPolicy::Pfd(Pfd::new(config, seed)),
            PolicyConfig::PfdAdaptive => AnyPolicy::PfdAdaptive(PfdAdaptive::new(seed)),
            PolicyConfig::Pie { target } => AnyPolicy::Pie(Pie::new(target, seed)),
            PolicyConfig::Pi2(config) => AnyPolicy::Pi2(Pi2::new(config)),
            PolicyConfig::CoDel { target, interval } => AnyPolicy::CoDel(CoDel::new(target, interval)),
            PolicyConfig::Own { make, .. } => AnyPolicy::Own((make.0)(seed)),
        }
    }
}

impl AnyPolicy {
    /// The policy, if it wants to know of every packet that waits and of every one that does not any more.
    #[inline]
    pub(crate) fn counts_flows(&mut self) -> Option<&mut Fred> {
        if let AnyPolicy::Fred(fred) = self { Some(fred) } else { None }
    }

    /// The policy, if it goes by the clock and is to be told now what waits.
    #[inline]
    pub(crate) fn is_due(&mut self, now: Time) -> Option<&mut Pi2> {
        match self {
            AnyPolicy::Pi2(pi2) if pi2.is_due(now) => Some(pi2),
            _ => None,
        }
    }
}

macro_rules! each {
    ($self:ident, $policy:ident => $call:expr, $own:ident => $other:expr) => {
        match $self {
            AnyPolicy::DropTail($policy) => $call,
            AnyPolicy::DropFront($policy) => $call,
            AnyPolicy::LongestQueue($policy) => $call,
            AnyPolicy::LargestFinish($policy) => $call,
            AnyPolicy::RandomDrop($policy) => $call,
            AnyPolicy::AboveShare($policy) => $call,
            AnyPolicy::EarlyRandom($policy) => $call,
            AnyPolicy::Red($policy) => $call,
            AnyPolicy::Fred($policy) => $call,
            AnyPolicy::Pfd($policy) => $call,
            AnyPolicy::PfdAdaptive($policy) => $call,
            AnyPolicy::Pie($policy) => $call,
            AnyPolicy::Pi2($policy) => $call,
            AnyPolicy::CoDel($policy) => $call,
            AnyPolicy::Own($own) => $other,
        }
    };
}

impl<P> Policy<P> for AnyPolicy {
    #[inline]
    fn admit(&mut self, now: Time, flow: FlowNumber, packet: &P, backlog: &Backlog) -> Verdict {
        each!(self, policy => policy.admit(now, flow, packet, backlog), own => own.admit(now, flow, &(), backlog))
    }

    #[inline]
    fn release(&mut self, now: Time, flow: FlowNumber, packet: &P, leaving: &Leaving) -> Verdict {
        each!(self, policy => policy.release(now, flow, packet, leaving), own => own.release(now, flow, &(), leaving))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_passive_policy_lets_all_pass_that_fits_and_all_that_goes() {
        let bounds = Limit::Packets(10).into();
        let backlog = Backlog { packets: 9, bytes: 13_500, memory: 0, bounds, size: 1500, cost: 0, by_flow: true };
        let leaving = Leaving { waited: Span::from_secs(1), queue: 0, key: 0, behind: 13_500, is_scalable: true };
        for member in PolicyConfig::MEMBERS {
            let config = (member.plain)();
            let (mut policy, mut all_go) = (AnyPolicy::new(config, 1), true);
            // Of several flows, so that none is alone; and more come than go, for those that count by themselves.
            let passes = (0..1000_u32).all(|n| {
                let (now, flow) = (Time::from_millis(n.into()), FlowNumber(n % 3));
                let admitted = policy.admit(now, flow, &(), &backlog);
                let goes = n % 2 == 1 || policy.release(now, flow, &(), &leaving) == Verdict::Pass;
                all_go &= goes;
                admitted == Verdict::Pass && goes
            });
            assert_eq!(passes, config.is_passive(), "{}", member.name);
            assert!(all_go || config.judges_leaving(), "{}", member.name);
        }
    }
    #[test]
    fn what_is_set_is_written_and_read_again() {
        for text in [
            "drop-tail",
            "early-random:threshold=0.4,probability=0.03",
            "red:least=0.1,most=0.5,probability=0.2,weight=0.003,gentle=off,adaptive=on",
            "fred:least=0.1,probability=0.03,weight=0.003,spared=3,many=on",
            "pfd:threshold=0.3,probability=0.03,quasi=on",
            "pie:target=20ms",
            "codel:target=6ms,interval=90ms",
            "pi2:target=20ms,rtt=90ms,coupling=3,threshold=2ms,ramp=1ms",
        ] {
            let config: PolicyConfig = text.parse().unwrap();
            assert_eq!(config.to_string(), text);
            let mut taken = PolicyConfig::RandomDrop;
            taken.take(Value::Text(text.into()));
            assert_eq!(taken, config);
        }
        for (at_most, refused) in [
            ("red:least=0.499999,most=0.5", "red:least=0.5,most=0.5"),
            ("codel:target=99ms", "codel:target=100ms"),
            ("fred:spared=1048576", "fred:spared=1048577"),
        ] {
            assert!(at_most.parse::<PolicyConfig>().is_ok_and(|config| config.check().is_ok()), "{at_most}");
            assert!(refused.parse::<PolicyConfig>().is_err(), "{refused}");
        }
        let bad = PolicyConfig::CoDel { target: Span::from_millis(5), interval: Span::from_millis(5) };
        assert!(bad.check().is_err());
    }

    #[test]
    fn who_evicts_and_who_is_to_be_told_of_what_goes() {
        let named = |of: fn(&PolicyConfig) -> bool| -> Vec<&str> {
            PolicyConfig::MEMBERS.iter().filter(|member| of(&(member.plain)())).map(|member| member.name).collect()
        };
        let evict = [
            "drop-front",
            "longest-queue",
            "longest-queue-front",
            "largest-finish",
            "random-drop",
            "random-longest",
            "pfd",
            "pfd-adaptive",
        ];
        assert_eq!(named(PolicyConfig::evicts), evict);
        assert_eq!(named(PolicyConfig::judges_leaving), ["red", "fred", "pie", "codel", "pi2"]);
    }

    #[test]
    fn pi2_is_told_of_the_time_each_15_ms() {
        let mut policy = AnyPolicy::new(PolicyConfig::Pi2(Pi2Config::PLAIN), 1);
        assert!(policy.is_due(Time::from_nanos(14_999_999)).is_none());
        assert!(policy.is_due(Time::from_millis(15)).is_some());
    }
}
