//! Rings in worlds: shares, conservation under failures, determinism, what results say.

use fairspan_core::rng::Rng;
use fairspan_core::units::Time;
use fairspan_sim::model::Scenario;
use fairspan_sim::results::{LimitResult, Results, RingLinkResult, RingResult};
use fairspan_sim::scenario::File;
use fairspan_sim::world::World;

/// Ten nodes with 0.1 ms between neighbours; `ring` goes into the ring's table.
fn text(duration: &str, ring: &str, flows: &str) -> String {
    format!(
        "duration = \"{duration}\"\n[[node]]\nname = \"n#\"\nfirst = 1\ncount = 10\n[[ring]]\nname = \"r\"\nnodes = \
         \"n#\"\ncount = 10\nrate = \"622Mbit\"\ndelay = \"0.1ms\"\n{ring}\n{flows}"
    )
}

fn flow(name: &str, from: u8, to: u8, rate: &str) -> String {
    format!(
        "[[flow]]\nname = \"{name}\"\nfrom = \"n{from}\"\nto = \"n{to}\"\nkind = \"constant\"\nrate = \"{rate}\"\nsize = \
         \"1000B\"\n"
    )
}

/// Four sources of a whole link each to node 5 (rings §VII-B.1).
fn parking_lot() -> String {
    (1..=4).map(|from| flow(&format!("f{from}"), from, 5, "622Mbit")).collect()
}

#[track_caller]
fn scenario(text: &str) -> Scenario {
    let mut none = |name: &str| Err(format!("{name}: no files here"));
    let file = File::parse_with("x.toml", text, &[], &mut none).unwrap_or_else(|errors| panic!("{errors:?}"));
    file.run(0).expect("one run").unwrap_or_else(|errors| panic!("{errors:?}")).scenario
}

#[track_caller]
fn run(text: &str) -> Results {
    let world = World::new(&scenario(text)).unwrap_or_else(|error| panic!("{error}"));
    world.finish().unwrap_or_else(|error| panic!("{error}"))
}

fn limit<'a>(ring: &'a RingResult, name: &str) -> &'a LimitResult {
    ring.limits.iter().find(|limit| limit.name == name).unwrap_or_else(|| panic!("no limiter {name}"))
}

fn way<'a>(ring: &'a RingResult, name: &str) -> &'a RingLinkResult {
    ring.links.iter().find(|way| way.name == name).unwrap_or_else(|| panic!("no way {name}"))
}

fn shares(results: &Results) -> Vec<f64> {
    results.flows.iter().map(|flow| flow.throughput / 622e6).collect()
}

#[track_caller]
fn near(found: &[f64], expected: &[f64], within: f64) {
    assert_eq!(found.len(), expected.len());
    let fits = found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() <= within);
    assert!(fits, "{found:?}, expected {expected:?} within {within}");
}

#[test]
fn fifo_halves_the_share_at_every_node_of_a_parking_lot() {
    let results = run(&format!("warm_up = \"100ms\"\n{}", text("600ms", "algorithm = \"fifo\"", &parking_lot())));
    // rings §VII-B.1: the last one gets half of the link. 1 % of the capacity.
    near(&shares(&results), &[0.125, 0.125, 0.25, 0.5], 0.01);
    let ring = &results.rings[0];
    assert!(ring.limits.is_empty(), "nothing limits");
    assert!(way(ring, "4").load > 0.99, "{}", way(ring, "4").load);
    let full: u64 = ring.dropped.iter().filter(|dropped| dropped.reason.ends_with("full")).map(|d| d.packets).sum();
    assert!(full > 10_000, "{:?}", ring.dropped);
}

#[test]
fn dvsr_gives_every_station_of_a_parking_lot_a_quarter() {
    let results = run(&format!("warm_up = \"100ms\"\n{}", text("300ms", "", &parking_lot())));
    near(&shares(&results), &[0.25; 4], 0.0025);
    let ring = &results.rings[0];
    assert_eq!(ring.limits.len(), 4);
    for name in ["1-5", "2-5", "3-5", "4-5"] {
        let limit = limit(ring, name);
        assert!((limit.settled / 155.5e6 - 1.0).abs() < 0.01, "{limit:?}");
        assert!(limit.oscillation < 0.01, "{limit:?}");
    }
    let lossless = ring.dropped.iter().all(|dropped| dropped.reason == "station_full");
    assert!(lossless, "{:?}", ring.dropped);
    for link in &ring.links {
        assert!(link.ahead_max <= 1000, "the node keeps the rate of {}: {} bytes ahead", link.name, link.ahead_max);
    }
}

