//! The stripe's receiver and its neighbours, message by message: what is counted, what is refused, and when a reset is asked for.

use fairspan_core::causal::{ChannelSet, SetError};
use fairspan_core::stripe::{Config, ConfigError, Endpoint, Receiver, ReceiverConfig, Sender, Wait, quanta};
use fairspan_core::units::{Bytes, ChannelId, Rate, Span, Time};
use fairspan_core::wire::marker::{Control, Grant, Marker, Plan};

const GENERATION: u16 = 1;

fn two_of_a_kilobyte() -> ChannelSet {
    ChannelSet::of(&[1000, 1000], Bytes::new(1000)).unwrap()
}

fn plan(channel: ChannelId) -> Plan {
    let (generation, set) = (GENERATION, two_of_a_kilobyte());
    Plan { epoch: 9, channel, generation, base: generation, start: 1, set, dead: 0 }
}

/// A receiver of two channels with quanta of 1000 bytes that are open; its answers are taken.
fn receiver(config: ReceiverConfig) -> Receiver<Vec<u8>> {
    let mut receiver = Receiver::new(config);
    for channel in [ChannelId(0), ChannelId(1)] {
        receiver.handle_plan(Time::ZERO, channel, &plan(channel));
    }
    while receiver.poll_reply().is_some() {}
    receiver
}

fn marker(channel: u8, (round, deficit): (u32, i32)) -> Marker {
    Marker {
        epoch: 9,
        channel: ChannelId(channel),
        generation: GENERATION,
        round,
        deficit,
        quantum: 1000,
        passed: false,
        ask: false,
        sent_bytes: 0,
        sent_packets: 0,
        grant: None,
    }
}

fn hears(receiver: &mut Receiver<Vec<u8>>, marker: Marker) {
    receiver.handle_marker(Time::ZERO, marker.channel, &marker);
}

/// Whether a reset is asked for.
fn asks(receiver: &mut Receiver<Vec<u8>>) -> bool {
    std::iter::from_fn(|| receiver.poll_reply()).any(|(_, ack)| ack.reset)
}

#[test]
fn a_buffer_takes_what_just_fits_and_new_limits_leave_what_is_there() {
    let mut config = ReceiverConfig::default();
    (config.buffer_bytes, config.buffer_packets) = (Bytes::new(1000), 3);
    let mut r = receiver(config);
    let comes = |r: &mut Receiver<Vec<u8>>, len| r.handle_data(Time::ZERO, ChannelId(1), vec![0; len]);
    comes(&mut r, 600);
    comes(&mut r, 401);
    comes(&mut r, 400);
    assert_eq!((r.buffered(ChannelId(1)), r.stats().overflow), ((2, Bytes::new(1000)), 1));
    r.set_limits(Bytes::new(2000), 3);
    comes(&mut r, 500);
    comes(&mut r, 500);
    assert_eq!((r.buffered(ChannelId(1)), r.stats().overflow), ((3, Bytes::new(1500)), 2));
    r.set_limits(Bytes::new(100), 1);
    comes(&mut r, 10);
    assert_eq!((r.buffered(ChannelId(1)), r.stats().overflow), ((3, Bytes::new(1500)), 3));
}

#[test]
fn room_that_was_made_before_costs_no_memory_when_the_first_packets_come() {
    let mut r = receiver(ReceiverConfig::default());
    r.reserve(100);
    let packets: Vec<_> = (0..200).map(|n| (ChannelId(n % 2), vec![0; 10])).collect();
    let counted = allocation_counter::measure(|| {
        for (channel, packet) in packets {
            r.handle_data(Time::ZERO, channel, packet);
        }
    });
    assert_eq!((counted.count_total, r.buffered_packets()), (0, 200));
}

#[test]
fn markers_without_data_between_them_take_one_place() {
    let mut r = receiver(ReceiverConfig::default());
    let counted = allocation_counter::measure(|| {
        (0..10_000).for_each(|_| hears(&mut r, marker(1, (1, 1000))));
    });
    assert!(counted.bytes_max < 1000, "{counted:?}");
    assert_eq!(r.stats().markers, 10_000);
}

