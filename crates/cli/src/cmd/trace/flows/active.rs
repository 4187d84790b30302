//! How many flows are active over time: as a file, and as lines of a plot.

use anyhow::{Context, Result};
use fairspan_core::quantity;
use fairspan_core::units::{Span, Time};
use fairspan_trace::flows::Config;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// The file of counts over time.
#[derive(Debug)]
pub(super) struct Active {
    out: BufWriter<File>,
    /// What could not be written.
    failed: Option<std::io::Error>,
}

impl Active {
    /// Begins the file with its header.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn create(path: &Path, config: &Config) -> Result<Active> {
        let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        let mut out = BufWriter::new(file);
        write!(out, "time_s")?;
        for definition in &config.definitions {
            for timeout in &config.timeouts {
                write!(out, ",{definition} {}", shown(*timeout))?;
            }
        }
        writeln!(out)?;
        Ok(Active { out, failed: None })
    }

    /// One line.
    pub(super) fn sample(&mut self, now: Time, counts: &[u32]) {
        let line = counts.iter().fold(now.as_secs_f64().to_string(), |line, count| format!("{line},{count}"));
        if self.failed.is_none() {
            self.failed = writeln!(self.out, "{line}").err();
        }
    }

    /// Ends it.
    ///
    /// # Errors
    /// What could not be written, now or before.
    pub(super) fn finish(mut self) -> std::io::Result<()> {
        self.failed.map_or_else(|| self.out.flush(), Err)
    }
}

/// A timeout for people.
pub(super) fn shown(timeout: Option<Span>) -> String {
    match timeout {
        None => "none".to_owned(),
        Some(Span::ZERO) => "0".to_owned(),
        Some(timeout) => quantity::show_span(timeout),
    }
}

/// More points than this become half as many, of each pair the larger counts.
const MOST_POINTS: usize = 1 << 13;

/// The counts over time, in bounded memory.
#[derive(Debug)]
pub(super) struct Series {
    interval: Span,
    /// Seconds, and a count for each definition under each timeout.
    points: Vec<(f64, Vec<u32>)>,
    /// How many samples a point stands for, and how many the last one does.
    stride: u32,
    merged: u32,
    last: Option<(Time, Vec<u32>)>,
}

impl Series {
    /// Nothing yet, of samples that are `interval` apart where anything changes.
    pub(super) fn new(interval: Span) -> Series {
        Series { interval, points: Vec::new(), stride: 1, merged: 0, last: None }
    }

    /// The counts at `now`.
    pub(super) fn sample(&mut self, now: Time, counts: &[u32]) {
        // Instants that were left out are like the one before.
        if let Some((before, last)) = self.last.take()
            && now.since(before) > self.interval
        {
            let until = Time::from_nanos(now.as_nanos() - self.interval.as_nanos());
            self.push(until.as_secs_f64(), &last);
        }
        self.push(now.as_secs_f64(), counts);
        self.last = Some((now, counts.to_vec()));
    }

    fn push(&mut self, seconds: f64, counts: &[u32]) {
        match self.points.last_mut() {
            Some((_, point)) if self.merged < self.stride => larger(point, counts),
            _ => {
                self.points.push((seconds, counts.to_vec()));
                self.merged = 0;
            }
        }
        self.merged += 1;
        if self.points.len() >= MOST_POINTS && self.merged == self.stride {
            let halved = self.points.chunks(2).map(|pair| {
                let (seconds, mut counts) = pair[0].clone();
                pair[1..].iter().for_each(|(_, other)| larger(&mut counts, other));
                (seconds, counts)
            });
            self.points = halved.collect();
            self.stride *= 2;
            self.merged = self.stride;
        }
    }

    /// The points of one definition under one timeout, by its place among all.
    pub(super) fn line(&self, place: usize) -> Vec<(f64, f64)> {
        let count = |counts: &Vec<u32>| counts.get(place).copied().map(f64::from);
        self.points.iter().filter_map(|(seconds, counts)| Some((*seconds, count(counts)?))).collect()
    }
}

fn larger(counts: &mut [u32], others: &[u32]) {
    counts.iter_mut().zip(others).for_each(|(count, other)| *count = (*count).max(*other));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_holds_what_was_left_out_at_the_count_before() {
        let mut series = Series::new(Span::from_millis(100));
        for (at, count) in [(0, 1), (100, 3), (1000, 2)] {
            series.sample(Time::from_millis(at), &[7, count]);
        }
        assert_eq!(series.line(1), [(0.0, 1.0), (0.1, 3.0), (0.9, 3.0), (1.0, 2.0)]);
        assert!(series.line(2).is_empty());
    }

    #[test]
    fn a_long_series_keeps_its_peaks_in_bounded_memory() {
        let mut series = Series::new(Span::from_millis(100));
        for at in 0..100_000_u64 {
            series.sample(Time::from_millis(100 * at), &[u32::from(at % 1000 == 777)]);
        }
        let line = series.line(0);
        assert!(line.len() <= MOST_POINTS && line.is_sorted_by(|a, b| a.0 < b.0), "{} points", line.len());
        assert_eq!(line.iter().filter(|point| point.1 == 1.0).count(), 100);
    }
}
