//! A link of a bond becomes worse, but does not fail: it loses some of what it carries, takes longer, or carries less. One TCP
//! connection and a call see it. Nobody has said any rate.

use crate::common::{UDP, bonded, channel, constant, download, over_bond};
use fairspan_core::bond::Config;
use fairspan_core::link::{Capacity, Limit, Outage, Profile, Series, Spell};
use fairspan_core::units::{Rate, Span};
use fairspan_sim::results::Results;
use fairspan_sim::world::World;

const SECONDS: fn(u64) -> Span = Span::from_secs;
/// When the link becomes worse, and what counts from then on.
const FROM: u64 = 10;
const UNTIL: u64 = 20;

/// A link, the same both ways: Mbit/s, and delay in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Path(u64, u64);

/// What happens to a link.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Worse {
    Never,
    /// It loses this share of what it is given.
    Loses(f64),
    /// It takes so many milliseconds longer.
    Delays(u64),
    /// It carries this part of its rate.
    Slows(u64),
    /// It is gone for a second and there for half a one, in turn.
    Flaps,
    /// Nothing passes there, nor on any other link.
    Fails,
}

impl Worse {
    fn happens_to(self, profile: &mut Profile, rate: Rate) {
        let spell = Spell { start: SECONDS(FROM), length: SECONDS(UNTIL - FROM), ..Spell::default() };
        match self {
            Worse::Never => {}
            Worse::Loses(loss) => profile.spells.push(Spell { loss, ..spell }),
            Worse::Delays(ms) => profile.spells.push(Spell { delay: Span::from_millis(ms), ..spell }),
            Worse::Fails => {
                profile.outages.push(Outage { start: SECONDS(FROM), length: SECONDS(UNTIL - FROM), every: None });
            }
            Worse::Flaps => profile.outages.extend((0..7).map(|time| Outage {
                start: SECONDS(FROM) + Span::from_millis(1500 * time),
                length: SECONDS(1),
                every: None,
            })),
            Worse::Slows(part) => {
                let slow = Rate::from_bits_per_sec(rate.as_bits_per_sec() / part);
                let steps = vec![(Span::ZERO, rate), (SECONDS(FROM), slow), (SECONDS(UNTIL), rate)];
                profile.capacity = Capacity::Series(Series::new(steps, SECONDS(1000)).unwrap());
            }
        }
    }
}

/// One TCP connection (CUBIC) and a call over these links, the last of which becomes worse; what counts is between these seconds.
fn run(paths: &[Path], worse: Worse, [from, until]: [u64; 2], seed: u64) -> Results {
    let channels = paths.iter().enumerate().map(|(n, &Path(mbit, delay))| {
        let rate = Rate::from_mbit(mbit);
        let mut profile = Profile::new(rate, Span::from_millis(delay));
        profile.queue = Limit::Bytes(rate.bytes_in(Span::from_millis(200)).as_u64());
        if n + 1 == paths.len() || worse == Worse::Fails {
            worse.happens_to(&mut profile, rate);
        }
        (channel(58), [profile.clone(), profile])
    });
    let mut scenario = bonded(Config::usual(), channels);
    (scenario.duration, scenario.warm_up, scenario.seed) = (SECONDS(until), SECONDS(from), seed);
    scenario.flows.push(download([5_000, 600_000]));
    scenario.flows.push(over_bond("call", [5_000, 600_000], constant(80_000, 200), UDP));
    World::new(&scenario).unwrap().finish().unwrap()
}

fn mbit(results: &Results) -> f64 {
    results.flows[0].goodput / 1e6
}

/// Links that are alike; the better one last, which becomes worse; and the worse one last.
const PAIRS: [[Path; 2]; 3] =
    [[Path(50, 20), Path(50, 20)], [Path(20, 30), Path(100, 10)], [Path(100, 10), Path(20, 30)]];

/// The longest gap that TCP may see: where what is left is a fifth, its window is several times too large, and what is lost of it twice
/// waits for its own timeout.
fn longest_gap(paths: &[Path]) -> f64 {
    if paths[1].0 > 2 * paths[0].0 { 1.5 } else { 0.5 }
}

/// What the link alone carries that stays as it is.
fn alone(paths: &[Path]) -> f64 {
    mbit(&run(&paths[..1], Worse::Never, [FROM, UNTIL], 1))
}

