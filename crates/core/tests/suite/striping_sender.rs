//! The stripe's sender, message by message: when it repeats itself, what it counts, and what the peer's answers make of it.

use fairspan_core::causal::ChannelSet;
use fairspan_core::stripe::{Config, ConfigError, EpochCause, Event, Sender, Wait};
use fairspan_core::units::{Bytes, ChannelId, Span, Time};
use fairspan_core::wire::marker::{Ack, Control, Grant, Plan};

const EPOCH: u32 = 7;

fn config() -> Config {
    let mut config = Config::default();
    config.max_packet = Bytes::new(1000);
    config
}

fn quanta(of: [u64; 2]) -> ChannelSet {
    ChannelSet::of(&of, Bytes::new(1000)).unwrap()
}

fn sender(config: Config) -> Sender {
    Sender::new(config, &quanta([1000, 1000]), Time::ZERO, EPOCH).unwrap()
}

fn at(ms: u64) -> Time {
    Time::ZERO + Span::from_millis(ms)
}

fn ack(seen: u64) -> Ack {
    let channel = ChannelId(0);
    Ack { epoch: EPOCH, channel, generation: 1, applied: 1, seen, reset: false, grant: None }
}

fn hears(sender: &mut Sender, ms: u64, ack: Ack) {
    sender.handle_ack(at(ms), ack.channel, &ack);
}

/// Takes all control messages; gives the plans among them, and how many markers there were.
fn says(sender: &mut Sender, now: Time) -> (Vec<Plan>, usize) {
    let (mut plans, mut markers) = (vec![], 0);
    while let Some((channel, control)) = sender.poll_control(now) {
        assert_eq!(control.channel(), channel);
        match control {
            Control::Plan(plan) => plans.push(*plan),
            Control::Marker(_) => markers += 1,
            Control::Ack(_) => unreachable!("a sender answers nothing"),
        }
    }
    (plans, markers)
}

/// One that may send.
fn established(config: Config) -> Sender {
    let mut sender = sender(config);
    hears(&mut sender, 0, ack(0b11));
    assert_eq!(says(&mut sender, Time::ZERO).1, 2);
    sender
}

fn events(sender: &mut Sender) -> Vec<Event> {
    std::iter::from_fn(|| sender.poll_event()).collect()
}

/// Runs by the timer alone until it has gone off so many times; gives when, in milliseconds.
fn timer(sender: &mut Sender, times: usize) -> Vec<u64> {
    (0..times)
        .map(|_| {
            let due = sender.poll_timeout().unwrap();
            // A moment too early nothing is due.
            let (before, early) = (*sender.stats(), Time::from_nanos(due.as_nanos() - 1));
            sender.handle_timeout(early);
            says(sender, early);
            assert_eq!(*sender.stats(), before);
            sender.handle_timeout(due);
            says(sender, due);
            due.as_nanos() / 1_000_000
        })
        .collect()
}

#[test]
fn a_setting_that_must_not_be_zero_is_named() {
    type Zero = fn(&mut Config);
    let zeros: [(&str, Zero); 5] = [
        ("marker_rounds", |config| config.marker_rounds = 0),
        ("lead_rounds", |config| config.lead_rounds = 0),
        ("max_packet", |config| config.max_packet = Bytes::ZERO),
        ("marker_interval", |config| config.marker_interval = Span::ZERO),
        ("announce_interval", |config| config.announce_interval = Span::ZERO),
    ];
    for (setting, zero) in zeros {
        let mut config = config();
        zero(&mut config);
        let refused = Sender::new(config, &quanta([1000, 1000]), Time::ZERO, EPOCH).err();
        assert_eq!(refused, Some(ConfigError::Zero { setting }));
    }
}

