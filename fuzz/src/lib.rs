//! The fuzz targets as plain functions: any bytes in, a panic if something is wrong.
//!
//! `cargo fuzz run NAME --features libfuzzer` explores one on a nightly compiler; `cargo test` replays the committed
//! corpora on any; `cargo run --profile fuzz --example random -- SECONDS` mutates the corpora without a fuzzer.

mod arq;
mod model;
mod ring;
mod trace;

pub use arq::arq;
pub use model::{bond, bond_hostile};
pub use ring::{ring_control, ring_node};
pub use trace::{capture, headers, packed};

use fairspan_core::ip::{Header, Version, checksum, ecn, fragment, icmp, mss};
use fairspan_core::lacp::{Event, Lacp, Lacpdu, Pdu, PortInfo, PortLink, State};
use fairspan_core::record::replay;
use fairspan_core::ring::checksum::Crc32c;
use fairspan_core::select::ieee8023ad::{self, AdSelect, LacpRate};
use fairspan_core::select::{Frame, Layer, LinkState, Links, Select, Selector, Settings};
use fairspan_core::units::{ChannelId, Rate, Span, Time};
use fairspan_core::wire::envelope::Envelope;
use fairspan_core::wire::invitation::{Invitation, VERSION};
use fairspan_core::wire::mac::Mac;
use fairspan_core::wire::marker::Control;
use fairspan_sim::scenario::File;
use std::collections::BTreeSet;

/// A target and its name.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: [Target; 16] = [
    ("envelope", envelope),
    ("marker", marker),
    ("ip", ip),
    ("record", record),
    ("bond", bond),
    ("bond_hostile", bond_hostile),
    ("scenario", scenario),
    ("lacp", lacp),
    ("select", select),
    ("ring_control", ring_control),
    ("ring_node", ring_node),
    ("arq", arq),
    ("capture", capture),
    ("packed", packed),
    ("headers", headers),
    ("invitation", invitation),
];

/// The envelope's decoder: what decodes must encode to bytes that decode to the same.
pub fn envelope(data: &[u8]) {
    if let Ok(envelope) = Envelope::decode(data) {
        let head = envelope.encode();
        assert_eq!(head.len(), envelope.message.head_len());
        assert!(head.len() <= data.len());
        let mut again = head.as_slice().to_vec();
        again.extend_from_slice(&data[head.len()..]); // a probe's size counts the padding
        assert_eq!(Envelope::decode(&again), Ok(envelope));
    }
}

/// The stripe's messages: what decodes must encode to bytes that decode to the same.
pub fn marker(data: &[u8]) {
    if let Ok(control) = Control::decode(data) {
        let mut bytes = Vec::new();
        control.encode(&mut bytes);
        assert_eq!(Control::decode(&bytes), Ok(control));
    }
}

/// An invitation: as text; and as bytes to which length and checksum are added, so that all behind these is reached. What decodes must
/// encode to a word that decodes to the same.
pub fn invitation(data: &[u8]) {
    let text = core::str::from_utf8(data).ok().and_then(|text| Invitation::decode(text).ok());
    let mut bytes = vec![0; 2];
    bytes.extend_from_slice(data);
    let len = (bytes.len() + 4) as u16;
    bytes[..2].copy_from_slice(&len.to_be_bytes());
    let sum = Crc32c::new().with(&bytes).sum();
    bytes.extend_from_slice(&sum.to_be_bytes());
    for invitation in
        text.into_iter().chain((1..=VERSION).filter_map(|version| Invitation::from_bytes(version, &bytes).ok()))
    {
        let word = invitation.encode().expect("what was read can be written");
        assert_eq!(Invitation::decode(&word), Ok(invitation));
    }
}

