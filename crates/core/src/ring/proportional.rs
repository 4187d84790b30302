//! Proportional fairness, for comparison: the rates with the largest sum of weight × logarithm of rate.
//!
//! Source: Kelly, Charging and rate control for elastic traffic, 1997, to which the rings paper compares RIAS in III-B;
//! solved by a primal-dual interior-point method (Nocedal and Wright, Numerical Optimization, 14.1 and 19).
//!
//! The numbers that the paper prints for the Parking Lot (0.12, 0.16, 0.24, 0.48) are shares in inverse proportion to
//! hops. The usual definition, which is this one, gives 1/4 each there: links 1 to 3 are never full, so that all four
//! flows pay for link 4 alone. A flow gets less for its hops only where several links on its way are full.
//!
//! | symbol | here |
//! |---|---|
//! | x_s, w_s | `rate`, `weight` |
//! | a link's price, what it leaves free | `Way::price`, `Way::room` |
//! | the price of a demand, what it leaves free | `User::price`, `User::room` |
//! | the barrier | `target` |
//!
//! At the optimum weight / rate = sum of the prices on the way + price of the demand, and only what is full has a price.
//! Newton's method solves that with price × room = target, while the target falls to nothing.
//!
//! Departures: a flow has its ingress's weight; demands are finite.
//!
//! Cost: some 20 to 40 steps, at most 200, of O(ways³ + sum of hops × ways); O(ways²) memory. Rates are exact to about 1e-9 of
//! the capacity, and to 1e-5 where a link is full that costs nothing.
//!
//! Invariants: rates, rooms and prices stay positive until the last step.

use super::problem::{Flow, Problem};
use super::{NodeId, Ringlet};
use alloc::vec;
use alloc::vec::Vec;

/// More would be of no use.
const MOST_STEPS: usize = 200;

/// price × room at which it ends, for a capacity of 1 and a weight of 1.
const END: f64 = 1e-13;

#[derive(Clone, Copy, Debug)]
struct Way {
    capacity: f64,
    price: f64,
    room: f64,
}

#[derive(Clone, Debug)]
struct User {
    index: usize,
    weight: f64,
    /// First way and hops, in the direction of the data.
    first: usize,
    hops: usize,
    rate: f64,
    /// Of its demand: no price where it has none.
    price: f64,
    room: f64,
}

/// The rate of each flow, in the order of the flows.
pub fn allocate(problem: &Problem) -> Vec<f64> {
    let mut rates = vec![0.0; problem.flows().len()];
    for ringlet in Ringlet::BOTH {
        let Some(mut network) = Network::new(problem, ringlet) else { continue };
        for _ in 0..MOST_STEPS {
            if network.step() <= END {
                break;
            }
        }
        for user in &network.users {
            rates[user.index] = user.rate * network.unit;
        }
    }
    rates
}

struct Network {
    ways: Vec<Way>,
    users: Vec<User>,
    unit: f64,
}

impl Network {
    /// A ringlet with rates that fit. `None`: nothing flows.
    fn new(problem: &Problem, ringlet: Ringlet) -> Option<Network> {
        let nodes = problem.nodes();
        let place = |node: NodeId| if ringlet == Ringlet::Zero { node.index() } else { nodes - 1 - node.index() };
        let flows = || problem.flows().iter().enumerate().filter(|(_, flow)| flow.route.ringlet == ringlet);
        let flows = || flows().filter(|(_, flow)| flow.most() > 0.0);
        let mut crossing = vec![0.0; nodes];
        for node in flows().flat_map(|(_, flow)| problem.along(flow)) {
            crossing[place(node)] += 1.0;
        }
        let mut ways = vec![Way { capacity: 0.0, price: 0.0, room: 0.0 }; nodes];
        for node in (0..nodes).map(NodeId::at) {
            ways[place(node)].capacity = problem.capacity(node, ringlet);
        }
        let used = || ways.iter().zip(&crossing).filter(|(_, crossing)| **crossing > 0.0);
        let unit = used().map(|(way, _)| way.capacity).reduce(f64::max)?;
        let heaviest = flows().map(|(_, flow)| problem.weight(flow.from)).fold(0.0, f64::max);
        ways.iter_mut().for_each(|way| way.capacity /= unit);
        let user = |(index, flow): (usize, &Flow)| {
            let demand = flow.most() / unit;
            let share = problem.along(flow).map(|node| ways[place(node)].capacity / crossing[place(node)]);
            let rate = 0.5 * share.fold(demand, f64::min);
            let price = if demand.is_finite() { 1.0 } else { 0.0 };
            let (weight, first) = (problem.weight(flow.from) / heaviest, place(flow.from));
            User { index, weight, first, hops: flow.route.hops, rate, price, room: demand - rate }
        };
        let users: Vec<User> = flows().map(user).collect();
        let mut network = Network { ways, users, unit };
        let carried = network.sums(|user| user.rate);
        for ((way, carried), crossing) in network.ways.iter_mut().zip(carried).zip(crossing) {
            way.room = way.capacity - carried;
            way.price = if crossing > 0.0 { 1.0 } else { 0.0 };
        }
        Some(network)
    }

