//! Weighted fair queueing (WFQ, PGPS): packets go in the order in which the fluid system would finish them.
//!
//! Source: Demers, Keshav and Shenker, "Analysis and Simulation of a Fair Queueing Algorithm", SIGCOMM 1989, section 2;
//! Parekh and Gallager, "A Generalized Processor Sharing Approach to Flow Control", IEEE/ACM Transactions on Networking
//! 1(3), 1993, sections II and III.
//!
//! | Parekh and Gallager | here |
//! |---|---|
//! | V(t) | `virtual_time`, with 32 binary places beyond tags ([`Stamp`]) |
//! | B_j, sum of phi_i over it | flows in `ends`, `weights` |
//! | F_i of the last packet that came | `fluids[queue].finish` |
//! | S_i^k = max(F_i^(k-1), V(a_i^k)), F = S + L / phi | start and finish of the head ([`Tagged`]); V(a) is its note |
//!
//! V grows by the work of the server over the weights of the flows that the fluid system still serves, whatever the
//! server's rate and however it changes. Work is known when a transmission ends; meanwhile it is taken to go on at the
//! rate of the transmission before, or at `rate` where that is given. So V is exact at all times on a link of constant
//! rate: from the first packet on with `rate`, else from the second.
//!
//! Departures: those of [`Tagged`]; a packet that is dropped takes its length out of what the fluid system has still to
//! serve of its flow. After a busy period V goes on from the largest finish, which makes no difference.
//!
//! Exactness: let c be 2^-40 of a byte, a part of a tag. A packet's cost and the start of its flow are each cut by less than c of
//! virtual time, which is c phi bytes of work; what V's division leaves is kept (`rest`). So of n packets since the link was idle the
//! fluid system has E < 2 n c (largest phi) too little to do. It serves no flow later because another has less waiting, and it does the
//! same work, so each flow has at most what it should have waiting, and all together at most E less. V gains only while a flow has
//! left that should still be served: what that flow lacks, over the weights of the others, so less than E / (least phi) each time
//! that one leaves. In all V is ahead by less than 2 n^2 c (largest phi) / (least phi): 20 bytes after 100,000 packets with weights
//! of 1 to 1000, at the very worst. If costs were cut to whole tags, c would be 2^32 times that, and a flow of small packets and a
//! large weight would lose its share by it. A packet that goes has a tag above the least by less than that and two whole tags:
//! to these are cut the start of a head and what heads are compared by.
//!
//! Cost: O(log n) in the flows; up to n flows may leave the fluid system at once, each for one that joined it. Memory: 38
//! bytes a flow beside that of [`Tagged`]. Invariants: a packet has gone at most one largest packet's time after the
//! fluid system finished it (Parekh and Gallager, theorem 1); no flow is served more than that packet less (theorem 2).

use super::discipline::Index;
use super::heap::Key;
use super::stamp::{PLACES, Stamp};
use super::tagged::{Clock, SCALE, Tagged};
use super::tournament::Tournament;
use crate::units::{Rate, Time};
use alloc::vec::Vec;

/// Weighted fair queueing over a queue for each flow.
pub type Wfq<P> = Tagged<P, Fluid>;

/// Binary places of tags in a byte.
const SCALE_PLACES: u32 = SCALE.trailing_zeros();

/// The fluid system: generalised processor sharing.
#[derive(Clone, Debug, Default)]
pub struct Fluid {
    virtual_time: Stamp,
    weights: u64,
    /// What of the work virtual time has not had, because it is less than a part of a tag.
    rest: u64,
    /// By queue.
    flows: Vec<Flow>,
    /// Flows that the fluid system still serves, by a finish that is theirs or less.
    ends: Tournament,
    largest_finish: Stamp,
    service: Option<Service>,
    /// Bytes, and the nanoseconds that they take.
    pace: (u64, u64),
    is_measured: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    /// Whole tags, and what there is beyond them: so four flows lie in a line of the cache.
    finish: u64,
    parts: u32,
    /// 0: the fluid system has finished it.
    weight: u32,
}

impl Flow {
    #[inline]
    fn finish(&self) -> Key {
        (self.finish, self.parts)
    }

    #[inline]
    fn set_finish(&mut self, finish: Stamp) {
        (self.finish, self.parts) = finish.key();
    }
}

/// The transmission that is under way.
#[derive(Clone, Copy, Debug)]
struct Service {
    since: Time,
    size: u32,
    /// What of it virtual time has had already.
    counted: u128,
}

impl<P> Wfq<P> {
    /// An empty one for a link of this rate; `None`: it measures.
    pub fn new(rate: Option<Rate>, index: Index) -> Wfq<P> {
        let pace = rate.map_or((0, 1), |rate| (rate.as_bits_per_sec(), 8_000_000_000));
        Tagged::with(Fluid { pace, is_measured: rate.is_none(), ..Fluid::default() }, index)
    }
}

