//! DVSR's agent alone, told of arrivals packet by packet: what its fair rate makes of a queue and of too much load.

use fairspan_core::options::Share;
use fairspan_core::ring::dvsr::{Bits, Config, Dvsr};
use fairspan_core::ring::fairness::{Fairness, Station, View};
use fairspan_core::ring::topology::{Topology, Way};
use fairspan_core::ring::{NodeId, Ringlet};
use fairspan_core::units::{Rate, Span, Time};

const LINK: u64 = 1_000_000_000;
const INTERVAL: Span = Span::from_micros(500);
/// What the link carries in an interval, in bytes.
const WHOLE: f64 = LINK as f64 / 8.0 * 0.5e-3;
/// Of a packet, in bytes: 625 of them make an interval.
const PACKET: u64 = 100;

/// A node that sends nothing itself unless told otherwise, with so many upstream of it.
#[derive(Clone)]
struct Agent {
    dvsr: Dvsr,
    topology: Topology,
    station: Vec<Station>,
    transit_limit: u64,
    now: Time,
}

impl Agent {
    fn new(ingresses: usize) -> Agent {
        Agent::of(ingresses, &Config::default())
    }

    fn of(ingresses: usize, config: &Config) -> Agent {
        let nodes = ingresses + 1;
        Agent {
            dvsr: Dvsr::new(config, NodeId::at(0), Ringlet::Zero, nodes, INTERVAL, Time::ZERO),
            topology: Topology::ring(nodes, Rate::from_bits_per_sec(LINK)),
            station: vec![Station::default(); nodes],
            transit_limit: 1 << 30,
            now: Time::ZERO,
        }
    }

