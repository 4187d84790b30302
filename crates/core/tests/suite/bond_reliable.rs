//! Mode `reliable`: what channels lose, double, put out of order or take down with them arrives all the same, once and in order.

use crate::bond_network::{Net, Wire, check_ordered, config, identity, packet};
use fairspan_core::bond::{Bond, Codepoint, Config, Event, Link, Mode};
use fairspan_core::record::replay;
use fairspan_core::units::{ChannelId, Rate, Span, Time};

const MS: fn(u64) -> Span = Span::from_millis;

fn settings(channels: usize) -> Config {
    let mut settings = config(channels);
    settings.mode = Mode::Reliable;
    for channel in &mut settings.channels {
        channel.rate = Some(Rate::from_mbit(100));
    }
    settings
}

/// Sends `packets` of 17 flows from end 0, one every `every`; they are returned.
fn stream(net: &mut Net, packets: std::ops::Range<u32>, every: Span) -> Vec<Vec<u8>> {
    let mut sent = vec![];
    for n in packets {
        let packet = packet((n % 17) as u16, n, 60);
        net.host(0, packet.clone());
        sent.push(packet);
        net.run(every);
    }
    sent
}

/// Sends `packets` of one flow from end 0, one each millisecond; they are returned, with the instant before the first.
fn flow(net: &mut Net, packets: u32) -> (Vec<Vec<u8>>, Time) {
    let begun = net.now;
    let mut sent = vec![];
    for n in 0..packets {
        sent.push(packet(1, n, 60));
        net.host(0, sent[n as usize].clone());
        net.run(MS(1));
    }
    (sent, begun)
}

/// Nothing twice, each flow in order, and nothing missing.
fn all_arrived(net: &Net, sent: &[Vec<u8>]) {
    check_ordered(sent, &net.delivered[1]).unwrap();
    let stats = net.ends[0].stats();
    assert_eq!((net.delivered[1].len(), stats.given_up), (sent.len(), 0), "{stats:?}");
    assert_eq!((net.ends[0].kept_bytes(), net.ends[1].stats().packets_missing), (0, 0));
}

#[test]
fn losses_copies_and_disorder_on_every_channel_leave_nothing_out() {
    let storm = Wire { loss: 0.05, twice: 0.02, jitter: MS(3), reorders: true, ..Wire::new(10) };
    let wires = vec![storm, Wire { loss: 0.2, ..Wire::new(30) }, Wire { jitter: MS(20), ..Wire::new(60) }];
    for seed in 0..4 {
        let mut settings = settings(3);
        settings.resend_within = Some(Span::from_secs(5));
        settings.deadline = Some(Span::from_secs(10));
        let mut net = Net::settled(settings, wires.clone(), seed);
        let sent = stream(&mut net, 0..40_000, Span::from_micros(100));
        net.run(Span::from_secs(10));
        all_arrived(&net, &sent);
        assert!(net.ends[0].stats().resent > 1_000);
        assert!(net.ends[1].stats().duplicates + net.ends[1].stats().late > 0);
    }
}

#[test]
fn over_two_satellites_a_receiver_waits_until_what_is_lost_has_come_again_unless_it_is_told_for_how_long() {
    // As the bond begins, and as it is told while it runs.
    let missing = |first, then| {
        let mut settings = settings(2);
        settings.deadline = first;
        let wires = [300, 280].map(|delay| Wire { loss: 0.01, ..Wire::new(delay) });
        let mut net = Net::settled(settings.clone(), wires.to_vec(), 3);
        settings.deadline = then;
        let now = net.now;
        net.ends.iter_mut().for_each(|end| end.reconfigure(now, &settings).unwrap());
        let sent = stream(&mut net, 0..20_000, Span::from_micros(500));
        net.run(Span::from_secs(5));
        check_ordered(&sent, &net.delivered[1]).unwrap();
        assert!(net.ends[0].stats().resent > 40, "the check sees losses");
        net.ends[1].stats().packets_missing
    };
    assert_eq!([missing(None, None), missing(Some(MS(500)), Some(MS(2_000)))], [0, 0]);
    assert!(missing(Some(MS(500)), Some(MS(500))) > 10 && missing(None, Some(MS(500))) > 10);
}

#[test]
fn a_delay_that_varies_is_the_same_for_every_packet_of_a_flow() {
    for (mode, evens) in [(Mode::Reliable, true), (Mode::Ordered, false)] {
        let wires = vec![Wire::new(20), Wire { jitter: MS(40), ..Wire::new(30) }];
        let mut settings = settings(2);
        settings.mode = mode;
        let mut net = Net::settled(settings, wires, 3);
        net.run(Span::from_secs(1));
        let (sent, begun) = flow(&mut net, 4_000);
        net.run(Span::from_secs(1));
        check_ordered(&sent, &net.delivered[1]).unwrap();
        let after = |n: usize| net.delivered[1][n].0.since(begun + MS(n as u64));
        let mut took: Vec<Span> = (200..4_000).map(after).collect();
        took.sort();
        let spread = took[took.len() * 95 / 100] - took[took.len() * 5 / 100];
        assert_eq!(spread < MS(12), evens, "{mode}: {spread:?}");
    }
}

