//! A system: its ports, run together.

use super::pdu::{FRAME_LEN, Marker, Pdu, PduError, PortInfo, State};
use super::port::{DEFAULT_PARTNER, PORT_PRIORITY, Port, PortLink, PortStats};
use super::selection::{Aggregators, Speeds, each};
use super::states::MuxState;
use super::status::{AggregatorStatus, PortStatus, Status};
use crate::select::ieee8023ad::{Config, LacpRate};
use crate::set::LinkSet;
use crate::units::{ChannelId, Span, Time};
use crate::wire::mac::Mac;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// A frame to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// At which port.
    pub port: ChannelId,
    /// It, from its Ethernet header, without the check sequence.
    pub frame: [u8; FRAME_LEN],
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Other ports carry the bond's traffic now: [`Lacp::distributing`].
    Distributing(LinkSet),
    /// A port has another partner, or (zero) none.
    Partner {
        /// The port.
        port: ChannelId,
        /// The partner's system.
        system: Mac,
    },
    /// Another aggregator is in use; `None`: no port is up.
    Aggregator(Option<u16>),
    /// A port hears this very system: its link leads to another of its ports, or its frames come back.
    Loopback {
        /// The port.
        port: ChannelId,
    },
    /// A port has not come into synchronization for 60 s.
    Churned {
        /// The port.
        port: ChannelId,
        /// Whether it is the partner's end that did not.
        partner: bool,
    },
    /// All that was sent at the port before this marker was asked for has arrived.
    MarkerAnswered {
        /// The port.
        port: ChannelId,
        /// What [`Lacp::ask`] gave.
        transaction: u32,
    },
    /// No answer came in time, or the port went down.
    MarkerLost {
        /// The port.
        port: ChannelId,
        /// What [`Lacp::ask`] gave.
        transaction: u32,
    },
}

/// One system of IEEE 802.1AX with its ports, which are numbered as the bond's links are (port `n` is number `n + 1` in
/// LACPDUs).
///
/// After any input drain [`Lacp::poll_transmit`] and [`Lacp::poll_event`]; then call [`Lacp::handle_timeout`] at
/// [`Lacp::poll_timeout`] at the latest. Frames must leave in the order of the calls: a marker behind the data given to its
/// port before, an answer to a marker once the frames that came before it are delivered.
#[derive(Clone, Debug)]
pub struct Lacp {
    config: Config,
    system: Mac,
    speeds: Speeds,
    ports: Vec<Option<Port>>,
    aggregators: Aggregators,
    events: VecDeque<Event>,
    distributing: LinkSet,
    collecting: LinkSet,
    next_transaction: u32,
    now: Time,
}

impl Lacp {
    /// A system without ports. `mac`: the bond's address, for a system whose settings name no other.
    pub fn new(config: &Config, mac: Mac) -> Lacp {
        Lacp {
            config: *config,
            system: config.ad_actor_system.unwrap_or(mac),
            speeds: Speeds::default(),
            ports: Vec::new(),
            aggregators: Aggregators::new(config.ad_select),
            events: VecDeque::new(),
            distributing: LinkSet::EMPTY,
            collecting: LinkSet::EMPTY,
            next_transaction: 1,
            now: Time::ZERO,
        }
    }

    /// A port joins, or its link changes. Numbers from [`ChannelId::LIMIT`] on are ignored.
    pub fn set_port(&mut self, now: Time, port: ChannelId, link: PortLink) {
        if port.index() >= ChannelId::LIMIT {
            return;
        }
        self.advance(now);
        if self.ports.len() <= port.index() {
            self.ports.resize_with(port.index() + 1, || None);
        }
        self.aggregators.grow(port);
        let key = self.speeds.key(&link, self.config.ad_user_port_key);
        let fresh = || fresh(port, link, &self.config, self.system);
        let place = &mut self.ports[port.index()];
        let is_new = place.is_none();
        let known = place.get_or_insert_with(fresh);
        let begins = is_new || (link.up && !known.link.up) || known.actor.key != key;
        known.link = link;
        known.actor.key = key;
        if begins {
            known.loopback = false;
            known.begin(self.now);
        }
        self.run();
    }

    /// A port leaves.
    pub fn remove_port(&mut self, now: Time, port: ChannelId) {
        self.advance(now);
        if let Some(mut gone) = self.ports.get_mut(port.index()).and_then(Option::take) {
            self.aggregators.leave(&mut gone);
            while let Some(transaction) = gone.markers.lost(self.now, true) {
                self.events.push_back(Event::MarkerLost { port, transaction });
            }
        }
        self.run();
    }

