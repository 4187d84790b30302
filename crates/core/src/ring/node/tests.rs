use super::*;
use crate::buffer::PolicyConfig;
use crate::ip::testing;
use crate::queue::DisciplineConfig;
use crate::ring::algorithm::Algorithm;
use crate::ring::control::{Heard, Keepalive, Kind, begin, seal};
use crate::ring::message;
use alloc::vec;

fn node(n: u8) -> NodeId {
    NodeId::new(n).unwrap()
}

fn ms(n: u64) -> Time {
    Time::from_millis(n)
}

const FLOW: FlowNumber = FlowNumber(0);

/// Node 1 of four whose links carry a byte in a microsecond; without control unless `set` says otherwise.
fn first(set: impl FnOnce(&mut Config)) -> Node<Vec<u8>> {
    let mut config = Config::new(node(1), 4, Rate::from_mbit(8));
    config.algorithm = Algorithm::Fifo;
    set(&mut config);
    Node::new(config, Time::ZERO, 1).unwrap()
}

fn still(config: &mut Config) {
    config.discovery = Some(discovery::Config::still(config.node, config.nodes, config.nominal));
}

/// Room for one packet.
fn small(config: &mut Config) {
    (config.transit_limit, config.station_threshold) = (Bytes::new(1_200), Bytes::new(1_200));
}

/// The head of a frame of best effort.
fn head(from: u8, to: u8, ringlet: Ringlet, ttl: u8) -> [u8; HEAD] {
    let path = Path { ingress: node(from), egress: node(to), ringlet, wrapped: false, ttl };
    Head { path, class: Class::C, shares: true }.encode()
}

fn events(node: &mut Node<Vec<u8>>) -> Vec<Event> {
    core::iter::from_fn(|| node.poll_event()).collect()
}

#[test]
fn what_comes_from_neighbours_is_counted_by_what_becomes_of_it() {
    let mut one = first(|_| {});
    let frames = [
        ([0x12, 0, 0, 0, 0, 0], Side::West),
        (head(4, 2, Ringlet::Zero, 3), Side::East),
        (head(4, 1, Ringlet::Zero, 3), Side::West),
        (head(4, 2, Ringlet::Zero, 3), Side::West),
        (head(4, 5, Ringlet::Zero, 3), Side::West),
        (head(1, 2, Ringlet::Zero, 3), Side::West),
        (head(4, 2, Ringlet::Zero, 1), Side::West),
    ];
    for (head, side) in frames {
        one.handle_data(ms(0), side, head, vec![0; 100]);
    }
    one.set_link(ms(0), Side::East, false);
    one.handle_data(ms(0), Side::East, head(2, 1, Ringlet::One, 3), vec![0; 100]);
    let counted = Stats {
        received: 8,
        malformed: 1,
        wrong_side: 1,
        delivered: 1,
        foreign: 1,
        own: 1,
        expired: 1,
        stranger: 1,
        cut: 1,
        ..Stats::default()
    };
    assert_eq!(one.stats(), counted, "what was in transit to the link that is down was cut");
    assert_eq!((one.held(), one.stats().dropped()), (1, 7));
    let delivery = one.poll_deliver().expect("the one for the station");
    assert_eq!((delivery.from, delivery.class, delivery.packet.len()), (node(4), Class::C, 100));
    assert_eq!(one.held(), 0);
}

#[test]
fn what_comes_from_the_station_is_counted_by_what_becomes_of_it() {
    let mut one = first(small);
    one.set_link(ms(0), Side::West, false);
    for to in [1, 5, 3, 3] {
        one.handle_station(ms(0), node(to), Class::C, FLOW, vec![0; 1000]);
    }
    one.set_link(ms(0), Side::East, false);
    one.handle_station(ms(0), node(3), Class::C, FLOW, vec![0; 1000]);
    let counted = Stats { station: 5, to_itself: 1, unknown: 1, unreachable: 2, station_full: 1, ..Stats::default() };
    assert_eq!(one.stats(), counted);
}

#[test]
fn a_packet_may_cross_as_many_links_as_the_ring_has_and_counts_with_what_its_link_adds() {
    let mut one = first(|_| {});
    one.set_overhead(Side::East, 40);
    one.handle_station(ms(0), node(3), Class::C, FLOW, vec![0; 1000]);
    assert_eq!(one.transit(Ringlet::Zero), Bytes::new(1040));
    let sent = one.poll_transmit(ms(0)).expect("the link is free");
    let path = Path { ingress: node(1), egress: node(3), ringlet: Ringlet::Zero, wrapped: false, ttl: 3 };
    assert_eq!((sent.side, Head::decode(sent.head).unwrap().path), (Side::East, path));
    assert_eq!((one.stats().sent, one.stats().sent_bytes, one.transit(Ringlet::Zero)), (1, 1040, Bytes::ZERO));
    assert_eq!(one.poll_timeout(), None, "nothing else is to be done");
    one.handle_station(ms(0), node(3), Class::C, FLOW, vec![0; 1000]);
    assert_eq!(one.poll_timeout(), Some(Time::from_nanos(1_040_000)), "the link is taken until then");
}

