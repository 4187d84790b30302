//! What is known of the peer: its epoch, its newest heartbeat, and what it may upset.
//!
//! Every frame carries the low eight bits of its sender's epoch, the tag, and heartbeats carry it whole. Another one means
//! that the peer restarted; frames of the epochs before are stale for a while: of several, since a peer may restart twice
//! while frames of its first process are still under way. A restart, or another word on what it hears, costs us far more than the frame costs the peer, so only so many are heeded; what is not comes again with the next
//! heartbeat.

use crate::link::pacing::Pacer;
use crate::units::{Bytes, Rate, Span, Time};
use crate::wire::envelope::{Heartbeat, is_after};
use alloc::collections::VecDeque;

/// How long frames from before the peer's restart are told from those of yet another restart.
const STALE_FOR: Span = Span::from_secs(10);
/// How many epochs before the present one are told.
const EPOCHS_BEFORE: usize = 8;
/// How many restarts and changes of what it hears a peer may make in a second, and at once.
const UPSETS_PER_SECOND: u64 = 50;
const UPSETS_AT_ONCE: u64 = 100;
/// What the pacer counts for each.
const UPSET: usize = 1000;

/// Of which epoch a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The present one.
    Current,
    /// The one before, or a new one that may not upset us now.
    Stale,
    /// One that is new: it is to be adopted.
    New,
}

/// What is known of the peer.
#[derive(Debug)]
pub(super) struct Peer {
    /// The tag of its epoch, and the epoch once a heartbeat told it.
    epoch: Option<(u8, Option<u32>)>,
    /// The epochs before, the last one first, until when frames with them are stale.
    before: VecDeque<(u8, Option<u32>, Time)>,
    /// The newest heartbeat's number and high water.
    heartbeat: Option<(u32, u32)>,
    /// The channels that it sends data on.
    pub(super) using: u64,
    /// The channels that it hears nothing on.
    pub(super) deaf: u64,
    /// It understands compressed frames.
    pub(super) expands: bool,
    /// Its last counted frame was one that it sends again if it is lost.
    pub(super) keeps: bool,
    /// It takes rows of parity.
    pub(super) mends: bool,
    /// It puts fragments together.
    pub(super) joins: bool,
    told_version: bool,
    upsets: Pacer,
}

impl Peer {
    /// A peer that nothing has come from.
    pub(super) fn new() -> Peer {
        let rate = Rate::from_bits_per_sec(UPSETS_PER_SECOND * UPSET as u64 * 8);
        let upsets = Pacer::new(rate, Bytes::new((UPSETS_AT_ONCE - 1) * UPSET as u64));
        Peer {
            epoch: None,
            before: VecDeque::new(),
            heartbeat: None,
            using: u64::MAX,
            deaf: 0,
            expands: false,
            keeps: false,
            mends: false,
            joins: false,
            told_version: false,
            upsets,
        }
    }

    /// Whether a frame with this tag is of the present epoch, as far as the tag tells.
    #[inline]
    pub(super) fn is_current(&self, tag: u8) -> bool {
        matches!(self.epoch, Some((known, _)) if known == tag)
    }

    /// The tag of the present epoch; `None` before the first.
    pub(super) fn tag(&self) -> Option<u8> {
        self.epoch.map(|(tag, _)| tag)
    }

    /// Of which epoch a data frame with another tag than the present epoch's is.
    pub(super) fn origin_of_tag(&mut self, now: Time, tag: u8) -> Origin {
        if self.before.iter().any(|(before, _, until)| *before == tag && now < *until) || !self.may_upset(now) {
            return Origin::Stale;
        }
        Origin::New
    }

    /// Of which epoch a heartbeat is that says `epoch`.
    pub(super) fn origin(&mut self, now: Time, epoch: u32) -> Origin {
        match self.epoch {
            Some((_, Some(known))) if known == epoch => return Origin::Current,
            Some((known, None)) if known == epoch as u8 => {
                self.epoch = Some((known, Some(epoch)));
                return Origin::Current;
            }
            _ => {}
        }
        let before = self.before.iter().any(|(_, before, until)| *before == Some(epoch) && now < *until);
        if before || !self.may_upset(now) { Origin::Stale } else { Origin::New }
    }

