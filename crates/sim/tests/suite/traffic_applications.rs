//! Applications over the whole world: two hosts, a link each way.

use fairspan_core::link::{Loss, Profile};
use fairspan_core::units::{Bytes, Rate, Span, Time};
use fairspan_sim::model::{Card, Flow, Framing, Hop, HostCost, Link, Metrics, Node, Room, Scenario, Transport};
use fairspan_sim::results::{Captured, Results};
use fairspan_sim::scenario::Metric;
use fairspan_sim::tcp;
use fairspan_sim::traffic::{Config, Sizes};
use fairspan_sim::world::World;

const RATE: u64 = 10_000_000;
const DELAY: Span = Span::from_millis(10);

fn scenario(traffic: Config, transport: Transport, seconds: u64) -> Scenario {
    let node = |name: &str| Node { name: name.into(), cost: HostCost::default() };
    let link = |name: &str, from, to| Link {
        name: name.into(),
        from,
        to,
        profile: Profile::new(Rate::from_bits_per_sec(RATE), DELAY).into(),
        framing: Framing::None,
        card: Card::default(),
        medium: None,
    };
    Scenario {
        title: "two hosts".into(),
        duration: Span::from_secs(seconds),
        warm_up: Span::ZERO,
        seed: 1,
        drift_ppm: 0,
        processing: Span::ZERO,
        partitions: 1,
        nodes: vec![node("a"), node("b")],
        links: vec![link("there", 0, 1), link("back", 1, 0)],
        bonds: vec![],
        rings: vec![],
        splits: vec![],
        media: vec![],
        reliable: vec![],
        flows: vec![Flow {
            name: "f".into(),
            from: 0,
            to: 1,
            path: vec![Hop::Link(0)],
            back: vec![Hop::Link(1)],
            others: Vec::new(),
            start: Time::from_millis(100),
            stop: Time::MAX,
            traffic,
            transport,
            drift_ppm: None,
            dscp: 0,
            weight: 1,
            room: Room::default(),
            deadline: None,
        }],
        metrics: Metrics { capture: vec![0, 1], ..Metrics::default() },
    }
}

fn run(scenario: &Scenario) -> (Results, Vec<Captured>) {
    let mut world = World::new(scenario).expect("a valid scenario");
    world.advance(world.end());
    let captured = world.take_captured();
    (world.finish().expect("packets are conserved"), captured)
}

fn over_tcp(preset: &str) -> Transport {
    Transport::Tcp(tcp::Config::preset(preset).expect("a preset").into())
}

/// Serialisation of `bytes` in seconds.
fn wire(bytes: f64) -> f64 {
    bytes * 8.0 / RATE as f64
}

#[test]
fn a_bounded_transfer_delivers_its_bytes_once_and_closes() {
    for preset in tcp::Config::PRESETS {
        let ftp = Config::Ftp { bytes: Some(Bytes::new(1_000_000)), writes: None };
        let mut settings = tcp::Config::preset(preset).expect("a preset");
        // ns-2's bound of 20 packets would not fill this link.
        settings.window_limit = 0;
        let (results, _) = run(&scenario(ftp, Transport::Tcp(settings.into()), 10));
        let flow = &results.flows[0];
        assert_eq!(flow.goodput * 10.0, 8e6, "{preset}");
        let transfers = flow.transfers.as_ref().expect("it ends");
        assert_eq!((transfers.completed, transfers.failed, transfers.bytes), (1, 0, 1_000_000), "{preset}");
        // Not faster than the link; and with slow start from any of the presets' windows not ten round trips slower.
        let least = wire(1_000_000.0) + 0.010;
        assert!((least..least + 0.35).contains(&transfers.duration.mean), "{preset}: {}", transfers.duration.mean);
        assert_eq!(results.conservation.in_flight, 0, "{preset}");
    }
}