#[test]
fn a_ring_gives_the_same_run_for_the_same_seed_and_another_for_another() {
    let text = text(
        "80ms",
        "control_loss = \"5%\"\ncontrol_duplicate = \"5%\"\ncontrol_corrupt = \"5%\"\nlinks = [{ link = 2, outages = \
         [\"30ms+20ms\"] }]",
        &(parking_lot() + &flow("back", 8, 3, "300Mbit")),
    );
    let (first, second) = (run(&text), run(&text));
    assert!(first == second, "the same scenario gave two results");
    assert_ne!(first.log_hash, run(&format!("seed = 2\n{text}")).log_hash);
    let control = &first.rings[0].control;
    assert!(control.lost > 0 && control.copies > 0 && control.corrupted > 0 && control.unheard > 0, "{control:?}");
    assert!(!control.refused.is_empty(), "what is corrupted is refused");
}

#[test]
fn packets_and_control_frames_are_conserved_at_any_instant_of_any_failure() {
    let failures = "links = [{ link = 2, outages = [\"20ms+15ms/45ms\"] }, { link = 7, outages = [\"27ms+30ms\", \"40ms+5ms\"] \
                    }]\nnode_outages = [{ node = \"n3\", outages = [\"60ms+30ms\"] }, { node = \"n4\", outages = [\"70ms+30ms\"] }]";
    let mut cases =
        vec![("rpr-am", "steer", false), ("rpr-cm", "wrap", false), ("dba", "steer", true), ("explicit", "wrap", true)];
    for protection in ["steer", "wrap", "none"] {
        cases.extend([("fifo", protection, true), ("dvsr", protection, false), ("dvsr", protection, true)]);
    }
    for (algorithm, protection, carrier) in cases {
        let ring = format!(
            "algorithm = \"{algorithm}\"\nprotection = \"{protection}\"\ncarrier = {carrier}\ncontrol_loss = \
                     \"1%\"\ncontrol_duplicate = \"1%\"\n{failures}"
        );
        let flows = parking_lot() + &flow("back", 9, 2, "622Mbit");
        let mut world = World::new(&scenario(&text("110ms", &ring, &flows))).expect("a valid scenario");
        for step in 1..550_u64 {
            world.advance(Time::from_nanos(step * 200_003));
            world.check_conservation().unwrap_or_else(|error| panic!("{ring}: {error}"));
        }
        let results = world.finish().unwrap_or_else(|error| panic!("{ring}: {error}"));
        let control = &results.rings[0].control;
        assert_eq!(
            control.sent + control.copies,
            control.taken + control.lost + control.unheard + control.in_flight,
            "{ring}: {control:?}"
        );
        let reasons: Vec<&str> = results.rings[0].dropped.iter().map(|drop| drop.reason.as_str()).collect();
        for reason in ["link cut", "node failed"] {
            assert!(reasons.contains(&reason), "{ring}: {reasons:?}");
        }
    }
}

#[test]
fn a_cut_is_found_and_every_node_sends_the_other_way_within_fifty_milliseconds() {
    for (protection, carrier) in [("steer", false), ("steer", true), ("wrap", false), ("wrap", true)] {
        let ring = format!(
            "protection = \"{protection}\"\ncarrier = {carrier}\nlinks = [{{ link = 3, outages = [\"100ms+1s\"] }}]"
        );
        let flows = flow("over", 2, 5, "100Mbit") + &flow("off", 7, 9, "100Mbit");
        let results = run(&format!("warm_up = \"200ms\"\n{}", text("400ms", &ring, &flows)));
        let found = &results.rings[0];
        let restored = found.restored_s.unwrap_or_else(|| panic!("{ring}: {:?}", found.events));
        let most = if carrier { 0.005 } else { 0.05 };
        assert!(restored < most, "{ring}: {restored} s, {:?}", found.events);
        near(&shares(&results), &[100.0 / 622.0; 2], 0.001);
        assert_eq!(results.flows[0].dropped, 0, "{ring}: by 200 ms nothing is lost any more: {:?}", found.dropped);
        for what in ["link cut", "whole"] {
            assert!(found.events.iter().any(|event| event.what == what), "{ring}: {:?}", found.events);
        }
        // The other way round is as long as the ring, less the cut.
        assert!(way(found, "2").packets == 0 || protection == "wrap", "{ring}: {:?}", way(found, "2"));
    }
}

