//! `shape = "graphml"`: a network from a GraphML file, such as those of the Internet Topology Zoo.
//!
//! What it is: each `<node>` becomes a node that forwards, each `<edge>` a link. An edge's rate is the attribute `LinkSpeedRaw`, in bit/s. Its delay is
//! the way over the earth's surface between its nodes (Latitude, Longitude), at two thirds of the speed of light: what light in glass takes. What an
//! edge does not say, and all else, is as the keys of the `[[graph]]` say. Source: haversine formula on a sphere of 6371.0088 km (IUGG's
//! mean radius).
//!
//! Departures: real fibres are longer than the shortest way; `stretch` says how much. Cost: linear in the file. Invariant: names of nodes and links
//! are unique, also where several edges join the same two nodes.

mod parse;

use super::error::Problem;
use super::form::{Errors, Form};
use super::link::{self, Direction};
use super::store::Store;
use super::topology::{MOST, NONE, Topology, register};
use super::value::{Kind, Value};
use crate::model::{HostCost, Node};
use fairspan_core::link::{Capacity, Profile};
use fairspan_core::quantity::parse_span;
use fairspan_core::units::Span;
use parse::{Edge, Network, Wanted};
use std::collections::BTreeMap;

/// The earth's mean radius, in metres.
const RADIUS: f64 = 6_371_008.8;
/// Two thirds of the speed of light, in metres a second.
const SPEED: f64 = 299_792_458.0 * 2.0 / 3.0;
/// The attribute that has an edge's rate in the Internet Topology Zoo.
const RATE: &str = "LinkSpeedRaw";

/// Reads the rest of a `[[graph]]` of this shape, and its file.
pub(super) fn read(
    topology: &mut Topology,
    name: Option<&str>,
    form: &mut Form<'_>,
    store: &Store,
    errors: &mut Errors<'_>,
) {
    let before = errors.count();
    if !form.has("file") {
        form.missing("file", "the GraphML file's name", errors);
    }
    let file = form.text("file", errors);
    let labels = form.choice("names", &[("id", false), ("label", true)], errors).unwrap_or(false);
    let wanted = Wanted {
        rate: form.text("rate_attribute", errors).unwrap_or(RATE),
        delay: form.text("delay_attribute", errors),
        labels,
    };
    let stretch = form.number("stretch", 1.0..=100.0, errors).unwrap_or(1.0);
    let usual = link::direction(form, store, errors);
    let queue = form.value("queue");
    let (Some(name), Some(file), Some(usual)) = (name, file, usual) else { return };
    if errors.count() > before {
        return;
    }
    let network = match store
        .text(file)
        .and_then(|text| parse::parse(text, wanted).map_err(|error| format!("{file}: {error}")))
    {
        Ok(network) => network,
        Err(error) => {
            errors.add(form.place("file"), form.key("file"), Problem::File(error));
            return;
        }
    };
    let directions: usize = network.edges.iter().map(|edge| if edge.directed { 1 } else { 2 }).sum();
    let counts = [topology.nodes.len() + network.nodes.len(), topology.links.len() + directions];
    for (what, count) in ["nodes", "links (both directions count)"].into_iter().zip(counts) {
        if count as u64 > MOST {
            let problem = Problem::TooMany { what: what.into(), count: count.to_string(), most: MOST };
            errors.add(form.place("file"), form.key("file"), problem);
            return;
        }
    }
    let maker = Maker { own: name, usual: &usual, queue, stretch };
    maker.build(topology, &network, form, errors);
}

/// What all edges have in common.
struct Maker<'a> {
    own: &'a str,
    usual: &'a Direction,
    queue: Option<&'a Value>,
    stretch: f64,
}

