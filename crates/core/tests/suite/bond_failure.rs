//! Links that fail without a word: how soon a bond leaves them, what the application sees of it, how soon they are in use again.

use crate::bond_network::{Flight, Net, Wire, check_ordered, packet};
use fairspan_core::bond::{ChannelConfig, Config, Event, Link, Mode, Reason};
use fairspan_core::options::Words;
use fairspan_core::path::State;
use fairspan_core::queue::End;
use fairspan_core::rng::Rng;
use fairspan_core::units::{ChannelId, Rate, Span, Time};
use fairspan_core::wire::envelope::{Envelope, Feedback, Message};

const MS: fn(u64) -> Span = Span::from_millis;

/// The settings that nobody made: those of a daemon between peers over UDP.
fn usual(channels: usize) -> Config {
    let mut config = Config::usual();
    let mut channel = ChannelConfig::default();
    channel.overhead = 58;
    config.channels = vec![channel; channels];
    config
}

/// A wire of this one-way delay and rate, with a queue of 100 ms.
fn wire(delay_ms: u64, rate: Rate) -> Wire {
    let room = rate.bytes_in(MS(100)).as_u64() as usize;
    Wire { narrow: Some((rate, room)), ..Wire::new(delay_ms) }
}

/// What the host sends from end 0.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Load {
    /// A thousand packets of 200 bytes a second.
    Paced,
    /// More full packets than the links carry, all the time.
    Bulk,
    /// The paced packets, but none for ten seconds before the failure.
    Idle,
}

#[derive(Debug)]
struct Seen {
    /// From the failure until channel 1 carries no more data, at the end that sends.
    left: Span,
    /// The longest time between two packets that the far host gets, from the failure to the return.
    gap: Span,
    /// From the return until channel 1 may carry data, and until it carries half of what it carried before.
    back: Span,
    share: Span,
    /// The longest time between two packets after the return.
    gap_back: Span,
    resent: u64,
    missing: u64,
}

struct Run {
    net: Net,
    load: Load,
    number: u32,
    sent: Vec<Vec<u8>>,
}

impl Run {
    fn new(wires: Vec<Wire>, load: Load, seed: u64) -> Run {
        let net = Net::settled(usual(wires.len()), wires, seed);
        Run { net, load, number: 0, sent: vec![] }
    }

    /// Deliveries in the next second, as packets.
    fn second(&mut self) -> usize {
        let before = self.net.delivered[1].len();
        self.steps(1_000);
        self.net.delivered[1].len() - before
    }

    fn usable(&self, channel: u8) -> bool {
        self.net.ends[0].channel_stats(ChannelId(channel)).unwrap().usable
    }

    /// One millisecond of traffic.
    fn step(&mut self) {
        let (count, size) = if self.load == Load::Bulk { (10, 1300) } else { (1, 200) };
        for _ in 0..count {
            if self.load == Load::Bulk && !self.net.ends[0].wants_host() {
                break;
            }
            let packet = packet((self.number % 7) as u16, self.number, size);
            self.number += 1;
            self.sent.push(packet.clone());
            self.net.host(0, packet);
        }
        self.net.run(MS(1));
    }

    fn steps(&mut self, milliseconds: u64) {
        (0..milliseconds).for_each(|_| self.step());
    }

    /// The longest time between two deliveries in `from..until`.
    fn gap(&self, from: Time, until: Time) -> Span {
        let mut last = from;
        let mut longest = Span::ZERO;
        for (at, _) in self.net.delivered[1].iter().filter(|(at, _)| (from..until).contains(at)) {
            longest = longest.max(at.since(last));
            last = *at;
        }
        longest.max(until.since(last))
    }

