//! The discipline alone: Figure 5, theorem 3.1, lemmas 3.2 to 3.4.

use super::{MAX, number, packet, random_lengths, random_quanta, set_of, told};
use crate::claims::{Answer, Bench};
use fairspan_core::causal::{Causal, FairQueue, Grr, LoadSharer, Rfq, Rr, Srr};
use fairspan_core::rng::Rng;
use fairspan_core::units::{Bytes, ChannelId};

/// Figure 5, as a fair queue of the figure's packets and as a load sharer of the order that comes out.
pub(crate) fn figure_5(_: &mut Bench) -> anyhow::Result<Answer> {
    // The figure gives a its 550 bytes and d and e 600 together; b and c share what is left of queue 1's round.
    Ok(told(splits(600, 450).map(|n| {
        format!("channels, counters and rounds as in the figure for all {n} ways to divide d + e = 600 and b + c = 450")
    })))
}

/// Every way to divide `second` between d and e, and `rest` between b and c.
fn splits(second: u64, rest: u64) -> Result<u32, String> {
    let mut tried = 0;
    // After d the counter must still be positive for e to follow, as in the figure.
    for d in 1..500 {
        for b in (1..rest).step_by(7) {
            trace(d, second - d, b, rest - b)?;
            tried += 1;
        }
    }
    Ok(tried)
}

fn trace(d: u64, e: u64, b: u64, c: u64) -> Result<(), String> {
    const QUANTUM: i64 = 500;
    let set = fairspan_core::causal::ChannelSet::of(&[500, 500], Bytes::new(1)).map_err(|e| e.to_string())?;
    let srr = Srr::new(&set).map_err(|e| e.to_string())?;
    let mut queues: FairQueue<Srr, Vec<u8>> = FairQueue::new(srr.clone());
    for (queue, name, len) in [(0, 0, 550), (0, 1, b), (0, 2, c), (1, 3, d), (1, 4, e), (1, 5, 500)] {
        let mut packet = vec![0; len as usize];
        packet[0] = name;
        queues.enqueue(ChannelId(queue), packet).map_err(|_| "the queue takes no packet")?;
    }
    let mut sharer = LoadSharer::new(srr.clone());
    let mut state = srr;
    // (packet, channel, counter before the refill where the channel is left, round of the packet)
    let expected = [
        (0, 0, -50, 1),
        (3, 1, QUANTUM - d as i64, 1),
        (4, 1, -100, 1),
        (1, 0, 450 - b as i64, 2),
        (2, 0, 450 - b as i64 - c as i64, 2),
    ];
    for (name, channel, counter, round) in expected {
        let (from, packet) = queues.dequeue().ok_or("the fair queue stops")?;
        let to = sharer.assign(&packet);
        let selected = state.select();
        let in_round = state.round_of(selected);
        state.update(Bytes::from(packet.len()));
        let refill = if state.select() == selected { 0 } else { QUANTUM };
        let seen = (packet[0], from.0, state.deficit(selected) - refill, in_round);
        if seen != (name, channel, counter, round) || to.0 != channel || selected.0 != channel {
            return Err(format!(
                "d {d}, e {e}, b {b}, c {c}: (packet, queue, counter, round) is {seen:?}, the figure has {:?}",
                (name, channel, counter, round)
            ));
        }
    }
    Ok(())
}

/// Theorem 3.1, for every causal discipline that there is.
pub(crate) fn reversal(bench: &mut Bench) -> anyhow::Result<Answer> {
    let mut packets = 0;
    let outcome = bench.cases(4000, |_, rng| {
        let set = set_of(&random_quanta(rng))?;
        let length = 1 + rng.below(600) as usize;
        let lengths = random_lengths(rng, length);
        packets += 4 * lengths.len();
        let seed = rng.next_u64();
        backwards(Srr::new(&set).map_err(|e| e.to_string())?, &lengths).map_err(|e| format!("SRR: {e}"))?;
        backwards(Rr::new(&set).map_err(|e| e.to_string())?, &lengths).map_err(|e| format!("RR: {e}"))?;
        backwards(Grr::new(&set).map_err(|e| e.to_string())?, &lengths).map_err(|e| format!("GRR: {e}"))?;
        backwards(Rfq::new(&set, seed).map_err(|e| e.to_string())?, &lengths).map_err(|e| format!("RFQ: {e}"))
    });
    Ok(told(outcome.map(|cases| {
        format!("{cases} random streams over 2 to 64 channels by SRR, RR, GRR and RFQ, {packets} packets: what was put where is taken from there, in order")
    })))
}

