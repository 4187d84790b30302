//! Fairspan on Linux: the only code that touches the operating system.
pub mod allowed;
pub mod control;
pub mod metrics;
pub mod quantity;
pub mod status;