    /// Channel 1 fails as `fail` has it for `length`, while the others work.
    fn fails(mut self, fail: impl Fn(&mut Wire), length: Span) -> Seen {
        let whole = self.net.wires[1];
        self.steps(2_000);
        let frames = self.net.frames[0][1];
        self.steps(200);
        let usual = self.net.frames[0][1] - frames;
        if self.load == Load::Idle {
            self.net.run(MS(10_000));
        }
        let cut = self.net.now;
        fail(&mut self.net.wires[1]);
        let before = *self.net.ends[0].stats();
        let missing = self.net.ends[1].stats().packets_missing;
        let mut left = None;
        while self.net.now < cut + length {
            self.step();
            if left.is_none() && !self.usable(1) {
                left = Some(self.net.now.since(cut));
            }
        }
        let end = self.net.now;
        self.net.wires[1] = whole;
        let (mut back, mut share) = (None, None);
        let mut frames = vec![];
        while self.net.now < end + MS(1_300) {
            frames.push(self.net.frames[0][1]);
            self.step();
            if back.is_none() && self.usable(1) {
                back = Some(self.net.now.since(end));
            }
            if share.is_none()
                && frames.len() > 200
                && 2 * (frames[frames.len() - 1] - frames[frames.len() - 201]) >= usual
            {
                share = Some(self.net.now.since(end));
            }
        }
        let over = self.net.now;
        self.net.run(MS(1_000));
        check_ordered(&self.sent, &self.net.delivered[1]).unwrap();
        let stats = self.net.ends[0].stats();
        Seen {
            left: left.unwrap_or(length),
            gap: self.gap(cut, end),
            back: back.unwrap_or(MS(1_300)),
            share: share.unwrap_or(MS(1_300)),
            gap_back: self.gap(end, over),
            resent: stats.resent - before.resent,
            missing: self.net.ends[1].stats().packets_missing - missing,
        }
    }
}

/// What happens to a wire.
type Fail = fn(&mut Wire);

/// Nothing gets through, or one way only.
const HOLES: [(&str, Fail); 3] = [
    ("both", |wire| wire.cut = [true, true]),
    ("there", |wire| wire.cut = [true, false]),
    ("back", |wire| wire.cut = [false, true]),
];

/// One-way delays of the channel that fails and of the other one, in milliseconds.
const DELAYS: [(u64, u64); 5] = [(2, 2), (10, 20), (50, 20), (150, 150), (300, 20)];

fn ran(delay: u64, other: u64, load: Load, length: u64, fail: Fail) -> Seen {
    let rate = Rate::from_mbit(20);
    let run = Run::new(vec![wire(other, rate), wire(delay, rate)], load, 7);
    let seen = run.fails(fail, MS(length));
    println!("{load:?} {delay} {other}: {seen:?}");
    seen
}

#[test]
fn a_black_hole_is_left_within_300_ms_and_the_way_and_what_was_in_it_goes_again_once() {
    for (delay, other) in DELAYS {
        for load in if delay == 10 { &[Load::Paced][..] } else { &[Load::Paced, Load::Bulk] }.iter().copied() {
            for (name, fail) in HOLES {
                let seen = ran(delay, other, load, 1_500, fail);
                let said = format!("{name} {load:?} {delay} {other}: {seen:?}");
                // Where only the peer can see it, its word takes the other channel's way. What fills a queue comes out of it first.
                let way = delay + if name == "there" { other } else { 0 } + if load == Load::Bulk { 30 } else { 25 };
                assert!(seen.left <= MS(300 + way), "{said}");
                // Half a second, and on the longest ways the news of it.
                assert!(seen.gap <= MS(if delay < 100 { 500 } else { 600 }), "{said}");
                assert!(seen.back <= MS(1_000) && seen.gap_back <= MS(500), "{said}");
                // On long ways some of it comes later than a receiver waits for it.
                if delay < 100 {
                    assert_eq!(seen.missing, 0, "{said}");
                    // What was under way for a round trip, the time it took to find out, and the queues; not all of it twice.
                    assert!(seen.resent <= 4_000 * (2 * delay + 400) / 1_000, "{said}");
                }
                if load == Load::Bulk {
                    assert!(seen.share <= MS(1_000 + delay), "{said}");
                }
            }
        }
    }
}

#[test]
fn packets_that_find_a_dead_channel_when_they_begin_come_by_another_one_after_a_round_trip() {
    for (delay, other) in DELAYS {
        for (name, fail) in HOLES {
            let seen = ran(delay, other, Load::Idle, 1_500, fail);
            let said = format!("{name} {delay} {other}: {seen:?}");
            assert!(seen.gap <= MS(50 + 2 * delay) + MS(other), "{said}");
            // Both ends have to notice that there is traffic.
            assert!(seen.left <= MS(350 + 2 * delay), "{said}");
            assert!(seen.back <= MS(1_000), "{said}");
        }
    }
}

#[test]
fn a_channel_that_loses_what_is_as_long_as_data_and_nothing_else_is_left_until_that_passes() {
    for (delay, other) in [(2, 2), (10, 20), (50, 20)] {
        let seen = ran(delay, other, Load::Bulk, 4_000, |wire| wire.largest = 1_000);
        assert!(seen.left <= MS(300 + delay) && seen.gap <= MS(200), "{seen:?}");
        assert!(seen.back <= MS(1_000), "{seen:?}");
        // A few round trips' worth, and not every time that a short message passes.
        assert!(seen.resent < 400 && seen.missing == 0, "{seen:?}");
    }
}

