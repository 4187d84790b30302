//! Surplus round robin's counter, and its round over queues that come and go.
//!
//! What it is: the discipline of [`Srr`](super::Srr) as a fair queue uses it (striping Figure 2), whose backlogged queues
//! change with every packet. The counter is the same, and stands here once: it starts at the quantum, is charged what the
//! queue sends, and is refilled when the turn ends because it is no longer positive. [`Srr`](super::Srr) turns over
//! channels in the order of their numbers; here a queue joins behind all others and leaves when it is empty.
//!
//! Source: striping §3.5, appendix A. A queue that falls empty in its turn keeps no credit for later, but what it has
//! overdrawn it still owes, for as long as nobody forgets its slot. Cost: O(1) a packet with a quantum of the largest
//! packet or more. Invariant: over any interval in which two queues are backlogged their bytes differ by at most
//! a quantum and two packets.

use super::cycle::Cycle;
use alloc::vec::Vec;

/// DC_i: what may still be sent in this turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counter(pub(crate) i64);

impl Counter {
    /// Charges `cost`; whether that ends the turn, after which it is to be [refilled](Counter::refill).
    #[inline]
    pub(crate) fn charge(&mut self, cost: i64) -> bool {
        self.0 -= cost;
        self.0 <= 0
    }

    /// Gives the quantum of the next turn.
    #[inline]
    pub(crate) fn refill(&mut self, quantum: i64) {
        self.0 += quantum;
    }

    /// Whether so much is owed that the turn passes without a packet.
    #[inline]
    pub(crate) fn sits_out(&mut self, quantum: i64) -> bool {
        let owes = self.0 <= 0;
        if owes {
            self.refill(quantum);
        }
        owes
    }
}

/// Turns of queues, which are slots.
#[derive(Clone, Debug)]
pub(crate) struct Turns {
    quantum: i64,
    cycle: Cycle,
    counters: Vec<Counter>,
    /// The first has sent something in this turn.
    begun: bool,
}

impl Turns {
    /// Nobody's turn. `quantum` is above zero; there is room for the slots below `slots`, and for more when they come.
    pub(crate) fn new(quantum: u32, slots: usize) -> Turns {
        let quantum = i64::from(quantum.max(1));
        Turns { quantum, cycle: Cycle::with_slots(slots), counters: alloc::vec![Counter(quantum); slots], begun: false }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.cycle.len() == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.cycle.len()
    }

    #[inline]
    pub(crate) fn contains(&self, slot: u32) -> bool {
        self.cycle.contains(slot)
    }

    /// `slot` has something to send, and had nothing.
    #[inline]
    pub(crate) fn join(&mut self, slot: u32) {
        let at = slot as usize;
        if self.counters.len() <= at {
            self.counters.resize(at + 1, Counter(self.quantum));
        }
        self.cycle.push(slot);
    }

    /// Whose turn it is: f(s). Who owes more than a turn gives is passed over.
    #[inline]
    pub(crate) fn select(&mut self) -> Option<u32> {
        loop {
            let slot = self.cycle.first()?;
            if !self.counters[slot as usize].sits_out(self.quantum) {
                return Some(slot);
            }
            self.cycle.rotate();
        }
    }

    /// What [`select`](Turns::select) would give.
    pub(crate) fn peek(&self) -> Option<u32> {
        let turns = |slot: &u32| {
            let owed = self.counters[*slot as usize].0;
            if owed > 0 { 0 } else { 1 + owed.unsigned_abs() / self.quantum.unsigned_abs() }
        };
        self.cycle.iter().min_by_key(turns)
    }

    /// The selected slot sends `len` bytes, and has more to send or not: g(s, p).
    #[inline]
    pub(crate) fn update(&mut self, len: u32, more: bool) {
        let Some(slot) = self.cycle.first() else { return };
        let counter = &mut self.counters[slot as usize];
        let ends = counter.charge(i64::from(len));
        if ends {
            counter.refill(self.quantum);
        }
        self.begun = !ends;
        if !more {
            self.leave(slot);
        } else if ends {
            self.cycle.rotate();
        }
    }

    /// `slot` has nothing to send any more. What it did not use of its turn is lost; what it overdrew is not.
    #[inline]
    pub(crate) fn leave(&mut self, slot: u32) {
        if self.cycle.first() == Some(slot) && core::mem::take(&mut self.begun) {
            self.counters[slot as usize] = Counter(self.quantum);
        }
        self.cycle.remove(slot);
    }

