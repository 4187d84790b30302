//! By which ways the packets of each flow left, and what was noted of most of them.
//!
//! What it is: beside the account of a flow ([`accounts`](super::accounts)), for each way out (a channel of a bond) the bytes that left there: since
//! the account began, and in this second and the one before. An owner may also note of each packet, by a number of its own, why it went as
//! it did. What is told of a flow is the note of most of its bytes in a second: candidate and lead of the majority vote (R. S. Boyer,
//! J S. Moore, MJRTY, 1991). Where no note has more than half, it is one of those that there were.
//!
//! Cost: O(1) a packet, and O(ways) for the first packet of a flow in a second; no allocation but for a new account or a new way. Memory: 16
//! bytes for each way of each account, and 40 for the account. Invariant: what is told of a second, all ways together, is what left in it.

use crate::units::Time;
use alloc::vec;
use alloc::vec::Vec;

const SECOND: u64 = 1_000_000_000;

/// What left by one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WayReport {
    /// The number of the way.
    pub way: usize,
    /// Bytes since the flow has its account, copies and repeats among them.
    pub bytes: u64,
    /// Of these, bytes in the last whole second.
    pub last_second: u64,
}

/// Bytes that left by one way: in all, in this second and in the one before, which are full at 4 GB.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    bytes: u64,
    seconds: [u32; 2],
}

/// A majority vote over bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Vote {
    note: u8,
    lead: u64,
}

impl Vote {
    #[inline]
    fn add(&mut self, note: u8, bytes: u64) {
        if self.note == note {
            self.lead = self.lead.saturating_add(bytes);
        } else if self.lead >= bytes {
            self.lead -= bytes;
        } else {
            (self.note, self.lead) = (note, bytes - self.lead);
        }
    }
}

/// One flow.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    /// The second that the first counts and the vote are of.
    second: u64,
    vote: Vote,
    /// What the vote of the last second was that had one.
    before: Option<u8>,
}

/// The ways of all accounts.
#[derive(Clone, Debug, Default)]
pub(super) struct Ways {
    width: usize,
    flows: Vec<Flow>,
    counts: Vec<Count>,
}

impl Ways {
    /// There are so many ways; never fewer than before.
    pub(super) fn extend(&mut self, width: usize) {
        if width <= self.width {
            return;
        }
        let mut counts = vec![Count::default(); self.flows.len() * width];
        if self.width > 0 {
            for (to, from) in counts.chunks_exact_mut(width).zip(self.counts.chunks_exact(self.width)) {
                to[..from.len()].copy_from_slice(from);
            }
        }
        (self.width, self.counts) = (width, counts);
    }

    /// What left by `way` left by another one, which had its number before.
    pub(super) fn forget(&mut self, way: usize) {
        self.counts.iter_mut().skip(way).step_by(self.width.max(1)).for_each(|count| *count = Count::default());
    }

    /// The account at `place` begins; places are in use from 0 on.
    pub(super) fn begin(&mut self, place: usize) {
        if place >= self.flows.len() {
            self.flows.resize(place + 1, Flow::default());
            self.counts.resize((place + 1) * self.width, Count::default());
        }
        self.flows[place] = Flow::default();
        self.counts[place * self.width..][..self.width].fill(Count::default());
    }

    /// Something of the flow at `place` happens; a new second begins with it, if it is in one.
    #[inline]
    fn turn(&mut self, now: Time, place: usize) {
        let second = now.as_nanos() / SECOND;
        if self.flows[place].second != second {
            self.turn_to(second, place);
        }
    }

    #[inline(never)]
    fn turn_to(&mut self, second: u64, place: usize) {
        let flow = &mut self.flows[place];
        let follows = second == flow.second + 1;
        if flow.vote.lead > 0 {
            flow.before = Some(flow.vote.note);
        }
        (flow.second, flow.vote) = (second, Vote::default());
        for count in &mut self.counts[place * self.width..][..self.width] {
            count.seconds = [0, if follows { count.seconds[0] } else { 0 }];
        }
    }

