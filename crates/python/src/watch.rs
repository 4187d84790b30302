//! Who waits for runs: signals, and whoever shows how far they are.

use fairspan_study::simulation::{Meter, PARTS, Watch};
use pyo3::prelude::*;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How often signals and progress are looked at: a run asks every few milliseconds.
const LOOK: Duration = Duration::from_millis(50);

/// What went wrong in Python while a study ran, the first of it.
pub(crate) type Failure = Mutex<Option<PyErr>>;

/// Keeps the first thing that goes wrong.
pub(crate) fn fail(failure: &Failure, error: PyErr) {
    let mut kept = failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    kept.get_or_insert(error);
}

/// Looks at the interpreter's signals, and tells `progress` how much is done.
pub(crate) struct Waiting<'a> {
    /// Called with the share that is done, runs that are over, runs in all, and simulated seconds.
    progress: Option<&'a Py<PyAny>>,
    failure: &'a Failure,
    looked: Instant,
}

impl<'a> Waiting<'a> {
    pub(crate) fn new(progress: Option<&'a Py<PyAny>>, failure: &'a Failure) -> Waiting<'a> {
        Waiting { progress, failure, looked: Instant::now() }
    }
}

impl Watch for Waiting<'_> {
    fn look(&mut self, meter: &Meter) -> bool {
        if self.looked.elapsed() < LOOK {
            return false;
        }
        self.looked = Instant::now();
        if self.failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner).is_some() {
            return true;
        }
        let told = Python::attach(|py| {
            py.check_signals()?;
            if let Some(progress) = self.progress {
                let share = meter.parts() as f64 / (meter.planned() as u64 * PARTS).max(1) as f64;
                progress.call1(py, (share, meter.finished(), meter.planned(), meter.simulated().as_secs_f64()))?;
            }
            Ok(())
        });
        match told {
            Ok(()) => false,
            Err(error) => {
                fail(self.failure, error);
                true
            }
        }
    }
}
