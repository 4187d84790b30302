//! The periodic transmission machine: how often the partner is to hear of this port.
//!
//! Source: IEEE 802.1AX-2014, 6.4.13 (figure 6-19). Departure: none. A port that is not active stays silent to a partner that
//! is not either, and answers one that is (Linux before 2025 stayed silent to both).

use super::pdu::State;
use super::port::Port;
use super::states::PeriodicState;
use super::{FAST_PERIODIC_TIME, SLOW_PERIODIC_TIME};
use crate::units::Time;

impl Port {
    /// Says whether something changed.
    pub(super) fn periodic(&mut self, now: Time) -> bool {
        let before = self.periodic;
        let active = self.actor.state.has(State::ACTIVITY) || self.partner.state.has(State::ACTIVITY);
        let fast = self.partner.state.has(State::TIMEOUT);
        if !self.enabled() || !self.lacp_enabled() || !active {
            self.periodic = PeriodicState::None;
            self.periodic_timer = None;
            return self.periodic != before;
        }
        let due = self.periodic_timer.is_some_and(|due| due <= now);
        self.ntt |= due || (before == PeriodicState::Slow && fast);
        // From none, the standard goes to fast first; what the partner asks for is looked at right after.
        self.periodic = if fast { PeriodicState::Fast } else { PeriodicState::Slow };
        if self.periodic != before || due {
            let time = if fast { FAST_PERIODIC_TIME } else { SLOW_PERIODIC_TIME };
            self.periodic_timer = Some(now + time);
        }
        self.periodic != before
    }
}
