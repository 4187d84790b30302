//! The world: runs a scenario.
