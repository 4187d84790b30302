//! The flow hash: which flow a packet belongs to, as a number that nobody outside can foresee.
//!
//! What it is: a keyed 64-bit hash of the flow key ([`Key`]). [`FlowHash`] gives all 64 bits, which tell flows apart;
//! [`Buckets`] sorts packets into a few buckets, so that all packets whose order matters to one another share one. The two
//! mix alike and in another order: bucket numbers are in recordings, so their formula stays.
//!
//! | packet | its flow |
//! |---|---|
//! | IPv4 or IPv6 with TCP, UDP, UDP-Lite, SCTP or DCCP, whole | the 5-tuple: addresses, protocol, ports |
//! | IP with another protocol; any fragment, the first too; ports cut off | the 3-tuple: addresses, protocol |
//! | an Ethernet frame that is not IP, or not readable as IP | Ethernet addresses and type (one type for all lengths below 1536) |
//! | anything else | one flow for all |
//!
//! On Ethernet the VLAN numbers of up to four tags belong to all of these; priorities do not.
//!
//! Source: burst-round-robin paper, 5.3 and 4.2. The mixing step multiplies two words to 128 bits and folds the halves, as
//! wyhash (Wang Yi, 2019) and foldhash do. Where there are no ports the flow's hash is the pair's, so that fragments and
//! whole packets of such a protocol are one flow. Cost: four multiplications for IPv4, seven for IPv6, two more with VLAN
//! tags; for a bucket three and six. Up to two cache lines of the frame; no table. Invariants: same key and packet, same
//! hash, on every machine; a bucket is below the number of buckets.

use super::ethernet::{self, ALL_VLAN, IPV4, IPV6, Tags};
use super::frame::{Frame, Layer};
use super::key::Key;
use crate::ip::{Header, Piece};
use crate::rng::Rng;
use crate::units::FlowNumber;

/// Tags whose VLANs tell flows apart.
const VLAN_TAGS: usize = 4;

/// What a packet's flow is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowId {
    /// Its flow as the table in this file's head says, except that a first fragment is told with its ports here.
    pub flow: u64,
    /// Its addresses and protocol; equal to `flow` where it has no ports.
    pub pair: u64,
    /// Whether it is a fragment: then it is to be told by `pair`.
    pub piece: Piece,
}

impl FlowId {
    /// What a queue calls it: fragments go with those that have no ports.
    #[inline]
    pub fn number(&self) -> FlowNumber {
        let hash = if self.piece == Piece::Whole { self.flow } else { self.pair };
        FlowNumber((hash >> 32) as u32)
    }
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
    pub fn flow(&self, frame: &Frame<'_>) -> FlowId {
        let start = self.start();
        match frame.layer {
            Layer::Ip => Key::read(frame.bytes).map_or_else(|| whole(self.mix(start, 0)), |key| self.ip(start, &key)),
            Layer::Ethernet => self.ethernet(start, frame.bytes),
        }
    }

    #[inline]
    fn ethernet(&self, start: u64, bytes: &[u8]) -> FlowId {
        let Some(header) = bytes.first_chunk::<{ ethernet::HEADER }>() else { return whole(self.mix(start, 0)) };
        let mut tags = Tags::new(bytes, u16::from_be_bytes([header[12], header[13]]), ethernet::HEADER);
        let mut start = start;
        for _ in 0..VLAN_TAGS {
            let Some(vlan) = tags.step(&ALL_VLAN) else { break };
            start = self.mix(start, u64::from(vlan) | 1 << 16);
        }
        let kind = tags.ether_type;
        let rest = bytes.get(tags.at..).unwrap_or(&[]);
        let version = rest.first().map_or(0, |first| first >> 4);
        let key = if let (IPV4, 4) | (IPV6, 6) = (kind, version) { Key::read(rest) } else { None };
        if let Some(key) = key {
            return self.ip(start, &key);
        }
        let kind = if kind < 1536 { 0 } else { kind };
        let [a, b, c, d, e, f, g, h, i, j, k, l, ..] = *header;
        let first = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        let second = u64::from(u32::from_le_bytes([i, j, k, l])) | u64::from(kind) << 32 | 1 << 48;
        whole(self.mix(self.mix(start, second), first))
    }

    #[inline]
    fn ip(&self, start: u64, key: &Key<'_>) -> FlowId {
        let mut pair = self.mix(start, u64::from(key.protocol) | u64::from(key.version.number()) << 8 | 1 << 49);
        for word in key.addresses.as_chunks::<8>().0 {
            pair = self.mix(pair, u64::from_le_bytes(*word));
        }
        let ports = key.ports.map(u32::from_le_bytes);
        let flow = ports.map_or(pair, |ports| self.mix(pair, u64::from(ports) | 1 << 50));
        FlowId { flow, pair, piece: key.piece }
    }

    /// A number of 32 bits for one of 128, such as an address.
    #[inline]
    pub fn number(&self, wide: u128) -> u32 {
        (self.mix(self.mix(self.start(), wide as u64), (wide >> 64) as u64) >> 32) as u32
    }

