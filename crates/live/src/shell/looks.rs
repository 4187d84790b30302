//! The moments at which page and webhook look at the daemon, and the end of their threads.
//!
//! Both look once a second, at the same moments, so that one status does for both.

use fairspan_core::units::{Span, Time};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often they look.
pub(super) const EVERY: Span = Span::from_secs(1);

/// When they look next, after `now`: at full seconds of the daemon's clock, also where one began later, or where this process stood still.
pub(super) fn next(now: Time) -> Time {
    Time::from_nanos((now.as_nanos() / EVERY.as_nanos() + 1).saturating_mul(EVERY.as_nanos()))
}

/// Waits for the end of a thread, for so long at most: one whose disk or receiver hangs is left behind. Whether it has ended.
pub(super) fn join_within(most: Duration, thread: JoinHandle<()>) -> bool {
    let begun = Instant::now();
    while !thread.is_finished() {
        if begun.elapsed() >= most {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    // One that panicked has said so.
    let _ = thread.join();
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn looks_are_at_full_seconds_whenever_they_began() {
        let at = Time::from_millis;
        assert_eq!(
            [0, 1, 999, 1000, 1001, 61_234].map(|now| next(at(now))),
            [1000, 1000, 1000, 2000, 2000, 62_000].map(at)
        );
    }

    #[test]
    fn a_thread_that_ends_is_waited_for_and_one_that_hangs_is_left_behind() {
        let (go, waits) = channel::<()>();
        let hangs = thread::spawn(move || {
            let _ = waits.recv();
        });
        assert!(!join_within(Duration::from_millis(20), hangs));
        let ends = thread::spawn(|| thread::sleep(Duration::from_millis(50)));
        assert!(join_within(Duration::from_secs(60), ends));
        assert!(join_within(Duration::from_secs(60), thread::spawn(|| std::panic::resume_unwind(Box::new("ended")))));
        drop(go);
    }
}
