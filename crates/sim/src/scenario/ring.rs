//! Rings: their nodes in order, what their links carry, how they are shared and protected.

use super::bond::patterns;
use super::error::Problem;
use super::form::{Defaults, Errors, Form};
use super::link::{LONGEST_DELAY, named, outages};
use super::names::Names;
use super::topology::{self, Topology};
use super::value::{Kind, Value};
use crate::model::{Faults, NodeOutage, Protection, Reservation, Ring, RingLink};
use fairspan_core::buffer::PolicyConfig;
use fairspan_core::queue::DisciplineConfig;
use fairspan_core::ring::algorithm::Algorithm;
use fairspan_core::ring::node::{self, ControlLoad};
use fairspan_core::ring::topology::UNIT_WEIGHT;
use fairspan_core::ring::{Class, MOST_NODES, NodeId, Ringlet, discovery};
use fairspan_core::units::{Bytes, Rate, Span};

/// Most rings.
const MOST: u64 = 10_000;

/// Rings with their names.
#[derive(Debug, Default)]
pub(super) struct Rings {
    pub(super) list: Vec<Ring>,
    pub(super) names: Names,
}

impl Rings {
    pub(super) fn read<'a>(
        root: &mut Form<'a>,
        defaults: &mut Defaults<'a>,
        topology: &Topology,
        errors: &mut Errors<'_>,
    ) -> Rings {
        let mut rings = Rings::default();
        let before = errors.count();
        for mut form in root.tables("ring", defaults, errors) {
            if let Some(ring) = ring(&mut form, topology, errors) {
                rings.add(ring, &form, errors);
            }
            form.finish(Some(defaults), errors);
        }
        rings.names.incomplete = errors.count() > before;
        rings
    }

    fn add(&mut self, ring: Ring, form: &Form<'_>, errors: &mut Errors<'_>) {
        let number = self.list.len() as u32;
        if u64::from(number) >= MOST {
            let problem = Problem::TooMany { what: "rings".into(), count: (number + 1).to_string(), most: MOST };
            errors.add(form.at, form.key("name"), problem);
        } else if topology::register(&mut self.names, "ring", &ring.name, number, form, errors) {
            self.list.push(ring);
        }
    }
}

