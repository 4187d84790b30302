//! Wrong scenario files: each error names its line, its key, what stands there and what would be right.
//!
//! The wrong line of each case ends in the comment `# HERE`.

use fairspan_sim::scenario::{File, Problem, ReadError};

const FILES: [(&str, &str); 6] = [
    ("good.trace", "1\n5\n9\n"),
    ("bad.trace", "1\nx\n"),
    ("good.csv", "t,cell,wifi\n0,1,2\n1,2,3\n"),
    ("backwards.csv", "2,100\n1,100\n"),
    ("empty.csv", "\n"),
    ("huge.csv", "0,100\n1,70000\n"),
];

fn load(name: &str) -> Result<Vec<u8>, String> {
    let found = FILES.iter().find(|(known, _)| *known == name);
    found.map(|(_, text)| text.as_bytes().to_vec()).ok_or_else(|| "no such file or directory".into())
}

fn errors(text: &str) -> Vec<ReadError> {
    match File::parse("x.toml", text, &mut load) {
        Ok(_) => Vec::new(),
        Err(errors) => errors,
    }
}

/// One error, on the line that is marked, with that key, that says all of this.
#[track_caller]
fn refused(text: &str, key: &str, says: &[&str]) {
    let line = text.lines().position(|line| line.ends_with("# HERE")).expect("a marked line") + 1;
    let errors = errors(text);
    let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(errors.len(), 1, "{shown:#?}\n{text}");
    assert_eq!(errors[0].line as usize, line, "{shown:#?}\n{text}");
    assert_eq!(errors[0].key, key, "{shown:#?}");
    assert!(shown[0].starts_with(&format!("x.toml:{line}:")), "{shown:#?}");
    for part in says {
        assert!(shown[0].contains(part), "`{part}` is missing in {}", shown[0]);
    }
}

const NODES: &str = "[[node]]\nname = [\"a\", \"b\"]\n";
const LINK: &str = "[[link]]\nname = \"wire\"\nfrom = \"a\"\nto = \"b\"\n";
const FLOW: &str = "[[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\n";
const CBR: &str = "kind = \"constant\"\nrate = \"1Mbit\"\nsize = \"500B\"\n";

/// Two nodes, a link, a flow; `head` goes first, `link` and `flow` into their tables, `tail` last.
fn two(head: &str, link: &str, flow: &str, tail: &str) -> String {
    let duration = if head.contains("duration") { "" } else { "duration = \"10s\"\n" };
    let rate =
        if ["rate", "trace", "series"].iter().any(|key| link.contains(key)) { "" } else { "rate = \"10Mbit\"\n" };
    let cbr = if flow.contains("kind") { "" } else { CBR };
    format!("{head}\n{duration}{NODES}{LINK}{rate}{link}\n{FLOW}{cbr}{flow}\n{tail}\n")
}

fn head(line: &str) -> String {
    two(&format!("{line} # HERE"), "", "", "")
}

fn link(line: &str) -> String {
    two("", &format!("{line} # HERE"), "", "")
}

fn flow(line: &str) -> String {
    two("", "", &format!("{line} # HERE"), "")
}

fn tail(lines: &str) -> String {
    two("", "", "", lines)
}

#[test]
fn the_file_that_the_cases_are_made_from_is_right() {
    assert_eq!(errors(&two("", "", "", "")), []);
}

#[test]
fn what_is_not_toml_is_told_with_its_line() {
    refused("duration = = \"10s\" # HERE\n", "", &["not TOML"]);
    refused("duration = \"10s\"\n[[node] # HERE\n", "", &["not TOML"]);
}

