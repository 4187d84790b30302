//! Traffic classes: each is carried by its channels, in its mode and in order, and a peer that knows of no class gets all of it.

use crate::bond_network::{Net, Wire, check_ordered, config, packet};
use fairspan_core::bond::{Bond, ClassStats, Codepoint, Config, Link, Mode};
use fairspan_core::record::replay;
use fairspan_core::rng::Rng;
use fairspan_core::units::{ChannelId, Rate, Span, Time};
use std::collections::HashMap;

const MS: fn(u64) -> Span = Span::from_millis;

/// Channels `c0`, `c1`, ... of 20 Mbit/s each, with the usual settings.
fn settings(channels: usize, classes: &str) -> Config {
    let mut settings = Config::usual();
    settings.channels = config(channels).channels;
    for (n, channel) in settings.channels.iter_mut().enumerate() {
        channel.rate = Some(Rate::from_mbit(20));
        channel.name = format!("c{n}");
        channel.priority = n as u32;
    }
    // Each frame is a packet, or a repair.
    settings.spare_copies = false;
    settings.classes = classes.parse().unwrap();
    settings.validate().unwrap();
    settings
}

/// End 0 has the classes and end 1 none; both know each other.
fn joined(classes: &str, wires: Vec<Wire>) -> Net {
    let mut net = Net::new([settings(wires.len(), classes), settings(wires.len(), "")], wires, 7);
    net.run(Span::from_secs(3));
    net
}

/// Data frames that end 0 sent by each channel.
fn sent(net: &Net) -> Vec<u64> {
    let channels = (0..net.wires.len()).map(|n| ChannelId(n as u8));
    channels.map(|c| net.ends[0].channel_stats(c).unwrap().sent_packets).collect()
}

/// What `sent` became more by since `before`.
fn since(net: &Net, before: &[u64]) -> Vec<u64> {
    sent(net).iter().zip(before).map(|(now, before)| now - before).collect()
}

fn stats(net: &Net, class: usize) -> ClassStats {
    net.ends[0].classes().nth(class).unwrap().stats
}

/// A stream of packets, and what became of it.
#[derive(Default)]
struct Sent {
    packets: Vec<Vec<u8>>,
    when: HashMap<Vec<u8>, Time>,
    numbers: HashMap<u16, u32>,
}

impl Sent {
    /// Sends a packet of each of `flows`, `count` times, one round every `every`.
    fn stream(&mut self, net: &mut Net, flows: &[u16], count: u32, size: usize, every: Span) {
        for _ in 0..count {
            for &flow in flows {
                let number = self.numbers.entry(flow).or_default();
                let packet = packet(flow, *number, size);
                *number += 1;
                self.when.insert(packet.clone(), net.now);
                self.packets.push(packet.clone());
                net.host(0, packet);
            }
            net.run(every);
        }
    }

    /// What packets of `flow` took that arrived from `from` on, in milliseconds, sorted.
    fn took(&self, net: &Net, flow: u16, from: Time) -> Vec<u64> {
        let port = (1000 + flow).to_be_bytes();
        let of_flow = net.delivered[1].iter().filter(|(at, p)| *at >= from && p[20..22] == port);
        let mut took: Vec<u64> = of_flow.map(|(at, p)| at.since(self.when[p]).as_nanos() / 1_000_000).collect();
        took.sort_unstable();
        took
    }

    /// Nothing twice, each flow in order, and nothing missing.
    fn all_arrived(&self, net: &Net) {
        check_ordered(&self.packets, &net.delivered[1]).unwrap();
        let (here, there) = (net.ends[0].stats(), net.ends[1].stats());
        assert_eq!(net.delivered[1].len(), self.packets.len(), "{here:?} {there:?}");
        assert_eq!((here.given_up, there.packets_missing), (0, 0));
    }
}

