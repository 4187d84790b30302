//! What the stripe costs per packet. Every figure is nanoseconds per packet: an iteration handles `BATCH` packets and
//! divan divides by the item count (see the `items` counter); packets are reused, so no allocation is measured.
//!
//! - `srr_*`: one `select` and one `update`. With random lengths (40 to 1500 bytes) and small quanta (1500 to 4500) the
//!   end of a visit is unpredictable to the processor: the worst case. Full packets are a bulk
//!   transfer, over channels of 100, 40 and 10 Mbit/s in turn (quanta 15,000, 6000 and 1500).
//! - `reception`: one `handle_data` and one `poll_deliver` that delivers, over channels that arrive round by round.
//! - `send`: one `next_channel`, one `on_sent` and one `poll_control` (mostly empty; markers every 8 rounds included).

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use fairspan_core::causal::{Causal, ChannelSet, Srr};
use fairspan_core::packet::Packet;
use fairspan_core::stripe::{Config, Endpoint, ReceiverConfig};
use fairspan_core::units::{Bytes, ChannelId, Time};
use fairspan_core::wire::marker::Control;

const BATCH: usize = 8192;

fn main() {
    divan::main();
}

/// A packet as the live driver's: a slot number and a length; moving it is cheap.
#[derive(Clone, Copy, Debug)]
struct Slot(u32, u16);

impl Packet for Slot {
    fn bytes(&self) -> &[u8] {
        &[]
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut []
    }
    fn size(&self) -> Bytes {
        Bytes::new(u64::from(self.1))
    }
    fn strip(&mut self, n: usize) {
        self.1 -= n as u16;
    }
    fn truncate(&mut self, n: usize) {
        self.1 = n as u16;
    }
    fn duplicate(&self) -> Option<Slot> {
        Some(*self)
    }
    fn from_bytes(bytes: &[u8]) -> Option<Slot> {
        Some(Slot(0, bytes.len() as u16))
    }
}

fn set(channels: usize) -> ChannelSet {
    let quanta: Vec<u64> = (0..channels).map(|i| 1500 + 1000 * (i as u64 % 4)).collect();
    ChannelSet::of(&quanta, Bytes::new(1500)).unwrap()
}

fn lengths() -> Vec<u16> {
    let mut rng = fairspan_core::rng::Rng::new(1);
    (0..BATCH).map(|_| 40 + rng.below(1461) as u16).collect()
}

/// Two endpoints that have shaken hands.
fn pair(channels: usize) -> (Endpoint<Slot>, Endpoint<Slot>) {
    let end =
        |epoch| Endpoint::new(Config::default(), ReceiverConfig::default(), &set(channels), Time::ZERO, epoch).unwrap();
    let (mut a, mut b) = (end(1), end(2));
    for _ in 0..4 {
        while let Some((channel, control)) = a.poll_control(Time::ZERO) {
            b.handle_control(Time::ZERO, channel, &control);
        }
        while let Some((channel, control)) = b.poll_control(Time::ZERO) {
            a.handle_control(Time::ZERO, channel, &control);
        }
        while b.poll_deliver().is_some() {}
    }
    assert!(a.sender.is_established());
    (a, b)
}

#[divan::bench(args = [2, 4, 64])]
fn srr_random_lengths(bencher: Bencher<'_, '_>, channels: usize) {
    srr(bencher, &set(channels), &lengths());
}

#[divan::bench(args = [2, 4, 64])]
fn srr_full_packets(bencher: Bencher<'_, '_>, channels: usize) {
    let quanta: Vec<u64> = (0..channels).map(|i| [15_000, 6000, 1500][i % 3]).collect();
    srr(bencher, &ChannelSet::of(&quanta, Bytes::new(1500)).unwrap(), &[1500; BATCH]);
}

fn srr(bencher: Bencher<'_, '_>, set: &ChannelSet, lengths: &[u16]) {
    let mut srr = Srr::new(set).unwrap();
    bencher.counter(ItemsCount::new(BATCH)).bench_local(|| {
        for &len in lengths {
            black_box(srr.select());
            srr.update(Bytes::new(u64::from(len)));
        }
    });
}

#[divan::bench(args = [2, 4, 64])]
fn send(bencher: Bencher<'_, '_>, channels: usize) {
    let (mut a, _) = pair(channels);
    let lengths = lengths();
    bencher.counter(ItemsCount::new(BATCH)).bench_local(|| {
        for &len in &lengths {
            let len = Bytes::new(u64::from(len));
            black_box(a.sender.next_channel(len).unwrap());
            a.sender.on_sent(Time::ZERO, len);
            while let Some(control) = a.poll_control(Time::ZERO) {
                black_box(control);
            }
        }
    });
}

enum Arrival {
    Data(ChannelId, Slot),
    Control(ChannelId, Box<Control>),
}

#[divan::bench(args = [2, 4, 64])]
fn reception(bencher: Bencher<'_, '_>, channels: usize) {
    let (mut a, b) = pair(channels);
    // What really goes over the channels for a batch, markers included.
    let mut arrivals = vec![];
    for (i, len) in lengths().into_iter().enumerate() {
        let packet = Slot(i as u32, len);
        arrivals.push(Arrival::Data(a.sender.next_channel(packet.size()).unwrap(), packet));
        a.sender.on_sent(Time::ZERO, packet.size());
        while let Some((channel, control)) = a.poll_control(Time::ZERO) {
            arrivals.push(Arrival::Control(channel, Box::new(control)));
        }
    }
    bencher
        .counter(ItemsCount::new(BATCH))
        .with_inputs(|| {
            // Buffers have grown before the batch that counts.
            let mut b = b.clone();
            b.receiver.reserve(64);
            b
        })
        .bench_local_values(|mut b| {
            let mut delivered = 0;
            for arrival in &arrivals {
                match arrival {
                    Arrival::Data(channel, packet) => b.handle_data(Time::ZERO, *channel, *packet),
                    Arrival::Control(channel, control) => b.handle_control(Time::ZERO, *channel, control),
                }
                while let Some(packet) = b.poll_deliver() {
                    delivered += u64::from(black_box(packet).0 & 1);
                }
            }
            (b, delivered)
        });
}
