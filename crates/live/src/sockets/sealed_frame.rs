//! Sealed frames: the datagrams of [`crate::secure`] on an Ethernet channel with `secure = true`.
//!
//! A sealed frame has the EtherType of envelopes. Behind the Ethernet header stand the datagram's length (two bytes,
//! big-endian) and the datagram; what follows is the padding of short frames. The length is not authenticated and need
//! not be: a datagram cut wrong does not open.
//!
//! The session layer knows its peers by socket addresses. A station's address is written as an IPv6 multicast address
//! with port 0, which no datagram that the kernel hands us can come from, so it is never mistaken for a UDP peer. The
//! MAC stands within the first 64 bits, so that each station has a share of the handshakes. To all stations go handshakes
//! with a peer whose address is not known; its answer tells it.

use crate::channel::ethernet::Mac;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Bytes of the length before a datagram.
pub(crate) const LENGTH: usize = 2;

/// Interface-local multicast.
const PREFIX: [u8; 2] = [0xff, 0x01];

/// A station as an address for the sessions.
pub(crate) fn address_of(mac: Mac) -> SocketAddr {
    let mut bytes = [0; 16];
    bytes[..2].copy_from_slice(&PREFIX);
    bytes[2..8].copy_from_slice(&mac.0);
    SocketAddr::new(Ipv6Addr::from(bytes).into(), 0)
}

/// The station that an address of the sessions stands for; `None` for a UDP peer's.
pub(crate) fn mac_of(address: SocketAddr) -> Option<Mac> {
    let IpAddr::V6(ip) = address.ip() else { return None };
    let [p0, p1, a, b, c, d, e, f, rest @ ..] = ip.octets();
    (address.port() == 0 && [p0, p1] == PREFIX && rest == [0; 8]).then_some(Mac([a, b, c, d, e, f]))
}

/// The address as people write it.
pub(crate) fn show(address: SocketAddr) -> String {
    mac_of(address).map_or_else(|| address.to_string(), |mac| mac.to_string())
}

/// The length that stands before a datagram of `len` bytes; `None` when it is too long for any frame.
pub(crate) fn length(len: usize) -> Option<[u8; LENGTH]> {
    Some(u16::try_from(len).ok()?.to_be_bytes())
}

/// The datagram in a sealed frame, without padding; `None` when the length points behind the frame.
pub(crate) fn datagram(frame: &[u8]) -> Option<&[u8]> {
    let (length, rest) = frame.split_first_chunk::<LENGTH>()?;
    rest.get(..u16::from_be_bytes(*length).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_station_keeps_its_address_and_no_udp_peer_is_one() {
        let mac = Mac([2, 0, 0x5e, 0x10, 0, 1]);
        assert_eq!(mac_of(address_of(mac)), Some(mac));
        assert_eq!(mac_of(address_of(Mac::BROADCAST)), Some(Mac::BROADCAST));
        assert_eq!(show(address_of(mac)), "02:00:5e:10:00:01");
        for udp in ["192.0.2.1:0", "[fe80::1]:0", "[ff01:200:5e10:1::]:7", "[ff01:200:5e10:1::1]:0", "[::]:0"] {
            assert_eq!(mac_of(udp.parse().unwrap()), None, "{udp}");
        }
    }

    #[test]
    fn stations_are_apart_in_the_first_64_bits() {
        let upper = |mac| match address_of(mac).ip() {
            IpAddr::V6(ip) => u128::from(ip) >> 64,
            IpAddr::V4(_) => unreachable!(),
        };
        assert_ne!(upper(Mac([2, 0, 0, 0, 0, 1])), upper(Mac([2, 0, 0, 0, 0, 2])));
    }

    proptest! {
        #[test]
        fn padding_is_cut_and_no_frame_yields_bytes_that_it_has_not(
            bytes in prop::collection::vec(any::<u8>(), 0..100),
            padding in 0usize..60,
        ) {
            let mut frame = length(bytes.len()).unwrap().to_vec();
            frame.extend(&bytes);
            frame.resize(frame.len() + padding, 0);
            prop_assert_eq!(datagram(&frame), Some(&bytes[..]));
            for end in 0..LENGTH + bytes.len() {
                prop_assert_eq!(datagram(&frame[..end]), None);
            }
        }
    }
}
