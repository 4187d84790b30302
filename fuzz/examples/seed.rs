//! Writes the first inputs of each corpus.

use fairspan_core::arq::Header;
use fairspan_core::bond::{ChannelConfig, Config, Link};
use fairspan_core::causal::ChannelSet;
use fairspan_core::compress::{Coding, Compressor, Form, Standing};
use fairspan_core::ip::checksum;
use fairspan_core::lacp::{self, Pdu};
use fairspan_core::record::Recorder;
use fairspan_core::ring::algorithm::ALGORITHMS;
use fairspan_core::ring::control::{Keepalive, Link as RingLink, Report, Reservation};
use fairspan_core::ring::{Class, NodeId};
use fairspan_core::rng::Rng;
use fairspan_core::select::POLICIES;
use fairspan_core::units::{Bytes, ChannelId, Rate, Span, Time};
use fairspan_core::wire::envelope::{Compressed, Echo, Envelope, Extended, Feedback, Heartbeat, Message, Probe};
use fairspan_core::wire::invitation::{Host, Invitation, Place};
use fairspan_core::wire::mac::Mac;
use fairspan_core::wire::marker::{Ack, Control, Marker, Plan};
use fairspan_core::wire::parity::{Mended, Parity, Row};
use fairspan_core::wire::stamp::Stamp;
use std::fs;
use std::io::Write as _;
use std::path::Path;

fn write(target: &str, name: &str, data: &[u8]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    fs::create_dir_all(&folder).expect("to make the folder");
    fs::write(folder.join(name), data).expect("to write the file");
}

const MARKER: lacp::Marker = lacp::Marker { port: 1, system: Mac([2, 0, 0, 0, 0, 1]), transaction: 1 };

fn udp() -> Vec<u8> {
    vec![
        0x45, 0, 0, 32, 0, 0, 0x40, 0, 64, 17, 0x26, 0xcb, 10, 0, 0, 1, 10, 0, 0, 2, 0, 7, 0, 9, 0, 12, 0, 0, 1, 2, 3,
        4,
    ]
}

fn main() {
    envelopes();
    stripe_control();
    compressed_headers();
    packets();
    recordings();
    random_bonds();
    aggregation();
    selections();
    rings();
    reliable_flows();
    captures();
    link_headers();
    invitations();
}

/// Words, and what is in them without length and checksum.
fn invitations() {
    let place = |text: &str| Place { host: Host::Address(text.parse().expect("an address")), port: 51900 };
    let least = Invitation {
        hub_key: [1; 32],
        secret: [2; 16],
        expires: 1_800_000_000,
        hub: "10.77.0.1".parse().expect("an address"),
        site: "10.77.0.2".parse().expect("an address"),
        prefix: 24,
        networks: Vec::new(),
        places: vec![place("203.0.113.1")],
        name: "site1".into(),
        tcp_port: None,
    };
    let tcp = Invitation { tcp_port: std::num::NonZeroU16::new(443), ..least.clone() };
    let six = Invitation {
        hub: "fd77::1".parse().expect("an address"),
        site: "fd77::2".parse().expect("an address"),
        prefix: 64,
        places: vec![place("2001:db8::1"), Place { host: Host::Name("hub.example.net".into()), port: 443 }],
        networks: vec![("0.0.0.0".parse().expect("an address"), 0), ("fd00::".parse().expect("an address"), 8)],
        ..least.clone()
    };
    for (name, invitation) in [("least", &least), ("six", &six), ("tcp", &tcp)] {
        let word = invitation.encode().expect("a word");
        write("invitation", &format!("word-{name}"), word.as_bytes());
        write("invitation", &format!("cut-{name}"), &word.as_bytes()[..word.len() - 9]);
        write("invitation", &format!("bytes-{name}"), &content(invitation));
    }
    write("invitation", "other-version", b"fairspan3AGQAAAA");
}

