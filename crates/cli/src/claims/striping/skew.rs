//! Skew and buffers (striping §6.3.3): how much logical reception holds, and how long.

use super::network::{Channel, Network, Source};
use super::{MAX, set_of, told};
use crate::claims::evidence::{Cell, Evidence};
use crate::claims::{Answer, Bench};
use fairspan_core::rng::Rng;
use fairspan_core::stripe::Config;
use fairspan_core::units::{Bytes, Rate, Span};

/// How much of the channels' sum is offered: the paper speaks of busy channels, and not of how busy.
const LOAD_PERCENT: u64 = 95;

/// The fluid sums, and packets of the stripe's own ends against them.
pub(crate) fn buffer(bench: &mut Bench) -> anyhow::Result<Answer> {
    let fluid = bench.cases(10_000, |_, rng| equal_channels_are_a_special_case(rng));
    let (mut most, mut transmitting) = (0.0_f64, 0.0_f64);
    let packets = bench.cases(200, |_, rng| {
        most = most.max(holds(rng, false, LOAD_PERCENT)?);
        transmitting = transmitting.max(holds(rng, true, LOAD_PERCENT)?);
        Ok(())
    });
    let outcome = fluid.and_then(|f| Ok((f, packets?))).map(|(f, p)| {
        format!(
            "{f} random sums: sum of B T is (N - 1) B T for equal channels; {p} stripes over 2 to 8 channels with skews \
             up to 50 ms: each channel's buffer peaks within a quantum and a largest packet of B T ({:.0} % of that at \
             most), and no packet overtakes the slowest channel. Where channels also take time to transmit, an overdraft \
             on a slow one holds the others up too: {:.1} times that allowance at most",
            100.0 * most,
            transmitting
        )
    });
    Ok(Answer { sensitivity: vec![by_load(bench)], ..told(outcome) })
}

/// What becomes of the peaks with other loads. Below half of the sum a round takes longer than the two that [`overtakes`] lets pass.
fn by_load(bench: &Bench) -> Evidence {
    let columns = ["stripes within a quantum and a packet of the fluid", "furthest from it, as a share of that"];
    let of = "share of the channels' sum that is offered; the paper speaks of busy channels";
    let mut table = Evidence::new(of, &columns);
    for load in [50, 75, LOAD_PERCENT, 99] {
        let mut most = 0.0_f64;
        let within = bench.share(30, |rng| {
            let found = holds(rng, false, load);
            most = found.iter().fold(most, |most, share| most.max(*share));
            found.is_ok()
        });
        table.line(format!("{load} %"), load == LOAD_PERCENT, vec![Cell::exact(within), Cell::exact(most)]);
    }
    table
}

/// The buffer of each channel in bytes, as the fluid has it: rate times the skew to the slowest.
fn fluid(channels: &[(u64, Span)]) -> Vec<f64> {
    let slowest = channels.iter().map(|&(_, delay)| delay).max().unwrap_or(Span::ZERO);
    channels.iter().map(|&(rate, delay)| rate as f64 / 8.0 * (slowest - delay).as_secs_f64()).collect()
}

fn equal_channels_are_a_special_case(rng: &mut Rng) -> Result<(), String> {
    let (count, rate) = (2 + rng.below(63), 1_000 + rng.below(10_000_000_000));
    let (base, skew) = (Span::from_micros(rng.below(100_000)), Span::from_micros(rng.below(300_000)));
    let slow = rng.below(count);
    let channels: Vec<(u64, Span)> = (0..count).map(|i| (rate, if i == slow { base + skew } else { base })).collect();
    let sum: f64 = fluid(&channels).iter().sum();
    let formula = (count - 1) as f64 * rate as f64 / 8.0 * skew.as_secs_f64();
    if is_same(sum, formula) { Ok(()) } else { Err(format!("{sum} against {formula}")) }
}

/// Whether two sums of up to 63 terms in double precision are the same.
fn is_same(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-12 * other.max(1.0)
}

/// How far a channel's peak may be from the fluid's: a quantum and a packet, and where channels transmit what the others get while the
/// slowest one still sends what it was overdrawn by.
fn allowed(quantum: u64, smallest: f64, transmit: bool) -> [f64; 2] {
    let waiting = if transmit { quantum as f64 * MAX as f64 / smallest + MAX as f64 } else { 0.0 };
    [(quantum + MAX) as f64, waiting]
}

/// Whether a peak is that far from the fluid's at most.
fn is_allowed(held: f64, fluid: f64, [allowance, waiting]: [f64; 2]) -> bool {
    (held - fluid).abs() <= allowance + waiting
}

/// Whether a packet overtook the slowest channel, by more than the two rounds that its neighbours may be ahead.
fn overtakes(took: Span, round: Span, slowest: Span) -> bool {
    took + round.times(2) < slowest
}

