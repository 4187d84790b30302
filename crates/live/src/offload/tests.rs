//! What [`split`] and [`Joiner`] promise, on arbitrary traffic of several flows, against slow obvious models.

use super::checksum::{add, complete_at, sum, verifies};
use super::header::*;
use super::*;
use crate::pool::PacketBuf;
use proptest::prelude::*;

const OFFLOADS: Offloads = Offloads { tcp: true, udp: true };

/// A packet to build; its fields are those that decide what joins.
#[derive(Clone, Debug)]
struct Spec {
    is_v6: bool,
    tcp: bool,
    flow: u8,
    tos: u8,
    ttl: u8,
    id: u16,
    dont_fragment: bool,
    fragment: bool,
    /// IPv4 options or an IPv6 extension header, 8 bytes.
    ip_options: bool,
    sequence: u32,
    acknowledgement: u32,
    flags: u8,
    window: u16,
    /// TCP timestamp option with this value.
    timestamp: Option<u32>,
    payload: Vec<u8>,
    partial: bool,
    bad_checksum: bool,
}

impl Default for Spec {
    fn default() -> Spec {
        Spec {
            is_v6: false,
            tcp: true,
            flow: 1,
            tos: 0,
            ttl: 64,
            id: 7,
            dont_fragment: true,
            fragment: false,
            ip_options: false,
            sequence: 1000,
            acknowledgement: 5,
            flags: TCP_ACK,
            window: 500,
            timestamp: Some(77),
            payload: vec![1; 100],
            partial: true,
            bad_checksum: false,
        }
    }
}

impl Spec {
    fn header_len(&self) -> usize {
        let ip = if self.is_v6 { 40 } else { 20 } + if self.ip_options { 8 } else { 0 };
        ip + match (self.tcp, self.timestamp) {
            (false, _) => 8,
            (true, None) => 20,
            (true, Some(_)) => 32,
        }
    }

    fn build(&self) -> PacketBuf {
        let protocol = if self.tcp { 6u8 } else { 17 };
        let mut transport = vec![0, 100 + self.flow, 1, 187];
        if self.tcp {
            let words = if self.timestamp.is_some() { 8u8 } else { 5 };
            transport.extend(self.sequence.to_be_bytes());
            transport.extend(self.acknowledgement.to_be_bytes());
            transport.extend([words << 4, self.flags]);
            transport.extend(self.window.to_be_bytes());
            transport.extend([0; 4]);
            if let Some(value) = self.timestamp {
                transport.extend([1, 1, 8, 10]);
                transport.extend(value.to_be_bytes());
                transport.extend([0; 4]);
            }
        } else {
            transport.extend(((8 + self.payload.len()) as u16).to_be_bytes());
            transport.extend([0; 2]);
        }
        transport.extend(&self.payload);

        let mut packet = Vec::new();
        let addresses: Vec<u8>;
        if self.is_v6 {
            addresses = (0..32).map(|i| i ^ self.flow).collect();
            let extension = if self.ip_options || self.fragment { 8 } else { 0 };
            packet.extend((6u32 << 28 | u32::from(self.tos) << 20 | 0x12345).to_be_bytes());
            packet.extend(((transport.len() + extension) as u16).to_be_bytes());
            let next = if self.fragment { 44 } else { 60 };
            packet.extend([if extension > 0 { next } else { protocol }, self.ttl]);
            packet.extend(&addresses);
            if self.fragment {
                packet.extend([protocol, 0, 0, 1, 0, 0, 0, 9]);
            } else if self.ip_options {
                packet.extend([protocol, 0, 1, 4, 0, 0, 0, 0]);
            }
        } else {
            addresses = (0..8).map(|i| i ^ self.flow).collect();
            let header = if self.ip_options { 28 } else { 20 };
            packet.extend([0x40 | (header / 4), self.tos]);
            packet.extend((usize::from(header) as u16 + transport.len() as u16).to_be_bytes());
            packet.extend(self.id.to_be_bytes());
            let bits = u16::from(self.dont_fragment) << 14 | u16::from(self.fragment) << 13;
            packet.extend(bits.to_be_bytes());
            packet.extend([self.ttl, protocol, 0, 0]);
            packet.extend(&addresses);
            if self.ip_options {
                packet.extend([1, 1, 1, 1, 1, 1, 1, 0]);
            }
            let checksum = !sum(&packet);
            packet[10..12].copy_from_slice(&checksum.to_be_bytes());
        }
        // The pseudo header: addresses, protocol, length.
        let field = if self.tcp { 16 } else { 6 };
        let pseudo = add(&[sum(&addresses), u16::from(protocol), transport.len() as u16]);
        transport[field..field + 2].copy_from_slice(&pseudo.to_be_bytes());
        if !self.partial {
            assert!(complete_at(&mut transport, 0, field));
        }
        if self.bad_checksum {
            transport[field] ^= 0x10;
        }
        packet.extend(transport);
        let mut packet = PacketBuf::copy_from(&packet);
        packet.checksum_partial = self.partial;
        packet
    }
}