#[test]
fn an_unanswered_plan_is_repeated_ever_more_seldom_and_after_eight_times_the_patience_in_another_epoch() {
    let mut s = sender(config());
    let (plans, markers) = says(&mut s, Time::ZERO);
    assert_eq!((plans.len(), plans[1].channel, plans[1].start, markers), (2, ChannelId(1), 1, 0));
    assert_eq!(timer(&mut s, 12), [30, 90, 210, 450, 930, 1890, 2890, 3890, 4890, 5890, 6890, 7890]);
    assert_eq!((s.stats().plans, s.stats().epochs, s.epoch()), (26, 1, EPOCH));
    assert_eq!(timer(&mut s, 2), [8890, 8920]);
    assert_eq!((s.stats().epochs, s.epoch()), (2, EPOCH + 0x1000));
    assert_eq!(
        events(&mut s),
        [Event::Epoch(EPOCH, EpochCause::Start), Event::Epoch(EPOCH + 0x1000, EpochCause::NoAnswer)]
    );
}

#[test]
fn a_channel_that_stays_silent_for_the_patience_after_another_s_answer_is_left_out() {
    for (answer, left_out) in [(890, true), (891, false)] {
        let mut s = sender(config());
        says(&mut s, Time::ZERO);
        assert_eq!(timer(&mut s, 4), [30, 90, 210, 450]);
        hears(&mut s, answer, ack(0b01));
        assert_eq!(timer(&mut s, 2), [930, 1890]);
        let channels = if left_out { 0b01 } else { 0b11 };
        assert_eq!((s.channels().mask(), s.epoch()), (channels, EPOCH + u32::from(left_out)), "{answer}");
        if left_out {
            let [_, out, epoch] = events(&mut s)[..] else { panic!("three events") };
            assert_eq!((out, epoch), (Event::LeftOut(0b10), Event::Epoch(EPOCH + 1, EpochCause::LeftOut)));
        }
    }
}

#[test]
fn answers_that_are_of_another_epoch_or_channel_are_counted_and_nothing_else() {
    let mut s = sender(config());
    says(&mut s, Time::ZERO);
    hears(&mut s, 1, Ack { epoch: EPOCH - 1, ..ack(0b11) });
    hears(&mut s, 1, Ack { epoch: EPOCH + 1, ..ack(0b11) });
    s.handle_ack(at(1), ChannelId(1), &ack(0b11));
    // A peer that knows no epoch asks for one: the plan under way is the answer.
    hears(&mut s, 1, Ack { epoch: 0, reset: true, ..ack(0) });
    assert_eq!((s.stats().stale_acks, s.stats().miswired, s.stats().epochs, s.is_established()), (2, 1, 1, false));
    assert_eq!(s.next_channel(Bytes::new(9)), Err(Wait::Handshake(ChannelId(0))));
}

#[test]
fn the_peer_may_ask_for_an_epoch_and_one_that_follows_another_plan_gets_one() {
    for (answer, cause) in [
        (Ack { reset: true, ..ack(0) }, Some(EpochCause::PeerAsked)),
        (Ack { reset: true, epoch: 0, ..ack(0) }, Some(EpochCause::PeerAsked)),
        (Ack { reset: true, epoch: EPOCH + 1, ..ack(0) }, None),
        (Ack { generation: 2, ..ack(0b11) }, Some(EpochCause::Foreign)),
        (Ack { applied: 2, ..ack(0b11) }, Some(EpochCause::Foreign)),
        (ack(0b11), None),
    ] {
        let mut s = established(config());
        events(&mut s);
        hears(&mut s, 5, answer);
        let expected: Vec<_> = cause.into_iter().map(|cause| Event::Epoch(EPOCH + 1, cause)).collect();
        assert_eq!(events(&mut s), expected, "{answer:?}");
        assert_eq!((s.stats().epochs, s.is_established()), (1 + expected.len() as u64, expected.is_empty()));
    }
}

#[test]
fn the_newest_64_events_are_kept() {
    let mut s = sender(config());
    for n in 0..100 {
        hears(&mut s, 1, Ack { reset: true, epoch: EPOCH + n, ..ack(0) });
    }
    let kept = events(&mut s);
    let first = Event::Epoch(EPOCH + 100 - 63, EpochCause::PeerAsked);
    assert_eq!((kept.len(), kept[0], s.epoch()), (64, first, EPOCH + 100));
}