/// The bond carries nine tenths of that from a second after the change on, and of the call's 450 packets no more than ten are lost.
fn is_borne(paths: &[Path], worse: Worse, alone: f64) {
    let results = run(paths, worse, [FROM + 1, UNTIL], 1);
    let (got, call) = (mbit(&results), &results.flows[1]);
    let gaps = run(paths, worse, [FROM, UNTIL], 1).flows.iter().map(|flow| flow.gap).collect::<Vec<_>>();
    let said = format!("{paths:?} {worse:?}: {got:.1} Mbit/s, where one link has {alone:.1}; gaps of {gaps:.3?} s");
    println!("{said}; call {} of {}", call.received, call.sent);
    assert!(got >= 0.9 * alone, "{said}");
    assert!(gaps[0] <= longest_gap(paths) && gaps[1] <= 0.5, "{said}");
    assert!(call.received + 10 >= call.sent, "{said}: {} of {}", call.received, call.sent);
}

/// What both links carry is carried again so many seconds after the end.
fn is_over(paths: &[Path], worse: Worse, after: u64) {
    let from = UNTIL + after;
    let [back, whole] = [worse, Worse::Never].map(|worse| mbit(&run(paths, worse, [from, from + 2], 1)));
    println!("{paths:?} {worse:?}: {back:.1} of {whole:.1} Mbit/s after {after} s");
    assert!(back >= 0.9 * whole, "{paths:?} {worse:?}: {back:.1} of {whole:.1} Mbit/s after {after} s");
}

#[test]
fn a_link_that_loses_a_tenth_to_nine_tenths_takes_nothing_from_the_other_one() {
    for paths in PAIRS {
        let alone = alone(&paths);
        for loss in [0.1, 0.3, 0.5, 0.9] {
            is_borne(&paths, Worse::Loses(loss), alone);
        }
    }
}

#[test]
fn a_link_that_loses_a_tenth_still_adds_most_of_what_it_has() {
    let paths = PAIRS[0];
    let results = run(&paths, Worse::Loses(0.1), [FROM + 1, UNTIL], 1);
    assert!(mbit(&results) >= 1.7 * alone(&paths), "{:.1} Mbit/s", mbit(&results));
    assert_eq!(results.bonds[0].counters.iter().find(|(name, _)| name == "channel_downs").unwrap().1, 0);
}

#[test]
fn a_link_that_was_set_aside_for_its_losses_is_used_again_when_it_is_well() {
    for paths in PAIRS {
        for loss in [0.3, 0.9] {
            is_over(&paths, Worse::Loses(loss), 4);
        }
    }
}

#[test]
fn a_link_that_becomes_late_takes_nothing_from_the_other_one() {
    for paths in PAIRS {
        let alone = alone(&paths);
        // Of the third pair 300 ms more is no time that nobody waits for, nor does the link add little: for ten seconds TCP has half of what it
        // had, as beside a satellite link.
        let delays: &[u64] = if paths == PAIRS[2] { &[1000] } else { &[300, 1000] };
        for delay in delays {
            is_borne(&paths, Worse::Delays(*delay), alone);
        }
    }
}

#[test]
fn a_link_whose_rate_falls_to_a_twentieth_takes_nothing_from_the_other_one() {
    for paths in PAIRS {
        is_borne(&paths, Worse::Slows(20), alone(&paths));
    }
}

#[test]
fn a_link_that_flaps_takes_nothing_from_the_other_one() {
    for paths in PAIRS {
        is_borne(&paths, Worse::Flaps, alone(&paths));
    }
}

#[test]
fn after_ten_seconds_without_any_link_all_is_as_before() {
    for paths in PAIRS {
        let results = run(&paths, Worse::Fails, [FROM, UNTIL + 5], 1);
        // Ten seconds, and one until the links are in use again.
        assert!(results.flows[1].gap <= 11.0, "{paths:?}: {:.3} s", results.flows[1].gap);
        is_over(&paths, Worse::Fails, 8);
    }
}

#[test]
fn a_link_that_carries_little_and_becomes_slower_does_not_hold_up_the_others() {
    for (paths, least) in [([Path(100, 10), Path(4, 20)], 88.0), ([Path(300, 20), Path(10, 20)], 240.0)] {
        let found: Vec<f64> = (1..4).map(|seed| mbit(&run(&paths, Worse::Slows(8), [FROM, UNTIL], seed))).collect();
        assert!(found.iter().all(|mbit| *mbit > least), "{paths:?}: {found:?}");
    }
}
