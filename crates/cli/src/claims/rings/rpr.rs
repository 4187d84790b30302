//! Section IV of the rings paper: RPR's oscillations and what they cost, by the models and by simulation.

use super::cycle::{Aggressive, Conservative, Cycle};
use super::oscillation;
use crate::claims::bench::FigureRun;
use crate::claims::finding::{Curve, Finding, least, most};
use crate::claims::{Answer, Bench};
use fairspan_core::ring::NodeId;
use fairspan_core::ring::problem::Problem;
use fairspan_core::ring::rias;
use fairspan_core::units::Time;
use fairspan_sim::steps::Steps;
use serde_json::json;

/// The link's rate, bit/s.
const LINK: f64 = 622e6;
/// Section VII: 0.1 ms for a link and between messages.
const INTERVAL: f64 = 1e-4;
/// An eighth of 200 kB.
const THRESHOLD: f64 = 25_000.0;
const ALGORITHM: &str = "ring.ring.algorithm";
/// The loss of flow (1,3), of its RIAS rate: what the link leaves unused of what flow (2,3) leaves.
const UPSTREAM_LOSS: &str = "(1 - ring.ring.link.2.load) / (1 - ring.ring.link.2.load * flow.2-3.throughput / (flow.1-3.throughput + flow.2-3.throughput))";
const LAST_LOSS: &str = "flow.last.loss";
/// Settings of aggressive mode, with rampcoef: 802.17's default, and the one that Figure 10 comes of.
const RAMPS: [(&str, f64); 2] = [("rpr-am", 64.0), ("rpr-am:ramp_up_coef=512", 512.0)];
/// Settings of conservative mode that the model describes.
const MODELLED: &str = "rpr-cm:age_coef=1,active_window=2";
const UNFILTERED: &str = "rpr-cm:lp_coef=1,age_coef=1,active_window=2";
/// Downstream rates of Figure 10, Mbit/s.
const DOWNSTREAM: [f64; 10] = [5.0, 10.0, 25.0, 50.0, 75.0, 100.0, 150.0, 200.0, 250.0, 311.0];

fn aggressive(downstream: f64, ramp: f64) -> Aggressive {
    Aggressive {
        capacity: LINK,
        downstream,
        ramp,
        aging: INTERVAL,
        delay: INTERVAL,
        threshold: THRESHOLD,
        control: 0.0,
    }
}

fn conservative(flows: usize, low_pass: f64) -> Conservative {
    let others = 5e6 * (flows - 1) as f64;
    Conservative {
        capacity: LINK,
        others,
        demand: 605e6 - others,
        active: flows as f64,
        ramp: 64.0,
        low_pass,
        threshold: 0.8,
    }
}

/// Two flows over link 2, and their RIAS rates.
fn two_flows(upstream: f64, downstream: f64) -> anyhow::Result<(Problem, Vec<f64>)> {
    let mut problem = Problem::line(3, LINK)?;
    let [one, two, three] = [problem.node(1)?, problem.node(2)?, problem.node(3)?];
    problem.add(one, three, None, Some(upstream))?;
    problem.add(two, three, None, Some(downstream))?;
    let rates = rias::allocate(&problem)?.rates;
    Ok((problem, rates))
}

fn link_two() -> NodeId {
    NodeId::at(1)
}

/// Seconds from one fall to the next of a value that rises slowly and falls at once; `None` with less than two falls.
fn period(steps: &Steps, from: Time, range: (f64, f64)) -> Option<f64> {
    let middle = (range.0 + range.1) / 2.0;
    let measured: Vec<&(Time, f64)> = steps.changes().iter().filter(|(at, _)| *at >= from).collect();
    let falls: Vec<Time> =
        measured.windows(2).filter(|pair| pair[0].1 > middle && pair[1].1 <= middle).map(|pair| pair[1].0).collect();
    let (first, last) = (falls.first()?, falls.last()?);
    (falls.len() > 1).then(|| last.since(*first).as_secs_f64() / (falls.len() - 1) as f64)
}

/// The mean period of a limiter over the seeds, at the points with this algorithm.
fn periods(run: &FigureRun, algorithm: &str, limit: &str, cycle: &Cycle) -> f64 {
    let at = |parameters: &[(String, String)]| {
        parameters.iter().any(|(name, value)| name == ALGORITHM && value.trim_matches('"') == algorithm)
    };
    let found: Vec<f64> = (run.batch.finished.iter().filter(|finished| at(&finished.parameters)))
        .flat_map(|finished| finished.results.rings.iter().flat_map(|ring| ring.limits.iter()))
        .filter(|found| found.name == limit)
        .filter_map(|found| period(&found.steps, Time::from_millis(1000), (cycle.least(), cycle.most())))
        .collect();
    if found.is_empty() { f64::NAN } else { found.iter().sum::<f64>() / found.len() as f64 }
}