    /// By way, the sum over the flows that cross it.
    fn sums(&self, of: impl Fn(&User) -> f64) -> Vec<f64> {
        let mut sums = vec![0.0; self.ways.len()];
        for user in &self.users {
            let value = of(user);
            for hop in 0..user.hops {
                sums[(user.first + hop) % self.ways.len()] += value;
            }
        }
        sums
    }

    /// A flow's sum over the ways that it crosses.
    fn along(&self, user: &User, of: impl Fn(usize) -> f64) -> f64 {
        (0..user.hops).map(|hop| of((user.first + hop) % self.ways.len())).sum()
    }

    /// One Newton step towards a target a tenth as far: the mean of price × room before it.
    fn step(&mut self) -> f64 {
        let count = self.ways.len();
        let with_price = self.users.iter().filter(|user| user.price > 0.0).count();
        let prices = self.ways.iter().filter(|way| way.price > 0.0).count() + with_price;
        let gap: f64 = self.ways.iter().map(|way| way.price * way.room).sum::<f64>()
            + self.users.iter().filter(|user| user.price > 0.0).map(|user| user.price * user.room).sum::<f64>();
        let mean = gap / prices.max(1) as f64;
        let target = 0.1 * mean;
        // With the changes d: weight / rate² d_rate + sum of d_price + d_demand_price = residue, room + d_room =
        // capacity - carried - d_carried, price d_room + room d_price = target - price × room. Rates and the demands'
        // prices go out, which leaves the ways' prices.
        let stiffness: Vec<f64> = self.users.iter().map(|u| u.weight / (u.rate * u.rate) + pull(u)).collect();
        let residue: Vec<f64> = self
            .users
            .iter()
            .map(|user| {
                let paid = self.along(user, |way| self.ways[way].price) + user.price;
                let demand = if user.price > 0.0 { target / user.room - user.price } else { 0.0 };
                user.weight / user.rate - paid - demand
            })
            .collect();
        let mut matrix = vec![0.0; count * count];
        let mut right = vec![0.0; count];
        for ((user, stiffness), residue) in self.users.iter().zip(&stiffness).zip(&residue) {
            for hop in 0..user.hops {
                let row = (user.first + hop) % count;
                right[row] += residue / stiffness;
                for other in 0..user.hops {
                    matrix[row * count + (user.first + other) % count] += 1.0 / stiffness;
                }
            }
        }
        let carried = self.sums(|user| user.rate);
        for (row, way) in self.ways.iter().enumerate() {
            if way.price > 0.0 {
                matrix[row * count + row] += way.room / way.price;
                right[row] += carried[row] - way.capacity + target / way.price;
            } else {
                matrix[row * count + row] = 1.0;
            }
        }
        let d_price = solve(&mut matrix, right);
        let d_rates: Vec<f64> = self
            .users
            .iter()
            .zip(stiffness.iter().zip(&residue))
            .map(|(user, (stiffness, residue))| (residue - self.along(user, |way| d_price[way])) / stiffness)
            .collect();
        // As far as all stays positive.
        let mut length = 1.0_f64;
        let mut keep = |value: f64, change: f64| {
            if change < 0.0 {
                length = length.min(-0.99 * value / change);
            }
        };
        let d_room: Vec<f64> = (self.ways.iter().zip(&d_price))
            .map(|(way, d)| if way.price > 0.0 { (target - way.room * d) / way.price - way.room } else { 0.0 })
            .collect();
        for ((way, &d_price), &d_room) in self.ways.iter().zip(&d_price).zip(&d_room) {
            keep(way.price, d_price);
            keep(way.room, d_room);
        }
        for (user, &d_rate) in self.users.iter().zip(&d_rates) {
            keep(user.rate, d_rate);
            if user.price > 0.0 {
                keep(user.room, -d_rate);
                keep(user.price, demand_change(user, d_rate, target));
            }
        }
        for ((way, d_price), d_room) in self.ways.iter_mut().zip(&d_price).zip(&d_room) {
            way.price += length * d_price;
            way.room += length * d_room;
        }
        for (user, d_rate) in self.users.iter_mut().zip(&d_rates) {
            if user.price > 0.0 {
                user.price += length * demand_change(user, *d_rate, target);
                user.room -= length * d_rate;
            }
            user.rate += length * d_rate;
        }
        mean
    }
}

/// How much a demand's price adds to what holds a rate.
fn pull(user: &User) -> f64 {
    if user.price > 0.0 { user.price / user.room } else { 0.0 }
}

/// What a demand's price changes by when the rate changes.
fn demand_change(user: &User, d_rate: f64, target: f64) -> f64 {
    target / user.room - user.price + user.price / user.room * d_rate
}

