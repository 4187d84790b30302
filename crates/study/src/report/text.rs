//! What people read on a terminal.

use super::document::hash;
use super::estimate::Estimate;
use super::words::short;
use crate::simulation::{Expected, Finished};
use comfy_table::{Cell, CellAlignment, Table, presets};
use fairspan_sim::results::{FlowResult, LimitResult, LinkResult, Percentiles, Results, RingEvent, RingLinkResult};
use fairspan_sim::scenario::File;
use std::fmt::Write as _;

/// More rows than this are counted, not shown.
pub const MOST_ROWS: usize = 40;
/// And more links than this.
const MOST_LINKS: usize = 16;

/// Tables wider than this many characters go on below, so that no terminal cuts them.
const WIDEST: usize = 140;

/// The units in which values of `unit` are shown, with their factors, the greatest first.
pub fn steps(unit: &str) -> &'static [(f64, &'static str)] {
    match unit {
        "bit/s" => &[(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")],
        "s" => &[(1.0, "s"), (1e-3, "ms"), (1e-6, "us")],
        "bytes" => &[(1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "bytes")],
        "packets" => &[(1.0, "packets")],
        _ => &[(1.0, "")],
    }
}

/// A factor and the unit that goes with it, for a column whose largest value is `most`.
pub fn scale(unit: &str, most: f64) -> (f64, &'static str) {
    let steps = steps(unit);
    // 0.9 s is better read as 900 ms, 1500 kbit/s as 1.5 Mbit/s.
    steps.iter().copied().find(|(factor, _)| most.abs() >= *factor).unwrap_or(steps[steps.len() - 1])
}

/// A value with its unit.
pub fn quantity(value: f64, unit: &str) -> String {
    let (factor, name) = scale(unit, value);
    format!("{} {name}", short(value / factor)).trim_end().to_owned()
}

/// A table whose columns after the first are numbers.
pub fn table(head: &[String]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header(head.iter().enumerate().map(|(i, text)| cell(i, text)));
    table
}

/// A row of such a table.
pub fn row(cells: &[String]) -> Vec<Cell> {
    cells.iter().enumerate().map(|(i, text)| cell(i, text)).collect()
}

fn cell(column: usize, text: &str) -> Cell {
    let alignment = if column == 0 { CellAlignment::Left } else { CellAlignment::Right };
    Cell::new(text).set_alignment(alignment)
}

/// The rows of a table, header first, in text: what the terminal and the page share.
#[derive(Clone, Debug)]
pub struct Rows {
    /// The header; each cell of a row belongs to one of these.
    pub head: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<String>>,
    /// Rows that are not shown.
    pub more: usize,
}

impl Rows {
    /// For a terminal.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for columns in self.parts() {
            let of = |cells: &[String]| columns.iter().map(|&column| cells[column].clone()).collect::<Vec<String>>();
            let mut out = table(&of(&self.head));
            for cells in &self.rows {
                out.add_row(row(&of(cells)));
            }
            let _ = writeln!(text, "{out}");
        }
        if self.more > 0 {
            let _ = writeln!(text, "… and {} more; --json has all", self.more);
        }
        text
    }

    /// Columns of tables that are not too wide; each has the first one, which says what the rows are.
    fn parts(&self) -> Vec<Vec<usize>> {
        let longest = |cell: &String| cell.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            // A space on each side, and a line or space between.
            cells.chain(self.head.get(column)).map(longest).max().unwrap_or(0) + 3
        };
        let mut parts = vec![vec![0]];
        let mut wide = width(0);
        for column in 1..self.head.len() {
            let own = width(column);
            if wide + own > WIDEST && parts.last().is_some_and(|part| part.len() > 1) {
                parts.push(vec![0]);
                wide = width(0);
            }
            parts.last_mut().expect("one at least").push(column);
            wide += own;
        }
        parts
    }
}

/// One column: its name, its unit, and its values; `None`: a dash.
pub type Column<'a> = (&'a str, &'a str, Vec<Option<f64>>);

/// Rows of names and columns of values, each column in a unit that suits its largest value. Columns that say nothing
/// are left out.
pub fn columns(what: &str, names: Vec<String>, more: usize, columns: Vec<Column<'_>>) -> Rows {
    let mut head = vec![what.to_owned()];
    let mut rows: Vec<Vec<String>> = names.into_iter().map(|name| vec![name]).collect();
    for (name, unit, values) in columns {
        if values.iter().all(Option::is_none) {
            continue;
        }
        let most = values.iter().flatten().fold(0.0_f64, |most, value| most.max(value.abs()));
        let (factor, unit) = scale(unit, most);
        head.push(if unit.is_empty() { name.to_owned() } else { format!("{name}\n{unit}") });
        for (row, value) in rows.iter_mut().zip(values) {
            row.push(value.map_or("-".to_owned(), |value| short(value / factor)));
        }
    }
    Rows { head, rows, more }
}

