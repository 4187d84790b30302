//! What waits for a bond's channels is shared among users first and among their flows then, and is accounted for.

use crate::bond_network::{Net, Wire, check_once, check_ordered, config, identity, packet};
use fairspan_core::bond::{Config, Mode};
use fairspan_core::ip::checksum;
use fairspan_core::queue::End;
use fairspan_core::record::replay;
use fairspan_core::units::{Rate, Span};

/// Two channels of 10 Mbit/s.
fn settings(mode: Mode, users: End) -> Config {
    let mut settings = Config::usual();
    (settings.mode, settings.spare_copies) = (mode, false);
    let mut settings = settings.with_queue(None, None, users);
    settings.channels = config(2).channels;
    for channel in &mut settings.channels {
        channel.rate = Some(Rate::from_mbit(10));
    }
    settings.validate().unwrap();
    settings
}

/// A packet of `flow` of a user, whose address is its source's or its destination's.
fn of_user(user: u8, end: End, flow: u16, number: u32) -> Vec<u8> {
    let mut packet = packet(flow, number, 1000);
    packet[if end == End::Source { 15 } else { 19 }] = user;
    packet[10..12].fill(0);
    let sum = checksum::of(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// Flows 0 to 11 are user 1's and send 5 Mbit/s each for 3 s, flow 12 is user 2's and sends 15 Mbit/s, and flow 13 is user 3's and
/// sends 400 kbit/s. Returns the end state, what was sent, and bytes that each user's packets had when they arrived.
fn crowd(mode: Mode, users: End) -> (Net, Vec<Vec<u8>>, [u64; 3]) {
    let wires = || (0..2).map(|_| Wire::new(10)).collect();
    let mut net = Net::new([settings(mode, users), settings(mode, users)], wires(), 11);
    net.run(Span::from_secs(1));
    let (mut sent, before) = (Vec::new(), net.delivered[1].len());
    for number in 0..1875 {
        for flow in 0..14u16 {
            let times = [1, 3, u32::from(number % 12 == 0)][usize::from(flow).saturating_sub(11)];
            for n in 0..times {
                let packet = of_user(flow.saturating_sub(10).max(1) as u8, users, flow, number * times + n);
                sent.push(packet.clone());
                net.host(0, packet);
            }
        }
        net.run(Span::from_micros(1600));
    }
    let mut bytes = [0; 3];
    for (_, packet) in &net.delivered[1][before..] {
        let user = usize::from(identity(packet).0).saturating_sub(11);
        bytes[user] += packet.len() as u64;
    }
    (net, sent, bytes)
}

#[test]
fn a_user_with_twelve_flows_has_no_more_than_one_with_one_and_neither_delays_a_third_who_sends_little() {
    for (mode, users) in
        [(Mode::Reliable, End::Source), (Mode::Reliable, End::Destination), (Mode::Ordered, End::Source)]
    {
        let (net, sent, bytes) = crowd(mode, users);
        check_once(&sent, &net.delivered[1]).unwrap();
        let [many, one, little] = bytes.map(|bytes| bytes as f64);
        assert!((0.9..1.1).contains(&(many / one)), "{mode} {users:?}: {bytes:?}");
        // What is asked for in 3 s, and of 20 Mbit/s what envelopes leave of it.
        assert!(little > 0.98 * 157_000.0 && bytes.iter().sum::<u64>() > 6_500_000, "{mode} {users:?}: {bytes:?}");

        let accounts = net.ends[0].accounts().expect("a fair queue");
        let flows = accounts.heaviest(net.now, 20);
        assert_eq!(flows.len(), 14);
        let waiting: u64 = flows.iter().map(|flow| u64::from(flow.waiting)).sum();
        assert_eq!(waiting, net.ends[0].waiting().0 as u64);
        let (packets, dropped): (u64, u64) =
            flows.iter().fold((0, 0), |(packets, dropped), flow| (packets + flow.packets, dropped + flow.dropped));
        assert_eq!(packets + dropped + waiting, sent.len() as u64, "{mode}: none is forgotten");
        let stats = net.ends[0].stats();
        assert_eq!(dropped, stats.queue_full + stats.early_dropped);
        // The user with one flow has the heaviest; the modest one loses nothing, and its packets wait for none of the others'.
        assert!(flows[0].label.to_string().contains(":1012"), "{}", flows[0].label);
        let modest = flows.iter().find(|flow| flow.label.to_string().contains(":1013")).expect("flow 13");
        assert_eq!((modest.dropped, modest.waiting), (0, 0));
        let summary = accounts.summary(net.now);
        assert_eq!((summary.active, summary.backlogged), (14, 13));
        // A packet and a turn of either other user take 2 ms at most.
        assert!(summary.sparse.median < Some(Span::from_millis(2)), "{mode}: {summary:?}");
        assert!(summary.all.median > Some(Span::from_millis(10)), "{mode}: {summary:?}");
    }
}

#[test]
fn what_waits_in_traffic_classes_counts_among_what_waits() {
    let mut settings = settings(Mode::Reliable, End::Source);
    settings.classes = "name=x\tport=1001".parse().unwrap();
    settings.validate().unwrap();
    let mut net = Net::new([settings.clone(), settings], vec![Wire::new(10), Wire::new(10)], 3);
    net.run(Span::from_secs(1));
    for number in 0..40 {
        for flow in 0..2 {
            net.host(0, packet(flow, number, 1000));
        }
    }
    let flows = net.ends[0].accounts().expect("a fair queue").heaviest(net.now, 10);
    let waiting: Vec<u32> = flows.iter().map(|flow| flow.waiting).collect();
    assert!(waiting.len() == 2 && waiting.iter().all(|waiting| *waiting > 20), "{flows:?}");
    assert_eq!(u64::from(waiting[0] + waiting[1]), net.ends[0].waiting().0 as u64);
}

#[test]
fn first_in_first_out_tells_no_flows_apart_and_keeps_no_accounts() {
    let mut settings = settings(Mode::Reliable, End::Source);
    settings.discipline = "fifo".parse().unwrap();
    let net = Net::new([settings.clone(), settings], vec![Wire::new(10), Wire::new(10)], 11);
    assert!(net.ends[0].accounts().is_none());
}

#[test]
fn modes_whose_order_is_that_of_the_channels_stay_first_in_first_out() {
    for mode in [Mode::Stripe, Mode::Flow] {
        let mut config = Config::usual();
        config.mode = mode;
        let config = config.with_queue(None, None, End::Source);
        assert_eq!((config.discipline.to_string(), config.buffer.to_string()), ("fifo".into(), "drop-tail".into()));
    }
    let asked = Config::usual().with_queue(Some("fifo".parse().unwrap()), None, End::Source);
    assert_eq!(asked.buffer.to_string(), "drop-tail");
}

#[test]
fn another_order_and_another_policy_hold_from_the_next_packet_on_and_nothing_that_waits_is_lost_or_put_out_of_order() {
    for mode in [Mode::Reliable, Mode::Ordered, Mode::Duplicate] {
        let start = settings(mode, End::Source);
        let mut net = Net::new([start.clone(), start], vec![Wire::new(10), Wire::new(10)], 3);
        net.run(Span::from_secs(1));
        let orders = ["fifo", "drr", "hosts:by=destination", "sfq", "fifo", "hosts"];
        let mut sent = Vec::new();
        for number in 0..1200 {
            // Four packets every 2 ms are less than two channels carry, and more than one of them does.
            for flow in 0..4 {
                sent.push(packet(flow, number, 1000));
                net.host(0, packet(flow, number, 1000));
            }
            if number % 200 == 100 {
                // In the middle of a burst, so that some wait.
                for extra in 4..24 {
                    sent.push(packet(extra, number, 1000));
                    net.host(0, packet(extra, number, 1000));
                }
                assert!(net.ends[0].waiting().0 > 10, "{mode}");
                let mut other = net.ends[0].config().clone();
                other.discipline = orders[number as usize / 200].parse().unwrap();
                other.buffer = ["drop-tail", "codel", "pfd-adaptive"][number as usize / 200 % 3].parse().unwrap();
                let now = net.now;
                net.ends[0].reconfigure(now, &other).unwrap();
                assert_eq!(net.ends[0].config().discipline, other.discipline);
                assert_eq!(net.ends[0].accounts().is_some(), other.discipline.to_string() != "fifo");
                let differing: Vec<_> = net.ends[0].config().differences(&other).collect();
                assert!(differing.is_empty(), "{differing:?}");
            }
            net.run(Span::from_millis(if mode == Mode::Duplicate { 8 } else { 3 }));
        }
        net.run(Span::from_secs(1));
        check_ordered(&sent, &net.delivered[1]).unwrap();
        assert_eq!(net.delivered[1].len(), sent.len(), "{mode}: {:?}", net.ends[0].stats());
        for end in &mut net.ends {
            let log = end.finish().expect("a recording");
            assert!(replay(&log, |_| ()).expect("it replays").digests > 0);
        }
    }
}

#[test]
fn what_waits_while_the_order_turns_to_first_in_first_out_and_back_leaves_the_account_that_it_came_to() {
    let start = settings(Mode::Reliable, End::Source);
    let mut net = Net::new([start.clone(), start.clone()], vec![Wire::new(10), Wire::new(10)], 3);
    net.run(Span::from_secs(1));
    let mut sent = 0;
    let mut burst = |net: &mut Net, number: u32, flows: core::ops::Range<u16>| {
        for flow in flows {
            sent += 1;
            net.host(0, packet(flow, number, 1000));
        }
    };
    burst(&mut net, 0, 0..40);
    assert!(net.ends[0].waiting().0 > 20);
    for (number, order) in ["fifo", "hosts"].into_iter().enumerate() {
        let mut other = start.clone();
        other.discipline = order.parse().unwrap();
        let now = net.now;
        net.ends[0].reconfigure(now, &other).unwrap();
        burst(&mut net, number as u32 + 1, 0..10);
    }
    net.run(Span::from_secs(1));
    assert_eq!(net.delivered[1].len(), sent);
    let flows = net.ends[0].accounts().expect("a fair queue").heaviest(net.now, 100);
    // What came while all waited in one order is in the account of those that have none.
    let others = flows.iter().find(|flow| flow.label.to_string() == "others").expect("ten came meanwhile");
    assert_eq!((others.packets, others.dropped), (10, 0));
    assert_eq!(flows.iter().map(|flow| flow.packets).sum::<u64>(), sent as u64);
    assert!(flows.iter().all(|flow| flow.waiting == 0), "{flows:?}");
}
