//! The bond in mode `flow`: a policy chooses each packet's channel.

use crate::bond_network::{Net, Wire, check_once, check_ordered, config, identity, packet};
use fairspan_core::bond::{Bond, Codepoint, Config, ConfigError, Event, Link, Mode, Reason};
use fairspan_core::select::POLICIES;
use fairspan_core::units::{ChannelId, Rate, Span, Time};
use proptest::prelude::*;

const MS: fn(u64) -> Span = Span::from_millis;

fn flow(wires: usize, policy: &str) -> Config {
    let mut settings = config(wires);
    settings.mode = Mode::Flow;
    settings.policy = policy.parse().unwrap();
    settings
}

/// All policies that a bond towards a peer takes.
fn policies() -> Vec<&'static str> {
    POLICIES.iter().map(|policy| policy.name).filter(|name| *name != "balance-alb").collect()
}

/// `count` packets of ten flows, some in bursts.
fn send(net: &mut Net, count: u32, gap: Span) -> Vec<Vec<u8>> {
    let mut sent = vec![];
    for n in 0..count {
        let size = 60 + net.rng.below(1300) as usize;
        let flow = net.rng.below(10) as u16;
        let p = packet(flow, n, size);
        sent.push(p.clone());
        net.host(0, p);
        let pause = if net.rng.below(20) == 0 { gap.times(30) } else { gap };
        net.run(pause);
    }
    net.run(Span::from_secs(2));
    sent
}

fn sent_on(net: &Net, channel: u8) -> u64 {
    net.ends[0].channel_stats(ChannelId(channel)).unwrap().sent_packets
}

#[test]
fn every_policy_delivers_every_packet_once_and_unchanged() {
    for policy in policies() {
        for rated in [false, true] {
            let mut settings = flow(3, policy);
            for channel in settings.channels.iter_mut().filter(|_| rated) {
                channel.rate = Some(Rate::from_mbit(20));
            }
            let mut net = Net::settled(settings, vec![Wire::new(5), Wire::new(20), Wire::new(50)], 5);
            let sent = send(&mut net, 400, MS(1));
            check_once(&sent, &net.delivered[1]).unwrap_or_else(|e| panic!("{policy}: {e}"));
            assert_eq!(net.delivered[1].len(), sent.len(), "{policy}, rated {rated}");
            assert_eq!((0..3).map(|c| net.ends[0].channel_queue(ChannelId(c)).0).sum::<usize>(), 0);
        }
    }
}

#[test]
fn a_packet_has_two_bytes_of_envelope_but_for_the_policies_that_need_numbers() {
    for (policy, bytes) in [("balance-rr", 2), ("brr", 2), ("broadcast", 6), ("traffic_meter", 10)] {
        let mut net = Net::settled(flow(2, policy), vec![Wire::new(1), Wire::new(1)], 1);
        assert_eq!(net.ends[0].mtu(), 1500 - bytes, "{policy}");
        net.ends[0].handle_host(net.now, packet(1, 1, 200));
        let frames = std::iter::from_fn(|| net.ends[0].poll_transmit(net.now)).filter(|f| f.packet.is_some());
        assert!(frames.map(|f| f.head.len()).all(|len| len == bytes), "{policy}");
    }
}

#[test]
fn what_the_policy_did_is_counted() {
    let mut net = Net::settled(flow(2, "brr:10ms,flush=on,flush_wait=50ms"), vec![Wire::new(5), Wire::new(5)], 1);
    for n in 0..105 {
        net.host(0, packet((n % 3) as u16, n, 100));
        // After every seventh packet of each flow a pause that is longer than the threshold, and than the way there and back.
        net.run(MS(if n % 21 == 20 { 25 } else { 1 }));
    }
    let stats = net.ends[0].flow_stats().unwrap();
    assert_eq!((stats.flows, stats.bursts, stats.evicted), (3, 15, 0));
    assert!(stats.moves > 0 && stats.moves == stats.flush_moved && stats.flush_markers > 10, "{stats:?}");
    assert_eq!(Net::settled(config(2), vec![Wire::new(5), Wire::new(5)], 1).ends[0].flow_stats(), None);
}

