//! Graphs of a known shape, and flows spread over them.

use fairspan_sim::model::{Hop, Scenario};
use fairspan_sim::results::Results;
use fairspan_sim::scenario::File;
use fairspan_sim::world::World;
use std::collections::BTreeSet;

fn read(text: &str) -> Result<File, Vec<String>> {
    let mut files = |_: &str| Err("no files here".to_owned());
    File::parse("x", text, &mut files).map_err(|errors| errors.iter().map(ToString::to_string).collect())
}

fn scenario(text: &str) -> Scenario {
    let file = read(text).unwrap_or_else(|errors| panic!("{errors:#?}"));
    file.run(0).expect("a run").unwrap_or_else(|errors| panic!("{errors:?}")).scenario
}

fn graph(shape: &str) -> String {
    format!("[[graph]]\nname = \"g\"\nshape = {shape}\nrate = \"1Gbit\"\n")
}

fn flows(count: u32, from: &str, to: &str) -> String {
    format!("[[flow]]\nname = \"f#\"\ncount = {count}\nfrom = \"{from}\"\nto = \"{to}\"\nkind = \"ftp\"\n")
}

const TREE: &str = "\"fat-tree\"\nk = 4";

#[test]
fn the_links_between_switches_are_what_core_says_and_the_others_what_the_graph_says() {
    let core = "core = { rate = \"10Gbit\", delay = \"1ms\" }\n";
    let text = format!("duration = \"1s\"\n{}{core}{}", graph("\"dumbbell\"\nhosts = 2"), flows(2, "g-l#", "g-r#"));
    let scenario = scenario(&text);
    let rates: Vec<(&str, String)> =
        scenario.links.iter().map(|link| (link.name.as_str(), format!("{:?}", link.profile.capacity))).collect();
    for (name, rate) in &rates {
        let between = name.starts_with("g-s0:s1");
        assert_eq!(rate.contains("10000000000"), between, "{name}: {rate}");
    }
    assert_eq!(scenario.flows[0].path.len(), 3);
    assert_eq!(scenario.nodes.len(), 6);
}

#[test]
fn without_ecmp_flows_between_two_pods_take_one_path_and_with_it_all_equally_often() {
    let text = |ecmp: bool| {
        // All from hosts of pod 0's first switch to hosts of pod 1's.
        let flows = flows(400, "g-h#%2", "g-h#+4%2");
        let flows = flows.replace("g-h#+4%2", "g-h4");
        format!("duration = \"1s\"\necmp = {ecmp}\n{}{flows}", graph(TREE))
    };
    let paths = |scenario: &Scenario| {
        let core = |path: &[Hop]| match path {
            [_, _, Hop::Link(up), Hop::Link(down), _, _] => {
                let [up, down] = [up, down].map(|link| &scenario.links[*link as usize]);
                assert_eq!(up.to, down.from);
                scenario.nodes[up.to as usize].name.clone()
            }
            _ => panic!("six hops between pods: {path:?}"),
        };
        scenario.flows.iter().map(|flow| core(&flow.path)).collect::<Vec<String>>()
    };
    let one = paths(&scenario(&text(false)));
    assert_eq!(one.iter().collect::<BTreeSet<_>>().len(), 1);
    let spread = scenario(&text(true));
    let cores = paths(&spread);
    for core in ["g-c0", "g-c1", "g-c2", "g-c3"] {
        let count = cores.iter().filter(|name| *name == core).count();
        // A quarter of 400 with a deviation of 8.7; five of them.
        assert!((56..=144).contains(&count), "{core}: {count}");
    }
    // The way back passes the same links, and another seed spreads otherwise.
    let back = |scenario: &Scenario| match (&scenario.flows[0].path[2], &scenario.flows[0].back[3]) {
        (Hop::Link(there), Hop::Link(back)) => {
            scenario.links[*there as usize].from == scenario.links[*back as usize].to
        }
        _ => false,
    };
    assert!(back(&spread));
    let other = scenario(&text(true).replace("duration", "seed = 2\nduration"));
    assert_ne!(paths(&other), cores);
    assert_eq!(paths(&scenario(&text(true))), cores, "the same seed, the same paths");
}