    /// So many bytes of the flow at `place` leave by `way`; one that is not known counts nowhere.
    #[inline]
    pub(super) fn on_left(&mut self, now: Time, place: usize, way: usize, bytes: u64) {
        if way >= self.width || place >= self.flows.len() {
            return;
        }
        self.turn(now, place);
        let count = &mut self.counts[place * self.width + way];
        count.bytes += bytes;
        count.seconds[0] = count.seconds[0].saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    /// `note` is noted of so many bytes of the flow at `place`.
    #[inline]
    pub(super) fn on_noted(&mut self, now: Time, place: usize, note: u8, bytes: u64) {
        if place < self.flows.len() {
            self.turn(now, place);
            self.flows[place].vote.add(note, bytes);
        }
    }

    /// The ways of the flow at `place` by which anything left.
    pub(super) fn report(&self, now: Time, place: usize) -> Vec<WayReport> {
        let Some(flow) = self.flows.get(place) else { return Vec::new() };
        let age = (now.as_nanos() / SECOND).wrapping_sub(flow.second);
        let last = |count: &Count| match age {
            0 => count.seconds[1],
            1 => count.seconds[0],
            _ => 0,
        };
        let counts = self.counts[place * self.width..][..self.width].iter().enumerate();
        let used = counts.filter(|(_, count)| count.bytes > 0);
        used.map(|(way, count)| WayReport { way, bytes: count.bytes, last_second: last(count).into() }).collect()
    }

    /// What was noted of most bytes of the flow at `place`, in the last whole second in which anything was, else in this one.
    pub(super) fn noted(&self, now: Time, place: usize) -> Option<u8> {
        let flow = self.flows.get(place)?;
        let newest = Some(flow.vote.note).filter(|_| flow.vote.lead > 0);
        if now.as_nanos() / SECOND == flow.second { flow.before.or(newest) } else { newest.or(flow.before) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    #[test]
    fn what_left_by_each_way_is_told_of_the_last_whole_second_and_in_all() {
        let mut ways = Ways::default();
        ways.extend(2);
        ways.begin(0);
        ways.begin(1);
        ways.on_left(at(5100), 1, 0, 300);
        ways.on_left(at(5900), 1, 1, 100);
        ways.on_left(at(5900), 1, 2, 100);
        let told = |ways: &Ways, ms| {
            ways.report(at(ms), 1).iter().map(|way| (way.way, way.bytes, way.last_second)).collect::<Vec<_>>()
        };
        assert_eq!(told(&ways, 5950), [(0, 300, 0), (1, 100, 0)], "the second is not over, and way 2 is not known");
        assert_eq!(told(&ways, 6950), [(0, 300, 300), (1, 100, 100)]);
        ways.on_left(at(6960), 1, 1, 50);
        assert_eq!(told(&ways, 6970), [(0, 300, 300), (1, 150, 100)]);
        // A third way comes, and what was counted stays.
        ways.extend(3);
        ways.on_left(at(6980), 1, 2, 7);
        assert_eq!(told(&ways, 7100), [(0, 300, 0), (1, 150, 50), (2, 7, 7)]);
        assert_eq!(told(&ways, 9000), [(0, 300, 0), (1, 150, 0), (2, 7, 0)]);
        ways.on_left(at(9000), 1, 0, 1);
        assert_eq!(told(&ways, 9001)[1], (1, 150, 0), "two seconds later nothing is of the last one");
        ways.forget(1);
        assert_eq!(told(&ways, 9001), [(0, 301, 0), (2, 7, 0)], "its number is another way's now");
        ways.begin(1);
        assert!(told(&ways, 9002).is_empty() && ways.report(at(9002), 0).is_empty());
    }

    #[test]
    fn the_note_of_most_bytes_in_the_last_whole_second_is_told() {
        let mut ways = Ways::default();
        ways.begin(0);
        assert_eq!(ways.noted(at(0), 0), None);
        for _ in 0..10 {
            // A download's answers: few bytes each, between long packets that go the other way round.
            ways.on_noted(at(1000), 0, 3, 60);
            ways.on_noted(at(1001), 0, 1, 1400);
        }
        assert_eq!(ways.noted(at(1500), 0), Some(1), "nothing was before");
        ways.on_noted(at(2000), 0, 3, 60);
        assert_eq!((ways.noted(at(2001), 0), ways.noted(at(3001), 0)), (Some(1), Some(3)));
        assert_eq!(ways.noted(at(90_000), 0), Some(3), "the last that is known");
    }

    proptest! {
        #[test]
        fn a_majority_is_always_found(packets in proptest::collection::vec((0u8..3, 1u64..1500), 1..200)) {
            let mut ways = Ways::default();
            ways.begin(0);
            let mut sums = [0; 3];
            for (note, bytes) in &packets {
                ways.on_noted(at(1), 0, *note, *bytes);
                sums[usize::from(*note)] += bytes;
            }
            let all: u64 = sums.iter().sum();
            if let Some(most) = sums.iter().position(|sum| sum * 2 > all) {
                prop_assert_eq!(ways.noted(at(2), 0), Some(most as u8));
            }
        }
    }
}
