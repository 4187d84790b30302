//! Holds docs/scenarios.md to the reader: every key, an example of each that is accepted, and the whole example.

use fairspan_sim::scenario::{File, Problem};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn document() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scenarios.md");
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn files(name: &str) -> Result<Vec<u8>, String> {
    match name {
        "cell.trace" => Ok(b"1\n3\n".to_vec()),
        "walk.csv" => Ok(b"t,wifi\n0,5\n1,9\n".to_vec()),
        "abilene.graphml" => {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/workloads").join(name);
            fs::read(path).map_err(|error| error.to_string())
        }
        "packets.csv" => Ok(b"0,100\n0.5,1500\n".to_vec()),
        _ => Err(format!("{name} is not in this test")),
    }
}

/// Key, example and default of each row below a heading.
fn rows(document: &str, heading: &str) -> Vec<[String; 3]> {
    let (_, section) =
        document.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no heading `{heading}`"));
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let row = |line: &str| {
        let mut cells = line.trim_matches('|').split(" | ").map(|cell| cell.trim().trim_matches('`').to_owned());
        [(); 3].map(|()| cells.next().unwrap_or_default())
    };
    rows.map(row).collect()
}

/// The kinds of flows, with what each needs, and where keys that not all know are known.
const KINDS: [(&str, &str); 12] = [
    ("constant", "rate = \"1Mbit\"\nsize = \"500B\"\n"),
    ("pareto", "rate = \"1Mbit\"\nsize = \"500B\"\non = \"1s\"\noff = \"1s\"\n"),
    ("ftp", ""),
    ("http", "files = [\"1kB\"]\n"),
    ("request-response", "request = \"50B\"\nresponse = \"50B\"\n"),
    ("replay", "packets = [[\"0s\", \"90B\"]]\n"),
    ("transfers", "bytes = \"10kB\"\nevery = \"10ms\"\n"),
    ("transfers", "bytes = \"10kB\"\nevery = \"10ms\"\narrivals = \"pareto\"\n"),
    ("web", "objects = [{ name = \"first\", bytes = \"10kB\" }]\n"),
    ("video", "levels = [\"1Mbit\", \"2Mbit\"]\n"),
    ("call", ""),
    ("game", ""),
];

/// The shapes of graphs, with what each needs.
const GRAPHS: [&str; 7] = [
    "\"star\"\nhosts = 2",
    "\"dumbbell\"\nhosts = 2",
    "\"fat-tree\"\nk = 4",
    "\"dragonfly\"\nswitches = 2\nglobal = 1",
    "\"ring-of-rings\"\nrings = 3\nswitches = 3",
    "\"random\"\nswitches = 6\ndegree = 3",
    "\"graphml\"\nfile = \"abilene.graphml\"",
];

const TOP: &str = "duration = \"10s\"\n";
const NODES: &str = "[[node]]\nname = [\"a\", \"b\"]\n";
const WIRE: &str = "[[link]]\nname = \"wire\"\nfrom = \"a\"\nto = \"b\"\nrate = \"10Mbit\"\n";
const SHARING: &str = "[[link]]\nname = \"w2\"\nfrom = \"a\"\nto = \"b\"\nrate = \"1Mbit\"\nmedium = \"air\"\n";
const RING: &str = "[[node]]\nname = \"n#\"\nfirst = 1\ncount = 8\n[[ring]]\nname = \"r\"\nnodes = [\"a\", \"b\"]\nrate = \"10Mbit\"\n";
const Z: &str = "[[ring]]\nname = \"z\"\nnodes = [\"a\", \"b\", \"n1\"]\nrate = \"10Mbit\"\n";
const SENDING: &str =
    "[[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\nkind = \"constant\"\nrate = \"1Mbit\"\nsize = \"500B\"\n";
const SWEPT: &str = "[[sweep]]\nparameter = \"duration\"\nvalues = [\"5s\", \"10s\"]\n";

/// Takes the lines of `text` that set one of `keys`.
fn without(text: &str, keys: &[&str]) -> String {
    let kept = text.lines().filter(|line| !keys.contains(&line.split(" = ").next().unwrap_or_default()));
    kept.map(|line| format!("{line}\n")).collect()
}

