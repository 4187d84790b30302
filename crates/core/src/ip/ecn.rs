//! Explicit congestion notification through a tunnel.
//!
//! What it is: at the entry the outer header takes the packet's ECN field ("normal mode", RFC 6040 section 4.1), so
//! that routers on the link can mark it; at the exit the mark is carried over to the packet (section 4.2, figure 4).
//! DSCP is the uniform or pipe model of RFC 2983, by setting.
//!
//! | inner \ outer | Not-ECT | ECT(0) | ECT(1) | CE |
//! |---|---|---|---|---|
//! | Not-ECT | Not-ECT | Not-ECT (odd) | Not-ECT (odd) | drop (odd) |
//! | ECT(0) | ECT(0) | ECT(0) | ECT(1) | CE |
//! | ECT(1) | ECT(1) (odd) | ECT(1) (odd) | ECT(1) | CE |
//! | CE | CE | CE | CE (odd) | CE |

use super::{Version, checksum};

/// Not ECN-capable.
pub const NOT_ECT: u8 = 0;
/// ECN-capable, code point 1.
pub const ECT_1: u8 = 1;
/// ECN-capable, code point 0.
pub const ECT_0: u8 = 2;
/// Congestion experienced.
pub const CE: u8 = 3;

/// What becomes of a packet at the exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The packet's new ECN field; `None`: drop it.
    pub ecn: Option<u8>,
    /// A combination that compliant tunnels do not produce: worth counting.
    pub odd: bool,
}

/// The outer type of service of a packet whose own is `inner` (RFC 6040 section 4.1).
pub const fn entry(inner: u8, copy_dscp: bool) -> u8 {
    if copy_dscp { inner } else { inner & 3 }
}

/// What the exit makes of a packet (RFC 6040, figure 4). Only the low two bits of each argument count.
pub const fn exit(inner: u8, outer: u8) -> Exit {
    let (inner, outer) = (inner & 3, outer & 3);
    match (inner, outer) {
        (NOT_ECT, CE) => Exit { ecn: None, odd: true },
        (NOT_ECT, _) => Exit { ecn: Some(NOT_ECT), odd: outer != NOT_ECT },
        (CE, _) => Exit { ecn: Some(CE), odd: outer == ECT_1 },
        (_, CE) => Exit { ecn: Some(CE), odd: false },
        (ECT_1, _) => Exit { ecn: Some(ECT_1), odd: outer != ECT_1 },
        (_, ECT_1) => Exit { ecn: Some(ECT_1), odd: false },
        (_, _) => Exit { ecn: Some(inner), odd: false },
    }
}

/// Sets the ECN field of a packet whose header was parsed as `version`, and repairs the IPv4 header checksum.
pub fn set(bytes: &mut [u8], version: Version, ecn: u8) {
    let Some([b0, b1, .., c0, c1]) = bytes.first_chunk_mut::<12>() else { return };
    match version {
        Version::V4 => {
            let old = u16::from_be_bytes([*b0, *b1]);
            *b1 = *b1 & !3 | ecn & 3;
            let sum = checksum::update(u16::from_be_bytes([*c0, *c1]), old, u16::from_be_bytes([*b0, *b1]));
            [*c0, *c1] = sum.to_be_bytes();
        }
        Version::V6 => *b1 = *b1 & !0x30 | (ecn & 3) << 4,
    }
}

/// Marks an IP packet, "congestion experienced", if it is capable of it.
pub fn mark(bytes: &mut [u8]) -> bool {
    let Some(&[first, second]) = bytes.first_chunk() else { return false };
    let (version, ecn) = match first >> 4 {
        4 => (Version::V4, second & 3),
        6 => (Version::V6, second >> 4 & 3),
        _ => return false,
    };
    if ecn == NOT_ECT {
        return false;
    }
    set(bytes, version, CE);
    true
}

#[cfg(test)]
mod tests {
    use super::super::{Header, testing};
    use super::*;

    #[test]
    fn the_exit_is_figure_4_of_rfc_6040() {
        let (n, z, o, c) = (Some(NOT_ECT), Some(ECT_0), Some(ECT_1), Some(CE));
        // Rows: inner; columns: outer Not-ECT, ECT(0), ECT(1), CE. `!` in the figure is `odd` here.
        let figure = [
            (NOT_ECT, [(n, false), (n, true), (n, true), (None, true)]),
            (ECT_0, [(z, false), (z, false), (o, false), (c, false)]),
            (ECT_1, [(o, true), (o, true), (o, false), (c, false)]),
            (CE, [(c, false), (c, false), (c, true), (c, false)]),
        ];
        for (inner, row) in figure {
            for (outer, (ecn, odd)) in [NOT_ECT, ECT_0, ECT_1, CE].into_iter().zip(row) {
                assert_eq!(exit(inner, outer), Exit { ecn, odd }, "inner {inner}, outer {outer}");
            }
        }
    }

    #[test]
    fn the_entry_copies_ecn_always_and_dscp_by_setting() {
        assert_eq!(entry(0b1011_1010, true), 0b1011_1010);
        assert_eq!(entry(0b1011_1010, false), 0b10);
    }

    #[test]
    fn setting_the_field_keeps_everything_else_and_the_checksum_right() {
        for ecn in 0..4 {
            let mut p = testing::udp4(1, 2, 3, 4, &[5; 7]);
            p[1] = 0b1011_1001;
            testing::seal4(&mut p);
            set(&mut p, Version::V4, ecn);
            assert_eq!(Header::parse(&p, p.len()).unwrap().tos, 0b1011_1000 | ecn);
            assert_eq!(checksum::of(&p[..20]), 0);
            let mut p = testing::udp6(1, 2, 3, 4, &[5; 7]);
            (p[0], p[1]) = (0x6a, 0x9f);
            set(&mut p, Version::V6, ecn);
            assert_eq!((p[0], p[1] & 0xcf), (0x6a, 0x8f));
            assert_eq!(Header::parse(&p, p.len()).unwrap().tos, 0xa8 | ecn);
        }
    }
}