/// The bytes of each unit as they would be written, and how many packets it joins.
fn join(packets: &[PacketBuf], offloads: Offloads) -> Vec<(Vec<usize>, Vec<u8>)> {
    let mut joiner = Joiner::new();
    joiner.plan(packets, offloads);
    let write = |unit: &Unit| {
        let members: Vec<_> = joiner.packets(unit).collect();
        assert_eq!(members.len(), unit.count());
        let head = match unit.head(packets) {
            Some(head) => head,
            None => Head::single(&packets[members[0]]).expect("these are TCP and UDP"),
        };
        let mut bytes = head.as_slice().to_vec();
        members.iter().for_each(|&i| bytes.extend(&packets[i].as_slice()[head.packet_headers()..]));
        (members, bytes)
    };
    joiner.units().iter().map(write).collect()
}

fn split_bytes(bytes: &[u8], keep_partial: bool) -> Vec<PacketBuf> {
    let (vnet, unit) = bytes.split_first_chunk().expect("a vnet header");
    let mut packets = Vec::new();
    split(&VnetHeader::from_bytes(vnet), unit, keep_partial, &mut |packet| packets.push(packet)).expect("a good unit");
    packets
}

/// How many packets each unit of `specs` joins.
fn counts(specs: &[Spec]) -> Vec<usize> {
    let packets: Vec<_> = specs.iter().map(Spec::build).collect();
    join(&packets, OFFLOADS).iter().map(|(members, _)| members.len()).collect()
}

/// `n` full segments in sequence, changed by `change`.
fn train(n: usize, change: impl Fn(usize, &mut Spec)) -> Vec<Spec> {
    let mut specs: Vec<_> =
        (0..n).map(|i| Spec { id: 7 + i as u16, sequence: 1000 + 100 * i as u32, ..Spec::default() }).collect();
    specs.iter_mut().enumerate().for_each(|(i, spec)| change(i, spec));
    specs
}

#[test]
fn segments_in_sequence_become_one_unit_that_the_kernel_takes() {
    for is_v6 in [false, true] {
        for partial in [false, true] {
            let specs = train(5, |i, spec| {
                (spec.is_v6, spec.partial) = (is_v6, partial);
                spec.flags |= if i == 4 { TCP_PSH } else { 0 };
                spec.payload = vec![i as u8; if i == 4 { 30 } else { 100 }];
            });
            let packets: Vec<_> = specs.iter().map(Spec::build).collect();
            let units = join(&packets, OFFLOADS);
            assert_eq!(units.len(), 1);
            let bytes = &units[0].1;
            let ip = if is_v6 { 40 } else { 20 };
            let vnet = VnetHeader {
                flags: VnetHeader::NEEDS_CSUM,
                gso_type: if is_v6 { VnetHeader::GSO_TCPV6 } else { VnetHeader::GSO_TCPV4 },
                hdr_len: ip as u16 + 32,
                gso_size: 100,
                csum_start: ip as u16,
                csum_offset: 16,
            };
            assert_eq!(bytes[..10], vnet.to_bytes());
            let headers = Headers::parse(&bytes[10..]).expect("an IP packet");
            assert_eq!((headers.end, bytes.len() - 10), (ip + 32 + 430, ip + 32 + 430));
            // With its partial checksum completed, the unit is a right packet.
            let mut whole = bytes[10..].to_vec();
            assert!(complete_at(&mut whole, ip, 16));
            assert!(verifies(&whole, &headers));
            assert_eq!(whole[ip + 13], TCP_ACK | TCP_PSH);
        }
    }
}

