//! TCP, sans IO: segments and times in, segments and times out.

pub mod congestion;
pub mod segment;

/// The settings of a connection's ends. To be filled by presets.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Config {}
