//! What fails, one thing at a time, between two daemons with settings that nobody made: how long no packet arrives, and when all is well again.
//!
//! Two links of 10 and 30 ms, one way. Each host sends the other 200 packets a second.

use super::scene::Scene;
use super::world::{Happening, MILLI, Mend, SECOND, World};
use crate::status::State;

/// One packet each way so often.
const EVERY: u64 = 5 * MILLI;
/// The first flow of each direction.
const FLOWS: [usize; 2] = [0, 3];

/// Two hosts, both channels of which are up.
fn settled(translated: bool) -> World {
    let mut world = World::of(Scene::plain(&[10 * MILLI, 30 * MILLI], translated), 3, None);
    world.tells = std::env::var_os("FAIRSPAN_TELL").is_some();
    for host in 0..2 {
        world.start(host).expect("it starts");
    }
    let seen = watch(&mut world, 3 * SECOND);
    assert!(seen.gap < SECOND && all_up(&world), "{seen:?}");
    world
}

/// What the hosts saw.
#[derive(Debug)]
struct Seen {
    /// The longest time in which one of them got nothing.
    gap: u64,
    /// Until all channels were in use at both ends, and stayed so.
    up: Option<u64>,
    /// All channels were in use all the time.
    always: bool,
    /// Of the packets that went, those that never came.
    missing: u64,
}

fn states(world: &World, host: usize) -> Vec<State> {
    let status = world.status(host);
    let peers = status.iter().flat_map(|status| &status.peers);
    peers.flat_map(|peer| peer.channels.iter().map(|channel| channel.state)).collect()
}

fn all_up(world: &World) -> bool {
    (0..2).all(|host| {
        let states = states(world, host);
        states.len() == 2 && states.iter().all(|state| *state == State::Up)
    })
}

/// Lets time pass while the hosts send.
fn watch(world: &mut World, span: u64) -> Seen {
    let begun = world.now;
    let mut last = [begun; 2];
    let mut newest = FLOWS.map(|flow| world.flows[flow].newest());
    let from = FLOWS.map(|flow| world.flows[flow].count());
    let mut seen = Seen { gap: 0, up: None, always: true, missing: 0 };
    while world.now < begun + span {
        FLOWS.into_iter().for_each(|flow| world.send(flow, 400, 1, false, false));
        world.advance(world.now + EVERY).expect("no promise is broken");
        for (place, flow) in FLOWS.into_iter().enumerate() {
            let now = world.flows[flow].newest();
            if now != newest[place] {
                (newest[place], last[place]) = (now, world.now);
            }
            seen.gap = seen.gap.max(world.now - last[place]);
        }
        let up = all_up(world);
        seen.up = if up { seen.up.or(Some(world.now - begun)) } else { None };
        seen.always &= up;
    }
    world.advance(world.now + SECOND).expect("no promise is broken");
    for (flow, from) in FLOWS.into_iter().zip(from) {
        let count = world.flows[flow].count();
        seen.missing += count - from - world.flows[flow].arrived(from..count);
    }
    seen
}

fn cut(world: &mut World, ways: &[(usize, usize, usize)], cut: bool) {
    for (link, from, to) in ways {
        world.network.way(*link, *from, *to).cut = cut;
    }
}

/// Cuts `ways` for so long.
fn outage(ways: &[(usize, usize, usize)], length: u64) -> (Seen, Seen) {
    let mut world = settled(false);
    cut(&mut world, ways, true);
    let during = watch(&mut world, length);
    cut(&mut world, ways, false);
    let after = watch(&mut world, 5 * SECOND);
    println!("{ways:?}: {during:?}, then {after:?}");
    (during, after)
}

const ALL: [(usize, usize, usize); 4] = [(0, 0, 1), (0, 1, 0), (1, 0, 1), (1, 1, 0)];

#[test]
fn a_link_that_fails_silently_costs_no_packet_and_is_back_within_a_second() {
    // Both ways, and each alone, of either link; before the sessions give the link up, and after.
    for ways in [&ALL[..2], &ALL[2..], &ALL[..1], &ALL[1..2], &ALL[2..3], &ALL[3..]] {
        for length in [2 * SECOND, 15 * SECOND + 300 * MILLI] {
            let (during, after) = outage(ways, length);
            assert_eq!(during.missing + after.missing, 0);
            assert!(during.gap <= 200 * MILLI && after.gap <= 100 * MILLI, "the longer round trip is 60 ms");
            assert!(
                after.up.is_some_and(|up| up <= SECOND + 100 * MILLI),
                "a question a second, and its way there and back"
            );
        }
    }
}