/// One ring; `None` if anything is wrong with it.
fn ring(form: &mut Form<'_>, topology: &Topology, errors: &mut Errors<'_>) -> Option<Ring> {
    let before = errors.count();
    let single = topology::Copies { count: 1, first: 0 };
    let name = topology::pattern("name", form, single, errors);
    if name.as_ref().is_some_and(|name| name.varies()) {
        form.conflict("name", "a ring has no copies, so its name has no `#`", errors);
    }
    let nodes = nodes(form, topology, errors);
    let line = form.choice("topology", &[("ring", false), ("line", true)], errors).unwrap_or(false);
    if !form.has("rate") {
        form.missing("rate", "what each link carries, such as \"622Mbit\"", errors);
    }
    let rate = form.rate("rate", errors).unwrap_or_default();
    let delay = delay(form, errors).unwrap_or_default();
    let faults = faults(form, Faults::default(), errors);
    let algorithm = algorithm(form, errors);
    let interval = form.some_span("interval", errors);
    let mut room = |key| form.bytes(key, 64..=1 << 40, errors).unwrap_or(Ring::BUFFER);
    let (transit, station) = (room("buffer"), room("station_buffer"));
    let (station_discipline, station_policy) = waiting(form, &algorithm, errors);
    let threshold = form.bytes("threshold", 1..=transit.as_u64(), errors);
    let threshold = threshold.unwrap_or(Bytes::new(transit.as_u64() / 4));
    let protections = [("steer", Protection::Steer), ("wrap", Protection::Wrap), ("none", Protection::None)];
    let protection = form.choice("protection", &protections, errors).unwrap_or_default();
    let discovery = form.bool("discovery", errors);
    let carrier = form.bool("carrier", errors).unwrap_or(false);
    let overhead = form.bytes("overhead", 0..=1000, errors).map_or(0, |bytes| bytes.as_u64() as u32);
    let plain = RingLink { present: true, rate: [rate; 2], delay, outages: Vec::new(), faults };
    let mut links = vec![plain; nodes.as_ref().map_or(MOST_NODES, Vec::len)];
    if line && let Some(last) = links.last_mut() {
        last.present = false;
    }
    unlike_links(form, &mut links, errors);
    let known = nodes.as_deref().unwrap_or_default();
    let weights = weights(form, topology, known, errors);
    let node_outages = node_outages(form, topology, known, errors);
    let reservations = reservations(form, topology, known, errors);
    let (Some(name), Some(nodes)) = (name, nodes) else { return None };
    if errors.count() > before {
        return None;
    }
    let around = links.iter().fold(Span::ZERO, |sum, link| sum + link.delay);
    let around = if around > Span::ZERO { around } else { Ring::SHORTEST.times(links.len() as u64) };
    // Only from one another do nodes know what others reserve.
    let told =
        !node_outages.is_empty() || !reservations.is_empty() || links.iter().any(|link| !link.outages.is_empty());
    let ring = Ring {
        name: name.expand(0),
        nodes,
        links,
        algorithm,
        interval: interval.unwrap_or(around),
        transit,
        threshold,
        station,
        station_discipline,
        station_policy,
        protection,
        discovery: discovery.unwrap_or(told),
        carrier,
        overhead,
        weights,
        reservations,
        node_outages,
    };
    if let Some((link, load)) = control_overload(&ring) {
        form.conflict(
            if form.has("interval") { "interval" } else { "rate" },
            format!("link {}: {load}", link + 1),
            errors,
        );
        return None;
    }
    Some(ring)
}

/// The first link that control messages would eat, and what would be right.
fn control_overload(ring: &Ring) -> Option<(usize, ControlLoad)> {
    let nominal = ring.links.iter().filter(|link| link.present).flat_map(|link| link.rate).max().unwrap_or_default();
    let mut config = node::Config::new(NodeId::at(0), ring.nodes.len(), nominal);
    config.algorithm = ring.algorithm.clone();
    config.interval = ring.interval;
    config.overhead = [ring.overhead as usize; 2];
    if ring.discovery && ring.protection != Protection::None {
        config.discovery = Some(discovery::Config::new(NodeId::at(0), ring.nodes.len(), nominal));
    }
    ring.links.iter().enumerate().filter(|(_, link)| link.present).find_map(|(number, link)| {
        config.capacity = link.rate;
        Some((number, config.control_overload(false)?))
    })
}

/// The nodes in the order of the ring; a pattern stands for `count` of them.
fn nodes(form: &mut Form<'_>, topology: &Topology, errors: &mut Errors<'_>) -> Option<Vec<u32>> {
    let count = form.integer("count", 2..=MOST_NODES as u64, errors);
    let first = form.integer("first", 0..=1_000_000_000, errors).unwrap_or(1);
    if !form.has("nodes") {
        form.missing("nodes", "the nodes in their order, such as [\"a\", \"b\", \"c\"]", errors);
    }
    let before = errors.count();
    let mut nodes = Vec::new();
    let patterns = patterns(form, "nodes", errors)?;
    if form.has("count") && !patterns.iter().any(|(pattern, _)| pattern.varies()) {
        form.conflict("count", "a count is for nodes whose name has `#`, such as nodes = \"n#\"", errors);
    }
    for (pattern, at) in patterns {
        let copies = match (pattern.varies(), count) {
            (false, _) => 1,
            (true, Some(count)) => count,
            (true, None) => {
                form.missing("count", "how many nodes the pattern with `#` stands for", errors);
                return None;
            }
        };
        for index in first..first + copies {
            let text = pattern.expand(index);
            let node = topology::resolve(&topology.node_names, "node", &text, at, || form.key("nodes"), errors)?;
            if nodes.contains(&node) {
                errors.add(at, form.key("nodes"), Problem::Circle { node: text });
                return None;
            }
            nodes.push(node);
        }
    }
    if errors.count() == before && !(2..=MOST_NODES).contains(&nodes.len()) {
        form.conflict("nodes", format!("{} nodes; a ring has 2 to {MOST_NODES}", nodes.len()), errors);
    }
    (errors.count() == before).then_some(nodes)
}