impl Maker<'_> {
    fn build(&self, topology: &mut Topology, network: &Network, form: &Form<'_>, errors: &mut Errors<'_>) {
        let own = self.own;
        let first = topology.nodes.len();
        for place in &network.nodes {
            let name = format!("{own}-{}", place.name);
            if !register(&mut topology.node_names, "node", &name, topology.nodes.len() as u32, form, errors) {
                return;
            }
            topology.nodes.push(Node { name, cost: HostCost::default() });
            topology.forwards.push(true);
        }
        let mut joined = BTreeMap::new();
        for edge in &network.edges {
            let [from, to] = edge.ends.map(|end| &network.nodes[end].name);
            let times: &mut u32 = joined.entry(edge.ends).or_default();
            *times += 1;
            let again = if *times > 1 { format!(":{times}") } else { String::new() };
            let name = format!("{own}-{from}:{to}{again}");
            let Some(direction) = self.direction(network, edge, form, errors) else { return };
            let [a, b] = edge.ends.map(|end| (first + end) as u32);
            let number = topology.links.len() as u32;
            if !register(&mut topology.link_names, "link", &name, number, form, errors) {
                return;
            }
            let back = format!("{name}/back");
            topology.push(name, a, b, &direction, if edge.directed { NONE } else { number + 1 });
            if edge.directed {
                continue;
            }
            if !register(&mut topology.link_names, "link", &back, number + 1, form, errors) {
                return;
            }
            topology.push(back, b, a, &direction, number);
        }
    }

    /// What an edge's link is: as usual, but for what the edge says.
    fn direction(&self, network: &Network, edge: &Edge, form: &Form<'_>, errors: &mut Errors<'_>) -> Option<Direction> {
        let mut direction = self.usual.clone();
        let places = edge.ends.map(|end| network.nodes[end].at);
        let by_distance = match places {
            [Some(a), Some(b)] => Some(delay_over(distance(a, b) * self.stretch)),
            _ => None,
        };
        let profile = Profile {
            capacity: edge.rate.map_or_else(|| direction.profile.capacity.clone(), Capacity::Constant),
            delay: edge.delay.or(by_distance).unwrap_or(direction.profile.delay),
            ..Profile::clone(&direction.profile)
        };
        // A queue that is said as a time has the bytes of this edge's rate.
        let timed = self.queue.filter(|value| matches!(&value.kind, Kind::Text(text) if parse_span(text).is_ok()));
        let queue = match timed {
            Some(value) => link::limit(form, "queue", value, Some(&profile.capacity), errors)?,
            None => profile.queue,
        };
        direction.profile = Profile { queue, ..profile }.into();
        Some(direction)
    }
}

/// How long light in glass takes for so many metres.
fn delay_over(metres: f64) -> Span {
    Span::from_nanos((metres / SPEED * 1e9).round() as u64)
}

