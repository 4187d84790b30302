//! What `bench tunnel` found: the JSON document and the table.

use crate::measure::median;
use comfy_table::{Cell, CellAlignment, Table, presets};
use serde::Serialize;
use std::collections::BTreeMap;

/// One run of one tunnel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample {
    /// TCP goodput in Gbit/s (10^9 bits a second).
    pub(crate) gbit_s: f64,
    /// Seconds of processor time of the whole machine per GB (10^9 bytes) carried.
    pub(crate) cpu_s_per_gb: f64,
    /// Median round trip of ICMP echoes through the idle tunnel, in microseconds.
    pub(crate) rtt_us: f64,
}

/// The medians over the runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Figures {
    gbit_s: f64,
    cpu_s_per_gb: f64,
    rtt_us: f64,
}

/// One tunnel, with the interfaces' offloads on and (`offloads_off`) off.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Both {
    #[serde(flatten)]
    on: Figures,
    offloads_off: Figures,
}

/// All tunnels in one state of the offloads.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct State {
    fairspan: Figures,
    rivals: BTreeMap<&'static str, Figures>,
}

/// The document that `fairspan bench tunnel --json` prints. The figures without offloads stand twice: beside those with
/// offloads of each tunnel, and together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Report {
    fairspan: Both,
    rivals: BTreeMap<&'static str, Both>,
    offloads_off: State,
}

/// The samples of one tunnel.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples {
    /// With the interfaces' offloads as the kernel sets them up.
    pub(crate) on: Vec<Sample>,
    /// Without.
    pub(crate) off: Vec<Sample>,
}

impl Samples {
    /// `None` unless there is a sample in each state.
    fn both(&self) -> Option<Both> {
        Some(Both { on: Figures::median(&self.on)?, offloads_off: Figures::median(&self.off)? })
    }
}

impl Figures {
    fn median(samples: &[Sample]) -> Option<Figures> {
        let of = |field: fn(&Sample) -> f64| median(&samples.iter().map(field).collect::<Vec<_>>());
        Some(Figures {
            gbit_s: rounded(of(|sample| sample.gbit_s)?),
            cpu_s_per_gb: rounded(of(|sample| sample.cpu_s_per_gb)?),
            rtt_us: rounded(of(|sample| sample.rtt_us)?),
        })
    }
}

impl Report {
    /// Sums up; `None` if Fairspan's own samples are missing. A rival without a sample in each state is left out.
    pub(crate) fn new(fairspan: &Samples, rivals: &[(&'static str, Samples)]) -> Option<Report> {
        let fairspan = fairspan.both()?;
        let rivals: BTreeMap<_, _> =
            rivals.iter().filter_map(|(name, samples)| Some((*name, samples.both()?))).collect();
        let offloads_off = State {
            fairspan: fairspan.offloads_off,
            rivals: rivals.iter().map(|(name, both)| (*name, both.offloads_off)).collect(),
        };
        Some(Report { fairspan, rivals, offloads_off })
    }

    /// The table, for people. `bare_rtt_us` is the round trip over the bare cable with offloads on and off.
    pub(crate) fn table(&self, bare_rtt_us: (f64, f64), runs: usize, seconds: u32) -> String {
        let mut table = Table::new();
        table.load_style(presets::UTF8_BORDERS_ONLY);
        let head = ["", "offloads", "Gbit/s", "of wireguard-go", "CPU s/GB", "rtt us", "added us"];
        table.set_header(head.iter().enumerate().map(|(column, text)| aligned(column, text)));
        let all =
            std::iter::once(("fairspan", &self.fairspan)).chain(self.rivals.iter().map(|(name, both)| (*name, both)));
        let yardstick = self.rivals.get("wireguard-go");
        for (name, both) in all {
            let states = [
                ("on", both.on, yardstick.map(|rival| rival.on), bare_rtt_us.0),
                ("off", both.offloads_off, yardstick.map(|rival| rival.offloads_off), bare_rtt_us.1),
            ];
            for (state, figures, rival, bare) in states {
                let share = match rival {
                    Some(rival) if rival.gbit_s > 0.0 => format!("{:.2} x", figures.gbit_s / rival.gbit_s),
                    _ => "-".into(),
                };
                let cells = [
                    name.to_owned(),
                    state.to_owned(),
                    format!("{:.2}", figures.gbit_s),
                    share,
                    format!("{:.2}", figures.cpu_s_per_gb),
                    format!("{:.0}", figures.rtt_us),
                    format!("{:.0}", figures.rtt_us - bare),
                ];
                table.add_row(cells.iter().enumerate().map(|(column, text)| aligned(column, text)));
            }
        }
        format!(
            "{table}\n\nOne TCP connection (cubic) through one encrypted tunnel over one veth pair: medians of {runs} \
             interleaved\nrun(s) of {seconds} s after 1 s that does not count. Gbit = 10^9 bits, GB = 10^9 bytes of \
             application data. CPU:\nthe whole machine (both ends, kernel, test programs) less what it uses when idle. \
             Round trip: idle, ICMP;\nadded: less the bare cable's.\n"
        )
    }
}

/// Three decimals.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

fn aligned(column: usize, text: &str) -> Cell {
    Cell::new(text).set_alignment(if column < 2 { CellAlignment::Left } else { CellAlignment::Right })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(on: &[f64], off: &[f64]) -> Samples {
        let sample = |&gbit_s: &f64| Sample { gbit_s, cpu_s_per_gb: 2.0, rtt_us: 90.0 };
        Samples { on: on.iter().map(sample).collect(), off: off.iter().map(sample).collect() }
    }

    #[test]
    fn the_json_has_the_documented_keys_and_medians() {
        let report = Report::new(
            &samples(&[5.0, 1.0, 6.0], &[2.0, 2.5, 3.0]),
            &[("wireguard-go", samples(&[2.0], &[1.0])), ("openvpn", samples(&[1.0], &[]))],
        );
        assert_eq!(
            serde_json::to_string(&report.unwrap()).unwrap(),
            r#"{"fairspan":{"gbit_s":5.0,"cpu_s_per_gb":2.0,"rtt_us":90.0,"offloads_off":{"gbit_s":2.5,"cpu_s_per_gb":2.0,"rtt_us":90.0}},"rivals":{"wireguard-go":{"gbit_s":2.0,"cpu_s_per_gb":2.0,"rtt_us":90.0,"offloads_off":{"gbit_s":1.0,"cpu_s_per_gb":2.0,"rtt_us":90.0}}},"offloads_off":{"fairspan":{"gbit_s":2.5,"cpu_s_per_gb":2.0,"rtt_us":90.0},"rivals":{"wireguard-go":{"gbit_s":1.0,"cpu_s_per_gb":2.0,"rtt_us":90.0}}}}"#
        );
    }

    #[test]
    fn without_samples_of_our_own_there_is_no_report() {
        assert_eq!(Report::new(&samples(&[1.0], &[]), &[]), None);
    }
}
