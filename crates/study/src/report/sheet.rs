//! Results as CSV files (RFC 4180): a line for each run, for each flow and link of each run, and for each mean.
//!
//! Rates are in bit/s, times in seconds, sizes in bytes; what is no number, or was not measured, is an empty field.

use super::document::hash;
use super::estimate::{estimates, metrics};
use super::series::quoted;
use crate::simulation::Finished;
use fairspan_sim::results::FlowResult;
use fairspan_sim::scenario::File;

/// A sheet that grows line by line.
pub(super) struct Sheet(String);

impl Sheet {
    pub(super) fn new(head: &[String]) -> Sheet {
        let mut sheet = Sheet(String::new());
        sheet.line(head);
        sheet
    }

    pub(super) fn line(&mut self, cells: &[String]) {
        let cells: Vec<String> = cells.iter().map(|cell| quoted(cell)).collect();
        self.0 += &cells.join(",");
        self.0.push('\n');
    }

    /// The whole text.
    pub(super) fn finish(self) -> String {
        self.0
    }
}

/// The sheets by the names of their files; those of which there is nothing are left out.
pub(super) fn all(file: &File, finished: &[Finished]) -> Vec<(&'static str, String)> {
    let sheets = [
        ("runs.csv", runs(file, finished)),
        ("flows.csv", flows(file, finished)),
        ("links.csv", links(file, finished)),
        ("means.csv", means(file, finished)),
    ];
    sheets.into_iter().filter(|(_, text)| text.lines().count() > 1).collect()
}

/// A number as short as it can be read back.
pub(super) fn number(value: f64) -> String {
    if value.is_finite() { value.to_string() } else { String::new() }
}

/// The columns that say which run a line is of.
pub(super) fn head(file: &File, own: &[&str]) -> Vec<String> {
    let mut head = vec!["run".to_owned(), "point".to_owned()];
    head.extend(file.parameters().map(str::to_owned));
    head.push("seed".to_owned());
    head.extend(own.iter().map(|&name| name.to_owned()));
    head
}

pub(super) fn which(run: &Finished) -> Vec<String> {
    let mut cells = vec![run.number.to_string(), run.point.to_string()];
    cells.extend(run.parameters.iter().map(|(_, value)| value.trim_matches('"').to_owned()));
    cells.push(run.results.seed.to_string());
    cells
}

fn runs(file: &File, finished: &[Finished]) -> String {
    let metrics = metrics(file);
    let mut columns = head(file, &["events", "log_hash"]);
    columns.extend(metrics.iter().map(|metric| metric.text().to_owned()));
    let mut sheet = Sheet::new(&columns);
    for run in finished {
        let mut cells = which(run);
        cells.extend([run.results.events.to_string(), hash(run.results.log_hash)]);
        cells.extend(metrics.iter().map(|metric| number(metric.value(&run.results).unwrap_or(f64::NAN))));
        sheet.line(&cells);
    }
    sheet.0
}

fn flows(file: &File, finished: &[Finished]) -> String {
    let mut sheet = Sheet::new(&head(
        file,
        &[
            "flow",
            "sent",
            "received",
            "dropped",
            "throughput",
            "goodput",
            "gap",
            "delay_mean",
            "delay_min",
            "delay_max",
            "delay_p50",
            "delay_p90",
            "delay_p99",
            "delay_p99.9",
            "retransmitted",
            "timeouts",
            "transfers",
            "transfers_failed",
            "transfer_bytes",
            "duration_mean",
            "duration_p50",
            "duration_p99",
            "transfers_unfinished",
            "transfers_started",
            "unfinished_bytes",
            "slowdown_mean",
            "slowdown_p50",
            "slowdown_p99",
            "failover",
            "video_bitrate",
            "video_switches",
            "video_stalls",
            "video_stalled",
            "call_missing",
            "call_rating",
            "call_mos",
            "game_lag_p50",
            "game_lag_p99",
            "game_freezes",
            "game_frozen",
        ],
    ));
    for run in finished {
        for flow in &run.results.flows {
            let mut cells = which(run);
            cells.push(flow.name.clone());
            cells.extend([flow.sent, flow.received, flow.dropped].map(|count| count.to_string()));
            cells.extend([flow.throughput, flow.goodput, flow.gap].map(number));
            let delay = Some(&flow.delay).filter(|delay| delay.count > 0);
            let of = |value: Option<f64>| value.map_or(String::new(), number);
            cells.extend([delay.map(|all| all.mean), delay.map(|all| all.min), delay.map(|all| all.max)].map(of));
            let percentiles = delay.and_then(|all| all.percentiles);
            cells.extend([
                of(percentiles.map(|all| all.p50)),
                of(percentiles.map(|all| all.p90)),
                of(percentiles.map(|all| all.p99)),
                of(percentiles.map(|all| all.p999)),
            ]);
            let count = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
            let (tcp, transfers) = (flow.tcp.as_ref(), flow.transfers.as_ref());
            cells.extend([tcp.map(|tcp| tcp.retransmitted), tcp.map(|tcp| tcp.timeouts)].map(count));
            cells.extend([transfers.map(|all| all.completed), transfers.map(|all| all.failed)].map(count));
            cells.push(count(transfers.map(|all| all.bytes)));
            let duration = transfers.map(|all| &all.duration).filter(|duration| duration.count > 0);
            cells.push(of(duration.map(|all| all.mean)));
            let percentiles = duration.and_then(|all| all.percentiles);
            cells.extend([percentiles.map(|all| all.p50), percentiles.map(|all| all.p99)].map(of));
            cells.extend(applications(flow));
            sheet.line(&cells);
        }
    }
    sheet.0
}

