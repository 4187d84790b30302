//! A change of the ring at a node: ways, routes and reservations, and the packets whose way is gone.

use super::{Config, Event, Known, Node};
use crate::packet::Packet;
use crate::ring::fairness::Fairness;
use crate::ring::frame::Head;
use crate::ring::output_queue::Held;
use crate::ring::protection::{Fate, onward};
use crate::ring::{Class, NodeId, Ringlet, Side};
use crate::units::Time;

impl<P: Packet> Node<P> {
    /// The ring is another one now: ways, routes, reservations, agents, and the packets whose way is gone.
    pub(super) fn on_topology(&mut self, now: Time) {
        let Config { node, nodes, .. } = self.config;
        for side in Side::BOTH {
            let ringlet = side.ringlet();
            let topology = self.known.topology();
            let up_from = |from| topology.way(from, ringlet).up;
            let reach = (0..nodes).take_while(|&hops| up_from(topology.after(node, ringlet, hops))).count();
            let reserved = match &self.known {
                Known::Told(topology) => self.config.reserved(topology, ringlet, Class::A),
                Known::Discovered(discovery) => discovery.reserved(node, ringlet).a,
            };
            let exit = &mut self.exits[ringlet.index()];
            exit.up = reach > 0 && exit.mux.carrier();
            exit.reach = if exit.up { reach } else { 0 };
            let capacity = exit.mux.capacity();
            let overbooked = reserved > capacity;
            let is_news = overbooked && (!exit.overbooked || exit.reserved != reserved);
            (exit.reserved, exit.overbooked) = (reserved, overbooked);
            if is_news {
                self.tell(Event::Overbooked { side, reserved, capacity });
            }
        }
        for at in 0..nodes {
            let to = NodeId::at(at);
            let hops = |ringlet| self.known.topology().distance(node, to, ringlet);
            let mut ways = Ringlet::BOTH;
            ways.sort_by_key(|&ringlet| hops(ringlet));
            self.routes[at] = ways.into_iter().find(|&ringlet| self.is_whole(to, ringlet));
        }
        self.tell(Event::Topology);
        self.reroute(now);
        for ringlet in Ringlet::BOTH {
            self.consult(now, ringlet, |agent, view| agent.handle_change(now, view));
        }
    }

    /// Whether all links to `to` on `ringlet` are up.
    pub(super) fn is_whole(&self, to: NodeId, ringlet: Ringlet) -> bool {
        let hops = self.known.topology().distance(self.config.node, to, ringlet);
        hops > 0 && hops <= self.exits[ringlet.index()].reach
    }

    /// Gives packets whose way is gone another one: those of the station, and, where the ring wraps, those in transit to the
    /// gap.
    fn reroute(&mut self, now: Time) {
        let Config { node, nodes, protection, .. } = self.config;
        let cut = Ringlet::BOTH.map(|ringlet| self.exits[ringlet.index()].reach + 1 < nodes);
        for ringlet in Ringlet::BOTH.into_iter().filter(|ringlet| cut[ringlet.index()]) {
            let up = self.exits[ringlet.index()].up;
            for held in self.exits[ringlet.index()].mux.drain_transit() {
                let path = held.head.path;
                if path.ingress == node && !path.wrapped && !self.is_whole(path.egress, ringlet) {
                    self.resend(now, held);
                } else if up {
                    self.exits[ringlet.index()].mux.put_back(held);
                } else {
                    match onward(protection, nodes, self.ups(), path) {
                        Fate::Send(path) => self.forward(now, Head { path, ..held.head }, held.packet),
                        Fate::Strip(reason) => self.strip(reason),
                        Fate::Deliver => {}
                    }
                }
            }
            for to in (0..nodes).map(NodeId::at) {
                if !self.is_whole(to, ringlet) && self.exits[ringlet.index()].mux.station.has(to) {
                    for held in self.exits[ringlet.index()].mux.station.drain(now, to) {
                        self.resend(now, held);
                    }
                }
            }
        }
    }

    /// An own packet whose way is gone.
    fn resend(&mut self, now: Time, held: Held<P>) {
        let Held { head, flow, packet, .. } = held;
        let to = head.path.egress;
        match self.routes[to.index()] {
            Some(ringlet) => {
                self.stats.steered += 1;
                self.send(now, to, ringlet, head.class, flow, packet);
            }
            None => self.stats.unreachable += 1,
        }
    }
}