/// The flows of one run.
pub fn flows(results: &Results) -> Rows {
    let shown = &results.flows[..results.flows.len().min(MOST_ROWS)];
    let all = |value: fn(&FlowResult) -> f64| shown.iter().map(|flow| Some(value(flow))).collect::<Vec<_>>();
    let some = |value: fn(&FlowResult) -> Option<f64>| shown.iter().map(value).collect::<Vec<_>>();
    let percentile =
        |value: fn(Percentiles) -> f64| shown.iter().map(|flow| flow.delay.percentiles.map(value)).collect::<Vec<_>>();
    let delay = |value: fn(&FlowResult) -> f64| {
        shown.iter().map(|flow| (flow.delay.count > 0).then(|| value(flow))).collect::<Vec<_>>()
    };
    columns(
        "flow",
        shown.iter().map(|flow| flow.name.clone()).collect(),
        results.flows.len() - shown.len(),
        vec![
            ("sent", "packets", all(|flow| flow.sent as f64)),
            ("dropped", "packets", all(|flow| flow.dropped as f64)),
            ("throughput", "bit/s", all(|flow| flow.throughput)),
            ("goodput", "bit/s", all(|flow| flow.goodput)),
            ("delay mean", "s", delay(|flow| flow.delay.mean)),
            ("median", "s", percentile(|all| all.p50)),
            ("99 %", "s", percentile(|all| all.p99)),
            ("most", "s", delay(|flow| flow.delay.max)),
            ("jitter", "s", some(|flow| flow.jitter_estimate)),
            ("reordered %", "", some(|flow| flow.reordering.as_ref().map(|r| 100.0 * r.ratio))),
            ("sent again", "packets", some(|flow| flow.tcp.as_ref().map(|tcp| tcp.retransmitted as f64))),
            ("timeouts", "", some(|flow| flow.tcp.as_ref().map(|tcp| tcp.timeouts as f64))),
            ("started", "", some(|flow| flow.transfers.as_ref().map(|t| t.started as f64))),
            ("transfers", "", some(|flow| flow.transfers.as_ref().map(|t| t.completed as f64))),
            ("each", "s", some(|flow| flow.transfers.as_ref().map(|t| t.duration.mean))),
            (
                "slowdown",
                "",
                some(|flow| Some(flow.transfers.as_ref()?.slowdown.as_ref().filter(|all| all.count > 0)?.mean)),
            ),
            ("unfinished", "", some(|flow| flow.transfers.as_ref().map(|t| t.unfinished as f64).filter(|n| *n > 0.0))),
            (
                "unfinished size",
                "bytes",
                some(|flow| flow.transfers.as_ref().map(|t| t.unfinished_bytes as f64).filter(|n| *n > 0.0)),
            ),
            ("failover", "s", some(|flow| flow.failover)),
            ("video", "bit/s", some(|flow| flow.video.as_ref().map(|video| video.bitrate))),
            ("stalls", "", some(|flow| flow.video.as_ref().map(|video| video.stalls as f64))),
            ("stalled", "s", some(|flow| flow.video.as_ref().map(|video| video.stalled_s))),
            (
                "missing %",
                "",
                some(|flow| {
                    let call = flow.call.as_ref().filter(|call| call.frames > 0)?;
                    Some(100.0 * (call.lost + call.late) as f64 / call.frames as f64)
                }),
            ),
            ("lag", "s", some(|flow| Some(flow.game.as_ref()?.lag.percentiles?.p50))),
            ("lag 99 %", "s", some(|flow| Some(flow.game.as_ref()?.lag.percentiles?.p99))),
            ("frozen", "s", some(|flow| flow.game.as_ref().map(|game| game.frozen_s))),
            ("MOS", "", some(|flow| flow.call.as_ref()?.mos)),
        ],
    )
}

