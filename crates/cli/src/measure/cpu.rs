//! Processor time of the whole machine.
//!
//! A tunnel's cost is spread over two daemons, the kernel's work for them, and soft interrupts that are charged to
//! whoever runs. So the whole machine is read (`cpu` in /proc/stat: user, nice, system, irq, softirq) and what it used
//! when idle, measured just before, is taken off. The test's own sender and receiver are in the figure, alike for
//! every tunnel. On a machine that does other work the figure means little.

use anyhow::{Context, Result};
use std::fs;
use std::time::{Duration, Instant};

/// The processor time used so far, and when that was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    busy: f64,
    at: Instant,
}

/// Reads the machine's counters.
pub(crate) fn read() -> Result<Reading> {
    let text = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
    let ticks = busy_ticks(&text).context("/proc/stat has no line `cpu`")?;
    let per_second = rustix::param::clock_ticks_per_second() as f64;
    Ok(Reading { busy: ticks as f64 / per_second, at: Instant::now() })
}

impl Reading {
    /// Seconds of processor time since `earlier`.
    pub(crate) fn busy_since(&self, earlier: &Reading) -> f64 {
        (self.busy - earlier.busy).max(0.0)
    }

    /// Time passed since `earlier`.
    pub(crate) fn elapsed_since(&self, earlier: &Reading) -> Duration {
        self.at - earlier.at
    }
}

/// user + nice + system + irq + softirq of the line `cpu`, in clock ticks. Time stolen by a hypervisor is not ours.
fn busy_ticks(stat: &str) -> Option<u64> {
    let line = stat.lines().find(|line| line.starts_with("cpu "))?;
    let fields: Vec<u64> = line.split_whitespace().skip(1).map_while(|field| field.parse().ok()).collect();
    [0, 1, 2, 5, 6].iter().map(|&index| fields.get(index).copied()).sum()
}

#[cfg(test)]
mod tests {
    use super::busy_ticks;

    #[test]
    fn idle_waiting_and_stolen_time_is_not_busy() {
        let stat = "cpu  100 20 3000 9999 7777 40 5 60000 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        assert_eq!(busy_ticks(stat), Some(100 + 20 + 3000 + 40 + 5));
        assert_eq!(busy_ticks("intr 5\n"), None);
        assert_eq!(busy_ticks("cpu  1 2 3\n"), None);
    }
}
