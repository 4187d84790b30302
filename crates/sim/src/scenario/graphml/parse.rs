//! A GraphML file to nodes with places and edges with rates.
//!
//! What it is: the part of GraphML that a network needs: one flat graph, its nodes and edges, and the data of these under the names that `key`
//! declares. Source: the GraphML Primer and its XML schema (graphml.graphdrawing.org); names of attributes are those of the Internet Topology
//! Zoo (Knight and others, JSAC 2011).
//!
//! Departures: ports, hyperedges and graphs within nodes are refused, as a link has two ends and a node no inside; a document type is refused.
//! Cost: linear in the file. Invariants: an error has the line and the column of what is wrong; what is read is no larger than [`MOST_BYTES`]
//! and has no more than [`MOST_ELEMENTS`] elements, and nothing here recurses.

use fairspan_core::quantity::{parse_rate, parse_span};
use fairspan_core::units::{Rate, Span};
use roxmltree::{Document, Node, ParsingOptions};
use std::collections::BTreeMap;

/// Longest file.
const MOST_BYTES: usize = 256 << 20;
/// Most elements, texts and comments of a file.
const MOST_ELEMENTS: u32 = 20_000_000;
/// Deepest nesting: GraphML of one flat graph has 4.
const DEEPEST: usize = 64;
/// Longest tag of an element, in bytes, and most namespaces of a file.
const LONGEST_TAG: usize = 4096;
const MOST_SPACES: usize = 100;
/// Highest rate of an edge: 100 Tbit/s.
const FASTEST: f64 = 1e14;
/// Longest delay of an edge.
const LONGEST: Span = Span::from_secs(60);

/// Which attributes count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    /// Of edges: the rate, in bit/s or with a unit.
    pub(super) rate: &'a str,
    /// Of edges: the delay, in milliseconds or with a unit, before what distance says.
    pub(super) delay: Option<&'a str>,
    /// Whether nodes are called by their labels; else by their identifiers.
    pub(super) labels: bool,
}

/// A network as the file has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Network {
    pub(super) nodes: Vec<Place>,
    pub(super) edges: Vec<Edge>,
}

/// A node.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Place {
    pub(super) name: String,
    /// Latitude and longitude in degrees.
    pub(super) at: Option<[f64; 2]>,
}

/// An edge between two nodes, by their places in the list.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Edge {
    pub(super) ends: [usize; 2],
    pub(super) directed: bool,
    pub(super) rate: Option<Rate>,
    pub(super) delay: Option<Span>,
}

/// Reads the text; what is wrong comes as a sentence that begins with the line and the column.
pub(super) fn parse(text: &str, wanted: Wanted<'_>) -> Result<Network, String> {
    if text.len() > MOST_BYTES {
        return Err(format!("{} bytes; at most {MOST_BYTES} work here", text.len()));
    }
    check_depth(text)?;
    let options = ParsingOptions { nodes_limit: MOST_ELEMENTS, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options).map_err(|error| syntax(&error))?;
    let root = document.root_element();
    if root.tag_name().name() != "graphml" {
        let text = format!("the file begins with <{}>, not with <graphml>: it is no GraphML", root.tag_name().name());
        return Err(at(root, &text));
    }
    let mut graphs = children(root, "graph");
    let Some(graph) = graphs.next() else {
        return Err(at(root, "there is no <graph> in it"));
    };
    if let Some(second) = graphs.next() {
        return Err(at(second, "a second <graph>; keep the one that is meant"));
    }
    let directed = match graph.attribute("edgedefault") {
        Some("directed") => true,
        Some("undirected") => false,
        Some(other) => {
            return Err(at(graph, &format!("edgedefault=\"{other}\"; expected \"directed\" or \"undirected\"")));
        }
        None => {
            return Err(at(graph, "<graph> lacks edgedefault=\"directed\" or \"undirected\""));
        }
    };
    let keys = Keys::read(root, wanted)?;
    let mut reader = Reader { keys, wanted, network: Network::default(), ids: BTreeMap::new() };
    let mut names = BTreeMap::new();
    for node in children(graph, "node") {
        let name = reader.node(node)?;
        if let Some(first) = names.insert(name.clone(), node) {
            let remedy = if wanted.labels { "say names = \"id\"" } else { "give them other identifiers" };
            return Err(at(node, &format!("a second node called {name}, the first is at {}; {remedy}", place(first))));
        }
    }
    for edge in children(graph, "edge") {
        reader.edge(edge, directed)?;
    }
    if let Some(hyper) = children(graph, "hyperedge").next() {
        return Err(at(hyper, "a <hyperedge>; a link has two ends: make <edge> elements of it"));
    }
    if reader.network.nodes.is_empty() {
        return Err(at(graph, "the graph has no <node>"));
    }
    Ok(reader.network)
}

