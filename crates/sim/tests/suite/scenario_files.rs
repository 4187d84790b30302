//! The scenario files of the repository, and what each part of the format becomes.

use crate::common::{file, no_files, show};
use fairspan_core::buffer::PolicyConfig;
use fairspan_core::link::{Capacity, DuringOutage, Limit, Loss};
use fairspan_core::queue::DisciplineConfig;
use fairspan_core::ring::{Class, Ringlet};
use fairspan_core::units::{Bytes, Rate, Span, Time};
use fairspan_sim::model::{Crossing, Framing, Hop, Scenario, Transport};
use fairspan_sim::scenario::{File, Metric, Unit};
use fairspan_sim::traffic::{Config, Sizes};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

#[track_caller]
fn built(file: &File, run: usize) -> Scenario {
    let run = file.run(run).expect("there is such a run");
    run.unwrap_or_else(|errors| panic!("{}", show(&errors))).scenario
}

#[track_caller]
fn scenario(text: &str) -> Scenario {
    built(&file(text), 0)
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            found.push(path);
        }
    }
}

fn kept() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut found = Vec::new();
    collect(&root, &mut found);
    // Beside the folders there is what is about all of them.
    found.retain(|path| path.parent() != Some(&root));
    found.sort();
    found
}

const TWO: &str = r#"
duration = "10s"
[[node]]
name = ["a", "b"]
[[link]]
name = "wire"
from = "a"
to = "b"
rate = "10Mbit"
[[flow]]
name = "f"
from = "a"
to = "b"
kind = "constant"
rate = "1Mbit"
size = "500B"
"#;

/// `TWO` with more lines in the table of that heading.
fn two_with(heading: &str, lines: &str) -> String {
    TWO.replacen(heading, &format!("{heading}\n{lines}"), 1)
}

/// `TWO` with other traffic.
fn two_sending(lines: &str) -> String {
    TWO.replace("kind = \"constant\"\nrate = \"1Mbit\"\nsize = \"500B\"", lines)
}

#[test]
fn every_kept_scenario_reads_and_every_run_of_it_builds() {
    let paths = kept();
    assert!(paths.len() >= 9, "{} scenario files: were they left out of the checkout?", paths.len());
    for path in paths {
        let text = fs::read_to_string(&path).expect("a readable file");
        let folder = path.parent().expect("a folder").to_owned();
        let mut files = |name: &str| fs::read(folder.join(name)).map_err(|e| e.to_string());
        let name = path.display().to_string();
        let file = File::parse(&name, &text, &mut files).unwrap_or_else(|errors| panic!("{}", show(&errors)));
        assert!(!file.title().is_empty(), "{name}: a kept scenario has a title");
        assert!(!file.expectations().is_empty(), "{name}: a kept scenario expects something");
        for run in 0..file.count() {
            let scenario = built(&file, run);
            assert!(scenario.flows.iter().all(|flow| !flow.path.is_empty()), "{name}: a flow has no path");
        }
    }
}

#[test]
fn the_dumbbell_is_the_one_that_other_simulators_were_given() {
    let path = kept().into_iter().find(|path| path.ends_with("cross-check/dumbbell.toml")).expect("the file");
    let scenario = scenario(&fs::read_to_string(path).expect("readable"));
    assert_eq!((scenario.nodes.len(), scenario.links.len(), scenario.flows.len()), (22, 42, 10));
    assert_eq!(scenario.duration, Span::from_secs(500));
    for flow in &scenario.flows {
        let link = |hop: &Hop| match hop {
            Hop::Link(link) => &scenario.links[*link as usize],
            Hop::Bond(..) | Hop::Ring(..) => panic!("no bond and no ring here"),
        };
        let links: Vec<_> = flow.path.iter().map(link).collect();
        let rates: Vec<_> = links.iter().map(|link| link.profile.capacity.clone()).collect();
        assert_eq!(rates, [10, 2, 10].map(|rate| Capacity::Constant(Rate::from_mbit(rate))));
        let delay = links.iter().fold(Span::ZERO, |sum, link| sum + link.profile.delay);
        assert_eq!(delay, Span::from_millis(10));
        assert_eq!((&links[1].profile.queue, links[1].framing), (&Limit::Bytes(25_000), Framing::None));
        let Transport::Tcp(tcp) = &flow.transport else { panic!("TCP") };
        assert_eq!((tcp.mss, tcp.timestamps, tcp.mss_counts_options), (1460, true, true));
        assert_eq!(flow.back.len(), 3);
    }
}

