//! Exit statuses, and which failure gets which.

use crate::say;
use fairspan_live::config::veiled;
use std::fmt;
use std::process::ExitCode;

/// How a command ended, other than by an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// 0: done.
    Done,
    /// 1: it ran and the answer is negative.
    Negative,
    /// 130: the user interrupted it.
    Interrupted,
}

/// A failure whose cause is bad usage or input: status 2.
#[derive(Debug)]
pub(crate) struct BadInput(pub(crate) String);

impl fmt::Display for BadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadInput {}

impl From<fairspan_study::Error> for BadInput {
    fn from(error: fairspan_study::Error) -> BadInput {
        BadInput(error.to_string())
    }
}

/// A failure whose cause is a missing privilege: status 3.
#[derive(Debug)]
pub(crate) struct NoPrivilege(pub(crate) String);

impl fmt::Display for NoPrivilege {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoPrivilege {}

/// An error and its causes, each once: some name their cause themselves.
fn told(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |text, cause| match text.ends_with(&cause) {
        true => text,
        false if text.is_empty() => cause,
        false => format!("{text}: {cause}"),
    })
}

/// Prints an error, if any, and gives the exit status.
pub(crate) fn code(outcome: anyhow::Result<Outcome>) -> ExitCode {
    if let (Ok(_), Some(error)) = (&outcome, say::refused()) {
        eprintln!("fairspan: standard output: {error}");
        return ExitCode::from(1);
    }
    match outcome {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Negative) => ExitCode::from(1),
        Ok(Outcome::Interrupted) => ExitCode::from(130),
        Err(error) => {
            eprintln!("fairspan: {}", veiled("", &told(&error)));
            if error.chain().any(is_input) {
                ExitCode::from(2)
            } else if error.chain().any(|cause| cause.is::<NoPrivilege>() || is_permission(cause)) {
                ExitCode::from(3)
            } else {
                ExitCode::from(1)
            }
        }
    }
}

fn is_input(cause: &(dyn std::error::Error + 'static)) -> bool {
    cause.is::<BadInput>() || cause.downcast_ref::<fairspan_study::Error>().is_some_and(fairspan_study::Error::is_input)
}

fn is_permission(cause: &(dyn std::error::Error + 'static)) -> bool {
    cause.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == std::io::ErrorKind::PermissionDenied)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        let refused = || std::io::Error::other("refused");
        assert_eq!(told(&anyhow::Error::new(refused()).context("link eth1: refused")), "link eth1: refused");
        assert_eq!(told(&anyhow::Error::new(refused()).context("link eth1").context("up")), "up: link eth1: refused");
    }
}
