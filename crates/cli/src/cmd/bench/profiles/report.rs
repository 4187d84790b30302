//! What `bench profiles` found: the JSON document and the table.

use super::pairs::Pair;
use crate::cmd::bench::share;
use crate::measure::call::Call;
use crate::measure::median;
use comfy_table::{Cell, CellAlignment, Table, presets};
use serde::Serialize;

/// What a packet of a call may take longer than the faster path's delay, in milliseconds.
const IN_TIME_MS: f64 = 20.0;

/// One transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Measured {
    /// Mbit/s of application data.
    pub(super) mbit: f64,
    /// Seconds until 20 MiB had arrived, connecting included; `None`: they did not in the time.
    pub(super) download_s: Option<f64>,
}

/// One run over a pair.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Run {
    /// Path a, path b.
    pub(super) alone: [Measured; 2],
    /// Both.
    pub(super) bond: Measured,
    /// The bond's, in bytes.
    pub(super) mtu: u32,
    /// Median round trip through the idle bond.
    pub(super) ping_idle_ms: Option<f64>,
    /// The same beside the transfer.
    pub(super) ping_loaded_ms: Option<f64>,
    /// The call beside the transfer; none is simulated.
    pub(super) call: Option<Call>,
}

/// What was the same for all runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// TCP's congestion control.
    pub(super) cc: &'static str,
    /// The bond's mode.
    pub(super) mode: &'static str,
    /// Whether the channels' rates were `configured` or `measured`.
    pub(super) rates: &'static str,
    pub(super) simulated: bool,
    /// Seconds that counted in each run.
    pub(super) seconds: u32,
    /// Seconds that did not, before them.
    pub(super) warm_up: u32,
}

/// The document that `fairspan bench profiles --json` prints.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Report {
    pub(super) profiles: Vec<ProfileReport>,
}

/// One pair: medians over the runs.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct ProfileReport {
    #[serde(skip)]
    warm_up: u32,
    name: String,
    cc: &'static str,
    mode: &'static str,
    rates: &'static str,
    simulated: bool,
    runs: usize,
    seconds: u32,
    a_mbit: f64,
    b_mbit: f64,
    bond_mbit: f64,
    payload_share: f64,
    ratio_of_sum: f64,
    ratio_of_best: f64,
    ratio_of_capacity: f64,
    download_20mib: Downloads,
    ping_idle_ms: Option<f64>,
    ping_loaded_ms: Option<f64>,
    call: Option<CallReport>,
}

/// The calls of all runs: 50 packets a second of class EF, 200 bytes each.
#[derive(Debug, PartialEq, Serialize)]
struct CallReport {
    packets: usize,
    lost: usize,
    median_ms: Option<f64>,
    /// The share that arrived within the faster path's delay and 20 ms.
    in_time: f64,
}

impl CallReport {
    /// `None` where no run had a call.
    fn new(pair: &Pair, runs: &[Run]) -> Option<CallReport> {
        let calls: Vec<&Call> = runs.iter().filter_map(|run| run.call.as_ref()).collect();
        if calls.is_empty() {
            return None;
        }
        let delays: Vec<f64> = calls.iter().flat_map(|call| call.delays_ms.iter().copied()).collect();
        let packets = calls.iter().map(|call| call.sent).sum();
        let limit = pair.a.delay_ms().min(pair.b.delay_ms()) + IN_TIME_MS;
        let in_time: usize = calls.iter().map(|call| call.within(limit)).sum();
        Some(CallReport {
            packets,
            lost: packets - delays.len(),
            median_ms: median(&delays).map(rounded),
            in_time: ratio(in_time as f64, packets as f64),
        })
    }
}

/// Medians over the runs in which 20 MiB arrived.
#[derive(Debug, PartialEq, Serialize)]
struct Downloads {
    a_s: Option<f64>,
    b_s: Option<f64>,
    bond_s: Option<f64>,
}

impl ProfileReport {
    /// Sums up; `None` without a run.
    pub(super) fn new(pair: &Pair, settings: Settings, runs: &[Run]) -> Option<ProfileReport> {
        let of = |value: &dyn Fn(&Run) -> Option<f64>| median(&runs.iter().filter_map(value).collect::<Vec<_>>());
        let [a, b] = [0, 1].map(|path: usize| of(&|run| Some(run.alone[path].mbit)));
        let (a, b) = (a?, b?);
        let bond = of(&|run| Some(run.bond.mbit))?;
        let share = share::payload(of(&|run| Some(f64::from(run.mtu)))?, settings.mode);
        let capacity = (pair.a.arriving_mbit() + pair.b.arriving_mbit()) * share;
        let [a_s, b_s] = [0, 1].map(|path: usize| of(&|run| run.alone[path].download_s).map(rounded));
        Some(ProfileReport {
            warm_up: settings.warm_up,
            name: pair.name.clone(),
            cc: settings.cc,
            mode: settings.mode,
            rates: settings.rates,
            simulated: settings.simulated,
            runs: runs.len(),
            seconds: settings.seconds,
            a_mbit: rounded(a),
            b_mbit: rounded(b),
            bond_mbit: rounded(bond),
            payload_share: rounded(share),
            ratio_of_sum: ratio(bond, a + b),
            ratio_of_best: ratio(bond, a.max(b)),
            ratio_of_capacity: ratio(bond, capacity),
            download_20mib: Downloads { a_s, b_s, bond_s: of(&|run| run.bond.download_s).map(rounded) },
            ping_idle_ms: of(&|run| run.ping_idle_ms).map(rounded),
            ping_loaded_ms: of(&|run| run.ping_loaded_ms).map(rounded),
            call: CallReport::new(pair, runs),
        })
    }
}

