//! A channel on which each frame takes long and which adds next to nothing: bulk traffic goes without it, and what is small by it where that is faster.

use crate::common::{UDP, bonded, channel, constant, download, over_bond};
use fairspan_core::bond::Config;
use fairspan_core::link::{Capacity, Limit, Loss, Profile, Series};
use fairspan_core::units::{Rate, Span};
use fairspan_sim::results::Results;
use fairspan_sim::world::World;

/// When a thin link grows, where it does.
const GROWS: Span = Span::from_secs(20);

/// A link, the same both ways: kbit/s before and after it grows, delay in milliseconds, loss.
#[derive(Clone, Copy)]
struct Path(u64, u64, u64, f64);

const MAIN: Path = Path(20_000, 20_000, 10, 0.0);

/// A bond of which no rate is configured, a call of 64 kbit/s, and from the tenth second on a download or, with `udp`, datagrams of 60 Mbit/s: what was
/// measured from second `from` to second `until`.
fn run(paths: &[Path], udp: bool, [from, until]: [u64; 2]) -> Results {
    let channels = paths.iter().map(|&Path(before, after, delay, loss)| {
        let kbit = |rate: u64| Rate::from_bits_per_sec(1000 * rate);
        let mut profile = Profile::new(kbit(before), Span::from_millis(delay));
        let steps = vec![(Span::ZERO, kbit(before)), (GROWS, kbit(after))];
        profile.capacity = Capacity::Series(Series::new(steps, Span::from_secs(1000)).unwrap());
        profile.queue = Limit::Packets(1000);
        if loss > 0.0 {
            profile.loss = Loss::Independent(loss);
        }
        (channel(58), [profile.clone(), profile])
    });
    let mut scenario = bonded(Config::usual(), channels);
    scenario.metrics.delay = true;
    (scenario.warm_up, scenario.duration) = (Span::from_secs(from), Span::from_secs(until));
    let bulk = [10_000, 1000 * until];
    scenario.flows.push(match udp {
        true => over_bond("bulk", bulk, constant(60_000_000, 1300), UDP),
        false => download(bulk),
    });
    scenario.flows.push(over_bond("call", [8000, 1000 * until], constant(64_000, 160), UDP));
    World::new(&scenario).unwrap().finish().unwrap()
}

fn mbit(results: &Results) -> f64 {
    results.flows[0].goodput / 1e6
}

#[test]
fn a_thin_link_takes_next_to_nothing_from_a_download_over_a_fast_one() {
    let alone = mbit(&run(&[MAIN], false, [15, 35]));
    for thin in
        [Path(500, 500, 150, 0.01), Path(300, 300, 80, 0.0), Path(1000, 1000, 150, 0.001), Path(600, 600, 5, 0.0)]
    {
        let both = mbit(&run(&[MAIN, thin], false, [15, 35]));
        println!("{} kbit/s, {} ms: {both:.2} of {alone:.2} Mbit/s", thin.0, thin.2);
        assert!(both >= 0.95 * alone, "{} kbit/s, {} ms: {both:.2} of {alone:.2} Mbit/s", thin.0, thin.2);
    }
}

#[test]
fn a_call_goes_by_the_thin_link_where_that_is_nearer() {
    let results = run(&[Path(20_000, 20_000, 150, 0.0), Path(1000, 1000, 20, 0.0)], false, [15, 35]);
    let delays = results.flows[1].delay.percentiles.unwrap();
    assert!(delays.p99 < 0.04 && mbit(&results) > 17.0, "{:.1} ms, {:.2} Mbit/s", delays.p99 * 1e3, mbit(&results));
}

/// Nothing is sent there, so only what the bond asks tells of it.
#[test]
fn a_thin_link_that_becomes_a_fast_one_is_found() {
    for udp in [false, true] {
        let after = GROWS.as_nanos() / 1_000_000_000;
        let both = mbit(&run(&[MAIN, Path(500, 40_000, 60, 0.0)], udp, [after + 16, after + 20]));
        assert!(both > 50.0, "datagrams {udp}: {both:.2} of 60 Mbit/s");
    }
}
