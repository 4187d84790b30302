//! Flows: copies made, starts drawn, paths found.

use super::bond::Bonds;
use super::error::{Problem, closest};
use super::form::{Defaults, Errors, Form, LONGEST};
use super::names::{EXPECTED, Names, Pattern};
use super::ring::{self, Rings};
use super::route::{NoPath, Router, crossing, mirrored};
use super::store::Store;
use super::topology::{self, Copies, Topology};
use super::traffic::{self, Sending};
use super::value::Kind;
use crate::model::{Flow, Hop, Room, Transport};
use crate::traffic::Config as Traffic;
use fairspan_core::buffer::Limit;
use fairspan_core::link::Capacity;
use fairspan_core::quantity::parse_span;
use fairspan_core::queue::{MOST_DELAY, MOST_ROOM, MOST_WEIGHT};
use fairspan_core::ring::{Class, Ringlet};
use fairspan_core::rng::Rng;
use fairspan_core::units::{Span, Time};

/// Longest spread of starts that no key gives.
const MOST_SPREAD: Span = Span::from_secs(1);
/// A `[[flow]]` table and the flows that it makes.
struct Group<'a> {
    via: Option<Vec<(Pattern<'a>, u32)>>,
    back_via: Option<Vec<(Pattern<'a>, u32)>>,
    /// How its packets go through rings, and where that is told.
    ringlet: Option<(Ringlet, u32)>,
    class: Option<(Class, u32)>,
    sending: Sending,
    copies: Copies,
    first: usize,
    /// Up to how much later each of its flows starts than at once, where its keys say nothing of starts.
    usual_spread: Span,
    /// Where it stands, for errors about paths.
    at: u32,
    path: String,
}

/// Reads all flows of a run with this seed; what has no `stop` stops at the end of `time`, which has the warm-up before it.
pub(super) fn read<'a>(
    root: &mut Form<'a>,
    [defaults, tcp]: [&mut Defaults<'a>; 2],
    places: (&Topology, &Bonds, &Rings),
    (store, seed, time, ecmp): (&Store, u64, [Span; 2], bool),
    before: usize,
    errors: &mut Errors<'_>,
) -> Vec<Flow> {
    let (mut flows, mut names, mut groups) = (Vec::new(), Names::default(), Vec::new());
    if !root.has("flow") && !root.has("reliable") {
        root.missing("flow", "what is sent: [[flow]] with name, from, to and kind, or [[reliable]]", errors);
    }
    for (number, mut form) in root.tables("flow", defaults, errors).into_iter().enumerate() {
        // A stream of random numbers for each table: one more flow does not change when the others start.
        let mut rng = Rng::new(seed ^ (number as u64 + 1).wrapping_mul(0xa076_1d64_78bd_642f));
        let reading = Reading { topology: places.0, store, warm_up: time[0], duration: time[1] };
        if let Some(group) = reading.group(&mut form, tcp, &mut rng, &mut flows, &mut names, errors) {
            groups.push((group, rng));
        }
        form.finish(Some(defaults), errors);
    }
    // Who is alone meets nobody, whenever it starts.
    if flows.len() > 1 {
        for (group, rng) in &mut groups {
            for flow in &mut flows[group.first..group.first + group.copies.count as usize] {
                flow.start += Span::from_nanos(rng.below(group.usual_spread.as_nanos()));
            }
        }
    }
    let groups: Vec<Group<'_>> = groups.into_iter().map(|(group, _)| group).collect();
    // Paths over links that could not be read would only add errors.
    if errors.count() > before {
        return flows;
    }
    route(&mut flows, &groups, places, ecmp.then_some(seed), errors);
    flows
}

struct Reading<'t> {
    topology: &'t Topology,
    store: &'t Store,
    warm_up: Span,
    duration: Span,
}