#[test]
fn what_linux_would_not_join_is_not_joined() {
    assert_eq!(counts(&train(3, |_, _| ())), [3]);
    type Change = fn(&mut Spec);
    let cases: [(&str, Change); 14] = [
        ("another TOS", |spec| spec.tos = 1),
        ("another TTL", |spec| spec.ttl = 63),
        ("another DF", |spec| spec.dont_fragment = false),
        ("a gap in the sequence", |spec| spec.sequence += 1),
        ("another acknowledgement", |spec| spec.acknowledgement += 1),
        ("another window", |spec| spec.window += 1),
        ("ECE", |spec| spec.flags |= 0x40),
        ("CWR", |spec| spec.flags |= TCP_CWR),
        ("another timestamp", |spec| spec.timestamp = Some(78)),
        ("other options", |spec| spec.timestamp = None),
        ("a longer segment", |spec| spec.payload.push(0)),
        ("IP options", |spec| spec.ip_options = true),
        ("a jump of the identification", |spec| spec.id += 5),
        ("a complete checksum", |spec| spec.partial = false),
    ];
    for (name, change) in cases {
        let specs = train(3, |i, spec| {
            if i == 1 {
                change(spec)
            }
        });
        assert_eq!(counts(&specs)[0], 1, "{name}");
    }
    for flag in [TCP_SYN, TCP_RST, TCP_URG] {
        let specs = train(3, |i, spec| spec.flags |= if i == 1 { flag } else { 0 });
        assert_eq!(counts(&specs), [1, 1, 1], "flag {flag:#x}");
        assert_eq!(counts(&train(2, |_, spec| spec.flags |= flag)), [1, 1], "flag {flag:#x} on all");
    }
    let acknowledgements = train(3, |_, spec| (spec.payload, spec.sequence) = (Vec::new(), 1000));
    assert_eq!(counts(&acknowledgements), [1, 1, 1]);
    assert_eq!(counts(&train(3, |_, spec| spec.ip_options = true)), [1, 1, 1], "IP options on all");
    assert_eq!(counts(&train(3, |_, spec| (spec.fragment, spec.partial) = (true, false))), [1, 1, 1], "fragments");
    assert_eq!(counts(&train(3, |_, spec| (spec.partial, spec.bad_checksum) = (false, true))), [1, 1, 1]);
    let mut packets: Vec<_> = train(3, |_, _| ()).iter().map(Spec::build).collect();
    packets[1].as_mut_slice()[10] ^= 1;
    assert_eq!(join(&packets, OFFLOADS).len(), 3, "a wrong header checksum");
    let one_bad = train(4, |i, spec| (spec.partial, spec.bad_checksum) = (false, i == 2));
    assert_eq!(counts(&one_bad), [2, 1, 1], "a wrong checksum");
}

#[test]
fn a_short_segment_psh_and_fin_end_a_unit_and_cwr_may_begin_one() {
    assert_eq!(counts(&train(4, |i, spec| spec.flags |= if i == 1 { TCP_PSH } else { 0 })), [2, 2]);
    assert_eq!(counts(&train(4, |i, spec| spec.flags |= if i == 1 { TCP_FIN } else { 0 })), [2, 2]);
    assert_eq!(counts(&train(4, |i, spec| spec.flags |= if i == 0 { TCP_PSH } else { 0 })), [1, 3]);
    let short = train(4, |i, spec| {
        spec.sequence -= if i > 1 { 40 } else { 0 };
        spec.payload.truncate(if i == 1 { 60 } else { 100 });
    });
    assert_eq!(counts(&short), [2, 2]);
    let specs = train(3, |i, spec| spec.flags |= if i == 0 { TCP_CWR } else { 0 });
    let packets: Vec<_> = specs.iter().map(Spec::build).collect();
    let units = join(&packets, OFFLOADS);
    assert_eq!(units[0].0, [0, 1, 2]);
    assert_eq!(units[0].1[1], VnetHeader::GSO_TCPV4 | VnetHeader::GSO_ECN);
    let flags: Vec<_> = split_bytes(&units[0].1, true).iter().map(|packet| packet.as_slice()[33]).collect();
    assert_eq!(flags, [TCP_ACK | TCP_CWR, TCP_ACK, TCP_ACK]);
}

