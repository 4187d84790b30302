//! A link of a bond fails without a word, under one TCP connection and a thousand datagrams a second: the longest gap that the applications see.

use crate::common::{Line, constant};
use fairspan_core::bond::{ChannelConfig, Config};
use fairspan_core::link::{DuringOutage, Limit, Outage, Profile};
use fairspan_core::units::{Bytes, Rate, Span, Time};
use fairspan_sim::model::{self, Card, Framing, Hop, HostCost, Link, Metrics, Node, Scenario, Transport};
use fairspan_sim::results::Results;
use fairspan_sim::traffic;
use fairspan_sim::world::World;

/// A link, the same both ways: Mbit/s, and delay in milliseconds.
#[derive(Clone, Copy, Debug)]
struct Path(u64, u64);

/// In which directions the second link fails.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fails {
    Both,
    There,
    Back,
    Never,
}

/// Two hosts and a bond over these links, nobody having said any rate, with queues of 200 ms.
fn bonded(paths: &[Path], fails: Fails, outage: &Outage) -> Scenario {
    let mut scenario = Line::new(&[]).scenario;
    scenario.nodes = ["a", "b"].map(|name| Node { name: name.into(), cost: HostCost::default() }).into();
    scenario.metrics = Metrics { reordering: true, ..Metrics::default() };
    let mut config = Config::usual();
    let mut channels = vec![];
    for (n, Path(rate, delay)) in paths.iter().enumerate() {
        let mut channel = ChannelConfig::default();
        channel.overhead = 58;
        config.channels.push(channel);
        for way in 0..2u32 {
            let rate = Rate::from_mbit(*rate);
            let mut profile = Profile::new(rate, Span::from_millis(*delay));
            profile.queue = Limit::Bytes(rate.bytes_in(Span::from_millis(200)).as_u64());
            if n == 1 && (fails == Fails::Both || fails == [Fails::There, Fails::Back][way as usize]) {
                (profile.outages, profile.during_outage) = (vec![*outage], DuringOutage::Lose);
            }
            let name = format!("link{n}.{way}");
            let (framing, card) = (Framing::Bytes(14), Card::default());
            scenario.links.push(Link { name, from: way, to: 1 - way, profile, framing, card });
        }
        channels.push([vec![2 * n as u32], vec![2 * n as u32 + 1]]);
    }
    scenario.bonds.push(model::Bond { name: "bond".into(), ends: [0, 1], channels, config, policy_back: None });
    scenario
}

/// One TCP connection (CUBIC) and 1000 datagrams of 200 bytes a second from 5 s on; gaps count from `from` to `until`.
fn run(mut scenario: Scenario, from: Span, until: Span) -> Results {
    (scenario.duration, scenario.warm_up) = (until, from);
    let mut tcp = fairspan_sim::tcp::Config::preset("linux").unwrap();
    (tcp.send_buffer, tcp.receive_buffer) = (Bytes::new(32 << 20), Bytes::new(32 << 20));
    let tcp = Transport::Tcp(Box::new(tcp));
    let flow = |name: &str, traffic, transport| model::Flow {
        name: name.into(),
        from: 0,
        to: 1,
        path: vec![Hop::Bond(0, 0)],
        back: vec![Hop::Bond(0, 1)],
        start: Time::from_millis(5_000),
        stop: Time::from_millis(600_000),
        traffic,
        transport,
        drift_ppm: None,
        dscp: 0,
    };
    scenario.flows.push(flow("tcp", traffic::Config::Ftp { bytes: None, writes: None }, tcp));
    scenario.flows.push(flow("paced", constant(1_600_000, 200), Transport::Datagram { header: 28 }));
    World::new(&scenario).unwrap().finish().unwrap()
}

fn counter(results: &Results, end: usize, name: &str) -> u64 {
    results.bonds[end].counters.iter().find(|(counter, _)| counter == name).expect(name).1
}

const SECONDS: fn(u64) -> Span = Span::from_secs;

#[test]
fn a_silent_failure_under_load_is_a_short_gap_and_a_second_after_the_return_all_is_as_before() {
    let outage = Outage { start: SECONDS(10), length: SECONDS(3), every: None };
    for paths in [
        [Path(50, 20), Path(50, 20)],
        [Path(50, 20), Path(50, 70)],
        [Path(100, 10), Path(20, 10)],
        [Path(20, 10), Path(100, 10)],
    ] {
        for fails in [Fails::Both, Fails::There, Fails::Back] {
            let results = run(bonded(&paths, fails, &outage), Span::from_millis(9_500), SECONDS(14));
            let [tcp, paced] = [&results.flows[0], &results.flows[1]];
            let said = format!("{paths:?} {fails:?}: gaps of {:.3} and {:.3} s", tcp.gap, paced.gap);
            println!("{said}");
            // Where TCP's window is several times too large for what is left, it waits there, and loses some of it, perhaps twice: then it
            // waits for its own timeout.
            let most = if paths[1].0 > 2 * paths[0].0 || paths[1].1 > 2 * paths[0].1 { 1.5 } else { 0.5 };
            assert!(tcp.gap <= most && paced.gap <= 0.5, "{said}");
            assert_eq!(counter(&results, 1, "packets_missing"), 0, "{said}");
            assert_eq!(paced.reordering.as_ref().unwrap().ratio, 0.0, "{said}");
        }
        let goodput = |fails| {
            let results = run(bonded(&paths, fails, &outage), SECONDS(14), SECONDS(18));
            results.flows[0].goodput / 1e6
        };
        let (before, after) = (goodput(Fails::Never), goodput(Fails::Both));
        println!("{paths:?}: {after:.1} Mbit/s, and {before:.1} where nothing failed");
        assert!(after >= 0.95 * before, "{paths:?}: {after:.1} of {before:.1} Mbit/s");
    }
}
