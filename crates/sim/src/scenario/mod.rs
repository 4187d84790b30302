//! A scenario: what is simulated. [`File`] reads one from TOML text, [`model::Scenario`] is what the world runs.

#![allow(dead_code)]

mod build;
mod error;
mod expect;
mod file;
mod form;
mod metric;
pub mod model;
mod names;
mod store;
mod sweep;
mod value;

pub use error::{Problem, ReadError};
pub use expect::{Expectation, Outcome, Tolerance};
pub use file::{File, Plot, Run};
pub use metric::{Metric, MetricError, Unit};
