//! Compressed headers under one TCP connection that fills two links.

use crate::common::{bonded, channel, download};
use fairspan_core::bond::{Compression, Config};
use fairspan_core::link::{Limit, Profile};
use fairspan_core::units::{Rate, Span};
use fairspan_sim::results::Results;
use fairspan_sim::world::World;

fn run(compress: Compression) -> Results {
    let mut config = Config::usual();
    config.compress_headers = compress;
    let channels = [(20, 20), (10, 25)].map(|(rate, delay)| {
        let mut settings = channel(58);
        settings.rate = Some(Rate::from_mbit(rate));
        let mut profile = Profile::new(Rate::from_mbit(rate), Span::from_millis(delay));
        profile.queue = Limit::Packets(1000);
        (settings, [profile.clone(), profile])
    });
    let mut scenario = bonded(config, channels);
    (scenario.duration, scenario.warm_up) = (Span::from_secs(20), Span::from_secs(8));
    scenario.flows.push(download([1_000, 20_000]));
    World::new(&scenario).unwrap().finish().unwrap()
}

fn counter(results: &Results, end: usize, name: &str) -> u64 {
    results.bonds[end].counters.iter().find(|(counter, _)| counter == name).expect(name).1
}

#[test]
fn nearly_all_segments_of_a_connection_are_compressed_both_ways_and_their_link_carries_more_of_them() {
    let [with, without] = [Compression::Auto, Compression::Off].map(run);
    // Acknowledgements with many SACK blocks go whole.
    for (end, least, share) in [(0, 40, 0.98), (1, 36, 0.9)] {
        let counter = |name| counter(&with, end, name);
        let (packets, compressed) = (counter("host_packets"), counter("compressed"));
        assert!(compressed as f64 > share * packets as f64, "{compressed} of {packets} packets of end {end}");
        assert!(counter("compressed_saved") > least * compressed, "{} bytes", counter("compressed_saved"));
        assert_eq!(counter("bad_compressed") + counter("unknown_reference"), 0);
    }
    assert_eq!(counter(&without, 0, "compressed") + counter(&without, 0, "uncompressed"), 0);
    // 45 bytes of some 1,500.
    let [with, without] = [&with, &without].map(|results| results.flows[0].goodput);
    assert!(with > 1.02 * without && with < 1.04 * without, "{with} and {without} bit/s");
}
