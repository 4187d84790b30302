//! Reliable flows over several paths: core's settings by their own names, the scheme, and the paths.

use super::bond::{Way, patterns};
use super::form::{Defaults, Errors, Form};
use super::names::Names;
use super::topology::{self, Copies, Topology};
use crate::model::{Reliable, Scheme};
use fairspan_core::arq::{Config, OPTIONS};
use fairspan_core::options::Words;
use fairspan_core::units::{Bytes, Span, Time};

/// Size of an acknowledgment where none is given: the smallest Ethernet frame.
const ACK_SIZE: Bytes = Bytes::new(64);

/// Reads `[[reliable]]`.
pub(super) fn read<'a>(
    root: &mut Form<'a>,
    defaults: &mut Defaults<'a>,
    topology: &Topology,
    duration: Span,
    errors: &mut Errors<'_>,
) -> Vec<Reliable> {
    let (mut list, mut names) = (Vec::new(), Names::default());
    for mut form in root.tables("reliable", defaults, errors) {
        flow(&mut form, topology, duration, &mut list, &mut names, errors);
        form.finish(Some(defaults), errors);
    }
    list
}

fn flow(
    form: &mut Form<'_>,
    topology: &Topology,
    duration: Span,
    list: &mut Vec<Reliable>,
    names: &mut Names,
    errors: &mut Errors<'_>,
) {
    let before = errors.count();
    let copies = Copies::read(form, errors);
    let name = topology::pattern("name", form, copies, errors);
    for (key, expected) in [
        ("ends", "the sender's and the receiver's node, such as [\"a\", \"b\"]"),
        ("paths", "paths = [{ path = [\"LINK\", …] }, …]"),
    ] {
        if !form.has(key) {
            form.missing(key, expected, errors);
        }
    }
    let ends = patterns(form, "ends", errors).unwrap_or_default();
    let schemes: Vec<(&'static str, Scheme)> = Scheme::WORDS.iter().copied().zip(Scheme::ALL.iter().copied()).collect();
    let scheme = form.choice("scheme", &schemes, errors).unwrap_or_default();
    let mut config = Config::default();
    for entry in OPTIONS.iter() {
        form.option(entry, &mut config, errors);
    }
    let ack_size = form.bytes("ack_size", 40..=65_536, errors).unwrap_or(ACK_SIZE);
    let start = Time::ZERO + form.span("start", errors).unwrap_or_default();
    let stop = Time::ZERO + form.span("stop", errors).unwrap_or(duration);
    let mut paths = Vec::new();
    for mut inner in form.tables("paths", &Defaults::none(), errors) {
        if !inner.has("path") {
            inner.missing("path", "the links in order, from the sender to the receiver", errors);
        }
        let path = patterns(&mut inner, "path", errors).unwrap_or_default();
        let back = patterns(&mut inner, "back", errors);
        paths.push((path, back));
        inner.finish(None, errors);
    }
    let Some(name) = name else { return };
    if errors.count() > before || !copies.fit(list.len(), "reliable flows", form, errors) {
        return;
    }
    if ends.len() != 2 || !(1..=64).contains(&paths.len()) {
        let text = format!("{} ends and {} paths; it has two ends and 1 to 64 paths", ends.len(), paths.len());
        form.conflict("ends", text, errors);
        return;
    }
    for index in copies.numbers() {
        let mut resolved = [0; 2];
        for (end, (pattern, at)) in resolved.iter_mut().zip(&ends) {
            let key = || form.key("ends");
            let text = pattern.expand(index);
            let Some(node) = topology::resolve(&topology.node_names, "node", &text, *at, key, errors) else { return };
            *end = node;
        }
        let way = Way { key: "paths", index, ends: resolved };
        let both = paths.iter().map(|(path, back)| way.both(path, back.as_deref(), topology, form, errors));
        let Some(paths) = both.collect::<Option<Vec<_>>>() else { return };
        let name = name.expand(index);
        if !topology::register(names, "reliable flow", &name, list.len() as u32, form, errors) {
            return;
        }
        let config = config.clone();
        list.push(Reliable { name, ends: resolved, paths, scheme, config, ack_size, start, stop });
    }
}
