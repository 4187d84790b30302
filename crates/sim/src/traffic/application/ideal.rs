//! How long a transfer takes that has its path for itself: what slowdowns are measured against.
//!
//! All packets leave at the start, without a handshake and without a window, as fast as the slowest link takes them. So the time is the
//! sum of the links' delays, the serialisation of all packets on the slowest link, of the first packet on the links before it, and of the
//! last packet on those behind it. Real TCP is slower on an empty path as well: the handshake alone takes a round trip.
//!
//! Between an empty packet and a full one, what a link takes is straight. That is exact but for cells and for padding.

/// A path as a transfer sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Ideal {
    /// Nanoseconds of propagation in all.
    pub delay: f64,
    /// Of each link, in order: nanoseconds that it takes for the headers alone, and for a full packet.
    pub links: Vec<[f64; 2]>,
    /// Payload of a full packet.
    pub payload: u64,
}

impl Ideal {
    /// Nanoseconds for so many bytes of payload.
    pub fn nanos(&self, bytes: u64) -> f64 {
        let payload = self.payload.max(1);
        let part = |bytes: u64| bytes as f64 / payload as f64;
        let time = |link: &[f64; 2], bytes: u64| link[0] + (link[1] - link[0]) * part(bytes);
        let (full, rest) = (bytes / payload, bytes % payload);
        let (first, last) = (bytes.min(payload), if rest > 0 { rest } else { payload });
        let mut slowest = 0;
        for (place, link) in self.links.iter().enumerate() {
            if link[1] > self.links[slowest][1] {
                slowest = place;
            }
        }
        let links = self.links.iter().enumerate().map(|(place, link)| match place.cmp(&slowest) {
            std::cmp::Ordering::Less => time(link, first),
            std::cmp::Ordering::Greater => time(link, last),
            std::cmp::Ordering::Equal => full as f64 * link[1] + if rest > 0 { time(link, rest) } else { 0.0 },
        });
        // A path that takes no time at all would make every slowdown infinite.
        (self.delay + links.sum::<f64>()).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_link_takes_all_packets_and_the_others_one() {
        // 1000 bytes of payload and 40 of headers at 1, 0.5 and 2 bytes a nanosecond; the second one is the slowest.
        let links = vec![[40.0, 1040.0], [80.0, 2080.0], [20.0, 520.0]];
        let ideal = Ideal { delay: 5000.0, links, payload: 1000 };
        assert_eq!(ideal.nanos(1000), 5000.0 + 1040.0 + 2080.0 + 520.0);
        assert_eq!(ideal.nanos(10_000), 5000.0 + 1040.0 + 20_800.0 + 520.0);
        assert_eq!(ideal.nanos(2500), 5000.0 + 1040.0 + 2.0 * 2080.0 + 1080.0 + 270.0);
        assert_eq!(ideal.nanos(100), 5000.0 + 140.0 + 280.0 + 70.0);
    }
}