/// Refuses what is nested too deeply, or would take more than a few steps a byte, before anything is built of it.
fn check_depth(text: &str) -> Result<(), String> {
    let (mut depth, mut rest, mut line, mut spaces) = (0_usize, text, 1_usize, 0_usize);
    while let Some(start) = rest.find('<') {
        line += rest[..start].matches('\n').count();
        rest = &rest[start..];
        // Comments, text as it is, instructions and document types hold no elements.
        let end =
            ["<!--", "<![CDATA[", "<?"].iter().zip(["-->", "]]>", "?>"]).find(|(open, _)| rest.starts_with(**open));
        let length = match end {
            Some((open, close)) => rest[open.len()..].find(close).map(|end| open.len() + end + close.len()),
            None => tag_end(rest),
        };
        let Some(length) = length else { return Ok(()) };
        let tag = &rest[..length];
        // What an element is called and has is compared with one another.
        if end.is_none() {
            spaces += tag.matches("xmlns").count();
            if length > LONGEST_TAG || spaces > MOST_SPACES {
                let text =
                    format!("an element's tag may have {LONGEST_TAG} bytes, and the file {MOST_SPACES} namespaces");
                return Err(format!("line {line}: {text}; GraphML needs no more"));
            }
        }
        if end.is_none() && tag.starts_with("</") {
            depth = depth.saturating_sub(1);
        } else if end.is_none() && !tag.starts_with("<!") && !tag.ends_with("/>") {
            depth += 1;
            if depth > DEEPEST {
                return Err(format!("line {line}: elements are nested {depth} deep; GraphML of one graph needs 4"));
            }
        }
        line += tag.matches('\n').count();
        rest = &rest[length..];
    }
    Ok(())
}

/// How long a tag is: a `>` in quotes does not end it.
fn tag_end(tag: &str) -> Option<usize> {
    let mut quote = None;
    for (place, byte) in tag.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return Some(place + 1),
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), _) if open == byte => quote = None,
            _ => {}
        }
    }
    None
}

fn syntax(error: &roxmltree::Error) -> String {
    match error {
        roxmltree::Error::DtdDetected => "it has a document type (<!DOCTYPE>); take it out: GraphML needs none".into(),
        roxmltree::Error::NodesLimitReached => format!("more than {MOST_ELEMENTS} elements and texts"),
        _ => format!("line {}, column {}: not XML: {error}", error.pos().row, error.pos().col),
    }
}

/// Line and column where a node begins.
fn place(node: Node<'_, '_>) -> String {
    let position = node.document().text_pos_at(node.range().start);
    format!("line {}, column {}", position.row, position.col)
}

fn at(node: Node<'_, '_>, text: &str) -> String {
    format!("{}: {text}", place(node))
}

fn children<'a, 'i>(node: Node<'a, 'i>, name: &'static str) -> impl Iterator<Item = Node<'a, 'i>> {
    node.children().filter(move |child| child.is_element() && child.tag_name().name() == name)
}

/// What a `key` is for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Meaning {
    Rate,
    Delay,
    Latitude,
    Longitude,
    Label,
}

/// The keys that count, by identifier: for nodes, and for edges.
#[derive(Debug, Default)]
struct Keys<'a> {
    /// Meaning, and what it is where nothing is said.
    of: [BTreeMap<&'a str, Meaning>; 2],
    defaults: [Vec<(Meaning, Node<'a, 'a>)>; 2],
    all: BTreeMap<&'a str, ()>,
}

