//! Sections VII and VIII of the rings paper, answered by the scenarios in scenarios/rings/.
//!
//! Shares are received rates over the link's 622 Mbit/s, means over the seeds.

use crate::claims::bench::FigureRun;
use crate::claims::evidence::{Cell, Evidence};
use crate::claims::finding::{Curve, Finding, least, most};
use crate::claims::{Answer, Bench};
use serde_json::{Map, Value, json};

pub(super) const LINK: f64 = 622e6;
const ALGORITHM: &str = "ring.ring.algorithm";
pub(super) const PARKING: [&str; 4] = ["1-5", "2-5", "3-5", "4-5"];

/// The flows of Figure 19 and their RIAS rates.
pub(super) const REUSE: [&str; 5] = ["1-2", "1-5", "2-5", "3-5", "4-5"];
pub(super) const FAIR: [f64; 5] = [0.75, 0.25, 0.25, 0.25, 0.25];

/// A share or rate with the digits that seeds leave certain.
pub(super) fn rounded(value: f64) -> f64 {
    (value * 1e5).round() / 1e5
}

pub(super) fn list(values: &[f64]) -> Value {
    Value::from(values.iter().map(|value| rounded(*value)).collect::<Vec<_>>())
}

pub(super) fn spoken(values: &[f64]) -> String {
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
pub(super) fn off(shares: &[f64], fair: f64) -> f64 {
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
        "rings.fig16, 5 s after the first half, {} seeds: DVSR {}, RPR-AM {}, RPR-CM {} of the {:.1} % of the link that it uses, GigE {}",
        bench.figure("rings.fig16")?.file.seeds().len(),
        spoken(&dvsr),
        spoken(&am),
        spoken(&compared),
        100.0 * used,
        spoken(&gige)
    );
    Ok(Answer::statement(true, reason).with(map(ours)))
}

/// What Figure 19's text says of the others than DVSR: RPR's modes reach the RIAS rates within DVSR's 1 %, GigE favours downstream flows.
pub(super) fn spatial_reuse(finding: &mut Finding, am: &[f64], cm: &[f64], gige: &[f64]) {
    finding.check(gige[1] < 0.2 && gige[4] > 0.4, || "GigE does not favour downstream flows".to_owned());
    for (name, shares) in [("RPR-AM", am), ("RPR-CM", cm)] {
        let apart = most(&shares.iter().zip(FAIR).map(|(ours, fair)| (ours / fair - 1.0).abs()).collect::<Vec<_>>());
        finding.check(apart <= 0.01, || format!("{name} is off the RIAS rates by {:.1} %", 100.0 * apart));
    }
}

/// Figure 19: spatial reuse.
pub(crate) fn parallel_parking_lot(bench: &mut Bench) -> anyhow::Result<Answer> {
    let mut of = |algorithm| shares(bench, "rings.fig19", &REUSE, algorithm);
    let (dvsr, am, cm, gige) = (of("dvsr")?, of("rpr-am")?, of("rpr-cm")?, of("fifo")?);
    let mut finding = Finding::default();
    spatial_reuse(&mut finding, &am, &cm, &gige);
    let used = cm[1..].iter().sum::<f64>();
    let equal = cm[1..].iter().map(|share| 4.0 * share / used).map(|share| (share - 1.0).abs()).fold(0.0, f64::max);
    let told = format!(
        "rings.fig19, 5 s after the first half, {} seeds, flows (1,2), (1,5) to (4,5), destination queues on: DVSR {}; RPR-AM {}, RPR-CM {}, GigE {}. RPR-CM keeps links under its high \
         threshold of 0.95 and uses {:.1} % of the fourth one; of that its four flows have equal parts within {:.1} %",
        bench.figure("rings.fig19")?.file.seeds().len(),
        spoken(&dvsr),
        spoken(&am),
        spoken(&cm),
        spoken(&gige),
        100.0 * used,
        100.0 * equal
    );
    let answer = finding.answer(told);
    let ours = map(json!({ "dvsr_12_15_25_35_45": list(&dvsr) }));
    Ok(Answer { ours, ..answer })
}

/// The byte of a control message that stands for a limiter's rate on the testbed's links of 100 Mbit/s.
fn byte(rate: f64) -> f64 {
    // A limiter is a whole number of bits, a little below its byte.
    (rate / 100e6 * 255.0).round()
}

/// Whether the bytes of two and of three flows, and of the upstream one of two unlike ones, are the paper's but for one.
fn near_the_papers(finding: &mut Finding, two: &[f64], three: &[f64], unbalanced: f64) {
    for (what, bytes, paper) in [("two", two, 127.0), ("three", three, 85.0), ("unbalanced", &[unbalanced], 148.0)] {
        let (low, high) = (least(bytes), most(bytes));
        finding.check((low - paper).abs() <= 1.0 && (high - paper).abs() <= 1.0, || {
            format!("{what}: bytes {low:.2} to {high:.2}, the paper's {paper}")
        });
    }
}

/// A point of the testbed's figure, by the first flow's rate and the end of the third one.
fn at(one: &'static str, third: &'static str) -> [(&'static str, &'static str); 2] {
    [("flow.one.rate", one), ("flow.three.stop", third)]
}

/// The byte of the control message that a limiter's value at a point stands for.
fn told(run: &FigureRun, from: u8, at: &[(&str, &str)]) -> anyhow::Result<f64> {
    Ok(byte(Curve::of(run, &format!("max(ring.ring.limit.{from}-*.last)"))?.one(at)))
}