#[test]
fn wrong_types_are_told_with_the_right_one() {
    refused(&head("title = 3"), "title", &["the number 3", "a text in quotes"]);
    refused(&head("duration = true"), "duration", &["`true`", "\"25ms\""]);
    refused(&head("metrics = 7"), "metrics", &["the number 7", "a table"]);
    refused(&head("bond = 7"), "bond", &["[[bond]]"]);
    refused(&link("reorder = \"yes\""), "link.wire.reorder", &["\"yes\"", "true or false"]);
    refused(&link("reverse = \"same\""), "link.wire.reverse", &["a table"]);
    refused(&link("outages = [5]"), "link.wire.outages", &["a text in quotes"]);
    refused(&flow("via = 5"), "flow.f.via", &["a text in quotes"]);
    refused(&head("duration = 1979-05-27"), "duration", &["a date"]);
}

#[test]
fn a_number_without_a_unit_is_told_the_units() {
    refused(&head("duration = 10"), "duration", &["the number 10", "ns, us, ms, s, min, h"]);
    refused(&head("duration = \"10\""), "duration", &["\"10\"", "ns, us, ms, s, min, h"]);
    refused(&link("rate = 1000000"), "link.wire.rate", &["bit, kbit, Mbit, Gbit"]);
    refused(&link("queue = 50"), "link.wire.queue", &["the number 50", "25000B", "50 packets"]);
    refused(&flow("header = 28"), "flow.f.header", &["B, kB, MB, GB"]);
    refused(&link("delay = \"3 parsec\""), "link.wire.delay", &["3 parsec"]);
}

#[test]
fn unknown_keys_are_told_what_is_spelt_alike_and_what_there_is() {
    refused(&head("durration = \"5s\""), "durration", &["did you mean `duration`?", "`seeds`"]);
    refused(&link("dely = \"5ms\""), "link.wire.dely", &["did you mean `delay`?", "`discipline`"]);
    refused(&link("reverse = { lost = \"1%\" }"), "link.wire.reverse.lost", &["did you mean `loss`?"]);
    refused(&flow("parallel = 4"), "flow.f.parallel", &["unknown key `parallel`", "`size`"]);
    let tcp = flow("kind = \"ftp\"\ntcp = { nagel = \"off\" }");
    refused(&tcp, "flow.f.tcp.nagel", &["did you mean `nagle`?"]);
    refused(&tail("[metrics]\ndelays = true # HERE"), "metrics.delays", &["did you mean `delay`?"]);
    refused(&tail("[defaults.link]\nbandwidth = \"1Mbit\" # HERE"), "defaults.link.bandwidth", &["unknown key"]);
    refused(
        &tail("[defaults.lnk]\nrate = \"1Mbit\" # HERE").replace("lnk]\nrate = \"1Mbit\" # HERE", "lnk] # HERE"),
        "defaults.lnk",
        &["did you mean `link`?"],
    );
}

#[test]
fn what_is_missing_is_told_where_it_belongs() {
    let without = |text: String, line: &str, heading: &str| {
        text.replacen(line, "", 1).replacen(heading, &format!("{heading} # HERE"), 1)
    };
    refused(&without(two("", "", "", ""), "from = \"a\"\n", "[[link]]"), "link.wire", &["`from` is missing"]);
    refused(&without(two("", "", "", ""), "rate = \"10Mbit\"\n", "[[link]]"), "link.wire", &["unlimited", "trace"]);
    refused(&without(two("", "", "", ""), "size = \"500B\"\n", "[[flow]]"), "flow.f", &["`size` is missing"]);
    refused(&without(two("", "", "", ""), CBR, "[[flow]]"), "flow.f", &["`kind` is missing", "\"constant\""]);
    refused(
        &format!("title = \"t\" # HERE\n{NODES}{LINK}rate = \"1Mbit\"\n{FLOW}{CBR}"),
        "",
        &["`duration` is missing"],
    );
    refused(&format!("duration = \"1s\" # HERE\n{NODES}{LINK}rate = \"1Mbit\"\n"), "", &["`flow` is missing"]);
}

