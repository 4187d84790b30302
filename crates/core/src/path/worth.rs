//! Whether a path loses so much that it brings less than it costs, and when it is worth using again.
//!
//! What it is: what a path loses goes again on another one, and whatever came behind it in the same flow waits for that. Up to a fifth
//! of loss the path is worth it; what comes of it is more than the waits cost. Beyond, its law takes what is lost for what the path
//! does not carry and goes slower and slower, while each of its frames still delays those of the others. So it is set aside.
//! What it loses by a queue that overflows does not count: there the law is too fast, and will see it.
//!
//! Set aside it is asked by echo requests as long as data. It is worth using again when [`RUN`] of them in a row came back. One that
//! comes back too early is held back for longer each time ([`hold`](super::hold)), as a path that fails.
//!
//! | symbol | meaning | here |
//! |---|---|---|
//! | period | the longer of a tenth of a second and two round trips, and with [`FRAMES`] settled | `Period` |
//! | q | how long the newest frame waited on its way, as a report tells | |
//! | a queue stands | q > max(r/2, 25 ms), r the round trip: as the law has it | |
//! | share | frames that were lost, of those settled in the period by reports without a queue | |
//!
//! A path loses too much when [`PERIODS`] periods in a row have a share of more than [`TOO_MUCH`]. Source: ours. Cost: O(1) a report,
//! O(requests under way) an answer. Memory: [`ASKED`] times. Invariants: a peer that lies about losses can have the path set aside, and
//! nothing worse; a path of which nothing is told never is.

use crate::units::{Span, Time};
use alloc::collections::VecDeque;

/// The shortest period.
const PERIOD: Span = Span::from_millis(100);
/// Fewer settled frames than so many tell nothing.
const FRAMES: u64 = 32;
/// Periods in a row that decide. The start of a law, which is too fast for some round trips, is over by then.
const PERIODS: u8 = 3;
/// Too much is lost where more than one frame in so many is.
const TOO_MUCH: u64 = 4;
/// The least wait that counts as a queue.
const QUEUE: Span = Span::from_millis(25);
/// So many echo requests in a row that are answered show that the path is well. Of a path that loses a quarter each way one run in three
/// hundred is such a one.
const RUN: u8 = 10;
/// Most echo requests of which an answer is waited for.
const ASKED: usize = 64;

/// What is known of what a path loses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Worth {
    /// Frames that had arrived, and that had been lost, when it was last told of them.
    before: (u64, u64),
    /// When the period began, and the frames of it.
    began: Option<Time>,
    delivered: u64,
    lost: u64,
    /// Periods in a row in which too much was lost.
    bad: u8,
    found: bool,
    /// Echo requests since it was set aside that are not answered, and how many in a row were.
    asked: VecDeque<Time>,
    run: u8,
}

impl Worth {
    /// The peer told of frames: so many have arrived by now, and so many are lost; the newest `waited`, on a path of this round trip.
    pub(crate) fn on_told(&mut self, now: Time, (delivered, lost): (u64, u64), waited: Span, rtt: Span) {
        let before = core::mem::replace(&mut self.before, (delivered, lost));
        let queue = Span::from_nanos(rtt.as_nanos() / 2).max(QUEUE);
        let began = *self.began.get_or_insert(now);
        if waited <= queue {
            self.delivered += delivered.saturating_sub(before.0);
            self.lost += lost.saturating_sub(before.1);
        }
        let settled = self.delivered.saturating_add(self.lost);
        if settled < FRAMES || now.since(began) < PERIOD.max(rtt.times(2)) {
            return;
        }
        self.bad = if self.lost > settled / TOO_MUCH { self.bad + 1 } else { 0 };
        (self.began, self.delivered, self.lost) = (Some(now), 0, 0);
        if self.bad >= PERIODS {
            (self.bad, self.found) = (0, true);
        }
    }

