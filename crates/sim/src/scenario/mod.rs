//! A scenario: what is simulated. [`File`] reads one from TOML text, [`Scenario`](crate::model::Scenario) is what the world runs.

mod bond;
mod build;
mod copies;
mod error;
mod expect;
mod file;
mod flow;
mod form;
mod graph;
mod graphml;
mod link;
mod medium;
mod metric;
mod names;
mod plot;
mod refers;
mod reliable;
mod ring;
mod route;
mod sizes;
mod split;
mod store;
mod sweep;
mod topology;
mod traffic;
mod value;
mod workload;

pub use error::{Problem, ReadError};
pub use expect::{Expectation, Outcome, Tolerance};
pub use file::{File, Run};
pub use metric::{Metric, MetricError, Sampled, Unit};
pub use plot::{Content, Plot, SeriesName};
