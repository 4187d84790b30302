//! How every benchmark ends: with its document or its table, or by a signal.

use crate::exit::Outcome;
use crate::testbed::Interrupt;
use anyhow::Result;
use serde::Serialize;

/// Prints what was measured: the table or, with `json`, the document, and then the table beside it.
pub(super) fn print(measured: Result<(impl Serialize, String)>, json: bool, interrupt: &Interrupt) -> Result<Outcome> {
    match measured {
        Ok((report, table)) if json => {
            println!("{}", serde_json::to_string(&report)?);
            eprint!("{table}");
            Ok(Outcome::Done)
        }
        Ok((_, table)) => {
            print!("{table}");
            Ok(Outcome::Done)
        }
        // A signal also ends system calls and children, whose errors then say less than the signal does.
        Err(_) if interrupt.check().is_err() => Ok(Outcome::Interrupted),
        Err(error) => Err(error),
    }
}
