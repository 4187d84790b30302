//! Cuts what a packet socket gives into single Ethernet frames with finished checksums, as a wire would carry them.
//!
//! A device's receive offload joins segments, a virtual device leaves both segments and checksums to whoever comes next, and
//! the kernel takes the outermost VLAN tag out. All of this is undone here.

use super::checksum;
use super::header::VnetHeader;
use super::split::{SplitError, split};
use crate::pool::PacketBuf;
use crate::sys::packet::VNET_HEADER;
use fairspan_core::flow::ethernet::{ALL_VLAN, HEADER, Tags};

/// Bytes of the two addresses that a frame begins with.
const ADDRESSES: usize = 12;

/// Gives `sink` the frames of a received unit, each behind `room` bytes that are to be overwritten. `vnet` says what is left to
/// do on `unit`, and `tag` is what the kernel took out behind its addresses.
///
/// # Errors
/// See [`SplitError`]. The sink has then received nothing.
pub(crate) fn cut(
    vnet: &[u8; VNET_HEADER],
    unit: &[u8],
    tag: Option<[u8; 4]>,
    room: usize,
    sink: &mut impl FnMut(PacketBuf),
) -> Result<usize, SplitError> {
    let vnet = VnetHeader::from_bytes(vnet);
    let short = SplitError::Headers { len: unit.len() };
    let (addresses, rest) = unit.split_first_chunk::<ADDRESSES>().ok_or(short)?;
    let tag = tag.as_ref().map_or(&[][..], |tag| tag);
    if vnet.gso_type & !VnetHeader::GSO_ECN == VnetHeader::GSO_NONE {
        let mut frame = joined(room, [addresses, tag, rest]);
        if vnet.flags & VnetHeader::NEEDS_CSUM != 0 {
            let (start, offset) = (usize::from(vnet.csum_start) + tag.len(), usize::from(vnet.csum_offset));
            let bytes = frame.as_mut_slice().get_mut(room..).unwrap_or_default();
            if !checksum::complete_at(bytes, start, offset) {
                return Err(SplitError::Checksum { len: unit.len(), at: start + offset });
            }
        }
        sink(frame);
        return Ok(1);
    }
    // Behind the header and the tags that are in it.
    let ether_type = unit.first_chunk::<HEADER>().map(|header| u16::from_be_bytes([header[12], header[13]]));
    let mut tags = Tags::new(unit, ether_type.ok_or(short)?, HEADER);
    tags.pass(&ALL_VLAN, 4);
    let (header, packet) = rest.split_at_checked(tags.at - ADDRESSES).ok_or(short)?;
    let start = usize::from(vnet.csum_start).checked_sub(tags.at).ok_or(short)?;
    let vnet = VnetHeader { csum_start: start as u16, ..vnet };
    split(&vnet, packet, false, &mut |segment| {
        sink(joined(room, [addresses, tag, header, segment.as_slice()]));
    })
}

/// A frame behind `room` bytes.
fn joined<const PARTS: usize>(room: usize, parts: [&[u8]; PARTS]) -> PacketBuf {
    let mut frame = PacketBuf::with_len(room + parts.iter().map(|part| part.len()).sum::<usize>());
    let mut rest = frame.as_mut_slice().get_mut(room..).unwrap_or_default();
    for part in parts {
        let (here, behind) = rest.split_at_mut(part.len());
        here.copy_from_slice(part);
        rest = behind;
    }
    frame
}

#[cfg(test)]
mod tests {
    use super::super::header::Headers;
    use super::*;

