//! The receive machine: what is known of the partner, and for how long.
//!
//! Source: IEEE 802.1AX-2014, 6.4.9 (functions) and 6.4.12 (figure 6-18).
//!
//! | standard | here |
//! |---|---|
//! | port_enabled, LACP_Enabled | [`Port::enabled`], [`Port::lacp_enabled`] |
//! | current_while_timer | `current_while` |
//! | Selected, Matched, NTT | `selected`, `matched`, `ntt` |
//! | recordPDU, recordDefault, update_Selected, update_Default_Selected, update_NTT, choose_Matched | `record`, `record_default`, `update_selected`, `update_ntt`, `matches` |
//!
//! Departures: a LACPDU of this very system is dropped and counted, as Linux does, and its port stays as it was: links of one
//! system that are plugged together are not aggregated. port_moved is not looked for, since every port begins anew
//! when its link comes up. Cost: constant for each LACPDU.

use super::pdu::{Lacpdu, PortInfo, State};
use super::port::{DEFAULT_PARTNER, Port};
use super::states::ReceiveState;
use super::{LONG_TIMEOUT_TIME, SHORT_TIMEOUT_TIME};
use crate::units::Time;

impl Port {
    /// INITIALIZE, and at once PORT_DISABLED.
    pub(super) fn initialize(&mut self) {
        self.selected = false;
        self.record_default();
        self.actor.state = self.actor.state.without(State::EXPIRED);
        self.disable();
    }

    /// What no LACPDU causes. Says whether something changed.
    pub(super) fn receive(&mut self, now: Time) -> bool {
        let before = self.receive;
        match self.receive {
            ReceiveState::PortDisabled if !self.enabled() => {}
            _ if !self.enabled() => self.disable(),
            ReceiveState::PortDisabled if self.lacp_enabled() => self.expire(now),
            ReceiveState::PortDisabled => {
                self.receive = ReceiveState::LacpDisabled;
                self.selected = false;
                self.record_default();
                self.actor.state = self.actor.state.without(State::EXPIRED);
                self.matched = true;
            }
            ReceiveState::Current if self.overdue(now) => self.expire(now),
            ReceiveState::Expired if self.overdue(now) => {
                self.receive = ReceiveState::Defaulted;
                self.current_while = None;
                self.update_selected(&DEFAULT_PARTNER);
                self.record_default();
                self.actor.state = self.actor.state.without(State::EXPIRED);
                self.matched = true;
            }
            _ => {}
        }
        self.receive != before
    }

    /// A LACPDU of another system.
    pub(super) fn receive_pdu(&mut self, pdu: &Lacpdu, now: Time) {
        let listens = [ReceiveState::Expired, ReceiveState::Defaulted, ReceiveState::Current];
        if !listens.contains(&self.receive) {
            return;
        }
        self.receive = ReceiveState::Current;
        self.update_selected(&pdu.actor);
        self.update_ntt(&pdu.partner);
        self.record(pdu);
        let short = self.actor.state.has(State::TIMEOUT);
        self.current_while = Some(now + if short { SHORT_TIMEOUT_TIME } else { LONG_TIMEOUT_TIME });
        self.actor.state = self.actor.state.without(State::EXPIRED);
    }

    fn overdue(&self, now: Time) -> bool {
        self.current_while.is_some_and(|due| due <= now)
    }

    fn disable(&mut self) {
        self.receive = ReceiveState::PortDisabled;
        self.current_while = None;
        self.matched = false;
        self.partner.state = self.partner.state.without(State::SYNCHRONIZATION);
    }

    fn expire(&mut self, now: Time) {
        self.receive = ReceiveState::Expired;
        self.matched = false;
        self.partner.state = self.partner.state.without(State::SYNCHRONIZATION).with(State::TIMEOUT);
        self.current_while = Some(now + SHORT_TIMEOUT_TIME);
        self.actor.state = self.actor.state.with(State::EXPIRED);
    }

    fn record_default(&mut self) {
        self.partner = DEFAULT_PARTNER;
        self.actor.state = self.actor.state.with(State::DEFAULTED);
    }

    /// A partner of other parameters may belong to another aggregator.
    fn update_selected(&mut self, actor: &PortInfo) {
        if !same(actor, &self.partner, State::AGGREGATION) {
            self.selected = false;
        }
    }

    /// A partner that does not know this port as it is gets told.
    fn update_ntt(&mut self, partner: &PortInfo) {
        let told = State::ACTIVITY.with(State::TIMEOUT).with(State::SYNCHRONIZATION).with(State::AGGREGATION);
        if !same(partner, &self.actor, told) {
            self.ntt = true;
        }
    }

    fn record(&mut self, pdu: &Lacpdu) {
        // choose_Matched: the partner knows this port as it is, or wants no aggregation anyway.
        let knows = same(&pdu.partner, &self.actor, State::AGGREGATION);
        self.matched = knows || !pdu.actor.state.has(State::AGGREGATION);
        self.partner = pdu.actor;
        self.partner.state =
            pdu.actor.state.put(State::SYNCHRONIZATION, self.matched && pdu.actor.state.has(State::SYNCHRONIZATION));
        self.actor.state = self.actor.state.without(State::DEFAULTED);
    }
}

/// Whether both name the same port with the same parameters, and agree in `flags`.
fn same(a: &PortInfo, b: &PortInfo, flags: State) -> bool {
    let only = |info: &PortInfo| PortInfo { state: State(info.state.0 & flags.0), ..*info };
    only(a) == only(b)
}
