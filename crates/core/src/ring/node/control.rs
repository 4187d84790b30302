//! Control frames of a node: what comes, what goes, and what its fairness agents and discovery make of it.

use super::{Event, Exit, Known, Node};
use crate::packet::Packet;
use crate::ring::algorithm::Agent;
use crate::ring::control::{self, Kind};
use crate::ring::discovery::{self, Discovery};
use crate::ring::fairness::{Fairness, Refused, View};
use crate::ring::{Ringlet, Side};
use crate::units::{Rate, Time};

impl<P: Packet> Node<P> {
    /// A control frame came from the neighbour at `side`.
    pub fn handle_control(&mut self, now: Time, side: Side, frame: &[u8]) {
        self.stats.control_received += 1;
        match control::open(frame) {
            // Discovery counts it among its own, by reason, and tells of it seldom enough.
            Err(error) if self.known.discovered().is_none() => {
                self.refuse(Event::Control { side, reason: discovery::Refused::Malformed(error) });
            }
            Ok((Kind::Fairness, from, body)) => {
                // It travels against the data: from the node to which the ringlet leads.
                let ringlet = side.ringlet();
                let neighbour = self.topology().next(self.config.node, ringlet);
                let result = match body.split_first() {
                    Some((&of, _)) if usize::from(of) != ringlet.index() || from != neighbour => Err(Refused::Sender),
                    Some(_) if !self.exits[ringlet.index()].up => Err(Refused::Sender),
                    Some((_, message)) => {
                        self.consult(now, ringlet, |agent, view| agent.handle_control(now, view, message))
                    }
                    None => Err(Refused::Malformed),
                };
                if let Err(reason) = result {
                    self.stats.fairness_refused[reason.index()] += 1;
                    self.refuse(Event::Refused { side, reason });
                }
            }
            _ => {
                if let Some(discovery) = self.known.discovered() {
                    let refused = discovery.handle_frame(now, side, frame).is_err();
                    self.stats.control_refused += u64::from(refused);
                    self.on_discovery(now);
                } else {
                    self.stats.control_refused += 1;
                }
            }
        }
    }

    fn refuse(&mut self, event: Event) {
        self.stats.control_refused += 1;
        self.tell(event);
    }

    /// A control frame to be sent now, before all data.
    pub fn poll_control(&mut self, now: Time) -> Option<(Side, &[u8])> {
        if let Known::Discovered(discovery) = &mut self.known {
            while let Some(side) = discovery.poll_control(now, &mut self.sent) {
                if !self.exits[side.index()].mux.push_control(&self.sent) {
                    self.stats.control_overflow += 1;
                }
            }
        }
        for side in Side::BOTH {
            if self.exits[side.index()].mux.poll_control(now, &mut self.sent) {
                self.stats.control_sent += 1;
                return Some((side, &self.sent));
            }
        }
        None
    }

    /// Lets a ringlet's agent look and act; then takes its limits and its messages.
    pub(super) fn consult<R>(
        &mut self,
        now: Time,
        ringlet: Ringlet,
        act: impl FnOnce(&mut Agent, &View<'_>) -> R,
    ) -> R {
        let Node { config, known, exits, limits_version, .. } = self;
        let (exit, back) = split(exits, ringlet);
        let shared = exit.mux.capacity().as_bits_per_sec();
        let shared = shared.saturating_sub(exit.reserved.as_bits_per_sec());
        let shared = shared.saturating_sub(exit.committed.rate(now).as_bits_per_sec());
        let Exit { mux, agent, .. } = exit;
        let view = View {
            topology: known.topology(),
            node: config.node,
            ringlet,
            capacity: Rate::from_bits_per_sec(shared),
            nominal: config.nominal,
            transit: mux.transit(),
            transit_limit: mux.transit_limit(),
            station: mux.station.counts(),
        };
        let result = act(agent, &view);
        let mut arrived = 0u32;
        let limits = |to| agent.limit(to);
        if mux.station.set_limits(now, limits, |bytes| arrived = arrived.saturating_add(bytes)) {
            *limits_version += 1;
        }
        if arrived > 0 {
            agent.on_arrival(now, config.node, arrived);
        }
        mux.admit(now);
        while let Some(message) = agent.poll_control() {
            if back.up
                && let Some(frame) = back.mux.fairness()
            {
                control::begin(frame, Kind::Fairness, config.node);
                frame.push(ringlet as u8);
                frame.extend_from_slice(message);
                control::seal(frame);
            }
        }
        result
    }

    /// Takes what discovery tells.
    pub(super) fn on_discovery(&mut self, now: Time) {
        let mut changed = false;
        while let Some(event) = self.known.discovered().and_then(Discovery::poll_event) {
            match event {
                discovery::Event::Link { side, up } => {
                    changed = true;
                    self.tell(Event::Link { side, up });
                }
                discovery::Event::Topology => changed = true,
                discovery::Event::Announcement => self.tell(Event::Announcement),
                discovery::Event::Refused { side, reason } => self.tell(Event::Control { side, reason }),
            }
        }
        if changed {
            self.on_topology(now);
        }
    }
}

/// The exit of `ringlet`, and the one by which its control messages leave.
fn split<P>([zero, one]: &mut [Exit<P>; 2], ringlet: Ringlet) -> (&mut Exit<P>, &mut Exit<P>) {
    match ringlet {
        Ringlet::Zero => (zero, one),
        Ringlet::One => (one, zero),
    }
}
