//! The fair rate of one link: what an ingress of weight one may send over it.
//!
//! Source: rings paper, Table I with its errata; IEEE 802.17 weights compare rate over weight.
//!
//! | symbol | here |
//! |---|---|
//! | l_i / T | [`Load::rate`] |
//! | C | `capacity` |
//! | F | the result |
//! | b = 1 | the loads fill the capacity, or `waits` |
//!
//! Busy: from F = 1/k, every load below F is granted in full, and F is what is left of the capacity for each of
//! the others; until no load is below F, or the largest one is. With an idle share: F = l_k + (1 - b), the largest load and all that is
//! left, which is the same walk with the largest load never granted.
//!
//! Departures, and why:
//! - All loads below F are granted in one pass, and passes repeat until none is: the same result, since F only rises,
//!   and no sort.
//! - A load is below F only by more than its tolerance. Loads that are limited to F are measured a little above or below
//!   it; taken for demands of their own they would move F, which moves them. Within the tolerance they count as
//!   limited, and F does not depend on them at all: 1/k is exact.
//! - So do loads that reach the rate at which the link held its ingresses of late: they follow it up, and are on their way.
//! - An idle share is for those that the link held back, together: they will all take it, and all of it for each
//!   would overshoot. If none or one was held back, that is Table I.
//!
//! Cost: one pass over the loads for each different level among them; typically two or three.
//!
//! Invariants: C/k <= F <= C. Loads limited to F fit into the capacity.

/// What an ingress sends over the link.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Its rate, in any unit, the same for all and the capacity.
    pub rate: f64,
    /// How far the rate may be off.
    pub tolerance: f64,
    /// Its weight; the lightest ingress of the ring has 1.
    pub weight: f64,
}

/// The fair rate for an ingress of weight 1 on a link of `capacity`, over which the `loads` are sent (in any order, which
/// changes). `waits`: packets wait for the link, which thus has no idle share. `limit`: the rate at which this link
/// held its ingresses when the loads were measured.
pub fn fair_rate(loads: &mut [Load], capacity: f64, waits: bool, limit: f64) -> f64 {
    let Some(mut largest) = loads.first().copied() else { return capacity };
    let (mut weights, mut total) = (0.0, 0.0);
    for load in loads.iter() {
        (weights, total) = (weights + load.weight, total + load.rate);
        if load.rate * largest.weight > largest.rate * load.weight {
            largest = *load;
        }
    }
    let top = (largest.rate + largest.tolerance) / largest.weight;
    let mut left = capacity;
    let mut open = loads;
    loop {
        let level = left / weights;
        if top < level {
            if waits {
                return level;
            }
            if top < limit {
                return (largest.rate + left - total) / largest.weight;
            }
            // What those that are not held leave, for those that are: the largest load at least.
            let (mut idle, mut held) = (left - largest.rate, largest.weight);
            let mut seen = false;
            for load in open.iter() {
                let is_largest = !seen && *load == largest;
                seen |= is_largest;
                if !is_largest {
                    let with = !load.is_below(limit);
                    idle -= if with { 0.0 } else { load.rate };
                    held += if with { load.weight } else { 0.0 };
                }
            }
            return ((idle + largest.rate) / held).max(largest.rate / largest.weight);
        }
        let mut kept = 0;
        for n in 0..open.len() {
            if !open[n].is_below(level.min(limit)) {
                open.swap(kept, n);
                kept += 1;
            }
        }
        let (rest, granted) = open.split_at_mut(kept);
        if granted.is_empty() {
            return level;
        }
        let after = (left - sum(granted, |load| load.rate), weights - sum(granted, |load| load.weight));
        if waits && top < after.0 / after.1 {
            // Table I stops at the first F above the largest load: here the order matters.
            granted.sort_unstable_by(|a, b| (a.rate * b.weight).total_cmp(&(b.rate * a.weight)));
            for load in granted {
                if top < left / weights {
                    break;
                }
                (left, weights) = (left - load.rate, weights - load.weight);
            }
            return left / weights;
        }
        (total, left, weights, open) = (total - (left - after.0), after.0, after.1, rest);
    }
}

fn sum(loads: &[Load], of: impl Fn(&Load) -> f64) -> f64 {
    loads.iter().map(of).sum()
}