/// What is between the length and the checksum.
fn content(invitation: &Invitation) -> Vec<u8> {
    let word = invitation.encode().expect("a word");
    let value =
        |c: u8| b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".iter().position(|d| *d == c);
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for c in word.bytes().skip("fairspan1".len()) {
        bits = bits << 6 | value(c).expect("a character of the alphabet") as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    bytes[2..bytes.len() - 4].to_vec()
}

/// A message of each kind, alone and together.
fn envelopes() {
    let heartbeat =
        Heartbeat { channel: ChannelId(1), epoch: 5, number: 2, high: 3, deaf: 4, using: 3, ..Heartbeat::default() };
    let echo = Echo { channel: ChannelId(1), train: true, token: 1, clock: 2 };
    let probe = Probe { channel: ChannelId(1), token: 1, size: 12 };
    let feedback =
        Feedback { channel: ChannelId(1), of: 5, highest: 70, packets: 60, set: 0xff, ..Feedback::default() };
    let kept = |again| Message::Kept { number: 1, bucket: 7, sequence: 1, bond: 9, stamp: Stamp(6), again };
    let compressed = |form| Compressed { number: 1, sequence: 1, bond: 9, stamp: Stamp(6), form, reference: 0x0405 };
    let messages = [
        ("ordered", Message::Ordered { bucket: 7, sequence: 1, bond: 9 }),
        ("duplicate", Message::Duplicate { bond: 9 }),
        ("plain", Message::Plain),
        ("striped", Message::Striped),
        ("heartbeat", Message::Heartbeat(heartbeat)),
        ("echo-request", Message::EchoRequest(echo)),
        ("echo-reply", Message::EchoReply { echo, arrived: 0x0102_0304_0506_0708 }),
        ("probe", Message::Probe(probe)),
        ("probe-answer", Message::ProbeAnswer(probe)),
        ("stripe-control", Message::StripeControl),
        ("counted", Message::Counted { number: 1 }),
        ("kept", kept(None)),
        ("again", kept(Some(5))),
        ("feedback", Message::Feedback(feedback)),
        ("compressed", Message::Extended(Extended::Compressed(compressed(Form::Coded)))),
        ("founds", Message::Extended(Extended::Compressed(compressed(Form::Founds { v6: false, udp: false })))),
        ("unknown", Message::Extended(Extended::Unknown { reference: 0x0405 })),
        ("row", Message::Parity(Parity::Row(Row { number: 1, row: 0, packets: 1, bucket: 7, first: 2 }))),
        ("mended", Message::Parity(Parity::Mended(Mended { of: 5, bucket: 7, first: 1, places: 3 }))),
    ];
    let mut all = vec![];
    for (name, message) in messages {
        let head = Envelope { tag: 5, message }.encode();
        write("envelope", name, head.as_slice());
        let mut hostile = vec![0, head.len() as u8, 0x41, 10];
        hostile.extend_from_slice(head.as_slice());
        write("bond_hostile", name, &hostile);
        all.extend_from_slice(&hostile[1..]);
    }
    // Packets of a bucket that a row announced, and a row of the next: the packet itself behind its length and number.
    let row = |first| Message::Parity(Parity::Row(Row { number: 1, row: 0, packets: 1, bucket: 7, first }));
    let urgent = |sequence| Message::Kept {
        number: sequence,
        bucket: 7,
        sequence,
        bond: sequence,
        stamp: Stamp::NONE,
        again: None,
    };
    let coded = [&[0, 35, 0, 0, 3][..], &udp()].concat();
    let mut mends = vec![6];
    for (message, content) in [(row(1), &coded[..]), (urgent(2), &udp()), (row(3), &coded)] {
        let head = Envelope { tag: 5, message }.encode();
        mends.extend_from_slice(&[(head.len() + content.len()) as u8, 1, 10]);
        mends.extend_from_slice(head.as_slice());
        mends.extend_from_slice(content);
    }
    write("bond_hostile", "rebuilt", &mends);
    for mode in [0, 1, 2, 3, 4, 6, 131, 195] {
        let mut data = vec![mode];
        data.extend_from_slice(&all);
        write("bond_hostile", &format!("all-{mode}"), &data);
    }
}

/// A reference that is founded, and packets that are coded against it and renew it, in frames to a bond of mode `reliable`.
fn compressed_headers() {
    let mut segment = vec![0x45, 0, 0, 62, 0, 7, 0x40, 0, 64, 6, 0, 0, 10, 1, 0, 1, 10, 2, 0, 1, 4, 1, 0x13, 0x89];
    segment.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x80, 0x10, 1, 245, 0, 0, 0, 0, 1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
    let sum = checksum::of(&segment[..20]);
    segment[10..12].copy_from_slice(&sum.to_be_bytes());
    segment.extend([9; 10]);
    let mut compressor = Compressor::new(1);
    // Mode `reliable`, with compression.
    let mut data = vec![13];
    for n in 0..40u8 {
        let now = Time::from_millis(10 * u64::from(n));
        let standing = Standing { bucket: 3, sequence: n.into() };
        let Coding::Coded { coded, awaits } = compressor.code(now, &segment, segment.len(), standing) else { continue };
        if let Some(place) = awaits {
            compressor.sent(ChannelId(1), n.into(), place);
            compressor.settle(ChannelId(1), n.into(), true);
        }
        let (form, reference) = (coded.form, coded.reference);
        let (number, sequence, bond) = (n.into(), n.into(), n.into());
        let head = Compressed { number, sequence, bond, stamp: Stamp(6), form, reference };
        let message = Message::Extended(Extended::Compressed(head));
        let frame =
            [Envelope { tag: 5, message }.encode().as_slice(), coded.as_slice(), &segment[coded.skip..]].concat();
        data.extend([frame.len() as u8, 1, 10]);
        data.extend(frame);
    }
    write("bond_hostile", "compressed-flow", &data);
}

/// Markers, plans and acknowledgements.
fn stripe_control() {
    let set = ChannelSet::of(&[3000, 1500], Bytes::new(1500)).expect("a set");
    let marker = Marker {
        epoch: 1,
        channel: ChannelId(1),
        generation: 2,
        round: 9,
        deficit: 1200,
        quantum: 1500,
        passed: false,
        ask: true,
        sent_bytes: 5,
        sent_packets: 6,
        grant: None,
    };
    let plan = Plan { epoch: 1, channel: ChannelId(0), generation: 2, base: 1, start: 12, set, dead: 4 };
    let ack =
        Ack { epoch: 1, channel: ChannelId(0), generation: 2, applied: 1, seen: 3, reset: false, grant: Some((5, 6)) };
    let controls =
        [("marker", Control::Marker(marker)), ("plan", Control::Plan(Box::new(plan))), ("ack", Control::Ack(ack))];
    for (name, control) in controls {
        let mut data = vec![];
        control.encode(&mut data);
        write("marker", name, &data);
        let mut hostile = vec![3, data.len() as u8 + 2, 1, 10, 0x2a, 0];
        hostile.extend_from_slice(&data);
        write("bond_hostile", name, &hostile);
    }
}

/// IP packets of each kind.
fn packets() {
    let mtu_and = |name: &str, packet: &[u8]| {
        let mut data = vec![0, 28];
        data.extend_from_slice(packet);
        write("ip", name, &data);
    };
    mtu_and("udp", &udp());
    let mut options = udp();
    options[0] = 0x46;
    mtu_and("options", &options);
    let mut free = udp();
    free[6] = 0;
    mtu_and("fragment", &free);
    let mut syn = udp()[..20].to_vec();
    (syn[3], syn[9]) = (44, 6);
    syn.extend_from_slice(&[0, 1, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0x60, 2, 255, 255, 0, 0, 0, 0, 2, 4, 5, 180]);
    mtu_and("syn", &syn);
    let mut six = vec![0x60, 0, 0, 0, 0, 16, 0, 64];
    six.extend_from_slice(&[0xfd; 32]);
    six.extend_from_slice(&[44, 0, 1, 4, 0, 0, 0, 0, 17, 0, 0, 1, 0, 0, 0, 9]);
    mtu_and("six", &six);
}

/// Recordings of bonds without and with channels.
fn recordings() {
    for (name, channels) in [("none", 0), ("one", 1), ("three", 3)] {
        let mut config = Config::default();
        config.channels = vec![ChannelConfig::default(); channels];
        let mut now = Time::from_millis(1);
        let mut bond = Recorder::<Vec<u8>, Vec<u8>>::new(config, now, 7, Some(vec![])).expect("valid settings");
        for step in 0..12u8 {
            if step < 3 {
                bond.set_link(now, ChannelId(step), Link::Up);
            }
            bond.handle_host(now, udp());
            while bond.poll_transmit(now).is_some() {}
            while bond.poll_event().is_some() {}
            now += Span::from_millis(40);
            bond.handle_timeout(now);
        }
        write("record", name, &bond.finish().expect("the recording"));
    }
}

/// Random steps of a bond in each mode.
fn random_bonds() {
    let mut rng = Rng::new(1);
    for mode in [0u8, 1, 2, 3, 4, 5, 128, 131, 133, 195, 250] {
        let mut data = vec![mode];
        data.extend((0..600).map(|_| rng.next_u64() as u8));
        write("bond", &format!("random-{mode}"), &data);
    }
}

/// Three ports up at 100 Mbit/s, the clock, then LACPDUs of one or two partners and frames as they are.
fn aggregation() {
    let up = |port: u8| 40 << 2 | port;
    let information = |system: u8, state: u8| [0, 1, system, 0, 7, 0, 1, 0, 1, state];
    for (name, choice, systems) in [("one", 0u8, [9, 9, 9]), ("two", 1, [9, 8, 9]), ("itself", 6, [1, 9, 9])] {
        let mut data = vec![choice, up(0), up(1), up(2)];
        for state in [0x07, 0x07, 0x0f, 0x1f, 0x3f, 0x37] {
            for (port, system) in (0..).zip(systems) {
                data.push(port);
                data.extend(information(system, state));
                data.extend([0; 32]);
            }
            data.extend([60 << 2, 47 << 2 | 3]);
        }
        for pdu in [Pdu::Marker(MARKER), Pdu::MarkerResponse(MARKER)] {
            let frame = pdu.encode(Mac::ZERO);
            data.extend([16 << 2, frame.len() as u8]);
            data.extend_from_slice(&frame);
        }
        data.extend([32 << 2 | 1, 47 << 2 | 3, up(1), 56 << 2, 47 << 2 | 3, 47 << 2 | 3]);
        write("lacp", name, &data);
    }
}

/// Packets that arrive or are lost, their acknowledgments, and frames of nobody's, for each repair, trigger and parity.
fn reliable_flows() {
    let kinds = [
        ("published", 0x40, 21),
        ("selective", 0xc5, 18),
        ("late", 0xb7, 22),
        ("timer", 0x2c, 21),
        ("parity", 0x45, 50),
    ];
    for (name, choice, start) in kinds {
        let mut data = vec![choice, start];
        for round in 0..12_u8 {
            data.extend([12 << 2; 6]);
            data.extend([26 << 2, 27 << 2, (25 + round % 2) << 2, 28 << 2, 26 << 2, 29 << 2]);
            data.extend([57 << 2, 45 << 2, 46 << 2, (44 + round % 3) << 2]);
        }
        for kind in 1..=5 {
            let mut frame = [0; Header::REQUEST_LENGTH];
            // Parity of three packets.
            (frame[0], frame[3]) = (kind, if kind == 5 { 3 << 1 | 1 } else { 1 });
            frame[4..8].copy_from_slice(&(u32::MAX - 10).to_be_bytes());
            if kind == 4 {
                frame[36..42].copy_from_slice(&[0xff, 0xff, 0xff, 0xf6, 0, 3]);
            }
            data.push(kind % 4);
            data.extend(frame);
        }
        data.extend([0, 4, 0, 0, 0, 9]);
        data.extend([63 << 2 | 3; 20]);
        data.extend([12 << 2, 26 << 2, 26 << 2, 45 << 2]);
        write("arq", name, &data);
    }
}

/// Keepalives of both neighbours, reports, messages of fairness and packets, for each algorithm and protection.
fn rings() {
    let bodies = |instance: u32, number: u32| {
        let mut all = vec![];
        for (neighbour, east) in [(2, false), (8, true)] {
            let mut frame = vec![];
            let (node, nominal) = (NodeId::new(neighbour).expect("a number"), Rate::from_mbit(100));
            Keepalive { node, nodes: 8, east, instance, number, heard: None, settings: 0, nominal }.encode(&mut frame);
            all.push((usize::from(neighbour == 8), 2, neighbour, frame[8..].to_vec()));
            let mut frame = vec![];
            let link = RingLink { up: true, heard: Some(instance), capacity: nominal };
            let report = Report {
                node,
                nodes: 8,
                ttl: 7,
                instance,
                sequence: u64::from(number),
                links: [link, link],
                weight: 1000,
                reservations: vec![Reservation { to: NodeId::new(3), class: Class::A, rate: Rate::from_mbit(5) }],
                announcement: vec![1, 2, 3],
            };
            report.encode(&mut frame);
            all.push((usize::from(neighbour == 8), 1, neighbour, frame[8..].to_vec()));
        }
        // Against the data: ringlet 0's comes from the east.
        all.push((0, 0, 2, [&[0, 0x12, 1, 8, 8, 0, 0, 0, number as u8], [0x40; 16].as_slice()].concat()));
        all
    };
    for (_, kind, node, body) in bodies(7, 1) {
        write("ring_control", &format!("kind-{kind}-node-{node}"), &[&[node], body.as_slice()].concat());
    }
    write("ring_control", "head", &[0x11, 0x0c, 5, 3, 6, 0]);
    for algorithm in 0..ALGORITHMS.len() as u8 {
        for choice in 0..4 {
            let mut data = vec![algorithm, choice];
            for number in 1..6 {
                for (side, kind, node, body) in bodies(7, number) {
                    data.extend([kind << 1 | side as u8, node, body.len() as u8]);
                    data.extend(body);
                }
                data.extend([96 << 1, 116 << 1, 116 << 1 | 1, 100 << 1]);
                data.extend([90 << 1, 3, 80 << 1 | 1, 6, 75 << 1, 0x14, 99 << 1]);
                data.extend([50 << 1 | 1, 0x11, 0x0c, 5, 8, 4, 0, 60 << 1 | 1, 0x11, 0x0c, 5, 8, 1, 0, 98 << 1]);
            }
            data.extend([113 << 1, 100 << 1, 113 << 1 | 1, 100 << 1, 112 << 1, 125 << 1, 40, 111 << 1]);
            write("ring_node", &format!("algorithm-{algorithm}-{choice}"), &data);
        }
    }
}

/// Frames of several kinds, a change of links and a pause, for each policy.
fn selections() {
    let ethernet = |kind: u16, packet: &[u8]| {
        let kind = kind.to_be_bytes();
        [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, kind[0], kind[1]], packet].concat()
    };
    let within = |protocol: u8, payload: &[u8]| {
        let mut packet = udp()[..20].to_vec();
        packet[9] = protocol;
        [packet.as_slice(), payload].concat()
    };
    let ipv6 =
        [&[0x60, 0, 0, 0, 0, 16, 60, 64], [7; 32].as_slice(), &[17, 0, 1, 4, 0, 0, 0, 0], &udp()[20..28]].concat();
    let plain = ethernet(0x0800, &udp());
    let frames = [
        plain.clone(),
        ethernet(0x86dd, &ipv6),
        ethernet(0x0800, &within(2, &[0; 8])),
        ethernet(0x0800, &within(1, &[&[3, 1, 0, 0, 0, 0, 0, 0], udp().as_slice()].concat())),
        ethernet(0x0800, &within(4, &udp())),
        ethernet(0x0800, &within(47, &[&[0xb0, 0, 0x65, 0x58], [0; 12].as_slice(), &plain].concat())),
        ethernet(
            0x0800,
            &within(47, &[&[0x30, 1, 0x88, 0x0b], [0; 8].as_slice(), &[0xff, 3, 0, 0x21], &udp()].concat()),
        ),
        ethernet(0x8100, &[&[0, 5, 0x88, 0xa8, 0, 6, 8, 0], udp().as_slice()].concat()),
        ethernet(0x8864, &[&[0x11, 0, 0, 1, 0, 34, 0, 0x21], udp().as_slice()].concat()),
        ethernet(0x4305, &[&[0x40, 15, 9, 1, 2, 0, 0, 0, 0, 3], plain.as_slice()].concat()),
        ethernet(0x88ca, &[0; 20]),
    ];
    for policy in 0..POLICIES.len() as u8 + 6 {
        let mut data = vec![policy];
        for (n, frame) in frames.iter().enumerate() {
            data.extend([0, frame.len() as u8]);
            data.extend_from_slice(frame);
            data.extend([1, frame.len() as u8 - 14]);
            data.extend_from_slice(&frame[14..]);
            data.extend([[205, 195][n % 2], 224, (0xff_u16 >> (n % 9)) as u8]);
        }
        write("select", &format!("policy-{policy}"), &data);
    }
}