#[test]
fn markers_tell_what_was_lost_and_may_ask_for_credit() {
    let mut r = receiver(ReceiverConfig::default());
    hears(&mut r, Marker { sent_bytes: 300, sent_packets: 3, ..marker(0, (1, 700)) });
    hears(&mut r, Marker { sent_bytes: 300, sent_packets: 3, ..marker(0, (1, 700)) });
    hears(&mut r, Marker { sent_bytes: 900, sent_packets: 5, ..marker(1, (1, 100)) });
    assert_eq!((r.stats().markers, r.stats().lost, r.poll_reply()), (3, 8, None));
    hears(&mut r, Marker { ask: true, sent_bytes: 900, sent_packets: 5, ..marker(1, (1, 100)) });
    let (channel, ack) = r.poll_reply().unwrap();
    assert_eq!((channel, ack.reset, ack.grant), (ChannelId(1), false, Some((4_000_900, 8197))));
    assert_eq!(r.poll_reply(), None);
}

#[test]
fn room_that_has_grown_by_half_the_buffer_since_it_was_told_is_told() {
    let mut config = ReceiverConfig::default();
    (config.credits, config.buffer_bytes, config.buffer_packets) = (true, Bytes::new(1000), 10);
    let mut r = receiver(config);
    let mut after = |len| {
        r.handle_data(Time::ZERO, ChannelId(0), vec![0; len]);
        assert!(r.poll_deliver().is_some());
        r.poll_reply().map(|(channel, ack)| (channel.0, ack.grant))
    };
    assert_eq!(after(499), None);
    assert_eq!(after(1), Some((0, Some((1500, 12)))));
    assert_eq!(after(400), None);
}

#[test]
fn a_marker_on_a_channel_where_the_plan_has_not_come_by_asks_for_a_reset() {
    let mut r: Receiver<Vec<u8>> = Receiver::new(ReceiverConfig::default());
    r.handle_plan(Time::ZERO, ChannelId(0), &plan(ChannelId(0)));
    assert!(!asks(&mut r));
    hears(&mut r, marker(1, (1, 1000)));
    assert_eq!((r.stats().unknown, r.stats().markers, asks(&mut r)), (1, 0, true));
}

/// How many equal markers in a row it takes, behind data of these lengths on channel 0, until a reset is asked for; none, if not five.
fn markers_until_reset(lengths: &[usize], marker: Marker) -> Option<usize> {
    let mut r = receiver(ReceiverConfig::default());
    lengths.iter().for_each(|len| r.handle_data(Time::ZERO, ChannelId(0), vec![0; *len]));
    let found = (1..=5).find(|_| {
        hears(&mut r, marker);
        asks(&mut r)
    });
    assert_eq!(r.stats().ahead, u64::from(found.is_some()));
    found
}

#[test]
fn more_bytes_than_were_sent_before_a_marker_prove_that_the_place_is_lost() {
    // 100 bytes of the 1000 have come, as the marker says; or fewer, since some were lost.
    assert_eq!(markers_until_reset(&[60, 40], marker(0, (1, 900))), None);
    assert_eq!(markers_until_reset(&[60], marker(0, (1, 900))), None);
    // A byte more: a frame may have overtaken its marker, but not each time.
    assert_eq!(markers_until_reset(&[60, 41], marker(0, (1, 900))), Some(3));
    // Two quanta more are still what a frame could be; beyond, they are not.
    assert_eq!(markers_until_reset(&[1000, 1000], marker(0, (1, 1000))), Some(3));
    assert_eq!(markers_until_reset(&[1000, 1000, 1], marker(0, (1, 1000))), Some(1));
    assert_eq!(markers_until_reset(&[1000, 1000, 500], marker(0, (1, 1000))), Some(1));
    // Nor are other quanta in one generation.
    assert_eq!(markers_until_reset(&[101], Marker { quantum: 999, ..marker(0, (1, 900)) }), Some(1));
    // Of another generation's counters nothing is known.
    assert_eq!(markers_until_reset(&[60, 41], Marker { generation: 0, ..marker(0, (1, 900)) }), None);
}

#[test]
fn a_channel_that_is_skipped_is_compared_by_the_round_that_it_waits_for() {
    let mut r = receiver(ReceiverConfig::default());
    let skips = r.stats().skips;
    hears(&mut r, marker(0, (3, 1000)));
    assert_eq!((r.poll_deliver(), r.discipline().round_of(ChannelId(0))), (None, 2));
    assert_eq!(r.stats().skips, skips + 1);
    r.handle_data(Time::ZERO, ChannelId(0), vec![0; 100]);
    hears(&mut r, marker(0, (3, 900)));
    assert!(!asks(&mut r));
    let asked: Vec<bool> = (0..3)
        .map(|_| {
            hears(&mut r, marker(0, (3, 901)));
            asks(&mut r)
        })
        .collect();
    assert_eq!(asked, [false, false, true]);
}

