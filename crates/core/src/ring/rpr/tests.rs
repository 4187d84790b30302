//! The algorithm on a line of nodes, then message by message.

use super::line::{BUFFER, C, Line, PACKET, node};
use super::*;
use crate::ring::fairness::Station;
use crate::ring::topology::{UNIT_WEIGHT, Way};
use crate::rng::Rng;

type Flow = (usize, usize, f64, u32, u64);

const LOT: [Flow; 4] =
    [(1, 5, 622.0, PACKET, 0), (2, 5, 622.0, PACKET, 0), (3, 5, 622.0, PACKET, 0), (4, 5, 622.0, PACKET, 0)];
const PARALLEL: [Flow; 5] = [(1, 2, 622.0, PACKET, 0), LOT[0], LOT[1], LOT[2], LOT[3]];

fn ms(n: u64) -> Time {
    Time::from_millis(n)
}

/// Mbit/s of each flow from 200 to 400 ms.
fn steady(mode: Mode, config: &Config, nodes: usize, flows: &[Flow]) -> Vec<f64> {
    let mut line = Line::new(mode, config, nodes, flows);
    line.run(ms(200));
    let rates = line.rates(ms(400));
    assert_eq!(line.lost, 0, "transit is lossless");
    rates
}

fn assert_close(rates: &[f64], expected: &[f64], share: f64) {
    let close = rates.iter().zip(expected).all(|(rate, expected)| (rate - expected).abs() <= share * expected);
    assert!(close && rates.len() == expected.len(), "{rates:.1?}, not {expected:.1?}");
}

#[test]
fn in_the_parking_lot_aggressive_nodes_share_the_link_equally() {
    assert_close(&steady(Mode::Aggressive, &Config::aggressive(), 10, &LOT), &[155.5; 4], 0.01);
}

#[test]
fn in_the_parking_lot_conservative_nodes_share_equally_what_their_thresholds_leave() {
    let rates = steady(Mode::Conservative, &Config::conservative(), 10, &LOT);
    let sum: f64 = rates.iter().sum();
    assert!((0.8 * 622.0..0.95 * 622.0).contains(&sum), "{sum}");
    assert_close(&rates, &[sum / 4.0; 4], 0.01);
}

#[test]
fn with_a_limiter_for_each_egress_the_parallel_flow_takes_what_its_link_has_left() {
    let rates = steady(Mode::Aggressive, &Config::aggressive(), 10, &PARALLEL);
    assert_close(&rates, &[466.5, 155.5, 155.5, 155.5, 155.5], 0.01);
    let rates = steady(Mode::Conservative, &Config::conservative(), 10, &PARALLEL);
    let sum: f64 = rates[1..].iter().sum();
    assert_close(&rates[1..], &[sum / 4.0; 4], 0.01);
    let first = rates[0] + rates[1];
    assert!(
        (0.8 * 622.0..=0.95 * 622.0).contains(&first),
        "{first}: the first link is as full as its thresholds leave it"
    );
}

#[test]
fn with_one_limiter_for_all_the_parallel_flow_is_held_by_a_link_that_it_does_not_cross() {
    let config = Config { destination_queues: false, ..Config::aggressive() };
    let rates = steady(Mode::Aggressive, &config, 10, &PARALLEL);
    // It is told of congestion only while more than the fair rate of its packets cross node 2.
    assert!(rates[0] < 0.5 * 466.5, "{rates:.1?}");
    assert_close(&[rates[0]], &[rates[1]], 0.1);
}

#[test]
fn a_node_with_two_flows_through_a_congested_link_has_one_share_of_it() {
    let flows =
        [(1, 4, 622.0, PACKET, 0), (1, 5, 622.0, PACKET, 0), (2, 5, 622.0, PACKET, 0), (3, 5, 622.0, PACKET, 0)];
    let rates = steady(Mode::Aggressive, &Config::aggressive(), 6, &flows);
    assert_close(&[rates[0] + rates[1], rates[2], rates[3]], &[207.3; 3], 0.02);
    assert_close(&[rates[0]], &[rates[1]], 0.02);
}

