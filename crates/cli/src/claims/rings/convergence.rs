//! Figure 20: how long rates take to settle after the fourth flow's start, on links of 0.1 ms and ten times as long.
//!
//! The paper reads the time off its figure. Here a run has settled at the first window of T from which on the throughput of each flow stays
//! near its level for [`HOLD`] windows. Its level is its mean over the windows [`LEVEL`] after the start. Neither depends on how long the
//! run goes on, which matters where a rate makes an excursion now and then for ever, as the aggressive mode's do. The
//! answer is the median over the seeds; how it depends on what `near` and `stays` mean stands beside it.

use crate::claims::bench::FigureRun;
use crate::claims::evidence::{Cell, Evidence};
use crate::claims::finding::{Curve, Finding};
use crate::claims::variation::is;
use crate::claims::{Answer, Bench};
use fairspan_sim::results::Results;
use serde_json::{Map, Value};
use std::ops::Range;

const ALGORITHM: &str = "ring.ring.algorithm";
const MODES: [&str; 3] = ["dvsr", "rpr-am", "rpr-cm"];
/// Three packets of the 19 that a quarter of the link carries in 1 ms.
const NEAR: f64 = 3.0 / 19.4;
/// Windows for which it stays near.
const HOLD: usize = 100;
/// Windows after the start over which a flow's level is taken.
const LEVEL: Range<usize> = 200..300;
/// The fourth flow's start, in windows.
const START: usize = 300;
/// The same on links ten times as long: starts are 200 ms apart there, 20 windows.
const START_LONG: usize = 60;
/// What the paper says of messages until then, one every interval.
const MESSAGES: [f64; 3] = [2.0, 500.0, 180.0];
const NODES: f64 = 10.0;

/// Milliseconds after window `start` until each flow's throughput stays within `near` of its level for `hold` windows; `None`:
/// never, or the run is too short to tell.
fn settled_ms(results: &Results, start: usize, near: f64, hold: usize) -> Option<f64> {
    let flows = results.series.iter().filter(|s| s.name.starts_with("flow ") && s.name.ends_with(" throughput"));
    let mut good: Vec<bool> = Vec::new();
    for flow in flows {
        let level = flow.values.get(start + LEVEL.start..start + LEVEL.end)?;
        let mean = level.iter().sum::<f64>() / level.len() as f64;
        let here = flow.values.get(start..)?.iter().map(|value| (value - mean).abs() <= near * mean);
        if good.is_empty() {
            good = here.collect();
        } else {
            good.iter_mut().zip(here).for_each(|(all, one)| *all &= one);
        }
    }
    let from = good.windows(hold).position(|windows| windows.iter().all(|good| *good))?;
    Some(from as f64 * results.series_interval_s * 1e3)
}

/// The middle one; what never comes is last. Not a number where that is the middle, or where there is none.
fn median(mut values: Vec<Option<f64>>) -> f64 {
    values.sort_by(|a, b| a.unwrap_or(f64::INFINITY).total_cmp(&b.unwrap_or(f64::INFINITY)));
    values.get(values.len() / 2).copied().flatten().unwrap_or(f64::NAN)
}

/// All seeds of an algorithm in a figure, in ms.
fn times(run: &FigureRun, algorithm: &str, start: usize, near: f64, hold: usize) -> Vec<Option<f64>> {
    let runs = run.batch.finished.iter().filter(|run| is(&run.parameters, ALGORITHM, algorithm));
    runs.map(|run| settled_ms(&run.results, start, near, hold)).collect()
}

/// Medians of the three algorithms, and of all three on long links.
fn line(short: &FigureRun, long: &FigureRun, near: f64, hold: usize) -> Vec<Cell> {
    let of = |run, start| MODES.map(|mode| Cell::exact(median(times(run, mode, start, near, hold))));
    [of(short, START), of(long, START_LONG)].concat()
}

const COLUMNS: [&str; 6] =
    ["DVSR, ms", "RPR-AM, ms", "RPR-CM, ms", "ten times the delay: DVSR, ms", "RPR-AM, ms ", "RPR-CM, ms "];