#[test]
fn a_marker_of_a_round_that_has_passed_counts_as_well_when_its_turn_comes() {
    let in_round_3 = || {
        let mut r = receiver(ReceiverConfig::default());
        for _ in 0..2 {
            (0..2).for_each(|channel| r.handle_data(Time::ZERO, ChannelId(channel), vec![0; 1000]));
        }
        assert_eq!((std::iter::from_fn(|| r.poll_deliver()).count(), r.discipline().round()), (4, 3));
        r
    };
    // One round before may be a frame that overtook it. It counts when it comes and when its turn comes.
    let mut r = in_round_3();
    hears(&mut r, marker(0, (2, 1000)));
    assert_eq!((r.poll_deliver(), r.stats().ahead, asks(&mut r)), (None, 0, false));
    hears(&mut r, marker(0, (2, 1000)));
    assert_eq!((r.stats().ahead, asks(&mut r)), (1, true));
    // Two rounds before is no such thing.
    let mut r = in_round_3();
    hears(&mut r, marker(0, (1, 1000)));
    assert_eq!((r.stats().ahead, r.poll_timeout()), (0, None));
    assert_eq!((r.poll_deliver(), r.stats().ahead, r.poll_timeout()), (None, 1, Some(Time::ZERO)));
}

#[test]
fn a_marker_with_another_quantum_or_of_a_change_before_its_round_proves_that_somebody_else_announced() {
    let mut r = receiver(ReceiverConfig::default());
    hears(&mut r, Marker { quantum: 999, ..marker(0, (1, 900)) });
    assert_eq!((r.stats().unknown, r.poll_timeout()), (0, None));
    assert_eq!((r.poll_deliver(), r.stats().unknown, r.poll_timeout()), (None, 1, Some(Time::ZERO)));
    let mut r = receiver(ReceiverConfig::default());
    let wider = ChannelSet::of(&[2000, 1000], Bytes::new(1000)).unwrap();
    hears_plan(&mut r, &other(0, 9, (2, 1), 50, &wider));
    hears(&mut r, Marker { generation: 2, quantum: 2000, ..marker(0, (1, 2000)) });
    assert_eq!((r.stats().unknown, r.poll_timeout()), (0, None));
    assert_eq!((r.poll_deliver(), r.stats().unknown, r.poll_timeout()), (None, 1, Some(Time::ZERO)));
}

#[test]
fn rounds_in_which_nobody_is_served_are_jumped_over_and_no_round_in_which_somebody_waits() {
    // Channel 0 goes on in round 1000, channel 1 in 33: 65 visits later, it is its turn.
    let mut r = receiver(ReceiverConfig::default());
    hears(&mut r, marker(1, (33, 1000)));
    hears(&mut r, marker(0, (1000, 1000)));
    assert_eq!((r.poll_deliver(), r.discipline().round()), (None, 33));
    r.handle_data(Time::ZERO, ChannelId(1), vec![0; 1000]);
    assert!(r.poll_deliver().is_some());
    // Dead, it is waited for no longer, but what it brought has its place.
    let mut r = receiver(ReceiverConfig::default());
    hears(&mut r, marker(1, (33, 1000)));
    r.handle_data(Time::ZERO, ChannelId(1), vec![0; 100]);
    hears_plan(&mut r, &Plan { dead: 2, ..other(0, 9, (2, 1), 1001, &two_of_a_kilobyte().without(2)) });
    hears(&mut r, marker(0, (1000, 1000)));
    assert_eq!((r.poll_deliver().map(|packet| packet.len()), r.discipline().round()), (Some(100), 33));
    assert_eq!((r.poll_deliver(), r.discipline().round(), r.stats().unknown), (None, 1000, 0));
}

