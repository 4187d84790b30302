//! Reorder density and reorder buffer-occupancy density.
//!
//! Source: RFC 5236. Each arrival has a receive index: 1, 2, 3, … without the numbers of lost packets. The displacement of
//! a packet is its receive index less its number: below zero it came early, above zero late. The reorder density is the
//! share of packets with each displacement. The buffer-occupancy density is the share of arrivals after which so many
//! packets would wait in a buffer that puts them in order and does not wait for lost ones.
//!
//! | RFC 5236 | here |
//! |---|---|
//! | DT, the displacement threshold | [`THRESHOLD`] |
//! | W, the window of the next DT + 1 arrivals | `window` |
//! | S, the arrival under consideration | the window's front |
//! | RI, the receive index: the next number not lost | the least of `unassigned` |
//! | `FD[D]`, `FB[B]` | `displacement`, `occupancy` |
//!
//! A number counts as lost when it is neither among the packets that came early nor among the next DT + 1 arrivals. The
//! RFC walks RI up and searches both for each number; here both are one heap, whose least element is the next index, so a
//! burst of a million lost packets costs nothing. A packet that arrives after its number was given up has no index and is
//! no part of the densities (RFC: considered lost). Duplicates are kept away by the caller.
//!
//! Cost: O(log DT) a packet. Memory: three arrays of DT entries, and the counts. Displacements beyond +-DT (early packets
//! after many lost ones) count at the bound.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// DT: a packet later than this many places is lost.
pub const THRESHOLD: usize = 1000;

/// Both densities of one flow.
#[derive(Clone, Debug)]
pub struct Densities {
    window: VecDeque<u64>,
    /// What is in the window or came early and has given its number to no arrival yet.
    unassigned: BinaryHeap<Reverse<u64>>,
    /// Candidates for the window's least number: ascending, the front is the least.
    least: VecDeque<u64>,
    /// What the order-restoring buffer holds.
    held: BinaryHeap<Reverse<u64>>,
    /// Numbers below were assigned or given up.
    expected: u64,
    /// The last arrival judged awaits its occupancy, which depends on the next one's window.
    pending: bool,
    /// Arrivals of the warm-up that are still to be judged.
    uncounted: usize,
    displacement: Density,
    occupancy: Density,
    threshold: usize,
}

impl Default for Densities {
    fn default() -> Densities {
        Densities::new()
    }
}

impl Densities {
    /// Before the first arrival.
    pub fn new() -> Densities {
        Densities::with_threshold(THRESHOLD)
    }

    /// With another DT.
    pub fn with_threshold(threshold: usize) -> Densities {
        Densities {
            window: VecDeque::new(),
            unassigned: BinaryHeap::new(),
            least: VecDeque::new(),
            held: BinaryHeap::new(),
            expected: 0,
            pending: false,
            uncounted: 0,
            displacement: Density::new(threshold),
            occupancy: Density::new(threshold),
            threshold,
        }
    }

    /// A packet with `number` arrived, for the first time.
    pub fn handle_number(&mut self, number: u64) {
        if number < self.expected {
            return;
        }
        self.window.push_back(number);
        self.unassigned.push(Reverse(number));
        while self.least.back().is_some_and(|&back| back > number) {
            self.least.pop_back();
        }
        self.least.push_back(number);
        if self.window.len() > self.threshold {
            self.judge();
        }
    }

    /// The measurement begins: what arrived before is judged, but not counted.
    pub fn begin(&mut self) {
        self.settle();
        self.uncounted = self.window.len();
        self.displacement.clear();
        self.occupancy.clear();
    }

    /// Displacements and occupancies over everything that arrived.
    pub fn result(&self) -> (Density, Density) {
        let mut rest = self.clone();
        while !rest.window.is_empty() {
            rest.judge();
        }
        rest.settle();
        (rest.displacement, rest.occupancy)
    }

    /// Takes the window's front as the arrival under consideration.
    fn judge(&mut self) {
        self.settle();
        let (Some(number), Some(Reverse(index))) = (self.window.pop_front(), self.unassigned.pop()) else { return };
        if self.least.front() == Some(&number) {
            self.least.pop_front();
        }
        self.held.push(Reverse(number));
        self.expected = index + 1;
        if self.uncounted > 0 {
            self.uncounted -= 1;
            return;
        }
        self.displacement.add((i128::from(index) - i128::from(number)) as i64);
        self.pending = true;
    }

    /// Gives the last arrival judged its occupancy, now that the window shows what is not lost.
    fn settle(&mut self) {
        let wanted = self.least.front().copied().unwrap_or(u64::MAX);
        while self.held.peek().is_some_and(|&Reverse(number)| number < wanted) {
            self.held.pop();
        }
        if std::mem::take(&mut self.pending) {
            self.occupancy.add(self.held.len() as i64);
        }
    }
}

/// How often whole numbers within a bound came.
#[derive(Clone, Debug)]
pub struct Density {
    bound: i64,
    counts: Vec<u64>,
}

impl Density {
    fn new(bound: usize) -> Density {
        Density { bound: bound as i64, counts: vec![0; 2 * bound + 1] }
    }