#[test]
fn copies_are_numbered_and_links_have_a_direction_back() {
    let text = TWO
        .replace("name = [\"a\", \"b\"]", "name = \"n#\"\ncount = 4\nkind = \"router\"")
        .replace(
            "name = \"wire\"\nfrom = \"a\"\nto = \"b\"",
            "name = \"w#\"\nfrom = \"n#\"\nto = \"n#+1%4\"\ncount = 4",
        )
        .replace("from = \"a\"\nto = \"b\"", "from = \"n0\"\nto = \"n2\"");
    let scenario = scenario(&text);
    let names: Vec<&str> = scenario.links.iter().map(|link| link.name.as_str()).collect();
    assert_eq!(names, ["w0", "w0/back", "w1", "w1/back", "w2", "w2/back", "w3", "w3/back"]);
    assert_eq!((scenario.links[6].from, scenario.links[6].to), (3, 0), "the ring closes");
    // Two hops either way round: the link of the lowest number wins.
    assert_eq!(scenario.flows[0].path, [Hop::Link(0), Hop::Link(2)]);
}

#[test]
fn each_key_of_a_link_becomes_its_setting() {
    let keys = r#"
delay = "3ms"
jitter = "1ms"
reorder = true
gilbert = "1% 10% 80% 2%"
queue = "30 packets"
outages = ["5s+2s/60s"]
during_outage = "hold"
framing = "atm-aal5"
discipline = "drr"
quantum = "700B"
buffer = "longest-queue"
reverse = { rate = "2Mbit", loss = "3%", queue = "9kB", framing = "7B", discipline = "fifo", buffer = "drop-tail" }
"#;
    let scenario = scenario(&two_with("[[link]]", keys));
    let there = &scenario.links[0];
    assert_eq!(there.profile.capacity, Capacity::Constant(Rate::from_mbit(10)));
    assert_eq!((there.profile.delay, there.profile.jitter), (Span::from_millis(3), Span::from_millis(1)));
    assert!(there.profile.reorder);
    assert_eq!(there.profile.loss, Loss::Gilbert { p: 0.01, r: 0.1, bad: 0.8, good: 0.02 });
    assert_eq!(there.profile.queue, Limit::Packets(30));
    assert_eq!(there.profile.outages[0].every, Some(Span::from_secs(60)));
    assert_eq!(there.profile.during_outage, DuringOutage::Hold);
    assert_eq!(there.framing, Framing::AtmAal5);
    assert_eq!(there.profile.discipline, DisciplineConfig::Drr { quantum: Bytes::new(700) });
    assert_eq!(there.profile.buffer, PolicyConfig::LongestQueue);
    let back = &scenario.links[1];
    assert_eq!(back.profile.capacity, Capacity::Constant(Rate::from_mbit(2)));
    assert_eq!(back.profile.loss, Loss::Independent(0.03), "loss puts the gilbert of the other direction aside");
    assert_eq!((&back.profile.queue, back.framing), (&Limit::Bytes(9000), Framing::Bytes(7)));
    assert_eq!(back.profile.delay, Span::from_millis(3), "what reverse leaves out is as there");
    assert!(back.profile.queue_config().is_plain(), "fifo with tail drop is the link's own queue");
}