#[test]
fn names_that_do_not_exist_are_told_with_what_is_spelt_alike() {
    refused(
        &two("", "", "", "").replace("to = \"b\"\nrate", "to = \"c\" # HERE\nrate"),
        "link.wire.to",
        &["no node `c`"],
    );
    refused(
        &two("", "", "", "").replace("to = \"b\"\nkind", "to = \"bb\" # HERE\nkind"),
        "flow.f.to",
        &["did you mean `b`?"],
    );
    refused(&flow("via = [\"wirr\"]"), "flow.f.via", &["no link, bond or ring `wirr`", "did you mean `wire`?"]);
    refused(&tail("[metrics]\ncapture = \"wires\" # HERE"), "metrics.capture", &["did you mean `wire`?"]);
    let bond = "[[bond]]\nname = \"x\"\nends = [\"a\", \"b\"]\nlinks = [\"wier\"] # HERE";
    refused(&tail(bond), "bond.x.channels", &["no link `wier`", "did you mean `wire`?"]);
}

#[test]
fn double_names_are_told_with_the_line_of_the_first() {
    let second = "[[link]]\nname = \"wire\" # HERE\nfrom = \"b\"\nto = \"a\"\nrate = \"1Mbit\"";
    refused(&tail(second), "link.wire.name", &["a second link called `wire`", "on line 6"]);
    refused(&tail("[[node]]\nname = \"a\" # HERE"), "node.a.name", &["a second node called `a`", "on line 4"]);
    let copies = two("", "", "count = 3", "").replace("name = \"f\"", "name = \"f\" # HERE");
    refused(&copies, "flow.f.name", &["3 copies need `#`"]);
}

#[test]
fn names_are_words() {
    refused(&tail("[[node]]\nname = \"a b\" # HERE"), "node.a b.name", &["\"a b\"", "letters"]);
    refused(&tail("[[node]]\nname = \"\" # HERE"), "node..name", &["letters"]);
}

#[test]
fn circles_and_loops_are_told() {
    refused(
        &two("", "", "", "").replace("to = \"b\"\nrate", "to = \"a\" # HERE\nrate"),
        "link.wire.to",
        &["from `a` to itself"],
    );
    let flow = two("", "", "", "").replace("to = \"b\"\nkind", "to = \"a\" # HERE\nkind");
    refused(&flow, "flow.f.to", &["from `a` to itself"]);
    let more = "[[node]]\nname = \"r\"\nkind = \"router\"\n[[link]]\nname = \"ar\"\nfrom = \"a\"\nto = \"r\"\nrate = \
                \"1Mbit\"\n";
    let circle = two("", "", "via = [\"ar\", \"ar\", \"wire\"] # HERE", more);
    refused(&circle, "flow.f.via", &["in a circle", "twice"]);
    let bond =
        "[[bond]]\nname = \"x\"\nends = [\"a\", \"b\"]\nchannels = [{ path = [\"wire\", \"wire\", \"wire\"] }] # HERE";
    refused(&tail(bond), "bond.x.channels", &["in a circle"]);
    let over = "[[bond]]\nname = \"x\"\nends = [\"a\", \"b\"]\nlinks = [\"wire\"]\n[[bond]]\nname = \"y\"\nends = [\"a\", \
                \"b\"]\nlinks = [\"x\"] # HERE";
    refused(&tail(over), "bond.y.channels", &["no link `x`"]);
}

#[test]
fn unreachable_hosts_are_told_both_and_why() {
    let apart = two("", "", "", "[[node]]\nname = \"c\"")
        .replace("[[flow]]", "[[flow]] # HERE")
        .replace("to = \"b\"\nkind", "to = \"c\"\nkind");
    refused(&apart, "flow.f", &["`c` cannot be reached from `a`", "no links lead there"]);
    let behind = "[[node]]\nname = \"c\"\n[[link]]\nname = \"bc\"\nfrom = \"b\"\nto = \"c\"\nrate = \"1Mbit\"";
    let behind =
        two("", "", "", behind).replace("[[flow]]", "[[flow]] # HERE").replace("to = \"b\"\nkind", "to = \"c\"\nkind");
    refused(&behind, "flow.f", &["through `b`, a host", "kind = \"router\""]);
    let simplex = two("", "simplex = true", "kind = \"ftp\"", "").replace("[[flow]]", "[[flow]] # HERE");
    refused(&simplex, "flow.f", &["`a` cannot be reached from `b`"]);
}