#[test]
fn a_class_is_carried_by_its_channels_and_by_others_only_while_none_of_them_works() {
    for mode in ["reliable", "prompt", "duplicate", "backup"] {
        let classes = format!("name=x\tport=1001\tmode={mode}\tchannels=c1");
        let mut net = joined(&classes, vec![Wire::new(10), Wire::new(30), Wire::new(20)]);
        let (mut all, before) = (Sent::default(), sent(&net));
        all.stream(&mut net, &[1], 500, 300, MS(2));
        assert_eq!(since(&net, &before), [0, 500, 0], "{mode}");
        net.set_link(0, 1, Link::Down);
        net.set_link(1, 1, Link::Down);
        let before = sent(&net);
        all.stream(&mut net, &[1], 500, 300, MS(2));
        let others = since(&net, &before);
        assert!(others[0] + others[2] >= 500 && others[1] == 0, "{mode}: {others:?}");
        net.set_link(0, 1, Link::Up);
        net.set_link(1, 1, Link::Up);
        net.run(Span::from_secs(1));
        let before = sent(&net);
        all.stream(&mut net, &[1], 500, 300, MS(2));
        assert_eq!(since(&net, &before), [0, 500, 0], "{mode}");
        net.run(Span::from_secs(1));
        all.all_arrived(&net);
        let stats = stats(&net, 0);
        assert_eq!((stats.packets, stats.bytes, stats.dropped), (1500, 1500 * 300, 0));
    }
}

#[test]
fn a_silent_failure_moves_a_class_and_loses_nothing() {
    for mode in ["reliable", "prompt", "backup"] {
        let classes = format!("name=x\tport=1001\tmode={mode}\tchannels=c1");
        let mut net = joined(&classes, vec![Wire::new(10), Wire::new(30)]);
        let mut all = Sent::default();
        all.stream(&mut net, &[1, 2], 300, 300, MS(2));
        net.wires[1].cut = [true; 2];
        all.stream(&mut net, &[1, 2], 1000, 300, MS(2));
        net.wires[1].cut = [false; 2];
        all.stream(&mut net, &[1, 2], 2000, 300, MS(2));
        net.run(Span::from_secs(2));
        all.all_arrived(&net);
    }
}

#[test]
fn what_only_some_channels_may_carry_waits_for_them_and_is_dropped_when_they_stay_away() {
    for mode in ["reliable", "prompt", "duplicate", "backup"] {
        let classes = format!("name=x\tport=1001\tmode={mode}\tchannels=c1\tonly=on");
        let mut net = joined(&classes, vec![Wire::new(10), Wire::new(30)]);
        let mut all = Sent::default();
        all.stream(&mut net, &[1], 200, 300, MS(2));
        // What is under way is lost with the channel, and may go by no other.
        net.wires[1].cut = [true; 2];
        let before = sent(&net);
        all.stream(&mut net, &[1], 600, 300, MS(2));
        assert_eq!(since(&net, &before)[0], 0, "{mode}");
        let dropped = stats(&net, 0).dropped;
        assert!(dropped > 200, "{mode}: {dropped}");
        assert!(net.ends[0].stats().no_channel > 100 && net.ends[0].kept_bytes() == 0, "{mode}");
        net.wires[1].cut = [false; 2];
        net.run(Span::from_secs(2));
        let arrived = net.delivered[1].len();
        all.stream(&mut net, &[1], 200, 300, MS(2));
        net.run(Span::from_secs(1));
        assert_eq!(net.delivered[1].len(), arrived + 200, "{mode}");
        check_ordered(&all.packets, &net.delivered[1]).unwrap();
        assert_eq!(since(&net, &before)[0], 0, "{mode}");
    }
}

