//! A sender that keeps no queue is led to a far channel by a wait that grows slowly.
//!
//! What it is: a channel of the [reserve](super::reserve) is called when so much waits that it would leave later than the channel's longer way takes.
//! BBR keeps no such queue, however long it sends: its window is twice what its rate fills in the least round trip of ten seconds. If the round trip more than
//! doubled at once, BBR would have only a part of its rate for these ten seconds. So where the channels in use have been full for as long as
//! CUBIC needs to call ([`OF_WAY`] times what the way is longer by, [`LEAST`] at least), the bond makes the wait itself: packets stay in a line before the host queue, by
//! one part in [`GROWS`] of the round trip more each second, so that this does not double in ten seconds. What the sender lets wait counts too. Once all of it together is as long as
//! the longer way, the channel is called as always, the wait moves into the way, and the sender has a window for it.
//!
//! A second is full in which at least nine tenths of what the channels in use carry were sent, and some packet waited for [`PRESSES`]. One that is not counts as much as two that are:
//! BBR stops for 200 ms in each ten seconds. The wait ends at once where a quarter was to spare for a while, and where less was sent, or the channel was away, for [`SHORT`] seconds in a row.
//! Then the sender's window is too small for it, and it is not tried again before there was a quarter to spare. Only a channel that adds one part in [`WORTH`] of what the
//! others carry is worth it: all that is sent meanwhile has the longer round trip too.
//!
//! Source: ours. Cost: O(1) a packet and a second. Invariant: nobody waits for a channel that is not there, or that is called already.

use crate::units::{Rate, Span, Time};

/// CUBIC, as Linux has it, needs so many times what a way is longer by to let as much wait.
const OF_WAY: u64 = 20;
/// Seconds that have to be full at least, and more of them that a pause may use up.
const LEAST: u64 = 3;
const SPARE: u64 = 4;
/// One part in so many of the round trip is what the wait grows by in a second.
const GROWS: u64 = 15;
/// Longer than the way, since less may be sent than the channels carry; in quarters.
const QUARTERS: u64 = 5;
/// So many seconds in a row less is sent by a sender whose window is too small for the wait.
const SHORT: u8 = 3;
/// The channel adds at least one part in so many.
const WORTH: u64 = 4;
/// A packet that waited so long says that there is more to send than leaves.
const PRESSES: Span = Span::from_millis(1);

/// How long packets wait before they are in the host queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ramp {
    /// That.
    pub(super) wait: Span,
    /// What it grows up to; zero: there is nothing to wait for.
    most: Span,
    /// The round trip without it.
    trip: Span,
    /// The longest that a packet was in the host queue since the last look.
    longest: Span,
    /// Seconds that were full, less twice those that were not.
    full: u64,
    /// Seconds in a row that were not, since there is a wait.
    short: u8,
    /// It was found to be of no use.
    useless: bool,
}

impl Ramp {
    /// The channel to be called next adds `adds` to `base`, and its way is `longer` than a round trip of `trip`.
    pub(super) fn towards(&mut self, trip: Span, longer: Span, adds: Rate, base: Rate) {
        let worth = adds.as_bits_per_sec() >= base.as_bits_per_sec() / WORTH;
        if worth {
            (self.most, self.trip) = (Span::from_nanos(longer.as_nanos() / 4 * QUARTERS), trip);
            self.wait = self.wait.min(self.most);
        }
    }

    /// There is none to be called for now.
    pub(super) fn lose(&mut self) {
        self.most = Span::ZERO;
    }

    /// It was called.
    pub(super) fn end(&mut self) {
        *self = Ramp::default();
    }

    /// A packet leaves that has waited for a channel since then.
    #[inline]
    pub(super) fn on_left(&mut self, now: Time, since: Time) {
        if self.most > Span::ZERO {
            self.longest = self.longest.max(now.since(since));
        }
    }