/// Mean and variance of how often one of four core switches is passed, over so many seeds.
fn passes_of_a_core(seeds: u64, passes: impl Fn(&Scenario, &dyn Fn(&[Hop]) -> bool) -> usize, text: &str) -> [f64; 2] {
    let counts: Vec<f64> = (1..=seeds)
        .map(|seed| {
            let scenario = scenario(&format!("seed = {seed}\n{text}"));
            let first = |path: &[Hop]| match path {
                [_, _, Hop::Link(up), ..] => scenario.nodes[scenario.links[*up as usize].to as usize].name == "g-c0",
                _ => panic!("six hops between pods: {path:?}"),
            };
            passes(&scenario, &first) as f64
        })
        .collect();
    let mean = counts.iter().sum::<f64>() / seeds as f64;
    [mean, counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / (seeds - 1) as f64]
}

// The mean of n binomial counts has a deviation of sqrt(variance / n), their variance one of about variance sqrt(2 / n): five of each.
#[test]
fn what_ecmp_chooses_is_as_uneven_as_independent_draws_and_no_more() {
    let text = |flows: &str| format!("duration = \"1s\"\necmp = true\n{}{flows}", graph(TREE));
    let binomial = |found: [f64; 2], draws: f64, seeds: f64| {
        let (mean, variance) = (draws / 4.0, draws * 3.0 / 16.0);
        assert!((found[0] - mean).abs() < 5.0 * (variance / seeds).sqrt(), "{found:?} of {mean}");
        assert!((found[1] / variance - 1.0).abs() < 5.0 * (2.0 / seeds).sqrt(), "{found:?} of {variance}");
    };
    let of_flows = |scenario: &Scenario, first: &dyn Fn(&[Hop]) -> bool| {
        scenario.flows.iter().filter(|flow| first(&flow.path)).count()
    };
    binomial(passes_of_a_core(400, of_flows, &text(&flows(100, "g-h0", "g-h4"))), 100.0, 400.0);
    // Each connection of a flow has one of 32 paths that were drawn.
    let of_connections = |scenario: &Scenario, first: &dyn Fn(&[Hop]) -> bool| {
        let flow = &scenario.flows[0];
        assert_eq!(flow.others.len(), 31);
        flow.others.iter().map(|[there, _]| there).chain([&flow.path]).filter(|path| first(path)).count()
    };
    let one = flows(1, "g-h0", "g-h4").replace("\"ftp\"", "\"transfers\"\nbytes = \"1kB\"\nevery = \"1s\"");
    binomial(passes_of_a_core(400, of_connections, &text(&one)), 32.0, 400.0);
}

#[test]
fn a_path_chosen_by_ecmp_is_as_short_as_the_first() {
    let text = |ecmp: bool| {
        let graph = graph("\"random\"\nswitches = 30\ndegree = 10\nseed = 5");
        format!("duration = \"1s\"\necmp = {ecmp}\n{graph}{}", flows(30, "g-h#", "g-h#+13%30"))
    };
    let (first, spread) = (scenario(&text(false)), scenario(&text(true)));
    let mut differ = 0;
    for (a, b) in first.flows.iter().zip(&spread.flows) {
        assert_eq!(a.path.len(), b.path.len(), "{}", a.name);
        differ += usize::from(a.path != b.path);
        let mut here = b.from;
        for hop in &b.path {
            let Hop::Link(link) = hop else { panic!("{hop:?}") };
            let link = &spread.links[*link as usize];
            assert_eq!(link.from, here, "{}", b.name);
            here = link.to;
        }
        assert_eq!(here, b.to);
    }
    assert!(differ > 3, "{differ}");
}

