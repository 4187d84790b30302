//! Link types: what the bytes of a captured packet begin with, and what of them a selector of links can look at.
//!
//! Source: tcpdump's registry of link types (`LINKTYPE_…`).
//!
//! - Ethernet frames are given whole, with their tags.
//! - Raw IP, null and loopback, Linux cooked captures (versions 1 and 2), and PPP in its several forms have no Ethernet
//!   header: what is given begins with the IP header, behind tags, labels and sessions. What is not IP there cannot be told
//!   apart any further and is left out.
//! - Other link types are refused by their names.

use crate::capture::{Captured, LinkType};
use fairspan_core::flow::Layer;
use fairspan_core::flow::layers::{self, NoIp};
use fairspan_core::packet::at;

/// What a selector sees of a captured packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framed<'a> {
    /// What the bytes begin with.
    pub layer: Layer,
    /// What was captured from there on.
    pub bytes: &'a [u8],
    /// Length on the wire from there on.
    pub len: u32,
}

/// Why a packet cannot be given to a selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum NoFrame {
    /// The link type is another one.
    #[error(
        "link type {0}{name} begins with neither an Ethernet nor an IP header; read are Ethernet (1), raw IP (12, 14, 101, \
         228, 229), null and loopback (0, 108), Linux cooked captures (113, 276), and PPP (9, 50, 51, 104, 166, 204)",
        name = name(*.0)
    )]
    LinkType(LinkType),
    /// No IP packet, where there is no Ethernet header either.
    #[error("no IP packet, and a capture of link type {0}{name} has no Ethernet headers", name = name(*.0))]
    NotIp(LinkType),
}

const ETHERNET: LinkType = 1;
/// EtherType of a PPPoE session.
const PPPOE: u16 = 0x8864;

/// The name of a link type, in parentheses, where it is one that is often met.
fn name(link_type: LinkType) -> &'static str {
    match link_type {
        0 => " (null)",
        9 => " (PPP)",
        12 | 14 | 101 | 228 | 229 => " (raw IP)",
        50 => " (PPP in HDLC framing)",
        51 => " (PPPoE)",
        104 => " (Cisco HDLC)",
        105 => " (IEEE 802.11)",
        108 => " (loopback)",
        113 => " (Linux cooked)",
        127 => " (IEEE 802.11 with radiotap)",
        166 | 204 => " (PPP with direction)",
        189 | 220 => " (USB)",
        197 => " (ERF)",
        195 | 215 | 230 => " (IEEE 802.15.4)",
        239 => " (netfilter log)",
        276 => " (Linux cooked, version 2)",
        _ => "",
    }
}

/// What a selector sees of `packet`.
///
/// # Errors
/// Why it cannot see any of it.
pub fn frame<'a>(packet: &Captured<'a>) -> Result<Framed<'a>, NoFrame> {
    let &Captured { link_type, bytes, length, .. } = packet;
    if link_type == ETHERNET {
        return Ok(Framed { layer: Layer::Ethernet, bytes, len: length });
    }
    match network(link_type, bytes) {
        Ok(start) => Ok(Framed { layer: Layer::Ip, bytes: &bytes[start..], len: length.saturating_sub(start as u32) }),
        Err(NoNetwork::LinkType) => Err(NoFrame::LinkType(link_type)),
        Err(NoNetwork::NoIp(_)) => Err(NoFrame::NotIp(link_type)),
    }
}

/// Why no IP header can be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoNetwork {
    /// The link type is not read.
    LinkType,
    /// What is there is no IP.
    NoIp(NoIp),
}

/// Where in `bytes` the IP header begins.
#[inline]
pub(crate) fn network(link_type: LinkType, bytes: &[u8]) -> Result<usize, NoNetwork> {
    let found = match link_type {
        ETHERNET => layers::ethernet(bytes, 0),
        // Raw IP, under its numbers.
        12 | 14 | 101 | 228 | 229 => ip(bytes, 0),
        // A family of four bytes, in either byte order; the version behind it tells.
        0 | 108 => ip(bytes, 4),
        113 => typed(bytes, 14, 16),
        276 => typed(bytes, 0, 20),
        9 | 50 | 104 => hdlc(bytes, 0),
        51 => layers::network(bytes, PPPOE, 0),
        // The direction stands before it, in place of the address or before that.
        166 | 204 => hdlc(bytes, 1),
        _ => return Err(NoNetwork::LinkType),
    };
    found.map_err(NoNetwork::NoIp)
}

