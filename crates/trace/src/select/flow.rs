//! Flows as reordering is counted by them: the 5-tuple of addresses, protocol and ports; the 3-tuple without ports where
//! the protocol has none and for all fragments; for what is no IP packet, the Ethernet addresses and type. One direction
//! of a connection is one flow. Tags of VLANs do not tell flows apart.

use fairspan_core::ip::{Header, Version};
use fairspan_core::select::{Frame, Layer};
use std::collections::HashMap;

/// What packets of one flow have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FlowKey([u64; 5]);

impl FlowKey {
    /// The flow of `frame`. What cannot be read counts as zeros.
    pub(super) fn of(frame: &Frame<'_>) -> FlowKey {
        let offset = match frame.layer {
            Layer::Ip => Some(0),
            Layer::Ethernet => crate::link_type::ip_offset(1, frame.bytes),
        };
        let ip = offset.and_then(|offset| {
            let bytes = frame.bytes.get(offset..)?;
            Some((Header::parse(bytes, frame.len - offset).ok()?, bytes))
        });
        match ip {
            Some((header, bytes)) => FlowKey::ip(&header, bytes),
            None => FlowKey::ethernet(frame.bytes),
        }
    }

    fn ip(header: &Header, bytes: &[u8]) -> FlowKey {
        let ports = header.ports(bytes).map_or(0, u32::from_be_bytes);
        let kind = u64::from(header.version.number()) << 40 | u64::from(header.protocol) << 32;
        let mut key = [kind | u64::from(ports), 0, 0, 0, 0];
        let addresses = match header.version {
            Version::V4 => bytes.get(12..20),
            Version::V6 => bytes.get(8..40),
        };
        let words = addresses.unwrap_or_default().as_chunks::<8>().0;
        key[1..].iter_mut().zip(words).for_each(|(slot, word)| *slot = u64::from_be_bytes(*word));
        FlowKey(key)
    }

    fn ethernet(bytes: &[u8]) -> FlowKey {
        let mut head = [0; 16];
        let there = bytes.len().min(14);
        head[..there].copy_from_slice(&bytes[..there]);
        let [high, low] = [&head[..8], &head[8..]].map(|half| half.iter().fold(0, |word, &b| word << 8 | u64::from(b)));
        FlowKey([u64::MAX, high, low, 0, 0])
    }
}

/// The numbers of flows, in the order of their first packets.
#[derive(Debug, Default)]
pub(super) struct Flows(HashMap<FlowKey, u32>);

impl Flows {
    /// The number of the flow, which is a new one where it was not met before.
    pub(super) fn number(&mut self, key: FlowKey) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry(key).or_insert(next)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An Ethernet frame with `tags` tags, and in it an IPv4 packet with this place and these bytes behind the header.
    fn frame(tags: usize, protocol: u8, place: u16, behind: &[u8]) -> Vec<u8> {
        let mut bytes = vec![2; 12];
        (0..tags).for_each(|_| bytes.extend([0x81, 0, 0, 7]));
        bytes.extend([0x08, 0x00, 0x45, 0]);
        bytes.extend((20 + behind.len() as u16).to_be_bytes());
        bytes.extend([0, 0, (place >> 8) as u8, place as u8, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        bytes.extend(behind);
        bytes
    }

    fn key(bytes: &[u8]) -> FlowKey {
        FlowKey::of(&Frame { bytes, len: bytes.len(), layer: Layer::Ethernet })
    }

    #[test]
    fn ports_tell_flows_apart_except_in_fragments_and_protocols_without_ports() {
        let (a, b) = ([0, 80, 1, 1, 0, 0, 0, 0], [0, 81, 1, 1, 0, 0, 0, 0]);
        for protocol in [6, 17] {
            assert_ne!(key(&frame(0, protocol, 0, &a)), key(&frame(0, protocol, 0, &b)));
            assert_eq!(key(&frame(0, protocol, 0, &a)), key(&frame(2, protocol, 0, &a)));
            assert_eq!(key(&frame(0, protocol, 0x2000, &a)), key(&frame(0, protocol, 5, &b)));
        }
        assert_eq!(key(&frame(0, 50, 0, &a)), key(&frame(0, 50, 0, &b)));
        assert_ne!(key(&frame(0, 50, 0, &a)), key(&frame(0, 51, 0, &a)));
    }

    #[test]
    fn what_is_no_ip_packet_goes_by_its_ethernet_header_however_short() {
        let arp = |to: u8| [vec![to; 6], vec![1; 6], vec![8, 6, 0, 1]].concat();
        assert_eq!(key(&arp(1)), key(&[arp(1), vec![7; 9]].concat()));
        assert_ne!(key(&arp(1)), key(&arp(2)));
        for length in 0..20 {
            let _ = key(&[0x45; 20][..length]);
        }
    }

    #[test]
    fn numbers_are_in_the_order_of_first_packets() {
        let mut flows = Flows::default();
        let keys = [3, 1, 3, 2, 1].map(|to| key(&[to; 14]));
        assert_eq!(keys.map(|key| flows.number(key)), [0, 1, 0, 2, 1]);
        assert_eq!(flows.len(), 3);
    }
}
