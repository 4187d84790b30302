//! How a node divides its rates on the links downstream among its own flows, one for each egress.
//!
//! Source: rings paper, V-A3, equation (9), and its footnote 7. Flow h crosses the links 0 to h - 1 downstream of its
//! node; all flows cross link 0, so the flows of a link are those from some h on.
//!
//! - **Max-min** (footnote 7): the max-min fair rates with the node's rates F^n as the links' capacities, for flows that
//!   want what they want. It gives 0.75 and 0.25 in the Parallel Parking Lot, 0.4 in Figure 5, as the paper shows.
//! - **Equal** (equation (9)): the least over the links of F^n / |P^n|, whether a flow uses its part or not.
//!
//! Departures, and why:
//! - The limiter of a flow that wants less than it may have stands at what it could have if it wanted all, its
//!   siblings giving way: no flow that starts or grows is throttled below its part for a round.
//!
//! Cost: for each of m flows with traffic one pass over the links, and m^2 log m comparisons for what they could have.
//!
//! Invariants: the limits of flows that want all sum to at most F^n on each link; a flow without traffic has its limit
//! all the same.

use alloc::vec::Vec;

/// Memory for the computation, so that it allocates once.
#[derive(Clone, Debug, Default)]
pub struct Suballocator {
    /// What is left of each link, and for how many flows.
    links: Vec<(f64, u32)>,
    /// The flows with traffic that are not settled yet.
    open: Vec<usize>,
    rates: Vec<f64>,
    /// The rates of the flows of a link, in order, each with the sum up to it.
    sorted: Vec<(f64, f64)>,
    /// The flows of a link that have what they want.
    satisfied: Vec<usize>,
    /// By link, from the furthest on, what one flow more could have there.
    newcomers: Vec<f64>,
}

impl Suballocator {
    /// For rings of at most `nodes` nodes.
    pub fn new(nodes: usize) -> Suballocator {
        let mut sub = Suballocator::default();
        sub.links.reserve(nodes);
        sub.open.reserve(nodes);
        sub.rates.reserve(nodes);
        sub.sorted.reserve(nodes);
        sub.satisfied.reserve(nodes);
        sub.newcomers.reserve(nodes);
        sub
    }

    /// Max-min. `shares[n]` is the node's rate on the n-th link downstream, `demands[n]` what the flow wants that leaves
    /// the ring behind that link: 0 if it has no traffic, infinite if it wants all. Its limit goes to `limits[n]`.
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn max_min(&mut self, shares: &[f64], demands: &[f64], limits: &mut [f64]) {
        assert!(shares.len() == demands.len() && shares.len() == limits.len(), "one flow for each link");
        self.open.clear();
        self.open.extend((0..demands.len()).filter(|flow| demands[*flow] > 0.0));
        self.allocate(shares, demands);
        self.limit(shares, demands, limits);
    }

    /// The rates at which the flows with traffic would send.
    fn allocate(&mut self, shares: &[f64], demands: &[f64]) {
        self.rates.clear();
        self.rates.resize(shares.len(), 0.0);
        self.links.clear();
        let Some(furthest) = self.open.last().copied() else { return };
        self.links.extend(shares[..=furthest].iter().map(|share| (*share, 0)));
        let mut count = self.open.len() as u32;
        let mut next = self.open.iter().copied().peekable();
        for (link, state) in self.links.iter_mut().enumerate() {
            state.1 = count;
            count -= u32::from(next.next_if(|flow| *flow == link).is_some());
        }
        while let Some(last) = self.open.last().copied() {
            let mut tightest = (f64::INFINITY, 0);
            for (link, (left, count)) in self.links[..=last].iter().enumerate() {
                let level = *left / f64::from(*count);
                if level < tightest.0 {
                    tightest = (level, link);
                }
            }
            let (level, bottleneck) = (tightest.0.max(0.0), tightest.1);
            let least = self.open.iter().map(|flow| demands[*flow]).fold(f64::INFINITY, f64::min);
            // Who wants no more than the level everybody can have gets it; else the tightest link settles its flows.
            let (links, rates) = (&mut self.links, &mut self.rates);
            self.open.retain(|flow| {
                let rate = if least <= level { demands[*flow] } else { level };
                let settles = if least <= level { rate <= level } else { *flow >= bottleneck };
                if settles {
                    rates[*flow] = rate;
                    for (left, count) in &mut links[..=*flow] {
                        (*left, *count) = (*left - rate, *count - 1);
                    }
                }
                !settles
            });
        }
    }

