//! Bytes of which each is known by its stream and its place in it.

use std::sync::OnceLock;

/// After so many bytes they begin again: a prime, so that no read, write or segment is as long, nor a whole part of it.
const PERIOD: usize = 1_048_573;

/// Twice the period, so that a whole one stands behind each place in the first.
fn table() -> &'static [u8] {
    static TABLE: OnceLock<Vec<u8>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let once = (0..PERIOD).map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 24) as u8
        });
        let mut table: Vec<u8> = once.collect();
        table.extend_from_within(..);
        table
    })
}

/// The bytes of `stream` from `place` on: a whole period of them.
pub(super) fn from(stream: u64, place: u64) -> &'static [u8] {
    // Neighbours begin far from each other (Knuth's multiplicative hash).
    let begin = stream.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    let at = (begin % PERIOD as u64 + place % PERIOD as u64) as usize % PERIOD;
    &table()[at..at + PERIOD]
}

/// Whether `bytes` are those of `stream` from `place` on.
pub(super) fn is(stream: u64, place: u64, bytes: &[u8]) -> bool {
    let mut place = place;
    bytes.chunks(PERIOD).all(|chunk| {
        let same = from(stream, place).starts_with(chunk);
        place += chunk.len() as u64;
        same
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_that_is_moved_lost_doubled_changed_or_of_another_stream_is_noticed() {
        for stream in 0..50 {
            let good = from(stream, 1_000_000)[..100_000].to_vec();
            assert!(is(stream, 1_000_000, &good));
            assert!(!is(stream, 1_000_001, &good) && !is(stream + 1, 1_000_000, &good));
            for change in 0..3 {
                let mut bad = good.clone();
                match change {
                    0 => drop(bad.remove(50_000)),
                    1 => bad.insert(50_000, good[49_999]),
                    _ => bad[50_000] ^= 1,
                }
                assert!(!is(stream, 1_000_000, &bad), "stream {stream}, change {change}");
            }
        }
        let long: Vec<u8> = [from(7, 3), from(7, 3)].concat();
        assert!(is(7, 3, &long));
    }
}
