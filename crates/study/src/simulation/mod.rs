//! Scenarios run: files read, points and seeds spread over the cores, captures written on the way.

mod capture;
mod expected;
mod file;
mod meter;
mod parts;
mod runner;

pub use capture::Captures;
pub use expected::{Expected, expected};
pub use file::{bad_input, beside, parse, read, set_seeds};
pub use meter::{Meter, PARTS};
pub use runner::{Batch, Finished, Options, Watch, run};
