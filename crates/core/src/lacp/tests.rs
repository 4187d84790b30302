//! What LACP does between systems that are wired to each other.

mod net;

use self::net::{DELAY, Lan};
use super::*;
use crate::rng::Rng;
use crate::select::ieee8023ad::{AdSelect, Config, LacpRate};
use crate::set::LinkSet;
use crate::units::{ChannelId, Rate, Span, Time};
use crate::wire::mac::Mac;
use alloc::vec::Vec;
use proptest::prelude::*;

fn config(change: impl FnOnce(&mut Config)) -> Config {
    let mut config = Config::default();
    change(&mut config);
    config
}

fn fast() -> Config {
    config(|c| c.lacp_rate = LacpRate::Fast)
}

const SECOND: Span = Span::from_secs(1);

#[test]
fn two_systems_use_all_equal_links_three_seconds_after_they_meet() {
    let mut lan = Lan::pair(Config::default(), fast(), &[1000; 4]);
    lan.run(SECOND.times(3));
    assert_eq!((lan.distributing(0), lan.distributing(1)), (0b1111, 0b1111), "{}", lan.systems[0].status());
    lan.run(SECOND);
    let all = State::ACTIVITY.with(State::AGGREGATION).with(State::SYNCHRONIZATION).with(State::COLLECTING);
    let (here, there) = (lan.port((0, 2)), lan.port((1, 2)));
    assert_eq!(here.actor.state, all.with(State::DISTRIBUTING));
    assert_eq!(there.actor.state, all.with(State::DISTRIBUTING).with(State::TIMEOUT));
    assert_eq!((here.partner, there.partner), (there.actor, here.actor));
    assert_eq!((here.actor.key, here.actor.port, here.actor.port_priority), (4 << 1 | 1, 3, 255));
    assert_eq!((here.periodic, there.periodic), (PeriodicState::Fast, PeriodicState::Slow));
}

#[test]
fn each_end_sends_as_often_as_the_other_one_asks() {
    let mut lan = Lan::pair(Config::default(), fast(), &[1000]);
    lan.run(SECOND.times(10));
    lan.sent.clear();
    lan.run(SECOND.times(300));
    let count = |n| lan.sent.iter().filter(|(_, end)| end.0 == n).count();
    assert_eq!((count(0), count(1)), (300, 10));
}

#[test]
fn over_cables_that_lose_a_third_two_systems_still_come_together() {
    for seed in 0..20 {
        let mut lan = Lan::pair(fast(), fast(), &[1000; 3]);
        (lan.loss, lan.rng) = (33, Rng::new(seed));
        lan.run(SECOND.times(20));
        lan.loss = 0;
        lan.run(SECOND.times(6));
        assert_eq!((lan.distributing(0), lan.distributing(1)), (0b111, 0b111), "seed {seed}");
    }
}

#[test]
fn links_of_unequal_rates_are_two_aggregators_of_which_one_is_used() {
    for select in [AdSelect::Stable, AdSelect::Bandwidth, AdSelect::Count] {
        let of = config(|c| c.ad_select = select);
        let mut lan = Lan::pair(of, of, &[100, 1000, 100, 100]);
        lan.run(SECOND.times(60));
        let used = lan.distributing(0);
        assert_eq!(used, lan.distributing(1), "{select:?}: both use the same");
        match select {
            AdSelect::Bandwidth => assert_eq!(used, 0b0010),
            AdSelect::Count => assert_eq!(used, 0b1101),
            AdSelect::Stable => assert!([0b0010, 0b1101].contains(&used), "{used:b}"),
        }
        let keys: Vec<_> = lan.systems[0].aggregators().map(|a| (a.ports.bits(), a.actor_key, a.active)).collect();
        assert_eq!(keys.len(), 2);
        assert!(
            keys.contains(&(0b1101, 3 << 1 | 1, used == 0b1101))
                && keys.contains(&(0b0010, 4 << 1 | 1, used == 0b0010))
        );
    }
}

