//! A value that changes in steps, such as a limiter's rate: its mean, its range, and when it has settled.
//!
//! Every change is kept with its time, so nothing falls between two points of a series. Times are those of the run; a
//! window holds its beginning and not its end.
//!
//! With a bound, what is long ago is thinned where changes are too many: of four neighbours the least and the greatest stay,
//! at their times. Ranges stay exact; means and times then are as exact as the distance of what is left.

use fairspan_core::units::Time;

/// A value over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Steps {
    /// When it changed and to what, times ascending; the first entry is the value before any change.
    steps: Vec<(Time, f64)>,
    /// Most that are kept.
    most: usize,
}

impl Default for Steps {
    /// Zero from the beginning on.
    fn default() -> Steps {
        Steps::new(0.0)
    }
}

impl Steps {
    /// `value` from the beginning on.
    pub fn new(value: f64) -> Steps {
        Steps::bounded(value, usize::MAX)
    }

    /// `value` from the beginning on; at most `most` changes, but not fewer than eight, are kept.
    pub fn bounded(value: f64, most: usize) -> Steps {
        Steps { steps: vec![(Time::ZERO, value)], most: most.max(8) }
    }

    /// The value is `value` from `now` on, not before the change before. Of several at one instant the last one counts.
    pub fn set(&mut self, now: Time, value: f64) {
        if let Some(last) = self.steps.last_mut().filter(|last| last.0 >= now) {
            last.1 = value;
        } else if self.last() != value {
            if self.steps.len() >= self.most {
                self.thin();
            }
            self.steps.push((now, value));
        }
    }

    /// Keeps half: of four neighbours the least and the greatest. The first entry stays, and the last.
    #[cold]
    fn thin(&mut self) {
        let last = self.steps.len() - 1;
        let (mut from, mut kept) = (1, 1);
        while from < last {
            let to = (from + 4).min(last);
            let (mut least, mut greatest) = (from, from);
            for at in from..to {
                if self.steps[at].1 < self.steps[least].1 {
                    least = at;
                }
                if self.steps[at].1 > self.steps[greatest].1 {
                    greatest = at;
                }
            }
            let (first, second) = (least.min(greatest), least.max(greatest));
            self.steps[kept] = self.steps[first];
            kept += 1;
            if second != first {
                self.steps[kept] = self.steps[second];
                kept += 1;
            }
            from = to;
        }
        self.steps[kept] = self.steps[last];
        self.steps.truncate(kept + 1);
    }

    /// The value now.
    pub fn last(&self) -> f64 {
        self.steps.last().map_or(f64::NAN, |step| step.1)
    }

    /// The value at `time`.
    pub fn at(&self, time: Time) -> f64 {
        self.steps[self.place(time)].1
    }

    /// All changes, with the value before any at time zero.
    pub fn changes(&self) -> &[(Time, f64)] {
        &self.steps
    }

    /// The mean over a window, weighted with time; of an empty one the value at its beginning.
    pub fn mean(&self, from: Time, to: Time) -> f64 {
        let length = to.since(from).as_nanos();
        if length == 0 {
            return self.at(from);
        }
        // Relative to a value of the window, so that a constant is its own mean to the last bit.
        let base = self.at(from);
        let mut area = 0.0;
        for (begin, end, value) in self.pieces(from, to) {
            area += (value - base) * end.since(begin).as_nanos() as f64;
        }
        base + area / length as f64
    }

    /// The least and the greatest value of a window.
    pub fn range(&self, from: Time, to: Time) -> (f64, f64) {
        let first = self.at(from);
        self.pieces(from, to).fold((first, first), |(least, most), piece| (least.min(piece.2), most.max(piece.2)))
    }

    /// From when on in a window the value stays within `distance` of `value` to its end. `None`: it does not at the end.
    pub fn settled(&self, value: f64, distance: f64, from: Time, to: Time) -> Option<Time> {
        let mut since = None;
        for (begin, _, held) in self.pieces(from, to) {
            if (held - value).abs() <= distance {
                since = since.or(Some(begin));
            } else {
                since = None;
            }
        }
        since
    }

    /// The entry that holds at `time`.
    fn place(&self, time: Time) -> usize {
        self.steps.partition_point(|step| step.0 <= time).max(1) - 1
    }

