//! A channel of the reserve that has become much slower is asked for its rate again: what it carries by now nobody sees otherwise.
//!
//! What it is: a link that carries a twentieth for a while adds little and delays much, so it goes into [reserve](super::reserve), with
//! the rate and the waits that it had then. No data goes there, hence nothing would tell that it is well again. So where a channel is in reserve with
//! less than half of the most that it was known to carry, a train of echo requests goes there ([`train`](crate::path::train)) after a
//! second, and again after twice as long each time, a minute at most. A rate that is found to be twice what the law has is the law's from then on.
//! A slight channel is asked too, whatever it carried, since it is never called. Of the others one that takes more than
//! [`LATER`] longer than the fastest is not asked: it is called when it is needed, as any other in reserve, because
//! TCP would rather have its old round trip than a window for a new one.
//!
//! Source: ours. Cost: O(channels) a second; a train has 24 kB, and up to four times as much each time where that is too short to tell. Invariants: but
//! for slight ones, a channel that carries what it always did is never asked; nor is one whose use costs money, while it is not in use.

use crate::units::{Rate, Span, Time};

/// How long after it was found in reserve a channel is asked first.
const FIRST: Span = Span::from_secs(1);
/// And the longest time between two times.
const MOST: Span = Span::from_secs(60);
/// How much longer than the fastest a channel may take that is asked.
pub(super) const LATER: Span = Span::from_millis(100);
/// Use for so long without being asked makes what was before forgotten.
const FORGOTTEN: Span = Span::from_secs(30);

/// What one channel was known to carry, and when it is asked again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Revisit {
    most: Rate,
    asked: Time,
    wait: Span,
}

impl Default for Revisit {
    fn default() -> Revisit {
        Revisit { most: Rate::default(), asked: Time::ZERO, wait: FIRST }
    }
}

/// Whether a channel is held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// It carries data, or would be called although it takes so much longer.
    No,
    /// It is in reserve.
    Reserve,
    /// It is slight.
    Slight,
}

impl Revisit {
    /// At `now` the channel is known to carry `rate`, and is in use or not: whether it is to be asked.
    pub(super) fn look(&mut self, now: Time, rate: Rate, held: Held) -> bool {
        self.most = self.most.max(rate);
        let slow = rate.as_bits_per_sec() <= self.most.as_bits_per_sec() / 2;
        if held == Held::No || held == Held::Reserve && !slow {
            if now.since(self.asked) >= FORGOTTEN {
                self.wait = FIRST;
            }
            return false;
        }
        if now.since(self.asked) < self.wait {
            return false;
        }
        (self.asked, self.wait) = (now, self.wait.times(2).min(MOST));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn one_that_became_slow_is_asked_less_and_less_often_and_one_that_did_not_never() {
        let mut revisit = Revisit::default();
        let mut asked = |from: u64, until: u64, mbit: u64, held: Held| {
            let at = |second: &u64| revisit.look(Time::from_millis(1000 * second), Rate::from_mbit(mbit), held);
            (from..until).filter(at).collect::<Vec<_>>()
        };
        assert_eq!(asked(1, 100, 30, Held::Reserve), [0u64; 0], "LTE beside fibre");
        assert_eq!(asked(100, 200, 14, Held::No), [0u64; 0], "in use, its law looks");
        assert_eq!(asked(200, 500, 15, Held::Reserve), [200, 202, 206, 214, 230, 262, 322, 382, 442]);
        assert_eq!(asked(500, 529, 30, Held::No), [0u64; 0]);
        assert_eq!(asked(529, 600, 14, Held::Reserve), [529, 531, 535, 543, 559, 591]);
        assert_eq!(asked(700, 760, 30, Held::Reserve), [0u64; 0]);
        assert_eq!(asked(760, 790, 30, Held::Slight), [760, 762, 766, 774], "it was never more");
    }
}
