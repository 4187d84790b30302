//! A transfer of a file: as much as the connection takes, without end or some number of bytes.
//!
//! Without sizes of writes it costs nothing: the backlog is written once. With sizes, writes stay ahead of what the
//! connection can send by the larger of its window and 64 kB, which it can never use up between two calls, and are topped
//! up whenever something was sent.

use super::{Application, End, Pair, Pairs, Transfers};
use crate::traffic::{ConfigError, Sampler, Sizes};
use fairspan_core::rng::Rng;
use fairspan_core::units::{Bytes, Time};

/// Least number of bytes that writes stay ahead.
const AHEAD: u64 = 65_536;

/// A file transfer from the flow's sender to its receiver.
#[derive(Clone, Debug)]
pub struct Ftp {
    bytes: Option<u64>,
    writes: Option<Box<Writes>>,
    transfers: Option<Box<Transfers>>,
}

#[derive(Clone, Debug)]
struct Writes {
    sizes: Sampler,
    rng: Rng,
    left: u64,
}

impl Ftp {
    /// Of this many bytes (`None`: without end), in writes of these sizes (`None`: at once). What is measured of one that ends goes to
    /// `transfers`.
    pub fn new(
        bytes: Option<Bytes>,
        writes: Option<&Sizes>,
        transfers: Transfers,
        rng: Rng,
    ) -> Result<Ftp, ConfigError> {
        let bytes = bytes.map(Bytes::as_u64);
        let writes = match writes {
            Some(sizes) => Some(Box::new(Writes { sizes: Sampler::new(sizes)?, rng, left: bytes.unwrap_or(u64::MAX) })),
            None => None,
        };
        Ok(Ftp { bytes, writes, transfers: bytes.map(|_| Box::new(transfers)) })
    }
}

impl Application for Ftp {
    fn start(&mut self, now: Time, pairs: &mut Pairs) {
        if let Some(transfers) = &mut self.transfers {
            transfers.handle_begun(self.bytes.unwrap_or(0));
        }
        let pair = pairs.open(now, End::Sender);
        if self.writes.is_none() {
            pair.write(now, End::Sender, self.bytes.unwrap_or(u64::MAX));
            if self.bytes.is_some() {
                pair.close(now, End::Sender);
            }
        }
        self.serve(now, pair);
    }

    fn stop(&mut self, now: Time, pairs: &mut Pairs) {
        if self.bytes.is_none() {
            // A backlog without end: nothing that was written for after this instant can be told apart.
            self.writes = None;
            pairs.abort_all(now, End::Sender);
        }
    }

    fn serve(&mut self, now: Time, pair: &mut Pair) {
        if let Some(writes) = &mut self.writes {
            let ahead = pair.end(End::Sender).window().max(AHEAD);
            while writes.left > 0 && pair.waiting(End::Sender) == 0 && pair.end(End::Sender).unsent() < ahead {
                let size = u64::from(writes.sizes.next(&mut writes.rng)).min(writes.left);
                if self.bytes.is_some() {
                    writes.left -= size;
                }
                pair.write(now, End::Sender, size);
                if writes.left == 0 {
                    pair.close(now, End::Sender);
                }
            }
        }
        if let (Some(bytes), Some(transfers)) = (self.bytes, &mut self.transfers) {
            if pair.received(End::Receiver) == bytes && pair.mark == 0 {
                pair.mark = 1;
                transfers.handle_completed(now, pair.opened, bytes);
            }
            if pair.end(End::Receiver).at_end_of_stream() {
                pair.close(now, End::Receiver);
            }
        }
    }

    fn over(&mut self, _: Time, pair: &Pair) {
        if let Some(transfers) = self.transfers.as_mut().filter(|_| pair.mark == 0) {
            transfers.handle_failed(self.bytes.unwrap_or(0));
        }
    }

    fn transfers(&self) -> Option<&Transfers> {
        self.transfers.as_deref()
    }

    fn begin(&mut self, _: Time) {
        if let Some(transfers) = &mut self.transfers {
            transfers.begin();
        }
    }
}
