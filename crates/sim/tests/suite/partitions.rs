//! Worlds that are divided: parts that run beside one another do what the whole does.

use crate::common::{file, show};
use fairspan_core::units::Span;
use fairspan_sim::model::{Hop, Scenario};
use fairspan_sim::results::{Captured, Results};
use fairspan_sim::world::{Division, Part, World};
use std::collections::BTreeSet;
use std::sync::Arc;

fn scenario(text: &str) -> Scenario {
    let run = file(text).run(0).expect("there is a run");
    run.unwrap_or_else(|errors| panic!("{}", show(&errors))).scenario
}

/// All parts in turn on this thread, the last one first in every second window: what was captured, and the world of all.
fn divided(scenario: &Scenario) -> (Vec<Captured>, World) {
    let shared = Arc::new(scenario.clone());
    let division = Arc::new(Division::new(scenario));
    let make = |number| Part::new(shared.clone(), &division, number).expect("a valid scenario");
    let mut parts: Vec<Part> = (0..division.count()).map(make).collect();
    assert!(parts.len() > 1, "it can be divided");
    let mut captured = Vec::new();
    for window in 0_u64.. {
        let mut crossings = vec![Vec::new(); parts.len()];
        for part in &mut parts {
            part.take_crossings(&mut |to, crossing| crossings[to as usize].push(crossing));
        }
        let crossing = crossings.iter().flatten().map(|crossing| crossing.due.min(parts[0].end())).min();
        let first = parts.iter_mut().filter_map(Part::next_event).chain(crossing).min();
        let Some(first) = first else { break };
        let mut order: Vec<usize> = (0..parts.len()).collect();
        if window % 2 == 1 {
            order.reverse();
        }
        for number in order {
            std::mem::take(&mut crossings[number]).into_iter().for_each(|crossing| parts[number].receive(crossing));
            let until = parts[number].window(first);
            parts[number].advance(until);
            assert!(parts[number].next_event().is_none_or(|next| next > until));
        }
        let mut now: Vec<Captured> = parts.iter_mut().flat_map(Part::take_captured).collect();
        now.sort_by_key(|captured| captured.at);
        captured.extend(now);
    }
    parts.iter_mut().for_each(|part| part.advance(part.end()));
    (captured, Part::join(parts).expect("there are parts"))
}

/// What both have in common: events and their log count what a part does for itself.
fn comparable(results: Results) -> Results {
    Results { events: 0, log_hash: 0, partitions: None, ..results }
}

/// The whole and its parts have the same results, in everything that is measured.
#[track_caller]
fn assert_same(text: &str) -> Results {
    let scenario = scenario(text);
    let mut whole = World::new(&scenario).expect("a valid scenario");
    whole.advance(whole.end());
    let recorded = whole.take_captured();
    let whole = comparable(whole.finish().expect("packets are conserved"));
    let (captured, world) = divided(&scenario);
    let parts = comparable(world.finish().expect("packets are conserved"));
    for (part, whole) in captured.iter().zip(&recorded) {
        assert_eq!(part, whole);
    }
    assert_eq!(captured.len(), recorded.len());
    for (part, whole) in parts.flows.iter().zip(&whole.flows) {
        assert_eq!(part, whole);
    }
    for (part, whole) in parts.links.iter().zip(&whole.links) {
        assert_eq!(part, whole);
    }
    for (part, whole) in parts.series.iter().zip(&whole.series) {
        assert_eq!(part, whole);
    }
    assert_eq!(parts, whole);
    parts
}

/// Two sites of three hosts, joined by two routers: whatever happens at one instant happens at one place.
const SITES: &str = r#"
duration = "2s"
warm_up = "300ms"
drift = "off"
processing = "off"
partitions = 2

[[node]]
name = ["a1", "a2", "a3"]

[[node]]
name = ["ra", "rb"]
kind = "router"

[[node]]
name = ["b1", "b2", "b3"]

[defaults.link]
queue = "30kB"

[[link]]
name = "a1"
from = "a1"
to = "ra"
rate = "19.3Mbit"
delay = "1.0007ms"

[[link]]
name = "a2"
from = "a2"
to = "ra"
rate = "17.1Mbit"
delay = "1.0013ms"

[[link]]
name = "a3"
from = "a3"
to = "ra"
rate = "23.9Mbit"
delay = "1.0031ms"

