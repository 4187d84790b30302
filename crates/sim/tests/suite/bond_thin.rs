//! A link whose way back is much thinner than the way there: acknowledgements and reports have to come through all the same.

use crate::common::{bonded, channel, download};
use fairspan_core::bond::Config;
use fairspan_core::congestion::Algorithm;
use fairspan_core::link::{Limit, Profile};
use fairspan_core::units::{Rate, Span};
use fairspan_sim::model::{Flow, Hop, Transport};
use fairspan_sim::results::Results;
use fairspan_sim::world::World;

/// Kbit/s there and back, and a delay in ms.
type Link = (u64, u64, u64);

/// Both ways of a link that holds 60 ms of packets.
fn link(&(there, back, delay): &Link) -> [Profile; 2] {
    [there, back].map(|kbit| {
        let rate = Rate::from_bits_per_sec(1000 * kbit);
        let mut profile = Profile::new(rate, Span::from_millis(delay));
        profile.queue = Limit::Bytes(rate.bytes_in(Span::from_millis(60)).as_u64());
        profile
    })
}

/// Ten seconds after five of these flows over a bond of these links, of which no rate is configured.
fn run(links: &[Link], ack_filter: bool, flows: Vec<Flow>) -> Results {
    let mut config = Config::usual();
    config.ack_filter = ack_filter;
    let mut scenario = bonded(config, links.iter().map(|of| (channel(62), link(of))));
    (scenario.warm_up, scenario.duration) = (Span::from_secs(5), Span::from_secs(15));
    scenario.flows.extend(flows);
    World::new(&scenario).unwrap().finish().unwrap()
}

/// The other way.
fn upload(between: [u64; 2]) -> Flow {
    let flow = download(between);
    let (path, back) = (vec![Hop::Bond(0, 1)], vec![Hop::Bond(0, 0)]);
    Flow { name: "up".into(), from: 1, to: 0, path, back, ..flow }
}

/// The same with BBR.
fn by_bbr(mut flow: Flow) -> Flow {
    if let Transport::Tcp(tcp) = &mut flow.transport {
        tcp.congestion = Algorithm::Bbr1;
    }
    flow
}

/// A counter of the second end, which acknowledges downloads.
fn counter(results: &Results, name: &str) -> u64 {
    let counters = &results.bonds[1].counters;
    counters.iter().find(|(counter, _)| counter == name).map(|(_, count)| *count).unwrap()
}

#[test]
fn a_download_over_one_link_has_nearly_all_of_it_though_its_acknowledgements_are_more_than_goes_back() {
    let [with, without] =
        [true, false].map(|filter| run(&[(24_000, 400, 20)], filter, vec![by_bbr(download([1_000, 15_000]))]));
    let share = |results: &Results| results.flows[0].goodput / 24e6;
    println!("{} and {} of the link", share(&with), share(&without));
    // Of 1500 bytes 62 are the tunnel's and 14 Ethernet's.
    assert!(share(&with) > 0.8, "{} of the link", share(&with));
    assert!(share(&without) < 0.5, "the check sees the difference: {}", share(&without));
    assert!(counter(&with, "acks_superseded") > 1_000 && counter(&without, "acks_superseded") == 0);
}

#[test]
fn what_goes_back_beside_acknowledgements_has_its_part_of_a_thin_way_back() {
    let both = vec![download([1_000, 15_000]), upload([2_000, 15_000])];
    let cases =
        [(vec![(100_000, 4_000, 10)], [0.8, 0.35]), (vec![(100_000, 4_000, 10), (60_000, 3_000, 20)], [0.8, 0.45])];
    for (links, least) in cases {
        let all = links.iter().fold([0, 0], |[there, back], link| [there + link.0, back + link.1]);
        let results = run(&links, true, both.clone());
        let [down, up] = [0, 1].map(|flow| results.flows[flow].goodput / (1000 * all[flow]) as f64);
        println!("{down} {up}");
        assert!(
            down > least[0] && up > least[1],
            "{} links: {down} of the way there, {up} of the way back",
            links.len()
        );
    }
}

#[test]
fn a_download_beside_an_upload_by_a_far_link_keeps_the_near_link_s_round_trip() {
    let both = vec![download([1_000, 15_000]), upload([2_000, 15_000])];
    for flows in [both.clone(), both.into_iter().map(by_bbr).collect()] {
        let results = run(&[(60_000, 19_000, 20), (40_000, 7_000, 283)], true, flows);
        let [down, up] = [0, 1].map(|flow| results.flows[flow].goodput / 1e6);
        println!("{down} and {up} Mbit/s");
        assert!(
            results.bonds[1].counters.iter().any(|(name, count)| name == "channel1.sent_packets" && *count > 1_000)
        );
        assert!(down > 45.0, "{down} Mbit/s: acknowledgements that wait for the far link leave less than 40");
        assert!(up > 12.0, "{up} Mbit/s");
    }
}

#[test]
fn a_satellite_that_has_not_answered_yet_is_not_taken_for_dead() {
    let results = run(&[(200_000, 24_000, 13), (47_000, 7_700, 290)], true, vec![download([0, 15_000])]);
    let counters = results.bonds.iter().flat_map(|bond| &bond.counters);
    let downs: u64 = counters.filter(|(name, _)| name == "channel_downs").map(|(_, count)| count).sum();
    assert_eq!(downs, 0);
}

#[test]
fn where_a_link_s_own_queue_is_full_what_arrived_is_told_and_not_sent_again() {
    let results = run(&[(100_000, 100_000, 5)], true, vec![download([1_000, 15_000])]);
    let (acks, again) = (counter(&results, "channel0.sent_packets"), counter(&results, "resent"));
    assert!(acks > 10_000 && again < acks / 100, "{again} of {acks} acknowledgements were sent again");
}