#[test]
fn one_that_falls_idle_repeats_its_markers_three_times_and_then_ever_more_seldom() {
    let mut s = established(config());
    s.on_sent(Time::ZERO, Bytes::new(500));
    assert_eq!((s.stats().packets, s.stats().bytes), (1, 500));
    // The markers before were less than 5 ms ago.
    s.on_idle(Time::ZERO);
    assert_eq!(says(&mut s, Time::ZERO), (vec![], 0));
    let expected = [5, 25, 45, 65, 85, 125, 205, 365, 685, 1325, 2605, 5165, 10165, 15165];
    assert_eq!(timer(&mut s, expected.len()), expected);
    assert_eq!(s.stats().markers, 2 + 2 * expected.len() as u64);
    // Whoever sends again begins anew.
    s.on_sent(at(16_000), Bytes::new(100));
    s.on_idle(at(16_000));
    assert_eq!(says(&mut s, at(16_000)).1, 2, "the last ones were long ago");
    assert_eq!(timer(&mut s, 5), [16_020, 16_040, 16_060, 16_080, 16_120]);
}

#[test]
fn the_fall_into_idleness_sends_markers_at_once_when_the_gap_is_over() {
    for (ms, markers) in [(4, 0), (5, 2)] {
        let mut s = established(config());
        s.on_sent(at(1), Bytes::new(500));
        s.on_idle(at(ms));
        assert_eq!(says(&mut s, at(ms)).1, markers, "{ms}");
    }
    // One that has sent nothing since has nothing to tell.
    let mut s = established(config());
    s.on_sent(at(1), Bytes::new(500));
    timer(&mut s, 1);
    s.on_idle(at(30));
    assert_eq!((says(&mut s, at(30)).1, s.poll_timeout()), (0, Some(at(50))));
}

#[test]
fn a_change_that_is_not_seen_in_time_is_put_off_twice_as_far_each_time_under_another_generation() {
    let mut s = established(config());
    s.set_channels(Time::ZERO, &quanta([2000, 1000])).unwrap();
    let mut announced = vec![];
    let mut send = |s: &mut Sender, until: &dyn Fn(&Sender) -> bool| {
        for _ in 0..200 {
            for plan in says(s, Time::ZERO).0 {
                let news = (plan.start, plan.generation, plan.base);
                if !announced.contains(&news) {
                    announced.push(news);
                }
            }
            if until(s) {
                return;
            }
            s.next_channel(Bytes::new(1000)).unwrap();
            s.on_sent(Time::ZERO, Bytes::new(1000));
        }
    };
    send(&mut s, &|s| s.stats().postponed == 2);
    assert_eq!((s.discipline().round(), s.stats().changes, s.is_settled()), (13, 0, false));
    // An answer to what was announced before does not count.
    hears(&mut s, 0, Ack { generation: 3, ..ack(0b11) });
    hears(&mut s, 0, Ack { generation: 4, ..ack(0b11) });
    send(&mut s, &|s| s.stats().changes == 1);
    assert_eq!((s.discipline().round(), s.generation(), s.channels().quantum(ChannelId(0))), (29, 4, 2000));
    assert_eq!((s.stats().postponed, s.is_settled()), (2, false));
    hears(&mut s, 0, Ack { generation: 4, applied: 4, ..ack(0b11) });
    assert!(s.is_settled());
    assert_eq!(announced[..3], [(5, 2, 1), (13, 3, 1), (29, 4, 1)]);
    assert_eq!(events(&mut s).last(), Some(&Event::Changed { generation: 4, mask: 0b11 }));
}