#[test]
fn a_short_failure_of_the_only_channel_loses_nothing() {
    for mode in ["reliable", "backup"] {
        let classes = format!("name=x\tport=1001\tmode={mode}\tchannels=c1\tonly=on");
        let mut net = joined(&classes, vec![Wire::new(10), Wire::new(30)]);
        let mut all = Sent::default();
        all.stream(&mut net, &[1, 2], 200, 100, MS(2));
        net.wires[1].cut = [true; 2];
        all.stream(&mut net, &[1, 2], 150, 100, MS(2));
        assert!(net.ends[0].classes().next().unwrap().channels.is_empty(), "{mode}: it is known to have failed");
        net.wires[1].cut = [false; 2];
        all.stream(&mut net, &[1, 2], 200, 100, MS(2));
        net.run(Span::from_secs(1));
        all.all_arrived(&net);
        assert_eq!(net.ends[0].classes().next().unwrap().frames[0], 0, "{mode}");
    }
}

#[test]
fn a_backup_class_has_the_best_channel_and_its_order_when_it_moves() {
    // The better ones are the slower ones: each move overtakes what is under way.
    let classes = "name=x\tport=1001-1016\tmode=backup\tchannels=c0,c1,c2";
    let mut net = joined(classes, vec![Wire::new(90), Wire::new(40), Wire::new(5), Wire::new(1)]);
    let (mut all, flows) = (Sent::default(), [1, 2, 3, 16]);
    for down in [0, 1] {
        let before = sent(&net);
        all.stream(&mut net, &flows, 100, 300, MS(2));
        // What was under way on the one that failed goes again.
        let by = since(&net, &before);
        assert!(by[down] >= 400 && by.iter().sum::<u64>() == by[down], "{by:?}");
        net.set_link(0, down as u8, Link::Down);
        net.set_link(1, down as u8, Link::Down);
    }
    for up in [1, 0] {
        all.stream(&mut net, &flows, 500, 300, MS(2));
        net.set_link(0, up, Link::Up);
        net.set_link(1, up, Link::Up);
    }
    all.stream(&mut net, &flows, 500, 300, MS(2));
    net.run(Span::from_secs(1));
    all.all_arrived(&net);
    let frames = net.ends[0].classes().next().unwrap().frames.to_vec();
    assert!(frames[0] > 400 && frames[1] > 400 && frames[2] > 400 && frames[3] == 0, "{frames:?}");
}

#[test]
fn duplicates_bridge_the_loss_of_a_channel_without_a_gap_and_under_load() {
    let classes = "name=x\tport=1001\tmode=duplicate\tchannels=c0,c1";
    let mut net = joined(classes, vec![Wire::new(10), Wire::new(25), Wire::new(15)]);
    let mut all = Sent::default();
    all.stream(&mut net, &[1], 200, 200, MS(5));
    let copies = stats(&net, 0).copies;
    assert!(copies >= 190, "{copies} of 200");
    assert_eq!(sent(&net)[2], 0);
    net.wires[0].cut = [true; 2];
    let from = net.now;
    // Beside it, more than all channels carry.
    all.stream(&mut net, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13], 400, 1400, MS(2));
    let took = all.took(&net, 1, from);
    assert!(took.len() > 380 && *took.last().unwrap() <= 25 + 5, "{} {:?}", took.len(), took.last());
    net.wires[0].cut = [false; 2];
    net.run(Span::from_secs(1));
    let from = net.now;
    all.stream(&mut net, &[1], 200, 200, MS(5));
    assert_eq!(all.took(&net, 1, from + MS(30)).last(), Some(&10), "the first copy counts");
    check_ordered(&all.packets, &net.delivered[1]).unwrap();
}

