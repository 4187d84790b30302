//! What a scenario leaves to chance, so that seeds are samples: starts, clocks, phases. And what it must not leave to it.

use crate::common::{file, no_files, show};
use fairspan_core::link::Capacity;
use fairspan_core::units::{Bytes, Span, Time};
use fairspan_sim::model::{Hop, Scenario, Transport};
use fairspan_sim::results::Results;
use fairspan_sim::scenario::{Content, File, ReadError};
use fairspan_sim::world::World;
use std::collections::BTreeSet;

#[track_caller]
fn with_settings(text: &str, settings: &[(&str, &str)]) -> Result<File, String> {
    File::parse_with("test.toml", text, settings, &mut no_files).map_err(|errors| show(&errors))
}

#[track_caller]
fn scenario(text: &str, seed: u64) -> Scenario {
    let mut file = file(text);
    file.set_seeds(vec![seed]);
    file.run(0).expect("a run").unwrap_or_else(|errors| panic!("{}", show(&errors))).scenario
}

fn run(scenario: &Scenario) -> Results {
    World::new(scenario).and_then(World::finish).unwrap_or_else(|error| panic!("{error}"))
}

const PAIR: &str = "duration = \"10s\"\n[[node]]\nname = [\"a\", \"b\"]\n[[link]]\nname = \"wire\"\nfrom = \"a\"\nto = \"b\"\n\
                    rate = \"10Mbit\"\ndelay = \"5ms\"\n";
const TWO_DOWNLOADS: &str = "[[flow]]\nname = \"f#\"\ncount = 2\nfrom = \"a\"\nto = \"b\"\nkind = \"ftp\"\n";

fn starts(text: &str, seed: u64) -> Vec<Span> {
    scenario(text, seed).flows.iter().map(|flow| flow.start.since(Time::ZERO)).collect()
}

#[test]
fn connections_that_say_nothing_of_starts_begin_apart_and_otherwise_with_every_seed() {
    let text = format!("{PAIR}{TWO_DOWNLOADS}");
    let drawn: BTreeSet<Span> = (1..=20).flat_map(|seed| starts(&text, seed)).collect();
    assert_eq!(drawn.len(), 40, "no two alike");
    // A hundredth of the time.
    assert!(
        drawn.last().is_some_and(|last| *last < Span::from_millis(100) && *last > Span::from_millis(80)),
        "{drawn:?}"
    );
    // Half of what nobody sees.
    let warm = format!("warm_up = \"1s\"\n{text}");
    let warm: BTreeSet<Span> = (1..=20).flat_map(|seed| starts(&warm, seed)).collect();
    assert!(
        warm.last().is_some_and(|last| *last < Span::from_millis(500) && *last > Span::from_millis(400)),
        "{warm:?}"
    );
    // A second at most.
    let long = text.replace("\"10s\"", "\"1000s\"");
    assert!((1..=20).flat_map(|seed| starts(&long, seed)).all(|start| start < Span::from_secs(1)));
}

#[test]
fn what_a_file_says_of_starts_holds_and_who_is_alone_begins_at_once() {
    for (told, expected) in [("start = \"20ms\"", [20, 20]), ("spread = \"0s\"", [0, 0]), ("stagger = \"7ms\"", [0, 7])]
    {
        let text = format!("{PAIR}{TWO_DOWNLOADS}{told}\n");
        assert_eq!(starts(&text, 3), expected.map(Span::from_millis), "{told}");
    }
    let alone = format!("{PAIR}{TWO_DOWNLOADS}").replace("count = 2\n", "");
    assert_eq!(starts(&alone, 3), [Span::ZERO]);
    let auto = format!("{PAIR}{TWO_DOWNLOADS}spread = \"auto\"\n");
    assert_eq!(starts(&auto, 3), starts(&format!("{PAIR}{TWO_DOWNLOADS}"), 3));
    // Datagrams have clocks that drift.
    let datagrams = "[[flow]]\nname = \"f#\"\ncount = 2\nfrom = \"a\"\nto = \"b\"\nkind = \"constant\"\nrate = \"1Mbit\"\nsize = \"500B\"\n";
    assert_eq!(starts(&format!("{PAIR}{datagrams}"), 3), [Span::ZERO; 2]);
}