    /// A frame that [`is_slow_protocol`](super::is_slow_protocol) tells, from its Ethernet header. One at a port that is
    /// unknown or down is counted and ignored.
    ///
    /// # Errors
    /// The frame is malformed. It is counted, and nothing else changes.
    pub fn handle_pdu(&mut self, now: Time, port: ChannelId, frame: &[u8]) -> Result<(), PduError> {
        self.advance(now);
        let (now, own) = (self.now, self.system);
        let Some(port) = self.ports.get_mut(port.index()).and_then(Option::as_mut) else { return Ok(()) };
        if !port.enabled() {
            port.stats.down_rx += 1;
            return Ok(());
        }
        let pdu = Pdu::decode(frame).inspect_err(|error| match error {
            PduError::Subtype { .. } => port.stats.unknown_rx += 1,
            _ => port.stats.illegal_rx += 1,
        })?;
        match pdu {
            Pdu::Lacp(pdu) if pdu.actor.system == own => {
                port.stats.loopback_rx += 1;
                if !core::mem::replace(&mut port.loopback, true) {
                    self.events.push_back(Event::Loopback { port: port.id });
                }
            }
            Pdu::Lacp(pdu) => {
                port.stats.lacpdu_rx += 1;
                let before = port.partner.system;
                port.receive_pdu(&pdu, now);
                if port.partner.system != before {
                    self.events.push_back(Event::Partner { port: port.id, system: port.partner.system });
                }
            }
            Pdu::Marker(marker) => {
                port.stats.marker_rx += 1;
                if !port.markers.respond(marker) {
                    port.stats.marker_response_dropped += 1;
                }
                return Ok(());
            }
            Pdu::MarkerResponse(Marker { port: number, system, transaction }) => {
                port.stats.marker_response_rx += 1;
                if system == own && number == port.actor.port && port.markers.answered(transaction) {
                    self.events.push_back(Event::MarkerAnswered { port: port.id, transaction });
                } else {
                    port.stats.marker_unmatched += 1;
                }
                return Ok(());
            }
        }
        self.run();
        Ok(())
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Time) {
        self.advance(now);
        self.run();
    }

    /// Asks the partner of `port` to tell when all that was sent there until now has arrived: a marker is sent, and
    /// [`Event::MarkerAnswered`] or, after `wait`, [`Event::MarkerLost`] tells of the transaction. Several who ask at once
    /// may get the same one. `None`: the port is not up.
    pub fn ask(&mut self, now: Time, port: ChannelId, wait: Span) -> Option<u32> {
        self.advance(now);
        let port = self.ports.get_mut(port.index())?.as_mut().filter(|port| port.enabled())?;
        Some(port.markers.ask(self.now, wait, &mut self.next_transaction))
    }

