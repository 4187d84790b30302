//! The table of metrics: what results have by name, its unit, and where it is read.
//!
//! A new metric is a row here, a field in `results.rs` if nothing has measured it yet, and a line in docs/scenarios.md.

use crate::results::{
    CallResult, GameResult, MediumResult, RingLinkResult, RingResult, SizeClass, SplitResult, TcpResult, Transfers,
    VideoResult,
};
use crate::results::{Distribution, FlowResult, LimitResult, LinkResult, Percentiles, Reordering, Results};
use std::fmt;

/// What a metric counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bits per second.
    BitsPerSecond,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Packets, events, transfers.
    Count,
    /// A share, a ratio, an index.
    None,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unit::BitsPerSecond => "bit/s",
            Unit::Seconds => "s",
            Unit::Bytes => "bytes",
            Unit::Count | Unit::None => "",
        })
    }
}

/// What a metric needs of `[metrics]` beyond the summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::scenario) enum Needs {
    Nothing,
    /// `delay`.
    Percentiles,
    /// `reordering`.
    Reordering,
}

/// A value, or why there is none: a remedy to be told behind the metric's name, if one is known.
pub(super) type Found = Result<f64, &'static str>;

/// A row: what is called so in a `T`.
pub(super) struct Field<T: 'static> {
    pub(super) name: &'static str,
    pub(super) unit: Unit,
    pub(super) needs: Needs,
    pub(super) value: fn(&T) -> Found,
}

/// A group of rows: for each of [`STATISTICS`] the name begins so.
pub(super) struct Spread {
    pub(super) prefix: &'static str,
    unit: Unit,
    /// [`Needs::Percentiles`]: only those of its rows that are percentiles; else all of them.
    pub(super) needs: Needs,
    distribution: fn(&FlowResult) -> Result<&Distribution, &'static str>,
}

impl<T> PartialEq for Field<T> {
    fn eq(&self, other: &Field<T>) -> bool {
        self.name == other.name
    }
}

impl<T> fmt::Debug for Field<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Spread {
    fn eq(&self, other: &Spread) -> bool {
        self.prefix == other.prefix
    }
}

impl fmt::Debug for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.prefix)
    }
}

impl Spread {
    /// What one of its rows counts.
    pub(super) fn unit(&self, statistic: &Field<Distribution>) -> Unit {
        if statistic.unit == Unit::Count { Unit::Count } else { self.unit }
    }

    /// What its samples count.
    pub(super) fn samples_unit(&self) -> Unit {
        self.unit
    }

    /// What is summarised of a flow.
    pub(super) fn distribution<'a>(&self, flow: &'a FlowResult) -> Result<&'a Distribution, &'static str> {
        (self.distribution)(flow)
    }

    /// What one of its rows needs.
    pub(super) fn needs(&self, statistic: &Field<Distribution>) -> Needs {
        if self.needs == Needs::Percentiles { statistic.needs } else { self.needs }
    }

    /// The value of one of its rows.
    pub(super) fn value(&self, statistic: &Field<Distribution>, flow: &FlowResult) -> Found {
        (statistic.value)((self.distribution)(flow)?)
    }
}

const fn row<T>(name: &'static str, unit: Unit, value: fn(&T) -> Found) -> Field<T> {
    Field { name, unit, needs: Needs::Nothing, value }
}

impl<T> Field<T> {
    const fn needing(self, needs: Needs) -> Field<T> {
        Field { needs, ..self }
    }
}

fn reordering(flow: &FlowResult) -> Result<&Reordering, &'static str> {
    flow.reordering.as_deref().ok_or("; it needs `reordering = true` in [metrics]")
}

fn tcp(flow: &FlowResult) -> Result<&TcpResult, &'static str> {
    flow.tcp.as_ref().ok_or("; the flow has no TCP")
}

fn transfers(flow: &FlowResult) -> Result<&Transfers, &'static str> {
    flow.transfers.as_deref().ok_or("; the flow has no transfers")
}

fn video(flow: &FlowResult) -> Result<&VideoResult, &'static str> {
    flow.video.as_deref().ok_or("; the flow is no video")
}