#[test]
fn identifications_count_up_or_stay_where_nothing_may_be_fragmented() {
    assert_eq!(counts(&train(3, |_, spec| spec.dont_fragment = false)), [3]);
    assert_eq!(counts(&train(3, |_, spec| spec.id = 0)), [3]);
    assert_eq!(counts(&train(3, |_, spec| (spec.id, spec.dont_fragment) = (0, false))), [1, 1, 1]);
    let mixed = train(4, |i, spec| spec.id = [7, 8, 7, 8][i]);
    assert_eq!(counts(&mixed), [2, 2]);
    let wraps = train(3, |i, spec| spec.id = 0xffffu16.wrapping_add(i as u16));
    assert_eq!(counts(&wraps), [3]);
}

#[test]
fn interleaved_flows_are_joined_each_and_an_unknown_packet_parts_all() {
    let mut specs = Vec::new();
    for i in 0..4u16 {
        for flow in 0..3 {
            let (id, sequence) = (i, 100 * u32::from(i));
            specs.push(Spec { flow, id, sequence, is_v6: flow == 2, ..Spec::default() });
        }
    }
    assert_eq!(counts(&specs), [4, 4, 4]);
    specs[5].fragment = true;
    specs[5].is_v6 = false;
    let packets: Vec<_> = specs.iter().map(Spec::build).collect();
    let mut joiner = Joiner::new();
    joiner.plan(&packets, OFFLOADS);
    let units: Vec<Vec<_>> = joiner.units().iter().map(|unit| joiner.packets(unit).collect()).collect();
    assert_eq!(units[..4], [vec![0, 3], vec![1, 4], vec![2], vec![5]]);
}

#[test]
fn datagrams_join_by_size_and_those_without_checksum_do_not() {
    let udp = |n, change: fn(usize, &mut Spec)| {
        train(n, |i, spec| {
            spec.tcp = false;
            change(i, spec);
        })
    };
    assert_eq!(counts(&udp(3, |_, _| ())), [3]);
    assert_eq!(counts(&udp(4, |i, spec| spec.payload.truncate(if i == 1 { 60 } else { 100 }))), [2, 2]);
    assert_eq!(counts(&udp(70, |_, _| ())), [64, 6]);
    let mut packets: Vec<_> = udp(3, |_, spec| spec.partial = false).iter().map(Spec::build).collect();
    assert_eq!(join(&packets, OFFLOADS).len(), 1);
    packets.iter_mut().for_each(|packet| packet.as_mut_slice()[26..28].fill(0));
    assert_eq!(join(&packets, OFFLOADS).len(), 3);
    let tcp_only = Offloads { tcp: true, udp: false };
    assert_eq!(join(&packets, tcp_only).len(), 3);
}

#[test]
fn a_unit_never_exceeds_what_an_ip_packet_can_hold() {
    let specs = train(10, |i, spec| (spec.payload, spec.sequence) = (vec![0; 8900], 8900 * i as u32));
    assert_eq!(counts(&specs), [7, 3]);
}

