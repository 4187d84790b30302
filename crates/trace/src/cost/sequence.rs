//! The packets of captures, as far as they are kept: instants, sizes, flows.
//!
//! Cost: 40 bytes for each packet, of which there are at most `most`, and 4 for how long its flow took to be read; others are counted
//! only. A flow is read several times with the clock beside it, and the shortest time counts.

use super::meter::{Meter, Spread};
use crate::capture::{CaptureError, Captured};
use crate::link_type::network;
use crate::skipped::{Reason, Tally};
use fairspan_core::flow::reading::Reader;
use fairspan_core::flow::{Definition, FlowHash, Reading};
use fairspan_core::queue::{self, End};
use fairspan_core::units::{Rate, Time};

/// What a flow is, and how many packets are kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// What a flow is.
    pub definition: Definition,
    /// Which headers tell it.
    pub reading: Reading,
    /// Chains of the hash table in which flows are searched.
    pub table_size: u32,
    /// Most packets that are kept.
    pub most: usize,
    /// The key that tells flows apart; it should be secret.
    pub secret: u64,
    /// The key by which flows belong to chains.
    pub seed: u64,
}

/// A packet that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// When it comes, in nanoseconds since the first.
    pub time: u64,
    /// Its flow.
    pub flow: u64,
    /// That one's chain in the hash table.
    pub chain: u32,
    /// Bytes on the wire, at least 1.
    pub length: u32,
    /// The hosts where it comes from and goes to, hashed.
    pub hosts: [u32; 2],
    /// Its class, 0 to 7.
    pub class: u8,
}

/// The packets of captures, as far as they are kept.
#[derive(Clone, Debug)]
pub struct Sequence {
    config: Config,
    reader: Reader,
    secret: FlowHash,
    chains: FlowHash,
    tally: Tally,
    first: Option<i64>,
    packets: Vec<Packet>,
    bytes: u64,
    /// Nanoseconds that reading each packet's flow took.
    classified: Vec<u32>,
}

/// How often a packet's flow is read: the shortest time counts.
const READINGS: u32 = 3;

impl Sequence {
    /// Nothing yet.
    pub fn new(config: Config) -> Sequence {
        Sequence {
            reader: Reader::new(config.reading, config.secret),
            secret: FlowHash::new(config.secret),
            chains: FlowHash::new(config.seed),
            tally: Tally::default(),
            first: None,
            packets: Vec::new(),
            bytes: 0,
            classified: Vec::new(),
            config,
        }
    }

    /// Takes a packet, whose time is not before the last one's.
    pub fn packet(&mut self, packet: &Captured<'_>, meter: &mut impl Meter) {
        let first = *self.first.get_or_insert(packet.time);
        let start = match network(packet.link_type, packet.bytes) {
            Ok(start) => start,
            Err(why) => return self.tally.skip(why.into()),
        };
        let ip = &packet.bytes[start..];
        let last = self.packets.last().map_or(0, |packet| packet.time);
        let time = (packet.time.saturating_sub(first).max(0) as u64).max(last);
        let Some(key) = self.reader.read(Time::from_nanos(time), ip) else {
            return self.tally.skip(Reason::of_header(ip));
        };
        self.tally.classify();
        if self.packets.len() >= self.config.most {
            return;
        }
        let definition = self.config.definition;
        let flow = definition.flow(&self.secret, &key);
        let chain = (definition.flow(&self.chains, &key) >> 32) as u32;
        let mut shortest = u64::MAX;
        for _ in 0..READINGS {
            let begin = meter.now();
            let key = self.reader.read(Time::from_nanos(time), std::hint::black_box(ip));
            std::hint::black_box(key.map(|key| definition.flow(&self.secret, &key)));
            shortest = shortest.min(meter.now().saturating_sub(begin));
        }
        self.classified.push(u32::try_from(shortest).unwrap_or(u32::MAX));
        let hosts = [End::Source, End::Destination].map(|end| self.secret.number(queue::host_of(ip, end)));
        let (length, class) = (packet.length.max(1), queue::class_of(ip));
        self.packets.push(Packet { time, flow, chain, length, hosts, class });
        self.bytes += u64::from(packet.length.max(1));
    }

    /// Counts what cannot be read.
    pub fn unreadable(&mut self, error: &CaptureError) {
        if let Some(reason) = Reason::of(error) {
            self.tally.skip(reason);
        }
    }

    /// How many packets there were, kept or not.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Those that are kept.
    pub fn packets(&self) -> &[Packet] {
        &self.packets
    }

    /// Bytes of those that are kept, on average; 1 where there are none.
    pub fn mean_length(&self) -> f64 {
        self.bytes.max(1) as f64 / self.packets.len().max(1) as f64
    }

    /// From the first packet to the last one that is kept, in seconds.
    pub fn span_s(&self) -> f64 {
        self.packets.last().map_or(0.0, |packet| packet.time as f64 / 1e9)
    }

    /// What reading a packet's flow took, in nanoseconds. `clock`: what reading the clock twice takes.
    pub fn classification(&self, clock: f64) -> Spread {
        let mean = self.classified.iter().map(|ns| (f64::from(*ns) - clock).max(0.0)).sum::<f64>();
        Spread::of(mean / self.classified.len().max(1) as f64, &mut self.classified.clone(), clock)
    }

    /// Plays the packets so much faster or slower that they load `link` to the share `load` from the first to the last. Gives how much
    /// faster. Packets of one instant stay as they are.
    pub fn pace(&mut self, link: Rate, load: f64) -> f64 {
        let span = self.span_s();
        if span <= 0.0 || load <= 0.0 {
            return 1.0;
        }
        let faster = link.as_bits_per_sec() as f64 * load * span / (8.0 * self.bytes as f64);
        self.packets.iter_mut().for_each(|packet| packet.time = (packet.time as f64 / faster).round() as u64);
        faster
    }
}
