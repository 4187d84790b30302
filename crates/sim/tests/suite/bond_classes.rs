//! Traffic classes in the world: what a call has of one, and what that takes from a download.

use crate::common::{Line, constant};
use fairspan_core::bond::{ChannelConfig, Config};
use fairspan_core::link::{Limit, Profile};
use fairspan_core::units::{Bytes, Rate, Span, Time};
use fairspan_sim::model::{self, Card, Framing, Hop, HostCost, Link, Metrics, Node, Scenario, Transport};
use fairspan_sim::results::Results;
use fairspan_sim::traffic;
use fairspan_sim::world::World;

/// Two hosts and a bond of links of these rates (Mbit/s) and delays (ms), with these classes at both ends. Rates are `known`, or measured.
fn bonded(paths: &[(u64, u64)], known: bool, classes: &str) -> Scenario {
    let mut scenario = Line::new(&[]).scenario;
    scenario.nodes = ["a", "b"].map(|name| Node { name: name.into(), cost: HostCost::default() }).into();
    scenario.metrics = Metrics { reordering: true, delay: true, ..Metrics::default() };
    let mut config = Config::usual();
    config.classes = classes.parse().unwrap();
    let mut channels = vec![];
    for (n, (rate, delay)) in paths.iter().enumerate() {
        let mut settings = ChannelConfig::default();
        (settings.name, settings.overhead) = (format!("link{n}"), 58);
        settings.rate = known.then_some(Rate::from_mbit(*rate));
        config.channels.push(settings);
        for way in 0..2u32 {
            let mut profile = Profile::new(Rate::from_mbit(*rate), Span::from_millis(*delay));
            profile.queue = Limit::Packets(1000);
            scenario.links.push(Link {
                name: format!("link{n}.{way}"),
                from: way,
                to: 1 - way,
                profile,
                framing: Framing::Bytes(14),
                card: Card::default(),
            });
        }
        channels.push([vec![2 * n as u32], vec![2 * n as u32 + 1]]);
    }
    scenario.bonds.push(model::Bond { name: "bond".into(), ends: [0, 1], channels, config, policy_back: None });
    scenario
}

fn flow(name: &str, from: u64, traffic: traffic::Config, transport: Transport) -> model::Flow {
    model::Flow {
        name: name.into(),
        from: 0,
        to: 1,
        path: vec![Hop::Bond(0, 0)],
        back: vec![Hop::Bond(0, 1)],
        start: Time::from_millis(from),
        stop: Time::from_millis(30_000),
        traffic,
        transport,
        drift_ppm: None,
        dscp: 0,
    }
}

/// A download by one TCP connection (CUBIC) from the second second on, and a call of 50 packets of 200 bytes a second, without a code point:
/// measured from the tenth second to the thirtieth.
fn download_and_call(paths: &[(u64, u64)], known: bool, classes: &str) -> Results {
    let mut scenario = bonded(paths, known, classes);
    (scenario.duration, scenario.warm_up) = (Span::from_secs(30), Span::from_secs(10));
    let mut tcp = fairspan_sim::tcp::Config::preset("linux").unwrap();
    (tcp.send_buffer, tcp.receive_buffer) = (Bytes::new(32 << 20), Bytes::new(32 << 20));
    let download = traffic::Config::Ftp { bytes: None, writes: None };
    scenario.flows.push(flow("tcp", 2000, download, Transport::Tcp(Box::new(tcp))));
    let call = flow("call", 300, constant(80_000, 200), Transport::Datagram { header: 28 });
    scenario.flows.push(model::Flow { back: vec![], ..call });
    World::new(&scenario).unwrap().finish().unwrap()
}

fn counter(results: &Results, name: &str) -> u64 {
    results.bonds[0].counters.iter().find(|(counter, _)| counter == name).expect(name).1
}

#[test]
fn a_call_with_a_latency_budget_has_the_fastest_links_delay_and_the_download_what_it_had() {
    let paths = [(50, 20), (50, 120)];
    for known in [false, true] {
        let without = download_and_call(&paths, known, "");
        let with = download_and_call(&paths, known, "name=calls\tprotocol=udp\tmode=prompt\tlatency=20ms");
        let median = |results: &Results| results.flows[1].delay.percentiles.expect("percentiles")[0] * 1e3;
        let goodput = |results: &Results| results.flows[0].goodput / 1e6;
        println!(
            "rates known {known}: the call's median delay {:.1} ms, without the class {:.1}; the download {:.1} Mbit/s, without {:.1}",
            median(&with),
            median(&without),
            goodput(&with),
            goodput(&without)
        );
        assert!(median(&with) <= 20.0 + 10.0 && median(&without) > 100.0);
        assert!(goodput(&with) >= 0.9 * goodput(&without));
        // What goes on the other link goes there by no class.
        assert_eq!(counter(&with, "class0.channel1"), 0);
        assert!(counter(&with, "class0.packets") > 1_400 && counter(&with, "class0.dropped") == 0);
        for flow in &with.flows {
            assert_eq!(flow.reordering.as_ref().unwrap().ratio, 0.0);
        }
    }
}