/// Compares a limiter's cycle with the model's: lowest, mean and highest rate within `share` of the link, the period within
/// `share` of that of `timed`, or two intervals. What there is to tell.
fn compare(
    run: &FigureRun,
    finding: &mut Finding,
    (algorithm, limit): (&str, &str),
    cycle: &Cycle,
    timed: &Cycle,
    share: f64,
) -> anyhow::Result<String> {
    let at = [(ALGORITHM, algorithm)];
    let mut rates = Vec::new();
    for (statistic, model) in [("min", cycle.least()), ("mean", cycle.mean()), ("max", cycle.most())] {
        let ours = Curve::of(run, &format!("ring.ring.limit.{limit}.{statistic}"))?.one(&at);
        finding.check((ours - model).abs() <= share * LINK, || {
            format!("{algorithm}: the {statistic} rate is {:.0} Mbit/s, {:.0} by the model", ours / 1e6, model / 1e6)
        });
        rates.push(format!("{:.0} ({:.0})", ours / 1e6, model / 1e6));
    }
    let (ours, model) = (periods(run, algorithm, limit, cycle), timed.rates.len() as f64 * INTERVAL);
    finding.check((ours - model).abs() <= (share * model).max(2.0 * INTERVAL), || {
        format!("{algorithm}: the period is {:.1} ms, {:.1} ms by the model", ours * 1e3, model * 1e3)
    });
    Ok(format!(
        "{algorithm}: lowest, mean and highest rate {} Mbit/s, period {:.1} ({:.1}) ms",
        rates.join(", "),
        ours * 1e3,
        model * 1e3
    ))
}

/// Figure 9(a) and Proposition 2.
pub(crate) fn am_oscillation(bench: &mut Bench) -> anyhow::Result<Answer> {
    let mut finding = Finding::default();
    let run = bench.figure("rings.fig09")?;
    let mut told = Vec::new();
    let control = Curve::of(&run, "ring.ring.link.2.control_load")?;
    let (mut periods, mut loads) = (Vec::new(), Vec::new());
    for (algorithm, ramp) in RAMPS {
        let cycle = aggressive(5e6, ramp).cycle();
        let load = control.one(&[(ALGORITHM, algorithm)]);
        let timed = Aggressive { control: load * LINK, ..aggressive(5e6, ramp) }.cycle();
        told.push(compare(&run, &mut finding, (algorithm, "1-3"), &cycle, &timed, 0.02)?);
        loads.push(load);
        periods.push(format!("{:.1} ms", cycle.rates.len() as f64 * INTERVAL * 1e3));
    }
    let sweep = bench.figure("rings.fig10")?;
    let swing = Curve::of(&sweep, "ring.ring.limit.1-3.oscillation")?;
    for (algorithm, _) in RAMPS {
        for downstream in DOWNSTREAM {
            let (problem, rates) = two_flows(LINK, downstream * 1e6)?;
            let predicted = oscillation::aggressive(&problem, &rates, link_two());
            let ours = swing.one(&[(ALGORITHM, algorithm), ("flow.2-3.rate", &format!("{downstream}Mbit"))]);
            let range = predicted.map_or(0.0, |predicted| (predicted.most - predicted.least) / LINK);
            // A balanced rate moves by an interval or two of growth, one 64th of half the link each.
            let holds = if range > 0.0 { ours >= 0.98 * range } else { ours < 0.03 };
            finding.check(holds, || {
                format!("{algorithm}, {downstream} Mbit/s downstream: Proposition 2 says a swing of {range:.3} of the link, ours is {ours:.3}")
            });
        }
    }
    Ok(finding.answer(format!(
        "rings.fig09 and fig10, ours (model): {}. The model's periods count what control messages take of the link, {:.2} %, which \
         at 5 Mbit/s downstream matters; as printed it says {}. At ten downstream rates the flow oscillates where \
         Proposition 2 says so, and at least as far",
        told.join("; "),
        100.0 * most(&loads),
        periods.join(" and ")
    )))
}