/// Keys that exclude `key`, and lines that it needs beside it.
fn companions(heading: &str, key: &str) -> (Vec<&'static str>, &'static str) {
    match (heading, key) {
        ("`[[link]]`", "trace" | "series") => (vec!["rate"], ""),
        ("`[[link]]`", "column" | "blank") => (vec!["rate"], "series = \"walk.csv\"\n"),
        ("`[[link]]`", "simplex") => (vec!["reverse"], ""),
        ("`[[bond]]`", "channels") => (vec!["links"], ""),
        ("`class` of a bond", "only") => (vec![], "channels = \"wire\"\n"),
        ("`[[ring]]`", "count") => (vec!["nodes"], "nodes = \"n#\"\n"),
        ("`[[ring]]`", "first") => (vec!["nodes"], "nodes = \"n#\"\ncount = 4\n"),
        ("`[[split]]`", "long_tcp") => (vec![], "long = \"wire\"\n"),
        ("`[[flow]]`", "ringlet" | "class") => (vec![], "via = \"r\"\n"),
        ("`[[bond]]`", "fragment_delay") => {
            (vec!["mode", "links"], "mode = \"stripe\"\nchannels = [{ path = \"wire\", rate = \"10Mbit\" }]\n")
        }
        ("`[[bond]]`", "policy" | "policy_back") => (vec!["mode"], "mode = \"flow\"\n"),
        ("`[[sweep]]`", "from") => (vec!["values"], "to = \"9ms\"\nsteps = 3\n"),
        ("`[[sweep]]`", "to") => (vec!["values"], "from = \"1ms\"\nsteps = 3\n"),
        ("`[[sweep]]`", "step") => (vec!["values"], "from = \"1ms\"\nto = \"9ms\"\n"),
        ("`[[sweep]]`", "steps") => (vec!["values"], "from = \"1ms\"\nto = \"9ms\"\n"),
        ("`[[sweep]]`", "scale") => (vec!["values"], "from = \"1ms\"\nto = \"9ms\"\nsteps = 3\n"),
        ("`[[expect]]`", "within" | "absolute") => (vec!["least"], "value = 1\n"),
        ("`[[expect]]`", "value") => (vec!["least"], "within = \"5%\"\n"),
        ("`[[flow]]`", "file") => (vec!["packets"], ""),
        ("`[[flow]]`", "offered") => (vec!["every"], ""),
        _ => (vec![], ""),
    }
}

