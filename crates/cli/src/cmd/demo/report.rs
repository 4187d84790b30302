//! What the demo found: the JSON document, the table, the verdict.

use crate::measure::median;
use comfy_table::{Cell, CellAlignment, Table, presets};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// From this share of the processors' time on, in per cent, rates say more about the machine than about the bond.
const SATURATED: f64 = 85.0;

/// What one round measured, in Mbit/s.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Round {
    /// Through the tunnel over each link alone.
    pub(crate) links: Vec<f64>,
    /// Over the bond of all links.
    pub(crate) bond: f64,
    /// RFC 4737 reordered packets at the receiving TUN, over the bond.
    pub(crate) reordered: u64,
    /// Per cent of the processors' time in use while the bond was measured.
    pub(crate) processors: f64,
}

/// The demo's result; as JSON, the document that `fairspan demo --json` prints. Rates in Mbit/s (10^6 bits a second)
/// of data that the receiving application read; the median of the rounds, and their least and most.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Report {
    /// How often each link and the bond were measured.
    pub(crate) rounds: u32,
    /// For how many seconds each time.
    pub(crate) seconds: u32,
    /// Each link alone.
    pub(crate) links: Vec<LinkResult>,
    /// The sum of the links' `goodput_mbit`.
    pub(crate) sum_mbit: f64,
    /// The largest of the links' `goodput_mbit`.
    pub(crate) best_mbit: f64,
    /// One TCP connection over the bond of all links, mode `ordered`.
    pub(crate) bond_mbit: f64,
    /// The least of the rounds.
    pub(crate) bond_min_mbit: f64,
    /// The most of the rounds.
    pub(crate) bond_max_mbit: f64,
    /// The bond's share of the sum of the links in the same round, in per cent.
    pub(crate) share_percent: f64,
    /// The least of the rounds.
    pub(crate) share_min_percent: f64,
    /// The most of the rounds.
    pub(crate) share_max_percent: f64,
    /// One TCP connection over all links with packets in turn, delivered as they come.
    pub(crate) round_robin_mbit: f64,
    /// One kernel MPTCP connection over all links, without a tunnel; `None` if this kernel has none.
    pub(crate) mptcp_mbit: Option<f64>,
    /// RFC 4737 reordered packets at the receiving TUN, over the bond, warm-up included, of all rounds.
    pub(crate) reordered_packets: u64,
    /// Per cent of the processors' time in use while the bond was measured.
    pub(crate) processors_percent: f64,
    /// Whether anything is wrong.
    pub(crate) verdict: Verdict,
}

/// One link alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinkResult {
    /// What it is called.
    pub(crate) name: String,
    /// What the emulator lets through, Ethernet headers included.
    pub(crate) rate_mbit: f64,
    /// Through the tunnel with this one link.
    pub(crate) goodput_mbit: f64,
    /// The least of the rounds.
    pub(crate) goodput_min_mbit: f64,
    /// The most of the rounds.
    pub(crate) goodput_max_mbit: f64,
    /// Plain TCP, no tunnel; measured once.
    pub(crate) plain_tcp_mbit: f64,
}

/// Whether anything is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// All links and the bond carried data, nothing came out of order, and the bond was not slower than its best link.
    Pass,
    /// One of these does not hold. A bond counts as slower where its best round is below the worst of the best link, and
    /// only on a machine that had time to spare.
    Fail,
}

/// Median, least and most of some figures.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spread {
    median: f64,
    min: f64,
    max: f64,
}

impl Spread {
    fn of(values: &[f64]) -> Spread {
        // In this order what is not a number comes out as the least or the most.
        let least = values.iter().copied().min_by(f64::total_cmp).unwrap_or_default();
        let most = values.iter().copied().max_by(f64::total_cmp).unwrap_or_default();
        match median(values) {
            Some(median) => Spread { median: rounded(median), min: rounded(least), max: rounded(most) },
            None => Spread { median: 0.0, min: 0.0, max: 0.0 },
        }
    }
}

/// What is known of a link before the rounds begin.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Alone {
    pub(crate) name: String,
    pub(crate) rate_mbit: f64,
    pub(crate) plain_tcp_mbit: f64,
}