#[test]
fn a_channel_that_takes_a_second_longer_from_one_moment_on_is_set_aside() {
    for (delay, other) in DELAYS {
        for load in [Load::Paced, Load::Bulk] {
            let seen = ran(delay, other, load, 3_000, |wire| wire.delay = wire.delay + MS(1_000));
            // What a receiver waits, and what the round trip adds to it.
            assert!(seen.gap <= MS(if delay < 100 { 510 } else { 650 }), "{load:?} {delay} {other}: {seen:?}");
        }
    }
}

/// Channel 1 comes and goes; for how long it was held back, each time, and the run.
fn flaps(times: u32, down: u64, up: u64) -> (Vec<Span>, Run) {
    let rate = Rate::from_mbit(20);
    let mut run = Run::new(vec![wire(20, rate), wire(10, rate)], Load::Paced, 7);
    run.steps(3_000);
    for _ in 0..times {
        run.net.wires[1].cut = [true; 2];
        run.steps(down);
        run.net.wires[1].cut = [false; 2];
        run.steps(up);
    }
    let held = run.net.events[0].iter().filter_map(|event| match event {
        Event::ChannelHeld { channel: ChannelId(1), span, .. } => Some(*span),
        _ => None,
    });
    (held.collect(), run)
}

#[test]
fn a_channel_that_comes_and_goes_is_held_back_for_longer_each_time_and_used_where_there_is_no_other() {
    let (held, mut run) = flaps(6, 1_000, 2_000);
    // It is cut while it is held, too.
    assert_eq!(held, [1, 2, 4, 8, 16].map(Span::from_secs));
    let path = |run: &Run| run.net.ends[0].channel_path(run.net.now, ChannelId(1)).unwrap();
    assert_eq!((path(&run).state, path(&run).failures), (State::Held, 6));
    assert!(path(&run).held.is_some_and(|span| (MS(13_500)..=MS(14_100)).contains(&span)), "{:?}", path(&run));
    // No channel is the master.
    run.net.wires[0].cut = [true; 2];
    run.steps(400);
    assert!(run.usable(1) && !run.usable(0) && path(&run).state != State::Held);
    run.net.wires[0].cut = [false; 2];
    run.steps(1_000);
    assert!(run.usable(0) && !run.usable(1), "and held again");
    run.steps(14_000);
    assert!(run.usable(1) && path(&run).held.is_none());
    let used_again = |event: &Event| matches!(event, Event::ChannelUp { reason: Reason::HeldBack, .. });
    assert!(run.net.events[0].iter().any(used_again));
    // Half a minute of use, and all is forgotten.
    run.steps(31_000);
    run.net.wires[1].cut = [true; 2];
    run.steps(1_000);
    run.net.wires[1].cut = [false; 2];
    run.steps(1_000);
    assert!(run.usable(1) && path(&run).failures == 1);
    check_ordered(&run.sent, &run.net.delivered[1]).unwrap();
}

#[test]
fn short_stalls_of_a_link_are_bridged_and_hold_nothing_back() {
    let (held, run) = flaps(10, 250, 1_500);
    assert_eq!(held, []);
    assert!(run.usable(1));
}

#[test]
fn an_end_that_stands_still_takes_all_that_came_late_and_no_channel_is_set_aside_for_its_delay() {
    // Rates and one-way delays of both channels, when which end begins to stand still.
    for ([near, far], first, end) in [
        ([(20, 20), (20, 10)], 3_000, 0),
        ([(50, 20), (50, 20)], 3_050, 0),
        ([(50, 20), (50, 20)], 3_333, 1),
        ([(100, 10), (20, 40)], 3_050, 0),
        ([(100, 10), (20, 40)], 3_000, 1),
    ] {
        let wires = [near, far].map(|(rate, delay)| wire(delay, Rate::from_mbit(rate)));
        let mut run = Run::new(wires.to_vec(), Load::Bulk, 7);
        run.steps(first);
        run.net.stand_still(end, MS(2_000));
        run.steps(1_500);
        for events in &run.net.events {
            let set_aside = |event: &Event| matches!(event, Event::ChannelDown { reason: Reason::Delay, .. });
            assert!(!events.iter().any(set_aside), "{near:?} {far:?} {first} ms, end {end}: {events:?}");
        }
        assert!(run.usable(0) && run.usable(1), "{:?}", run.net.events);
        check_ordered(&run.sent, &run.net.delivered[1]).unwrap();
    }
}