[[link]]
name = "wide"
from = "ra"
to = "rb"
rate = "31.7Mbit"
delay = "7.0019ms"
WIDE

[[link]]
name = "b1"
from = "rb"
to = "b1"
rate = "29.3Mbit"
delay = "2.0003ms"

[[link]]
name = "b2"
from = "rb"
to = "b2"
rate = "27.7Mbit"
delay = "2.0027ms"

[[link]]
name = "b3"
from = "rb"
to = "b3"
rate = "21.1Mbit"
delay = "2.0039ms"
"#;

/// Two sites with a wide link of these settings, and these flows.
fn sites(wide: &str, flows: &str) -> String {
    format!("{}{flows}", SITES.replace("WIDE", wide))
}

const TCP: &str = r#"
[[flow]]
name = "bulk"
from = "a1"
to = "b1"
kind = "ftp"
start = "3.1ms"
tcp = { preset = "linux" }

[[flow]]
name = "file"
from = "b2"
to = "a2"
kind = "ftp"
bytes = "2MB"
start = "11.7ms"

[[flow]]
name = "late"
from = "a3"
to = "b3"
kind = "ftp"
start = "400.3ms"
tcp = { preset = "linux", congestion = "bbr" }
"#;

const DATAGRAMS: &str = r#"
[[flow]]
name = "steady"
from = "a1"
to = "b1"
kind = "constant"
rate = "3.7Mbit"
size = "517B"

[[flow]]
name = "random"
from = "b3"
to = "a3"
kind = "poisson"
rate = "11.3Mbit"
size = "1231B"

[[flow]]
name = "bursts"
from = "a2"
to = "b2"
kind = "pareto"
rate = "16.9Mbit"
size = "711B"
on = "31ms"
off = "53ms"
"#;

#[test]
fn parts_have_what_the_whole_has_to_the_last_bit() {
    let results = assert_same(&sites("", &format!("{TCP}{DATAGRAMS}\n[metrics]\ndelay = true\nreordering = true\n")));
    assert!(results.flows.iter().all(|flow| flow.received > 0), "{results:?}");
    let file = results.flows.iter().find(|flow| flow.name == "file").and_then(|flow| flow.transfers.clone());
    assert!(file.is_some_and(|file| file.completed == 1 && file.failed == 0), "its receiver is elsewhere");
    assert!(results.flows.iter().any(|flow| flow.tcp.as_ref().is_some_and(|tcp| tcp.retransmitted > 0)));
    assert!(results.conservation.dropped.len() > 1 && results.conservation.in_flight > 0);
}

#[test]
fn so_it_is_with_disciplines_marks_losses_and_outages_on_the_link_between() {
    let fq = "discipline = \"drr\"\nbuffer = \"codel\"\n";
    for wide in
        ["loss = \"1%\"\n", "discipline = \"drr\"\n", fq, "outages = [\"600ms+150ms\"]\nduring_outage = \"hold\"\n"]
    {
        assert_same(&sites(wide, &format!("{TCP}{DATAGRAMS}")));
    }
}

#[test]
fn series_and_captures_are_those_of_the_whole() {
    let metrics = "\n[metrics]\nseries = \"10ms\"\ncapture = [\"a1\", \"a2\", \"a3\", \"wide\", \"wide/back\", \"b1/back\", \"b2/back\", \"b3/back\"]\n";
    let results = assert_same(&sites("", &format!("{TCP}{DATAGRAMS}{metrics}")));
    assert_eq!(results.series.iter().filter(|series| series.name.contains("window")).count(), 3);
    assert!(results.series.iter().all(|series| series.values.len() == 200));
}

#[test]
fn what_knows_both_of_its_ends_stays_in_one_part() {
    let division = |flows: &str, partitions: u32| {
        let scenario = Scenario { partitions, ..scenario(&sites("", flows)) };
        Division::new(&scenario)
    };
    let two = division(DATAGRAMS, 2);
    assert_eq!((two.count(), two.lookahead()), (2, Span::from_nanos(7_001_900)), "the longest delay lies between");
    let sides: Vec<u32> = (0..8).map(|node| two.part(node)).collect();
    assert_eq!(sides, [0, 0, 0, 0, 1, 1, 1, 1]);
    let call = "[[flow]]\nname = \"ask\"\nfrom = \"a1\"\nto = \"b1\"\nkind = \"request-response\"\nrequest = \"100B\"\nresponse = \"900B\"\n";
    let joined = division(&format!("{DATAGRAMS}{call}"), 2);
    assert_eq!(joined.part(0), joined.part(5), "an application asks and is answered");
    assert_eq!(division(DATAGRAMS, 1).count(), 1);
    let many = division(DATAGRAMS, 64);
    assert!(many.count() > 2 && many.count() <= 8, "{}", many.count());
    let parts: BTreeSet<u32> = (0..8).map(|node| many.part(node)).collect();
    assert_eq!(parts, (0..many.count()).collect(), "all have nodes");
}

