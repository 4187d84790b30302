//! Bonds: core's settings by their own names, and the paths of the channels.

use super::error::Problem;
use super::form::{Defaults, Errors, Form};
use super::link::named;
use super::names::{EXPECTED, Names, Pattern};
use super::topology::{self, Copies, NONE, Topology};
use crate::model::{Bond, Framing};
use fairspan_core::bond::{CHANNEL_OPTIONS, CLASS_OPTIONS, ChannelConfig, ClassConfig, Config, Mode, OPTIONS};
use fairspan_core::buffer::PolicyConfig;
use fairspan_core::link::Capacity;
use fairspan_core::options::Kind as Options;
use fairspan_core::queue::End;
use fairspan_core::select::Settings;
use fairspan_core::units::Rate;

/// Bonds with their names.
#[derive(Debug, Default)]
pub(super) struct Bonds {
    pub(super) list: Vec<Bond>,
    pub(super) names: Names,
}

/// A channel as written.
struct Channel<'a> {
    name: Option<&'a str>,
    path: Vec<(Pattern<'a>, u32)>,
    back: Option<Vec<(Pattern<'a>, u32)>>,
    config: ChannelConfig,
    /// `None`: what the path has.
    rate: Option<Option<Rate>>,
    mtu: Option<usize>,
    framing: Option<usize>,
}

impl Bonds {
    pub(super) fn read<'a>(
        root: &mut Form<'a>,
        defaults: &mut Defaults<'a>,
        topology: &Topology,
        errors: &mut Errors<'_>,
    ) -> Bonds {
        let mut bonds = Bonds::default();
        for mut form in root.tables("bond", defaults, errors) {
            bonds.bond(&mut form, topology, errors);
            form.finish(Some(defaults), errors);
        }
        bonds
    }

    fn bond(&mut self, form: &mut Form<'_>, topology: &Topology, errors: &mut Errors<'_>) {
        let before = errors.count();
        let copies = Copies::read(form, errors);
        let name = topology::pattern("name", form, copies, errors);
        if !form.has("ends") {
            form.missing("ends", "the two nodes that it joins, such as [\"a\", \"b\"]", errors);
        }
        let ends = patterns(form, "ends", errors);
        if let Some(ends) = &ends
            && ends.len() != 2
        {
            form.conflict("ends", format!("{} ends; a bond joins two nodes", ends.len()), errors);
            return;
        }
        let config = settings(form, errors);
        let policy_back = policy("policy_back", config.mode, form, errors);
        let channels = channels(form, errors);
        if channels.is_empty() && errors.count() == before {
            form.missing("channels", "channels = [{ path = \"LINK\" }, …], or links = [\"LINK\", …]", errors);
        }
        let (Some(name), Some(ends)) = (name, ends) else { return };
        if errors.count() > before || !copies.fit(self.list.len(), "bonds", form, errors) {
            return;
        }
        for index in copies.numbers() {
            let name = name.expand(index);
            let mut resolved = [0; 2];
            for (end, (pattern, at)) in resolved.iter_mut().zip(&ends) {
                let text = pattern.expand(index);
                let key = || form.key("ends");
                let Some(node) = topology::resolve(&topology.node_names, "node", &text, *at, key, errors) else {
                    return;
                };
                *end = node;
            }
            if resolved[0] == resolved[1] {
                form.conflict("ends", "both ends are the same node; name two", errors);
                return;
            }
            let mut bond = Bond {
                name: name.clone(),
                ends: resolved,
                channels: Vec::new(),
                config: config.clone(),
                policy_back: policy_back.clone(),
            };
            for channel in &channels {
                let Some(paths) = channel.resolve(index, &mut bond, topology, form, errors) else { return };
                bond.channels.push(paths);
            }
            for end in 0..2 {
                if let Err(error) = bond.config_of(end).validate() {
                    form.conflict("channels", error.to_string(), errors);
                    return;
                }
            }
            let number = self.list.len() as u32;
            if !topology::register(&mut self.names, "bond", &name, number, form, errors) {
                return;
            }
            self.list.push(bond);
        }
    }
}

pub(super) fn patterns<'a>(
    form: &mut Form<'a>,
    key: &'static str,
    errors: &mut Errors<'_>,
) -> Option<Vec<(Pattern<'a>, u32)>> {
    let mut list = Vec::new();
    for (text, at) in form.texts(key, errors)? {
        match Pattern::parse(text) {
            Some(pattern) => list.push((pattern, at)),
            None => {
                let problem = Problem::Value { found: format!("\"{text}\""), expected: EXPECTED.into() };
                errors.add(at, form.key(key), problem);
            }
        }
    }
    Some(list)
}

