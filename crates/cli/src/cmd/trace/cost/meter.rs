//! The clock, the counter of instructions and the heap of this machine.

use fairspan_live::{Instructions, count_heap, heap};
use fairspan_trace::cost::meter::Meter;
use rustix::time::{ClockId, clock_gettime};
use std::time::Instant;

/// Measures this thread.
#[derive(Debug)]
pub(super) struct Machine {
    begin: Instant,
    instructions: Option<Instructions>,
    /// Why instructions are not counted.
    pub(super) uncounted: Option<String>,
}

impl Machine {
    /// Begins.
    pub(super) fn new() -> Machine {
        count_heap();
        let counter = Instructions::open().and_then(|counter| counter.count().map(|_| counter));
        let (instructions, uncounted) = match counter {
            Ok(counter) => (Some(counter), None),
            Err(error) => (None, Some(error.to_string())),
        };
        Machine { begin: Instant::now(), instructions, uncounted }
    }
}

impl Meter for Machine {
    #[inline]
    fn now(&mut self) -> u64 {
        self.begin.elapsed().as_nanos() as u64
    }

    fn processor(&mut self) -> u64 {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        (time.tv_sec * 1_000_000_000 + time.tv_nsec) as u64
    }

    fn instructions(&mut self) -> Option<u64> {
        self.instructions.as_ref()?.count().ok()
    }

    fn heap(&mut self) -> (i64, i64) {
        heap()
    }
}
