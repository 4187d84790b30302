//! Whether the other end of a connection that carries nothing is still there.
//!
//! What it is: after `idle` without any segment from the peer, and with nothing of ours unacknowledged, a segment without payload goes
//! whose sequence number lies one before what the peer waits for. The peer answers it with an ACK, as any that is not acceptable.
//! After so many probes without an answer, one each `interval`, the connection is given up, with a reset. Source: RFC 9293, 3.8.4
//! (only on request, only while nothing is outstanding, a probe without an answer says little); numbers and the reset as in Linux.
//!
//! Cost: O(1). Invariant: what is off is never due.

use super::config::Config;
use fairspan_core::units::{Span, Time};

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// Nothing.
    Nothing,
    /// A probe.
    Probe,
    /// Nobody answers.
    Dead,
}

/// The timer of one end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keepalive {
    idle: Span,
    interval: Span,
    most: u32,
    unanswered: u32,
    due: Time,
}

impl Keepalive {
    pub(super) fn new(config: &Config) -> Keepalive {
        let (idle, interval, most) = (config.keepalive, config.keepalive_interval, config.keepalive_probes);
        Keepalive { idle, interval, most, unanswered: 0, due: Time::MAX }
    }

    /// Something came, or the connection has just opened.
    #[inline]
    pub(super) fn on_heard(&mut self, now: Time) {
        if self.idle > Span::ZERO {
            (self.unanswered, self.due) = (0, now + self.idle);
        }
    }

    pub(super) fn stop(&mut self) {
        self.due = Time::MAX;
    }

    #[inline]
    pub(super) fn due(&self) -> Time {
        self.due
    }

    /// What is due at `now`; `outstanding`: something of ours is unacknowledged, so that other timers ask.
    pub(super) fn handle_timeout(&mut self, now: Time, outstanding: bool) -> Asked {
        if self.due > now {
            return Asked::Nothing;
        }
        if outstanding {
            self.due = now + self.idle;
            return Asked::Nothing;
        }
        if self.unanswered >= self.most {
            self.stop();
            return Asked::Dead;
        }
        self.unanswered += 1;
        self.due = now + self.interval;
        Asked::Probe
    }
}
