//! Links that share a medium, and games over them.

use crate::common::file;
use fairspan_sim::results::Results;
use fairspan_sim::world::World;

fn run(text: &str) -> Results {
    let run = file(text).run(0).expect("a run").unwrap_or_else(|errors| panic!("{errors:#?}"));
    // That packets are conserved is checked at the end.
    World::new(&run.scenario).and_then(World::finish).unwrap_or_else(|error| panic!("{error}"))
}

const HEAD: &str = "duration = \"10s\"\nwarm_up = \"1s\"\ndrift = \"off\"\n[[node]]\nname = [\"a\", \"b\", \"c\"]\n";

/// A link of 10 Mbit/s, and its sources of 8 Mbit/s each way in packets of 1000 bytes.
fn both_ways(medium: &str) -> Results {
    let link = "[[link]]\nname = \"ab\"\nfrom = \"a\"\nto = \"b\"\nrate = \"10Mbit\"\nmedium = \"m\"\n";
    let flow = |from, to| {
        format!(
            "[[flow]]\nname = \"{from}{to}\"\nfrom = \"{from}\"\nto = \"{to}\"\nkind = \"cbr\"\nrate = \"8Mbit\"\nsize = \"1000B\"\n"
        )
    };
    run(&format!("{HEAD}{link}[[medium]]\nname = \"m\"\n{medium}{}{}", flow("a", "b"), flow("b", "a")))
}

fn throughputs(results: &Results) -> Vec<f64> {
    results.flows.iter().map(|flow| flow.throughput / 1e6).collect()
}

#[track_caller]
fn near(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 0.003, "{found} instead of {expected}");
}

#[test]
fn a_half_duplex_link_carries_one_way_at_a_time_and_each_change_takes_the_turn_around() {
    // 800 us a packet, then 100 us until the other may send; with turns of four packets, one change in four.
    for (medium, expected) in [
        ("", 5.0),
        ("turnaround = \"100us\"\n", 5.0 * 800.0 / 900.0),
        ("turnaround = \"100us\"\nturn = \"4 packets\"\n", 5.0 * 3200.0 / 3300.0),
        ("turnaround = \"100us\"\nturn = \"3500B\"\n", 5.0 * 3200.0 / 3300.0),
        ("gap = \"200us\"\n", 5.0 * 800.0 / 1000.0),
        ("access = \"poll\"\nturnaround = \"100us\"\n", 5.0 * 800.0 / 900.0),
    ] {
        let results = both_ways(medium);
        throughputs(&results).into_iter().for_each(|found| near(found, expected));
        let air = &results.media[0];
        near(air.load + air.overhead, 1.0);
        near(air.load, 2.0 * expected / 10.0);
        near(air.packets as f64, 9.0 * 2.0 * expected * 1e6 / 8000.0);
        assert_eq!(air.bytes, 1000 * air.packets, "{medium}");
    }
}

#[test]
fn alone_on_a_medium_a_link_carries_what_it_would_carry_anyway() {
    let link = |medium| {
        let flow =
            "[[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\nkind = \"cbr\"\nrate = \"12Mbit\"\nsize = \"1000B\"\n";
        let text = "simplex = true\nrate = \"10Mbit\"\nqueue = \"20 packets\"\n";
        run(&format!("{HEAD}[[link]]\nname = \"ab\"\nfrom = \"a\"\nto = \"b\"\n{text}{medium}{flow}"))
    };
    let (plain, shared) = (link(""), link("medium = \"m\"\n[[medium]]\nname = \"m\"\n"));
    // One packet is dropped when it comes and not when the queue has room no more, on either side of the warm-up's end.
    assert!(plain.flows[0].received.abs_diff(shared.flows[0].received) <= 1, "{shared:?}");
    assert!(plain.flows[0].dropped.abs_diff(shared.flows[0].dropped) <= 1, "{shared:?}");
}

// The anomaly of radio channels: packets in turn are equal packets, not equal times.
#[test]
fn a_slow_station_brings_a_fast_one_down_to_its_own_throughput() {
    let link = |to, rate| {
        format!("[[link]]\nname = \"{to}\"\nfrom = \"a\"\nto = \"{to}\"\nrate = \"{rate}\"\nmedium = \"air\"\n")
    };
    let flow = |to| {
        format!(
            "[[flow]]\nname = \"{to}\"\nfrom = \"a\"\nto = \"{to}\"\nkind = \"cbr\"\nrate = \"20Mbit\"\nsize = \"1000B\"\n"
        )
    };
    let text =
        [HEAD, &link("b", "100Mbit"), &link("c", "10Mbit"), "[[medium]]\nname = \"air\"\n", &flow("b"), &flow("c")];
    // 80 us and 800 us in turn.
    throughputs(&run(&text.concat())).into_iter().for_each(|found| near(found, 8e3 / 880.0));
}