#[test]
fn without_protection_packets_are_lost_at_a_cut_until_it_is_mended() {
    let ring = "protection = \"none\"\nlinks = [{ link = 3, outages = [\"50ms+50ms\"] }]";
    let results = run(&text("200ms", ring, &flow("over", 2, 5, "100Mbit")));
    let cut: u64 = results.rings[0].dropped.iter().filter(|d| d.reason == "link cut").map(|d| d.packets).sum();
    // 50 ms at 100 Mbit/s, and what was on the way.
    assert!((620..650).contains(&cut), "{:?}", results.rings[0].dropped);
    assert_eq!(results.conservation.dropped.iter().map(|drop| drop.packets).sum::<u64>(), cut);
    assert_eq!(results.rings[0].restored_s, Some(0.05), "only when it is mended");
}

#[test]
fn a_node_that_fails_comes_back_without_its_packets_and_takes_part_again() {
    let ring = "node_outages = [{ node = \"n4\", outages = [\"100ms+100ms\"] }]";
    let flows = flow("through", 3, 6, "100Mbit") + &flow("to", 2, 4, "100Mbit") + &flow("from", 4, 6, "100Mbit");
    let results = run(&format!("warm_up = \"400ms\"\n{}", text("600ms", ring, &flows)));
    near(&shares(&results), &[100.0 / 622.0; 3], 0.002);
    let events: Vec<&str> = results.rings[0].events.iter().map(|event| event.what.as_str()).collect();
    for what in ["node failed", "node back", "whole"] {
        assert!(events.contains(&what), "{events:?}");
    }
    assert!(results.rings[0].restored_s.is_some_and(|time| time < 0.05), "{:?}", results.rings[0].events);
}

#[test]
fn a_line_carries_both_ways_and_nothing_over_the_link_that_is_not_there() {
    let flows = flow("there", 2, 9, "300Mbit") + &flow("back", 9, 2, "300Mbit");
    for discovery in [false, true] {
        let ring = format!("topology = \"line\"\ndiscovery = {discovery}");
        let results = run(&format!("warm_up = \"50ms\"\n{}", text("150ms", &ring, &flows)));
        near(&shares(&results), &[300.0 / 622.0; 2], 0.005);
        assert_eq!(results.rings[0].links.len(), 18, "9 links, each way");
        assert!(results.flows.iter().all(|flow| flow.dropped == 0), "{:?}", results.rings[0].dropped);
    }
}

#[test]
fn unlike_links_delay_and_limit_what_crosses_them() {
    let ring = "links = [{ link = 2, rate = \"100Mbit\", rate_back = \"50Mbit\", delay = \"5ms\" }]";
    let results = run(&format!(
        "warm_up = \"200ms\"\n{}",
        text("400ms", ring, &(flow("there", 1, 4, "622Mbit") + &flow("back", 4, 1, "622Mbit")))
    ));
    near(&[results.flows[0].throughput / 100e6, results.flows[1].throughput / 50e6], &[1.0, 1.0], 0.02);
    // Three links of 0.1, 5 and 0.1 ms, and the time in the queues.
    assert!(results.flows.iter().all(|flow| flow.delay.min > 0.0052), "{:?}", results.flows);
}

#[test]
fn a_flow_may_name_its_way_round_and_cross_links_before_and_after() {
    let around = "[[node]]\nname = [\"a\", \"b\"]\n[[link]]\nname = \"in\"\nfrom = \"a\"\nto = \"n2\"\nrate = \"1Gbit\"\n\
                  [[link]]\nname = \"out\"\nfrom = \"n4\"\nto = \"b\"\nrate = \"1Gbit\"\n";
    let flow = "[[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\nkind = \"constant\"\nrate = \"100Mbit\"\nsize = \"1000B\"\n\
                via = \"r\"\nringlet = 1\n";
    let results = run(&text("100ms", "", &format!("{around}{flow}")));
    let ring = &results.rings[0];
    assert!(way(ring, "1/1").packets > 1000 && way(ring, "2").packets == 0);
    assert_eq!(ring.limits.iter().map(|limit| limit.name.as_str()).collect::<Vec<_>>(), ["2-4/1"]);
    // Eight links of 0.1 ms.
    assert!((results.flows[0].delay.min - 0.0009).abs() < 0.0001, "{:?}", results.flows[0].delay);
}