#[test]
fn a_ping_and_a_call_take_the_fast_channel_and_wait_for_no_other() {
    for (tos, protocol, prompt) in [(46 << 2, 17, true), (0, 1, true), (0, 17, false)] {
        let mut net = Net::settled(settings(2), vec![Wire::new(20), Wire::new(200)], 3);
        net.run(Span::from_secs(1));
        let (mut sent, mut last) = (vec![], net.now);
        for n in 0..50 {
            let mut packet = packet(1, n, 60);
            (packet[1], packet[9]) = (tos, protocol);
            sent.push(packet.clone());
            last = net.now;
            net.host(0, packet);
            net.run(MS(20));
        }
        net.run(Span::from_secs(1));
        assert_eq!(net.delivered[1].iter().map(|(_, packet)| packet.clone()).collect::<Vec<_>>(), sent);
        let took = net.delivered[1][49].0.since(last);
        assert_eq!(took < MS(40), prompt, "{took:?}");
    }
}

#[test]
fn a_call_does_not_wait_behind_what_waits_for_a_channel() {
    let mut settings = settings(2);
    for channel in &mut settings.channels {
        channel.rate = Some(Rate::from_mbit(1));
    }
    let mut net = Net::settled(settings, vec![Wire::new(20), Wire::new(20)], 3);
    for n in 0..20 {
        net.host(0, packet(1, n, 1000));
    }
    let mut call = packet(2, 0, 60);
    call[1] = 46 << 2;
    net.host(0, call.clone());
    net.run(Span::from_secs(1));
    let place = net.delivered[1].iter().position(|(_, packet)| *packet == call).unwrap();
    assert!(place < 8, "it came as number {place} of 21");
}

#[test]
fn an_idle_channel_carries_a_second_frame_of_what_a_lossy_one_may_lose() {
    for spare in [true, false] {
        let mut settings = settings(2);
        settings.spare_copies = spare;
        let wires = vec![Wire { loss: 0.01, ..Wire::new(20) }, Wire { loss: 0.01, ..Wire::new(20) }];
        let mut net = Net::settled(settings, wires, 3);
        net.run(Span::from_secs(1));
        let (sent, begun) = flow(&mut net, 4_000);
        net.run(Span::from_secs(1));
        all_arrived(&net, &sent);
        let late = (0..4_000).filter(|n| net.delivered[1][*n].0.since(begun + MS(*n as u64)) > MS(40)).count();
        // Each twice: one in 10,000 is lost both times, and holds up its flow for a round trip.
        assert_eq!((late < 100, net.ends[0].stats().spare_copies > 3_000), (spare, spare), "{late}");
    }
    // Where nothing is lost it ends as soon as that is known.
    let mut net = Net::settled(settings(2), vec![Wire::new(20), Wire::new(20)], 3);
    let sent = stream(&mut net, 0..10_000, MS(1));
    net.run(Span::from_secs(1));
    all_arrived(&net, &sent);
    assert!(net.ends[0].stats().spare_copies < 3_000);
}

#[test]
fn what_cannot_be_mended_in_time_is_given_up_and_counted() {
    let mut settings = settings(2);
    settings.resend_within = Some(MS(40));
    let wires = vec![Wire { loss: 0.3, ..Wire::new(10) }, Wire { loss: 0.3, ..Wire::new(25) }];
    let mut net = Net::settled(settings, wires, 5);
    let sent = stream(&mut net, 0..10_000, Span::from_micros(200));
    net.run(Span::from_secs(2));
    check_ordered(&sent, &net.delivered[1]).unwrap();
    let (missing, given_up) = (sent.len() - net.delivered[1].len(), net.ends[0].stats().given_up as usize);
    assert!(missing > 100 && missing <= given_up, "{missing} are missing, {given_up} were given up");
    assert_eq!(net.ends[0].kept_bytes(), 0);
}

#[test]
fn a_lone_packet_that_is_lost_comes_after_a_round_trip_and_a_half() {
    let mut net = Net::settled(settings(2), vec![Wire::new(20), Wire::new(20)], 1);
    let mut sent = stream(&mut net, 0..200, MS(1));
    net.run(MS(300));
    for wire in &mut net.wires {
        wire.cut[0] = true;
    }
    sent.extend(stream(&mut net, 200..201, Span::ZERO));
    let (gone, before) = (net.now, net.delivered[1].len());
    net.wires.iter_mut().for_each(|wire| wire.cut[0] = false);
    net.run(MS(400));
    assert_eq!(net.delivered[1].len(), before + 1);
    let took = net.delivered[1][before].0.since(gone);
    assert!(took <= MS(80), "{took:?}: two round trips of 40 ms");
    all_arrived(&net, &sent);
}