/// Ethernet, VLAN and IPv4 with UDP.
fn frame() -> Vec<u8> {
    [&[2; 12][..], &[0x81, 0, 0, 5, 0x08, 0], &udp()].concat()
}

/// Numbers of four bytes, and then bytes as they are, filled up to four.
fn words(big: bool, numbers: &[u32], bytes: &[u8]) -> Vec<u8> {
    let mut all: Vec<u8> =
        numbers.iter().flat_map(|number| if big { number.to_be_bytes() } else { number.to_le_bytes() }).collect();
    all.extend(bytes);
    all.resize(all.len().next_multiple_of(4), 0);
    all
}

fn pcap(big: bool, magic: u32) -> Vec<u8> {
    let version = if big { 0x0002_0004 } else { 0x0004_0002 };
    let mut file = words(big, &[magic, version, 0, 0, 65_535, 1], &[]);
    for n in 0..3 {
        let extra = if magic == 0xa1b2_cd34 { &[0; 8][..] } else { &[] };
        let length = frame().len() as u32;
        file.extend(words(big, &[n, 5, length, length + n], extra));
        file.extend(frame());
    }
    file
}

fn pcapng(big: bool) -> Vec<u8> {
    let block = |kind: u32, body: Vec<u8>| {
        let length = body.len() as u32 + 12;
        [words(big, &[kind, length], &body), words(big, &[length], &[])].concat()
    };
    let short = |number: u16| if big { number.to_be_bytes() } else { number.to_le_bytes() };
    let option =
        |code: u16, value: &[u8]| words(big, &[], &[&short(code)[..], &short(value.len() as u16), value].concat());
    let length = frame().len() as u32;
    let interface = [short(1), short(0)].concat();
    let options = [option(9, &[0x8a]), option(14, &[0; 8]), option(0, &[])].concat();
    [
        block(0x0a0d_0d0a, words(big, &[0x1a2b_3c4d, 0x0001_0000, u32::MAX, u32::MAX], &[])),
        block(1, [interface.clone(), words(big, &[0], &options)].concat()),
        block(1, [interface, words(big, &[20], &[])].concat()),
        block(3, words(big, &[length], &frame())),
        block(6, words(big, &[0, 1, 2, length, length], &frame())),
        block(6, words(big, &[1, 1, 2, length, length], &frame())),
        block(0x0bad, words(big, &[1, 2], &[])),
        block(2, words(big, &[0, 1, 2, length, length], &frame())),
    ]
    .concat()
}

