//! The flow hash: which bucket of flows a packet belongs to.
//!
//! What it is: a keyed 64-bit hash of the 5-tuple (addresses, protocol, ports), or of the 3-tuple without ports for
//! fragments and for protocols that have none, so that all packets whose order matters to one another share a bucket.
//! Source: the 5-tuple is flow type 0 of the hybrid-gateways paper; the mixing step multiplies two words to 128 bits
//! and folds the halves, as wyhash (Wang Yi, 2019) and foldhash do. Cost: two to five multiplications, no table.
//! Invariants: same key and tuple, same bucket, on every machine; the bucket is below the number of buckets.

use crate::ip::Header;
use crate::rng::Rng;

/// A keyed hash from flows to buckets.
#[derive(Clone, Debug)]
pub struct FlowHash {
    key: [u64; 2],
    buckets: u32,
}

impl FlowHash {
    /// A hash keyed by `seed`, onto `buckets` buckets (at most 65536; 0 counts as 1).
    pub fn new(seed: u64, buckets: usize) -> FlowHash {
        let mut rng = Rng::new(seed);
        let key = [rng.next_u64() | 1, rng.next_u64() | 1];
        FlowHash { key, buckets: buckets.clamp(1, 1 << 16) as u32 }
    }

    /// The bucket of the packet `bytes` whose header is `header`.
    #[inline]
    pub fn bucket(&self, header: &Header, bytes: &[u8]) -> u16 {
        let hash = self.hash(header, bytes);
        ((u64::from((hash >> 32) as u32) * u64::from(self.buckets)) >> 32) as u16
    }

    fn hash(&self, header: &Header, bytes: &[u8]) -> u64 {
        let [k0, k1] = self.key;
        let ports = match header.ports(bytes) {
            Some([a, b, c, d]) => u32::from_be_bytes([a, b, c, d]),
            None => 0,
        };
        let tail = u64::from(ports) | u64::from(header.protocol) << 32 | u64::from(header.version.number()) << 40;
        let mut hash = fold(tail ^ k0, k1);
        let addresses = match header.version {
            crate::ip::Version::V4 => bytes.get(12..20),
            crate::ip::Version::V6 => bytes.get(8..40),
        };
        for word in addresses.unwrap_or(&[]).as_chunks::<8>().0 {
            hash = fold(hash ^ u64::from_le_bytes(*word), k0);
        }
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
    use crate::ip::{Header, testing};
    use alloc::vec;

    fn bucket(hash: &FlowHash, packet: &[u8]) -> u16 {
        hash.bucket(&Header::parse(packet, packet.len()).unwrap(), packet)
    }

    #[test]
    fn a_flow_keeps_its_bucket_whatever_its_payload_and_flags() {
        let hash = FlowHash::new(1, 1024);
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
        let hash = FlowHash::new(1, 1024);
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
            let (one, two) = (FlowHash::new(1, buckets), FlowHash::new(2, buckets));
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
        let hash = FlowHash::new(3, 1 << 16);
        let highest = (0..20_000u32).map(|n| bucket(&hash, &testing::udp4(1, 2, n as u16, 80, &[]))).max().unwrap();
        assert!(highest > 60_000);
    }
}
