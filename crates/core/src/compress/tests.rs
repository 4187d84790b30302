//! Compressor and decompressor against the obvious model: what goes in comes out, byte for byte, or nothing does.

use super::headers::Headers;
use super::number::{number_of, place_of};
use super::*;
use crate::ip::{TCP, UDP, checksum};
use crate::rng::Rng;
use crate::units::{ChannelId, Span, Time};
use alloc::borrow::ToOwned;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

const MS: fn(u64) -> Time = Time::from_millis;

/// What a packet is made of.
#[derive(Clone, Debug)]
struct Made {
    v6: bool,
    udp: bool,
    flow: u8,
    sequence: u32,
    acknowledgment: u32,
    flags: u8,
    window: u16,
    stamps: Option<(u32, u32)>,
    tail: Vec<u8>,
    payload: usize,
    id: u16,
    tos: u8,
    ttl: u8,
    /// The checksum is only the pseudo-header's sum.
    partial: bool,
}

impl Made {
    fn tcp(flow: u8) -> Made {
        Made {
            v6: false,
            udp: false,
            flow,
            sequence: 1000,
            acknowledgment: 5,
            flags: 0x10,
            window: 501,
            stamps: Some((100, 200)),
            tail: vec![],
            payload: 1382,
            id: 7,
            tos: 0,
            ttl: 64,
            partial: true,
        }
    }

