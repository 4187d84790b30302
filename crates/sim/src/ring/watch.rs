//! What is written down of a ring while it runs: every change of a limiter that flows use, failures and when they are
//! overcome.
//!
//! Means and ranges of limiters are added up as they go, exactly. Only the time from which a limiter stays near its final
//! mean needs its past, of which a bounded number of changes is kept.

use crate::results::{LimitResult, RingEvent};
use crate::steps::Steps;
use fairspan_core::ring::{NodeId, Ringlet};
use fairspan_core::units::{Rate, Span, Time};

/// Changes kept of all limiters of a ring together, and of one at least and at most.
const CHANGES: usize = 1 << 22;
const LEAST_CHANGES: usize = 1 << 8;
const MOST_CHANGES: usize = 1 << 16;
/// Events kept.
const EVENTS: usize = 1000;
/// How near to its final mean a limiter has converged.
const NEAR: f64 = 0.01;

/// The measured time, and where its second half begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// Convergence counts from here on: the traffic changes no more.
    pub(crate) begin: Time,
    pub(crate) from: Time,
    pub(crate) half: Time,
    pub(crate) until: Time,
}

impl Window {
    pub(crate) fn new(begin: Time, from: Span, until: Span) -> Window {
        let half = Span::from_nanos((from.as_nanos() + until.as_nanos()) / 2);
        Window { begin, from: Time::ZERO + from, half: Time::ZERO + half, until: Time::ZERO + until }
    }
}

/// A limiter that is written down.
#[derive(Debug)]
pub(crate) struct Limit {
    pub(crate) name: String,
    /// Places of the nodes.
    pub(crate) from: u8,
    pub(crate) to: u8,
    pub(crate) ringlet: Ringlet,
    value: f64,
    since: Time,
    changes: u64,
    steps: Steps,
    /// Over the measured time, and over its second half.
    parts: [Part; 2],
}

/// A value over a part of the time.
#[derive(Clone, Copy, Debug)]
struct Part {
    from: Time,
    /// Value less the first one, times nanoseconds.
    area: f64,
    base: f64,
    least: f64,
    most: f64,
}

impl Part {
    fn new(from: Time) -> Part {
        Part { from, area: 0.0, base: f64::NAN, least: f64::INFINITY, most: f64::NEG_INFINITY }
    }

    fn add(&mut self, from: Time, to: Time, value: f64) {
        let length = to.since(from.max(self.from)).as_nanos();
        if length == 0 {
            return;
        }
        if self.base.is_nan() {
            self.base = value;
        }
        self.area += (value - self.base) * length as f64;
        (self.least, self.most) = (self.least.min(value), self.most.max(value));
    }

    fn mean(&self, until: Time) -> f64 {
        self.base + self.area / until.since(self.from).as_nanos().max(1) as f64
    }
}

impl Limit {
    /// The limiter for packets from one place to another, `value` at time zero, one of `count`.
    pub(crate) fn new(
        name: String,
        [from, to]: [u8; 2],
        ringlet: Ringlet,
        value: f64,
        window: Window,
        count: usize,
    ) -> Limit {
        let most = (CHANGES / count.max(1)).clamp(LEAST_CHANGES, MOST_CHANGES);
        let parts = [Part::new(window.from), Part::new(window.half)];
        let steps = Steps::bounded(value, most);
        Limit { name, from, to, ringlet, value, since: Time::ZERO, changes: 0, steps, parts }
    }

    /// The rate is `value` from now on.
    pub(crate) fn set(&mut self, now: Time, value: f64) {
        if self.value == value {
            return;
        }
        self.close(now);
        self.changes += 1;
        self.value = value;
        self.steps.set(now, value);
    }

    fn close(&mut self, now: Time) {
        let (since, value) = (self.since, self.value);
        self.parts.iter_mut().for_each(|part| part.add(since, now, value));
        self.since = now;
    }

    /// The rate now.
    pub(crate) fn value(&self) -> f64 {
        self.value
    }

    /// At the end of the window.
    pub(crate) fn result(&mut self, window: Window, nominal: f64) -> LimitResult {
        self.close(window.until);
        let [whole, half] = self.parts;
        let settled = half.mean(window.until);
        let converged = self.steps.settled(settled, NEAR * settled.abs(), window.begin, window.until);
        LimitResult {
            name: self.name.clone(),
            from: NodeId::at(self.from.into()).number(),
            to: NodeId::at(self.to.into()).number(),
            ringlet: self.ringlet.index() as u8,
            last: self.value,
            mean: whole.mean(window.until),
            min: whole.least,
            max: whole.most,
            settled,
            converged_s: converged.map(|at| at.since(window.begin).as_secs_f64()),
            oscillation: (half.most - half.least) / nominal,
            changes: self.changes,
            steps: std::mem::take(&mut self.steps),
        }
    }
}

/// The limiters that are written down, by node.
#[derive(Debug)]
pub(crate) struct Limits {
    pub(crate) list: Vec<Limit>,
    /// Where those of each place begin in the list, and its end.
    first: Vec<usize>,
    /// Each place's count of changes when it was last read.
    versions: Vec<Option<u64>>,
}

impl Limits {
    /// `list` is sorted by the place where limiters are.
    pub(crate) fn new(list: Vec<Limit>, nodes: usize) -> Limits {
        let first = (0..=nodes).map(|place| list.partition_point(|limit| usize::from(limit.from) < place)).collect();
        Limits { list, first, versions: vec![None; nodes] }
    }