/// Runs one stripe; how far a peak was from the fluid's figure, as a share of a quantum and a packet.
///
/// A channel's skew is how much less time its packets take than the slowest channel's. Where channels `transmit`, that
/// time is not constant: the slowest channel may still be sending what it was overdrawn by, up to a packet, which takes
/// as long as `MAX / quantum` rounds; the allowance grows by what the others get meanwhile.
fn holds(rng: &mut Rng, transmit: bool, percent: u64) -> Result<f64, String> {
    let count = 2 + rng.below(7) as usize;
    let quanta: Vec<u64> = (0..count).map(|_| MAX + rng.below(8 * MAX)).collect();
    let unit = 1000 + rng.below(10_000);
    let rates: Vec<u64> = quanta.iter().map(|&q| q * unit).collect();
    let delays: Vec<Span> = (0..count).map(|_| Span::from_micros(rng.below(50_000))).collect();
    let slowest = delays.iter().copied().max().unwrap_or(Span::ZERO);
    let channels = rates.iter().zip(&delays).zip(&quanta).map(|((&rate, &delay), &quantum)| {
        let mut channel = Channel::new(delay);
        channel.rate = transmit.then(|| Rate::from_bits_per_sec(rate));
        // All that the sender may give it in two visits: the bound is about the skew, not about a sender that waits.
        channel.queue = 2 * (quantum + MAX);
        channel
    });
    let mut network = Network::new(&set_of(&quanta)?, channels.collect(), Config::default(), rng.next_u64())?;
    // A load that the channels just carry, so that they are busy and none has a queue that makes skew of its own.
    let load = Rate::from_bits_per_sec(rates.iter().sum::<u64>() / 100 * percent);
    network.run_for(Span::from_millis(400));
    network.offer(Source::Paced(load), |rng| 8 + rng.below(MAX - 7) as usize);
    // Four times the time in which the buffers fill.
    network.run_for(Span::from_millis(200));
    network.most_buffered.fill(0);
    let from = network.delivered.len();
    network.run_for(Span::from_millis(400));
    let loads = rates.iter().map(|rate| rate / 100 * percent);
    let expected = fluid(&loads.zip(delays.iter().copied()).collect::<Vec<_>>());
    let smallest = quanta.iter().copied().min().unwrap_or(MAX) as f64;
    let mut furthest = 0.0_f64;
    for ((&held, &fluid), &quantum) in network.most_buffered.iter().zip(&expected).zip(&quanta) {
        let [allowance, waiting] = allowed(quantum, smallest, transmit);
        let beyond = (held as f64 - fluid).abs();
        if !is_allowed(held as f64, fluid, [allowance, waiting]) {
            return Err(format!(
                "of {count} channels one held {held} bytes, the fluid {fluid:.0}; a quantum and a packet are {allowance} bytes"
            ));
        }
        furthest = furthest.max(beyond / allowance);
    }
    // What a round takes: a packet follows those of the slowest channel that were sent a round before it.
    let round = Rate::from_bits_per_sec(unit * 8).transmit_time(Bytes::new(8));
    let early = network.delivered[from..].iter().map(|packet| packet.at.since(packet.sent)).min().unwrap_or(Span::ZERO);
    if overtakes(early, round, slowest) {
        return Err(format!("a packet took {early:?}, though the slowest channel takes {slowest:?}"));
    }
    let wrong = network.delivered.windows(2).any(|pair| pair[0].number + 1 != pair[1].number);
    if wrong || network.delivered.len() <= from {
        return Err("not in order, or nothing came".to_owned());
    }
    Ok(furthest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_is_within_a_quantum_and_a_packet_of_the_fluids_and_further_where_channels_transmit() {
        assert_eq!(allowed(6000, 3000.0, false), [7500.0, 0.0]);
        // A packet of 1500 on the smallest channel takes half a round, in which this one gets 3000.
        assert_eq!(allowed(6000, 3000.0, true), [7500.0, 4500.0]);
        for (held, within) in
            [(27_500.0, true), (12_500.0, true), (27_501.0, false), (12_499.0, false), (f64::NAN, false)]
        {
            assert_eq!(is_allowed(held, 20_000.0, [7500.0, 0.0]), within, "{held}");
        }
        assert!(is_allowed(32_000.0, 20_000.0, [7500.0, 4500.0]) && !is_allowed(32_001.0, 20_000.0, [7500.0, 4500.0]));
    }

    #[test]
    fn a_packet_overtakes_by_more_than_two_rounds_and_sums_differ_by_more_than_rounding() {
        let ms = Span::from_millis;
        assert!(!overtakes(ms(30), ms(10), ms(50)) && overtakes(ms(30), ms(10), ms(51)));
        assert!(is_same(1e6 + 9e-7, 1e6) && !is_same(1e6 + 1.1e-6, 1e6) && !is_same(f64::NAN, 1e6));
    }
}
