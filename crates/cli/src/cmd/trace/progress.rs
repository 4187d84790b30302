//! How far the files are read, on standard error where that is a terminal and it takes long enough to ask.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// What is over before has no progress to show.
const PATIENCE: Duration = Duration::from_millis(300);

/// The line on the screen.
#[derive(Debug)]
pub(super) struct Progress {
    /// Bytes of all files; `None`: not known, as of standard input.
    total: Option<u64>,
    read: u64,
    start: Instant,
    bar: Option<ProgressBar>,
    terminal: bool,
}

impl Progress {
    /// Shows nothing yet, and nothing ever where nobody looks.
    pub(super) fn new() -> Progress {
        let terminal = std::io::stderr().is_terminal();
        Progress { total: Some(0), read: 0, start: Instant::now(), bar: None, terminal }
    }

    /// There are so many more bytes to be read.
    pub(super) fn expect(&mut self, bytes: Option<u64>) {
        self.total = self.total.and_then(|total| Some(total + bytes?));
    }

    /// So many more were read.
    pub(super) fn advance(&mut self, bytes: usize) {
        self.read += bytes as u64;
        if !self.terminal || self.start.elapsed() < PATIENCE {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let template = match self.total {
                Some(_) => "reading [{bar:24}] {percent:>3} %, {bytes} of {total_bytes}",
                None => "reading {bytes}",
            };
            let bar = self.total.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
            let style = ProgressStyle::with_template(template);
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
            bar
        });
        bar.set_position(self.read);
    }
}

impl Drop for Progress {
    /// Takes the line away.
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