#[test]
fn all_channels_gone_for_a_minute_cost_bounded_memory_and_all_is_well_within_a_second() {
    let rate = Rate::from_mbit(20);
    let mut run = Run::new(vec![wire(20, rate), wire(10, rate)], Load::Bulk, 7);
    run.steps(3_000);
    for wire in &mut run.net.wires {
        wire.cut = [true; 2];
    }
    run.steps(60_000);
    assert!(!run.usable(0) && !run.usable(1));
    let kept = run.net.ends[0].kept_bytes() + run.net.ends[0].held_bytes();
    assert!(kept <= run.net.ends[0].config().queue_bytes, "{kept}");
    for wire in &mut run.net.wires {
        wire.cut = [false; 2];
    }
    let (end, before) = (run.net.now, run.net.delivered[1].len());
    run.steps(1_000);
    assert!(run.usable(0) && run.usable(1), "{:?}", run.net.events);
    let first = run.net.delivered[1][before].0;
    // Half a second between heartbeats, since the bond took nothing more from its host.
    assert!(first.since(end) <= MS(700), "{:?}", first.since(end));
    run.steps(1_000);
    // Nobody failed: all did.
    assert!(run.net.events[0].iter().all(|event| !matches!(event, Event::ChannelHeld { .. })));
    let late = run.net.delivered[1].len();
    run.steps(1_000);
    let rate = (run.net.delivered[1].len() - late) * 1300 * 8 / 1_000_000;
    assert!(rate >= 30, "{rate} Mbit/s of 40");
    check_ordered(&run.sent, &run.net.delivered[1]).unwrap();
}

#[test]
fn whatever_a_peer_says_of_times_and_numbers_some_channel_is_used_and_order_is_kept() {
    /// A third of what tells of frames and clocks is nonsense.
    fn lie(flight: &mut Flight, rng: &mut Rng) {
        let tells = matches!(
            Envelope::decode(&flight.bytes),
            Ok(Envelope { message: Message::Feedback(_) | Message::EchoReply { .. }, .. })
        );
        if tells && rng.below(3) == 0 {
            flight.bytes[4..].iter_mut().for_each(|byte| *byte = rng.next_u64() as u8);
        }
    }
    for seed in 1..=3 {
        let rate = Rate::from_mbit(20);
        let mut run = Run::new(vec![wire(20, rate), wire(10, rate)], Load::Paced, seed);
        run.steps(1_000);
        run.net.mangle = Some(lie);
        for _ in 0..5_000 {
            run.step();
            assert!(run.usable(0) || run.usable(1));
        }
        run.net.mangle = None;
        let before = run.net.delivered[1].len();
        run.steps(1_000);
        run.net.run(MS(1_000));
        assert!(run.usable(0) && run.usable(1), "{:?}", run.net.events[0]);
        assert!(run.net.delivered[1].len() >= before + 990);
        check_ordered(&run.sent, &run.net.delivered[1]).unwrap();
    }
}

/// What a peer that lies makes of its messages.
type Lie = fn(&mut Flight, &mut Rng);

/// Changes the feedback in a frame, and what tells of the peer's clock.
fn changed(flight: &mut Flight, feedback: impl Fn(&mut Feedback), clock: impl Fn(&mut u64)) {
    let Ok(Envelope { message, tag }) = Envelope::decode(&flight.bytes) else { return };
    let rest = flight.bytes.split_off(message.head_len());
    let message = match message {
        Message::Feedback(mut told) => {
            feedback(&mut told);
            Message::Feedback(told)
        }
        Message::EchoReply { echo, mut arrived } => {
            clock(&mut arrived);
            Message::EchoReply { echo, arrived }
        }
        other => other,
    };
    flight.bytes = Envelope { tag, message }.encode().as_slice().to_vec();
    flight.bytes.extend(rest);
}