#[test]
fn what_a_packet_waits_for_is_told() {
    let first = ChannelId(0);
    let mut config = config();
    config.credits = true;
    let mut s = sender(config);
    assert_eq!(s.next_channel(Bytes::new(1001)), Err(Wait::TooLong));
    assert_eq!(s.next_channel(Bytes::new(1000)), Err(Wait::Handshake(first)));
    hears(&mut s, 0, ack(0b11));
    assert_eq!(s.next_channel(Bytes::new(1000)), Err(Wait::Marker(first)));
    s.set_blocked(first, true);
    // The marker on the channel that takes nothing waits as well.
    assert_eq!((says(&mut s, Time::ZERO).1, s.next_channel(Bytes::new(9))), (1, Err(Wait::Marker(first))));
    s.set_blocked(first, false);
    assert_eq!(says(&mut s, Time::ZERO).1, 1);
    s.set_blocked(first, true);
    assert_eq!(s.next_channel(Bytes::new(9)), Err(Wait::Blocked(first)));
    s.set_blocked(first, false);
    assert_eq!(s.next_channel(Bytes::new(9)), Err(Wait::Credit(first)));
    s.handle_grant(first, &Grant { epoch: EPOCH + 1, bytes: 100, packets: 9 });
    assert_eq!(s.next_channel(Bytes::new(9)), Err(Wait::Credit(first)));
    s.handle_grant(first, &Grant { epoch: EPOCH, bytes: 100, packets: 9 });
    assert_eq!(s.next_channel(Bytes::new(9)), Ok(first));
    assert_eq!(s.next_channel(Bytes::new(101)), Err(Wait::Credit(first)));
}

/// Channels 0, 1, ... with quanta of 1000 bytes, of which `mask` says who takes part.
fn members(mask: u64) -> ChannelSet {
    ChannelSet::of(&[1000; 4], Bytes::new(1000)).unwrap().without(!mask)
}

/// One of the channels of `mask` that may send, and has sent so much that it is not idle.
fn busy(mask: u64) -> Sender {
    let mut s = Sender::new(config(), &members(mask), Time::ZERO, EPOCH).unwrap();
    hears(&mut s, 0, ack(mask));
    says(&mut s, Time::ZERO);
    s.on_sent(Time::ZERO, Bytes::new(100));
    events(&mut s);
    s
}

/// The channels on which the timer sends markers when they are due next.
fn marked(s: &mut Sender) -> Vec<u8> {
    loop {
        let due = s.poll_timeout().unwrap();
        s.handle_timeout(due);
        let said = std::iter::from_fn(|| s.poll_control(due));
        let marked = said.filter(|(_, control)| matches!(control, Control::Marker(_))).map(|(channel, _)| channel.0);
        let marked: Vec<u8> = marked.collect();
        if !marked.is_empty() || due > at(60_000) {
            return marked;
        }
    }
}

/// Runs by the timer alone for so many seconds.
fn seconds(s: &mut Sender, seconds: u64) {
    let (now, until) = (s.poll_timeout().unwrap(), s.poll_timeout().unwrap() + Span::from_secs(seconds));
    says(s, now);
    while s.poll_timeout().unwrap() <= until {
        timer(s, 1);
    }
}

/// Sends full packets until the next round has begun.
fn next_round(s: &mut Sender) {
    let round = s.discipline().round();
    while s.discipline().round() == round {
        says(s, Time::ZERO);
        s.next_channel(Bytes::new(1000)).unwrap();
        s.on_sent(Time::ZERO, Bytes::new(1000));
    }
}

#[test]
fn a_sender_is_settled_when_the_peer_has_seen_the_plan_and_not_before() {
    let mut s = sender(config());
    assert!(!s.is_settled());
    hears(&mut s, 0, ack(0b01));
    assert!(!s.is_settled());
    hears(&mut s, 0, ack(0b11));
    assert!(s.is_settled());
}

#[test]
fn all_64_channels_may_wait_for_a_plan() {
    let set = ChannelSet::of(&[1000; 64], Bytes::new(1000)).unwrap();
    let mut s = Sender::new(config(), &set, Time::ZERO, EPOCH).unwrap();
    assert_eq!(says(&mut s, Time::ZERO).0.len(), 64);
}

#[test]
fn a_change_before_the_first_is_established_is_another_epoch_and_none_if_it_changes_nothing() {
    let mut s = sender(config());
    says(&mut s, Time::ZERO);
    s.set_channels(Time::ZERO, &quanta([1000, 1000])).unwrap();
    assert_eq!((s.epoch(), says(&mut s, Time::ZERO)), (EPOCH, (vec![], 0)));
    s.set_channels(Time::ZERO, &quanta([2000, 1000])).unwrap();
    let (plans, _) = says(&mut s, Time::ZERO);
    let told: Vec<_> = plans.iter().map(|plan| (plan.epoch, plan.generation, plan.set.quantum(ChannelId(0)))).collect();
    assert_eq!((s.epoch(), told), (EPOCH + 1, vec![(EPOCH + 1, 1, 2000); 2]));
    assert_eq!(events(&mut s).last(), Some(&Event::Epoch(EPOCH + 1, EpochCause::Set)));
}