/// A system of LACP with three ports against any partner. Steps of a byte: port in its two lowest bits (3: the clock moves
/// on), then what: a LACPDU of the next 42 bytes that knows the port or not, a frame of the bytes up to the next step's
/// length, a link that changes, a port that leaves, a marker.
pub fn lacp(data: &[u8]) {
    let Some((choice, mut rest)) = data.split_first() else { return };
    let mut config = ieee8023ad::Config::default();
    config.ad_select = [AdSelect::Stable, AdSelect::Bandwidth, AdSelect::Count][usize::from(choice % 3)];
    config.lacp_rate = if choice & 4 == 0 { LacpRate::Fast } else { LacpRate::Slow };
    config.lacp_active = choice & 8 == 0;
    config.min_links = u16::from(choice >> 6);
    let mut system = Lacp::new(&config, Mac([2, 0, 0, 0, 0, 1]));
    let (mut now, mut asked, mut told) = (Time::ZERO, BTreeSet::new(), BTreeSet::new());
    while let [step, after @ ..] = rest {
        rest = after;
        let port = ChannelId(step & 3);
        match step >> 2 {
            _ if port == ChannelId(3) => now += Span::from_millis(u64::from(step >> 2) * u64::from(step >> 2)),
            kind @ 0..16 => {
                let Some((bytes, after)) = rest.split_at_checked(42) else { break };
                rest = after;
                let word = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
                let info = |at: usize| PortInfo {
                    system_priority: word(at),
                    system: Mac([2, 0, 0, 0, 0, bytes[at + 2]]),
                    key: word(at + 3),
                    port_priority: word(at + 5),
                    port: word(at + 7),
                    state: State(bytes[at + 9]),
                };
                let known = system.port(port).filter(|_| kind < 12).map(|port| port.actor);
                let pdu = Lacpdu { actor: info(0), partner: known.unwrap_or(info(10)), collector_max_delay: word(20) };
                let _ = system.handle_pdu(now, port, &Pdu::Lacp(pdu).encode(Mac::ZERO));
            }
            16..32 => {
                let [len, after @ ..] = rest else { break };
                let (bytes, after) = after.split_at(usize::from(*len).min(after.len()));
                rest = after;
                if let Ok(pdu) = Pdu::decode(bytes) {
                    assert_eq!(Pdu::decode(&pdu.encode(Mac::ZERO)), Ok(pdu));
                }
                let _ = system.handle_pdu(now, port, bytes);
            }
            kind @ 32..56 => {
                let rate = [None, Some(Rate::from_mbit(100)), Some(Rate::from_mbit(1000))][usize::from(kind % 3)];
                let link = PortLink { up: kind & 8 != 0, rate, full_duplex: kind % 4 != 0, mac: Mac::ZERO };
                system.set_port(now, port, link);
            }
            56 => system.remove_port(now, port),
            _ => asked.extend(system.ask(now, port, Span::from_secs(1))),
        }
        system.handle_timeout(now);
        while system.poll_transmit().is_some() {}
        while let Some(event) = system.poll_event() {
            if let Event::MarkerAnswered { transaction, .. } | Event::MarkerLost { transaction, .. } = event {
                assert!(asked.contains(&transaction) && told.insert(transaction), "told once, of what was asked");
            }
        }
        assert!(system.poll_timeout().is_none_or(|due| due > now), "what is due was done");
        let status = system.status();
        assert_eq!(system.distributing().bits() & !system.collecting().bits(), 0);
        for link in system.collecting().iter() {
            assert!(status.ports.iter().any(|port| port.port == link && port.up), "{status}");
        }
    }
}

/// Everything that looks into or changes an IP packet. The first two bytes choose an MTU.
pub fn ip(data: &[u8]) {
    let [high, low, bytes @ ..] = data else { return };
    let mtu = usize::from(u16::from_be_bytes([*high, *low]));
    let Ok(header) = Header::parse(bytes, bytes.len()) else { return };
    assert!(header.total <= bytes.len() && header.payload <= bytes.len());
    let mut packet = bytes[..header.total].to_vec();
    let _ = header.ports(&packet);
    let sum_was_right = header.version == Version::V4 && checksum::of(&packet[..header.payload]) == 0;
    for field in 0..4 {
        ecn::set(&mut packet, header.version, field);
        let again = Header::parse(&packet, packet.len()).expect("still a packet");
        assert_eq!(again.tos & 3, field);
        if sum_was_right {
            assert_eq!(checksum::of(&packet[..header.payload]), 0);
        }
    }
    if mss::is_syn(&header, &packet) {
        mss::clamp(&header, &mut packet, mtu);
        assert!(!mss::clamp(&header, &mut packet, mtu), "clamping twice changes nothing");
    }
    if let Some(error) = icmp::too_big(&header, &packet, mtu, None, None) {
        let parsed = Header::parse(&error, error.len()).expect("an error is a packet");
        assert_eq!(parsed.total, error.len());
        assert!(icmp::too_big(&parsed, &error, mtu, None, None).is_none(), "an error about an error");
    }
    if fragment::allowed(&header, &packet) {
        let mut length = 0;
        let done = fragment::split(&header, &packet, mtu, |part| {
            assert!(part.len() <= mtu);
            let parsed = Header::parse(part, part.len()).expect("a fragment is a packet");
            assert_eq!(checksum::of(&part[..parsed.payload]), 0);
            length += parsed.total - parsed.payload;
        });
        assert!(!done || length == header.total - header.payload);
    }
}