impl Report {
    /// The table, for people.
    pub(super) fn table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::UTF8_BORDERS_ONLY);
        let head = [
            "",
            "a",
            "b",
            "bond",
            "of better",
            "of sum",
            "of capacity",
            "20 MiB a",
            "b",
            "bond",
            "ping",
            "loaded",
            "call",
        ];
        table.set_header(head.iter().enumerate().map(|(column, text)| aligned(column, text)));
        for row in &self.profiles {
            let percent = |ratio: f64| format!("{:.0} %", 100.0 * ratio);
            let seconds = |time: Option<f64>| time.map_or_else(|| "-".into(), |time| format!("{time:.1} s"));
            let millis = |time: Option<f64>| time.map_or_else(|| "-".into(), |time| format!("{time:.0} ms"));
            let cells = [
                row.name.clone(),
                format!("{:.1}", row.a_mbit),
                format!("{:.1}", row.b_mbit),
                format!("{:.1}", row.bond_mbit),
                percent(row.ratio_of_best),
                percent(row.ratio_of_sum),
                percent(row.ratio_of_capacity),
                seconds(row.download_20mib.a_s),
                seconds(row.download_20mib.b_s),
                seconds(row.download_20mib.bond_s),
                millis(row.ping_idle_ms),
                millis(row.ping_loaded_ms),
                row.call.as_ref().map_or_else(|| "-".into(), |call| format!("{:.1} %", 100.0 * call.in_time)),
            ];
            table.add_row(cells.iter().enumerate().map(|(column, text)| aligned(column, text)));
        }
        let said = self.profiles.first().map_or_else(String::new, |first| {
            format!(
                "{} TCP connection ({}): Mbit/s (10^6 bits) of application data, medians of {} {} of {} s \
                 after\n{} s that do not count. a, b: plain TCP over each path alone; bond: mode {}, rates {}. Capacity: \
                 rates\nless losses and headers. 20 MiB: from the first SYN, within {} s. Ping: through the bond, idle and \
                 beside\nthe transfer. Call: packets of class EF beside the transfer that arrived within the faster path's \
                 delay\nand {IN_TIME_MS} ms.\n",
                if first.simulated { "Simulated: one" } else { "One" },
                first.cc,
                first.runs,
                if first.simulated { "seed(s)" } else { "interleaved run(s)" },
                first.seconds,
                first.warm_up,
                first.mode,
                first.rates,
                2 * (first.seconds + first.warm_up)
            )
        });
        format!("{table}\n\n{said}")
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { rounded(part / whole) } else { 0.0 }
}

/// Three decimals.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

fn aligned(column: usize, text: &str) -> Cell {
    Cell::new(text).set_alignment(if column < 1 { CellAlignment::Left } else { CellAlignment::Right })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_has_the_documented_keys_and_medians() {
        let pair: Pair =
            toml::from_str("name = \"p\"\na = { rate_mbit = 50 }\nb = { rate_mbit = 100, loss = 0.5 }").unwrap();
        let run = |bond: f64, download_s: Option<f64>| Run {
            alone: [Measured { mbit: 40.0, download_s: Some(4.2) }, Measured { mbit: 10.0, download_s: None }],
            bond: Measured { mbit: bond, download_s },
            mtu: 1431,
            ping_idle_ms: Some(40.0),
            ping_loaded_ms: None,
            call: Some(Call { sent: 2, delays_ms: vec![20.1] }),
        };
        let runs = [run(10.0, None), run(45.54, Some(4.0)), run(80.0, Some(2.0))];
        let settings =
            Settings { cc: "bbr", mode: "ordered", rates: "configured", simulated: false, seconds: 10, warm_up: 5 };
        let report = Report { profiles: vec![ProfileReport::new(&pair, settings, &runs).unwrap()] };
        assert_eq!(
            serde_json::to_string(&report).unwrap(),
            r#"{"profiles":[{"name":"p","cc":"bbr","mode":"ordered","rates":"configured","simulated":false,"runs":3,"seconds":10,"a_mbit":40.0,"b_mbit":10.0,"bond_mbit":45.54,"payload_share":0.911,"ratio_of_sum":0.911,"ratio_of_best":1.139,"ratio_of_capacity":0.5,"download_20mib":{"a_s":4.2,"b_s":null,"bond_s":3.0},"ping_idle_ms":40.0,"ping_loaded_ms":null,"call":{"packets":6,"lost":3,"median_ms":20.1,"in_time":0.0}}]}"#
        );
        assert!(report.table().contains("114 %"), "{}", report.table());
    }

    #[test]
    fn without_a_run_there_is_no_report() {
        let pair: Pair = toml::from_str("name = \"p\"\na = { rate_mbit = 50 }\nb = { rate_mbit = 100 }").unwrap();
        assert_eq!(
            ProfileReport::new(
                &pair,
                Settings { cc: "bbr", mode: "ordered", rates: "configured", simulated: false, seconds: 1, warm_up: 5 },
                &[]
            ),
            None
        );
    }
}
