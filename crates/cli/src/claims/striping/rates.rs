//! Rated and actual bandwidth (striping §6.3.2): what quanta that are off cost, and that following the rates wins it back.

use super::network::{Channel, Network, Source};
use super::{MAX, set_of, told};
use crate::claims::evidence::{Cell, Evidence};
use crate::claims::{Answer, Bench};
use fairspan_core::rng::Rng;
use fairspan_core::stripe::{Config, quanta};
use fairspan_core::units::{Bytes, ChannelId, Rate, Span};

/// Rounds that are measured: what the ends of the measurement blur is then a few per cent of it.
const ROUNDS: f64 = 200.0;

/// The formula against the stripe's own sender over channels that transmit and fill.
pub(crate) fn rated_vs_actual(bench: &mut Bench) -> anyhow::Result<Answer> {
    let (mut worst, mut lowest, mut regained, mut furthest) = (0.0_f64, 1.0_f64, 1.0_f64, 0.0_f64);
    let outcome = bench.cases(60, |_, rng| {
        let found = compare(rng, ROUNDS)?;
        worst = worst.max(found.deviation);
        lowest = lowest.min(found.share);
        regained = regained.min(found.regained);
        furthest = furthest.max(found.furthest);
        Ok(())
    });
    let answer = told(outcome.map(|cases| {
        format!(
            "{cases} stripes over 2 to 8 channels at 20 to 100 % of their rated speed: the aggregate follows the formula \
             within {:.1} % (what {ROUNDS} rounds resolve) and sinks to {:.0} % of the actual sum; with quanta set \
             again from rates that trains of frames measured (within {:.2} %), at an agreed round, it is at least {:.1} % of that sum",
            100.0 * worst,
            100.0 * lowest,
            100.0 * furthest,
            100.0 * regained
        )
    }));
    Ok(Answer { sensitivity: vec![by_rounds(bench)], ..answer })
}

/// What becomes of it when it is measured for shorter or longer.
fn by_rounds(bench: &Bench) -> Evidence {
    let columns = [
        "stripes that follow the formula",
        "furthest from it, %",
        "least share of the actual sum, %",
        "least share with measured quanta, %",
    ];
    let of = "rounds that are measured; the formula is of what goes on for ever";
    let mut table = Evidence::new(of, &columns);
    for rounds in [50.0, 100.0, ROUNDS, 400.0] {
        let (mut worst, mut lowest, mut regained) = (0.0_f64, 1.0_f64, 1.0_f64);
        let follow = bench.share(20, |rng| {
            let found = compare(rng, rounds);
            if let Ok(found) = &found {
                (worst, lowest) = (worst.max(found.deviation), lowest.min(found.share));
                regained = regained.min(found.regained);
            }
            found.is_ok()
        });
        let shares = [follow, 100.0 * worst, 100.0 * lowest, 100.0 * regained];
        table.line(format!("{rounds}"), rounds == ROUNDS, shares.map(Cell::exact).to_vec());
    }
    table
}

struct Comparison {
    /// Measured against the formula, relative.
    deviation: f64,
    /// Of the sum of actual rates, with the rated quanta.
    share: f64,
    /// Of the same sum, with the quanta of the measured rates.
    regained: f64,
    /// How far a measured rate was off, relative.
    furthest: f64,
}