impl<'a> Keys<'a> {
    fn read(root: Node<'a, 'a>, wanted: Wanted<'_>) -> Result<Keys<'a>, String> {
        let mut keys = Keys::default();
        for key in children(root, "key") {
            let Some(id) = key.attribute("id") else { return Err(at(key, "<key> lacks id=\"…\"")) };
            if keys.all.insert(id, ()).is_some() {
                return Err(at(key, &format!("a second <key> with id=\"{id}\"; give it another one, and its <data>")));
            }
            let name = key.attribute("attr.name").unwrap_or(id);
            let whose: &[usize] = match key.attribute("for") {
                Some("node") => &[0],
                Some("edge") => &[1],
                Some("all") | None => &[0, 1],
                Some(_) => &[],
            };
            for &kind in whose {
                let meaning = match (kind, name) {
                    (0, "Latitude") => Meaning::Latitude,
                    (0, "Longitude") => Meaning::Longitude,
                    (0, "label") => Meaning::Label,
                    (1, name) if name == wanted.rate => Meaning::Rate,
                    (1, name) if Some(name) == wanted.delay => Meaning::Delay,
                    _ => continue,
                };
                keys.of[kind].insert(id, meaning);
                keys.defaults[kind].extend(children(key, "default").next().map(|default| (meaning, default)));
            }
        }
        Ok(keys)
    }

    /// What a node (0) or an edge (1) says of `meaning`, or its key's default.
    fn data(&self, element: Node<'a, 'a>, kind: usize, meaning: Meaning) -> Result<Option<Node<'a, 'a>>, String> {
        let mut found = None;
        for data in children(element, "data") {
            match data.attribute("key") {
                Some(key) if !self.all.contains_key(key) => {
                    return Err(at(data, &format!("<data> of key=\"{key}\", which no <key> declares")));
                }
                Some(key) if self.of[kind].get(key) == Some(&meaning) => {
                    if found.is_some() {
                        return Err(at(data, "it says this twice; keep one <data>"));
                    }
                    found = Some(data);
                }
                Some(_) => {}
                None => return Err(at(data, "<data> lacks key=\"…\"")),
            }
        }
        let default = || self.defaults[kind].iter().find(|default| default.0 == meaning).map(|default| default.1);
        let said = found.or_else(default);
        if let Some(data) = said
            && data.children().any(|child| !child.is_text())
        {
            return Err(at(data, "it holds more than text; take comments and elements out of it"));
        }
        Ok(said.filter(|data| !text(*data).is_empty()))
    }
}

fn text<'a>(data: Node<'a, 'a>) -> &'a str {
    data.text().unwrap_or_default().trim()
}

struct Reader<'a, 'w> {
    keys: Keys<'a>,
    wanted: Wanted<'w>,
    network: Network,
    /// Places of nodes in the list, by identifier.
    ids: BTreeMap<&'a str, usize>,
}

impl<'a> Reader<'a, '_> {
    /// Adds a node; gives its name.
    fn node(&mut self, node: Node<'a, 'a>) -> Result<String, String> {
        let Some(id) = node.attribute("id") else { return Err(at(node, "<node> lacks id=\"…\"")) };
        if self.ids.insert(id, self.network.nodes.len()).is_some() {
            return Err(at(node, &format!("a second <node> with id=\"{id}\"; give it another one")));
        }
        if let Some(inner) = children(node, "graph").chain(children(node, "port")).next() {
            let text = format!("a <{}> within a node; only flat graphs can be read", inner.tag_name().name());
            return Err(at(inner, &text));
        }
        let label = if self.wanted.labels { self.keys.data(node, 0, Meaning::Label)? } else { None };
        let written = match label {
            Some(label) => text(label),
            None if self.wanted.labels => {
                return Err(at(node, "the node has no label; give it one, or say names = \"id\""));
            }
            None => id,
        };
        let Some(name) = as_name(written) else {
            let text =
                format!("\"{written}\" makes no name: expected 1 to 60 characters, one of them a letter or a digit");
            return Err(at(node, &text));
        };
        let latitude = self.degrees(node, Meaning::Latitude, "Latitude", 90.0)?;
        let longitude = self.degrees(node, Meaning::Longitude, "Longitude", 360.0)?;
        let at = latitude.zip(longitude).map(|(latitude, longitude)| [latitude, longitude]);
        self.network.nodes.push(Place { name: name.clone(), at });
        Ok(name)
    }

