//! By which channels each flow goes, and why: every frame with a packet is counted with its flow, whatever it goes for.

use crate::bond_network::{Net, Wire, config, packet};
use fairspan_core::bond::{Config, Link, Mode};
use fairspan_core::flow::accounts::FlowReport;
use fairspan_core::queue::End;
use fairspan_core::units::{ChannelId, Rate, Span};

/// Of each packet.
const SIZE: usize = 1000;

/// Channels `c0` and `c1` of 20 Mbit/s, with the usual settings but for parity, whose rows are longer than a packet.
fn settings(mode: Mode, classes: &str) -> Config {
    let mut settings = Config::usual();
    (settings.mode, settings.parity) = (mode, false);
    let mut settings = settings.with_queue(None, None, End::Source);
    settings.channels = config(2).channels;
    for (n, channel) in settings.channels.iter_mut().enumerate() {
        (channel.rate, channel.name) = (Some(Rate::from_mbit(20)), format!("c{n}"));
    }
    settings.classes = classes.parse().unwrap();
    settings.validate().unwrap();
    settings
}

fn joined(settings: Config, loss: f64) -> Net {
    let wires = [Wire::new(10), Wire { loss, ..Wire::new(25) }];
    let mut net = Net::new([settings.clone(), settings], wires.to_vec(), 5);
    net.run(Span::from_secs(2));
    net
}

/// A packet of each of `flows`, `count` times, so many milliseconds apart.
fn send(net: &mut Net, flows: &[u16], count: u32, ms: u64) {
    for number in 0..count {
        flows.iter().for_each(|flow| net.host(0, packet(*flow, number, SIZE)));
        net.run(Span::from_millis(ms));
    }
}

fn flows(net: &Net) -> Vec<FlowReport> {
    net.ends[0].accounts().expect("a fair queue").heaviest(net.now, 100)
}

fn flow(net: &Net, number: u16) -> FlowReport {
    let port = format!(":{} ", 1000 + number);
    flows(net).into_iter().find(|flow| flow.label.to_string().contains(&port)).expect("it has an account")
}

/// The bytes of a flow by both channels.
fn ways(flow: &FlowReport) -> [u64; 2] {
    [0, 1].map(|channel| flow.ways.iter().filter(|way| way.way == channel).map(|way| way.bytes).sum())
}

/// What the flow is of.
fn class(net: &Net, number: u16) -> (String, &'static str) {
    net.ends[0].treatment(flow(net, number).noted.expect("noted"))
}

