//! Reliable flows in the world: what arrives is whole and in order, and the schemes stand to one another as EFL-MP's paper has it.

use fairspan_core::arq::Config;
use fairspan_sim::model::Scheme;
use fairspan_sim::reliable::{Complexity, complexity};
use fairspan_sim::results::Results;
use fairspan_sim::scenario::File;
use fairspan_sim::world::World;

/// Figure 9, for 5 ms, with these settings beside.
fn run(settings: &[(&str, &str)]) -> Results {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/efl/fig10.toml");
    let text = std::fs::read_to_string(path).expect("the scenario");
    let text = text.split("[[sweep]]").next().map(str::to_owned).unwrap_or_default()
        + &text[text.find("[[node]]").expect("nodes")..text.find("[[expect]]").expect("expectations")];
    let mut none = |_: &str| Err("no files".to_owned());
    let mut settings = settings.to_vec();
    settings.extend([("duration", "5ms"), ("warm_up", "2ms")]);
    let file = File::parse_with("fig10", &text, &settings, &mut none).expect("a scenario");
    let run = file.run(0).expect("a run").expect("it can be built");
    World::new(&run.scenario).expect("a world").finish().expect("packets are conserved")
}

fn gbit(results: &Results) -> f64 {
    results.flows[0].goodput / 1e9
}

fn counter(results: &Results, end: usize, name: &str) -> u64 {
    let counters = &results.bonds[end].counters;
    counters.iter().find(|(known, _)| known == name).map_or(u64::MAX, |(_, value)| *value)
}

#[test]
fn without_loss_or_differences_all_paths_are_filled_in_order() {
    for scheme in ["efl-mp", "larr", "mtcp"] {
        let results = run(&[("reliable.flow.scheme", scheme)]);
        assert!((38.5..=40.1).contains(&gbit(&results)), "{scheme}: {}", gbit(&results));
        assert_eq!((counter(&results, 1, "disordered"), counter(&results, 0, "timeouts")), (0, 0), "{scheme}");
    }
    let lah = run(&[("reliable.flow.scheme", "lah")]);
    assert!((9.6..=10.1).contains(&gbit(&lah)), "{}", gbit(&lah));
    let ideal = run(&[("reliable.flow.scheme", "ideal"), ("link.middle3.rate", "8Gbit")]);
    assert_eq!(gbit(&ideal), 38.0);
    // Three links of 5 us and the transmission of 192 bytes at 10 Gbit/s on each.
    assert!((ideal.flows[0].delay.mean - 15.46e-6).abs() < 0.01e-6, "{}", ideal.flows[0].delay.mean);
}

#[test]
fn a_narrow_path_limits_turns_fourfold_and_surplus_round_robin_not_at_all() {
    let narrow = ("link.middle3.rate", "6Gbit");
    let turns = run(&[narrow]);
    assert!((22.0..=24.1).contains(&gbit(&turns)), "{}", gbit(&turns));
    let srr = run(&[narrow, ("reliable.flow.striping", "srr"), ("reliable.flow.reorder_packets", "400")]);
    assert!((33.0..=36.1).contains(&gbit(&srr)), "{}", gbit(&srr));
    // The narrower a path the fewer its packets, behind which all others wait.
    let tenth = ("link.middle3.rate", "1Gbit");
    let srr = run(&[tenth, ("reliable.flow.striping", "srr"), ("reliable.flow.reorder_packets", "400")]);
    assert!((30.0..=31.1).contains(&gbit(&srr)), "{}, of 31 Gbit/s", gbit(&srr));
    let without = run(&[narrow, ("reliable.flow.scheme", "larr")]);
    assert!(gbit(&without) < 6.0, "LARR does not work where paths differ: {}", gbit(&without));
}

#[test]
fn the_buffers_trigger_mends_what_the_timer_waits_for_and_selective_repair_loses_nothing() {
    let lossy = ("link.middle3.loss", "0.002");
    let published = run(&[lossy]);
    let timer = run(&[lossy, ("reliable.flow.trigger", "timer")]);
    let selective = run(&[lossy, ("reliable.flow.repair", "selective"), ("reliable.flow.reorder_packets", "400")]);
    // Where buffers hold a fifth of a round trip what overflows must come again too, and no scheme is above the bound.
    let small = run(&[lossy, ("reliable.flow.repair", "selective")]);
    let bound = run(&[lossy, ("reliable.flow.scheme", "bound")]);
    assert!(gbit(&small) > 0.97 * gbit(&published), "{} and {}", gbit(&small), gbit(&published));
    assert!((gbit(&bound) - 30.8).abs() < 0.1, "{}: (1 + 80/1000)/(1 + 399/1000) of 40", gbit(&bound));
    assert!(gbit(&small) < gbit(&bound) && gbit(&published) < gbit(&bound), "{}", gbit(&bound));
    assert!(gbit(&published) > 4.0 * gbit(&timer), "{} and {}", gbit(&published), gbit(&timer));
    assert!((35.0..=40.1).contains(&gbit(&selective)), "{}", gbit(&selective));
    for results in [&published, &timer, &selective] {
        assert_eq!(counter(results, 1, "disordered"), 0);
    }
    assert!(counter(&published, 0, "restarts") > 0 && counter(&timer, 0, "restarts") == 0);
}

#[test]
fn a_delay_gap_of_five_microseconds_holds_no_more_packets_than_the_paper_reckons() {
    let results = run(&[("link.middle3.delay", "10us")]);
    assert!((38.0..=40.1).contains(&gbit(&results)), "{}", gbit(&results));
    // Section 4: 5 us at 10 Gbit/s are 32 packets; a margin of 8.
    let held = counter(&results, 1, "most_held");
    assert!((30..=40).contains(&held), "{held}");
}

#[test]
fn the_state_of_efl_mp_does_not_grow_with_the_paths_but_for_reorder_buffers() {
    let config = Config::default();
    for paths in [1, 2, 4, 16] {
        let of = |scheme| complexity(scheme, &config, paths);
        let expected = Complexity { sequences: 1, retransmission_buffers: 1, reorder_buffers: paths };
        assert_eq!(of(Scheme::EflMp), expected);
        assert_eq!(of(Scheme::Larr), Complexity { reorder_buffers: 0, ..expected });
        let two = Complexity { sequences: paths + 1, retransmission_buffers: paths, reorder_buffers: paths };
        assert_eq!(of(Scheme::Mtcp), two);
    }
}