#[test]
fn two_systems_that_begin_with_different_aggregators_agree_on_one() {
    // Each end hears of one aggregator only at first, and keeps it since it is stable.
    for select in [AdSelect::Stable, AdSelect::Bandwidth] {
        let of = config(|c| c.ad_select = select);
        let mut lan = Lan::new(&[of, of]);
        lan.plug((0, 0), (1, 0), 100);
        lan.plug((0, 1), (1, 1), 10);
        for port in [0, 1] {
            let half = lan.cables.remove(&(usize::from(port), port)).expect("a cable");
            lan.run(SECOND.times(3));
            lan.cables.insert((usize::from(port), port), half);
        }
        lan.run(SECOND.times(60));
        assert_eq!(lan.distributing(0), lan.distributing(1), "{select:?}");
        assert_ne!(lan.distributing(0), 0, "{select:?} {}", lan.systems[0].status());
        let late = lan.events.iter().filter(|(at, ..)| *at > Time::ZERO + SECOND.times(40));
        let changes = late.filter(|(.., event)| matches!(event, Event::Distributing(_) | Event::Aggregator(_))).count();
        assert_eq!(changes, 0, "{select:?}: and stay there");
    }
}

#[test]
fn a_stable_aggregator_that_the_partner_does_not_use_is_left_for_the_one_that_it_does() {
    let mut lan = Lan::new(&[Config::default(), Config::default()]);
    lan.plug((0, 0), (1, 0), 1000);
    lan.run(SECOND.times(4));
    lan.pull((0, 0));
    // Now both come up with the slow one in use at one end and the fast one at the other.
    lan.links.clear();
    lan.plug((0, 1), (1, 1), 100);
    lan.run(SECOND.times(4));
    assert_eq!((lan.distributing(0), lan.distributing(1)), (0b10, 0b10));
    lan.plug((0, 0), (1, 0), 1000);
    lan.run(SECOND.times(4));
    assert_eq!((lan.distributing(0), lan.distributing(1)), (0b10, 0b10), "stable does not go to a better one");
    // One end begins anew and takes the better one.
    let slow = lan.links[&(1, 1)];
    lan.systems[1] = Lacp::new(&Config::default(), Mac([2, 0, 0, 0, 0, 2]));
    let quick = lan.links[&(1, 0)];
    lan.set((1, 0), quick);
    lan.run(SECOND.times(3));
    lan.set((1, 1), slow);
    lan.run(SECOND.times(40));
    assert_eq!(lan.distributing(0), lan.distributing(1));
    assert_ne!(lan.distributing(0), 0, "{}", lan.systems[0].status());
}

#[test]
fn a_link_that_goes_down_leaves_at_once_and_comes_back_in_three_seconds() {
    let mut lan = Lan::pair(fast(), fast(), &[1000; 3]);
    lan.run(SECOND.times(5));
    lan.pull((0, 1));
    assert_eq!((lan.distributing(0), lan.distributing(1)), (0b101, 0b101));
    lan.run(SECOND.times(20));
    assert_eq!(lan.distributing(0), 0b101);
    lan.plug((0, 1), (1, 1), 1000);
    lan.run(SECOND.times(3));
    assert_eq!((lan.distributing(0), lan.distributing(1)), (0b111, 0b111));
}

#[test]
fn a_silent_partner_is_left_after_3_s_of_fast_and_90_s_of_slow() {
    for (of, gone) in [(fast(), 3), (Config::default(), 90)] {
        let mut lan = Lan::pair(of, of, &[1000; 2]);
        lan.run(SECOND.times(35));
        let cut = lan.now;
        lan.cut((0, 0));
        lan.run(SECOND.times(gone + 6));
        // The last LACPDU came up to a period, a third of the time-out, before.
        let left = lan.events.iter().filter(|e| e.1 == 0 && e.2 == Event::Distributing(LinkSet::from_bits(0b10)));
        let after: Vec<_> = left.map(|(at, ..)| at.since(cut)).collect();
        assert_eq!(after.len(), 1);
        let within = SECOND.times(gone - gone / 3)..=SECOND.times(gone) + DELAY;
        assert!(within.contains(&after[0]), "{after:?} after the cut");
        assert_eq!(lan.port((0, 0)).receive, ReceiveState::Defaulted);
        assert_eq!(lan.port((0, 0)).partner.system, Mac::ZERO);
        assert_eq!(lan.distributing(0), 0b10);
    }
}