#[test]
fn a_syn_and_what_is_not_plain_tcp_or_udp_is_completed_at_the_read() {
    let read = |spec: &Spec, csum_start: usize| {
        let packet = spec.build();
        let vnet = VnetHeader {
            flags: VnetHeader::NEEDS_CSUM,
            csum_start: csum_start as u16,
            csum_offset: if spec.tcp { 16 } else { 6 },
            ..VnetHeader::default()
        };
        let mut bytes = vnet.to_bytes().to_vec();
        bytes.extend(packet.as_slice());
        split_bytes(&bytes, true).pop().expect("one packet")
    };
    for (is_v6, ip) in [(false, 20), (true, 40)] {
        for tcp in [false, true] {
            let spec = Spec { is_v6, tcp, ..Spec::default() };
            assert!(read(&spec, ip).checksum_partial, "{spec:?}");
        }
        let syn = Spec { is_v6, flags: TCP_SYN, ..Spec::default() };
        let complete = Spec { partial: false, ..syn.clone() };
        let packet = read(&syn, ip);
        assert!(!packet.checksum_partial);
        assert_eq!(packet.as_slice(), complete.build().as_slice());
    }
    let unit = join(&train(3, |_, _| ()).iter().map(Spec::build).collect::<Vec<_>>(), OFFLOADS).remove(0).1;
    let mut with_syn = unit.clone();
    with_syn[10 + 33] |= TCP_SYN;
    assert!(split_bytes(&unit, true).iter().all(|packet| packet.checksum_partial));
    assert!(split_bytes(&with_syn, true).iter().all(|packet| !packet.checksum_partial));
    let fragment = Spec { fragment: true, ..Spec::default() };
    assert!(!read(&fragment, 20).checksum_partial);
    // Bytes after the end of the IP packet, which the far end could not tell from it.
    let padded = PacketBuf::from_parts(Spec::default().build().as_slice(), &[1, 2]);
    let vnet = VnetHeader { flags: VnetHeader::NEEDS_CSUM, csum_start: 20, csum_offset: 16, ..VnetHeader::default() };
    let mut bytes = vnet.to_bytes().to_vec();
    bytes.extend(padded.as_slice());
    assert!(!split_bytes(&bytes, true)[0].checksum_partial);
    // An inner packet: the checksum to finish is not that of the outer one.
    let inner = Spec { payload: vec![0; 60], ..Spec::default() };
    assert!(!read(&inner, 40).checksum_partial);
}

#[test]
fn a_partial_checksum_where_none_can_be_is_refused() {
    for is_v6 in [false, true] {
        let mut fragment = Spec { is_v6, fragment: true, ..Spec::default() }.build();
        assert!(!complete_checksum(&mut fragment));
        assert_eq!(Head::single(&fragment).expect_err("a fragment"), JoinError::Partial { len: fragment.len() });
    }
    let mut padded = PacketBuf::from_parts(Spec::default().build().as_slice(), &[0; 6]);
    padded.checksum_partial = true;
    assert!(Head::single(&padded).is_err());
    let mut empty = PacketBuf::with_len(0);
    empty.checksum_partial = true;
    assert!(!complete_checksum(&mut empty) && Head::single(&empty).is_err());
}

#[test]
fn a_udp_checksum_that_comes_out_zero_is_sent_as_ffff() {
    let spec = Spec { tcp: false, payload: vec![0, 0], ..Spec::default() };
    let mut packet = spec.build();
    // The payload takes the sum to ffff, so that its complement is zero, which would say "no checksum" (RFC 768).
    let missing = !sum(&packet.as_slice()[20..]);
    packet.as_mut_slice()[28..].copy_from_slice(&missing.to_be_bytes());
    assert!(complete_checksum(&mut packet));
    assert_eq!(packet.as_slice()[26..28], [0xff, 0xff]);
    assert!(verifies(packet.as_slice(), &Headers::parse(packet.as_slice()).expect("headers")));
}