fn erf() -> Vec<u8> {
    let record = |kind: u8, more: &[u8], rest: &[u8]| {
        let size = (16 + more.len() + rest.len()) as u16;
        let head = [&5_u64.to_le_bytes()[..], &[kind, 4], &size.to_be_bytes(), &[0, 0], &size.to_be_bytes()].concat();
        [&head, more, rest].concat()
    };
    let padded = [&[0, 0][..], &frame()].concat();
    [
        record(2, &[], &padded),
        record(0x82, &[0x83, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0], &padded),
        record(48, &[], &[]),
        record(22, &[], &udp()),
        record(1, &[], &[&[0xff, 3, 0, 0x21][..], &udp()].concat()),
    ]
    .concat()
}

/// Captures of each format, their format to be found out or given, and packed.
fn captures() {
    let tsh: Vec<u8> =
        (0..3_u8).flat_map(|n| [&[0x30, 0, 0, n, 1, 0, 0, n][..], &[udp(), vec![0; 4]].concat()].concat()).collect();
    let ita = b"# a comment\n0.5 1 2 80 1024 512\n1.5 10.0.0.1 10.0.0.2 7 9 0\nwrong\n2 2 1 1024 80 40\n".to_vec();
    let files = [
        ("pcap", 0, pcap(false, 0xa1b2_c3d4)),
        ("pcap-big", 0, pcap(true, 0xa1b2_3c4d)),
        ("pcap-modified", 0, pcap(false, 0xa1b2_cd34)),
        ("pcapng", 1, pcapng(false)),
        ("pcapng-big", 1, pcapng(true)),
        ("erf", 2, erf()),
        ("tsh", 3, tsh),
        ("ita", 4, ita),
    ];
    for (name, format, file) in files {
        // To be found out, a byte at a time; given, nine at a time.
        write("capture", name, &[&[7][..], &file].concat());
        write("capture", &format!("{name}-given"), &[&[64 + format][..], &file].concat());
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(&file).expect("memory");
        write("packed", &format!("{name}.gz"), &gzip.finish().expect("memory"));
        let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
        xz.write_all(&file).expect("memory");
        write("packed", &format!("{name}.xz"), &xz.finish().expect("memory"));
        let zstd = ruzstd::encoding::compress_to_vec(&file[..], ruzstd::encoding::CompressionLevel::Fastest);
        write("packed", &format!("{name}.zst"), &[&zstd[..], &zstd].concat());
    }
}

