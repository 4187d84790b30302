//! The burst round robin paper's experiments (section 6.4), answered by the scenarios in scenarios/brr/.
//!
//! What the paper says in words is held to the figures' curves: orders with a margin for what seeds leave open, shares
//! with the tolerance that stands beside them here.

use super::finding::{Curve, Finding, least, most};
use super::{Answer, Bench};
use serde_json::Value;

const THROUGHPUT: &str = "flow.web.transfers.throughput";
const BELOW: &str = "flow.web.reordering.below_highest";
const DIFFERENCE: &str = "(max(link.eth*.packets) - min(link.eth*.packets)) / sum(link.eth*.packets)";
const MOST: &str = "max(link.eth*.packets) / sum(link.eth*.packets)";
const POLICY: &str = "bond.bond0.policy";
const PARALLEL: &str = "flow.web.parallel";
const DELAY: &str = "link.eth0.delay";
/// From bit/s to the paper's MB/s.
const MBYTE: f64 = 1.0 / 8e6;
/// What one link of 10 Mbit/s carries: 1460 of the 1538 bytes that a full frame takes.
const ONE: f64 = 1.25 * 1460.0 / 1538.0;

/// Figures 2 to 4: thresholds from 4 to 24 ms.
pub(crate) fn threshold(bench: &mut Bench) -> anyhow::Result<Answer> {
    let run = bench.figure("brr.fig02")?;
    let (throughput, load) = (Curve::of(&run, THROUGHPUT)?, Curve::of(&run, DIFFERENCE)?);
    let order = Curve::of(&run, BELOW)?;
    let twelve = |curve: &Curve<'_>, policy: &str| curve.one(&[(PARALLEL, "12"), (POLICY, policy)]);
    let longer = ["brr:8ms", "brr:12ms", "brr:16ms", "brr:20ms", "brr:24ms"];
    let all = |curve: &Curve<'_>| longer.map(|policy| twelve(curve, policy));
    let (slow, speeds) = (twelve(&throughput, "brr:4ms"), all(&throughput));
    let (uneven, loads) = (twelve(&load, "brr:4ms"), all(&load));
    let (disorder, orders) = (twelve(&order, "brr:4ms"), all(&order));
    let mut finding = Finding::default();
    finding.check(slow < least(&speeds), || {
        format!(
            "the lowest throughput is not at 4 ms ({:.2} MB/s) but above it ({:.2}): flows that hardly move leave links idle \
             while the last fetches end",
            slow * MBYTE,
            least(&speeds) * MBYTE
        )
    });
    finding.check(uneven > most(&loads), || {
        format!(
            "4 ms is not the least even ({:.1} %, longer thresholds {:.1} to {:.1} %): what moves often is spread evenly",
            100.0 * uneven,
            100.0 * least(&loads),
            100.0 * most(&loads)
        )
    });
    finding.check(disorder > most(&orders), || {
        format!("not 4 ms has most out of order: {:.1} against {:.1} %", 100.0 * disorder, 100.0 * most(&orders))
    });
    // `About one in a hundred`: Figure 9 itself has 2.4 % for one of these points.
    finding.check(most(&orders[1..]) <= 0.035, || format!("from 12 ms on up to {:.1} %", 100.0 * most(&orders[1..])));
    let shares = orders.map(|share| format!("{:.1}", 100.0 * share)).join(", ");
    Ok(finding.answer(format!(
        "brr.fig02, twelve fetches, five seeds: out of order {:.1} % at 4 ms, then {shares} % from 8 to 24 ms (paper: about 1); \
         {:.2} MB/s at 4 ms, {:.2} to {:.2} above",
        100.0 * disorder,
        slow * MBYTE,
        least(&speeds) * MBYTE,
        most(&speeds) * MBYTE
    )))
}

/// Figure 5: modes over the number of fetches.
pub(crate) fn modes_throughput(bench: &mut Bench) -> anyhow::Result<Answer> {
    let run = bench.figure("brr.fig05")?;
    let curve = Curve::of(&run, THROUGHPUT)?;
    let mut finding = Finding::default();
    for mode in ["active-backup", "balance-xor", "broadcast"] {
        let values = curve.at(&[(POLICY, mode)]);
        let (low, high) = (least(&values) * MBYTE, most(&values) * MBYTE);
        // The start of a connection and the end of the last one are in it.
        finding.check(low > 0.95 * ONE && high < 1.02 * ONE, || format!("{mode}: {low:.2} to {high:.2} MB/s"));
    }
    let (turns, brr) = (curve.at(&[(POLICY, "balance-rr")]), curve.at(&[(POLICY, "brr:12ms")]));
    let gain = turns[0]
        / most(
            &["active-backup", "balance-xor", "broadcast", "brr:12ms"]
                .map(|mode| curve.one(&[(POLICY, mode), (PARALLEL, "1")])),
        );
    finding.check((gain / 4.0 - 1.0).abs() < 0.1, || format!("one fetch gains {gain:.2} times by turns"));
    let four = curve.one(&[(POLICY, "brr:12ms"), (PARALLEL, "4")]);
    let from_four: Vec<f64> = turns.iter().zip(&brr).skip(2).map(|(turns, brr)| brr / turns).collect();
    finding.check(brr[0] < brr[1] && brr[1] < four, || "burst round robin does not rise to four fetches".to_owned());
    // Files of somewhat different sizes end apart, and then a link is idle: what `just under` leaves room for.
    finding.check(least(&from_four) > 0.85 && most(&from_four) < 1.01, || {
        format!(
            "from four fetches on burst round robin has {:.2} to {:.2} of turns",
            least(&from_four),
            most(&from_four)
        )
    });
    let highest = most(&brr);
    finding.check(four > 0.95 * highest, || {
        format!("its peak is not at four: {:.2} there, {:.2} MB/s at most", four * MBYTE, highest * MBYTE)
    });
    Ok(finding.answer(format!(
        "brr.fig05, 1 to 20 fetches, five seeds: turns {:.2} to {:.2} MB/s, {gain:.2} times the others with one fetch; burst round \
         robin {:.2}, {:.2}, {:.2} with 1, 2, 4 fetches, then {:.0} to {:.0} % of turns; the others one link's {ONE:.2}",
        least(&turns) * MBYTE,
        most(&turns) * MBYTE,
        brr[0] * MBYTE,
        brr[1] * MBYTE,
        four * MBYTE,
        100.0 * least(&from_four),
        100.0 * most(&from_four)
    )))
}