#[test]
fn class_a_without_a_reservation_is_counted_as_demoted() {
    let mut one = first(|config| config.algorithm = Algorithm::default());
    for class in [Class::A, Class::B, Class::C] {
        one.handle_station(ms(0), node(3), class, FLOW, vec![0; 1000]);
    }
    assert_eq!(one.stats().demoted, 1);
}

#[test]
fn events_that_nobody_asks_for_are_kept_up_to_256() {
    let mut one = first(|_| {});
    for n in 0..200 {
        one.set_link(ms(n), Side::East, n % 2 == 1);
    }
    let kept = events(&mut one);
    assert_eq!(kept.len(), 256);
    assert_eq!(
        kept[..3],
        [Event::Link { side: Side::East, up: false }, Event::Topology, Event::Link { side: Side::East, up: true }]
    );
    assert!(one.is_up(Side::East) && one.is_up(Side::West));
    one.set_link(ms(300), Side::West, false);
    assert!(one.is_up(Side::East) && !one.is_up(Side::West));
}

#[test]
fn only_another_ring_of_as_many_nodes_is_taken_from_the_driver() {
    let mut one = first(|_| {});
    let ring = |nodes: usize, mbit: u64| Topology::ring(nodes, Rate::from_mbit(mbit));
    for (topology, changes) in [(ring(4, 8), false), (ring(5, 4), false), (ring(4, 4), true), (ring(4, 4), false)] {
        one.set_topology(ms(0), &topology);
        assert_eq!(events(&mut one), if changes { vec![Event::Topology] } else { vec![] });
    }
    assert_eq!(one.topology(), &ring(4, 4));
}

#[test]
fn a_capacity_that_is_another_one_and_not_zero_is_taken() {
    let mut one = first(|_| {});
    let mbit = Rate::from_mbit;
    for (rate, changes) in [(mbit(8), false), (Rate::default(), false), (mbit(4), true), (mbit(4), false)] {
        one.set_capacity(ms(0), Side::East, rate);
        assert_eq!(events(&mut one), if changes { vec![Event::Topology] } else { vec![] }, "{rate:?}");
    }
    let capacity = |ringlet| one.topology().way(node(1), ringlet).capacity;
    assert_eq!((capacity(Ringlet::Zero), capacity(Ringlet::One)), (mbit(4), mbit(8)));
}

#[test]
fn a_node_without_discovery_knows_of_no_station_but_its_own() {
    let mut one = first(|config| config.announcement = b"mine".to_vec());
    assert_eq!((one.announced(node(1)), one.announced(node(2))), (Some(&b"mine"[..]), None));
    one.announce(ms(0), &[7; 600]);
    assert_eq!(one.announced(node(1)), Some(&[7; 512][..]));
    assert!(one.discovery().is_none() && first(still).discovery().is_some());
}

#[test]
fn what_the_algorithm_says_can_be_asked_for_and_a_change_of_it_seen() {
    let mut one = first(|config| config.algorithm = "dvsr:start=3".parse().unwrap());
    let quarter = |one: &Node<Vec<u8>>| one.fair(Ringlet::Zero, node(1)).expect("DVSR tells it");
    assert!((quarter(&one) - 0.25).abs() < 1e-3, "{}", quarter(&one));
    let limit = one.limit(Ringlet::Zero, node(3)).expect("so it limits").as_bits_per_sec();
    assert!(limit.abs_diff(2_000_000) < 2_000, "{limit}");
    let version = one.limits_version();
    one.set_capacity(ms(1), Side::East, Rate::from_mbit(4));
    assert!(one.limit(Ringlet::Zero, node(3)) < Some(Rate::from_mbit(2)) && one.limits_version() > version);
    assert_eq!(first(|_| {}).fair(Ringlet::Zero, node(1)), None);
}

