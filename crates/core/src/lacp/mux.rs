//! The mux machine: whether a port belongs to its aggregator and carries its traffic.
//!
//! Source: IEEE 802.1AX-2014, 6.4.15, with independent control (figure 6-21): a port takes frames before its partner may send, and
//! sends once the partner takes frames, so that nothing is lost when a port joins. With partners of coupled control, such as
//! Linux before 6.9, it comes to the same states.
//!
//! Departures, those of Linux: a port is in synchronization only while its aggregator is the active one, since a bond uses one;
//! STANDBY does not occur, since an aggregator has room for all ports. Where Linux leaves a port distributing (in its
//! LACPDUs) when another aggregator becomes active, it goes back to attached here, so that the partner does not send to it.
//!
//! Invariant: a port that collects is selected, in the active aggregator, and its partner is in synchronization; of one
//! that distributes the partner collects.

use super::AGGREGATE_WAIT_TIME;
use super::pdu::State;
use super::port::Port;
use super::states::MuxState;
use crate::units::Time;

impl Port {
    /// `active`: its aggregator is the one in use; `ready`: no port of the aggregator waits for others. Says whether
    /// something changed.
    pub(super) fn mux(&mut self, active: bool, ready: bool, now: Time) -> bool {
        let waited = self.wait_while.is_some_and(|due| due <= now);
        if waited {
            self.wait_while = None;
        }
        let partner = self.partner.state.has(State::SYNCHRONIZATION);
        let goes = self.selected && active && partner;
        let takes = self.partner.state.has(State::COLLECTING);
        let next = match self.mux {
            MuxState::Detached if self.selected => MuxState::Waiting,
            MuxState::Waiting | MuxState::Attached if !self.selected => MuxState::Detached,
            MuxState::Waiting if ready && self.wait_while.is_none() => MuxState::Attached,
            MuxState::Attached if goes => MuxState::Collecting,
            MuxState::Collecting if !goes => MuxState::Attached,
            MuxState::Collecting if takes => MuxState::Distributing,
            MuxState::Distributing if !goes || !takes => MuxState::Collecting,
            same => same,
        };
        if next == self.mux {
            return (next == MuxState::Attached && self.synchronize(active)) || waited;
        }
        self.enter_mux(next, now);
        if next == MuxState::Attached {
            self.synchronize(active);
        }
        true
    }

    pub(super) fn enter_mux(&mut self, next: MuxState, now: Time) {
        self.mux = next;
        self.wait_while = (next == MuxState::Waiting).then(|| now + AGGREGATE_WAIT_TIME);
        let carries = State::COLLECTING.with(State::DISTRIBUTING);
        match next {
            MuxState::Detached => {
                self.actor.state = self.actor.state.without(carries.with(State::SYNCHRONIZATION));
                self.ntt = true;
            }
            MuxState::Waiting => {}
            MuxState::Attached => {
                self.actor.state = self.actor.state.without(carries);
                self.ntt = true;
            }
            MuxState::Collecting => {
                let here = State::SYNCHRONIZATION.with(State::COLLECTING);
                self.actor.state = self.actor.state.with(here).without(State::DISTRIBUTING);
                self.ntt = true;
            }
            MuxState::Distributing => {
                self.actor.state = self.actor.state.with(State::DISTRIBUTING);
                self.ntt = true;
            }
        }
    }

    fn synchronize(&mut self, active: bool) -> bool {
        let changes = self.actor.state.has(State::SYNCHRONIZATION) != active;
        self.actor.state = self.actor.state.put(State::SYNCHRONIZATION, active);
        self.ntt |= changes;
        changes
    }
}
