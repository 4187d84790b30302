//! What a sender of BBR remembers: phases, signs of congestion, growth, and what was sent when.

use crate::units::Time;
use alloc::collections::VecDeque;

/// Most notes about what was sent.
const MOST_SENDINGS: usize = 4096;

/// What the sender does at the moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum State {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    /// Until `done`, once little enough is under way, and a round.
    ProbeTrip {
        done: Option<Time>,
        round: bool,
    },
}

/// What acknowledgments tell about, after a change of phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Feedback {
    Starting,
    Probing,
    Stopping,
    Refilling,
}

/// Whether the rate still grows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Full {
    pub(super) rate: f64,
    pub(super) rounds: u8,
    /// It does not grow in this probe; it was found not to grow once.
    pub(super) now: bool,
    pub(super) reached: bool,
}

impl Full {
    pub(super) fn reset(&mut self, rate: f64) {
        (self.rate, self.rounds, self.now) = (rate, 0, false);
    }
}

/// Signs of congestion since the last round of them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Signals {
    /// The round is over when this much is delivered of what is sent from its beginning on.
    pub(super) end: u64,
    /// What had been delivered, and lost, at its beginning.
    pub(super) delivered: u64,
    pub(super) lost: u64,
    /// Times that losses were found, and bytes marked.
    pub(super) losses: u32,
    pub(super) marked: f64,
}

/// How fast `inflight_longterm` grows while it is probed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Climb {
    pub(super) rounds: u32,
    /// Bytes acknowledged for each packet more.
    pub(super) per_packet: f64,
    pub(super) acked: f64,
}

/// Aggregation of acknowledgments.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extra {
    pub(super) since: Time,
    pub(super) delivered: f64,
    /// The most of the last ten rounds and of those before, and the round in which that turns.
    pub(super) most: [f64; 2],
    pub(super) turn: u64,
}

/// What was under way, and lost, when so much was delivered.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sending {
    pub(super) delivered: u64,
    pub(super) in_flight: f64,
    pub(super) lost: u64,
}

/// Notes of that, the oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Sendings {
    pub(super) notes: VecDeque<Sending>,
    /// Of the newest packet delivered.
    pub(super) newest: Sending,
}

impl Sendings {
    pub(super) fn note(&mut self, sending: Sending) {
        if self.notes.len() >= MOST_SENDINGS {
            // Of more than that many, every second one tells enough. The oldest become the fewest.
            let mut odd = true;
            self.notes.retain(|_| {
                odd = !odd;
                odd
            });
        }
        match self.notes.back_mut() {
            Some(last) if last.delivered == sending.delivered => *last = sending,
            _ => self.notes.push_back(sending),
        }
    }

    /// A packet was delivered that was sent when so much had been.
    pub(super) fn find(&mut self, delivered: u64) {
        while let Some(note) = self.notes.front().copied().filter(|note| note.delivered <= delivered) {
            self.newest = note;
            self.notes.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_more_packets_than_there_are_notes_each_is_told_by_one_that_was_sent_shortly_before() {
        let mut sendings = Sendings::default();
        let count = 20_000;
        for n in 1..=count {
            sendings.note(Sending { delivered: n, in_flight: 0.0, lost: n });
        }
        assert!(sendings.notes.len() <= MOST_SENDINGS);
        for n in (100..=count).step_by(100) {
            sendings.find(n);
            let lost = sendings.newest.lost;
            // The first of them were thinned out eight times: a note for 256 packets, of 20,000 under way.
            assert!(lost <= n && n - lost < 256, "what was lost when {n} were delivered: {lost}");
        }
    }
}