fn call(flow: &FlowResult) -> Result<&CallResult, &'static str> {
    flow.call.as_deref().ok_or("; the flow is no call")
}

fn game(flow: &FlowResult) -> Result<&GameResult, &'static str> {
    flow.game.as_deref().ok_or("; the flow is no game")
}

const NO_SLOWDOWN: &str = "; slowdowns are those of transfers over links of constant rates";

/// A class of sizes, from 0.
pub(super) fn class(flow: &FlowResult, number: usize) -> Result<&SizeClass, &'static str> {
    transfers(flow)?
        .classes
        .get(number)
        .ok_or("; `classes` of a flow with kind = \"transfers\" says how many there are")
}

fn percentiles(distribution: &Distribution) -> Result<Percentiles, &'static str> {
    distribution.percentiles.ok_or("; percentiles need `delay = true` in [metrics]")
}

/// n-reordering for some n, called `reordering.n` and the number: 1 to [`MOST_N`].
pub(super) fn n_reordering(flow: &FlowResult, n: usize) -> Found {
    Ok(reordering(flow)?.n_reordering.get(n - 1).copied().unwrap_or(0.0))
}

/// See [`n_reordering`].
pub(super) const MOST_N: usize = 1000;

/// Of the whole run.
pub(super) static TOTALS: [Field<Results>; 7] = [
    // Of nothing it is no number, and so meets no expectation.
    row("jain", Unit::None, |all| Ok(all.jain.unwrap_or(f64::NAN))),
    row("goodput", Unit::BitsPerSecond, |all| Ok(all.goodput)),
    row("events", Unit::Count, |all| Ok(all.events as f64)),
    row("sent", Unit::Count, |all| Ok(all.conservation.sent as f64)),
    row("delivered", Unit::Count, |all| Ok(all.conservation.delivered as f64)),
    row("dropped", Unit::Count, |all| {
        Ok(all.conservation.dropped.iter().map(|dropped| dropped.packets).sum::<u64>() as f64)
    }),
    row("in_flight", Unit::Count, |all| Ok(all.conservation.in_flight as f64)),
];

