//! What `bench failure` found: the JSON document and the table.

use super::bed::Way;
use super::case::{Case, LINKS};
use super::outcome::{LATE, Seen};
use crate::measure::median;
use crate::report::text::{row, table};
use clap::ValueEnum;
use serde::Serialize;

/// From this share of the processors' time on the machine may be what limited.
const BUSY: f64 = 0.85;

/// The document that `fairspan bench failure --json` prints.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Report {
    runs: u32,
    links: Vec<LinkReport>,
    cases: Vec<CaseReport>,
}

#[derive(Debug, PartialEq, Serialize)]
struct LinkReport {
    name: &'static str,
    rate_mbit: u32,
    delay_ms: u32,
}

/// One case, by each way.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct CaseReport {
    case: String,
    says: String,
    lasts_s: f64,
    link: &'static str,
    ways: Vec<WayReport>,
}

#[derive(Debug, PartialEq, Serialize)]
struct WayReport {
    way: &'static str,
    tcp: TcpReport,
    call: Option<CallReport>,
    in_use_ms: Option<Worst>,
    /// In how many runs the link was in use again before the load was over.
    in_use_runs: usize,
    processors_percent: f64,
}

#[derive(Debug, PartialEq, Serialize)]
struct TcpReport {
    gap_ms: Worst,
    before_mbit: f64,
    during_mbit: Option<f64>,
    after_mbit: f64,
}

/// All runs together, but for the gap.
#[derive(Debug, PartialEq, Serialize)]
struct CallReport {
    packets: usize,
    lost: usize,
    late: usize,
    gap_ms: Worst,
}

/// The median over the runs, and the most.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Worst {
    median: f64,
    most: f64,
}

impl Worst {
    /// `None` of none.
    fn of(values: &[f64]) -> Option<Worst> {
        let most = values.iter().copied().reduce(f64::max)?;
        Some(Worst { median: rounded(median(values)?), most: rounded(most) })
    }

    fn cell(worst: Option<Worst>) -> String {
        worst.map_or_else(|| "-".into(), |worst| format!("{:.0} ({:.0})", worst.median, worst.most))
    }
}

impl WayReport {
    /// `None` without a run.
    fn new(way: Way, seen: &[Seen]) -> Option<WayReport> {
        let of = |value: &dyn Fn(&Seen) -> Option<f64>| seen.iter().filter_map(value).collect::<Vec<_>>();
        let middle = |value: &dyn Fn(&Seen) -> Option<f64>| median(&of(value)).map(rounded);
        let calls: Vec<_> = seen.iter().filter_map(|one| one.call.as_ref()).collect();
        let gaps: Vec<f64> = calls.iter().map(|call| call.gap_ms).collect();
        let call = Worst::of(&gaps).map(|gap_ms| CallReport {
            packets: calls.iter().map(|call| call.packets).sum(),
            lost: calls.iter().map(|call| call.lost).sum(),
            late: calls.iter().map(|call| call.late).sum(),
            gap_ms,
        });
        let in_use = of(&|one| one.in_use_ms);
        Some(WayReport {
            way: way.name(),
            tcp: TcpReport {
                gap_ms: Worst::of(&of(&|one| Some(one.tcp_gap_ms)))?,
                before_mbit: middle(&|one| Some(one.before_mbit))?,
                during_mbit: middle(&|one| one.during_mbit),
                after_mbit: middle(&|one| Some(one.after_mbit))?,
            },
            call,
            in_use_ms: Worst::of(&in_use),
            in_use_runs: in_use.len(),
            processors_percent: rounded(100.0 * median(&of(&|one| Some(one.processors)))?),
        })
    }
}

impl CaseReport {
    /// Sums up; `None` without a run.
    pub(super) fn new(name: String, case: Case, ways: &[Way], seen: &[Vec<Seen>]) -> Option<CaseReport> {
        let says = case.to_possible_value()?.get_help().map(ToString::to_string).unwrap_or_default();
        let ways = ways.iter().zip(seen).map(|(way, seen)| WayReport::new(*way, seen)).collect::<Option<Vec<_>>>()?;
        Some(CaseReport { case: name, says, lasts_s: case.lasts().as_secs_f64(), link: LINKS[case.link()].name, ways })
    }
}

impl Report {
    pub(super) fn new(runs: u32, cases: Vec<CaseReport>) -> Report {
        let links =
            LINKS.map(|link| LinkReport { name: link.name, rate_mbit: link.rate_mbit, delay_ms: link.delay_ms });
        Report { runs, links: links.into(), cases }
    }