#[test]
fn defaults_fill_in_and_give_way() {
    let more = r#"
[[link]]
name = "w2"
from = "a"
to = "b"
trace = "t"
[[flow]]
name = "g"
from = "a"
to = "b"
kind = "ftp"
tcp = { mss = 500 }
[defaults.link]
delay = "7ms"
rate = "3Mbit"
[defaults.tcp]
preset = "linux"
mss = 900
nagle = "off"
"#;
    let text = TWO.replace("rate = \"10Mbit\"", "") + more;
    let mut files = |name: &str| if name == "t" { Ok(b"1\n2\n".to_vec()) } else { no_files(name) };
    let file = File::parse("x", &text, &mut files).unwrap_or_else(|errors| panic!("{}", show(&errors)));
    let scenario = built(&file, 0);
    assert_eq!(scenario.links[0].profile.capacity, Capacity::Constant(Rate::from_mbit(3)));
    assert!(matches!(scenario.links[2].profile.capacity, Capacity::Trace(_)), "a trace puts the default rate aside");
    assert!(scenario.links.iter().all(|link| link.profile.delay == Span::from_millis(7)));
    let Transport::Tcp(tcp) = &scenario.flows[1].transport else { panic!("ftp goes over TCP") };
    assert_eq!(tcp.mss, 500);
    let constants = tcp.constants();
    assert!(constants.contains(&("nagle", "off".into())) && constants.contains(&("congestion", "cubic".into())));
}

#[test]
fn each_kind_of_traffic_reads() {
    let traffic = |lines: &str| scenario(&two_sending(lines)).flows.remove(0).traffic;
    let rate = Rate::from_mbit(1);
    let mixture = "kind = \"poisson\"\nrate = \"1Mbit\"\nsize = { mixture = [[\"200B\", 1], [\"1kB\", 3]] }";
    assert_eq!(traffic(mixture), Config::Poisson { rate, size: Sizes::Mixture(vec![(200, 1.0), (1000, 3.0)]) });
    let uniform = "kind = \"cbr\"\nrate = \"1Mbit\"\nsize = { uniform = [\"64B\", \"1500B\"] }";
    assert_eq!(traffic(uniform), Config::Constant { rate, size: Sizes::Uniform(64, 1500) });
    let pareto =
        "kind = \"pareto\"\nrate = \"1Mbit\"\nsize = [\"1kB\", \"200B\"]\non = \"1s\"\noff = \"2s\"\nshape = 1.2";
    let size = Sizes::Alternating(vec![1000, 200]);
    let (on, off) = (Span::from_secs(1), Span::from_secs(2));
    assert_eq!(traffic(pareto), Config::ParetoOnOff { rate, size, on, off, shape: 1.2 });
    let (bytes, writes) = (Some(Bytes::new(1_000_000)), Some(Sizes::Constant(300)));
    assert_eq!(traffic("kind = \"ftp\"\nbytes = \"1MB\"\nwrites = \"300B\""), Config::Ftp { bytes, writes });
    let http =
        "kind = \"http\"\nparallel = 3\nfiles = [\"1kB\", \"2kB\"]\nfetches = 9\nthink = \"5ms\"\nrequest = \"99B\"";
    let expected = Config::Http {
        parallel: 3,
        files: vec![Bytes::new(1000), Bytes::new(2000)],
        fetches: Some(9),
        request: Bytes::new(99),
        think: Span::from_millis(5),
    };
    assert_eq!(traffic(http), expected);
    let replay = "kind = \"replay\"\npackets = [[\"0ms\", \"100B\"], [\"2ms\", \"40B\"]]\nperiod = \"5ms\"";
    let packets = vec![(Span::ZERO, 100), (Span::from_millis(2), 40)].into();
    assert_eq!(traffic(replay), Config::Replay { packets, period: Some(Span::from_millis(5)) });
}

#[test]
fn a_replay_file_counts_from_its_first_packet() {
    let mut files = |_: &str| Ok(b"# seconds, bytes\n7.5,100\n7.501,200\n".to_vec());
    let text = two_sending("kind = \"replay\"\nfile = \"p.csv\"");
    let file = File::parse("x", &text, &mut files).unwrap_or_else(|errors| panic!("{}", show(&errors)));
    let Config::Replay { packets, .. } = built(&file, 0).flows.remove(0).traffic else { panic!("a replay") };
    assert_eq!(*packets, [(Span::ZERO, 100), (Span::from_millis(1), 200)]);
}