/// So many bytes as work.
const fn work(bytes: u64) -> u128 {
    (bytes as u128) << (PLACES + SCALE_PLACES)
}

/// A quotient, of which most dividends are short: those take no call.
#[inline]
fn quotient(dividend: u128, divisor: u64) -> u128 {
    match u64::try_from(dividend) {
        Ok(short) => (short / divisor).into(),
        Err(_) => dividend / u128::from(divisor),
    }
}

impl Fluid {
    /// The server has worked until `now`, as far as is known.
    fn work_until(&mut self, now: Time) {
        let Some(service) = self.service else { return };
        let (bytes, nanos) = self.pace;
        let elapsed = u128::from(now.since(service.since).as_nanos());
        let done = quotient((elapsed * u128::from(bytes)).saturating_mul(1 << (PLACES + SCALE_PLACES)), nanos);
        let done = done.min(work(service.size.into()));
        if let Some(more) = done.checked_sub(service.counted) {
            self.service = Some(Service { counted: done, ..service });
            self.advance(more);
        }
    }

    /// The transmission that was under way has ended at `now`.
    fn end_service(&mut self, now: Time) {
        let Some(service) = self.service.take() else { return };
        let nanos = now.since(service.since).as_nanos();
        if self.is_measured && nanos > 0 {
            self.pace = (service.size.into(), nanos);
        }
        self.advance(work(service.size.into()).saturating_sub(service.counted));
    }

    /// The server has done so much more work.
    fn advance(&mut self, work: u128) {
        if work == 0 {
            return;
        }
        let mut work = work + u128::from(core::mem::take(&mut self.rest));
        while work > 0
            && let Some((end, queue)) = self.ends.first()
        {
            let finish = self.flows[queue as usize].finish();
            if finish > end {
                self.ends.set(queue, finish);
                continue;
            }
            let end = Stamp::of_key(end);
            let needed = end.saturating_sub(self.virtual_time).parts().saturating_mul(self.weights.into());
            if needed > work {
                let more = quotient(work, self.weights);
                // What is left is less than the weights.
                self.rest = (work as u64).wrapping_sub((more as u64).wrapping_mul(self.weights));
                self.virtual_time = self.virtual_time.saturating_add(Stamp::of_parts(more));
                return;
            }
            self.virtual_time = self.virtual_time.max(end);
            work -= needed;
            self.finish(queue);
        }
    }

    /// The fluid system serves `queue` no more.
    fn finish(&mut self, queue: u32) {
        self.ends.remove(queue);
        self.weights -= u64::from(core::mem::take(&mut self.flows[queue as usize].weight));
    }
}

impl Clock for Fluid {
    /// V when it came, in whole tags.
    type Note = u64;

    fn on_arrival(&mut self, queue: u32, since: Time, cost: Stamp, weight: u32) -> u64 {
        self.work_until(since);
        let now = self.virtual_time;
        let flow = &mut self.flows[queue as usize];
        let finish = Stamp::of_key(flow.finish()).max(now).saturating_add(cost);
        flow.set_finish(finish);
        self.largest_finish = self.largest_finish.max(finish);
        if flow.weight == 0 {
            flow.weight = weight;
            self.weights += u64::from(weight);
            self.ends.set(queue, flow.finish());
        }
        now.tags()
    }

    #[inline]
    fn start(&self, note: u64, _since: Time, last: Stamp) -> Stamp {
        last.max(Stamp::of(note))
    }

    #[inline]
    fn order(&self, _queue: u32, _start: Stamp, finish: Stamp) -> u64 {
        finish.tags()
    }

    fn on_served(&mut self, now: Time, _start: Stamp, _finish: Stamp, size: u32) {
        self.end_service(now);
        self.service = Some(Service { since: now, size, counted: 0 });
    }

    fn on_dropped(&mut self, queue: u32, cost: Stamp) {
        let flow = &mut self.flows[queue as usize];
        flow.set_finish(Stamp::of_key(flow.finish()).saturating_sub(cost));
        if flow.weight > 0 {
            self.ends.set(queue, flow.finish());
        }
    }

    fn on_idle(&mut self, now: Time) {
        self.end_service(now);
        while let Some((_, queue)) = self.ends.first() {
            self.finish(queue);
        }
        self.virtual_time = self.virtual_time.max(self.largest_finish);
        self.rest = 0;
    }

    fn on_opened(&mut self, queue: u32, _key: u32) {
        if self.flows.len() <= queue as usize {
            self.flows.resize(queue as usize + 1, Flow::default());
        }
        // The fluid system may still serve the flow whose queue it was.
        self.finish(queue);
        self.flows[queue as usize].set_finish(Stamp::of(0));
    }

