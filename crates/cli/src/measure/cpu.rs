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
    /// Clock ticks of all processors: those without work, and all.
    idle: u64,
    all: u64,
    at: Instant,
}

/// Reads the machine's counters.
pub(crate) fn read() -> Result<Reading> {
    let text = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
    let fields = fields(&text);
    let ticks = busy_ticks(&fields).context("/proc/stat has no line `cpu`")?;
    let per_second = rustix::param::clock_ticks_per_second() as f64;
    let idle = fields.iter().skip(3).take(2).sum();
    // What guests used stands in `user` already.
    let all = fields.iter().take(8).sum();
    Ok(Reading { busy: ticks as f64 / per_second, idle, all, at: Instant::now() })
}

impl Reading {
    /// Seconds of processor time since `earlier`.
    pub(crate) fn busy_since(&self, earlier: &Reading) -> f64 {
        (self.busy - earlier.busy).max(0.0)
    }

    /// The share of the processors' time since `earlier` in which they had work, or were not ours (a hypervisor's).
    pub(crate) fn share_in_use_since(&self, earlier: &Reading) -> f64 {
        let all = self.all.saturating_sub(earlier.all).max(1);
        1.0 - (self.idle.saturating_sub(earlier.idle) as f64 / all as f64).min(1.0)
    }

    /// Time passed since `earlier`.
    pub(crate) fn elapsed_since(&self, earlier: &Reading) -> Duration {
        self.at - earlier.at
    }
}

/// Processor seconds that a process, or a thread of this one, has used: its folder is `/proc/PID` or `/proc/self/task/TID`.
pub(crate) fn used(folder: &str) -> Result<f64> {
    let text = fs::read_to_string(format!("{folder}/stat")).with_context(|| format!("cannot read {folder}/stat"))?;
    let ticks = used_ticks(&text).with_context(|| format!("{folder}/stat is not as expected"))?;
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// utime + stime, the 14th and 15th field; the second, a name in parentheses, may have spaces in it.
fn used_ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

/// The numbers of the line `cpu`, in clock ticks.
fn fields(stat: &str) -> Vec<u64> {
    let line = stat.lines().find(|line| line.starts_with("cpu ")).unwrap_or_default();
    line.split_whitespace().skip(1).map_while(|field| field.parse().ok()).collect()
}

/// user + nice + system + irq + softirq. Time stolen by a hypervisor is not ours.
fn busy_ticks(fields: &[u64]) -> Option<u64> {
    [0, 1, 2, 5, 6].iter().map(|&index| fields.get(index).copied()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_waiting_and_stolen_time_is_not_busy() {
        let busy = |stat: &str| busy_ticks(&fields(stat));
        assert_eq!(
            busy("cpu  100 20 3000 9999 7777 40 5 60000 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n"),
            Some(100 + 20 + 3000 + 40 + 5)
        );
        assert_eq!(busy("intr 5\n"), None);
        assert_eq!(busy("cpu  1 2 3\n"), None);
    }

    #[test]
    fn time_in_programs_and_in_the_kernel_for_them_is_used() {
        assert_eq!(used_ticks("812 (a ) name) S 1 2 3 4 5 6 7 8 9 10 70 8 0 0 20 0"), Some(78));
        assert_eq!(used_ticks("812 (name) S 1"), None);
        assert!(used(&format!("/proc/{}", std::process::id())).is_ok());
    }

    #[test]
    fn what_is_neither_idle_nor_waiting_is_in_use() {
        let at = Instant::now();
        let reading = |idle, all| Reading { busy: 0.0, idle, all, at };
        assert_eq!(reading(30, 140).share_in_use_since(&reading(10, 100)), 0.5);
        assert_eq!(reading(10, 100).share_in_use_since(&reading(10, 100)), 1.0);
    }
}
