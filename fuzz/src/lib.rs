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

/// A target and its name.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: [Target; 6] = [
    ("envelope", envelope),
    ("marker", marker),
    ("ip", ip),
    ("record", record),
    ("bond", bond),
    ("bond_hostile", bond_hostile),
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