#[test]
fn rates_delays_and_sizes_have_their_bounds() {
    refused(&link("rate = \"0Mbit\""), "link.wire.rate", &["\"0Mbit\"", "from 1bit"]);
    refused(&link("rate = 0"), "link.wire.rate", &["from 1bit"]);
    refused(&link("rate = \"99999999999999999999Gbit\""), "link.wire.rate", &["64 bits"]);
    refused(&link("delay = \"-5ms\""), "link.wire.delay", &["\"-5ms\"", "zero or more"]);
    refused(&link("delay = -5"), "link.wire.delay", &["the number -5"]);
    refused(&link("delay = \"2min\""), "link.wire.delay", &["at most 60s"]);
    refused(&link("jitter = \"1h\""), "link.wire.jitter", &["at most 60s"]);
    refused(&link("queue = \"0B\""), "link.wire.queue", &["at least one"]);
    refused(&link("queue = \"0 packets\""), "link.wire.queue", &["at least one"]);
    refused(&link("queue = \"18446744073709551616B\""), "link.wire.queue", &["bytes or packets"]);
    refused(&link("loss = \"101%\""), "link.wire.loss", &["a share from 0 to 1"]);
    refused(&link("loss = nan"), "link.wire.loss", &["a share from 0 to 1"]);
    refused(&link("gilbert = \"1% 300%\""), "link.wire.gilbert", &["P R"]);
    refused(&link("gilbert = \"1% 0%\""), "link.wire.gilbert", &["r above 0"]);
    refused(&link("outages = [\"5s+2s/1s\"]"), "link.wire.outages", &["START+LENGTH"]);
    refused(&link("quantum = \"0B\""), "link.wire.quantum", &["from 1B"]);
    refused(&link("mtu = \"20B\""), "link.wire.mtu", &["from 68B"]);
    refused(&link("framing = \"token-ring\""), "link.wire.framing", &["atm-aal5"]);
    refused(&link("discipline = \"dr\""), "link.wire.discipline", &["did you mean \"drr\"?"]);
    refused(&head("duration = \"0s\""), "duration", &["above zero"]);
    refused(&head("duration = \"18446744073s\""), "duration", &["at most 200000000s"]);
    refused(&head("duration = \"99999999999999999999s\""), "duration", &["64 bits"]);
    refused(&head("warm_up = \"10s\""), "warm_up", &["shorter than the duration"]);
    refused(&head("drift = \"-5ppm\""), "drift", &["from 0ppm"]);
    refused(&head("drift = 1000"), "drift", &["\"off\""]);
    refused(&flow("kind = \"constant\"\nrate = \"1Mbit\"\nsize = \"70kB\""), "flow.f.size", &["to 65535B"]);
    refused(&flow("kind = \"constant\"\nrate = \"1Mbit\"\nsize = \"10B\""), "flow.f.size", &["headers of 28 B"]);
    refused(&flow("kind = \"ftp\"\nbytes = \"9999999999GB\""), "flow.f.bytes", &["from 1B"]);
    refused(&flow("kind = \"ftp\"\ntcp = { mss = 9 }"), "flow.f.tcp.mss", &["from 64 to 65495"]);
    refused(&flow("kind = \"ftp\"\ntcp = \"lynux\""), "flow.f.tcp", &["did you mean \"linux\"?"]);
    refused(&flow("kind = \"bulk\""), "flow.f.kind", &["\"ftp\""]);
}