/// IP behind what links and tunnels put before it.
fn link_headers() {
    let inside = |protocol: u8, head: &[u8], inner: &[u8]| {
        let mut packet = udp()[..20].to_vec();
        packet[9] = protocol;
        [&packet, head, inner].concat()
    };
    let vxlan = [&[0, 9, 0x12, 0xb5, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 5, 0][..], &frame()].concat();
    let mut fragment = udp();
    (fragment[5], fragment[6]) = (9, 0x20);
    let mut later = fragment.clone();
    (later[6], later[7]) = (0, 4);
    let six = |next: u8, rest: &[u8]| [&[0x60, 0, 0, 0, 0, 40, next, 64][..], &[0xfd; 32], rest].concat();
    let packets = [
        udp(),
        fragment,
        later,
        inside(4, &[], &udp()),
        inside(47, &[0xb0, 0, 0x08, 0, 1, 1, 0, 0, 2, 2, 2, 2, 3, 3, 3, 3], &udp()),
        inside(47, &[0, 0, 0x65, 0x58], &frame()),
        inside(137, &[0, 1, 1, 64], &udp()),
        inside(17, &vxlan, &[]),
        six(17, &udp()[20..]),
        six(44, &[17, 0, 0, 1, 0, 0, 0, 9, 0, 7, 0, 9]),
        six(44, &[17, 0, 0, 8, 0, 0, 0, 9, 0, 0, 0, 0]),
        six(0, &[43, 0, 0, 0, 0, 0, 0, 0, 60, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2]),
        inside(41, &[], &six(17, &udp()[20..])),
    ];
    let ways: [(&str, u16, &[u8]); 12] = [
        ("raw", 101, &[]),
        ("null", 0, &[2, 0, 0, 0]),
        ("ethernet", 1, &[2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 0x08, 0]),
        ("six", 1, &[2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 0x86, 0xdd]),
        ("tags", 1, &[2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 0x08, 0]),
        ("labels", 1, &[2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 0x88, 0x47, 0, 1, 0, 64, 0, 2, 1, 64]),
        ("session", 1, &[2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 0x88, 0x64, 0x11, 0, 0, 7, 0, 40, 0, 0x21]),
        ("snap", 1, &[2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 0, 40, 0xaa, 0xaa, 3, 0, 0, 0, 0x08, 0]),
        ("cooked", 113, &[0, 0, 0, 1, 0, 6, 2, 2, 2, 2, 2, 2, 0, 0, 0x08, 0]),
        ("cooked-2", 276, &[0x08, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 6, 2, 2, 2, 2, 2, 2, 0, 0]),
        ("ppp", 9, &[0xff, 3, 0, 0x21]),
        ("hdlc", 104, &[0x0f, 0, 0x08, 0]),
    ];
    for (name, link_type, before) in ways {
        let mut data = link_type.to_be_bytes().to_vec();
        for packet in &packets {
            let frame = [before, packet].concat();
            data.push(frame.len() as u8);
            data.extend(frame);
        }
        write("headers", name, &data);
    }
}