#[test]
fn starts_are_staggered_and_drawn_from_the_seed() {
    let text = two_with("[[flow]]", "count = 5\nstart = \"1s\"\nstagger = \"100ms\"\nspread = \"50ms\"");
    let file = file(&format!("seeds = [1, 2, 1000]\n{}", text.replace("name = \"f\"", "name = \"f#\"")));
    let starts = |run| built(&file, run).flows.iter().map(|flow| flow.start).collect::<Vec<Time>>();
    for (number, start) in starts(0).into_iter().enumerate() {
        let least = Time::from_millis(1000 + 100 * number as u64);
        assert!((least..least + Span::from_millis(50)).contains(&start), "{start:?}");
    }
    assert_eq!(starts(0), starts(0));
    assert_ne!(starts(0), starts(1));
}

#[test]
fn sweeps_make_every_combination_and_seeds_change_fastest() {
    let sweeps = r#"
[[sweep]]
parameter = "link.wire.rate"
from = "1Mbit"
to = "2Mbit"
step = "0.5Mbit"
[[sweep]]
parameter = ["flow.f.size", "link.wire.loss"]
values = [["200B", "1%"], ["300B", 0]]
"#;
    let file = file(&format!("seeds = \"3..4\"\n{TWO}{sweeps}"));
    assert_eq!((file.points(), file.count()), (6, 12));
    let runs: Vec<_> = file.runs().map(Result::unwrap).collect();
    assert_eq!(runs.len(), 12);
    assert_eq!((runs[0].seed, runs[1].seed, runs[1].point, runs[2].point), (3, 4, 0, 1));
    assert_eq!(runs[2].parameters[1], ("flow.f.size".into(), "300B".into()));
    let values: Vec<&str> = runs[11].parameters.iter().map(|(_, value)| value.as_str()).collect();
    assert_eq!(values, ["2Mbit", "300B", "0"]);
    let last = &runs[11].scenario.links[0].profile;
    assert_eq!((&last.capacity, last.loss), (&Capacity::Constant(Rate::from_mbit(2)), Loss::None));
    assert!(file.run(12).is_none());
}

#[test]
fn a_logarithmic_sweep_goes_by_equal_factors() {
    let sweep =
        "[[sweep]]\nparameter = \"link.wire.delay\"\nfrom = \"1ms\"\nto = \"100ms\"\nsteps = 3\nscale = \"log\"\n";
    let file = file(&format!("{TWO}{sweep}"));
    let values: Vec<String> = file.runs().map(|run| run.unwrap().parameters[0].1.clone()).collect();
    assert_eq!(values, ["1ms", "10ms", "100ms"]);
}

#[test]
fn a_key_set_from_outside_replaces_the_file_s_and_a_refused_one_changes_nothing() {
    let mut file = file(TWO);
    for (key, value) in [("link.wire.rate", "50Mbit"), ("duration", "2s"), ("metrics.delay", "true")] {
        file.set(key, value, &mut no_files).unwrap_or_else(|errors| panic!("{}", show(&errors)));
    }
    let scenario = built(&file, 0);
    assert_eq!(scenario.links[0].profile.capacity, Capacity::Constant(Rate::from_mbit(50)));
    assert_eq!((scenario.duration, scenario.metrics.delay), (Span::from_secs(2), true));
    let errors = file.set("duration", "-2s", &mut no_files).unwrap_err();
    assert!(show(&errors).contains("set from outside the file: duration: found \"-2s\""), "{}", show(&errors));
    let errors = file.set("link.wir.rate", "1Mbit", &mut no_files).unwrap_err();
    assert!(show(&errors).contains("did you mean `wire`?"), "{}", show(&errors));
    assert_eq!(built(&file, 0).duration, Span::from_secs(2));
    file.set_seeds(vec![7, 8]);
    assert_eq!(file.count(), 2);
    assert_eq!(file.run(1).unwrap().unwrap().seed, 8);
}

#[test]
fn a_bond_is_one_hop_and_goes_before_the_links_beside_it() {
    let bond = "[[bond]]\nname = \"bond\"\nends = [\"a\", \"b\"]\nlinks = [\"wire\"]\nmode = \"plain\"\n";
    let scenario = scenario(&format!("{TWO}{bond}"));
    assert_eq!(scenario.flows[0].path, [Hop::Bond(0, 0)]);
    assert_eq!(scenario.bonds[0].channels, [[vec![0], vec![1]]]);
    assert_eq!(scenario.bonds[0].config.channels[0].rate, Some(Rate::from_mbit(10)));
}

