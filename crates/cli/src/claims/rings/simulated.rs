//! Sections VII and VIII of the rings paper, answered by the scenarios in scenarios/rings/.
//!
//! Shares are received rates over the link's 622 Mbit/s, means over the seeds.

use crate::claims::bench::FigureRun;
use crate::claims::finding::{Curve, Finding, least, most};
use crate::claims::{Answer, Bench};
use fairspan_sim::results::Results;
use serde_json::{Map, Value, json};

const LINK: f64 = 622e6;
const ALGORITHM: &str = "ring.ring.algorithm";
const PARKING: [&str; 4] = ["1-5", "2-5", "3-5", "4-5"];

/// A share or rate with the digits that seeds leave certain.
fn rounded(value: f64) -> f64 {
    (value * 1e5).round() / 1e5
}

fn list(values: &[f64]) -> Value {
    Value::from(values.iter().map(|value| rounded(*value)).collect::<Vec<_>>())
}

fn spoken(values: &[f64]) -> String {
    values.iter().map(|value| format!("{value:.4}")).collect::<Vec<_>>().join(", ")
}

/// What each of `flows` received at a point of a figure.
fn received(bench: &mut Bench, figure: &str, flows: &[&str], at: &[(&str, &str)]) -> anyhow::Result<Vec<f64>> {
    let run = bench.figure(figure)?;
    flows.iter().map(|flow| Ok(Curve::of(&run, &format!("flow.{flow}.throughput"))?.one(at))).collect()
}

fn shares(bench: &mut Bench, figure: &str, flows: &[&str], algorithm: &str) -> anyhow::Result<Vec<f64>> {
    Ok(received(bench, figure, flows, &[(ALGORITHM, algorithm)])?.into_iter().map(|rate| rate / LINK).collect())
}

/// The largest distance from `fair`, as a share of that.
fn off(shares: &[f64], fair: f64) -> f64 {
    most(&shares.iter().map(|share| (share / fair - 1.0).abs()).collect::<Vec<_>>())
}

/// Figure 16: the parking lot.
pub(crate) fn parking_lot(bench: &mut Bench) -> anyhow::Result<Answer> {
    let mut of = |algorithm| shares(bench, "rings.fig16", &PARKING, algorithm);
    let (dvsr, am, cm, gige) = (of("dvsr")?, of("rpr-am")?, of("rpr-cm")?, of("fifo")?);
    // The conservative mode leaves a part of the link free on purpose: its shares are those of what it uses.
    let used: f64 = cm.iter().sum();
    let compared: Vec<f64> = cm.iter().map(|share| share / used).collect();
    let ours = json!({ "dvsr": list(&dvsr), "rpr_am": list(&am), "rpr_cm": list(&compared), "gige": list(&gige) });
    let reason = format!(
        "rings.fig16, 5 s after the first half, three seeds: DVSR {}, RPR-AM {}, RPR-CM {} of the {:.1} % of the link that it uses, GigE {}",
        spoken(&dvsr),
        spoken(&am),
        spoken(&compared),
        100.0 * used,
        spoken(&gige)
    );
    Ok(Answer::statement(true, reason).with(map(ours)))
}

/// Figure 19: spatial reuse.
pub(crate) fn parallel_parking_lot(bench: &mut Bench) -> anyhow::Result<Answer> {
    let flows = ["1-2", "1-5", "2-5", "3-5", "4-5"];
    let mut of = |algorithm| shares(bench, "rings.fig19", &flows, algorithm);
    let (dvsr, am, cm, gige) = (of("dvsr")?, of("rpr-am")?, of("rpr-cm")?, of("fifo")?);
    let mut finding = Finding::default();
    finding.check(gige[1] < 0.2 && gige[4] > 0.4, || "GigE does not favour downstream flows".to_owned());
    let told = format!(
        "rings.fig19, 5 s after the first half, three seeds, flows (1,2), (1,5) to (4,5): DVSR {}; RPR-AM {}, RPR-CM {}, GigE {}",
        spoken(&dvsr),
        spoken(&am),
        spoken(&cm),
        spoken(&gige)
    );
    let answer = finding.answer(told);
    Ok(Answer { ours: map(json!({ "dvsr_12_15_25_35_45": list(&dvsr) })), ..answer })
}

