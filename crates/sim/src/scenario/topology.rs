//! Nodes and links: tables to model, copies made, names resolved.

use super::error::{Problem, closest};
use super::form::{Defaults, Errors, Form};
use super::link::{self, Direction};
use super::names::{EXPECTED, Names, Pattern};
use super::store::Store;
use super::value::Kind;
use crate::engine::streams::{self, Purpose};
use crate::model::{HostCost, Link, Medium, Node};
use fairspan_core::link::Capacity;
use fairspan_core::units::Rate;

/// Most nodes, most links and most flows.
pub(super) const MOST: u64 = 1_000_000;
/// No link.
pub(super) const NONE: u32 = u32::MAX;

/// What there is between the ends of flows.
#[derive(Debug, Default)]
pub(super) struct Topology {
    pub(super) nodes: Vec<Node>,
    /// For each node whether it passes on what is not for it.
    pub(super) forwards: Vec<bool>,
    pub(super) node_names: Names,
    pub(super) links: Vec<Link>,
    /// For each link the other direction, or [`NONE`].
    pub(super) partners: Vec<u32>,
    /// For each link the largest IP packet it takes.
    pub(super) mtus: Vec<u32>,
    /// For each link how far its clock is off, in parts per million, where that is said.
    drifts: Vec<Option<f64>>,
    pub(super) link_names: Names,
    /// What links share.
    pub(super) media: Media,
}

/// Media with their names.
#[derive(Debug, Default)]
pub(super) struct Media {
    pub(super) list: Vec<Medium>,
    pub(super) names: Names,
}

/// What reads a `[[graph]]` into a topology.
pub(super) type ReadGraph<'a> = fn(&mut Topology, &mut Form<'a>, &mut Defaults<'a>, &Store, &mut Errors<'_>);

/// How many copies a table makes, and the number of the first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copies {
    pub(super) count: u64,
    pub(super) first: u64,
}

impl Copies {
    pub(super) fn read(form: &mut Form<'_>, errors: &mut Errors<'_>) -> Copies {
        let count = form.integer("count", 1..=MOST, errors).unwrap_or(1);
        let first = form.integer("first", 0..=1_000_000_000, errors).unwrap_or(0);
        Copies { count, first }
    }

    pub(super) fn numbers(self) -> std::ops::Range<u64> {
        self.first..self.first + self.count
    }

    /// Tells if there would be more than is sensible.
    pub(super) fn fit(self, so_far: usize, what: &str, form: &Form<'_>, errors: &mut Errors<'_>) -> bool {
        let total = so_far as u64 + self.count;
        if total > MOST {
            let problem = Problem::TooMany { what: what.into(), count: total.to_string(), most: MOST };
            errors.add(form.place("count"), form.key("count"), problem);
        }
        total <= MOST
    }
}

/// The name of what a table describes; a `#` in it is wanted where there are copies.
pub(super) fn pattern<'a>(
    key: &'static str,
    form: &mut Form<'a>,
    copies: Copies,
    errors: &mut Errors<'_>,
) -> Option<Pattern<'a>> {
    if !form.has(key) {
        form.missing(key, EXPECTED, errors);
    }
    let text = form.text(key, errors)?;
    let Some(pattern) = Pattern::parse(text) else {
        let problem = Problem::Value { found: format!("\"{text}\""), expected: EXPECTED.into() };
        errors.add(form.place(key), form.key(key), problem);
        return None;
    };
    if key == "name" && copies.count > 1 && !pattern.varies() {
        form.conflict(key, format!("{} copies need `#` in their name, for the number", copies.count), errors);
        return None;
    }
    Some(pattern)
}

/// The number that a name stands for; an error where none does.
pub(super) fn resolve(
    names: &Names,
    what: &'static str,
    name: &str,
    at: u32,
    key: impl FnOnce() -> String,
    errors: &mut Errors<'_>,
) -> Option<u32> {
    let found = names.find(name);
    if found.is_none() && !names.incomplete {
        let problem = Problem::NoSuch { what, found: name.into(), close: closest(name, names.all()) };
        errors.add(at, key(), problem);
    }
    found
}

/// Adds a name; an error where it is taken.
pub(super) fn register(
    names: &mut Names,
    what: &'static str,
    name: &str,
    number: u32,
    form: &Form<'_>,
    errors: &mut Errors<'_>,
) -> bool {
    let at = form.place("name");
    let taken = names.add(name, number, at);
    if let Err(first) = taken {
        let problem = Problem::Double { what, name: name.to_owned(), first: errors.place(first).0 };
        errors.add(at, form.key("name"), problem);
    }
    taken.is_ok()
}