#[test]
fn a_change_that_is_wanted_twice_is_announced_once_and_one_that_is_taken_back_is_dropped() {
    let mut s = busy(0b11);
    let announced = |s: &mut Sender, set: &ChannelSet| -> Vec<u16> {
        s.set_channels(Time::ZERO, set).unwrap();
        says(s, Time::ZERO).0.iter().map(|plan| plan.generation).collect()
    };
    assert_eq!(announced(&mut s, &members(0b11)), [0; 0]);
    assert_eq!(announced(&mut s, &quanta([2000, 1000])), [2, 2]);
    assert_eq!(announced(&mut s, &quanta([2000, 1000])), [0; 0]);
    // Another one takes its place.
    assert_eq!(announced(&mut s, &quanta([3000, 1000])), [3, 3]);
    assert_eq!(announced(&mut s, &members(0b11)), [0; 0]);
    assert!(s.is_settled());
    (0..10).for_each(|_| next_round(&mut s));
    assert_eq!((s.stats().changes, s.stats().postponed, s.generation()), (0, 0, 1));
}

#[test]
fn a_change_without_a_new_member_waits_for_its_answer_and_one_with_a_silent_member_is_given_up() {
    let mut s = busy(0b011);
    s.set_channels(Time::ZERO, &quanta([2000, 1000])).unwrap();
    seconds(&mut s, 3);
    assert_eq!((events(&mut s), s.is_settled()), (vec![], false));
    hears(&mut s, 3000, Ack { generation: 2, ..ack(0b01) });
    (0..5).for_each(|_| next_round(&mut s));
    assert_eq!(s.channels().quantum(ChannelId(0)), 2000);
    // Nobody answers on channel 2.
    for (answer, expected) in [(0b011, vec![Event::LeftOut(0b100)]), (0b111, vec![])] {
        let mut s = busy(0b011);
        s.set_channels(Time::ZERO, &members(0b111)).unwrap();
        hears(&mut s, 0, Ack { generation: 2, ..ack(answer) });
        seconds(&mut s, 3);
        assert_eq!((events(&mut s), s.is_settled()), (expected.clone(), !expected.is_empty()));
    }
}

#[test]
fn an_answer_that_has_seen_nothing_accepts_no_change_and_one_that_has_makes_it_at_its_round() {
    for (seen, generation) in [(0, 1), (0b10, 2)] {
        let mut s = busy(0b11);
        s.set_channels(Time::ZERO, &quanta([2000, 1000])).unwrap();
        says(&mut s, Time::ZERO);
        hears(&mut s, 1, Ack { generation: 2, ..ack(seen) });
        assert_eq!((s.discipline().round(), s.generation()), (1, 1), "a busy sender skips no round");
        (0..4).for_each(|_| next_round(&mut s));
        assert_eq!((s.discipline().round(), s.generation()), (5, generation), "{seen}");
    }
}

#[test]
fn what_was_seen_is_announced_no_more_until_it_is_in_force_and_the_peer_has_not_come_to_it() {
    let mut s = busy(0b11);
    s.set_channels(Time::ZERO, &quanta([2000, 1000])).unwrap();
    assert_eq!(says(&mut s, Time::ZERO).0.len(), 2);
    // An old answer brings no plan before its time.
    hears(&mut s, 1, ack(0b11));
    assert_eq!(says(&mut s, at(1)).0.len(), 0);
    hears(&mut s, 1, Ack { generation: 2, ..ack(0b01) });
    let plans = s.stats().plans;
    seconds(&mut s, 3);
    assert_eq!(s.stats().plans, plans);
    (0..4).for_each(|_| next_round(&mut s));
    seconds(&mut s, 3);
    assert!(s.stats().plans > plans + 2);
    hears(&mut s, 9000, Ack { generation: 2, applied: 2, ..ack(0b01) });
    let plans = s.stats().plans;
    seconds(&mut s, 3);
    assert_eq!((s.stats().plans, s.is_settled()), (plans, true));
}

