//! What the demo found: the JSON document, the table, the verdict.

use comfy_table::{Cell, CellAlignment, Table, presets};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// The share of the sum of the single links that the bond has to reach.
const TARGET: f64 = 0.97;

/// The demo's result; as JSON, the document that `fairspan demo --json` prints. Rates in Mbit/s (10^6 bits a second)
/// of data that the receiving application read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Report {
    /// Each link alone.
    pub(crate) links: Vec<LinkResult>,
    /// The sum of the links' `goodput_mbit`.
    pub(crate) sum_mbit: f64,
    /// The largest of the links' `goodput_mbit`.
    pub(crate) best_mbit: f64,
    /// One TCP connection over the bond of all links, mode `ordered`.
    pub(crate) bond_mbit: f64,
    /// One TCP connection over all links with packets in turn, delivered as they come.
    pub(crate) round_robin_mbit: f64,
    /// One kernel MPTCP connection over all links, without a tunnel; `None` if this kernel has none.
    pub(crate) mptcp_mbit: Option<f64>,
    /// RFC 4737 reordered packets at the receiving TUN, over the bond, warm-up included.
    pub(crate) reordered_packets: u64,
    /// Whether the bond reached what it must.
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
    /// Plain TCP, no tunnel.
    pub(crate) plain_tcp_mbit: f64,
}

/// Whether the demo's target was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// At least 97 % of the sum, and nothing out of order.
    Pass,
    /// Less, or something out of order.
    Fail,
}

impl Report {
    /// Sums up the measurements and judges them.
    pub(crate) fn new(
        links: Vec<LinkResult>,
        bond_mbit: f64,
        reordered_packets: u64,
        round_robin_mbit: f64,
        mptcp_mbit: Option<f64>,
    ) -> Report {
        let links: Vec<LinkResult> = links
            .into_iter()
            .map(|link| LinkResult {
                goodput_mbit: rounded(link.goodput_mbit),
                plain_tcp_mbit: rounded(link.plain_tcp_mbit),
                ..link
            })
            .collect();
        let sum_mbit = rounded(links.iter().map(|link| link.goodput_mbit).sum());
        let best_mbit = links.iter().map(|link| link.goodput_mbit).fold(0.0, f64::max);
        let bond_mbit = rounded(bond_mbit);
        // Written so that a figure that is not a number fails.
        let reached = sum_mbit > 0.0 && bond_mbit >= TARGET * sum_mbit && reordered_packets == 0;
        Report {
            links,
            sum_mbit,
            best_mbit,
            bond_mbit,
            round_robin_mbit: rounded(round_robin_mbit),
            mptcp_mbit: mptcp_mbit.map(rounded),
            reordered_packets,
            verdict: if reached { Verdict::Pass } else { Verdict::Fail },
        }
    }

    /// The tables and the verdict, for people. `seconds` is how long each figure was measured.
    pub(crate) fn table(&self, seconds: u32) -> String {
        let mut links = plain_table(&["link alone", "rate", "plain TCP", "through the tunnel"]);
        for link in &self.links {
            links.add_row(row(&link.name, &[mbit(link.rate_mbit), mbit(link.plain_tcp_mbit), mbit(link.goodput_mbit)]));
        }
        let rate_sum = self.links.iter().map(|link| link.rate_mbit).sum();
        let plain_sum: f64 = self.links.iter().map(|link| link.plain_tcp_mbit).sum();
        links.add_row(row("sum", &[mbit(rate_sum), mbit(plain_sum), mbit(self.sum_mbit)]));

        let mut all = plain_table(&["one TCP connection over all links", "goodput", "share of its sum"]);
        all.add_row(row("bond (ordered)", &[mbit(self.bond_mbit), percent(self.bond_mbit, self.sum_mbit)]));
        let turns = [mbit(self.round_robin_mbit), percent(self.round_robin_mbit, self.sum_mbit)];
        all.add_row(row("packets in turn (round robin)", &turns));
        let mptcp = match self.mptcp_mbit {
            Some(rate) => [mbit(rate), percent(rate, plain_sum)],
            None => ["not in this kernel".into(), "-".into()],
        };
        all.add_row(row("kernel MPTCP, no tunnel", &mptcp));

        let verdict = match self.verdict {
            Verdict::Pass => "pass",
            Verdict::Fail => "FAIL",
        };
        let mut text = String::new();
        let _ = writeln!(text, "{links}\n\n{all}\n");
        let _ =
            writeln!(text, "Out of order at the receiving TUN, over the bond (RFC 4737): {}", self.reordered_packets);
        let _ = writeln!(
            text,
            "Verdict: {verdict} (asked: at least {:.0} % of the sum, {:.1} of {:.1} Mbit/s, and nothing out of order)",
            TARGET * 100.0,
            self.bond_mbit,
            self.sum_mbit
        );
        let _ = writeln!(
            text,
            "Mbit/s of application data, 10^6 bits; cubic; one run of {seconds} s each after 2 s that do not count; the \
             sum is of\nthe links through the tunnel, for MPTCP of plain TCP."
        );
        text
    }
}

/// Two decimals: more would claim a precision that one run does not have.
fn rounded(rate: f64) -> f64 {
    (rate * 100.0).round() / 100.0
}

fn mbit(rate: f64) -> String {
    format!("{rate:.1}")
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

    fn link(name: &str, goodput_mbit: f64) -> LinkResult {
        LinkResult { name: name.into(), rate_mbit: 100.0, goodput_mbit, plain_tcp_mbit: goodput_mbit + 1.0 }
    }

    #[test]
    fn the_verdict_asks_for_97_percent_and_for_order() {
        let verdict =
            |bond, reordered| Report::new(vec![link("a", 60.0), link("b", 40.0)], bond, reordered, 1.0, None).verdict;
        assert_eq!(verdict(97.0, 0), Verdict::Pass);
        assert_eq!(verdict(96.99, 0), Verdict::Fail);
        assert_eq!(verdict(99.0, 1), Verdict::Fail);
        assert_eq!(verdict(f64::NAN, 0), Verdict::Fail);
        assert_eq!(Report::new(vec![], 0.0, 0, 0.0, None).verdict, Verdict::Fail);
    }

    /// The sample is docs/demo.json, printed by the code that prints the demo's table. (tests/netns/demo.sh compares
    /// its figures with those of the machine it runs on.) `make sample` renews both.
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
        let table = report.table(crate::cmd::demo::DURATION);
        if std::env::var_os("UPDATE_README").is_some() {
            std::fs::write(root.join("README.md"), format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
        } else {
            assert_eq!(sample, table, "`make sample` writes the README anew");
        }
    }

    #[test]
    fn the_json_has_the_documented_keys_on_one_line() {
        let report = Report::new(vec![link("a", 60.0), link("b", 40.004)], 98.0, 0, 20.0, None);
        let json = serde_json::to_string(&report).unwrap();
        assert_eq!(
            json,
            r#"{"links":[{"name":"a","rate_mbit":100.0,"goodput_mbit":60.0,"plain_tcp_mbit":61.0},{"name":"b","rate_mbit":100.0,"goodput_mbit":40.0,"plain_tcp_mbit":41.0}],"sum_mbit":100.0,"best_mbit":60.0,"bond_mbit":98.0,"round_robin_mbit":20.0,"mptcp_mbit":null,"reordered_packets":0,"verdict":"pass"}"#
        );
    }
}