#[test]
fn a_latency_budget_keeps_a_class_off_the_slow_channel_that_bulk_uses_and_follows_the_delay() {
    for mode in ["reliable", "prompt", "duplicate", "backup"] {
        let classes = format!("name=x\tport=1001\tmode={mode}\tlatency=20ms");
        let mut net = joined(&classes, vec![Wire::new(20), Wire::new(90)]);
        let mut all = Sent::default();
        let from = net.now;
        // 33 Mbit/s of bulk need both channels.
        let flows = [1, 2, 3, 4, 5, 6];
        all.stream(&mut net, &flows, 1000, 1400, MS(2));
        let frames = net.ends[0].classes().next().unwrap().frames.to_vec();
        assert_eq!((frames[0] >= 1000, frames[1]), (true, 0), "{mode}: {frames:?}");
        let (took, bulk) = (all.took(&net, 1, from), all.took(&net, 2, from));
        assert!(took[took.len() * 9 / 10] < 20 + 20, "{mode}: {took:?}");
        assert!(bulk[bulk.len() / 2] >= 90, "{mode}: bulk waits for the slow one");
        net.run(Span::from_secs(1));
        all.all_arrived(&net);
        // The fast one becomes the slow one.
        (net.wires[0].delay, net.wires[1].delay) = (MS(160), MS(20));
        all.stream(&mut net, &[1], 5000, 300, MS(5));
        let (from, before) = (net.now, sent(&net));
        all.stream(&mut net, &[1], 200, 300, MS(5));
        assert_eq!(since(&net, &before), [0, 200], "{mode}");
        net.run(Span::from_secs(1));
        assert!(*all.took(&net, 1, from + MS(200)).last().unwrap() <= 22, "{mode}");
        check_ordered(&all.packets, &net.delivered[1]).unwrap();
    }
}

#[test]
fn a_class_whose_channels_are_all_too_slow_has_the_fastest_of_them() {
    let classes = "name=x\tport=1001\tmode=prompt\tlatency=5ms\tchannels=c1,c2";
    let mut net = joined(classes, vec![Wire::new(10), Wire::new(90), Wire::new(60)]);
    let (mut all, before) = (Sent::default(), sent(&net));
    all.stream(&mut net, &[1], 100, 300, MS(5));
    assert_eq!(since(&net, &before), [0, 0, 100]);
}

#[test]
fn a_class_decides_before_what_is_urgent_by_itself() {
    for (classes, quick) in [("", true), ("name=ping\tprotocol=icmp\tmode=reliable", false)] {
        let mut net = joined(classes, vec![Wire::new(10), Wire::new(100)]);
        let from = net.now;
        for n in 0..40 {
            let mut ping = packet(1, n, 60);
            ping[9] = 1;
            net.host(0, ping);
            net.run(MS(20));
        }
        net.run(MS(500));
        let last = net.delivered[1].last().unwrap().0.since(from + MS(39 * 20));
        assert_eq!((net.delivered[1].len(), last < MS(20)), (40, quick), "{last:?}");
    }
}

#[test]
fn a_call_waits_for_no_download_with_which_it_shares_its_bucket() {
    for (classes, quick) in [("", false), ("name=call\tport=1001\tmode=prompt", true)] {
        // All flows share one bucket; the call is urgent by its code point, or by its class.
        let with = |classes: &str| {
            let mut config = settings(2, classes);
            config.buckets = 1;
            config
        };
        let mut net = Net::new([with(classes), with("")], vec![Wire::new(10), Wire::new(100)], 7);
        net.run(Span::from_secs(3));
        let mut took = vec![];
        for n in 0..400 {
            let mut call = packet(1, n, 60);
            call[1] = 46 << 2;
            let at = net.now;
            net.host(0, call.clone());
            for flow in 2..7 {
                net.host(0, packet(flow, n, 1200));
            }
            net.run(MS(2));
            took.push((call, at));
        }
        net.run(MS(500));
        let arrived: HashMap<_, _> = net.delivered[1].iter().map(|(at, p)| (p.clone(), *at)).collect();
        let mut took: Vec<Span> = took.iter().map(|(call, at)| arrived[call].since(*at)).collect();
        took.sort_unstable();
        assert_eq!(took[200] < MS(20), quick, "{:?}", took[200]);
    }
}