    /// Beginning, end and value of each stretch of a window.
    fn pieces(&self, from: Time, to: Time) -> impl Iterator<Item = (Time, Time, f64)> + '_ {
        let first = self.place(from);
        let held = self.steps[first..].iter().enumerate().take_while(move |(i, step)| *i == 0 || step.0 < to);
        held.map(move |(i, &(begin, value))| {
            let end = self.steps.get(first + i + 1).map_or(to, |next| next.0.min(to));
            (begin.max(from), end, value)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Time {
        Time::from_millis(n)
    }

    /// 4 until 10 ms, 8 until 20, 5 until 30, 6 from then on.
    fn stairs() -> Steps {
        let mut steps = Steps::new(4.0);
        for (at, value) in [(10, 8.0), (20, 5.0), (25, 5.0), (30, 6.0)] {
            steps.set(ms(at), value);
        }
        steps
    }

    #[test]
    fn a_mean_weighs_each_value_with_the_time_that_it_holds_in_the_window() {
        let steps = stairs();
        assert_eq!(steps.mean(ms(0), ms(40)), (4.0 + 8.0 + 5.0 + 6.0) / 4.0);
        assert_eq!(steps.mean(ms(5), ms(15)), 6.0);
        assert_eq!(steps.mean(ms(12), ms(18)), 8.0, "no change inside");
        assert_eq!(steps.mean(ms(30), ms(90)), 6.0, "beyond the last change");
        assert_eq!(steps.mean(ms(20), ms(20)), 5.0, "an empty window");
        assert_eq!(Steps::new(0.1).mean(ms(0), Time::from_nanos(7)), 0.1, "to the last bit");
        assert_eq!(steps.changes().len(), 4, "the same value again is no change");
    }

    #[test]
    fn a_range_has_the_value_at_the_beginning_and_not_the_one_at_the_end() {
        let steps = stairs();
        assert_eq!(steps.range(ms(0), ms(40)), (4.0, 8.0));
        assert_eq!(steps.range(ms(10), ms(20)), (8.0, 8.0));
        assert_eq!(steps.range(ms(19), ms(21)), (5.0, 8.0));
        assert_eq!(steps.range(ms(100), ms(100)), (6.0, 6.0));
    }

    #[test]
    fn settled_is_the_time_after_which_it_never_leaves_again() {
        let steps = stairs();
        assert_eq!(steps.settled(6.0, 1.0, ms(0), ms(40)), Some(ms(20)));
        assert_eq!(steps.settled(6.0, 0.5, ms(0), ms(40)), Some(ms(30)));
        assert_eq!(steps.settled(6.0, 2.0, ms(0), ms(40)), Some(ms(0)), "it was never away");
        assert_eq!(steps.settled(8.0, 1.0, ms(0), ms(40)), None, "it was there and left again");
        assert_eq!(steps.settled(8.0, 0.0, ms(3), ms(20)), Some(ms(10)), "the window ends before it leaves");
        assert_eq!(steps.settled(8.0, 0.0, ms(12), ms(20)), Some(ms(12)), "counted from the window's beginning");
    }

    #[test]
    fn the_last_of_several_changes_at_one_instant_counts() {
        let mut steps = stairs();
        steps.set(ms(30), 9.0);
        assert_eq!((steps.last(), steps.at(ms(29)), steps.at(ms(30))), (9.0, 5.0, 9.0));
        steps.set(ms(30), 2.0);
        assert_eq!((steps.last(), steps.changes().len()), (2.0, 4));
    }

    #[test]
    fn a_bound_thins_what_is_long_ago_and_keeps_every_peak() {
        let (mut bounded, mut all) = (Steps::bounded(0.0, 64), Steps::new(0.0));
        let mut value = 1_u64;
        for at in 1..10_000 {
            value = value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let spike = if at == 37 || at == 5000 { 1e6 } else { 0.0 };
            let held = spike * if at == 37 { 1.0 } else { -1.0 } + (value >> 40) as f64;
            bounded.set(ms(at), held);
            all.set(ms(at), held);
            assert!(bounded.changes().len() <= 64);
        }
        assert_eq!(bounded.range(ms(0), ms(10_000)), all.range(ms(0), ms(10_000)));
        assert_eq!(bounded.last(), all.last());
        assert!(bounded.changes().windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert_eq!(bounded.changes()[0], (Time::ZERO, 0.0));
    }
}