#[test]
fn a_channel_that_goes_dead_stalls_nothing_for_three_round_trips() {
    // The same, however the driver learns of it: a cut that nobody tells of, and a link that is told to be down.
    for told in [false, true] {
        let mut net = Net::settled(settings(2), vec![Wire::new(20), Wire::new(20)], 3);
        let mut sent = stream(&mut net, 0..2_000, Span::from_micros(500));
        net.wires[1].cut = [true; 2];
        let cut = net.now;
        if told {
            net.set_link(0, 1, Link::Down);
        }
        sent.extend(stream(&mut net, 2_000..4_000, Span::from_micros(500)));
        net.run(Span::from_secs(1));
        all_arrived(&net, &sent);
        let mut last = cut;
        for (at, _) in net.delivered[1].iter().filter(|(at, _)| *at > cut) {
            assert!(at.since(last) <= MS(120), "a stall of {:?}, told {told}", at.since(last));
            last = *at;
        }
        assert!(net.events[0].iter().any(|e| matches!(e, Event::ChannelDown { .. })));
        // It is used again when it answers.
        net.wires[1].cut = [false; 2];
        net.set_link(0, 1, Link::Up);
        let before = net.frames[0][1];
        sent.extend(stream(&mut net, 4_000..6_000, Span::from_micros(500)));
        net.run(Span::from_secs(1));
        all_arrived(&net, &sent);
        assert!(net.frames[0][1] > before + 500);
    }
}

#[test]
fn a_channel_that_goes_dead_and_comes_back_is_found_out_without_being_told() {
    let mut net = Net::settled(settings(2), vec![Wire::new(20), Wire::new(20)], 3);
    let mut sent = stream(&mut net, 0..1_000, Span::from_micros(500));
    net.wires[1].cut = [true, false];
    sent.extend(stream(&mut net, 1_000..1_800, Span::from_micros(500)));
    let during = net.frames[0][1];
    sent.extend(stream(&mut net, 1_800..2_200, Span::from_micros(500)));
    assert!(net.frames[0][1] - during < 20, "heartbeats and echo requests alone go by a mute channel");
    net.wires[1].cut = [false, false];
    net.run(MS(300));
    let after = net.frames[0][1];
    sent.extend(stream(&mut net, 2_200..3_000, Span::from_micros(500)));
    net.run(Span::from_secs(1));
    assert!(net.frames[0][1] - after > 300);
    all_arrived(&net, &sent);
}

#[test]
fn a_channel_that_was_dead_when_traffic_ended_is_in_use_again_before_any_flows() {
    let mut net = Net::settled(settings(2), vec![Wire::new(20), Wire::new(20)], 3);
    stream(&mut net, 0..1_000, Span::from_micros(500));
    net.wires[1].cut = [true, false];
    stream(&mut net, 1_000..2_000, Span::from_micros(500));
    let usable = |net: &Net| [0, 1].map(|c| net.ends[0].channel_stats(ChannelId(c)).unwrap().usable);
    // Longer than anything is asked for the sake of what went.
    net.run(Span::from_secs(60));
    assert_eq!(usable(&net), [true, false]);
    net.wires[1].cut = [false, false];
    net.run(Span::from_secs(60));
    assert_eq!(usable(&net), [true, true]);
}

#[test]
fn a_restart_of_either_end_delivers_nothing_twice_and_nothing_late() {
    for end in [0, 1] {
        let wires = vec![Wire { loss: 0.05, ..Wire::new(10) }, Wire { loss: 0.05, ..Wire::new(30) }];
        let mut net = Net::settled(settings(2), wires, 8);
        let mut sent = stream(&mut net, 0..3_000, Span::from_micros(300));
        net.restart(end, settings(2), 77);
        sent.extend(stream(&mut net, 3_000..9_000, Span::from_micros(300)));
        net.run(Span::from_secs(2));
        check_ordered(&sent, &net.delivered[1]).unwrap();
        let after = net.delivered[1].iter().filter(|(_, p)| identity(p).1 >= 6_000).count();
        assert_eq!(after, 3_000, "once the ends know each other, nothing is missing");
        if end == 1 {
            let missing = sent.len() - net.delivered[1].len();
            assert!(missing as u64 <= net.ends[0].stats().given_up + net.ends[0].stats().no_channel, "{missing}");
        }
    }
}