#[test]
fn the_death_of_a_channel_that_takes_no_part_changes_nothing() {
    let dies = |s: &mut Sender| {
        s.remove_dead(Time::ZERO, ChannelId(5));
        (says(s, Time::ZERO).0.len(), s.epoch())
    };
    let mut s = sender(config());
    says(&mut s, Time::ZERO);
    assert_eq!(dies(&mut s), (0, EPOCH));
    let mut s = busy(0b1111);
    assert_eq!(dies(&mut s), (0, EPOCH));
    // Nor after a change, nor after the death of another.
    s.set_channels(Time::ZERO, &members(0b0111)).unwrap();
    says(&mut s, Time::ZERO);
    hears(&mut s, 0, Ack { generation: 2, ..ack(0b1111) });
    (0..4).for_each(|_| next_round(&mut s));
    assert_eq!((s.generation(), dies(&mut s)), (2, (0, EPOCH)));
    s.remove_dead(Time::ZERO, ChannelId(0));
    says(&mut s, Time::ZERO);
    assert_eq!(dies(&mut s), (0, EPOCH));
}

#[test]
fn no_marker_goes_by_a_dead_channel_and_those_of_the_others_are_not_forgotten() {
    let mut s = busy(0b111);
    s.handle_timeout(s.poll_timeout().unwrap());
    s.remove_dead(at(20), ChannelId(1));
    let (plans, markers) = says(&mut s, at(20));
    assert_eq!((plans[0].generation, plans[0].dead, plans[0].start, markers), (2, 0b010, 2, 2));
    // Its round has not ended: it is still a member. Nor does an answer that was on its way open it again.
    hears(&mut s, 21, ack(0b111));
    s.on_sent(at(21), Bytes::new(10));
    assert_eq!((s.channels().mask(), marked(&mut s)), (0b111, vec![0, 2]));
    next_round(&mut s);
    assert_eq!((s.channels().mask(), marked(&mut s)), (0b101, vec![0, 2]));
}

#[test]
fn a_member_that_has_left_gets_markers_until_the_peer_has_come_to_the_change_or_it_dies() {
    let mut s = busy(0b1111);
    s.set_channels(Time::ZERO, &members(0b0011)).unwrap();
    says(&mut s, Time::ZERO);
    hears(&mut s, 0, Ack { generation: 2, ..ack(0b1111) });
    (0..4).for_each(|_| next_round(&mut s));
    assert_eq!((s.channels().mask(), marked(&mut s)), (0b0011, vec![0, 1, 2, 3]));
    s.remove_dead(Time::ZERO, ChannelId(2));
    assert_eq!(marked(&mut s), [0, 1, 3]);
    next_round(&mut s);
    assert_eq!((s.generation(), marked(&mut s)), (3, vec![0, 1, 3]));
    hears(&mut s, 9000, Ack { generation: 3, applied: 3, ..ack(0b0011) });
    assert_eq!(marked(&mut s), [0, 1]);
}

#[test]
fn a_channel_that_dies_before_it_has_joined_is_done_without() {
    let mut s = busy(0b0011);
    s.set_channels(Time::ZERO, &members(0b1111)).unwrap();
    says(&mut s, Time::ZERO);
    s.remove_dead(Time::ZERO, ChannelId(3));
    let (plans, _) = says(&mut s, Time::ZERO);
    assert_eq!((plans.len(), plans[0].generation, plans[0].set.mask(), plans[0].dead), (3, 3, 0b0111, 0));
    s.remove_dead(Time::ZERO, ChannelId(2));
    assert_eq!((says(&mut s, Time::ZERO), s.is_settled()), ((vec![], 0), true));
    // If it was all that there was to be, what is goes on.
    let mut s = busy(0b0011);
    s.set_channels(Time::ZERO, &members(0b0100)).unwrap();
    says(&mut s, Time::ZERO);
    s.remove_dead(Time::ZERO, ChannelId(2));
    assert_eq!((says(&mut s, Time::ZERO), s.channels().mask(), s.epoch()), ((vec![], 0), 0b0011, EPOCH));
}