#[test]
fn a_round_that_begins_just_when_nobody_was_served_for_long_is_not_jumped_over() {
    // 65 visits after the last marker's, the pointer has come to round 34 and not yet to channel 1, which waits for that round.
    for (dead, first) in [(false, None), (true, Some(100))] {
        let mut r = receiver(ReceiverConfig::default());
        r.handle_data(Time::ZERO, ChannelId(0), vec![0; 1000]);
        assert!(r.poll_deliver().is_some());
        hears(&mut r, marker(1, (34, 1000)));
        hears(&mut r, marker(0, (1000, 1000)));
        if dead {
            r.handle_data(Time::ZERO, ChannelId(1), vec![0; 100]);
            hears_plan(&mut r, &Plan { dead: 2, ..other(0, 9, (2, 1), 1001, &two_of_a_kilobyte().without(2)) });
        }
        let skips = r.stats().skips;
        assert_eq!((r.poll_deliver().map(|packet| packet.len()), r.discipline().round()), (first, 34));
        // Channel 1 in rounds 1 to 33, channel 0 in 2 to 34.
        assert_eq!(r.stats().skips - skips, 66);
    }
}

#[test]
fn a_member_that_stays_keeps_the_round_that_it_waits_for() {
    let mut r = receiver(ReceiverConfig::default());
    hears_plan(&mut r, &other(0, 9, (2, 1), 3, &ChannelSet::of(&[1000, 1000, 1000], Bytes::new(1000)).unwrap()));
    // On channel 1 all was lost up to round 10.
    hears(&mut r, Marker { generation: 2, ..marker(1, (10, 1000)) });
    hears_plan(&mut r, &other(2, 9, (2, 1), 3, &ChannelSet::of(&[1000, 1000, 1000], Bytes::new(1000)).unwrap()));
    for (channel, packets) in [(0, 5), (1, 1), (2, 3)] {
        (0..packets).for_each(|_| r.handle_data(Time::ZERO, ChannelId(channel), vec![channel; 1000]));
    }
    let order: Vec<u8> = std::iter::from_fn(|| r.poll_deliver()).map(|packet| packet[0]).collect();
    assert_eq!((order, r.generation(), r.buffered(ChannelId(1)).0), (vec![0, 0, 0, 2, 0, 2, 0, 2], 2, 1));
}

#[test]
fn what_comes_by_a_channel_that_joins_later_is_kept_while_earlier_changes_come_into_force() {
    let mut r = receiver(ReceiverConfig::default());
    let three = |first| ChannelSet::of(&[first, 1000, 1000], Bytes::new(1000)).unwrap();
    let wider = ChannelSet::of(&[2000, 1000], Bytes::new(1000)).unwrap();
    hears_plan(&mut r, &other(0, 9, (2, 1), 2, &wider));
    hears_plan(&mut r, &other(2, 9, (3, 2), 4, &three(2000)));
    hears_plan(&mut r, &other(2, 9, (4, 3), 6, &three(3000)));
    (0..2).for_each(|channel| r.handle_data(Time::ZERO, ChannelId(channel), vec![channel; 1000]));
    hears(&mut r, Marker { generation: 2, quantum: 2000, ..marker(0, (2, 2000)) });
    while r.poll_reply().is_some() {}
    assert_eq!((std::iter::from_fn(|| r.poll_deliver()).count(), r.generation()), (2, 2));
    // Those that are members are told, on their own channels.
    let told: Vec<_> = std::iter::from_fn(|| r.poll_reply()).map(|(channel, ack)| (channel.0, ack.applied)).collect();
    assert_eq!(told, [(0, 2), (1, 2)]);
    r.handle_data(Time::ZERO, ChannelId(2), vec![2; 1000]);
    assert_eq!((r.stats().stale, r.buffered(ChannelId(2)).0), (0, 1));
}

#[test]
fn two_that_have_died_one_after_the_other_are_both_waited_for_no_longer() {
    let three = ChannelSet::of(&[1000, 1000, 1000], Bytes::new(1000)).unwrap();
    let mut r: Receiver<Vec<u8>> = Receiver::new(ReceiverConfig::default());
    (0..3).for_each(|channel| hears_plan(&mut r, &other(channel, 9, (1, 1), 1, &three)));
    hears_plan(&mut r, &Plan { dead: 0b010, ..other(0, 9, (2, 1), 2, &three.without(0b010)) });
    hears_plan(&mut r, &Plan { dead: 0b110, ..other(0, 9, (3, 2), 3, &three.without(0b110)) });
    r.handle_data(Time::ZERO, ChannelId(0), vec![0; 1000]);
    assert!(r.poll_deliver().is_some());
    assert_eq!((r.poll_deliver(), r.discipline().round()), (None, 2));
}

