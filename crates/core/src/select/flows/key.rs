//! The flow key: a keyed hash of what tells one flow's packets from another's.
//!
//! | packet | its flow |
//! |---|---|
//! | IPv4 or IPv6 with TCP, UDP, UDP-Lite, SCTP or DCCP, whole | the 5-tuple: addresses, protocol, ports |
//! | IP with another protocol; any fragment, the first too; ports cut off | the 3-tuple: addresses, protocol |
//! | an Ethernet frame that is not IP, or not readable as IP | Ethernet addresses and type (one type for all lengths below 1536) |
//! | anything else | one flow for all |
//!
//! On Ethernet the VLAN numbers of up to four tags belong to all of these; priorities do not. Behind IPv6 extension
//! headers the protocol is the one that follows them; a chain that is cut or has more than eight ends the walk there. Lengths
//! in the headers are not believed: a capture may have cut the packet, an offload may not have filled them in.
//!
//! Source: burst-round-robin paper, 5.3 and 4.2. The mixing step is `flow/hash.rs`'s: 64 by 64 bits to 128, folded. Where
//! there are no ports the flow's hash is the pair's, so that fragments and whole packets of such a protocol are one flow.
//! Cost: four multiplications for IPv4, seven for IPv6, two more with VLAN tags; up to two cache lines of the frame.

use super::super::{Frame, Layer};
use crate::rng::Rng;

const TCP_LIKE: [u8; 5] = [crate::ip::TCP, crate::ip::UDP, 33, 132, 136];
const VLAN_TYPES: [u16; 4] = [0x8100, 0x88a8, 0x9100, 0x9200];
const VLAN_TAGS: usize = 4;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const EXTENSION_HEADERS: usize = 8;

/// Whether a packet is all of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Piece {
    /// All of it.
    Whole,
    /// The first fragment: it has the ports, if the protocol has any.
    First,
    /// A later fragment.
    Later,
}

/// What a packet's flow is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// Its flow as the table in this file's head says, except that a first fragment is told with its ports here.
    pub flow: u64,
    /// Its addresses and protocol; equal to `flow` where it has no ports.
    pub pair: u64,
    /// Whether it is a fragment: then it is to be told by `pair`.
    pub piece: Piece,
}

/// The keyed hash.
#[derive(Clone, Debug)]
pub struct FlowHash {
    key: [u64; 3],
}

impl FlowHash {
    /// Keyed by `seed`.
    pub fn new(seed: u64) -> FlowHash {
        let mut rng = Rng::new(seed);
        FlowHash { key: [rng.next_u64() | 1, rng.next_u64() | 1, rng.next_u64()] }
    }

    /// The flow of `frame`.
    #[inline]
    pub fn key(&self, frame: &Frame<'_>) -> FlowKey {
        let start = self.key[2];
        match frame.layer {
            Layer::Ip => {
                let packet = match frame.bytes.first().map_or(0, |first| first >> 4) {
                    4 => self.v4(start, frame.bytes),
                    6 => self.v6(start, frame.bytes),
                    _ => None,
                };
                packet.unwrap_or(whole(self.mix(start, 0)))
            }
            Layer::Ethernet => self.ethernet(start, frame.bytes),
        }
    }

    #[inline]
    fn ethernet(&self, start: u64, bytes: &[u8]) -> FlowKey {
        let Some(header) = bytes.first_chunk::<14>() else { return whole(self.mix(start, 0)) };
        let (mut kind, mut at, mut start) = (u16::from_be_bytes([header[12], header[13]]), 14, start);
        for _ in 0..VLAN_TAGS {
            let tag = if VLAN_TYPES.contains(&kind) { chunk::<4>(bytes, at) } else { None };
            let Some([a, b, c, d]) = tag else { break };
            start = self.mix(start, u64::from(u16::from_be_bytes([a & 15, b])) | 1 << 16);
            (kind, at) = (u16::from_be_bytes([c, d]), at + 4);
        }
        let rest = bytes.get(at..).unwrap_or(&[]);
        let version = rest.first().map_or(0, |first| first >> 4);
        let packet = match (kind, version) {
            (IPV4, 4) => self.v4(start, rest),
            (IPV6, 6) => self.v6(start, rest),
            _ => None,
        };
        packet.unwrap_or_else(|| {
            let kind = if kind < 1536 { 0 } else { kind };
            let [a, b, c, d, e, f, g, h, i, j, k, l, ..] = *header;
            let first = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
            let second = u64::from(u32::from_le_bytes([i, j, k, l])) | u64::from(kind) << 32 | 1 << 48;
            whole(self.mix(self.mix(start, second), first))
        })
    }

