//! The fuzz targets as plain functions: any bytes in, a panic if something is wrong.
//!
//! `cargo fuzz run NAME --features libfuzzer` explores one on a nightly compiler; `cargo test` replays the committed
//! corpora on any; `cargo run --release --example random -- SECONDS` mutates the corpora without a fuzzer.

mod model;

pub use model::{bond, bond_hostile};

use fairspan_core::ip::{Header, Version, checksum, ecn, fragment, icmp, mss};
use fairspan_core::record::replay;
use fairspan_core::wire::envelope::Envelope;
use fairspan_core::wire::marker::Control;
use fairspan_sim::scenario::File;

/// A target and its name.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: [Target; 7] = [
    ("envelope", envelope),
    ("marker", marker),
    ("ip", ip),
    ("record", record),
    ("bond", bond),
    ("bond_hostile", bond_hostile),
    ("scenario", scenario),
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