    /// Those of a place whose count of changes is now `version`; none if that is as before.
    #[inline]
    pub(crate) fn changed(&mut self, place: usize, version: u64) -> &mut [Limit] {
        let range = self.first[place]..self.first[place + 1];
        if range.is_empty() || self.versions[place].replace(version) == Some(version) {
            return &mut [];
        }
        &mut self.list[range]
    }

    /// A new node is at the place.
    pub(crate) fn forget(&mut self, place: usize) {
        self.versions[place] = None;
    }
}

/// Failures, and when they are overcome.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    pub(crate) events: Vec<RingEvent>,
    /// Each place: whether its node sends by the ways that are whole.
    agrees: Vec<bool>,
    /// Nodes that do not.
    astray: usize,
    /// The first failure that is not overcome.
    since: Option<Time>,
    longest: Option<Span>,
}

impl Failures {
    pub(crate) fn new(nodes: usize) -> Failures {
        Failures { agrees: vec![true; nodes], ..Failures::default() }
    }

    /// Writes down what happened.
    pub(crate) fn tell(&mut self, now: Time, at: impl FnOnce() -> String, what: &str) {
        if self.events.len() < EVENTS {
            self.events.push(RingEvent { at_s: now.as_secs_f64(), at: at(), what: what.into() });
        }
    }

    /// Something has failed.
    pub(crate) fn fail(&mut self, now: Time) {
        self.since = self.since.or(Some(now));
    }

    /// Whether the node of a place sends by the ways that are whole.
    pub(crate) fn judge(&mut self, place: usize, agrees: bool) {
        if std::mem::replace(&mut self.agrees[place], agrees) != agrees {
            self.astray = if agrees { self.astray - 1 } else { self.astray + 1 };
        }
    }

    /// All nodes have been judged anew: whether the ring has just become whole.
    pub(crate) fn settle(&mut self, now: Time, were_astray: bool) {
        if self.astray > 0 {
            return;
        }
        if let Some(since) = self.since.take() {
            let span = now.since(since);
            self.longest = Some(self.longest.map_or(span, |longest| longest.max(span)));
        }
        if were_astray {
            self.tell(now, || "ring".into(), "whole");
        }
    }

    /// Whether a node sends by a way that is not whole.
    pub(crate) fn any_astray(&self) -> bool {
        self.astray > 0
    }

    /// The longest that it took. `None` where nothing failed, or it was not overcome.
    pub(crate) fn restored(&self) -> Option<f64> {
        self.longest.filter(|_| self.since.is_none()).map(Span::as_secs_f64)
    }
}

/// What a limiter lets pass of what the link carries.
pub(crate) fn effect(limit: Option<Rate>, link: Rate) -> f64 {
    limit.map_or(link, |limit| limit.min(link)).as_bits_per_sec() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(window: Window) -> Limit {
        Limit::new("1-2".into(), [0, 1], Ringlet::Zero, 622.0, window, 1)
    }

    #[test]
    fn means_ranges_and_convergence_are_those_of_every_change() {
        let window = Window::new(Time::ZERO, Span::from_millis(100), Span::from_millis(500));
        let mut limit = limit(window);
        for (at, value) in [(0, 900.0), (50, 700.0), (200, 500.0), (350, 302.0), (400, 300.0), (450, 301.0)] {
            limit.set(Time::from_millis(at), value);
        }
        let result = limit.result(window, 1000.0);
        assert_eq!((result.last, result.changes), (301.0, 6));
        assert_eq!((result.min, result.max), (300.0, 700.0));
        let mean = (700.0 * 100.0 + 500.0 * 150.0 + 302.0 * 50.0 + 300.0 * 50.0 + 301.0 * 50.0) / 400.0;
        assert!((result.mean - mean).abs() < 1e-9, "{}", result.mean);
        // The second half begins at 300 ms, with 500 for 50 ms yet.
        let settled = (500.0 + 302.0 + 300.0 + 301.0) / 4.0;
        assert!((result.settled - settled).abs() < 1e-9);
        assert_eq!(result.converged_s, None, "1 % of 350 is not reached");
        assert!((result.oscillation - 0.2).abs() < 1e-12);
    }

    #[test]
    fn a_limiter_converges_where_it_comes_within_one_percent_for_good_after_the_last_change_of_traffic() {
        let window = Window::new(Time::from_millis(1), Span::ZERO, Span::from_millis(1000));
        let mut limit = limit(window);
        for (at, value) in [(0, 622.0), (1, 160.0), (2, 155.0), (3, 158.0), (4, 155.6), (700, 155.4)] {
            limit.set(Time::from_millis(at), value);
        }
        assert_eq!(limit.result(window, 622.0).converged_s, Some(0.003));
    }

    #[test]
    fn a_failure_is_overcome_when_the_last_node_goes_by_whole_ways() {
        let mut failures = Failures::new(3);
        let at = Time::from_millis;
        failures.fail(at(10));
        for place in 0..3 {
            failures.judge(place, place == 2);
        }
        failures.settle(at(10), false);
        assert_eq!(failures.restored(), None);
        failures.judge(0, true);
        failures.settle(at(20), true);
        assert_eq!(failures.restored(), None, "node 2 is astray yet");
        failures.judge(1, true);
        failures.settle(at(25), true);
        assert_eq!(failures.restored(), Some(0.015));
        assert_eq!(failures.events.last().map(|event| event.what.as_str()), Some("whole"));
        failures.fail(at(30));
        failures.judge(1, false);
        assert_eq!(failures.restored(), None, "not yet overcome");
    }
}
