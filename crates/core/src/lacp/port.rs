//! A port and its variables.

use super::MAX_TX_IN_SECOND;
use super::churn::ChurnMachine;
use super::limit::Limit;
use super::marker::Markers;
use super::pdu::{Pdu, PortInfo, State};
use super::states::{MuxState, PeriodicState, ReceiveState};
use crate::units::{ChannelId, Rate, Time};
use crate::wire::mac::Mac;

/// The link at a port, as its owner sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortLink {
    /// Whether it has carrier.
    pub up: bool,
    /// Its rate; links whose rate is not known count as links of one and the same rate.
    pub rate: Option<Rate>,
    /// Half duplex links are not aggregated and speak no LACP.
    pub full_duplex: bool,
    /// The address that its LACPDUs are sent from.
    pub mac: Mac,
}

impl PortLink {
    /// A full duplex link that has carrier.
    pub fn up(mac: Mac, rate: Rate) -> PortLink {
        PortLink { up: true, rate: Some(rate), full_duplex: true, mac }
    }

    /// The same link without carrier.
    #[must_use]
    pub fn down(self) -> PortLink {
        PortLink { up: false, ..self }
    }
}

/// What a port counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PortStats {
    /// LACPDUs that came.
    pub lacpdu_rx: u64,
    /// LACPDUs that were sent.
    pub lacpdu_tx: u64,
    /// Markers that came.
    pub marker_rx: u64,
    /// Markers that were sent.
    pub marker_tx: u64,
    /// Answers to markers that came.
    pub marker_response_rx: u64,
    /// Answers to markers that were sent.
    pub marker_response_tx: u64,
    /// Answers that nobody waits for (any more).
    pub marker_unmatched: u64,
    /// Markers that were not answered, since too many answers waited to be sent.
    pub marker_response_dropped: u64,
    /// Frames of another Slow Protocol.
    pub unknown_rx: u64,
    /// Malformed frames.
    pub illegal_rx: u64,
    /// LACPDUs that this very system sent.
    pub loopback_rx: u64,
    /// Frames that came while the port was down.
    pub down_rx: u64,
}

/// Partner's parameters while no LACPDU told them.
pub(super) const DEFAULT_PARTNER: PortInfo =
    PortInfo { system_priority: 0xffff, system: Mac::ZERO, key: 1, port_priority: 0xff, port: 1, state: State(0) };

pub(super) const PORT_PRIORITY: u16 = 0xff;

/// A port: its link, the variables of the standard (802.1AX-2014, 6.4.6 to 6.4.8) and its machines' states.
#[derive(Clone, Debug)]
pub(super) struct Port {
    pub(super) id: ChannelId,
    pub(super) link: PortLink,
    /// What LACPDUs say of this end, state included.
    pub(super) actor: PortInfo,
    /// What is known of the other end.
    pub(super) partner: PortInfo,
    pub(super) selected: bool,
    /// Whether the partner's LACPDU showed that it knows this port as it is.
    pub(super) matched: bool,
    pub(super) ntt: bool,
    pub(super) receive: ReceiveState,
    pub(super) current_while: Option<Time>,
    pub(super) periodic: PeriodicState,
    pub(super) periodic_timer: Option<Time>,
    pub(super) mux: MuxState,
    /// In [`MuxState::Waiting`], `None` once the wait is over.
    pub(super) wait_while: Option<Time>,
    pub(super) actor_churn: ChurnMachine,
    pub(super) partner_churn: ChurnMachine,
    /// When the last LACPDUs left.
    pub(super) sent: Limit<MAX_TX_IN_SECOND>,
    /// Place of its aggregator.
    pub(super) aggregator: Option<usize>,
    /// Whether it was told that the port hears this very system.
    pub(super) loopback: bool,
    pub(super) markers: Markers,
    pub(super) stats: PortStats,
}

impl Port {
    /// Whether frames can come and go.
    pub(super) fn enabled(&self) -> bool {
        self.link.up
    }

    /// Whether it speaks LACP.
    pub(super) fn lacp_enabled(&self) -> bool {
        self.link.full_duplex
    }

    /// Whether it must be the only port of its aggregator.
    pub(super) fn individual(&self) -> bool {
        !self.link.full_duplex || (self.has_partner() && !self.partner.state.has(State::AGGREGATION))
    }

    pub(super) fn has_partner(&self) -> bool {
        self.partner.system != Mac::ZERO
    }

    /// The answer or marker to send now.
    pub(super) fn poll_marker(&mut self, now: Time) -> Option<Pdu> {
        let pdu = self.markers.poll(now, &self.actor)?;
        match pdu {
            Pdu::Marker(_) => self.stats.marker_tx += 1,
            _ => self.stats.marker_response_tx += 1,
        }
        Some(pdu)
    }

    /// BEGIN: everything as if the port had just been made.
    pub(super) fn begin(&mut self, now: Time) {
        let kept = State::ACTIVITY.with(State::TIMEOUT).with(State::AGGREGATION);
        self.actor.state = State(self.actor.state.0 & kept.0);
        self.initialize();
        self.periodic = PeriodicState::None;
        self.periodic_timer = None;
        self.enter_mux(MuxState::Detached, now);
        self.actor_churn.begin(now);
        self.partner_churn.begin(now);
    }
}