    /// The next frame to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        let now = self.now;
        self.ports.iter_mut().flatten().filter(|port| port.enabled()).find_map(|port| {
            let pdu = port.poll_marker(now).or_else(|| port.poll_lacpdu(now))?;
            Some(Transmit { port: port.id, frame: pdu.encode(port.link.mac) })
        })
    }

    /// What happened next.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`Lacp::handle_timeout`] is to be called at the latest.
    pub fn poll_timeout(&self) -> Option<Time> {
        let ports = self.ports.iter().flatten().filter(|port| port.enabled());
        let timers = ports.flat_map(|port| {
            [
                port.current_while,
                port.periodic_timer,
                port.wait_while,
                port.actor_churn.due,
                port.partner_churn.due,
                port.lacpdu_due(),
                port.markers.due(),
            ]
        });
        let own = self.aggregators.due(self.rank());
        timers.chain([own]).flatten().min()
    }

    /// The ports that carry the bond's traffic: of the active aggregator those that distribute; all that are up where its
    /// partner speaks no LACP (a port's own aggregator, so it is one); none with fewer than `min_links` up.
    pub fn distributing(&self) -> LinkSet {
        self.distributing
    }

    /// The ports whose frames are taken: those that distribute, and those that wait only for the partner to take frames;
    /// whatever `min_links` says.
    pub fn collecting(&self) -> LinkSet {
        self.collecting
    }

    /// The aggregators that have ports.
    pub fn aggregators(&self) -> impl Iterator<Item = AggregatorStatus> {
        let active = self.aggregators.active();
        self.aggregators.used().map(move |(place, aggregator)| AggregatorStatus {
            id: place as u16 + 1,
            active: Some(place) == active,
            individual: aggregator.individual,
            ports: aggregator.ports,
            actor_key: aggregator.key,
            partner_key: aggregator.partner_key,
            partner_system: aggregator.partner_system,
        })
    }

    /// A port as it stands.
    pub fn port(&self, port: ChannelId) -> Option<PortStatus> {
        self.ports.get(port.index())?.as_ref().map(PortStatus::of)
    }

    /// Everything, for people.
    pub fn status(&self) -> Status {
        Status {
            config: self.config,
            system: self.system,
            aggregators: self.aggregators().collect(),
            ports: self.ports.iter().flatten().map(PortStatus::of).collect(),
            distributing: self.distributing,
        }
    }

    fn rank(&self) -> (u16, Mac) {
        (self.config.ad_actor_sys_prio, self.system)
    }

    fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
    }

    /// Runs all machines until none changes any more.
    fn run(&mut self) {
        let (now, rank) = (self.now, self.rank());
        // Each pass that changes something moves a machine along a path without cycles at one instant; the longest one, from
        // distributing in one aggregator to waiting in another, has five steps, and a port's step may free another's.
        for _ in 0..4 * ChannelId::LIMIT {
            let mut changed = false;
            for port in self.ports.iter_mut().flatten() {
                let partner = port.partner.system;
                changed |= port.receive(now) | port.periodic(now);
                if port.partner.system != partner {
                    self.events.push_back(Event::Partner { port: port.id, system: port.partner.system });
                }
                if !port.selected && port.mux == MuxState::Detached {
                    self.aggregators.join(port);
                    changed = true;
                }
            }
            if self.aggregators.choose(&self.ports, rank, now) {
                let id = self.aggregators.active().map(|place| place as u16 + 1);
                self.events.push_back(Event::Aggregator(id));
                changed = true;
            }
            for n in 0..self.ports.len() {
                let Some(place) = self.ports[n].as_ref().and_then(|port| port.aggregator) else { continue };
                let members = self.aggregators.get(place).map_or(LinkSet::EMPTY, |a| a.ports);
                let waits = |port: &Port| port.enabled() && port.wait_while.is_some_and(|due| due > now);
                let ready = !each(&self.ports, members).any(waits);
                let active = self.aggregators.active() == Some(place);
                if let Some(port) = &mut self.ports[n] {
                    changed |= port.mux(active, ready, now);
                }
            }
            if !changed {
                break;
            }
        }
        for port in self.ports.iter_mut().flatten() {
            let (id, enabled) = (port.id, port.enabled());
            let here = port.actor.state.has(State::SYNCHRONIZATION);
            let there = port.partner.state.has(State::SYNCHRONIZATION);
            if port.actor_churn.run(enabled, here, now) {
                self.events.push_back(Event::Churned { port: id, partner: false });
            }
            if port.partner_churn.run(enabled, there, now) {
                self.events.push_back(Event::Churned { port: id, partner: true });
            }
            while let Some(transaction) = port.markers.lost(now, !enabled) {
                self.events.push_back(Event::MarkerLost { port: id, transaction });
            }
        }
        self.carry();
    }

    fn carry(&mut self) {
        let (mut up, mut takes, mut sends) = (LinkSet::EMPTY, LinkSet::EMPTY, LinkSet::EMPTY);
        let active = self.aggregators.active().and_then(|place| self.aggregators.get(place));
        if let Some(aggregator) = active {
            let alone = !aggregator.has_partner();
            for port in each(&self.ports, aggregator.ports).filter(|port| port.enabled()) {
                up = up.with(port.id);
                if alone || matches!(port.mux, MuxState::Collecting | MuxState::Distributing) {
                    takes = takes.with(port.id);
                }
                if alone || port.mux == MuxState::Distributing {
                    sends = sends.with(port.id);
                }
            }
        }
        self.collecting = takes;
        let distributing = if up.len() < usize::from(self.config.min_links) { LinkSet::EMPTY } else { sends };
        if core::mem::replace(&mut self.distributing, distributing) != distributing {
            self.events.push_back(Event::Distributing(distributing));
        }
    }
}

fn fresh(id: ChannelId, link: PortLink, config: &Config, system: Mac) -> Port {
    let state = State::AGGREGATION
        .put(State::ACTIVITY, config.lacp_active)
        .put(State::TIMEOUT, config.lacp_rate == LacpRate::Fast);
    let actor = PortInfo {
        system_priority: config.ad_actor_sys_prio,
        system,
        key: 0,
        port_priority: PORT_PRIORITY,
        port: u16::from(id.0) + 1,
        state,
    };
    Port {
        id,
        link,
        actor,
        partner: DEFAULT_PARTNER,
        selected: false,
        matched: false,
        ntt: false,
        receive: Default::default(),
        current_while: None,
        periodic: Default::default(),
        periodic_timer: None,
        mux: MuxState::Detached,
        wait_while: None,
        actor_churn: Default::default(),
        partner_churn: Default::default(),
        sent: Default::default(),
        aggregator: None,
        loopback: false,
        markers: Default::default(),
        stats: PortStats::default(),
    }
}
