//! What `bench reliable` found: the JSON document and the table.

use super::bed::{Cores, WARM_UP, Way};
use super::links::Line;
use crate::measure::reads::{Direction, PATIENCE, PAYLOAD};
use crate::measure::{flood, median, reads};
use crate::report::text::{row, table};
use crate::testbed::tunnel::ChannelKind;
use serde::Serialize;
use std::fmt::Write as _;

/// What was the same for all runs.
pub(super) struct Settings<'a> {
    pub(super) seconds: u32,
    pub(super) runs: u32,
    pub(super) channel: ChannelKind,
    /// The bonds' setting, where it is not its default.
    pub(super) equalize: Option<&'a str>,
    pub(super) lines: &'a [Line],
    pub(super) tags: u16,
    pub(super) completions: u8,
    /// `None` where no flood was asked for.
    pub(super) cores: Option<Cores>,
}

/// The document that `fairspan bench reliable --json` prints.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Report {
    runs: u32,
    seconds: u32,
    channel: &'static str,
    equalize: Option<String>,
    traffic: Option<Traffic>,
    small: Option<Small>,
}

/// Reads and writes over the links.
#[derive(Debug, PartialEq, Serialize)]
struct Traffic {
    links: Vec<String>,
    tags: u16,
    read_bytes: usize,
    write_bytes: usize,
    ways: Vec<ReadsOver>,
}

/// One way: counts of all runs together, medians of rates and latencies over the runs.
#[derive(Debug, PartialEq, Serialize)]
struct ReadsOver {
    way: String,
    reads: u64,
    given_up: u64,
    reads_s: Spread,
    read_us: Option<Latency>,
    outward: Frames,
    inward: Frames,
}

/// Medians over the runs; `min` and `max` are the least and the most of all runs.
#[derive(Debug, PartialEq, Serialize)]
struct Latency {
    min: f64,
    mean: f64,
    median: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

/// What became of the frames of one direction in all runs.
#[derive(Debug, PartialEq, Serialize)]
struct Frames {
    #[serde(flatten)]
    fate: Fate,
    frames_s: Spread,
    payload_mbit: Spread,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
struct Fate {
    sent: u64,
    received: u64,
    lost: u64,
    twice: u64,
    out_of_order: u64,
    damaged: u64,
}

/// The median of the runs, and the least and the most of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Spread {
    median: f64,
    min: f64,
    max: f64,
}

/// The smallest frames over a cable.
#[derive(Debug, PartialEq, Serialize)]
struct Small {
    frame_bytes: usize,
    window: u64,
    cores: usize,
    ways: Vec<FloodOver>,
}

#[derive(Debug, PartialEq, Serialize)]
struct FloodOver {
    way: String,
    #[serde(flatten)]
    fate: Fate,
    frames_s: Spread,
    cpu_ns: [f64; 2],
    core_frames_s: f64,
    ratio: f64,
    ratio_of_core: f64,
}

impl Fate {
    fn add(&mut self, sent: u64, received: u64, twice: u64, out_of_order: u64, damaged: u64) {
        self.sent += sent;
        self.received += received;
        self.lost += sent.saturating_sub(received);
        self.twice += twice;
        self.out_of_order += out_of_order;
        self.damaged += damaged;
    }

