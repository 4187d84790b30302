//! Pairs of unlike links, of which no rate is configured: one TCP connection over both beside one over each of them alone.
//!
//! A bond's packet has 73 bytes before it that plain TCP's has not, so 1382 bytes of data go where 1448 did: a bond that carries no less
//! than its best link has 0.95 of it.

use crate::common::{bonded, channel, download};
use fairspan_core::bond::Config;
use fairspan_core::link::{Limit, Loss, Profile};
use fairspan_core::units::{Bytes, Rate, Span};
use fairspan_sim::model::{Hop, Scenario};
use fairspan_sim::results::Results;
use fairspan_sim::traffic;
use fairspan_sim::world::World;

/// When the connection begins: what measures the links is over.
const START: u64 = 10_000;
/// What a download takes: 20 MiB.
const DOWNLOAD: Bytes = Bytes::new(20 << 20);
/// A bond's data in a full frame, of plain TCP's.
const HEADERS: f64 = (1500.0 - 15.0 - 58.0 - 52.0) / 1448.0;

/// A link, the same both ways: Mbit/s, delay and jitter in milliseconds, loss.
#[derive(Clone, Copy)]
struct Path(u64, u64, u64, f64);

const FIBRE: Path = Path(300, 8, 0, 0.0);
const LTE: Path = Path(30, 40, 8, 0.005);
const DSL: Path = Path(50, 20, 0, 0.0);
const FAR: Path = Path(50, 320, 0, 0.0);

/// Two hosts and a bond over these links, whose queues hold 1000 packets as a stock emulator's.
fn pair(paths: [Path; 2]) -> Scenario {
    let channels = paths.map(|Path(rate, delay, jitter, loss)| {
        let mut profile = Profile::new(Rate::from_mbit(rate), Span::from_millis(delay));
        (profile.jitter, profile.queue) = (Span::from_millis(jitter), Limit::Packets(1000));
        if loss > 0.0 {
            profile.loss = Loss::Independent(loss);
        }
        (channel(58), [profile.clone(), profile])
    });
    bonded(Config::usual(), channels)
}

/// One TCP connection (CUBIC), over the bond or the link `alone`, without end or of `bytes`: what was measured between these milliseconds after it began.
fn run(paths: [Path; 2], alone: Option<u32>, bytes: Option<Bytes>, [from, to]: [u64; 2], seed: u64) -> Results {
    let mut scenario = pair(paths);
    (scenario.warm_up, scenario.duration) = (Span::from_millis(START + from), Span::from_millis(START + to));
    scenario.seed = seed;
    let mut flow = download([START, START + to]);
    flow.traffic = traffic::Config::Ftp { bytes, writes: None };
    if let Some(link) = alone {
        (flow.path, flow.back) = (vec![Hop::Link(2 * link)], vec![Hop::Link(2 * link + 1)]);
        scenario.bonds.clear();
    }
    scenario.flows.push(flow);
    World::new(&scenario).unwrap().finish().unwrap()
}

fn mbit(paths: [Path; 2], alone: Option<u32>, between: [u64; 2]) -> f64 {
    run(paths, alone, None, between, 1).flows[0].goodput / 1e6
}

/// Seconds until 20 MiB had arrived, from the first SYN on.
fn seconds(paths: [Path; 2], alone: Option<u32>, seed: u64) -> f64 {
    let results = run(paths, alone, Some(DOWNLOAD), [0, 15_000], seed);
    let transfers = results.flows[0].transfers.as_ref().unwrap();
    assert_eq!(transfers.completed, 1);
    transfers.duration.max
}

#[test]
fn links_that_lose_nothing_carry_nine_tenths_of_their_sum_although_no_rate_is_configured() {
    for (name, least, paths) in [
        ("baseline", 0.9, [DSL, DSL]),
        ("rtt_120", 0.9, [DSL, Path(50, 120, 0, 0.0)]),
        // Where delays vary, laws stay somewhat below what they measured.
        ("jit_5", 0.87, [Path(50, 20, 5, 0.0), Path(50, 20, 5, 0.0)]),
        ("bw_4to1", 0.9, [DSL, Path(12, 20, 0, 0.0)]),
        ("bw_10to1", 0.9, [Path(100, 20, 0, 0.0), Path(10, 20, 0, 0.0)]),
    ] {
        let second = [5_000, 15_000];
        let [a, b] = [0, 1].map(|link| mbit(paths, Some(link), second));
        let bond = mbit(paths, None, second);
        // Headers take a twentieth, and the laws nearly as much: they look for more, and give way. More than all frames carry cannot be.
        assert!(bond >= least * (a + b), "{name}: {bond:.1} of {a:.1} and {b:.1} Mbit/s");
        let most = paths.iter().map(|path| path.0 as f64).sum::<f64>() * HEADERS * 1448.0 / 1514.0;
        assert!(bond <= most, "{name}: {bond:.1} of {most:.1} Mbit/s");
    }
}

#[test]
fn a_download_over_a_link_and_a_far_one_takes_no_longer_than_over_the_near_one_but_for_the_headers() {
    for (name, paths) in [
        ("fiber_lte", [FIBRE, LTE]),
        ("rtt_320", [DSL, FAR]),
        ("lte_geo", [Path(40, 35, 0, 0.0), Path(20, 320, 20, 0.005)]),
    ] {
        let alone = seconds(paths, Some(0), 1);
        for seed in 1..=2 {
            let bond = seconds(paths, None, seed);
            // A twentieth for what the law leaves unused. And it is the near link that carries it, or nothing would be held back here.
            let shares = 0.95 * HEADERS..=1.0;
            assert!(
                shares.contains(&(alone / bond)),
                "{name}, seed {seed}: {bond:.2} s where the near link takes {alone:.2}"
            );
        }
    }
}

#[test]
fn a_far_link_that_adds_a_little_less_than_it_delays_waits_from_the_beginning_on() {
    for (name, paths) in [
        ("slow", [Path(50, 85, 0, 0.0), Path(9, 153, 5, 0.0)]),
        ("fast", [Path(200, 30, 0, 0.0), Path(195, 75, 0, 0.001)]),
    ] {
        let (alone, bond) = (seconds(paths, Some(0), 1), seconds(paths, None, 1));
        println!("{name}: {bond:.2} s where the near link takes {alone:.2}");
        assert!(alone / bond > 0.95, "{name}: {bond:.2} s where the near link takes {alone:.2}");
    }
}

#[test]
fn a_transfer_that_proves_long_has_the_far_link_too() {
    let paths = [DSL, FAR];
    let near = mbit(paths, Some(0), [1_000, 5_000]);
    let young = mbit(paths, None, [1_000, 5_000]);
    // The queue that moves into the way is there after 20 times the 300 ms, and the window for both some seconds later.
    assert!((0.9 * near..near).contains(&young), "{young:.1} where the near link alone has {near:.1} Mbit/s");
    let results = run(paths, None, None, [13_000, 18_000], 1);
    let (old, all) = (results.flows[0].goodput / 1e6, 2.0 * near);
    assert!((0.9 * all..all).contains(&old), "{old:.1} where two near links have {all:.1} Mbit/s");
    let calls = results.bonds[0].counters.iter().find(|(name, _)| name == "reserve_calls").unwrap().1;
    assert_eq!(calls, 1, "the far link is called once, and stays");
    assert_eq!(results.flows[0].tcp.as_ref().unwrap().retransmitted, 0, "nothing is lost by that");
}