/// Figure 10.
pub(crate) fn am_loss(bench: &mut Bench) -> anyhow::Result<Answer> {
    let run = bench.figure("rings.fig10")?;
    let loss = Curve::of(&run, UPSTREAM_LOSS)?;
    let (mut finding, mut told, mut worst) = (Finding::default(), Vec::new(), Vec::new());
    for (algorithm, ramp) in RAMPS {
        let (mut ours, mut apart) = (Vec::new(), Vec::new());
        for downstream in DOWNSTREAM {
            let (problem, rates) = two_flows(LINK, downstream * 1e6)?;
            let flows = aggressive(downstream * 1e6, ramp);
            let oscillates = oscillation::aggressive(&problem, &rates, link_two()).is_some();
            let model = if oscillates { flows.cycle().loss(flows.fair()) } else { 0.0 };
            let found = loss.one(&[(ALGORITHM, algorithm), ("flow.2-3.rate", &format!("{downstream}Mbit"))]);
            ours.push(found);
            apart.push((found - model).abs());
        }
        finding.check(most(&apart) <= 0.02, || format!("{algorithm}: the model is off by {:.3}", most(&apart)));
        let top = most(&ours);
        let rises = ours[0] < top && ours[DOWNSTREAM.len() - 1] < 0.01;
        finding.check(rises, || format!("{algorithm}: the loss is not greatest between a trickle and 311 Mbit/s"));
        told.push(format!("rampcoef {ramp}: at most {top:.3}, model and simulation within {:.3}", most(&apart)));
        worst.push(top);
    }
    let top = (worst[1] * 1e4).round() / 1e4;
    let answer = finding.answer(format!(
        "rings.fig10, loss as a share of the flow's RIAS rate. {}. The paper does not give rampcoef: its 26 % comes of 512, the \
         largest that 802.17 allows, and 802.17's default 64 loses less. The abstract's 33 % for two flows is not reached \
         in this mode: without any queue the model comes to 0.30; 0.33 is what the conservative mode loses unfiltered \
         where 5 and 622 Mbit/s are offered",
        told.join("; ")
    ));
    let ours = json!({ "worst_loss_fig10": top, "worst_loss_abstract": top });
    Ok(Answer { ours: ours.as_object().cloned().unwrap_or_default(), ..answer })
}

/// Figure 9(b) and Proposition 3.
pub(crate) fn cm_oscillation(bench: &mut Bench) -> anyhow::Result<Answer> {
    let mut finding = Finding::default();
    let run = bench.figure("rings.fig09")?;
    let two = |low_pass| Conservative { demand: 600e6, ..conservative(2, low_pass) };
    let mut told = Vec::new();
    for (algorithm, low_pass) in [(UNFILTERED, 1.0), (MODELLED, 64.0)] {
        let cycle = two(low_pass).cycle();
        told.push(compare(&run, &mut finding, (algorithm, "2-3"), &cycle, &cycle, 0.03)?);
    }
    let (problem, rates) = two_flows(5e6, 600e6)?;
    let predicted = oscillation::conservative(&problem, &rates, link_two(), 0.8 * LINK);
    finding.check(predicted.is_some_and(|predicted| predicted.flow == 1), || "Proposition 3 says nothing".to_owned());
    let top = Curve::of(&run, "ring.ring.limit.2-3.max")?;
    let unfiltered = top.one(&[(ALGORITHM, UNFILTERED)]);
    // A packet of 1 kB more or less in an interval is 80 Mbit/s unfiltered.
    finding.check((unfiltered - (0.8 * LINK - 5e6)).abs() < 0.03 * LINK, || {
        format!("the highest rate is {:.0} Mbit/s, low_threshold - 5 is 493", unfiltered / 1e6)
    });
    Ok(finding.answer(format!(
        "rings.fig09, ours (model): {}. The proposition's upper end, low_threshold - 5 = 493 Mbit/s, is that without low-pass \
         filter; with it the rate goes further before the filter shows it. The proposition's second condition is read \
         with `less`, as its own example needs",
        told.join("; ")
    )))
}

