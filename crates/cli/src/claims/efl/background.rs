//! The claims about background traffic: Figures 18 and 19.

use super::{Answer, Bench, Curve, DELAY, Finding, GBIT, GOODPUT, MICRO, least, most};
use anyhow::Context;

/// Figure 18.
pub(crate) fn residual(bench: &mut Bench) -> anyhow::Result<Answer> {
    let run = bench.figure("efl.fig18")?;
    let (rates, delays) = (Curve::of(&run, GOODPUT)?.at(&[]), Curve::of(&run, DELAY)?.at(&[]));
    // The first point has no background, each further one 100 Mbit/s more on both paths.
    let left = |step: usize| 2.0 - 0.2 * step as f64;
    let shares: Vec<f64> = rates.iter().enumerate().map(|(step, rate)| rate * GBIT / left(step)).collect();
    let mut finding = Finding::default();
    finding.check(shares.len() == 10 && least(&shares) > 0.95 && most(&shares) < 1.005, || {
        format!("the rate is {:.3} to {:.3} of what is left", least(&shares), most(&shares))
    });
    let (first, worst) = (delays.first().copied().unwrap_or(f64::NAN) * MICRO, most(&delays) * MICRO);
    finding.check(worst < 100.0, || format!("a latency of {worst:.0} us"));
    Ok(finding.answer(format!(
        "efl.fig18, 0 to 900 Mbit/s of background on each of two paths: {:.1} to {:.1} % of what is left; mean latency {first:.0} us without \
         background, {worst:.0} us at the most",
        100.0 * least(&shares),
        100.0 * most(&shares)
    )))
}

/// Milliseconds between changes of the background, and steps of it.
const EVERY: f64 = 50.0;
const STEPS: usize = 9;
/// What of the rate may change while it counts as settled, in bit/s, and for how long it must not change by more.
const NEAR: f64 = 50e6;
const CALM: f64 = 1.0;

/// Milliseconds until path 1's rate stays within [`NEAR`] of `expected` for [`CALM`], from the change number `change` on.
fn settled(rates: &[f64], interval: f64, change: usize, expected: f64) -> f64 {
    let place = |at: f64| (at / interval).round() as usize;
    let from = place(change as f64 * EVERY);
    let window = rates.get(from..(from + place(EVERY)).min(rates.len())).unwrap_or_default();
    let calm = window.windows(place(CALM)).position(|rates| rates.iter().all(|rate| (rate - expected).abs() < NEAR));
    calm.map_or(f64::INFINITY, |windows| windows as f64 * interval)
}

/// Figure 19.
pub(crate) fn stability(bench: &mut Bench) -> anyhow::Result<Answer> {
    let run = bench.figure("efl.fig19")?;
    let results = &run.batch.finished.first().context("efl.fig19 has no run")?.results;
    let path = results.series.iter().find(|series| series.name == "flow flow path 0").context("no series of path 0")?;
    let interval = results.series_interval_s * 1e3;
    let gives_way: Vec<f64> =
        (1..=STEPS).map(|step| settled(&path.values, interval, 2 * step - 1, 1e9 - 100e6 * step as f64)).collect();
    let takes_up: Vec<f64> = (1..=STEPS).map(|step| settled(&path.values, interval, 2 * step, 1e9)).collect();
    let mut finding = Finding::default();
    finding.check(most(&gives_way) <= 5.0, || format!("{:.2} ms until the rate has settled", most(&gives_way)));
    finding.check(most(&takes_up) <= 5.0, || format!("{:.2} ms until what became free is used", most(&takes_up)));
    let [little, much] = [&gives_way[..3], &gives_way[6..]].map(|times| times.iter().sum::<f64>() / 3.0);
    finding.check(much > little, || format!("{little:.2} ms with little background, {much:.2} with much"));
    let list = |times: &[f64]| times.iter().map(|time| format!("{time:.2}")).collect::<Vec<String>>().join(", ");
    Ok(finding.answer(format!(
        "efl.fig19, until path 1's rate stays within 50 Mbit/s of what is left for 1 ms, in steps of {interval} ms: {} ms after a background of 100 to \
         900 Mbit/s begins, {} ms after it ends",
        list(&gives_way),
        list(&takes_up)
    )))
}
