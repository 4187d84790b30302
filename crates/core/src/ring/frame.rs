//! The head of a data frame between neighbours, byte for byte.
//!
//! Source: the fields of IEEE 802.17's ring header (clause 9), in a layout of ours. The first byte is that of all frames
//! between ring nodes ([`control`](super::control)): it tells data from control.
//!
//! ```text
//!  0          1                     2        3         4        5
//! +----------+---------------------+--------+---------+--------+--------+
//! |ver | kind| 0 0 0 w e c c r     |  ttl   | ingress | egress |  zero  |
//! +----------+---------------------+--------+---------+--------+--------+
//! kind 1; r: the ringlet on which it travels; cc: 0 A, 1 B, 2 C; e: shares fairly; w: was turned round
//! ```
//!
//! Class A never shares fairly, class C always does; class B does beyond its committed rate.

use super::control::VERSION;
use super::protection::Path;
use super::{Class, NodeId, Ringlet};
use thiserror::Error;

/// Bytes in front of each packet between neighbours.
pub const HEAD: usize = 6;
/// The first byte of every data frame.
pub const DATA: u8 = VERSION << 4 | 1;

/// What stands in front of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// From where to where, and which way.
    pub path: Path,
    /// How it is served.
    pub class: Class,
    /// Whether it is part of what is shared fairly.
    pub shares: bool,
}

/// Why bytes are no head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HeadError {
    /// Another version or kind.
    #[error("first byte {found:#04x} where {DATA:#04x} belongs")]
    Kind {
        /// The first byte.
        found: u8,
    },
    /// Flags that mean nothing: a fourth class, a class A that shares, a class C that does not, or bits that are not used.
    #[error("flags {found:#04x}, which mean nothing")]
    Flags {
        /// The flags.
        found: u8,
    },
    /// A node 0.
    #[error("{field} is 0; nodes are numbered from 1")]
    Node {
        /// Which field.
        field: &'static str,
    },
    /// The byte that is not used is.
    #[error("the last byte is {found:#04x}, not zero")]
    Zero {
        /// The byte.
        found: u8,
    },
}

impl Head {
    /// The bytes.
    #[inline]
    pub fn encode(&self) -> [u8; HEAD] {
        let Path { ingress, egress, ringlet, wrapped, ttl } = self.path;
        let flags = ringlet as u8 | (self.class as u8) << 1 | u8::from(self.shares) << 3 | u8::from(wrapped) << 4;
        [DATA, flags, ttl, ingress.number(), egress.number(), 0]
    }

    /// Reads the bytes.
    ///
    /// # Errors
    /// What is wrong with them.
    #[inline]
    pub fn decode(bytes: [u8; HEAD]) -> Result<Head, HeadError> {
        let [kind, flags, ttl, ingress, egress, zero] = bytes;
        if kind != DATA {
            return Err(HeadError::Kind { found: kind });
        }
        if zero != 0 {
            return Err(HeadError::Zero { found: zero });
        }
        let ringlet = Ringlet::BOTH[usize::from(flags & 1)];
        let shares = flags & 0x08 != 0;
        let class = match (flags >> 1 & 3, shares) {
            (0, false) => Class::A,
            (1, _) => Class::B,
            (2, true) => Class::C,
            _ => return Err(HeadError::Flags { found: flags }),
        };
        if flags & 0xE0 != 0 {
            return Err(HeadError::Flags { found: flags });
        }
        let ingress = NodeId::new(ingress).ok_or(HeadError::Node { field: "ingress" })?;
        let egress = NodeId::new(egress).ok_or(HeadError::Node { field: "egress" })?;
        let path = Path { ingress, egress, ringlet, wrapped: flags & 0x10 != 0, ttl };
        Ok(Head { path, class, shares })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn node(n: u8) -> NodeId {
        NodeId::new(n).unwrap()
    }

    #[test]
    fn a_head_has_these_bytes() {
        let path = Path { ingress: node(3), egress: node(200), ringlet: Ringlet::One, wrapped: false, ttl: 64 };
        let head = Head { path, class: Class::C, shares: true };
        assert_eq!(head.encode(), [0x11, 0b0_1101, 64, 3, 200, 0]);
        let turned = Path { ringlet: Ringlet::Zero, wrapped: true, ..path };
        assert_eq!(Head { path: turned, class: Class::B, shares: false }.encode(), [0x11, 0b1_0010, 64, 3, 200, 0]);
        assert_eq!(Head { path, class: Class::A, shares: false }.encode()[1], 0b0_0001);
    }

    #[test]
    fn what_is_wrong_with_a_head_is_named() {
        let right = [0x11, 0b0_1100, 1, 1, 2, 0];
        assert!(Head::decode(right).is_ok());
        let with = |at: usize, byte: u8| {
            let mut bytes = right;
            bytes[at] = byte;
            Head::decode(bytes).unwrap_err()
        };
        assert_eq!(with(0, 0x12), HeadError::Kind { found: 0x12 }, "a control frame");
        assert_eq!(with(0, 0x21), HeadError::Kind { found: 0x21 }, "another version");
        assert_eq!(with(1, 0b0_0100), HeadError::Flags { found: 4 }, "best effort always shares");
        assert_eq!(with(1, 0b0_1000), HeadError::Flags { found: 8 }, "class A never does");
        assert_eq!(with(1, 0b0_1110), HeadError::Flags { found: 14 }, "a fourth class");
        assert_eq!(with(1, 0b10_1100), HeadError::Flags { found: 44 });
        assert_eq!(with(3, 0), HeadError::Node { field: "ingress" });
        assert_eq!(with(4, 0), HeadError::Node { field: "egress" });
        assert_eq!(with(5, 7), HeadError::Zero { found: 7 });
    }

    proptest! {
        #[test]
        fn what_is_read_is_written_alike(bytes: [u8; 5]) {
            let bytes = [0x11, bytes[0] & 0x1F, bytes[1], bytes[2], bytes[3], 0];
            if let Ok(head) = Head::decode(bytes) {
                prop_assert_eq!(head.encode(), bytes);
            }
        }
    }
}