fn channels<'a>(form: &mut Form<'a>, errors: &mut Errors<'_>) -> Vec<Channel<'a>> {
    let mut channels = Vec::new();
    for mut inner in form.tables("channels", &Defaults::none(), errors) {
        let name = inner.text("name", errors);
        if !inner.has("path") {
            inner.missing("path", "the link, or the links in order, from the first end to the second", errors);
        }
        let path = patterns(&mut inner, "path", errors).unwrap_or_default();
        let back = patterns(&mut inner, "back", errors);
        let mut config = ChannelConfig::default();
        for entry in CHANNEL_OPTIONS.iter().filter(|entry| entry.spec.name != "name") {
            inner.option(entry, &mut config, errors);
        }
        let rate = inner.has("rate").then_some(config.rate);
        let mtu = inner.has("mtu").then_some(config.mtu);
        let framing = inner.has("framing").then_some(config.framing);
        channels.push(Channel { name, path, back, config, rate, mtu, framing });
        inner.finish(None, errors);
    }
    for link in patterns(form, "links", errors).unwrap_or_default() {
        let config = ChannelConfig::default();
        channels.push(Channel {
            name: None,
            path: vec![link],
            back: None,
            config,
            rate: None,
            mtu: None,
            framing: None,
        });
    }
    channels
}

impl Channel<'_> {
    /// Its links there and back; its settings go to the bond's.
    fn resolve(
        &self,
        index: u64,
        bond: &mut Bond,
        topology: &Topology,
        form: &Form<'_>,
        errors: &mut Errors<'_>,
    ) -> Option<[Vec<u32>; 2]> {
        let way = Way { key: "channels", index, ends: bond.ends };
        let [there, back] = way.both(&self.path, self.back.as_deref(), topology, form, errors)?;
        let links = || there.iter().map(|&link| &topology.links[link as usize]);
        let slowest = links().filter_map(|link| match link.profile.capacity {
            Capacity::Constant(rate) => Some(rate),
            _ => None,
        });
        let mut config = self.config.clone();
        config.name = self.name.map_or_else(|| topology.links[there[0] as usize].name.clone(), str::to_owned);
        config.rate = self.rate.unwrap_or(slowest.min());
        let smallest = there.iter().map(|&link| topology.mtus[link as usize]).min().unwrap_or(u32::MAX);
        config.mtu = self.mtu.unwrap_or((smallest as usize).min(1500));
        if config.mtu > smallest as usize {
            let text = format!("a channel's mtu of {} B is above {smallest} B, that of its links", config.mtu);
            form.conflict("channels", text, errors);
            return None;
        }
        let framing = links().map(|link| match link.framing {
            Framing::None => 0,
            Framing::Bytes(bytes) => bytes as usize,
            // Header, check, preamble, gap.
            Framing::Ethernet => 38,
            // LLC/SNAP and the trailer; what cells add grows with the packet and is left to a rate below the link's.
            Framing::AtmAal5 => 16,
        });
        config.framing = self.framing.unwrap_or(framing.max().unwrap_or(0));
        bond.config.channels.push(config);
        Some([there, back])
    }
}

/// The links between two ends that a key lists, for one of the copies.
pub(super) struct Way {
    pub(super) key: &'static str,
    pub(super) index: u64,
    pub(super) ends: [u32; 2],
}

