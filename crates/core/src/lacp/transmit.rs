//! The transmit machine: when a LACPDU may leave.
//!
//! Source: IEEE 802.1AX-2014, 6.4.16: at most three LACPDUs in a fast periodic time; none while the periodic machine is at none.
//! Departure: Linux keeps them 300 ms apart; here up to three leave at once.

use super::pdu::{Lacpdu, Pdu};
use super::periodic::PeriodicState;
use super::port::Port;
use super::{FAST_PERIODIC_TIME, MAX_TX_IN_SECOND};
use crate::units::Time;

/// When the last `N` frames left: no more than `N` in any second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit<const N: usize> {
    times: [Option<Time>; N],
    next: usize,
}

/// When the last LACPDUs left.
pub(super) type Sent = Limit<MAX_TX_IN_SECOND>;

impl<const N: usize> Default for Limit<N> {
    fn default() -> Self {
        Limit { times: [None; N], next: 0 }
    }
}

impl<const N: usize> Limit<N> {
    /// When the next one may leave.
    pub(super) fn free(&self) -> Time {
        self.times[self.next].map_or(Time::ZERO, |oldest| oldest + FAST_PERIODIC_TIME)
    }

    pub(super) fn take(&mut self, now: Time) {
        self.times[self.next] = Some(now);
        self.next = (self.next + 1) % N;
    }
}

impl Port {
    /// When a LACPDU may leave; `None`: there is nothing to tell.
    pub(super) fn lacpdu_due(&self) -> Option<Time> {
        (self.ntt && self.periodic != PeriodicState::None).then(|| self.sent.free())
    }

    /// The LACPDU to send now.
    pub(super) fn poll_lacpdu(&mut self, now: Time) -> Option<Pdu> {
        if self.periodic == PeriodicState::None {
            self.ntt = false;
        }
        self.lacpdu_due().filter(|due| *due <= now)?;
        self.ntt = false;
        self.sent.take(now);
        self.stats.lacpdu_tx += 1;
        Some(Pdu::Lacp(Lacpdu { actor: self.actor, partner: self.partner, collector_max_delay: 0 }))
    }
}
