//! A scenario: what is simulated. [`read`](crate::scenario) makes one from a TOML file; the world runs it.

pub mod model;