impl Way {
    /// Its links there and back; by default the other directions of the same links.
    pub(super) fn both(
        &self,
        path: &[(Pattern<'_>, u32)],
        back: Option<&[(Pattern<'_>, u32)]>,
        topology: &Topology,
        form: &Form<'_>,
        errors: &mut Errors<'_>,
    ) -> Option<[Vec<u32>; 2]> {
        let there = follow(self, path, topology, form, errors)?;
        let [from, to] = self.ends;
        if let Some(back) = back {
            let back = follow(&Way { ends: [to, from], ..*self }, back, topology, form, errors)?;
            return Some([there, back]);
        }
        let partner = |&link: &u32| Some(topology.partners[link as usize]).filter(|&partner| partner != NONE);
        let Some(back) = there.iter().rev().map(partner).collect() else {
            let text = "a path over simplex links needs `back`, the links from the second end to the first: messages go both ways";
            form.conflict(self.key, text, errors);
            return None;
        };
        Some([there, back])
    }
}

/// Links by name, one after the other, in whichever direction leads on.
fn follow(
    &Way { key, index, ends: [from, to] }: &Way,
    path: &[(Pattern<'_>, u32)],
    topology: &Topology,
    form: &Form<'_>,
    errors: &mut Errors<'_>,
) -> Option<Vec<u32>> {
    let mut links = Vec::with_capacity(path.len());
    let mut here = from;
    let mut last = form.place(key);
    let place = || form.key(key);
    for (pattern, at) in path {
        let name = pattern.expand(index);
        let link = topology::resolve(&topology.link_names, "link", &name, *at, place, errors)?;
        let directions = [link, topology.partners[link as usize]];
        let leads = |link: &u32| *link != NONE && topology.links[*link as usize].from == here;
        let Some(&link) = directions.iter().find(|link| leads(link)) else {
            let here = &topology.nodes[here as usize].name;
            let problem =
                Problem::Conflict(format!("link `{name}` does not begin at `{here}`, where the path is then"));
            errors.add(*at, place(), problem);
            return None;
        };
        links.push(link);
        here = topology.links[link as usize].to;
        last = *at;
    }
    if here != to || links.is_empty() {
        let (here, to) = (&topology.nodes[here as usize].name, &topology.nodes[to as usize].name);
        let problem = Problem::Conflict(format!("the path ends at `{here}`; it must end at `{to}`, its other end"));
        errors.add(last, place(), problem);
        return None;
    }
    let mut nodes: Vec<u32> = links.iter().map(|&link| topology.links[link as usize].to).collect();
    nodes.push(from);
    nodes.sort_unstable();
    if let Some(pair) = nodes.windows(2).find(|pair| pair[0] == pair[1]) {
        let node = topology.nodes[pair[0] as usize].name.clone();
        errors.add(last, place(), Problem::Circle { node });
        return None;
    }
    Some(links)
}

/// The settings of [`Config`], by their names there.
fn settings(form: &mut Form<'_>, errors: &mut Errors<'_>) -> Config {
    let mut config = Config::usual();
    for entry in OPTIONS.iter() {
        // A policy needs its mode; and nobody in a simulation asks who sends ICMP errors.
        if !matches!(entry.spec.kind, Options::Text(_) | Options::Ipv4 | Options::Ipv6) {
            form.option(entry, &mut config, errors);
        }
    }
    if let Some(policy) = policy("policy", config.mode, form, errors) {
        config.policy = policy;
    }
    let discipline = named(form, "discipline", errors);
    config = config.with_queue(discipline, named(form, "buffer", errors), End::Source);
    config.classes.0 = classes(form, errors);
    if let Some(entry) = OPTIONS.find("metered") {
        form.list_option(entry, &mut config, errors);
    }
    if let Some(mut inner) = form.table("codel", errors) {
        let target = inner.some_span("target", errors);
        let interval = inner.some_span("interval", errors);
        for key in ["target", "interval"] {
            if !inner.has(key) {
                inner.missing(key, "codel = { target = \"5ms\", interval = \"100ms\" }", errors);
            }
        }
        if let (Some(target), Some(interval)) = (target, interval) {
            config.buffer = PolicyConfig::CoDel { target, interval };
        }
        inner.finish(None, errors);
    }
    // Channels come later and are checked with everything else then.
    if let Err(error) = config.validate() {
        let text = error.to_string();
        let key = text.split(' ').next().unwrap_or_default().to_owned();
        let key = if form.has(&key) { key } else { "mode".to_owned() };
        form.conflict(&key, text, errors);
    }
    config
}

/// Traffic classes, for what both ends send.
fn classes(form: &mut Form<'_>, errors: &mut Errors<'_>) -> Vec<ClassConfig> {
    let mut classes = Vec::new();
    for (n, mut inner) in form.tables("class", &Defaults::none(), errors).into_iter().enumerate() {
        let mut class = ClassConfig::default();
        class.name = format!("class{n}");
        for entry in CLASS_OPTIONS.iter() {
            match entry.spec.kind {
                Options::Text(_) if entry.spec.name != "name" => inner.list_option(entry, &mut class, errors),
                _ => inner.option(entry, &mut class, errors),
            }
        }
        inner.finish(None, errors);
        classes.push(class);
    }
    classes
}

/// How mode `flow` chooses channels.
fn policy(key: &'static str, mode: Mode, form: &mut Form<'_>, errors: &mut Errors<'_>) -> Option<Settings> {
    let text = form.text(key, errors)?;
    if mode != Mode::Flow {
        form.conflict(key, "a policy is for mode = \"flow\"; set that mode, or leave the policy out", errors);
    }
    match text.parse() {
        Ok(policy) => Some(policy),
        Err(error) => {
            form.conflict(key, format!("{error}"), errors);
            None
        }
    }
}