/// What becomes of the bytes with other packets.
fn by_size(bench: &mut Bench) -> anyhow::Result<Evidence> {
    const USED: &str = "1000B";
    let columns = ["two flows: byte", "three flows: byte", "unbalanced: byte", "control messages, % of the link"];
    let mut table = Evidence::new("the workstations' packets; the paper does not tell them", &columns);
    for size in ["250B", "500B", USED, "1500B"] {
        let other = [("flow.one.size", size), ("flow.two.size", size), ("flow.three.size", size)];
        let run = bench.figure_with("rings.testbed", &other)?;
        let (two, three, unlike) = (at("58Mbit", "1us"), at("58Mbit", "10s"), at("100Mbit", "1us"));
        let bytes = [told(&run, 1, &two)?, told(&run, 1, &three)?, told(&run, 1, &unlike)?];
        let control = Curve::of(&run, "ring.ring.link.3.control_load")?.one(&three);
        table.line(size, size == USED, bytes.into_iter().chain([100.0 * control]).map(Cell::exact).collect());
    }
    Ok(table)
}

/// Section VIII-C.
pub(crate) fn testbed(bench: &mut Bench) -> anyhow::Result<Answer> {
    let run = bench.figure("rings.testbed")?;
    let (two, three, unlike) = (at("58Mbit", "1us"), at("58Mbit", "10s"), at("100Mbit", "1us"));
    let byte = |from: u8, at: &[(&str, &str)]| told(&run, from, at);
    let rate = |flow: &str, at: &[(&str, &str)]| -> anyhow::Result<f64> {
        Ok(Curve::of(&run, &format!("flow.{flow}.throughput"))?.one(at) / 1e6)
    };
    let pair = [byte(1, &two)?, byte(2, &two)?];
    let trio = [byte(1, &three)?, byte(2, &three)?, byte(3, &three)?];
    let upstream = byte(1, &unlike)?;
    let mut finding = Finding::default();
    near_the_papers(&mut finding, &pair, &trio, upstream);
    let rates = [rate("one", &three)?, rate("two", &three)?, rate("three", &three)?];
    let ours = json!({
        "two_flows_58_byte": rounded(pair[0]),
        "three_flows_byte": rounded(trio[0]),
        "three_flows_mbps": list(&rates),
        "unbalanced_100_and_42_byte": rounded(upstream),
        "unbalanced_upstream_mbps": rounded(rate("one", &unlike)?),
    });
    let answer = finding.answer(format!(
        "rings.testbed, 10 s, {} seeds, packets of 1000 bytes: limiters as bytes {pair:.0?}, {trio:.0?} and {upstream:.0}. A rate in a message is rounded down, and leaves room for control messages \
         ({:.1} % here), so that three flows have {:.0} of 255 each where the paper has 85",
        run.file.seeds().len(),
        100.0 * Curve::of(&run, "ring.ring.link.3.control_load")?.one(&three),
        trio[0]
    ));
    Ok(Answer { ours: map(ours), sensitivity: vec![by_size(bench)?], ..answer })
}

pub(super) fn map(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::finding::faults;

    #[test]
    fn a_rate_is_the_nearest_255th_of_the_link() {
        // Halfway between 84 and 85, and between 127 and 128: 84.5 and 127.5 of 255.
        for (rate, byte_) in [(33.13e6, 84.0), (33.14e6, 85.0), (49.99e6, 127.0), (50.01e6, 128.0), (100e6, 255.0)] {
            assert_eq!(byte(rate), byte_, "{rate}");
        }
    }

    #[test]
    fn bytes_are_the_papers_within_one() {
        let count = |two: [f64; 2], three: [f64; 3], upstream: f64| {
            faults(|finding| near_the_papers(finding, &two, &three, upstream))
        };
        assert_eq!(count([126.0, 128.0], [84.0, 86.0, 85.0], 147.0), 0);
        assert_eq!(count([127.0, 127.0], [85.0; 3], 149.0), 0);
        for (two, three, upstream) in [
            ([125.0, 127.0], [85.0; 3], 148.0),
            ([127.0, 129.0], [85.0; 3], 148.0),
            ([127.0; 2], [85.0, 83.0, 85.0], 148.0),
            ([127.0; 2], [85.0, 85.0, 87.0], 148.0),
            ([127.0; 2], [85.0; 3], 146.0),
            ([127.0; 2], [85.0; 3], 150.0),
            ([127.0; 2], [85.0; 3], f64::NAN),
        ] {
            assert_eq!(count(two, three, upstream), 1, "{two:?} {three:?} {upstream}");
        }
    }

    #[test]
    fn spatial_reuse_is_judged_at_one_per_cent_for_either_mode() {
        let holds = |am: [f64; 5], cm: [f64; 5], gige: [f64; 5]| {
            let mut finding = Finding::default();
            spatial_reuse(&mut finding, &am, &cm, &gige);
            finding.answer(String::new()).holds
        };
        let inside = [0.7575 - 1e-6, 0.2475 + 1e-6, 0.25, 0.25, 0.25];
        let outside = [0.75, 0.25, 0.25, 0.25, 0.2475 - 1e-6];
        let gige = [0.5, 0.199, 0.2, 0.3, 0.401];
        assert!(holds(inside, inside, gige));
        assert!(!holds(outside, inside, gige) && !holds(inside, outside, gige));
        assert!(
            !holds(inside, inside, [0.5, 0.2, 0.2, 0.3, 0.401]) && !holds(inside, inside, [0.5, 0.199, 0.2, 0.3, 0.4])
        );
    }

    #[test]
    fn the_largest_distance_from_the_fair_share_counts_up_or_down() {
        assert!(
            (off(&[0.25, 0.27, 0.24], 0.25) - 0.08).abs() < 1e-12 && (off(&[0.25, 0.22], 0.25) - 0.12).abs() < 1e-12
        );
    }
}