#[test]
fn a_peer_that_lies_of_when_packets_came_gets_no_more_than_is_sent_and_is_served_again_when_it_stops() {
    let lies: [(&str, Lie); 2] = [
        ("all arrived in the same instant", |f, _| changed(f, |told| told.arrived = 0, |at| *at = 0)),
        ("arrivals go backwards", |f, _| {
            changed(f, |told| told.arrived = told.arrived.wrapping_neg(), |at| *at = at.wrapping_neg())
        }),
    ];
    for (name, lie) in lies {
        let rate = Rate::from_mbit(20);
        let mut run = Run::new(vec![wire(20, rate), wire(40, rate)], Load::Bulk, 7);
        run.steps(2_000);
        let usual = run.second();
        run.net.mangle = Some(lie);
        run.steps(5_000);
        let stats = run.net.ends[0].stats();
        let kept = run.net.ends[0].kept_bytes() + run.net.ends[0].held_bytes();
        assert!(kept <= run.net.ends[0].config().queue_bytes + run.net.ends[0].config().resend_bytes, "{name}: {kept}");
        assert!(stats.resent < 40_000, "{name}: {stats:?}");
        run.net.mangle = None;
        // The least delays that were told are forgotten after 10 to 20 s.
        run.steps(20_000);
        let after = run.second();
        println!("{name}: {after} packets a second, {usual} before");
        assert!(run.usable(0) && run.usable(1), "{name}: {:?}", run.net.events);
        assert!(after * 10 >= usual * 8, "{name}: {after} packets a second, {usual} before");
        check_ordered(&run.sent, &run.net.delivered[1]).unwrap();
    }
}

#[test]
fn what_waits_behind_a_train_that_measures_a_slow_link_is_no_sign_of_a_failure() {
    for seed in 0..20 {
        // A train of 64 full frames takes 150 ms on the second one.
        let wires = [(10, Rate::from_mbit(10)), (30, Rate::from_mbit(5))];
        let wires =
            wires.map(|(delay, rate)| Wire { narrow: Some((rate, 300_000)), jitter: MS(4), ..Wire::new(delay) });
        let mut net = Net::new([usual(2), usual(2)], wires.to_vec(), seed);
        net.run(MS(500 + 25 * seed));
        for end in [0, 1] {
            net.events[end].clear();
        }
        for number in 0..400 {
            // A transfer that begins, and what answers it.
            for part in 0..1 + number / 20 {
                net.host(0, packet(1, 100 * number + part, 1300));
            }
            for end in [0, 1] {
                net.host(end, packet(2, number, 60));
            }
            net.run(MS(5));
        }
        for end in [0, 1] {
            let failed = |event: &&Event| matches!(event, Event::ChannelDown { .. });
            let failures: Vec<_> = net.events[end].iter().filter(failed).collect();
            assert!(failures.is_empty(), "seed {seed}, end {end}: {failures:?}");
        }
    }
}

#[test]
fn a_channel_that_the_peer_has_later_is_used_from_the_beginning_and_one_that_it_never_hears_is_left_in_every_mode() {
    for (mode, is_deaf) in Mode::ALL.iter().flat_map(|mode| [(*mode, false), (*mode, true)]) {
        let wires = vec![wire(10, Rate::from_mbit(20)), wire(30, Rate::from_mbit(20))];
        let mut settings = usual(2);
        settings.mode = mode;
        let mut net = Net::settled(settings.with_queue(None, None, End::Source), wires, 7);
        for end in [0, 1] {
            net.set_link(end, 1, Link::Down);
        }
        net.run(MS(500));
        net.events[0].clear();
        net.wires[1].cut[0] = is_deaf;
        net.set_link(0, 1, Link::Up);
        for number in 0..300 {
            net.host(0, packet(1, number, 200));
            net.run(MS(10));
            if number == 6 {
                net.set_link(1, 1, Link::Up);
            }
        }
        let down = |event: &Event| matches!(event, Event::ChannelDown { channel: ChannelId(1), .. });
        assert_eq!(net.events[0].iter().any(down), is_deaf, "{mode:?}: {:?}", net.events[0]);
        assert_eq!(net.ends[0].channel_stats(ChannelId(1)).unwrap().usable, !is_deaf, "{mode:?}");
    }
}

#[test]
fn a_channel_that_the_peer_heard_and_takes_down_soon_after_is_left_at_once_where_nothing_goes_again() {
    for mode in Mode::ALL.iter().copied().filter(|mode| *mode != Mode::Reliable) {
        let wires = vec![wire(10, Rate::from_mbit(20)), wire(10, Rate::from_mbit(20))];
        let mut settings = usual(2);
        (settings.mode, settings.dead_after) = (mode, Span::from_secs(5));
        let mut net = Net::settled(settings.with_queue(None, None, End::Source), wires, 7);
        for state in [Link::Down, Link::Up] {
            for end in [0, 1] {
                net.set_link(end, 1, state);
            }
            net.run(MS(500));
        }
        assert!(net.ends[0].channel_stats(ChannelId(1)).unwrap().usable, "{mode:?}");
        net.set_link(1, 1, Link::Down);
        net.run(MS(100));
        assert!(!net.ends[0].channel_stats(ChannelId(1)).unwrap().usable, "{mode:?}");
    }
}