/// Metres between two places on the earth, by latitude and longitude in degrees.
fn distance(a: [f64; 2], b: [f64; 2]) -> f64 {
    let half = |a: f64, b: f64| libm::sin((b - a).to_radians() / 2.0);
    let (north, east) = (half(a[0], b[0]), half(a[1], b[1]));
    let chord = north * north + libm::cos(a[0].to_radians()) * libm::cos(b[0].to_radians()) * east * east;
    2.0 * RADIUS * libm::asin(libm::sqrt(chord.clamp(0.0, 1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairspan_core::units::Rate;

    const ALL: Wanted<'static> = Wanted { rate: RATE, delay: Some("ms"), labels: false };

    fn file(graph: &str) -> String {
        format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n\
             <key attr.name=\"Latitude\" attr.type=\"double\" for=\"node\" id=\"d1\" />\n\
             <key attr.name=\"Longitude\" attr.type=\"double\" for=\"node\" id=\"d2\" />\n\
             <key attr.name=\"label\" attr.type=\"string\" for=\"node\" id=\"d3\" />\n\
             <key attr.name=\"LinkSpeedRaw\" attr.type=\"double\" for=\"edge\" id=\"d4\" />\n\
             <key attr.name=\"ms\" attr.type=\"double\" for=\"edge\" id=\"d5\"><default>7</default></key>\n{graph}\n</graphml>"
        )
    }

    fn wrong(graph: &str) -> String {
        parse::parse(&file(graph), ALL).unwrap_err()
    }

    // A quarter of the way round from the equator to a pole; New York and Los Angeles, 3,936 km apart by their coordinates.
    #[test]
    fn distance_is_the_way_over_the_surface() {
        let quarter = RADIUS * core::f64::consts::FRAC_PI_2;
        assert!((distance([0.0, 20.0], [90.0, -100.0]) - quarter).abs() < 1e-3);
        assert!((distance([0.0, 170.0], [0.0, -100.0]) - quarter).abs() < 1e-3);
        assert!((distance([0.0, 0.0], [0.0, 180.0]) - 2.0 * quarter).abs() < 1e-3);
        assert_eq!(distance([48.1, 11.5], [48.1, 11.5]), 0.0);
        let coasts = distance([40.7128, -74.006], [34.0522, -118.2437]);
        assert!((3.93e6..3.94e6).contains(&coasts), "{coasts}");
        assert_eq!(delay_over(199_861_638.666_666_66), Span::from_secs(1));
    }

    #[test]
    fn rates_delays_places_and_directions_are_read() {
        let graph = "<graph edgedefault=\"undirected\">\n\
            <node id=\"0\"><data key=\"d1\">40.7</data><data key=\"d2\">-74.0</data></node>\n<node id=\"b c\"/>\n\
            <edge source=\"0\" target=\"b c\"><data key=\"d4\">9953280000.0</data></edge>\n\
            <edge source=\"b c\" target=\"0\" directed=\"true\"><data key=\"d4\">155Mbit</data><data key=\"d5\">2.5</data></edge>\n</graph>";
        let network = parse::parse(&file(graph), ALL).unwrap();
        assert_eq!(network.nodes[0].at, Some([40.7, -74.0]));
        assert_eq!((network.nodes[1].name.as_str(), network.nodes[1].at), ("b-c", None));
        let edges: Vec<_> = network
            .edges
            .iter()
            .map(|edge| {
                (edge.ends, edge.directed, edge.rate.unwrap().as_bits_per_sec(), edge.delay.unwrap().as_nanos())
            })
            .collect();
        assert_eq!(edges, [([0, 1], false, 9_953_280_000, 7_000_000), ([1, 0], true, 155_000_000, 2_500_000)]);
    }

    #[test]
    fn what_is_wrong_is_told_by_line_and_column() {
        let nodes = "<node id=\"a\"/><node id=\"b\"/>";
        let graph = |inside: &str| wrong(&format!("<graph edgedefault=\"directed\">\n{nodes}{inside}</graph>"));
        for (error, place, said) in [
            (wrong("<graph>"), "line 9, column 1", "not XML"),
            (wrong("<graph/>"), "line 8, column 1", "edgedefault"),
            (wrong("<graph edgedefault=\"directed\"/>"), "line 8, column 1", "no <node>"),
            (wrong("<graph edgedefault=\"directed\"/>\n<graph/>"), "line 9, column 1", "second <graph>"),
            (graph("<node/>"), "line 9, column 29", "lacks id"),
            (graph("<node id=\"a\"/>"), "line 9, column 29", "second <node>"),
            (graph("\n<node id=\"?\"/>"), "line 10, column 1", "makes no name"),
            (graph("<edge source=\"a\" target=\"c\"/>"), "line 9, column 29", "target=\"c\""),
            (graph("<edge source=\"a\"/>"), "line 9, column 29", "lacks target"),
            (graph("<edge source=\"a\" target=\"a\"/>"), "line 9, column 29", "itself"),
            (
                graph("<edge source=\"a\" target=\"b\">\n<data key=\"d4\">0</data></edge>"),
                "line 10, column 1",
                "bits a second",
            ),
            (
                graph("<edge source=\"a\" target=\"b\">\n<data key=\"d5\">-1</data></edge>"),
                "line 10, column 1",
                "milliseconds",
            ),
            (
                graph("<edge source=\"a\" target=\"b\">\n<data key=\"d9\">1</data></edge>"),
                "line 10, column 1",
                "no <key>",
            ),
            (graph("<node id=\"c\"><data key=\"d1\">91</data></node>"), "line 9, column 42", "Latitude is \"91\""),
            (graph("<node id=\"c\"><graph edgedefault=\"directed\"/></node>"), "line 9, column 42", "flat"),
            (graph("<hyperedge/>"), "line 9, column 29", "two ends"),
        ] {
            assert!(error.contains(place) && error.contains(said), "{error} | {place} {said}");
        }
    }

    #[test]
    fn labels_are_names_where_they_are_wanted_and_two_alike_are_told() {
        let graph = |second: &str| {
            format!(
                "<graph edgedefault=\"directed\">\n<node id=\"0\"><data key=\"d3\">New York</data></node>\n\
                 <node id=\"1\"><data key=\"d3\">{second}</data></node></graph>"
            )
        };
        let wanted = Wanted { labels: true, ..ALL };
        let names = |text: &str| parse::parse(&file(&graph(text)), wanted).map(|network| network.nodes[1].name.clone());
        assert_eq!(names("Zürich, CH").unwrap(), "Zürich--CH");
        let error = names("New-York").unwrap_err();
        assert!(error.contains("line 10, column 1") && error.contains("names = \"id\""), "{error}");
        assert!(names(" ").unwrap_err().contains("no label"));
    }

    #[test]
    fn data_is_text_alone_and_names_have_sixty_characters_of_any_script() {
        let graph = |label: &str, rate: &str| {
            format!(
                "<graph edgedefault=\"directed\">\n<node id=\"0\"><data key=\"d3\">{label}</data></node><node id=\"1\"><data key=\"d3\">B</data></node>\n\
                 <edge source=\"0\" target=\"1\"><data key=\"d4\">{rate}</data></edge></graph>"
            )
        };
        let wanted = Wanted { labels: true, ..ALL };
        let read = |label: &str, rate: &str| parse::parse(&file(&graph(label, rate)), wanted);
        assert_eq!(read("A", "40").unwrap().edges[0].rate, Some(Rate::from_bits_per_sec(40)));
        for rate in ["<!-- c -->155520000", "40<!-- -->.7", "<b/>40"] {
            let error = read("A", rate).unwrap_err();
            assert!(error.contains("more than text") && error.contains("line 10,"), "{rate}: {error}");
        }
        assert!(read(&"ж".repeat(60), "40").is_ok());
        assert!(read(&"ж".repeat(61), "40").unwrap_err().contains("60 characters"));
    }

    #[test]
    fn deep_nesting_document_types_and_strangers_files_are_refused() {
        let deep = format!("<graphml>{}", "<a>".repeat(3_000_000));
        let error = parse::parse(&deep, ALL).unwrap_err();
        assert!(error.contains("nested 65 deep"), "{error}");
        let bomb = "<!DOCTYPE graphml [<!ENTITY a \"aa\"><!ENTITY b \"&a;&a;\">]><graphml>&b;</graphml>";
        assert!(parse::parse(bomb, ALL).unwrap_err().contains("DOCTYPE"));
        assert!(parse::parse("<svg/>", ALL).unwrap_err().contains("begins with <svg>"));
        assert!(parse::parse("", ALL).unwrap_err().contains("not XML"));
        let many = format!("<graphml{}/>", (0..1000).map(|n| format!(" a{n}=\"\"")).collect::<String>());
        assert!(
            parse::parse(&many, ALL).unwrap_err().contains("4096 bytes"),
            "attributes are compared with one another"
        );
        let spaces: String = (0..101).map(|n| format!("<a xmlns:a{n}=\"u\"/>")).collect();
        assert!(parse::parse(&format!("<graphml>\n{spaces}</graphml>"), ALL).unwrap_err().contains("line 2:"));
        let hidden = format!("<!--><a b=\"-->{}", "<a>".repeat(100));
        assert!(parse::parse(&hidden, ALL).unwrap_err().contains("nested 65 deep"));
        // What is in comments and quotes is not nested.
        let quoted = format!("<!-- {} --><svg a=\"{}\"/>", "<a>".repeat(100), ">".repeat(100));
        assert!(parse::parse(&quoted, ALL).unwrap_err().contains("begins with <svg>"));
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(2000))]

        // A file that was cut, doubled or garbled anywhere is read or refused; where it is read, ends of edges are nodes.
        #[test]
        fn any_text_is_read_or_refused(from in 0_usize..1200, to in 0_usize..1200, at in 0_usize..1200, other in "[<>&/\"a0 =-]{0,12}") {
            let graph = "<graph edgedefault=\"undirected\">\n<!-- c --><node id=\"0\"><data key=\"d1\">1</data><data key=\"d2\"><![CDATA[2]]></data></node>\n\
                <node id=\"1\"/><edge source=\"0\" target=\"1\"><data key=\"d4\">1e9</data></edge></graph>";
            let whole = file(graph);
            let place = |at: usize| at.min(whole.len());
            let (from, to) = (place(from.min(to)), place(from.max(to)));
            let text = format!("{}{other}{}", &whole[..place(at)], &whole[place(at)..]);
            let cut = format!("{}{}", &whole[..from], &whole[to..]);
            let doubled = format!("{}{}", &whole[..to], &whole[from..]);
            for text in [text, cut, doubled] {
                for labels in [false, true] {
                    if let Ok(network) = parse::parse(&text, Wanted { labels, ..ALL }) {
                        let count = network.nodes.len();
                        proptest::prop_assert!(network.edges.iter().flat_map(|edge| edge.ends).all(|end| end < count));
                    }
                }
            }
        }
    }
}