#[test]
fn what_an_epoch_leaves_waits_until_it_is_taken() {
    let mut r = receiver(ReceiverConfig::default());
    // Channel 0 is missing: what is here is in the best order known.
    (0..3).for_each(|_| r.handle_data(Time::ZERO, ChannelId(1), vec![1; 500]));
    assert_eq!((r.poll_deliver(), r.buffered_packets()), (None, 3));
    hears_plan(&mut r, &other(0, 10, (1, 1), 1, &two_of_a_kilobyte()));
    assert_eq!((r.buffered(ChannelId(1)).0, r.buffered_packets()), (0, 3));
    assert_eq!((std::iter::from_fn(|| r.poll_deliver()).count(), r.buffered_packets()), (3, 0));
}

#[test]
fn a_request_is_repeated_when_it_is_due_and_something_was_heard_since_and_given_up_when_its_own_epoch_is_heard() {
    let at = |ms| Time::ZERO + Span::from_millis(ms);
    let stray = Marker { epoch: 77, ..marker(0, (1, 1000)) };
    let mut r = receiver(ReceiverConfig::default());
    let hears_at = |r: &mut Receiver<Vec<u8>>, ms| r.handle_marker(at(ms), ChannelId(0), &stray);
    let times_out = |r: &mut Receiver<Vec<u8>>, ms| {
        r.handle_timeout(at(ms));
        let asked = std::iter::from_fn(|| r.poll_reply()).filter(|(_, ack)| ack.reset).count() > 0;
        (asked, r.poll_timeout())
    };
    assert_eq!((r.poll_timeout(), r.stats().unknown), (None, 0));
    hears_at(&mut r, 0);
    assert_eq!((asks(&mut r), r.poll_timeout()), (true, Some(at(30))));
    // What is heard in between does not bring the next one sooner.
    hears_at(&mut r, 10);
    assert_eq!((asks(&mut r), r.poll_timeout()), (false, Some(at(30))));
    assert_eq!(times_out(&mut r, 29), (false, Some(at(30))));
    assert_eq!(times_out(&mut r, 30), (true, Some(at(90))));
    // Nobody is there to be asked, until somebody is heard.
    assert_eq!(times_out(&mut r, 90), (false, None));
    hears_at(&mut r, 500);
    assert_eq!((asks(&mut r), r.poll_timeout()), (false, Some(at(500))));
    assert_eq!(times_out(&mut r, 500), (true, Some(at(620))));
    r.handle_marker(at(510), ChannelId(1), &marker(1, (1, 1000)));
    assert_eq!((r.poll_timeout(), times_out(&mut r, 620)), (None, (false, None)));
}

#[test]
fn only_a_channel_that_is_open_has_room_to_grant() {
    let mut r: Receiver<Vec<u8>> = Receiver::new(ReceiverConfig::default());
    assert_eq!(r.grant(ChannelId(1)), None);
    hears_plan(&mut r, &plan(ChannelId(1)));
    assert_eq!((r.grant(ChannelId(0)), r.grant(ChannelId(64))), (None, None));
    assert_eq!(r.grant(ChannelId(1)), Some(Grant { epoch: 9, bytes: 4_000_000, packets: 8192 }));
}

#[test]
fn while_a_change_is_announced_no_marker_proves_that_the_place_is_lost() {
    let mut r = receiver(ReceiverConfig::default());
    let wider = ChannelSet::of(&[2000, 1000], Bytes::new(1000)).unwrap();
    hears_plan(&mut r, &other(0, 9, (2, 1), 50, &wider));
    r.handle_data(Time::ZERO, ChannelId(0), vec![0; 101]);
    for _ in 0..5 {
        hears(&mut r, marker(0, (1, 900)));
        assert!(!asks(&mut r));
    }
}

/// Another plan: its epoch, generations and members differ.
fn other(channel: u8, epoch: u32, (generation, base): (u16, u16), start: u32, set: &ChannelSet) -> Plan {
    Plan { epoch, channel: ChannelId(channel), generation, base, start, set: set.clone(), dead: 0 }
}

fn hears_plan(receiver: &mut Receiver<Vec<u8>>, plan: &Plan) {
    receiver.handle_plan(Time::ZERO, plan.channel, plan);
}

