//! Mode `flow` in the world: a server's links to a switch, one link from there to the client.

use fairspan_sim::results::Results;
use fairspan_sim::scenario::File;
use fairspan_sim::world::World;
use std::sync::Arc;

/// Four links of 10 Mbit/s, the fourth `skew` ms longer, and one of 100 Mbit/s that all four channels share; `rest` has
/// the flows and more.
fn four(policy: &str, bond: &str, skew: u32, rest: &str) -> String {
    let links: String = (0..4)
        .map(|n| {
            let delay = if n == 3 { skew } else { 0 };
            format!(
                "[[link]]\nname = \"l{n}\"\nfrom = \"server\"\nto = \"switch\"\nrate = \"10Mbit\"\ndelay = \"{delay}ms\"\nframing = \"ethernet\"\n"
            )
        })
        .collect();
    let channels: String =
        (0..4).map(|n| format!("[[bond.channels]]\npath = [\"l{n}\", \"access\"]\nraw = true\n")).collect();
    format!(
        "duration = \"6s\"\nwarm_up = \"1s\"\n[metrics]\nreordering = true\n[[node]]\nname = [\"server\", \"switch\", \"client\"]\n{links}\
         [[link]]\nname = \"access\"\nfrom = \"switch\"\nto = \"client\"\nrate = \"100Mbit\"\nframing = \"ethernet\"\n\
         [[bond]]\nname = \"b\"\nends = [\"server\", \"client\"]\nmode = \"flow\"\npolicy = \"{policy}\"\n{bond}{channels}{rest}"
    )
}

/// Twelve downloads at once.
const DOWNLOADS: &str = "[[flow]]\nname = \"f#\"\ncount = 12\nfrom = \"server\"\nto = \"client\"\nkind = \"ftp\"\n";

fn run(text: &str) -> Results {
    let mut none = |name: &str| Err(format!("{name}: no files here"));
    let file = File::parse_with("x.toml", text, &[], &mut none).unwrap_or_else(|errors| panic!("{errors:#?}\n{text}"));
    let run = file.run(0).expect("one run").unwrap_or_else(|errors| panic!("{errors:?}"));
    let results =
        World::shared(Arc::new(run.scenario)).and_then(World::finish).unwrap_or_else(|error| panic!("{error}"));
    assert!(!results.conservation.dropped.iter().any(|d| d.reason == "bond"), "every drop is explained");
    results
}

fn counter(results: &Results, end: usize, name: &str) -> u64 {
    let found = results.bonds[end].counters.iter().find(|(counter, _)| counter == name);
    found.unwrap_or_else(|| panic!("no counter {name}")).1
}

fn packets(results: &Results, end: usize) -> [u64; 4] {
    [0, 1, 2, 3].map(|n| counter(results, end, &format!("channel{n}.sent_packets")))
}

fn throughput(results: &Results) -> f64 {
    results.flows.iter().map(|flow| flow.throughput).sum::<f64>() / 1e6
}

/// Share of all packets that came out of order.
fn reordered(results: &Results) -> f64 {
    let of = |flow: &fairspan_sim::results::FlowResult| flow.reordering.as_ref().expect("measured").ratio;
    results.flows.iter().map(of).sum::<f64>() / results.flows.len() as f64
}

#[test]
fn four_server_links_that_share_the_clients_are_filled_by_every_policy_that_spreads() {
    for policy in ["balance-rr", "brr:12ms", "least_queue", "fastest_transmit", "traffic_meter", "potent"] {
        let results = run(&four(policy, "", 0, DOWNLOADS));
        // 1500 of 1538 bytes a frame are packets; four links carry 39.01 Mbit/s of them.
        let rate = throughput(&results);
        assert!((36.5..39.2).contains(&rate), "{policy}: {rate}");
        let links = packets(&results, 0);
        assert!(links.iter().max() < links.iter().min().map(|n| n + n / 10).as_ref(), "{policy}: {links:?}");
    }
}

#[test]
fn round_robin_reorders_where_a_burst_threshold_above_skew_and_queues_does_not() {
    let rr = run(&four("balance-rr", "", 5, DOWNLOADS));
    // A queue holds 100 ms, and the longest link adds 5.
    let brr = run(&four("brr:120ms", "", 5, DOWNLOADS));
    assert!(reordered(&rr) > 0.2, "{}", reordered(&rr));
    assert_eq!(reordered(&brr), 0.0);
}