    fn cells(&self) -> impl Iterator<Item = String> {
        [self.sent, self.lost, self.twice, self.out_of_order, self.damaged].map(|n| n.to_string()).into_iter()
    }
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Spread {
        let values: Vec<f64> = values.collect();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        match median(&values) {
            Some(median) => Spread { median: rounded(median), min: rounded(least), max: rounded(most) },
            None => Spread { median: 0.0, min: 0.0, max: 0.0 },
        }
    }
}

/// What a way is called.
pub(super) fn name(way: Way, lines: Option<&[Line]>) -> String {
    match (way, lines) {
        (Way::Plain(index), Some(lines)) => {
            format!("plain {}", lines.get(index).map_or("link", |line| line.device.as_str()))
        }
        (Way::Plain(_), None) => "plain".to_owned(),
        (Way::Bond(mode), _) => mode.to_owned(),
    }
}

impl Report {
    /// Sums up what was measured of each way; a part that was not measured has no runs.
    pub(super) fn new(
        settings: &Settings<'_>,
        over_links: &[Way],
        reads: &[Vec<reads::Found>],
        over_cable: &[Way],
        floods: &[Vec<flood::Found>],
    ) -> Report {
        let ways = over_links.iter().zip(reads);
        let ways = ways.map(|(way, runs)| ReadsOver::new(name(*way, Some(settings.lines)), runs, settings.seconds));
        let traffic = (!reads.is_empty()).then(|| Traffic {
            links: settings.lines.iter().map(|line| line.text.clone()).collect(),
            tags: settings.tags,
            read_bytes: usize::from(settings.completions) * PAYLOAD,
            write_bytes: PAYLOAD,
            ways: ways.collect(),
        });
        let small = settings.cores.map(|cores| {
            let mut ways = over_cable.iter().zip(floods).map(|(way, runs)| FloodOver::new(name(*way, None), runs));
            let mut ways: Vec<FloodOver> = ways.by_ref().collect();
            let plain = ways.first().map(|plain| (plain.frames_s.median, plain.core_frames_s)).unwrap_or_default();
            for way in &mut ways {
                way.ratio = ratio(way.frames_s.median, plain.0);
                way.ratio_of_core = ratio(way.core_frames_s, plain.1);
            }
            Small { frame_bytes: 64, window: flood::WINDOW, cores: if cores.alone() { 4 } else { 2 }, ways }
        });
        let channel = match settings.channel {
            ChannelKind::Udp => "udp",
            ChannelKind::Ethernet => "ethernet",
        };
        let equalize = settings.equalize.map(str::to_owned);
        Report { runs: settings.runs, seconds: settings.seconds, channel, equalize, traffic, small }
    }

