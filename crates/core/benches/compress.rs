//! What it costs to compress the headers of a packet, and to make it whole again: a bulk transfer and its acknowledgements, 64 flows.

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use fairspan_core::compress::{Coded, Coding, Compressor, Decompressor, Standing};
use fairspan_core::ip::checksum;
use fairspan_core::packet::Packet;
use fairspan_core::units::{Bytes, ChannelId, Span, Time};

fn main() {
    divan::main();
}

const PACKETS: usize = 1024;
const FLOWS: usize = 64;
/// Room in front of a packet.
const ROOM: usize = 64;

/// The headers of a packet in a slot, with room in front; a payload counts and is not there.
#[derive(Clone, Copy)]
struct Slot {
    bytes: [u8; 128],
    start: u8,
    end: u8,
    payload: u16,
}

impl Packet for Slot {
    fn bytes(&self) -> &[u8] {
        &self.bytes[usize::from(self.start)..usize::from(self.end)]
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[usize::from(self.start)..usize::from(self.end)]
    }
    fn size(&self) -> Bytes {
        Bytes::from(usize::from(self.end - self.start) + usize::from(self.payload))
    }
    fn strip(&mut self, n: usize) {
        self.start += n as u8;
    }
    fn prepend(&mut self, bytes: &[u8]) -> bool {
        let start = usize::from(self.start) - bytes.len();
        self.bytes[start..usize::from(self.start)].copy_from_slice(bytes);
        self.start = start as u8;
        true
    }
    fn truncate(&mut self, _: usize) {}
    fn duplicate(&self) -> Option<Slot> {
        Some(*self)
    }
    fn from_bytes(_: &[u8]) -> Option<Slot> {
        None
    }
}

impl Slot {
    fn of(parts: [&[u8]; 2], payload: u16) -> Slot {
        let mut slot = Slot { bytes: [0; 128], start: ROOM as u8, end: ROOM as u8, payload };
        for part in parts {
            let at = usize::from(slot.end);
            slot.bytes[at..at + part.len()].copy_from_slice(part);
            slot.end += part.len() as u8;
        }
        slot
    }
}

/// Headers of segment `n` of a flow, as the host's kernel hands it to the device.
fn segment(flow: usize, n: u32, payload: u16) -> [u8; 52] {
    let mut p = [0; 52];
    p[..20].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 1, 0, 1, 10, 2, 0, 1]);
    p[2..4].copy_from_slice(&(52 + payload).to_be_bytes());
    p[4..6].copy_from_slice(&(n as u16).to_be_bytes());
    let sum = checksum::of(&p[..20]);
    p[10..12].copy_from_slice(&sum.to_be_bytes());
    p[20..24].copy_from_slice(&[4, flow as u8, 0x13, 0x89]);
    let (sequence, acknowledgment) = if payload > 0 { (n * u32::from(payload), 1) } else { (1, n * 2764) };
    p[24..28].copy_from_slice(&sequence.to_be_bytes());
    p[28..32].copy_from_slice(&acknowledgment.to_be_bytes());
    p[32..36].copy_from_slice(&[0x80, 0x10, 1, 245]);
    let pseudo = checksum::add(6 + 32 + u32::from(payload), &p[12..20]) as u16;
    p[36..38].copy_from_slice(&pseudo.to_be_bytes());
    p[40..44].copy_from_slice(&[1, 1, 8, 10]);
    p[44..48].copy_from_slice(&(1000 + n / 8).to_be_bytes());
    p[48..52].copy_from_slice(&(2000 + n / 9).to_be_bytes());
    p
}

fn size(payload: u16) -> usize {
    52 + usize::from(payload)
}

/// A compressor whose flows have references, and a decompressor that has them too.
fn settled(payload: u16) -> (Compressor, Decompressor) {
    let (mut to, mut from) = (Compressor::new(0), Decompressor::default());
    for n in 0..3 {
        for flow in 0..FLOWS {
            let packet = segment(flow, n, payload);
            if let Coding::Coded { coded, awaits } = code(&mut to, Time::ZERO, flow, n, payload) {
                if let Some(place) = awaits {
                    to.sent(ChannelId(0), flow as u64, place);
                    to.settle(ChannelId(0), flow as u64, true);
                }
                restore(&mut from, &coded, &packet, n, payload);
            }
        }
    }
    (to, from)
}

fn code(to: &mut Compressor, now: Time, flow: usize, n: u32, payload: u16) -> Coding {
    let packet = segment(flow, n, payload);
    to.code(now, &packet, size(payload), Standing { bucket: flow as u16, sequence: n })
}

fn restore(from: &mut Decompressor, coded: &Coded, packet: &[u8], n: u32, payload: u16) -> Slot {
    let mut slot = Slot::of([coded.as_slice(), &packet[coded.skip..]], payload);
    let restored = from.restore(&mut slot, 0, coded.form, coded.reference, n);
    assert!(restored.is_ok() && slot.bytes() == packet);
    slot
}

/// A packet becomes what stands for its headers.
#[divan::bench(args = [1382, 0], sample_count = 200)]
fn compress(bencher: Bencher, payload: u16) {
    let (mut to, _) = settled(payload);
    let packets: Vec<_> = (0..PACKETS).map(|n| segment(n % FLOWS, 3 + (n / FLOWS) as u32, payload)).collect();
    let mut now = Time::from_millis(1);
    bencher.counter(ItemsCount::new(PACKETS)).bench_local(|| {
        // So that no reference becomes old.
        now += Span::from_nanos(1);
        for (n, packet) in packets.iter().enumerate() {
            let standing = Standing { bucket: (n % FLOWS) as u16, sequence: 3 + (n / FLOWS) as u32 };
            let coding = to.code(now, packet, size(payload), standing);
            assert!(matches!(black_box(&coding), Coding::Coded { awaits: None, .. }));
        }
    });
}

/// A frame becomes the packet that it was.
#[divan::bench(args = [1382, 0], sample_count = 200)]
fn decompress(bencher: Bencher, payload: u16) {
    let (mut to, mut from) = settled(payload);
    let frames: Vec<_> = (0..PACKETS)
        .map(|n| {
            let (flow, sequence) = (n % FLOWS, 3 + (n / FLOWS) as u32);
            match code(&mut to, Time::from_millis(1), flow, sequence, payload) {
                Coding::Coded { coded, .. } => (coded, Slot::of([coded.as_slice(), &[]], payload), sequence),
                Coding::Whole => panic!("{n} goes whole"),
            }
        })
        .collect();
    bencher.counter(ItemsCount::new(PACKETS)).bench_local(|| {
        for (coded, frame, sequence) in &frames {
            let mut slot = *frame;
            let restored = from.restore(&mut slot, 0, coded.form, coded.reference, *sequence);
            assert!(black_box(restored).is_ok());
            black_box(&slot);
        }
    });
}