#[test]
fn a_port_that_is_moved_to_another_system_leaves_the_aggregator() {
    let mut lan = Lan::new(&[fast(), fast(), fast()]);
    lan.plug((0, 0), (1, 0), 1000);
    lan.plug((0, 1), (1, 1), 1000);
    lan.run(SECOND.times(5));
    assert_eq!(lan.distributing(0), 0b11);
    // A patch panel between keeps the carrier: only the LACPDUs tell.
    lan.cut((0, 1));
    lan.plug((2, 0), (0, 1), 1000);
    lan.run(SECOND.times(6));
    assert_eq!((lan.distributing(0), lan.distributing(1)), (0b01, 0b01));
    let aggregators: Vec<_> =
        lan.systems[0].aggregators().map(|a| (a.ports.bits(), a.partner_system.0[5], a.active)).collect();
    assert_eq!(aggregators, [(0b01, 2, true), (0b10, 3, false)]);
    assert_eq!(lan.port((0, 1)).mux, MuxState::Attached, "its aggregator is not in use");
    assert!(!lan.port((2, 0)).partner.state.has(State::SYNCHRONIZATION), "and the other system is told");
}

#[test]
fn without_any_partner_one_port_carries_the_traffic() {
    let mut lan = Lan::new(&[Config::default()]);
    for port in 0..3 {
        lan.set((0, port), PortLink::up(Mac([2, 0, 0, 1, 0, port]), Rate::from_mbit(1000)));
    }
    lan.run(SECOND.times(100));
    assert_eq!(lan.distributing(0), 0b001);
    lan.set((0, 0), lan.links[&(0, 0)].down());
    assert_eq!(lan.distributing(0), 0b010);
    assert_eq!(lan.port((0, 1)).actor_churn.0, Churn::None);
    assert_eq!(lan.port((0, 1)).partner_churn, (Churn::Churned, 1), "a partner that is not there never synchronizes");
    assert_eq!(lan.port((0, 2)).actor_churn, (Churn::Churned, 1));
    assert!(lan.events.contains(&(
        Time::ZERO + SECOND.times(60),
        0,
        Event::Churned { port: ChannelId(2), partner: true }
    )));
}

#[test]
fn ports_plugged_into_each_other_are_told_of_and_not_aggregated() {
    let mut lan = Lan::new(&[fast()]);
    lan.plug((0, 0), (0, 1), 1000);
    lan.run(SECOND.times(30));
    assert_eq!(lan.distributing(0), 0b01, "as without a partner");
    for port in [0, 1] {
        let status = lan.port((0, port));
        assert_eq!((status.partner.system, status.stats.lacpdu_rx), (Mac::ZERO, 0));
        assert!(status.stats.loopback_rx > 3);
        let told = lan.events.iter().filter(|e| e.2 == Event::Loopback { port: ChannelId(port) }).count();
        assert_eq!(told, 1);
    }
}

#[test]
fn half_duplex_links_speak_no_lacp_and_are_the_last_choice() {
    let mut lan = Lan::new(&[fast()]);
    let full = PortLink::up(Mac([2, 0, 0, 1, 0, 0]), Rate::from_mbit(10));
    lan.set((0, 0), PortLink { full_duplex: false, rate: Some(Rate::from_mbit(100)), ..full });
    lan.run(SECOND.times(10));
    assert_eq!((lan.distributing(0), lan.port((0, 0)).receive), (0b1, ReceiveState::LacpDisabled));
    assert!(lan.sent.is_empty());
    assert!(lan.systems[0].aggregators().all(|a| a.individual && a.actor_key & 1 == 0));
}

#[test]
fn a_full_duplex_link_with_a_partner_replaces_a_half_duplex_one() {
    let mut lan = Lan::new(&[fast(), fast()]);
    let half = PortLink { full_duplex: false, ..PortLink::up(Mac([2, 0, 0, 1, 0, 9]), Rate::from_mbit(100)) };
    lan.set((0, 1), half);
    lan.set((1, 1), half);
    lan.plug((0, 0), (1, 0), 10);
    lan.run(SECOND.times(5));
    assert_eq!((lan.distributing(0), lan.distributing(1)), (0b1, 0b1));
    lan.pull((0, 0));
    assert_eq!((lan.distributing(0), lan.distributing(1)), (0b10, 0b10));
}

