//! Timestamps of handshakes, by which a recorded initiation is known: each is greater than all before it, over restarts too.
//!
//! Source: WireGuard (Donenfeld, NDSS 2017), section 5.1 (TAI64N in message 1).
//!
//! Departures: a stamp is the nanoseconds since 1970 by the wall clock *as it was when the process began*, and goes on with
//! the daemon's own clock, so that no step of the wall clock matters. What a driver keeps ([`Memory`]) holds stamps back that
//! no process has used: they are reserved in blocks before they are used, so that a process that is killed used none beyond.
//! A process whose clock is behind its memory goes on from the memory, one by one. One that has lost its memory, and whose
//! clock is behind, is told by its peer what it must exceed (kind 6 in [`wire`](super::wire)).

use super::keys::PublicKey;
use fairspan_core::units::{Span, Time};
use std::collections::BTreeMap;

/// How far ahead of the clock stamps are reserved.
const BLOCK: Span = Span::from_secs(600);
/// Stamps that are reserved in any case, so that a process whose clock is far behind has some.
const LEAST: u64 = 1 << 30;
/// The memory is kept no more often.
const KEEP_EVERY: Span = Span::from_secs(60);

/// What sessions must not forget between one process and the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// No handshake was begun with a greater stamp.
    pub used: u64,
    /// The greatest stamp of each peer's handshakes that were answered.
    pub heard: BTreeMap<PublicKey, u64>,
}

/// What a process begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Past {
    /// Nanoseconds since 1970, by the wall clock.
    pub(super) wall: u64,
    pub(super) memory: Memory,
    /// Stamps up to this one may be used; all, where nothing is kept.
    pub(super) reserved: u64,
}

impl Past {
    /// Of a process that has no memory and keeps none: `wall` nanoseconds since 1970.
    pub fn forgotten(wall: u64) -> Past {
        Past { wall, memory: Memory::default(), reserved: u64::MAX }
    }

    /// Of a process that found `memory`. [`Past::to_keep`] is to be kept before the first handshake.
    pub fn remembered(wall: u64, memory: Memory) -> Past {
        let reserved = reserve(wall, memory.used);
        Past { wall, memory, reserved }
    }

    /// The same, where nothing can be kept.
    pub fn unkept(self) -> Past {
        Past { reserved: u64::MAX, ..self }
    }

    /// What another process must find, should this one be killed.
    pub fn to_keep(&self) -> Memory {
        Memory { used: self.reserved, heard: self.memory.heard.clone() }
    }
}

fn reserve(wall: u64, used: u64) -> u64 {
    wall.saturating_add(BLOCK.as_nanos()).max(used.saturating_add(LEAST))
}

/// The stamps of one process's own handshakes, and when its memory is to be kept anew.
pub(super) struct Stamps {
    wall: u64,
    since: Time,
    last: u64,
    reserved: u64,
    /// Whether something was heard that is not kept yet.
    heard: bool,
    /// When the memory was last to be kept.
    asked: Time,
}

impl Stamps {
    pub(super) fn new(past: &Past, now: Time) -> Stamps {
        Stamps {
            wall: past.wall,
            since: now,
            last: past.memory.used,
            reserved: past.reserved,
            heard: false,
            asked: now,
        }
    }

    fn wall(&self, now: Time) -> u64 {
        self.wall.saturating_add(now.since(self.since).as_nanos())
    }

    /// A stamp that is greater than all before it.
    pub(super) fn next(&mut self, now: Time) -> u64 {
        // Without a reserve that reaches beyond the clock, what is reserved is used up one by one.
        let wall = Some(self.wall(now)).filter(|wall| wall.saturating_add(LEAST) <= self.reserved);
        self.last = self.last.saturating_add(1).max(wall.unwrap_or(0));
        self.last
    }

    pub(super) fn on_heard(&mut self) {
        self.heard = true;
    }

    /// Up to where stamps are to be reserved now, if the memory is to be kept now.
    pub(super) fn due(&self, now: Time) -> Option<u64> {
        let kept = self.reserved < u64::MAX;
        let short = reserve(self.wall(now), self.last) > self.reserved.saturating_add(BLOCK.as_nanos() / 2);
        let late = now.since(self.asked) >= KEEP_EVERY;
        (kept && late && (short || self.heard)).then(|| reserve(self.wall(now), self.last))
    }

    /// The memory is being kept.
    pub(super) fn on_asked(&mut self, now: Time) {
        (self.heard, self.asked) = (false, now);
    }

    /// Stamps up to `reserved` were kept as used.
    pub(super) fn on_kept(&mut self, reserved: u64) {
        self.reserved = self.reserved.max(reserved);
    }

    pub(super) fn last(&self) -> u64 {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR: u64 = 365 * 86_400 * 1_000_000_000;

    fn at(secs: u64) -> Time {
        Time::ZERO + Span::from_secs(secs)
    }

    #[test]
    fn stamps_grow_over_restarts_kills_and_clocks_that_step_back_or_begin_in_1970() {
        let mut kept = Memory::default();
        let mut greatest = 0;
        // The wall clock at each start; what happens to the process; whether it manages to keep anything meanwhile.
        for (wall, secs, keeps) in [
            (50 * YEAR, 3000, true),
            (50 * YEAR, 1, false),
            (0, 3000, true),
            (0, 5, false),
            (49 * YEAR, 900, false),
            (51 * YEAR, 10, true),
            // Longer than what is reserved lasts, if it follows the clock.
            (52 * YEAR, 3000, false),
            (51 * YEAR, 10, true),
        ] {
            let past = Past::remembered(wall, kept.clone());
            kept = past.to_keep();
            let mut stamps = Stamps::new(&past, at(7));
            for now in (7..7 + secs).map(at) {
                for _ in 0..3 {
                    let stamp = stamps.next(now);
                    assert!(stamp > greatest && stamp <= kept.used, "{stamp}: {greatest} before, {} kept", kept.used);
                    greatest = stamp;
                }
                if let Some(used) = stamps.due(now).filter(|_| keeps) {
                    kept.used = used;
                    stamps.on_kept(used);
                }
            }
        }
        assert!(greatest >= 52 * YEAR, "a clock that is ahead is followed");
    }

    #[test]
    fn the_memory_is_kept_now_and_then_and_not_where_there_is_none() {
        let past = Past::remembered(YEAR, Memory::default());
        let mut stamps = Stamps::new(&past, at(0));
        let mut written = 0;
        for now in (0..86_400).map(at) {
            if now >= at(43_200) {
                stamps.on_heard();
            }
            if let Some(used) = stamps.due(now) {
                stamps.on_asked(now);
                stamps.on_kept(used);
                written += 1;
            }
        }
        // Half a day each five minutes, and half a day each minute.
        assert!((144 + 700..=144 + 725).contains(&written), "{written}");
        let mut alone = Stamps::new(&Past::forgotten(YEAR), at(0));
        alone.on_heard();
        assert_eq!(alone.due(at(86_400)), None);
        assert_eq!(alone.next(at(1)), YEAR + 1_000_000_000);
    }
}
