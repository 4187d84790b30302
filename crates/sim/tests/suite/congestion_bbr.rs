//! BBR over links, alone and beside others.

use fairspan_sim::results::Results;
use fairspan_sim::scenario::File;
use fairspan_sim::world::World;

/// The window must not be what limits 100 Mbit/s over 40 ms.
const BBR: &str = r#"{ preset = "linux", congestion = "bbr", receive_buffer = "8MB" }"#;
const CUBIC: &str = r#"{ preset = "linux", receive_buffer = "8MB" }"#;

/// Downloads over one link of 40 ms there and back, each with its settings of TCP.
pub(crate) fn downloads(link: &str, flows: &[&str], duration: &str) -> Results {
    over(&format!("delay = \"20ms\"\n{link}"), flows, duration)
}

/// The same over a link whose delay is among the settings.
pub(crate) fn over(link: &str, flows: &[&str], duration: &str) -> Results {
    let mut text = format!("duration = \"{duration}\"\nwarm_up = \"10s\"\n[[node]]\nname = [\"a\", \"b\"]\n");
    text += &format!("[[link]]\nname = \"wire\"\nfrom = \"a\"\nto = \"b\"\n{link}\n");
    for (number, tcp) in flows.iter().enumerate() {
        text += &format!("[[flow]]\nname = \"f{number}\"\nfrom = \"a\"\nto = \"b\"\nkind = \"ftp\"\ntcp = {tcp}\n");
    }
    let mut files = |name: &str| Err(format!("no file {name}"));
    let file = File::parse("bbr.toml", &text, &mut files).unwrap_or_else(|errors| panic!("{errors:#?}"));
    let run = file.run(0).expect("a run").unwrap_or_else(|errors| panic!("{errors:#?}"));
    World::new(&run.scenario).and_then(World::finish).unwrap_or_else(|error| panic!("{error}"))
}

/// The product of rate and round trip: 500 kB.
const PIPE: f64 = 500_000.0;
/// What of 100 Mbit/s is payload, with timestamps.
pub(crate) const ALL: f64 = 96.5e6 * 1448.0 / 1460.0;

#[test]
fn bbr_carries_four_fifths_of_a_link_that_loses_one_packet_in_two_hundred_and_cubic_much_less() {
    let clean = downloads("rate = \"100Mbit\"\nqueue = \"500kB\"", &[BBR], "40s");
    assert!(clean.goodput > 0.93 * ALL, "{}", clean.goodput);
    let lossy =
        downloads("rate = \"100Mbit\"\nqueue = \"500kB\"\nreverse = { loss = 0 }\nloss = \"0.5%\"", &[BBR], "40s");
    assert!(lossy.goodput > 0.8 * ALL, "{}", lossy.goodput);
    // What losses by chance do to a law that takes each for congestion.
    let cubic =
        downloads("rate = \"100Mbit\"\nqueue = \"500kB\"\nreverse = { loss = 0 }\nloss = \"0.5%\"", &[CUBIC], "40s");
    assert!(cubic.goodput < 0.3 * lossy.goodput, "{}", cubic.goodput);
}

#[test]
fn bbr_alone_keeps_the_queue_short_however_long_it_may_be() {
    let bbr = downloads("rate = \"100Mbit\"\nqueue = \"2MB\"", &[BBR], "40s");
    let cubic = downloads("rate = \"100Mbit\"\nqueue = \"2MB\"", &[CUBIC], "40s");
    let queue = bbr.links[0].queue_mean;
    assert!(queue < 0.15 * PIPE, "{queue}");
    assert!(cubic.links[0].queue_mean > 5.0 * queue, "{} and {queue}", cubic.links[0].queue_mean);
    assert_eq!(bbr.flows[0].dropped, 0);
}

#[test]
fn two_flows_of_bbr_share_a_link_and_leave_most_of_its_queue_empty() {
    let two = downloads("rate = \"100Mbit\"\nqueue = \"1MB\"", &[BBR; 2], "100s");
    assert!(two.jain.is_some_and(|jain| jain > 0.95), "{:?}", two.jain);
    assert!(two.goodput > 0.93 * ALL, "{}", two.goodput);
    assert!(two.links[0].queue_mean < PIPE, "{}", two.links[0].queue_mean);
}

#[test]
fn beside_cubic_both_get_something_in_deep_and_in_shallow_buffers() {
    // In a deep queue, CUBIC's standing queue is more than BBR's model allows; in a shallow one CUBIC's losses are more often.
    for (queue, least, most) in [("150kB", 0.3, 0.95), ("500kB", 0.2, 0.85), ("2MB", 0.05, 0.7)] {
        let beside = downloads(&format!("rate = \"100Mbit\"\nqueue = \"{queue}\""), &[BBR, CUBIC], "100s");
        let share = beside.flows[0].goodput / beside.goodput;
        assert!((least..most).contains(&share), "{queue}: {share}");
        assert!(beside.goodput > 0.9 * ALL, "{queue}: {}", beside.goodput);
    }
}

#[test]
fn in_a_buffer_of_a_tenth_of_the_path_bbr_loses_little_and_goes_on() {
    let shallow = downloads("rate = \"100Mbit\"\nqueue = \"50kB\"", &[BBR], "40s");
    let flow = &shallow.flows[0];
    assert!(flow.dropped as f64 / (flow.sent as f64) < 0.01, "{} of {}", flow.dropped, flow.sent);
    assert!(shallow.goodput > 0.8 * ALL, "{}", shallow.goodput);
}

#[test]
fn where_a_queue_marks_bbr_is_bounded_by_marks_as_it_is_by_losses() {
    let link = "rate = \"100Mbit\"\nqueue = \"1MB\"\nbuffer = \"early-random:threshold=0.05,probability=1\"";
    let marks = r#"{ preset = "linux", congestion = "bbr", receive_buffer = "8MB", ecn = "accurate" }"#;
    let marked = downloads(link, &[marks; 2], "40s");
    assert_eq!(marked.flows.iter().map(|flow| flow.dropped).sum::<u64>(), 0);
    assert!(marked.goodput > 0.85 * ALL, "{}", marked.goodput);
    let without = downloads("rate = \"100Mbit\"\nqueue = \"1MB\"", &[BBR; 2], "40s");
    let queues = [marked.links[0].queue_mean, without.links[0].queue_mean];
    assert!(queues[0] < 0.7 * queues[1], "{queues:?}");
}
