//! A link whose rate is another one each second, as satellites' and mobile networks' are, beside a thin one. Nobody has said any rate.

use crate::common::{bonded, channel, download};
use fairspan_core::bond::Config;
use fairspan_core::link::{Capacity, Limit, Profile, Series};
use fairspan_core::rng::Rng;
use fairspan_core::units::{Rate, Span};
use fairspan_sim::model::Hop;
use fairspan_sim::world::World;

/// When what measures the links is over and the connection begins, when it counts, and for how long.
const START: u64 = 10;
const FROM: u64 = 15;
const LENGTH: u64 = 60;

/// 60 to 320 Mbit/s, and one second in ten a tenth of that.
fn wavering(seed: u64) -> Capacity {
    let mut rng = Rng::new(seed);
    let steps = (0..FROM + LENGTH).map(|second| {
        let mbit = (60 + rng.below(261)) / if second > FROM && rng.below(10) == 0 { 10 } else { 1 };
        (Span::from_secs(second), Rate::from_mbit(if second < FROM { 200 } else { mbit }))
    });
    Capacity::Series(Series::new(steps.collect(), Span::from_secs(FROM + LENGTH)).unwrap())
}

/// What one TCP connection (CUBIC) has in Mbit/s: over the bond, or over the wavering link alone.
fn mbit(alone: bool, seed: u64) -> f64 {
    let mut wide = Profile::new(Rate::from_mbit(200), Span::from_millis(25));
    wide.capacity = wavering(seed);
    let mut thin = Profile::new(Rate::from_mbit(3), Span::from_millis(26));
    (wide.queue, thin.queue) = (Limit::Packets(1000), Limit::Packets(1000));
    let mut scenario = bonded(Config::usual(), [wide, thin].map(|profile| (channel(51), [profile.clone(), profile])));
    (scenario.warm_up, scenario.duration) = (Span::from_secs(FROM), Span::from_secs(FROM + LENGTH));
    scenario.seed = seed;
    let mut flow = download([1000 * START, 1000 * (FROM + LENGTH)]);
    if alone {
        (flow.path, flow.back) = (vec![Hop::Link(0)], vec![Hop::Link(1)]);
        scenario.bonds.clear();
    }
    scenario.flows.push(flow);
    World::new(&scenario).unwrap().finish().unwrap().flows[0].goodput / 1e6
}

#[test]
fn a_bond_of_a_link_that_wavers_has_seven_tenths_of_what_plain_tcp_has_there() {
    let found: Vec<(f64, f64)> = (1..=6).map(|seed| (mbit(false, seed), mbit(true, seed))).collect();
    println!("bond and link alone, Mbit/s: {found:.1?}");
    let (bond, alone) = found.iter().fold((0.0, 0.0), |sum, found| (sum.0 + found.0, sum.1 + found.1));
    // Two thirds where the host queue has room for the rate of now alone. What is left is how soon the law finds a rate that rose.
    assert!(bond >= 0.7 * alone, "{found:.1?}");
}
