//! Flow random early drop (FRED): random early detection that looks at what the flow itself has waiting.
//!
//! Source: Lin and Morris, "Dynamics of Random Early Detection", SIGCOMM 1997, section 4 and figure 4; hybrid-gateways 3.2.
//!
//! | paper | here |
//! |---|---|
//! | min_th, max_th | `least` of the buffer, and twice that |
//! | max_p, w_q, avg | `probability`, `weight`, `average` |
//! | min_q | `spared`, in packets |
//! | max_q | min_th |
//! | qlen_i, strike_i | `Flow`; kept while the flow has packets |
//! | avgcq | `average` over the flows that have packets, at least one packet |
//!
//! A flow with max_q waiting, with twice its part while the average is beyond max_th, or with its part after it has been struck twice, is
//! struck: what it sends is dropped. Between the thresholds a flow with more than min_q and its part loses packets at random, as by RED. Works
//! with one queue for all as well as with fair queues: it counts flows itself.
//!
//! With `many`, the paper's change for more flows than the buffer has room for (its section on many flows): while the average is at max_th or beyond it, a
//! flow may have two packets waiting (`FEW`), in place of none, and is struck for a third. So a flow gets in at all, and has enough to find out what was lost.
//!
//! Departures: lengths are shares of the buffer, in the unit of its limit. Packets that would be dropped at random are marked if they can be. `many`
//! is a setting, where the paper always has it: without it results are those of its figure 4. Cost: O(1) a packet; 32 bytes a flow that has packets. Invariant: no flow has
//! more than min_th and a packet.

use super::average::Average;
use super::policy::{Backlog, Bounds, Leaving, Policy, Reason, Verdict};
use super::tail::DropTail;
use crate::flow::slots::Slots;
use crate::options::Share;
use crate::rng::Rng;
use crate::units::{FlowNumber, Time};
use alloc::vec::Vec;

/// Settings of [`Fred`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FredConfig {
    /// min_th: share of the buffer, taken on average, from which on packets are dropped at random; at twice that all are. No flow has
    /// more. As text by default 0.25.
    pub least: Share,
    /// max_p: the probability at twice `least`. As text by default 0.02.
    pub probability: Share,
    /// w_q: weight of the newest sample in the average. As text by default 0.002.
    pub weight: Share,
    /// min_q: a flow with fewer packets loses none at random. As text by default 2.
    pub spared: u32,
    /// Whether each flow may have two packets waiting while the average is beyond twice `least`. As text by default off.
    pub many: bool,
}

/// What a flow may have waiting while the average is beyond max_th, with `many`: packets.
const FEW: u64 = 2;

impl FredConfig {
    /// The defaults.
    pub const PLAIN: FredConfig = FredConfig {
        least: Share::from_millionths(250_000),
        probability: Share::from_millionths(20_000),
        weight: Share::from_millionths(2000),
        spared: 2,
        many: false,
    };
}

/// What a flow has waiting.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    packets: u64,
    bytes: u64,
    strikes: u32,
}

/// Flow random early drop.
#[derive(Clone, Debug)]
pub struct Fred {
    config: FredConfig,
    average: Average,
    rng: Rng,
    /// Packets since the last that was hit while the average is between the thresholds; `None`: it was below.
    count: Option<u64>,
    slots: Slots,
    flows: Vec<Flow>,
    free: Vec<u32>,
    all: Flow,
    bounds: Bounds,
}

impl Fred {
    /// One with these settings; draws by `seed`.
    pub fn new(config: FredConfig, seed: u64) -> Fred {
        Fred {
            config,
            average: Average::new(config.weight.as_f64()),
            rng: Rng::new(seed),
            count: None,
            slots: Slots::new(),
            flows: Vec::new(),
            free: Vec::new(),
            all: Flow::default(),
            bounds: Bounds::NONE,
        }
    }

    /// A packet of `flow` waits from now on.
    pub(crate) fn on_came(&mut self, flow: FlowNumber, size: u32) {
        let slot = self.slots.slot(flow.0).unwrap_or_else(|| {
            let slot = self.free.pop().unwrap_or_else(|| {
                self.flows.push(Flow::default());
                (self.flows.len() - 1) as u32
            });
            self.slots.insert(flow.0, slot);
            slot
        });
        for flow in [&mut self.flows[slot as usize], &mut self.all] {
            flow.packets += 1;
            flow.bytes += u64::from(size);
        }
    }

    /// A packet of `flow` waits no more, whatever became of it.
    pub(crate) fn on_left(&mut self, flow: FlowNumber, size: u32) {
        let Some(slot) = self.slots.slot(flow.0) else { return };
        for flow in [&mut self.flows[slot as usize], &mut self.all] {
            flow.packets -= 1;
            flow.bytes -= u64::from(size);
        }
        if self.flows[slot as usize].packets == 0 {
            self.flows[slot as usize] = Flow::default();
            self.slots.remove(flow.0);
            self.free.push(slot);
        }
    }
}