/// Two links in a row of one rate: the first is saturated and clocks what comes to the second, where another flow enters.
fn line(kind: &str) -> String {
    let mut text =
        String::from("duration = \"20s\"\nwarm_up = \"2s\"\n[[node]]\nname = \"n#\"\ncount = 3\nkind = \"router\"\n");
    text +=
        "[[link]]\nname = \"w#\"\ncount = 2\nfrom = \"n#\"\nto = \"n#+1\"\nrate = \"10Mbit\"\nqueue = \"20 packets\"\n";
    for (name, from) in [("through", "n0"), ("cross", "n1")] {
        text += &format!("[[flow]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"n2\"\nkind = \"{kind}\"\n");
        text += "rate = \"20Mbit\"\nsize = \"1000B\"\n";
    }
    text
}

#[test]
fn behind_a_saturated_link_random_gaps_do_not_leave_a_flow_s_share_to_the_seed() {
    for kind in ["constant", "poisson"] {
        let share = |seed| {
            let results = run(&scenario(&line(kind), seed));
            let [through, cross] = [0, 1].map(|flow: usize| results.flows[flow].throughput);
            cross / (through + cross)
        };
        let shares: Vec<f64> = (1..=8).map(share).collect();
        let (least, most) = shares.iter().fold((1.0_f64, 0.0_f64), |(l, m), share| (l.min(*share), m.max(*share)));
        // Before, a Poisson source's share was 0.0 to 0.84 by seed.
        assert!(most - least < 0.05 && (0.5..0.8).contains(&least), "{kind}: {shares:?}");
    }
}

fn rates(scenario: &Scenario) -> Vec<u64> {
    let rate = |link: &fairspan_sim::model::Link| match link.profile.capacity {
        Capacity::Constant(rate) => rate.as_bits_per_sec(),
        _ => panic!("a constant rate"),
    };
    scenario.links.iter().map(rate).collect()
}

#[test]
fn links_clocks_are_off_by_what_is_said_or_drawn_from_the_seed() {
    let text = format!("{PAIR}{TWO_DOWNLOADS}");
    assert_eq!(rates(&scenario(&text, 1)), [10_000_000; 2]);
    // Spans a thousandth longer: 10^7 / 1.001.
    let told = text.replace("delay = \"5ms\"\n", "delay = \"5ms\"\ndrift = \"1000ppm\"\n");
    assert_eq!(rates(&scenario(&told, 1)), [9_990_010; 2]);
    let back =
        text.replace("delay = \"5ms\"\n", "delay = \"5ms\"\ndrift = \"off\"\nreverse = { drift = \"-1000ppm\" }\n");
    assert_eq!(rates(&scenario(&back, 1)), [10_000_000, 10_010_010]);
    let drawn = format!("link_drift = \"100ppm\"\n{text}");
    let found: BTreeSet<u64> = (1..=20).flat_map(|seed| rates(&scenario(&drawn, seed))).collect();
    assert!(found.len() > 38, "both directions have clocks of their own: {found:?}");
    assert!(found.iter().all(|rate| rate.abs_diff(10_000_000) <= 1000), "{found:?}");
    assert!(found.iter().any(|rate| *rate < 9_999_500) && found.iter().any(|rate| *rate > 10_000_500));
    assert_eq!(rates(&scenario(&drawn, 5)), rates(&scenario(&drawn, 5)));
    // What a link is said to carry is what its bond goes by.
    let bond = "[[bond]]\nname = \"x\"\nends = [\"a\", \"b\"]\nlinks = [\"wire\"]\n";
    let bonded = scenario(&format!("{drawn}{bond}"), 5);
    assert_eq!(bonded.bonds[0].config.channels[0].rate.map(|rate| rate.as_bits_per_sec()), Some(10_000_000));
    let unlimited = told.replace("\"10Mbit\"", "\"unlimited\"");
    assert!(with_settings(&unlimited, &[]).is_err_and(|error| error.contains("constant rate")));
}

fn receive(text: &str) -> [Bytes; 2] {
    let scenario = scenario(text, 1);
    let Transport::Tcp(tcp) = &scenario.flows[0].transport else { panic!("TCP") };
    [tcp.receive_buffer, tcp.receive_buffer_maximum]
}

