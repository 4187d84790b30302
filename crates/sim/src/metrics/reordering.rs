//! How far out of order the packets of a flow arrive.
//!
//! Source: RFC 4737; the count of burst round robin's section 6.3.1.
//!
//! | RFC 4737 | here |
//! |---|---|
//! | s, the packet's number at the source (3.3) | `number`: the n-th packet that the flow sent, a retransmission a new one |
//! | NextExp (3.3) | `gaps.next()` |
//! | i, the packet's place among arrivals (4.2.1) | `arrivals` |
//! | j, the first arrival with `s[j] > s[i]` | `Opening::arrival` of the gap that `s[i]` falls into |
//! | reordering extent i - j (4.2.1) | `extent` |
//! | late-time offset, `DstTime[i] - DstTime[j]` (4.2.2) | `late_time` |
//! | byte offset: bytes that arrived from j on, before i, with s above `s[i]` (4.2.3) | `byte_offset`, IP bytes |
//! | n-reordering: the n packets just before all have s above `s[i]` (5.3) | `runs`; n up to 128 |
//!
//! Duplicates (a number that came before) are no part of the sample, as section 3.3 wants it: they are counted, and
//! nothing else happens. The burst round robin paper's count is another: over TCP sequence numbers, in which a segment
//! sent again is out of order, and so is a duplicate. A packet without data has no such number there and is left out.
//!
//! From j on every in-order arrival is above `s[i]`, so byte offset and n-reordering need only the *late* arrivals since j
//! beside running totals. Of late arrivals 4096 are remembered: with more of them between j and i, bytes of the oldest
//! count into the offset whatever their numbers.
//!
//! Cost: a few ns for a packet in order; a late one looks at the late ones since j. Warm-up: what arrives in it moves
//! NextExp, opens gaps, and is not counted.

use super::density::{Densities, Density};
use super::spread::Spread;
use crate::results;
use crate::tcp::segment::Segment;
use fairspan_core::flow::gaps::Gaps;
use fairspan_core::units::Time;
use std::collections::VecDeque;

/// Largest n of n-reordering that is told apart.
const MAX_RUN: usize = 128;
/// Late arrivals remembered.
const MAX_LATE: usize = 4096;
/// Connections of a flow whose highest sequence number is remembered.
const MAX_CONNECTIONS: usize = 256;

/// What was known when a gap opened: about the arrival that passed its numbers first.
#[derive(Clone, Copy, Debug)]
struct Opening {
    arrival: u64,
    at: Time,
    /// Bytes that arrived before it.
    bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Late {
    arrival: u64,
    number: u64,
    bytes: u32,
}

/// The reordering of one flow and direction.
#[derive(Clone, Debug)]
pub struct Reordering {
    gaps: Gaps<Opening>,
    arrivals: u64,
    bytes: u64,
    late: VecDeque<Late>,
    densities: Densities,
    highest: VecDeque<Highest>,
    counts: Counts,
}

/// The highest byte of one connection so far, for burst round robin's count.
#[derive(Clone, Copy, Debug)]
struct Highest {
    connection: u32,
    sequence: u32,
}

/// What is counted from the end of the warm-up on.
#[derive(Clone, Debug)]
struct Counts {
    received: u64,
    duplicates: u64,
    reordered: u64,
    extent: Spread,
    late_time: Spread,
    byte_offset: Spread,
    /// How many reordered packets have this largest n, from 0.
    runs: Vec<u64>,
    numbered: u64,
    below_highest: u64,
}

impl Counts {
    fn new() -> Counts {
        Counts {
            received: 0,
            duplicates: 0,
            reordered: 0,
            extent: Spread::new(true),
            late_time: Spread::new(true),
            byte_offset: Spread::new(true),
            runs: vec![0; MAX_RUN + 1],
            numbered: 0,
            below_highest: 0,
        }
    }

    fn clear(&mut self) {
        (self.received, self.duplicates, self.reordered) = (0, 0, 0);
        (self.numbered, self.below_highest) = (0, 0);
        self.runs.fill(0);
        [&mut self.extent, &mut self.late_time, &mut self.byte_offset].into_iter().for_each(Spread::clear);
    }
}

impl Default for Reordering {
    fn default() -> Reordering {
        Reordering::new()
    }
}

impl Reordering {
    /// Before the first arrival; numbers begin with 0.
    pub fn new() -> Reordering {
        Reordering {
            gaps: Gaps::new(0),
            arrivals: 0,
            bytes: 0,
            late: VecDeque::new(),
            densities: Densities::new(),
            highest: VecDeque::new(),
            counts: Counts::new(),
        }
    }

    /// The datagram with `number` (from 0) and this many IP bytes arrived.
    pub fn handle_datagram(&mut self, now: Time, number: u64, bytes: u32) {
        self.counts.numbered += 1;
        self.counts.below_highest += u64::from(number < self.gaps.next());
        self.handle_number(now, number, bytes);
    }