#[test]
fn what_waits_of_a_class_that_names_no_channels_calls_the_reserve() {
    let with = |classes: &str| {
        let mut config = settings(2, classes);
        config.channels[0].rate = Some(Rate::from_mbit(50));
        config.channels[1].rate = Some(Rate::from_mbit(5));
        (config.reserve, config.measure_rates) = (true, false);
        config
    };
    for (class, calls) in [("latency=300ms", true), ("channels=c0", false), ("latency=300ms\tmode=backup", true)] {
        let classes = format!("name=x\tport=1001\t{class}");
        let mut net = Net::new([with(&classes), with("")], vec![Wire::new(10), Wire::new(200)], 7);
        net.run(Span::from_secs(3));
        let mut all = Sent::default();
        // Delays become known.
        all.stream(&mut net, &[1], 500, 1250, MS(2));
        let before = sent(&net);
        all.stream(&mut net, &[1], 500, 1250, MS(2));
        assert_eq!((since(&net, &before)[1], stats(&net, 0).dropped), (0, 0), "{class}: it is held back");
        // 60 Mbit/s.
        all.stream(&mut net, &[1], 9000, 1250, Span::from_micros(166));
        assert_eq!(net.ends[0].stats().reserve_calls > 0, calls, "{class}");
    }
}

#[test]
fn repairs_of_a_class_on_a_slow_channel_keep_no_others_waiting() {
    // A packet of the class takes the channel for 120 ms, and a third of them is lost.
    let with = |classes: &str| {
        let mut config = settings(2, classes);
        config.channels[1].rate = Some(Rate::from_bits_per_sec(80_000));
        (config.resend_within, config.deadline) = (Some(Span::from_secs(5)), Some(Span::from_secs(10)));
        config
    };
    let slow = "name=x\tport=1001\tmode=backup\tchannels=c1\tonly=on";
    for others in ["", "\nname=y\tport=1002\tmode=backup\tchannels=c0"] {
        let wires = vec![Wire { loss: 0.05, ..Wire::new(10) }, Wire { loss: 0.3, ..Wire::new(30) }];
        let mut net = Net::new([with(&format!("{slow}{others}")), with("")], wires, 7);
        net.run(Span::from_secs(3));
        let (mut all, from) = (Sent::default(), net.now);
        for _ in 0..100 {
            all.stream(&mut net, &[1], 1, 1200, Span::ZERO);
            all.stream(&mut net, &[2], 100, 300, MS(2));
        }
        net.run(Span::from_secs(1));
        let took = all.took(&net, 2, from);
        assert!(net.ends[0].stats().resent > 500 && took.len() == 10_000, "{:?}", net.ends[0].stats());
        // A few repairs one behind the other, where a single wait for the slow channel is 120 ms.
        assert!(took[9900] <= 100, "{others}: {} ms", took[9900]);
    }
}

#[test]
fn a_confined_class_and_what_matches_none_share_the_links_and_waste_none() {
    // 20 + 20 Mbit/s; each side offers 30, and the class may have the second channel only.
    let mut net = joined("name=x\tport=1001\tchannels=c1", vec![Wire::new(10), Wire::new(10)]);
    let mut all = Sent::default();
    all.stream(&mut net, &[1, 2], 1000, 1250, Span::from_micros(333));
    let from = net.now;
    all.stream(&mut net, &[1, 2], 9000, 1250, Span::from_micros(333));
    let arrived = |flow: u16| all.took(&net, flow, from).len() as f64 * 1250.0 * 8.0 / 3.0 / 1e6;
    let (class, rest) = (arrived(1), arrived(2));
    assert!(class > 17.0 && rest > 17.0, "{class:.1} and {rest:.1} Mbit/s of 20 each");
    check_ordered(&all.packets, &net.delivered[1]).unwrap();
}

#[test]
fn a_class_on_one_channel_at_a_time_leaves_the_others_to_what_matches_none() {
    // 20 + 20 Mbit/s, and each side offers 30.
    let mut net = joined("name=x\tport=1001\tmode=backup", vec![Wire::new(10), Wire::new(10)]);
    let mut all = Sent::default();
    all.stream(&mut net, &[1, 2], 1000, 1250, Span::from_micros(333));
    let from = net.now;
    all.stream(&mut net, &[1, 2], 9000, 1250, Span::from_micros(333));
    let arrived = |flow: u16| all.took(&net, flow, from).len() as f64 * 1250.0 * 8.0 / 3.0 / 1e6;
    let (class, rest) = (arrived(1), arrived(2));
    assert!(class > 9.0 && class + rest > 35.0, "{class:.1} and {rest:.1} Mbit/s of 40");
}

