//! A child process in a namespace that never outlives its owner.

use super::Namespace;
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long a child may take to clean up after SIGTERM before it is killed: each interface that goes waits for all processors, and on a
/// busy machine for those of others.
const GRACE: Duration = Duration::from_secs(30);

/// A running child; dropped, it gets SIGTERM and, if that does not help, SIGKILL.
#[derive(Debug)]
pub(crate) struct Process {
    what: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command` inside `namespace`, its output going to the file `log`.
    ///
    /// The child gets a process group of its own: a Ctrl-C at the terminal reaches only us, and we end it in order.
    pub(crate) fn start(namespace: &Namespace, what: &str, mut command: Command, log: &Path) -> Result<Process> {
        let output = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).process_group(0);
        let child = namespace.enter(|| command.spawn().with_context(|| format!("cannot start {what}")))?;
        Ok(Process { what: what.to_owned(), child, log: log.to_owned() })
    }

    /// Its number.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has printed so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// An error with the end of its output, if it is no longer running.
    pub(crate) fn check(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("{} ended early ({status}): {}", self.what, last_lines(&self.log(), 6));
        }
        Ok(())
    }

    /// Asks it to end and waits; its exit status, or `None` if it had to be killed.
    pub(crate) fn stop(&mut self) -> Option<ExitStatus> {
        if let Ok(Some(status)) = self.child.try_wait() {
            return Some(status);
        }
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let end = Instant::now() + GRACE;
        while Instant::now() < end {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        None
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The last `count` lines of `text`, on one line.
fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let from = lines.len().saturating_sub(count);
    if lines.is_empty() { "it printed nothing".into() } else { lines[from..].join(" | ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_joined_and_blank_ones_dropped() {
        assert_eq!(last_lines("a\n\nb\nc\n", 2), "b | c");
        assert_eq!(last_lines("\n", 2), "it printed nothing");
    }
}