#[test]
fn a_partner_that_aggregates_nothing_makes_its_ports_individual() {
    let mut lan = Lan::new(&[fast()]);
    let link = PortLink::up(Mac([2, 0, 0, 1, 0, 0]), Rate::from_mbit(1000));
    for port in [0, 1] {
        lan.set((0, port), link);
    }
    for second in 0..6 {
        for port in [0, 1u8] {
            let here = lan.port((0, port)).actor;
            let state = State::ACTIVITY.with(State::SYNCHRONIZATION).with(State::TIMEOUT).with(State::COLLECTING);
            let (system, number) = (Mac([2, 0, 0, 0, 0, 9]), u16::from(port) + 1);
            let actor = PortInfo { system_priority: 1, system, key: 5, port_priority: 1, port: number, state };
            let pdu = Pdu::Lacp(Lacpdu { actor, partner: here, collector_max_delay: 0 });
            lan.systems[0].handle_pdu(lan.now, ChannelId(port), &pdu.encode(system)).expect("a LACPDU");
        }
        lan.run(SECOND);
        assert!(second < 2 || lan.systems[0].aggregators().count() == 2);
    }
    assert_eq!(lan.distributing(0), 0b1, "{}", lan.systems[0].status());
}

#[test]
fn fewer_links_than_min_links_carry_nothing() {
    let of = config(|c| (c.min_links, c.lacp_rate) = (2, LacpRate::Fast));
    let mut lan = Lan::pair(of, fast(), &[1000; 3]);
    lan.run(SECOND.times(4));
    lan.pull((0, 0));
    assert_eq!(lan.distributing(0), 0b110);
    lan.pull((0, 1));
    assert_eq!((lan.distributing(0), lan.systems[0].collecting().bits(), lan.distributing(1)), (0, 0b100, 0b100));
    lan.plug((0, 0), (1, 0), 1000);
    lan.run(SECOND.times(4));
    assert_eq!(lan.distributing(0), 0b101);
}

#[test]
fn a_passive_system_answers_an_active_one_and_two_passive_ones_are_silent() {
    let passive = config(|c| c.lacp_active = false);
    let mut lan = Lan::pair(passive, fast(), &[1000; 2]);
    lan.run(SECOND.times(5));
    assert_eq!((lan.distributing(0), lan.distributing(1)), (0b11, 0b11));
    let mut lan = Lan::pair(passive, passive, &[1000; 2]);
    lan.run(SECOND.times(100));
    assert!(lan.sent.is_empty());
    assert_eq!((lan.distributing(0), lan.distributing(1)), (0b01, 0b01));
}

#[test]
fn a_port_sends_only_when_its_partner_takes_frames() {
    let mut lan = Lan::new(&[fast()]);
    lan.set((0, 0), PortLink::up(Mac([2, 0, 0, 1, 0, 0]), Rate::from_mbit(1000)));
    let hear = |lan: &mut Lan, state: State| {
        let state = state.with(State::ACTIVITY).with(State::AGGREGATION).with(State::TIMEOUT);
        let system = Mac([2, 0, 0, 0, 0, 9]);
        let actor = PortInfo { system_priority: 1, system, key: 5, port_priority: 1, port: 1, state };
        let partner = lan.port((0, 0)).actor;
        let pdu = Pdu::Lacp(Lacpdu { actor, partner, collector_max_delay: 0 });
        lan.systems[0].handle_pdu(lan.now, ChannelId(0), &pdu.encode(system)).expect("a LACPDU");
        lan.drain();
        (lan.systems[0].collecting().bits(), lan.distributing(0))
    };
    let ready = State::SYNCHRONIZATION;
    assert_eq!(hear(&mut lan, ready), (0, 0));
    lan.run(SECOND.times(2));
    assert_eq!(hear(&mut lan, ready), (1, 0), "after the wait for others");
    assert_eq!(hear(&mut lan, ready.with(State::COLLECTING)), (1, 1));
    assert_eq!(hear(&mut lan, ready), (1, 0));
    assert_eq!(hear(&mut lan, ready.with(State::COLLECTING)), (1, 1));
    assert_eq!(hear(&mut lan, State::COLLECTING), (0, 0), "a partner that is out of synchronization");
}