impl Reading<'_> {
    fn group<'a>(
        &self,
        form: &mut Form<'a>,
        tcp: &mut Defaults<'a>,
        rng: &mut Rng,
        flows: &mut Vec<Flow>,
        names: &mut Names,
        errors: &mut Errors<'_>,
    ) -> Option<Group<'a>> {
        let before = errors.count();
        let copies = Copies::read(form, errors);
        let name = topology::pattern("name", form, copies, errors);
        let (from, to) = (pattern(form, "from", copies, errors), pattern(form, "to", copies, errors));
        let (via, back_via) = (waypoints(form, "via", errors), waypoints(form, "back_via", errors));
        let ringlet = ring::ringlet(form, errors).map(|ringlet| (ringlet, form.place("ringlet")));
        let classes = [("A", Class::A), ("B", Class::B), ("C", Class::C)];
        let class = form.choice("class", &classes, errors).map(|class| (class, form.place("class")));
        let start = form.span("start", errors).unwrap_or_default();
        let stop = form.span("stop", errors).unwrap_or(self.duration);
        let stagger = form.span("stagger", errors).unwrap_or_default();
        let spread = spread(form, errors);
        let told = spread.is_some() || form.has("start") || form.has("stagger");
        let spread = spread.unwrap_or_default();
        let latest = start + stagger.times(copies.count - 1) + spread;
        if form.has("stop") && latest >= stop {
            let text = format!("the flow stops after {} s, before it has started", stop.as_secs_f64());
            form.conflict("stop", format!("{text}; it must be above start, stagger and spread together"), errors);
        } else if latest >= self.duration && errors.count() == before {
            let key = ["start", "spread", "stagger"].into_iter().find(|key| form.has(key)).unwrap_or("start");
            let text = format!("a start after {} s, when the run is over", latest.as_secs_f64());
            form.conflict(key, format!("{text}; it must be below the duration"), errors);
        }
        let drift_ppm = form.drift("drift", true, errors);
        let dscp = form.integer("dscp", 0..=63, errors).unwrap_or_default() as u8;
        let weight = form.integer("weight", 1..=u64::from(MOST_WEIGHT), errors).unwrap_or(1) as u32;
        let room = room(form, errors).unwrap_or_default();
        let deadline = form.span("deadline", errors);
        if deadline.is_some_and(|deadline| deadline > MOST_DELAY) {
            form.conflict("deadline", "a deadline of more than 60 s; write at most that".to_owned(), errors);
        }
        let sending = traffic::sending(form, tcp, self.store, errors);
        let (Some(name), Some(from), Some(to), Some(sending)) = (name, from, to, sending) else { return None };
        if errors.count() > before || !copies.fit(flows.len(), "flows", form, errors) {
            return None;
        }
        let alike = matches!(sending.transport, Transport::Tcp(_))
            || matches!(sending.traffic, Traffic::Call(_) | Traffic::Game(_));
        let together = alike && !told;
        let usual_spread = if together { self.usual_spread(stop) } else { Span::ZERO };
        let first = flows.len();
        let mut buffer = String::new();
        flows.reserve(copies.count as usize);
        for index in copies.numbers() {
            let mut node = |key: &'static str, pattern: &Pattern<'_>, errors: &mut Errors<'_>| {
                pattern.expand_into(index, &mut buffer);
                let key_path = || form.key(key);
                topology::resolve(&self.topology.node_names, "node", &buffer, form.place(key), key_path, errors)
            };
            let (from, to) = (node("from", &from, errors)?, node("to", &to, errors)?);
            if from == to {
                let name = &self.topology.nodes[from as usize].name;
                form.conflict("to", format!("the flow goes from `{name}` to itself; name two nodes"), errors);
                return None;
            }
            let name = name.expand(index);
            if !topology::register(names, "flow", &name, flows.len() as u32, form, errors) {
                return None;
            }
            let random = Span::from_nanos(rng.below(spread.as_nanos()));
            flows.push(Flow {
                name,
                from,
                to,
                path: Vec::new(),
                back: Vec::new(),
                others: Vec::new(),
                start: Time::ZERO + start + stagger.times(index - copies.first) + random,
                stop: Time::ZERO + stop,
                traffic: sending.traffic.clone(),
                transport: sending.transport.clone(),
                drift_ppm,
                dscp,
                weight,
                room,
                deadline,
            });
        }
        Some(Group {
            via,
            back_via,
            ringlet,
            class,
            sending,
            copies,
            first,
            usual_spread,
            at: form.at,
            path: form.key("").trim_end_matches('.').into(),
        })
    }
}

