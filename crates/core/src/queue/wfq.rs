//! Weighted fair queueing (WFQ, PGPS): packets go in the order in which the fluid system would finish them.
//!
//! Source: Demers, Keshav and Shenker, "Analysis and Simulation of a Fair Queueing Algorithm", SIGCOMM 1989, section 2;
//! Parekh and Gallager, "A Generalized Processor Sharing Approach to Flow Control", IEEE/ACM Transactions on Networking
//! 1(3), 1993, sections II and III.
//!
//! | Parekh and Gallager | here |
//! |---|---|
//! | V(t) | `virtual_time`, with 32 binary places |
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
//! Cost: O(log n) in the flows; up to n flows may leave the fluid system at once, each for one that joined it. Memory: 38
//! bytes a flow beside that of [`Tagged`]. Invariants: a packet has gone at most one largest packet's time after the
//! fluid system finished it (Parekh and Gallager, theorem 1); no flow is served more than that packet less (theorem 2).

use super::discipline::Index;
use super::tagged::{Clock, SCALE, Tagged};
use super::tournament::Tournament;
use crate::units::{Rate, Time};
use alloc::vec::Vec;

/// Weighted fair queueing over a queue for each flow.
pub type Wfq<P> = Tagged<P, Fluid>;

/// Binary places of virtual time.
const PLACES: u32 = 32;
/// Binary places of tags in a byte.
const SCALE_PLACES: u32 = SCALE.trailing_zeros();