#[test]
fn flows_start_before_they_stop_and_before_the_end() {
    refused(&flow("start = \"10s\""), "flow.f.start", &["when the run is over"]);
    refused(&flow("start = \"3s\"\nstop = \"2s\""), "flow.f.stop", &["before it has started"]);
    refused(&flow("spread = \"20s\""), "flow.f.spread", &["below the duration"]);
}

#[test]
fn packets_that_never_pass_are_told() {
    let queue = two("", "queue = \"400B\"", "", "").replace("[[flow]]", "[[flow]] # HERE");
    refused(&queue, "flow.f", &["500 B", "link `wire`", "queue of 400 B"]);
    let mtu = two("", "mtu = \"400B\"", "kind = \"ftp\"", "").replace("[[flow]]", "[[flow]] # HERE");
    refused(&mtu, "flow.f", &["1500 B", "mtu of 400 B"]);
}

#[test]
fn files_are_told_when_missing_or_wrong() {
    assert_eq!(errors(&two("", "trace = \"good.trace\"", "", "")), []);
    assert_eq!(errors(&two("", "series = \"good.csv\"\ncolumn = \"wifi\"", "", "")), []);
    refused(&link("trace = \"gone.trace\""), "link.wire.trace", &["gone.trace", "no such file"]);
    refused(&link("trace = \"bad.trace\""), "link.wire.trace", &["bad.trace:2", "`x`", "milliseconds"]);
    let column = two("", "series = \"good.csv\" # HERE\ncolumn = \"lte\"", "", "");
    refused(&column, "link.wire.series", &["no column `lte`", "cell, wifi"]);
    refused(&flow("kind = \"replay\"\nfile = \"gone.csv\""), "flow.f.file", &["no such file"]);
    refused(&flow("kind = \"replay\"\nfile = \"backwards.csv\""), "flow.f.file", &["backwards.csv:2", "not before"]);
    refused(&flow("kind = \"replay\"\nfile = \"empty.csv\""), "flow.f.file", &["no packet"]);
    refused(&flow("kind = \"replay\"\nfile = \"huge.csv\""), "flow.f.file", &["huge.csv:2", "65535"]);
}

#[test]
fn settings_that_exclude_each_other_are_told() {
    refused(&link("rate = \"1Mbit\"\ntrace = \"good.trace\""), "link.wire.trace", &["exclude each other"]);
    refused(&link("loss = \"1%\"\ngilbert = \"1% 10%\""), "link.wire.gilbert", &["exclude each other"]);
    refused(&link("simplex = true\nreverse = { delay = \"1ms\" }"), "link.wire.reverse", &["exclude each other"]);
    refused(&head("seed = 1\nseeds = [1, 2]"), "seeds", &["exclude each other"]);
    let shared = "rate = \"unlimited\"\nmedium = \"m\" # HERE";
    refused(&two("", shared, "", "[[medium]]\nname = \"m\""), "link.wire.medium", &["constant `rate`"]);
    refused(
        &tail("[[bond]]\nname = \"x\"\nends = [\"a\", \"b\"]\nlinks = [\"wire\"]\nmode = \"stripe\"\nscheduler = \"rfq\" # HERE")
            .replace("mode = \"stripe\"\nscheduler = \"rfq\" # HERE", "scheduler = \"rfq\"\nmode = \"stripe\" # HERE"),
        "bond.x.mode",
        &["scheduler"],
    );
    let dead = "[[bond]]\nname = \"x\"\nends = [\"a\", \"b\"]\nlinks = [\"wire\"]\ndead_after = \"100ms\" # HERE";
    refused(&tail(dead), "bond.x.dead_after", &["greater than heartbeat"]);
}