    /// From the rates to the limits: what each flow could have.
    fn limit(&mut self, shares: &[f64], demands: &[f64], limits: &mut [f64]) {
        let rates = &self.rates;
        self.sorted.clear();
        self.satisfied.clear();
        self.newcomers.clear();
        for link in (0..shares.len()).rev() {
            let (rate, demand) = (rates[link], demands[link]);
            if demand > 0.0 {
                let at = self.sorted.partition_point(|other| other.0 < rate);
                self.sorted.insert(at, (rate, 0.0));
                let mut sum = at.checked_sub(1).map_or(0.0, |before| self.sorted[before].1);
                for other in &mut self.sorted[at..] {
                    sum += other.0;
                    other.1 = sum;
                }
                limits[link] = if rate < demand { rate } else { f64::INFINITY };
                if rate >= demand {
                    self.satisfied.push(link);
                }
            }
            for flow in &self.satisfied {
                // Itself is among the sorted: what it has comes back to the link.
                let could = level(&self.sorted, shares[link] + rates[*flow]).max(rates[*flow]);
                limits[*flow] = limits[*flow].min(could);
            }
            let alone = self.sorted.is_empty();
            self.newcomers.push(if alone { shares[link] } else { level(&self.sorted, shares[link]) });
        }
        let mut least = f64::INFINITY;
        for (link, newcomer) in self.newcomers.iter().rev().enumerate() {
            least = least.min(*newcomer);
            if demands[link] == 0.0 {
                limits[link] = least;
            }
        }
    }

    /// Equation (9). As [`Suballocator::max_min`]; how much a flow wants does not matter, only whether it has traffic.
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn equal(&mut self, shares: &[f64], demands: &[f64], limits: &mut [f64]) {
        assert!(shares.len() == demands.len() && shares.len() == limits.len(), "one flow for each link");
        let mut count = demands.iter().filter(|demand| **demand > 0.0).count() as u32;
        // By flows with traffic, and by those without, which would be one more.
        let mut least = (f64::INFINITY, f64::INFINITY);
        for (link, share) in shares.iter().enumerate() {
            let active = demands[link] > 0.0;
            least.0 = least.0.min(share / f64::from(count.max(1)));
            least.1 = least.1.min(share / f64::from(count + 1));
            limits[link] = if active { least.0 } else { least.1 };
            count -= u32::from(active);
        }
    }
}

