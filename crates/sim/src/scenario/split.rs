//! Gateways that split connections: core's settings by their own names, where they are, and their TCP.

use super::bond::{Bonds, patterns};
use super::error::{Problem, closest};
use super::form::{Defaults, Errors, Form};
use super::link::limit;
use super::names::Names;
use super::topology::{self, Copies, NONE, Topology};
use super::traffic;
use crate::model::Split;
use fairspan_core::split::config::{Config, OPTIONS};

/// Reads `[[split]]`.
pub(super) fn read<'a>(
    root: &mut Form<'a>,
    [defaults, tcp]: [&mut Defaults<'a>; 2],
    topology: &Topology,
    bonds: &Bonds,
    errors: &mut Errors<'_>,
) -> Vec<Split> {
    let (mut list, mut names) = (Vec::new(), Names::default());
    for mut form in root.tables("split", defaults, errors) {
        split(&mut form, tcp, (topology, bonds), &mut list, &mut names, errors);
        form.finish(Some(defaults), errors);
    }
    list
}

fn split<'a>(
    form: &mut Form<'a>,
    tcp: &mut Defaults<'a>,
    (topology, bonds): (&Topology, &Bonds),
    list: &mut Vec<Split>,
    names: &mut Names,
    errors: &mut Errors<'_>,
) {
    let before = errors.count();
    let copies = Copies::read(form, errors);
    let name = topology::pattern("name", form, copies, errors);
    let node = topology::pattern("node", form, copies, errors);
    let mut config = Config::default();
    for entry in OPTIONS.iter() {
        form.option(entry, &mut config, errors);
    }
    if let Some(value) = form.value("queue") {
        config.queue = limit(form, "queue", value, None, errors).unwrap_or(config.queue);
    }
    let near = traffic::tcp("tcp", form, tcp, errors);
    let far = traffic::tcp("long_tcp", form, tcp, errors);
    let far = if form.has("long_tcp") { far } else { near.clone() };
    let long = patterns(form, "long", errors).unwrap_or_default();
    if long.is_empty() && form.has("long_tcp") {
        form.conflict("long_tcp", "no link is long: name some with `long`, or leave this out", errors);
    }
    let (Some(name), Some(node), Some(near), Some(far)) = (name, node, near, far) else { return };
    if errors.count() > before || !copies.fit(list.len(), "splitting gateways", form, errors) {
        return;
    }
    if let Err(error) = config.check() {
        form.conflict("name", error.to_string(), errors);
        return;
    }
    for index in copies.numbers() {
        let key = || form.key("node");
        let text = node.expand(index);
        let at = form.place("node");
        let Some(node) = topology::resolve(&topology.node_names, "node", &text, at, key, errors) else { return };
        if let Some(other) = list.iter().find(|other| other.node == node) {
            form.conflict("node", format!("`{}` is at that node already; a node has one", other.name), errors);
            return;
        }
        let mut hops = [Vec::new(), Vec::new()];
        for (pattern, at) in &long {
            let name = pattern.expand(index);
            if let Some(bond) = bonds.names.find(&name) {
                hops[1].push(bond);
            } else if let Some(link) = topology.link_names.find(&name) {
                let partner = topology.partners[link as usize];
                hops[0].extend([link, partner].into_iter().filter(|number| *number != NONE));
            } else {
                let names = bonds.names.all().chain(topology.link_names.all());
                let problem =
                    Problem::NoSuch { what: "link or bond", found: name.clone(), close: closest(&name, names) };
                errors.add(*at, form.key("long"), problem);
                return;
            }
        }
        let name = name.expand(index);
        if !topology::register(names, "split", &name, list.len() as u32, form, errors) {
            return;
        }
        list.push(Split { name, node, config, tcp: near.clone(), long: hops, long_tcp: far.clone() });
    }
}