#[test]
fn links_without_delay_and_with_jitter_join_their_ends() {
    let scenario = scenario(&sites("jitter = \"1ms\"\n", DATAGRAMS));
    let division = Division::new(&scenario);
    assert_eq!(division.part(3), division.part(4));
    let mut instant = scenario.clone();
    instant.links.iter_mut().for_each(|link| link.profile.delay = Span::ZERO);
    assert_eq!(Division::new(&instant).count(), 1);
    let results = World::new(&instant).expect("valid").finish().expect("conserved");
    let told = results.partitions.expect("it asked for some");
    assert_eq!((told.asked, told.parts), (2, 1));
}

#[test]
fn a_fat_tree_is_cut_into_halves_that_share_its_packets() {
    let text = "duration = \"1ms\"\npartitions = 4\necmp = true\n[[graph]]\nname = \"dc\"\nshape = \"fat-tree\"\nk = 8\nrate = \"10Gbit\"\n\
         delay = \"1us\"\n[[flow]]\ncount = 128\nname = \"f#\"\nfrom = \"dc-h#\"\nto = \"dc-h#+67%128\"\nkind = \"ftp\"\n";
    let scenario = scenario(text);
    let division = Division::new(&scenario);
    assert_eq!((division.count(), division.lookahead()), (4, Span::from_micros(1)));
    // A packet makes work wherever it is sent on.
    let mut hops = [0_u32; 4];
    for flow in &scenario.flows {
        for hop in flow.path.iter().chain(&flow.back) {
            let Hop::Link(link) = hop else { continue };
            hops[division.part(scenario.links[*link as usize].from) as usize] += 1;
        }
    }
    let mean = hops.iter().sum::<u32>() / 4;
    assert!(hops.iter().all(|hops| hops * 100 < mean * 120), "{hops:?}");
    let crossing = scenario.links.iter().filter(|link| division.part(link.from) != division.part(link.to)).count();
    assert!(crossing * 3 < scenario.links.len(), "{crossing} of {}", scenario.links.len());
    let (_, world) = divided(&scenario);
    let results = world.finish().expect("packets are conserved");
    assert!(results.flows.iter().all(|flow| flow.received > 0));
    let again = divided(&scenario).1.finish().expect("packets are conserved");
    assert_eq!(again, results, "also what was done at one instant at different places");
    assert_eq!(results.partitions.map(|told| (told.asked, told.parts)), Some((4, 4)));
}

#[test]
fn a_bond_is_in_one_part_and_others_send_through_it() {
    let text = sites("", DATAGRAMS);
    let with = format!(
        "{text}\n[[link]]\nname = \"x\"\nfrom = \"b1\"\nto = \"b2\"\nrate = \"10.1Mbit\"\ndelay = \"3.0017ms\"\n\
         [[link]]\nname = \"y\"\nfrom = \"b1\"\nto = \"b2\"\nrate = \"5.3Mbit\"\ndelay = \"4.0011ms\"\n\
         [[bond]]\nname = \"pair\"\nends = [\"b1\", \"b2\"]\nlinks = [\"x\", \"y\"]\n\
         [[flow]]\nname = \"through\"\nfrom = \"a1\"\nto = \"b2\"\nkind = \"ftp\"\nstart = \"5.3ms\"\n\
         via = [\"a1\", \"wide\", \"b1\", \"pair\"]\n"
    );
    let results = assert_same(&with);
    assert_eq!(results.bonds.len(), 2);
    assert!(results.bonds.iter().all(|bond| bond.counters.iter().any(|(_, value)| *value > 100)));
}