    fn udp(flow: u8) -> Made {
        Made { udp: true, stamps: None, payload: 160, partial: false, ..Made::tcp(flow) }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut transport = vec![4, self.flow, 0x13, 0x89];
        if self.udp {
            transport.extend((8 + self.payload as u16).to_be_bytes());
            transport.extend([0, 0]);
        } else {
            transport.extend(self.sequence.to_be_bytes());
            transport.extend(self.acknowledgment.to_be_bytes());
            let options = self.stamps.map_or(0, |_| 12) + self.tail.len();
            transport.extend([((20 + options) as u8 / 4) << 4, self.flags]);
            transport.extend(self.window.to_be_bytes());
            transport.extend([0; 4]);
            if let Some((value, echo)) = self.stamps {
                transport.extend([1, 1, 8, 10]);
                transport.extend(value.to_be_bytes());
                transport.extend(echo.to_be_bytes());
            }
            transport.extend(&self.tail);
        }
        transport.extend((0..self.payload).map(|n| (n as u32 ^ self.sequence) as u8));
        let protocol = if self.udp { UDP } else { TCP };
        let mut packet = if self.v6 {
            let mut ip = vec![0x60 | self.tos >> 4, self.tos << 4, 3, 4];
            ip.extend((transport.len() as u16).to_be_bytes());
            ip.extend([protocol, self.ttl]);
            ip.extend([
                0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2,
            ]);
            ip
        } else {
            let mut ip = vec![0x45, self.tos];
            ip.extend((20 + transport.len() as u16).to_be_bytes());
            ip.extend(self.id.to_be_bytes());
            ip.extend([0x40, 0, self.ttl, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
            let sum = checksum::of(&ip);
            ip[10..12].copy_from_slice(&sum.to_be_bytes());
            ip
        };
        let at = packet.len() + if self.udp { 6 } else { 16 };
        let addresses = if self.v6 { &packet[8..40] } else { &packet[12..20] };
        let pseudo = checksum::add(u32::from(protocol) + transport.len() as u32, addresses);
        let sum = if self.partial { pseudo as u16 } else { checksum::finish(checksum::add(pseudo, &transport)) };
        packet.extend(transport);
        packet[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        packet
    }
}

/// The frame of a coding, without its envelope.
fn frame(coded: &Coded, packet: &[u8]) -> Vec<u8> {
    [coded.as_slice(), &packet[coded.skip..]].concat()
}

/// Both ends with nothing between them.
struct Pair {
    to: Compressor,
    from: Decompressor,
    number: u64,
}

impl Pair {
    fn new() -> Pair {
        Pair { to: Compressor::new(0), from: Decompressor::default(), number: 0 }
    }

    /// Sends a packet, which has to come out as it is; how long what stands for its headers is. The peer's word comes at once.
    fn pass(&mut self, now: Time, packet: &[u8], bucket: u16) -> Option<usize> {
        self.number += 1;
        let standing = Standing { bucket, sequence: self.number as u32 };
        let Coding::Coded { coded, awaits } = self.to.code(now, packet, packet.len(), standing) else { return None };
        let mut frame = frame(&coded, packet);
        let restored = self.from.restore(&mut frame, 0, coded.form, coded.reference, self.number as u32);
        assert_eq!(restored, Ok((bucket, true)));
        assert_eq!(frame, packet);
        if let Some(place) = awaits {
            self.to.sent(ChannelId(0), self.number, place);
            self.to.settle(ChannelId(0), self.number, true);
        }
        Some(coded.as_slice().len())
    }
}

#[test]
fn a_bulk_flow_needs_four_bytes_for_its_52_of_headers_and_always_as_many() {
    let mut pair = Pair::new();
    let mut made = Made::tcp(1);
    let mut lengths = vec![];
    for n in 0..2000u64 {
        // A millisecond in nine packets; PSH now and then.
        made.stamps = Some((100 + n as u32 / 9, 200 + n as u32 / 12));
        made.flags = if n % 44 == 43 { 0x18 } else { 0x10 };
        lengths.push(pair.pass(Time::from_nanos(n * 111_000), &made.bytes(), 3));
        made.sequence = made.sequence.wrapping_add(made.payload as u32);
        made.id = made.id.wrapping_add(1);
    }
    assert_eq!(lengths[..2], [None, Some(16)], "the first shows that there is a flow, the second founds");
    let lengths: Vec<usize> = lengths.into_iter().skip(2).flatten().collect();
    // A mask, and a byte of each timestamp; a renewing packet has another number besides.
    assert!(lengths.iter().all(|length| [4, 6].contains(length)), "{lengths:?}");
    assert_eq!(lengths.iter().filter(|length| **length == 6).count(), 2, "one that renews each tenth of a second");
}

#[test]
fn calls_and_acknowledgements_become_short_over_both_versions() {
    for v6 in [false, true] {
        let mut pair = Pair::new();
        let mut call = Made { v6, ..Made::udp(1) };
        let mut ack = Made { v6, payload: 0, ..Made::tcp(2) };
        for n in 0..200 {
            call.id = call.id.wrapping_add(1);
            call.sequence = n;
            ack.id = ack.id.wrapping_add(2);
            ack.acknowledgment = ack.acknowledgment.wrapping_add(2764);
            ack.window = 500 + n as u16 % 9;
            ack.stamps = Some((n, n + 1));
            let (call, ack) =
                (pair.pass(MS(20 * u64::from(n)), &call.bytes(), 3), pair.pass(MS(20 * u64::from(n)), &ack.bytes(), 4));
            if n > 1 {
                // Mask, checksum, identification; and what renews. An acknowledgement has its number, window and timestamps besides.
                assert!(call.is_some_and(|length| length <= 7), "{n}: {call:?}");
                assert!(ack.is_some_and(|length| length <= 13), "{n}: {ack:?}");
            }
        }
    }
}

#[test]
fn what_is_not_understood_goes_whole() {
    let good = Made::tcp(1).bytes();
    let changed = |at: usize, value: u8| {
        let mut packet = good.clone();
        packet[at] = value;
        packet[10..12].fill(0);
        let sum = checksum::of(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet
    };
    let read = |packet: &[u8]| Headers::read(packet, packet.len()).is_some();
    assert!(read(&good) && read(&changed(33, 0x18)) && read(&changed(8, 3)));
    for (at, value, what) in [
        (0, 0x46, "options of IPv4"),
        (6, 0x20, "a fragment"),
        (7, 1, "a later fragment"),
        (9, 47, "another protocol"),
        (32, 0x81, "a reserved bit"),
        (32, 0x40, "a header shorter than TCP's"),
        (33, 0x12, "SYN"),
        (33, 0x11, "FIN"),
        (33, 0x14, "RST"),
        (33, 0x30, "URG"),
        (33, 0x50, "ECE"),
        (38, 1, "urgent data"),
    ] {
        assert!(!read(&changed(at, value)), "{what}");
    }
    let mut packet = good.clone();
    packet[11] ^= 1;
    assert!(!read(&packet), "a wrong checksum of the IP header");
    assert!(!read(&good[..good.len() - 1]) && Headers::read(&good[..51], good.len()).is_none(), "cut");
    assert!(Headers::read(&good[..52], good.len()).is_some(), "headers alone, of a simulated packet");
    let mut packet = Made::udp(1).bytes();
    packet[25] += 1;
    assert!(!read(&packet), "a UDP length that is not the packet's");
    assert!(!read(&Made { tail: vec![1; 24], ..Made::tcp(1) }.bytes()), "too many options");
}

#[test]
fn a_lost_reference_costs_nothing_but_that_the_flow_founds_another() {
    let mut to = Compressor::new(0);
    let mut made = Made::tcp(1);
    let mut code = |to: &mut Compressor, ms, n| {
        made.sequence = made.sequence.wrapping_add(1382);
        let packet = made.bytes();
        to.code(MS(ms), &packet, packet.len(), Standing { bucket: 0, sequence: n })
    };
    let founds = |coding: &Coding| match coding {
        Coding::Coded { coded, awaits: Some(place) } if matches!(coded.form, Form::Founds { .. }) => {
            Some((coded.reference, *place))
        }
        _ => None,
    };
    assert!(matches!(code(&mut to, 0, 1), Coding::Whole));
    let (first, place) = founds(&code(&mut to, 1, 2)).expect("founded");
    to.sent(ChannelId(1), 40, place);
    assert!(matches!(code(&mut to, 2, 3), Coding::Whole), "nobody knows whether it arrived");
    to.settle(ChannelId(0), 40, true);
    to.settle(ChannelId(1), 39, true);
    assert!(matches!(code(&mut to, 3, 4), Coding::Whole), "others did");
    to.settle(ChannelId(1), 40, false);
    (0..2).for_each(|n| assert!(matches!(code(&mut to, 4, 5 + n), Coding::Whole | Coding::Coded { .. })));
    let (second, place) = match founds(&code(&mut to, 4000, 7)) {
        Some(founded) => founded,
        None => panic!("it founds another one when no word comes for three seconds"),
    };
    assert_ne!(first, second);
    to.sent(ChannelId(0), 50, place);
    to.settle(ChannelId(1), 40, true);
    assert!(matches!(code(&mut to, 4001, 8), Coding::Whole), "word on a frame of a reference that was given up");
    to.settle(ChannelId(0), 50, true);
    let Coding::Coded { coded, awaits: None } = code(&mut to, 4002, 9) else { panic!("confirmed") };
    assert_eq!((coded.form, coded.reference), (Form::Coded, second));
    to.forget(first);
    assert!(matches!(code(&mut to, 4003, 10), Coding::Coded { .. }), "of another turn");
    to.forget(second);
    assert!(matches!(code(&mut to, 4004, 11), Coding::Whole));
    assert_eq!(to.references(), 0);
}

#[test]
fn a_frame_from_before_changes_no_reference_and_a_number_comes_again_after_two_minutes() {
    let mut to = Compressor::new(60);
    let mut from = Decompressor::default();
    let mut seen: Vec<(u16, Time)> = vec![];
    let mut old: Option<(Vec<u8>, Coded)> = None;
    // One flow after another in one bucket, and each founds a reference: their places are used as soon as they may be.
    for n in 0..4000u64 {
        let now = MS(n * 1100);
        let packet = Made::udp(n as u8).bytes();
        let standing = Standing { bucket: 9, sequence: n as u32 };
        to.code(now, &packet, packet.len(), standing);
        let Coding::Coded { coded, awaits: Some(place) } = to.code(now, &packet, packet.len(), standing) else {
            panic!("{n}: no reference")
        };
        to.sent(ChannelId(0), n, place);
        to.settle(ChannelId(0), n, true);
        let number = coded.reference;
        if let Some((_, before)) = seen.iter().rev().find(|(one, _)| *one == number) {
            assert!(now.since(*before) >= Span::from_secs(128), "{number} again after {:?}", now.since(*before));
        }
        seen.push((number, now));
        let mut whole = frame(&coded, &packet);
        assert_eq!(from.restore(&mut whole, 0, coded.form, number, n as u32), Ok((9, true)));
        // One that is four to eight seconds old arrives a second time.
        if n % 4 == 0
            && let Some((mut late, coded)) = old.replace((frame(&coded, &packet), coded))
            && place_of(coded.reference) == place_of(number)
        {
            assert_eq!(from.restore(&mut late, 0, coded.form, coded.reference, n as u32 - 4), Ok((9, false)));
        }
        let Coding::Coded { coded, .. } = to.code(now, &packet, packet.len(), standing) else {
            panic!("{n}: not coded")
        };
        let mut coded_frame = frame(&coded, &packet);
        assert_eq!(from.restore(&mut coded_frame, 0, coded.form, coded.reference, n as u32), Ok((9, true)));
        assert_eq!(coded_frame, packet);
    }
    assert!(seen.len() == 4000 && to.references() <= 2);
}

#[test]
fn a_receiver_holds_the_newer_of_two_references_of_a_place_and_takes_neither_for_the_other() {
    let (mut to, mut from) = (Compressor::new(0), Decompressor::default());
    let packet = Made::tcp(1).bytes();
    let standing = Standing { bucket: 3, sequence: 1 };
    to.code(MS(0), &packet, packet.len(), standing);
    let Coding::Coded { coded, .. } = to.code(MS(0), &packet, packet.len(), standing) else { panic!("it founds") };
    let mut founds = |turn| from.restore(&mut frame(&coded, &packet), 0, coded.form, number_of(5, turn), 1);
    assert_eq!([founds(9), founds(8), founds(9)], [Ok((3, true)), Ok((3, false)), Ok((3, true))]);
    let older = number_of(5, 8);
    assert_eq!(from.restore(&mut vec![0; 60], 0, Form::Coded, older, 2), Err(Unfit::Unknown(older)));
}

#[test]
fn neither_word_on_a_later_frame_confirms_a_reference_nor_is_it_used_in_another_bucket() {
    let mut to = Compressor::new(0);
    let packet = Made::tcp(1).bytes();
    let code = |to: &mut Compressor, bucket| to.code(MS(0), &packet, packet.len(), Standing { bucket, sequence: 1 });
    code(&mut to, 3);
    let Coding::Coded { awaits: Some(place), .. } = code(&mut to, 3) else { panic!("it founds") };
    to.sent(ChannelId(0), 40, place);
    to.settle(ChannelId(0), 40 + 512, true);
    assert!(matches!(code(&mut to, 3), Coding::Whole));
    to.settle(ChannelId(0), 40, true);
    assert!(matches!(code(&mut to, 3), Coding::Coded { .. }));
    assert!(!matches!(code(&mut to, 3 + 1024), Coding::Coded { coded, .. } if coded.form == Form::Coded));
}

#[test]
fn more_flows_than_places_are_compressed_as_far_as_there_are_places() {
    let mut pair = Pair::new();
    let mut coded = 0;
    for round in 0..6u64 {
        for n in 0..1800u16 {
            let mut made = Made::udp(n as u8);
            made.ttl = 1 + (n >> 8) as u8;
            let packet = made.bytes();
            coded += usize::from(pair.pass(MS(round * 100), &packet, n).is_some());
        }
        assert!(pair.to.references() <= PLACES);
    }
    assert!(coded >= 4 * PLACES, "{coded}");
    assert_eq!(pair.to.references(), PLACES);
    // Those that are quiet make room.
    let packet = Made::tcp(1).bytes();
    let passed = (0..200u64).filter(|n| pair.pass(MS(10_000 + 3000 * n), &packet, 5).is_some()).count();
    assert!(passed > 100, "{passed}");
}

/// When a frame arrives, its number, where its packet stands, its coding, its bytes, and the packet that it was made of.
type UnderWay = (u64, u64, Standing, Coded, Vec<u8>, Vec<u8>);

/// A packet that follows another one of its flow, likely or not.
fn following(before: &Made, rng: &mut Rng) -> Made {
    let mut made = before.clone();
    made.sequence = made.sequence.wrapping_add(made.payload as u32);
    made.id = made.id.wrapping_add(1);
    for _ in 0..rng.below(3) {
        match rng.below(16) {
            0 => made.sequence = made.sequence.wrapping_sub(rng.below(1 << 22) as u32),
            1 => made.sequence = rng.next_u64() as u32,
            2 => {
                let most = 1 << rng.below(30);
                made.acknowledgment = made.acknowledgment.wrapping_add(rng.below(most) as u32);
            }
            3 => made.window = rng.below(1 << 16) as u16,
            4 => made.flags ^= 8,
            5 => made.flags = rng.below(256) as u8,
            6 => {
                made.stamps = made
                    .stamps
                    .map(|(a, b)| (a.wrapping_add(rng.below(300) as u32), b.wrapping_add(rng.below(70_000) as u32)))
            }
            7 => made.stamps = Some((rng.next_u64() as u32, 0)).filter(|_| rng.below(2) == 0),
            8 => made.tail = vec![5; 4 * rng.below(7) as usize],
            9 | 10 => made.payload = rng.below(1500) as usize,
            11 => made.id = rng.below(1 << 16) as u16,
            12 => made.tos = rng.below(256) as u8,
            13 => made.partial ^= true,
            14 => made.ttl = rng.below(256) as u8,
            _ => made.flow ^= 1,
        }
    }
    made
}

fn any_made() -> impl Strategy<Value = Made> {
    (any::<(bool, bool, bool, bool)>(), any::<(u32, u32, u16, u32, u32)>(), 0usize..1500, any::<(u16, u8, u8)>())
        .prop_map(
            |(
                (v6, udp, stamped, partial),
                (sequence, acknowledgment, window, value, echo),
                payload,
                (id, tos, ttl),
            )| Made {
                v6,
                udp,
                flow: 1,
                sequence,
                acknowledgment,
                flags: 0x10,
                window,
                stamps: stamped.then_some((value, echo)),
                tail: vec![],
                payload,
                id,
                tos,
                ttl,
                partial,
            },
        )
}

/// Frames are lost, overtake one another by up to half a second, and arrive twice; word of them comes late, or never. Either end begins anew.
/// Gives how many of 3,000 packets were compressed.
fn over_a_bad_path(seed: u64) -> Result<u32, TestCaseError> {
    let mut rng = Rng::new(seed);
    let (mut to, mut from) = (Compressor::new(rng.next_u64() as u16), Decompressor::default());
    let mut flows: Vec<Made> = (0..5).map(|n| if n % 2 == 0 { Made::tcp(2 * n) } else { Made::udp(2 * n) }).collect();
    flows[4].v6 = true;
    let mut sequence = [0u32; 3];
    let mut under_way: Vec<UnderWay> = vec![];
    let mut word: VecDeque<(u64, u64, bool)> = VecDeque::new();
    let (loss, spread) = (rng.below(40), 1 + rng.below(500));
    let (mut coded_frames, mut ms) = (0, 0);
    for number in 1..3000u64 {
        ms += rng.below(4);
        let n = rng.below(5) as usize;
        let (flow, ttl) = (flows[n].flow, flows[n].ttl);
        flows[n] = following(&flows[n], &mut rng);
        // Now and then another flow has its turn; mostly the one that there is goes on.
        if rng.below(20) > 0 {
            (flows[n].flow, flows[n].ttl) = (flow, ttl);
        }
        if flows[n].flags & !8 != 0x10 && rng.below(2) == 0 {
            flows[n].flags = 0x10;
        }
        if flows[n].tail.len() > 20 || rng.below(3) == 0 {
            flows[n].tail.clear();
        }
        let packet = flows[n].bytes();
        let bucket = (n % 3) as u16;
        sequence[n % 3] += 1;
        let standing = Standing { bucket, sequence: sequence[n % 3] };
        if let Coding::Coded { coded, awaits } = to.code(MS(ms), &packet, packet.len(), standing) {
            coded_frames += 1;
            if let Some(place) = awaits {
                to.sent(ChannelId(0), number, place);
            }
            let bytes = frame(&coded, &packet);
            for _ in 0..1 + u64::from(rng.below(20) == 0) {
                if rng.below(100) >= loss {
                    under_way.push((ms + rng.below(spread), number, standing, coded, bytes.clone(), packet.clone()));
                } else {
                    word.push_back((ms + spread, number, false));
                }
            }
        }
        if rng.below(1500) == 0 {
            // The receiver is another process, or the sender is: frames of before do not reach it (their epoch is another one).
            if rng.below(2) == 0 {
                to = Compressor::new(rng.next_u64() as u16);
            } else {
                to.forget_all();
            }
            from.forget_all();
            under_way.clear();
            word.clear();
        }
        under_way.sort_by_key(|(at, ..)| *at);
        while under_way.first().is_some_and(|(at, ..)| *at <= ms) {
            let (_, number, standing, coded, mut bytes, packet) = under_way.remove(0);
            match from.restore(&mut bytes, 0, coded.form, coded.reference, standing.sequence) {
                Ok((bucket, counts)) => {
                    prop_assert_eq!((bucket, &bytes), (standing.bucket, &packet));
                    if counts && rng.below(10) > 0 {
                        word.push_back((ms + rng.below(spread), number, true));
                    }
                }
                Err(unfit) => prop_assert!(matches!(unfit, Unfit::Unknown(_)), "{:?}", unfit),
            }
        }
        word.retain(|&(at, number, delivered)| {
            if at <= ms {
                to.settle(ChannelId(0), number, delivered);
            }
            at > ms
        });
    }
    Ok(coded_frames)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 512 }))]