#[test]
fn a_link_that_flaps_keeps_no_other_one_from_working() {
    let mut lan = Lan::pair(fast(), fast(), &[1000; 3]);
    for _ in 0..20 {
        lan.pull((0, 1));
        lan.run(Span::from_millis(300));
        lan.plug((0, 1), (1, 1), 1000);
        lan.run(Span::from_millis(700));
    }
    assert_eq!((lan.distributing(0), lan.distributing(1)), (0b101, 0b101));
    lan.run(SECOND.times(4));
    assert_eq!((lan.distributing(0), lan.distributing(1)), (0b111, 0b111));
}

#[test]
fn a_rate_that_changes_moves_the_port_to_another_aggregator() {
    let mut lan = Lan::pair(fast(), fast(), &[1000; 3]);
    lan.run(SECOND.times(4));
    for end in [(0, 2), (1, 2)] {
        let link = lan.links[&end];
        lan.set(end, PortLink { rate: Some(Rate::from_mbit(100)), ..link });
    }
    assert_eq!((lan.distributing(0), lan.distributing(1)), (0b011, 0b011));
    lan.run(SECOND.times(10));
    assert_eq!(lan.systems[0].aggregators().map(|a| a.ports.bits()).collect::<Vec<_>>(), [0b011, 0b100]);
    assert_eq!(lan.distributing(0), 0b011);
}

#[test]
fn keys_are_the_kernels_and_rates_without_a_number_have_one_of_their_own() {
    let mut lan = Lan::new(&[config(|c| c.ad_user_port_key = 1023)]);
    let mut key = |port: u8, mbit: Option<u64>, full_duplex| {
        let link = PortLink { up: true, rate: mbit.map(Rate::from_mbit), full_duplex, mac: Mac::ZERO };
        lan.set((0, port), link);
        lan.port((0, port)).actor.key & 0x3f
    };
    assert_eq!([key(0, Some(1000), true), key(1, Some(10_000), true), key(2, Some(100), false)], [9, 15, 6]);
    assert_eq!(
        [key(3, None, true), key(4, Some(17), true), key(5, Some(16), true), key(6, Some(17), true)],
        [1, 63, 61, 63]
    );
    assert_eq!(lan.port((0, 0)).actor.key, 1023 << 6 | 9);
}

#[test]
fn a_port_that_is_removed_is_gone_and_its_number_can_come_back() {
    let mut lan = Lan::pair(fast(), fast(), &[1000; 2]);
    lan.run(SECOND.times(4));
    lan.systems[0].remove_port(lan.now, ChannelId(0));
    assert_eq!(lan.systems[0].distributing().bits(), 0b10);
    assert_eq!(lan.systems[0].port(ChannelId(0)), None);
    lan.run(SECOND.times(5));
    assert_eq!(lan.distributing(1), 0b10, "the partner hears nothing any more");
    lan.set((0, 0), lan.links[&(0, 0)]);
    lan.run(SECOND.times(5));
    assert_eq!((lan.distributing(0), lan.distributing(1)), (0b11, 0b11));
    lan.systems[0].set_port(lan.now, ChannelId(200), lan.links[&(0, 0)]);
    assert_eq!(lan.systems[0].port(ChannelId(200)), None);
}

#[test]
fn a_marker_is_answered_in_a_round_trip_and_lost_when_it_is_not() {
    let mut lan = Lan::pair(fast(), fast(), &[1000; 2]);
    lan.run(SECOND.times(4));
    let (port, start) = (ChannelId(0), lan.now);
    let first = lan.systems[0].ask(lan.now, port, SECOND).expect("the port is up");
    assert_eq!(
        lan.systems[0].ask(lan.now, port, SECOND),
        Some(first),
        "one marker serves all who asked before it left"
    );
    lan.run(DELAY.times(2));
    assert!(lan.events.contains(&(start + DELAY.times(2), 0, Event::MarkerAnswered { port, transaction: first })));
    lan.cut((0, 0));
    let asked = lan.now;
    let second = lan.systems[0].ask(lan.now, port, Span::from_millis(50)).expect("the port is up");
    assert_ne!(first, second);
    lan.run(SECOND);
    let lost = Event::MarkerLost { port, transaction: second };
    assert!(lan.events.contains(&(asked + Span::from_millis(50), 0, lost)));
    let third = lan.systems[0].ask(lan.now, port, SECOND).expect("the port is up");
    lan.drain();
    let link = lan.links[&(0, 0)];
    lan.set((0, 0), link.down());
    assert!(lan.events.contains(&(lan.now, 0, Event::MarkerLost { port, transaction: third })));
    assert_eq!(lan.systems[0].ask(lan.now, port, SECOND), None);
}

