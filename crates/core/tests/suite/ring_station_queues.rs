//! Stations whose queues have a discipline and a buffer policy of their own.

use crate::ring_network::{Network, Source, node};
use fairspan_core::buffer::PolicyConfig;
use fairspan_core::options::Family;
use fairspan_core::queue::DisciplineConfig;
use fairspan_core::ring::node::Config;
use fairspan_core::ring::{Class, discovery};
use fairspan_core::units::{Rate, Span, Time};

const MBIT: fn(u64) -> Rate = Rate::from_mbit;

fn with(algorithm: &str, discipline: DisciplineConfig, policy: PolicyConfig) -> impl Fn(&mut Config) {
    move |config| {
        config.algorithm = algorithm.parse().unwrap();
        (config.station_discipline, config.station_policy) = (discipline, policy);
    }
}

/// All disciplines, with the settings that they have by default.
fn disciplines() -> impl Iterator<Item = DisciplineConfig> {
    DisciplineConfig::MEMBERS.iter().map(|member| (member.plain)())
}

/// Three flows of unlike sizes share an egress, more than the link carries; another node's traffic crosses. On the way the
/// ring is cut, so that what waits goes the other way, and joined again.
#[test]
fn with_every_discipline_and_policy_a_station_serves_its_flows_in_order_and_loses_no_packet_without_a_name() {
    for algorithm in ["dvsr", "rpr-am", "rpr-cm:queue=single"] {
        for discipline in disciplines() {
            for policy in PolicyConfig::MEMBERS.iter().map(|member| (member.plain)()) {
                let what = format!("{algorithm} {discipline} {policy}");
                let mut ring = Network::new(4, MBIT(100), Span::from_micros(100), |config: &mut Config| {
                    with(algorithm, discipline, policy)(config);
                    config.discovery = Some(discovery::Config::new(config.node, config.nodes, config.nominal));
                });
                ring.run(Span::from_millis(150));
                let start = ring.now;
                let mut flow = |from, to, size, rate| {
                    let (from, to, by, class, end) =
                        (node(from), node(to), None, Class::C, start + Span::from_millis(250));
                    ring.source(Source { from, to, by, class, size, rate: MBIT(rate), start, end })
                };
                let mine = [flow(1, 2, 100, 20), flow(1, 2, 1500, 80), flow(1, 2, 700, 50)];
                let other = flow(4, 2, 1000, 60);
                ring.run(Span::from_millis(100));
                for flow in mine.into_iter().chain([other]) {
                    let account = &ring.accounts[flow];
                    assert!(account.delivered > 0 && account.disordered == 0, "{what}: {account:?}");
                }
                ring.assert_conserved();
                ring.set_link(1, false, true);
                ring.run(Span::from_millis(50));
                ring.set_link(1, true, true);
                ring.run(Span::from_millis(50));
                ring.assert_conserved();
                ring.run(Span::from_millis(500));
                ring.assert_conserved();
                assert_eq!(ring.transit_drops(), 0, "{what}");
                for n in 1..=4 {
                    assert_eq!(ring.at(n).held(), 0, "{what}: nothing is forgotten at node {n}");
                }
            }
        }
    }
}

/// What a gentle flow of 11 Mbit/s gets beside a greedy one of 190 Mbit/s to the same egress, in Mbit/s, and all together.
fn gentle(algorithm: &str, discipline: &str) -> (f64, f64) {
    let discipline: DisciplineConfig = discipline.parse().unwrap();
    let mut ring =
        Network::new(4, MBIT(100), Span::from_micros(100), with(algorithm, discipline, discipline.usual_buffer()));
    let source = |size, rate| {
        let (from, to, by, class, start, end) = (node(1), node(2), None, Class::C, Time::ZERO, Time::MAX);
        Source { from, to, by, class, size, rate: MBIT(rate), start, end }
    };
    // Neither time between packets is a multiple of the other: those of both meet a queue that is full, or nearly.
    ring.source(source(1000, 190));
    ring.source(source(1000, 11));
    ring.run(Span::from_millis(500));
    let rates = ring.received(Span::from_secs(1));
    ring.assert_conserved();
    (rates[1], rates[0] + rates[1])
}

#[test]
fn a_fair_discipline_keeps_a_gentle_flow_apart_from_a_greedy_one_to_the_same_egress_where_fifo_does_not() {
    for algorithm in ["dvsr", "rpr-am"] {
        let (fifo, all) = gentle(algorithm, "fifo");
        assert!(fifo < 9.0 && all > 90.0, "{algorithm}: {fifo} of {all}");
        for discipline in ["drr", "srr", "sfq", "stochastic"] {
            let (fair, all) = gentle(algorithm, discipline);
            assert!(fair > 10.8 && all > 90.0, "{algorithm} {discipline}: {fair} of {all}");
        }
    }
}

/// The ring's fairness among nodes goes by bytes, and what a station's discipline does with its share is its own affair.
#[test]
fn nodes_share_a_link_as_before_whatever_the_discipline_of_one_of_them() {
    for discipline in disciplines() {
        let mut ring = Network::new(4, MBIT(100), Span::from_micros(100), |config: &mut Config| {
            config.algorithm = "dvsr".parse().unwrap();
            if config.node == node(1) {
                with("dvsr", discipline, discipline.usual_buffer())(config);
            }
        });
        let source = |from, size, rate| {
            let (to, by, class, start, end) = (node(3), None, Class::C, Time::ZERO, Time::MAX);
            Source { from: node(from), to, by, class, size, rate: MBIT(rate), start, end }
        };
        for (from, size, rate) in [(1, 100, 60), (1, 1500, 60), (2, 1000, 90)] {
            ring.source(source(from, size, rate));
        }
        ring.run(Span::from_millis(300));
        let rates = ring.received(Span::from_secs(1));
        let (one, two) = (rates[0] + rates[1], rates[2]);
        assert!((one - two).abs() < 2.0 && one + two > 98.0, "{discipline}: {rates:?}");
    }
}