#[test]
fn what_names_another_channel_or_none_that_there_can_be_is_counted_and_nothing_else() {
    let mut r = receiver(ReceiverConfig::default());
    let before = *r.stats();
    r.handle_marker(Time::ZERO, ChannelId(0), &marker(1, (1, 1000)));
    r.handle_marker(Time::ZERO, ChannelId(64), &marker(64, (1, 1000)));
    r.handle_plan(Time::ZERO, ChannelId(0), &plan(ChannelId(1)));
    r.handle_plan(Time::ZERO, ChannelId(64), &plan(ChannelId(64)));
    let mut expected = before;
    expected.miswired = 4;
    assert_eq!((*r.stats(), r.poll_reply()), (expected, None));
}

#[test]
fn eight_markers_in_a_row_of_an_epoch_that_is_over_prove_that_it_is_not() {
    let mut r = receiver(ReceiverConfig::default());
    let set = two_of_a_kilobyte();
    (0..2).for_each(|channel| hears_plan(&mut r, &other(channel, 10, (1, 1), 1, &set)));
    assert!(!asks(&mut r));
    let old = |r: &mut Receiver<Vec<u8>>| {
        (0..7).for_each(|_| hears(r, marker(0, (1, 1000))));
        (r.stats().old_epoch, r.stats().unknown, asks(r))
    };
    assert_eq!(old(&mut r), (7, 0, false));
    hears(&mut r, Marker { epoch: 10, ..marker(0, (1, 1000)) });
    assert_eq!(old(&mut r), (14, 0, false));
    hears(&mut r, marker(0, (1, 1000)));
    assert_eq!((r.stats().old_epoch, r.stats().unknown, r.stats().markers, asks(&mut r)), (14, 1, 1, true));
}

#[test]
fn a_marker_of_an_epoch_that_nobody_announced_asks_for_another() {
    let mut r = receiver(ReceiverConfig::default());
    hears(&mut r, Marker { epoch: 77, ..marker(0, (1, 1000)) });
    let (_, ack) = r.poll_reply().unwrap();
    assert_eq!((ack.reset, ack.epoch, r.stats().unknown, r.stats().markers), (true, 77, 1, 0));
}

#[test]
fn the_last_eight_epochs_are_remembered_and_do_not_begin_again() {
    let mut r: Receiver<Vec<u8>> = Receiver::new(ReceiverConfig::default());
    let set = two_of_a_kilobyte();
    let mut begin = |epoch| {
        hears_plan(&mut r, &other(0, epoch, (1, 1), 1, &set));
        (r.epoch(), r.stats().epochs, r.stats().old_epoch)
    };
    for epoch in 1..=9 {
        assert_eq!(begin(epoch), (Some(epoch), u64::from(epoch), 0));
    }
    assert_eq!(begin(1), (Some(9), 9, 1));
    assert_eq!(begin(8), (Some(9), 9, 2));
    assert_eq!(begin(10), (Some(10), 10, 2));
    assert_eq!(begin(1), (Some(1), 11, 2));
}

#[test]
fn a_plan_from_the_middle_of_an_unknown_epoch_and_two_plans_of_one_generation_ask_for_a_reset() {
    let set = two_of_a_kilobyte();
    let mut r = receiver(ReceiverConfig::default());
    hears_plan(&mut r, &other(0, 50, (3, 2), 1, &set));
    assert_eq!((r.stats().unknown, r.epoch(), asks(&mut r)), (1, Some(9), true));
    let mut r = receiver(ReceiverConfig::default());
    hears_plan(&mut r, &other(0, 9, (1, 1), 1, &ChannelSet::of(&[1000, 2000], Bytes::new(1000)).unwrap()));
    assert_eq!((r.stats().unknown, asks(&mut r)), (1, true));
}

#[test]
fn changes_announced_upon_each_other_come_into_force_one_after_the_other_and_what_a_member_leaves_is_delivered() {
    let mut r = receiver(ReceiverConfig::default());
    let (wider, one) = (ChannelSet::of(&[2000, 1000], Bytes::new(1000)).unwrap(), two_of_a_kilobyte().without(2));
    hears_plan(&mut r, &other(0, 9, (2, 1), 2, &wider));
    hears_plan(&mut r, &other(0, 9, (3, 2), 3, &one));
    let comes = |r: &mut Receiver<Vec<u8>>, channel, lengths: &[usize]| {
        lengths.iter().for_each(|len| r.handle_data(Time::ZERO, ChannelId(channel), vec![channel; *len]));
    };
    // Three rounds of channel 0, and more on channel 1 than its two.
    comes(&mut r, 0, &[1000, 1000, 1000, 1000]);
    comes(&mut r, 1, &[1000, 1000, 300, 200]);
    hears(&mut r, Marker { generation: 3, sent_bytes: 4000, sent_packets: 4, ..marker(0, (4, 1000)) });
    while r.poll_reply().is_some() {}
    let order: Vec<(u8, usize)> =
        std::iter::from_fn(|| r.poll_deliver()).map(|packet| (packet[0], packet.len())).collect();
    let k = 1000;
    assert_eq!(order, [(0, k), (1, k), (0, k), (0, k), (1, k), (1, 300), (1, 200), (0, k)]);
    assert_eq!((r.generation(), r.stats().changes, r.stats().delivered), (3, 2, 8));
    assert_eq!((r.stats().delivered_bytes, r.buffered_packets()), (6500, 0));
    let told: Vec<_> = std::iter::from_fn(|| r.poll_reply()).map(|(channel, ack)| (channel.0, ack.applied)).collect();
    assert_eq!(told, [(0, 3), (1, 3)]);
}