/// A second in which twice as much comes from the station as its link carries, and what of it left.
fn crowded(tos: u8, set: impl FnOnce(&mut Config)) -> (Node<Vec<u8>>, Vec<Vec<u8>>) {
    let mut one = first(|config| {
        config.algorithm = Algorithm::default();
        set(config);
    });
    let mut packet = testing::udp4(1, 2, 3, 4, &[0; 966]);
    packet[1] = tos;
    testing::seal4(&mut packet);
    let mut sent = vec![];
    for n in 0..1000 {
        for flow in [1, 2] {
            one.handle_station(ms(n), node(3), Class::C, FlowNumber(flow), packet.clone());
        }
        one.handle_timeout(ms(n));
        sent.extend(core::iter::from_fn(|| one.poll_transmit(ms(n))).map(|sent| sent.packet));
    }
    let stats = one.stats();
    assert_eq!(stats.station, stats.sent + one.held() as u64 + stats.dropped(), "each is somewhere: {stats:?}");
    (one, sent)
}

#[test]
fn what_a_policy_drops_and_marks_is_counted_by_the_reason() {
    let (one, _) = crowded(0, |config| config.station_policy = "codel".parse().unwrap());
    assert!(one.stats().station_standing > 10 && one.stats().station_marked == 0, "{:?}", one.stats());
    let (one, sent) = crowded(2, |config| {
        config.station_policy = "codel".parse().unwrap();
        config.station_limit = Bytes::new(4_000_000);
    });
    let marked = sent.iter().filter(|packet| packet[1] & 3 == 3).count() as u64;
    let stats = one.stats();
    assert!(marked > 10, "{marked}");
    assert_eq!((stats.station_marked, stats.station_standing, stats.station_full), (marked, 0, 0));
    let (one, _) = crowded(0, |config| {
        (config.station_discipline, config.station_policy) = (DisciplineConfig::Sfq, PolicyConfig::LongestQueue);
        config.station_limit = Bytes::new(20_000);
    });
    assert!(one.stats().station_full > 900 && one.stats().station_standing == 0, "{:?}", one.stats());
}

/// A message about the data of `of`, from `from`, that says nothing.
fn fairness(of: Ringlet, from: u8) -> Vec<u8> {
    let mut frame = vec![];
    begin(&mut frame, Kind::Fairness, node(from));
    frame.push(of as u8);
    seal(&mut frame);
    frame
}

#[test]
fn messages_of_another_ringlet_or_node_or_over_a_link_that_is_down_are_from_nobody_who_could_send_them() {
    let cases = [
        (Ringlet::Zero, 2, true, Refused::Malformed),
        (Ringlet::One, 2, true, Refused::Sender),
        (Ringlet::Zero, 4, true, Refused::Sender),
        (Ringlet::Zero, 2, false, Refused::Sender),
    ];
    for (of, from, up, reason) in cases {
        let mut one = first(|config| config.algorithm = Algorithm::default());
        one.set_link(ms(1), Side::East, up);
        events(&mut one);
        one.handle_control(ms(1), Side::East, &fairness(of, from));
        assert_eq!(events(&mut one), [Event::Refused { side: Side::East, reason }]);
        let mut counted = [0; 4];
        counted[reason.index()] = 1;
        let stats = one.stats();
        assert_eq!((stats.control_received, stats.control_refused, stats.fairness_refused), (1, 1, counted));
    }
}

/// A packet of 100 bytes on the wire that passes node 1 or 2.
fn pass(one: &mut Node<Vec<u8>>, now: Time, from: u8, to: u8) {
    one.handle_data(now, Side::West, head(from, to, Ringlet::Zero, 3), vec![0; 94]);
}

#[test]
fn packets_that_a_new_limit_finds_due_count_as_arrivals() {
    let mut two = first(|config| (config.node, config.algorithm) = (node(2), Algorithm::Explicit));
    let message = |sequence: u32, rate: u16| {
        let (kind, bits) = (message::Kind::Explicit, message::Bits::Sixteen);
        let mut body = vec![];
        message::encode(message::Head { kind, bits, originator: node(1), sequence }, &[rate; 4], &mut body);
        let mut frame = vec![];
        begin(&mut frame, Kind::Fairness, node(3));
        frame.push(Ringlet::Zero as u8);
        frame.extend_from_slice(&body);
        seal(&mut frame);
        frame
    };
    // The second is due a millisecond after the first.
    for _ in 0..2 {
        two.handle_station(ms(0), node(4), Class::C, FLOW, vec![0; 994]);
    }
    two.handle_control(ms(2), Side::East, &message(1, u16::MAX));
    two.handle_control(ms(4), Side::East, &message(2, u16::MAX / 2));
    assert_eq!(two.limit(Ringlet::Zero, node(4)), Some(Rate::from_bits_per_sec(3_999_938)));
    for _ in 0..5 {
        pass(&mut two, ms(5), 1, 4);
    }
    two.handle_control(ms(6), Side::East, &message(3, u16::MAX / 2));
    // In two milliseconds half a link of its own, and a quarter that passes: it may have what that leaves.
    let fair = two.fair(Ringlet::Zero, node(2)).expect("it is told");
    assert!((fair - 0.75).abs() < 1e-4, "{fair}");
}

