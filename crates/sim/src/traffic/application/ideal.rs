//! How long a transfer takes that has its path for itself: what slowdowns are measured against.
//!
//! All packets leave at the start, without a handshake and without a window, and no link waits while it has one. So the time is the sum of the
//! links' delays and the longest chain of serialisations that wait for one another: a full packet over the links up to some link, all further full
//! ones on the slowest of these, and the last packet from that link on. Real TCP is slower on an empty path as well: the handshake alone takes a round trip.
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
        let (full, rest) = (bytes / payload, bytes % payload);
        let part = rest as f64 / payload as f64;
        let last = |link: &[f64; 2]| if rest > 0 { link[0] + (link[1] - link[0]) * part } else { link[1] };
        // What the last packet takes on a link and all behind it.
        let mut behind: f64 = self.links.iter().map(last).sum();
        if full == 0 {
            return (self.delay + behind).max(1.0);
        }
        // Full packets before the last one of all.
        let more = if rest > 0 { full - 1 } else { full.saturating_sub(2) } as f64;
        let (mut before, mut slowest, mut most) = (0.0_f64, 0.0_f64, behind);
        if full > 1 || rest > 0 {
            for link in &self.links {
                before += link[1];
                slowest = slowest.max(link[1]);
                most = most.max(before + more * slowest + behind);
                behind -= last(link);
            }
        }
        // A path that takes no time at all would make every slowdown infinite.
        (self.delay + most).max(1.0)
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

    /// Each packet begins on a link when it has left the one before, and the packet before it has left this one.
    fn slow(ideal: &Ideal, bytes: u64) -> f64 {
        let (mut free, mut left, mut end) = (vec![0.0_f64; ideal.links.len()], bytes, 0.0);
        while left > 0 {
            let size = left.min(ideal.payload);
            left -= size;
            let mut at = 0.0_f64;
            for (link, free) in ideal.links.iter().zip(&mut free) {
                at = at.max(*free) + link[0] + (link[1] - link[0]) * size as f64 / ideal.payload as f64;
                *free = at;
            }
            end = at;
        }
        ideal.delay + end
    }

    #[test]
    fn it_is_what_packets_one_behind_the_other_take_also_where_links_are_alike() {
        let (fast, even, long) = ([10.0, 500.0], [40.0, 1040.0], [80.0, 2080.0]);
        for links in
            [vec![even], vec![even; 3], vec![even, fast, even], vec![fast, even, even], vec![long, even, long, fast]]
        {
            let ideal = Ideal { delay: 100.0, links, payload: 1000 };
            for bytes in [1, 999, 1000, 1001, 1100, 2000, 2500, 10_000, 10_300] {
                let (found, expected) = (ideal.nanos(bytes), slow(&ideal, bytes));
                assert!((found - expected).abs() < 1e-6, "{:?} {bytes}: {found} instead of {expected}", ideal.links);
            }
        }
    }
}
