//! Whatever a peer sends: no panic, no endless loop, bounded memory; and with an honest peer back, it works again.

use crate::striping::{World, config, ms, set_of};
use fairspan_core::causal::ChannelSet;
use fairspan_core::stripe::Endpoint;
use fairspan_core::units::{Bytes, ChannelId, Span, Time};
use fairspan_core::wire::marker::{Ack, Control, Grant, Marker, Plan};
use proptest::prelude::*;

/// Few epochs, generations and channels, so that messages often hit.
fn control() -> impl Strategy<Value = Control> {
    let number = || prop_oneof![3 => 0u32..40, 1 => any::<u32>()];
    let channel = || (0u8..4).prop_map(ChannelId);
    let epoch = || prop_oneof![Just(100u32), Just(101), Just(200), 0u32..3];
    let generation = || prop_oneof![3 => 0u16..5, 1 => any::<u16>()];
    let set = || {
        let quanta = proptest::collection::btree_map(0u8..4, prop_oneof![64u64..3000, Just(1 << 30)], 1..4);
        (quanta, proptest::bool::weighted(0.3)).prop_map(|(m, packets)| {
            if packets {
                let pairs: Vec<_> = m.into_iter().map(|(c, q)| (ChannelId(c), (q / 64) as u32)).collect();
                return ChannelSet::of_packets(&pairs).unwrap();
            }
            let pairs: Vec<_> = m.into_iter().map(|(c, q)| (ChannelId(c), Bytes::new(q))).collect();
            ChannelSet::new(&pairs, Bytes::new(64)).unwrap()
        })
    };
    prop_oneof![
        (epoch(), channel(), generation(), number(), (1i32..=1 << 30), any::<(u32, u32, u32, bool, bool)>()).prop_map(
            |(epoch, channel, generation, round, deficit, (sent_bytes, sent_packets, grant, passed, ask))| {
                let quantum = deficit as u32;
                let grant = Some(Grant { epoch, bytes: grant, packets: grant });
                Control::Marker(Marker {
                    epoch,
                    channel,
                    generation,
                    round,
                    deficit,
                    quantum,
                    passed,
                    ask,
                    sent_bytes,
                    sent_packets,
                    grant,
                })
            }
        ),
        (epoch(), channel(), generation(), generation(), number(), set(), 0u64..16).prop_map(
            |(epoch, channel, generation, base, start, set, dead)| {
                Control::Plan(Box::new(Plan { epoch, channel, generation, base, start, set, dead }))
            }
        ),
        (epoch(), channel(), generation(), generation(), 0u64..16, proptest::bool::weighted(0.1)).prop_map(
            |(epoch, channel, generation, applied, seen, reset)| {
                Control::Ack(Ack { epoch, channel, generation, applied, seen, reset, grant: Some((u32::MAX, 5)) })
            }
        ),
    ]
}

#[derive(Clone, Debug)]
enum Input {
    Control(u8, Control),
    Data(u8, usize),
    Send(usize),
    Wait(u64),
    Set(u8),
    Dead(u8),
}