    /// The packet with `number` (from 0) and this many IP bytes arrived, with `segment` of one of the flow's connections.
    pub fn handle_segment(&mut self, now: Time, number: u64, bytes: u32, connection: u32, segment: &Segment) {
        if segment.length > 0 {
            self.handle_sequence(connection, segment.sequence);
        }
        self.handle_number(now, number, bytes);
    }

    fn handle_number(&mut self, now: Time, number: u64, bytes: u32) {
        let opening = Opening { arrival: self.arrivals, at: now, bytes: self.bytes };
        let arrival = self.gaps.take(number, number + 1, opening);
        if arrival.fresh == 0 {
            self.counts.duplicates += 1;
            return;
        }
        self.counts.received += 1;
        self.densities.handle_number(number);
        if let Some(opening) = arrival.late {
            self.count_late(now, number, opening);
            if self.late.len() == MAX_LATE {
                self.late.pop_front();
            }
            self.late.push_back(Late { arrival: self.arrivals, number, bytes });
        }
        self.arrivals += 1;
        self.bytes += u64::from(bytes);
    }

    fn count_late(&mut self, now: Time, number: u64, opening: Opening) {
        let counts = &mut self.counts;
        counts.reordered += 1;
        // Section 4.2.1: e = i - j.
        counts.extent.add(self.arrivals - opening.arrival);
        counts.late_time.add(now.since(opening.at).as_nanos());
        let mut offset = self.bytes - opening.bytes;
        let mut run = self.arrivals - opening.arrival;
        for late in self.late.iter().rev().take_while(|late| late.arrival > opening.arrival) {
            if late.number < number {
                offset -= u64::from(late.bytes);
                run = run.min(self.arrivals - late.arrival - 1);
            }
        }
        counts.byte_offset.add(offset);
        counts.runs[(run as usize).min(MAX_RUN)] += 1;
    }

    // burst round robin §6.3.1
    fn handle_sequence(&mut self, connection: u32, sequence: u32) {
        self.counts.numbered += 1;
        // A flow's last connections are the busy ones.
        match self.highest.iter_mut().rev().find(|highest| highest.connection == connection) {
            Some(highest) if (sequence.wrapping_sub(highest.sequence) as i32) > 0 => highest.sequence = sequence,
            Some(_) => self.counts.below_highest += 1,
            None => {
                if self.highest.len() == MAX_CONNECTIONS {
                    self.highest.pop_front();
                }
                self.highest.push_back(Highest { connection, sequence });
            }
        }
    }

    /// The measurement begins.
    pub fn begin(&mut self) {
        self.counts.clear();
        self.densities.begin();
    }