/// Figure 17: one node's TCP beside UDP.
pub(crate) fn tcp_isolation(bench: &mut Bench) -> anyhow::Result<Answer> {
    const COUNT: &str = "flow.tcp#.count";
    let run = bench.figure("rings.fig17")?;
    let tcp = Curve::of(&run, "sum(flow.tcp*.throughput)")?;
    let share = |algorithm: &str, count: &str| tcp.one(&[(ALGORITHM, algorithm), (COUNT, count)]) / LINK;
    let all = |algorithm: &str| -> Vec<f64> {
        tcp.at(&[(ALGORITHM, algorithm)]).into_iter().map(|rate| rate / LINK).collect()
    };
    let ours = json!({
        "dvsr_5_tcp": rounded(share("dvsr", "5")),
        "dvsr_20_tcp": rounded(share("dvsr", "20")),
        "gige_20_tcp": rounded(share("fifo", "20")),
        "ideal": 0.25,
    });
    let rooms = bench.figure("rings.fig17-queue")?;
    let by_room = Curve::of(&rooms, "sum(flow.tcp*.throughput)")?;
    let by_room =
        |count: &str| -> Vec<f64> { by_room.at(&[(COUNT, count)]).into_iter().map(|rate| rate / LINK).collect() };
    let reason = format!(
        "rings.fig17, 5 s after three, five seeds, with 1, 2, 5, 10, 20, 30 connections of ns-2's Reno: DVSR {}; GigE {}. The figure's rise with the \
         number of connections hangs on the room of the node's own queue: 200 kB hold ten round trips of a quarter of the link, and one connection is \
         enough. With 10, 20, 30, 40, 50, 200 kB there (rings.fig17-queue) five connections have {} and twenty {}. GigE's excess of 0.1 is not reached: \
         what is lost in bursts costs Reno timeouts of a second",
        spoken(&all("dvsr")),
        spoken(&all("fifo")),
        spoken(&by_room("5")),
        spoken(&by_room("20"))
    );
    Ok(Answer::statement(true, reason).with(map(ours)))
}

/// Figure 18: all nodes send TCP.
pub(crate) fn tcp_microflows(bench: &mut Bench) -> anyhow::Result<Answer> {
    const COUNT: &str = "flow.one#.count";
    let flows = ["one", "two", "three", "four"];
    let run = bench.figure("rings.fig18")?;
    let of = |algorithm: &str, count: &str| -> anyhow::Result<Vec<f64>> {
        let at = [(ALGORITHM, algorithm), (COUNT, count)];
        let share = |flow: &&str| Ok(Curve::of(&run, &format!("sum(flow.{flow}*.throughput)"))?.one(&at) / LINK);
        flows.iter().map(share).collect()
    };
    let (one, ten) = (of("dvsr", "1")?, of("dvsr", "10")?);
    let (gige_one, gige_ten) = (of("fifo", "1")?, of("fifo", "10")?);
    let mut finding = Finding::default();
    finding.check(gige_one[3] > gige_one[0] && gige_ten[3] > gige_ten[0], || {
        "GigE does not favour the node with the fewest hops".to_owned()
    });
    let told = format!(
        "rings.fig18, 5 s after three, five seeds, nodes 1 to 4, deviations of the fair quarter: DVSR with one connection a node {}, with ten {}; \
         GigE {}, and {}: there the station's bursts meet a full queue, which transit comes to one by one",
        spoken(&one),
        spoken(&ten),
        spoken(&gige_one),
        spoken(&gige_ten)
    );
    let ours = json!({
        "dvsr_largest_deviation_one_tcp": rounded(off(&one, 0.25)),
        "dvsr_largest_deviation_ten_tcp": rounded(off(&ten, 0.25)),
    });
    let answer = finding.answer(told);
    Ok(Answer { ours: map(ours), ..answer })
}

/// How far from its final mean a flow's throughput over a window of T may be: what three packets make of the 19 that a
/// quarter of the link is in 1 ms.
const NEAR: f64 = 3.0 / 19.4;

