//! What the engine costs: whole runs of small scenarios, and an event against the number of flows.
//!
//! `cargo bench -p fairspan-sim --bench engine`

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use fairspan_core::link::{Limit, Profile};
use fairspan_core::ring::Class;
use fairspan_core::rng::Rng;
use fairspan_core::units::{Rate, Span, Time};
use fairspan_sim::engine::calendar::Calendar;
use fairspan_sim::engine::event::Event;
use fairspan_sim::model::{
    Card, Crossing, Flow, Framing, Hop, HostCost, Link, Metrics, Node, Ring, Room, Scenario, Transport,
};
use fairspan_sim::traffic::{Config, Sizes};
use fairspan_sim::world::World;

fn main() {
    divan::main();
}

fn scenario(duration: Span, nodes: usize) -> Scenario {
    Scenario {
        title: String::new(),
        duration,
        warm_up: Span::ZERO,
        seed: 1,
        drift_ppm: 1000,
        processing: Span::ZERO,
        partitions: 1,
        nodes: (0..nodes).map(|n| Node { name: format!("n{n}"), cost: HostCost::default() }).collect(),
        links: Vec::new(),
        bonds: Vec::new(),
        rings: Vec::new(),
        splits: Vec::new(),
        media: Vec::new(),
        reliable: Vec::new(),
        flows: Vec::new(),
        metrics: Metrics::default(),
    }
}

fn link(scenario: &mut Scenario, from: u32, to: u32, rate: u64, delay: Span, queue: u64) -> u32 {
    let number = scenario.links.len();
    scenario.links.push(Link {
        name: format!("l{number}"),
        from,
        to,
        profile: Profile { queue: Limit::Bytes(queue), ..Profile::new(Rate::from_bits_per_sec(rate), delay) }.into(),
        framing: Framing::None,
        card: Card::default(),
        medium: None,
    });
    number as u32
}

fn flow(scenario: &mut Scenario, from: u32, to: u32, links: std::ops::Range<u32>, rate: u64, size: u32) {
    let number = scenario.flows.len();
    scenario.flows.push(Flow {
        name: format!("f{number}"),
        from,
        to,
        path: links.map(Hop::Link).collect(),
        back: Vec::new(),
        others: Vec::new(),
        start: Time::ZERO,
        stop: Time::MAX,
        traffic: Config::Constant { rate: Rate::from_bits_per_sec(rate), size: Sizes::Constant(size) },
        transport: Transport::Datagram { header: 28 },
        drift_ppm: None,
        dscp: 0,
        weight: 1,
        room: Room::default(),
        deadline: None,
    });
}

/// Ten nodes in a ring, of which four offer a whole link each to a fifth.
fn ring() -> Scenario {
    let mut scenario = scenario(Span::from_millis(500), 10);
    let (rate, delay) = (Rate::from_mbit(622), Span::from_micros(100));
    scenario.rings.push(Ring::new("r", (0..10).collect(), rate, delay));
    for from in 0..4 {
        flow(&mut scenario, from, 4, 0..0, 622_000_000, 1000);
        let way = Crossing { from: from as u8, to: 4, ringlet: None, class: Class::C };
        scenario.flows[from as usize].path = vec![Hop::Ring(0, way)];
    }
    scenario
}

/// Four saturated links in a row, a source into each, all to the end.
fn cbr_line() -> Scenario {
    let mut scenario = scenario(Span::from_secs(1), 5);
    for n in 0..4 {
        link(&mut scenario, n, n + 1, 622_000_000, Span::from_micros(100), 200_000);
    }
    for n in 0..4 {
        flow(&mut scenario, n, 4, n..4, 622_000_000, 1000);
    }
    scenario
}

/// Four saturated links side by side.
fn multipath() -> Scenario {
    let mut scenario = scenario(Span::from_millis(50), 2);
    for n in 0..4 {
        link(&mut scenario, 0, 1, 10_000_000_000, Span::from_micros(10), 200_000);
        flow(&mut scenario, 0, 1, n..n + 1, 10_000_000_000, 192);
    }
    scenario
}

