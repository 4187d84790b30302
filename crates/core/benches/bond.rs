//! What a packet costs in the bond, with the sockets and the encryption left out.
//!
//! Figures are per packet: a sample runs 1024, and the item counter gives packets a second. The packet type holds its
//! headers only, by value, so that no allocation of the bench disturbs the figure.

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use fairspan_core::bond::{Bond, ChannelConfig, Codepoint, Config, Link, Mode};
use fairspan_core::packet::Packet;
use fairspan_core::queue::End;
use fairspan_core::units::{Bytes, ChannelId, Rate, Time};

fn main() {
    divan::main();
}

const PACKETS: u32 = 1024;
/// As many as a bond lets a packet type have.
const HEADERS: usize = 37;

/// A packet of which only the first bytes are there.
#[derive(Clone, Copy)]
struct Slim {
    bytes: [u8; HEADERS],
    start: u8,
    size: u16,
}

impl Packet for Slim {
    fn bytes(&self) -> &[u8] {
        &self.bytes[usize::from(self.start)..]
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[usize::from(self.start)..]
    }
    fn size(&self) -> Bytes {
        Bytes::from(usize::from(self.size))
    }
    fn footprint(&self) -> usize {
        2048
    }
    fn strip(&mut self, n: usize) {
        self.start += n as u8;
        self.size -= n as u16;
    }
    fn truncate(&mut self, n: usize) {
        self.size = n as u16;
    }
    fn duplicate(&self) -> Option<Slim> {
        Some(*self)
    }
    fn from_bytes(bytes: &[u8]) -> Option<Slim> {
        let mut packet = Slim { bytes: [0; HEADERS], start: 0, size: bytes.len() as u16 };
        let n = bytes.len().min(HEADERS);
        packet.bytes[..n].copy_from_slice(&bytes[..n]);
        Some(packet)
    }
}

