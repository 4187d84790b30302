//! What an Ethernet header says of what follows it: the EtherType, and the VLAN tags between it and that.
//!
//! Source: IEEE 802.3 (header), IEEE 802.1Q section 9 (tags).

use crate::ip::ecn;
use crate::packet::at;

/// EtherType of IPv4.
pub const IPV4: u16 = 0x0800;
/// EtherType of ARP.
pub const ARP: u16 = 0x0806;
/// EtherType of IPv6.
pub const IPV6: u16 = 0x86dd;

/// Bytes of an Ethernet header without tags.
pub const HEADER: usize = 14;

/// EtherTypes of tags: the customer's (C-TAG) and the provider's (S-TAG).
pub const VLAN: [u16; 2] = [0x8100, 0x88a8];
/// Those, and the two that switches used before there was a provider's.
pub const ALL_VLAN: [u16; 4] = [0x8100, 0x88a8, 0x9100, 0x9200];

/// The EtherType of a frame; `None` for one without a whole header.
#[inline]
pub fn ether_type(frame: &[u8]) -> Option<u16> {
    at::<HEADER>(frame, 0).map(|header| u16::from_be_bytes([header[12], header[13]]))
}

/// Where in a frame its IP packet begins, behind tags too; `None`: there is none in it.
#[inline]
pub fn packet(frame: &[u8]) -> Option<usize> {
    let mut tags = Tags::new(frame, ether_type(frame)?, HEADER);
    tags.pass(&ALL_VLAN, 4);
    [IPV4, IPV6].contains(&tags.ether_type).then_some(tags.at)
}

/// Marks the IP packet in a frame, "congestion experienced", behind tags too, if it is capable of it.
pub fn mark(frame: &mut [u8]) -> bool {
    packet(frame).and_then(|at| frame.get_mut(at..)).is_some_and(ecn::mark)
}

/// A walk over the VLAN tags of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Tags<'a> {
    bytes: &'a [u8],
    /// The EtherType of what comes next, be it a tag.
    pub ether_type: u16,
    /// Where in the bytes that begins.
    pub at: usize,
}

impl<'a> Tags<'a> {
    /// The walk begins at `at` in `bytes`, before what has the type `ether_type`.
    #[inline]
    pub const fn new(bytes: &'a [u8], ether_type: u16, at: usize) -> Tags<'a> {
        Tags { bytes, ether_type, at }
    }

    /// Passes over the next tag, if it has one of these types and is there whole: the number of its VLAN, without priority.
    #[inline]
    pub fn step(&mut self, types: &[u16]) -> Option<u16> {
        if !types.contains(&self.ether_type) {
            return None;
        }
        let &[a, b, c, d] = at(self.bytes, self.at)?;
        (self.ether_type, self.at) = (u16::from_be_bytes([c, d]), self.at + 4);
        Some(u16::from_be_bytes([a & 15, b]))
    }

    /// Passes over tags of these types, at most `most` of them.
    #[inline]
    pub fn pass(&mut self, types: &[u16], most: usize) {
        for _ in 0..most {
            if self.step(types).is_none() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_passed_one_by_one_up_to_a_cut_or_another_type() {
        let bytes = [0xe0, 5, 0x81, 0, 0x0f, 0xff, 0x08, 0, 0x45];
        let mut tags = Tags::new(&bytes, 0x88a8, 0);
        assert_eq!((tags.step(&VLAN), tags.ether_type, tags.at), (Some(5), 0x8100, 4));
        assert_eq!((tags.step(&VLAN), tags.ether_type, tags.at), (Some(0xfff), IPV4, 8));
        assert_eq!((tags.step(&VLAN), tags.at), (None, 8));
        let mut cut = Tags::new(&bytes[..7], 0x88a8, 0);
        assert_eq!((cut.step(&VLAN), cut.step(&VLAN), cut.ether_type, cut.at), (Some(5), None, 0x8100, 4));
        assert_eq!(Tags::new(&bytes, 0x9100, 0).step(&VLAN), None);
        assert_eq!(Tags::new(&bytes, 0x9100, 0).step(&ALL_VLAN), Some(5));
        let mut some = Tags::new(&bytes, 0x88a8, 0);
        some.pass(&VLAN, 1);
        assert_eq!(some.at, 4);
        some.pass(&VLAN, 7);
        assert_eq!((some.ether_type, some.at), (IPV4, 8));
    }
}
