//! Laws of congestion control over links: what each is for, beside what it is compared with.

use fairspan_sim::results::Results;
use fairspan_sim::scenario::File;
use fairspan_sim::world::World;

/// Downloads over one link, each with its settings of TCP.
fn downloads(link: &str, flows: &[&str], duration: &str) -> Results {
    let mut text = format!("duration = \"{duration}\"\nwarm_up = \"10s\"\n[[node]]\nname = [\"a\", \"b\"]\n");
    text += &format!("[[link]]\nname = \"wire\"\nfrom = \"a\"\nto = \"b\"\n{link}\n");
    for (number, tcp) in flows.iter().enumerate() {
        text += &format!("[[flow]]\nname = \"f{number}\"\nfrom = \"a\"\nto = \"b\"\nkind = \"ftp\"\ntcp = {tcp}\n");
    }
    let mut files = |name: &str| Err(format!("no file {name}"));
    let file = File::parse("laws.toml", &text, &mut files).unwrap_or_else(|errors| panic!("{errors:#?}"));
    let run = file.run(0).expect("a run").unwrap_or_else(|errors| panic!("{errors:#?}"));
    World::new(&run.scenario).and_then(World::finish).unwrap_or_else(|error| panic!("{error}"))
}

/// 20 Mbit/s, 40 ms there and back, room for 200 packets: 120 ms.
const DEEP: &str = "rate = \"20Mbit\"\ndelay = \"20ms\"\nqueue = \"200 packets\"";

fn share(results: &Results, flow: usize) -> f64 {
    results.flows[flow].goodput / results.goodput
}

