//! One run of another program, from its start to its end: time, memory, output.

use anyhow::{Context, Result, bail};
use fairspan_live::wait_with_usage;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Seek, SeekFrom};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// A program that takes longer is killed.
const LONGEST: Duration = Duration::from_secs(300);
/// So much of what it said stands in an error.
const SAID: usize = 400;

/// What a run took.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Run {
    /// Seconds from start to end.
    pub(crate) wall_s: f64,
    /// Processor seconds.
    pub(crate) cpu_s: f64,
    /// Most memory resident, in MB (10^6 bytes).
    pub(crate) peak_mb: f64,
    /// What it printed on standard output.
    pub(crate) output: String,
}

impl Run {
    /// Runs `command` to its end. A status other than 0, and other than `also`, is an error with what it said.
    pub(crate) fn new(command: &mut Command, also: Option<i32>) -> Result<Run> {
        let name = command.get_program().to_string_lossy().into_owned();
        // Into files: nobody needs to read while it runs.
        let (mut output, mut errors) = (tempfile::tempfile()?, tempfile::tempfile()?);
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(errors.try_clone()?);
        let start = Instant::now();
        let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let (over, is_over) = channel::<()>();
        let (ended, elapsed) = std::thread::scope(|scope| {
            scope.spawn(move || {
                if is_over.recv_timeout(LONGEST) == Err(RecvTimeoutError::Timeout) {
                    pid.map(|pid| kill_process(pid, Signal::KILL));
                }
            });
            let ended = wait_with_usage(child);
            let elapsed = start.elapsed();
            drop(over);
            (ended, elapsed)
        });
        let ended = ended.with_context(|| format!("cannot wait for {name}"))?;
        let mut text = String::new();
        output.seek(SeekFrom::Start(0))?;
        output.read_to_string(&mut text).with_context(|| format!("{name} printed no text"))?;
        if !ended.status.success() && (also.is_none() || ended.status.code() != also) {
            let mut said = Vec::new();
            errors.seek(SeekFrom::Start(0))?;
            errors.read_to_end(&mut said)?;
            let said = String::from_utf8_lossy(&said);
            let said: String = said.trim().chars().take(SAID).collect();
            bail!("{name} ended with {} after {:.1} s: {said}", ended.status, elapsed.as_secs_f64());
        }
        Ok(Run {
            wall_s: elapsed.as_secs_f64(),
            cpu_s: ended.cpu.as_secs_f64(),
            peak_mb: ended.peak as f64 / 1e6,
            output: text,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_run_has_its_time_its_memory_and_its_output() {
        let run = Run::new(&mut sh("sleep 0.2; echo done"), None).unwrap();
        assert_eq!(run.output, "done\n");
        assert!(run.wall_s >= 0.2 && run.cpu_s < 0.15, "{run:?}");
        // 40 MB, written to.
        let large = Run::new(&mut sh("x=$(head -c 40000000 /dev/zero | tr '\\0' x); echo ${#x}"), None).unwrap();
        assert_eq!(large.output, "40000000\n");
        // (Not compared with the other run: until a child runs its own program, it counts as large as its parent, this test.)
        assert!(large.peak_mb > 40.0, "{}", large.peak_mb);
    }

    #[test]
    fn a_run_that_fails_says_what_it_said_unless_that_status_is_expected() {
        let error = Run::new(&mut sh("echo no such thing >&2; exit 3"), None).unwrap_err().to_string();
        assert!(error.contains("exit status: 3") && error.contains("no such thing"), "{error}");
        assert!(Run::new(&mut sh("exit 1"), Some(1)).is_ok());
        assert!(Run::new(&mut sh("kill -SEGV $$"), Some(1)).is_err());
        assert!(Run::new(&mut Command::new("/nonexistent"), None).unwrap_err().to_string().contains("/nonexistent"));
    }
}
