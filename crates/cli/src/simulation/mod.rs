//! Scenarios run: files read, points and seeds spread over the cores, captures written on the way.

mod capture;
mod expected;
mod file;
mod progress;
mod runner;

pub(crate) use capture::Captures;
pub(crate) use expected::{Expected, expected};
pub(crate) use file::{bad_input, read};
pub(crate) use runner::{Batch, Finished, Options, run};