#[test]
fn via_leads_the_path_and_the_way_back_mirrors_it() {
    let mut text = String::from(
        "duration = \"1s\"\n[[node]]\nname = [\"a\", \"b\"]\n[[node]]\nname = [\"r\", \"x\", \"y\"]\nkind = \"router\"\n",
    );
    for (name, from, to) in [("ar", "a", "r"), ("br", "b", "r"), ("rx", "r", "x"), ("xy", "x", "y"), ("yb", "y", "b")] {
        text += &format!("[[link]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\nrate = \"1Mbit\"\n");
    }
    for (name, via) in [("short", ""), ("long", "via = \"xy\"")] {
        text += &format!("[[flow]]\nname = \"{name}\"\nfrom = \"a\"\nto = \"b\"\nkind = \"ftp\"\n{via}\n");
    }
    let scenario = scenario(&text);
    let number = |name: &str| scenario.links.iter().position(|link| link.name == name).unwrap() as u32;
    let path = |names: &[&str]| names.iter().map(|name| Hop::Link(number(name))).collect::<Vec<_>>();
    assert_eq!(scenario.flows[0].path, path(&["ar", "br/back"]));
    assert_eq!(scenario.flows[0].back, path(&["br", "ar/back"]));
    assert_eq!(scenario.flows[1].path, path(&["ar", "rx", "xy", "yb"]));
    assert_eq!(scenario.flows[1].back, path(&["yb/back", "xy/back", "rx/back", "ar/back"]));
}