#[test]
fn daemons_compress_headers_by_themselves_once_they_know_the_rates_of_their_links() {
    let mut world = settled(false);
    let seen = watch(&mut world, 5 * SECOND);
    assert_eq!(seen.missing, 0);
    for host in 0..2 {
        let status = world.status(host).expect("it runs");
        let counters = &status.peers[0].counters;
        let count = |name: &str| counters[name];
        assert!(count("compressed") > 500, "{counters:?}");
        // Of 28 bytes of headers some 20 are saved, also where both ends know the checksum and it has to go.
        assert!(count("compressed_saved") > 15 * count("compressed"), "{counters:?}");
        assert_eq!(count("bad_compressed") + count("unknown_reference") + count("forgotten_reference"), 0);
    }
}

#[test]
fn all_links_gone_for_a_minute_are_used_again_within_a_second() {
    let (during, after) = outage(&ALL, 60 * SECOND);
    assert!(during.gap > 59 * SECOND && after.gap <= SECOND + 100 * MILLI);
    assert!(after.up.is_some_and(|up| up <= SECOND + 100 * MILLI));
}

#[test]
fn a_process_that_stands_still_for_200_ms_makes_no_channel_fail() {
    for host in 0..2 {
        let mut world = settled(false);
        world.nodes[host].frozen_until = world.now + 200 * MILLI;
        let seen = watch(&mut world, 2 * SECOND);
        assert!(seen.always && seen.gap <= 300 * MILLI && seen.missing == 0, "{seen:?}");
    }
}

#[test]
fn after_a_process_stood_still_for_30_s_all_channels_are_used_at_once_and_none_is_held_back() {
    for host in 0..2 {
        let mut world = settled(false);
        for _ in 0..2 {
            world.nodes[host].frozen_until = world.now + 30 * SECOND;
            watch(&mut world, 30 * SECOND);
            let after = watch(&mut world, 3 * SECOND);
            assert!(after.gap <= SECOND && after.up.is_some_and(|up| up <= SECOND), "{after:?}");
        }
    }
}

#[test]
fn when_a_translator_forgets_the_peer_is_reached_at_its_new_address() {
    let mut world = settled(true);
    for link in [0, 1, 0, 1, 0] {
        world.network.translate(link, 1);
        let seen = watch(&mut world, 3 * SECOND);
        // What was sent to the old address arrives nowhere.
        assert!(seen.gap <= 300 * MILLI && seen.missing == 0 && seen.up.is_some(), "{seen:?}");
    }
}

#[test]
fn an_interface_that_is_removed_and_made_anew_costs_no_packet_and_is_used_again() {
    for host in 0..2 {
        let mut world = settled(false);
        world.nodes[host].host.state().routing.remove_link(1);
        world.wake_if_ready(host);
        let during = watch(&mut world, 3 * SECOND);
        world.push(world.now, Happening::Mends(Mend::Interface(1, host)));
        let after = watch(&mut world, 5 * SECOND);
        assert!(
            during.gap.max(after.gap) <= 200 * MILLI && during.missing + after.missing == 0,
            "{during:?} {after:?}"
        );
        // A look at failed links a second.
        assert!(after.up.is_some_and(|up| up <= SECOND + 200 * MILLI), "{after:?}");
    }
}

#[test]
fn a_link_that_comes_and_goes_is_shown_as_held_back_with_the_reason() {
    let mut world = settled(false);
    for _ in 0..3 {
        cut(&mut world, &ALL[2..], true);
        watch(&mut world, SECOND);
        cut(&mut world, &ALL[2..], false);
        watch(&mut world, 500 * MILLI);
    }
    for host in 0..2 {
        let status = world.status(host).expect("it runs");
        let channel = &status.peers[0].channels[1];
        let reason = channel.reason.as_deref().unwrap_or_default();
        assert!(
            channel.state == State::Held && reason.starts_with("failed 3 times lately; used again in "),
            "{channel:?}"
        );
    }
    let seen = watch(&mut world, 6 * SECOND);
    assert!(seen.up.is_some() && seen.missing == 0, "{seen:?}");
}