    /// The tables, for people.
    pub(super) fn table(&self) -> String {
        let mut text = String::new();
        if let Some(traffic) = &self.traffic {
            text += &traffic.table(self);
        }
        if let Some(small) = &self.small {
            text += &small.table(self);
        }
        text
    }
}

impl ReadsOver {
    fn new(way: String, runs: &[reads::Found], seconds: u32) -> ReadsOver {
        let measured: Vec<&reads::Found> = runs.iter().filter(|run| !run.latency.is_empty()).collect();
        let each = |value: &dyn Fn(&reads::Found) -> f64| Spread::of(measured.iter().map(|run| value(run) / 1000.0));
        let at = |quantile: f64| each(&|run| run.latency.value_at_quantile(quantile) as f64).median;
        let read_us = (!measured.is_empty()).then(|| Latency {
            min: each(&|run| run.latency.min() as f64).min,
            mean: each(&|run| run.latency.mean()).median,
            median: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            max: each(&|run| run.latency.max() as f64).max,
        });
        ReadsOver {
            way,
            reads: runs.iter().map(|run| run.reads).sum(),
            given_up: runs.iter().map(|run| run.given_up).sum(),
            reads_s: Spread::of(runs.iter().map(|run| run.latency.len() as f64 / f64::from(seconds))),
            read_us,
            outward: Frames::new(runs.iter().map(|run| run.outward)),
            inward: Frames::new(runs.iter().map(|run| run.inward)),
        }
    }
}

impl Frames {
    fn new(runs: impl Iterator<Item = Direction> + Clone) -> Frames {
        let mut fate = Fate::default();
        for run in runs.clone() {
            fate.add(run.sent, run.received, run.twice, run.out_of_order, run.damaged);
        }
        Frames {
            fate,
            frames_s: Spread::of(runs.clone().map(|run| run.frames_s)),
            payload_mbit: Spread::of(runs.map(|run| run.payload_mbit)),
        }
    }
}

impl FloodOver {
    fn new(way: String, runs: &[flood::Found]) -> FloodOver {
        let mut fate = Fate::default();
        for run in runs {
            fate.add(run.sent, run.received, run.twice, run.out_of_order, run.damaged);
        }
        let cpu = [0, 1].map(|side: usize| Spread::of(runs.iter().map(|run| 1e9 * run.cpu_s[side])).median);
        FloodOver {
            way,
            fate,
            frames_s: Spread::of(runs.iter().map(|run| run.frames_s)),
            cpu_ns: cpu,
            // The side that has more to do would be the slower one.
            core_frames_s: Spread::of(runs.iter().map(|run| 1.0 / run.cpu_s[0].max(run.cpu_s[1]).max(1e-9))).median,
            ratio: 0.0,
            ratio_of_core: 0.0,
        }
    }
}

const FATE: [&str; 5] = ["sent", "lost", "twice", "out of\norder", "damaged"];

impl Traffic {
    fn table(&self, report: &Report) -> String {
        let mut rates = table(
            &[
                "",
                "reads/s",
                "least",
                "most",
                "Mbit/s\nread",
                "written",
                "us min",
                "mean",
                "median",
                "99 %",
                "99.9 %",
                "max",
                "given\nup",
            ]
            .map(str::to_owned),
        );
        let mut fates =
            table(&[&["frames", ""], &FATE[..]].concat().iter().map(|&head| head.to_owned()).collect::<Vec<_>>());
        for way in &self.ways {
            let mut cells = vec![way.way.clone()];
            let reads = way.reads_s;
            cells.extend([reads.median, reads.min, reads.max].map(|rate| format!("{rate:.0}")));
            cells.extend([way.inward.payload_mbit, way.outward.payload_mbit].map(|rate| format!("{:.2}", rate.median)));
            match &way.read_us {
                Some(us) => {
                    let all = [us.min, us.mean, us.median, us.p99, us.p999, us.max];
                    cells.extend(all.map(|us| format!("{us:.0}")));
                }
                None => cells.extend([""; 6].map(|_| "-".to_owned())),
            }
            cells.push(way.given_up.to_string());
            rates.add_row(row(&cells));
            for (direction, frames) in [("out", &way.outward), ("back", &way.inward)] {
                let cells: Vec<String> =
                    [way.way.clone(), direction.to_owned()].into_iter().chain(frames.fate.cells()).collect();
                fates.add_row(row(&cells));
            }
        }
        let mut text = format!("{rates}\n\n{fates}\n\n");
        for (line, letter) in self.links.iter().zip('a'..) {
            let _ = writeln!(text, "link-{letter}: {line}");
        }
        let _ = writeln!(
            text,
            "Reads of {} bytes (a request out, {} completions of {PAYLOAD} bytes back), {} at once, and with each a posted write of \
             {PAYLOAD} bytes\n(out); given up after {} ms. Medians of {} interleaved run(s) of {} s after {} s that do not count; min and max: \
             of all runs.\nLatency: from the request to the last completion. Frames: of all runs, warm-up included. plain: the link alone, \
             an\nAF_PACKET forwarder at each side; else the mode of a bond of all links, {} channels, rates configured{}.\n",
            self.read_bytes,
            self.read_bytes / PAYLOAD,
            self.tags,
            PATIENCE.as_millis(),
            report.runs,
            report.seconds,
            WARM_UP.as_secs(),
            report.channel,
            report.equalize.as_ref().map_or_else(String::new, |equalize| format!(", equalize {equalize}")),
        );
        text
    }
}

impl Small {
    fn table(&self, report: &Report) -> String {
        let head =
            ["", "frames/s", "least", "most", "of plain", "CPU ns\nnear", "far", "frames/s\nof a core", "of plain"];
        let mut rates = table(&[&head[..], &FATE[..]].concat().iter().map(|&head| head.to_owned()).collect::<Vec<_>>());
        for way in &self.ways {
            let mut cells = vec![way.way.clone()];
            cells.extend([way.frames_s.median, way.frames_s.min, way.frames_s.max].map(|rate| format!("{rate:.0}")));
            cells.push(format!("{:.0} %", 100.0 * way.ratio));
            cells.extend(way.cpu_ns.map(|ns| format!("{ns:.0}")));
            cells.extend([format!("{:.0}", way.core_frames_s), format!("{:.0} %", 100.0 * way.ratio_of_core)]);
            cells.extend(way.fate.cells());
            rates.add_row(row(&cells));
        }
        let hosts = match self.cores {
            2 => "each side shares its core with its host",
            _ => "each side has a core, and so has each host",
        };
        format!(
            "{rates}\n\nFrames of {} bytes (checksum included) one way over one cable, {} under way at most: as many as arrive without \
             loss;\n{hosts}. Frames/s of a core: by the processor time of the side that needs more, alone.\nMedians of {} interleaved \
             run(s) of {} s after {} s that do not count. plain: an AF_PACKET forwarder at each\nside; else the mode of a bond of one \
             {} channel. Frames: of all runs, warm-up included.\n",
            self.frame_bytes,
            self.window,
            report.runs,
            report.seconds,
            WARM_UP.as_secs(),
            report.channel,
        )
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { rounded(part / whole) } else { 0.0 }
}

/// Three decimals.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::Histogram;

    fn read_run(reads: u64, lost: u64, mbit: f64) -> reads::Found {
        let mut latency = Histogram::new(3).unwrap();
        for n in 1..=reads {
            latency.record(n * 1000).unwrap();
        }
        let direction = Direction { sent: 100, received: 100 - lost, payload_mbit: mbit, ..Direction::default() };
        reads::Found { latency, reads, given_up: lost, outward: direction, inward: direction }
    }