/// The decoder of recordings, and the bond behind it.
pub fn record(data: &[u8]) {
    let first = replay(data, |_| ());
    assert_eq!(first, replay(data, |_| ()), "the same recording gave two results");
}

/// The scenario reader: what it takes it takes twice alike, in time and memory that the text's length bounds, and what
/// it refuses it refuses with a place in the text.
pub fn scenario(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // Copies are not what is looked for here: a million nodes only take time.
    if text.as_bytes().windows(4).any(|four| four.iter().all(u8::is_ascii_digit)) {
        return;
    }
    let mut files = |name: &str| match name.len() % 3 {
        0 => Err("no such file".to_owned()),
        1 => Ok(b"1\n3\n3\n9\n".to_vec()),
        _ => Ok(b"0,100\n1.5,200\n".to_vec()),
    };
    match File::parse("fuzz.toml", text, &mut files) {
        Ok(file) => {
            let runs = file.count();
            for number in [0, runs - 1] {
                let one = file.run(number).expect("a run below the count");
                let same = file.run(number).expect("a run below the count");
                assert_eq!(format!("{one:?}"), format!("{same:?}"));
            }
            assert!(file.run(runs).is_none());
        }
        Err(errors) => {
            assert!(!errors.is_empty() && errors.len() <= 100);
            let lines = text.lines().count().max(1) + 1;
            for error in errors {
                assert!((1..=lines).contains(&(error.line as usize)), "{error}");
                assert!(!error.to_string().is_empty());
            }
        }
    }
}

/// Frames through every selector while links come and go: it chooses among the usable links, one or several where there is one.
/// The first byte chooses the policy; then a byte above 223 sets which links are usable (the next byte), one above 191 lets
/// time pass, any other is before a frame's length, and its first bit says what the frame begins with.
pub fn select(data: &[u8]) {
    let [policy, rest @ ..] = data else { return };
    let mut rest = rest;
    let specs = fairspan_core::select::POLICIES;
    let hashes = ["layer2", "layer2+3", "layer3+4", "encap2+3", "encap3+4", "vlan+srcmac"];
    let policy = usize::from(*policy) % (specs.len() + hashes.len());
    let text = match specs.get(policy) {
        Some(spec) => spec.name.to_string(),
        None => format!("balance-xor:{}", hashes[policy - specs.len()]),
    };
    let settings: Settings = text.parse().expect("a policy of the table");
    let mut links = Links::new([LinkState { rate: Some(Rate::from_mbit(10)), ..LinkState::default() }; 8]);
    let mut now = Time::ZERO;
    let mut selector = Selector::new(&settings, &links, 1).expect("its defaults work");
    while let [what, after @ ..] = rest {
        rest = after;
        match (what, rest) {
            (224.., [set, after @ ..]) => {
                rest = after;
                for link in 0..8 {
                    let state = *links.get(ChannelId(link)).expect("a link");
                    links.set(ChannelId(link), LinkState { usable: set >> link & 1 == 1, ..state });
                }
                selector.on_links(now, &links);
            }
            (192.., _) => now += Span::from_millis(1 << (what & 15)),
            (_, []) => {}
            (_, [length, after @ ..]) => {
                let (bytes, after) = after.split_at(usize::from(*length).min(after.len()));
                rest = after;
                let layer = if what & 1 == 0 { Layer::Ethernet } else { Layer::Ip };
                let frame = Frame { bytes, len: bytes.len() + usize::from(what & 2) * 500, layer };
                let chosen = selector.select(now, &frame, &links);
                assert_eq!(chosen.bits() & !links.usable().bits(), 0, "{text}");
                assert_eq!(chosen.is_empty(), links.usable().is_empty(), "{text}");
            }
        }
        if selector.poll_timeout().is_some_and(|due| due <= now) {
            selector.handle_timeout(now, &links);
            assert!(selector.poll_timeout().is_none_or(|due| due > now), "{text}: what is due was done");
        }
    }
}
