//! A link's fair rate with weights, tolerances and rates that are held, against a walk that grants one load at a time; and when a change that is
//! announced begins a measurement anew.

use fairspan_core::ring::estimate::Meter;
use fairspan_core::ring::fair_rate::{Load, fair_rate};
use fairspan_core::rng::Rng;
use fairspan_core::units::Time;

/// Table I with weights: the smallest load for its weight is granted, then the next, until none is below the level, or the largest one is.
fn one_by_one(loads: &[Load], capacity: f64, waits: bool, limit: f64) -> f64 {
    let mut rest = loads.to_vec();
    rest.sort_by(|a, b| (a.rate / a.weight).total_cmp(&(b.rate / b.weight)));
    let Some(largest) = rest.last().copied() else { return capacity };
    let below = |load: &Load, level: f64| load.rate + load.tolerance < level * load.weight;
    loop {
        let left = capacity
            - (loads.iter().map(|load| load.rate).sum::<f64>() - rest.iter().map(|load| load.rate).sum::<f64>());
        let level = left / rest.iter().map(|load| load.weight).sum::<f64>();
        if below(&largest, level) {
            if waits {
                return level;
            }
            break;
        }
        let Some(granted) = rest.iter().position(|load| below(load, level.min(limit))) else { return level };
        rest.remove(granted);
    }
    // Something is idle. It is for the largest load and those that the link held, together.
    let others = &loads.iter().filter(|load| **load != largest).collect::<Vec<_>>();
    let held = |load: &&&Load| !below(load, limit) && !below(&largest, limit);
    let free: f64 = others.iter().filter(|load| !held(load)).map(|load| load.rate).sum();
    let weights: f64 = others.iter().filter(held).map(|load| load.weight).sum();
    ((capacity - free) / (weights + largest.weight)).max(largest.rate / largest.weight)
}

#[test]
fn passes_over_all_loads_find_what_granting_one_at_a_time_finds_whatever_weights_and_limits_are() {
    let (mut idle, mut held, mut full) = (0, 0, 0);
    for seed in 0..20_000 {
        let mut rng = Rng::new(seed);
        let (waits, few, with_weights) = (rng.below(2) == 0, rng.below(2) == 0, rng.below(3) > 0);
        let count = 1 + rng.below(if few { 4 } else { 24 });
        let capacity = [1.0, 7.0][rng.below(2) as usize];
        let unit = capacity * [0.5, 1.0, 2.0, 4.0][rng.below(4) as usize] / count as f64;
        // One at a time and in passes come to the same order where tolerances are alike for the weights.
        let tolerance = if waits { 0.0 } else { unit * [0.0, 0.1][rng.below(2) as usize] };
        let loads: Vec<Load> = (0..count)
            .map(|_| {
                let weight = if with_weights { [1.0, 2.0, 3.5, 8.0][rng.below(4) as usize] } else { 1.0 };
                Load {
                    rate: unit * rng.unit() * if rng.below(2) == 0 { weight } else { 1.0 },
                    tolerance: tolerance * weight,
                    weight,
                }
            })
            .collect();
        let limit = if rng.below(2) == 0 { f64::INFINITY } else { unit * rng.unit() };
        let right = one_by_one(&loads, capacity, waits, limit);
        let found = fair_rate(&mut loads.clone(), capacity, waits, limit);
        assert!((found - right).abs() <= 1e-9 * right, "seed {seed}: {found}, not {right}: {loads:?} {waits} {limit}");
        let weights: f64 = loads.iter().map(|load| load.weight).sum();
        assert!(found >= capacity / weights * (1.0 - 1e-9), "seed {seed}: {found}");
        let sum: f64 = loads.iter().map(|load| load.rate).sum();
        idle += u32::from(sum < capacity && !waits);
        held += u32::from(sum < capacity && !waits && limit < f64::INFINITY);
        full += u32::from(sum >= capacity);
    }
    assert!(idle > 1000 && held > 1000 && full > 1000, "{idle} {held} {full}");
}

#[test]
fn the_walk_goes_on_while_the_largest_load_is_no_less_than_the_level() {
    let fair = |rates: &[f64]| {
        let mut loads: Vec<Load> = rates.iter().map(|rate| Load { rate: *rate, tolerance: 0.0, weight: 1.0 }).collect();
        fair_rate(&mut loads, 1.0, true, f64::INFINITY)
    };
    // The largest is just what the level is at first, and after the first load.
    assert!((fair(&[0.1, 0.5]) - 0.9).abs() < 1e-12);
    assert!((fair(&[0.25, 0.34, 0.375]) - 0.41).abs() < 1e-12);
}

/// A source that has sent a packet of 1000 bytes every 12.861 us for 200 ms, measured each millisecond.
fn steady() -> (Meter, u64) {
    let mut meter = Meter::new(1, 256, Time::ZERO);
    let mut next = 0;
    for ms in 1..=200 {
        next = packets(&mut meter, next, ms * 1_000_000);
        meter.measure(Time::from_millis(ms));
    }
    (meter, next)
}

fn packets(meter: &mut Meter, mut next: u64, until: u64) -> u64 {
    while next < until {
        meter.count(Time::from_nanos(next), 0, 1000);
        next += 12_861;
    }
    next
}

#[test]
fn a_source_that_was_held_and_will_be_otherwise_by_more_than_shows_is_measured_anew_and_no_other_is() {
    let (meter, next) = steady();
    let before = meter.estimates()[0];
    assert!(before.tolerance < 0.000_05, "{before:?}");
    let (rate, tolerance) = (before.rate, before.tolerance);
    for (was, will_be, anew) in [
        (rate, rate + 1.1 * tolerance, true),
        (rate, rate - 1.1 * tolerance, true),
        (rate + 0.9 * tolerance, rate + 2.1 * tolerance, true),
        (rate - 5.0 * tolerance, rate, true),
        (rate, rate + 0.9 * tolerance, false),
        (rate, rate - 0.9 * tolerance, false),
        (rate + 1.1 * tolerance, rate + 5.0 * tolerance, false),
    ] {
        let mut meter = meter.clone();
        meter.expect(0, was, will_be);
        meter.expect(1, was, will_be);
        packets(&mut meter, next, 201_000_000);
        meter.measure(Time::from_millis(201));
        let after = meter.estimates()[0];
        // A packet is a thousandth of a byte per nanosecond in one interval.
        assert_eq!(after.tolerance > 0.0005, anew, "{was} {will_be}: {after:?}");
    }
}