#[test]
fn a_peer_whose_reports_are_all_lost_costs_bounded_memory() {
    let mut settings = settings(2);
    settings.resend_bytes = 1 << 17;
    let mut net = Net::settled(settings, vec![Wire::new(5), Wire::new(5)], 2);
    net.wires.iter_mut().for_each(|wire| wire.cut[1] = true);
    let mut most = 0;
    let mut sent = vec![];
    for n in 0..50 {
        sent.extend(stream(&mut net, 100 * n..100 * (n + 1), Span::from_micros(50)));
        most = most.max(net.ends[0].kept_bytes());
    }
    net.run(Span::from_secs(5));
    assert!(most <= 1 << 17 && net.ends[0].kept_bytes() == 0, "{most}");
    check_ordered(&sent, &net.delivered[1]).unwrap();
    assert_eq!(net.delivered[1].len(), sent.len(), "the way there was never cut");
    assert!(net.ends[0].stats().given_up > 0);
}

#[test]
fn a_long_run_through_losses_replays_and_keeps_order() {
    let wires = vec![Wire { loss: 0.01, jitter: MS(1), ..Wire::new(5) }, Wire { loss: 0.02, ..Wire::new(15) }];
    let mut net = Net::settled(settings(2), wires, 9);
    let sent = stream(&mut net, 0..100_000, Span::from_micros(20));
    net.run(Span::from_secs(2));
    all_arrived(&net, &sent);
    for end in 0..2 {
        let log = net.ends[end].finish().unwrap();
        assert!(replay(&log, |_| ()).unwrap().digests > 100);
    }
}

#[test]
fn each_end_understands_the_mode_of_the_other() {
    let wires = vec![Wire { loss: 0.05, ..Wire::new(10) }, Wire { loss: 0.05, ..Wire::new(15) }];
    let mut net = Net::new([settings(2), config(2)], wires, 4);
    net.run(MS(700));
    let sent = stream(&mut net, 0..3_000, Span::from_micros(300));
    net.run(Span::from_secs(2));
    all_arrived(&net, &sent);
}

#[test]
fn keeping_losing_and_sending_again_allocates_nothing_once_it_has_grown() {
    let now = Time::from_millis(1000);
    let made = |seed| {
        // Copies of these packets are made by allocating them; those of the gateway's pool are not.
        let mut settings = settings(2);
        settings.spare_copies = false;
        let mut bond = Bond::<Vec<u8>>::new(settings, now, seed).unwrap();
        (0..2).for_each(|c| bond.set_link(now, ChannelId(c), Link::Up));
        bond
    };
    let (mut here, mut there, mut now) = (made(1), made(2), now);
    let (mut allocations, mut frames, mut resent) = (0, 0u32, 0);
    let mut under_way: Vec<(usize, ChannelId, Codepoint, Vec<u8>)> = vec![];
    for n in 0..30_000u32 {
        now += Span::from_micros(200);
        let (mut packet, mut sent) = (Some(packet((n % 17) as u16, n, 60)), Vec::with_capacity(64));
        let arrivals = std::mem::take(&mut under_way);
        let (news, data): (Vec<_>, Vec<_>) = arrivals.into_iter().partition(|frame| frame.0 == 0);
        for (_, channel, codepoint, bytes) in data {
            there.handle_channel(now, channel, codepoint, bytes, 0);
        }
        there.handle_timeout(now);
        let mut news = news.into_iter();
        let mut dropped = Vec::with_capacity(64);
        let counted = allocation_counter::measure(|| {
            for (_, channel, codepoint, bytes) in news.by_ref() {
                here.handle_channel(now, channel, codepoint, bytes, 0);
            }
            here.handle_timeout(now);
            here.handle_host(now, packet.take().unwrap());
            while let Some(mut frame) = here.poll_transmit(now) {
                let packet = frame.packet.take();
                // What is on the wire is the test's own.
                let mut copy = vec![];
                allocation_counter::opt_out(|| copy = packet.clone().unwrap_or_default());
                sent.push((frame, copy));
                match packet {
                    Some(packet) if here.wants_back() => here.give_back(packet),
                    other => dropped.push(other),
                }
            }
        });
        if n >= 10_000 {
            allocations += counted.count_total;
            resent = here.stats().resent;
        }
        for (frame, packet) in sent {
            frames += 1;
            if frames % 37 != 0 {
                under_way.push((1, frame.channel, frame.codepoint, [frame.head.as_slice(), &packet].concat()));
            }
        }
        while let Some(frame) = there.poll_transmit(now) {
            let body = frame.packet.unwrap_or_default();
            under_way.push((0, frame.channel, frame.codepoint, [frame.head.as_slice(), &body].concat()));
        }
        while there.poll_deliver().is_some() {}
    }
    // Second frames of what goes again are copies of its bytes; path MTU probes are made of zeros.
    assert!(resent > 500, "{resent}");
    assert!(allocations < 3 * resent, "{allocations} allocations where {resent} frames went again");
}