/// What the criterion makes of it.
fn criteria(short: &FigureRun, long: &FigureRun) -> [Evidence; 2] {
    let mut bands = Evidence::new("band around the level, per cent of it", &COLUMNS);
    for near in [0.05, 0.1, NEAR, 0.2, 0.3] {
        bands.line(format!("{:.1}", 100.0 * near), near == NEAR, line(short, long, near, HOLD));
    }
    let mut holds = Evidence::new("windows for which it has to stay there", &COLUMNS);
    for hold in [20, 50, HOLD, 200] {
        holds.line(hold.to_string(), hold == HOLD, line(short, long, NEAR, hold));
    }
    [bands, holds]
}

/// What the algorithms' constants make of it.
fn constants(bench: &mut Bench) -> anyhow::Result<Evidence> {
    let run = bench.figure("rings.fig20-constants")?;
    let of = "constants of the algorithms (rings.fig20-constants); IEEE 802.17's defaults for RPR's, ours for DVSR's";
    let mut table = Evidence::new(of, &["least, ms", "median, ms", "greatest, ms"]);
    let mut algorithms: Vec<&str> = Vec::new();
    for finished in &run.batch.finished {
        for (_, value) in finished.parameters.iter().filter(|(name, _)| name == ALGORITHM) {
            let name = value.trim_matches('"');
            if !algorithms.contains(&name) {
                algorithms.push(name);
            }
        }
    }
    for algorithm in algorithms {
        let all = times(&run, algorithm, START, NEAR, HOLD);
        let known = || all.iter().map(|time| time.unwrap_or(f64::INFINITY));
        let (least, greatest) = (known().fold(f64::INFINITY, f64::min), known().fold(0.0, f64::max));
        let cells = [least, median(all.clone()), greatest].map(Cell::exact);
        table.line(algorithm, MODES.contains(&algorithm), cells.to_vec());
    }
    Ok(table)
}

/// Messages that a node sends on a ringlet in a millisecond.
fn messages(run: &FigureRun) -> anyhow::Result<[f64; 3]> {
    let sent = Curve::of(run, "ring.ring.control.sent")?;
    let whole = run.batch.finished.first().map_or(f64::NAN, |run| {
        run.results.series.first().map_or(f64::NAN, |s| s.values.len() as f64) * run.results.series_interval_s
    });
    Ok(MODES.map(|mode| sent.one(&[(ALGORITHM, mode)]) / (whole * 1e3 * NODES * 2.0)))
}

/// What the paper says of the three algorithms' times, of those on long links, and of DVSR's limiters, in ms.
fn settles(finding: &mut Finding, short: [f64; 3], long: [f64; 3], limiters: f64) {
    let [dvsr, am, cm] = short;
    finding.check(dvsr <= 2.0 + 1e-9, || format!("DVSR needs {dvsr:.1} ms: more than two ring times"));
    finding.check(limiters <= 2.0, || format!("DVSR's limiters need {limiters:.2} ms: more than two ring times"));
    finding.check(am > 4.0 * dvsr && cm > 4.0 * dvsr, || {
        format!("RPR is not far slower: {am:.0} and {cm:.0} ms against {dvsr:.0}")
    });
    // Largely linear: ten times within a factor of two.
    for ((name, short), long) in ["DVSR", "RPR-AM", "RPR-CM"].into_iter().zip(short).zip(long) {
        finding.check((5.0..=20.0).contains(&(long / short)), || {
            format!("{name}'s time is not linear in the links' delay: {short:.0} ms and, with ten times the delay, {long:.0}")
        });
    }
}

/// What it says of the messages that one of them needs until then: half as many more or less is the same.
fn few_messages(finding: &mut Finding, mode: usize, until: f64) {
    finding.check((until / MESSAGES[mode] - 1.0).abs() <= 0.5, || {
        format!("{} needs {until:.0} control messages, in the paper {}", MODES[mode], MESSAGES[mode])
    });
}

