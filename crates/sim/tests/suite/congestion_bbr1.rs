//! BBR version 1 over links: what it is known for, and what it does that version 3 does not.

use crate::congestion_bbr::{ALL, downloads, over};

const VERSION_1: &str = r#"{ preset = "linux", congestion = "bbr1", receive_buffer = "8MB" }"#;
const VERSION_3: &str = r#"{ preset = "linux", congestion = "bbr", receive_buffer = "8MB" }"#;
const CUBIC: &str = r#"{ preset = "linux", receive_buffer = "8MB" }"#;

#[test]
fn alone_it_fills_a_link_and_keeps_its_queue_short_however_long_it_may_be() {
    let alone = downloads("rate = \"100Mbit\"\nqueue = \"2MB\"", &[VERSION_1], "40s");
    assert!(alone.goodput > 0.93 * ALL, "{}", alone.goodput);
    assert!(alone.links[0].queue_mean < 100_000.0, "a fifth of the 500 kB under way: {}", alone.links[0].queue_mean);
    assert_eq!(alone.flows[0].dropped, 0);
}

#[test]
fn losses_by_chance_do_not_slow_it_down_where_version_3_gives_way() {
    let lossy = |law| {
        let link = "rate = \"100Mbit\"\nqueue = \"500kB\"\nreverse = { loss = 0 }\nloss = \"5%\"";
        downloads(link, &[law], "40s").goodput
    };
    let [first, third] = [VERSION_1, VERSION_3].map(lossy);
    assert!(first > 0.85 * 0.95 * ALL, "{first}");
    assert!(third < 0.9 * first, "{third} and {first}");
}

#[test]
fn where_a_queue_stands_it_sends_four_packets_a_round_trip_for_200_ms_each_ten_seconds() {
    let link = "rate = \"100Mbit\"\nqueue = \"2MB\"\n[metrics]\nseries = \"50ms\"";
    let results = downloads(link, &[VERSION_1; 2], "45s");
    let window = results.series.iter().find(|series| series.name == "flow f0 window").expect("asked for");
    // After the first second, in which the connection begins.
    let small = |n: usize| n >= 20 && window.values.get(n).is_some_and(|bytes| *bytes <= 4.0 * 1460.0);
    let begins: Vec<usize> = (2..window.values.len()).filter(|n| small(*n) && !small(n - 1) && !small(n - 2)).collect();
    assert!((3..=4).contains(&begins.len()), "in 45 s: {begins:?}");
    for pair in begins.windows(2) {
        let gap = (pair[1] - pair[0]) as f64 * 0.05;
        assert!((9.9..=11.5).contains(&gap), "{gap} s");
    }
    for begin in begins {
        assert!((begin..begin + 3).all(small) && !small(begin + 12), "from {begin} on");
    }
}

#[test]
fn two_share_a_link_and_beside_cubic_it_has_its_part_of_a_short_queue_and_little_of_a_long_one() {
    let two = downloads("rate = \"100Mbit\"\nqueue = \"1MB\"", &[VERSION_1; 2], "100s");
    assert!(two.jain.is_some_and(|jain| jain > 0.9), "{:?}", two.jain);
    let share = |queue: &str| {
        let results = downloads(&format!("rate = \"100Mbit\"\nqueue = \"{queue}\""), &[VERSION_1, CUBIC], "100s");
        results.flows[0].goodput / results.goodput
    };
    let (short, long) = (share("100kB"), share("8MB"));
    println!("{short:.2} behind a fifth of a round trip, {long:.2} behind 16");
    assert!(short > 0.5 && long < 0.35 && long > 0.0, "{short} and {long}");
}

#[test]
fn what_it_sends_while_it_looks_at_a_short_round_trip_says_nothing_of_the_rate() {
    // 200 ms are twenty rounds, and it remembers the rates of ten.
    let link = "rate = \"100Mbit\"\ndelay = \"5ms\"\nqueue = \"2MB\"\n[metrics]\nseries = \"50ms\"";
    let results = over(link, &[VERSION_1], "45s");
    let series = |name: &str| &results.series.iter().find(|series| series.name == name).expect("asked for").values;
    let (window, brought) = (series("flow f0 window"), series("flow f0 throughput"));
    let small = |n: usize| window[n] <= 4.0 * 1460.0;
    let ends: Vec<usize> = (21..window.len()).filter(|n| small(n - 1) && !small(*n)).collect();
    assert!(ends.len() >= 2, "in 45 s: {ends:?}");
    for end in ends {
        // A round later all comes as it did before.
        assert!(brought[end + 2] > 0.9 * ALL, "{:?}", &brought[end - 6..end + 10]);
    }
}