impl Load {
    fn is_below(&self, level: f64) -> bool {
        self.rate + self.tolerance < level * self.weight
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn of(rates: &[f64]) -> Vec<Load> {
        rates.iter().map(|rate| Load { rate: *rate, tolerance: 0.0, weight: 1.0 }).collect()
    }

    fn fair(rates: &[f64], waits: bool) -> f64 {
        fair_rate(&mut of(rates), 1.0, waits, f64::INFINITY)
    }

    /// Table I as it is printed, for weights of 1.
    fn table_1(rates: &[f64], waits: bool) -> f64 {
        let mut l = rates.to_vec();
        l.sort_by(f64::total_cmp);
        let Some(largest) = l.last().copied() else { return 1.0 };
        let b: f64 = l.iter().sum();
        if b < 1.0 && !waits {
            return largest + (1.0 - b);
        }
        let (mut count, mut capacity) = (l.len() as f64, 1.0);
        let mut f = 1.0 / count;
        let mut i = 0;
        while i < l.len() && l[i] < f && largest >= f {
            count -= 1.0;
            capacity -= l[i];
            f = capacity / count;
            i += 1;
        }
        f
    }

    #[test]
    fn the_examples_of_the_paper_come_out() {
        assert_eq!(fair(&[1.0, 0.25, 0.25, 0.5], false), 0.25, "parking lot");
        assert!((fair(&[0.6, 0.2], false) - 0.8).abs() < 1e-12, "Figure 13");
        assert_eq!(fair(&[0.8, 0.8], false), 0.5, "Figure 13, the next cycle");
        assert!((fair(&[1.0, 0.42], false) - 0.58).abs() < 1e-12, "testbed, unbalanced");
        assert_eq!(fair(&[], false), 1.0, "an idle link");
        assert_eq!(fair(&[0.1, 0.2], true), 0.5, "packets wait: what is not sent is not free");
    }

    #[test]
    fn loads_near_the_fair_rate_count_as_limited_by_it() {
        let mut loads = of(&[0.246, 0.255, 0.249, 0.25]);
        for load in &mut loads {
            load.tolerance = 0.005;
        }
        assert_eq!(fair_rate(&mut loads, 1.0, false, f64::INFINITY), 0.25);
        let mut loads = [0.1, 0.448, 0.449].map(|rate| Load { rate, tolerance: 0.005, weight: 1.0 });
        assert!(
            (fair_rate(&mut loads, 1.0, false, f64::INFINITY) - 0.45).abs() < 1e-12,
            "though the link is not quite full"
        );
    }

    #[test]
    fn those_that_the_link_held_back_share_what_becomes_idle() {
        let rate = fair_rate(&mut of(&[0.25, 0.1, 0.25]), 1.0, false, 0.25);
        assert!((rate - 0.45).abs() < 1e-12);
        assert!((fair_rate(&mut of(&[0.25, 0.1, 0.2]), 1.0, false, 0.25) - 0.7).abs() < 1e-12, "one was held back");
        assert!((fair_rate(&mut of(&[0.25, 0.1, 0.25]), 1.0, false, 0.3) - 0.65).abs() < 1e-12, "none was");
    }

    #[test]
    fn weights_divide_a_full_link_and_a_heavy_ingress_reaches_all_of_it() {
        let load = |rate, weight| Load { rate, tolerance: 0.0, weight };
        let level = fair_rate(&mut [load(1.0, 1.0), load(1.0, 3.0)], 1.0, false, f64::INFINITY);
        assert_eq!((level, level * 3.0), (0.25, 0.75));
        let level = fair_rate(&mut [load(0.1, 1.0), load(1.0, 3.0)], 1.0, false, f64::INFINITY);
        assert!((level * 3.0 - 0.9).abs() < 1e-12);
        let level = fair_rate(&mut [load(0.5, 4.0)], 1.0, false, f64::INFINITY);
        assert_eq!(level * 4.0, 1.0);
    }

    proptest! {
        #[test]
        fn passes_find_what_table_1_finds(
            rates in proptest::collection::vec(prop_oneof![0.0..1.0f64, 0.0..0.05f64], 1..64),
            waits in any::<bool>(),
        ) {
            let (ours, printed) = (fair(&rates, waits), table_1(&rates, waits));
            prop_assert!((ours - printed).abs() < 1e-9, "{ours} and {printed}");
            let sum: f64 = rates.iter().map(|rate| rate.min(ours)).sum();
            prop_assert!(sum <= 1.0 + 1e-9 && ours >= 1.0 / rates.len() as f64 - 1e-12);
        }
    }
}
