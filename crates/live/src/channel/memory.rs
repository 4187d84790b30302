//! The memory channel: a link inside the process, for tests of whatever runs over channels.
//!
//! Its two ends are joined by two [`Schedule`]s, so rate, delay, jitter, loss, queue and outages are those of the
//! emulator, driven by the time that the caller gives: a run with the same inputs is the same run.

use super::ethernet::Codepoint;
use crate::emulate::{DropReason, Profile, ProfileError, Schedule, Verdict};
use fairspan_core::units::Time;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// One end of a link in memory.
#[derive(Debug)]
pub struct MemoryChannel {
    out: Rc<RefCell<Lane>>,
    into: Rc<RefCell<Lane>>,
}

/// One direction.
#[derive(Debug)]
struct Lane {
    schedule: Schedule,
    limit: usize,
    up: bool,
    /// Frames to lose regardless of the schedule.
    lose: usize,
    /// By time of arrival, then in the order sent.
    frames: BTreeMap<(Time, u64), (Codepoint, Vec<u8>)>,
    stats: MemoryStats,
}

/// The counters of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryStats {
    /// Frames given to the link.
    pub sent: u64,
    /// Frames that came out of it.
    pub received: u64,
    /// Lost by chance or by [`MemoryChannel::lose_next`].
    pub lost: u64,
    /// Dropped because the link's queue was full.
    pub queue: u64,
    /// Lost in an outage, or while the link was set down.
    pub outage: u64,
}

/// What became of a frame given to [`MemoryChannel::send`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The link took it (and may yet lose it).
    Done,
    /// As many frames as may be are under way: it was not taken.
    Blocked,
    /// The link is set down: it was dropped.
    Down,
}

impl MemoryChannel {
    /// The two ends of a link: `forward` holds from the first to the second, `backward` the other way. At most
    /// `limit` frames are under way in each direction. `seed` determines loss and jitter.
    ///
    /// # Errors
    /// A profile that cannot work.
    pub fn pair(
        forward: Profile,
        backward: Profile,
        limit: usize,
        seed: u64,
    ) -> Result<(MemoryChannel, MemoryChannel), ProfileError> {
        let lane = |profile, seed| -> Result<_, ProfileError> {
            let schedule = Schedule::new(profile, seed)?;
            let (frames, stats) = (BTreeMap::new(), MemoryStats::default());
            Ok(Rc::new(RefCell::new(Lane { schedule, limit, up: true, lose: 0, frames, stats })))
        };
        let (there, back) = (lane(forward, seed)?, lane(backward, seed.wrapping_add(1 << 32))?);
        let near = MemoryChannel { out: there.clone(), into: back.clone() };
        Ok((near, MemoryChannel { out: back, into: there }))
    }

    /// Sends a frame of `head` and then `packet` at `now`.
    pub fn send(&mut self, now: Time, codepoint: Codepoint, head: &[u8], packet: &[u8]) -> Sent {
        let lane = &mut *self.out.borrow_mut();
        if lane.frames.len() >= lane.limit {
            return Sent::Blocked;
        }
        lane.stats.sent += 1;
        if !lane.up {
            lane.stats.outage += 1;
            return Sent::Down;
        }
        let verdict = lane.schedule.offer(now, head.len() + packet.len());
        if lane.lose > 0 {
            lane.lose -= 1;
            lane.stats.lost += 1;
            return Sent::Done;
        }
        match verdict {
            Verdict::Deliver(due) => {
                lane.frames.insert((due, lane.stats.sent), (codepoint, [head, packet].concat()));
            }
            Verdict::Drop(DropReason::Loss) => lane.stats.lost += 1,
            Verdict::Drop(DropReason::Queue) => lane.stats.queue += 1,
            Verdict::Drop(DropReason::Outage) => lane.stats.outage += 1,
        }
        Sent::Done
    }

    /// The next frame that has arrived by `now`.
    pub fn receive(&mut self, now: Time) -> Option<(Codepoint, Vec<u8>)> {
        let lane = &mut *self.into.borrow_mut();
        let first = lane.frames.first_entry().filter(|entry| entry.key().0 <= now)?;
        lane.stats.received += 1;
        Some(first.remove())
    }