    /// So much was sent since the last look, a second ago, and the channels in use carry `base`; `quiet`: three quarters were not needed for a while.
    pub(super) fn look(&mut self, sent: Rate, base: Rate, quiet: bool) {
        let pressed = core::mem::take(&mut self.longest) >= PRESSES;
        let base = base.as_bits_per_sec();
        let is_full = pressed && sent.as_bits_per_sec() >= base - base / 10;
        if !is_full || self.most == Span::ZERO || quiet {
            self.full = self.full.saturating_sub(2);
            self.short += u8::from(self.wait > Span::ZERO);
            if quiet || self.short >= SHORT {
                *self = Ramp { most: self.most, trip: self.trip, useless: !quiet, ..Ramp::default() };
            }
            return;
        }
        self.short = 0;
        if self.useless {
            return;
        }
        let enough = (self.most.times(OF_WAY).as_nanos() / 1_000_000_000).max(LEAST);
        self.full = (self.full + 1).min(enough + SPARE);
        if self.full >= enough {
            let grown = self.wait.as_nanos() + (self.trip + self.wait).as_nanos() / GROWS;
            self.wait = Span::from_nanos(grown).min(self.most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const BASE: Rate = Rate::from_bits_per_sec(100_000_000);
    const TRIP: Span = Span::from_millis(48);

    fn towards(longer: u64, adds: u64) -> Ramp {
        let mut ramp = Ramp::default();
        ramp.towards(TRIP, Span::from_millis(longer), Rate::from_mbit(adds), BASE);
        ramp
    }

    /// The waits in milliseconds after seconds in which so many Mbit/s were sent, and the longest of the packets waited so long.
    fn waits(ramp: &mut Ramp, seconds: impl IntoIterator<Item = u64>, longest: Span) -> Vec<u64> {
        let mut second = |mbit| {
            let now = Time::from_millis(1000);
            ramp.on_left(now + longest, now);
            ramp.look(Rate::from_mbit(mbit), BASE, false);
            ramp.wait.as_nanos() / 1_000_000
        };
        seconds.into_iter().map(&mut second).collect()
    }

    #[test]
    fn it_begins_when_the_others_were_full_for_a_time_and_grows_by_less_than_the_round_trip_in_ten_seconds() {
        let mut ramp = towards(100, 100);
        // A hundred milliseconds longer, a quarter more, twenty times: 2.5 s, and three at least.
        assert_eq!(waits(&mut ramp, [95; 5], PRESSES), [0, 0, 3, 6, 10]);
        let mut trips: Vec<u64> = waits(&mut ramp, [95; 30], PRESSES);
        assert!(trips.windows(11).all(|some| some[10] + 48 < 2 * (some[0] + 48) + 48), "{trips:?}");
        assert_eq!(trips.pop(), Some(125), "a quarter longer than the way");
        let mut far = towards(400, 100);
        assert_eq!(waits(&mut far, [95; 10], PRESSES), [0, 0, 0, 0, 0, 0, 0, 0, 0, 3], "half a second, ten");
    }

    #[test]
    fn who_sends_less_or_never_lets_a_packet_wait_is_not_made_to() {
        assert_eq!(waits(&mut towards(100, 100), [89; 20], PRESSES), [0; 20]);
        assert_eq!(waits(&mut towards(100, 100), [99; 20], PRESSES - Span::from_nanos(1)), [0; 20]);
        // Once in three seconds less was sent.
        assert_eq!(waits(&mut towards(100, 100), [95, 95, 50, 95, 95, 50, 95, 95, 50], PRESSES), [0; 9]);
        // BBR's look at the round trip takes nothing back, but of a wait that began just now.
        let mut ramp = towards(100, 100);
        assert_eq!(waits(&mut ramp, [95, 95, 95, 60, 95, 95, 95], PRESSES), [0, 0, 3, 3, 3, 6, 10]);
        assert_eq!(waits(&mut ramp, [95, 95, 95, 95, 60, 95], PRESSES), [14, 18, 22, 27, 27, 32]);
    }

    #[test]
    fn it_ends_when_little_is_sent_and_where_there_is_nothing_to_wait_for() {
        let mut ramp = towards(100, 100);
        waits(&mut ramp, [95; 10], PRESSES);
        assert!(ramp.wait > Span::from_millis(30), "{ramp:?}");
        ramp.look(Rate::from_mbit(10), BASE, true);
        assert_eq!((ramp.wait, waits(&mut ramp, [95; 2], PRESSES)), (Span::ZERO, [0, 0].to_vec()));
        assert_eq!(waits(&mut towards(100, 24), [95; 20], PRESSES), [0; 20], "it adds too little");
        assert_eq!(waits(&mut towards(100, 25), [95; 3], PRESSES), [0, 0, 3]);
        waits(&mut ramp, [95; 20], PRESSES);
        ramp.towards(TRIP, Span::from_millis(10), Rate::from_mbit(100), BASE);
        assert_eq!(ramp.wait, Span::from_micros(12_500), "the way is shorter now");
        ramp.end();
        assert_eq!(waits(&mut ramp, [95; 20], PRESSES), [0; 20]);
        // The sender's window is too small for more.
        let mut ramp = towards(100, 100);
        waits(&mut ramp, [95; 10], PRESSES);
        assert_eq!(waits(&mut ramp, [89, 89, 95, 89, 89, 89], PRESSES), [32, 32, 37, 37, 37, 0]);
        assert_eq!(waits(&mut ramp, [95; 20], PRESSES), [0; 20]);
        ramp.look(Rate::from_mbit(10), BASE, true);
        assert_eq!(waits(&mut ramp, [95; 3], PRESSES), [0, 0, 3], "perhaps another one");
        // The channel is away for a moment, and for good.
        let mut ramp = towards(100, 100);
        waits(&mut ramp, [95; 10], PRESSES);
        ramp.lose();
        assert_eq!(waits(&mut ramp, [95; 4], PRESSES), [32, 32, 0, 0]);
    }
}