/// What of a flow its application tells.
fn applications(flow: &FlowResult) -> Vec<String> {
    let of = |value: Option<f64>| value.map_or(String::new(), number);
    let (transfers, video, call) = (flow.transfers.as_ref(), flow.video.as_ref(), flow.call.as_ref());
    let slowdown = transfers.and_then(|all| all.slowdown.as_ref()).filter(|slowdown| slowdown.count > 0);
    let percentiles = slowdown.and_then(|all| all.percentiles);
    let counts = transfers.map(|all| [all.unfinished, all.started, all.unfinished_bytes]);
    let mut cells: Vec<String> =
        counts.map_or_else(|| vec![String::new(); 3], |counts| counts.map(|count| count.to_string()).to_vec());
    cells
        .extend([slowdown.map(|all| all.mean), percentiles.map(|all| all.p50), percentiles.map(|all| all.p99)].map(of));
    cells.push(of(flow.failover));
    cells.push(of(video.map(|video| video.bitrate)));
    let counts = [video.map(|video| video.switches), video.map(|video| video.stalls)];
    cells.extend(counts.map(|count| count.map_or(String::new(), |count| count.to_string())));
    cells.push(of(video.map(|video| video.stalled_s)));
    cells.push(of(call.map(|call| (call.lost + call.late) as f64 / call.frames.max(1) as f64)));
    cells.extend([call.and_then(|call| call.rating), call.and_then(|call| call.mos)].map(of));
    let lag = flow.game.as_ref().and_then(|game| game.lag.percentiles);
    cells.extend([lag.map(|all| all.p50), lag.map(|all| all.p99)].map(of));
    cells.push(flow.game.as_ref().map_or(String::new(), |game| game.freezes.to_string()));
    cells.push(of(flow.game.as_ref().map(|game| game.frozen_s)));
    cells
}

fn links(file: &File, finished: &[Finished]) -> String {
    let own = ["link", "packets", "bytes", "load", "dropped", "queue_mean", "queue_max"];
    let mut sheet = Sheet::new(&head(file, &own));
    for run in finished {
        for link in &run.results.links {
            let mut cells = which(run);
            cells.extend([link.name.clone(), link.packets.to_string(), link.bytes.to_string(), number(link.load)]);
            cells.extend([link.dropped.to_string(), number(link.queue_mean), link.queue_max.to_string()]);
            sheet.line(&cells);
        }
    }
    sheet.0
}

fn means(file: &File, finished: &[Finished]) -> String {
    let mut columns = vec!["point".to_owned()];
    columns.extend(file.parameters().map(str::to_owned));
    columns.extend(["metric", "unit", "seeds", "mean", "deviation", "half_width", "pooled"].map(str::to_owned));
    let mut sheet = Sheet::new(&columns);
    for estimate in estimates(file, finished) {
        let mut cells = vec![estimate.point.to_string()];
        let at = |name: &str| estimate.at.get(name).and_then(|value| value.as_str()).unwrap_or_default();
        cells.extend(file.parameters().map(|name| at(name).trim_matches('"').to_owned()));
        cells.extend([estimate.metric.to_owned(), estimate.unit.clone(), estimate.seeds.to_string()]);
        cells.extend([estimate.mean, estimate.deviation, estimate.half_width].map(number));
        cells.push(estimate.pooled.map_or(String::new(), number));
        sheet.line(&cells);
    }
    sheet.0
}