/// Each channel at 20 Mbit/s, and the ways there and back in milliseconds.
fn unlike_ways(policy: &str, ways: [[u64; 2]; 2]) -> Net {
    let mut settings = flow(2, policy);
    settings.channels.iter_mut().for_each(|channel| channel.rate = Some(Rate::from_mbit(20)));
    let wire = |[there, back]: [u64; 2]| Wire { back: MS(back - there), ..Wire::new(there) };
    Net::settled(settings, ways.map(wire).to_vec(), 3)
}

#[test]
fn an_adaptive_threshold_knows_the_way_there_whatever_the_way_back() {
    // Half the round trips, 35 and 41 ms, differ by 6 ms; the ways there by 30.
    for (policy, ordered) in [("brr:adaptive", true), ("flowlet:adaptive", true), ("brr:6ms", false)] {
        let mut net = unlike_ways(policy, [[10, 60], [40, 42]]);
        let mut sent = vec![];
        for n in 0..3000 {
            let p = packet((n % 3) as u16, n, 1000);
            sent.push(p.clone());
            net.host(0, p);
            // Pauses about as long as either difference.
            net.run(if n % 10 == 9 { MS(5 + u64::from(n) % 40) } else { MS(1) });
        }
        net.run(Span::from_secs(1));
        assert_eq!(net.delivered[1].len(), sent.len(), "{policy}");
        assert!([0, 1].iter().all(|c| sent_on(&net, *c) > 300), "{policy} uses both");
        assert_eq!(check_ordered(&sent, &net.delivered[1]).is_ok(), ordered, "{policy}");
    }
}

