//! The acknowledgements that wait, and whether they are too many.
//!
//! What it is: a [`Prompt`] queue that knows since when it was never empty. Once that was for [`PATIENT`], and for [`CROWDED`] after that, one that comes takes the
//! place of the one of its flow bucket that came last, if it tells all that the other tells ([`acknowledgement`]). Until then each waits for itself: what comes in a
//! burst, and leaves before the next one, is worth its delay, since it tells its sender when what arrived.
//!
//! Source: ours. Cost: O(1) a packet.

use super::express::{Haste, Prompt};
use super::ledger::Ledger;
use super::queue::Queued;
use crate::flow::accounts::AccountId;
use crate::ip::{Header, acknowledgement};
use crate::packet::Packet;
use crate::units::{Span, Time};

/// For how long some must have waited without a pause.
const PATIENT: Span = Span::from_millis(50);
/// And for how long after that each gives its place.
const CROWDED: Span = Span::from_secs(1);

/// What became of one that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Came {
    /// It waits.
    Waits,
    /// It waits in the place of another one, which had this account.
    Replaces(AccountId),
    /// There is no room for it.
    Refused,
}

/// The queue.
#[derive(Debug)]
pub(super) struct AckLine<P> {
    pub(super) line: Prompt<P>,
    /// Since when one is the first, or another in its place.
    first: Time,
    /// Since when there was always one.
    busy: Time,
    /// Until when they are too many.
    crowded: Time,
}

impl<P: Packet> AckLine<P> {
    /// None wait, of so many flow buckets.
    pub(super) fn new(buckets: usize) -> AckLine<P> {
        AckLine { line: Prompt::new(buckets), first: Time::ZERO, busy: Time::ZERO, crowded: Time::ZERO }
    }

    /// One comes, with this header.
    pub(super) fn push(&mut self, header: &Header, mut queued: Queued<P, Haste>) -> Came {
        let now = queued.since;
        if self.line.is_empty() {
            (self.first, self.busy) = (now, now);
        } else if now.since(self.busy) >= PATIENT {
            self.crowded = now + CROWDED;
        }
        let replaced = now < self.crowded
            && self.line.replace_last(queued.bucket, |waiting| {
                let takes = acknowledgement::supersedes(header, queued.packet.bytes(), waiting.packet.bytes());
                if takes {
                    core::mem::swap(waiting, &mut queued);
                }
                takes
            });
        match replaced {
            true => Came::Replaces(queued.account),
            false if self.line.push(queued) => Came::Waits,
            false => Came::Refused,
        }
    }

    /// For how long none has gone, or for how long the first one waits, if that is less: each that came may have taken its place. `None`: none waits.
    pub(super) fn waited(&self, now: Time) -> Option<Span> {
        (!self.line.is_empty()).then(|| now.since(self.first))
    }

    /// Takes the first one.
    pub(super) fn pop(&mut self) -> Option<Queued<P, Haste>> {
        let queued = self.line.pop();
        self.note_first();
        queued
    }

    /// Drops what came before `oldest`; how many that were.
    pub(super) fn drop_before(&mut self, oldest: Time, ledger: &mut Ledger) -> u64 {
        let dropped = self.line.drop_before(oldest, ledger);
        if dropped > 0 {
            self.note_first();
        }
        dropped
    }

    fn note_first(&mut self) {
        self.first = self.line.waiting.front().map_or(self.first, |queued| queued.since);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::testing::ack;
    use alloc::vec::Vec;

    const MS: fn(u64) -> Time = Time::from_millis;

    fn push(acks: &mut AckLine<Vec<u8>>, now: Time, bucket: u16, number: u32) -> Came {
        let packet = ack(false, number, &[]);
        let header = Header::parse(&packet, packet.len()).unwrap();
        acks.push(&header, Queued::new(now, packet, bucket, 0, AccountId::default()).noted(Haste::Steady))
    }

    fn pop(acks: &mut AckLine<Vec<u8>>) -> Option<u32> {
        let packet = acks.pop()?.packet;
        Some(u32::from_be_bytes(packet[28..32].try_into().unwrap()))
    }

    #[test]
    fn what_comes_in_a_burst_all_goes_and_what_never_ends_gives_its_place() {
        let mut acks = AckLine::new(8);
        // As many come as go for 40 ms, and then none is left.
        for number in 0..40 {
            assert_eq!(push(&mut acks, MS(100 + u64::from(number)), 3, number), Came::Waits);
            assert_eq!(push(&mut acks, MS(100 + u64::from(number)), 4, number), Came::Waits);
            assert_eq!(pop(&mut acks), Some(number / 2));
        }
        while pop(&mut acks).is_some() {}
        // Two each ms, of which one goes: too many from 50 ms on.
        let (mut replaced, mut told) = (0, Vec::new());
        for n in 0..200 {
            for number in [2 * n, 2 * n + 1] {
                replaced += u32::from(push(&mut acks, MS(200 + u64::from(n)), 3, number) != Came::Waits);
            }
            told.extend(pop(&mut acks));
            assert!(n >= 50 || replaced == 0, "{replaced} after {n} ms");
        }
        assert!((190..=210).contains(&replaced), "{replaced}");
        assert!(told.is_sorted() && told.last() == Some(&399) && acks.waited(MS(400)).is_none(), "{told:?}");
        // They are too many for a second more.
        push(&mut acks, MS(1000), 3, 400);
        assert!(matches!(push(&mut acks, MS(1001), 3, 401), Came::Replaces(_)));
        assert_eq!((pop(&mut acks), pop(&mut acks)), (Some(401), None));
        push(&mut acks, MS(2000), 3, 402);
        assert_eq!(push(&mut acks, MS(2001), 3, 403), Came::Waits);
    }

    #[test]
    fn one_that_never_goes_waits_for_long_whoever_took_its_place() {
        let mut acks = AckLine::new(8);
        for n in 0..300 {
            push(&mut acks, MS(1000 + u64::from(n)), 3, n);
        }
        assert_eq!(acks.waited(MS(1300)), Some(Span::from_millis(300)));
        // It is no older than what it tells.
        let mut ledger = Ledger::new(&crate::bond::Config::default());
        assert_eq!(acks.drop_before(MS(1200), &mut ledger), 49);
        assert_eq!((pop(&mut acks), acks.waited(MS(1300))), (Some(299), None));
    }
}