#[test]
fn a_transit_queue_that_stops_the_station_too_early_does_not_stop_it_for_good() {
    let mut line = Line::new(Mode::Aggressive, &Config::aggressive(), 10, &LOT);
    line.threshold = BUFFER / 16;
    line.run(ms(200));
    let rates = line.rates(ms(400));
    assert!(rates.iter().all(|rate| *rate > 100.0), "{rates:.1?}");
}

#[test]
fn shares_follow_weights() {
    for (mode, config) in [(Mode::Aggressive, Config::aggressive()), (Mode::Conservative, Config::conservative())] {
        let mut line = Line::new(mode, &config, 10, &LOT);
        line.topology.set_weight(node(2), 2 * UNIT_WEIGHT);
        line.run(ms(200));
        let rates = line.rates(ms(400));
        let unit = rates.iter().sum::<f64>() / 5.0;
        assert_close(&rates, &[unit, 2.0 * unit, unit, unit], 0.02);
    }
}

#[test]
fn an_unbalanced_aggressive_flow_oscillates_for_ever_and_a_balanced_one_does_not() {
    let span = |demand: f64| {
        let flows = [(1, 3, 622.0, PACKET, 0), (2, 3, demand, PACKET, 0)];
        let mut line = Line::new(Mode::Aggressive, &Config::aggressive(), 3, &flows);
        line.run(ms(500));
        let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
        for tick in 1..=1500 {
            line.run(ms(500) + Span::from_micros(100 * tick));
            let limit = line.agents[0].limit(node(3)).unwrap().as_bits_per_sec() as f64 / 1e6;
            (least, most) = (least.min(limit), most.max(limit));
        }
        (least, most)
    };
    let (least, most) = span(50.0);
    assert!((48.0..52.0).contains(&least), "Proposition 2: down to the downstream rate, {least}");
    assert!((572.0..622.0).contains(&most), "and up to the spare capacity and the queue's filling, {most}");
    let (least, most) = span(622.0);
    assert!(least > 300.0 && most < 345.0, "{least} to {most}");
}

#[test]
fn an_unbalanced_conservative_flow_oscillates_from_half_the_link_up() {
    let flows = [(1, 3, 5.0, 100, 0), (2, 3, 600.0, PACKET, 0)];
    // A packet of 100 bytes every 160 us is not one in each interval of 100 us.
    let config = Config { active_window: 2, age_coef: 1, lp_coef: 1, ..Config::conservative() };
    let mut line = Line::new(Mode::Conservative, &config, 3, &flows);
    line.run(ms(300));
    let mut limits = Vec::new();
    for tick in 1..=1000 {
        line.run(ms(300) + Span::from_micros(100 * tick));
        limits.push(line.agents[1].limit(node(3)).unwrap().as_bits_per_sec() as f64 / 1e6);
    }
    let least = limits.iter().copied().fold(f64::INFINITY, f64::min);
    let most = limits.iter().copied().fold(0.0, f64::max);
    assert!((310.9..311.1).contains(&least), "Proposition 3: down to C/2, {least}");
    // Up to low_threshold less 5; without a filter a packet more or less in an interval is 80 Mbit/s.
    assert!((410.0..575.0).contains(&most), "{most}");
    assert!(limits.iter().filter(|limit| **limit < 311.1).count() > 10, "again and again");
}

/// A node of a ring of six, and what it sees.
struct Bench {
    topology: Topology,
    station: [Station; 6],
    transit: u64,
    /// Of the ring, bit/s.
    rate: u64,
    agent: Rpr,
    now: Time,
    sequence: u32,
}

