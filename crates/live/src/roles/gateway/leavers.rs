//! Ends of connections that are over for the gateway, while the kernel still sends what they were given.
//!
//! What is not acknowledged yet fills the kernel's memory, so these sockets stay, and count, until all of it has arrived. Where
//! nothing is acknowledged for [`PATIENCE`], the kernel has the rest, as of any program that has ended: it tries for some
//! minutes, and by limits of its own (`tcp_orphan_retries`, `tcp_max_orphans`).

use super::budget::Weight;
use super::half::Half;
use fairspan_core::units::{Span, Time};

const PATIENCE: Span = Span::from_secs(60);

/// One end.
#[derive(Debug)]
struct Leaver {
    half: Half,
    /// Bytes that it held when that last changed, and when that was.
    held: u64,
    since: Time,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Leavers(Vec<Leaver>);

impl Leavers {
    /// Takes an end to which everything was given, and that waits for nothing; gives it back if nothing is left to send.
    pub(super) fn take(&mut self, now: Time, half: Half) -> Option<Half> {
        match half.held() {
            0 => Some(half),
            held => {
                self.0.push(Leaver { half, held, since: now });
                None
            }
        }
    }

    /// Lets go those that are done; `gone` hears of each by what it counted.
    pub(super) fn look(&mut self, now: Time, mut gone: impl FnMut(Weight)) {
        self.0.retain_mut(|leaver| {
            let held = leaver.half.held();
            if held != leaver.held {
                (leaver.held, leaver.since) = (held, now);
            }
            let stays = held > 0 && now.since(leaver.since) < PATIENCE;
            if !stays {
                gone(leaver.half.weight());
            }
            stays
        });
    }

    pub(super) fn halves(&self) -> impl Iterator<Item = &Half> {
        self.0.iter().map(|leaver| &leaver.half)
    }

    pub(super) fn halves_mut(&mut self) -> impl Iterator<Item = &mut Half> {
        self.0.iter_mut().map(|leaver| &mut leaver.half)
    }
}