#[test]
fn tcp_goes_through_a_ring_and_its_answers_back() {
    let flow = "[[flow]]\nname = \"f\"\nfrom = \"n1\"\nto = \"n4\"\nkind = \"ftp\"\ntcp = \"linux\"\n";
    let results = run(&text("500ms", "", flow));
    assert!(results.flows[0].goodput > 400e6, "{:?}", results.flows[0]);
    assert!(way(&results.rings[0], "1/1").packets > 1000, "acknowledgements");
}

#[test]
fn series_have_limiters_and_links() {
    let results = run(&format!("{}[metrics]\nseries = \"10ms\"\n", text("100ms", "", &parking_lot())));
    let series = |name: &str| {
        let found = results.series.iter().find(|series| series.name == name);
        &found.unwrap_or_else(|| panic!("{name} is missing")).values
    };
    let limiter = series("ring r limit 4-5");
    assert_eq!(limiter.len(), 10);
    assert!((limiter[9] / 155.5e6 - 1.0).abs() < 0.02, "{limiter:?}");
    assert!(series("ring r link 4 throughput")[9] > 600e6);
}

/// A ring that nobody thought of: size, links, weights, flows of all kinds, failures and faults drawn from the seed.
fn drawn(seed: u64) -> String {
    let mut rng = Rng::new(seed);
    let nodes = if seed.is_multiple_of(4) { 2 } else { 2 + rng.below(12) };
    let mut one_of = |list: &[&str]| list[rng.below(list.len() as u64) as usize].to_owned();
    let algorithm =
        one_of(&["fifo", "dvsr", "dvsr:bits=8", "rpr-am", "rpr-am:queue=dual", "rpr-cm", "dba", "explicit"]);
    let (protection, topology) = (one_of(&["steer", "wrap", "none"]), one_of(&["ring", "ring", "line"]));
    let (carrier, discovery) = (one_of(&["true", "false"]), one_of(&["true", "false"]));
    let links: Vec<String> = (1..nodes)
        .map(|link| {
            // So fast and long that control messages leave most of a link.
            let (rate, delay) = (8 + rng.below(43), 500 + rng.below(1500));
            let outage = match rng.below(3) {
                0 => format!(", outages = [\"{}ms+{}ms/{}ms\"]", rng.below(60), 1 + rng.below(30), 40 + rng.below(60)),
                _ => String::new(),
            };
            format!(
                "{{ link = {link}, rate = \"{rate}Mbit\", delay = \"{delay}us\", control_loss = 0.0{}{outage} }}",
                rng.below(10)
            )
        })
        .collect();
    let dead = match rng.below(2) {
        0 => format!(
            "node_outages = [{{ node = \"n{}\", outages = [\"{}ms+20ms\"] }}]\n",
            1 + rng.below(nodes),
            rng.below(60)
        ),
        _ => String::new(),
    };
    let mut text = format!(
        "seed = {}\nduration = \"100ms\"\n[[node]]\nname = \"n#\"\nfirst = 1\ncount = {nodes}\n[[ring]]\nname = \"r\"\nnodes = \
         \"n#\"\ncount = {nodes}\nrate = \"20Mbit\"\ndelay = \"0.1ms\"\nbuffer = \"{}kB\"\nstation_buffer = \"{}kB\"\nalgorithm = \
         \"{algorithm}\"\nprotection = \"{protection}\"\ntopology = \"{topology}\"\ncarrier = {carrier}\ndiscovery = {discovery}\noverhead = \
         \"{}B\"\ncontrol_duplicate = \"2%\"\ncontrol_corrupt = \"2%\"\nweights = {{ n1 = 2.5 }}\n{dead}links = [{}]\n",
        seed + 1,
        4 + rng.below(100),
        4 + rng.below(100),
        rng.below(60),
        links.join(", ")
    );
    for number in 0..1 + rng.below(8) {
        let from = 1 + rng.below(nodes);
        let to = 1 + (from + rng.below(nodes - 1)) % nodes;
        let kind = match rng.below(4) {
            0 => "kind = \"ftp\"".to_owned(),
            1 => format!(
                "kind = \"poisson\"\nrate = \"{}Mbit\"\nsize = {{ uniform = [\"64B\", \"1500B\"] }}",
                1 + rng.below(30)
            ),
            _ => format!(
                "kind = \"constant\"\nrate = \"{}Mbit\"\nsize = \"{}B\"",
                1 + rng.below(30),
                64 + rng.below(1400)
            ),
        };
        let class = ["A", "B", "C", "C"][rng.below(4) as usize];
        text += &format!(
            "[[flow]]\nname = \"f{number}\"\nfrom = \"n{from}\"\nto = \"n{to}\"\n{kind}\nclass = \"{class}\"\n"
        );
    }
    text
}