fn input() -> impl Strategy<Value = Input> {
    prop_oneof![
        4 => (0u8..4, control()).prop_map(|(c, m)| Input::Control(c, m)),
        // Often by the channel that the message names, as a forger would.
        4 => control().prop_map(|m| Input::Control(m.channel().0, m)),
        4 => (0u8..70, 0usize..3000).prop_map(|(c, len)| Input::Data(c, len)),
        2 => (1usize..2000).prop_map(Input::Send),
        1 => (0u64..2000).prop_map(Input::Wait),
        1 => (1u8..16).prop_map(Input::Set),
        1 => (0u8..70).prop_map(Input::Dead),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_input_panics_hangs_or_grows(inputs in proptest::collection::vec(input(), 1..300)) {
        let (sender, mut receiver) = config();
        receiver.buffer_packets = 20;
        receiver.buffer_bytes = Bytes::new(20_000);
        receiver.credits = true;
        let mut end: Endpoint<Vec<u8>> = Endpoint::new(sender, receiver, &set_of(&[1500, 3000, 1500]), Time::ZERO, 100).unwrap();
        let mut now = Time::ZERO;
        for input in inputs {
            match input {
                Input::Control(channel, control) => {
                    // Only what decodes reaches the endpoint.
                    let mut bytes = vec![];
                    control.encode(&mut bytes);
                    if let Ok(control) = Control::decode(&bytes) {
                        end.handle_control(now, ChannelId(channel), &control);
                    }
                }
                Input::Data(channel, len) => end.handle_data(now, ChannelId(channel), vec![0; len]),
                Input::Send(len) => {
                    let len = Bytes::from(len);
                    if end.sender.next_channel(len).is_ok() {
                        end.sender.on_sent(now, len);
                    }
                    end.sender.on_idle(now);
                }
                Input::Wait(ms) => {
                    now += Span::from_millis(ms);
                    end.handle_timeout(now);
                }
                Input::Set(mask) => {
                    let pairs: Vec<_> = (0u8..4).filter(|c| mask & 1 << c != 0).map(|c| (ChannelId(c), Bytes::new(2000))).collect();
                    end.sender.set_channels(now, &ChannelSet::new(&pairs, Bytes::new(1500)).unwrap()).unwrap();
                }
                Input::Dead(channel) => end.sender.remove_dead(now, ChannelId(channel)),
            }
            let mut polls = 0;
            while end.poll_control(now).is_some() {
                polls += 1;
                prop_assert!(polls < 500, "control without end");
            }
            while end.poll_deliver().is_some() {}
            while end.sender.poll_event().is_some() {}
            prop_assert!(end.receiver.buffered_packets() <= 64 * 20);
        }
    }

    #[test]
    fn forged_messages_do_no_lasting_harm(
        forged in proptest::collection::vec((0usize..2, control()), 1..40), seed: u64
    ) {
        // Four channels between two honest ends; a forger speaks to both, with their own epochs' numbers too.
        let mut world = World::new(&set_of(&[1500, 3000, 2000, 1500]), &[ms(1), ms(5), ms(3), ms(9)], seed);
        world.settle();
        let lengths = world.random_lengths(1000);
        world.offer(lengths, Span::from_micros(100));
        for (side, control) in forged {
            world.run_for(ms(2));
            world.end[side].handle_control(world.now, control.channel(), &control);
        }
        world.run_for(Span::from_secs(20));
        let from = world.offered[0];
        let lengths = world.random_lengths(300);
        world.offer(lengths, Span::from_micros(100));
        world.run_for(Span::from_secs(20));
        let from = from.max(world.offered[0] - 300);
        let tail: Vec<u64> = world.numbers().into_iter().filter(|&n| n >= from).collect();
        prop_assert!(tail.iter().copied().eq(from..world.offered[0]), "{} of 300: {:?} {:?}", tail.len(),
            world.end[0].sender.stats(), world.end[1].receiver.stats());
    }
}

/// Two ends that know each other, with two channels each way.
fn two_channels() -> World {
    let mut world = World::new(&set_of(&[1500, 3000]), &[ms(1), ms(5)], 3);
    world.settle();
    world
}

fn plan(epoch: u32, channel: u8, generation: u16, base: u16, start: u32, set: ChannelSet) -> Control {
    Control::Plan(Box::new(Plan { epoch, channel: ChannelId(channel), generation, base, start, set, dead: 0 }))
}

fn forge(world: &mut World, control: &Control) {
    world.end[1].handle_control(world.now, control.channel(), control);
}

/// After some traffic, all of which may be lost, everything arrives, in order.
fn assert_no_lasting_harm(world: &mut World) {
    let offer = |world: &mut World| {
        let lengths = world.random_lengths(300);
        world.offer(lengths, ms(10));
        world.run_for(Span::from_secs(10));
    };
    offer(world);
    let from = world.offered[0];
    offer(world);
    let tail: Vec<u64> = world.numbers().into_iter().filter(|&n| n >= from).collect();
    let (sender, receiver) = (world.end[0].sender.stats(), world.end[1].receiver.stats());
    assert!(tail.iter().copied().eq(from..from + 300), "{} of 300: {sender:?} {receiver:?}", tail.len());
}

#[test]
fn a_receiver_that_follows_a_forged_generation_comes_back_though_its_word_was_lost() {
    let mut world = two_channels();
    let channel = ChannelId(1);
    let only = ChannelSet::new(&[(channel, Bytes::new(3000))], Bytes::new(1500)).unwrap();
    forge(&mut world, &plan(100, 1, 4, 1, 1, only));
    let marker = Marker {
        epoch: 100,
        channel,
        generation: 4,
        round: 1,
        deficit: 3000,
        quantum: 3000,
        passed: false,
        ask: false,
        sent_bytes: 0,
        sent_packets: 0,
        grant: None,
    };
    forge(&mut world, &Control::Marker(marker));
    let now = world.now;
    assert_eq!(world.end[1].poll_deliver(), None);
    while world.end[1].poll_control(now).is_some() {}
    assert_eq!(world.end[1].receiver.generation(), 4, "the forged generation is followed");
    assert_no_lasting_harm(&mut world);
}

#[test]
fn a_forged_announcement_of_a_far_generation_stops_no_later_change() {
    let mut world = two_channels();
    forge(&mut world, &plan(100, 1, 30_000, 1, 1 << 30, set_of(&[1500, 3000])));
    let now = world.now;
    let wanted = set_of(&[3000, 1500]);
    world.end[0].sender.set_channels(now, &wanted).unwrap();
    world.run_for(Span::from_secs(1));
    let sender = &world.end[0].sender;
    assert!(sender.is_settled() && *sender.channels() == wanted, "{:?}", sender.stats());
    assert_no_lasting_harm(&mut world);
}

#[test]
fn a_forged_plan_of_the_senders_next_epoch_does_not_stand_in_for_its_own() {
    let mut world = two_channels();
    let forged =
        ChannelSet::new(&[(ChannelId(0), Bytes::new(1500)), (ChannelId(9), Bytes::new(1500))], Bytes::new(1500));
    forge(&mut world, &plan(101, 1, 1, 1, 1, forged.unwrap()));
    assert_eq!(world.end[1].receiver.epoch(), Some(101));
    assert_no_lasting_harm(&mut world);
}

#[test]
fn the_limits_hold_without_credits_too() {
    let (sender, mut receiver) = config();
    receiver.buffer_packets = 10;
    let mut world = World::with((sender, receiver), &set_of(&[1500, 1500]), &[ms(0), ms(200)], 1);
    world.settle();
    let lengths = world.random_lengths(500);
    world.offer(lengths, Span::from_micros(10));
    world.run_for(ms(150));
    assert!(world.end[1].receiver.buffered(ChannelId(0)).0 <= 10);
    assert!(world.end[1].receiver.stats().overflow > 100);
}

#[test]
fn a_channel_that_sometimes_repeats_a_frame_forces_no_endless_resets() {
    let mut world = World::new(&set_of(&[3000, 3000]), &[ms(2), ms(5)], 4);
    world.settle();
    for _ in 0..50 {
        let lengths = world.random_lengths(100);
        world.offer(lengths, Span::from_micros(100));
        world.run_for(ms(5));
        let mut copy = vec![0; 700];
        copy[..8].copy_from_slice(&u64::MAX.to_be_bytes());
        let now = world.now;
        world.end[1].handle_data(now, ChannelId(1), copy);
        world.run_for(ms(45));
    }
    let epochs = world.end[0].sender.stats().epochs;
    assert!(epochs <= 3, "{epochs} epochs for 50 frames too many");
    // Apart from the copies all is there.
    let own = world.numbers().into_iter().filter(|&n| n != u64::MAX).count();
    let stats = world.end[1].receiver.stats();
    assert_eq!(own as u64 + stats.stale, 5000, "{stats:?}");
}

#[test]
fn rounds_all_around_the_circle_of_serial_numbers_do_not_lead_on_for_ever() {
    let (sender, receiver) = config();
    let set = set_of(&[1500, 1500]);
    let now = Time::ZERO;
    let mut end: Endpoint<Vec<u8>> = Endpoint::new(sender, receiver, &set, now, 100).unwrap();
    let both = [ChannelId(0), ChannelId(1)];
    let plan = |end: &mut Endpoint<Vec<u8>>, epoch, generation, base, start| {
        for channel in both {
            let plan = Plan { epoch, channel, generation, base, start, set: set.clone(), dead: 0 };
            end.handle_control(now, channel, &Control::Plan(Box::new(plan)));
        }
    };
    plan(&mut end, 200, 1, 1, 1);
    for (channel, round) in both.into_iter().zip([0x5000_0000, 1]) {
        let marker = Marker {
            epoch: 200,
            channel,
            generation: 1,
            round,
            deficit: 1500,
            quantum: 1500,
            passed: false,
            ask: false,
            sent_bytes: 0,
            sent_packets: 0,
            grant: None,
        };
        end.handle_control(now, channel, &Control::Marker(marker));
    }
    while end.receiver.poll_deliver().is_some() {}
    plan(&mut end, 200, 2, 1, 0xa000_0000);
    plan(&mut end, 201, 1, 1, 1);
    end.handle_data(now, ChannelId(0), vec![0; 100]);
    assert_eq!(end.receiver.poll_deliver(), Some(vec![0; 100]), "the new epoch has begun");
}