#[test]
fn contradictory_units_are_refused_with_the_reason() {
    let good = join(&train(3, |_, _| ()).iter().map(Spec::build).collect::<Vec<_>>(), OFFLOADS).remove(0).1;
    let refused = |change: &dyn Fn(&mut VnetHeader, &mut Vec<u8>)| {
        let mut vnet = VnetHeader::from_bytes(good.first_chunk().expect("a header"));
        let mut unit = good[10..].to_vec();
        change(&mut vnet, &mut unit);
        let mut packets = 0;
        let error = split(&vnet, &unit, true, &mut |_| packets += 1).expect_err("a contradiction");
        assert_eq!(packets, 0);
        error
    };
    assert_eq!(refused(&|vnet, _| vnet.gso_type = 3), SplitError::Kind { gso_type: 3 });
    assert_eq!(refused(&|vnet, _| vnet.gso_size = 0), SplitError::Vnet { gso_size: 0, flags: 1 });
    assert_eq!(refused(&|vnet, _| vnet.flags = 0), SplitError::Vnet { gso_size: 100, flags: 0 });
    let headers = SplitError::Headers { len: good.len() - 10 };
    assert_eq!(refused(&|vnet, _| vnet.gso_type = VnetHeader::GSO_TCPV6), headers);
    assert_eq!(refused(&|vnet, _| vnet.gso_type = VnetHeader::GSO_UDP_L4), headers);
    assert_eq!(refused(&|vnet, _| vnet.csum_start = 24), headers);
    assert_eq!(refused(&|vnet, _| vnet.csum_offset = 6), headers);
    assert_eq!(refused(&|_, unit| unit[32] = 0x40), headers);
    let too_long = |vnet: &mut VnetHeader, unit: &mut Vec<u8>| {
        vnet.gso_size = u16::MAX - 51;
        unit.resize(70_000, 0);
    };
    assert_eq!(refused(&too_long), SplitError::Headers { len: 70_000 });
}

prop_compose! {
    /// A packet that mostly continues the flow that `Traffic` keeps, and sometimes deviates in one thing.
    fn deviation()(kind in 0u8..60, value in any::<u8>()) -> (u8, u8) {
        (kind, value)
    }
}

/// Packets of up to four flows, each mostly a continuation of its flow.
fn traffic() -> impl Strategy<Value = Vec<Spec>> {
    let packet = (0u8..4, 0usize..300, deviation(), any::<u8>());
    (any::<[bool; 4]>(), any::<[bool; 4]>(), proptest::collection::vec(packet, 1..40)).prop_map(
        |(is_v6, tcp, packets)| {
            let mut sequence = [0u32, 0xffff_ff00, 77, 1 << 31];
            let mut id = [0u16, 0xfffe, 5, 9];
            let size = [100, 250, 17, 1];
            let mut specs = Vec::new();
            for (flow, length, (kind, value), fill) in packets {
                let f = usize::from(flow);
                let mut spec = Spec {
                    is_v6: is_v6[f],
                    tcp: tcp[f],
                    flow,
                    id: id[f],
                    sequence: sequence[f],
                    partial: flow != 1,
                    payload: vec![fill; size[f]],
                    dont_fragment: flow != 2,
                    timestamp: (flow != 3).then_some(1),
                    ..Spec::default()
                };
                match kind {
                    0 => spec.tos = value & 3,
                    1 => spec.ttl = value,
                    2 => spec.id = 0,
                    3 => spec.dont_fragment = false,
                    4 => spec.ip_options = true,
                    5 => spec.sequence = spec.sequence.wrapping_add(u32::from(value)),
                    6 => spec.acknowledgement = u32::from(value),
                    7..10 => spec.flags = value,
                    10..13 => spec.flags |= TCP_PSH,
                    13 => spec.flags |= TCP_FIN,
                    14 => spec.flags |= TCP_CWR,
                    15 => spec.window = u16::from(value),
                    16 => spec.timestamp = Some(u32::from(value)),
                    17 => spec.partial = !spec.partial,
                    // (A partial one holds no sum yet that could be wrong.)
                    18 => (spec.partial, spec.bad_checksum) = (false, true),
                    19..25 => spec.payload = vec![fill; length],
                    25 => spec.payload.clear(),
                    _ => {}
                }
                sequence[f] = spec.sequence.wrapping_add(spec.payload.len() as u32);
                id[f] = id[f].wrapping_add(1);
                specs.push(spec);
            }
            specs
        },
    )
}

/// What two ends must agree on: all bytes, but for identifications that mean nothing (RFC 6864), and with the
/// checksum complete.
fn canonical(packet: &PacketBuf) -> Vec<u8> {
    let mut copy = PacketBuf::copy_from(packet.as_slice());
    copy.checksum_partial = packet.checksum_partial;
    assert!(complete_checksum(&mut copy));
    let mut bytes = copy.as_slice().to_vec();
    if bytes[0] >> 4 == 4 && bytes[6] & 0x40 != 0 {
        bytes[4..6].fill(0);
        bytes[10..12].fill(0);
    }
    bytes
}