    const ADDRESSED: [u8; ADDRESSES] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];

    /// IPv4 and TCP with `payload`, the checksum partial, as the kernel leaves it to the device.
    fn tcp(payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 0, 0, 9, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet.extend([0x30, 0x39, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x18, 1, 0, 0, 0, 0, 0]);
        packet.extend(payload);
        let total = packet.len() as u16;
        packet[2..4].copy_from_slice(&total.to_be_bytes());
        let ip = !checksum::sum(&packet[..20]);
        packet[10..12].copy_from_slice(&ip.to_be_bytes());
        let headers = Headers::parse(&packet).expect("whole");
        let pseudo = checksum::pseudo_header(&packet, &headers, packet.len() - 20);
        packet[36..38].copy_from_slice(&pseudo.to_be_bytes());
        packet
    }

    fn vnet(gso: u8, size: u16, l2: u16) -> [u8; VNET_HEADER] {
        let [s0, s1] = size.to_ne_bytes();
        let [h0, h1] = (l2 + 40).to_ne_bytes();
        let [c0, c1] = (l2 + 20).to_ne_bytes();
        let [o0, o1] = 16u16.to_ne_bytes();
        [1, gso, h0, h1, s0, s1, c0, c1, o0, o1]
    }

    fn frames(vnet: [u8; VNET_HEADER], unit: &[u8], tag: Option<[u8; 4]>) -> Result<Vec<Vec<u8>>, SplitError> {
        let mut frames = Vec::new();
        cut(&vnet, unit, tag, 5, &mut |frame| frames.push(frame.as_slice()[5..].to_vec()))?;
        Ok(frames)
    }

    /// The payload of a frame with `l2` bytes before IP, its lengths and checksums found right.
    fn payload(frame: &[u8], l2: usize) -> Vec<u8> {
        let packet = &frame[l2..];
        let headers = Headers::parse(packet).expect("whole");
        assert_eq!(headers.end, packet.len());
        assert!(checksum::verifies(packet, &headers) && checksum::sum(&packet[..20]) == 0xffff);
        packet[40..].to_vec()
    }

    #[test]
    fn a_frame_with_nothing_left_to_do_is_the_same_with_its_tag_in_it_again() {
        let unit = [&ADDRESSED[..], &[0x88, 0xb5], &[7; 46]].concat();
        assert_eq!(frames([0; VNET_HEADER], &unit, None), Ok(vec![unit.clone()]));
        let tag = [0x81, 0, 0x60, 5];
        let tagged = [&ADDRESSED[..], &tag, &unit[12..]].concat();
        assert_eq!(frames([0; VNET_HEADER], &unit, Some(tag)), Ok(vec![tagged]));
        assert!(frames([0; VNET_HEADER], &unit[..11], None).is_err());
    }

    #[test]
    fn a_partial_checksum_is_finished_whatever_tags_stand_before_it() {
        let packet = tcp(b"a checksum");
        for (inside, taken) in
            [(&[][..], None), (&[0x81, 0, 0, 6][..], None), (&[0x81, 0, 0, 6], Some([0x88, 0xa8, 0, 5]))]
        {
            let unit = [&ADDRESSED[..], inside, &[8, 0], &packet].concat();
            let out = frames(vnet(0, 0, (14 + inside.len()) as u16), &unit, taken).expect("cut");
            assert_eq!(out.len(), 1);
            assert_eq!(payload(&out[0], 14 + inside.len() + taken.map_or(0, |tag| tag.len())), b"a checksum");
        }
        let unit = [&ADDRESSED[..], &[8, 0], &packet].concat();
        assert!(frames(vnet(0, 0, 2000), &unit, None).is_err());
    }

    #[test]
    fn a_unit_of_segments_becomes_frames_that_each_have_the_header_and_the_tags() {
        let data: Vec<u8> = (0..2500).map(|n| (n / 3) as u8).collect();
        let packet = tcp(&data);
        for (inside, taken) in [(&[][..], None), (&[0x81, 0, 0, 6][..], Some([0x88, 0xa8, 0, 5]))] {
            let unit = [&ADDRESSED[..], inside, &[8, 0], &packet].concat();
            let out = frames(vnet(VnetHeader::GSO_TCPV4, 1000, (14 + inside.len()) as u16), &unit, taken).expect("cut");
            assert_eq!(out.len(), 3);
            let l2 = 14 + inside.len() + taken.map_or(0, |tag| tag.len());
            let head: Vec<u8> =
                ADDRESSED.iter().chain(taken.iter().flatten()).chain(inside).chain(&[8, 0]).copied().collect();
            assert!(out.iter().all(|frame| frame[..l2] == head));
            assert_eq!(out.iter().flat_map(|frame| payload(frame, l2)).collect::<Vec<_>>(), data);
        }
        let unit = [&ADDRESSED[..], &[8, 0], &packet].concat();
        assert!(frames(vnet(VnetHeader::GSO_TCPV4, 1000, 2), &unit, None).is_err());
        assert!(frames(vnet(7, 1000, 14), &unit, None).is_err());
    }
}
