//! Applications at the two ends of a flow.
//!
//! | traffic | over | file |
//! |---|---|---|
//! | FTP | TCP | `ftp` |
//! | HTTP fetches | TCP, a connection each | `http` |
//! | request and response | TCP, one connection | `exchange` |
//! | request and response | datagrams | `datagram` |
//!
//! Those over TCP drive [`Pair`]s: both ends of one connection with what the application wants of each. They never look
//! at segments. [`TcpEndpoint`](tcp::TcpEndpoint) owns the pairs and gives them to the world as one
//! [`Endpoint`](crate::endpoint::Endpoint).

pub mod datagram;
pub mod exchange;
pub mod ftp;
pub mod http;
pub mod pair;
pub mod pairs;
pub mod tcp;

pub use pair::{End, Pair};
pub use pairs::{Application, Pairs};

use crate::metrics::spread::Spread;
use crate::results;
use fairspan_core::units::Time;

/// Transfers of a flow.
#[derive(Clone, Debug, Default)]
pub struct Transfers {
    completed: u64,
    failed: u64,
    bytes: u64,
    duration: Spread,
    /// When the first of the completed ones began, and when the last one ended.
    extent: Option<(Time, Time)>,
}

impl Transfers {
    /// With percentiles of the durations.
    pub fn new() -> Transfers {
        Transfers { duration: Spread::new(true), ..Transfers::default() }
    }

    /// One that was begun at `begun` is complete.
    pub fn handle_completed(&mut self, now: Time, begun: Time, bytes: u64) {
        self.completed += 1;
        self.bytes += bytes;
        self.duration.add(now.since(begun).as_nanos());
        self.extent = Some((self.extent.map_or(begun, |(first, _)| first.min(begun)), now));
    }

    /// One was begun and came to nothing.
    pub fn handle_failed(&mut self) {
        self.failed += 1;
    }

    /// The measurement begins.
    pub fn begin(&mut self) {
        *self = Transfers::new();
    }

    /// What was counted.
    pub fn result(&self) -> results::Transfers {
        results::Transfers {
            completed: self.completed,
            failed: self.failed,
            bytes: self.bytes,
            elapsed_s: self.extent.map_or(0.0, |(first, last)| last.since(first).as_secs_f64()),
            duration: self.duration.summary(1e9),
        }
    }
}
