//! DVSR in every unbalanced case of section IV (VII-B): limiters and received rates against the RIAS rates, all within the claim's 0.1 %.

use super::rpr::two_flows;
use crate::claims::bench::FigureRun;
use crate::claims::evidence::{Cell, Evidence, Line};
use crate::claims::finding::{Curve, Finding, least, most};
use crate::claims::{Answer, Bench};

const ALGORITHM: &str = "ring.ring.algorithm";
const UPSTREAM: &str = "flow.1-3.rate";
const DOWNSTREAM: &str = "flow.2-3.rate";
const LINK: f64 = 622e6;
/// The claim's.
const WITHIN: f64 = 0.001;
/// Over 1.5 s it is chance whether a packet of 1 kB more or less is counted.
const PACKET: f64 = 8000.0 / 1.5;

/// How far a received rate is off, beyond the packet that is chance.
fn off(ours: f64, fair: f64) -> f64 {
    ((ours - fair).abs() - PACKET).max(0.0) / fair
}

/// Whether a limiter or one of the received rates is off by more than the claim allows; what is not a number is.
fn is_beyond(limiter: f64, received: &[f64]) -> bool {
    let within = |off: &f64| *off <= WITHIN;
    !within(&limiter) || !received.iter().all(within)
}

/// Mbit/s of a swept rate such as `311Mbit`.
fn rate(at: &[(String, String)], name: &str) -> Option<f64> {
    let value = at.iter().find(|(known, _)| known == name)?.1.trim_matches('"');
    Some(value.strip_suffix("Mbit")?.parse::<f64>().ok()? * 1e6)
}

/// Two flows at all downstream rates.
struct Sweep {
    table: Evidence,
    /// The worst limiter, the worst received rate, and the worst limiter against what control messages leave of the link.
    worst: [f64; 3],
}

fn sweep(run: &FigureRun, finding: &mut Finding) -> anyhow::Result<Sweep> {
    let columns = [
        "limiter off by, %",
        "upstream flow off by, %",
        "downstream flow off by, %",
        "limiter off what control messages leave, %",
    ];
    let mut table = Evidence::new("rings.unbalanced-sweep: rates offered upstream and downstream, Mbit/s", &columns);
    let (mut worst, mut beyond) = ([0.0_f64; 3], Vec::new());
    let limits = run.samples("ring.ring.limit.1-3.settled")?;
    let (first, second) = (run.samples("flow.1-3.throughput")?, run.samples("flow.2-3.throughput")?);
    let control = run.samples("ring.ring.link.2.control_load")?;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    for (n, (at, limit)) in limits.iter().enumerate() {
        let (Some(up), Some(down)) = (rate(at, UPSTREAM), rate(at, DOWNSTREAM)) else { continue };
        let (_, fair) = two_flows(up, down)?;
        // A limiter that need not hold anything back may be anywhere above.
        let held = fair[0] < up;
        let limiter = if held { (mean(limit) / fair[0] - 1.0).abs() } else { 0.0 };
        let left = fair[0] - mean(&control[n].1) * LINK;
        let limiter_left = if held { (mean(limit) / left - 1.0).abs() } else { 0.0 };
        let received = [off(mean(&first[n].1), fair[0]), off(mean(&second[n].1), fair[1])];
        let name = format!("{} and {}", up / 1e6, down / 1e6);
        if is_beyond(limiter, &received) {
            beyond.push(down / 1e6);
        }
        worst = [worst[0].max(limiter), worst[1].max(most(&received)), worst[2].max(limiter_left)];
        let cells = [limiter, received[0], received[1], limiter_left].map(|share| Cell::exact(100.0 * share));
        table.line(name, true, cells.to_vec());
    }
    finding.check(beyond.is_empty(), || {
        format!(
            "with {} to {} Mbit/s offered downstream and all of the link upstream, limiters or received rates are off by up to {:.3} %: control messages \
             take a fixed part of the link, which is more than 0.1 % of what is left for the upstream flow there",
            least(&beyond),
            most(&beyond),
            100.0 * worst[0].max(worst[1])
        )
    });
    finding.check(table.lines.len() > 10, || format!("{} points only", table.lines.len()));
    Ok(Sweep { table, worst })
}

/// Of some points of the sweep: the worst limiter, received rate and limiter against what control messages leave, all in per cent;
/// what these messages take of the link, and at how many of the points something is off by more than the claim allows.
pub(super) fn worst(run: &FigureRun) -> anyhow::Result<[f64; 5]> {
    let found = sweep(run, &mut Finding::default())?;
    let [limiter, received, left] = found.worst.map(|share| 100.0 * share);
    let load = most(&Curve::of(run, "ring.ring.link.2.control_load")?.at(&[]));
    let beyond = |line: &&Line| !line.cells[..3].iter().all(|cell| cell.mean() <= 100.0 * WITHIN);
    let count = found.table.lines.iter().filter(beyond).count();
    Ok([limiter, received, left, 100.0 * load, count as f64])
}