/// A file in whose section `heading` the line `line` stands, once for each kind of flow where that matters.
fn with(heading: &str, key: &str, line: &str) -> Vec<String> {
    let (not, more) = companions(heading, key);
    let own = |text: &str| {
        let mut not = not.clone();
        not.push(key);
        format!("{}{more}{line}\n", without(text, &not))
    };
    let rest = [NODES, WIRE, RING, SENDING].concat();
    let after = |section: &str| vec![format!("{TOP}{rest}{SWEPT}{}", own(section))];
    let part = |name: &str, keys: &str| vec![format!("{TOP}{rest}{Z}[[ring.{name}]]\n{}", own(keys))];
    match heading {
        "The file" => match key {
            "node" => {
                vec![format!("{TOP}{}\n{WIRE}{SENDING}", line.replace("[{", "[{ name = \"a\" }, { name = \"b\" }, {"))]
            }
            "link" => vec![format!("{TOP}{line}\n{NODES}{SENDING}")],
            "flow" => vec![format!("{TOP}{line}\n{NODES}{WIRE}")],
            "ring" => vec![format!("{TOP}{line}\n{NODES}{WIRE}{SENDING}")],
            "medium" => vec![format!("{TOP}{line}\n{NODES}{WIRE}medium = \"air\"\n{SENDING}")],
            _ => vec![format!("{}{rest}", own(TOP))],
        },
        "`[[node]]`" => after("[[node]]\nname = \"c\"\n"),
        "`cost` of a node" => after(&format!("[[node]]\nname = \"c\"\n{}", "[node.cost]\n")),
        "`[[link]]`" if key == "medium" => {
            vec![format!("{TOP}{rest}{SHARING}[[medium]]\nname = \"air\"\n")]
        }
        "`[[link]]`" => after("[[link]]\nname = \"w2\"\nfrom = \"a\"\nto = \"b\"\nrate = \"10Mbit\"\n"),
        "`[[medium]]`" => vec![format!("{TOP}{rest}{SWEPT}{SHARING}{}", own("[[medium]]\nname = \"air\"\n"))],
        "`card` of a link" => {
            after("[[link]]\nname = \"w2\"\nfrom = \"a\"\nto = \"b\"\nrate = \"10Mbit\"\n[link.card]\n")
        }
        "`[[graph]]`" => {
            let shape = |keys: &&str| {
                let graph = format!("[[graph]]\nname = \"net\"\nrate = \"1Gbit\"\nshape = {keys}\n");
                format!("{TOP}{rest}{}", own(&graph))
            };
            GRAPHS.iter().map(shape).collect()
        }
        "`[[bond]]`" => after("[[bond]]\nname = \"y\"\nends = [\"a\", \"b\"]\nlinks = [\"wire\"]\n"),
        "`class` of a bond" => {
            let bond = "[[bond]]\nname = \"y\"\nends = [\"a\", \"b\"]\nlinks = [\"wire\"]\n";
            vec![format!("{TOP}{rest}{bond}[[bond.class]]\n{}", own(""))]
        }
        "`channels` of a bond" => {
            let bond = "[[bond]]\nname = \"y\"\nends = [\"a\", \"b\"]\n[[bond.channels]]\npath = \"wire\"\n";
            let (head, channel) = bond.split_once("[[bond.channels]]\n").expect("both parts");
            vec![format!("{TOP}{rest}{head}[[bond.channels]]\n{}", own(channel))]
        }
        "`[[ring]]`" => after(Z),
        "`links` of a ring" => part("links", "link = 1\n"),
        "`node_outages` of a ring" => part("node_outages", "node = \"a\"\noutages = [\"2s+1s\"]\n"),
        "`reservations` of a ring" => part("reservations", "from = \"n1\"\nto = \"b\"\nrate = \"1kbit\"\n"),
        "`[[split]]`" => after("[[split]]\nname = \"y\"\nnode = \"b\"\n"),
        "`[[flow]]`" => {
            let kind = |(kind, keys): &(&str, &str)| {
                let flow = format!("[[flow]]\nname = \"g\"\nfrom = \"a\"\nto = \"b\"\nkind = \"{kind}\"\n{keys}");
                format!("{TOP}{rest}{}", own(&flow))
            };
            KINDS.iter().map(kind).collect()
        }
        "`objects` of a web page" => {
            let first = "[[flow.objects]]\nname = \"first\"\nbytes = \"1kB\"\n[[flow.objects]]\n";
            let flow = "[[flow]]\nname = \"g\"\nfrom = \"a\"\nto = \"b\"\nkind = \"web\"\n";
            vec![format!("{TOP}{rest}{flow}{first}{}", own("bytes = \"1kB\"\n"))]
        }
        "`[[sweep]]`" => {
            vec![format!("{TOP}{rest}{}", own("[[sweep]]\nparameter = \"link.wire.delay\"\nvalues = [\"1ms\"]\n"))]
        }
        "`[metrics]`" => after("[metrics]\n"),
        "`[[expect]]`" => after("[[expect]]\nmetric = \"jain\"\nleast = 0.1\n"),
        "`[[plot]]`" => after("[[plot]]\nx = \"duration\"\ny = \"goodput\"\n"),
        _ => panic!("a heading that this test does not know: {heading}"),
    }
}

const HEADINGS: [&str; 21] = [
    "The file",
    "`[[node]]`",
    "`cost` of a node",
    "`[[link]]`",
    "`card` of a link",
    "`[[medium]]`",
    "`[[graph]]`",
    "`[[bond]]`",
    "`class` of a bond",
    "`channels` of a bond",
    "`[[ring]]`",
    "`links` of a ring",
    "`node_outages` of a ring",
    "`reservations` of a ring",
    "`[[split]]`",
    "`[[flow]]`",
    "`objects` of a web page",
    "`[[sweep]]`",
    "`[metrics]`",
    "`[[expect]]`",
    "`[[plot]]`",
];