#[test]
fn a_gigabyte_sweep_is_refused_before_anything_is_built() {
    let step =
        "[[sweep]]\nparameter = \"link.wire.delay\"\nfrom = \"0ns\"\nto = \"1000000000ns\"\nstep = \"1ns\" # HERE";
    refused(&tail(step), "sweep.0.step", &["1000000001 values", "at most 100000"]);
    refused(&head("seeds = \"1..1000000000\""), "seeds", &["1000000000 seeds", "at most 100000"]);
    refused(&head("seeds = \"0..18446744073709551615\""), "seeds", &["18446744073709551616 seeds"]);
    let mut many = String::new();
    for key in ["delay", "jitter", "loss", "mtu"] {
        let marker = if key == "delay" { " # HERE" } else { "" };
        let unit = match key {
            "loss" => "%",
            "mtu" => "B",
            _ => "us",
        };
        many += &format!(
            "[[sweep]]{marker}\nparameter = \"link.wire.{key}\"\nfrom = \"0{unit}\"\nto = \"90{unit}\"\nsteps = 90\n"
        );
    }
    let errors = errors(&tail(&many));
    assert_eq!(errors.len(), 1, "{errors:#?}");
    assert!(matches!(&errors[0].problem, Problem::TooMany { count, .. } if count == "65610000"), "{errors:#?}");
    refused(&head("max_runs = 0"), "max_runs", &["from 1"]);
    let copies = two("", "", "", "[[node]]\nname = \"x#\"\ncount = 1000000 # HERE");
    refused(&copies, "node.x#.count", &["1000002 nodes", "at most 1000000"]);
    refused(&tail("[metrics]\nseries = \"1us\" # HERE"), "metrics.series", &["10000000 points"]);
}

#[test]
fn sweeps_are_checked_value_by_value() {
    let wrong = "[[sweep]]\nparameter = \"link.wire.rate\"\nvalues = [\n\"1Mbit\",\n\"fast\", # HERE\n]";
    refused(&tail(wrong), "link.wire.rate", &["\"fast\""]);
    let unknown = "[[sweep]]\nparameter = \"link.wier.rate\"\nvalues = [\"1Mbit\"] # HERE";
    refused(&tail(unknown), "link.wier.rate", &["no link `wier`", "did you mean `wire`?"]);
    let tuple = "[[sweep]]\nparameter = [\"duration\", \"drift\"]\nvalues = [[\"1s\"]] # HERE";
    refused(&tail(tuple), "sweep.0.values", &["a list of 2 values"]);
    let twice = "[[sweep]]\nparameter = \"drift\"\nvalues = [\"off\"]\n[[sweep]]\nparameter = \"drift\" # HERE\nvalues = \
                 [\"off\"]";
    refused(&tail(twice), "sweep.1.parameter", &["swept twice"]);
    let units = "[[sweep]]\nparameter = \"duration\"\nfrom = \"1ms\"\nto = \"2s\" # HERE\nsteps = 2";
    refused(&tail(units), "sweep.0.to", &["the unit of `from`, ms"]);
    refused(&tail("[[sweep]]\nparameter = \"seed\" # HERE\nvalues = [1, 2]"), "sweep.0.parameter", &["seeds"]);
}

#[test]
fn expectations_are_checked_against_the_scenario() {
    let expect = |line: &str| tail(&format!("[[expect]]\nvalue = \"1Mbit\"\nwithin = 0.1\n{line} # HERE"));
    refused(&expect("metric = \"flow.g.goodput\""), "expect.0.metric", &["no flow `g`"]);
    refused(&expect("metric = \"flow.f.godput\""), "expect.0.metric", &["`godput`", "goodput"]);
    let unit = tail("[[expect]]\nmetric = \"jain\"\nwithin = 0.1\nvalue = \"1Mbit\" # HERE");
    refused(&unit, "expect.0.value", &["a number"]);
    let tolerance = tail("[[expect]] # HERE\nmetric = \"jain\"\nvalue = 1");
    refused(&tolerance, "expect.0", &["within"]);
    let at = "[[expect]]\nmetric = \"jain\"\nleast = 0.9\nat = { \"link.wire.rate\" = \"1Mbit\" } # HERE";
    refused(&tail(at), "expect.0.at", &["no swept parameter `link.wire.rate`"]);
    let reordering = tail("[[expect]]\nmetric = \"flow.f.reordering.ratio\" # HERE\nmost = 0");
    refused(&reordering, "expect.0.metric", &["reordering = true"]);
    refused(&tail("[[plot]]\ny = \"jain\"\nx = \"duration\" # HERE"), "plot.0.x", &["no swept parameter"]);
}