    /// What was counted. The densities take the flow as over: what was not yet judged is judged with what there is.
    pub fn result(&self) -> results::Reordering {
        let counts = &self.counts;
        let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        // Section 5.3: who is n-reordered is also (n - 1)-reordered.
        let mut n_reordering: Vec<f64> = Vec::new();
        let mut above = 0;
        for n in (1..=MAX_RUN).rev() {
            above += counts.runs[n];
            if above > 0 {
                n_reordering.push(share(above, counts.received));
            }
        }
        n_reordering.reverse();
        let (displacement, occupancy) = self.densities.result();
        results::Reordering {
            ratio: share(counts.reordered, counts.received),
            extent: counts.extent.summary(1.0),
            late_time: counts.late_time.summary(1e9),
            byte_offset: counts.byte_offset.summary(1.0),
            n_reordering,
            density: Density::shares(&displacement),
            occupancy: Density::shares(&occupancy),
            duplicates: counts.duplicates,
            below_highest: share(counts.below_highest, counts.numbered),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn watch(arrivals: &[(u64, u64)]) -> results::Reordering {
        let mut reordering = Reordering::new();
        for &(number, ms) in arrivals {
            reordering.handle_number(Time::from_millis(ms), number - 1, 100);
        }
        reordering.result()
    }

    #[test]
    fn one_late_packet_is_as_the_first_table_of_rfc_4737_says() {
        // Section 7.1: packets of 100 bytes sent every 20 ms, transit 68 ms, packet 4 took 150 ms.
        let order = [(1, 68), (2, 88), (3, 108), (5, 148), (6, 168), (7, 188), (8, 208), (4, 210), (9, 228), (10, 248)];
        let seen = watch(&order);
        assert_eq!(seen.ratio, 0.1);
        assert_eq!((seen.extent.count, seen.extent.mean), (1, 4.0));
        assert_eq!(seen.late_time.mean, 0.062);
        assert_eq!(seen.byte_offset.mean, 400.0);
        assert_eq!(seen.n_reordering, [0.1; 4]);
    }

    #[test]
    fn two_late_packets_in_order_between_them_have_one_byte_offset_and_run_of_their_own() {
        // 5 and 6 arrive after 9: both passed first by 7, but 6 has 5 just before it, which is below.
        let order = [1, 2, 3, 4, 7, 8, 9, 5, 6, 10].map(|number| (number, number));
        let seen = watch(&order);
        assert_eq!(seen.ratio, 0.2);
        assert_eq!((seen.extent.min, seen.extent.max), (3.0, 4.0));
        assert_eq!((seen.byte_offset.min, seen.byte_offset.max), (300.0, 300.0));
        assert_eq!(seen.n_reordering, [0.1, 0.1, 0.1]);
    }

    #[test]
    fn one_early_packet_makes_all_that_it_passed_reordered() {
        // Section 7.3: a packet that overtakes k others; NextExp jumps and the k are late.
        let seen = watch(&[1, 2, 3, 7, 4, 5, 6, 8].map(|number| (number, number)));
        assert_eq!((seen.ratio, seen.extent.max), (3.0 / 8.0, 3.0));
        assert_eq!(seen.n_reordering, [1.0 / 8.0]);
    }

    #[test]
    fn duplicates_are_no_part_of_the_sample() {
        let seen = watch(&[1, 2, 4, 4, 2, 3, 3, 5].map(|number| (number, number)));
        assert_eq!((seen.ratio, seen.duplicates), (0.2, 3));
        // 4 at place 2, 3 at place 3: the duplicates in between have no place.
        assert_eq!(seen.extent.max, 1.0);
    }

    #[test]
    fn what_came_in_the_warm_up_is_not_counted_but_known() {
        let mut reordering = Reordering::new();
        for number in [0, 3, 1] {
            reordering.handle_number(Time::ZERO, number, 100);
        }
        reordering.begin();
        for number in [2, 3, 4] {
            reordering.handle_number(Time::ZERO, number, 100);
        }
        let seen = reordering.result();
        assert_eq!((seen.ratio, seen.duplicates, seen.extent.max), (0.5, 1, 2.0));
    }

    #[test]
    fn burst_round_robin_counts_segments_sent_again_and_tells_connections_apart() {
        let mut reordering = Reordering::new();
        // Sequence numbers wrap; connection 1 begins below connection 0; a bare acknowledgment has no part.
        let packets = [(0, u32::MAX - 99, 200), (1, 7, 100), (0, 100, 200), (0, 100, 200), (0, 300, 0), (1, 107, 100)];
        for (number, &(connection, sequence, length)) in (0..).zip(&packets) {
            let segment = Segment { sequence, length, ..Segment::default() };
            reordering.handle_segment(Time::ZERO, number, 40 + length, connection, &segment);
        }
        let seen = reordering.result();
        assert_eq!((seen.below_highest, seen.ratio), (0.2, 0.0));
    }

    proptest! {
        /// Against the definitions, computed from the whole list of arrivals.
        #[test]
        fn every_metric_is_its_definition_for_any_order(order in proptest::collection::vec((0_u64..50, 40_u32..1500), 1..150)) {
            let mut reordering = Reordering::new();
            let mut arrived: Vec<(u64, u32, u64)> = Vec::new();
            let (mut extents, mut times, mut offsets, mut runs) = (vec![], vec![], vec![], vec![]);
            let mut duplicates = 0;
            for (index, &(number, bytes)) in order.iter().enumerate() {
                let now = (index * index) as u64;
                reordering.handle_number(Time::from_millis(now), number, bytes);
                if arrived.iter().any(|packet| packet.0 == number) {
                    duplicates += 1;
                    continue;
                }
                if let Some(first) = arrived.iter().position(|packet| packet.0 > number) {
                    extents.push((arrived.len() - first) as f64);
                    times.push((now - arrived[first].2) as f64 / 1e3);
                    let above = arrived[first..].iter().filter(|packet| packet.0 > number);
                    offsets.push(above.map(|packet| f64::from(packet.1)).sum::<f64>());
                    runs.push(arrived.iter().rev().take_while(|packet| packet.0 > number).count());
                }
                arrived.push((number, bytes, now));
            }
            let seen = reordering.result();
            let total = arrived.len() as f64;
            prop_assert_eq!(seen.duplicates, duplicates);
            prop_assert_eq!(seen.ratio, extents.len() as f64 / total);
            for (spread, values) in [(&seen.extent, &extents), (&seen.late_time, &times), (&seen.byte_offset, &offsets)] {
                prop_assert_eq!(spread.count, values.len() as u64);
                let mean = if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 };
                prop_assert!((spread.mean - mean).abs() <= 1e-9 * mean, "{} instead of {}", spread.mean, mean);
                prop_assert_eq!(spread.max, values.iter().copied().fold(0.0, f64::max));
            }
            for n in 1..=runs.iter().copied().max().unwrap_or(0) {
                let share = runs.iter().filter(|&&run| run >= n).count() as f64 / total;
                prop_assert_eq!(seen.n_reordering[n - 1], share, "n = {}", n);
            }
        }
    }
}
