//! What a simulation says of its limiters and rates.
//!
//! Measured is the second half of the time after the last start or stop of a flow: of a whole run, where all flows send
//! from beginning to end.
//!
//! A limiter counts as its effect: the least of its rate, of what its flow offers, and of what the narrowest link carries
//! that the flow crosses. One that throttles nobody is not told from another that does not, whatever its rate: else the
//! limiters of flows with a small demand, which no message holds down, would say something about convergence.

use super::setup::{Phases, Setup};
use fairspan_sim::results::{LimitResult, Results, RingResult};
use fairspan_sim::steps::Steps;
use serde::Serialize;
use std::collections::BTreeMap;

/// How near its final mean a limiter has to stay: a share of that.
const NEAR: f64 = 0.01;

/// What `simulate --json` prints; rates in the file's unit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Outcome {
    /// What each flow received.
    pub(super) rates: Vec<f64>,
    /// Each flow's limiter at the end; `null` where there is none.
    pub(super) limits: Vec<Option<f64>>,
    /// Since the last start or stop; `null`: never, or there are no limiters.
    pub(super) converged_ms: Option<f64>,
    /// `null`: there are no limiters.
    pub(super) oscillation: Option<f64>,
    /// By the link's number, then by ringlet.
    pub(super) utilisation: BTreeMap<u8, [f64; 2]>,
    /// Sent by all nodes over the whole run.
    pub(super) control_messages: u64,
}

impl Outcome {
    /// What came out of the simulation of `setup`.
    pub(super) fn new(setup: &Setup, results: &Results) -> Outcome {
        let Some(ring) = results.rings.first() else {
            unreachable!("the scenario of a simulation has a ring");
        };
        let limiters: Vec<Option<&LimitResult>> =
            (0..setup.flows.len()).map(|flow| limiter(setup, flow, ring)).collect();
        let effects = limiters.iter().enumerate().filter_map(|(flow, limiter)| {
            let offered = setup.flows[flow].rate as f64;
            limiter.map(|limiter| effect(&limiter.steps, offered.min(setup.narrowest(flow))))
        });
        let effects: Vec<Steps> = effects.collect();
        let received =
            |name: &str| results.flows.iter().find(|flow| flow.name == name).map_or(0.0, |flow| flow.throughput);
        let mut utilisation: BTreeMap<u8, [f64; 2]> = BTreeMap::new();
        for link in &ring.links {
            utilisation.entry(link.link).or_default()[usize::from(link.ringlet)] = link.load;
        }
        let (phases, unit) = (setup.phases(), setup.unit.bits);
        Outcome {
            rates: setup.flows.iter().map(|flow| received(&flow.name) / unit).collect(),
            limits: limiters.iter().map(|limiter| limiter.map(|limiter| limiter.last / unit)).collect(),
            converged_ms: converged_ms(&effects, phases),
            oscillation: oscillation(&effects, phases, setup.capacity()),
            utilisation,
            control_messages: ring.control.sent,
        }
    }
}

/// The limiter that a flow's packets pass.
fn limiter<'a>(setup: &Setup, flow: usize, ring: &'a RingResult) -> Option<&'a LimitResult> {
    let flow = &setup.problem.flows()[flow];
    let passed = (flow.from.number(), flow.to.number(), flow.route.ringlet.index() as u8);
    ring.limits.iter().find(|limit| (limit.from, limit.to, limit.ringlet) == passed)
}

/// How long it takes until every limiter stays near its mean over the measured time. `None`: one does not before that
/// begins, or there is none.
pub(super) fn converged_ms(effects: &[Steps], phases: Phases) -> Option<f64> {
    let mut last = None;
    for effect in effects {
        let mean = effect.mean(phases.measured, phases.end);
        let settled = effect.settled(mean, NEAR * mean.abs(), phases.begin, phases.end)?;
        if settled > phases.measured {
            return None;
        }
        last = last.max(Some(settled));
    }
    Some(last?.since(phases.begin).as_nanos() as f64 / 1e6)
}

/// The largest distance between the least and the greatest value of one limiter in the measured time, as a share of
/// `capacity`. `None`: there is no limiter.
pub(super) fn oscillation(effects: &[Steps], phases: Phases, capacity: f64) -> Option<f64> {
    let ranges = effects.iter().map(|effect| {
        let (least, most) = effect.range(phases.measured, phases.end);
        (most - least) / capacity
    });
    ranges.reduce(f64::max)
}

/// A limiter's effect: its rate over time, at most `most`.
pub(super) fn effect(rate: &Steps, most: f64) -> Steps {
    let mut changes = rate.changes().iter();
    let mut effect = Steps::new(changes.next().map_or(most, |first| first.1.min(most)));
    for &(at, rate) in changes {
        effect.set(at, rate.min(most));
    }
    effect
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairspan_core::units::Time;

    const fn ms(n: u64) -> Time {
        Time::from_millis(n)
    }

    const PHASES: Phases = Phases { begin: ms(100), measured: ms(200), end: ms(300) };

    fn steps(changes: &[(u64, f64)]) -> Steps {
        let mut steps = Steps::new(changes[0].1);
        changes.iter().for_each(|&(at, rate)| steps.set(ms(at), rate));
        steps
    }

    #[test]
    fn converged_is_when_the_last_limiter_has_come_within_a_hundredth_of_its_mean_for_good() {
        let quick = steps(&[(0, 400.0), (102, 150.0), (103, 155.2), (110, 155.0)]);
        let slow = steps(&[(0, 400.0), (120, 155.0), (130, 150.0), (140, 155.5)]);
        assert_eq!(converged_ms(std::slice::from_ref(&quick), PHASES), Some(3.0));
        assert_eq!(converged_ms(&[quick.clone(), slow], PHASES), Some(40.0));
        assert_eq!(converged_ms(&[steps(&[(0, 5.0)])], PHASES), Some(0.0), "it was there from the beginning");
        // It reaches its end only when that is measured already, so it was not what it is measured to be.
        assert_eq!(converged_ms(&[quick, steps(&[(0, 400.0), (201, 155.0)])], PHASES), None);
        assert_eq!(converged_ms(&[], PHASES), None);
    }

    #[test]
    fn a_limiter_that_swings_for_ever_has_not_converged_and_swings_by_its_range() {
        let mut swing = Steps::new(0.0);
        (0..300).step_by(10).for_each(|at| swing.set(ms(at), if at % 20 == 0 { 5.0 } else { 600.0 }));
        let still = steps(&[(0, 600.0), (150, 10.0)]);
        assert_eq!(converged_ms(&[still.clone(), swing.clone()], PHASES), None);
        assert_eq!(oscillation(&[still, swing], PHASES, 622.0), Some(595.0 / 622.0));
        assert_eq!(oscillation(&[], PHASES, 622.0), None);
    }

    #[test]
    fn a_limiter_above_what_its_flow_can_use_is_none() {
        let rate = steps(&[(0, 600.0), (150, 30.0), (160, 620.0), (250, 500.0), (260, 300.0)]);
        let held = effect(&rate, 311.0);
        assert_eq!(held.changes(), [(ms(0), 311.0), (ms(150), 30.0), (ms(160), 311.0), (ms(260), 300.0)]);
        let free = [effect(&rate, 20.0)];
        assert_eq!((converged_ms(&free, PHASES), oscillation(&free, PHASES, 622.0)), (Some(0.0), Some(0.0)));
    }
}
