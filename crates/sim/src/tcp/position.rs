//! Positions: sequence numbers that do not wrap.
//!
//! What it is: inside a connection a byte is known by its distance from the initial sequence number, in 64 bits: the SYN
//! has position 0, the first byte of payload 1, the FIN the one after the last byte. On the wire are 32 bits that wrap
//! (RFC 9293, 3.4). Source: RFC 7323, 5.1 for what a window may be (2^30), so that 2^31 to either side is unambiguous.

/// The sequence number on the wire of `position`, where the initial one is `initial`.
#[inline]
pub(super) fn wrap(initial: u32, position: u64) -> u32 {
    initial.wrapping_add(position as u32)
}

/// The position that `wire` means: the one nearest to `near`. Negative where it lies before the SYN.
#[inline]
pub(super) fn unwrap(initial: u32, near: u64, wire: u32) -> i64 {
    let distance = wire.wrapping_sub(wrap(initial, near)) as i32;
    near as i64 + i64::from(distance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_survive_the_wire_around_every_wrap() {
        for initial in [0, 1, u32::MAX, u32::MAX - 5, 1 << 31] {
            for near in [0, 1, u64::from(u32::MAX), 1 << 32, 123_456_789_012] {
                for distance in [-(1i64 << 30), -1, 0, 1, 1460, 1 << 30] {
                    let position = near as i64 + distance;
                    let wire = initial.wrapping_add(position as u32);
                    assert_eq!(unwrap(initial, near, wire), position, "{initial} {near} {distance}");
                }
            }
        }
    }
}
