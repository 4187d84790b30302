//! Values over time, a point every so often.
//!
//! A point at k · interval (k = 1, 2, …) is a level at that instant, or the rate of a counter since the point before. The
//! world asks when the next point is due, and gives the values that it then reads off.

use crate::results::Series;
use fairspan_core::units::{Span, Time};
use std::collections::BTreeMap;

/// Most points of one series; a run that would have more records none beyond.
pub const MAX_POINTS: u64 = 10_000_000;

/// What a series' values are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The value itself.
    Level,
    /// The growth of the value since the last point, a second.
    Rate,
}

/// Records series.
#[derive(Clone, Debug)]
pub struct Recorder {
    interval: Span,
    points: u64,
    tracks: Vec<Track>,
}

#[derive(Clone, Debug)]
struct Track {
    series: Series,
    kind: Kind,
    last: f64,
}

impl Recorder {
    /// A point every `interval`; zero: none at all.
    pub fn new(interval: Span) -> Recorder {
        Recorder { interval, points: 0, tracks: Vec::new() }
    }

    /// Adds a series; its values are given in the order in which series were added.
    pub fn add(&mut self, name: String, unit: &str, kind: Kind) {
        let series = Series { name, unit: unit.to_owned(), values: Vec::new() };
        self.tracks.push(Track { series, kind, last: 0.0 });
    }

    /// When the next point is due.
    pub fn due(&self) -> Option<Time> {
        let at = self.interval.as_nanos().checked_mul(self.points + 1)?;
        (at > 0 && self.points < MAX_POINTS).then(|| Time::from_nanos(at))
    }

    /// Takes the values of the point that is due, one for each series; missing ones are zero.
    pub fn sample(&mut self, values: impl IntoIterator<Item = f64>) {
        let seconds = self.interval.as_secs_f64();
        let mut values = values.into_iter();
        for track in &mut self.tracks {
            let value = values.next().unwrap_or(0.0);
            track.series.values.push(match track.kind {
                Kind::Level => value,
                Kind::Rate => (value - track.last) / seconds,
            });
            track.last = value;
        }
        self.points += 1;
    }

    /// A counter that feeds a rate begins anew at zero, as metrics do at the end of the warm-up; `index` counts series in
    /// the order in which they were added.
    pub fn restart(&mut self, index: usize, last: f64) {
        if let Some(track) = self.tracks.get_mut(index) {
            track.last -= last;
        }
    }

    /// The series' names, in the order in which they were added.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tracks.iter().map(|track| track.series.name.as_str())
    }

    /// Distance of points.
    pub fn interval(&self) -> Span {
        self.interval
    }

    /// Adds what another part of the same world has recorded of the same series.
    pub fn absorb(&mut self, other: Recorder) {
        let places = self.tracks.iter().enumerate().map(|(place, track)| (track.series.name.clone(), place));
        let places: BTreeMap<String, usize> = places.collect();
        for track in other.tracks {
            let Some(&place) = places.get(&track.series.name) else { continue };
            let values = &mut self.tracks[place].series.values;
            values.resize(track.series.values.len().max(values.len()), 0.0);
            values.iter_mut().zip(&track.series.values).for_each(|(sum, value)| *sum += value);
        }
    }

    /// What was recorded.
    pub fn into_series(self) -> Vec<Series> {
        self.tracks.into_iter().map(|track| track.series).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read_off_and_rates_are_differences() {
        let mut recorder = Recorder::new(Span::from_millis(100));
        recorder.add("queue".into(), "bytes", Kind::Level);
        recorder.add("throughput".into(), "bit/s", Kind::Rate);
        assert_eq!(recorder.due(), Some(Time::from_millis(100)));
        recorder.sample([5.0, 1000.0]);
        assert_eq!(recorder.due(), Some(Time::from_millis(200)));
        // The warm-up ends at 1500 counted; the counter then begins at zero.
        recorder.restart(1, 1500.0);
        recorder.sample([7.0, 250.0]);
        let series = recorder.into_series();
        assert_eq!(series[0].values, [5.0, 7.0]);
        assert_eq!(series[1].values, [10_000.0, 7_500.0]);
    }

    #[test]
    fn without_an_interval_nothing_is_due() {
        assert_eq!(Recorder::new(Span::ZERO).due(), None);
    }
}