#[test]
fn a_receive_buffer_of_a_size_keeps_it_unless_its_maximum_is_told() {
    let of = |tcp: &str| receive(&format!("{PAIR}{TWO_DOWNLOADS}tcp = {tcp}\n"));
    let kb = |n: u64| Bytes::new(n * 1000);
    assert_eq!(of("{ receive_buffer = \"200kB\" }"), [kb(200), kb(200)]);
    assert_eq!(of("{ preset = \"linux\", receive_buffer = \"200kB\" }"), [kb(200), kb(200)]);
    assert_eq!(of("{ receive_buffer = \"200kB\", receive_buffer_maximum = \"2MB\" }"), [kb(200), kb(2000)]);
    assert_eq!(of("\"linux\""), [Bytes::new(65_536), Bytes::new(3 << 20)]);
    let defaults = format!("{PAIR}{TWO_DOWNLOADS}[defaults.tcp]\nreceive_buffer = \"300kB\"\n");
    assert_eq!(receive(&defaults), [kb(300), kb(300)]);
    // The window then bounds the rate: 200 kB in a round trip of 500 ms.
    let far = format!("{PAIR}{TWO_DOWNLOADS}tcp = {{ receive_buffer = \"200kB\" }}\n").replace("5ms", "250ms");
    let goodput = run(&scenario(&far.replace("count = 2\n", ""), 1)).goodput;
    assert!((2.2e6..3.2e6).contains(&goodput), "{goodput}");
}

const SWEPT: &str = "[[sweep]]\nparameter = \"link.wire.rate\"\nvalues = [\"1Mbit\", \"2Mbit\"]\n[[plot]]\nx = \"link.wire.rate\"\n\
                     y = \"goodput\"\n[[expect]]\nmetric = \"goodput\"\nleast = \"1bit\"\nat = { \"link.wire.rate\" = \"1Mbit\" }\n";

fn points(file: &File) -> Vec<Vec<String>> {
    let values = |run: Result<fairspan_sim::scenario::Run, Vec<ReadError>>| {
        run.unwrap_or_else(|errors| panic!("{}", show(&errors)))
            .parameters
            .into_iter()
            .map(|(_, value)| value)
            .collect()
    };
    file.runs().map(values).collect()
}

#[test]
fn a_swept_key_set_from_outside_has_that_value_and_no_other() {
    let text = format!("{PAIR}{TWO_DOWNLOADS}{SWEPT}");
    assert_eq!(points(&file(&text)), [["1Mbit"], ["2Mbit"]]);
    // Whichever way it is spelt, and whether the sweep has the value or not.
    for (key, value) in [("link.wire.rate", "2Mbit"), ("link.0.rate", "3Mbit"), ("link.0.rate", "1Mbit")] {
        let file = with_settings(&text, &[(key, value)]).unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(points(&file), [[value]]);
        let run = file.run(0).expect("a run").expect("it builds");
        assert!(rates(&run.scenario).iter().all(|rate| format!("{}Mbit", rate / 1_000_000) == value));
        assert_eq!(file.settings(), [(key.to_owned(), value.to_owned())]);
    }
    let mut later = file(&text);
    later.set("link.wire.rate", "5Mbit", &mut no_files).unwrap_or_else(|errors| panic!("{}", show(&errors)));
    later.set("link.wire.rate", "6Mbit", &mut no_files).unwrap_or_else(|errors| panic!("{}", show(&errors)));
    assert_eq!(points(&later), [["6Mbit"]]);
    let within = with_settings(&text.replace("link.wire.rate", "link.wire"), &[("link.wire.rate", "2Mbit")]);
    assert!(within.is_err_and(|error| error.contains("is swept, which replaces all that is in it")));
}

#[test]
fn of_keys_swept_together_one_that_is_set_chooses_the_points() {
    let sweep = "[[sweep]]\nparameter = [\"link.wire.rate\", \"link.wire.delay\"]\n\
                 values = [[\"1Mbit\", \"1ms\"], [\"2Mbit\", \"1ms\"], [\"2Mbit\", \"9ms\"]]\n";
    let text = format!("{PAIR}{TWO_DOWNLOADS}{sweep}");
    let chosen = with_settings(&text, &[("link.wire.rate", "2Mbit")]).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(points(&chosen), [["2Mbit", "1ms"], ["2Mbit", "9ms"]]);
    let error = with_settings(&text, &[("link.wire.rate", "3Mbit")]).expect_err("no such point");
    assert!(error.contains("swept together with `link.wire.delay`") && error.contains("1Mbit, 2Mbit"), "{error}");
}

