//! IPv4 fragmentation (RFC 791 section 2.3): for packets that are too big and do not forbid it.

use super::{Header, Version, checksum};
use alloc::vec::Vec;

/// Whether the packet may be fragmented on the way: IPv4 without "don't fragment".
pub fn allowed(header: &Header, bytes: &[u8]) -> bool {
    header.version == Version::V4 && bytes.get(6).is_some_and(|flags| flags & 0x40 == 0)
}

/// Calls `each` with the fragments of `packet`, in order, none above `mtu` bytes; or returns `false` where it cannot
/// be done (`mtu` leaves no room for eight bytes of payload, or the packet's bytes are not all there). A transport
/// checksum left to the device must have been completed.
pub fn split(header: &Header, packet: &[u8], mtu: usize, mut each: impl FnMut(&[u8])) -> bool {
    let (length, total) = (header.payload, header.total);
    let (Some(head), Some(payload)) = (packet.get(..length), packet.get(length..total)) else { return false };
    if header.version != Version::V4 || head.len() < 20 {
        return false;
    }
    let place = u16::from_be_bytes([head[6], head[7]]);
    let (first_offset, more_after) = (usize::from(place & 0x1fff) * 8, place & 0x2000 != 0);
    let room = mtu.saturating_sub(length) / 8 * 8;
    if room == 0 || first_offset + payload.len() > 65_535 {
        return false;
    }
    let mut out = Vec::with_capacity(mtu);
    let mut at = 0;
    while at < payload.len() {
        let take = room.min(payload.len() - at);
        let last = at + take == payload.len();
        out.clear();
        out.extend_from_slice(head);
        if at > 0 {
            forget_options(&mut out);
        }
        let header_length = out.len();
        out.extend_from_slice(&payload[at..at + take]);
        let size = out.len() as u16;
        out[2..4].copy_from_slice(&size.to_be_bytes());
        let flags = if more_after || !last { 0x2000 } else { 0 };
        let place = flags | ((first_offset + at) / 8) as u16;
        out[6..8].copy_from_slice(&place.to_be_bytes());
        out[10..12].copy_from_slice(&[0, 0]);
        let sum = checksum::of(&out[..header_length]);
        out[10..12].copy_from_slice(&sum.to_be_bytes());
        each(&out);
        at += take;
    }
    true
}

/// Leaves of the options those that are copied into every fragment (RFC 791 section 3.1: the first bit of the type).
fn forget_options(head: &mut Vec<u8>) {
    let mut kept = Vec::new();
    let mut at = 20;
    while let Some(&kind) = head.get(at) {
        let size = match kind {
            0 => break,
            1 => 1,
            _ => usize::from(head.get(at + 1).copied().unwrap_or(0)),
        };
        let Some(option) = head.get(at..at + size).filter(|_| size > 0) else { break };
        if kind & 0x80 != 0 {
            kept.extend_from_slice(option);
        }
        at += size;
    }
    while kept.len() % 4 != 0 {
        kept.push(0);
    }
    head.truncate(20);
    head.extend_from_slice(&kept);
    head[0] = 0x40 | (head.len() / 4) as u8;
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    fn fragments(packet: &[u8], mtu: usize) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        let header = Header::parse(packet, packet.len()).unwrap();
        assert!(split(&header, packet, mtu, |f| out.push(f.to_vec())));
        out
    }

    /// The obvious reassembler.
    fn join(fragments: &[Vec<u8>]) -> (Vec<u8>, bool) {
        let mut payload = vec![];
        let mut open = true;
        for f in fragments {
            let h = Header::parse(f, f.len()).unwrap();
            assert_eq!(checksum::of(&f[..h.payload]), 0);
            let place = u16::from_be_bytes([f[6], f[7]]);
            assert_eq!(usize::from(place & 0x1fff) * 8, payload.len());
            open = place & 0x2000 != 0;
            payload.extend_from_slice(&f[h.payload..]);
        }
        (payload, open)
    }

    proptest! {
        #[test]
        fn fragments_fit_and_join_to_the_same_payload(size in 0usize..4000, mtu in 28usize..1500) {
            let payload: Vec<u8> = (0..size).map(|n| n as u8).collect();
            let packet = testing::udp4(1, 2, 3, 4, &payload);
            let parts = fragments(&packet, mtu);
            prop_assert!(parts.iter().all(|f| f.len() <= mtu));
            let (joined, open) = join(&parts);
            prop_assert_eq!(&joined[..], &packet[20..]);
            prop_assert!(!open);
        }
    }

    #[test]
    fn a_fragment_is_split_further_and_stays_one_of_the_middle() {
        let mut packet = testing::udp4(1, 2, 3, 4, &[7; 792]);
        packet[6..8].copy_from_slice(&(0x2000u16 | 100).to_be_bytes());
        testing::seal4(&mut packet);
        let parts = fragments(&packet, 500);
        assert_eq!(parts.len(), 2);
        assert_eq!(parts[0][6..8], (0x2000u16 | 100).to_be_bytes());
        assert_eq!(parts[1][6..8], (0x2000u16 | 160).to_be_bytes());
    }

    #[test]
    fn only_copied_options_reach_later_fragments() {
        let inner = testing::udp4(1, 2, 3, 4, &[7; 200]);
        let mut packet = inner[..20].to_vec();
        packet.extend_from_slice(&[0x07, 3, 4, 0x83, 3, 4, 1, 0]); // record route; loose source route (copied)
        packet.extend_from_slice(&inner[20..]);
        packet[0] = 0x47;
        let total = packet.len() as u16;
        packet[2..4].copy_from_slice(&total.to_be_bytes());
        testing::seal4(&mut packet);
        let parts = fragments(&packet, 128);
        assert_eq!(parts[0][20..28], packet[20..28]);
        assert_eq!(parts[1][..1], [0x46]);
        assert_eq!(parts[1][20..24], [0x83, 3, 4, 0]);
        assert_eq!(join(&parts).0, packet[28..]);
    }

    #[test]
    fn what_cannot_be_fragmented_is_said() {
        let mut packet = testing::udp4(1, 2, 3, 4, &[7; 200]);
        let header = Header::parse(&packet, packet.len()).unwrap();
        assert!(allowed(&header, &packet));
        assert!(!split(&header, &packet, 27, |_| ()));
        packet[6] = 0x40;
        assert!(!allowed(&header, &packet));
        let six = testing::udp6(1, 2, 3, 4, &[7; 200]);
        assert!(!allowed(&Header::parse(&six, six.len()).unwrap(), &six));
    }
}