impl Reading<'_> {
    /// How far the starts of connections lie apart that would else begin at one instant, and then do the same with every seed: as
    /// much as half of the warm-up hides, or where that is little, a hundredth of the time until `stop`.
    fn usual_spread(&self, stop: Span) -> Span {
        let hidden = if self.warm_up < stop { self.warm_up.as_nanos() / 2 } else { 0 };
        Span::from_nanos(hidden.max(stop.as_nanos() / 100)).min(MOST_SPREAD)
    }
}

/// Up to how much later each flow starts; `None` where that is not said, or `"auto"`.
fn spread(form: &mut Form<'_>, errors: &mut Errors<'_>) -> Option<Span> {
    let value = form.value("spread")?;
    if value.kind == Kind::Text("auto".into()) { None } else { form.span("spread", errors) }
}

fn pattern<'a>(form: &mut Form<'a>, key: &'static str, copies: Copies, errors: &mut Errors<'_>) -> Option<Pattern<'a>> {
    topology::pattern(key, form, copies, errors)
}

fn waypoints<'a>(form: &mut Form<'a>, key: &'static str, errors: &mut Errors<'_>) -> Option<Vec<(Pattern<'a>, u32)>> {
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

/// A number of parts, or `"round-trip"`, perhaps with a time on top.
fn room(form: &mut Form<'_>, errors: &mut Errors<'_>) -> Option<Room> {
    let value = form.value("room")?;
    let found = match &value.kind {
        Kind::Integer(parts) => {
            u32::try_from(*parts).ok().filter(|parts| (1..=MOST_ROOM).contains(parts)).map(Room::Parts)
        }
        Kind::Text(text) => text.strip_prefix("round-trip").and_then(|waiting| match waiting.strip_prefix('+') {
            Some(waiting) => parse_span(waiting).ok().filter(|&waiting| waiting <= LONGEST).map(Room::RoundTrip),
            None => waiting.is_empty().then_some(Room::RoundTrip(Span::ZERO)),
        }),
        _ => None,
    };
    if found.is_none() {
        let expected = format!(
            "a whole number from 1 to {MOST_ROOM}, \"round-trip\", or with a time on top as \"round-trip+100ms\""
        );
        form.wrong("room", value, expected, errors);
    }
    found
}

fn route(
    flows: &mut [Flow],
    groups: &[Group<'_>],
    (topology, bonds, rings): (&Topology, &Bonds, &Rings),
    ecmp: Option<u64>,
    errors: &mut Errors<'_>,
) {
    let ends: Vec<[u32; 2]> = bonds.list.iter().map(|bond| bond.ends).collect();
    let router = Router::new(topology, &ends, &rings.list);
    let mut paths = Paths { topology, bonds, rings, router, checked: Vec::new() };
    // Flows that enter the network at one place come one after the other: they share a search.
    let mut order: Vec<(u32, u32, u32)> = Vec::with_capacity(flows.len());
    for (group, its) in groups.iter().enumerate() {
        for (number, flow) in flows.iter().enumerate().skip(its.first).take(its.copies.count as usize) {
            order.push((paths.router.entry(flow.from), number as u32, group as u32));
        }
    }
    order.sort_unstable();
    for &(_, number, group) in &order {
        let (flow, group) = (&mut flows[number as usize], &groups[group as usize]);
        let index = group.copies.first + (number as usize - group.first) as u64;
        paths.router.pick = ecmp.map(|seed| pick(seed, &flow.name));
        let Some(path) = paths.find(flow.from, flow.to, group.via.as_deref(), index, group, errors) else { return };
        flow.path = path;
        if !paths.cross(&mut flow.path, group, errors) {
            return;
        }
        paths.fits(&flow.path, group, errors);
        if let Some(seed) = ecmp.filter(|_| flow.traffic.has_connections()) {
            let index = (index, group);
            let Some(others) = paths.others(flow, pick(seed, &flow.name), index, errors) else { return };
            flow.others = others.into_iter().map(|path| [path, Vec::new()]).collect();
        }
    }
    let mut back: Vec<(u32, u32, u32)> = Vec::new();
    for &(_, number, group) in &order {
        let (flow, its) = (&mut flows[number as usize], &groups[group as usize]);
        if !its.sending.both_ways && its.back_via.is_none() {
            continue;
        }
        match mirrored(topology, &flow.path).filter(|_| its.back_via.is_none()) {
            Some(path) => {
                flow.back = path;
                for [there, back] in &mut flow.others {
                    *back = mirrored(topology, there).unwrap_or_default();
                }
            }
            None => back.push((paths.router.entry(flow.to), number, group)),
        }
    }
    back.sort_unstable();
    for (_, number, group) in back {
        let (flow, group) = (&mut flows[number as usize], &groups[group as usize]);
        let index = group.copies.first + (number as usize - group.first) as u64;
        paths.router.pick = ecmp.map(|seed| !pick(seed, &flow.name));
        let Some(mut path) = paths.find(flow.to, flow.from, group.back_via.as_deref(), index, group, errors) else {
            return;
        };
        for hop in &mut path {
            if let Hop::Ring(_, way) = hop {
                way.class = group.class.map_or(way.class, |class| class.0);
            }
        }
        for [_, back] in &mut flow.others {
            back.clone_from(&path);
        }
        flow.back = path;
    }
}

/// Paths of a flow of many connections with equal-cost multipath, besides the first one's.
const OTHERS: usize = 31;

/// By which a flow chooses among equal paths: its name and the seed (FNV-1a).
fn pick(seed: u64, name: &str) -> u64 {
    name.bytes()
        .fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// The places with the least length.
fn nearest(lengths: impl Iterator<Item = Option<usize>>) -> Vec<usize> {
    let lengths: Vec<Option<usize>> = lengths.collect();
    let least = lengths.iter().flatten().min().copied();
    (0..lengths.len()).filter(|&place| least.is_some() && lengths[place] == least).collect()
}

struct Paths<'a> {
    topology: &'a Topology,
    bonds: &'a Bonds,
    rings: &'a Rings,
    router: Router<'a>,
    /// Links and table positions for which packets' sizes have been checked.
    checked: Vec<(u32, u32)>,
}

impl Paths<'_> {
    /// Paths of a flow's further connections, each drawn as the first one's was; none where all are the same.
    fn others(
        &mut self,
        flow: &Flow,
        pick: u64,
        (index, group): (u64, &Group<'_>),
        errors: &mut Errors<'_>,
    ) -> Option<Vec<Vec<Hop>>> {
        let mut others = Vec::with_capacity(OTHERS);
        for number in 1..=OTHERS as u64 {
            self.router.pick = Some(Rng::new(pick.wrapping_add(number)).next_u64());
            let mut path = self.find(flow.from, flow.to, group.via.as_deref(), index, group, errors)?;
            if !self.cross(&mut path, group, errors) {
                return None;
            }
            others.push(path);
        }
        if others.iter().all(|path| *path == flow.path) {
            others.clear();
        }
        others.iter().for_each(|path| self.fits(path, group, errors));
        Some(others)
    }

    /// The path through the waypoints, or the shortest.
    fn find(
        &mut self,
        from: u32,
        to: u32,
        via: Option<&[(Pattern<'_>, u32)]>,
        index: u64,
        group: &Group<'_>,
        errors: &mut Errors<'_>,
    ) -> Option<Vec<Hop>> {
        let (mut path, mut here) = (Vec::with_capacity(4), from);
        let via = via.unwrap_or_default();
        for (number, (pattern, at)) in via.iter().enumerate() {
            let name = pattern.expand(index);
            let directions = match self.ring(&name) {
                Some(ring) => {
                    // Out of a ring it goes where the rest of the way is shortest.
                    let next = via.get(number + 1).map(|(pattern, _)| pattern.expand(index));
                    self.crossings(ring, here, next.as_deref(), to)
                }
                None => self.named(&name, *at, group, errors)?,
            };
            // Whichever of its ends is nearer.
            let mut best: Option<Vec<Hop>> = None;
            let mut wrong = NoPath::Apart;
            for hop in directions {
                let mut way = Vec::new();
                match self.router.path(here, self.ends(hop)[0], &mut way) {
                    Ok(()) => {
                        way.push(hop);
                        if best.as_ref().is_none_or(|best| way.len() < best.len()) {
                            best = Some(way);
                        }
                    }
                    Err(why) => wrong = why,
                }
            }
            let Some(way) = best else {
                self.unreachable(here, name, wrong, *at, group, errors);
                return None;
            };
            here = way.last().map_or(here, |&hop| self.ends(hop)[1]);
            path.extend(way);
        }
        if let Err(why) = self.router.path(here, to, &mut path) {
            let at = via.last().map_or(group.at, |last| last.1);
            self.unreachable(here, self.topology.nodes[to as usize].name.clone(), why, at, group, errors);
            return None;
        }
        if !via.is_empty() {
            let mut nodes: Vec<u32> = path.iter().map(|&hop| self.ends(hop)[1]).collect();
            nodes.push(from);
            nodes.sort_unstable();
            if let Some(pair) = nodes.windows(2).find(|pair| pair[0] == pair[1]) {
                let node = self.topology.nodes[pair[0] as usize].name.clone();
                let at = via.first().map_or(group.at, |first| first.1);
                errors.add(at, format!("{}.via", group.path), Problem::Circle { node });
                return None;
            }
        }
        Some(path)
    }

    /// What a name stands for: both directions of a link or a bond, one direction of a link.
    fn named(&self, name: &str, at: u32, group: &Group<'_>, errors: &mut Errors<'_>) -> Option<Vec<Hop>> {
        if let Some(directions) = self.directions(name) {
            return Some(directions);
        }
        let names = self.bonds.names.all().chain(self.rings.names.all()).chain(self.topology.link_names.all());
        let problem = Problem::NoSuch { what: "link, bond or ring", found: name.into(), close: closest(name, names) };
        errors.add(at, format!("{}.via", group.path), problem);
        None
    }

    fn directions(&self, name: &str) -> Option<Vec<Hop>> {
        if let Some(bond) = self.bonds.names.find(name) {
            return Some(vec![Hop::Bond(bond, 0), Hop::Bond(bond, 1)]);
        }
        let link = self.topology.link_names.find(name)?;
        if self.topology.is_back(link, name) {
            return Some(vec![Hop::Link(link)]);
        }
        let partner = self.topology.partners[link as usize];
        let back = (partner != topology::NONE).then_some(Hop::Link(partner));
        Some(std::iter::once(Hop::Link(link)).chain(back).collect())
    }

    /// The ring of that name, unless a bond has it.
    fn ring(&self, name: &str) -> Option<u32> {
        self.rings.names.find(name).filter(|_| self.bonds.names.find(name).is_none())
    }

    /// The ways through a ring from `here` to its nodes that are nearest to what `next` names, or else to `to`: from the
    /// nearest node of the ring, or all of the nearest.
    fn crossings(&mut self, ring: u32, here: u32, next: Option<&str>, to: u32) -> Vec<Hop> {
        let nodes = self.rings.list[ring as usize].nodes.clone();
        let goals = match next {
            None => vec![to],
            Some(next) => match self.ring(next) {
                Some(next) => self.rings.list[next as usize].nodes.clone(),
                None => self.directions(next).unwrap_or_default().iter().map(|&hop| self.ends(hop)[0]).collect(),
            },
        };
        // A node of the ring is nearest to itself: most flows of a ring need no search.
        let into = match nodes.iter().position(|&node| node == here) {
            Some(place) => vec![place],
            None => nearest(nodes.iter().map(|&node| self.length(here, node))),
        };
        let inside: Vec<usize> = (0..nodes.len()).filter(|&place| goals.contains(&nodes[place])).collect();
        let out = if inside.is_empty() {
            nearest(nodes.iter().map(|&node| goals.iter().filter_map(|&goal| self.length(node, goal)).min()))
        } else {
            inside
        };
        let pairs = into.iter().flat_map(|&from| out.iter().map(move |&to| (from, to)));
        pairs.filter(|(from, to)| from != to).map(|(from, to)| Hop::Ring(ring, crossing(from, to))).collect()
    }

    /// Hops of the shortest path.
    fn length(&mut self, from: u32, to: u32) -> Option<usize> {
        let mut way = Vec::new();
        self.router.path(from, to, &mut way).ok().map(|()| way.len())
    }

    /// Gives the ring hops of a path the flow's ringlet and class. Tells where there are none, or no such way round.
    fn cross(&self, path: &mut [Hop], group: &Group<'_>, errors: &mut Errors<'_>) -> bool {
        let mut crossed = false;
        for hop in path {
            let Hop::Ring(number, way) = hop else { continue };
            crossed = true;
            if let Some((ringlet, at)) = group.ringlet {
                let ring = &self.rings.list[*number as usize];
                let last = ring.links.last().is_none_or(|last| last.present);
                if !last && (ringlet == Ringlet::Zero) == (way.to < way.from) {
                    let text = format!("`{}` is a line, where the other way round is missing; leave it out", ring.name);
                    errors.add(at, format!("{}.ringlet", group.path), Problem::Conflict(text));
                    return false;
                }
                way.ringlet = Some(ringlet);
            }
            way.class = group.class.map_or(way.class, |class| class.0);
        }
        let told = [group.ringlet.map(|told| ("ringlet", told.1)), group.class.map(|told| ("class", told.1))];
        if !crossed && let Some((key, at)) = told.into_iter().flatten().next() {
            let text =
                format!("the path crosses no ring, and `{key}` is about rings; leave it out, or name one in `via`");
            errors.add(at, format!("{}.{key}", group.path), Problem::Conflict(text));
            return false;
        }
        true
    }

    fn ends(&self, hop: Hop) -> [u32; 2] {
        match hop {
            Hop::Link(number) => {
                let link = &self.topology.links[number as usize];
                [link.from, link.to]
            }
            Hop::Bond(number, end) => {
                let ends = self.bonds.list[number as usize].ends;
                [ends[usize::from(end)], ends[1 - usize::from(end)]]
            }
            Hop::Ring(number, way) => {
                let nodes = &self.rings.list[number as usize].nodes;
                [nodes[usize::from(way.from)], nodes[usize::from(way.to)]]
            }
        }
    }

    fn unreachable(&self, from: u32, to: String, why: NoPath, at: u32, group: &Group<'_>, errors: &mut Errors<'_>) {
        let why = match why {
            NoPath::Apart => "no links lead there".into(),
            NoPath::Host(node) => {
                let node = &self.topology.nodes[node as usize].name;
                format!("the way goes through `{node}`, a host, and hosts pass nothing on: give it kind = \"router\"")
            }
            NoPath::TooMuch => "searching the way is too much work here: name links with `via`".into(),
        };
        let from = self.topology.nodes[from as usize].name.clone();
        errors.add(at, group.path.clone(), Problem::Unreachable { from, to, why });
    }

    /// Checks that the flow's packets pass the links' queues and MTUs at all.
    fn fits(&mut self, path: &[Hop], group: &Group<'_>, errors: &mut Errors<'_>) {
        for hop in path {
            if let Hop::Ring(number, _) = *hop {
                self.fits_ring(number, group, errors);
            }
            let Hop::Link(number) = *hop else { continue };
            let link = &self.topology.links[number as usize];
            let largest = group.sending.largest;
            let narrow = match link.profile.queue {
                Limit::Bytes(bytes) if bytes < u64::from(largest) => {
                    (link.profile.capacity != Capacity::Unlimited).then(|| format!("queue of {bytes} B"))
                }
                _ => None,
            };
            let mtu = self.topology.mtus[number as usize];
            let small = if mtu < largest { Some(format!("mtu of {mtu} B")) } else { narrow };
            if let Some(small) = small
                && !self.checked.contains(&(number, group.at))
            {
                self.checked.push((number, group.at));
                let text = format!("packets of up to {largest} B do not pass link `{}` with its {small}", link.name);
                errors.add(group.at, group.path.clone(), Problem::Conflict(text));
            }
        }
    }

    /// Checks that the flow's packets pass a ring's queues at all.
    fn fits_ring(&self, number: u32, group: &Group<'_>, errors: &mut Errors<'_>) {
        let ring = &self.rings.list[number as usize];
        let largest = group.sending.largest;
        let room = ring.transit.as_u64().min(ring.station.as_u64());
        if room < u64::from(largest) + u64::from(ring.overhead) {
            let text =
                format!("packets of up to {largest} B do not pass ring `{}` with a buffer of {room} B", ring.name);
            errors.add(group.at, group.path.clone(), Problem::Conflict(text));
        }
    }
}