#[test]
fn copies_have_values_of_their_own_by_list_and_by_formula() {
    let link = "[[link]]\nname = \"w#\"\ncount = 4\nfirst = 2\nfrom = \"a\"\nto = \"b\"\nrate = { each = [\"1Mbit\", \"2Mbit\", \"3Mbit\"] }\n\
                delay = { formula = \"5 + 2 * #\", unit = \"ms\" }\nreverse = { rate = { formula = \"# * 10\", unit = \"kbit\" } }\n";
    let flow = "[[flow]]\nname = \"f#\"\ncount = 2\nfrom = \"a\"\nto = \"b\"\nkind = \"ftp\"\nweight = { formula = \"# + 1\" }\n";
    let text = format!("duration = \"1s\"\n[[node]]\nname = [\"a\", \"b\"]\n{link}{flow}");
    let scenario = scenario(&text);
    let found: Vec<(&str, u64, u64)> = scenario
        .links
        .iter()
        .map(|link| match &link.profile.capacity {
            fairspan_core::link::Capacity::Constant(rate) => {
                (link.name.as_str(), rate.as_bits_per_sec(), link.profile.delay.as_nanos())
            }
            other => panic!("{other:?}"),
        })
        .collect();
    let ms = |ms: u64| ms * 1_000_000;
    assert_eq!(found[..3], [("w2", 1_000_000, ms(9)), ("w2/back", 20_000, ms(9)), ("w3", 2_000_000, ms(11))]);
    assert_eq!((found.len(), found[6]), (8, ("w5", 1_000_000, ms(15))), "the list takes turns");
    assert_eq!(scenario.flows.iter().map(|flow| flow.weight).collect::<Vec<_>>(), [1, 2]);
    let apart = text.replace("weight =", "start = \"100ms\"\nstagger = \"200ms\"\nweight =");
    let starts: Vec<u64> = self::scenario(&apart).flows.iter().map(|flow| flow.start.as_nanos() / 1_000_000).collect();
    assert_eq!(starts, [100, 300], "copies with values of their own are apart as well");
    for (from, to, said) in [
        ("count = 4", "count = 0", "from 1 to"),
        ("5 + 2 * #", "5 + ", "found \"5 + \", expected numbers"),
        ("5 + 2 * #", "1 / (# - 3)", "inf for copy 3"),
        ("5 + 2 * #", "# - 10", "zero or more"),
        ("{ each = [\"1Mbit\", \"2Mbit\", \"3Mbit\"] }", "{ each = [] }", "a value for each copy"),
        ("{ each = [\"1Mbit\", \"2Mbit\", \"3Mbit\"] }", "{ each = [\"1Mbit\"], more = 1 }", "a table with other keys"),
        ("count = 4", "count = 900000", "100000"),
    ] {
        let errors = read(&text.replace(from, to)).expect_err(to).join("\n");
        assert!(errors.contains(said), "{to}: {errors}");
    }
}

#[test]
fn hostile_graphs_are_refused_with_what_would_be_right() {
    let refused = |shape: &str| {
        let text = format!("duration = \"1s\"\n{}{}", graph(shape), flows(1, "g-h0", "g-h1"));
        read(&text).expect_err(shape).join("\n")
    };
    for (shape, said) in [
        ("\"star\"\nhosts = 1000000", "at most 1000000"),
        ("\"star\"\nhosts = 10000000000", "from 1 to 1000000"),
        ("\"fat-tree\"\nk = 1000000", "at most 1000000"),
        ("\"fat-tree\"\nk = 5", "even"),
        ("\"fat-tree\"", "how many ports"),
        ("\"dragonfly\"\nswitches = 1000000\nglobal = 1000000", "at most 1000000"),
        ("\"random\"\nswitches = 5\ndegree = 5", "at most 4"),
        ("\"random\"\nswitches = 50\ndegree = 1", "connected"),
        ("\"random\"\nswitches = 999999\ndegree = 999998", "at most 1000000"),
        ("\"ring-of-rings\"\nrings = 2\nswitches = 3", "from 3 to"),
        ("\"cube\"", "\"dragonfly\""),
    ] {
        let found = refused(shape);
        assert!(found.contains(said), "{shape}: {found}");
    }
    let double = format!("duration = \"1s\"\n{0}{0}{1}", graph(TREE), flows(1, "g-h0", "g-h1"));
    assert!(read(&double).expect_err("twice").join("\n").contains("g-c0"));
}