#[test]
fn on_a_raw_channel_a_packet_is_the_frame_and_padding_is_cut() {
    let mut settings = flow(2, "balance-rr");
    for channel in &mut settings.channels {
        channel.raw = true;
    }
    let mut net = Net::settled(settings, vec![Wire::new(1), Wire::new(2)], 1);
    assert_eq!(net.ends[0].mtu(), 1500);
    let p = packet(1, 1, 40);
    net.ends[0].handle_host(net.now, p.clone());
    let frames = std::iter::from_fn(|| net.ends[0].poll_transmit(net.now));
    let frame = frames.into_iter().find(|f| f.codepoint == Codepoint::Raw).unwrap();
    assert!(frame.head.is_empty() && frame.packet.as_ref() == Some(&p));
    net.ends[1].handle_channel(net.now, frame.channel, Codepoint::Raw, [p.clone(), vec![0; 6]].concat(), 0);
    assert_eq!(net.ends[1].poll_deliver(), Some(p));
    let sent = send(&mut net, 200, MS(1));
    assert_eq!(net.delivered[1].len(), sent.len());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn with_flush_no_policy_reorders_a_flow_at_any_loss_and_skew(
        delays in proptest::collection::vec(0u64..200, 2..6), loss in 0.0..0.8f64, jitter in 0u64..60, at in 0usize..20,
        wait in 0u64..300, rated: bool, seed: u64,
    ) {
        let names: Vec<_> = policies().into_iter().filter(|p| !matches!(*p, "broadcast" | "traffic_meter")).collect();
        let policy = format!("{}:flush=on,flush_wait={wait}ms", names[at % names.len()]);
        let mut settings = flow(delays.len(), &policy);
        for channel in settings.channels.iter_mut().filter(|_| rated) {
            channel.rate = Some(Rate::from_mbit(4));
        }
        // Sockets that die of silence would be another test.
        (settings.dead_after, settings.dead_after_idle) = (Span::from_secs(100), Span::from_secs(100));
        let wires = delays.into_iter().map(|d| Wire { loss, jitter: MS(jitter), ..Wire::new(d) }).collect();
        let mut net = Net::settled(settings, wires, seed);
        let sent = send(&mut net, 500, MS(1));
        check_ordered(&sent, &net.delivered[1]).map_err(|e| TestCaseError::fail(format!("{policy}: {e}")))?;
        if loss == 0.0 {
            prop_assert_eq!(net.delivered[1].len(), sent.len());
        }
    }

    #[test]
    fn traffic_meter_is_put_in_order_at_the_receiver_at_any_loss_and_skew(
        delays in proptest::collection::vec(0u64..150, 2..5), loss in prop_oneof![Just(0.0), 0.0..0.5f64], rated: bool, seed: u64,
    ) {
        let mut settings = flow(delays.len(), "traffic_meter");
        for channel in settings.channels.iter_mut().filter(|_| rated) {
            channel.rate = Some(Rate::from_mbit(6));
        }
        let wires = delays.into_iter().map(|d| Wire { loss, ..Wire::new(d) }).collect();
        let mut net = Net::settled(settings, wires, seed);
        let sent = send(&mut net, 300, MS(1));
        check_ordered(&sent, &net.delivered[1]).map_err(TestCaseError::fail)?;
        if loss == 0.0 {
            prop_assert_eq!(net.delivered[1].len(), sent.len());
            let stats = net.ends[1].stats();
            prop_assert_eq!((stats.gaps_passed, stats.gaps_deadline, stats.late), (0, 0, 0), "no gap was given up");
        }
    }

    #[test]
    fn packets_that_wait_for_a_channel_that_fails_go_by_the_others(
        policy in prop_oneof![Just("balance-rr"), Just("brr:1us"), Just("balance-xor:layer3+4"), Just("traffic_meter"), Just("brr:flush=on")],
        seed: u64,
    ) {
        let mut settings = flow(3, policy);
        for channel in &mut settings.channels {
            channel.rate = Some(Rate::from_mbit(1));
        }
        settings.queue_time = Span::from_secs(5);
        let mut net = Net::settled(settings, vec![Wire::new(5); 3], seed);
        let sent: Vec<_> = (0..200).map(|n| packet((n % 20) as u16, n, 500)).collect();
        for p in &sent {
            net.host(0, p.clone());
        }
        let waiting = net.ends[0].channel_queue(ChannelId(1)).0;
        prop_assert!(waiting > 10, "{waiting}");
        net.set_link(0, 1, Link::Down);
        prop_assert_eq!(net.ends[0].channel_queue(ChannelId(1)).0, 0);
        prop_assert_eq!(net.ends[0].stats().requeued, waiting as u64);
        net.run(Span::from_secs(5));
        check_once(&sent, &net.delivered[1]).map_err(TestCaseError::fail)?;
        // What was under way on the dead link is not lost here; the ordered receiver may have given the rest up.
        let stats = net.ends[1].stats();
        prop_assert_eq!(net.delivered[1].len() as u64 + stats.late, sent.len() as u64);
        if policy != "traffic_meter" && policy != "balance-rr" && policy != "brr:1us" {
            check_ordered(&sent, &net.delivered[1]).map_err(TestCaseError::fail)?;
        }
    }
}

#[test]
fn broadcast_delivers_the_first_copy_once_and_survives_the_loss_of_all_but_one() {
    let wires = vec![Wire { loss: 0.9, ..Wire::new(1) }, Wire::new(30), Wire { cut: [true; 2], ..Wire::new(1) }];
    let mut net = Net::settled(flow(3, "broadcast"), wires, 1);
    let sent = send(&mut net, 300, MS(1));
    check_once(&sent, &net.delivered[1]).unwrap();
    assert_eq!(net.delivered[1].len(), sent.len());
    assert!(net.ends[1].stats().duplicates > 5);
}

