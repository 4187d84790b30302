//! Scenarios for tests of the engine.

#![allow(dead_code, unreachable_pub, reason = "each test file uses some of it")]

mod bonded;

pub use bonded::{UDP, bonded, channel, download, over_bond};

use fairspan_core::link::{Limit, Profile};
use fairspan_core::units::{Rate, Span, Time};
use fairspan_sim::model::{Card, Flow, Framing, Hop, HostCost, Link, Metrics, Node, Room, Scenario, Transport};
use fairspan_sim::results::Results;
use fairspan_sim::scenario::{File, ReadError};
use fairspan_sim::traffic::{Config, Sizes};
use fairspan_sim::world::World;

/// Nodes in a row, with a link from each to the next.
pub struct Line {
    pub scenario: Scenario,
}

impl Line {
    /// Links of these rates (bit/s; 0: unlimited) and delays (ms), queues of 1000 frames, one second.
    pub fn new(links: &[(u64, u64)]) -> Line {
        let node = |n: usize| Node { name: format!("n{n}"), cost: HostCost::default() };
        let links = links.iter().enumerate().map(|(n, &(rate, delay))| Link {
            name: format!("l{n}"),
            from: n as u32,
            to: n as u32 + 1,
            profile: if rate == 0 {
                Profile { delay: Span::from_millis(delay), ..Profile::default() }.into()
            } else {
                Profile::new(Rate::from_bits_per_sec(rate), Span::from_millis(delay)).into()
            },
            framing: Framing::None,
            card: Card::default(),
            medium: None,
        });
        let links: Vec<Link> = links.collect();
        Line {
            scenario: Scenario {
                title: "a line".to_string(),
                duration: Span::from_secs(1),
                warm_up: Span::ZERO,
                seed: 1,
                drift_ppm: 0,
                processing: Span::ZERO,
                partitions: 1,
                nodes: (0..=links.len()).map(node).collect(),
                links,
                bonds: Vec::new(),
                rings: Vec::new(),
                splits: Vec::new(),
                media: Vec::new(),
                reliable: Vec::new(),
                flows: Vec::new(),
                metrics: Metrics::default(),
            },
        }
    }

    /// Datagrams with 28 bytes of headers from one node to a later one.
    pub fn flow(&mut self, from: u32, to: u32, traffic: Config, start: Time, stop: Time) {
        self.scenario.flows.push(Flow {
            name: format!("f{}", self.scenario.flows.len()),
            from,
            to,
            path: (from..to).map(Hop::Link).collect(),
            back: Vec::new(),
            others: Vec::new(),
            start,
            stop,
            traffic,
            transport: Transport::Datagram { header: 28 },
            drift_ppm: None,
            dscp: 0,
            weight: 1,
            room: Room::default(),
            deadline: None,
        });
    }

    /// Queues of so many bytes at all links.
    pub fn queue_bytes(&mut self, bytes: u64) {
        for link in &mut self.scenario.links {
            link.profile.queue = Limit::Bytes(bytes);
        }
    }

    /// The same delay for all links.
    pub fn delay(&mut self, delay: Span) {
        for link in &mut self.scenario.links {
            link.profile.delay = delay;
        }
    }

    pub fn scenario_with(&self, seed: u64) -> Scenario {
        Scenario { seed, ..self.scenario.clone() }
    }

    pub fn run(&self, seed: u64) -> Results {
        let world = World::new(&self.scenario_with(seed)).expect("a valid scenario");
        world.finish().expect("packets are conserved")
    }
}

pub fn constant(rate: u64, size: u32) -> Config {
    Config::Constant { rate: Rate::from_bits_per_sec(rate), size: Sizes::Constant(size) }
}

pub fn poisson(rate: u64, size: u32) -> Config {
    Config::Poisson { rate: Rate::from_bits_per_sec(rate), size: Sizes::Constant(size) }
}

/// Of a scenario that names no file.
pub fn no_files(name: &str) -> Result<Vec<u8>, String> {
    Err(format!("no file {name} in this test"))
}

/// What is wrong with a scenario, one a line.
pub fn show(errors: &[ReadError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// A scenario that is right.
#[track_caller]
pub fn file(text: &str) -> File {
    File::parse("test.toml", text, &mut no_files).unwrap_or_else(|errors| panic!("{}", show(&errors)))
}
