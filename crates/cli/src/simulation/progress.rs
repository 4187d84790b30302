//! How far the runs are, on standard error where that is a terminal and the runs take long enough to ask.

use fairspan_study::simulation::{Meter, PARTS};
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Runs that are over before have no progress to show.
const PATIENCE: Duration = Duration::from_millis(300);
const REFRESH: Duration = Duration::from_millis(100);
/// The line on the screen.
pub(super) struct Progress {
    what: Option<String>,
    start: Instant,
    shown: Instant,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Shows nothing yet, and nothing ever without `what` or a terminal.
    pub(super) fn new(what: Option<&str>) -> Progress {
        let what = what.filter(|_| std::io::stderr().is_terminal()).map(str::to_owned);
        let start = Instant::now();
        Progress { what, start, shown: start, bar: None }
    }

    /// Brings the line up to date, now and then.
    pub(super) fn show(&mut self, meter: &Meter) {
        let Some(what) = &self.what else { return };
        let elapsed = self.start.elapsed();
        if elapsed < PATIENCE || self.shown.elapsed() < REFRESH {
            return;
        }
        self.shown = Instant::now();
        let all = meter.planned() as u64 * PARTS;
        let bar = self.bar.get_or_insert_with(|| {
            let style = ProgressStyle::with_template("{prefix} [{bar:24}] {percent:>3} % {wide_msg}");
            let bar = ProgressBar::new(all);
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
            bar.set_prefix(what.clone());
            bar
        });
        let parts = meter.parts();
        bar.set_message(message(meter, elapsed, parts as f64 / all.max(1) as f64));
        bar.set_position(parts);
    }

    /// Takes the line away.
    pub(super) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Simulated time, how much faster than the clock, time left.
fn message(meter: &Meter, elapsed: Duration, share: f64) -> String {
    let simulated = meter.simulated().as_secs_f64();
    let speed = simulated / elapsed.as_secs_f64().max(1e-9);
    let runs = match meter.planned() {
        1 => String::new(),
        planned => format!("run {} of {planned}, ", (meter.finished() + 1).min(planned)),
    };
    let left = if share > 0.0 {
        let left = Duration::from_secs_f64((elapsed.as_secs_f64() * (1.0 - share) / share).min(1e9));
        format!("{} left", HumanDuration(left))
    } else {
        "…".to_owned()
    };
    format!("{runs}{simulated:.1} s simulated, {speed:.1} times real time, {left}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairspan_core::units::Time;

    #[test]
    fn the_line_tells_simulated_time_speed_and_time_left() {
        let meter = Meter::new(4);
        let mut place = meter.begin(Time::from_millis(10_000));
        meter.advance(&mut place, Time::from_millis(2_000));
        meter.advance(&mut place, Time::from_millis(10_000));
        meter.end();
        let share = meter.parts() as f64 / (4 * PARTS) as f64;
        assert_eq!(share, 0.25);
        let line = message(&meter, Duration::from_secs(5), share);
        assert_eq!(line, "run 2 of 4, 10.0 s simulated, 2.0 times real time, 15 seconds left");
    }
}