#[test]
fn with_flush_nothing_is_reordered_at_any_loss_and_skew() {
    for policy in ["balance-rr:1", "brr:1ms", "flowlet:1ms"] {
        for (wait, skew, loss) in [("0ms", 0, "0%"), ("50ms", 5, "1%"), ("50ms", 80, "5%"), ("300ms", 40, "20%")] {
            let text = four(&format!("{policy},flush=on,flush_wait={wait}"), "", skew, DOWNLOADS);
            let text = text.replace("name = \"l1\"\n", &format!("name = \"l1\"\nloss = \"{loss}\"\n"));
            let results = run(&text);
            assert_eq!(reordered(&results), 0.0, "{policy}, {wait}, {skew} ms, {loss}");
            let received: u64 = results.flows.iter().map(|flow| flow.received).sum();
            assert!(received > 2000, "{policy}, {wait}, {skew} ms, {loss}: {received}");
        }
    }
}

#[test]
fn flows_do_move_with_flush_and_fill_all_links() {
    let results = run(&four("brr:12ms,flush=on,flush_wait=0ms", "", 0, DOWNLOADS));
    assert!(throughput(&results) > 35.0, "{}", throughput(&results));
    let links = packets(&results, 0);
    assert!(links.iter().max() < links.iter().min().map(|n| n + n / 4).as_ref(), "{links:?}");
    // Markers: a hundred a second and link unasked, and no more of them asked for than flows have bursts.
    let control: u64 = (0..4).map(|n| counter(&results, 0, &format!("channel{n}.sent_control"))).sum();
    assert!((1_600..8_000).contains(&control), "{control}");
}

#[test]
fn the_two_ends_may_have_policies_of_their_own() {
    let results = run(&four("balance-rr", "policy_back = \"active-backup\"\n", 0, DOWNLOADS));
    let (there, back) = (packets(&results, 0), packets(&results, 1));
    assert!(there.iter().all(|n| *n > 4000), "{there:?}");
    assert_eq!(back.iter().filter(|n| **n > 0).count(), 1, "{back:?}");
}

#[test]
fn an_outage_of_one_link_is_survived_and_the_link_is_used_again_after_updelay() {
    let flow = "[[flow]]\nname = \"f\"\nfrom = \"server\"\nto = \"client\"\nkind = \"constant\"\nrate = \"8Mbit\"\nsize = \"1000B\"\nstart = \"500ms\"\n";
    // Without updelay it is used from the flow's start on, and from when it is heard again; with it both a second later.
    let (plain, late) = ("balance-rr:arp_interval=50ms", "balance-rr:arp_interval=50ms,updelay=1s");
    for (policy, used_for) in [(plain, 4.55), (late, 3.05)] {
        let text = four(policy, "", 0, flow).replace("name = \"l1\"\n", "name = \"l1\"\noutages = [\"2s+1s\"]\n");
        let results = run(&text);
        assert_eq!(counter(&results, 0, "channel_downs"), 1, "{policy}");
        let flow = &results.flows[0];
        // 250 packets a second on the dead link until its silence is noticed: two and a half intervals after the last.
        let missing = flow.sent - flow.received;
        assert!((20..45).contains(&missing), "{policy}: {missing}");
        // A quarter of 1000 packets a second. Silence and its end are found within 50 ms of when they could be.
        let expected = 250.0 * used_for;
        let sent = packets(&results, 0)[1] as f64;
        assert!((sent / expected - 1.0).abs() < 0.04, "{policy}: {sent} of {expected}");
    }
}

#[test]
fn a_flow_that_keeps_its_link_costs_no_allocation_and_neither_does_one_that_moves() {
    for policy in ["balance-xor:layer3+4", "brr:1ms", "brr:1ms,flush=on", "balance-rr:flush=on", "traffic_meter"] {
        let flow = "[[flow]]\nname = \"f#\"\ncount = 4\nfrom = \"server\"\nto = \"client\"\nkind = \"pareto\"\nrate = \"9Mbit\"\nsize = \"120B\"\non = \"5ms\"\noff = \"5ms\"\n";
        let text = four(policy, "", 3, flow);
        let mut none = |name: &str| Err(format!("{name}: no files here"));
        let file = File::parse_with("x.toml", &text, &[], &mut none).unwrap_or_else(|errors| panic!("{errors:#?}"));
        let run = file.run(0).expect("one run").unwrap_or_else(|errors| panic!("{errors:?}"));
        let mut world = World::shared(Arc::new(run.scenario)).unwrap_or_else(|error| panic!("{error}"));
        world.advance(fairspan_core::units::Time::from_millis(2000));
        let before = world.check_conservation().unwrap().sent;
        let end = world.end();
        let allocations = allocation_counter::measure(|| world.advance(end)).count_total;
        let packets = world.check_conservation().unwrap().sent - before;
        // The bond's own messages allocate in the simulator: heartbeats and echoes; markers too.
        let messages: u64 = if policy.contains("flush") { 8_000 } else { 1_000 };
        assert!(packets > 40_000 && allocations < messages, "{policy}: {allocations} allocations, {packets} packets");
    }
}
