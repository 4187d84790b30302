//! The transmit machine: when a LACPDU may leave.
//!
//! Source: IEEE 802.1AX-2014, 6.4.16: at most three LACPDUs in a fast periodic time; none while the periodic machine is at none.
//! Departure: Linux keeps them 300 ms apart; here up to three leave at once.

use super::pdu::{Lacpdu, Pdu};
use super::port::Port;
use super::states::PeriodicState;
use crate::units::Time;

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