    /// Whether it was found since the last call that too much is lost. Then it is asked whether the path is well again.
    pub(crate) fn poll_too_much(&mut self) -> bool {
        let found = core::mem::take(&mut self.found);
        if found {
            self.run = 0;
            self.asked.clear();
        }
        found
    }

    /// An echo request goes out while it is set aside.
    pub(crate) fn on_asked(&mut self, now: Time) {
        if self.asked.len() >= ASKED {
            self.asked.pop_front();
            self.run = 0;
        }
        self.asked.push_back(now);
    }

    /// The request of `sent` was answered: whether the path is well again. Those before it, which would have been answered sooner, are lost.
    pub(crate) fn on_answered(&mut self, sent: Time) -> bool {
        let Some(place) = self.asked.iter().position(|at| *at == sent) else { return false };
        self.run = if place == 0 { self.run + 1 } else { 1 };
        self.asked.drain(..=place);
        self.run >= RUN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Time = Time::from_millis;
    const TRIP: Span = Span::from_millis(40);

    /// Reports every 5 ms, each of 20 frames of which `lost` are; when the path loses too much.
    fn found(lost: u64, waited: u64, until: u64) -> Option<u64> {
        let mut worth = Worth::default();
        (0..until).step_by(5).find(|at| {
            let reports = at / 5 + 1;
            worth.on_told(MS(*at), ((20 - lost) * reports, lost * reports), Span::from_millis(waited), TRIP);
            worth.poll_too_much()
        })
    }

    #[test]
    fn three_tenths_of_a_second_of_great_loss_without_a_queue_are_too_much() {
        assert_eq!(found(6, 0, 10_000), Some(300));
        assert_eq!(found(20, 25, 10_000), Some(300), "all of it");
        assert_eq!(found(5, 0, 10_000), None, "a quarter");
        assert_eq!(found(19, 26, 10_000), None, "a queue that overflows");
    }

    #[test]
    fn a_burst_of_losses_is_no_path_that_loses_nor_are_a_few_frames() {
        let mut worth = Worth::default();
        let mut frames = (0, 0);
        for at in (0..10_000).step_by(5) {
            // A seventh of a second in each two.
            let lost = if at % 2000 < 150 { 15 } else { 0 };
            frames = (frames.0 + 20 - lost, frames.1 + lost);
            worth.on_told(MS(at), frames, Span::ZERO, TRIP);
            assert!(!worth.poll_too_much(), "{at}");
        }
        let mut worth = Worth::default();
        for frame in 1..3 * FRAMES {
            worth.on_told(MS(1000 * frame), (0, frame), Span::ZERO, TRIP);
            assert!(!worth.poll_too_much(), "{frame}");
        }
        worth.on_told(MS(1_000_000), (0, 3 * FRAMES), Span::ZERO, TRIP);
        assert!(worth.poll_too_much() && !worth.poll_too_much());
    }

    #[test]
    fn ten_answers_in_a_row_show_that_it_is_well() {
        let mut worth = Worth::default();
        let mut answers = |missing: &dyn Fn(u64) -> bool| {
            let mut worth = core::mem::take(&mut worth);
            (0..200).find(|n| {
                worth.on_asked(MS(100 * n));
                // The answer to the one before the last.
                *n > 0 && !missing(n - 1) && worth.on_answered(MS(100 * (n - 1)))
            })
        };
        assert_eq!(answers(&|_| false), Some(10));
        assert_eq!(answers(&|n| n == 5), Some(16));
        assert_eq!(answers(&|n| n % 10 == 9), None);
        // An answer to what was never asked, or twice, changes nothing.
        let mut worth = Worth::default();
        worth.on_asked(MS(1));
        assert!(!(0..100).any(|_| worth.on_answered(MS(1)) || worth.on_answered(MS(7))));
        (0..1000).for_each(|n| worth.on_asked(MS(n)));
        assert!(worth.asked.len() <= ASKED);
    }
}