/// The links of one run that carried anything; of many, those that dropped most, then the busiest.
pub fn links(results: &Results) -> Rows {
    let used: Vec<&LinkResult> = results.links.iter().filter(|link| link.packets + link.dropped > 0).collect();
    let mut shown = used.clone();
    if used.len() > MOST_LINKS {
        shown.sort_by(|a, b| b.dropped.cmp(&a.dropped).then(b.load.total_cmp(&a.load)));
        shown.truncate(MOST_LINKS);
    }
    let all = |value: fn(&LinkResult) -> f64| shown.iter().map(|link| Some(value(link))).collect::<Vec<_>>();
    columns(
        "link",
        shown.iter().map(|link| link.name.clone()).collect(),
        used.len() - shown.len(),
        vec![
            ("packets", "", all(|link| link.packets as f64)),
            ("load %", "", all(|link| 100.0 * link.load)),
            ("dropped", "packets", all(|link| link.dropped as f64)),
            ("queue mean", "bytes", all(|link| link.queue_mean)),
            ("most", "bytes", all(|link| link.queue_max as f64)),
        ],
    )
}

/// Where packets were dropped.
pub fn drops(results: &Results) -> Rows {
    let dropped = &results.conservation.dropped;
    let shown = &dropped[..dropped.len().min(MOST_ROWS)];
    let rows = shown.iter().map(|drop| vec![drop.place.clone(), drop.reason.clone(), drop.packets.to_string()]);
    let head = ["dropped at", "because", "packets"].map(str::to_owned).to_vec();
    Rows { head, rows: rows.collect(), more: dropped.len() - shown.len() }
}

/// What the bonds counted; counters of zero are left out.
pub fn bonds(results: &Results) -> Rows {
    let mut rows = Vec::new();
    for bond in &results.bonds {
        rows.push(vec![bond.name.clone(), "held_max (bytes)".to_owned(), bond.held_max.to_string()]);
        let counted = bond.counters.iter().filter(|(_, value)| *value > 0);
        rows.extend(counted.map(|(name, value)| vec![bond.name.clone(), name.clone(), value.to_string()]));
    }
    let head = ["bond", "counter", "value"].map(str::to_owned).to_vec();
    let more = rows.len().saturating_sub(2 * MOST_ROWS);
    rows.truncate(2 * MOST_ROWS);
    Rows { head, rows, more }
}

/// The limiters of the rings.
pub fn limits(results: &Results) -> Rows {
    let all: Vec<(&str, &LimitResult)> =
        results.rings.iter().flat_map(|ring| ring.limits.iter().map(|limit| (ring.name.as_str(), limit))).collect();
    let shown = &all[..all.len().min(MOST_ROWS)];
    let each = |value: fn(&LimitResult) -> f64| shown.iter().map(|(_, limit)| Some(value(limit))).collect::<Vec<_>>();
    columns(
        "limiter",
        shown.iter().map(|(ring, limit)| format!("{ring} {}", limit.name)).collect(),
        all.len() - shown.len(),
        vec![
            ("at the end", "bit/s", each(|limit| limit.last)),
            ("mean", "bit/s", each(|limit| limit.mean)),
            ("least", "bit/s", each(|limit| limit.min)),
            ("most", "bit/s", each(|limit| limit.max)),
            ("converged", "s", shown.iter().map(|(_, limit)| limit.converged_s).collect()),
            ("swing %", "", each(|limit| 100.0 * limit.oscillation)),
            ("changes", "", each(|limit| limit.changes as f64)),
        ],
    )
}

/// The ways of the rings that carried anything; of many, the busiest.
pub fn ring_links(results: &Results) -> Rows {
    let ways = results.rings.iter().flat_map(|ring| ring.links.iter().map(|way| (ring.name.as_str(), way)));
    let used: Vec<(&str, &RingLinkResult)> = ways.filter(|(_, way)| way.packets + way.control > 0).collect();
    let mut shown = used.clone();
    if used.len() > MOST_ROWS {
        shown.sort_by(|(_, a), (_, b)| b.load.total_cmp(&a.load));
        shown.truncate(MOST_ROWS);
    }
    let each = |value: fn(&RingLinkResult) -> f64| shown.iter().map(|(_, way)| Some(value(way))).collect::<Vec<_>>();
    columns(
        "ring link",
        shown.iter().map(|(ring, way)| format!("{ring} {}", way.name)).collect(),
        used.len() - shown.len(),
        vec![
            ("packets", "", each(|way| way.packets as f64)),
            ("load %", "", each(|way| 100.0 * way.load)),
            ("control", "frames", each(|way| way.control as f64)),
            ("load %", "", each(|way| 100.0 * way.control_load)),
            ("most in transit", "bytes", each(|way| way.transit_max as f64)),
        ],
    )
}