    fn add(&mut self, value: i64) {
        self.counts[(value.clamp(-self.bound, self.bound) + self.bound) as usize] += 1;
    }

    fn clear(&mut self) {
        self.counts.fill(0);
    }

    /// (value, share) for each value that came.
    pub fn shares(&self) -> Vec<(i32, f64)> {
        let total: u64 = self.counts.iter().sum();
        let values = (-self.bound..).zip(&self.counts).filter(|(_, count)| **count > 0);
        values.map(|(value, &count)| (value as i32, count as f64 / total as f64)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Shares = Vec<(i32, f64)>;

    fn densities(threshold: usize, arrivals: &[u64]) -> (Shares, Shares) {
        let mut densities = Densities::with_threshold(threshold);
        arrivals.iter().for_each(|&number| densities.handle_number(number));
        let (displacement, occupancy) = densities.result();
        (displacement.shares(), occupancy.shares())
    }

    #[test]
    fn the_example_without_loss_comes_out() {
        // RFC 5236's arrivals 1 4 2 5 3 6 7 8: displacements 0 -2 1 -1 2 0 0 0, occupancies 0 1 1 2 0 0 0 0.
        let (displacement, occupancy) = densities(4, &[0, 3, 1, 4, 2, 5, 6, 7]);
        assert_eq!(displacement, [(-2, 0.125), (-1, 0.125), (0, 0.5), (1, 0.125), (2, 0.125)]);
        assert_eq!(occupancy, [(0, 0.625), (1, 0.25), (2, 0.125)]);
    }

    #[test]
    fn lost_packets_displace_nothing_and_nothing_waits_for_them() {
        let (displacement, occupancy) = densities(3, &[0, 1, 4, 5, 6, 7, 8, 1_000_000, 1_000_001]);
        assert_eq!((displacement, occupancy), (vec![(0, 1.0)], vec![(0, 1.0)]));
    }

    #[test]
    fn a_packet_later_than_the_threshold_is_lost() {
        // Packet 0 comes 3 places late: with DT = 3 it is late, with DT = 2 it is lost.
        let late = densities(3, &[1, 2, 3, 0, 4, 5, 6, 7]).0;
        assert_eq!(late, [(-1, 0.375), (0, 0.5), (3, 0.125)]);
        assert_eq!(densities(2, &[1, 2, 3, 0, 4, 5, 6, 7]).0, [(0, 1.0)]);
    }

    #[test]
    fn arrivals_of_the_warm_up_are_not_counted() {
        let mut densities = Densities::with_threshold(4);
        [2, 1, 0].into_iter().for_each(|number| densities.handle_number(number));
        densities.begin();
        [3, 4, 6, 5].into_iter().for_each(|number| densities.handle_number(number));
        let (displacement, occupancy) = densities.result();
        assert_eq!(displacement.shares(), [(-1, 0.25), (0, 0.5), (1, 0.25)]);
        assert_eq!(occupancy.shares(), [(0, 0.75), (1, 0.25)]);
    }

    /// RFC 5236 as written: RI walks up, and window and buffer are searched for it.
    fn slow(threshold: usize, arrivals: &[u64]) -> (Shares, Shares) {
        let (mut displacement, mut occupancy) = (Density::new(threshold), Density::new(threshold));
        let mut waiting: VecDeque<u64> = arrivals.iter().copied().collect();
        let mut window: VecDeque<u64> = VecDeque::new();
        let mut early: Vec<u64> = Vec::new();
        let mut held: Vec<u64> = Vec::new();
        let mut index = 0;
        loop {
            while window.len() < threshold + 1 {
                match waiting.pop_front() {
                    Some(number) if number < index => {}
                    Some(number) => window.push_back(number),
                    None => break,
                }
            }
            let Some(&number) = window.front() else { break };
            while !window.contains(&index) && !early.contains(&index) {
                index += 1;
            }
            displacement.add(index as i64 - number as i64);
            early.push(number);
            early.retain(|&other| other != index);
            held.push(number);
            window.pop_front();
            index += 1;
            while window.len() < threshold + 1 {
                match waiting.pop_front() {
                    Some(number) if number < index => {}
                    Some(number) => window.push_back(number),
                    None => break,
                }
            }
            held.retain(|&other| window.iter().any(|&wanted| wanted < other));
            occupancy.add(held.len() as i64);
        }
        (displacement.shares(), occupancy.shares())
    }

    proptest! {
        #[test]
        fn densities_are_those_of_the_algorithm_as_written(
            keys in proptest::collection::vec((0_u64..20, any::<bool>()), 1..120),
            threshold in 1_usize..12,
        ) {
            // Numbers are displaced by up to 20 places, and every second one may be lost.
            let mut order: Vec<(u64, u64)> =
                (0..).zip(&keys).filter(|(number, key)| key.1 || number % 3 > 0).map(|(n, key)| (n + key.0, n)).collect();
            order.sort_unstable();
            let arrivals: Vec<u64> = order.into_iter().map(|(_, number)| number).collect();
            prop_assert_eq!(densities(threshold, &arrivals), slow(threshold, &arrivals));
        }
    }
}