    /// Whatever the mask that goes before: a packet that is coded against any reference comes out as it was.
    #[test]
    fn any_packet_that_is_coded_against_any_reference_comes_out(one in any_made(), seed: u64, least: u16, step: u32, sequence: u32) {
        let mut rng = Rng::new(seed);
        let mut other = one.clone();
        (0..1 + rng.below(4)).for_each(|_| other = following(&other, &mut rng));
        let (first, second) = (one.bytes(), other.bytes());
        let reference = Headers::read(&first, first.len()).and_then(|headers| Reference::of(&headers, Standing { bucket: 7, sequence }));
        let reference = reference.expect("understood");
        let Some(headers) = Headers::read(&second, second.len()) else { return Ok(()) };
        let mut coded = Coded::new(Form::Coded, 0);
        let standing = Standing { bucket: 7, sequence: sequence.wrapping_add(step) };
        // A mask of a packet of this shape before.
        let shape = headers.shape;
        let mut least = least & !(if shape.v6 { 3 << 10 } else { 0 } | if shape.stamps { 0 } else { 15 << 4 } | if shape.udp { 0xf008 } else { 0 });
        if least >> 10 & 3 == 3 { least &= !(1 << 10); }
        if code::encode(&mut coded, &headers, &second, &reference, standing, least).is_some() {
            let bytes = frame(&coded, &second);
            let rebuilt = code::decode(&bytes, 0, bytes.len(), &reference, standing.sequence).expect("written by us");
            let (front, len) = rebuilt.bytes();
            prop_assert_eq!([&front[..len], &bytes[rebuilt.taken..]].concat(), second);
        } else {
            prop_assert!(one.flow != other.flow || one.ttl != other.ttl || one.stamps.is_some() != other.stamps.is_some());
        }
    }