#[test]
fn a_backlog_without_end_fills_the_link() {
    let ftp = Config::Ftp { bytes: None, writes: None };
    let (results, _) = run(&scenario(ftp, over_tcp("linux"), 20));
    // Segments of 1448 in packets of 1500; 19.9 of the 20 s less slow start.
    let full = RATE as f64 * 1448.0 / 1500.0 * 19.9 / 20.0;
    assert!((0.96..=1.0).contains(&(results.flows[0].goodput / full)), "{}", results.flows[0].goodput / full);
    assert!(results.flows[0].transfers.is_none());
}

#[test]
fn nothing_is_sent_after_a_backlogs_stop() {
    let mut scenario = scenario(Config::Ftp { bytes: None, writes: None }, over_tcp("rfc"), 3);
    scenario.flows[0].stop = Time::from_millis(1000);
    let (_, captured) = run(&scenario);
    // What was sent at 1 s at the latest waits at most for a queue of 1000 full packets.
    let last = captured.iter().map(|packet| packet.at).max().expect("packets");
    let bound = 1.0 + 0.010 + wire(1001.0 * 1500.0);
    assert!((1.0..bound).contains(&last.as_secs_f64()), "{}", last.as_secs_f64());
}

#[test]
fn writes_of_alternating_sizes_are_segments_of_alternating_sizes() {
    let ftp = Config::Ftp { bytes: None, writes: Some(Sizes::Alternating(vec![1000, 200])) };
    // A second: before the first loss, since what is sent again comes out of turn.
    let (results, captured) = run(&scenario(ftp, over_tcp("rfc"), 1));
    let data: Vec<u32> =
        captured.iter().filter(|packet| packet.link == 0 && packet.length > 100).map(|p| p.length).collect();
    // 20 of IP and 32 of TCP with timestamps.
    assert_eq!(data[..4], [1052, 252, 1052, 252]);
    let wrong = data.windows(2).filter(|pair| pair[0] + pair[1] != 1304).count();
    assert_eq!(wrong, 0, "of {}", data.len());
    assert_eq!(results.flows[0].tcp.as_ref().map(|tcp| tcp.retransmitted), Some(0));
    let full = RATE as f64 * 1200.0 / 1304.0 * 0.9;
    assert!((0.8..=1.0).contains(&(results.flows[0].goodput / full)), "{}", results.flows[0].goodput / full);
}

#[test]
fn writes_of_mixed_sizes_have_the_mixture_on_the_wire() {
    let sizes = Sizes::Mixture(vec![(1000, 1.0), (200, 3.0)]);
    let ftp = Config::Ftp { bytes: Some(Bytes::new(2_000_000)), writes: Some(sizes) };
    let (results, captured) = run(&scenario(ftp, over_tcp("rfc"), 10));
    let data: Vec<u32> =
        captured.iter().filter(|packet| packet.link == 0 && packet.length > 100).map(|p| p.length).collect();
    let large = data.iter().filter(|&&length| length == 1052).count();
    let small = data.iter().filter(|&&length| length == 252).count();
    // All but the last write, which is what is left.
    assert!(data.len() - large - small <= 1, "{} of {}", data.len() - large - small, data.len());
    let share = large as f64 / data.len() as f64;
    // 5000 draws: a deviation of 0.6 %; five.
    assert!((share - 0.25).abs() < 0.031, "{share}");
    assert_eq!(results.flows[0].transfers.as_ref().map(|t| (t.completed, t.bytes)), Some((1, 2_000_000)));
}

fn http(parallel: u32, files: &[u64], fetches: Option<u64>, think: Span) -> Config {
    let files = files.iter().map(|&file| Bytes::new(file)).collect();
    Config::Http { parallel, files, fetches, request: Bytes::new(200), think }
}

