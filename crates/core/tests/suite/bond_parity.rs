//! Parity ahead of need: what a dense urgent stream loses is rebuilt from rows, whoever lies about them.

use crate::bond_network::{Net, Wire, check_once, check_ordered, config, packet};
use fairspan_core::bond::{Bond, Codepoint, Compression, Config, Link, Mode};
use fairspan_core::ip::checksum;
use fairspan_core::packet::Packet;
use fairspan_core::record::replay;
use fairspan_core::rng::Rng;
use fairspan_core::units::{Bytes, ChannelId, Rate, Span, Time};

const MS: fn(u64) -> Span = Span::from_millis;

/// Two channels of 20 Mbit/s.
fn settings(parity: bool) -> Config {
    let mut settings = config(2);
    (settings.mode, settings.parity) = (Mode::Reliable, parity);
    settings.channels.iter_mut().for_each(|channel| channel.rate = Some(Rate::from_mbit(20)));
    settings
}

fn wires(loss: f64) -> Vec<Wire> {
    [20, 25].map(|delay| Wire { loss, ..Wire::new(delay) }).into()
}

/// Packet `number` of a stream of DSCP EF: lengths vary, and every byte tells which it is.
fn urgent(flow: u16, number: u32) -> Vec<u8> {
    let mut packet = packet(flow, number, 200 + (number as usize * 37) % 900);
    packet[1] = 46 << 2;
    (packet[10], packet[11]) = (0, 0);
    let sum = fairspan_core::ip::checksum::of(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// A stream of so many packets, one every `every`: what was sent, and when.
fn stream(net: &mut Net, count: u32, every: Span) -> Vec<(Time, Vec<u8>)> {
    let mut sent = vec![];
    for number in 0..count {
        let packet = urgent(1, number);
        sent.push((net.now, packet.clone()));
        net.host(0, packet);
        net.run(every);
    }
    net.run(Span::from_secs(2));
    sent
}

/// How many of the packets came later than this, if at all; in order and unchanged.
fn late(net: &Net, sent: &[(Time, Vec<u8>)], within: Span) -> usize {
    let packets: Vec<_> = sent.iter().map(|(_, packet)| packet.clone()).collect();
    check_ordered(&packets, &net.delivered[1]).unwrap();
    let came = |packet: &Vec<u8>| net.delivered[1].iter().find(|(_, came)| came == packet).map(|(at, _)| *at);
    sent.iter().filter(|(at, packet)| came(packet).is_none_or(|came| came.since(*at) > within)).count()
}

/// Whether it is told of what is urgent.
fn says(net: &Net, words: &str) -> bool {
    let all = net.ends[0].explain(net.now);
    let urgent = all.iter().find(|told| told.name == "urgent").unwrap();
    urgent.because.iter().any(|because| because.contains(words))
}

#[test]
fn what_is_lost_of_a_dense_stream_is_rebuilt_without_a_round_trip_and_is_not_sent_again() {
    let outcome = |parity| {
        let mut settings = settings(parity);
        settings.spare_copies = parity;
        let mut net = Net::settled(settings, wires(0.02), 5);
        let sent = stream(&mut net, 6_000, MS(3));
        assert_eq!(net.delivered[1].len(), sent.len());
        (late(&net, &sent, MS(20 + 20)), net)
    };
    let (without, plain) = outcome(false);
    assert!(without > 600 && plain.ends[0].stats().resent > 100, "the check sees what a loss does: {without}");
    let (with, mut net) = outcome(true);
    assert!(with < 60, "{with} of 6,000 came late, where {without} do without parity");
    let (sender, receiver) = (*net.ends[0].stats(), *net.ends[1].stats());
    assert!(receiver.rebuilt > 80, "{receiver:?}");
    // A row for four or five packets at first, and two where that was not enough once.
    assert!((1_000..3_500).contains(&sender.parity_sent), "{sender:?}");
    assert!(sender.urgent_copies < 20, "until the stream is known: {sender:?}");
    // What goes again was lost with too many of its block.
    assert!(sender.resent * 4 < receiver.rebuilt, "{} again, {} rebuilt", sender.resent, receiver.rebuilt);
    assert_eq!((receiver.bad_parity, sender.given_up, receiver.packets_missing), (0, 0, 0));
    assert!(says(&net, "have parity"), "{:?}", net.ends[0].explain(net.now));
    for end in 0..2 {
        let log = net.ends[end].finish().unwrap();
        replay(&log, |_| ()).unwrap();
    }
}

#[test]
fn a_stream_that_loses_nothing_has_no_rows_in_the_end() {
    let mut net = Net::settled(settings(true), wires(0.0), 5);
    // Blocks of three: 4,096 have a row, and no more.
    let every = Span::from_micros(4_500);
    stream(&mut net, 3 * 4_096 + 100, every);
    let rows = net.ends[0].stats().parity_sent;
    assert!((4_050..=4_096).contains(&rows), "{rows}");
    stream(&mut net, 1_000, every);
    assert_eq!(net.ends[0].stats().parity_sent, rows);
    assert!(says(&net, "none has parity now"));
}

#[test]
fn a_stream_that_is_not_dense_and_a_peer_that_takes_no_parity_have_second_frames() {
    for (there, every) in [(true, 20), (false, 3)] {
        let mut net = Net::new([settings(true), settings(there)], wires(0.02), 5);
        net.run(Span::from_secs(1));
        let sent = stream(&mut net, 1_000, MS(every));
        assert_eq!(net.delivered[1].len(), sent.len());
        let stats = net.ends[0].stats();
        assert_eq!((stats.parity_sent, net.ends[1].stats().parity_received), (0, 0), "{there}");
        assert!(stats.urgent_copies > 900, "{stats:?}");
        let words = if there { "none of its streams is dense enough" } else { "the peer takes no parity" };
        assert!(says(&net, words) && !says(&net, "have parity"), "{:?}", net.ends[0].explain(net.now));
    }
}

#[test]
fn rows_that_lie_deliver_nothing_wrong_and_all_comes_again() {
    // Each byte of a row's content counts: the number in the bond, the header, and what follows it.
    for at in [11, 12, 16, 17, 18, 20, 26, 30] {
        let mut net = Net::settled(settings(true), wires(0.02), 5);
        net.mangle = Some(match at {
            11 => |flight, _| lie(&mut flight.bytes, 11),
            12 => |flight, _| lie(&mut flight.bytes, 12),
            16 => |flight, _| lie(&mut flight.bytes, 16),
            17 => |flight, _| lie(&mut flight.bytes, 17),
            18 => |flight, _| lie(&mut flight.bytes, 18),
            20 => |flight, _| lie(&mut flight.bytes, 20),
            26 => |flight, _| lie(&mut flight.bytes, 26),
            _ => |flight, _| lie(&mut flight.bytes, 30),
        });
        let sent = stream(&mut net, 1_000, MS(3));
        late(&net, &sent, MS(40));
        let stats = net.ends[1].stats();
        assert_eq!((net.delivered[1].len(), stats.rebuilt), (sent.len(), 0), "byte {at}: {stats:?}");
        assert!(stats.bad_parity > 0, "byte {at}: {stats:?}");
    }
}

fn lie(bytes: &mut [u8], at: usize) {
    if bytes[0] == 0x2f
        && bytes[3] < 0x80
        && let Some(byte) = bytes.get_mut(at)
    {
        *byte ^= 0x55;
    }
}

#[test]
fn a_restart_at_either_end_delivers_nothing_wrong_and_parity_goes_on() {
    for end in 0..2 {
        let mut net = Net::settled(settings(true), wires(0.02), 5);
        let mut sent = stream(&mut net, 2_000, MS(3));
        net.restart(end, settings(true), 77);
        net.run(Span::from_secs(1));
        let before = net.ends[1].stats().rebuilt;
        for number in 2_000..4_000 {
            let packet = urgent(1, number);
            sent.push((net.now, packet.clone()));
            net.host(0, packet);
            net.run(MS(3));
        }
        net.run(Span::from_secs(2));
        let packets: Vec<_> = sent.into_iter().map(|(_, packet)| packet).collect();
        check_once(&packets, &net.delivered[1]).unwrap();
        assert!(net.delivered[1].len() >= 3_990 && net.ends[1].stats().rebuilt > before + 20);
    }
}

#[test]
fn the_setting_may_change_while_it_runs() {
    let mut net = Net::settled(settings(true), wires(0.02), 5);
    let mut number = 0;
    for parity in [true, false, true] {
        for end in 0..2 {
            net.ends[end].reconfigure(net.now, &settings(parity)).unwrap();
        }
        net.run(Span::from_secs(1));
        let before = net.ends[0].stats().parity_sent;
        for _ in 0..1_000 {
            net.host(0, urgent(1, number));
            number += 1;
            net.run(MS(3));
        }
        net.run(Span::from_secs(1));
        assert_eq!(net.ends[0].stats().parity_sent > before, parity);
        assert_eq!(net.delivered[1].len(), number as usize);
    }
}

/// A packet as a sealed channel carries it: its UDP checksum may be left to the device, and a flag beside the frame says so.
#[derive(Clone, Debug, PartialEq)]
struct Sealed {
    bytes: Vec<u8>,
    partial: bool,
}

impl Packet for Sealed {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    fn size(&self) -> Bytes {
        Bytes::from(self.bytes.len())
    }

    fn complete_checksum(&mut self) {
        if std::mem::take(&mut self.partial) {
            // The field holds the pseudo header's sum.
            let sum = checksum::of(&self.bytes[20..]);
            self.bytes[26..28].copy_from_slice(&sum.to_be_bytes());
        }
    }

    fn strip(&mut self, n: usize) {
        self.bytes.drain(..n);
    }

    fn prepend(&mut self, bytes: &[u8]) -> bool {
        self.bytes.prepend(bytes)
    }

    fn truncate(&mut self, n: usize) {
        self.bytes.truncate(n);
    }

    fn duplicate(&self) -> Option<Sealed> {
        Some(self.clone())
    }

    fn from_bytes(bytes: &[u8]) -> Option<Sealed> {
        Some(Sealed { bytes: bytes.to_vec(), partial: false })
    }
}

/// What a device that finishes checksums makes of it.
fn finished(mut packet: Sealed) -> Vec<u8> {
    packet.complete_checksum();
    packet.bytes
}

#[test]
fn packets_whose_headers_are_compressed_are_rebuilt_as_well_and_every_checksum_is_right() {
    let mut settings = settings(true);
    settings.compress_headers = Compression::On;
    let start = Time::from_millis(1_000);
    let mut ends = [1, 2].map(|seed| Bond::<Sealed>::new(settings.clone(), start, seed).unwrap());
    for end in &mut ends {
        (0..2).for_each(|channel| end.set_link(start, ChannelId(channel), Link::Up));
    }
    let (mut rng, mut sent, mut came) = (Rng::new(9), vec![], vec![]);
    // Frames that are under way: when they arrive, at which end, and by which channel.
    let mut flights: Vec<(Time, usize, ChannelId, Sealed)> = vec![];
    for step in 0..10_000u32 {
        let now = start + MS(u64::from(step));
        if step > 1_000 && step % 3 == 0 && step < 8_000 {
            let mut bytes = urgent(1, step);
            let pseudo = checksum::add(checksum::add(0, &bytes[12..20]), &[0, 17, bytes[24], bytes[25]]);
            let folded = (pseudo & 0xffff) + (pseudo >> 16);
            bytes[26..28].copy_from_slice(&((folded & 0xffff) as u16 + (folded >> 16) as u16).to_be_bytes());
            let packet = Sealed { bytes, partial: true };
            sent.push(finished(packet.clone()));
            ends[0].handle_host(now, packet);
        }
        let due: Vec<_> = flights.extract_if(.., |flight| flight.0 <= now).collect();
        for (_, end, channel, frame) in due {
            ends[end].handle_channel(now, channel, Codepoint::Envelope, frame, 0);
        }
        for (number, end) in ends.iter_mut().enumerate() {
            end.handle_timeout(now);
            while let Some(frame) = end.poll_transmit(now) {
                let bytes = [frame.head.as_slice(), frame.body()].concat();
                let partial = frame.packet.as_ref().is_some_and(|packet| packet.partial);
                if rng.unit() >= 0.03 {
                    let at = now + MS([20, 25][usize::from(frame.channel.0)]);
                    flights.push((at, 1 - number, frame.channel, Sealed { bytes, partial }));
                }
                if let Some(packet) = frame.packet
                    && end.wants_back()
                {
                    end.give_back(packet);
                }
            }
            while let Some(packet) = end.poll_deliver() {
                came.push(finished(packet));
            }
        }
    }
    let (sender, receiver) = (*ends[0].stats(), *ends[1].stats());
    assert!(sender.compressed > 1_500 && receiver.rebuilt > 30, "{sender:?} {receiver:?}");
    assert_eq!((came.len(), receiver.bad_parity, receiver.bad_compressed), (sent.len(), 0, 0));
    assert!(came == sent, "first difference at {:?}", came.iter().zip(&sent).position(|(a, b)| a != b));
}