#[test]
fn what_a_member_leaves_does_not_wait_for_word_of_the_next_change() {
    let mut r = receiver(ReceiverConfig::default());
    let (one, wider) = (two_of_a_kilobyte().without(2), ChannelSet::of(&[2000], Bytes::new(1000)).unwrap());
    // Both begin in round 2. The second says that the first is in force, and nothing says so of the second.
    hears_plan(&mut r, &other(0, 9, (2, 1), 2, &one));
    hears_plan(&mut r, &other(0, 9, (3, 2), 2, &wider));
    for (channel, len) in [(0, 1000), (0, 900), (1, 1000), (1, 300)] {
        r.handle_data(Time::ZERO, ChannelId(channel), vec![channel; len]);
    }
    let order = |r: &mut Receiver<Vec<u8>>| -> Vec<(u8, usize)> {
        std::iter::from_fn(|| r.poll_deliver()).map(|packet| (packet[0], packet.len())).collect()
    };
    assert_eq!((order(&mut r), r.generation()), (vec![(0, 1000), (1, 1000), (1, 300)], 2));
    hears(&mut r, Marker { generation: 3, quantum: 2000, sent_bytes: 1900, sent_packets: 2, ..marker(0, (2, 1100)) });
    assert_eq!((order(&mut r), r.generation()), (vec![(0, 900)], 3));
}

#[test]
fn eight_changes_may_wait_and_the_ninth_asks_for_a_reset() {
    let mut r = receiver(ReceiverConfig::default());
    let announced: Vec<bool> = (1..=9)
        .map(|generation| {
            let set = ChannelSet::of(&[1000 + u64::from(generation), 1000], Bytes::new(1000)).unwrap();
            hears_plan(&mut r, &other(0, 9, (generation + 1, generation), 100 + u32::from(generation), &set));
            asks(&mut r)
        })
        .collect();
    assert_eq!(announced, [false, false, false, false, false, false, false, false, true]);
    assert_eq!(r.stats().unknown, 1);
}

#[test]
fn a_marker_of_a_generation_whose_plan_has_not_come_is_answered_so_that_the_plan_comes_again() {
    let mut r = receiver(ReceiverConfig::default());
    hears(&mut r, Marker { generation: 2, ..marker(1, (1, 1000)) });
    let (channel, ack) = r.poll_reply().unwrap();
    assert_eq!((channel, ack.generation, ack.reset, r.poll_reply()), (ChannelId(1), 1, false, None));
}

#[test]
fn a_change_that_one_marker_has_confirmed_is_not_taken_back_by_another() {
    let mut r = receiver(ReceiverConfig::default());
    hears_plan(&mut r, &other(0, 9, (2, 1), 1, &ChannelSet::of(&[2000, 1000], Bytes::new(1000)).unwrap()));
    hears(&mut r, Marker { generation: 2, ..marker(0, (1, 1000)) });
    hears(&mut r, marker(1, (1, 1000)));
    assert_eq!((r.poll_deliver(), r.generation()), (None, 2));
    // One that nobody has confirmed is taken back, since its round has come without it.
    let mut r = receiver(ReceiverConfig::default());
    hears_plan(&mut r, &other(0, 9, (2, 1), 1, &ChannelSet::of(&[2000, 1000], Bytes::new(1000)).unwrap()));
    hears(&mut r, marker(1, (1, 1000)));
    hears(&mut r, Marker { generation: 2, ..marker(0, (1, 1000)) });
    assert_eq!((r.poll_deliver(), r.generation()), (None, 1));
}