    fn flood_run(frames_s: f64, cpu_s: [f64; 2]) -> flood::Found {
        flood::Found { sent: 10, received: 9, twice: 0, out_of_order: 1, damaged: 0, frames_s, cpu_s }
    }

    fn report() -> Report {
        let lines = super::super::links::read(&["rate=10Mbit,loss=1%".to_owned()]).unwrap();
        let settings = Settings {
            seconds: 2,
            runs: 3,
            channel: ChannelKind::Ethernet,
            equalize: Some("0ms"),
            lines: &lines,
            tags: 8,
            completions: 2,
            cores: Some(Cores { sides: [0, 1], hosts: [0, 1] }),
        };
        let reads =
            [vec![read_run(0, 5, 0.0)], vec![read_run(100, 0, 3.0), read_run(200, 1, 5.0), read_run(300, 0, 4.0)]];
        let floods = [
            vec![flood_run(1e6, [4e-7, 5e-7]), flood_run(3e6, [4e-7, 5e-7]), flood_run(2e6, [4e-7, 5e-7])],
            vec![flood_run(1.5e6, [8e-7, 2e-7])],
        ];
        let bond = Way::Bond("reliable");
        Report::new(&settings, &[Way::Plain(0), bond], &reads, &[Way::Plain(0), bond], &floods)
    }

    #[test]
    fn the_json_has_the_documented_keys_medians_and_spreads() {
        let json = serde_json::to_value(report()).unwrap();
        let frames = |lost: u64, sent: u64, [median, min, max]: [f64; 3]| {
            serde_json::json!({
                "sent": sent, "received": sent - lost, "lost": lost, "twice": 0, "out_of_order": 0, "damaged": 0,
                "frames_s": {"median": 0.0, "min": 0.0, "max": 0.0},
                "payload_mbit": {"median": median, "min": min, "max": max},
            })
        };
        assert_eq!(
            json["traffic"],
            serde_json::json!({
                "links": ["rate=10Mbit,loss=1%"], "tags": 8, "read_bytes": 256, "write_bytes": 128,
                "ways": [
                    {"way": "plain link-a", "reads": 0, "given_up": 5, "reads_s": {"median": 0.0, "min": 0.0, "max": 0.0},
                     "read_us": null, "outward": frames(5, 100, [0.0; 3]), "inward": frames(5, 100, [0.0; 3])},
                    {"way": "reliable", "reads": 600, "given_up": 1, "reads_s": {"median": 100.0, "min": 50.0, "max": 150.0},
                     "read_us": json["traffic"]["ways"][1]["read_us"],
                     "outward": frames(1, 300, [4.0, 3.0, 5.0]), "inward": frames(1, 300, [4.0, 3.0, 5.0])},
                ],
            })
        );
        let us = &json["traffic"]["ways"][1]["read_us"];
        let near = |key: &str, value: f64| us[key].as_f64().is_some_and(|us| (us / value - 1.0).abs() < 0.002);
        let expected =
            [("min", 1.0), ("mean", 100.5), ("median", 100.0), ("p99", 198.0), ("p999", 200.0), ("max", 300.0)];
        assert!(expected.iter().all(|(key, value)| near(key, *value)), "{us}");
        assert_eq!((&json["runs"], &json["seconds"], &json["channel"]), (&3.into(), &2.into(), &"ethernet".into()));
        let small = &json["small"];
        assert_eq!(
            (&small["frame_bytes"], &small["window"], &small["cores"]),
            (&64.into(), &flood::WINDOW.into(), &2.into())
        );
        assert_eq!(
            small["ways"][1],
            serde_json::json!({
                "way": "reliable", "sent": 10, "received": 9, "lost": 1, "twice": 0, "out_of_order": 1, "damaged": 0,
                "frames_s": {"median": 1.5e6, "min": 1.5e6, "max": 1.5e6}, "cpu_ns": [800.0, 200.0],
                "core_frames_s": 1.25e6, "ratio": 0.75, "ratio_of_core": 0.625,
            })
        );
        assert_eq!(small["ways"][0]["ratio"], 1.0);
    }

    #[test]
    fn the_tables_name_what_is_compared() {
        let table = report().table();
        for part in [
            "rates configured, equalize 0ms.",
            "plain link-a",
            "reliable",
            "75 %",
            "62 %",
            "link-a: rate=10Mbit,loss=1%",
            "Reads of 256 bytes",
        ] {
            assert!(table.contains(part), "{part}: {table}");
        }
    }
}