    #[test]
    fn whatever_the_path_does_a_packet_comes_out_as_it_went_in_or_not_at_all(seed: u64) {
        over_a_bad_path(seed)?;
    }

    #[test]
    fn any_frame_gives_a_packet_with_right_lengths_or_a_reason(frames in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..90), any::<u16>(), 0u8..16, any::<u32>()), 1..20)) {
        let mut from = Decompressor::default();
        let founded = Made::tcp(1).bytes();
        let mut pair = Pair::new();
        (0..2).for_each(|_| { pair.pass(MS(0), &founded, 1); });
        from.clone_from(&pair.from);
        for (bytes, number, form, sequence) in frames {
            let Some(form) = Form::from_bits(form) else { continue };
            let mut frame = bytes.clone();
            // Half of them need the reference that there is.
            let number = if number % 2 == 0 { 0 } else { number };
            if from.restore(&mut frame, 0, form, number, sequence).is_ok() {
                let header = crate::ip::Header::parse(&frame, frame.len());
                prop_assert!(header.is_ok_and(|header| header.total == frame.len()), "{:?}", frame);
            }
        }
        prop_assert!(from.places() <= PLACES);
    }
}

#[test]
fn over_bad_paths_there_is_something_that_is_compressed() {
    let mut counts: Vec<_> =
        (0..if cfg!(miri) { 4 } else { 64 }).map(|seed| over_a_bad_path(seed).expect("as they went in")).collect();
    counts.sort_unstable();
    assert!(counts[counts.len() / 2] > 400, "{counts:?}");
}