#[test]
fn a_death_is_announced_for_the_very_next_round_and_one_for_a_later_round_proves_a_lost_place() {
    for (start, absurd) in [(6, false), (7, true), (8, true)] {
        let mut r = receiver(ReceiverConfig::default());
        let rest = two_of_a_kilobyte().without(2);
        hears_plan(&mut r, &Plan { dead: 2, ..other(0, 9, (2, 1), start, &rest) });
        hears(&mut r, marker(0, (5, 1000)));
        assert_eq!((r.stats().unknown, r.poll_timeout()), (u64::from(absurd), absurd.then_some(Time::ZERO)), "{start}");
    }
}

#[test]
fn older_markers_and_no_other_for_32_intervals_prove_that_somebody_else_announced() {
    let mut r = receiver(ReceiverConfig::default());
    let mut at = |ms: u64, generation| {
        let now = Time::ZERO + Span::from_millis(ms);
        r.handle_marker(now, ChannelId(0), &Marker { generation, ..marker(0, (1, 1000)) });
        (r.stats().unknown, asks(&mut r))
    };
    assert_eq!([at(0, 0), at(959, 0), at(959, 1), at(1000, 0), at(1959, 0)], [(0, false); 5]);
    assert_eq!(at(1960, 0), (1, true));
}

#[test]
fn a_sender_refuses_a_quantum_that_does_not_hold_the_longest_packet() {
    let set = ChannelSet::of(&[1500, 1499], Bytes::new(1)).unwrap();
    let refused = ConfigError::Set(SetError::Quantum { channel: ChannelId(1), quantum: 1499, least: 1500 });
    assert_eq!(Sender::new(Config::default(), &set, Time::ZERO, 1).err(), Some(refused));
    let mut sender =
        Sender::new(Config::default(), &ChannelSet::of(&[1500], Bytes::new(1)).unwrap(), Time::ZERO, 1).unwrap();
    assert_eq!(sender.set_channels(Time::ZERO, &set), Err(refused));
    assert_eq!(sender.channels().len(), 1);
}

#[test]
fn credit_on_a_marker_counts_for_the_channel_that_it_came_by() {
    for (came_by, expected) in [(0, Ok(ChannelId(0))), (1, Err(Wait::Credit(ChannelId(0))))] {
        let (mut config, receiver) = (Config::default(), ReceiverConfig::default());
        (config.credits, config.max_packet) = (true, Bytes::new(1000));
        let mut end: Endpoint<Vec<u8>> = Endpoint::new(config, receiver, &two_of_a_kilobyte(), Time::ZERO, 7).unwrap();
        // The other end.
        let mut peer: Receiver<Vec<u8>> = Receiver::new(ReceiverConfig::default());
        while let Some((channel, control)) = end.poll_control(Time::ZERO) {
            if let Control::Plan(plan) = control {
                peer.handle_plan(Time::ZERO, channel, &plan);
            }
        }
        while let Some((channel, mut ack)) = peer.poll_reply() {
            ack.grant = None;
            end.handle_control(Time::ZERO, channel, &Control::Ack(ack));
        }
        // Markers go out before data.
        while end.poll_control(Time::ZERO).is_some() {}
        assert_eq!(end.sender.next_channel(Bytes::new(1000)), Err(Wait::Credit(ChannelId(0))));
        let grant = Some(Grant { epoch: 7, bytes: 1000, packets: 1 });
        end.handle_control(Time::ZERO, ChannelId(came_by), &Control::Marker(Marker { grant, ..marker(0, (1, 1000)) }));
        assert_eq!(end.sender.next_channel(Bytes::new(1000)), expected);
    }
}

#[test]
fn quanta_may_be_as_large_as_the_bound_and_as_small_as_the_least_fragment() {
    let rates = [(ChannelId(0), Rate::from_mbit(10)), (ChannelId(1), Rate::from_mbit(100))];
    let most = |bound| quanta::from_rates(&rates, Bytes::new(1500), Bytes::new(bound));
    assert_eq!(most(15_000).unwrap().quantum(ChannelId(1)), 15_000);
    assert!(most(14_999).is_err());
    // 10 Mbit/s carry 1250 bytes in a millisecond.
    let least = |bytes| quanta::from_fragment_delay(&rates, Span::from_millis(1), Bytes::new(bytes));
    assert_eq!(least(1250).unwrap().1, Bytes::new(1250));
    assert!(least(1251).is_err());
}