impl Topology {
    pub(super) fn read<'a>(
        root: &mut Form<'a>,
        [nodes, links]: [&mut Defaults<'a>; 2],
        media: Media,
        store: &Store,
        graph: ReadGraph<'a>,
        errors: &mut Errors<'_>,
    ) -> Topology {
        let mut topology = Topology { media, ..Topology::default() };
        let before = errors.count();
        for mut form in root.tables("node", nodes, errors) {
            topology.node(&mut form, errors);
            form.finish(Some(nodes), errors);
        }
        if !root.has("node") && !root.has("graph") {
            root.missing("node", "nodes: [[node]] with a name each, or a [[graph]]", errors);
        }
        for mut form in root.tables("graph", links, errors) {
            graph(&mut topology, &mut form, links, store, errors);
            form.finish(Some(links), errors);
        }
        topology.node_names.incomplete = errors.count() > before;
        topology.link_names.incomplete = topology.node_names.incomplete;
        let before = errors.count();
        for mut form in root.tables("link", links, errors) {
            topology.link(&mut form, links, store, errors);
            form.finish(Some(links), errors);
        }
        topology.link_names.incomplete = topology.node_names.incomplete || errors.count() > before;
        if !topology.link_names.incomplete {
            topology.check_media(root, errors);
        }
        topology
    }

    /// A medium that no link shares is a mistake.
    fn check_media(&self, root: &Form<'_>, errors: &mut Errors<'_>) {
        let mut used = vec![false; self.media.list.len()];
        self.links.iter().filter_map(|link| link.medium).for_each(|medium| used[medium as usize] = true);
        if let Some(idle) = used.iter().position(|used| !used) {
            let name = &self.media.list[idle].name;
            root.conflict(
                "medium",
                format!("no link shares `{name}`; links that do say `medium = \"{name}\"`"),
                errors,
            );
        }
    }

    /// Whether a link called `name` is the direction back of another one.
    pub(super) fn is_back(&self, link: u32, name: &str) -> bool {
        let partner = self.partners.get(link as usize).and_then(|&partner| self.links.get(partner as usize));
        partner.is_some_and(|partner| name.strip_suffix("/back") == Some(&partner.name))
    }

    fn node(&mut self, form: &mut Form<'_>, errors: &mut Errors<'_>) {
        let copies = Copies::read(form, errors);
        let kinds = [("host", false), ("router", true), ("switch", true)];
        let forwards = form.choice("kind", &kinds, errors).unwrap_or(false);
        let cost = match form.table("cost", errors) {
            Some(mut inner) => {
                let cost = host_cost(&mut inner, errors);
                inner.finish(None, errors);
                cost
            }
            None => HostCost::default(),
        };
        // A list of names saves a table for each.
        let listed = matches!(form.value("name").map(|value| &value.kind), Some(Kind::List(_)));
        let patterns = if listed {
            let mut patterns = Vec::new();
            for (text, at) in form.texts("name", errors).unwrap_or_default() {
                match Pattern::parse(text) {
                    Some(pattern) if copies.count == 1 || pattern.varies() => patterns.push(pattern),
                    _ => {
                        let problem = Problem::Value { found: format!("\"{text}\""), expected: EXPECTED.into() };
                        errors.add(at, form.key("name"), problem);
                    }
                }
            }
            patterns
        } else {
            pattern("name", form, copies, errors).into_iter().collect()
        };
        for pattern in patterns {
            if !copies.fit(self.nodes.len(), "nodes", form, errors) {
                return;
            }
            for index in copies.numbers() {
                let name = pattern.expand(index);
                if !register(&mut self.node_names, "node", &name, self.nodes.len() as u32, form, errors) {
                    return;
                }
                self.nodes.push(Node { name, cost: cost.clone() });
                self.forwards.push(forwards);
            }
        }
    }