    fn degrees(&self, node: Node<'a, 'a>, meaning: Meaning, name: &str, most: f64) -> Result<Option<f64>, String> {
        let Some(data) = self.keys.data(node, 0, meaning)? else { return Ok(None) };
        match text(data).parse::<f64>() {
            Ok(degrees) if degrees.abs() <= most => Ok(Some(degrees)),
            _ => Err(at(data, &format!("{name} is \"{}\"; expected degrees from -{most} to {most}", text(data)))),
        }
    }

    fn edge(&mut self, edge: Node<'a, 'a>, directed: bool) -> Result<(), String> {
        let mut ends = [0; 2];
        for (end, name) in ends.iter_mut().zip(["source", "target"]) {
            let Some(id) = edge.attribute(name) else { return Err(at(edge, &format!("<edge> lacks {name}=\"…\""))) };
            let Some(&found) = self.ids.get(id) else {
                return Err(at(edge, &format!("{name}=\"{id}\", but no <node> has this id")));
            };
            *end = found;
        }
        if ends[0] == ends[1] {
            let name = &self.network.nodes[ends[0]].name;
            return Err(at(
                edge,
                &format!("the edge goes from {name} to itself; take it out, as no packet would use it"),
            ));
        }
        let directed = match edge.attribute("directed") {
            Some("true") => true,
            Some("false") => false,
            Some(other) => return Err(at(edge, &format!("directed=\"{other}\"; expected \"true\" or \"false\""))),
            None => directed,
        };
        let rate = match self.keys.data(edge, 1, Meaning::Rate)? {
            Some(data) => Some(rate(text(data)).ok_or_else(|| {
                let expected = "expected bits a second from 1 to 1e14, or a rate with its unit, such as \"10Gbit\"";
                at(data, &format!("{} is \"{}\"; {expected}", self.wanted.rate, text(data)))
            })?),
            None => None,
        };
        let delay = match self.keys.data(edge, 1, Meaning::Delay)? {
            Some(data) => Some(delay(text(data)).ok_or_else(|| {
                let expected =
                    "expected milliseconds from 0 to 60000, or a length of time with its unit, such as \"4ms\"";
                at(data, &format!("{} is \"{}\"; {expected}", self.wanted.delay.unwrap_or_default(), text(data)))
            })?),
            None => None,
        };
        self.network.edges.push(Edge { ends, directed, rate, delay });
        Ok(())
    }
}

/// What no name may have becomes `-`.
fn as_name(text: &str) -> Option<String> {
    let kept = |c: char| if c.is_alphanumeric() || "-_/".contains(c) { c } else { '-' };
    let name: String = text.trim().chars().map(kept).collect();
    (name.chars().count() <= 60 && name.contains(char::is_alphanumeric)).then_some(name)
}

fn rate(text: &str) -> Option<Rate> {
    let rate = match text.parse::<f64>() {
        Ok(bits) if (1.0..=FASTEST).contains(&bits) => Rate::from_bits_per_sec(bits.round() as u64),
        Ok(_) => return None,
        Err(_) => parse_rate(text).ok()?,
    };
    (1..=FASTEST as u64).contains(&rate.as_bits_per_sec()).then_some(rate)
}

fn delay(text: &str) -> Option<Span> {
    let span = match text.parse::<f64>() {
        Ok(ms) if (0.0..=60_000.0).contains(&ms) => Span::from_nanos((ms * 1e6).round() as u64),
        Ok(_) => return None,
        Err(_) => parse_span(text).ok()?,
    };
    (span <= LONGEST).then_some(span)
}
