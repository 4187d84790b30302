//! TCP, sans IO: segments and times in, segments and times out.
//!
//! [`Connection`] is one end of one connection. After any input (`handle_*`, `open`, `write`, `read`, `close`) call
//! [`Connection::poll_transmit`] until it gives nothing, then look at [`Connection::poll_timeout`]. Payload has no
//! content: positions in the stream stand for it.

mod acknowledgment;
mod arrival;
pub mod config;
mod connection;
mod keepalive;
mod marks;
mod phase;
mod position;
mod receiver;
mod recovery;
pub mod segment;
mod sender;
mod state;
mod transmission;

pub use config::{Config, SettingError};
pub use connection::Connection;
pub use state::{Failure, State, Stats};