#[test]
fn losses_and_disorder_on_every_channel_leave_nothing_of_any_class_out() {
    let storm = Wire { loss: 0.03, twice: 0.02, jitter: MS(3), reorders: true, ..Wire::new(10) };
    let wires = vec![storm, Wire { loss: 0.05, ..Wire::new(30) }, Wire { jitter: MS(20), ..Wire::new(60) }];
    let classes = "name=a\tport=1001\tmode=prompt\nname=b\tport=1002\tmode=duplicate\tchannels=c0,c2\nname=c\tport=1003\tmode=backup\nname=d\tport=1004\tchannels=c1\tonly=on\nname=e\tport=1005\tlatency=30ms";
    let with = |classes: &str| {
        let mut config = settings(3, classes);
        (config.resend_within, config.deadline) = (Some(Span::from_secs(5)), Some(Span::from_secs(10)));
        config.spare_copies = true;
        config
    };
    let mut net = Net::new([with(classes), with(classes)], wires, 11);
    net.run(Span::from_secs(1));
    let mut all = Sent::default();
    all.stream(&mut net, &[1, 2, 3, 4, 5, 6, 7], 3000, 200, MS(2));
    net.run(Span::from_secs(10));
    all.all_arrived(&net);
    for class in net.ends[0].classes() {
        assert_eq!((class.stats.packets, class.stats.dropped), (3000, 0), "{}", class.config.name);
    }
    let only: Vec<u64> = net.ends[0].classes().nth(3).unwrap().frames.to_vec();
    assert!(only[0] == 0 && only[2] == 0 && only[1] > 3000, "repairs too: {only:?}");
    for end in 0..2 {
        let sink = net.ends[end].finish().unwrap();
        assert!(replay(&sink, |_| {}).is_ok(), "end {end}");
    }
}

#[test]
fn channels_are_known_by_their_names_when_they_join() {
    let mut bond = Bond::<Vec<u8>>::new(
        settings(0, "name=x\tport=1001\tchannels=dsl\tonly=on\tmode=prompt"),
        Time::from_millis(1),
        3,
    )
    .unwrap();
    let now = Time::from_millis(5);
    let carriers = |bond: &Bond<Vec<u8>>| bond.classes().next().unwrap().channels.bits();
    for (n, name) in ["lte", "dsl"].into_iter().enumerate() {
        let mut channel = settings(1, "").channels.remove(0);
        channel.name = name.into();
        bond.join(now, ChannelId(n as u8), channel).unwrap();
        bond.set_link(now, ChannelId(n as u8), Link::Up);
        assert_eq!(carriers(&bond), [0b00, 0b10][n]);
    }
}

#[test]
fn classes_that_cannot_work_are_refused_with_what_would_be_right() {
    let refused = |change: &dyn Fn(&mut Config)| {
        let mut config = settings(2, "name=x\tport=1001");
        change(&mut config);
        config.validate().unwrap_err().to_string()
    };
    let text = refused(&|config| config.mode = Mode::Flow);
    assert!(text.contains("traffic classes") && text.contains("use mode reliable"), "{text}");
    let text = refused(&|config| config.classes = "name=x\tchannels=c2".parse().unwrap());
    assert!(text.contains("names `c2`"), "{text}");
    assert!(refused(&|config| config.buckets = 1 << 16).contains("from 1 to 65472"));
    assert!(refused(&|config| config.classes = "port=1".parse().unwrap()).contains("class 0: name"));
}