impl Report {
    /// Sums up the measurements and judges them.
    pub(crate) fn new(
        seconds: u32,
        links: Vec<Alone>,
        rounds: &[Round],
        round_robin_mbit: f64,
        mptcp_mbit: Option<f64>,
    ) -> Report {
        let links: Vec<LinkResult> = links
            .into_iter()
            .enumerate()
            .map(|(index, link)| {
                let rates: Vec<f64> = rounds.iter().filter_map(|round| round.links.get(index).copied()).collect();
                let goodput = Spread::of(&rates);
                LinkResult {
                    name: link.name,
                    rate_mbit: link.rate_mbit,
                    goodput_mbit: goodput.median,
                    goodput_min_mbit: goodput.min,
                    goodput_max_mbit: goodput.max,
                    plain_tcp_mbit: rounded(link.plain_tcp_mbit),
                }
            })
            .collect();
        let of = |value: fn(&Round) -> f64| Spread::of(&rounds.iter().map(value).collect::<Vec<f64>>());
        let bond = of(|round| round.bond);
        let share = of(|round| 100.0 * round.bond / round.links.iter().sum::<f64>());
        let best = links.iter().max_by(|a, b| a.goodput_mbit.total_cmp(&b.goodput_mbit));
        let (best_mbit, worst_of_best) = best.map_or((0.0, 0.0), |best| (best.goodput_mbit, best.goodput_min_mbit));
        let reordered_packets = rounds.iter().map(|round| round.reordered).sum();
        let processors_percent = of(|round| round.processors).median;
        let all = carried(bond.min) && !links.is_empty() && links.iter().all(|link| carried(link.goodput_min_mbit));
        let not_slower = processors_percent >= SATURATED || bond.max >= worst_of_best;
        let right = all && not_slower && reordered_packets == 0;
        Report {
            rounds: rounds.len() as u32,
            seconds,
            sum_mbit: rounded(links.iter().map(|link| link.goodput_mbit).sum()),
            links,
            best_mbit,
            bond_mbit: bond.median,
            bond_min_mbit: bond.min,
            bond_max_mbit: bond.max,
            share_percent: share.median,
            share_min_percent: share.min,
            share_max_percent: share.max,
            round_robin_mbit: rounded(round_robin_mbit),
            mptcp_mbit: mptcp_mbit.map(rounded),
            reordered_packets,
            processors_percent,
            verdict: if right { Verdict::Pass } else { Verdict::Fail },
        }
    }

    /// The tables and the verdict, for people.
    pub(crate) fn table(&self) -> String {
        let mut links = plain_table(&["link alone", "rate", "plain TCP", "through the tunnel", "least to most"]);
        for link in &self.links {
            let spread = between(link.goodput_min_mbit, link.goodput_max_mbit);
            let rates = [link.rate_mbit, link.plain_tcp_mbit, link.goodput_mbit].map(mbit);
            links.add_row(row(&link.name, &[rates.as_slice(), &[spread]].concat()));
        }
        let rate_sum = self.links.iter().map(|link| link.rate_mbit).sum();
        let plain_sum: f64 = self.links.iter().map(|link| link.plain_tcp_mbit).sum();
        links.add_row(row("sum", &[mbit(rate_sum), mbit(plain_sum), mbit(self.sum_mbit), String::new()]));

        let head = ["one TCP connection over all links", "goodput", "least to most", "share of its sum"];
        let mut all = plain_table(&head);
        let spread = between(self.bond_min_mbit, self.bond_max_mbit);
        all.add_row(row("bond (reliable)", &[mbit(self.bond_mbit), spread, format!("{:.1} %", self.share_percent)]));
        let turns = [mbit(self.round_robin_mbit), String::new(), percent(self.round_robin_mbit, self.sum_mbit)];
        all.add_row(row("packets in turn (round robin)", &turns));
        let mptcp = match self.mptcp_mbit {
            Some(rate) => [mbit(rate), String::new(), percent(rate, plain_sum)],
            None => ["not in this kernel".into(), String::new(), "-".into()],
        };
        all.add_row(row("kernel MPTCP, no tunnel", &mptcp));

        let mut text = String::new();
        let _ = writeln!(text, "{links}\n\n{all}\n");
        let _ = writeln!(text, "Verdict: {}", self.judgement());
        let _ = writeln!(
            text,
            "Rounds: {}. In them the bond carried {:.1} to {:.1} % of what its links carry one by one; out of order at the\n\
             receiving TUN (RFC 4737): {}; processors in use meanwhile: {:.0} %.",
            self.rounds,
            self.share_min_percent,
            self.share_max_percent,
            self.reordered_packets,
            self.processors_percent
        );
        let _ = writeln!(
            text,
            "Mbit/s of application data, 10^6 bits; cubic; medians of {} rounds of {} s after 3 s that do not count, links\n\
             and bond in turn; the other figures are of one run. The sum is of the links through the tunnel, for MPTCP of\n\
             plain TCP.",
            self.rounds, self.seconds
        );
        text
    }

