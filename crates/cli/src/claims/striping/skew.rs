//! Skew and buffers (striping §6.3.3): how much logical reception holds, and how long.

use super::network::{Channel, Network, Source};
use super::{MAX, set_of, told};
use crate::claims::{Answer, Bench};
use fairspan_core::rng::Rng;
use fairspan_core::stripe::Config;
use fairspan_core::units::{Bytes, Rate, Span};

/// How much of the channels' sum is offered.
const LOAD_PERCENT: u64 = 95;

/// The fluid sums, and packets of the stripe's own ends against them.
pub(crate) fn buffer(bench: &mut Bench) -> anyhow::Result<Answer> {
    let fluid = bench.cases(10_000, |_, rng| equal_channels_are_a_special_case(rng));
    let (mut most, mut transmitting) = (0.0_f64, 0.0_f64);
    let packets = bench.cases(200, |_, rng| {
        most = most.max(holds(rng, false)?);
        transmitting = transmitting.max(holds(rng, true)?);
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
    Ok(told(outcome))
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
    // Sums of up to 63 terms in double precision.
    if (sum - formula).abs() <= 1e-12 * formula.max(1.0) { Ok(()) } else { Err(format!("{sum} against {formula}")) }
}

/// Runs one stripe; how far a peak was from the fluid's figure, as a share of a quantum and a packet.
///
/// A channel's skew is how much less time its packets take than the slowest channel's. Where channels `transmit`, that
/// time is not constant: the slowest channel may still be sending what it was overdrawn by, up to a packet, which takes
/// as long as `MAX / quantum` rounds; the allowance grows by what the others get meanwhile.
fn holds(rng: &mut Rng, transmit: bool) -> Result<f64, String> {
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
    let load = Rate::from_bits_per_sec(rates.iter().sum::<u64>() / 100 * LOAD_PERCENT);
    network.run_for(Span::from_millis(400));
    network.offer(Source::Paced(load), |rng| 8 + rng.below(MAX - 7) as usize);
    // Four times the time in which the buffers fill.
    network.run_for(Span::from_millis(200));
    network.most_buffered.fill(0);
    let from = network.delivered.len();
    network.run_for(Span::from_millis(400));
    let loads = rates.iter().map(|rate| rate / 100 * LOAD_PERCENT);
    let expected = fluid(&loads.zip(delays.iter().copied()).collect::<Vec<_>>());
    let smallest = quanta.iter().copied().min().unwrap_or(MAX) as f64;
    let mut furthest = 0.0_f64;
    for ((&held, &fluid), &quantum) in network.most_buffered.iter().zip(&expected).zip(&quanta) {
        let allowance = (quantum + MAX) as f64;
        let waiting = if transmit { quantum as f64 * MAX as f64 / smallest + MAX as f64 } else { 0.0 };
        let beyond = (held as f64 - fluid).abs();
        if beyond > allowance + waiting {
            return Err(format!(
                "of {count} channels one held {held} bytes, the fluid {fluid:.0}; a quantum and a packet are {allowance} bytes"
            ));
        }
        furthest = furthest.max(beyond / allowance);
    }
    // What a round takes: a packet follows those of the slowest channel that were sent a round before it.
    let round = Rate::from_bits_per_sec(unit * 8).transmit_time(Bytes::new(8));
    let early = network.delivered[from..].iter().map(|packet| packet.at.since(packet.sent)).min().unwrap_or(Span::ZERO);
    if early + round.times(2) < slowest {
        return Err(format!("a packet took {early:?}, though the slowest channel takes {slowest:?}"));
    }
    let wrong = network.delivered.windows(2).any(|pair| pair[0].number + 1 != pair[1].number);
    if wrong || network.delivered.len() <= from {
        return Err("not in order, or nothing came".to_owned());
    }
    Ok(furthest)
}
