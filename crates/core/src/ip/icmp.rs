//! The ICMP errors that a tunnel owes its host: "fragmentation needed" (RFC 792, RFC 1191) and "packet too big"
//! (RFC 4443 section 3.2).

use super::{Header, ICMP, ICMPV6, Piece, Version, checksum};
use alloc::vec::Vec;

/// The most that an ICMPv4 error quotes (RFC 1812 section 4.3.2.3: no more than 576 bytes in all).
const QUOTE_V4: usize = 576 - 28;
/// The most that an ICMPv6 error quotes (RFC 4443 section 3.2: no more than the minimum MTU in all).
const QUOTE_V6: usize = 1280 - 48;

/// The error that tells the sender of `packet` that only `mtu` bytes fit, or `None` where none may be sent: for ICMP
/// errors, later fragments, and addresses that are not one host's (RFC 1122 section 3.2.2, RFC 4443 section 2.4 (e);
/// not for multicast either, although RFC 4443 would allow it). Its source is `source_v4` or `source_v6`, or else the
/// address that the packet was meant for.
pub fn too_big(
    header: &Header,
    packet: &[u8],
    mtu: usize,
    source_v4: Option<[u8; 4]>,
    source_v6: Option<[u8; 16]>,
) -> Option<Vec<u8>> {
    let packet = &packet[..packet.len().min(header.total)];
    match header.version {
        Version::V4 => v4(header, packet, mtu, source_v4),
        Version::V6 => v6(header, packet, mtu, source_v6),
    }
}

fn v4(header: &Header, packet: &[u8], mtu: usize, source: Option<[u8; 4]>) -> Option<Vec<u8>> {
    let from: [u8; 4] = *packet.get(12..16)?.first_chunk()?;
    let to: [u8; 4] = *packet.get(16..20)?.first_chunk()?;
    if header.piece == Piece::Later || from[0] == 0 || from[0] == 127 || from[0] >= 224 || to[0] >= 224 {
        return None;
    }
    // Destination unreachable, source quench, redirect, time exceeded, parameter problem.
    if header.protocol == ICMP && matches!(packet.get(header.payload), Some(3 | 4 | 5 | 11 | 12)) {
        return None;
    }
    let quote = &packet[..packet.len().min(QUOTE_V4)];
    let total = (28 + quote.len()) as u16;
    let mut out = Vec::with_capacity(usize::from(total));
    out.extend_from_slice(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, ICMP, 0, 0]);
    out[2..4].copy_from_slice(&total.to_be_bytes());
    out.extend_from_slice(&source.unwrap_or(to));
    out.extend_from_slice(&from);
    let sum = checksum::of(&out);
    out[10..12].copy_from_slice(&sum.to_be_bytes());
    // RFC 1191 section 4: type 3, code 4, the MTU in the low half of the second word.
    out.extend_from_slice(&[3, 4, 0, 0, 0, 0]);
    out.extend_from_slice(&(mtu.min(65_535) as u16).to_be_bytes());
    out.extend_from_slice(quote);
    let sum = checksum::of(&out[20..]);
    out[22..24].copy_from_slice(&sum.to_be_bytes());
    Some(out)
}