    /// The table, for people.
    pub(super) fn table(&self) -> String {
        let head = [
            "",
            "TCP gap ms",
            "before",
            "during",
            "after",
            "call gap ms",
            "lost",
            "late",
            "of",
            "in use after ms",
            "processors",
        ];
        let mut table = table(&head.map(str::to_owned));
        for case in &self.cases {
            for way in &case.ways {
                let rate = |rate: Option<f64>| rate.map_or_else(|| "-".into(), |rate| format!("{rate:.1}"));
                let count = |value: fn(&CallReport) -> usize| {
                    way.call.as_ref().map_or_else(|| "-".into(), |call| value(call).to_string())
                };
                let cells = [
                    if way.way == Way::Bond.name() { case.case.clone() } else { format!("  {}", way.way) },
                    Worst::cell(Some(way.tcp.gap_ms)),
                    rate(Some(way.tcp.before_mbit)),
                    rate(way.tcp.during_mbit),
                    rate(Some(way.tcp.after_mbit)),
                    Worst::cell(way.call.as_ref().map(|call| call.gap_ms)),
                    count(|call| call.lost),
                    count(|call| call.late),
                    count(|call| call.packets),
                    Worst::cell(way.in_use_ms),
                    format!("{:.0} %", way.processors_percent),
                ];
                table.add_row(row(&cells));
            }
        }
        let links: Vec<String> = LINKS
            .iter()
            .map(|link| format!("{} ({} Mbit/s, {} ms)", link.name, link.rate_mbit, link.delay_ms))
            .collect();
        let mut said = format!(
            "Links: {}; one TCP connection (cubic) and a call of 50 packets a second through a bond of both, of which\nno rate is \
             configured. Gaps: the longest time without any data, median of {} run(s) and the most; Mbit/s of application\ndata; of the \
             call's packets from then on: lost, and later than {} ms. In use: from the end of it until the link\nbrought half of what it \
             had brought. mptcp: the kernel's, without a tunnel.\n",
            links.join(", "),
            self.runs,
            LATE.as_millis()
        );
        if self.cases.iter().flat_map(|case| &case.ways).any(|way| way.processors_percent >= 100.0 * BUSY) {
            said.push_str(
                "The processors had no time to spare in some of it: such figures say more about the machine.\n",
            );
        }
        format!("{table}\n\n{said}")
    }
}

/// Three decimals.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::super::outcome::CallSeen;
    use super::*;

    #[test]
    fn the_json_has_the_documented_keys_medians_and_the_worst() {
        let run = |gap: f64, in_use_ms: Option<f64>, call: bool| Seen {
            tcp_gap_ms: gap,
            before_mbit: 50.0,
            during_mbit: Some(18.04),
            after_mbit: 49.0,
            call: call.then_some(CallSeen { packets: 550, lost: 2, late: 1, gap_ms: gap / 2.0 }),
            in_use_ms,
            processors: 0.9,
        };
        let bond = vec![run(300.0, Some(400.0), true), run(100.0, None, true), run(200.0, Some(500.0), true)];
        let rival = vec![run(1500.0, None, false)];
        let case = CaseReport::new("carrier".into(), Case::Carrier, &[Way::Bond, Way::Mptcp], &[bond, rival]).unwrap();
        let report = Report::new(3, vec![case]);
        assert_eq!(
            serde_json::to_string(&report).unwrap(),
            r#"{"runs":3,"links":[{"name":"better","rate_mbit":40,"delay_ms":15},{"name":"worse","rate_mbit":20,"delay_ms":30}],"cases":[{"case":"carrier","says":"The sender's device of the better link is down for 5 s","lasts_s":5.0,"link":"better","ways":[{"way":"bond","tcp":{"gap_ms":{"median":200.0,"most":300.0},"before_mbit":50.0,"during_mbit":18.04,"after_mbit":49.0},"call":{"packets":1650,"lost":6,"late":3,"gap_ms":{"median":100.0,"most":150.0}},"in_use_ms":{"median":450.0,"most":500.0},"in_use_runs":2,"processors_percent":90.0},{"way":"mptcp","tcp":{"gap_ms":{"median":1500.0,"most":1500.0},"before_mbit":50.0,"during_mbit":18.04,"after_mbit":49.0},"call":null,"in_use_ms":null,"in_use_runs":0,"processors_percent":90.0}]}]}"#
        );
        let table = report.table();
        assert!(table.contains("200 (300)") && table.contains("more about the machine"), "{table}");
        assert_eq!(WayReport::new(Way::Bond, &[]), None);
    }
}