    /// What the first word is mixed with.
    #[inline]
    pub(super) const fn start(&self) -> u64 {
        self.key[2]
    }

    /// One step: two rounds' keys, so that no word of a packet can undo the one before it.
    #[inline]
    pub(super) fn mix(&self, hash: u64, word: u64) -> u64 {
        fold(hash ^ word ^ self.key[1], self.key[0]).wrapping_add(hash.rotate_left(23))
    }
}

fn whole(hash: u64) -> FlowId {
    FlowId { flow: hash, pair: hash, piece: Piece::Whole }
}

/// Buckets of flows.
#[derive(Clone, Debug)]
pub struct Buckets {
    hash: FlowHash,
    count: u32,
}

impl Buckets {
    /// So many buckets (at most 65536; 0 counts as 1), their hash keyed by `seed`.
    pub fn new(seed: u64, count: usize) -> Buckets {
        Buckets { hash: FlowHash::new(seed), count: count.clamp(1, 1 << 16) as u32 }
    }

    /// The bucket of the packet `bytes` whose header is `header`.
    #[inline]
    pub fn bucket(&self, header: &Header, bytes: &[u8]) -> u16 {
        let hash = self.hash(&Key::of(header, bytes));
        ((u64::from((hash >> 32) as u32) * u64::from(self.count)) >> 32) as u16
    }

    fn hash(&self, key: &Key<'_>) -> u64 {
        let [k0, k1, _] = self.hash.key;
        let ports = key.ports.filter(|_| key.piece == Piece::Whole).map_or(0, u32::from_be_bytes);
        let tail = u64::from(ports) | u64::from(key.protocol) << 32 | u64::from(key.version.number()) << 40;
        let step = |hash, word: &[u8; 8]| fold(hash ^ u64::from_le_bytes(*word), k0);
        let start = fold(tail ^ k0, k1);
        let hash = match key.addresses.as_chunks::<8>().0 {
            [both] => step(start, both),
            words => words.iter().fold(start, step),
        };
        fold(hash, k1)
    }
}

/// 64 x 64 -> 128 bits, halves folded together.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let wide = u128::from(a) * u128::from(b);
    wide as u64 ^ (wide >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::testing;
    use alloc::vec;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn ip(bytes: &[u8]) -> FlowId {
        FlowHash::new(1).flow(&Frame { bytes, len: bytes.len(), layer: Layer::Ip })
    }

    fn ethernet(bytes: &[u8]) -> FlowId {
        FlowHash::new(1).flow(&Frame { bytes, len: bytes.len(), layer: Layer::Ethernet })
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
            let (a, b) = (one.flow(&frame).flow, two.flow(&frame).flow);
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

    fn bucket(hash: &Buckets, packet: &[u8]) -> u16 {
        hash.bucket(&Header::parse(packet, packet.len()).unwrap(), packet)
    }

    #[test]
    fn a_flow_keeps_its_bucket_whatever_its_payload_and_flags() {
        let hash = Buckets::new(1, 1024);
        for (a, b) in [
            (testing::udp4(1, 2, 100, 200, &[1; 10]), testing::udp4(1, 2, 100, 200, &[2; 900])),
            (testing::udp6(1, 2, 100, 200, &[1; 10]), testing::udp6(1, 2, 100, 200, &[2; 900])),
        ] {
            let mut b = b;
            b[1] ^= 3; // ECN differs
            assert_eq!(bucket(&hash, &a), bucket(&hash, &b));
        }
    }

    #[test]
    fn fragments_of_one_datagram_share_a_bucket() {
        let hash = Buckets::new(1, 1024);
        let mut first = testing::udp4(1, 2, 100, 200, &[1; 40]);
        let mut later = testing::udp4(1, 2, 9, 9, &[1; 40]);
        first[6] = 0x20; // more fragments
        later[7] = 5; // offset 40
        assert_eq!(bucket(&hash, &first), bucket(&hash, &later));
    }

    #[test]
    fn flows_spread_evenly_and_the_key_matters() {
        for buckets in [16usize, 1000] {
            let mut counts = vec![0u32; buckets];
            let mut moved = 0;
            let (one, two) = (Buckets::new(1, buckets), Buckets::new(2, buckets));
            let flows = buckets as u32 * 40;
            for n in 0..flows {
                let packet = testing::udp4((n % 7) as u8, 2, (n / 7) as u16, 443, &[]);
                counts[usize::from(bucket(&one, &packet))] += 1;
                moved += u32::from(bucket(&one, &packet) != bucket(&two, &packet));
            }
            // 40 expected, standard deviation 6.3: six deviations either way.
            assert!(counts.iter().all(|&n| (2..80).contains(&n)), "{counts:?}");
            assert!(moved > flows * 8 / 10, "another key must give another table: {moved} of {flows} moved");
        }
    }

    #[test]
    fn as_many_buckets_as_the_wire_can_name() {
        let hash = Buckets::new(3, 1 << 16);
        let highest = (0..20_000u32).map(|n| bucket(&hash, &testing::udp4(1, 2, n as u16, 80, &[]))).max().unwrap();
        assert!(highest > 60_000);
    }
}