/// So many sources, each over a link of its own into one that they share: a million packets a second in all.
fn many(flows: usize) -> Scenario {
    let mut scenario = scenario(Span::from_secs(100), flows + 2);
    let last = flows as u32 + 1;
    for n in 0..flows as u32 {
        link(&mut scenario, n, last - 1, 10_000_000_000, Span::from_micros(100), 1_000_000);
    }
    let shared = link(&mut scenario, last - 1, last, 10_000_000_000, Span::from_micros(100), 1_000_000);
    for n in 0..flows as u32 {
        flow(&mut scenario, n, last, n..n + 1, 8_000_000_000 / flows as u64, 1000);
        let flow = &mut scenario.flows[n as usize];
        flow.path.push(Hop::Link(shared));
        // Spread over the first 0.2 s.
        flow.start = Time::from_nanos(200_000_000 / flows as u64 * u64::from(n));
    }
    scenario
}

fn run(bencher: Bencher<'_, '_>, scenario: &Scenario) {
    let finish = |world: World| world.finish().map_or(0, |results| results.events);
    let world = || World::new(scenario).unwrap_or_else(|error| panic!("{error}"));
    let events = finish(world());
    bencher.counter(ItemsCount::new(events)).with_inputs(world).bench_values(|world| black_box(finish(world)));
}

#[divan::bench(sample_count = 15, sample_size = 1)]
fn line_of_622_mbit(bencher: Bencher<'_, '_>) {
    run(bencher, &cbr_line());
}

#[divan::bench(args = ["fifo", "dvsr", "rpr-am"], sample_count = 9, sample_size = 1)]
fn ring_hops(bencher: Bencher<'_, '_>, algorithm: &str) {
    let mut scenario = ring();
    scenario.rings[0].algorithm = algorithm.parse().unwrap_or_else(|error| panic!("{error}"));
    let world = World::new(&scenario).unwrap_or_else(|error| panic!("{error}"));
    let results = world.finish().unwrap_or_else(|error| panic!("{error}"));
    let hops: u64 = results.rings[0].links.iter().map(|way| way.packets).sum();
    bencher
        .counter(ItemsCount::new(hops))
        .with_inputs(|| World::new(&scenario).unwrap_or_else(|error| panic!("{error}")))
        .bench_values(World::finish);
}

#[divan::bench(sample_count = 15, sample_size = 1)]
fn multipath_40g(bencher: Bencher<'_, '_>) {
    run(bencher, &multipath());
}

/// Half a million events in the steady state.
#[divan::bench(args = [10, 100, 1000, 10_000, 100_000], sample_count = 5, sample_size = 1)]
fn flows(bencher: Bencher<'_, '_>, flows: usize) {
    const EVENTS: u64 = 500_000;
    let scenario = many(flows);
    bencher
        .counter(ItemsCount::new(EVENTS))
        .with_inputs(|| {
            let mut world = World::new(&scenario).unwrap_or_else(|error| panic!("{error}"));
            world.advance(Time::from_millis(600));
            world
        })
        .bench_values(|mut world| {
            world.advance_some(world.end(), EVENTS);
            world
        });
}

/// Take out the first event and put in another within a mean distance, with so many pending.
#[divan::bench(args = [4, 10, 30, 100, 1000, 10_000, 100_000, 1_000_000], sample_count = 10, sample_size = 1)]
fn calendar(bencher: Bencher<'_, '_>, pending: u64) {
    const TURNS: u64 = 200_000;
    bencher
        .counter(ItemsCount::new(TURNS))
        .with_inputs(|| {
            let (mut calendar, mut rng) = (Calendar::new(), Rng::new(1));
            for order in 0..pending {
                calendar.push(Event::new(Time::from_nanos(rng.below(100 * pending)), order, order as u32));
            }
            (calendar, rng)
        })
        .bench_values(|(mut calendar, mut rng)| {
            for order in pending..pending + TURNS {
                let Some(event) = calendar.pop(u64::MAX) else { break };
                let time = event.time() + Span::from_nanos(rng.below(200 * pending));
                calendar.push(Event::new(time, order, event.place()));
            }
            calendar
        });
}