#[test]
fn each_channel_has_a_queue_of_its_own_and_a_full_one_does_not_stop_the_others() {
    // Every second packet to each; channel 1 is slow.
    let mut settings = flow(2, "balance-rr");
    (settings.channels[0].rate, settings.channels[1].rate) = (Some(Rate::from_mbit(100)), Some(Rate::from_mbit(1)));
    settings.queue_time = MS(200);
    let mut net = Net::settled(settings, vec![Wire::new(1), Wire::new(1)], 1);
    for n in 0..1000 {
        net.host(0, packet(1, n, 1000));
        net.run(Span::from_micros(200));
    }
    net.run(Span::from_secs(1));
    assert_eq!(sent_on(&net, 0), 500, "channel 0 carries its half");
    // 200 ms at 1 Mbit/s are 25 kB, but room for 32 of the largest packets, 48 kB, is there; and 200 ms of sending.
    assert!((65..80).contains(&sent_on(&net, 1)), "{}", sent_on(&net, 1));
    assert_eq!(net.ends[0].stats().queue_full, 500 - sent_on(&net, 1));
}

#[test]
fn without_rates_the_host_waits_only_when_every_channel_is_full() {
    let mut net = Net::settled(flow(2, "balance-rr"), vec![Wire::new(1), Wire::new(1)], 1);
    let now = net.now;
    net.ends[0].set_blocked(now, ChannelId(1), true);
    for n in 0..1500 {
        assert!(net.ends[0].wants_host(), "packet {n}");
        net.ends[0].handle_host(now, packet(1, n, 1000));
        while net.ends[0].poll_transmit(now).is_some() {}
    }
    let (packets, bytes) = net.ends[0].channel_queue(ChannelId(1));
    assert_eq!((packets, bytes.as_u64()), (524, 524_000), "512 KiB at most");
    assert_eq!(net.ends[0].stats().queue_full, 750 - 524);
    net.ends[0].set_blocked(now, ChannelId(0), true);
    let mut taken = 0;
    while net.ends[0].wants_host() {
        net.ends[0].handle_host(now, packet(1, taken, 1000));
        taken += 1;
    }
    assert_eq!(net.ends[0].channel_queue(ChannelId(0)).0, 263, "256 KiB, and then the host waits");
}

#[test]
fn a_link_is_used_again_after_updelay_unless_none_is_used() {
    let mut net = Net::settled(flow(2, "balance-rr:updelay=2s"), vec![Wire::new(1), Wire::new(1)], 1);
    let usable = |net: &Net| [0, 1].map(|c| net.ends[0].channel_stats(ChannelId(c)).unwrap().usable);
    assert_eq!(usable(&net), [true, false], "of two that come up the first at once");
    net.run(Span::from_secs(2));
    assert_eq!(usable(&net), [true, true]);
    net.set_link(0, 0, Link::Down);
    assert_eq!(usable(&net), [false, true]);
    net.set_link(0, 0, Link::Up);
    net.run(MS(1990));
    assert_eq!(usable(&net), [false, true]);
    net.run(MS(20));
    assert_eq!(usable(&net), [true, true]);
    let ups = net.events[0].iter().filter(|e| matches!(e, Event::ChannelUp { reason: Reason::Link, .. }));
    assert_eq!(ups.count(), 3);
}

#[test]
fn a_link_that_fails_for_less_than_downdelay_keeps_its_packets() {
    let mut net = Net::settled(flow(2, "active-backup:downdelay=300ms"), vec![Wire::new(1), Wire::new(1)], 1);
    let on = |net: &Net| [sent_on(net, 0), sent_on(net, 1)];
    let first = send(&mut net, 10, MS(1)).len() as u64;
    let [a, b] = on(&net);
    assert_eq!((a.max(b), a.min(b)), (first, 0));
    let (used, other) = if a > 0 { (0, 1) } else { (1, 0) };
    net.set_link(0, used, Link::Down);
    for n in 0..10 {
        net.host(0, packet(3, 1000 + n, 100));
    }
    net.run(MS(200));
    assert_eq!(net.ends[0].channel_queue(ChannelId(used)).0, 10);
    net.set_link(0, used, Link::Up);
    net.run(MS(50));
    assert_eq!((sent_on(&net, used), sent_on(&net, other)), (first + 10, 0));
    net.set_link(0, used, Link::Down);
    for n in 0..10 {
        net.host(0, packet(3, 2000 + n, 100));
    }
    net.run(MS(400));
    assert_eq!(sent_on(&net, other), 10);
    assert_eq!(net.delivered[1].len() as u64, first + 20);
}