fn v6(header: &Header, packet: &[u8], mtu: usize, source: Option<[u8; 16]>) -> Option<Vec<u8>> {
    let from: [u8; 16] = *packet.get(8..24)?.first_chunk()?;
    let to: [u8; 16] = *packet.get(24..40)?.first_chunk()?;
    let unspecified_or_loopback = from[..15] == [0; 15] && from[15] <= 1;
    if header.piece == Piece::Later || unspecified_or_loopback || from[0] == 0xff || to[0] == 0xff {
        return None;
    }
    // Types below 128 are errors; 137 is a redirect.
    if header.protocol == ICMPV6 && packet.get(header.payload).is_some_and(|&kind| kind < 128 || kind == 137) {
        return None;
    }
    let quote = &packet[..packet.len().min(QUOTE_V6)];
    let length = (8 + quote.len()) as u16;
    let mut out = Vec::with_capacity(40 + usize::from(length));
    out.extend_from_slice(&[0x60, 0, 0, 0, 0, 0, ICMPV6, 64]);
    out[4..6].copy_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&source.unwrap_or(to));
    out.extend_from_slice(&from);
    out.extend_from_slice(&[2, 0, 0, 0]);
    out.extend_from_slice(&(mtu.min(u32::MAX as usize) as u32).to_be_bytes());
    out.extend_from_slice(quote);
    // RFC 4443 section 2.3: the sum covers a pseudo header.
    let sum = checksum::add(u32::from(length) + u32::from(ICMPV6), &out[8..]);
    let sum = checksum::finish(sum);
    out[42..44].copy_from_slice(&sum.to_be_bytes());
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    fn error(packet: &[u8], mtu: usize) -> Option<Vec<u8>> {
        too_big(&Header::parse(packet, packet.len()).unwrap(), packet, mtu, None, None)
    }

    #[test]
    fn fragmentation_needed_has_right_checksums_and_quotes_the_packet() {
        let packet = testing::udp4(1, 2, 3, 4, &[7; 1400]);
        let out = error(&packet, 1300).unwrap();
        assert_eq!(out.len(), 576);
        assert_eq!(checksum::of(&out[..20]), 0);
        assert_eq!(checksum::of(&out[20..]), 0);
        assert_eq!((&out[12..16], &out[16..20]), (&packet[16..20], &packet[12..16]));
        assert_eq!(out[20..22], [3, 4]);
        assert_eq!(out[26..28], 1300u16.to_be_bytes());
        assert_eq!(out[28..], packet[..548]);
        Header::parse(&out, out.len()).unwrap();
    }

    #[test]
    fn packet_too_big_has_a_right_checksum_and_quotes_the_packet() {
        let packet = testing::udp6(1, 2, 3, 4, &[7; 1400]);
        let out = error(&packet, 1300).unwrap();
        assert_eq!(out.len(), 1280);
        let pseudo = checksum::add(u32::from(ICMPV6) + 1240, &out[8..40]);
        assert_eq!(checksum::finish(checksum::add(pseudo, &out[40..])), 0);
        assert_eq!((&out[8..24], &out[24..40]), (&packet[24..40], &packet[8..24]));
        assert_eq!((out[40], &out[44..48]), (2, &1300u32.to_be_bytes()[..]));
        assert_eq!(out[48..], packet[..1232]);
    }

    #[test]
    fn a_configured_source_is_used() {
        let packet = testing::udp4(1, 2, 3, 4, &[7; 100]);
        let h = Header::parse(&packet, packet.len()).unwrap();
        let out = too_big(&h, &packet, 90, Some([192, 0, 2, 9]), None).unwrap();
        assert_eq!(out[12..16], [192, 0, 2, 9]);
        assert_eq!(checksum::of(&out[..20]), 0);
    }

    #[test]
    fn no_error_answers_errors_later_fragments_or_groups() {
        let good = testing::udp4(1, 2, 3, 4, &[7; 100]);
        let edit = |at: usize, to: u8| {
            let mut p = good.clone();
            p[at] = to;
            p
        };
        for bad in [edit(16, 224), edit(16, 255), edit(12, 0), edit(12, 127), edit(12, 239), edit(7, 1)] {
            assert_eq!(error(&bad, 90), None);
        }
        for kind in [3, 4, 5, 11, 12] {
            let mut p = edit(9, ICMP);
            p[20] = kind;
            assert_eq!(error(&p, 90), None, "ICMP type {kind}");
        }
        let mut ping = edit(9, ICMP);
        ping[20] = 8;
        assert!(error(&ping, 90).is_some());

        let good = testing::udp6(1, 2, 3, 4, &[7; 100]);
        let mut group = good.clone();
        group[24] = 0xff;
        let mut nobody = good.clone();
        nobody[8..24].copy_from_slice(&[0; 16]);
        for bad in [group, nobody] {
            assert_eq!(error(&bad, 90), None);
        }
        for (kind, answered) in [(1, false), (2, false), (127, false), (128, true), (137, false)] {
            let mut p = good.clone();
            (p[6], p[40]) = (ICMPV6, kind);
            assert_eq!(error(&p, 90).is_some(), answered, "ICMPv6 type {kind}");
        }
        // The error itself is never answered.
        let own = error(&good, 90).unwrap();
        assert_eq!(error(&own, 90), None);
    }
}
