//! Flows: which packets belong together.

pub mod hash;