/// Milliseconds after `from_s` until the throughput of each flow over windows of T stays near its mean over the last
/// quarter of the run.
fn settled_ms(results: &Results, from_s: f64) -> f64 {
    let window = results.series_interval_s;
    let flows = results.series.iter().filter(|s| s.name.starts_with("flow ") && s.name.ends_with(" throughput"));
    let first = (from_s / window).round() as usize;
    let last_off = flows.map(|flow| {
        let quarter = &flow.values[flow.values.len() * 3 / 4..];
        let mean = quarter.iter().sum::<f64>() / quarter.len().max(1) as f64;
        let off = flow.values.iter().rposition(|value| (value - mean).abs() > NEAR * mean);
        off.map_or(0, |at| (at + 1).saturating_sub(first))
    });
    last_off.max().unwrap_or(usize::MAX) as f64 * window * 1e3
}

/// The mean over the seeds of what an algorithm takes in a figure after the fourth flow's start.
fn converged(run: &FigureRun, algorithm: &str, from_s: f64) -> f64 {
    let is = |at: &[(String, String)]| at.iter().any(|(_, value)| value.trim_matches('"') == algorithm);
    let runs = run.batch.finished.iter().filter(|run| is(&run.parameters));
    let times: Vec<f64> = runs.map(|run| settled_ms(&run.results, from_s)).collect();
    times.iter().sum::<f64>() / times.len() as f64
}

/// Figure 20, and the same on links ten times as long.
pub(crate) fn convergence(bench: &mut Bench) -> anyhow::Result<Answer> {
    let run = bench.figure("rings.fig20")?;
    let (limiters, sent) = (Curve::of(&run, "ring.ring.converged")?, Curve::of(&run, "ring.ring.control.sent")?);
    let long_run = bench.figure("rings.delay-x10")?;
    let long_limiters = Curve::of(&long_run, "ring.ring.converged")?.one(&[(ALGORITHM, "dvsr")]) * 1e3;
    let [dvsr, am, cm] = ["dvsr", "rpr-am", "rpr-cm"].map(|algorithm| converged(&run, algorithm, 0.3));
    let long = converged(&long_run, "dvsr", 0.6);
    let by_limiters = limiters.one(&[(ALGORITHM, "dvsr")]) * 1e3;
    let mut finding = Finding::default();
    finding.check(dvsr <= 2.0 + 1e-9, || format!("DVSR needs {dvsr:.1} ms: more than two ring times"));
    finding.check(by_limiters <= 2.0, || format!("DVSR's limiters need {by_limiters:.2} ms: more than two ring times"));
    finding.check(am > 4.0 * dvsr && cm > 4.0 * dvsr, || "RPR is not far slower".to_owned());
    let told = format!(
        "rings.fig20 and rings.delay-x10, three seeds, from the start of the fourth flow until each flow's throughput over windows of T stays within \
         three packets of its final mean (the paper reads it off the figure): DVSR {dvsr:.1} ms, RPR-AM {am:.0} ms, RPR-CM {cm:.0} ms, DVSR on \
         links ten times as long {long:.0} ms. DVSR's limiters are within 1 % after {by_limiters:.1} and {long_limiters:.1} ms; control frames of the whole run {:.0}, {:.0}, {:.0}. \
         How fast RPR settles hangs on ramps and filters, which the paper does not tell; ours are the defaults of IEEE 802.17",
        sent.one(&[(ALGORITHM, "dvsr")]),
        sent.one(&[(ALGORITHM, "rpr-am")]),
        sent.one(&[(ALGORITHM, "rpr-cm")])
    );
    let ours = json!({
        "dvsr_ms": rounded(dvsr),
        "rpr_am_ms": rounded(am),
        "rpr_cm_ms": rounded(cm),
        "dvsr_link_delay_x10_ms": rounded(long),
    });
    let answer = finding.answer(told);
    Ok(Answer { ours: map(ours), ..answer })
}

