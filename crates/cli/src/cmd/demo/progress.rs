//! Live progress on standard error: a bar per link, and the results as they come.

use super::network::Link;
use crate::measure::sequence::Reordering;
use crate::measure::{interface, tcp};
use crate::testbed::Namespace;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::cell::RefCell;
use std::io::IsTerminal;
use std::time::Instant;

/// What is on the screen. Without a terminal, one line per result is printed instead.
pub(crate) struct Progress {
    screen: Option<Screen>,
    steps: usize,
    step: RefCell<(usize, String)>,
    /// The far end's byte counters when the bars last moved.
    last: RefCell<Option<(Instant, Vec<u64>)>>,
    links: Vec<&'static str>,
}

struct Screen {
    all: MultiProgress,
    head: ProgressBar,
    bars: Vec<ProgressBar>,
}

impl Progress {
    /// Shows bars for `links`; there will be `steps` results.
    pub(crate) fn new(links: &[Link], steps: usize) -> Progress {
        let screen = std::io::stderr().is_terminal().then(|| Screen::new(links));
        Progress {
            screen,
            steps,
            step: RefCell::new((0, String::new())),
            last: RefCell::new(None),
            links: links.iter().map(|link| link.name).collect(),
        }
    }

    /// The measurement `what` begins (or is prepared); saying so twice is saying it once.
    pub(crate) fn begin(&self, what: &str) {
        let mut step = self.step.borrow_mut();
        if step.1 != what {
            *step = (step.0 + 1, what.to_owned());
            self.last.replace(None);
            for bar in self.screen.iter().flat_map(|screen| &screen.bars) {
                bar.set_position(0);
                bar.set_message(format!("{:6.1}", 0.0));
            }
        }
        if let Some(screen) = &self.screen {
            screen.head.set_message(format!("[{}/{}] {what}", step.0, self.steps));
        }
    }

    /// Moves the bars: what each link delivered since the last call.
    pub(crate) fn show(&self, what: &str, far: &Namespace, now: tcp::Progress) {
        let Some(screen) = &self.screen else { return };
        let Ok(bytes) = interface::received(far, &self.links) else { return };
        let at = Instant::now();
        if let Some((before, earlier)) = self.last.replace(Some((at, bytes.clone()))) {
            let seconds = (at - before).as_secs_f64();
            for ((bar, bytes), earlier) in screen.bars.iter().zip(&bytes).zip(&earlier) {
                let mbit = bytes.saturating_sub(*earlier) as f64 * 8.0 / seconds / 1e6;
                bar.set_position((mbit.round() as u64).min(bar.length().unwrap_or(0)));
                bar.set_message(format!("{mbit:6.1}"));
            }
        }
        let step = self.step.borrow().0;
        screen.head.set_message(format!(
            "[{step}/{}] {what}: {:.1} Mbit/s after {:.0} s",
            self.steps,
            now.mbit,
            now.elapsed.as_secs_f64()
        ));
    }

    /// A measurement is done.
    pub(crate) fn result(&self, what: &str, mbit: f64, order: Option<&Reordering>) {
        let order = match order {
            Some(seen) if seen.units > 0 => format!("  ({} of {} units out of order)", seen.reordered, seen.units),
            _ => String::new(),
        };
        self.note(&format!("{what:<34} {mbit:7.1} Mbit/s{order}"));
    }

    /// A line that stays.
    pub(crate) fn note(&self, line: &str) {
        match &self.screen {
            Some(screen) => {
                // A terminal that went away is no reason to stop measuring.
                let _ = screen.all.println(line);
            }
            None => eprintln!("{line}"),
        }
    }

    /// Takes the bars off the screen.
    pub(crate) fn finish(&self) {
        if let Some(screen) = &self.screen {
            let _ = screen.all.clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Screen {
    fn new(links: &[Link]) -> Screen {
        let all = MultiProgress::new();
        let head = all.add(ProgressBar::new_spinner().with_style(style("{spinner} {wide_msg}")));
        head.enable_steady_tick(std::time::Duration::from_millis(120));
        let bars = links
            .iter()
            .map(|link| {
                let bar = all.add(ProgressBar::new(u64::from(link.rate_mbit)));
                bar.set_style(style("  {prefix:<6} [{bar:40}] {msg:>6} / {len} Mbit/s"));
                bar.set_prefix(link.name);
                bar.set_message("0.0");
                bar
            })
            .collect();
        Screen { all, head, bars }
    }
}

/// A template; one that indicatif refuses would show its default and is caught by the test.
fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("#> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_templates_are_valid() {
        for template in ["{spinner} {wide_msg}", "  {prefix:<6} [{bar:40}] {msg:>6} / {len} Mbit/s"] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
