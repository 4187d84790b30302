//! Numbers of which a frame carries the low 24 bits.
//!
//! What it is: numbers count in 32 bits at both ends. A frame says the low 24, and its receiver takes the number with these bits that
//! is nearest to what it knows, or the first one from there on where it knows that the number must be later.
//!
//! Source: RFC 9000 section 17.1 and appendix A.3, RFC 9147 section 4.2.2. Ours never depends on what was acknowledged: who reads a
//! number either compares it with others of the same reading only, or is told the whole number from time to time, by a heartbeat.
//!
//! Cost: O(1), no branch. Holds while what is read is less than 2^23 (8,388,608) from what is known: ten seconds of full packets at
//! 10 Gbit/s. Each user says what follows otherwise.

/// Bits that a frame does not carry.
const CUT: u32 = 8;

/// The low 24 bits.
#[inline]
pub const fn short(number: u32) -> u32 {
    number << CUT >> CUT
}

/// By how much the number with the low bits of `number` that is nearest to `to` is after it; negative: before.
#[inline]
pub const fn ahead(number: u32, to: u32) -> i32 {
    ((number.wrapping_sub(to) << CUT) as i32) >> CUT
}

/// The number with the low bits of `number` that is nearest to `to`.
#[inline]
pub const fn nearest(number: u32, to: u32) -> u32 {
    to.wrapping_add(ahead(number, to) as u32)
}

/// The first number from `from` on with the low bits of `number`.
#[inline]
pub const fn from_on(number: u32, from: u32) -> u32 {
    from.wrapping_add(short(number.wrapping_sub(from)))
}

/// The three bytes of a number.
#[inline]
pub(super) const fn to_bytes(number: u32) -> [u8; 3] {
    let [_, a, b, c] = number.to_be_bytes();
    [a, b, c]
}

/// The number of three bytes.
#[inline]
pub(super) const fn from_bytes([a, b, c]: [u8; 3]) -> u32 {
    u32::from_be_bytes([0, a, b, c])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HALF: i64 = 1 << 23;

    proptest! {
        #[test]
        fn a_number_is_read_whole_while_it_is_within_half_a_turn(known: u32, step in -HALF..HALF) {
            let number = known.wrapping_add(step as u32);
            let read = from_bytes(to_bytes(number));
            prop_assert_eq!((read, nearest(read, known)), (short(number), number));
            prop_assert_eq!(i64::from(ahead(read, known)), step);
        }

        #[test]
        fn a_number_that_must_be_later_is_read_whole_within_a_turn(known: u32, step in 0u32..1 << 24) {
            prop_assert_eq!(from_on(short(known.wrapping_add(step)), known), known.wrapping_add(step));
        }

        #[test]
        fn what_is_read_has_the_bits_that_were_sent(number: u32, known: u32) {
            for read in [nearest(number, known), from_on(number, known)] {
                prop_assert_eq!(short(read), short(number));
            }
            prop_assert!(from_on(number, known).wrapping_sub(known) < 1 << 24);
        }
    }
}
