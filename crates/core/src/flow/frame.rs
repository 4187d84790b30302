//! A packet as it is looked at to tell it from others: bytes that may begin with an Ethernet header, and may be cut.

use super::ethernet;

/// What a frame's bytes begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layer {
    /// An Ethernet header.
    Ethernet,
    /// An IPv4 or IPv6 header: what a TUN interface gives. Policies that look at Ethernet addresses see zeros there.
    Ip,
}

/// A packet as it is told apart from others.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Its bytes from the beginning, as many as are known: a capture may have cut it.
    pub bytes: &'a [u8],
    /// Its length in bytes, without the Ethernet check sequence; at least `bytes.len()`.
    pub len: usize,
    /// What the bytes begin with.
    pub layer: Layer,
}

impl<'a> Frame<'a> {
    /// The EtherType in its Ethernet header, be it a tag's; without such a header that of its IP version. 0: neither is there.
    #[inline]
    pub fn ether_type(&self) -> u16 {
        match (self.layer, self.bytes.first().map(|byte| byte >> 4)) {
            (Layer::Ethernet, _) => ethernet::ether_type(self.bytes).unwrap_or(0),
            (Layer::Ip, Some(4)) => ethernet::IPV4,
            (Layer::Ip, Some(6)) => ethernet::IPV6,
            (Layer::Ip, _) => 0,
        }
    }

    /// The IP packet in it, by EtherType and version; none behind tags.
    #[inline]
    pub fn ip(&self) -> Option<&'a [u8]> {
        let packet = self.behind_ethernet();
        match (self.ether_type(), packet.first()? >> 4) {
            (ethernet::IPV4, 4) | (ethernet::IPV6, 6) => Some(packet),
            _ => None,
        }
    }

    /// What follows its Ethernet header, where it has one.
    #[inline]
    pub(crate) fn behind_ethernet(&self) -> &'a [u8] {
        match self.layer {
            Layer::Ethernet => self.bytes.get(ethernet::HEADER..).unwrap_or(&[]),
            Layer::Ip => self.bytes,
        }
    }
}
