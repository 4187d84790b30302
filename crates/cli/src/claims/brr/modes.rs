//! Figure 5 of the burst round robin paper: what each mode of a bond gives to so many fetches.

use super::metrics::{MBYTE, PARALLEL, POLICY, THROUGHPUT};
use crate::claims::bench::FigureRun;
use crate::claims::finding::{Curve, Finding, least, most};
use crate::claims::{Answer, Bench};

/// What one link of 10 Mbit/s carries: 1460 of the 1538 bytes that a full frame takes.
const ONE: f64 = 1.25 * 1460.0 / 1538.0;

/// Throughputs of Figure 5 in MB/s.
pub(super) struct Modes {
    /// By mode that keeps to one link: the least and the greatest over the numbers of fetches.
    pub(super) one_link: Vec<(&'static str, f64, f64)>,
    /// Turns with one fetch, over the best of the others.
    pub(super) gain: f64,
    /// Burst round robin with 1, 2 and 4 fetches.
    pub(super) rise: [f64; 3],
    /// Its most with any number.
    pub(super) highest: f64,
    /// From four fetches on, over turns: the least and the greatest.
    pub(super) of_turns: (f64, f64),
}

impl Modes {
    /// Of Figure 5, or of those of its points that the claim is of: one, two, four and some more fetches.
    pub(super) fn of(run: &FigureRun) -> anyhow::Result<Modes> {
        let curve = Curve::of(run, THROUGHPUT)?;
        let all = |mode: &str| curve.at(&[(POLICY, mode)]).into_iter().map(|rate| rate * MBYTE).collect::<Vec<f64>>();
        let with = |mode: &str, fetches: &str| curve.one(&[(POLICY, mode), (PARALLEL, fetches)]) * MBYTE;
        let one_link =
            ["active-backup", "balance-xor", "broadcast"].map(|mode| (mode, least(&all(mode)), most(&all(mode))));
        let others = ["active-backup", "balance-xor", "broadcast", "brr:12ms"].map(|mode| with(mode, "1"));
        let (turns, brr) = (all("balance-rr"), all("brr:12ms"));
        // The first two points are one and two fetches.
        let from_four: Vec<f64> = turns.iter().zip(&brr).skip(2).map(|(turns, brr)| brr / turns).collect();
        Ok(Modes {
            one_link: one_link.to_vec(),
            gain: with("balance-rr", "1") / most(&others),
            rise: ["1", "2", "4"].map(|fetches| with("brr:12ms", fetches)),
            highest: most(&brr),
            of_turns: (least(&from_four), most(&from_four)),
        })
    }

    /// What of the paper's words is not so.
    pub(super) fn judge(&self, finding: &mut Finding) {
        for (mode, low, high) in &self.one_link {
            // The start of a connection and the end of the last one are in it.
            finding.check(*low > 0.95 * ONE && *high < 1.02 * ONE, || format!("{mode}: {low:.2} to {high:.2} MB/s"));
        }
        finding
            .check((self.gain / 4.0 - 1.0).abs() < 0.1, || format!("one fetch gains {:.2} times by turns", self.gain));
        let [one, two, four] = self.rise;
        finding.check(one < two && two < four, || "burst round robin does not rise to four fetches".to_owned());
        // Files of somewhat different sizes end apart, and then a link is idle: what `just under` leaves room for.
        let (low, high) = self.of_turns;
        finding.check(low > 0.85 && high < 1.01, || {
            format!("from four fetches on burst round robin has {low:.2} to {high:.2} of turns")
        });
        finding.check(four > 0.95 * self.highest, || {
            format!("its peak is not at four: {four:.2} there, {:.2} MB/s at most", self.highest)
        });
    }
}

/// Figure 5: modes over the number of fetches.
pub(crate) fn modes_throughput(bench: &mut Bench) -> anyhow::Result<Answer> {
    let run = bench.figure("brr.fig05")?;
    let found = Modes::of(&run)?;
    let turns = Curve::of(&run, THROUGHPUT)?.at(&[(POLICY, "balance-rr")]);
    let mut finding = Finding::default();
    found.judge(&mut finding);
    Ok(finding.answer(format!(
        "brr.fig05, 1 to 20 fetches, {} seeds: turns {:.2} to {:.2} MB/s, {:.2} times the others with one fetch; burst round \
         robin {:.2}, {:.2}, {:.2} with 1, 2, 4 fetches, then {:.0} to {:.0} % of turns; the others one link's {ONE:.2}",
        run.file.seeds().len(),
        least(&turns) * MBYTE,
        most(&turns) * MBYTE,
        found.gain,
        found.rise[0],
        found.rise[1],
        found.rise[2],
        100.0 * found.of_turns.0,
        100.0 * found.of_turns.1
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::finding::faults;

    fn modes() -> Modes {
        Modes {
            one_link: vec![("broadcast", 0.951 * ONE, 1.019 * ONE)],
            gain: 3.61,
            rise: [1.19, 1.191, 4.3],
            highest: 4.5,
            of_turns: (0.851, 1.009),
        }
    }

    #[test]
    fn each_mode_is_within_its_margin_or_the_claim_does_not_hold() {
        assert_eq!(faults(|finding| modes().judge(finding)), 0);
        let changes: [fn(&mut Modes); 9] = [
            |found| found.one_link[0].1 = 0.949 * ONE,
            |found| found.one_link[0].2 = 1.021 * ONE,
            |found| found.gain = 3.59,
            |found| found.gain = 4.41,
            |found| found.rise[1] = 1.189,
            |found| found.highest = 4.53,
            |found| found.of_turns.0 = 0.849,
            |found| found.of_turns.1 = 1.011,
            |found| found.gain = f64::NAN,
        ];
        for (n, change) in changes.into_iter().enumerate() {
            let mut found = modes();
            change(&mut found);
            assert_eq!(faults(|finding| found.judge(finding)), 1, "change {n}");
        }
    }
}