#[test]
fn a_fetch_takes_a_handshake_a_request_and_its_file() {
    let (results, captured) = run(&scenario(http(1, &[1000], Some(1), Span::ZERO), over_tcp("rfc"), 5));
    let transfers = results.flows[0].transfers.as_ref().expect("fetches");
    assert_eq!((transfers.completed, transfers.failed, transfers.bytes), (1, 0, 1000));
    // SYN (40 + 20 of options), its answer, the request behind an ACK, the file with its FIN: four ways.
    let duration = 0.040 + wire(60.0 + 60.0 + 52.0 + 252.0 + 1052.0);
    let found = transfers.duration.mean;
    assert!((found - duration).abs() < 1e-4, "{found} instead of {duration}");
    assert_eq!(results.flows[0].goodput * 5.0, 8000.0);
    // The receiver, at node 1, opened it.
    assert_eq!((captured[0].link, captured[0].length), (1, 60));
    assert_eq!(results.conservation.in_flight, 0);
}

#[test]
fn files_are_fetched_in_turn_and_counted() {
    let (results, _) = run(&scenario(http(3, &[500, 20_000, 3000], Some(30), Span::ZERO), over_tcp("linux"), 10));
    let transfers = results.flows[0].transfers.as_ref().expect("fetches");
    assert_eq!((transfers.completed, transfers.failed), (30, 0));
    assert_eq!(transfers.bytes, 10 * 23_500);
    assert_eq!(results.flows[0].goodput * 10.0, 8.0 * 235_000.0);
    // Three places without a pause: each is busy from the first beginning to its last fetch's end.
    let busy = transfers.duration.mean * 30.0 / 3.0;
    let longest = transfers.duration.max;
    assert!((busy..busy + longest).contains(&transfers.elapsed_s), "{} s, busy {busy} s", transfers.elapsed_s);
    let throughput = Metric::parse("flow.f.transfers.throughput").expect("a metric").value(&results).expect("a value");
    assert!((throughput - 8.0 * 235_000.0 / transfers.elapsed_s).abs() < 1e-6 * throughput);
    assert!(transfers.duration.percentiles.is_some());
}

#[test]
fn as_many_fetches_are_under_way_as_are_wanted() {
    // Files so small that a fetch is two round trips: 4 places make about 4 / 40 ms fetches a second.
    let (results, _) = run(&scenario(http(4, &[100], None, Span::ZERO), over_tcp("rfc"), 10));
    let completed = results.flows[0].transfers.as_ref().expect("fetches").completed as f64;
    // Each fetch is 40 ms and some wire time: 40.3 ms for one alone, and up to four in the queue.
    assert!((4.0 * 9.9 / 0.042..4.0 * 9.9 / 0.040).contains(&completed), "{completed}");
}

#[test]
fn thinking_time_is_added_between_fetches() {
    let think = Span::from_millis(160);
    let (results, _) = run(&scenario(http(10, &[100], None, think), over_tcp("rfc"), 60));
    let completed = results.flows[0].transfers.as_ref().expect("fetches").completed as f64;
    // 10 places with a cycle of 160 ms + 40.4 ms: about 2990; a cycle's deviation is 160 ms, so of 2990 cycles
    // 0.8 / sqrt(2990) = 1.5 %; four of them.
    let expected = 10.0 * 59.9 / 0.2004;
    assert!((completed / expected - 1.0).abs() < 0.06, "{completed} instead of {expected}");
}

#[test]
fn fetches_survive_loss_and_every_byte_is_counted_once() {
    let mut scenario = scenario(http(5, &[30_000], Some(100), Span::ZERO), over_tcp("linux"), 120);
    for link in &mut scenario.links {
        link.profile.loss = Loss::Independent(0.02);
    }
    let (results, _) = run(&scenario);
    let transfers = results.flows[0].transfers.as_ref().expect("fetches");
    assert_eq!((transfers.completed, transfers.bytes), (100, 3_000_000));
    assert_eq!(results.flows[0].goodput * 120.0, 24e6);
    assert!(results.flows[0].tcp.as_ref().is_some_and(|tcp| tcp.retransmitted > 20));
}

