//! The Internet checksum: what it is and how it is finished.
//!
//! Source: RFC 1071 (sum of 16-bit words in one's complement; it may be taken in any byte order and over wider
//! words), RFC 8200 section 8.1 and RFC 9293 section 3.1 (pseudo headers).
//!
//! Cost: eight independent 64-bit accumulators of 32-bit words, which the compiler turns into vector code.

use super::header::Headers;

/// The one's complement sum of `bytes` as 16-bit big-endian words (an odd last byte is padded with zero), folded to
/// 16 bits and not complemented.
#[inline]
pub fn sum(bytes: &[u8]) -> u16 {
    fold(sum_wide(bytes))
}

/// The sum of 16-bit one's complement numbers.
#[inline]
pub(crate) fn add(numbers: &[u16]) -> u16 {
    fold_words(numbers.iter().map(|&n| u64::from(n)).sum())
}

/// `whole` without the part `part`.
#[inline]
pub(crate) fn subtract(whole: u16, part: u16) -> u16 {
    add(&[whole, !part])
}

/// The sum of the pseudo header of a TCP or UDP packet whose transport header and payload are `length` bytes.
/// `packet` starts with the IP header that `headers` describes.
pub(crate) fn pseudo_header(packet: &[u8], headers: &Headers, length: usize) -> u16 {
    let addresses = if headers.is_v6 { packet.get(8..40) } else { packet.get(12..20) };
    let addresses = sum(addresses.unwrap_or_default());
    add(&[addresses, u16::from(headers.protocol), (length >> 16) as u16, length as u16])
}

/// Whether the checksum of the TCP or UDP packet is right. (A UDP zero, which says there is none, is not.)
pub(crate) fn verifies(packet: &[u8], headers: &Headers) -> bool {
    let Some(transport) = packet.get(headers.transport..headers.end) else { return false };
    add(&[pseudo_header(packet, headers, transport.len()), sum(transport)]) == 0xffff
}

/// Finishes a checksum that its owner left partial: the field at `start + offset` holds the pseudo header's sum and
/// receives the whole one. False, and nothing done, when the field lies outside the packet.
pub(crate) fn complete_at(packet: &mut [u8], start: usize, offset: usize) -> bool {
    let Some(covered) = packet.get_mut(start..) else { return false };
    if offset + 2 > covered.len() {
        return false;
    }
    let checksum = !sum(covered);
    // A zero would say "no checksum" in UDP; both zeros are the same number in one's complement.
    let checksum = if checksum == 0 { 0xffff } else { checksum };
    covered[offset..offset + 2].copy_from_slice(&checksum.to_be_bytes());
    true
}

/// Finishes the checksum of a TCP or UDP packet that its owner left partial. False, and nothing done, when it is no whole
/// TCP or UDP packet.
pub(crate) fn complete(packet: &mut [u8]) -> bool {
    let Some(headers) = Headers::parse(packet) else { return false };
    let Some(offset) = headers.checksum_offset() else { return false };
    // Bytes after the IP packet's end are not covered.
    let Some(bytes) = packet.get_mut(..headers.end) else { return false };
    complete_at(bytes, headers.transport, offset)
}

/// Folds a wide sum of native-order words and gives it as a big-endian number.
#[inline]
fn fold(wide: u64) -> u16 {
    u16::from_be(fold_words(wide))
}

#[inline]
fn fold_words(wide: u64) -> u16 {
    let sum = (wide >> 32) + (wide & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    ((sum >> 16) + (sum & 0xffff)) as u16
}

/// The sum of native-order 32-bit words. It cannot overflow below 16 GiB.
#[inline]
fn sum_wide(bytes: &[u8]) -> u64 {
    let mut lanes = [0u64; 8];
    let mut blocks = bytes.chunks_exact(64);
    for block in &mut blocks {
        for (i, word) in block.chunks_exact(4).enumerate() {
            lanes[i & 7] += u64::from(u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
        }
    }
    let mut total: u64 = lanes.iter().sum();
    let mut words = blocks.remainder().chunks_exact(4);
    for word in &mut words {
        total += u64::from(u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
    }
    let rest = words.remainder();
    let mut last = [0u8; 4];
    last[..rest.len()].copy_from_slice(rest);
    total + u64::from(u32::from_ne_bytes(last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071, word by word.
    fn slow_sum(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    #[test]
    fn the_example_of_rfc_1071_section_3_sums_to_ddf2() {
        assert_eq!(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
    }

    #[test]
    fn a_known_ipv4_header_sums_to_ffff() {
        let header = [0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7];
        assert_eq!(sum(&header), 0xffff);
    }

    #[test]
    fn the_largest_input_does_not_overflow() {
        let ones = vec![0xff; 65_535];
        assert_eq!(sum(&ones), slow_sum(&ones));
    }

    proptest! {
        #[test]
        fn the_fast_sum_is_the_slow_sum(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            prop_assert_eq!(sum(&bytes), slow_sum(&bytes));
        }

        #[test]
        fn subtract_undoes_add(a in 1u16.., b in any::<u16>()) {
            let back = subtract(add(&[a, b]), b);
            prop_assert!(back == a, "{} {} {}", a, b, back);
        }
    }
}
