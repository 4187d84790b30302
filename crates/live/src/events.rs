//! What happened lately: the newest lines of the daemon's log, for those who look at it by other ways than its terminal.
//!
//! They are those of the whole process, as a log is. The program's log keeps them here ([`keep`]); status and pages read them.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// So many are kept.
const KEPT: usize = 64;
/// Longest text of one, in bytes.
const LONGEST: usize = 400;

static NEWEST: AtomicU64 = AtomicU64::new(0);
static EVENTS: Mutex<VecDeque<EventStatus>> = Mutex::new(VecDeque::new());

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventStatus {
    /// They are numbered from 1 since the process began.
    pub number: u64,
    /// When, in seconds since 1970, UTC.
    pub at: f64,
    /// `info`, `warn` or `error`.
    pub level: String,
    /// What.
    pub text: String,
}

/// Seconds since 1970, by the host's clock, in whole milliseconds.
pub(crate) fn wall_clock() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as f64 / 1e3
}

/// Keeps a line; the oldest gives way.
pub fn keep(level: &str, text: &str) {
    let mut end = text.len().min(LONGEST);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let shown = text[..end].chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let mut events = EVENTS.lock().unwrap_or_else(PoisonError::into_inner);
    let number = NEWEST.load(Ordering::Relaxed) + 1;
    if events.len() == KEPT {
        events.pop_front();
    }
    events.push_back(EventStatus { number, at: wall_clock(), level: level.to_owned(), text: shown });
    NEWEST.store(number, Ordering::Release);
}

/// The number of the newest one; 0 where there was none.
pub(crate) fn newest() -> u64 {
    NEWEST.load(Ordering::Acquire)
}

/// Those that are kept, the oldest first.
pub(crate) fn recent() -> Vec<EventStatus> {
    EVENTS.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_kept_cut_to_a_bound_and_without_what_a_terminal_would_obey() {
        let before = newest();
        for n in 0..KEPT + 10 {
            keep("info", &format!("{n} \x1b[2J"));
        }
        keep("warn", &"ü".repeat(LONGEST));
        let recent = recent();
        assert_eq!(recent.len(), KEPT);
        assert!(newest() >= before + KEPT as u64 + 11);
        assert!(recent.windows(2).all(|pair| pair[0].number + 1 == pair[1].number));
        assert!(recent.iter().all(|event| event.text.len() <= LONGEST && !event.text.contains('\x1b')));
        assert!(recent.iter().any(|event| event.text == "ü".repeat(LONGEST / 2)));
    }
}
