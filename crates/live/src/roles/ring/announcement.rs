//! What a node tells the others of its station: tag, length, value; unknown tags are skipped, so that later versions may
//! say more.
//!
//! | tag | value |
//! |---|---|
//! | 1 | the largest packet that fits both links of the node, u16 big-endian |
//! | 4 | an IPv4 prefix behind the node: its length in bits, then as many bytes as that takes |
//! | 6 | an IPv6 prefix in the same way |

use fairspan_core::ring::control::MOST_ANNOUNCED;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::net::{Ipv4Addr, Ipv6Addr};
use thiserror::Error;

/// One node's announcement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Announcement {
    /// The largest packet that fits its links.
    pub(super) mtu: Option<u16>,
    /// What lies behind it.
    pub(super) networks: Vec<IpNet>,
}

/// Why an announcement is not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum AnnouncementError {
    /// A field ends behind the announcement's end.
    #[error("field {tag} is cut short")]
    Truncated {
        /// The field.
        tag: u8,
    },
    /// A field has an impossible length or value.
    #[error("field {tag} has an impossible value")]
    Value {
        /// The field.
        tag: u8,
    },
}

impl Announcement {
    /// The bytes, and how many of the networks found no room in them.
    pub(super) fn encode(&self) -> (Vec<u8>, usize) {
        let mut out = Vec::new();
        if let Some(mtu) = self.mtu {
            out.extend([1, 2]);
            out.extend(mtu.to_be_bytes());
        }
        let mut left_out = 0;
        for net in &self.networks {
            let bytes = usize::from(net.prefix_len()).div_ceil(8);
            if out.len() + 3 + bytes > MOST_ANNOUNCED {
                left_out += 1;
                continue;
            }
            let (tag, address) = match net {
                IpNet::V4(net) => (4, net.network().octets().to_vec()),
                IpNet::V6(net) => (6, net.network().octets().to_vec()),
            };
            out.extend([tag, 1 + bytes as u8, net.prefix_len()]);
            out.extend(&address[..bytes]);
        }
        (out, left_out)
    }

    /// Reads what another node tells.
    ///
    /// # Errors
    /// Names the field that is cut short or impossible.
    pub(super) fn decode(mut bytes: &[u8]) -> Result<Announcement, AnnouncementError> {
        let mut announcement = Announcement::default();
        while let Some((&tag, rest)) = bytes.split_first() {
            let (&length, rest) = rest.split_first().ok_or(AnnouncementError::Truncated { tag })?;
            let (value, rest) = rest.split_at_checked(length.into()).ok_or(AnnouncementError::Truncated { tag })?;
            bytes = rest;
            let bad = AnnouncementError::Value { tag };
            match tag {
                1 => {
                    let mtu = u16::from_be_bytes(value.try_into().map_err(|_| bad)?);
                    // What every IPv4 host takes: with less, the ring would be of no use to anybody.
                    if mtu < 576 {
                        return Err(bad);
                    }
                    announcement.mtu = Some(mtu);
                }
                4 => {
                    let (length, octets) = prefix::<4>(value).ok_or(bad)?;
                    let net = Ipv4Net::new(Ipv4Addr::from(octets), length).map_err(|_| bad)?;
                    announcement.networks.push(net.trunc().into());
                }
                6 => {
                    let (length, octets) = prefix::<16>(value).ok_or(bad)?;
                    let net = Ipv6Net::new(Ipv6Addr::from(octets), length).map_err(|_| bad)?;
                    announcement.networks.push(net.trunc().into());
                }
                _ => {}
            }
        }
        Ok(announcement)
    }
}

/// A prefix's length, and its bytes filled up with zeros.
fn prefix<const N: usize>(value: &[u8]) -> Option<(u8, [u8; N])> {
    let (&length, bytes) = value.split_first()?;
    let mut octets = [0; N];
    let known = octets.get_mut(..bytes.len())?;
    known.copy_from_slice(bytes);
    (usize::from(length).div_ceil(8) == bytes.len()).then_some((length, octets))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn nets(texts: &[&str]) -> Vec<IpNet> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn the_bytes_are_the_documented_ones_and_come_back() {
        let networks = nets(&["10.8.0.3/32", "192.168.64.0/18", "0.0.0.0/0", "fd00:8::/32"]);
        let announcement = Announcement { mtu: Some(1422), networks };
        let (bytes, left_out) = announcement.encode();
        let expected = b"\x01\x02\x05\x8e\x04\x05\x20\x0a\x08\x00\x03\x04\x04\x12\xc0\xa8\x40\x04\x01\x00\x06\x05\x20\xfd\x00\x00\x08";
        assert_eq!((bytes.as_slice(), left_out), (&expected[..], 0));
        assert_eq!(Announcement::decode(&bytes), Ok(announcement));
    }

    #[test]
    fn what_does_not_fit_is_counted_and_the_rest_is_whole() {
        let networks: Vec<IpNet> = (0..100u16)
            .map(|n| Ipv6Net::new(Ipv6Addr::new(0xfd00, n, 0, 0, 0, 0, 0, 1), 128).unwrap().into())
            .collect();
        let (bytes, left_out) = Announcement { mtu: Some(1422), networks: networks.clone() }.encode();
        assert!(bytes.len() <= MOST_ANNOUNCED);
        assert_eq!(Announcement::decode(&bytes).unwrap().networks, networks[..100 - left_out]);
        assert_eq!(left_out, 100 - (MOST_ANNOUNCED - 4) / 19);
    }

    #[test]
    fn impossible_fields_are_named() {
        for (bytes, error) in [
            (&b"\x04\x05\x20\x0a\x08"[..], AnnouncementError::Truncated { tag: 4 }),
            (b"\x04", AnnouncementError::Truncated { tag: 4 }),
            (b"\x04\x00", AnnouncementError::Value { tag: 4 }),
            (b"\x04\x03\x20\x0a\x08", AnnouncementError::Value { tag: 4 }),
            (b"\x04\x06\x21\x0a\x08\x00\x03\x00", AnnouncementError::Value { tag: 4 }),
            (b"\x06\x01\x81", AnnouncementError::Value { tag: 6 }),
            (b"\x01\x02\x00\x44", AnnouncementError::Value { tag: 1 }),
            (b"\x01\x01\x44", AnnouncementError::Value { tag: 1 }),
        ] {
            assert_eq!(Announcement::decode(bytes), Err(error), "{bytes:?}");
        }
        assert_eq!(Announcement::decode(b"\x63\x02ab"), Ok(Announcement::default()), "a later version's");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic_and_what_is_understood_survives(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(announcement) = Announcement::decode(&bytes) {
                let (bytes, left_out) = announcement.encode();
                prop_assert_eq!(left_out, 0);
                prop_assert_eq!(Announcement::decode(&bytes), Ok(announcement));
            }
        }
    }
}