/// Figures 6 to 8: how the links share the packets.
pub(crate) fn load(bench: &mut Bench) -> anyhow::Result<Answer> {
    let run = bench.figure("brr.fig05")?;
    let (difference, largest) = (Curve::of(&run, DIFFERENCE)?, Curve::of(&run, MOST)?);
    let mut finding = Finding::default();
    for mode in ["balance-rr", "broadcast"] {
        let worst = most(&difference.at(&[(POLICY, mode)]));
        finding.check(worst < 0.005, || format!("{mode} is not even: {:.1} %", 100.0 * worst));
    }
    for mode in ["active-backup", "balance-xor"] {
        // The rest are heartbeats.
        let share = least(&largest.at(&[(POLICY, mode)]));
        finding.check(share > 0.98, || format!("{mode} has {:.1} % on one link", 100.0 * share));
    }
    let of = |parallel: &str| difference.one(&[(POLICY, "brr:12ms"), (PARALLEL, parallel)]);
    let fours = ["4", "8", "12", "16", "20"].map(of);
    let between = ["6", "10", "14", "18"].map(of);
    finding.check(most(&fours) < 0.05, || format!("{:.1} % at a multiple of four", 100.0 * most(&fours)));
    finding.check(most(&between) < 0.15, || format!("{:.1} % between the multiples of four", 100.0 * most(&between)));
    finding.check(of("1") > 0.3, || format!("one fetch spreads over all links: {:.1} %", 100.0 * of("1")));
    let list = |values: &[f64]| values.iter().map(|v| format!("{:.1}", 100.0 * v)).collect::<Vec<_>>().join(", ");
    Ok(finding.answer(format!(
        "brr.fig05: largest less smallest share of burst round robin {} % at 4, 8, 12, 16, 20 fetches, {} % at 6, 10, 14, 18, {:.0} % with \
         one; turns and broadcast even, backup and hash on one link",
        list(&fours),
        list(&between),
        100.0 * of("1")
    )))
}

/// Figure 9: twelve fetches.
pub(crate) fn reordering(bench: &mut Bench) -> anyhow::Result<Answer> {
    let run = bench.figure("brr.fig09")?;
    let ours = run.values("brr.reordering", 1.0);
    let of = |key: &str| ours.get(key).and_then(Value::as_f64).unwrap_or(f64::NAN);
    let order = of("balance_rr") > 3.0 * of("brr") && of("brr") > 0.0;
    let reason = format!(
        "brr.fig09, five seeds: turns {:.1} %, burst round robin at 12 ms {:.1} % (the paper has 2.4 % here and about 1 % in Figure \
         4 for the same point); broadcast's second copies are not counted, in the paper's count they cannot have been either",
        100.0 * of("balance_rr"),
        100.0 * of("brr")
    );
    Ok(Answer::statement(order, reason).with(ours))
}

/// Figures 10 and 11: delay added to the links.
pub(crate) fn delay(bench: &mut Bench) -> anyhow::Result<Answer> {
    let run = bench.figure("brr.fig11")?;
    let (throughput, order) = (Curve::of(&run, THROUGHPUT)?, Curve::of(&run, BELOW)?);
    let mut ours = run.values("brr.delay", MBYTE);
    let at = |curve: &Curve<'_>, policy: &str, delay: &str| curve.one(&[(POLICY, policy), (DELAY, delay)]);
    let ratio = at(&throughput, "brr:12ms", "100ms") / at(&throughput, "balance-rr", "100ms");
    ours.insert("brr_over_rr_at_100ms".into(), Value::from(ratio));
    let none = at(&order, "balance-rr", "0ms");
    let fifty = at(&order, "balance-rr", "50ms");
    let burst = most(&order.at(&[(POLICY, "brr:12ms")]));
    let kept = at(&throughput, "brr:12ms", "25ms") / at(&throughput, "brr:12ms", "0ms");
    let mut faults = Finding::default();
    faults.check(fifty > none, || "turns do not get worse with delay".to_owned());
    faults.check(burst < 0.01, || format!("burst round robin has {:.1} % out of order", 100.0 * burst));
    faults.check(kept > 0.75, || format!("burst round robin keeps only {:.0} % at 25 ms", 100.0 * kept));
    let told = format!(
        "brr.fig11, five seeds, links at 1, 0.8, 1.2 and 0.9 times the nominal delay (equal ones would reorder nothing; the paper's \
         spread is not told): turns {:.0} % out of order without delay, {:.0} % at 50 ms, burst round robin {:.2} % at most; burst round \
         robin keeps {:.0} % of its throughput at 25 ms and has {:.2} MB/s at 100 ms",
        100.0 * none,
        100.0 * fifty,
        100.0 * burst,
        100.0 * kept,
        at(&throughput, "brr:12ms", "100ms") * MBYTE
    );
    let answer = faults.answer(told);
    Ok(Answer { ours, ..answer })
}
