//! One file a command: its arguments, what it does, what it prints.

pub(crate) mod bench;
pub(crate) mod demo;
