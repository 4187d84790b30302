//! One run: the tables of a file, with swept values in place, to what the world runs.

use super::bond::Bonds;
use super::copies;
use super::error::Problem;
use super::flow;
use super::form::{Defaults, Errors, Form};
use super::graph;
use super::medium;
use super::reliable;
use super::ring::Rings;
use super::split;
use super::store::Store;
use super::topology::{self, Topology};
use super::value::{Kind, Table};
use crate::model::{self, Metrics, Scenario, captured_way};
use fairspan_core::units::Span;

/// Keys of the file that are not about one run.
const HEAD: [&str; 10] =
    ["title", "description", "paper", "figure", "seed", "seeds", "max_runs", "sweep", "expect", "plot"];
/// Most points of a series, and most values of all series together.
const MOST_POINTS: u64 = 1_000_000;
const MOST_VALUES: u64 = 50_000_000;

/// The default of `drift`, in parts per million.
const DRIFT: u32 = 1000;
/// The default of `processing`.
const PROCESSING: Span = Span::from_micros(10);

/// Builds a run; `None` if anything is wrong.
pub(super) fn scenario(
    root: &Table,
    store: &Store,
    title: &str,
    seed: u64,
    errors: &mut Errors<'_>,
) -> Option<Scenario> {
    let before = errors.count();
    let expanded = copies::expand(root, errors);
    let root = expanded.as_ref().unwrap_or(root);
    let mut form = Form::new(root, String::new(), &Defaults::none());
    for key in HEAD {
        form.value(key);
    }
    if !form.has("duration") {
        form.missing("duration", "how long to simulate, such as \"10s\"", errors);
    }
    let duration = form.some_span("duration", errors).unwrap_or(Span::from_secs(1));
    let warm_up = form.span("warm_up", errors).unwrap_or_default();
    if warm_up >= duration {
        form.conflict("warm_up", "the warm-up must be shorter than the duration: metrics begin after it", errors);
    }
    let drift_ppm = form.drift("drift", false, errors).map_or(DRIFT, |ppm| ppm.round() as u32);
    let link_drift = form.drift("link_drift", false, errors).unwrap_or(0.0);
    let processing = match form.value("processing") {
        Some(value) if matches!(&value.kind, Kind::Text(text) if text == "off") => Span::ZERO,
        Some(_) => form.some_span("processing", errors).unwrap_or_default(),
        None => PROCESSING,
    };
    let partitions = form.integer("partitions", 1..=u64::from(model::MOST_PARTITIONS), errors).unwrap_or(1) as u32;
    let mut inner = form.table("defaults", errors);
    let mut take = |kind: &'static str, errors: &mut Errors<'_>| {
        let table = inner.as_mut().and_then(|inner| inner.raw_table(kind, errors));
        Defaults::new(table, &format!("defaults.{kind}"))
    };
    let mut nodes = take("node", errors);
    let mut links = take("link", errors);
    let mut media = take("medium", errors);
    let mut bond_defaults = take("bond", errors);
    let mut ring_defaults = take("ring", errors);
    let mut reliable_defaults = take("reliable", errors);
    let mut split_defaults = take("split", errors);
    let mut flow_defaults = take("flow", errors);
    let mut tcp = take("tcp", errors);
    if let Some(inner) = inner {
        inner.finish(None, errors);
    }
    let shared = medium::read(&mut form, &mut media, errors);
    let mut topology = Topology::read(&mut form, [&mut nodes, &mut links], shared, store, graph::read, errors);
    let bonds = Bonds::read(&mut form, &mut bond_defaults, &topology, errors);
    let reliable = reliable::read(&mut form, &mut reliable_defaults, &topology, duration, errors);
    let rings = Rings::read(&mut form, &mut ring_defaults, &topology, errors);
    let splits = split::read(&mut form, [&mut split_defaults, &mut tcp], &topology, &bonds, errors);
    let ecmp = form.bool("ecmp", errors).unwrap_or(false);
    let places = (&topology, &bonds, &rings);
    let flows = flow::read(
        &mut form,
        [&mut flow_defaults, &mut tcp],
        places,
        (store, seed, [warm_up, duration], ecmp),
        before,
        errors,
    );
    let senders = flows.len() + reliable.len() * 13 + splits.len();
    let metrics = metrics(&mut form, &topology, &rings, senders, duration, errors);
    form.finish(None, errors);
    for defaults in
        [nodes, links, media, bond_defaults, reliable_defaults, ring_defaults, split_defaults, flow_defaults]
    {
        defaults.finish(errors);
    }
    if errors.count() > before {
        return None;
    }
    // Last: bonds and queues are set by what links are said to carry.
    topology.drift(seed, link_drift);
    let Topology { nodes, links, media, .. } = topology;
    let (bonds, rings) = (bonds.list, rings.list);
    Some(Scenario {
        title: title.into(),
        duration,
        warm_up,
        seed,
        drift_ppm,
        processing,
        partitions,
        nodes,
        links,
        media: media.list,
        bonds,
        rings,
        splits,
        reliable,
        flows,
        metrics,
    })
}

fn metrics(
    root: &mut Form<'_>,
    topology: &Topology,
    rings: &Rings,
    flows: usize,
    duration: Span,
    errors: &mut Errors<'_>,
) -> Metrics {
    let Some(mut form) = root.table("metrics", errors) else { return Metrics::default() };
    let mut metrics = Metrics {
        delay: form.bool("delay", errors).unwrap_or(false),
        transfers: form.bool("transfers", errors).unwrap_or(false),
        reordering: form.bool("reordering", errors).unwrap_or(false),
        ..Metrics::default()
    };
    let off = matches!(form.value("series").map(|value| &value.kind), Some(Kind::Text(text)) if text == "off");
    if !off && let Some(series) = form.some_span("series", errors) {
        let points = duration.as_nanos() / series.as_nanos();
        // Each flow has up to five series, and four more of limiters on a ring; each link has two.
        let (limited, ways) =
            rings.list.iter().fold((0, 0), |(_, ways), ring| (4 * flows, ways + 2 * ring.links.len()));
        let series_count = (5 * flows + limited + 2 * topology.links.len() + 2 * ways) as u64;
        let values = points.saturating_mul(series_count);
        let problem =
            |what: &str, count: u64, most| Problem::TooMany { what: what.into(), count: count.to_string(), most };
        if points > MOST_POINTS {
            errors.add(form.place("series"), form.key("series"), problem("points of each series", points, MOST_POINTS));
        } else if values > MOST_VALUES {
            errors.add(form.place("series"), form.key("series"), problem("values of all series", values, MOST_VALUES));
        }
        metrics.series = series;
    }
    for (name, at) in form.texts("capture", errors).unwrap_or_default() {
        if let Some(way) = captured_way(&rings.list, topology.links.len(), name) {
            metrics.capture.push(way);
            continue;
        }
        let key = || form.key("capture");
        metrics.capture.extend(topology::resolve(&topology.link_names, "link", name, at, key, errors));
    }
    form.finish(None, errors);
    metrics
}