#[test]
fn vegas_fills_a_link_with_a_few_packets_in_its_queue_and_shares_it() {
    let vegas = r#"{ congestion = "vegas" }"#;
    let alone = downloads(DEEP, &[vegas], "40s");
    // Two to four segments of 1500 bytes, and what the queue is between ACKs.
    let queue = alone.links[0].queue_mean;
    assert!(alone.goodput > 0.95 * 19.3e6 && (1_500.0..9_000.0).contains(&queue), "{} {queue}", alone.goodput);
    assert_eq!(alone.flows[0].dropped, 0);
    let reno = downloads(DEEP, &["\"rfc\""], "40s");
    assert!(reno.links[0].queue_mean > 5.0 * queue, "{} {queue}", reno.links[0].queue_mean);
    // Who begins while others overshoot in slow start takes their queue for a part of the path, and more than its share: so short
    // slow starts, to see what the law itself does.
    let four = downloads(DEEP, &[r#"{ congestion = "vegas", initial_threshold = "15000B" }"#; 4], "60s");
    assert!(four.jain.is_some_and(|jain| jain > 0.9), "{:?}", four.jain);
    assert!(four.links[0].queue_mean < 36_000.0, "{}", four.links[0].queue_mean);
}

#[test]
fn vegas_gives_way_to_reno_as_it_is_known_to() {
    let beside = downloads(DEEP, &[r#"{ congestion = "vegas" }"#, "\"rfc\""], "60s");
    assert!(share(&beside, 0) < 0.3, "{}", share(&beside, 0));
}

#[test]
fn ledbat_takes_what_nobody_else_wants_and_no_more() {
    let background = r#"{ congestion = "ledbat++" }"#;
    let alone = downloads(DEEP, &[background], "60s");
    assert!(alone.goodput > 0.8 * 19.3e6, "{}", alone.goodput);
    // 60 ms of 20 Mbit/s are 150 kB.
    assert!((50_000.0..170_000.0).contains(&alone.links[0].queue_mean), "{}", alone.links[0].queue_mean);
    for other in ["\"rfc\"", "\"linux\""] {
        let beside = downloads(DEEP, &[background, other], "60s");
        assert!(share(&beside, 0) < 0.15, "{other}: {}", share(&beside, 0));
        assert!(beside.goodput > 0.9 * 19.3e6, "{other}: {}", beside.goodput);
    }
}

/// 100 Mbit/s and 4 ms there and back; from 20 of 200 packets on, all that arrives is marked.
const STEP: &str = "rate = \"100Mbit\"\ndelay = \"2ms\"\nqueue = \"200 packets\"\nbuffer = \"early-random:threshold=0.1,probability=1\"";

#[test]
fn dctcp_keeps_the_queue_at_the_threshold_without_a_loss() {
    let dctcp = r#"{ congestion = "dctcp", ecn = "dctcp" }"#;
    let two = downloads(STEP, &[dctcp; 2], "14s");
    let queue = two.links[0].queue_mean;
    assert!(two.goodput > 0.95 * 96.5e6, "{}", two.goodput);
    assert!((4_500.0..36_000.0).contains(&queue), "{queue}");
    assert!(
        two.flows.iter().all(|flow| flow.dropped == 0 && flow.tcp.as_ref().is_some_and(|tcp| tcp.retransmitted == 0))
    );
    assert!(two.jain.is_some_and(|jain| jain > 0.9), "{:?}", two.jain);
    // Counts of marks say the same, though ACKs wait.
    let counted = downloads(STEP, &[r#"{ congestion = "dctcp", ecn = "accurate" }"#; 2], "14s");
    assert!(counted.goodput > 0.95 * 96.5e6, "{}", counted.goodput);
    assert!((4_500.0..36_000.0).contains(&counted.links[0].queue_mean), "{}", counted.links[0].queue_mean);
    assert_eq!(counted.flows.iter().map(|flow| flow.dropped).sum::<u64>(), 0);
    // Without marks the same queue drops, and there is nothing for the law to go by but losses.
    let without = downloads(STEP, &["\"rfc\""; 2], "14s");
    assert!(without.flows.iter().any(|flow| flow.dropped > 0));
    assert!(without.goodput < two.goodput, "{} {}", without.goodput, two.goodput);
    // Halving for each window with a mark leaves the queue empty more often: that is what DCTCP is for.
    let halving = downloads(STEP, &[r#"{ ecn = "on" }"#; 2], "14s");
    assert!(halving.links[0].queue_mean < queue, "{} {queue}", halving.links[0].queue_mean);
}

#[test]
fn with_ecn_a_queue_that_marks_drops_nothing_of_reno_and_cubic() {
    let codel = format!("{DEEP}\nbuffer = \"codel\"");
    for (law, flow) in [("reno", "rfc"), ("cubic", "linux")] {
        let marked = downloads(&codel, &[format!("{{ preset = \"{flow}\", ecn = \"on\" }}").as_str(); 2], "30s");
        assert_eq!(marked.flows.iter().map(|flow| flow.dropped).sum::<u64>(), 0, "{law}");
        assert!(marked.goodput > 0.85 * 19.3e6 && marked.links[0].queue_mean < 60_000.0, "{law}: {}", marked.goodput);
        let counted = downloads(&codel, &[format!("{{ preset = \"{flow}\", ecn = \"accurate\" }}").as_str(); 2], "30s");
        assert_eq!(counted.flows.iter().map(|flow| flow.dropped).sum::<u64>(), 0, "{law}");
        assert!((counted.goodput / marked.goodput - 1.0).abs() < 0.1, "{law}: {} {}", counted.goodput, marked.goodput);
        let dropped = downloads(&codel, &[format!("{{ preset = \"{flow}\" }}").as_str(); 2], "30s");
        assert!(dropped.flows.iter().any(|flow| flow.dropped > 0), "{law}");
    }
}

#[test]
fn dctcp_without_each_mark_is_refused() {
    for (ecn, refused) in
        [("", true), (", ecn = \"on\"", true), (", ecn = \"dctcp\"", false), (", ecn = \"accurate\"", false)]
    {
        let text = format!(
            "duration = \"1s\"\n[[node]]\nname = [\"a\", \"b\"]\n[[link]]\nname = \"w\"\nfrom = \"a\"\nto = \"b\"\nrate = \"1Mbit\"\n\
             [[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\nkind = \"ftp\"\ntcp = {{ congestion = \"dctcp\"{ecn} }}\n"
        );
        let errors = File::parse("x", &text, &mut |name: &str| Err(name.to_owned())).err().unwrap_or_default();
        let told = errors.iter().any(|error| error.to_string().contains("set ecn = \"dctcp\" or \"accurate\" too"));
        assert_eq!((told, errors.is_empty()), (refused, !refused), "{ecn}: {errors:?}");
    }
}
