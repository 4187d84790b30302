//! TCP, sans IO: segments and times in, segments and times out.
//!
//! [`Connection`] is one end of one connection. After any input (`handle_*`, `open`, `write`, `read`, `close`) call
//! [`Connection::poll_transmit`] until it gives nothing, then look at [`Connection::poll_timeout`]. Payload has no
//! content: positions in the stream stand for it.

pub mod config;
mod connection;
mod position;
pub mod rack;
mod receiver;
mod recovery;
mod rtt;
mod scoreboard;
pub mod segment;
mod sender;

pub use config::{Config, SettingError};
pub use connection::{Connection, Failure, State, Stats};