/// The level at which `capacity` is used up by one more flow that wants all, beside those of these rates (in order, each
/// with the sum up to it), which give way down to it.
fn level(sorted: &[(f64, f64)], capacity: f64) -> f64 {
    let part = |granted: usize| {
        let sum = granted.checked_sub(1).map_or(0.0, |last| sorted[last].1);
        (capacity - sum) / (sorted.len() - granted + 1) as f64
    };
    let (mut low, mut high) = (0, sorted.len());
    while low < high {
        let middle = (low + high) / 2;
        if part(middle) <= sorted[middle].0 {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    part(low).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: f64 = f64::INFINITY;

    fn max_min(shares: &[f64], demands: &[f64]) -> Vec<f64> {
        let mut limits = alloc::vec![0.0; shares.len()];
        Suballocator::new(shares.len()).max_min(shares, demands, &mut limits);
        limits
    }

    fn equal(shares: &[f64], demands: &[f64]) -> Vec<f64> {
        let mut limits = alloc::vec![0.0; shares.len()];
        Suballocator::new(shares.len()).equal(shares, demands, &mut limits);
        limits
    }

    fn near(ours: &[f64], right: &[f64]) {
        assert!(ours.iter().zip(right).all(|(a, b)| (a - b).abs() < 1e-12), "{ours:?}, not {right:?}");
    }

    #[test]
    fn the_node_of_the_parallel_parking_lot_gives_its_short_flow_what_the_long_one_cannot_use() {
        let (shares, demands) = ([1.0, 1.0, 1.0, 0.25], [ALL, 0.0, 0.0, ALL]);
        near(&max_min(&shares, &demands), &[0.75, 0.375, 0.375, 0.25]);
        near(&equal(&[1.0, 0.5, 1.0 / 3.0, 0.25], &demands), &[0.5, 0.25, 1.0 / 6.0, 0.25]);
    }

    #[test]
    fn the_node_of_figure_5_gives_0_4_with_max_min_and_0_25_with_equation_9() {
        let (shares, demands) = ([1.0, 0.6, 0.6, 0.2], [ALL, ALL, ALL, ALL]);
        near(&max_min(&shares, &demands), &[0.4, 0.2, 0.2, 0.2]);
        assert_eq!(equal(&shares, &demands)[0], 0.25);
    }

    #[test]
    fn the_node_of_the_two_exit_lot_halves_its_share() {
        near(&max_min(&[0.25, 1.0], &[ALL, ALL]), &[0.125, 0.125]);
    }

    #[test]
    fn what_a_flow_does_not_want_its_sibling_gets_and_its_own_limiter_does_not_throttle_it() {
        near(&max_min(&[1.0, 1.0], &[0.1, ALL]), &[0.5, 0.9]);
        near(&max_min(&[1.0, 1.0, 1.0], &[0.1, ALL, 0.05]), &[0.475, 0.85, 0.45]);
        near(&max_min(&[0.6, 0.6], &[0.1, 0.2]), &[0.4, 0.5]);
        near(&max_min(&[0.6, 0.6], &[0.0, 0.0]), &[0.6, 0.6]);
    }

    /// Small steps: every flow that can grow does.
    fn by_filling(shares: &[f64], demands: &[f64]) -> Vec<f64> {
        let step = 1e-4;
        let mut left = shares.to_vec();
        let mut rates = alloc::vec![0.0; shares.len()];
        loop {
            let mut grew = false;
            let can: Vec<usize> = (0..rates.len())
                .filter(|flow| {
                    let fits = |link: usize| {
                        let others = (link..rates.len()).filter(|f| demands[*f] > rates[*f]).count();
                        left[link] >= step * others as f64
                    };
                    rates[*flow] + step <= demands[*flow] && (0..=*flow).all(fits)
                })
                .collect();
            for flow in can {
                rates[flow] += step;
                left[..=flow].iter_mut().for_each(|left| *left -= step);
                grew = true;
            }
            if !grew {
                return rates;
            }
        }
    }

    proptest! {
        #[test]
        fn rates_are_those_of_slow_filling_and_limits_those_of_a_flow_that_wants_all(
            shares in proptest::collection::vec(0.05..1.0f64, 1..9),
            wants in proptest::collection::vec(prop_oneof![Just(0.0), Just(ALL), 0.01..0.5f64], 8),
        ) {
            let demands = &wants[..shares.len()];
            let mut sub = Suballocator::new(8);
            let mut limits = alloc::vec![0.0; shares.len()];
            sub.max_min(&shares, demands, &mut limits);
            for (ours, slow) in sub.rates.iter().zip(by_filling(&shares, demands)) {
                prop_assert!((ours - slow).abs() < 2e-3, "{:?} {slow}", sub.rates);
            }
            for (link, share) in shares.iter().enumerate() {
                let used: f64 = sub.rates[link..].iter().sum();
                prop_assert!(used <= share + 1e-9);
            }
            for flow in 0..shares.len() {
                let mut wanting = demands.to_vec();
                wanting[flow] = ALL;
                sub.max_min(&shares, &wanting, &mut limits);
                let right = limits[flow];
                sub.max_min(&shares, demands, &mut limits);
                // Siblings that a third link throttles may leave a little more than this counts on.
                prop_assert!(limits[flow] <= right + 1e-9, "{flow}: {} above {right}", limits[flow]);
                prop_assert!(limits[flow] >= right * 0.5, "{flow}: {} far below {right}", limits[flow]);
            }
        }
    }
}
