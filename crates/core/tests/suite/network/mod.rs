//! Frames under way in virtual time: what the networks of this program's tests are made of.
//!
//! A test network drives something (bonds, stripes, nodes of a ring, their discovery) and says in its own words what its
//! links are like. What becomes of a frame on a link is decided here: lost, doubled, damaged, late, or in the order in
//! which it was sent. Every draw comes from the caller's seeded generator, so a seed is a run.

use fairspan_core::rng::Rng;
use fairspan_core::units::{Span, Time};
use std::collections::BTreeMap;

/// What a link does to frames, in one direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weather {
    pub(crate) delay: Span,
    /// Uniform extra delay up to this.
    pub(crate) jitter: Span,
    /// Probability that a frame is delayed by the jitter: usually all are.
    pub(crate) late: f64,
    /// Whether jitter lets frames overtake one another.
    pub(crate) reorders: bool,
    /// Probability of loss; `None`: never, and nothing is drawn for it.
    pub(crate) loss: Option<f64>,
    /// Probability that a frame arrives twice; `None` as for loss.
    pub(crate) twice: Option<f64>,
}

impl Weather {
    /// A link that does nothing but take time.
    pub(crate) const fn fine(delay: Span) -> Weather {
        Weather { delay, jitter: Span::ZERO, late: 1.0, reorders: false, loss: None, twice: None }
    }
}

/// Frames on their way, by the time of their arrival, and in the order of sending where that is the same.
#[derive(Clone, Debug)]
pub(crate) struct Network<F> {
    flights: BTreeMap<(Time, u64), F>,
    /// By link and direction: when the last frame arrives.
    last: BTreeMap<usize, Time>,
    order: u64,
}

impl<F: Clone> Network<F> {
    pub(crate) fn new() -> Network<F> {
        Network { flights: BTreeMap::new(), last: BTreeMap::new(), order: 0 }
    }

    /// A frame leaves at `left` on `lane`, a link in one direction; `damage` may change each copy that arrives. Says
    /// whether it arrives at all.
    pub(crate) fn send(
        &mut self,
        left: Time,
        lane: usize,
        weather: &Weather,
        rng: &mut Rng,
        frame: F,
        mut damage: impl FnMut(&mut F, &mut Rng),
    ) -> bool {
        if weather.loss.is_some_and(|loss| rng.unit() < loss) {
            return false;
        }
        let copies = if weather.twice.is_some_and(|twice| rng.unit() < twice) { 2 } else { 1 };
        for _ in 0..copies {
            let mut frame = frame.clone();
            damage(&mut frame, rng);
            let late = weather.late >= 1.0 || rng.unit() < weather.late;
            let jitter = if late { rng.below(weather.jitter.as_nanos() + 1) } else { 0 };
            let mut due = left + weather.delay + Span::from_nanos(jitter);
            if !weather.reorders {
                let last = self.last.entry(lane).or_default();
                *last = due.max(*last);
                due = *last;
            }
            self.put(due, frame);
        }
        true
    }

    /// A frame arrives then, whatever the weather.
    pub(crate) fn put(&mut self, due: Time, frame: F) {
        self.order += 1;
        self.flights.insert((due, self.order), frame);
    }

    /// When the next frame arrives.
    pub(crate) fn next(&self) -> Option<Time> {
        self.flights.first_key_value().map(|((due, _), _)| *due)
    }

    /// The next frame.
    pub(crate) fn take(&mut self) -> Option<F> {
        self.flights.pop_first().map(|(_, frame)| frame)
    }

    /// All that is under way.
    pub(crate) fn frames(&self) -> impl Iterator<Item = &F> {
        self.flights.values()
    }
}