    #[inline]
    fn v4(&self, start: u64, bytes: &[u8]) -> Option<FlowKey> {
        let header = bytes.first_chunk::<20>()?;
        let payload = usize::from(header[0] & 15) * 4;
        if payload < 20 {
            return None;
        }
        let place = u16::from_be_bytes([header[6], header[7]]);
        let piece = match (place & 0x1fff, place & 0x2000) {
            (0, 0) => Piece::Whole,
            (0, _) => Piece::First,
            _ => Piece::Later,
        };
        let pair = self.mix(start, u64::from(header[9]) | 4 << 8 | 1 << 49);
        let [a, b, c, d, e, f, g, h] = chunk::<8>(bytes, 12)?;
        let pair = self.mix(pair, u64::from_le_bytes([a, b, c, d, e, f, g, h]));
        Some(self.ports(pair, header[9], piece, bytes, payload))
    }

    #[inline]
    fn v6(&self, start: u64, bytes: &[u8]) -> Option<FlowKey> {
        let header = bytes.first_chunk::<40>()?;
        let (mut protocol, mut payload, mut piece) = (header[6], 40, Piece::Whole);
        for _ in 0..EXTENSION_HEADERS {
            let Some([next, length, high, low]) = chunk::<4>(bytes, payload) else { break };
            let length = match protocol {
                0 | 43 | 60 => (usize::from(length) + 1) * 8,
                51 => (usize::from(length) + 2) * 4,
                44 => {
                    piece = match u16::from_be_bytes([high, low]) & 0xfff9 {
                        0 => piece,
                        1 => Piece::First,
                        _ => Piece::Later,
                    };
                    8
                }
                _ => break,
            };
            let fragment = protocol == 44;
            (protocol, payload) = (next, payload + length);
            if fragment && piece != Piece::Whole {
                break; // what follows is the datagram's own, and in later fragments its middle
            }
        }
        let mut pair = self.mix(start, u64::from(protocol) | 6 << 8 | 1 << 49);
        for at in [8, 16, 24, 32] {
            pair = self.mix(pair, u64::from_le_bytes(chunk(bytes, at)?));
        }
        Some(self.ports(pair, protocol, piece, bytes, payload))
    }

    #[inline]
    fn ports(&self, pair: u64, protocol: u8, piece: Piece, bytes: &[u8], at: usize) -> FlowKey {
        let ports = if piece != Piece::Later && TCP_LIKE.contains(&protocol) { chunk::<4>(bytes, at) } else { None };
        let flow = ports.map_or(pair, |ports| self.mix(pair, u64::from(u32::from_le_bytes(ports)) | 1 << 50));
        FlowKey { flow, pair, piece }
    }

    /// One step: two rounds' keys, so that no word of a packet can undo the one before it.
    #[inline]
    fn mix(&self, hash: u64, word: u64) -> u64 {
        let wide = u128::from(hash ^ word ^ self.key[1]) * u128::from(self.key[0]);
        (wide as u64 ^ (wide >> 64) as u64).wrapping_add(hash.rotate_left(23))
    }
}

fn whole(hash: u64) -> FlowKey {
    FlowKey { flow: hash, pair: hash, piece: Piece::Whole }
}

