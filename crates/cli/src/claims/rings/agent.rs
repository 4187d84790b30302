//! Core's DVSR agent at the one resource of lemmas 1 to 3: told of arrivals in packets, asked for its fair rate after each interval.

use fairspan_core::ring::dvsr::{Config, Dvsr};
use fairspan_core::ring::fairness::{Fairness, Station, View};
use fairspan_core::ring::topology::Topology;
use fairspan_core::ring::{NodeId, Ringlet};
use fairspan_core::units::{Rate, Span, Time};

/// The lemmas' example: 1 Gbit/s and 0.5 ms.
const LINK: u64 = 1_000_000_000;
const INTERVAL: Span = Span::from_micros(500);
/// Of C T, in bytes.
const WHOLE: f64 = LINK as f64 / 8.0 * 0.5e-3;
/// Small, so that counts are nearly fluid: 625 of them in an interval.
const PACKET: f64 = 100.0;

/// The agent of a node that sends nothing itself, with its link.
pub(super) struct Agent {
    dvsr: Dvsr,
    topology: Topology,
    station: Vec<Station>,
    now: Time,
    /// Of each ingress: what does not make a packet yet, in bytes.
    rest: Vec<f64>,
}

impl Agent {
    /// For `ingresses` upstream of it.
    pub(super) fn new(ingresses: usize, config: &Config) -> Agent {
        let nodes = ingresses + 1;
        let here = NodeId::at(0);
        let dvsr = Dvsr::new(config, here, Ringlet::Zero, nodes, INTERVAL, Time::ZERO);
        Agent {
            dvsr,
            topology: Topology::ring(nodes, Rate::from_bits_per_sec(LINK)),
            station: vec![Station::default(); nodes],
            now: Time::ZERO,
            rest: vec![0.0; ingresses],
        }
    }

    /// An interval in which each ingress sent so much, evenly, and after which so much waits in all, in units of C T. Gives the fair
    /// rate for the next one as a share of the link.
    pub(super) fn interval(&mut self, arrived: &[f64], waiting: f64) -> f64 {
        // Packets in the order in which they come, an instant each.
        let mut packets: Vec<(u64, usize)> = Vec::new();
        for (n, (arrived, rest)) in arrived.iter().zip(&mut self.rest).enumerate() {
            let bytes = arrived * WHOLE;
            let count = ((*rest + bytes) / PACKET).floor();
            for packet in 1..=count as u64 {
                let share = (packet as f64 * PACKET - *rest) / bytes;
                packets.push(((share * INTERVAL.as_nanos() as f64) as u64, n));
            }
            *rest += bytes - count * PACKET;
        }
        packets.sort_unstable();
        for (after, n) in packets {
            self.dvsr.on_arrival(self.now + Span::from_nanos(after), NodeId::at(n + 1), PACKET as u32);
        }
        self.now += INTERVAL;
        let view = View {
            topology: &self.topology,
            node: NodeId::at(0),
            ringlet: Ringlet::Zero,
            capacity: Rate::from_bits_per_sec(LINK),
            nominal: Rate::from_bits_per_sec(LINK),
            transit: (waiting * WHOLE) as u64,
            transit_limit: 1 << 30,
            station: &self.station,
        };
        // A change makes it compute as a message does, without a ring that sends one.
        self.dvsr.handle_change(self.now, &view);
        self.dvsr.fair(NodeId::at(0)).unwrap_or(f64::NAN).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steady_ingresses_that_want_all_get_equal_parts_and_one_that_wants_little_gets_it() {
        let mut agent = Agent::new(4, &Config::default());
        let mut limit = 1.0_f64;
        for _ in 0..50 {
            let arrived = [limit, limit, limit, limit.min(0.1)];
            limit = agent.interval(&arrived, 0.0);
        }
        // The spare share and what messages take of the link.
        assert!((limit - 0.3).abs() < 0.002, "{limit}");
    }
}