#[test]
fn a_fetch_whose_server_cannot_be_reached_fails_and_the_next_one_follows() {
    let mut settings = tcp::Config::preset("linux").expect("a preset");
    settings.syn_retries = 1;
    let transport = Transport::Tcp(settings.into());
    let mut scenario = scenario(http(2, &[1000], None, Span::ZERO), transport, 10);
    scenario.links[1].profile.loss = Loss::Independent(1.0);
    let (results, captured) = run(&scenario);
    let transfers = results.flows[0].transfers.as_ref().expect("fetches");
    // A SYN at once, one after 1 s, given up 2 s later (RFC 6298, 5.5): 3 s each, two places.
    assert_eq!((transfers.completed, transfers.failed, captured.len()), (0, 6, 0));
}

fn exchange(think: Span) -> Config {
    let (request, response) = (Sizes::Constant(100), Sizes::Alternating(vec![1000, 5000]));
    Config::RequestResponse { request, response, think, timeout: Span::from_millis(300) }
}

#[test]
fn an_exchange_of_datagrams_takes_both_ways() {
    let transport = Transport::Datagram { header: 28 };
    let (results, captured) = run(&scenario(exchange(Span::from_millis(80)), transport, 10));
    let transfers = results.flows[0].transfers.as_ref().expect("exchanges");
    let [small, large] = [1000.0, 5000.0].map(|size| 0.020 + wire(128.0 + 28.0 + size));
    assert!((transfers.duration.min - small).abs() < 1e-8 && (transfers.duration.max - large).abs() < 1e-8);
    // A cycle of two exchanges with a pause after each.
    let cycles = (9.9 / (small + large + 0.160)).floor() as u64;
    assert!((2 * cycles..=2 * cycles + 2).contains(&transfers.completed), "{} {cycles}", transfers.completed);
    assert_eq!((captured[0].link, captured[0].length), (0, 128));
    assert_eq!(transfers.failed, 0);
}

#[test]
fn an_exchange_of_datagrams_without_an_answer_fails_after_its_timeout() {
    let mut scenario = scenario(exchange(Span::ZERO), Transport::Datagram { header: 28 }, 10);
    scenario.links[1].profile.loss = Loss::Independent(1.0);
    let (results, _) = run(&scenario);
    let transfers = results.flows[0].transfers.as_ref().expect("exchanges");
    // 9.9 s of 300 ms each; the request of the last instant arrives no more.
    assert_eq!((transfers.completed, transfers.failed), (0, 33));
    assert_eq!((results.flows[0].sent, results.flows[0].received), (34, 33));
}

#[test]
fn exchanges_over_tcp_keep_one_connection_and_survive_loss() {
    let mut scenario = scenario(exchange(Span::from_millis(10)), over_tcp("linux"), 60);
    let (clean, captured) = run(&scenario);
    let transfers = clean.flows[0].transfers.as_ref().expect("exchanges");
    // At least one round trip and the pause each.
    assert!((1500..59_900 / 30).contains(&transfers.completed), "{}", transfers.completed);
    let synchronise = captured.iter().filter(|packet| packet.link == 0 && packet.bytes[33] & 2 != 0).count();
    assert_eq!((synchronise, transfers.failed), (1, 0));
    for link in &mut scenario.links {
        link.profile.loss = Loss::Gilbert { p: 0.01, r: 0.5, bad: 0.8, good: 0.0 };
    }
    let (lossy, _) = run(&scenario);
    let lossy = lossy.flows[0].transfers.clone().expect("exchanges");
    assert!(lossy.completed > 300 && lossy.completed < transfers.completed, "{}", lossy.completed);
}

#[test]
fn traffic_over_a_transport_that_cannot_carry_it_is_refused() {
    let refused =
        |traffic, transport| World::new(&scenario(traffic, transport, 1)).err().map(|error| error.to_string());
    let ftp = Config::Ftp { bytes: None, writes: None };
    let error = refused(ftp, Transport::Datagram { header: 28 }).expect("refused");
    assert!(error.contains("needs TCP"), "{error}");
    let constant = Config::Constant { rate: Rate::from_mbit(1), size: Sizes::Constant(100) };
    let error = refused(constant, over_tcp("rfc")).expect("refused");
    assert!(error.contains("needs datagrams"), "{error}");
}
