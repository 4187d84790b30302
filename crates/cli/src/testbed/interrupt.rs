//! Ctrl-C and SIGTERM as a flag that long work looks at.

use anyhow::Result;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Set by SIGINT, SIGTERM or SIGHUP. Work that sees it returns [`Interrupted`], and the values it unwinds through
/// clean up.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

/// A person or the system asked to stop; exit status 130.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

impl Interrupt {
    /// From here on the three signals end the program with status 130 at once: for work that leaves nothing behind.
    pub(crate) fn ends_at_once() -> Result<()> {
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::new(AtomicBool::new(true)))?;
        }
        Ok(())
    }

    /// Catches the three signals from here on.
    pub(crate) fn install() -> Result<Interrupt> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&flag))?;
        }
        Ok(Interrupt(flag))
    }

    /// `Err(Interrupted)` once a signal came.
    pub(crate) fn check(&self) -> Result<(), Interrupted> {
        if self.0.load(Ordering::Relaxed) { Err(Interrupted) } else { Ok(()) }
    }

    /// Sleeps for `span`, in steps short enough that a signal is answered within 20 ms.
    pub(crate) fn sleep(&self, span: Duration) -> Result<(), Interrupted> {
        let end = Instant::now() + span;
        loop {
            self.check()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(Duration::from_millis(20)));
        }
    }
}