#[test]
fn metrics_have_units_and_arithmetic() {
    let unit = |text: &str| Metric::parse(text).unwrap_or_else(|e| panic!("{e}")).unit();
    assert_eq!(unit("flow.a.goodput"), Unit::BitsPerSecond);
    assert_eq!(unit("sum(flow.a*.goodput) / goodput"), Unit::None);
    assert_eq!(unit("2 * flow.a.delay.p99.9"), Unit::Seconds);
    assert_eq!(unit("jain(flow.a.goodput, flow.b.goodput)"), Unit::None);
    for wrong in ["flow.a.goodput + jain", "flow.a*.goodput", "flow.a", "", "sum(", "goodput goodput", "pink.a.load"] {
        assert!(Metric::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_hundred_thousand_flows_are_read_in_time() {
    let mut text = String::from("duration = \"1s\"\n[[node]]\nname = [\"s#\", \"d#\"]\ncount = 100000\n");
    text += "[[node]]\nname = [\"left\", \"right\"]\nkind = \"router\"\n";
    text += "[[link]]\nname = \"bottleneck\"\nfrom = \"left\"\nto = \"right\"\nrate = \"10Gbit\"\n";
    for (name, from, to) in [("in#", "s#", "left"), ("out#", "right", "d#")] {
        text += &format!("[[link]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\n");
        text += "count = 100000\nrate = \"10Mbit\"\n";
    }
    text += "[[flow]]\nname = \"f#\"\nfrom = \"s#\"\nto = \"d#\"\ncount = 100000\nkind = \"request-response\"\n";
    text += "request = \"100B\"\nresponse = \"100B\"\n";
    let start = Instant::now();
    let scenario = scenario(&text);
    let elapsed = start.elapsed();
    println!("{elapsed:?}");
    assert_eq!(scenario.flows.len(), 100_000);
    assert_eq!(scenario.flows[99_999].path.len(), 3);
    // Read twice here, unoptimised, on a machine that may do other things. A search for each flow would take hours.
    assert!(elapsed.as_secs() < 60, "{elapsed:?}");
}

const RINGED: &str = "duration = \"1s\"\n[[node]]\nname = \"n#\"\nfirst = 1\ncount = 4\nkind = \"router\"\n\
    [[node]]\nname = [\"a\", \"b\"]\n[[link]]\nname = \"in\"\nfrom = \"a\"\nto = \"n2\"\nrate = \"9Mbit\"\n\
    [[link]]\nname = \"out\"\nfrom = \"n4\"\nto = \"b\"\nrate = \"9Mbit\"\n\
    [[ring]]\nname = \"r\"\nnodes = \"n#\"\ncount = 4\nrate = \"9Mbit\"\ndelay = \"2ms\"\n\
    links = [{ link = 3, rate = \"5Mbit\", rate_back = \"4Mbit\", delay = \"1ms\" }]\nweights = { n2 = 1.5 }\n\
    [[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\nkind = \"constant\"\nrate = \"1Mbit\"\nsize = \"500B\"\n";

#[test]
fn a_path_leads_over_a_link_through_a_ring_and_over_a_link_again() {
    for via in ["", "via = \"r\"\n", "via = [\"in\", \"r\", \"out\"]\nringlet = 1\nclass = \"B\"\nback_via = \"r\"\n"] {
        let scenario = scenario(&format!("{RINGED}{via}"));
        let flow = &scenario.flows[0];
        let told = via.contains("ringlet");
        let way = Crossing {
            from: 1,
            to: 3,
            ringlet: told.then_some(Ringlet::One),
            class: if told { Class::B } else { Class::C },
        };
        assert_eq!(flow.path, [Hop::Link(0), Hop::Ring(0, way), Hop::Link(2)], "{via}");
        if told {
            let way = Crossing { from: 3, to: 1, ringlet: None, class: Class::B };
            assert_eq!(flow.back, [Hop::Link(3), Hop::Ring(0, way), Hop::Link(1)]);
        }
    }
    let ring = &scenario(RINGED).rings[0];
    assert_eq!(ring.interval, Span::from_millis(7), "the delays around");
    assert_eq!(ring.links[2].rate, [Rate::from_mbit(5), Rate::from_mbit(4)]);
    assert_eq!(ring.weights, [1000, 1500, 1000, 1000]);
    assert!(!ring.discovery, "nothing fails");
    assert_eq!((ring.station_discipline, ring.station_policy), (DisciplineConfig::Fifo, PolicyConfig::DropTail));
}

#[test]
fn the_queue_of_a_ring_s_stations_is_named_as_a_link_s_is() {
    let with = |keys: &str| RINGED.replace("delay = \"2ms\"", &format!("delay = \"2ms\"\n{keys}"));
    let ring = |keys: &str| scenario(&with(keys)).rings[0].clone();
    let fair = ring("station_discipline = \"drr:quantum=500B\"");
    assert_eq!(fair.station_discipline, DisciplineConfig::Drr { quantum: Bytes::new(500) });
    assert_eq!(fair.station_policy, PolicyConfig::LongestQueue, "as on a link");
    let both = ring("station_discipline = \"sfq\"\nstation_policy = \"codel\"");
    assert_eq!(both.station_policy, "codel:target=5ms,interval=100ms".parse().expect("a policy"));
    for (keys, line, advice) in [
        ("station_discipline = \"drf\"", 25, "stochastic"),
        ("station_policy = \"codel:target=1s\"", 25, "greater"),
        ("algorithm = \"fifo\"\nstation_discipline = \"sfq\"", 26, "another algorithm"),
        ("algorithm = \"fifo\"\nstation_policy = \"codel\"", 26, "another algorithm"),
    ] {
        let errors = File::parse("test.toml", &with(keys), &mut no_files).map(drop).expect_err(keys);
        let text = show(&errors);
        assert!(errors.len() == 1 && text.contains(&format!(":{line}:")) && text.contains(advice), "{text}");
    }
}

#[test]
fn the_way_back_through_a_ring_is_on_the_same_links() {
    let text = RINGED.replace("kind = \"constant\"\nrate = \"1Mbit\"\nsize = \"500B\"", "kind = \"ftp\"\nringlet = 0");
    let flow = &scenario(&text).flows[0];
    let way = Crossing { from: 3, to: 1, ringlet: Some(Ringlet::One), class: Class::C };
    assert_eq!(flow.back, [Hop::Link(3), Hop::Ring(0, way), Hop::Link(1)]);
}