    /// Takes `tag`, and `epoch` where it is known, for the peer's epoch from now on. Returns whether there was another.
    pub(super) fn adopt(&mut self, now: Time, tag: u8, epoch: Option<u32>) -> bool {
        let restarted = self.epoch.is_some();
        if let Some((tag, epoch)) = self.epoch {
            self.before.truncate(EPOCHS_BEFORE - 1);
            self.before.push_front((tag, epoch, now + STALE_FOR));
        }
        self.epoch = Some((tag, epoch));
        self.heartbeat = None;
        self.using = u64::MAX;
        self.expands = false;
        self.mends = false;
        self.joins = false;
        restarted
    }

    /// Whether the peer may make us start over now.
    pub(super) fn may_upset(&mut self, now: Time) -> bool {
        let may = self.upsets.ready_at() <= now;
        if may {
            self.upsets.on_sent(now, UPSET);
        }
        may
    }

    /// The newest heartbeat's high water.
    pub(super) fn high(&self) -> Option<u32> {
        self.heartbeat.map(|(_, high)| high)
    }

    /// Whether `heartbeat` is newer than all before it; then it is remembered.
    pub(super) fn is_newest(&mut self, heartbeat: &Heartbeat) -> bool {
        let newest = self.heartbeat.is_none_or(|(number, _)| is_after(heartbeat.number, number));
        if newest {
            self.heartbeat = Some((heartbeat.number, heartbeat.high));
        }
        newest
    }

    /// Whether a frame of another version is the first one.
    pub(super) fn is_first_of_version(&mut self) -> bool {
        !core::mem::replace(&mut self.told_version, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Time = Time::from_millis;

    #[test]
    fn a_tag_becomes_an_epoch_with_the_first_heartbeat() {
        let mut peer = Peer::new();
        assert!(!peer.adopt(MS(0), 7, None) && peer.is_current(7));
        assert_eq!(peer.origin(MS(1), 0x107), Origin::Current);
        assert_eq!(peer.origin(MS(1), 0x207), Origin::New, "the same tag, another epoch");
    }

    #[test]
    fn the_epoch_before_is_stale_for_ten_seconds() {
        let mut peer = Peer::new();
        peer.adopt(MS(0), 1, Some(1));
        assert!(peer.adopt(MS(1000), 2, Some(2)));
        assert_eq!((peer.origin(MS(10_999), 1), peer.origin_of_tag(MS(10_999), 1)), (Origin::Stale, Origin::Stale));
        assert_eq!((peer.origin(MS(11_000), 1), peer.origin_of_tag(MS(11_000), 1)), (Origin::New, Origin::New));
    }

    #[test]
    fn what_is_under_way_from_before_two_restarts_is_no_third_one() {
        let mut peer = Peer::new();
        for epoch in 1..=3 {
            peer.adopt(MS(100 * u64::from(epoch)), epoch as u8, Some(epoch));
        }
        for epoch in 1..=2 {
            assert_eq!(peer.origin(MS(400), epoch), Origin::Stale);
            assert_eq!(peer.origin_of_tag(MS(400), epoch as u8), Origin::Stale);
        }
        assert_eq!(peer.origin(MS(400), 3), Origin::Current);
    }

    #[test]
    fn a_peer_upsets_us_a_hundred_times_at_once_and_fifty_times_a_second() {
        let mut peer = Peer::new();
        let count = |peer: &mut Peer, at| (0..1000).filter(|_| peer.may_upset(MS(at))).count();
        assert_eq!(count(&mut peer, 0), 100);
        assert_eq!(count(&mut peer, 1000), 50);
    }

    #[test]
    fn the_newest_heartbeat_counts_across_the_wrap() {
        let mut peer = Peer::new();
        let mut newest = |number, high| peer.is_newest(&Heartbeat { number, high, ..Heartbeat::default() });
        assert_eq!([newest(u32::MAX, 5), newest(0, 9), newest(u32::MAX, 7)], [true, true, false]);
        assert_eq!(peer.high(), Some(9));
    }
}