    #[inline]
    fn passed(&self) -> Stamp {
        self.virtual_time
    }

    /// Starts of heads are cut to tags, so that a flow may have passed here a little before it has in the fluid system.
    #[inline]
    fn is_done(&self, queue: u32) -> bool {
        self.flows[queue as usize].weight == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thousand bytes of a flow with weight one, which the server sends in a microsecond.
    const COST: u64 = 1000 * SCALE;

    fn at(nanos: u64) -> Time {
        Time::from_nanos(nanos)
    }

    fn fluid() -> Fluid {
        let mut fluid = Fluid { pace: (1, 1), ..Fluid::default() };
        (0..3).for_each(|queue| fluid.on_opened(queue, queue));
        fluid
    }

    fn come(fluid: &mut Fluid, nanos: u64, queue: u32) -> u64 {
        fluid.on_arrival(queue, at(nanos), Stamp::of(COST), 1)
    }

    fn serve(fluid: &mut Fluid, nanos: u64) {
        fluid.on_served(at(nanos), Stamp::of(0), Stamp::of(0), 1000);
    }

    #[test]
    fn the_fluid_has_no_work_with_what_is_dropped() {
        let mut fluid = fluid();
        [0, 0, 1].iter().for_each(|queue| assert_eq!(come(&mut fluid, 0, *queue), 0));
        serve(&mut fluid, 0);
        fluid.work_until(at(500));
        assert_eq!(fluid.passed(), Stamp::of(COST / 4));
        fluid.on_dropped(0, Stamp::of(COST));
        // Each has a thousand bytes, and the server is done with them when the fluid is.
        serve(&mut fluid, 1000);
        assert_eq!(come(&mut fluid, 2000, 2), COST);
        serve(&mut fluid, 2000);
        fluid.work_until(at(2500));
        assert_eq!(fluid.passed(), Stamp::of(COST + COST / 2), "the third is alone");
    }

    #[test]
    fn a_flow_of_which_all_is_dropped_that_the_fluid_had_to_do_shares_no_more() {
        let mut fluid = fluid();
        [0, 1].iter().for_each(|queue| assert_eq!(come(&mut fluid, 0, *queue), 0));
        serve(&mut fluid, 0);
        fluid.work_until(at(500));
        fluid.on_dropped(1, Stamp::of(COST));
        fluid.work_until(at(1000));
        assert_eq!(fluid.passed(), Stamp::of(COST / 4 + COST / 2));
        // A drop of what the fluid is done with long since changes nothing.
        fluid.on_dropped(1, Stamp::of(COST));
        serve(&mut fluid, 1000);
        assert_eq!(come(&mut fluid, 1250, 2), COST);
        fluid.work_until(at(1500));
        assert_eq!(fluid.passed(), Stamp::of(COST + COST / 4));
    }

    #[test]
    fn when_the_link_falls_idle_all_has_passed_dropped_or_not() {
        let mut fluid = fluid();
        [0, 0].iter().for_each(|queue| assert_eq!(come(&mut fluid, 0, *queue), 0));
        serve(&mut fluid, 0);
        fluid.on_dropped(0, Stamp::of(COST));
        fluid.on_idle(at(1000));
        assert_eq!((fluid.passed(), fluid.weights), (Stamp::of(2 * COST), 0));
    }

    #[test]
    fn work_that_weights_do_not_divide_is_not_lost() {
        let mut fluid = fluid();
        (0..3).for_each(|queue| assert_eq!(come(&mut fluid, 0, queue), 0));
        serve(&mut fluid, 0);
        // A byte a nanosecond, of which each has a third: a part too little each time, if the rest were lost.
        (1..=999).for_each(|nanos| fluid.work_until(at(nanos)));
        assert_eq!((fluid.passed(), fluid.rest), (Stamp::of(333 * SCALE), 0));
    }

    #[test]
    fn a_flow_is_needed_until_the_fluid_is_done_with_it() {
        let mut fluid = fluid();
        assert_eq!(come(&mut fluid, 0, 0), 0);
        serve(&mut fluid, 0);
        for (nanos, is_done) in [(0, false), (999, false), (1000, true)] {
            fluid.work_until(at(nanos));
            assert_eq!(fluid.is_done(0), is_done, "{nanos}");
        }
    }

    #[test]
    fn a_queue_that_another_flow_takes_over_brings_nothing_along() {
        let mut fluid = fluid();
        fluid.on_arrival(0, at(0), Stamp::of(COST), 3);
        fluid.on_opened(0, 7);
        assert_eq!((fluid.weights, fluid.ends.first()), (0, None));
        assert_eq!(come(&mut fluid, 0, 0), 0);
        serve(&mut fluid, 0);
        fluid.work_until(at(500));
        assert_eq!((fluid.weights, fluid.passed()), (1, Stamp::of(COST / 2)));
    }
}