/// What has no type before it.
#[inline]
fn ip(bytes: &[u8], start: usize) -> Result<usize, NoIp> {
    match bytes.get(start).ok_or(NoIp::Short)? >> 4 {
        4 | 6 => Ok(start),
        _ => Err(NoIp::Other),
    }
}

/// An EtherType at `kind`, and what has it at `start`.
fn typed(bytes: &[u8], kind: usize, start: usize) -> Result<usize, NoIp> {
    layers::network(bytes, u16::from_be_bytes(*at(bytes, kind).ok_or(NoIp::Short)?), start)
}

/// PPP with or without HDLC's address and control bytes, or Cisco's HDLC.
fn hdlc(bytes: &[u8], start: usize) -> Result<usize, NoIp> {
    match bytes.get(start..).ok_or(NoIp::Short)? {
        [0xff, 0x03, ..] => layers::ppp(bytes, start + 2),
        [0x03, ..] if start > 0 => layers::ppp(bytes, start + 1),
        [0x0f | 0x8f, 0, ..] => typed(bytes, start + 2, start + 4),
        _ => layers::ppp(bytes, start),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IP: [u8; 24] = [0x45, 0, 0, 24, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 1, 2, 3, 4];

    fn framed(link_type: LinkType, bytes: &[u8]) -> Result<(Layer, Vec<u8>, u32), NoFrame> {
        let packet = Captured { time: 0, length: bytes.len() as u32 + 7, bytes, link_type };
        frame(&packet).map(|framed| (framed.layer, framed.bytes.to_vec(), framed.len))
    }

    #[test]
    fn every_link_type_that_is_read_gives_the_same_ip_packet() {
        let mut cooked = vec![0; 14];
        cooked.extend([0x08, 0x00]);
        let mut tagged = vec![0; 14];
        tagged.extend([0x81, 0x00, 0, 5, 0x08, 0x00]);
        let mut second = vec![0x08, 0x00];
        second.resize(20, 0);
        let heads: [(LinkType, Vec<u8>); 18] = [
            (12, vec![]),
            (14, vec![]),
            (101, vec![]),
            (228, vec![]),
            (0, vec![2, 0, 0, 0]),
            (108, vec![0, 0, 0, 2]),
            (113, cooked),
            (113, tagged),
            (276, second),
            (9, vec![0x00, 0x21]),
            (9, vec![0x21]),
            (50, vec![0xff, 0x03, 0x00, 0x21]),
            (50, vec![0x0f, 0x00, 0x08, 0x00]),
            (104, vec![0x8f, 0x00, 0x81, 0x00, 0, 5, 0x08, 0x00]),
            (51, vec![0x11, 0, 0, 1, 0, 26, 0, 0x21]),
            (166, vec![0x01, 0x03, 0x00, 0x21]),
            (204, vec![0x01, 0xff, 0x03, 0x00, 0x21]),
            (204, vec![0x00, 0x00, 0x21]),
        ];
        for (link_type, head) in heads {
            let packet = [&head[..], &IP].concat();
            assert_eq!(framed(link_type, &packet), Ok((Layer::Ip, IP.to_vec(), 31)), "{link_type}");
        }
    }

    #[test]
    fn ethernet_frames_are_given_whole_however_short() {
        for length in [0, 1, 13, 14, 60] {
            assert_eq!(framed(1, &[9; 60][..length]), Ok((Layer::Ethernet, vec![9; length], length as u32 + 7)));
        }
    }

    #[test]
    fn what_has_neither_header_is_refused_by_its_name() {
        assert_eq!(framed(105, &IP), Err(NoFrame::LinkType(105)));
        let refused = NoFrame::LinkType(105).to_string();
        assert!(refused.contains("105 (IEEE 802.11)") && refused.contains("Ethernet (1)"), "{refused}");
        let mut arp = vec![0; 14];
        arp.extend([0x08, 0x06, 0, 1, 8, 0]);
        assert_eq!(framed(113, &arp), Err(NoFrame::NotIp(113)));
        for (link_type, bytes) in [(101, &[][..]), (101, &[0x70; 20]), (0, &[2, 0, 0, 0]), (113, &[0; 15]), (276, &[8])]
        {
            assert_eq!(framed(link_type, bytes), Err(NoFrame::NotIp(link_type)), "{bytes:?}");
        }
    }
}