/// The fluid system: generalised processor sharing.
#[derive(Clone, Debug, Default)]
pub struct Fluid {
    virtual_time: u128,
    weights: u64,
    /// By queue.
    flows: Vec<Flow>,
    /// Flows that the fluid system still serves, by a finish that is theirs or less.
    ends: Tournament,
    largest_finish: u64,
    service: Option<Service>,
    /// Bytes, and the nanoseconds that they take.
    pace: (u64, u64),
    is_measured: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    finish: u64,
    /// 0: the fluid system has finished it.
    weight: u32,
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

impl Fluid {
    /// The server has worked until `now`, as far as is known.
    fn work_until(&mut self, now: Time) {
        let Some(service) = self.service else { return };
        let (bytes, nanos) = self.pace;
        let elapsed = u128::from(now.since(service.since).as_nanos());
        let done = (elapsed * u128::from(bytes)).saturating_mul(1 << (PLACES + SCALE_PLACES)) / u128::from(nanos);
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
    fn advance(&mut self, mut work: u128) {
        while work > 0
            && let Some((end, queue)) = self.ends.first()
        {
            let finish = self.flows[queue as usize].finish;
            if finish > end {
                self.ends.set(queue, (finish, 0));
                continue;
            }
            let end = u128::from(end) << PLACES;
            let needed = end.saturating_sub(self.virtual_time).saturating_mul(self.weights.into());
            if needed > work {
                self.virtual_time += work / u128::from(self.weights);
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

    #[inline]
    fn now(&self) -> u64 {
        (self.virtual_time >> PLACES) as u64
    }
}

impl Clock for Fluid {
    /// V when it came.
    type Note = u64;

    fn on_arrival(&mut self, queue: u32, since: Time, cost: u64, weight: u32) -> u64 {
        self.work_until(since);
        let now = self.now();
        let flow = &mut self.flows[queue as usize];
        flow.finish = flow.finish.max(now).saturating_add(cost);
        self.largest_finish = self.largest_finish.max(flow.finish);
        if flow.weight == 0 {
            flow.weight = weight;
            self.weights += u64::from(weight);
            self.ends.set(queue, (flow.finish, 0));
        }
        now
    }

    #[inline]
    fn start(&self, note: u64, _since: Time, last: u64) -> u64 {
        last.max(note)
    }

    #[inline]
    fn order(&self, _queue: u32, _start: u64, finish: u64) -> u64 {
        finish
    }

    fn on_served(&mut self, now: Time, _start: u64, _finish: u64, size: u32) {
        self.end_service(now);
        self.service = Some(Service { since: now, size, counted: 0 });
    }

    fn on_dropped(&mut self, queue: u32, cost: u64) {
        let flow = &mut self.flows[queue as usize];
        flow.finish = flow.finish.saturating_sub(cost);
        if flow.weight > 0 {
            self.ends.set(queue, (flow.finish, 0));
        }
    }

    fn on_idle(&mut self, now: Time) {
        self.end_service(now);
        while let Some((_, queue)) = self.ends.first() {
            self.finish(queue);
        }
        self.virtual_time = self.virtual_time.max(u128::from(self.largest_finish) << PLACES);
    }

    fn on_opened(&mut self, queue: u32, _key: u32) {
        if self.flows.len() <= queue as usize {
            self.flows.resize(queue as usize + 1, Flow::default());
        }
        // The fluid system may still serve the flow whose queue it was.
        self.finish(queue);
        self.flows[queue as usize].finish = 0;
    }

    #[inline]
    fn passed(&self) -> u64 {
        self.now()
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
        fluid.on_arrival(queue, at(nanos), COST, 1)
    }

    fn serve(fluid: &mut Fluid, nanos: u64) {
        fluid.on_served(at(nanos), 0, 0, 1000);
    }

    #[test]
    fn the_fluid_has_no_work_with_what_is_dropped() {
        let mut fluid = fluid();
        [0, 0, 1].iter().for_each(|queue| assert_eq!(come(&mut fluid, 0, *queue), 0));
        serve(&mut fluid, 0);
        fluid.work_until(at(500));
        assert_eq!(fluid.passed(), COST / 4);
        fluid.on_dropped(0, COST);
        // Each has a thousand bytes, and the server is done with them when the fluid is.
        serve(&mut fluid, 1000);
        assert_eq!(come(&mut fluid, 2000, 2), COST);
        serve(&mut fluid, 2000);
        fluid.work_until(at(2500));
        assert_eq!(fluid.passed(), COST + COST / 2, "the third is alone");
    }

    #[test]
    fn a_flow_of_which_all_is_dropped_that_the_fluid_had_to_do_shares_no_more() {
        let mut fluid = fluid();
        [0, 1].iter().for_each(|queue| assert_eq!(come(&mut fluid, 0, *queue), 0));
        serve(&mut fluid, 0);
        fluid.work_until(at(500));
        fluid.on_dropped(1, COST);
        fluid.work_until(at(1000));
        assert_eq!(fluid.passed(), COST / 4 + COST / 2);
        // A drop of what the fluid is done with long since changes nothing.
        fluid.on_dropped(1, COST);
        serve(&mut fluid, 1000);
        assert_eq!(come(&mut fluid, 1250, 2), COST);
        fluid.work_until(at(1500));
        assert_eq!(fluid.passed(), COST + COST / 4);
    }

    #[test]
    fn when_the_link_falls_idle_all_has_passed_dropped_or_not() {
        let mut fluid = fluid();
        [0, 0].iter().for_each(|queue| assert_eq!(come(&mut fluid, 0, *queue), 0));
        serve(&mut fluid, 0);
        fluid.on_dropped(0, COST);
        fluid.on_idle(at(1000));
        assert_eq!((fluid.passed(), fluid.weights), (2 * COST, 0));
    }

    #[test]
    fn a_queue_that_another_flow_takes_over_brings_nothing_along() {
        let mut fluid = fluid();
        fluid.on_arrival(0, at(0), COST, 3);
        fluid.on_opened(0, 7);
        assert_eq!((fluid.weights, fluid.ends.first()), (0, None));
        assert_eq!(come(&mut fluid, 0, 0), 0);
        serve(&mut fluid, 0);
        fluid.work_until(at(500));
        assert_eq!((fluid.weights, fluid.passed()), (1, COST / 2));
    }
}