impl Bench {
    fn new(mode: Mode) -> Bench {
        let config = match mode {
            Mode::Aggressive => Config { lp_coef: 1, age_coef: 1, ..Config::aggressive() },
            Mode::Conservative => Config { lp_coef: 1, age_coef: 1, ..Config::conservative() },
        };
        let mut bench = Bench {
            topology: Topology::ring(6, Rate::from_bits_per_sec(C as u64)),
            station: [Station::default(); 6],
            transit: 0,
            rate: C as u64,
            agent: Rpr::new(mode, &config, node(3), Ringlet::Zero, 6, Span::ZERO, Time::ZERO),
            now: Time::ZERO,
            sequence: 0,
        };
        bench.view(|agent, view| agent.handle_timeout(Time::ZERO, view));
        bench
    }

    fn view<T>(&mut self, run: impl FnOnce(&mut Rpr, &View<'_>) -> T) -> T {
        let rate = Rate::from_bits_per_sec(self.rate);
        let view = View {
            topology: &self.topology,
            node: node(3),
            ringlet: Ringlet::Zero,
            capacity: rate,
            nominal: rate,
            transit: self.transit,
            transit_limit: BUFFER,
            station: &self.station,
        };
        run(&mut self.agent, &view)
    }

    /// An interval in which these Mbit/s left, by ingress; the message at its end.
    fn interval(&mut self, rates: &[(usize, f64)]) -> Message {
        for (ingress, mbit) in rates {
            for _ in 0..10 {
                self.agent.on_sent(self.now, node(*ingress), node(6), (mbit * 1.25) as u32);
            }
        }
        self.now = self.agent.poll_timeout().unwrap();
        let now = self.now;
        self.view(|agent, view| agent.handle_timeout(now, view));
        let message = Message::read(self.agent.poll_control().unwrap()).unwrap();
        assert_eq!(self.agent.poll_control(), None, "one message an interval");
        message
    }

    fn message(&mut self, origin: usize, mbit: Option<f64>) -> Message {
        self.sequence += 1;
        let rate = mbit.map(|mbit| (mbit / 622.0 * WHOLE) as u16);
        Message { nodes: 6, origin: node(origin), sequence: self.sequence, rate }
    }

    fn take(&mut self, message: Message) -> Result<(), Refused> {
        let now = self.now;
        self.view(|agent, view| agent.handle_control(now, view, &message.write()))
    }

    fn hear(&mut self, origin: usize, mbit: Option<f64>) {
        let message = self.message(origin, mbit);
        assert_eq!(self.take(message), Ok(()));
    }

    fn limit(&self, egress: usize) -> f64 {
        self.agent.limit(node(egress)).unwrap().as_bits_per_sec() as f64 / 1e6
    }
}

fn told(message: Message) -> Option<(u8, f64)> {
    message.rate.map(|rate| (message.origin.number(), (f64::from(rate) / WHOLE * 6220.0 + 0.5) as u64 as f64 / 10.0))
}

#[test]
fn a_full_queue_or_more_than_the_link_carries_makes_an_aggressive_node_tell_its_own_rate() {
    let mut bench = Bench::new(Mode::Aggressive);
    assert_eq!(told(bench.interval(&[(3, 200.0), (1, 400.0)])), None, "the link has room");
    bench.transit = BUFFER / 8;
    assert_eq!(told(bench.interval(&[(3, 200.0), (1, 400.0)])), None, "at the threshold, not beyond it");
    bench.transit = BUFFER / 8 + 1;
    assert_eq!(told(bench.interval(&[(3, 200.0), (1, 400.0)])), Some((3, 200.0)));
    bench.transit = 0;
    assert_eq!(told(bench.interval(&[(3, 300.0), (1, 500.0)])), Some((3, 300.0)));
    assert_eq!(told(bench.interval(&[(3, 248.0), (1, 372.0)])), None);
}

#[test]
fn one_packet_more_in_an_interval_is_no_congestion_and_what_is_more_than_that_is() {
    // Packets of 513 and 526 bytes: one in each interval of 100 us is 41.0 and 42.1 Mbit/s.
    let mut bench = Bench::new(Mode::Aggressive);
    assert_eq!(told(bench.interval(&[(3, 248.0), (1, 411.0)])), None, "658.4 Mbit/s");
    let mut bench = Bench::new(Mode::Aggressive);
    assert_eq!(told(bench.interval(&[(3, 248.0), (1, 421.0)])), Some((3, 248.0)), "668.8 Mbit/s");
    // With the standard's filters a packet more adds as much less.
    let mut bench = Bench::new(Mode::Aggressive);
    bench.agent = Rpr::new(Mode::Aggressive, &Config::aggressive(), node(3), Ringlet::Zero, 6, Span::ZERO, Time::ZERO);
    bench.view(|agent, view| agent.handle_timeout(Time::ZERO, view));
    bench.agent.on_sent(Time::ZERO, node(1), node(6), 1000);
    bench.interval(&[]);
    let grain = bench.view(|agent, view| agent.grain(view));
    assert!((bench.agent.forward_rate() - grain).abs() < 1e-3, "{grain}");
}

#[test]
fn what_the_station_adds_and_what_is_forwarded_is_told_apart() {
    let mut bench = Bench::new(Mode::Aggressive);
    bench.interval(&[(3, 200.0), (1, 240.0), (2, 160.0)]);
    assert!((bench.agent.add_rate() - 200e6).abs() < 1.0, "{}", bench.agent.add_rate());
    assert!((bench.agent.forward_rate() - 400e6).abs() < 1.0, "{}", bench.agent.forward_rate());
}

#[test]
fn a_node_knows_its_own_fair_rate_and_that_of_the_node_that_it_hears_of() {
    let mut bench = Bench::new(Mode::Aggressive);
    let fair = |bench: &Bench| [3, 4, 5].map(|of| bench.agent.fair(node(of)).map(|share| (share * 622.0).round()));
    assert_eq!(fair(&bench), [Some(622.0), None, None], "nothing is congested");
    bench.hear(4, Some(100.0));
    bench.transit = BUFFER / 2;
    bench.interval(&[(3, 200.0), (1, 400.0)]);
    assert_eq!(fair(&bench), [Some(200.0), Some(100.0), None]);
}

#[test]
fn who_asks_for_little_is_given_it_and_the_rest_to_who_waits_though_timers_are_late() {
    let mut bench = Bench::new(Mode::Aggressive);
    // 8 Mbit/s for node 5, and more than there is for node 6; the timer is asked in every second interval.
    for n in 1..=1000 {
        bench.station[4] = Station { offered: 200 * n, waiting: 0 };
        bench.station[5] = Station { offered: 20_000 * n, waiting: 5000 };
        bench.hear(4, Some(100.0));
        bench.now += Span::from_micros(200);
        let now = bench.now;
        bench.view(|agent, view| agent.handle_timeout(now, view));
    }
    assert!((bench.limit(6) - 92.0).abs() < 0.1, "{}", bench.limit(6));
}

#[test]
fn intervals_are_those_of_the_rings_rate_as_it_is_now() {
    let mut bench = Bench::new(Mode::Aggressive);
    bench.rate = 100_000_000;
    let now = bench.now;
    bench.view(|agent, view| agent.handle_change(now, view));
    assert_eq!(bench.agent.poll_timeout(), Some(now + Span::from_micros(400)));
    assert_eq!(bench.limit(6), 100.0);
}

#[test]
fn a_nodes_weight_divides_what_it_tells_and_multiplies_what_it_hears() {
    let heavy = |mode| {
        let mut bench = Bench::new(mode);
        bench.topology.set_weight(node(3), 2 * UNIT_WEIGHT);
        bench
    };
    let mut bench = heavy(Mode::Aggressive);
    bench.transit = BUFFER / 2;
    assert_eq!(told(bench.interval(&[(3, 200.0), (1, 400.0)])), Some((3, 100.0)));
    assert_eq!(told(bench.interval(&[])), Some((3, 311.0)), "nobody is active: all is its own");
    let mut bench = heavy(Mode::Conservative);
    assert_eq!(told(bench.interval(&[(3, 200.0), (1, 400.0)])), Some((3, 207.3)));
    assert!((bench.limit(6) - 2.0 * 622.0 / 3.0).abs() < 1e-3, "{}", bench.limit(6));
    let mut bench = heavy(Mode::Aggressive);
    for _ in 0..2 {
        bench.hear(4, Some(100.0));
        assert!((bench.limit(6) - 200.0).abs() < 0.05, "{}", bench.limit(6));
        bench.interval(&[]);
        assert!((bench.limit(6) - 200.0).abs() < 0.05, "{}", bench.limit(6));
    }
}

#[test]
fn an_aggressive_node_that_adds_nothing_divides_its_link_and_does_not_stop_everybody() {
    let mut bench = Bench::new(Mode::Aggressive);
    bench.transit = BUFFER / 2;
    assert_eq!(told(bench.interval(&[(1, 300.0), (2, 322.0)])), Some((3, 311.0)));
    assert_eq!(told(bench.interval(&[(1, 600.0)])), Some((3, 622.0)), "node 2 is active no more");
}

#[test]
fn a_conservative_node_divides_its_link_then_changes_the_rate_by_the_load_once_a_round_trip() {
    let mut bench = Bench::new(Mode::Conservative);
    assert_eq!(told(bench.interval(&[(3, 200.0), (1, 288.0)])), None, "0.78 of the link");
    assert_eq!(told(bench.interval(&[(3, 200.0), (1, 300.0), (2, 100.0)])), Some((3, 207.3)));
    assert!((bench.limit(6) - 622.0 / 3.0).abs() < 1e-5, "its own packets too");
    for _ in 0..5 {
        assert_eq!(told(bench.interval(&[(3, 200.0), (1, 400.0)])), Some((3, 207.3)), "not before a round trip");
    }
    // 622/3 * 63/64
    assert_eq!(told(bench.interval(&[(3, 200.0), (1, 400.0)])), Some((3, 204.1)), "0.96: down");
    for _ in 0..20 {
        assert_eq!(told(bench.interval(&[(3, 200.0), (1, 380.0)])), Some((3, 204.1)), "0.93: as it is");
    }
    assert_eq!(told(bench.interval(&[(3, 100.0), (1, 380.0)])), None);
}

#[test]
fn a_station_that_transit_keeps_from_sending_makes_a_conservative_node_congested() {
    let mut bench = Bench::new(Mode::Conservative);
    bench.station[5] = Station { offered: 5000, waiting: 5000 };
    let told: Vec<_> = (0..14).map(|_| told(bench.interval(&[(1, 400.0)]))).collect();
    assert_eq!(told[..11], [None; 11], "not before the access timer's millisecond");
    assert_eq!(told[12], Some((3, 311.0)), "node 1 and its own");
    let mut bench = Bench::new(Mode::Conservative);
    assert!(
        (0..14).all(|_| bench.interval(&[(1, 400.0)]).rate.is_none()),
        "a station with nothing to send does not starve"
    );
}

#[test]
fn the_rate_of_a_conservative_node_that_starves_on_a_link_with_room_grows_once_a_round_trip() {
    let mut bench = Bench::new(Mode::Conservative);
    bench.station[5] = Station { offered: 5000, waiting: 5000 };
    let mut rates: Vec<f64> = (0..26).filter_map(|_| told(bench.interval(&[(1, 400.0)]))).map(|told| told.1).collect();
    rates.dedup();
    // From half the link on, each time a 64th of what lacks.
    assert_eq!(rates, [311.0, 315.9, 320.6]);
}

#[test]
fn a_station_waits_for_its_limiter_before_it_starves() {
    let mut bench = Bench::new(Mode::Conservative);
    bench.station[5] = Station { offered: 5000, waiting: 5000 };
    let mut intervals = 0;
    while !bench.agent.is_congested() {
        bench.hear(5, Some(1.0));
        bench.interval(&[(1, 400.0)]);
        intervals += 1;
        assert!(intervals < 200);
    }
    // At 1 Mbit/s two packets of 500 bytes take 8 ms.
    assert!((80..=83).contains(&intervals), "{intervals}");
}

#[test]
fn what_is_forwarded_is_the_least_rate_if_congested_and_the_received_one_if_transit_exceeds_it() {
    let mut bench = Bench::new(Mode::Aggressive);
    bench.hear(4, Some(100.0));
    assert_eq!(told(bench.interval(&[(3, 48.0), (1, 96.0)])), None, "transit is not the cause");
    bench.hear(4, Some(100.0));
    assert_eq!(told(bench.interval(&[(3, 48.0), (1, 104.0)])), Some((4, 100.0)));
    bench.transit = BUFFER / 2;
    bench.hear(4, Some(100.0));
    assert_eq!(told(bench.interval(&[(3, 48.0), (1, 300.0)])), Some((3, 48.0)));
    bench.hear(4, Some(100.0));
    assert_eq!(told(bench.interval(&[(3, 200.0), (1, 300.0)])), Some((4, 100.0)));
    bench.transit = 0;
    bench.hear(4, None);
    assert_eq!(told(bench.interval(&[(3, 200.0), (1, 300.0)])), None);
    bench.hear(2, Some(100.0));
    assert_eq!(told(bench.interval(&[(3, 48.0), (1, 300.0)])), None, "the neighbour upstream knows its own congestion");
}

#[test]
fn a_rate_holds_for_egresses_beyond_the_congested_node_and_null_lets_them_grow() {
    let mut bench = Bench::new(Mode::Aggressive);
    bench.hear(5, Some(62.2));
    let limits = |bench: &Bench| [4, 5, 6, 1].map(|egress| bench.limit(egress));
    let held = limits(&bench);
    assert_eq!(held[..2], [622.0, 622.0], "node 5 is the congested one: packets to it do not cross its link");
    assert!((held[2] - 62.2).abs() < 0.02 && held[2] == held[3]);
    bench.interval(&[]);
    assert_eq!(limits(&bench), held, "it holds while nothing else is heard");
    bench.hear(4, None);
    bench.interval(&[]);
    assert!((bench.limit(6) - (held[2] + (622.0 - held[2]) / 64.0)).abs() < 1e-5);
}

#[test]
fn a_message_that_comes_back_to_its_origin_says_nothing() {
    let mut bench = Bench::new(Mode::Aggressive);
    bench.hear(3, Some(10.0));
    bench.interval(&[]);
    assert_eq!([4, 5, 6, 1, 2].map(|egress| bench.limit(egress)), [622.0; 5]);
}

#[test]
fn what_nobody_renews_is_forgotten_after_ten_intervals() {
    let mut bench = Bench::new(Mode::Aggressive);
    bench.hear(4, Some(100.0));
    for _ in 0..10 {
        bench.interval(&[]);
    }
    assert!(bench.limit(6) < 101.0);
    bench.interval(&[]);
    assert!(bench.limit(6) > 101.0);
}

#[test]
fn foreign_stale_and_impossible_messages_are_refused_and_change_nothing() {
    let mut bench = Bench::new(Mode::Aggressive);
    bench.hear(4, None);
    let good = bench.message(5, Some(10.0));
    let refused = [
        (Message { nodes: 7, ..good }, Refused::Nodes),
        (Message { origin: node(7), ..good }, Refused::Sender),
        (Message { origin: node(5), rate: None, ..good }, Refused::Sender),
        (Message { sequence: 1, ..good }, Refused::Stale),
        (Message { sequence: 1_u32.wrapping_sub(5), ..good }, Refused::Stale),
    ];
    for (message, reason) in refused {
        assert_eq!(bench.take(message), Err(reason), "{message:?}");
        assert_eq!(bench.limit(6), 622.0);
    }
    let way = bench.topology.way(node(4), Ringlet::Zero);
    bench.topology.set_way(node(4), Ringlet::Zero, Way { up: false, ..way });
    assert_eq!(bench.take(good), Err(Refused::Sender), "behind a link that is down");
    bench.topology.set_way(node(4), Ringlet::Zero, way);
    assert_eq!(bench.take(good), Ok(()));
    assert_eq!(bench.take(good), Err(Refused::Stale), "twice");
}

#[test]
fn a_forged_sequence_number_blocks_the_neighbour_for_ten_intervals_at_most() {
    let mut bench = Bench::new(Mode::Aggressive);
    let forged = Message { sequence: 0x7000_0000, ..bench.message(5, Some(1.0)) };
    assert_eq!(bench.take(forged), Ok(()));
    for interval in 0..=10 {
        let good = bench.message(4, None);
        assert_eq!(bench.take(good), Err(Refused::Stale), "{interval}");
        bench.interval(&[]);
    }
    bench.hear(4, None);
    bench.interval(&[]);
    assert!(bench.limit(6) > 1.1);
}

#[test]
fn a_link_that_goes_down_ends_what_was_heard_over_it() {
    let mut bench = Bench::new(Mode::Aggressive);
    bench.hear(5, Some(10.0));
    let way = bench.topology.way(node(4), Ringlet::Zero);
    bench.topology.set_way(node(4), Ringlet::Zero, Way { up: false, ..way });
    let now = bench.now;
    bench.view(|agent, view| agent.handle_change(now, view));
    bench.interval(&[]);
    assert!(bench.limit(6) > 10.1, "it grows");
}

#[test]
fn a_timer_that_is_late_makes_up_for_what_it_missed() {
    let (mut late, mut timely) = (Bench::new(Mode::Aggressive), Bench::new(Mode::Aggressive));
    for bench in [&mut late, &mut timely] {
        bench.hear(4, Some(100.0));
        bench.hear(4, None);
    }
    for _ in 0..8 {
        timely.interval(&[(1, 80.0), (3, 40.0)]);
    }
    for _ in 0..80 {
        late.agent.on_sent(late.now, node(1), node(6), 100);
        late.agent.on_sent(late.now, node(3), node(6), 50);
    }
    let now = timely.now;
    late.view(|agent, view| agent.handle_timeout(now, view));
    assert!((late.limit(6) - timely.limit(6)).abs() < 1e-3, "{} {}", late.limit(6), timely.limit(6));
    assert!((late.agent.forward_rate() - timely.agent.forward_rate()).abs() < 1.0);
    assert!((late.agent.add_rate() - timely.agent.add_rate()).abs() < 1.0 && timely.agent.add_rate() > 39e6);
    assert_eq!(late.agent.poll_timeout(), timely.agent.poll_timeout());
}

#[test]
fn whatever_comes_in_limits_stay_within_the_link() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        for mode in [Mode::Aggressive, Mode::Conservative] {
            let mut bench = Bench::new(mode);
            for _ in 0..300 {
                let mut below = |n: u64| (rng.next_u64() % n) as usize;
                let mut bytes = bench.message(1 + below(6), Some(1.0)).write();
                bytes[8..].copy_from_slice(&(below(0x1_0000) as u16).to_be_bytes());
                if below(4) == 0 {
                    bytes[below(10)] = below(256) as u8;
                }
                let length = if below(10) == 0 { below(11) } else { 10 };
                let now = bench.now;
                let _ = bench.view(|agent, view| agent.handle_control(now, view, &bytes[..length]));
                bench.transit = below(BUFFER + 1) as u64;
                bench.station[below(6)] = Station { offered: below(1 << 40) as u64, waiting: below(9000) as u64 };
                let (ingress, mbit) = (1 + below(6), below(623) as f64);
                bench.interval(&[(ingress, mbit)]);
                for egress in (1..=6).filter(|egress| *egress != 3) {
                    assert!(bench.limit(egress) <= 622.0, "seed {seed}");
                }
            }
        }
    }
}
