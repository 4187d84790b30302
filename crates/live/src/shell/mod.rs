//! The shell of a daemon.

mod error;

pub use error::DaemonError;