#[test]
fn all_errors_come_at_once_in_the_order_of_the_text() {
    let text = two("titel = \"x\"", "delay = 5\nqueue = \"0B\"", "start = \"-1s\"", "[metrics]\ndelay = 1");
    let lines: Vec<u32> = errors(&text).iter().map(|error| error.line).collect();
    assert_eq!(lines.len(), 5, "{:#?}", errors(&text));
    assert!(lines.windows(2).all(|pair| pair[0] < pair[1]), "{lines:?}");
}

/// Four nodes in a ring, and a flow through it; `ring` goes into the ring's table.
fn ringed(ring: &str, flow: &str) -> String {
    let rate = if ring.starts_with("rate") { "" } else { "rate = \"10Mbit\"\n" };
    let nodes = if ring.contains("nodes = ") { "" } else { "nodes = \"n#\"\ncount = 4\n" };
    format!(
        "duration = \"10s\"\n[[node]]\nname = \"n#\"\nfirst = 1\ncount = 4\n[[node]]\nname = \"x\"\n[[ring]]\nname = \
         \"r\"\n{nodes}{rate}{ring}\n[[flow]]\nname = \"f\"\nfrom = \"n1\"\nto = \"n3\"\n{CBR}{flow}\n"
    )
}

fn ring(line: &str) -> String {
    ringed(&format!("{line} # HERE"), "")
}

#[test]
fn what_is_wrong_with_a_ring_is_told_where_it_stands() {
    assert_eq!(errors(&ringed("", "")), []);
    refused(&head("ring = 7"), "ring", &["[[ring]]"]);
    refused(&ringed("rate = \"fast\" # HERE", ""), "ring.r.rate", &["bit, kbit"]);
    refused(&ring("nodes = [\"n1\", \"n2\", \"m3\"]"), "ring.r.nodes", &["no node `m3`", "did you mean `n3`?"]);
    refused(&ring("nodes = [\"n1\", \"n2\", \"n1\"]"), "ring.r.nodes", &["in a circle", "`n1`"]);
    refused(&ring("nodes = \"n1\""), "ring.r.nodes", &["1 nodes", "2 to 255"]);
    refused(&ring("nodes = [\"n1\", \"n2\", \"n3\"]\ncount = 3"), "ring.r.count", &["nodes = \"n#\""]);
    refused(&ring("algorithm = \"dvsr:bits=9\""), "ring.r.algorithm", &["bits is `9`", "one of 8, 16"]);
    refused(&ring("algorithm = \"srr\""), "ring.r.algorithm", &["`srr` is no fairness algorithm", "dvsr, rpr-am"]);
    refused(&ring("protection = \"warp\""), "ring.r.protection", &["did you mean \"wrap\"?"]);
    refused(&ring("topology = \"star\""), "ring.r.topology", &["\"ring\", \"line\""]);
    refused(&ring("interval = \"0s\""), "ring.r.interval", &["above zero"]);
    refused(&ring("delay = \"61s\""), "ring.r.delay", &["at most 60s"]);
    refused(&ring("control_loss = 1.5"), "ring.r.control_loss", &["a share from 0 to 1"]);
    refused(&ring("weights = { n2 = 0 }"), "ring.r.weights", &["0.001 to 1000"]);
    refused(&ring("weights = { x = 2 }"), "ring.r.weights", &["`x` is no node of this ring"]);
    refused(&ring("links = [{ link = 5 }]"), "ring.r.links.0.link", &["from 1 to 4"]);
    refused(&ring("links = [{ link = 1, outages = [\"5s\"] }]"), "ring.r.links.0.outages", &["START+LENGTH"]);
    refused(&ring("links = [{ rate = \"5Mbit\" }]"), "ring.r.links.0", &["`link` is missing", "from 1"]);
    refused(
        &ring("topology = \"line\"\nlinks = [{ link = 4, rate = \"5Mbit\" }]"),
        "ring.r.links.0.link",
        &["a line has no last link"],
    );
    refused(
        &ring("node_outages = [{ node = \"n9\", outages = [\"1s+1s\"] }]"),
        "ring.r.node_outages.0.node",
        &["`n9`"],
    );
    refused(&ring("node_outages = [{ node = \"n2\" }]"), "ring.r.node_outages.0", &["`outages` is missing"]);
    let same = "reservations = [{ from = \"n2\", to = \"n2\", rate = \"1Mbit\" }]";
    refused(&ring(same), "ring.r.reservations.0.to", &["to itself"]);
    let class = "reservations = [{ from = \"n2\", to = \"n1\", rate = \"1Mbit\", class = \"C\" }]";
    refused(&ring(class), "ring.r.reservations.0.class", &["\"A\", \"B\""]);
    refused(&ring("bufer = \"1kB\""), "ring.r.bufer", &["did you mean `buffer`?"]);
}

