//! Applications at the two ends of a flow.
//!
//! | traffic | over | file |
//! |---|---|---|
//! | FTP | TCP | `ftp` |
//! | HTTP fetches | TCP, a connection each | `http` |
//! | request and response | TCP, one connection | `exchange` |
//! | request and response | datagrams | `datagram` |
//! | transfers in an open loop | TCP, a connection each | `transfers` |
//! | web pages | TCP, some connections | `web` |
//! | video | TCP, one connection | `video` |
//! | calls | datagrams | `call` |
//! | games | datagrams | `game` |
//!
//! Those over TCP drive [`Pair`]s: both ends of one connection with what the application wants of each. They never look
//! at segments. [`TcpEndpoint`](tcp::TcpEndpoint) owns the pairs and gives them to the world as one
//! [`Endpoint`](crate::endpoint::Endpoint).

pub mod call;
pub mod datagram;
pub mod exchange;
pub mod ftp;
pub mod game;
pub mod http;
pub mod ideal;
pub mod pair;
pub mod pairs;
pub mod tcp;
pub mod transfers;
pub mod video;
pub mod web;

pub use pair::{End, Pair};
pub use pairs::{Application, Pairs};

use crate::metrics::spread::Spread;
use crate::results;
use fairspan_core::units::{Bytes, Time};
use ideal::Ideal;
use std::sync::Arc;

/// What slowdowns are counted in: a thousandth, so that a spread of whole numbers can hold them.
const SLOWDOWN: f64 = 1000.0;
/// More transfers of a flow than this are counted, and not recorded one by one.
pub const MOST_RECORDS: usize = 1_000_000;

/// Transfers of a flow.
#[derive(Clone, Debug, Default)]
pub struct Transfers {
    /// Begun since the measurement did.
    started: u64,
    /// Begun, and neither complete nor failed; and their bytes.
    under_way: u64,
    pending: u64,
    completed: u64,
    failed: u64,
    bytes: u64,
    duration: Spread,
    slowdown: Spread,
    /// When the first of the completed ones began, and when the last one ended.
    extent: Option<(Time, Time)>,
    wanted: Wanted,
    /// One more than bounds, where there are any.
    classes: Vec<[Spread; 2]>,
    records: Vec<results::Record>,
}

/// What of transfers is measured besides.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// How long a transfer takes on an empty path, where that can be said.
    pub ideal: Option<Arc<Ideal>>,
    /// Sizes up to which classes reach, ascending; none: no classes.
    pub classes: Arc<[Bytes]>,
    /// Whether each transfer is recorded.
    pub records: bool,
}

impl Transfers {
    /// With percentiles of the durations.
    pub fn new() -> Transfers {
        Transfers::with(Wanted::default())
    }

    /// The same, and what else is wanted.
    pub fn with(wanted: Wanted) -> Transfers {
        let spread = || Spread::new(true);
        let classes = if wanted.classes.is_empty() { 0 } else { wanted.classes.len() + 1 };
        Transfers {
            duration: spread(),
            slowdown: spread(),
            classes: (0..classes).map(|_| [spread(), spread()]).collect(),
            wanted,
            ..Transfers::default()
        }
    }

    /// One of so many bytes begins; 0 where that is not known yet.
    pub fn handle_begun(&mut self, bytes: u64) {
        self.started += 1;
        self.under_way += 1;
        self.pending = self.pending.saturating_add(bytes);
    }

    /// One that was begun is of `now` bytes, not of `before`.
    pub fn handle_resized(&mut self, before: u64, now: u64) {
        self.pending = self.pending.saturating_sub(before).saturating_add(now);
    }

    /// One that was begun is no longer under way.
    fn handle_ended(&mut self, bytes: u64) {
        self.under_way = self.under_way.saturating_sub(1);
        self.pending = self.pending.saturating_sub(bytes);
    }

    /// One that was begun at `begun` is complete.
    pub fn handle_completed(&mut self, now: Time, begun: Time, bytes: u64) {
        self.handle_ended(bytes);
        self.completed += 1;
        self.bytes += bytes;
        let nanos = now.since(begun).as_nanos();
        self.duration.add(nanos);
        self.extent = Some((self.extent.map_or(begun, |(first, _)| first.min(begun)), now));
        let slowdown = self.wanted.ideal.as_ref().map(|ideal| nanos as f64 / ideal.nanos(bytes));
        let thousandths = slowdown.map(|slowdown| (slowdown * SLOWDOWN) as u64);
        if let Some(thousandths) = thousandths {
            self.slowdown.add(thousandths);
        }
        let class = self.wanted.classes.partition_point(|bound| bound.as_u64() < bytes);
        if let Some([duration, slowdown]) = self.classes.get_mut(class) {
            duration.add(nanos);
            thousandths.into_iter().for_each(|thousandths| slowdown.add(thousandths));
        }
        if self.wanted.records && self.records.len() < MOST_RECORDS {
            let (start_s, duration_s) = (begun.since(Time::ZERO).as_secs_f64(), nanos as f64 / 1e9);
            self.records.push(results::Record { start_s, bytes, duration_s, slowdown });
        }
    }

    /// One of so many bytes, as it was begun, came to nothing.
    pub fn handle_failed(&mut self, bytes: u64) {
        self.handle_ended(bytes);
        self.failed += 1;
    }

    /// One came to nothing before it was begun.
    pub fn handle_refused(&mut self) {
        self.failed += 1;
    }

    /// One of so many bytes, as it was begun, is no longer wanted.
    pub fn handle_given_up(&mut self, bytes: u64) {
        self.handle_ended(bytes);
    }

    /// How many are under way.
    pub fn under_way(&self) -> u64 {
        self.under_way
    }

    /// The measurement begins.
    pub fn begin(&mut self) {
        let (under_way, pending) = (self.under_way, self.pending);
        *self = Transfers::with(std::mem::take(&mut self.wanted));
        (self.under_way, self.pending) = (under_way, pending);
    }

    /// What was counted.
    pub fn result(&self) -> results::Transfers {
        let bounds = self.wanted.classes.iter().map(|bound| Some(bound.as_u64())).chain([None]);
        let class = |(up_to, [duration, slowdown]): (Option<u64>, &[Spread; 2])| results::SizeClass {
            up_to,
            duration: duration.summary(1e9),
            slowdown: slowdown.summary(SLOWDOWN),
        };
        results::Transfers {
            started: self.started,
            completed: self.completed,
            failed: self.failed,
            unfinished: self.under_way,
            unfinished_bytes: self.pending,
            bytes: self.bytes,
            elapsed_s: self.extent.map_or(0.0, |(first, last)| last.since(first).as_secs_f64()),
            duration: self.duration.summary(1e9),
            slowdown: self.wanted.ideal.is_some().then(|| self.slowdown.summary(SLOWDOWN)),
            classes: bounds.zip(&self.classes).map(class).collect(),
            records: self.records.clone(),
        }
    }
}