#[test]
fn with_ecmp_connections_of_one_flow_take_all_paths_and_each_of_them_one() {
    // Two ways of three hops in the middle, one of which takes 20 ms more.
    let link = |name: &str, from: &str, to: &str, delay: &str| {
        format!(
            "[[link]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\nrate = \"100Mbit\"\ndelay = \"{delay}\"\n"
        )
    };
    let text = |ecmp: bool| {
        let mut text = format!("duration = \"8s\"\necmp = {ecmp}\n[[node]]\nname = [\"a\", \"b\"]\n");
        text += "[[node]]\nname = [\"s\", \"m\", \"n\", \"t\"]\nkind = \"router\"\n";
        for (name, from, to, delay) in [
            ("first", "a", "s", "1ms"),
            ("up", "s", "m", "1ms"),
            ("on", "m", "t", "1ms"),
            ("detour", "s", "n", "21ms"),
            ("off", "n", "t", "1ms"),
            ("last", "t", "b", "1ms"),
        ] {
            text += &link(name, from, to, delay);
        }
        text + "[[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\nkind = \"transfers\"\nbytes = \"100kB\"\nevery = \"40ms\"\ntransfers = 100\n"
    };
    let run =
        |ecmp| World::new(&scenario(&text(ecmp))).and_then(World::finish).unwrap_or_else(|error| panic!("{error}"));
    let packets = |results: &Results, name: &str| {
        results.links.iter().find(|link| link.name == name).map_or(0, |link| link.packets)
    };
    let one = run(false);
    let ways = ["up", "detour"].map(|name| packets(&one, name));
    assert!(ways.contains(&0) && ways.iter().sum::<u64>() > 7000, "{ways:?}");
    let both = run(true);
    let ways = ["up", "detour"].map(|name| packets(&both, name) as f64 / packets(&both, "first") as f64);
    // Half of 100 connections, with a deviation of 5; five of them.
    assert!(ways.iter().all(|share| (0.25..0.75).contains(share)), "{ways:?}");
    assert_eq!(packets(&both, "up") + packets(&both, "detour"), packets(&both, "first"));
    let flow = &both.flows[0];
    assert_eq!(flow.transfers.as_ref().map(|transfers| (transfers.started, transfers.completed)), Some((100, 100)));
    // Acknowledgments come back by the same way; packets of one connection by both would overtake one another.
    assert_eq!(packets(&both, "up/back") + packets(&both, "detour/back"), packets(&both, "first/back"));
    assert!(flow.tcp.as_ref().is_some_and(|tcp| tcp.retransmitted == 0), "{:?}", flow.tcp);
}

/// A triangle: two edges between `a` and `b`, one of them slower and one way only, and an edge to a node that is nowhere.
const TRIANGLE: &str = r#"<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="r" for="edge" attr.name="LinkSpeedRaw" attr.type="double"/>
<key id="m" for="edge" attr.name="latency" attr.type="double"/>
<key id="y" for="node" attr.name="Latitude" attr.type="double"/>
<key id="x" for="node" attr.name="Longitude" attr.type="double"/>
<graph edgedefault="undirected">
<node id="a"><data key="y">0</data><data key="x">10</data></node>
<node id="b"><data key="y">0</data><data key="x">11</data></node>
<node id="c"/>
<edge source="a" target="b"><data key="r">2e9</data></edge>
<edge source="a" target="b" directed="true"><data key="r">1e6</data><data key="m">4</data></edge>
<edge source="b" target="c"/>
</graph>
</graphml>"#;