#[test]
fn the_longest_of_each_form_has_room() {
    for v6 in [false, true] {
        let one = Made { v6, ..Made::tcp(1) };
        let other = Made {
            sequence: 1 << 31,
            acknowledgment: 1 << 31,
            window: 9,
            stamps: Some((1 << 31, 1 << 31)),
            tail: vec![1; 20],
            id: 9999,
            tos: 3,
            partial: false,
            ..one.clone()
        };
        let (first, second) = (one.bytes(), other.bytes());
        let headers = Headers::read(&first, first.len()).unwrap();
        let reference = Reference::of(&headers, Standing { bucket: 7, sequence: 0 }).unwrap();
        for (tail, forms) in [(20, Form::Coded), (0, Form::Renews)] {
            let packet = Made { tail: vec![1; tail], ..other.clone() }.bytes();
            let headers = Headers::read(&packet, packet.len()).unwrap();
            let mut coded = Coded::new(forms, 0);
            if forms == Form::Renews {
                coded.push([0; 2]);
            }
            code::encode(&mut coded, &headers, &packet, &reference, Standing { bucket: 7, sequence: 9 }, 0).unwrap();
            assert!(coded.as_slice().len() <= MOST_CODED);
        }
        assert_eq!(second.len() - first.len(), 20);
    }
    let headers = Headers::read(&Made { v6: true, ..Made::udp(1) }.bytes(), 208).unwrap();
    let mut coded = Coded::new(Form::Founds { v6: true, udp: true }, 0);
    coded.push([0; 2]);
    coded.push_ip(&headers);
    assert_eq!(coded.as_slice().len(), 39);
}