/// Of a flow.
pub(super) static FLOW: [Field<FlowResult>; 42] = [
    row("goodput", Unit::BitsPerSecond, |flow| Ok(flow.goodput)),
    row("throughput", Unit::BitsPerSecond, |flow| Ok(flow.throughput)),
    row("gap", Unit::Seconds, |flow| Ok(flow.gap)),
    row("sent", Unit::Count, |flow| Ok(flow.sent as f64)),
    row("received", Unit::Count, |flow| Ok(flow.received as f64)),
    row("dropped", Unit::Count, |flow| Ok(flow.dropped as f64)),
    row("loss", Unit::None, |flow| Ok(if flow.sent == 0 { 0.0 } else { flow.dropped as f64 / flow.sent as f64 })),
    row("reordering.ratio", Unit::None, |flow| Ok(reordering(flow)?.ratio)).needing(Needs::Reordering),
    row("reordering.below_highest", Unit::None, |flow| Ok(reordering(flow)?.below_highest)).needing(Needs::Reordering),
    row("tcp.retransmitted", Unit::Count, |flow| Ok(tcp(flow)?.retransmitted as f64)),
    row("tcp.timeouts", Unit::Count, |flow| Ok(tcp(flow)?.timeouts as f64)),
    row("tcp.recoveries", Unit::Count, |flow| Ok(tcp(flow)?.recoveries as f64)),
    row("tcp.window", Unit::Bytes, |flow| Ok(tcp(flow)?.window as f64)),
    row("tcp.smoothed_rtt", Unit::Seconds, |flow| Ok(tcp(flow)?.smoothed_rtt)),
    row("failover", Unit::Seconds, |flow| flow.failover.ok_or("; no outage begins in the measured time")),
    row("transfers.completed", Unit::Count, |flow| Ok(transfers(flow)?.completed as f64)),
    row("transfers.failed", Unit::Count, |flow| Ok(transfers(flow)?.failed as f64)),
    row("transfers.started", Unit::Count, |flow| Ok(transfers(flow)?.started as f64)),
    row("transfers.unfinished", Unit::Count, |flow| Ok(transfers(flow)?.unfinished as f64)),
    row("transfers.unfinished_bytes", Unit::Bytes, |flow| Ok(transfers(flow)?.unfinished_bytes as f64)),
    row("transfers.bytes", Unit::Bytes, |flow| Ok(transfers(flow)?.bytes as f64)),
    // What http_load says: bytes of all over the time from the first beginning to the last end.
    row("transfers.throughput", Unit::BitsPerSecond, |flow| {
        let transfers = transfers(flow)?;
        // None is complete: nothing came through.
        Ok(if transfers.elapsed_s > 0.0 { 8.0 * transfers.bytes as f64 / transfers.elapsed_s } else { 0.0 })
    }),
    row("video.chunks", Unit::Count, |flow| Ok(video(flow)?.chunks as f64)),
    row("video.bitrate", Unit::BitsPerSecond, |flow| Ok(video(flow)?.bitrate)),
    row("video.level", Unit::None, |flow| Ok(video(flow)?.level)),
    row("video.switches", Unit::Count, |flow| Ok(video(flow)?.switches as f64)),
    row("video.start", Unit::Seconds, |flow| video(flow)?.start_s.ok_or("; it never began to play")),
    row("video.stalls", Unit::Count, |flow| Ok(video(flow)?.stalls as f64)),
    row("video.stalled", Unit::Seconds, |flow| Ok(video(flow)?.stalled_s)),
    row("video.played", Unit::Seconds, |flow| Ok(video(flow)?.played_s)),
    row("call.frames", Unit::Count, |flow| Ok(call(flow)?.frames as f64)),
    row("call.lost", Unit::Count, |flow| Ok(call(flow)?.lost as f64)),
    row("call.late", Unit::Count, |flow| Ok(call(flow)?.late as f64)),
    row("call.missing", Unit::None, |flow| {
        let call = call(flow)?;
        Ok((call.lost + call.late) as f64 / call.frames.max(1) as f64)
    }),
    row("call.delay", Unit::Seconds, |flow| call(flow)?.delay_s.ok_or("; no frame came")),
    row("call.burst_ratio", Unit::None, |flow| Ok(call(flow)?.burst_ratio)),
    row("call.rating", Unit::None, |flow| call(flow)?.rating.ok_or("; no frame was to be played")),
    row("game.inputs", Unit::Count, |flow| Ok(game(flow)?.inputs as f64)),
    row("game.states", Unit::Count, |flow| Ok(game(flow)?.states as f64)),
    row("game.freezes", Unit::Count, |flow| Ok(game(flow)?.freezes as f64)),
    row("game.frozen", Unit::Seconds, |flow| Ok(game(flow)?.frozen_s)),
    row("call.mos", Unit::None, |flow| call(flow)?.mos.ok_or("; no frame was to be played")),
];

/// Of a class of sizes, called `transfers.classN.`, each with the [`STATISTICS`]: name, unit and what is summarised.
pub(super) static CLASS: [ClassSpread; 2] = [
    ClassSpread { prefix: "duration.", unit: Unit::Seconds, distribution: |class| &class.duration },
    ClassSpread { prefix: "slowdown.", unit: Unit::None, distribution: |class| &class.slowdown },
];

/// What is summarised of a class of sizes.
pub(super) struct ClassSpread {
    pub(super) prefix: &'static str,
    pub(super) unit: Unit,
    pub(super) distribution: fn(&SizeClass) -> &Distribution,
}

impl PartialEq for ClassSpread {
    fn eq(&self, other: &ClassSpread) -> bool {
        self.prefix == other.prefix
    }
}

impl fmt::Debug for ClassSpread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.prefix)
    }
}