#[test]
fn a_limit_that_lets_nothing_in_is_no_arrival() {
    // A packet of the station every 2.7 intervals, and half a link that passes: measured well, they leave the fair rate where it is.
    let mut one = first(|config| config.algorithm = "dvsr:window=16".parse().unwrap());
    let mut found = vec![];
    for tick in 0..6000 {
        let now = Time::from_nanos(tick * 100_000);
        if tick % 2 == 0 {
            pass(&mut one, now, 4, 3);
        }
        if tick % 27 == 5 {
            one.handle_station(now, node(3), Class::C, FLOW, vec![0; 994]);
        }
        one.handle_timeout(now);
        while one.poll_transmit(now).is_some() {}
        if tick > 3000 {
            found.extend(one.fair(Ringlet::Zero, node(1)));
        }
    }
    assert!(found.iter().all(|fair| *fair == found[0]), "{found:?}");
}

#[test]
fn control_frames_that_are_none_or_not_for_this_node_are_counted() {
    let mut keepalive = vec![];
    let heard = Some(Heard { node: node(1), instance: 1, number: 1 });
    let (nodes, east, settings, nominal) = (4, false, 0, Rate::from_mbit(8));
    Keepalive { node: node(3), nodes, east, instance: 9, number: 1, heard, settings, nominal }.encode(&mut keepalive);
    let broken = keepalive[..20].to_vec();
    // Without discovery what is broken is told, and what is for it is of no use; discovery tells of both.
    for (discovers, frame, told) in
        [(false, &broken, true), (false, &keepalive, false), (true, &broken, true), (true, &keepalive, true)]
    {
        let mut one = first(|config| {
            if discovers {
                config.discovery = Some(discovery::Config::new(config.node, config.nodes, config.nominal));
            }
        });
        one.set_link(ms(1), Side::East, true);
        events(&mut one);
        one.handle_control(ms(1), Side::East, frame);
        let control = |event: &Event| matches!(event, Event::Control { side: Side::East, .. });
        assert_eq!(events(&mut one).iter().filter(|event| control(event)).count(), usize::from(told));
        let counted = one.discovery().map_or(0, |discovery| discovery.stats().refused.iter().sum());
        assert_eq!(counted, u64::from(discovers));
        assert_eq!((one.stats().control_received, one.stats().control_refused), (1, 1));
    }
}

#[test]
fn control_frames_that_find_no_room_at_a_link_that_takes_none_are_counted() {
    let mut one = first(still);
    for side in Side::BOTH {
        one.set_link(ms(0), side, true);
        one.set_blocked(ms(0), side, true);
    }
    for n in 0..600_u64 {
        one.announce(ms(100 + 10 * n), &n.to_be_bytes());
        assert_eq!(one.poll_control(ms(100 + 10 * n)), None);
    }
    let made = one.discovery().map_or(0, |discovery| discovery.stats().sent);
    assert_eq!(one.stats().control_overflow, made - 2 * 512, "as many wait at each link");
    for side in Side::BOTH {
        one.set_blocked(ms(7000), side, false);
    }
    let mut now = ms(7000);
    while one.poll_timeout().is_some_and(|due| due < ms(9000)) {
        now = one.poll_timeout().map_or(now, |due| due.max(now));
        one.handle_timeout(now);
        while one.poll_control(now).is_some() {}
    }
    assert_eq!(one.stats().control_sent, 2 * 512);
}

#[test]
fn every_counter_has_a_name_of_its_own() {
    let mut one = first(small);
    for _ in 0..3 {
        one.handle_station(ms(0), node(3), Class::C, FLOW, vec![0; 1000]);
    }
    assert!(one.poll_transmit(ms(0)).is_some());
    let stats = one.stats();
    let counters: Vec<(&str, u64)> = stats.each().collect();
    let mut names: Vec<&str> = counters.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!((names.len(), counters.len()), (30, 30));
    let counted: Vec<_> = counters.into_iter().filter(|(_, count)| *count > 0).collect();
    assert_eq!(counted, [("station", 3), ("sent", 1), ("sent_bytes", 1006), ("station_full", 2)]);
}