/// What a load sharer does, read backwards, is what the fair queue does to the queues that it filled.
fn backwards<C: Causal + Clone>(discipline: C, lengths: &[usize]) -> Result<(), String> {
    let mut sharer = LoadSharer::new(discipline.clone());
    let mut queues: FairQueue<C, Vec<u8>> = FairQueue::new(discipline);
    let mut channels = Vec::with_capacity(lengths.len());
    for (i, &len) in lengths.iter().enumerate() {
        let packet = packet(i as u64, len);
        let channel = sharer.assign(&packet);
        channels.push(channel);
        queues.enqueue(channel, packet).map_err(|_| "the queue takes no packet")?;
    }
    for (i, &channel) in channels.iter().enumerate() {
        match queues.dequeue() {
            Some((from, packet)) if from == channel && number(&packet) == i as u64 => {}
            Some((from, packet)) => {
                let n = number(&packet);
                return Err(format!("packet {i} was sent on channel {channel}; the fair queue takes {n} from {from}"));
            }
            None => return Err(format!("the fair queue is empty before packet {i}")),
        }
    }
    Ok(())
}

/// Lemmas 3.2 and 3.4 and theorem 3.3.
pub(crate) fn fairness(bench: &mut Bench) -> anyhow::Result<Answer> {
    let mut rounds = 0;
    let outcome = bench.cases(4000, |_, rng| rounds_are_fair(rng).map(|n| rounds += n));
    Ok(told(outcome.map(|cases| {
        format!("{cases} random streams over 2 to 64 channels, {rounds} rounds of a channel: |K Quantum - sent| < largest packet at each, and the counter in its bounds")
    })))
}

/// Lemma 3.2: where the counter is when its channel is left, the quantum added.
fn is_in_bounds(counter: i64, quantum: i64, largest: i64) -> bool {
    quantum - largest < counter && counter <= quantum
}

/// Theorem 3.3: how far what was sent may be from K quanta.
fn is_fair(apart: i64, largest: i64) -> bool {
    apart.abs() < largest
}

fn rounds_are_fair(rng: &mut Rng) -> Result<u64, String> {
    let quanta = random_quanta(rng);
    let mut srr = Srr::new(&set_of(&quanta)?).map_err(|e| e.to_string())?;
    let length = 1 + rng.below(2000) as usize;
    let lengths = random_lengths(rng, length);
    let largest = lengths.iter().copied().max().unwrap_or(0) as i64;
    let mut sent = vec![0_i64; quanta.len()];
    let mut rounds = 0;
    for len in lengths {
        let channel = srr.select();
        let before = srr.round_of(channel);
        sent[channel.index()] += len as i64;
        srr.update(Bytes::from(len));
        if srr.round_of(channel) == before {
            continue;
        }
        rounds += 1;
        let (quantum, bytes) = (quanta[channel.index()] as i64, sent[channel.index()]);
        let (k, counter) = (i64::from(before), srr.deficit(channel));
        if !is_in_bounds(counter, quantum, largest) {
            return Err(format!(
                "channel {channel} after round {k}: counter {counter}, quantum {quantum}, largest {largest}"
            ));
        }
        if !is_fair(k * quantum - bytes, largest) {
            return Err(format!(
                "channel {channel} has sent {bytes} in {k} rounds of {quantum}, largest packet {largest}"
            ));
        }
    }
    debug_assert!(largest <= MAX as i64);
    Ok(rounds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;

    /// Not causal: its choice depends on how often any copy of it was asked to move on.
    #[derive(Clone)]
    struct Shared(u8, Rc<Cell<u32>>);

    impl Causal for Shared {
        fn select(&self) -> ChannelId {
            ChannelId(self.0)
        }
        fn update(&mut self, _: Bytes) {
            self.1.set(self.1.get() + 1);
            self.0 = u8::from(self.1.get().is_multiple_of(3));
        }
        fn pass(&mut self) {
            self.0 ^= 1;
        }
    }

    #[test]
    fn a_counter_and_what_was_sent_stay_within_a_largest_packet() {
        assert!(is_in_bounds(2000, 2000, 1500) && is_in_bounds(501, 2000, 1500));
        assert!(!is_in_bounds(2001, 2000, 1500) && !is_in_bounds(500, 2000, 1500));
        assert!(is_fair(1499, 1500) && is_fair(-1499, 1500) && !is_fair(1500, 1500) && !is_fair(-1500, 1500));
    }

    #[test]
    fn the_checks_find_what_is_wrong() {
        // A figure with other lengths does not give the figure's counters.
        assert!(trace(200, 410, 150, 300).is_err());
        assert!(trace(200, 400, 150, 300).is_ok());
        let shared = Shared(0, Rc::default());
        let outcome = backwards(shared, &[10, 20, 30, 40, 50, 60, 70]);
        assert!(outcome.is_err(), "a discipline that is not causal passed");
    }
}