#[test]
fn markers_keep_the_pace_of_slow_protocols_and_each_is_told_of_once() {
    let mut lan = Lan::pair(fast(), fast(), &[1000]);
    lan.run(SECOND.times(4));
    let (mut asked, port) = (Vec::new(), ChannelId(0));
    for _ in 0..400 {
        asked.extend(lan.systems[0].ask(lan.now, port, SECOND.times(3)));
        lan.run(Span::from_millis(10));
    }
    lan.run(SECOND.times(4));
    asked.dedup();
    let sent = lan.port((0, 0)).stats.marker_tx;
    assert!((40..=50).contains(&sent), "{sent} markers in 4 s");
    for transaction in asked {
        let told = |event: Event| lan.events.iter().filter(|(_, _, e)| *e == event).count();
        assert_eq!(told(Event::MarkerAnswered { port, transaction }), 1);
        assert_eq!(told(Event::MarkerLost { port, transaction }), 0);
    }
}

#[test]
fn an_answer_that_nobody_asked_for_changes_nothing() {
    let mut lan = Lan::pair(fast(), fast(), &[1000; 2]);
    lan.run(SECOND.times(4));
    let transaction = lan.systems[0].ask(lan.now, ChannelId(0), SECOND).expect("the port is up");
    lan.cut((0, 0));
    lan.drain();
    let right = Marker { port: 1, system: Mac([2, 0, 0, 0, 0, 1]), transaction };
    let wrong = [
        (0, Marker { port: 2, ..right }),
        (0, Marker { system: Mac([2, 0, 0, 0, 0, 9]), ..right }),
        (0, Marker { transaction: transaction + 1, ..right }),
        (1, right),
    ];
    let before = lan.events.len();
    for (port, marker) in wrong {
        let frame = Pdu::MarkerResponse(marker).encode(Mac::ZERO);
        lan.systems[0].handle_pdu(lan.now, ChannelId(port), &frame).expect("an answer");
    }
    lan.drain();
    assert_eq!(lan.events.len(), before);
    assert_eq!(lan.port((0, 0)).stats.marker_unmatched + lan.port((0, 1)).stats.marker_unmatched, 4);
    let frame = Pdu::MarkerResponse(right).encode(Mac::ZERO);
    for _ in 0..2 {
        lan.systems[0].handle_pdu(lan.now, ChannelId(0), &frame).expect("an answer");
    }
    lan.drain();
    assert_eq!(lan.events.len(), before + 1, "an answer counts once");
}

#[test]
fn a_flood_of_markers_is_answered_within_a_bound() {
    let mut lan = Lan::new(&[fast()]);
    lan.set((0, 0), PortLink::up(Mac::ZERO, Rate::from_mbit(1000)));
    let frame = Pdu::Marker(Marker { port: 7, system: Mac([2; 6]), transaction: 5 }).encode(Mac::ZERO);
    for _ in 0..1000 {
        lan.systems[0].handle_pdu(lan.now, ChannelId(0), &frame).expect("a marker");
    }
    lan.drain();
    let stats = lan.port((0, 0)).stats;
    assert_eq!((stats.marker_rx, stats.marker_response_tx, stats.marker_response_dropped), (1000, 16, 984));
}

#[test]
fn frames_for_a_port_that_is_down_or_unknown_change_nothing() {
    let mut lan = Lan::new(&[fast()]);
    let link = PortLink::up(Mac::ZERO, Rate::from_mbit(1000));
    lan.set((0, 0), link.down());
    let frame = Pdu::Marker(Marker { port: 7, system: Mac([2; 6]), transaction: 5 }).encode(Mac::ZERO);
    for port in [0, 1, 63, 64, 255] {
        assert_eq!(lan.systems[0].handle_pdu(lan.now, ChannelId(port), &frame), Ok(()));
    }
    assert_eq!(lan.systems[0].poll_transmit(), None);
    assert_eq!(lan.port((0, 0)).stats.down_rx, 1);
    assert_eq!(lan.systems[0].poll_timeout(), None, "nothing is due while no port is up");
}