/// Of a flow too, each with the [`STATISTICS`].
pub(super) static SPREADS: [Spread; 6] = [
    Spread { prefix: "delay.", unit: Unit::Seconds, needs: Needs::Percentiles, distribution: |flow| Ok(&flow.delay) },
    Spread { prefix: "jitter.", unit: Unit::Seconds, needs: Needs::Percentiles, distribution: |flow| Ok(&flow.jitter) },
    Spread {
        prefix: "reordering.extent.",
        unit: Unit::Count,
        needs: Needs::Reordering,
        distribution: |flow| Ok(&reordering(flow)?.extent),
    },
    Spread {
        prefix: "game.lag.",
        unit: Unit::Seconds,
        needs: Needs::Nothing,
        distribution: |flow| Ok(&game(flow)?.lag),
    },
    Spread {
        prefix: "transfers.duration.",
        unit: Unit::Seconds,
        needs: Needs::Nothing,
        distribution: |flow| Ok(&transfers(flow)?.duration),
    },
    Spread {
        prefix: "transfers.slowdown.",
        unit: Unit::None,
        needs: Needs::Nothing,
        distribution: |flow| transfers(flow)?.slowdown.as_ref().ok_or(NO_SLOWDOWN),
    },
];

/// Of a distribution; all but `count` are in the distribution's unit.
pub(super) static STATISTICS: [Field<Distribution>; 9] = [
    row("count", Unit::Count, |of| Ok(of.count as f64)),
    row("mean", Unit::None, |of| Ok(of.mean)),
    row("min", Unit::None, |of| Ok(of.min)),
    row("max", Unit::None, |of| Ok(of.max)),
    row("deviation", Unit::None, |of| Ok(of.deviation)),
    row("p50", Unit::None, |of| Ok(percentiles(of)?.p50)).needing(Needs::Percentiles),
    row("p90", Unit::None, |of| Ok(percentiles(of)?.p90)).needing(Needs::Percentiles),
    row("p99", Unit::None, |of| Ok(percentiles(of)?.p99)).needing(Needs::Percentiles),
    row("p99.9", Unit::None, |of| Ok(percentiles(of)?.p999)).needing(Needs::Percentiles),
];

/// Of a link.
pub(super) static LINK: [Field<LinkResult>; 6] = [
    row("packets", Unit::Count, |link| Ok(link.packets as f64)),
    row("bytes", Unit::Bytes, |link| Ok(link.bytes as f64)),
    row("load", Unit::None, |link| Ok(link.load)),
    row("dropped", Unit::Count, |link| Ok(link.dropped as f64)),
    row("queue_mean", Unit::Bytes, |link| Ok(link.queue_mean)),
    row("queue_max", Unit::Bytes, |link| Ok(link.queue_max as f64)),
];

/// Of a medium that links share.
pub(super) static MEDIUM: [Field<MediumResult>; 5] = [
    row("packets", Unit::Count, |medium| Ok(medium.packets as f64)),
    row("bytes", Unit::Bytes, |medium| Ok(medium.bytes as f64)),
    row("turns", Unit::Count, |medium| Ok(medium.turns as f64)),
    row("load", Unit::None, |medium| Ok(medium.load)),
    row("overhead", Unit::None, |medium| Ok(medium.overhead)),
];

/// Of a gateway that splits connections.
pub(super) static SPLIT: [Field<SplitResult>; 13] = [
    row("connections", Unit::Count, |split| Ok(split.connections as f64)),
    row("open", Unit::Count, |split| Ok(split.open as f64)),
    row("passed", Unit::Count, |split| Ok(split.passed as f64)),
    row("dropped", Unit::Count, |split| Ok(split.dropped as f64)),
    row("queue.mean", Unit::Bytes, |split| Ok(split.queue.mean)),
    row("queue.max", Unit::Bytes, |split| Ok(split.queue.max as f64)),
    row("queue.last", Unit::Bytes, |split| Ok(split.queue.last as f64)),
    row("unsent.mean", Unit::Bytes, |split| Ok(split.unsent.mean)),
    row("unsent.max", Unit::Bytes, |split| Ok(split.unsent.max as f64)),
    row("unsent.last", Unit::Bytes, |split| Ok(split.unsent.last as f64)),
    row("total.mean", Unit::Bytes, |split| Ok(split.total.mean)),
    row("total.max", Unit::Bytes, |split| Ok(split.total.max as f64)),
    row("total.last", Unit::Bytes, |split| Ok(split.total.last as f64)),
];

