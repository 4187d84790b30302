//! What the gateway reads in the headers of a packet.

use fairspan_core::flow::Key;
use fairspan_core::ip::{self, Piece, Version};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Flags of a TCP segment.
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;
/// The TCP option of an MD5 signature (RFC 2385), and of authentication (RFC 5925).
const SIGNED: [u8; 2] = [19, 29];

/// The type of service or traffic class of a packet, DSCP and ECN, by its first two bytes; 0 of what is no IP.
pub(super) fn traffic_class(packet: &[u8]) -> u8 {
    match packet {
        [first, second, ..] if first >> 4 == 4 => *second,
        [first, second, ..] if first >> 4 == 6 => first << 4 | second >> 4,
        _ => 0,
    }
}

/// From where to where a segment goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Way {
    pub(super) source: SocketAddr,
    pub(super) destination: SocketAddr,
}

impl Way {
    pub(super) fn back(self) -> Way {
        Way { source: self.destination, destination: self.source }
    }
}

/// A segment of TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) way: Way,
    pub(super) sequence: u32,
    flags: u8,
    /// Its options bind it to the ends' own addresses and sequence numbers: nobody else can continue the connection.
    pub(super) is_signed: bool,
    /// Bytes of data.
    pub(super) payload: u32,
}

impl Segment {
    /// The segment in a packet of `len` bytes that begins with `bytes`; `None`: it is something else, or a fragment.
    pub(super) fn read(bytes: &[u8], len: u32) -> Option<Segment> {
        let (key, at) = Key::read_to(bytes)?;
        if key.protocol != ip::TCP || key.piece != Piece::Whole {
            return None;
        }
        let [s0, s1, d0, d1] = key.ports?;
        let address = |first: bool| -> Option<IpAddr> {
            let half = key.addresses.len() / 2;
            let octets = if first { key.addresses.get(..half)? } else { key.addresses.get(half..)? };
            Some(match key.version {
                Version::V4 => Ipv4Addr::from(*octets.first_chunk::<4>()?).into(),
                Version::V6 => Ipv6Addr::from(*octets.first_chunk::<16>()?).into(),
            })
        };
        let header = bytes.get(at..)?;
        let fixed = header.first_chunk::<20>()?;
        let length = usize::from(fixed[12] >> 4) * 4;
        let payload = (len as usize).saturating_sub(at + length.max(20));
        let way = Way {
            source: SocketAddr::new(address(true)?, u16::from_be_bytes([s0, s1])),
            destination: SocketAddr::new(address(false)?, u16::from_be_bytes([d0, d1])),
        };
        let is_signed = is_signed(header.get(20..length.min(header.len())).unwrap_or_default());
        let sequence = u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]);
        let payload = u32::try_from(payload).unwrap_or(u32::MAX);
        Some(Segment { way, sequence, flags: fixed[13], is_signed, payload })
    }

    /// A SYN that goes this way.
    #[cfg(test)]
    pub(super) fn opening(way: Way) -> Segment {
        Segment { way, sequence: 0, flags: SYN, is_signed: false, payload: 0 }
    }

    /// It begins a connection.
    pub(super) fn is_opening(&self) -> bool {
        self.flags & (SYN | ACK | RST | FIN) == SYN
    }

    /// It ends one at once.
    pub(super) fn is_reset(&self) -> bool {
        self.flags & RST != 0
    }

    /// It is the reset of one whose SYN had the number `own`, and who has got the answer to another SYN: its number is what that answer
    /// acknowledged (RFC 9293, 3.10.7.3).
    pub(super) fn denies_answer(&self, own: u32) -> bool {
        self.flags & (RST | ACK) == RST && ![own, own.wrapping_add(1)].contains(&self.sequence)
    }
}

fn is_signed(mut options: &[u8]) -> bool {
    loop {
        match *options {
            [] | [0, ..] => return false,
            [1, ref rest @ ..] => options = rest,
            [kind, ..] if SIGNED.contains(&kind) => return true,
            [_, length, ..] if length >= 2 => options = options.get(usize::from(length)..).unwrap_or_default(),
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(flags: u8, options: &[u8], payload: usize) -> Vec<u8> {
        let length = 20 + options.len();
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 192, 0, 2, 9];
        packet.extend([0x12, 0x34, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, (length / 4) as u8 * 16, flags, 0, 0, 0, 0, 0, 0]);
        packet.extend(options);
        packet.extend(vec![0; payload]);
        let len = (packet.len() as u16).to_be_bytes();
        packet[2..4].copy_from_slice(&len);
        packet
    }

    #[test]
    fn addresses_flags_and_payload_are_read_also_where_the_packet_was_cut() {
        let bytes = packet(SYN, &[2, 4, 5, 0xb4], 0);
        let syn = Segment::read(&bytes, bytes.len() as u32).expect("a segment");
        assert_eq!(syn.way.source.to_string(), "10.0.0.1:4660");
        assert_eq!(syn.way.destination.to_string(), "192.0.2.9:80");
        assert!(syn.is_opening() && !syn.is_reset() && !syn.is_signed && syn.payload == 0);
        let bytes = packet(ACK, &[1, 1, 8, 10, 0, 0, 0, 0, 0, 0, 0, 0], 60_000);
        let data = Segment::read(&bytes[..60], bytes.len() as u32).expect("a segment");
        assert!(!data.is_opening() && data.payload == 60_000);
        assert!(!Segment::read(&packet(SYN | ACK, &[], 0), 40).expect("a segment").is_opening());
        assert!(Segment::read(&packet(RST, &[], 0), 40).expect("a segment").is_reset());
    }

    #[test]
    fn a_reset_shows_by_its_number_whether_its_sender_has_seen_the_answer_to_another_syn() {
        let reset = |flags, sequence: u32| {
            let mut bytes = packet(flags, &[], 0);
            bytes[24..28].copy_from_slice(&sequence.to_be_bytes());
            Segment::read(&bytes, 40).expect("a segment")
        };
        assert!(reset(RST, 7_000).denies_answer(u32::MAX));
        for (flags, sequence) in [(RST, 0), (RST, u32::MAX), (RST | ACK, 7_000), (ACK, 7_000)] {
            assert!(!reset(flags, sequence).denies_answer(u32::MAX), "{flags} {sequence}");
        }
    }

    #[test]
    fn connections_that_are_authenticated_are_known_by_their_options() {
        let mut md5 = vec![1, 1, 19, 18];
        md5.extend([0; 16]);
        assert!(Segment::read(&packet(SYN, &md5, 0), 60).expect("a segment").is_signed);
        let ao = [2, 4, 5, 0xb4, 29, 4, 0, 0];
        assert!(Segment::read(&packet(SYN, &ao, 0), 48).expect("a segment").is_signed);
        // An option of no length leads nowhere.
        assert!(!Segment::read(&packet(SYN, &[5, 0, 29, 4], 0), 44).expect("a segment").is_signed);
    }

    #[test]
    fn what_is_no_whole_segment_is_none() {
        let mut udp = packet(SYN, &[], 0);
        udp[9] = 17;
        assert_eq!(Segment::read(&udp, 40), None);
        let mut fragment = packet(SYN, &[], 0);
        fragment[6] = 0x20;
        assert_eq!(Segment::read(&fragment, 40), None);
        let whole = packet(SYN, &[], 0);
        for length in 0..40 {
            assert_eq!(Segment::read(&whole[..length], 40), None, "{length}");
        }
    }
}
