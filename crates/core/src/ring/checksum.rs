//! The checksum of control frames.
//!
//! CRC-32C (Castagnoli), as RFC 3720, appendix B.4, gives it: polynomial 0x1EDC6F41, reflected, start and end inverted.
//! A ring's links may be wires without a check of their own, and a share that one bit turned would throttle the whole ring.

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut rest, mut bit) = (byte as u32, 0);
        while bit < 8 {
            rest = if rest & 1 == 1 { rest >> 1 ^ 0x82f6_3b78 } else { rest >> 1 };
            bit += 1;
        }
        table[byte] = rest;
        byte += 1;
    }
    table
};

/// A checksum under way: parts may come one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crc32c(u32);

impl Crc32c {
    /// That of no bytes.
    pub const fn new() -> Crc32c {
        Crc32c(!0)
    }

    /// With these bytes behind the ones before.
    pub fn with(self, bytes: &[u8]) -> Crc32c {
        Crc32c(bytes.iter().fold(self.0, |rest, byte| rest >> 8 ^ TABLE[usize::from(rest as u8 ^ byte)]))
    }

    /// The sum.
    pub const fn sum(self) -> u32 {
        !self.0
    }
}

impl Default for Crc32c {
    fn default() -> Crc32c {
        Crc32c::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vectors_of_rfc_3720_hold() {
        let crc32c = |bytes: &[u8]| Crc32c::new().with(bytes).sum();
        let rising: [u8; 32] = core::array::from_fn(|n| n as u8);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&rising), 0x46dd_794e);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(Crc32c::new().with(b"1234").with(b"").with(b"56789").sum(), 0xe306_9283);
    }
}
