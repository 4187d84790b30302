//! The clock that feeds the core, from the daemon's start. Steps of the wall clock do not matter to it, and the time that the
//! machine sleeps counts: keys grow old meanwhile, and what a peer said has become old news.

use crate::system::system;
use fairspan_core::units::Time;
use rustix::event::Timespec;
use std::time::Duration;

/// Nanoseconds since the daemon began; never goes back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Duration);

impl Clock {
    /// Starts at [`Time::ZERO`].
    pub(crate) fn start() -> Clock {
        Clock(system().monotonic())
    }

    /// Now.
    pub(crate) fn now(&self) -> Time {
        let since = system().monotonic().saturating_sub(self.0);
        Time::from_nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// How long to wait at `now` for `next`, in the kernel's form.
pub(crate) fn until(now: Time, next: Time) -> Timespec {
    let wait = next.since(now).as_nanos();
    Timespec { tv_sec: (wait / 1_000_000_000) as i64, tv_nsec: (wait % 1_000_000_000) as i64 }
}