/// Figure 11.
pub(crate) fn cm_loss(bench: &mut Bench) -> anyhow::Result<Answer> {
    let run = bench.figure("rings.fig11")?;
    let loss = Curve::of(&run, LAST_LOSS)?;
    let mut finding = Finding::default();
    let flows = 2..=10;
    let (mut ours, mut usual, mut apart) = (Vec::new(), Vec::new(), Vec::new());
    for flows in flows {
        let flow = conservative(flows, 64.0);
        let count = (flows - 1).to_string();
        let of = |algorithm: &str| loss.one(&[(ALGORITHM, algorithm), ("flow.other#.count", &count)]);
        ours.push(of(MODELLED));
        usual.push(of("rpr-cm"));
        apart.push((of(MODELLED) - flow.cycle().loss(flow.demand)).abs());
    }
    finding.check(most(&apart) <= 0.03, || format!("the model is off by {:.3}", most(&apart)));
    let worst = (most(&ours) * 1e4).round() / 1e4;
    let answer = finding.answer(format!(
        "rings.fig11, two to ten flows, loss as a share of the last flow's demand: {:.3} to {:.3}, model and simulation within \
         {:.3}. Not given and 802.17's: rampcoef and LPCOEF 64, whose ratio decides. With 802.17's window of one interval the \
         trickles, a packet every 160 us, are not always active: {:.3} to {:.3}",
        least(&ours),
        most(&ours),
        most(&apart),
        least(&usual),
        most(&usual)
    ));
    Ok(Answer { ours: json!({ "worst_loss": worst }).as_object().cloned().unwrap_or_default(), ..answer })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{scenarios, simulation};

    #[test]
    fn a_period_is_the_time_from_fall_to_fall() {
        let mut steps = Steps::new(0.0);
        for tick in 1..100u64 {
            steps.set(Time::from_millis(tick), (tick % 10) as f64);
        }
        let found = period(&steps, Time::from_millis(5), (0.0, 9.0)).unwrap();
        assert!((found - 0.01).abs() < 1e-12, "{found}");
        assert_eq!(period(&steps, Time::from_millis(85), (0.0, 9.0)), None, "one fall is no period");
    }

    #[test]
    fn the_abstracts_third_is_not_the_aggressive_modes_and_may_be_the_conservative_modes() {
        let queueless = |downstream: &f64| {
            let flows = Aggressive { threshold: 0.0, ..aggressive(downstream * 1e6, 64.0) };
            flows.cycle().loss(flows.fair())
        };
        let worst = most(&DOWNSTREAM.iter().map(queueless).collect::<Vec<_>>());
        assert!((worst - 0.30).abs() < 0.005, "{worst}");
        let loss = Conservative { demand: LINK, ..conservative(2, 1.0) }.cycle().loss(LINK - 5e6);
        assert!((loss - 0.33).abs() < 0.01, "{loss}");
    }

    /// What a figure's expectations say of `metric` at this value of a parameter.
    fn expected(key: &str, metric: &str, wanted: &[(&str, &str)]) -> f64 {
        let figure = scenarios::figures().into_iter().find(|figure| figure.key == key).unwrap();
        let file = simulation::read(&figure.path, &figure.text, &[]).unwrap();
        let is = |at: &[(String, String)], (name, value): &(&str, &str)| {
            at.iter().any(|(known, found)| known == name && found.trim_matches('"') == *value)
        };
        let mut found = (file.expectations().iter())
            .filter(|expected| expected.metric.text() == metric && wanted.iter().all(|one| is(&expected.at, one)));
        let value = found.next().unwrap_or_else(|| panic!("{key}: {metric} at {wanted:?}")).value.unwrap();
        assert!(found.next().is_none(), "{key}: {metric} at {wanted:?} is expected twice");
        value
    }

    #[test]
    fn the_figures_expect_what_the_models_say() {
        let close =
            |found: f64, model: f64, distance: f64| assert!((found - model).abs() <= distance, "{found} {model}");
        for (algorithm, ramp) in RAMPS {
            for downstream in DOWNSTREAM {
                let flows = aggressive(downstream * 1e6, ramp);
                let model = if downstream < 311.0 { flows.cycle().loss(flows.fair()) } else { 0.0 };
                let at = format!("{downstream}Mbit");
                let wanted = [(ALGORITHM, algorithm), ("flow.2-3.rate", at.as_str())];
                close(expected("rings.fig10", UPSTREAM_LOSS, &wanted), model, 5.1e-5);
            }
            let cycle = aggressive(5e6, ramp).cycle();
            for (statistic, model) in [("min", cycle.least()), ("mean", cycle.mean()), ("max", cycle.most())] {
                let metric = format!("ring.ring.limit.1-3.{statistic}");
                close(expected("rings.fig09", &metric, &[(ALGORITHM, algorithm)]), model, 0.051e6);
            }
        }
        for (algorithm, low_pass) in [(UNFILTERED, 1.0), (MODELLED, 64.0)] {
            let cycle = Conservative { demand: 600e6, ..conservative(2, low_pass) }.cycle();
            for (statistic, model) in [("min", cycle.least()), ("mean", cycle.mean()), ("max", cycle.most())] {
                let metric = format!("ring.ring.limit.2-3.{statistic}");
                close(expected("rings.fig09", &metric, &[(ALGORITHM, algorithm)]), model, 0.051e6);
            }
        }
        for flows in 2..=10 {
            let flow = conservative(flows, 64.0);
            let count = (flows - 1).to_string();
            let wanted = [(ALGORITHM, MODELLED), ("flow.other#.count", count.as_str())];
            close(expected("rings.fig11", LAST_LOSS, &wanted), flow.cycle().loss(flow.demand), 5.1e-5);
        }
    }
}