    /// The ring changes or a timer is due now, with so many bytes in transit.
    fn with(&mut self, transit: u64, act: impl FnOnce(&mut Dvsr, Time, &View<'_>)) {
        let view = View {
            topology: &self.topology,
            node: NodeId::at(0),
            ringlet: Ringlet::Zero,
            capacity: Rate::from_bits_per_sec(LINK),
            nominal: Rate::from_bits_per_sec(LINK),
            transit,
            transit_limit: self.transit_limit,
            station: &self.station,
        };
        act(&mut self.dvsr, self.now, &view);
    }

    /// The fair rate of the node at this index.
    fn fair(&self, index: usize) -> f64 {
        self.dvsr.fair(NodeId::at(index)).expect("a node of the ring")
    }

    /// An interval in which each ingress sends this share of the link, evenly, and after which so many bytes wait in transit: the fair
    /// rate as a share of the link.
    fn interval(&mut self, shares: &[f64], transit: u64) -> f64 {
        let sent: Vec<(f64, u64)> = shares.iter().map(|share| (*share, PACKET)).collect();
        self.packets(&sent, transit)
    }

    /// The same, where each ingress sends packets of its own size.
    fn packets(&mut self, sent: &[(f64, u64)], transit: u64) -> f64 {
        let mut packets = Vec::new();
        for (n, (share, size)) in sent.iter().enumerate() {
            let count = (share * WHOLE / *size as f64).round() as u64;
            packets.extend((1..=count).map(|packet| (packet * INTERVAL.as_nanos() / count, n)));
        }
        packets.sort_unstable();
        for (after, n) in packets {
            self.dvsr.on_arrival(self.now + Span::from_nanos(after), NodeId::at(n + 1), sent[n].1 as u32);
        }
        self.now += INTERVAL;
        self.with(transit, |dvsr, now, view| dvsr.handle_change(now, view));
        self.fair(0)
    }
}

#[test]
fn a_short_queue_drains_in_ten_intervals_and_a_long_one_by_three_thousandths_of_the_link() {
    // Four that always have something to send, held at the fair rate.
    let mut agent = Agent::new(4);
    let mut limit = 0.25_f64;
    for _ in 0..60 {
        limit = agent.interval(&[limit; 4], 0).min(1.0);
    }
    let fair = |agent: &Agent, transit: u64| agent.clone().interval(&[limit; 4], transit);
    // A packet of each of the four is always there, and four of each are not yet a queue.
    assert_eq!(fair(&agent, 16 * PACKET), fair(&agent, 0));
    assert!(fair(&agent, 16 * PACKET + 1) < fair(&agent, 0));
    // Once there was one, more than two of each are.
    agent.interval(&[limit; 4], 16 * PACKET + 1);
    let beyond = |transit: u64| (transit - 4 * PACKET) as f64 / WHOLE;
    let least = 8 * PACKET + 1;
    let held_back = |transit: u64| beyond(least) / 10.0 + 4.0 * (fair(&agent, least) - fair(&agent, transit));
    // Rates in messages are in steps of a 65,535th, and four are added up.
    let step = 4.0 * 2.0 / 65_535.0;
    for (transit, share) in
        [(1601, beyond(1601) / 10.0), (2200, beyond(2200) / 10.0), (2400, 0.003), (1_000_000, 0.003)]
    {
        let found = held_back(transit);
        assert!((found - share).abs() <= step, "{transit} bytes: {found:.5}, {share:.5} expected");
    }
}

#[test]
fn what_a_source_sends_when_it_begins_counts_until_the_link_has_a_tenth_too_much_to_carry() {
    let fair = |second: f64| {
        let mut agent = Agent::new(2);
        for _ in 0..60 {
            agent.interval(&[0.9, 0.0], 0);
        }
        agent.interval(&[0.9, second], 0)
    };
    // 1.09 and 1.11 times the link. What the second sends is what it wants, and the first may have the rest; or nobody knows what it
    // wants, and it may have half.
    let (inside, outside) = (fair(0.19), fair(0.21));
    assert!((inside - 0.81).abs() < 0.01, "{inside}");
    assert!((outside - 0.5).abs() < 0.01, "{outside}");
}

#[test]
fn a_link_that_comes_up_gives_each_node_its_least_part_for_as_many_intervals_as_are_set() {
    let mut config = Config::default();
    config.start = 3;
    let mut agent = Agent::of(4, &config);
    // Two of five nodes send; what they and the link's own node do not use is nobody's yet.
    let found: Vec<f64> = (0..6).map(|_| agent.interval(&[0.2, 0.2, 0.0, 0.0], 0)).collect();
    let (least, half) = (1.0 / 5.0, 1.0 / 2.0);
    for (n, fair) in found.iter().enumerate() {
        let expected = if n < 3 { least } else { half };
        assert!((fair - expected).abs() < 0.002, "interval {n}: {found:?}");
    }
}

#[test]
fn who_is_shut_out_while_transit_waits_is_counted_until_it_has_drained() {
    const QUEUE: u64 = 1_000_000;
    let mut config = Config::default();
    config.start = 3;
    let mut agent = Agent::of(4, &config);
    for _ in 0..60 {
        agent.interval(&[0.25; 4], 0);
    }
    agent.interval(&[0.25; 4], QUEUE);
    for _ in 0..10 {
        // The third and fourth send no packet any more, and the others take their parts.
        let fair = agent.interval(&[0.5, 0.5, 0.0, 0.0], QUEUE);
        assert!((fair - 0.25).abs() < 0.002, "{fair}");
    }
    // Nothing waits: they have stopped.
    let fair = [(); 3].map(|()| agent.interval(&[0.5, 0.5, 0.0, 0.0], 0));
    assert!((fair[2] - 0.5).abs() < 0.002, "{fair:?}");
    // And who never sent is not waited for, though a queue stands.
    let mut agent = Agent::of(4, &config);
    let fair = [(); 60].map(|()| agent.interval(&[0.5, 0.5, 0.0, 0.0], QUEUE));
    assert!((fair[59] - 0.5).abs() < 0.002, "{fair:?}");
}

#[test]
fn a_link_that_comes_up_begins_with_its_own_capacity_divided_by_all_weights() {
    let mut config = Config::default();
    config.start = 3;
    let changed = |dvsr: &mut Dvsr, now: Time, view: &View<'_>| dvsr.handle_change(now, view);
    let timeout = |dvsr: &mut Dvsr, now: Time, view: &View<'_>| dvsr.handle_timeout(now, view);
    // Who is told of the ring knows it at once; who is not looks at it when he is first asked.
    let looks: [fn(&mut Dvsr, Time, &View<'_>); 2] = [changed, timeout];
    for look in looks {
        let mut agent = Agent::of(4, &config);
        agent.topology.set_weight(NodeId::at(2), 3000);
        let half = Way { up: true, capacity: Rate::from_bits_per_sec(LINK / 2) };
        agent.topology.set_way(NodeId::at(1), Ringlet::Zero, half);
        agent.with(0, look);
        for (index, share) in [(0, 1.0 / 7.0), (1, 0.5 / 7.0), (2, 1.0 / 7.0), (4, 1.0 / 7.0)] {
            let fair = agent.fair(index);
            assert!((fair - share).abs() < 1e-4, "node {index}: {fair}");
        }
        assert_eq!(agent.dvsr.fair(NodeId::at(5)), None);
    }
}

#[test]
fn a_heavy_node_sends_no_more_than_its_link_carries() {
    let mut agent = Agent::new(4);
    agent.topology.set_weight(NodeId::at(0), 64_000);
    agent.interval(&[0.0; 4], 0);
    let limit = agent.dvsr.limit(NodeId::at(1)).expect("it is limited");
    assert!(limit.as_bits_per_sec().abs_diff(LINK) <= 1, "{limit:?}");
}

#[test]
fn what_is_spared_of_a_link_is_not_given() {
    let mut config = Config::default();
    config.spare = Share::from_millionths(50_000);
    let mut agent = Agent::of(4, &config);
    let mut fair = 0.0;
    for _ in 0..60 {
        fair = agent.interval(&[0.25; 4], 0);
    }
    // A control frame of 27 bytes in each interval is not either.
    let right = (0.95 - 27.0 / WHOLE) / 4.0;
    assert!((fair - right).abs() < 4e-5, "{fair}, not {right}");
}

#[test]
fn counts_of_less_than_half_an_interval_are_left_to_the_next() {
    let after = |span: Span| {
        let mut agent = Agent::new(2);
        let mut before = 0.0;
        for _ in 0..60 {
            before = agent.interval(&[0.8, 0.0], 0);
        }
        // The first goes on, and the second sends as much.
        agent.now += span;
        let count = (0.8 * WHOLE * span.as_nanos() as f64 / INTERVAL.as_nanos() as f64) as u64 / PACKET;
        for packet in 0..2 * count {
            agent.dvsr.on_arrival(agent.now, NodeId::at(1 + packet as usize % 2), PACKET as u32);
        }
        agent.with(0, |dvsr, now, view| dvsr.handle_change(now, view));
        (before, agent.fair(0))
    };
    let (before, fair) = after(Span::from_nanos(249_999));
    assert_eq!(before, fair);
    let (before, fair) = after(Span::from_micros(250));
    assert!(fair < before - 0.1, "{fair}, {before} before");
}

#[test]
fn a_station_of_which_more_than_two_packets_wait_wants_all_of_the_link() {
    let fair = |waiting: u64| {
        let mut agent = Agent::new(2);
        agent.station[1] = Station { offered: 0, waiting };
        let fair = [(); 60].map(|()| agent.interval(&[0.8, 0.0], 0));
        fair[59]
    };
    // Before it has sent any, packets are taken to have 1500 bytes.
    assert_eq!(fair(3000), fair(0));
    assert!((fair(3001) - 0.5).abs() < 0.002, "{}", fair(3001));
}

#[test]
fn a_queue_is_measured_by_the_sources_that_send_and_by_what_transit_has_room_for() {
    let mut agent = Agent::new(4);
    for shares in [[0.25; 4], [0.5, 0.5, 0.0, 0.0]] {
        for _ in 0..600 {
            agent.interval(&shares, 0);
        }
    }
    let fair = |agent: &Agent, transit: u64| agent.clone().interval(&[0.5, 0.5, 0.0, 0.0], transit);
    let none = fair(&agent, 0);
    assert!(fair(&agent, 8 * PACKET) == none && fair(&agent, 8 * PACKET + 1) < none, "two send, four packets each");
    agent.transit_limit = 1600;
    assert!(fair(&agent, 400) == none && fair(&agent, 401) < none, "a quarter of the room");
    let mut config = Config::default();
    config.start = 3;
    let mut agent = Agent::of(4, &config);
    for _ in 0..60 {
        agent.interval(&[0.25; 4], 0);
    }
    agent.transit_limit = 1600;
    let fair = |agent: &Agent, transit: u64| agent.clone().interval(&[0.25; 4], transit);
    let none = fair(&agent, 0);
    assert!(
        fair(&agent, 300) == none && fair(&agent, 301) < none,
        "three sixteenths, where links begin with the least"
    );
}

#[test]
fn without_a_start_with_the_least_part_who_stops_while_transit_waits_has_stopped() {
    let mut agent = Agent::new(4);
    for _ in 0..60 {
        agent.interval(&[0.25; 4], 0);
    }
    agent.interval(&[0.25; 4], 1_000_000);
    let fair = [(); 10].map(|()| agent.interval(&[0.5, 0.5, 0.0, 0.0], 1_000_000));
    assert!((fair[9] - 0.5).abs() < 0.005, "{fair:?}");
}

#[test]
fn a_link_over_which_nothing_goes_gives_all_of_it_however_heavy_those_are_that_send_nothing() {
    let mut agent = Agent::new(2);
    agent.topology.set_weight(NodeId::at(1), 3000);
    let fair = agent.interval(&[0.0; 2], 0);
    assert!(fair > 0.999, "{fair}");
}

#[test]
fn an_interval_without_a_packet_of_a_source_whose_packets_are_large_is_no_sign_that_it_stopped() {
    let mut agent = Agent::new(2);
    // One packet is nearly all that the link carries in an interval.
    agent.dvsr.on_arrival(agent.now, NodeId::at(1), 60_000);
    let fair = [(); 2].map(|()| agent.interval(&[0.0, 0.8], 0));
    assert!(fair.iter().all(|fair| (fair - 0.5).abs() < 0.001), "{fair:?}");
}

#[test]
fn a_heavy_node_counts_as_limited_as_far_below_its_part_as_a_step_of_a_message_makes_for_it() {
    let fair = |heavy: f64| {
        let mut config = Config::default();
        config.bits = Bits::Eight;
        let mut agent = Agent::of(2, &config);
        agent.topology.set_weight(NodeId::at(1), 3000);
        let fair = [(); 60].map(|()| agent.interval(&[heavy, 0.25], 0));
        fair[59]
    };
    // Three quarters are its part. Two steps are 0.8 % of a link, and for this node three times that.
    assert!((fair(0.735) - 0.25).abs() < 0.003, "{}", fair(0.735));
    assert!((fair(0.715) - 0.285).abs() < 0.003, "{}", fair(0.715));
}

#[test]
fn windows_begin_anew_where_the_fair_rate_changes_by_more_than_messages_show_and_a_source_may_be_off() {
    // A node of twice the weight and another one are held, and a third sends so many packets in an interval, and then another number.
    // Two intervals later the first sends three large packets in place of four: how many intervals pass until it is seen.
    let seen = |bits: Bits, third: [u64; 2]| {
        let mut config = Config::default();
        config.bits = bits;
        let mut agent = Agent::of(3, &config);
        agent.topology.set_weight(NodeId::at(1), 2000);
        let share = |packets: u64| (packets * PACKET) as f64 / WHOLE;
        for _ in 0..200 {
            agent.packets(&[(0.6, 9375), (0.3, PACKET), (share(third[0]), PACKET)], 0);
        }
        for _ in 0..2 {
            agent.packets(&[(0.6, 9375), (0.3, PACKET), (share(third[1]), PACKET)], 0);
        }
        let fair = [(); 20].map(|()| agent.packets(&[(0.45, 9375), (0.3, PACKET), (share(third[1]), PACKET)], 0));
        fair.iter().position(|fair| *fair > 0.35).expect("what it leaves is given to the others")
    };
    let long = seen(Bits::Sixteen, [63, 63]);
    assert_eq!(seen(Bits::Eight, [63, 63]), long);
    assert_eq!(seen(Bits::Sixteen, [63, 64]), long, "the first node's rate may be off by more than that");
    assert_eq!(seen(Bits::Eight, [63, 72]), long, "messages do not show that much");
    assert!(seen(Bits::Sixteen, [63, 113]) < long, "the first node is expected to follow");
}