/// The claim.
pub(crate) fn convergence(bench: &mut Bench) -> anyhow::Result<Answer> {
    let (run, long) = (bench.figure("rings.fig20")?, bench.figure("rings.delay-x10")?);
    let cells = line(&run, &long, NEAR, HOLD);
    let [dvsr, am, cm, dvsr_long, am_long, cm_long] = [0, 1, 2, 3, 4, 5].map(|n| cells[n].mean());
    let limiters = Curve::of(&run, "ring.ring.converged")?.one(&[(ALGORITHM, "dvsr")]) * 1e3;
    let mut finding = Finding::default();
    settles(&mut finding, [dvsr, am, cm], [dvsr_long, am_long, cm_long], limiters);
    let mut counted = Evidence::new(
        "rings.fig20: control messages of a node on a ringlet until then; the paper has 2, 500, 180",
        &["a millisecond", "until settled"],
    );
    for (n, each) in messages(&run)?.into_iter().enumerate() {
        let until = each * cells[n].mean();
        counted.line(MODES[n], true, vec![Cell::exact(each), Cell::exact(until)]);
        few_messages(&mut finding, n, until);
    }
    let told = format!(
        "rings.fig20, {} seeds, and rings.delay-x10, {}: medians of the time from the start of the fourth flow until each flow's throughput over \
         windows of T stays within three packets of its level for 100 windows: DVSR {dvsr:.0} ms, RPR-AM {am:.0}, RPR-CM {cm:.0}; on \
         links ten times as long {dvsr_long:.0}, {am_long:.0}, {cm_long:.0} ms. DVSR's limiters are within 1 % after {limiters:.1} ms. \
         What RPR's times hang on, of the criterion and of constants that the paper does not tell, stands in the tables",
        run.file.seeds().len(),
        long.file.seeds().len()
    );
    let mut ours = Map::new();
    for (key, value) in [("dvsr_ms", dvsr), ("rpr_am_ms", am), ("rpr_cm_ms", cm), ("dvsr_link_delay_x10_ms", dvsr_long)]
    {
        ours.insert(key.into(), Value::from(value));
    }
    let [bands, holds] = criteria(&run, &long);
    let answer = finding.answer(told).with(ours);
    Ok(Answer { measured: vec![counted], sensitivity: vec![bands, holds, constants(bench)?], ..answer })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::finding::faults;
    use crate::{scenarios, simulation};

    /// A figure's first run, with these throughputs in place of its own.
    fn results(flows: &[Vec<f64>]) -> Results {
        let figure =
            scenarios::figures().into_iter().find(|figure| figure.key == "cross-check.cbr-line").expect("kept");
        let file = simulation::read(&figure.path, &figure.text, &[]).expect("readable");
        let run = file.runs().next().expect("a run").expect("good");
        let world = fairspan_sim::world::World::new(&run.scenario).expect("a world");
        let mut results = world.finish().expect("nothing went wrong");
        results.series_interval_s = 1e-3;
        results.series = flows
            .iter()
            .enumerate()
            .map(|(n, values)| fairspan_sim::results::Series {
                name: format!("flow {n} throughput"),
                unit: "bit/s".to_owned(),
                values: values.clone(),
            })
            .collect();
        results
    }

    /// 1 throughout, but for these windows after 10 of them.
    fn flow(off: &[(usize, f64)]) -> Vec<f64> {
        let mut values = vec![1.0; 400];
        off.iter().for_each(|(at, value)| values[10 + at] = *value);
        values
    }

    #[test]
    fn rates_have_settled_when_all_flows_stay_near_for_long_enough() {
        let just_in = flow(&[(7, 1.0 + NEAR - 1e-9)]);
        let just_out = flow(&[(7, 1.0 - NEAR - 1e-9)]);
        let of = |flows: &[Vec<f64>], hold| settled_ms(&results(flows), 10, NEAR, hold);
        assert_eq!(of(&[just_in.clone(), flow(&[])], HOLD), Some(0.0));
        assert_eq!(of(&[flow(&[]), just_out.clone()], HOLD), Some(8.0), "the window after the last one off");
        // Seven windows are enough where it need stay for no more than that.
        assert_eq!((of(std::slice::from_ref(&just_out), 7), of(&[just_out], 8)), (Some(0.0), Some(8.0)));
        // Off every hundredth window: never, however long the run is.
        let ever = flow(&[(5, 2.0), (104, 2.0), (150, 2.0), (204, 1.2), (300, 2.0), (350, 2.0)]);
        assert_eq!(of(&[ever], HOLD), None);
    }

    #[test]
    fn near_is_three_packets_of_the_nineteen_that_a_window_carries() {
        let of = |value: f64| settled_ms(&results(&[flow(&[(7, value)])]), 10, NEAR, HOLD);
        assert_eq!([1.15, 0.85, 1.16, 0.84].map(of), [Some(0.0), Some(0.0), Some(8.0), Some(8.0)]);
        // And it has to stay there for a hundred windows: 99 between two excursions are too few.
        let between = |good: usize| settled_ms(&results(&[flow(&[(0, 2.0), (good + 1, 2.0)])]), 10, NEAR, HOLD);
        assert_eq!((between(100), between(99)), (Some(1.0), Some(101.0)));
    }

    #[test]
    fn times_are_judged_by_two_ring_times_four_times_dvsr_s_and_ten_times_within_a_factor_of_two() {
        let inside = ([2.0, 8.01, 8.01], [10.0, 160.0, 41.0], 2.0);
        let count = |(short, long, limiters)| faults(|finding| settles(finding, short, long, limiters));
        assert_eq!(count(inside), 0);
        for (name, outside) in [
            ("DVSR", ([2.001, 8.01, 8.01], [10.01, 160.0, 41.0], 2.0)),
            ("limiters", ([2.0, 8.01, 8.01], [10.0, 160.0, 41.0], 2.01)),
            ("RPR-AM", ([2.0, 8.0, 8.01], [10.0, 160.0, 41.0], 2.0)),
            ("RPR-CM", ([2.0, 8.01, 8.0], [10.0, 160.0, 41.0], 2.0)),
            ("DVSR, too little", ([2.0, 8.01, 8.01], [9.9, 160.0, 41.0], 2.0)),
            ("RPR-AM, too much", ([2.0, 8.01, 8.01], [10.0, 160.3, 41.0], 2.0)),
            ("RPR-CM, too little", ([2.0, 8.01, 8.01], [10.0, 160.0, 40.0], 2.0)),
            ("nothing", ([2.0, 8.01, 8.01], [10.0, f64::NAN, 41.0], 2.0)),
        ] {
            assert_eq!(count(outside), 1, "{name}");
        }
    }

    #[test]
    fn control_messages_are_the_papers_within_half() {
        for (mode, low, high) in [(0, 1.0, 3.0), (1, 250.0, 750.0), (2, 90.0, 270.0)] {
            let count = |until: f64| faults(|finding| few_messages(finding, mode, until));
            assert_eq!([low, high].map(count), [0, 0], "{mode}");
            assert_eq!([low * 0.999, high * 1.001, f64::NAN].map(count), [1, 1, 1], "{mode}");
        }
    }

    #[test]
    fn an_excursion_after_the_rates_have_stayed_changes_nothing_however_long_the_run() {
        let early = flow(&[(3, 2.0)]);
        let late = flow(&[(3, 2.0), (380, 2.0)]);
        let times = [early, late].map(|flow| settled_ms(&results(&[flow]), 10, NEAR, HOLD));
        assert_eq!(times, [Some(4.0); 2]);
        // Before its level can be told.
        assert_eq!(settled_ms(&results(&[vec![1.0; 200]]), 10, NEAR, HOLD), None);
    }

    #[test]
    fn the_median_is_the_middle_one_and_what_never_comes_is_last() {
        assert_eq!(median(vec![Some(3.0), None, Some(1.0)]), 3.0);
        assert!(median(vec![None, None, Some(1.0)]).is_nan() && median(Vec::new()).is_nan());
    }
}