#[test]
fn via_a_link_s_direction_back_goes_that_way() {
    let mut text = String::from(
        "duration = \"1s\"\n[[node]]\nname = [\"a\", \"b\"]\n[[node]]\nname = [\"m\", \"p\", \"q\"]\nkind = \"router\"\n",
    );
    for (name, from, to) in
        [("ap", "a", "p"), ("am", "a", "m"), ("mq", "m", "q"), ("w", "p", "q"), ("bp", "b", "p"), ("bq", "b", "q")]
    {
        text += &format!(
            "[[link]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\nrate = \"1Mbit\"\ndelay = \"1ms\"\n"
        );
    }
    text += "[[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\nkind = \"ftp\"\n";
    let path = |via: &str| {
        let scenario = scenario(&format!("{text}via = [\"{via}\"]\n"), 1);
        let name = |hop: &Hop| match hop {
            Hop::Link(number) => scenario.links[*number as usize].name.clone(),
            _ => panic!("links only"),
        };
        scenario.flows[0].path.iter().map(name).collect::<Vec<String>>()
    };
    assert_eq!(path("w/back"), ["am", "mq", "w/back", "bp/back"]);
    // Without a direction it is whichever is nearer.
    assert_eq!(path("w"), ["ap", "w", "bq/back"]);
}

#[test]
fn jain_s_index_of_nothing_is_no_number_and_meets_no_expectation() {
    let dead = PAIR.replace("delay = \"5ms\"\n", "delay = \"5ms\"\nloss = \"100%\"\n");
    let text = format!("{dead}{TWO_DOWNLOADS}[[expect]]\nmetric = \"jain\"\nleast = 0.5\n");
    let results = run(&scenario(&text, 1));
    assert_eq!((results.jain, results.goodput), (None, 0.0));
    let file = file(&text);
    let outcome = file.expectations()[0].evaluate(std::iter::once((&[][..], &results))).expect("it is there");
    assert!(outcome.is_some_and(|outcome| !outcome.holds && outcome.ours.is_nan()));
    assert!(run(&scenario(&format!("{PAIR}{TWO_DOWNLOADS}"), 1)).jain.is_some_and(|jain| jain > 0.5));
}

#[test]
fn percentiles_have_their_names_in_a_document() {
    let results = run(&scenario(&format!("{PAIR}{TWO_DOWNLOADS}[metrics]\ndelay = true\n"), 1));
    let document = serde_json::to_value(&results.flows[0].delay).expect("JSON");
    let names: BTreeSet<&str> =
        document["percentiles"].as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(names, BTreeSet::from(["p50", "p90", "p99", "p99.9"]));
    assert!(document["percentiles"]["p50"].as_f64() <= document["percentiles"]["p99.9"].as_f64());
}

#[test]
fn plots_over_time_and_of_distributions_are_read_and_their_names_checked() {
    let base = format!("{PAIR}{TWO_DOWNLOADS}[metrics]\nseries = \"100ms\"\ndelay = true\n");
    let plots = file(&format!(
        "{base}[[plot]]\nx = \"time\"\ny = \"flow.*.window\"\n[[plot]]\nkind = \"cdf\"\ny = [\"flow.*.delay\", \"flow.*.jitter\"]\n"
    ));
    let results = run(&plots.run(0).expect("a run").expect("it builds").scenario);
    let [time, cdf] = plots.plots() else { panic!("two plots") };
    let Content::Time(lines) = &time.content else { panic!("over time") };
    assert_eq!(results.series.iter().filter(|series| lines[0].1.is(series)).count(), 2);
    let Content::Distribution(lines) = &cdf.content else { panic!("a distribution") };
    let samples = lines[0].1.samples(&results).expect("delays");
    let received: u64 = results.flows.iter().map(|flow| flow.received).sum();
    assert_eq!(samples.iter().map(|sample| sample.1).sum::<u64>(), received);
    let refused = |text: &str| with_settings(text, &[]).expect_err("refused");
    assert!(refused(&format!("{base}[[plot]]\nx = \"time\"\ny = \"flow.f0.windows\"\n")).contains("flow.f0.window`"));
    let without = base.replace("series = \"100ms\"\n", "");
    assert!(
        refused(&format!("{without}[[plot]]\nx = \"time\"\ny = \"flow.f0.window\"\n"))
            .contains("`series` in [metrics]")
    );
    let delays = base.replace("delay = true\n", "");
    assert!(refused(&format!("{delays}[[plot]]\nkind = \"cdf\"\ny = \"flow.*.delay\"\n")).contains("delay = true"));
    assert!(
        refused(&format!("{base}[[plot]]\nkind = \"cdf\"\nx = \"time\"\ny = \"flow.*.delay\"\n"))
            .contains("leave `x` out")
    );
}
