//! Flows: which packets belong together, and where the state of those that are active lies.

pub mod gaps;
pub mod hash;
pub mod table;