#[test]
fn a_founding_frame_is_no_longer_than_one_that_is_kept() {
    use crate::wire::envelope::{COMPRESSED_LEN, KEPT_LEN};
    for (v6, udp) in [(false, false), (false, true), (true, false), (true, true)] {
        let made = Made { v6, udp, stamps: None, ..Made::tcp(1) };
        let packet = made.bytes();
        let mut pair = Pair::new();
        assert_eq!(pair.pass(MS(0), &packet, 1), None);
        let len = pair.pass(MS(0), &packet, 1).expect("it founds");
        assert!(COMPRESSED_LEN + len - if v6 { 40 } else { 20 } <= KEPT_LEN);
    }
}

#[test]
fn a_vector_of_each_form() {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| alloc::format!("{byte:02x}")).collect::<alloc::string::String>();
    let mut to = Compressor::new(1);
    let mut made = Made::tcp(1);
    let mut coded = |made: &Made, ms, sequence| {
        let packet = made.bytes();
        let coding = to.code(MS(ms), &packet, packet.len(), Standing { bucket: 0x123, sequence });
        let Coding::Coded { coded, awaits } = coding else { return (alloc::string::String::from("whole"), 0, 0) };
        if let Some(place) = awaits {
            to.sent(ChannelId(0), u64::from(sequence), place);
            to.settle(ChannelId(0), u64::from(sequence), true);
        }
        (hex(coded.as_slice()), coded.reference, coded.skip)
    };
    assert_eq!(coded(&made, 0, 0).0, "whole");
    // Bucket; type of service, identification, flags, time to live, addresses.
    assert_eq!(coded(&made, 0, 0), ("0123000007400040".to_owned() + "0a0000010a000002", 0x0400, 20));
    (made.sequence, made.id, made.flags) = (1000 + 2 * 1382, 9, 0x18);
    // Sequence number and identification as foreseen, PSH; all else as it was.
    assert_eq!(coded(&made, 1, 2), ("46500000".into(), 0x0400, 52));
    (made.stamps, made.acknowledgment, made.partial) = (Some((101, 456)), 6, false);
    let packet = made.bytes();
    let expected = "5760".to_owned() + "0001" + "01" + "0100" + &hex(&packet[36..38]);
    assert_eq!(coded(&made, 2, 2), (expected, 0x0400, 52));
    for n in 0..20 {
        coded(&made, 3, 3 + n);
    }
    made.stamps = Some((201, 456));
    made.sequence = 1000 + 1382 * 50 + 5;
    // Renews: the new number first. What was written before is written again; the sequence number is not foreseen, 2^20 and 69,105 beyond.
    let packet = made.bytes();
    let expected = "0401".to_owned() + "9b60" + "110df1" + "0001" + "0009" + "65" + "0100" + &hex(&packet[36..38]);
    assert_eq!(coded(&made, 200, 50), (expected, 0x0400, 52));
}