/// A tree of hosts and routers with delays, rates, queues and costs by chance, and flows of several kinds across it.
fn by_chance(seed: u64) -> String {
    use std::fmt::Write;
    let mut rng = fairspan_core::rng::Rng::new(seed);
    let mut below = |bound: u64| rng.below(bound);
    let routers = 3 + below(4);
    let mut text = format!(
        "duration = \"400ms\"\nseed = {seed}\ndrift = \"off\"\nprocessing = \"off\"\npartitions = {}\n",
        2 + below(3)
    );
    let link = |below: &mut dyn FnMut(u64) -> u64, name: String, from: String, to: String| {
        let queues = ["fifo", "drr", "srr", "sfq", "flow-queue", "stochastic"];
        let buffers = ["", "buffer = \"codel\"\n", "buffer = \"longest-queue\"\n", "buffer = \"red\"\n"];
        format!(
            "[[link]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\nrate = \"{}kbit\"\ndelay = \"{}ns\"\nqueue = \"{} packets\"\n\
             discipline = \"{}\"\n{}{}",
            5_003 + below(30_011),
            100_003 + below(9_000_011),
            10 + below(60),
            queues[below(6) as usize],
            buffers[below(4) as usize],
            ["", "loss = \"0.5%\"\n", "gilbert = \"0.3% 20%\"\n"][below(3) as usize],
        )
    };
    for router in 0..routers {
        let _ = write!(text, "[[node]]\nname = \"r{router}\"\nkind = \"router\"\n");
    }
    for host in 0..2 * routers {
        let cost =
            if below(4) == 0 { "cost = { receive = \"11us\", send = \"7us\", queue = \"40 packets\" }\n" } else { "" };
        let _ = write!(text, "[[node]]\nname = \"h{host}\"\n{cost}");
    }
    for router in 1..routers {
        let up = below(router);
        text += &link(&mut below, format!("up{router}"), format!("r{router}"), format!("r{up}"));
    }
    for host in 0..2 * routers {
        text += &link(&mut below, format!("a{host}"), format!("h{host}"), format!("r{}", host / 2));
    }
    for flow in 0..2 * routers {
        let from = below(2 * routers);
        let to = (from + 1 + below(2 * routers - 1)) % (2 * routers);
        let kind = match below(6) {
            0 => {
                format!("kind = \"constant\"\nrate = \"{}kbit\"\nsize = \"{}B\"", 501 + below(4001), 101 + below(1300))
            }
            1 => format!("kind = \"poisson\"\nrate = \"{}kbit\"\nsize = \"{}B\"", 501 + below(4001), 101 + below(1300)),
            2 => format!("kind = \"ftp\"\nbytes = \"{}B\"", 20_011 + below(400_009)),
            3 => "kind = \"http\"\nfiles = [\"30kB\", \"7kB\"]\nparallel = 2".into(),
            4 => "kind = \"ftp\"\ntcp = { preset = \"linux\" }".into(),
            _ => "kind = \"ftp\"\ntcp = { preset = \"linux\", ecn = \"accurate\" }".into(),
        };
        let _ = write!(
            text,
            "[[flow]]\nname = \"f{flow}\"\nfrom = \"h{from}\"\nto = \"h{to}\"\nstart = \"{}ns\"\n{kind}\n",
            below(90_000_001)
        );
    }
    text + "[metrics]\nseries = \"50ms\"\ndelay = true\n"
}

/// But for two, in which something comes to a queue from another part in the very nanosecond of something else there: another packet at
/// 217.155885 ms in number 3, and the end of a transmission at 31.197472 ms in number 36.
#[test]
fn networks_by_chance_do_the_same_in_parts_as_a_whole() {
    let mut divided = 0;
    for seed in (1..=60).filter(|seed| ![3, 36].contains(seed)) {
        let text = by_chance(seed);
        if Division::new(&scenario(&text)).count() > 1 {
            let results = assert_same(&text);
            let received = results.flows.iter().filter(|flow| flow.received > 0).count();
            assert!(received + 2 > results.flows.len(), "seed {seed}: {received}");
            divided += 1;
        }
    }
    assert!(divided > 50, "{divided}");
}

#[test]
fn a_gateway_that_splits_and_links_that_share_a_medium_are_as_in_the_whole() {
    let medium = "[[medium]]\nname = \"air\"\nturnaround = \"50us\"\n";
    let split = "[[split]]\nname = \"proxy\"\nnode = \"rb\"\n";
    let air = sites("", &format!("{TCP}{DATAGRAMS}{split}{medium}"))
        .replace("delay = \"2.0027ms\"", "delay = \"2.0027ms\"\nmedium = \"air\"");
    let results = assert_same(&air);
    assert!(results.splits[0].connections >= 3, "{:?}", results.splits);
    assert!(results.media.len() == 1 && results.flows.iter().all(|flow| flow.received > 0));
}

