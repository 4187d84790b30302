//! The claims about background traffic: Figures 18 and 19.

use super::{Answer, Bench, Curve, DELAY, Finding, GBIT, GOODPUT, MICRO, least, most};
use crate::claims::bench::FigureRun;
use anyhow::Context;

/// What Figure 18 says: the rate as a share of what is left at its ten points, and the worst mean latency in us.
pub(super) fn takes_what_is_left(finding: &mut Finding, shares: &[f64], worst: f64) {
    finding.check(shares.len() == 10 && least(shares) > 0.95 && most(shares) < 1.005, || {
        format!("the rate is {:.3} to {:.3} of what is left", least(shares), most(shares))
    });
    finding.check(worst < 100.0, || format!("a latency of {worst:.0} us"));
}

/// The rates as shares of what is left at each point, and the mean latencies in us.
pub(super) fn shares(run: &FigureRun) -> anyhow::Result<(Vec<f64>, Vec<f64>)> {
    let (rates, delays) = (Curve::of(run, GOODPUT)?.at(&[]), Curve::of(run, DELAY)?.at(&[]));
    // The first point has no background, each further one 100 Mbit/s more on both paths.
    let left = |step: usize| 2.0 - 0.2 * step as f64;
    let shares = rates.iter().enumerate().map(|(step, rate)| rate * GBIT / left(step)).collect();
    Ok((shares, delays.iter().map(|delay| delay * MICRO).collect()))
}

/// Figure 18.
pub(crate) fn residual(bench: &mut Bench) -> anyhow::Result<Answer> {
    let run = bench.figure("efl.fig18")?;
    let (shares, delays) = shares(&run)?;
    let mut finding = Finding::default();
    let (first, worst) = (delays.first().copied().unwrap_or(f64::NAN), most(&delays));
    takes_what_is_left(&mut finding, &shares, worst);
    let answer = finding.answer(format!(
        "efl.fig18, 0 to 900 Mbit/s of background on each of two paths: {:.1} to {:.1} % of what is left; mean latency {first:.0} us without \
         background, {worst:.0} us at the most",
        100.0 * least(&shares),
        100.0 * most(&shares)
    ));
    Ok(answer)
}

/// Milliseconds between changes of the background, and steps of it.
const EVERY: f64 = 50.0;
const STEPS: usize = 9;

/// When a rate counts as settled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settling {
    /// How far it may be from where it belongs, in bit/s.
    pub(super) near: f64,
    /// For how long it must not be further, in ms.
    pub(super) calm: f64,
}

impl Settling {
    /// The answer's.
    pub(super) const USUAL: Settling = Settling { near: 50e6, calm: 1.0 };

    /// Milliseconds until path 1's rate stays near `expected` for so long, from the change number `change` on.
    fn settled(self, rates: &[f64], interval: f64, change: usize, expected: f64) -> f64 {
        let place = |at: f64| (at / interval).round() as usize;
        let from = place(change as f64 * EVERY);
        let window = rates.get(from..(from + place(EVERY)).min(rates.len())).unwrap_or_default();
        let is_near = |rates: &[f64]| rates.iter().all(|rate| (rate - expected).abs() < self.near);
        let calm = window.windows(place(self.calm).max(1)).position(is_near);
        calm.map_or(f64::INFINITY, |windows| windows as f64 * interval)
    }

    /// Milliseconds until it has settled after each step of background up, and after each one down.
    pub(super) fn times(self, run: &FigureRun) -> anyhow::Result<[Vec<f64>; 2]> {
        let results = &run.batch.finished.first().context("efl.fig19 has no run")?.results;
        let path =
            results.series.iter().find(|series| series.name == "flow flow path 0").context("no series of path 0")?;
        let interval = results.series_interval_s * 1e3;
        let at = |change: usize, left: f64| self.settled(&path.values, interval, change, left);
        Ok([
            (1..=STEPS).map(|step| at(2 * step - 1, 1e9 - 100e6 * step as f64)).collect(),
            (1..=STEPS).map(|step| at(2 * step, 1e9)).collect(),
        ])
    }
}

