//! The Internet checksum (RFC 1071) and its incremental update (RFC 1624).

/// The one's complement sum of `bytes` as big-endian words on top of `sum`. An odd last byte counts as the high byte
/// of a word. The result is below 65536.
pub fn add(sum: u32, bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<2>();
    let mut wide = u64::from(sum);
    for word in words {
        wide += u64::from(u16::from_be_bytes(*word));
    }
    if let [last] = rest {
        wide += u64::from(*last) << 8;
    }
    while wide > 0xffff {
        wide = (wide & 0xffff) + (wide >> 16);
    }
    wide as u32
}

/// The checksum that goes with a sum: folded and complemented.
pub const fn finish(sum: u32) -> u16 {
    let mut sum = sum;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// The checksum of `bytes`. Zero when they hold a right checksum.
pub fn of(bytes: &[u8]) -> u16 {
    finish(add(0, bytes))
}

/// The checksum after one word changed from `old` to `new` (RFC 1624, equation 3).
pub const fn update(checksum: u16, old: u16, new: u16) -> u16 {
    finish(!checksum as u32 + !old as u32 + new as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_example_of_rfc_1071() {
        assert_eq!(add(0, &[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
    }

    #[test]
    fn the_example_of_rfc_1624() {
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    proptest! {
        #[test]
        fn an_update_equals_a_new_sum(mut bytes in proptest::collection::vec(any::<u8>(), 4..60), new: u16, at: usize) {
            bytes.truncate(bytes.len() / 2 * 2);
            bytes[0] |= 1; // not all zero: the two zeros of one's complement stay apart
            let at = (2 + at % (bytes.len() - 2)) / 2 * 2;
            let before = of(&bytes);
            let old = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
            bytes[at..at + 2].copy_from_slice(&new.to_be_bytes());
            prop_assert_eq!(update(before, old, new), of(&bytes));
        }
    }
}