/// What happened to the rings.
pub fn ring_events(results: &Results) -> Rows {
    let all = results.rings.iter().flat_map(|ring| ring.events.iter().map(|event| (ring.name.as_str(), event)));
    let all: Vec<(&str, &RingEvent)> = all.collect();
    let shown = &all[..all.len().min(MOST_ROWS)];
    let row = |(ring, event): &(&str, &RingEvent)| {
        vec![(*ring).to_owned(), format!("{:.6}", event.at_s), event.at.clone(), event.what.clone()]
    };
    let head = ["ring", "time\ns", "at", "what"].map(str::to_owned).to_vec();
    Rows { head, rows: shown.iter().map(row).collect(), more: all.len() - shown.len() }
}

/// Jain's index; of nothing there is none.
pub fn index(jain: Option<f64>) -> String {
    jain.map_or("-".to_owned(), |jain| format!("{jain:.4}"))
}

/// One line for each run, of the first `most`.
pub fn runs(file: &File, finished: &[Finished], most: usize) -> Rows {
    let shown = &finished[..finished.len().min(most)];
    let leading: Vec<&str> = file.leading_parameters().collect();
    let mut head: Vec<String> = vec!["run".to_owned()];
    head.extend(leading.iter().map(|name| name.replace('.', ".\n")));
    let most = shown.iter().fold(0.0_f64, |most, run| most.max(run.results.goodput));
    let (factor, unit) = scale("bit/s", most);
    head.extend(["seed".to_owned(), format!("goodput\n{unit}"), "Jain".to_owned()]);
    head.extend(["dropped", "events", "log hash"].map(str::to_owned));
    let row = |run: &Finished| {
        let results = &run.results;
        let dropped: u64 = results.conservation.dropped.iter().map(|dropped| dropped.packets).sum();
        let mut row = vec![run.number.to_string()];
        let parameters = run.parameters.iter().filter(|(name, _)| leading.contains(&name.as_str()));
        row.extend(parameters.map(|(_, value)| value.clone()));
        row.extend([results.seed.to_string(), short(results.goodput / factor), index(results.jain)]);
        row.extend([dropped.to_string(), results.events.to_string(), hash(results.log_hash)]);
        row
    };
    Rows { head, rows: shown.iter().map(row).collect(), more: finished.len() - shown.len() }
}

