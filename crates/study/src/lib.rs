//! A scenario file as a study: every point and seed of it is run, and becomes JSON, tables, plots and files.
//!
//! The program and the Python package do the same with it, so it is here once. Nothing is printed here, and no argument and no
//! signal is read: whoever drives a study says when it stops ([`simulation::Watch`]).

mod embedded;
mod error;
pub mod report;
pub mod ring;
pub mod scenarios;
pub mod simulation;

pub use error::Error;
