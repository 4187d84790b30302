//! A link that hardly carries anything for a second keeps what is under way on it: that goes by the other link too.

use crate::common::{bonded, channel, download};
use fairspan_core::bond::Config;
use fairspan_core::link::{Capacity, Limit, Profile, Series};
use fairspan_core::units::{Rate, Span};
use fairspan_sim::results::Results;
use fairspan_sim::world::World;

const SECONDS: fn(u64) -> Span = Span::from_secs;

/// One TCP connection (CUBIC) over a link of `mbit` that has a fiftieth of that in the twentieth second, and over another one. Nobody has
/// said any rate.
fn falls(mbit: u64, other: u64) -> Results {
    let [whole, low] = [mbit, mbit / 50].map(Rate::from_mbit);
    let mut falling = Profile::new(whole, Span::from_millis(25));
    let steps = [(0, whole), (20, low), (21, whole)].map(|(second, rate)| (SECONDS(second), rate));
    falling.capacity = Capacity::Series(Series::new(steps.to_vec(), SECONDS(30)).unwrap());
    let mut links = [falling, Profile::new(Rate::from_mbit(other), Span::from_millis(35))];
    links.iter_mut().for_each(|link| link.queue = Limit::Packets(1000));
    let mut scenario = bonded(Config::usual(), links.map(|link| (channel(51), [link.clone(), link])));
    (scenario.warm_up, scenario.duration) = (SECONDS(19), SECONDS(24));
    scenario.flows.push(download([5_000, 24_000]));
    World::new(&scenario).unwrap().finish().unwrap()
}

fn counter(results: &Results, end: usize, name: &str) -> u64 {
    results.bonds[end].counters.iter().find(|(counter, _)| counter == name).expect(name).1
}

#[test]
fn what_is_under_way_on_a_link_that_nearly_stands_still_is_missed_by_nobody() {
    for (mbit, other) in [(100, 60), (300, 50)] {
        let results = falls(mbit, other);
        let [detoured, missing] =
            [(0, "detoured"), (1, "packets_missing")].map(|(end, name)| counter(&results, end, name));
        println!("{mbit} beside {other} Mbit/s: {detoured} packets, {missing} missing");
        // Without, 825 of the second pair come too late.
        assert!(detoured > 0 && missing == 0, "{mbit} beside {other} Mbit/s: {detoured} packets, {missing} missing");
    }
}