fn delay(form: &mut Form<'_>, errors: &mut Errors<'_>) -> Option<Span> {
    let span = form.span("delay", errors)?;
    if span > LONGEST_DELAY {
        let problem = Problem::Value { found: format!("{} s", span.as_secs_f64()), expected: "at most 60s".into() };
        errors.add(form.place("delay"), form.key("delay"), problem);
    }
    Some(span)
}

fn faults(form: &mut Form<'_>, plain: Faults, errors: &mut Errors<'_>) -> Faults {
    Faults {
        loss: form.fraction("control_loss", errors).unwrap_or(plain.loss),
        duplicate: form.fraction("control_duplicate", errors).unwrap_or(plain.duplicate),
        corrupt: form.fraction("control_corrupt", errors).unwrap_or(plain.corrupt),
    }
}

fn algorithm(form: &mut Form<'_>, errors: &mut Errors<'_>) -> Algorithm {
    let Some(text) = form.text("algorithm", errors) else { return Algorithm::default() };
    text.parse().unwrap_or_else(|error| {
        form.conflict("algorithm", format!("{error}"), errors);
        Algorithm::default()
    })
}

/// Which of the packets in a station's queue goes next, and which are let in.
fn waiting(form: &mut Form<'_>, algorithm: &Algorithm, errors: &mut Errors<'_>) -> (DisciplineConfig, PolicyConfig) {
    let discipline: DisciplineConfig = named(form, "station_discipline", errors).unwrap_or_default();
    let policy = named(form, "station_policy", errors).unwrap_or(discipline.usual_buffer());
    for (key, plain) in [
        ("station_discipline", discipline == DisciplineConfig::Fifo),
        ("station_policy", policy == PolicyConfig::DropTail),
    ] {
        if *algorithm == Algorithm::Fifo && form.has(key) && !plain {
            let problem =
                "with the algorithm fifo a station has no queue of its own: leave it out, or take another algorithm";
            form.conflict(key, problem, errors);
        }
    }
    (discipline, policy)
}

/// What is different at some links.
fn unlike_links(form: &mut Form<'_>, links: &mut [RingLink], errors: &mut Errors<'_>) {
    for mut inner in form.tables("links", &Defaults::none(), errors) {
        if !inner.has("link") {
            inner.missing("link", "the link's number: link n joins the nodes n and n + 1, from 1", errors);
        }
        let number = inner.integer("link", 1..=links.len() as u64, errors);
        let rate = inner.rate("rate", errors);
        let back = inner.rate("rate_back", errors).or(rate);
        let delay = delay(&mut inner, errors);
        let outages = outages(&mut inner, errors);
        let link = number.and_then(|number| links.get_mut(number as usize - 1));
        let faults = faults(&mut inner, link.as_ref().map(|link| link.faults).unwrap_or_default(), errors);
        if let Some(link) = link {
            if !link.present {
                inner.conflict("link", "a line has no last link; leave it out, or set topology = \"ring\"", errors);
            }
            link.rate = [rate.unwrap_or(link.rate[0]), back.unwrap_or(link.rate[1])];
            link.delay = delay.unwrap_or(link.delay);
            link.outages.extend(outages);
            link.faults = faults;
        }
        inner.finish(None, errors);
    }
}