/// A UDP packet of `flow` over IPv4, 1400 bytes.
fn packet(flow: u16) -> Slim {
    let mut bytes = [0u8; HEADERS];
    bytes[..20].copy_from_slice(&[0x45, 0, 5, 120, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    bytes[20..22].copy_from_slice(&flow.to_be_bytes());
    Slim { bytes, start: 0, size: 1400 }
}

type Frame = (ChannelId, Codepoint, Slim);

/// Behind an envelope.
fn enveloped(head: &[u8], inner: &Slim) -> Slim {
    let mut bytes = [0u8; HEADERS];
    bytes[..head.len()].copy_from_slice(head);
    bytes[head.len()..].copy_from_slice(&inner.bytes[..HEADERS - head.len()]);
    Slim { bytes, start: 0, size: inner.size + head.len() as u16 }
}

fn bond(channels: usize, paced: bool) -> Bond<Slim> {
    bond_with(Config::default(), channels, paced)
}

fn bond_with(mut config: Config, channels: usize, paced: bool) -> Bond<Slim> {
    config.mode = Mode::Ordered;
    config.channels = vec![ChannelConfig::default(); channels];
    for channel in &mut config.channels {
        channel.rate = paced.then(|| Rate::from_mbit(100_000));
    }
    let mut bond = Bond::new(config, Time::ZERO, 1).unwrap();
    for channel in 0..channels {
        bond.set_link(Time::ZERO, ChannelId(channel as u8), Link::Up);
    }
    while bond.poll_transmit(Time::ZERO).is_some() {}
    bond
}

/// The frames that `sender` makes of 1024 packets of `flows` flows.
fn frames(sender: &mut Bond<Slim>, flows: u16) -> Vec<Frame> {
    let mut frames = Vec::with_capacity(PACKETS as usize);
    for n in 0..PACKETS as u16 {
        sender.handle_host(Time::ZERO, packet(n % flows));
        while let Some(frame) = sender.poll_transmit(Time::ZERO) {
            if let Some(inner) = &frame.packet {
                frames.push((frame.channel, frame.codepoint, enveloped(frame.head.as_slice(), inner)));
            }
        }
    }
    frames
}

fn receive(receiver: &mut Bond<Slim>, now: &mut u64, frames: &[Frame]) -> usize {
    let mut delivered = 0;
    for (channel, codepoint, frame) in frames {
        *now += 1_000;
        receiver.handle_channel(Time::from_nanos(*now), *channel, *codepoint, *frame, 0);
        while let Some(packet) = receiver.poll_deliver() {
            black_box(&packet);
            delivered += 1;
        }
    }
    delivered
}

/// 64 flows go from the host to the channel.
fn send(bencher: Bencher, mut bond: Bond<Slim>) {
    let packets: Vec<Slim> = (0..64).map(packet).collect();
    let mut now = 0;
    bencher.counter(ItemsCount::new(PACKETS)).bench_local(|| {
        for n in 0..PACKETS {
            now += 1_000;
            let at = Time::from_nanos(now);
            bond.handle_host(at, packets[n as usize % 64]);
            while let Some(frame) = bond.poll_transmit(at) {
                black_box(&frame);
            }
        }
    });
    assert_eq!(bond.stats().queue_full, 0);
}

/// From the host to the channel: `handle_host` and `poll_transmit`, 64 flows.
#[divan::bench(args = [(2, false), (3, true), (64, false)], sample_count = 200)]
fn send_ordered(bencher: Bencher, (channels, paced): (usize, bool)) {
    send(bencher, bond(channels, paced));
}

/// As `send_ordered`, over one channel without a rate, in the order that is the default beside first in, first out.
#[divan::bench(args = ["fifo", "hosts"], sample_count = 200)]
fn send_shared(bencher: Bencher, discipline: &str) {
    let config = Config::default().with_queue(Some(discipline.parse().unwrap()), None, End::Source);
    send(bencher, bond_with(config, 1, false));
}

/// As `send_ordered`, in mode `flow`: 64 flows over four channels with a rate.
#[divan::bench(args = ["balance-rr", "balance-xor:layer3+4", "brr", "least_queue", "brr:flush=on"], sample_count = 200)]
fn send_flow(bencher: Bencher, policy: &str) {
    let mut config = Config::default();
    (config.mode, config.policy) = (Mode::Flow, policy.parse().unwrap());
    config.channels = vec![ChannelConfig::default(); 4];
    for channel in &mut config.channels {
        channel.rate = Some(Rate::from_mbit(100_000));
    }
    let mut bond = Bond::new(config, Time::ZERO, 1).unwrap();
    for channel in 0..4 {
        bond.set_link(Time::ZERO, ChannelId(channel), Link::Up);
    }
    send(bencher, bond);
}

/// From the channel to the host, in order: `handle_channel` and `poll_deliver`, 64 flows.
#[divan::bench(args = [2, 64], sample_count = 200)]
fn receive_in_order(bencher: Bencher, channels: usize) {
    let (mut sender, mut receiver) = (bond(channels, false), bond(channels, false));
    let mut now = 0;
    bencher.counter(ItemsCount::new(PACKETS)).with_inputs(|| frames(&mut sender, 64)).bench_local_values(|frames| {
        assert_eq!(receive(&mut receiver, &mut now, &frames), PACKETS as usize);
    });
}

/// From the channels to the host with skew: one flow over two channels, the second 256 packets behind the first, so
/// that half of all packets wait behind a gap.
#[divan::bench(sample_count = 200)]
fn receive_with_skew(bencher: Bencher) {
    let (mut sender, mut receiver) = (bond(2, false), bond(2, false));
    let mut now = 0;
    let skewed = || {
        let (fast, slow): (Vec<Frame>, Vec<Frame>) =
            frames(&mut sender, 1).into_iter().partition(|frame| frame.0 == ChannelId(0));
        let (early, late) = fast.split_at(256);
        let mut frames = early.to_vec();
        let mut slow = slow.into_iter();
        for frame in late {
            frames.push(*frame);
            frames.extend(slow.next());
        }
        frames.extend(slow);
        frames
    };
    bencher.counter(ItemsCount::new(PACKETS)).with_inputs(skewed).bench_local_values(|frames| {
        assert_eq!(receive(&mut receiver, &mut now, &frames), PACKETS as usize);
    });
    assert!(receiver.stats().held_packets > 0);
}
