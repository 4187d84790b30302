//! How many flows are active when packets come, and how many share their chains: what the paper's cost functions are of.
//!
//! Source: hybrid-gateways paper, 2.6.4. The packets pass the gateway of 2.5.2, which takes no time for anything but sending, with deficit
//! round robin at its output. There the flows that are active are counted whenever a packet comes, exactly; and at fixed
//! instants besides, for plots.

use super::meter::Spread;
use super::operations::Operations;
use super::sequence::Sequence;
use crate::flows::gateway::{self, Gateway};
use fairspan_core::flow::Activity;
use fairspan_core::queue::{ConfigError, DisciplineConfig};
use fairspan_core::units::{Bytes, Rate, Span, Time};

/// Instants at which flows are counted for plots.
const INSTANTS: u64 = 1000;

/// Active flows of a sequence.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Active {
    /// Packets that found so many active flows, their own among them.
    packets: Vec<u64>,
    /// Entries of the chains of all packets' flows, and packets whose chain had more than one.
    entries: u64,
    collisions: u64,
    /// Seconds since the first packet, as played, and the active flows then.
    pub samples: Vec<(f64, u32)>,
}

impl Active {
    /// Those of `sequence` at `link`, where at most `limit` packets wait. Chains belong to a table of `chains`.
    ///
    /// # Errors
    /// Names the setting of a queue that cannot work.
    pub fn of(sequence: &Sequence, link: Rate, limit: u32, chains: u32) -> Result<Active, ConfigError> {
        let config = gateway::Config {
            line: link,
            discipline: DisciplineConfig::Drr { quantum: Bytes::new(1500) },
            limit,
            ..gateway::Config::default()
        };
        let activity = Activity::new(&[Some(Span::ZERO)], chains, 1 << 30);
        let mut gateway = Gateway::new(&config, Span::ZERO, activity)?;
        let mut active = Active::default();
        let end = sequence.packets().last().map_or(0, |packet| packet.time);
        let interval = (end / INSTANTS).max(1);
        let mut sample = 0;
        for packet in sequence.packets() {
            while sample < packet.time {
                gateway.handle_timeout(Time::from_nanos(sample));
                active.samples.push((sample as f64 / 1e9, gateway.activity.counts(0).active));
                sample += interval;
            }
            let dropped = gateway.dropped;
            gateway.handle_packet(Time::from_nanos(packet.time), packet.length, packet.flow, || packet.chain);
            if gateway.dropped == dropped {
                active.count(gateway.active, gateway.chained);
            }
        }
        Ok(active)
    }

    fn count(&mut self, active: u32, chained: u32) {
        let place = active as usize;
        if self.packets.len() <= place {
            self.packets.resize(place + 1, 0);
        }
        self.packets[place] += 1;
        self.entries += u64::from(chained);
        self.collisions += u64::from(chained > 1);
    }

    /// Packets that came and had room.
    pub fn total(&self) -> u64 {
        self.packets.iter().sum()
    }

    /// Most flows that were active at once.
    pub fn most(&self) -> u32 {
        self.packets.len().saturating_sub(1) as u32
    }

    /// Active flows that a packet found, on average.
    pub fn mean(&self) -> f64 {
        let sum: u64 = (0..).zip(&self.packets).map(|(active, packets)| active * packets).sum();
        sum as f64 / self.total().max(1) as f64
    }

    /// Entries of the chain in which a packet's flow is searched, on average.
    pub fn entries(&self) -> f64 {
        self.entries.max(1) as f64 / self.total().max(1) as f64
    }

    /// The share of packets whose flow was alone in its chain.
    pub fn hash_efficiency(&self) -> f64 {
        1.0 - self.collisions as f64 / self.total().max(1) as f64
    }

    /// Operations for each packet.
    pub fn operations(&self, of: Operations) -> Spread {
        let total = self.total();
        let entries = self.entries();
        let cost = |active: usize| of.count(active as u32, entries);
        // More active flows never cost less, so the percentiles are those of the flows.
        let percentile = |share: f64| {
            let wanted = ((total as f64 * share).ceil() as u64).max(1);
            let mut so_far = 0;
            let place = self.packets.iter().position(|packets| {
                so_far += packets;
                so_far >= wanted
            });
            place.map_or(0.0, cost)
        };
        let sum: f64 = self.packets.iter().enumerate().map(|(active, packets)| cost(active) * *packets as f64).sum();
        Spread {
            mean: sum / total.max(1) as f64,
            median: percentile(0.5),
            p99: percentile(0.99),
            worst: percentile(1.0),
        }
    }
}