    fn judgement(&self) -> String {
        let mut wrong = Vec::new();
        for link in self.links.iter().filter(|link| !carried(link.goodput_min_mbit)) {
            wrong.push(format!("{} carried nothing", link.name));
        }
        if !carried(self.bond_min_mbit) {
            wrong.push("the bond carried nothing".to_owned());
        }
        if self.reordered_packets > 0 {
            wrong.push(format!("{} packets came out of order", self.reordered_packets));
        }
        let busy = self.processors_percent >= SATURATED;
        match self.verdict {
            Verdict::Pass if busy => {
                "pass (all links carry, and nothing came out of order; this machine had no time to \
                                      spare, so that its rates are not judged)"
                    .to_owned()
            }
            Verdict::Pass => "pass (all links carry, nothing came out of order, and the bond is not slower than its \
                              best link)"
                .to_owned(),
            Verdict::Fail if wrong.is_empty() => format!(
                "FAIL: the bond is slower than its best link ({:.1} Mbit/s at most, beside {:.1})",
                self.bond_max_mbit, self.best_mbit
            ),
            Verdict::Fail => format!("FAIL: {}", wrong.join(", ")),
        }
    }
}

/// Whether a rate is one; what is not a number is none.
fn carried(mbit: f64) -> bool {
    mbit > 0.0
}

/// Two decimals: more would claim a precision that one run does not have.
fn rounded(rate: f64) -> f64 {
    (rate * 100.0).round() / 100.0
}

fn mbit(rate: f64) -> String {
    format!("{rate:.1}")
}

fn between(least: f64, most: f64) -> String {
    format!("{least:.1} to {most:.1}")
}

fn percent(part: f64, whole: f64) -> String {
    if whole > 0.0 { format!("{:.1} %", 100.0 * part / whole) } else { "-".into() }
}

/// A table whose columns after the first are numbers.
fn plain_table(head: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header(head.iter().enumerate().map(|(index, text)| aligned(index, text)));
    table
}

fn row(name: &str, values: &[String]) -> Vec<Cell> {
    std::iter::once(name)
        .chain(values.iter().map(String::as_str))
        .enumerate()
        .map(|(i, text)| aligned(i, text))
        .collect()
}