    /// When the next frame arrives here.
    pub fn next_arrival(&self) -> Option<Time> {
        self.into.borrow().frames.first_key_value().map(|(key, _)| key.0)
    }

    /// Loses the next `n` frames sent here.
    pub fn lose_next(&mut self, n: usize) {
        self.out.borrow_mut().lose = n;
    }

    /// Sets the link up or down in both directions; what is under way arrives all the same.
    pub fn set_up(&mut self, up: bool) {
        self.out.borrow_mut().up = up;
        self.into.borrow_mut().up = up;
    }

    /// The counters of what is sent here.
    pub fn stats(&self) -> MemoryStats {
        self.out.borrow().stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulate::{Loss, Queue};
    use fairspan_core::units::{Rate, Span};

    fn link(profile: Profile) -> (MemoryChannel, MemoryChannel) {
        MemoryChannel::pair(profile.clone(), profile, 64, 1).expect("valid")
    }

    #[test]
    fn frames_arrive_whole_in_order_and_at_their_time_both_ways() {
        // 1250 bytes at 10 Mbit/s take 1 ms.
        let (mut near, mut far) = link(Profile::new(Rate::from_mbit(10), Span::from_millis(5)));
        let at = Time::from_millis;
        for n in 0..3u8 {
            assert_eq!(near.send(at(0), Codepoint::Raw, &[n], &[7; 1249]), Sent::Done);
        }
        assert_eq!(far.send(at(0), Codepoint::Envelope, &[], b"back"), Sent::Done);
        assert_eq!(far.next_arrival(), Some(at(6)));
        assert_eq!(far.receive(Time::from_nanos(5_999_999)), None);
        for n in 0..3u8 {
            let (codepoint, bytes) = far.receive(at(6 + u64::from(n))).expect("arrived");
            assert_eq!((codepoint, bytes[0], bytes.len()), (Codepoint::Raw, n, 1250));
            assert_eq!(far.receive(at(6 + u64::from(n))), None);
        }
        assert_eq!(near.receive(at(6)), Some((Codepoint::Envelope, b"back".to_vec())));
        assert_eq!(near.stats(), MemoryStats { sent: 3, received: 3, ..MemoryStats::default() });
    }

    #[test]
    fn a_full_link_blocks_a_full_queue_drops_and_a_dead_link_says_so() {
        let (mut near, mut far) = link(Profile::default());
        for _ in 0..64 {
            assert_eq!(near.send(Time::ZERO, Codepoint::Raw, &[], &[0]), Sent::Done);
        }
        assert_eq!(near.send(Time::ZERO, Codepoint::Raw, &[], &[0]), Sent::Blocked);
        assert!(far.receive(Time::ZERO).is_some());
        near.set_up(false);
        assert_eq!(near.send(Time::ZERO, Codepoint::Raw, &[], &[0]), Sent::Down);
        assert_eq!(far.send(Time::ZERO, Codepoint::Raw, &[], &[0]), Sent::Down);

        let mut profile = Profile::new(Rate::from_mbit(1), Span::ZERO);
        profile.queue = Queue::Frames(2);
        let (mut near, _far) = link(profile);
        for _ in 0..5 {
            assert_eq!(near.send(Time::ZERO, Codepoint::Raw, &[], &[0; 1000]), Sent::Done);
        }
        assert_eq!((near.stats().sent, near.stats().queue), (5, 2), "one in transmission, two wait, two dropped");
    }

    #[test]
    fn losses_are_by_hand_or_by_chance() {
        let (mut near, mut far) = link(Profile::default());
        near.lose_next(2);
        for n in 0..3 {
            near.send(Time::ZERO, Codepoint::Raw, &[], &[n]);
        }
        assert_eq!(far.receive(Time::ZERO), Some((Codepoint::Raw, vec![2])));
        assert_eq!(far.receive(Time::ZERO), None);

        let profile = Profile { loss: Loss::Independent(1.0), ..Profile::default() };
        let (mut near, mut far) = link(profile);
        near.send(Time::ZERO, Codepoint::Raw, &[], &[1]);
        assert_eq!((far.receive(Time::MAX), near.stats().lost), (None, 1));
    }
}