/// Solves for a symmetric positive matrix, by L D Lᵀ in place.
fn solve(matrix: &mut [f64], mut right: Vec<f64>) -> Vec<f64> {
    let count = right.len();
    for k in 0..count {
        let (upper, lower) = matrix.split_at_mut((k + 1) * count);
        let pivot = &upper[k * count..];
        for (below, row) in lower.chunks_exact_mut(count).enumerate() {
            if row[k] != 0.0 {
                let factor = row[k] / pivot[k];
                row[k..].iter_mut().zip(&pivot[k..]).for_each(|(cell, pivot)| *cell -= factor * pivot);
                right[k + 1 + below] -= factor * right[k];
            }
        }
    }
    for k in (0..count).rev() {
        let row = &matrix[k * count..(k + 1) * count];
        let rest: f64 = row[k + 1..].iter().zip(&right[k + 1..]).map(|(cell, x)| cell * x).sum();
        right[k] = (right[k] - rest) / row[k];
    }
    right
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::random;
    use crate::rng::Rng;

    #[track_caller]
    fn close(ours: &[f64], theirs: &[f64], within: f64) {
        for (ours, theirs) in ours.iter().zip(theirs) {
            assert!((ours - theirs).abs() < within, "{ours} for {theirs}");
        }
    }

    #[test]
    fn the_usual_definition_gives_a_quarter_each_in_the_parking_lot() {
        close(&allocate(&random::line(5, &[(1, 5), (2, 5), (3, 5), (4, 5)])), &[0.25; 4], 1e-9);
    }

    #[test]
    fn who_crosses_two_full_links_pays_for_both() {
        close(&allocate(&random::line(3, &[(1, 3), (1, 2), (2, 3)])), &[1.0 / 3.0, 2.0 / 3.0, 2.0 / 3.0], 1e-9);
        // By hand: with y for flow (1,5) the prices are 1/(1 - y) and 3/(1 - y), so y = (1 - y)/4.
        let parallel = random::line(5, &[(1, 2), (1, 5), (2, 5), (3, 5), (4, 5)]);
        let third = 4.0 / 15.0;
        close(&allocate(&parallel), &[0.8, 0.2, third, third, third], 1e-9);
    }

    #[test]
    fn weights_and_demands_count() {
        let mut problem = random::line(3, &[(1, 3), (2, 3)]);
        problem.set_weight(NodeId::at(0), 3.0).unwrap();
        close(&allocate(&problem), &[0.75, 0.25], 1e-9);
        problem.add(NodeId::at(1), NodeId::at(2), None, Some(0.2)).unwrap();
        close(&allocate(&problem), &[0.6, 0.2, 0.2], 1e-5);
        problem.add(NodeId::at(1), NodeId::at(2), None, Some(0.0)).unwrap();
        assert_eq!(allocate(&problem)[3], 0.0);
    }

    #[test]
    fn it_comes_to_its_end_in_some_forty_steps() {
        let mut most = 0;
        for seed in 0..150 {
            let problem = random::problem(&mut Rng::new(seed), 12, 30);
            for ringlet in Ringlet::BOTH {
                let Some(mut network) = Network::new(&problem, ringlet) else { continue };
                let steps = (0..MOST_STEPS).take_while(|_| network.step() > END).count();
                most = most.max(steps);
                for user in &network.users {
                    let (rate, demand) = (user.rate * network.unit, problem.flows()[user.index].most());
                    assert!(rate <= demand * (1.0 + 1e-9), "seed {seed}: {rate} of {demand}");
                }
            }
        }
        assert!(most <= 50, "{most} steps");
    }

    /// Σ weight (x - rate) / rate over other rates x that fit is never positive: Kelly's own definition.
    #[test]
    fn no_other_rates_have_a_larger_sum_of_proportional_changes() {
        for seed in 0..150 {
            let mut rng = Rng::new(seed);
            let problem = random::problem(&mut rng, 12, 30);
            let rates = allocate(&problem);
            let others = [crate::ring::max_min::allocate(&problem), random::fitting(&mut rng, &problem)];
            for other in others {
                let gain = |((flow, x), rate): ((&Flow, f64), &f64)| problem.weight(flow.from) * (x - rate) / rate;
                let sum: f64 = problem.flows().iter().zip(other).zip(&rates).map(gain).sum();
                assert!(sum < 1e-6, "seed {seed}: {sum}");
            }
            for node in (0..problem.nodes()).map(NodeId::at) {
                for ringlet in Ringlet::BOTH {
                    let on = problem.flows().iter().zip(&rates).filter(|(flow, _)| {
                        flow.route.ringlet == ringlet && problem.along(flow).any(|other| other == node)
                    });
                    let carried: f64 = on.map(|(_, rate)| rate).sum();
                    assert!(carried <= problem.capacity(node, ringlet) * (1.0 + 1e-9), "seed {seed}");
                }
            }
        }
    }
}