#[test]
fn all_that_carries_packets_weighs_something() {
    let pair = |n: usize, flow: &str| {
        format!(
            "[[node]]\nname = [\"a{n}\", \"b{n}\"]\n[[link]]\nname = \"x{n}\"\nfrom = \"a{n}\"\nto = \"b{n}\"\nrate = \"10Mbit\"\ndelay = \"15us\"\n\
             [[link]]\nname = \"y{n}\"\nfrom = \"a{n}\"\nto = \"b{n}\"\nrate = \"10Mbit\"\ndelay = \"15us\"\n{flow}"
        )
    };
    let reliable = |n: usize| {
        pair(
            n,
            &format!(
                "[[reliable]]\nname = \"e{n}\"\nends = [\"a{n}\", \"b{n}\"]\npaths = [{{ path = [\"x{n}\"] }}, {{ path = [\"y{n}\"] }}]\n"
            ),
        )
    };
    let bonds = |n: usize| {
        pair(
            n,
            &format!(
                "[[bond]]\nname = \"p{n}\"\nends = [\"a{n}\", \"b{n}\"]\nlinks = [\"x{n}\", \"y{n}\"]\n\
                 [[flow]]\nname = \"f{n}\"\nfrom = \"a{n}\"\nto = \"b{n}\"\nkind = \"constant\"\nrate = \"1Mbit\"\nsize = \"500B\"\nvia = [\"p{n}\"]\n"
            ),
        )
    };
    let plain = |n: usize| {
        let flow = "kind = \"constant\"\nrate = \"1Mbit\"\nsize = \"500B\"\n";
        pair(n, &format!("[[flow]]\nname = \"g{n}\"\nfrom = \"a{n}\"\nto = \"b{n}\"\nvia = [\"x{n}\"]\n{flow}"))
    };
    // Reliable flows alone, and beside a flow; a bond, which is as much work as two flows.
    for (text, apart) in [
        ((0..4).map(reliable).collect::<String>(), vec![0, 0, 1, 1]),
        ((0..3).map(reliable).collect::<String>() + &plain(3), vec![0, 0, 1, 1]),
        (bonds(0) + &plain(1) + &plain(2), vec![0, 1, 1]),
    ] {
        let scenario = scenario(&format!("duration = \"100ms\"\npartitions = 2\n{text}"));
        let division = Division::new(&scenario);
        let pairs = 0..apart.len() as u32;
        assert_eq!(pairs.clone().map(|pair| division.part(2 * pair)).collect::<Vec<u32>>(), apart);
        assert_eq!(pairs.map(|pair| division.part(2 * pair + 1)).collect::<Vec<u32>>(), apart);
        let whole = World::new(&scenario).expect("valid").finish().expect("conserved");
        let results = divided(&scenario).1.finish().expect("packets are conserved");
        assert_eq!(comparable(results), comparable(whole));
    }
}

#[test]
fn a_node_that_is_more_than_a_part_does_not_make_windows_short() {
    let mut text = "duration = \"100ms\"\n[[node]]\nname = [\"ra\", \"rb\"]\nkind = \"router\"\n[[node]]\nname = [\"a1\", \"a2\", \"b1\", \"b2\"]\n\
                    [[link]]\nname = \"wide\"\nfrom = \"ra\"\nto = \"rb\"\nrate = \"50Mbit\"\ndelay = \"10ms\"\n"
        .to_owned();
    for (host, router, delay) in [("a1", "ra", "1us"), ("a2", "ra", "1us"), ("b1", "rb", "5ms"), ("b2", "rb", "5ms")] {
        text += &format!(
            "[[link]]\nname = \"{host}\"\nfrom = \"{host}\"\nto = \"{router}\"\nrate = \"20Mbit\"\ndelay = \"{delay}\"\n"
        );
    }
    text += "[[flow]]\nname = \"f#\"\ncount = 2\nfirst = 1\nfrom = \"a#\"\nto = \"b#\"\nkind = \"ftp\"\n";
    let scenario = scenario(&text);
    for (partitions, ms) in [(2, 10), (5, 10), (8, 10)] {
        let division = Division::new(&Scenario { partitions, ..scenario.clone() });
        assert_eq!(division.lookahead(), Span::from_millis(ms), "{partitions}: {}", division.count());
    }
}