#[test]
fn flows_through_rings_are_checked() {
    refused(&ringed("", "class = \"D\" # HERE"), "flow.f.class", &["\"A\", \"B\", \"C\""]);
    refused(&ringed("topology = \"line\"", "ringlet = 1 # HERE"), "flow.f.ringlet", &["`r` is a line"]);
    refused(&flow("ringlet = 1"), "flow.f.ringlet", &["crosses no ring"]);
    refused(&flow("class = \"A\""), "flow.f.class", &["crosses no ring"]);
    let small = ringed("buffer = \"400B\"", "").replacen("[[flow]]", "[[flow]] # HERE", 1);
    refused(&small, "flow.f", &["up to 500 B", "ring `r`", "400 B"]);
    let expect = |metric: &str| format!("{}[[expect]]\nmetric = \"{metric}\" # HERE\nleast = 0", ringed("", ""));
    refused(&expect("ring.s.oscillation"), "expect.0.metric", &["no ring `s`"]);
    refused(&expect("ring.r.oscilation"), "expect.0.metric", &["`oscilation`", "oscillation", "limit.FROM-TO."]);
    refused(&expect("ring.r.limit.*.oscillation"), "expect.0.metric", &["a function"]);
}

/// At 1 Mbit/s messages of a tenth of a millisecond would be all that passes.
#[test]
fn a_ring_that_control_messages_would_eat_is_told_the_interval_and_the_rate_that_work() {
    let ring = |rate: &str, interval: &str| {
        let nodes = "[[node]]\nname = [\"a\", \"b\", \"c\"]\n";
        let ring =
            format!("[[ring]]\nname = \"r\"\nnodes = [\"a\", \"b\", \"c\"]\nrate = \"{rate}\"\ndelay = \"1ms\"\n");
        format!("duration = \"1s\"\n{nodes}{ring}interval = \"{interval}\" # HERE\n{FLOW}{CBR}")
    };
    refused(&ring("1Mbit", "100us"), "ring.r.interval", &["link 1", "a quarter", "interval = \"", "or more"]);
    let text = errors(&ring("1Mbit", "100us"))[0].to_string();
    let told = text.split("interval = \"").nth(1).and_then(|rest| rest.split('"').next()).expect("a time");
    assert_eq!(errors(&ring("1Mbit", told)), []);
    assert_eq!(errors(&ring("100Mbit", "100us")), []);
}