/// What the other two figures expect of this claim: how far each is off, limiters and received rates apart.
fn expected(run: &FigureRun, figure: &str, finding: &mut Finding) -> String {
    let (mut limiters, mut rates) = (Vec::new(), Vec::new());
    for expected in run.expected.iter().filter(|expected| expected.claim.is_some()) {
        let at: Vec<&str> = expected.at.iter().map(|(_, value)| value.trim_matches('"')).collect();
        finding.check(expected.holds, || format!("{} at {}: {}", expected.metric, at.join(", "), expected.ours));
        // An oscillation has no value to be off: what it may be at most stands in the figure.
        let Some(deviation) = expected.deviation.map(f64::abs) else { continue };
        finding.check(!is_beyond(deviation, &[]), || {
            format!("{figure}: {} at {} is off by {:.3} %", expected.metric, at.join(", "), 100.0 * deviation)
        });
        if expected.metric.contains("limit") { &mut limiters } else { &mut rates }.push(deviation);
    }
    finding.check(!rates.is_empty(), || format!("{figure} expects nothing"));
    let worst =
        |values: &[f64]| if values.is_empty() { "-".to_owned() } else { format!("{:.3} %", 100.0 * most(values)) };
    format!("{figure}: limiters off by {} at most, received rates by {}", worst(&limiters), worst(&rates))
}

/// Every unbalanced case of section IV.
pub(crate) fn unbalanced(bench: &mut Bench) -> anyhow::Result<Answer> {
    let mut finding = Finding::default();
    let run = bench.figure("rings.unbalanced-sweep")?;
    let found = sweep(&run, &mut finding)?;
    let [limiter, received, left] = found.worst.map(|share| 100.0 * share);
    let mut told = vec![format!(
        "rings.unbalanced-sweep, {} pairs of rates: limiters off by {limiter:.3} % at most, received rates by {received:.3} %; against what \
         control messages leave of the link, limiters are off by {left:.3} % at most",
        found.table.lines.len()
    )];
    for figure in ["rings.unbalanced-upstream", "rings.unbalanced-many"] {
        let run = bench.figure(figure)?;
        told.push(expected(&run, figure, &mut finding));
    }
    let swing = bench.figure("rings.unbalanced-upstream")?;
    let swing = Curve::of(&swing, "ring.ring.oscillation")?.one(&[(ALGORITHM, "dvsr")]);
    finding.check(!is_beyond(swing, &[]), || format!("a limiter swings by {:.3} % of the capacity", 100.0 * swing));
    told.push(format!("the widest swing of a limiter in Figure 8's case {:.3} % of the capacity", 100.0 * swing));
    let answer = finding.answer(told.join("; "));
    Ok(Answer { measured: vec![found.table], ..answer })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_received_rate_is_off_by_what_is_more_than_a_packet() {
        let fair = 367e6;
        assert_eq!(off(fair + PACKET, fair), 0.0);
        let just_in = off(fair * (1.0 - WITHIN) - 0.99 * PACKET, fair);
        let just_out = off(fair * (1.0 - WITHIN) - 1.01 * PACKET, fair);
        assert!(just_in <= WITHIN && just_out > WITHIN, "{just_in} {just_out}");
    }

    #[test]
    fn a_tenth_of_a_per_cent_is_allowed_to_limiters_and_to_received_rates() {
        assert!(!is_beyond(0.001, &[0.0, 0.001]) && !is_beyond(0.0, &[]));
        for (limiter, received) in [(0.001_001, [0.0; 2]), (0.0, [0.001_001, 0.0]), (0.0, [0.0, 0.001_001])] {
            assert!(is_beyond(limiter, &received), "{limiter} {received:?}");
        }
        assert!(is_beyond(f64::NAN, &[]) && is_beyond(0.0, &[f64::NAN, 0.0]));
        // A packet of 1000 bytes in the 1.5 s that are measured.
        assert!((PACKET - 5333.3).abs() < 0.1, "{PACKET}");
    }

    #[test]
    fn a_swept_rate_is_read_and_nothing_else() {
        let at = |value: &str| vec![(UPSTREAM.to_owned(), value.to_owned())];
        assert_eq!(rate(&at("\"311Mbit\""), UPSTREAM), Some(311e6));
        assert_eq!((rate(&at("\"311kbit\""), UPSTREAM), rate(&at("1Mbit"), DOWNSTREAM)), (None, None));
    }
}