/// What Figure 19 says: milliseconds until the rate has settled after each step of background up and each one down.
pub(super) fn settles(finding: &mut Finding, gives_way: &[f64], takes_up: &[f64]) {
    finding.check(most(gives_way) <= 5.0, || format!("{:.2} ms until the rate has settled", most(gives_way)));
    finding.check(most(takes_up) <= 5.0, || format!("{:.2} ms until what became free is used", most(takes_up)));
    let [little, much] = [&gives_way[..3], &gives_way[6..]].map(|times| times.iter().sum::<f64>() / 3.0);
    finding.check(much > little, || format!("{little:.2} ms with little background, {much:.2} with much"));
}

/// Figure 19.
pub(crate) fn stability(bench: &mut Bench) -> anyhow::Result<Answer> {
    let run = bench.figure("efl.fig19")?;
    let interval = run.batch.finished.first().context("efl.fig19 has no run")?.results.series_interval_s * 1e3;
    let [gives_way, takes_up] = Settling::USUAL.times(&run)?;
    let mut finding = Finding::default();
    settles(&mut finding, &gives_way, &takes_up);
    let list = |times: &[f64]| times.iter().map(|time| format!("{time:.2}")).collect::<Vec<String>>().join(", ");
    let answer = finding.answer(format!(
        "efl.fig19, until path 1's rate stays within 50 Mbit/s of what is left for 1 ms, in steps of {interval} ms: {} ms after a background of 100 to \
         900 Mbit/s begins, {} ms after it ends",
        list(&gives_way),
        list(&takes_up)
    ));
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::finding::faults;

    #[test]
    fn ten_points_have_what_is_left_within_their_margins() {
        let mut shares = [1.0; 10];
        (shares[3], shares[7]) = (0.950_1, 1.004_9);
        let count = |shares: &[f64], worst| faults(|finding| takes_what_is_left(finding, shares, worst));
        assert_eq!(count(&shares, 99.9), 0);
        assert_eq!([count(&shares, 100.1), count(&shares, f64::NAN), count(&shares[..9], 99.9)], [1, 1, 1]);
        for (at, share) in [(3, 0.949_9), (7, 1.005_1)] {
            let mut outside = shares;
            outside[at] = share;
            assert_eq!(count(&outside, 99.9), 1, "{share}");
        }
    }

    #[test]
    fn a_rate_has_settled_when_it_stays_within_50_mbit_for_a_millisecond() {
        // A value every tenth of a millisecond; change 1 is after 50 ms. Eight values are off, the ninth is not.
        let rates = |value: f64| {
            let mut rates = vec![0.9e9; 1000];
            rates[500..508].fill(0.1e9);
            // Nine values that are near, one that may be, then more that are.
            rates[517] = value;
            rates
        };
        for (value, time) in [(0.949_9e9, 0.8), (0.850_1e9, 0.8), (0.950_1e9, 1.8), (0.849_9e9, 1.8)] {
            let found = Settling::USUAL.settled(&rates(value), 0.1, 1, 0.9e9);
            assert!((found - time).abs() < 1e-9, "{value}: {found}");
        }
        // Nobody asks what comes after the next change.
        let late = [vec![0.0; 1000], vec![0.9e9; 500]].concat();
        assert_eq!(Settling::USUAL.settled(&late, 0.1, 1, 0.9e9), f64::INFINITY);
    }

    #[test]
    fn five_milliseconds_are_allowed_and_much_background_takes_longer_than_little() {
        let times = [1.0, 1.0, 1.0, 2.0, 2.0, 5.0, 1.0, 1.0, 1.003];
        let count = |gives_way: [f64; 9], takes_up: [f64; 9]| faults(|finding| settles(finding, &gives_way, &takes_up));
        let with = |at: usize, value| {
            let mut times = times;
            times[at] = value;
            times
        };
        assert_eq!(count(times, with(0, 5.0)), 0);
        assert_eq!([count(with(5, 5.001), times), count(times, with(0, 5.001)), count(with(8, 1.0), times)], [1, 1, 1]);
        // Only the first three and the last three are compared.
        assert_eq!([count(with(2, 1.004), times), count(with(3, 4.9), times)], [1, 0]);
    }
}