#[test]
fn rings_drawn_at_random_run_alike_twice_and_lose_count_of_nothing() {
    let first = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = first.map_or(0..40, |first: u64| first..first + 1);
    for seed in seeds {
        let text = drawn(seed);
        println!("SEED={seed} draws\n{text}");
        let results = run(&text);
        let ring = &results.rings[0];
        let control = &ring.control;
        let ends = control.taken + control.lost + control.unheard + control.in_flight;
        assert_eq!(control.sent + control.copies, ends, "SEED={seed}: {control:?}");
        // A node paces what it sends: no link has a frame waiting, but where a new node does not know what the one before it
        // had begun to send.
        let ahead = ring.links.iter().map(|way| way.ahead_max).max();
        let most = if text.contains("node_outages") { 3200 } else { 16 };
        assert!(ahead.is_some_and(|ahead| ahead <= most), "SEED={seed}: {ahead:?}");
        if seed.is_multiple_of(8) {
            assert!(results == run(&text), "SEED={seed}: the second run differs");
        }
    }
}

#[test]
fn weights_and_reservations_of_the_scenario_reach_the_nodes() {
    let weighted = run(&format!("warm_up = \"100ms\"\n{}", text("300ms", "weights = { n4 = 2 }", &parking_lot())));
    near(&shares(&weighted), &[0.2, 0.2, 0.2, 0.4], 0.005);
    let reserved = "reservations = [{ from = \"n1\", to = \"n5\", class = \"A\", rate = \"100Mbit\" }]";
    for (class, most_lost) in [("A", 0), ("C", u64::MAX)] {
        let urgent = format!("{}class = \"{class}\"\n", flow("urgent", 1, 5, "90Mbit"));
        let results = run(&format!("warm_up = \"100ms\"\n{}", text("300ms", reserved, &(parking_lot() + &urgent))));
        let flow = &results.flows[4];
        if class == "A" {
            assert!((flow.throughput / 90e6 - 1.0).abs() < 0.01 && flow.dropped <= most_lost, "{flow:?}");
            // Four links of 0.1 ms, and a packet before it at each.
            assert!(flow.delay.max < 0.0006, "{:?}", flow.delay);
        } else {
            assert!(
                flow.dropped > 0 && flow.delay.mean > 0.002,
                "as best effort it shares the queue of its station: {flow:?}"
            );
        }
        let rest: f64 = results.flows.iter().map(|flow| flow.throughput).sum::<f64>() / 622e6;
        assert!(
            rest < if class == "A" { 1.0 } else { 522.0 / 622.0 + 0.01 },
            "what class A leaves nobody uses: {rest}"
        );
    }
}