#[test]
fn polls_ask_also_those_who_have_nothing() {
    // Two links have four directions, of which one sends: 800 us, and four questions of 50 us.
    let link =
        |to| format!("[[link]]\nname = \"{to}\"\nfrom = \"a\"\nto = \"{to}\"\nrate = \"10Mbit\"\nmedium = \"air\"\n");
    let medium = "[[medium]]\nname = \"air\"\naccess = \"poll\"\nturnaround = \"50us\"\n";
    let flow =
        "[[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\nkind = \"cbr\"\nrate = \"20Mbit\"\nsize = \"1000B\"\n";
    let results = run(&[HEAD, &link("b"), &link("c"), medium, flow].concat());
    near(throughputs(&results)[0], 8.0);
    near(results.media[0].overhead, 0.2);
}

#[test]
fn disciplines_losses_and_policies_that_drop_work_on_a_medium_and_no_packet_is_forgotten() {
    for (number, queue) in
        ["discipline = \"drr\"", "buffer = \"codel\"", "buffer = \"drop-front\"", "discipline = \"sfq\"\nloss = \"2%\""]
            .into_iter()
            .enumerate()
    {
        for access in ["first-come", "poll"] {
            let link = |to| {
                format!(
                    "[[link]]\nname = \"{to}\"\nfrom = \"a\"\nto = \"{to}\"\nrate = \"10Mbit\"\nqueue = \"10 packets\"\nmedium = \"air\"\noutages = \"2s+500ms\"\n{queue}\n"
                )
            };
            let medium = format!(
                "[[medium]]\nname = \"air\"\naccess = \"{access}\"\nturnaround = \"30us\"\ngap = \"7us\"\nturn = \"4kB\"\n"
            );
            let flow = |to, kind| {
                format!("[[flow]]\nname = \"{to}-{kind}\"\nfrom = \"a\"\nto = \"{to}\"\nkind = \"{kind}\"\n")
            };
            let poisson =
                format!("{}rate = \"2Mbit\"\nsize = {{ uniform = [\"60B\", \"1500B\"] }}\n", flow("b", "poisson"));
            let text = [
                HEAD,
                &link("b"),
                &link("c"),
                &medium,
                &poisson,
                &flow("c", "ftp"),
                &flow("b", "game"),
                &flow("b", "ftp"),
            ];
            let results = run(&text.concat());
            assert!(results.flows.iter().all(|flow| flow.received > 100), "{number} {access}");
            assert!(results.media[0].load > 0.5, "{number} {access}: {}", results.media[0].load);
        }
    }
}

// A bond asks its links for room: those that wait for their medium have none yet.
#[test]
fn a_bond_over_half_duplex_links_carries_their_sum() {
    let link = |name| {
        format!(
            "[[link]]\nname = \"{name}\"\nfrom = \"a\"\nto = \"b\"\nrate = \"10Mbit\"\ndelay = \"5ms\"\nmedium = \"m-{name}\"\n[[medium]]\nname = \"m-{name}\"\nturnaround = \"20us\"\nturn = \"20 packets\"\n"
        )
    };
    let bond = "[[bond]]\nname = \"both\"\nends = [\"a\", \"b\"]\nlinks = [\"one\", \"two\"]\n";
    let flow = "[[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\nkind = \"ftp\"\ntcp = \"linux\"\n";
    let results = run(&[HEAD, &link("one"), &link("two"), bond, flow].concat());
    assert!(results.flows[0].goodput > 14e6, "{}", results.flows[0].goodput);
}

// Way there, wait for the tick (half of one in the mean), way back, and the serialisation of both.
#[test]
fn the_lag_of_a_game_is_that_of_the_path_and_the_tick_and_a_full_queue_adds_to_it() {
    let game = |beside: &str| {
        let link = "[[link]]\nname = \"ab\"\nfrom = \"a\"\nto = \"b\"\nrate = \"10Mbit\"\ndelay = \"20ms\"\nqueue = \"100ms\"\n";
        let game = "[[flow]]\nname = \"g\"\nfrom = \"a\"\nto = \"b\"\nkind = \"game\"\ntick = \"20ms\"\ninput_every = \"7ms\"\n";
        let results = run(&format!("{HEAD}{link}{game}{beside}"));
        results.flows[0].game.clone().expect("a game")
    };
    let (alone, beside) =
        (game(""), game("[[flow]]\nname = \"d\"\nfrom = \"a\"\nto = \"b\"\nkind = \"ftp\"\ntcp = \"linux\"\n"));
    assert!((alone.lag.mean - 0.0503).abs() < 0.001, "{}", alone.lag.mean);
    assert!(alone.lag.min >= 0.04 && alone.lag.max <= 0.061, "{:?}", alone.lag);
    assert_eq!((alone.freezes, alone.frozen_s), (0, 0.0));
    assert!((1284..=1287).contains(&alone.inputs), "{}", alone.inputs);
    assert!(beside.lag.mean > alone.lag.mean + 0.02, "{}", beside.lag.mean);
}