#[test]
fn probes_at_arp_interval_find_a_dead_link_after_missed_max_of_them_idle_or_not() {
    for (policy, least, most) in [("balance-rr:arp_interval=20ms,missed_max=3", 48, 72), ("balance-rr", 10_900, 16_100)]
    {
        let mut net = Net::settled(flow(2, policy), vec![Wire::new(1), Wire::new(1)], 1);
        // Nothing has been sent for long. The last sign of life is up to a heartbeat old, 20 ms or 5 s: three and a half
        // of 20 ms, or 16 s, after it the link is dead.
        net.run(Span::from_secs(10));
        net.wires[1].cut = [true, true];
        let cut = net.now;
        while net.ends[0].channel_stats(ChannelId(1)).unwrap().usable {
            net.run(MS(1));
        }
        let took = net.now.since(cut);
        assert!(took >= MS(least) && took <= MS(most), "{policy}: {took:?}");
    }
}

#[test]
fn packets_from_an_outage_of_all_links_wait_for_the_first_that_is_back_but_not_for_ever() {
    let mut net = Net::settled(flow(2, "brr"), vec![Wire::new(1), Wire::new(1)], 1);
    for channel in 0..2 {
        net.set_link(0, channel, Link::Down);
    }
    net.host(0, packet(1, 1, 100));
    net.run(MS(600));
    net.host(0, packet(1, 2, 100));
    net.run(MS(200));
    net.set_link(0, 1, Link::Up);
    net.run(MS(100));
    let got: Vec<_> = net.delivered[1].iter().map(|d| identity(&d.1)).collect();
    assert_eq!(got, [(1, 2)], "what is older than the deadline is dropped");
    assert_eq!(net.ends[0].stats().no_channel, 1);
}

#[test]
fn policies_that_cannot_work_are_refused_with_what_would() {
    let error = |policy: &str| Bond::<Vec<u8>>::new(flow(2, policy), Time::ZERO, 1).map(|_| ()).unwrap_err();
    assert!(error("balance-alb").to_string().contains("use balance-tlb"));
    assert!(matches!(error("active-backup:primary=fast"), ConfigError::Policy(_)));
    assert!(error("active-backup:primary=7").to_string().contains("the links are"));
    let mut settings = flow(2, "active-backup:primary=fast");
    settings.channels[1].name = "fast".into();
    let mut net = Net::settled(settings, vec![Wire::new(1), Wire::new(1)], 1);
    send(&mut net, 10, MS(1));
    assert_eq!(sent_on(&net, 1), 10, "a channel by its name");
    // The daemon's channels join later; then the name is known.
    let mut bond = Bond::<Vec<u8>>::new(flow(0, "active-backup:primary=fast"), Time::ZERO, 1).unwrap();
    for (n, name) in ["slow", "fast"].into_iter().enumerate() {
        let mut channel = fairspan_core::bond::ChannelConfig::default();
        channel.name = name.into();
        bond.join(Time::ZERO, ChannelId(n as u8), channel).unwrap();
        bond.set_link(Time::ZERO, ChannelId(n as u8), Link::Up);
    }
    bond.handle_host(Time::ZERO, packet(1, 1, 100));
    let data = std::iter::from_fn(|| bond.poll_transmit(Time::ZERO))
        .find(|f| f.packet.as_ref().is_some_and(|p| p.len() == 100));
    assert_eq!(data.unwrap().channel, ChannelId(1));
}