#[test]
fn no_bytes_from_the_host_or_the_peer_upset_a_bond_with_classes() {
    let classes = "name=a\tport=1-500\tmode=prompt\nname=b\tdscp=EF\tmode=duplicate\nname=c\taddress=10.0.0.0/8,::/1\tmode=backup\nname=d\tlatency=1ms";
    let mut bond = Bond::<Vec<u8>>::new(settings(3, classes), Time::from_millis(1), 5).unwrap();
    let mut rng = Rng::new(9);
    let mut now = Time::from_millis(10);
    for n in 0..3 {
        bond.set_link(now, ChannelId(n), Link::Up);
    }
    for _ in 0..60_000 {
        now += Span::from_micros(rng.below(2000));
        let mut bytes: Vec<u8> = (0..rng.below(90)).map(|_| rng.next_u64() as u8).collect();
        match rng.below(4) {
            0 | 1 => {
                if let Some(first) = bytes.first_mut() {
                    *first = if rng.below(2) == 0 { 0x45 } else { 0x60 };
                }
                if bytes.len() > 20 && bytes[0] == 0x45 {
                    (bytes[2], bytes[3], bytes[6], bytes[9]) = (0, bytes.len() as u8, bytes[6] & 0x40, 17);
                    bytes[7] &= bytes[8] >> 3;
                }
                bond.handle_host(now, bytes);
            }
            2 => {
                if let Some(first) = bytes.first_mut() {
                    *first = 0x20 | *first & 15;
                }
                bond.handle_channel(now, ChannelId(rng.below(4) as u8), Codepoint::Envelope, bytes, 0);
            }
            _ => bond.handle_timeout(now),
        }
        while let Some(frame) = bond.poll_transmit(now) {
            if bond.wants_back() {
                bond.give_back(frame.packet.unwrap_or_default());
            }
        }
        while bond.poll_deliver().is_some() || bond.poll_event().is_some() {}
        assert!(bond.poll_timeout().is_some());
    }
    for class in bond.classes() {
        assert!(class.stats.packets > 0, "{}: {:?}", class.config.name, class.stats);
    }
}

#[test]
fn what_waits_of_all_classes_is_bounded_by_the_memory_of_the_host_queue() {
    let classes: Vec<String> = (0..40).map(|n| format!("name=c{n}\tport={}\tmode=backup", 1000 + n)).collect();
    let mut config = settings(1, &classes.join("\n"));
    (config.queue_bytes, config.channels[0].rate) = (200_000, None);
    let now = Time::from_millis(1);
    let mut bond = Bond::<Vec<u8>>::new(config, now, 3).unwrap();
    bond.set_link(now, ChannelId(0), Link::Up);
    bond.set_blocked(now, ChannelId(0), true);
    for n in 0..20_000u32 {
        bond.handle_host(now, packet((n % 50) as u16, n, 1000));
    }
    assert!((200_000..400_000).contains(&bond.held_bytes()), "{}", bond.held_bytes());
    let dropped: u64 = bond.classes().map(|class| class.stats.dropped).sum();
    assert!(dropped > 15_000 && bond.stats().queue_full >= dropped, "{dropped}");
}

#[test]
fn a_duplicate_goes_once_by_each_channel_also_where_urgent_packets_go_twice() {
    for (mode, twice) in [("prompt", true), ("duplicate", false)] {
        let with = |classes: &str| {
            let mut config = settings(2, classes);
            config.spare_copies = true;
            config
        };
        let classes = format!("name=x\tport=1001\tmode={mode}");
        let mut net = Net::new([with(&classes), with("")], vec![Wire { loss: 0.02, ..Wire::new(10) }; 2], 5);
        net.run(Span::from_secs(1));
        let mut all = Sent::default();
        all.stream(&mut net, &[1], 500, 200, MS(5));
        net.run(Span::from_secs(1));
        all.all_arrived(&net);
        let (urgent, copies) = (net.ends[0].stats().urgent_copies, stats(&net, 0).copies);
        assert_eq!((urgent > 400, copies > 400), (twice, !twice), "{urgent} and {copies}");
    }
}