    fn link<'a>(&mut self, form: &mut Form<'a>, defaults: &mut Defaults<'a>, store: &Store, errors: &mut Errors<'_>) {
        let copies = Copies::read(form, errors);
        let name = pattern("name", form, copies, errors);
        let (from, to) = (pattern("from", form, copies, errors), pattern("to", form, copies, errors));
        let simplex = form.bool("simplex", errors).unwrap_or(false);
        let reverse = form.raw_table("reverse", errors);
        let forward = link::direction(form, store, errors);
        let backward = match reverse {
            Some(_) if simplex => {
                form.conflict("reverse", "simplex and reverse exclude each other: keep one", errors);
                None
            }
            Some(table) => {
                let mut inner = Form::over(table, "reverse", form);
                let direction = link::direction(&mut inner, store, errors);
                inner.finish(Some(defaults), errors);
                direction
            }
            None if simplex => None,
            None => forward.clone(),
        };
        form.value("medium");
        let medium = if form.has("medium") { pattern("medium", form, copies, errors) } else { None };
        let (Some(name), Some(from), Some(to), Some(forward)) = (name, from, to, forward) else { return };
        if medium.is_some() && !link::fits_medium(form, &forward.profile, errors) {
            return;
        }
        if medium.is_some() && backward.as_ref().is_some_and(|back| !link::fits_medium(form, &back.profile, errors)) {
            return;
        }
        let double = Copies { count: copies.count * if simplex { 1 } else { 2 }, ..copies };
        if !double.fit(self.links.len(), "links (both directions count)", form, errors) {
            return;
        }
        let mut buffer = String::new();
        for index in copies.numbers() {
            let mut end = |key: &'static str, pattern: &Pattern<'_>, errors: &mut Errors<'_>| {
                pattern.expand_into(index, &mut buffer);
                resolve(&self.node_names, "node", &buffer, form.place(key), || form.key(key), errors)
            };
            let (Some(a), Some(b)) = (end("from", &from, errors), end("to", &to, errors)) else { return };
            if a == b {
                let node = &self.nodes[a as usize].name;
                form.conflict("to", format!("the link goes from `{node}` to itself; name two nodes"), errors);
                return;
            }
            let shared = match &medium {
                Some(pattern) => {
                    let text = pattern.expand(index);
                    let found = resolve(
                        &self.media.names,
                        "medium",
                        &text,
                        form.place("medium"),
                        || form.key("medium"),
                        errors,
                    );
                    let Some(found) = found else { return };
                    Some(found)
                }
                None => None,
            };
            let name = name.expand(index);
            let number = self.links.len() as u32;
            if !register(&mut self.link_names, "link", &name, number, form, errors) {
                return;
            }
            self.push(name.clone(), a, b, &forward, if simplex { NONE } else { number + 1 });
            self.links[number as usize].medium = shared;
            if let Some(backward) = &backward {
                let back = format!("{name}/back");
                if !register(&mut self.link_names, "link", &back, number + 1, form, errors) {
                    return;
                }
                self.push(back, b, a, backward, number);
                self.links[number as usize + 1].medium = shared;
            }
        }
    }

    /// Adds one direction.
    pub(super) fn push(&mut self, name: String, from: u32, to: u32, direction: &Direction, partner: u32) {
        let Direction { profile, framing, card, mtu, drift } = direction.clone();
        self.links.push(Link { name, from, to, profile, framing, card, medium: None });
        self.partners.push(partner);
        self.mtus.push(mtu);
        self.drifts.push(drift);
    }

    /// Lets the clock of each link be off by what is said of it, or by a constant drawn from minus to plus `most` parts per
    /// million: who takes longer for a bit carries fewer.
    pub(super) fn drift(&mut self, seed: u64, most: f64) {
        for (number, (link, told)) in self.links.iter_mut().zip(&self.drifts).enumerate() {
            let mut rng = streams::stream(seed, Purpose::LinkDrift, number as u64);
            let ppm = told.unwrap_or(most * (2.0 * rng.unit() - 1.0));
            // What is changed is a copy: only where there is something to change.
            if ppm != 0.0
                && let Capacity::Constant(rate) = &mut link.profile.capacity
            {
                let bits = rate.as_bits_per_sec() as f64 / (1.0 + ppm / 1e6);
                *rate = Rate::from_bits_per_sec((bits.round() as u64).max(1));
            }
        }
    }
}

fn host_cost(form: &mut Form<'_>, errors: &mut Errors<'_>) -> HostCost {
    HostCost {
        receive: form.span("receive", errors).unwrap_or_default(),
        send: form.span("send", errors).unwrap_or_default(),
        per_byte_ps: form.picoseconds("per_byte", errors).unwrap_or_default(),
        interrupt: form.span("interrupt", errors).unwrap_or_default(),
        out_of_order: form.span("out_of_order", errors).unwrap_or_default(),
        jitter: form.fraction("jitter", errors).unwrap_or_default(),
        queue: link::packets(form, "queue", errors).unwrap_or_default(),
    }
}