#[test]
fn every_key_that_the_reader_knows_is_documented_and_no_other() {
    let document = document();
    for heading in HEADINGS {
        let mut known = BTreeSet::new();
        for text in with(heading, "no_such_key", "no_such_key = 1") {
            let errors = File::parse("x", &text, &mut files).expect_err("an unknown key is refused");
            let of_key = errors.iter().find_map(|error| match &error.problem {
                Problem::UnknownKey { found, known, .. } if found == "no_such_key" => Some(known.clone()),
                _ => None,
            });
            known.extend(of_key.unwrap_or_else(|| panic!("{heading}: {errors:#?}\n{text}")));
        }
        let documented: BTreeSet<String> = rows(&document, heading).into_iter().map(|row| row[0].clone()).collect();
        if heading == "`[[graph]]`" {
            // Its links have the keys of a link, which are documented there.
            let of_links: BTreeSet<String> =
                rows(&document, "`[[link]]`").into_iter().map(|row| row[0].clone()).collect();
            known.retain(|key| documented.contains(key) || !of_links.contains(key));
        }
        assert_eq!(documented, known, "docs/scenarios.md against the reader, {heading}");
    }
}

#[test]
fn every_example_is_accepted() {
    let document = document();
    for heading in HEADINGS {
        for [key, example, _] in rows(&document, heading) {
            let line = format!("{key} = {example}");
            let texts = with(heading, &key, &line);
            let accepted = texts.iter().any(|text| File::parse("x", text, &mut files).is_ok());
            let errors = texts.iter().filter_map(|text| File::parse("x", text, &mut files).err()).flatten();
            assert!(accepted, "{heading}: {line}: {:#?}", errors.map(|e| e.to_string()).collect::<Vec<_>>());
        }
    }
}

#[test]
fn every_default_is_the_reader_s() {
    let document = document();
    let mut compared = 0;
    for heading in HEADINGS {
        for [key, example, default] in rows(&document, heading) {
            // Defaults in words, and files' own keys that runs do not show.
            let literal =
                default.starts_with('"') || default.parse::<f64>().is_ok() || default == "false" || default == "true";
            // One that depends on another key names more than one value.
            let literal = literal && !default.contains('`');
            if !literal || matches!(key.as_str(), "max_runs" | "scale" | "series") {
                continue;
            }
            let built = |line: &str| {
                let build = |text: &String| {
                    Some(format!("{:?}", File::parse("x", text, &mut files).ok()?.run(0)?.ok()?.scenario))
                };
                with(heading, &key, line).iter().map(build).collect::<Vec<_>>()
            };
            let absent = built("");
            let same = built(&format!("{key} = {default}"));
            let other = built(&format!("{key} = {example}"));
            // Kinds of flows that do not know the key have nothing to compare.
            let pairs: Vec<_> = absent.iter().zip(&same).filter(|(a, b)| a.is_some() && b.is_some()).collect();
            assert!(!pairs.is_empty(), "{heading}: {key} = {default} is not accepted");
            assert!(pairs.iter().all(|(a, b)| a == b), "{heading}: {key} left out is not {default}");
            compared += usize::from(absent.iter().zip(&other).any(|(a, b)| b.is_some() && a != b));
        }
    }
    assert!(compared > 40, "only {compared} examples differ from their defaults and show that the key does anything");
}

#[test]
fn the_example_of_the_document_runs() {
    let document = document();
    let example = document.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let file = File::parse("x", example, &mut files).unwrap_or_else(|errors| panic!("{errors:#?}"));
    assert_eq!((file.count(), file.expectations().len()), (1, 1));
}

#[test]
fn the_document_of_tcp_shows_every_constant_of_every_preset() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tcp.md");
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let table = fairspan_sim::tcp::Config::table();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        let (head, _) = text.split_once("| setting |").expect("the table is there");
        fs::write(&path, format!("{head}{table}")).expect("written");
        return;
    }
    assert!(
        text.ends_with(&table),
        "docs/tcp.md is out of date: UPDATE_DOCS=1 cargo test -p fairspan-sim --test suite scenario_document"
    );
}