#[test]
fn sixty_four_nodes_that_all_send_to_all_are_a_scenario_like_any_other() {
    let flows: String = (1..=64_u32)
        .flat_map(|from| (1..=64_u32).filter(move |to| from != *to).map(move |to| (from, to)))
        .map(|(from, to)| {
            format!(
                "[[flow]]\nname = \"f{from}-{to}\"\nfrom = \"n{from}\"\nto = \"n{to}\"\nkind = \"constant\"\nrate = \"1Mbit\"\nsize = \
                 \"1000B\"\nspread = \"8ms\"\n"
            )
        })
        .collect();
    let ring = "[[ring]]\nname = \"r\"\nnodes = \"n#\"\ncount = 64\nrate = \"1Gbit\"\ndelay = \"10us\"\n";
    let results = run(&format!("duration = \"30ms\"\n[[node]]\nname = \"n#\"\nfirst = 1\ncount = 64\n{ring}{flows}"));
    assert_eq!(results.rings[0].limits.len(), 64 * 63);
    assert!(results.conservation.dropped.is_empty(), "half of a Gbit/s at most is asked of each link");
    assert!(results.flows.iter().all(|flow| flow.received > 0));
}

/// Two flows of one node to another, the greedy one more than the ring carries.
#[test]
fn a_fair_station_loses_no_packet_of_a_gentle_flow_where_fifo_does() {
    let delivered = |keys: &str| {
        let flows = flow("greedy", 1, 2, "900Mbit") + &flow("gentle", 1, 2, "30Mbit");
        let results = run(&text("300ms", keys, &flows));
        results.flows.iter().map(|flow| flow.throughput / 1e6).collect::<Vec<f64>>()
    };
    let fifo = delivered("");
    assert!(fifo[1] < 27.0 && fifo[0] + fifo[1] > 600.0, "{fifo:?}");
    for discipline in ["sfq", "drr", "stochastic"] {
        let fair = delivered(&format!("station_discipline = \"{discipline}\""));
        assert!(fair[1] > 29.7 && fair[0] + fair[1] > 600.0, "{discipline}: {fair:?}");
    }
}

/// What the policy drops from a queue that stands has a reason of its own.
#[test]
fn a_station_s_policy_names_what_it_drops() {
    let flows = flow("greedy", 1, 2, "700Mbit");
    let reasons = |keys: &str| {
        let results = run(&text("300ms", keys, &flows));
        results.conservation.dropped.iter().map(|dropped| dropped.reason.clone()).collect::<Vec<_>>()
    };
    assert_eq!(reasons(""), ["station_full"]);
    assert_eq!(reasons("station_discipline = \"drr\""), ["station_full"], "longest queue");
    let codel = reasons("station_policy = \"codel:target=100us,interval=1ms\"\nstation_buffer = \"100MB\"");
    assert_eq!(codel, ["station_standing"]);
}

/// Two flows cross link 2 eastward, one of them from link 1; the third goes back over it.
#[test]
fn a_link_of_a_ring_is_recorded_each_way_by_itself() {
    let until = |name, from, to, rate| flow(name, from, to, rate) + "stop = \"20ms\"\n";
    let flows = until("far", 1, 4, "50Mbit") + &until("near", 2, 3, "50Mbit") + &until("back", 3, 1, "20Mbit");
    for (name, flows_there, way_name) in [("r.2", 2, "2"), ("r.2/1", 1, "2/1"), ("r.7", 0, "7")] {
        let text = text("30ms", "", &(flows.clone() + &format!("[metrics]\ncapture = [\"{name}\"]\n")));
        let scenario = scenario(&text);
        assert_eq!(scenario.metrics.capture, [scenario.captured(name).expect("a link of the ring")]);
        let mut world = World::new(&scenario).unwrap_or_else(|error| panic!("{error}"));
        world.advance(world.end());
        let captured = world.take_captured();
        let results = world.finish().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(captured.len() as u64, way(&results.rings[0], way_name).packets, "{name}");
        assert!(captured.windows(2).all(|pair| pair[0].at <= pair[1].at), "{name}: in the order of time");
        let mut ports: Vec<&[u8]> = captured.iter().map(|packet| &packet.bytes[12..24]).collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), flows_there, "{name}: flows by addresses and ports");
        assert!(captured.iter().all(|packet| packet.length == 1000 && packet.bytes[0] == 0x45), "{name}");
    }
    let text = text("30ms", "", &flows);
    let scenario = scenario(&text);
    assert!(["r.0", "r.11", "r.2/2", "s.1", "r"].iter().all(|name| scenario.captured(name).is_none()));
    let names: Vec<String> = scenario.capturable().collect();
    assert!(names.len() == 20 && names.iter().all(|name| scenario.captured(name).is_some()));
}