fn aligned(column: usize, text: &str) -> Cell {
    let alignment = if column == 0 { CellAlignment::Left } else { CellAlignment::Right };
    Cell::new(text).set_alignment(alignment)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(name: &str) -> Alone {
        Alone { name: name.into(), rate_mbit: 100.0, plain_tcp_mbit: 61.0 }
    }

    fn round(links: [f64; 2], bond: f64) -> Round {
        Round { links: links.into(), bond, reordered: 0, processors: 40.0 }
    }

    fn report(rounds: &[Round]) -> Report {
        Report::new(2, vec![link("a"), link("b")], rounds, 20.0, None)
    }

    #[test]
    fn the_verdict_fails_only_when_something_is_wrong() {
        let verdict = |bonds: [f64; 2], reordered, processors| {
            let rounds = bonds.map(|bond| Round { reordered, processors, ..round([60.0, 40.0], bond) });
            report(&rounds).verdict
        };
        assert_eq!(verdict([97.0, 101.0], 0, 40.0), Verdict::Pass);
        assert_eq!(verdict([55.0, 61.0], 0, 40.0), Verdict::Pass, "the spread reaches what the best link carries");
        assert_eq!(verdict([55.0, 59.0], 0, 40.0), Verdict::Fail, "slower than the best link");
        assert_eq!(verdict([55.0, 59.0], 0, 99.0), Verdict::Pass, "by a machine without time to spare");
        assert_eq!(verdict([99.0, 99.0], 1, 99.0), Verdict::Fail, "out of order");
        assert_eq!(verdict([99.0, 0.0], 0, 99.0), Verdict::Fail, "nothing carried");
        assert_eq!(verdict([99.0, f64::NAN], 0, 40.0), Verdict::Fail);
        assert_eq!(report(&[round([60.0, 0.0], 70.0)]).verdict, Verdict::Fail, "a link that carries nothing");
        assert_eq!(report(&[]).verdict, Verdict::Fail);
        assert_eq!(Report::new(2, vec![], &[round([0.0; 2], 1.0)], 0.0, None).verdict, Verdict::Fail);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let slow = report(&[round([60.0, 40.0], 50.0)]).table();
        assert!(
            slow.contains("FAIL: the bond is slower than its best link (50.0 Mbit/s at most, beside 60.0)"),
            "{slow}"
        );
        let silent = report(&[Round { reordered: 3, ..round([60.0, 0.0], 50.0) }]).table();
        assert!(silent.contains("FAIL: b carried nothing, 3 packets came out of order"), "{silent}");
        let good = report(&[round([60.0, 40.0], 98.0), round([50.0, 40.0], 96.0)]).table();
        assert!(good.contains("98.0 to 106.7 % of what its links carry"), "{good}");
    }

    /// The sample is docs/demo.json, printed by the code that prints the demo's table. `make sample` renews both;
    /// what another machine shows depends on that machine.
    #[test]
    fn the_readme_shows_what_the_demo_printed() {
        const BEGIN: &str = "<!-- demo: written by `make sample` from docs/demo.json -->\n```text\n";
        const END: &str = "```\n<!-- end of demo -->";
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let json = std::fs::read_to_string(root.join("docs/demo.json")).unwrap();
        let report: Report = serde_json::from_str(&json).unwrap();
        let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
        let (before, rest) = readme.split_once(BEGIN).expect("the README marks the sample");
        let (sample, after) = rest.split_once(END).expect("the README marks the sample's end");
        let table = report.table();
        if std::env::var_os("UPDATE_README").is_some() {
            std::fs::write(root.join("README.md"), format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
        } else {
            assert_eq!(sample, table, "`make sample` writes the README anew");
        }
    }

    #[test]
    fn the_json_has_the_documented_keys_on_one_line() {
        let report = report(&[round([60.0, 40.004], 98.0), round([58.0, 40.0], 97.0), round([62.0, 40.0], 99.0)]);
        let json = serde_json::to_string(&report).unwrap();
        assert_eq!(
            json,
            concat!(
                r#"{"rounds":3,"seconds":2,"links":[{"name":"a","rate_mbit":100.0,"goodput_mbit":60.0,"#,
                r#""goodput_min_mbit":58.0,"goodput_max_mbit":62.0,"plain_tcp_mbit":61.0},"#,
                r#"{"name":"b","rate_mbit":100.0,"goodput_mbit":40.0,"#,
                r#""goodput_min_mbit":40.0,"goodput_max_mbit":40.0,"plain_tcp_mbit":61.0}],"#,
                r#""sum_mbit":100.0,"best_mbit":60.0,"bond_mbit":98.0,"bond_min_mbit":97.0,"bond_max_mbit":99.0,"#,
                r#""share_percent":98.0,"share_min_percent":97.06,"share_max_percent":98.98,"#,
                r#""round_robin_mbit":20.0,"mptcp_mbit":null,"reordered_packets":0,"processors_percent":40.0,"#,
                r#""verdict":"pass"}"#
            )
        );
    }
}