impl<P> Policy<P> for Fred {
    fn admit(&mut self, now: Time, flow: FlowNumber, packet: &P, backlog: &Backlog) -> Verdict {
        self.bounds = backlog.bounds;
        self.average.on_arrival(now, backlog.fill_before(), backlog.packets == 0);
        let verdict = DropTail.admit(now, flow, packet, backlog);
        if verdict != Verdict::Pass {
            self.count = Some(0);
            return verdict;
        }
        let slot = self.slots.slot(flow.0);
        let Flow { packets, bytes, strikes } = slot.map_or(Flow::default(), |slot| self.flows[slot as usize]);
        let average = self.average.value();
        let least = self.config.least.as_f64();
        let held = self.bounds.share(packets, bytes, 0);
        let part = (average / self.slots.len().max(1) as f64).max(self.bounds.share(1, backlog.size, 0));
        let is_full = average >= 2.0 * least;
        let is_many = is_full && self.config.many;
        let has_too_much = if is_many { packets >= FEW } else { held >= least || (is_full && held > 2.0 * part) };
        if has_too_much || (held >= part && strikes > 1) {
            if let Some(slot) = slot {
                self.flows[slot as usize].strikes += 1;
            }
            return Verdict::Drop(Reason::Average);
        }
        if is_full {
            self.count = Some(0);
            return if is_many { Verdict::Pass } else { Verdict::Drop(Reason::Average) };
        }
        if average < least {
            self.count = None;
            return Verdict::Pass;
        }
        let count = self.count.map_or(0, |count| count + 1);
        self.count = Some(count);
        if packets < u64::from(self.config.spared) || held < part {
            return Verdict::Pass;
        }
        let base = self.config.probability.as_f64() * (average - least) / least;
        let rest = 1.0 - count as f64 * base;
        if rest > 0.0 && self.rng.unit() >= base / rest {
            return Verdict::Pass;
        }
        self.count = Some(0);
        Verdict::Mark(Reason::Early)
    }

    fn release(&mut self, now: Time, _flow: FlowNumber, _packet: &P, _leaving: &Leaving) -> Verdict {
        let Flow { packets, bytes, .. } = self.all;
        self.average.on_departure(now, self.bounds.share(packets, bytes, 0));
        Verdict::Pass
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Limit;

    /// One whose average is what is taken just now, with flows that have so many packets of 100 bytes waiting.
    fn fred(config: FredConfig, packets: &[u32]) -> Fred {
        let mut fred = Fred::new(FredConfig { weight: Share::ONE, ..config }, 1);
        for (flow, packets) in packets.iter().enumerate() {
            (0..*packets).for_each(|_| fred.on_came(FlowNumber(flow as u32), 100));
        }
        fred
    }

    /// What becomes of a packet of flow 0 that finds so many in a buffer for a thousand.
    fn admit(fred: &mut Fred, packets: u64) -> Verdict {
        let bounds = Limit::Packets(1000).into();
        let backlog = Backlog { packets, bytes: 0, memory: 0, bounds, size: 100, cost: 0, by_flow: true };
        fred.admit(Time::ZERO, FlowNumber(0), &(), &backlog)
    }

    const TENTH: FredConfig =
        FredConfig { probability: Share::from_millionths(100_000), spared: 125, ..FredConfig::PLAIN };

    // Halfway between the thresholds p_b is 0.05, and 1 to 20 packets pass between two that are hit, each number as often.
    #[test]
    fn a_flow_with_just_its_part_and_just_as_many_packets_as_are_spared_is_hit_evenly() {
        let mut fred = fred(TENTH, &[125, 125, 125]);
        let (mut gaps, mut passed) = (Vec::new(), 0);
        for _ in 0..20_000 {
            match admit(&mut fred, 375) {
                Verdict::Pass => passed += 1,
                verdict => {
                    assert_eq!(verdict, Verdict::Mark(Reason::Early));
                    gaps.push(passed);
                    passed = 0;
                }
            }
        }
        let longest = *gaps[1..].iter().max().unwrap();
        assert!((18..=20).contains(&longest), "{longest}");
        // Some 1950, each gap with a deviation of 5.8: five of the mean's.
        let mean = gaps.iter().sum::<u64>() as f64 / gaps.len() as f64;
        assert!((mean - 9.0).abs() < 0.75, "{mean} of {}", gaps.len());
    }

    #[test]
    fn packets_are_counted_from_the_lower_threshold_on() {
        // At it nothing is hit yet; they count. Below they do not.
        for (packets, verdict) in [(250, Verdict::Mark(Reason::Early)), (249, Verdict::Pass)] {
            let mut fred = fred(TENTH, &[125, 125, 125]);
            assert!((0..100).all(|_| admit(&mut fred, packets) == Verdict::Pass));
            assert_eq!(admit(&mut fred, 375), verdict, "{packets}");
        }
    }

    #[test]
    fn a_flow_that_has_just_twice_its_part_while_all_is_full_gets_no_strike() {
        for (packets, verdict) in [(200, Verdict::Pass), (201, Verdict::Drop(Reason::Average))] {
            let mut fred = fred(FredConfig::PLAIN, &[packets, 100, 100, 50, 50]);
            (0..3).for_each(|_| assert_eq!(admit(&mut fred, 500), Verdict::Drop(Reason::Average)));
            assert_eq!(admit(&mut fred, 260), verdict, "{packets}");
        }
    }

    #[test]
    fn what_has_left_counts_no_more() {
        // Of a thousand bytes no flow may have 250 or more.
        for (came, verdict) in [(3, Verdict::Pass), (4, Verdict::Drop(Reason::Average))] {
            let mut fred = fred(FredConfig::PLAIN, &[came]);
            fred.on_left(FlowNumber(0), 100);
            let bounds = Limit::Bytes(1000).into();
            let backlog = Backlog { packets: 1, bytes: 240, memory: 0, bounds, size: 100, cost: 0, by_flow: true };
            assert_eq!(fred.admit(Time::ZERO, FlowNumber(0), &(), &backlog), verdict, "{came}");
        }
    }
}