#[inline]
fn chunk<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk::<N>().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::testing;
    use alloc::vec;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn ip(bytes: &[u8]) -> FlowKey {
        FlowHash::new(1).key(&Frame { bytes, len: bytes.len(), layer: Layer::Ip })
    }

    fn ethernet(bytes: &[u8]) -> FlowKey {
        FlowHash::new(1).key(&Frame { bytes, len: bytes.len(), layer: Layer::Ethernet })
    }

    fn framed(tags: &[[u8; 4]], kind: u16, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        tags.iter().for_each(|tag| frame.extend_from_slice(tag));
        frame.extend_from_slice(&kind.to_be_bytes());
        frame.extend_from_slice(payload);
        frame
    }

    /// An IPv6 packet with `headers` between the fixed header and UDP's, each with its own number.
    fn behind(headers: &[(u8, Vec<u8>)], from: u16) -> Vec<u8> {
        let inner = testing::udp6(1, 2, from, 9, &[0; 5]);
        let mut packet = inner[..40].to_vec();
        let mut place = 6;
        for (number, header) in headers {
            packet[place] = *number;
            place = packet.len();
            packet.extend_from_slice(header);
        }
        packet[place] = crate::ip::UDP;
        packet.extend_from_slice(&inner[40..]);
        packet
    }

    #[test]
    fn each_part_of_the_five_tuple_tells_flows_apart_and_nothing_else_does() {
        for make in [testing::udp4, testing::udp6] {
            let flow = ip(&make(1, 2, 100, 200, &[])).flow;
            for other in [make(3, 2, 100, 200, &[]), make(1, 3, 100, 200, &[])] {
                assert_ne!(ip(&other).flow, flow);
                assert_ne!(ip(&other).pair, ip(&make(1, 2, 100, 200, &[])).pair);
            }
            for other in [make(1, 2, 101, 200, &[]), make(1, 2, 100, 201, &[]), make(1, 2, 200, 100, &[])] {
                assert_ne!(ip(&other).flow, flow);
                assert_eq!(ip(&other).pair, ip(&make(1, 2, 100, 200, &[])).pair);
            }
            let mut marked = make(1, 2, 100, 200, &[7; 900]);
            marked[1] ^= 3; // ECN
            assert_eq!(ip(&marked).flow, flow);
        }
        let mut tcp = testing::udp4(1, 2, 100, 200, &[]);
        tcp[9] = crate::ip::TCP;
        assert_ne!(ip(&tcp).flow, ip(&testing::udp4(1, 2, 100, 200, &[])).flow);
        tcp[9] = 50; // ESP has no ports
        let mut other = tcp.clone();
        other[20] ^= 1;
        assert_eq!(ip(&tcp), ip(&other));
        assert_eq!(ip(&tcp).flow, ip(&tcp).pair);
    }

    #[test]
    fn fragments_are_told_by_addresses_and_protocol() {
        let whole = testing::udp4(1, 2, 100, 200, &[1; 40]);
        let (mut first, mut later) = (whole.clone(), testing::udp4(1, 2, 9, 9, &[1; 40]));
        first[6] = 0x20;
        later[7] = 5;
        assert_eq!((ip(&first).piece, ip(&later).piece), (Piece::First, Piece::Later));
        assert_eq!((ip(&first).pair, ip(&later).flow), (ip(&whole).pair, ip(&whole).pair));
        assert_eq!(ip(&first).flow, ip(&whole).flow);

        let piece = |place: [u8; 2]| (44u8, vec![0, 0, place[0], place[1], 0, 0, 0, 1]);
        let (plain, atomic) = (behind(&[], 7), behind(&[piece([0, 0])], 7));
        let (first, later) = (behind(&[piece([0, 1])], 7), behind(&[piece([0, 0x10])], 9));
        assert_eq!(ip(&plain), ip(&atomic), "an atomic fragment is a whole packet");
        assert_eq!((ip(&first).piece, ip(&later).piece), (Piece::First, Piece::Later));
        assert_eq!((ip(&first).flow, ip(&later).flow), (ip(&plain).flow, ip(&plain).pair));
    }

    #[test]
    fn extension_headers_are_walked_and_a_long_chain_ends() {
        let options = |number| (number, vec![0, 0, 1, 4, 0, 0, 0, 0]);
        let plain = behind(&[], 7);
        assert_eq!(ip(&behind(&[options(0), options(43), options(60)], 7)), ip(&plain));
        let many: Vec<_> = (0..9).map(|_| options(60)).collect();
        assert_eq!(ip(&behind(&many, 7)), ip(&behind(&many, 8)), "not walked to its ports");
        assert_eq!(ip(&behind(&many[..8], 7)), ip(&plain));
    }

    #[test]
    fn vlans_are_apart_and_priorities_are_not() {
        let packet = testing::udp4(1, 2, 100, 200, &[]);
        let plain = ethernet(&framed(&[], IPV4, &packet));
        let tagged = |tags: &[[u8; 4]]| ethernet(&framed(tags, IPV4, &packet));
        let (one, two) = ([0x81, 0, 0, 5], [0x88, 0xa8, 0, 6]);
        assert_ne!(tagged(&[one]).flow, plain.flow);
        assert_ne!(tagged(&[one]).flow, tagged(&[[0x81, 0, 0, 6]]).flow);
        assert_eq!(tagged(&[one]), tagged(&[[0x81, 0, 0xe0, 5]]));
        assert_ne!(tagged(&[two, one]).flow, tagged(&[one]).flow);
        assert_ne!(tagged(&[one]).pair, plain.pair);
        // Ethernet addresses are no part of an IP flow.
        let mut other = framed(&[], IPV4, &packet);
        other[5] ^= 1;
        assert_eq!(ethernet(&other), plain);
    }

    #[test]
    fn what_is_not_ip_goes_by_ethernet_addresses_and_type() {
        let arp = framed(&[], 0x0806, &[1; 28]);
        assert_eq!(ethernet(&arp), ethernet(&framed(&[], 0x0806, &[2; 28])));
        assert_ne!(ethernet(&arp), ethernet(&framed(&[], 0x88cc, &[1; 28])));
        let mut other = arp.clone();
        other[11] ^= 1;
        assert_ne!(ethernet(&arp), ethernet(&other));
        assert_eq!(ethernet(&framed(&[], 40, &[1; 40])), ethernet(&framed(&[], 60, &[1; 60])), "802.3 lengths");
        let broken = framed(&[], IPV4, &[0x43; 40]);
        assert_eq!(ethernet(&broken), ethernet(&framed(&[], IPV4, &[0x41; 20])), "no IPv4 header of 12 bytes");
        assert_ne!(ethernet(&broken), ethernet(&framed(&[], IPV4, &testing::udp4(1, 2, 3, 4, &[]))));
    }

    #[test]
    fn a_packet_cut_after_its_addresses_still_has_a_flow() {
        let packet = testing::udp6(1, 2, 100, 200, &[]);
        assert_eq!(ip(&packet[..40]).flow, ip(&packet).pair);
        let mut unfilled = testing::udp4(1, 2, 100, 200, &[]);
        let flow = ip(&unfilled);
        unfilled[2..4].copy_from_slice(&[0, 0]); // the total length, left to an offload
        assert_eq!(ip(&unfilled), flow);
    }

    #[test]
    fn hashes_spread_over_both_halves_and_the_key_matters() {
        let (one, two) = (FlowHash::new(1), FlowHash::new(2));
        let mut counts = [vec![0u32; 256], vec![0u32; 256], vec![0u32; 256]];
        for n in 0..25_600u32 {
            let packet = testing::udp4((n % 16) as u8, 2, (n / 16) as u16, 443, &[]);
            let frame = Frame { bytes: &packet, len: packet.len(), layer: Layer::Ip };
            let (a, b) = (one.key(&frame).flow, two.key(&frame).flow);
            for (counts, bits) in counts.iter_mut().zip([a >> 56, a & 255, (a ^ b) & 255]) {
                counts[bits as usize] += 1;
            }
        }
        // 100 expected, standard deviation 10: six deviations either way.
        assert!(counts.iter().flatten().all(|n| (40..160).contains(n)), "{counts:?}");
    }

    proptest! {
        #[test]
        fn any_bytes_have_a_flow(bytes in proptest::collection::vec(any::<u8>(), 0..130), kind in 0..4u8, cut in 0..130usize) {
            let mut bytes = bytes;
            match (kind, bytes.len()) {
                (0, 1..) => bytes[0] = 0x40 | bytes[0] & 15,
                (1, 1..) => bytes[0] = 0x60,
                (2, 15..) => (bytes[12], bytes[13], bytes[14]) = (8, 0, 0x45),
                (3, 15..) => (bytes[12], bytes[13], bytes[14]) = (0x86, 0xdd, 0x60),
                _ => {}
            }
            bytes.truncate(cut);
            let (_, _) = (ip(&bytes), ethernet(&bytes));
        }
    }
}