fn compare(rng: &mut Rng, rounds: f64) -> Result<Comparison, String> {
    let count = 2 + rng.below(7) as usize;
    let rated_quanta: Vec<u64> = (0..count).map(|_| MAX + rng.below(8 * MAX)).collect();
    // Rated bandwidths in exact proportion to the quanta.
    let unit = 200 + rng.below(2000);
    let rated: Vec<f64> = rated_quanta.iter().map(|&q| (q * unit) as f64).collect();
    let actual: Vec<u64> = rated_quanta.iter().map(|&q| (q * unit) / 1000 * (200 + rng.below(801))).collect();
    let sum: f64 = actual.iter().map(|&rate| rate as f64).sum();
    let channels = actual.iter().zip(&rated_quanta).map(|(&rate, &quantum)| {
        let mut channel = Channel::new(Span::from_micros(rng.below(5000)));
        channel.rate = Some(Rate::from_bits_per_sec(rate));
        // Room for a visit, so that the sender need not wait on a channel that is not behind (§6.3.5).
        channel.queue = 2 * (quantum.max(9 * MAX) + MAX);
        channel
    });
    let channels = channels.collect();
    let mut network = Network::new(&set_of(&rated_quanta)?, channels, Config::default(), rng.next_u64())?;
    network.offer(Source::Backlogged, |rng| 8 + rng.below(MAX - 7) as usize);
    let by_rated = measure(&mut network, &actual, &rated_quanta, rounds)?;
    // The paper's formula.
    let ratio = actual.iter().zip(&rated).map(|(&a, &r)| a as f64 / r).fold(f64::MAX, f64::min);
    let formula = ratio * rated.iter().sum::<f64>();
    let resolution = resolution(&rated_quanta, rounds);
    let deviation = (by_rated / formula - 1.0).abs();
    if !follows(deviation, resolution) {
        return Err(format!("{by_rated:.0} bit/s; the formula gives {formula:.0}: off by {:.2} %", 100.0 * deviation));
    }
    // Beyond the paper: the quanta follow the actual rates, as core measures them on each channel.
    let mut rates: Vec<(ChannelId, Rate)> = Vec::new();
    let mut furthest = 0.0_f64;
    for (i, &rate) in actual.iter().enumerate() {
        let found =
            network.channels[i].measured(rng).ok_or_else(|| format!("no train told the rate of channel {i}"))?;
        furthest = furthest.max((found.as_bits_per_sec() as f64 / rate as f64 - 1.0).abs());
        rates.push((ChannelId(i as u8), found));
    }
    let set = quanta::from_rates(&rates, Bytes::new(MAX), Bytes::new(1 << 24)).map_err(|e| e.to_string())?;
    network.end[0].sender.set_channels(network.now, &set).map_err(|e| e.to_string())?;
    let new: Vec<u64> = set.channels().map(|channel| u64::from(set.quantum(channel))).collect();
    let changes = network.end[0].sender.stats().changes;
    for _ in 0..1000 {
        if network.end[0].sender.stats().changes > changes {
            break;
        }
        network.run_for(Span::from_millis(10));
    }
    if network.end[0].sender.stats().changes == changes {
        return Err("the new quanta did not come into force in 10 s".to_owned());
    }
    let by_actual = measure(&mut network, &actual, &new, rounds)?;
    let lost = 1.0 - by_actual / sum;
    if !wins_back(lost, self::resolution(&new, rounds), furthest) {
        return Err(format!("with the actual rates' quanta {by_actual:.0} bit/s of {sum:.0}"));
    }
    Ok(Comparison { deviation, share: by_rated / sum, regained: by_actual / sum, furthest })
}

/// Whether what was measured is the formula's, relative to it.
fn follows(deviation: f64, resolution: f64) -> bool {
    deviation <= resolution
}

/// Whether no more of the sum is lost than can be told, with quanta of whole bytes. A measured rate that is off costs as much at most, twice
/// where one is too high and another too low.
fn wins_back(lost: f64, resolution: f64, furthest: f64) -> bool {
    lost.abs() <= resolution + 1.0 / MAX as f64 + 2.0 * furthest
}

/// What the ends of a measurement blur: queues that fill or drain by a visit or two, a round that is not over.
fn resolution(quanta: &[u64], rounds: f64) -> f64 {
    let round: u64 = quanta.iter().sum();
    (2.0 * (round + quanta.len() as u64 * 10 * MAX) as f64 / round as f64 + 1.0) / rounds
}

/// The aggregate over so many rounds, after some that fill the queues.
fn measure(network: &mut Network, actual: &[u64], quanta: &[u64], rounds: f64) -> Result<f64, String> {
    let round =
        actual.iter().zip(quanta).map(|(&rate, &quantum)| 8.0 * quantum as f64 / rate as f64).fold(0.0, f64::max);
    let span = Span::from_nanos((rounds * round * 1e9) as u64);
    // Until the queues are as full as they get.
    network.run_for(Span::from_nanos(span.as_nanos() / 4) + Span::from_millis(50));
    let before: u64 = network.bytes.iter().sum();
    network.run_for(span);
    let sent: u64 = network.bytes.iter().sum::<u64>() - before;
    if sent == 0 {
        return Err("nothing was sent".to_owned());
    }
    Ok(8.0 * sent as f64 / span.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_is_no_more_than_the_measurement_blurs_and_the_rates_are_off() {
        assert!(follows(0.05, 0.05) && !follows(0.050_1, 0.05) && !follows(f64::NAN, 0.05));
        // 0.05 + 1/1500 + 0.02.
        assert!(wins_back(0.070_6, 0.05, 0.01) && wins_back(-0.070_6, 0.05, 0.01));
        assert!(![0.070_7, -0.070_7, f64::NAN].into_iter().any(|lost| wins_back(lost, 0.05, 0.01)));
        // Two channels of 3000 bytes: twice a round and ten packets each, and one more round, of 200.
        assert!((resolution(&[3000, 3000], 200.0) - (2.0 * 36_000.0 / 6000.0 + 1.0) / 200.0).abs() < 1e-12);
    }
}