/// The place in the ring of a node that is named.
fn place(
    form: &Form<'_>,
    key: &'static str,
    (name, at): (&str, u32),
    topology: &Topology,
    nodes: &[u32],
    errors: &mut Errors<'_>,
) -> Option<u8> {
    let node = topology::resolve(&topology.node_names, "node", name, at, || form.key(key), errors)?;
    let found = nodes.iter().position(|known| *known == node);
    // Without nodes there is an error already.
    if found.is_none() && !nodes.is_empty() {
        let problem = Problem::Conflict(format!("`{name}` is no node of this ring; name one of its `nodes`"));
        errors.add(at, form.key(key), problem);
    }
    found.map(|place| place as u8)
}

/// The node that a key names.
fn node_key(
    form: &mut Form<'_>,
    key: &'static str,
    topology: &Topology,
    nodes: &[u32],
    errors: &mut Errors<'_>,
) -> Option<u8> {
    if !form.has(key) {
        form.missing(key, "a node of this ring", errors);
    }
    let name = form.text(key, errors)?;
    place(form, key, (name, form.place(key)), topology, nodes, errors)
}

fn weights(form: &mut Form<'_>, topology: &Topology, nodes: &[u32], errors: &mut Errors<'_>) -> Vec<u32> {
    let mut weights = vec![UNIT_WEIGHT; nodes.len()];
    let Some(table) = form.raw_table("weights", errors) else { return weights };
    for entry in &table.entries {
        let Some(node) = place(form, "weights", (&entry.key, entry.at), topology, nodes, errors) else { continue };
        match weight(&entry.value) {
            Some(weight) => weights[usize::from(node)] = weight,
            None => form.wrong("weights", &entry.value, "a number from 0.001 to 1000", errors),
        }
    }
    weights
}

/// A weight in thousandths.
fn weight(value: &Value) -> Option<u32> {
    let number = match value.kind {
        Kind::Integer(number) => number as f64,
        Kind::Float(number) => number,
        _ => return None,
    };
    (0.001..=1000.0).contains(&number).then(|| (number * f64::from(UNIT_WEIGHT)).round() as u32)
}

fn node_outages(form: &mut Form<'_>, topology: &Topology, nodes: &[u32], errors: &mut Errors<'_>) -> Vec<NodeOutage> {
    let mut list = Vec::new();
    for mut inner in form.tables("node_outages", &Defaults::none(), errors) {
        let node = node_key(&mut inner, "node", topology, nodes, errors);
        if !inner.has("outages") {
            inner.missing("outages", "when it is dead: [\"START+LENGTH\", …]", errors);
        }
        let outages = outages(&mut inner, errors);
        list.extend(node.map(|node| NodeOutage { node, outages }));
        inner.finish(None, errors);
    }
    list
}

fn reservations(form: &mut Form<'_>, topology: &Topology, nodes: &[u32], errors: &mut Errors<'_>) -> Vec<Reservation> {
    let mut list = Vec::new();
    for mut inner in form.tables("reservations", &Defaults::none(), errors) {
        let from = node_key(&mut inner, "from", topology, nodes, errors);
        let to = node_key(&mut inner, "to", topology, nodes, errors);
        if !inner.has("rate") {
            inner.missing("rate", "the rate that is set aside", errors);
        }
        let rate: Option<Rate> = inner.rate("rate", errors);
        let class = inner.choice("class", &[("A", Class::A), ("B", Class::B)], errors).unwrap_or(Class::A);
        if let (Some(from), Some(to)) = (from, to) {
            if from == to {
                inner.conflict("to", "the reservation goes from a node to itself; name two nodes", errors);
            }
            list.extend(rate.map(|rate| Reservation { from, to, class, rate }));
        }
        inner.finish(None, errors);
    }
    list
}

/// Which way round, where it is told.
pub(super) fn ringlet(form: &mut Form<'_>, errors: &mut Errors<'_>) -> Option<Ringlet> {
    let number = form.integer("ringlet", 0..=1, errors)?;
    Some(Ringlet::BOTH[number as usize])
}