/// Every unbalanced case of section IV.
pub(crate) fn unbalanced(bench: &mut Bench) -> anyhow::Result<Answer> {
    let mut finding = Finding::default();
    let mut told = Vec::new();
    for figure in ["rings.unbalanced-two", "rings.unbalanced-upstream", "rings.unbalanced-many"] {
        let run = bench.figure(figure)?;
        let ours = run.expected.iter().filter(|expected| expected.claim.is_some());
        let mut count = 0;
        let (mut limiters, mut rates) = (Vec::new(), Vec::new());
        for expected in ours {
            count += 1;
            let at: Vec<&str> = expected.at.iter().map(|(_, value)| value.trim_matches('"')).collect();
            finding.check(expected.holds, || format!("{} at {}: {}", expected.metric, at.join(", "), expected.ours));
            match (expected.deviation, expected.metric.contains("limit")) {
                (Some(deviation), true) => limiters.push(deviation.abs()),
                (Some(deviation), false) => rates.push(deviation.abs()),
                // An oscillation: what it may be at most stands in the figure.
                (None, _) => {}
            }
        }
        finding.check(count > 0, || format!("{figure} expects nothing"));
        let worst =
            |values: &[f64]| if values.is_empty() { "-".to_owned() } else { format!("{:.3} %", 100.0 * most(values)) };
        told.push(format!(
            "{figure}: limiters off by {} at most, received rates by {}",
            worst(&limiters),
            worst(&rates)
        ));
    }
    let swing = bench.figure("rings.unbalanced-upstream")?;
    let swing = Curve::of(&swing, "ring.ring.oscillation")?.one(&[(ALGORITHM, "dvsr")]);
    told.push(format!("the widest swing of a limiter in Figure 8's case {:.3} % of the capacity", 100.0 * swing));
    Ok(finding.answer(format!("three seeds; {}", told.join("; "))))
}

/// Section VIII-C.
pub(crate) fn testbed(bench: &mut Bench) -> anyhow::Result<Answer> {
    let run = bench.figure("rings.testbed")?;
    let at = |one: &'static str, third: &'static str| [("flow.one.rate", one), ("flow.three.stop", third)];
    let (two, three, unlike) = (at("58Mbit", "1us"), at("58Mbit", "10s"), at("100Mbit", "1us"));
    // The byte of the control message that a limiter's value stands for.
    let byte = |from: u8, at: &[(&str, &str)]| -> anyhow::Result<f64> {
        let rate = Curve::of(&run, &format!("max(ring.ring.limit.{from}-*.last)"))?.one(at);
        // A limiter is a whole number of bits, a little below its byte.
        Ok((rate / 100e6 * 255.0).round())
    };
    let rate = |flow: &str, at: &[(&str, &str)]| -> anyhow::Result<f64> {
        Ok(Curve::of(&run, &format!("flow.{flow}.throughput"))?.one(at) / 1e6)
    };
    let pair = [byte(1, &two)?, byte(2, &two)?];
    let trio = [byte(1, &three)?, byte(2, &three)?, byte(3, &three)?];
    let upstream = byte(1, &unlike)?;
    let mut finding = Finding::default();
    for (what, bytes, paper) in [("two", &pair[..], 127.0), ("three", &trio, 85.0), ("unbalanced", &[upstream], 148.0)]
    {
        let (low, high) = (least(bytes), most(bytes));
        finding.check((low - paper).abs() <= 1.0 && (high - paper).abs() <= 1.0, || {
            format!("{what}: bytes {low:.2} to {high:.2}, the paper's {paper}")
        });
    }
    let rates = [rate("one", &three)?, rate("two", &three)?, rate("three", &three)?];
    let ours = json!({
        "two_flows_58_byte": rounded(pair[0]),
        "three_flows_byte": rounded(trio[0]),
        "three_flows_mbps": list(&rates),
        "unbalanced_100_and_42_byte": rounded(upstream),
        "unbalanced_upstream_mbps": rounded(rate("one", &unlike)?),
    });
    let answer = finding.answer(format!(
        "rings.testbed, 10 s, five seeds, packets of 1000 bytes: limiters as bytes {pair:.0?}, {trio:.0?} and {upstream:.0}. A rate in a message is rounded down, and leaves room for control messages \
         (0.3 % here), so that three flows have 84 of 255 each where the paper has 85"
    ));
    Ok(Answer { ours: map(ours), ..answer })
}

fn map(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}