/// A packet of DSCP EF.
fn marked(flow: u16, number: u32) -> Vec<u8> {
    let mut packet = packet(flow, number, SIZE);
    packet[1] = 46 << 2;
    packet[10..12].fill(0);
    let sum = fairspan_core::ip::checksum::of(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

#[test]
fn every_frame_of_a_channel_is_counted_with_its_flow_copies_and_repairs_too() {
    for mode in [Mode::Reliable, Mode::Ordered, Mode::Duplicate, Mode::Backup, Mode::Plain] {
        let mut net = joined(settings(mode, ""), 0.02);
        // With pauses, in which what may be lost goes a second time.
        for _ in 0..3 {
            send(&mut net, &[0, 1, 2, 3], 300, 2);
            net.run(Span::from_millis(300));
        }
        let all = flows(&net);
        assert_eq!(all.len(), 4, "{mode}");
        for channel in [0, 1] {
            let told: u64 = all.iter().map(|flow| ways(flow)[channel]).sum();
            let sent = net.ends[0].channel_stats(ChannelId(channel as u8)).unwrap().sent_packets;
            assert_eq!(told, sent * SIZE as u64, "{mode}, channel {channel}");
        }
        let frames = |flow: &FlowReport| ways(flow).iter().sum::<u64>() / SIZE as u64;
        assert!(all.iter().all(|flow| frames(flow) >= flow.packets), "{mode}: {all:?}");
        let stats = net.ends[0].stats();
        let more = all.iter().map(|flow| frames(flow) - flow.packets).sum::<u64>();
        match mode {
            Mode::Reliable => assert!(stats.resent > 0 && stats.spare_copies > 0 && more > 0, "{stats:?}"),
            Mode::Duplicate => assert_eq!(more, 4 * 900 - stats.copies_skipped),
            _ => assert_eq!(more, 0, "{mode}"),
        }
    }
}

#[test]
fn a_flow_of_a_class_goes_by_the_channels_of_the_class_and_is_said_to_be_of_it() {
    let classes = "name=far\tport=1001\tchannels=c1\tonly=on\nname=both\tport=1002\tmode=duplicate";
    let mut net = joined(settings(Mode::Reliable, classes), 0.0);
    // What matches no class is more than one channel carries beside the others.
    send(&mut net, &[1, 2, 3, 4, 3, 4], 1000, 2);
    let far = ways(&flow(&net, 1));
    assert!(far[0] == 0 && far[1] >= 1_000_000, "{far:?}");
    let both = ways(&flow(&net, 2));
    assert_eq!(both[0], both[1], "each packet by both");
    assert!(ways(&flow(&net, 3)).iter().all(|bytes| *bytes > 10_000), "{:?}", flow(&net, 3));
    assert_eq!(class(&net, 1), ("far".into(), "most of it matches this class"));
    assert_eq!(class(&net, 2).0, "both");
    assert_eq!(class(&net, 3), ("all else".into(), "most of it is of no class and not urgent"));
    // One of 400 kbit/s, and one that is marked.
    for number in 0..150 {
        net.host(0, packet(5, number, SIZE));
        net.host(0, marked(6, number));
        net.run(Span::from_millis(20));
    }
    assert_eq!(class(&net, 5), ("urgent".into(), "it sends little"));
    assert_eq!(class(&net, 6).0, "urgent");
    assert!(class(&net, 6).1.contains("DSCP"));
    // By the channel that brings them first.
    assert!(flow(&net, 5).ways.iter().all(|way| way.way == 0 || way.last_second == 0), "{:?}", flow(&net, 5));
}

#[test]
fn rows_of_parity_count_with_the_flow_that_they_cover() {
    let mut settings = settings(Mode::Reliable, "");
    settings.parity = true;
    let wires = [20, 25].map(|delay| Wire { loss: 0.05, ..Wire::new(delay) });
    let mut net = Net::new([settings.clone(), settings], wires.to_vec(), 5);
    net.run(Span::from_secs(2));
    for number in 0..2000 {
        net.host(0, marked(1, number));
        net.run(Span::from_millis(2));
    }
    let frames: u64 = [0, 1].map(|n| net.ends[0].channel_stats(ChannelId(n)).unwrap().sent_packets).iter().sum();
    let told: u64 = ways(&flow(&net, 1)).iter().sum();
    // A row is as long as its packets and their numbers.
    let rows = net.ends[0].stats().parity_sent;
    assert!(rows > 50, "{:?}", net.ends[0].stats());
    assert!(told > frames * SIZE as u64 && told < frames * SIZE as u64 + rows * 20, "{told} in {frames} frames");
}

#[test]
fn a_packet_that_is_cut_counts_where_its_pieces_go() {
    let mut settings = settings(Mode::Stripe, "");
    // In which 3 Mbit/s carry less than half of a packet.
    settings.fragment_delay = Some(Span::from_millis(1));
    settings.channels.iter_mut().for_each(|channel| channel.rate = Some(Rate::from_mbit(3)));
    settings.discipline = "drr".parse().unwrap();
    settings.validate().unwrap();
    let mut net = joined(settings, 0.0);
    send(&mut net, &[1], 300, 2);
    assert!(net.ends[0].fragment_counts().unwrap().sent > 300, "{:?}", net.ends[0].fragment_counts());
    let flow = flow(&net, 1);
    assert!(ways(&flow).iter().all(|bytes| *bytes > 10_000), "{flow:?}");
    assert_eq!(ways(&flow).iter().sum::<u64>(), flow.bytes);
}

#[test]
fn what_went_by_a_channel_that_has_left_is_not_told_of_the_one_that_has_its_number_then() {
    let mut net = joined(settings(Mode::Reliable, ""), 0.0);
    send(&mut net, &[1], 500, 1);
    assert!(ways(&flow(&net, 1)).iter().all(|bytes| *bytes > 0));
    net.set_link(0, 1, Link::Removed);
    assert!(ways(&flow(&net, 1))[1] > 0, "it stays known while nobody has the number");
    let now = net.now;
    let other = net.ends[0].config().channels[1].clone();
    net.ends[0].join(now, ChannelId(1), other).unwrap();
    let left = ways(&flow(&net, 1));
    assert!(left[0] > 0 && left[1] == 0, "{left:?}");
}