/// Of a ring.
pub(super) static RING: [Field<RingResult>; 10] = [
    // Until the last limiter has settled. None where the ring has no limiters.
    row("converged", Unit::Seconds, |ring| {
        let times = ring.limits.iter().map(|limit| limit.converged_s.unwrap_or(f64::INFINITY));
        times.reduce(f64::max).ok_or("")
    }),
    // Of the limiter with most.
    row("oscillation", Unit::None, |ring| ring.limits.iter().map(|limit| limit.oscillation).reduce(f64::max).ok_or("")),
    row("restored", Unit::Seconds, |ring| ring.restored_s.ok_or("")),
    row("dropped", Unit::Count, |ring| Ok(ring.dropped.iter().map(|dropped| dropped.packets).sum::<u64>() as f64)),
    row("control.sent", Unit::Count, |ring| Ok(ring.control.sent as f64)),
    row("control.taken", Unit::Count, |ring| Ok(ring.control.taken as f64)),
    row("control.lost", Unit::Count, |ring| Ok(ring.control.lost as f64)),
    row("control.unheard", Unit::Count, |ring| Ok(ring.control.unheard as f64)),
    row("control.corrupted", Unit::Count, |ring| Ok(ring.control.corrupted as f64)),
    row("control.refused", Unit::Count, |ring| {
        Ok(ring.control.refused.iter().map(|refused| refused.messages).sum::<u64>() as f64)
    }),
];

/// Of a ring's limiter.
pub(super) static LIMIT: [Field<LimitResult>; 8] = [
    row("last", Unit::BitsPerSecond, |limit| Ok(limit.last)),
    row("mean", Unit::BitsPerSecond, |limit| Ok(limit.mean)),
    row("min", Unit::BitsPerSecond, |limit| Ok(limit.min)),
    row("max", Unit::BitsPerSecond, |limit| Ok(limit.max)),
    row("settled", Unit::BitsPerSecond, |limit| Ok(limit.settled)),
    row("converged", Unit::Seconds, |limit| Ok(limit.converged_s.unwrap_or(f64::INFINITY))),
    row("oscillation", Unit::None, |limit| Ok(limit.oscillation)),
    row("changes", Unit::Count, |limit| Ok(limit.changes as f64)),
];

/// Of one direction of a link of a ring.
pub(super) static WAY: [Field<RingLinkResult>; 7] = [
    row("packets", Unit::Count, |way| Ok(way.packets as f64)),
    row("bytes", Unit::Bytes, |way| Ok(way.bytes as f64)),
    row("load", Unit::None, |way| Ok(way.load)),
    row("control", Unit::Count, |way| Ok(way.control as f64)),
    row("control_load", Unit::None, |way| Ok(way.control_load)),
    row("transit_max", Unit::Bytes, |way| Ok(way.transit_max as f64)),
    row("ahead_max", Unit::Bytes, |way| Ok(way.ahead_max as f64)),
];

/// The row of a name.
pub(super) fn find<T>(rows: &'static [Field<T>], name: &str) -> Option<&'static Field<T>> {
    rows.iter().find(|row| row.name == name)
}

/// The names of rows, for errors.
pub(super) fn names<T>(rows: &[Field<T>]) -> String {
    rows.iter().map(|row| row.name).collect::<Vec<&str>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn docs_scenarios_names_every_metric() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scenarios.md");
        let text = std::fs::read_to_string(path).expect("docs/scenarios.md");
        let flows = FLOW.iter().map(|row| row.name).chain(STATISTICS.iter().map(|row| row.name));
        let links = LINK.iter().map(|row| row.name).chain(TOTALS.iter().map(|row| row.name));
        let rings = RING.iter().map(|row| row.name).chain(LIMIT.iter().map(|row| row.name));
        let splits = SPLIT.iter().map(|row| row.name).chain(MEDIUM.iter().map(|row| row.name));
        for name in flows.chain(links).chain(rings).chain(WAY.iter().map(|row| row.name)).chain(splits) {
            assert!(text.contains(&format!("`{name}`")), "docs/scenarios.md: `{name}`");
        }
    }
}
