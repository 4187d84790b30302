//! The policies that there are: their names, settings and reasons, and the one that a setting names.

use super::codel::CoDel;
use super::front::DropFront;
use super::longest::LongestQueue;
use super::policy::{Backlog, ConfigError, Leaving, Policy, Verdict, Victim};
use super::tail::DropTail;
use super::text::{self, TextError};
use crate::quantity::{parse_span, show_span};
use crate::units::{FlowNumber, Span, Time};
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

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The buffer was full, and this was the packet that arrived.
    Full,
    /// The buffer was full, and this was the oldest packet.
    Front,
    /// The buffer was full, and this was the newest packet of the longest queue.
    Longest,
    /// Larger than the whole buffer.
    TooLarge,
    /// Packets waited for too long, for too long, and this one could not be marked.
    Standing,
}

impl Reason {
    /// All of them, in the order of their numbers.
    pub const ALL: [Reason; 5] = [Reason::Full, Reason::Front, Reason::Longest, Reason::TooLarge, Reason::Standing];

    /// For people and results.
    pub const fn name(self) -> &'static str {
        match self {
            Reason::Full => "queue full",
            Reason::Front => "queue full, oldest dropped",
            Reason::Longest => "queue full, longest cut",
            Reason::TooLarge => "larger than the buffer",
            Reason::Standing => "standing queue",
        }
    }
}

impl PolicyConfig {
    /// All of them.
    pub const NAMES: &[&str] = &["drop-tail", "drop-front", "longest-queue", "codel"];

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

    /// Which packets it evicts: a discipline keeps an order of them only where it must.
    pub(crate) fn evicts(&self) -> Option<Victim> {
        match self {
            PolicyConfig::DropFront => Some(Victim::Oldest),
            PolicyConfig::LongestQueue => Some(Victim::Longest),
            PolicyConfig::DropTail | PolicyConfig::CoDel { .. } => None,
        }
    }
}

impl FromStr for PolicyConfig {
    type Err = TextError;

    fn from_str(text: &str) -> Result<PolicyConfig, TextError> {
        let (name, options) = text::split(text);
        let mut policy = match name {
            "drop-tail" => PolicyConfig::DropTail,
            "drop-front" => PolicyConfig::DropFront,
            "longest-queue" => PolicyConfig::LongestQueue,
            "codel" => PolicyConfig::CoDel { target: Span::from_millis(5), interval: Span::from_millis(100) },
            _ => return Err(TextError::Name { what: "buffer policy", found: name.into(), known: PolicyConfig::NAMES }),
        };
        let takes = match policy {
            PolicyConfig::CoDel { .. } => "target and interval",
            _ => "none",
        };
        text::each(name, options, takes, |key, value| {
            match (&mut policy, key) {
                (PolicyConfig::CoDel { target, .. }, "target") => {
                    *target = text::quantity("target", value, parse_span)?
                }
                (PolicyConfig::CoDel { interval, .. }, "interval") => {
                    *interval = text::quantity("interval", value, parse_span)?;
                }
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        policy.check()?;
        Ok(policy)
    }
}

impl fmt::Display for PolicyConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            PolicyConfig::DropTail => f.write_str("drop-tail"),
            PolicyConfig::DropFront => f.write_str("drop-front"),
            PolicyConfig::LongestQueue => f.write_str("longest-queue"),
            PolicyConfig::CoDel { target, interval } => {
                write!(f, "codel:target={},interval={}", show_span(target), show_span(interval))
            }
        }
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
