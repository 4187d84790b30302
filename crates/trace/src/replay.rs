//! The IP packets of a capture as sizes and instants: what a source replays.
//!
//! The size is the IP packet's own length field (IPv4 total length, IPv6 payload length and 40), found behind an Ethernet
//! header with up to four tags, a Linux cooked header, a loopback header, or none. Where the field says nothing (zero, as
//! large-receive offload leaves it, or less than the header), what is on the wire behind the link's header counts.
//! Packets of other protocols are left out and counted. Instants are relative to the first IP packet; a clock that steps
//! back stands still meanwhile.

use crate::capture::{Capture, CaptureError, LinkType};
use crate::link_type::network;
use fairspan_core::ip::{self, Version};
use fairspan_core::units::Span;

/// What a capture gives to replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replay {
    /// (since the first, IP bytes), in the capture's order.
    pub packets: Vec<(Span, u32)>,
    /// Packets that were not IP.
    pub others: u64,
    /// Packets whose time was before their predecessor's.
    pub backwards: u64,
    /// Why the rest could not be read.
    pub error: Option<CaptureError>,
}

impl Replay {
    /// The IP packets in the capture `data`.
    pub fn read(data: &[u8]) -> Result<Replay, CaptureError> {
        let mut replay = Replay::default();
        let mut first = None;
        let mut last = 0;
        for packet in Capture::new(data)? {
            let packet = match packet {
                Ok(packet) => packet,
                Err(error) => {
                    replay.error = Some(error);
                    break;
                }
            };
            let Some(size) = ip_length(packet.link_type, packet.bytes, packet.length) else {
                replay.others += 1;
                continue;
            };
            let first = *first.get_or_insert(packet.time);
            let since = packet.time.saturating_sub(first);
            replay.backwards += u64::from(since < last);
            last = last.max(since);
            replay.packets.push((Span::from_nanos(last as u64), size));
        }
        Ok(replay)
    }
}

impl Replay {
    /// As lines `SECONDS,BYTES`, which a scenario's replay reads. A packet that offload made longer than IP can be counts
    /// as the longest.
    pub fn to_lines(&self) -> String {
        let mut lines = String::with_capacity(24 * self.packets.len());
        for (since, size) in &self.packets {
            let (seconds, rest) = (since.as_nanos() / 1_000_000_000, since.as_nanos() % 1_000_000_000);
            lines.push_str(&format!("{seconds}.{rest:09},{}\n", size.min(&65_535)));
        }
        lines
    }
}

/// The length of the IP packet in a frame, of which `bytes` were captured and `length` were on the wire.
pub fn ip_length(link_type: LinkType, bytes: &[u8], length: u32) -> Option<u32> {
    let header = network(link_type, bytes).ok()?;
    let packet = &bytes[header..];
    let behind = length.checked_sub(header as u32)?;
    // A total length below the header's, or a payload of none, was left out by an offload.
    let size = match ip::length(packet)? {
        (Version::V4, 0..20) | (Version::V6, 0..41) => behind,
        (_, told) => told as u32,
    };
    (size > 0).then_some(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ethernet(tags: usize, kind: u16, ip: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; 12];
        for _ in 0..tags {
            frame.extend([0x81, 0x00, 0, 5]);
        }
        frame.extend(kind.to_be_bytes());
        frame.extend(ip);
        frame
    }

    #[test]
    fn the_ip_header_tells_the_length_behind_tags_and_before_padding() {
        let mut ip = vec![0x45, 0, 0, 28];
        ip.resize(46, 0);
        for tags in 0..3 {
            let frame = ethernet(tags, 0x0800, &ip);
            assert_eq!(ip_length(1, &frame, frame.len() as u32), Some(28));
        }
        let mut six = vec![0x60, 0, 0, 0, 0x05, 0x00];
        six.resize(40, 0);
        assert_eq!(ip_length(1, &ethernet(0, 0x86dd, &six), 1334), Some(1320));
        assert_eq!(ip_length(101, &six, 1320), Some(1320));
    }

    #[test]
    fn a_length_of_zero_is_replaced_by_what_was_on_the_wire() {
        let ip = [0x45, 0, 0, 0, 0, 0];
        assert_eq!(ip_length(1, &ethernet(0, 0x0800, &ip), 40_014), Some(40_000));
    }

    #[test]
    fn what_is_no_ip_or_is_cut_has_no_length() {
        assert_eq!(ip_length(1, &ethernet(0, 0x0806, &[0; 46]), 60), None);
        assert_eq!(ip_length(1, &[0; 13], 60), None);
        assert_eq!(ip_length(1, &ethernet(0, 0x0800, &[0x45, 0, 0]), 60), None);
        assert_eq!(ip_length(1, &ethernet(0, 0x0800, &[0x95, 0, 0, 9]), 60), None);
        assert_eq!(ip_length(105, &[0x45; 60], 60), None);
    }
}