    /// `slot`, which is not in the round, is another's from now on.
    pub(crate) fn forget(&mut self, slot: u32) {
        if let Some(counter) = self.counters.get_mut(slot as usize) {
            *counter = Counter(self.quantum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn a_turn_ends_when_the_counter_is_no_longer_positive_and_the_next_one_gives_a_quantum_more() {
        let mut counter = Counter(500);
        assert!(!counter.charge(499) && counter.charge(1));
        counter.refill(500);
        assert!(counter.charge(550));
        assert_eq!(counter, Counter(-50));
        // Who owes sits out a turn, which pays a quantum.
        assert!(counter.sits_out(50) && counter == Counter(0));
        assert!(counter.sits_out(500) && !counter.sits_out(500) && counter == Counter(500));
    }

    #[test]
    fn what_is_not_used_of_a_turn_is_lost_and_what_is_overdrawn_is_owed_until_it_is_forgotten() {
        // How much slot 0 sends in its turn, by tens, before slot 1 has its own.
        let turn = |turns: &mut Turns| {
            let mut sent = 0;
            while turns.select() == Some(0) {
                turns.update(10, true);
                sent += 10;
            }
            sent
        };
        let fresh = |first: u32| {
            let mut turns = Turns::new(500, 2);
            turns.join(0);
            assert_eq!(turns.select(), Some(0));
            turns.update(first, false);
            assert!(turns.is_empty() && !turns.contains(0));
            turns
        };
        let joined = |mut turns: Turns| {
            turns.join(0);
            turns.join(1);
            assert!(turns.len() == 2 && !turns.is_empty() && turns.contains(0) && turns.contains(1));
            turn(&mut turns)
        };
        assert_eq!(joined(fresh(100)), 500, "400 are lost");
        assert_eq!(joined(fresh(700)), 300, "200 are owed");
        let mut forgotten = fresh(700);
        forgotten.forget(0);
        // Of a slot that there never was there is nothing to forget.
        forgotten.forget(9);
        assert_eq!(joined(forgotten), 500);
        // Who leaves when it is another's turn, or its own that has not begun, keeps what is left.
        let mut turns = Turns::new(500, 0);
        turns.join(0);
        turns.join(1);
        turns.update(700, true);
        assert_eq!(turns.select(), Some(1));
        turns.update(100, true);
        turns.leave(0);
        turns.join(0);
        assert_eq!((turns.select(), turns.peek()), (Some(1), Some(1)));
        turns.update(400, true);
        assert_eq!(turn(&mut turns), 300);
        // One turn after the other, however long they sit out; the others go on.
        assert_eq!(Turns::new(0, 1).quantum, 1);
    }

    #[test]
    fn backlogged_queues_get_alike_within_a_quantum_and_two_packets_and_the_next_is_known_before() {
        for seed in 0..100 {
            let mut rng = Rng::new(seed);
            let (quantum, longest) = (100 + rng.below(2000), 100 + rng.below(3000));
            let mut turns = Turns::new(quantum as u32, rng.below(4) as usize);
            let mut sent = [0_i64; 6];
            // What both of two had sent when the later of them became backlogged.
            let mut began = [[[0_i64; 2]; 6]; 6];
            for _ in 0..400 {
                let slot = rng.below(6) as usize;
                if !turns.contains(slot as u32) && rng.below(2) == 0 {
                    turns.join(slot as u32);
                    (0..6).for_each(|other| {
                        began[slot][other] = [sent[slot], sent[other]];
                        began[other][slot] = [sent[other], sent[slot]];
                    });
                }
                let next = turns.peek();
                assert_eq!(turns.select(), next, "seed {seed}");
                let Some(next) = next else { continue };
                let len = 1 + rng.below(longest);
                sent[next as usize] += len as i64;
                turns.update(len as u32, rng.below(20) > 0);
                let here: Vec<usize> = (0..6).filter(|slot| turns.contains(*slot as u32)).collect();
                for (&one, &other) in here.iter().flat_map(|one| here.iter().map(move |other| (one, other))) {
                    let [mine, theirs] = began[one][other];
                    let apart = (sent[one] - mine) - (sent[other] - theirs);
                    assert!(apart <= (quantum + 2 * longest) as i64, "seed {seed}: {apart}, {quantum}, {longest}");
                }
            }
        }
    }
}