#[test]
#[ignore = "a measurement: run with --release -- --ignored --nocapture"]
fn measure_sum_split_and_join() {
    let median = |body: &mut dyn FnMut()| {
        let mut times: Vec<_> = (0..200)
            .map(|_| {
                let start = std::time::Instant::now();
                body();
                start.elapsed().as_nanos() as f64
            })
            .collect();
        times.sort_by(f64::total_cmp);
        times[100]
    };
    for len in [1400, 65_000] {
        let bytes = vec![0x5a; len];
        let mut total = 0;
        let ns = median(&mut || {
            for _ in 0..10 {
                total += u64::from(sum(std::hint::black_box(&bytes)));
            }
        });
        println!("sum of {len} bytes: {:.1} GB/s ({total})", 10.0 * len as f64 / ns);
    }
    for partial in [true, false] {
        let specs = train(45, |i, spec| {
            (spec.payload, spec.sequence) = (vec![0x5a; 1368], 1368 * i as u32);
            spec.partial = partial;
        });
        let packets: Vec<_> = specs.iter().map(Spec::build).collect();
        let bytes = join(&packets, OFFLOADS).remove(0).1;
        let vnet = VnetHeader::from_bytes(bytes.first_chunk().expect("a header"));
        let mut joiner = Joiner::new();
        let join_ns = median(&mut || {
            joiner.plan(&packets, OFFLOADS);
            std::hint::black_box(joiner.units()[0].head(&packets));
        });
        let mut sink = Vec::new();
        let split_ns = median(&mut || {
            sink.clear();
            split(&vnet, &bytes[10..], partial, &mut |packet| sink.push(packet)).expect("a good unit");
        });
        assert_eq!(sink.len(), 45);
        println!("partial {partial}: split {:.0} ns, join {:.0} ns a packet", split_ns / 45.0, join_ns / 45.0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_was_joined_and_split_again_is_what_it_was(specs in traffic()) {
        let packets: Vec<_> = specs.iter().map(Spec::build).collect();
        let units = join(&packets, OFFLOADS);
        let mut seen = vec![false; packets.len()];
        let mut last_of_flow = [None; 4];
        for (members, bytes) in &units {
            // Each packet once, in order within its flow.
            for &i in members {
                prop_assert!(!std::mem::replace(&mut seen[i], true));
                let last = &mut last_of_flow[usize::from(specs[i].flow)];
                prop_assert!(*last < Some(i));
                *last = Some(i);
            }
            prop_assert!(bytes.len() - 10 <= 65_535);
            for keep in [false, true] {
                let parts = split_bytes(bytes, keep);
                prop_assert_eq!(parts.len(), members.len());
                for (part, &i) in parts.iter().zip(members) {
                    prop_assert_eq!(canonical(part), canonical(&packets[i]), "packet {}: {:?}", i, &specs[i]);
                    if keep && packets[i].checksum_partial && specs[i].flags & TCP_SYN == 0 {
                        prop_assert!(part.checksum_partial);
                    }
                }
            }
        }
        prop_assert!(seen.iter().all(|&seen| seen));
    }

    #[test]
    fn a_unit_is_split_into_right_packets_that_rejoin_to_it(
        is_v6 in any::<bool>(),
        tcp in any::<bool>(),
        ip_options in any::<bool>(),
        timestamp in any::<Option<u32>>(),
        size in 1u16..2000,
        length in 1usize..20_000,
        flags in 0u8..=255,
        id in any::<u16>(),
        ecn in any::<bool>(),
    ) {
        let flags = flags & !(TCP_SYN | TCP_URG | TCP_RST) | TCP_ACK;
        let payload: Vec<u8> = (0..length).map(|i| (i * 31 % 251) as u8).collect();
        let spec = Spec { is_v6, tcp, ip_options, timestamp, flags, id, payload, ..Spec::default() };
        let (unit, header_len) = (spec.build(), spec.header_len());
        let transport = header_len - if !tcp { 8 } else if timestamp.is_some() { 32 } else { 20 };
        let mut gso_type = match (tcp, is_v6) {
            (false, _) => VnetHeader::GSO_UDP_L4,
            (true, false) => VnetHeader::GSO_TCPV4,
            (true, true) => VnetHeader::GSO_TCPV6,
        };
        if ecn && tcp {
            gso_type |= VnetHeader::GSO_ECN;
        }
        let vnet = VnetHeader {
            flags: VnetHeader::NEEDS_CSUM,
            gso_type,
            hdr_len: 0,
            gso_size: size,
            csum_start: transport as u16,
            csum_offset: if tcp { 16 } else { 6 },
        };
        let mut partial = Vec::new();
        split(&vnet, unit.as_slice(), true, &mut |packet| partial.push(packet)).expect("a good unit");
        let mut complete = Vec::new();
        split(&vnet, unit.as_slice(), false, &mut |packet| complete.push(packet)).expect("a good unit");
        prop_assert_eq!(partial.len(), length.div_ceil(usize::from(size)));
        prop_assert_eq!(partial.len(), complete.len());
        let mut at = 0;
        for (i, (partial, complete)) in partial.iter_mut().zip(&complete).enumerate() {
            let bytes = complete.as_slice();
            let headers = Headers::parse(bytes).expect("an IP packet");
            prop_assert_eq!(headers.end, bytes.len());
            prop_assert!(verifies(bytes, &headers));
            prop_assert!(is_v6 || sum(&bytes[..transport]) == 0xffff);
            prop_assert!(is_v6 || bytes[4..6] == id.wrapping_add(i as u16).to_be_bytes());
            prop_assert_eq!(&bytes[header_len..], &spec.payload[at..(at + usize::from(size)).min(length)]);
            if tcp {
                prop_assert_eq!(&bytes[transport + 4..transport + 8], &(1000 + at as u32).to_be_bytes());
                let mut expected = flags;
                if i > 0 { expected &= !TCP_CWR }
                if at + usize::from(size) < length { expected &= !(TCP_PSH | TCP_FIN) }
                prop_assert_eq!(bytes[transport + 13], expected);
            }
            at += bytes.len() - header_len;
            prop_assert!(partial.checksum_partial);
            prop_assert!(complete_checksum(partial));
            prop_assert_eq!(partial.as_slice(), bytes);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        vnet in any::<[u8; 10]>(),
        mut unit in proptest::collection::vec(any::<u8>(), 0..200),
        ip in 0u8..4,
        protocol in 0usize..6,
        typical in any::<bool>(),
    ) {
        // Mostly something that looks like IP, so that the later checks are reached.
        if let Some(first) = unit.first_mut() {
            *first = [0x45, 0x60, 0x4f, *first][usize::from(ip)];
        }
        let at = if ip == 1 { 6 } else { 9 };
        if unit.len() > at {
            unit[at] = [6, 17, 44, 0, 60, 43][protocol];
        }
        let mut vnet = VnetHeader::from_bytes(&vnet);
        if typical {
            vnet.flags = 1;
            vnet.gso_type = [1, 4, 5, 0, 0x81, 0x84][protocol];
            vnet.csum_start = if ip == 1 { 40 } else { 20 };
            vnet.csum_offset = if vnet.gso_type == 5 { 6 } else { 16 };
        }
        let mut packets = Vec::new();
        let count = split(&vnet, &unit, true, &mut |packet| packets.push(packet)).unwrap_or(0);
        prop_assert_eq!(count, packets.len());
        let mut partial = PacketBuf::copy_from(&unit);
        partial.checksum_partial = true;
        packets.push(partial);
        packets.push(PacketBuf::copy_from(&unit));
        let mut joiner = Joiner::new();
        joiner.plan(&packets, OFFLOADS);
        let joined: usize = joiner.units().iter().map(Unit::count).sum();
        prop_assert_eq!(joined, packets.len());
        for unit in joiner.units() {
            let _ = unit.head(&packets);
        }
        for packet in &mut packets {
            let _ = Head::single(packet);
            complete_checksum(packet);
        }
    }
}