fn imported(keys: &str, file: &str) -> Result<Scenario, String> {
    let text = format!(
        "duration = \"1s\"\n[[graph]]\nname = \"g\"\nshape = \"graphml\"\nfile = \"net.graphml\"\nrate = \"1Gbit\"\n{keys}{}",
        flows(1, "g-a", "g-c")
    );
    let mut files = |name: &str| match name {
        "net.graphml" => Ok(file.as_bytes().to_vec()),
        _ => Err("no such file".to_owned()),
    };
    let told = |errors: Vec<fairspan_sim::scenario::ReadError>| {
        errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let parsed = File::parse("x.toml", &text, &mut files).map_err(told)?;
    Ok(parsed.run(0).expect("a run").map_err(told)?.scenario)
}

// A degree of the equator is 111.195 km, which light in glass passes in 556.36 us.
#[test]
fn edges_of_a_file_have_its_rates_the_delay_of_their_length_and_else_what_the_graph_says() {
    let links = |keys: &str| {
        let scenario = imported(keys, TRIANGLE).unwrap();
        assert!(scenario.flows[0].path.len() == 2 && scenario.flows[0].back.len() == 2, "by the node between");
        let link = |link: &fairspan_sim::model::Link| {
            let rate = match link.profile.capacity {
                fairspan_core::link::Capacity::Constant(rate) => rate.as_bits_per_sec(),
                _ => 0,
            };
            (link.name.clone(), rate, (link.profile.delay.as_nanos() + 500) / 1000)
        };
        scenario.links.iter().map(link).collect::<Vec<_>>()
    };
    let expected = |ab: u64, other: u64, bc: u64| {
        [
            ("g-a:b", 2_000_000_000, ab),
            ("g-a:b/back", 2_000_000_000, ab),
            ("g-a:b:2", 1_000_000, other),
            ("g-b:c", 1_000_000_000, bc),
            ("g-b:c/back", 1_000_000_000, bc),
        ]
        .map(|(name, rate, delay)| (name.to_owned(), rate, delay))
    };
    assert_eq!(links(""), expected(556, 556, 0));
    assert_eq!(links("delay = \"3ms\"\nstretch = 2\n"), expected(1113, 1113, 3000));
    assert_eq!(links("delay_attribute = \"latency\"\n"), expected(556, 4000, 0));
    let other = links("rate_attribute = \"none\"\n");
    assert!(other.iter().all(|link| link.1 == 1_000_000_000), "{other:?}");
}

#[test]
fn a_queue_that_is_a_time_has_the_bytes_of_each_edges_rate() {
    let scenario = imported("queue = \"10ms\"\n", TRIANGLE).unwrap();
    let queues: Vec<_> = scenario.links.iter().map(|link| link.profile.queue).collect();
    let bytes = [2_500_000, 2_500_000, 1250, 1_250_000, 1_250_000].map(fairspan_core::link::Limit::Bytes);
    assert_eq!(queues, bytes);
}

#[test]
fn what_is_wrong_in_a_file_is_told_with_its_name_and_line_at_the_key_that_names_it() {
    let broken = TRIANGLE.replace("<edge source=\"b\"", "<edge source=\"B\"");
    for (keys, file, said) in [
        (
            "",
            broken.as_str(),
            "x.toml:5:8: graph.g.file: net.graphml: line 12, column 1: source=\"B\", but no <node> has this id",
        ),
        ("", "nodes,links", "net.graphml: line 1, column 1: not XML"),
        ("names = \"label\"\n", TRIANGLE, "the node has no label; give it one, or say names = \"id\""),
        ("hosts = 3\n", TRIANGLE, "unknown key `hosts`"),
        ("stretch = 0.5\n", TRIANGLE, "a number from 1 to 100"),
    ] {
        let error = imported(keys, file).unwrap_err();
        assert!(error.contains(said), "{error} | {said}");
    }
    let text = format!("duration = \"1s\"\n{}{}", graph("\"graphml\""), flows(1, "g-a", "g-c"));
    let errors = read(&text).map(|_| ()).unwrap_err().join("\n");
    assert!(errors.contains("`file` is missing; expected the GraphML file's name"), "{errors}");
}