/// One line for each point that was run with several seeds, of the first `most`: means of what the file plots or expects, and
/// of what every run has, with their intervals.
pub fn means(file: &File, estimates: &[Estimate<'_>], most_points: usize) -> Rows {
    let leading: Vec<&str> = file.leading_parameters().collect();
    let points: Vec<&[Estimate<'_>]> = estimates.chunk_by(|a, b| a.point == b.point).collect();
    let mut metrics: Vec<&str> = Vec::new();
    for estimate in estimates {
        if !metrics.contains(&estimate.metric) {
            metrics.push(estimate.metric);
        }
    }
    let shown = &points[..points.len().min(most_points)];
    let mut head = vec!["point".to_owned()];
    head.extend(leading.iter().map(|name| name.replace('.', ".\n")));
    let row = |point: &&[Estimate<'_>]| {
        let at = |name: &&str| point[0].at.get(*name).and_then(|value| value.as_str()).unwrap_or("-").to_owned();
        let mut row = vec![point[0].point.to_string()];
        row.extend(leading.iter().map(at));
        row
    };
    let mut rows: Vec<Vec<String>> = shown.iter().map(row).collect();
    for metric in metrics {
        let of = |point: &&[Estimate<'_>]| point.iter().position(|estimate| estimate.metric == metric);
        let column: Vec<Option<&Estimate<'_>>> = shown.iter().map(|point| Some(&point[of(point)?])).collect();
        let most = column.iter().flatten().fold(0.0_f64, |most, estimate| most.max(estimate.mean.abs()));
        let unit = column.iter().flatten().next().map_or("", |estimate| estimate.unit.as_str());
        let (factor, unit) = scale(unit, most);
        head.push(if unit.is_empty() { metric.to_owned() } else { format!("{metric}\n{unit}") });
        for (row, estimate) in rows.iter_mut().zip(column) {
            row.push(estimate.map_or("-".to_owned(), |estimate| {
                // Two digits of how sure it is; four of the mean where that is not in doubt.
                let (mean, half) = (estimate.mean / factor, estimate.half_width / factor);
                let last =
                    if half > 0.0 { half.log10().floor() - 1.0 } else { mean.abs().max(1.0).log10().floor() - 3.0 };
                let decimals = (-last).clamp(0.0, 6.0) as usize;
                if half == 0.0 && mean == 0.0 {
                    "0".to_owned()
                } else {
                    format!("{mean:.decimals$} ± {half:.decimals$}")
                }
            }));
        }
    }
    Rows { head, more: points.len() - rows.len(), rows }
}

/// What was expected, and what came out.
pub fn expectations(file: &File, expected: &[Expected]) -> Rows {
    let leading: Vec<&str> = file.leading_parameters().collect();
    let rows = expected.iter().map(|expected| {
        let at = expected.at.iter().filter(|(key, _)| leading.contains(&key.as_str()));
        let at: Vec<String> = at.map(|(key, value)| format!("{key} = {value}")).collect();
        let unit = &expected.unit;
        let mut wanted = Vec::new();
        if let Some(value) = expected.value {
            let within = expected.within.filter(|within| *within > 0.0).map(|within| {
                if expected.absolute { quantity(within, unit) } else { format!("{} %", short(100.0 * within)) }
            });
            wanted.push(quantity(value, unit) + &within.map_or(String::new(), |within| format!(" ± {within}")));
        }
        wanted.extend(expected.least.map(|least| format!("≥ {}", quantity(least, unit))));
        wanted.extend(expected.most.map(|most| format!("≤ {}", quantity(most, unit))));
        vec![
            expected.metric.clone(),
            at.join("\n"),
            wanted.join(", "),
            quantity(expected.ours, unit),
            expected.deviation.map_or("-".to_owned(), |deviation| format!("{:+.1} %", 100.0 * deviation)),
            if expected.holds { "holds" } else { "differs" }.to_owned(),
            expected.source.clone(),
        ]
    });
    let head = ["value", "at", "expected", "ours", "deviation", "", "from"].map(str::to_owned).to_vec();
    Rows { head, rows: rows.collect(), more: 0 }
}

/// Percentiles over the samples of all seeds together, of the first points.
pub fn pooled(estimates: &[Estimate<'_>]) -> Vec<String> {
    let several = estimates.iter().any(|estimate| estimate.point > 0);
    let told = estimates.iter().filter_map(|estimate| Some((estimate, estimate.pooled?))).take(MOST_ROWS);
    let line = |(estimate, pooled): (&Estimate<'_>, f64)| {
        let point = if several { format!("point {}, ", estimate.point) } else { String::new() };
        format!("{point}{} over the samples of all seeds: {}", estimate.metric, quantity(pooled, &estimate.unit))
    };
    told.map(line).collect()
}

/// What there is to tell of the rings.
pub fn ring_tables(results: &Results) -> impl Iterator<Item = Rows> {
    [limits(results), ring_links(results), ring_events(results)].into_iter().filter(|rows| !rows.rows.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_come_in_the_unit_that_suits_them() {
        let shown = [
            quantity(1_923_456.0, "bit/s"),
            quantity(622e6, "bit/s"),
            quantity(0.0123, "s"),
            quantity(25_000.0, "bytes"),
            quantity(0.998, ""),
            quantity(0.0, "s"),
            quantity(17.0, "packets"),
        ];
        assert_eq!(shown, ["1.923 Mbit/s", "622 Mbit/s", "12.3 ms", "25 kB", "0.998", "0 us", "17 packets"]);
    }

    #[test]
    fn a_wide_table_goes_on_below_with_its_first_column() {
        let head: Vec<String> = (0..30).map(|n| format!("column {n}")).collect();
        let rows = vec![(0..30).map(|n| format!("cell {n}")).collect()];
        let text = Rows { head: head.clone(), rows, more: 0 }.text();
        assert!(text.lines().all(|line| line.chars().count() <= WIDEST), "{text}");
        assert!(head.iter().all(|name| text.contains(name)), "{text}");
        assert!(text.matches("cell 0 ").count() > 1, "{text}");
        let narrow = Rows { head: head[..5].to_vec(), rows: vec![head[..5].to_vec()], more: 0 }.text();
        assert_eq!(narrow.matches("column 0").count(), 2, "{narrow}");
    }

    #[test]
    fn a_column_that_says_nothing_is_left_out() {
        let rows = columns(
            "flow",
            vec!["a".into(), "b".into()],
            0,
            vec![("x", "s", vec![Some(0.5), None]), ("y", "", vec![None, None])],
        );
        assert_eq!(rows.head, ["flow", "x\nms"]);
        assert_eq!(rows.rows, [["a", "500"], ["b", "-"]]);
    }
}
