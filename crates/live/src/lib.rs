//! Fairspan on Linux: the only code that touches the operating system.

pub mod channel;
pub mod emulate;
pub mod quantity;
mod sys;