#[test]
fn a_link_serves_when_it_has_a_carrier_and_both_ends_hear_one_another() {
    let mut listens = first(|config| {
        config.discovery = Some(discovery::Config::new(config.node, config.nodes, config.nominal));
    });
    listens.set_link(ms(1), Side::East, true);
    listens.set_capacity(ms(1), Side::East, Rate::from_mbit(4));
    assert!(!listens.is_up(Side::East), "nobody is heard");
    let mut still = first(still);
    assert!(!still.is_up(Side::East), "there is no carrier yet");
    still.set_link(ms(1), Side::East, true);
    assert!(still.is_up(Side::East) && !still.is_up(Side::West));
}

#[test]
fn reservations_that_are_more_than_a_link_carries_are_told_of_once() {
    let reserved = Rate::from_mbit(6);
    let side = Side::West;
    for capacity in [4, 6].map(Rate::from_mbit) {
        let mut one = first(|config| {
            config.capacity = [Rate::from_mbit(8), capacity];
            config.reservations = vec![wire::Reservation { to: Some(node(2)), class: Class::A, rate: reserved }];
        });
        let mut told = |act: &mut dyn FnMut(&mut Node<Vec<u8>>)| -> Vec<Rate> {
            act(&mut one);
            let news = events(&mut one).into_iter().filter_map(|event| match event {
                Event::Overbooked { side: Side::West, capacity, .. } => Some(capacity),
                Event::Overbooked { .. } => panic!("{event:?}"),
                _ => None,
            });
            news.collect()
        };
        let (less, least) = (Rate::from_mbit(3), Rate::from_mbit(2));
        assert_eq!(told(&mut |one| one.set_capacity(ms(1), Side::East, Rate::from_mbit(7))), [], "it has room");
        let steered = told(&mut |one| one.set_link(ms(1), Side::East, false));
        assert_eq!(steered, if capacity < reserved { vec![capacity] } else { vec![] }, "they are steered there");
        let slower = told(&mut |one| one.set_capacity(ms(1), side, less));
        assert_eq!(slower, if capacity < reserved { vec![] } else { vec![less] }, "the link became slower");
        assert_eq!(told(&mut |one| one.set_capacity(ms(1), side, least)), [], "it is known");
        assert_eq!(told(&mut |one| one.set_capacity(ms(1), side, reserved)), [], "it has room again");
        assert_eq!(told(&mut |one| one.set_capacity(ms(1), side, least)), [least], "and again none");
        assert_eq!(told(&mut |one| one.set_link(ms(1), Side::East, true)), [], "they go back");
    }
}

#[test]
fn what_waits_for_a_link_that_fails_is_turned_round_where_the_ring_wraps() {
    let mut one = first(|config| config.protection = crate::ring::protection::Protection::Wrap);
    one.handle_data(ms(0), Side::West, head(4, 2, Ringlet::Zero, 3), vec![0; 100]);
    one.set_link(ms(0), Side::East, false);
    let sent = one.poll_transmit(ms(0)).expect("by the other link");
    let path = Path { ingress: node(4), egress: node(2), ringlet: Ringlet::One, wrapped: true, ttl: 4 };
    assert_eq!((sent.side, Head::decode(sent.head).unwrap().path), (Side::West, path));
    assert_eq!((one.stats().wrapped, one.stats().cut), (1, 0));
}

#[test]
fn only_packets_whose_way_is_gone_are_steered_the_other_way() {
    let mut one = first(|config| config.algorithm = Algorithm::default());
    let waiting =
        |one: &Node<Vec<u8>>| (2..=3).map(|to| one.backlog(Ringlet::Zero, node(to)).as_u64()).collect::<Vec<_>>();
    for to in [2, 3, 3] {
        one.handle_station(ms(0), node(to), Class::C, FLOW, vec![0; 994]);
    }
    let mut topology = one.topology().clone();
    for (from, ringlet) in [(2, Ringlet::Zero), (3, Ringlet::One)] {
        let way = topology.way(node(from), ringlet);
        topology.set_way(node(from), ringlet, Way { up: false, ..way });
    }
    one.set_topology(ms(0), &topology);
    let routes: Vec<(Side, u8)> = core::iter::from_fn(|| {
        let now = one.poll_timeout()?.max(ms(0));
        one.handle_timeout(now);
        (now < ms(5)).then(|| one.poll_transmit(now)).map(|sent| sent.map(|sent| (sent.side, sent.head[4])))
    })
    .flatten()
    .collect();
    assert_eq!((waiting(&one), one.stats().steered), (vec![0, 0], 2));
    let by = |side: Side| routes.iter().filter(|(by, _)| *by == side).map(|(_, to)| *to).collect::<Vec<u8>>();
    assert_eq!((by(Side::East), by(Side::West)), (vec![2], vec![3, 3]));
}