/// What may happen to a system.
#[derive(Clone, Debug)]
enum Step {
    Bytes(u8, Vec<u8>),
    Pdu(u8, Lacpdu),
    Link(u8, bool, u8, bool),
    Remove(u8),
    Ask(u8),
    Wait(u64),
}

fn info() -> impl Strategy<Value = PortInfo> {
    // Few values each, so that they meet again.
    (0..2u16, 0..4u8, 0..3u16, 0..2u16, 0..4u16, any::<u8>()).prop_map(
        |(priority, system, key, port_priority, port, state)| {
            let system = Mac([2, 0, 0, 0, 0, system]);
            PortInfo {
                system_priority: priority * 65_535,
                system,
                key: key + 7,
                port_priority: port_priority * 255,
                port,
                state: State(state),
            }
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => (0..4u8, proptest::collection::vec(any::<u8>(), 0..130)).prop_map(|(port, bytes)| Step::Bytes(port, bytes)),
        6 => (0..4u8, info(), info()).prop_map(|(port, actor, partner)| Step::Pdu(port, Lacpdu { actor, partner, collector_max_delay: 0 })),
        3 => (0..4u8, any::<bool>(), 0..3u8, any::<bool>()).prop_map(|(port, up, rate, full)| Step::Link(port, up, rate, full)),
        1 => (0..4u8).prop_map(Step::Remove),
        1 => (0..4u8).prop_map(Step::Ask),
        4 => (0..4_000u64).prop_map(Step::Wait),
    ]
}

proptest! {
    #[test]
    fn no_partner_breaks_what_holds_always(
        steps in proptest::collection::vec(step(), 1..80),
        select in 0..3usize,
        min_links in 0..3u16,
    ) {
        let ad_select = [AdSelect::Stable, AdSelect::Bandwidth, AdSelect::Count][select];
        let mut lan = Lan::new(&[config(|c| (c.ad_select, c.min_links, c.lacp_rate) = (ad_select, min_links, LacpRate::Fast))]);
        for step in steps {
            let (now, system) = (lan.now, &mut lan.systems[0]);
            match step {
                Step::Bytes(port, bytes) => drop(system.handle_pdu(now, ChannelId(port), &bytes)),
                Step::Pdu(port, mut pdu) => {
                    // Half of the partners know this port as it is.
                    if let Some(here) = system.port(ChannelId(port)).filter(|_| pdu.partner.port > 1) {
                        pdu.partner = here.actor;
                    }
                    system.handle_pdu(now, ChannelId(port), &Pdu::Lacp(pdu).encode(Mac::ZERO)).expect("a LACPDU");
                }
                Step::Link(port, up, rate, full_duplex) => {
                    let rate = [None, Some(Rate::from_mbit(10)), Some(Rate::from_mbit(1000))][usize::from(rate)];
                    lan.set((0, port), PortLink { up, rate, full_duplex, mac: Mac::ZERO });
                }
                Step::Remove(port) => {
                    system.remove_port(now, ChannelId(port));
                    // A port that joins later is another one.
                    lan.sent.clear();
                }
                Step::Ask(port) => drop(system.ask(now, ChannelId(port), SECOND)),
                Step::Wait(ms) => lan.run(Span::from_millis(ms)),
            }
            lan.drain();
            lan.check();
            let (system, status) = (&lan.systems[0], lan.systems[0].status());
            let up = status.ports.iter().filter(|p| p.up).fold(LinkSet::EMPTY, |set, p| set.with(p.port));
            prop_assert_eq!(system.distributing().bits() & !up.bits(), 0, "only ports that are up");
            prop_assert_eq!(system.distributing().bits() & !system.collecting().bits(), 0);
            prop_assert!(system.poll_timeout().is_none_or(|due| due > lan.now), "what is due was done");
            for port in &status.ports {
                let takes = system.collecting().contains(port.port);
                let mine = status.aggregators.iter().find(|a| a.ports.contains(port.port));
                let alone = mine.is_some_and(|a| a.active && a.partner_system == Mac::ZERO) && port.up;
                prop_assert_eq!(takes, port.mux as u8 >= MuxState::Collecting as u8 || alone, "{}", status);
            }
        }
    }
}
