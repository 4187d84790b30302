//! Splits what the TUN gives, up to 64 kB of segments under one header, into packets.
//!
//! Departures from the kernel's `tcp_gso_segment`: none that a receiver sees. IPv4 identifications count up from the
//! unit's; FIN and PSH stay on the last segment, CWR on the first. The partial checksum is corrected for the new
//! length instead of summed anew, so that any routing header is right.

use super::checksum;
use super::header::*;
use crate::pool::PacketBuf;

/// Why a unit from the TUN is refused. The kernel builds these units, so each is a defect of the kernel or of a
/// program that wrote to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SplitError {
    /// The IP, TCP or UDP headers are cut off or contradict the length of the unit.
    #[error("a unit of {len} bytes has headers that do not fit it")]
    Headers {
        /// Bytes of the unit.
        len: usize,
    },
    /// A kind of segmentation that was never agreed to.
    #[error("a unit has segmentation type {gso_type}, which was not asked for")]
    Kind {
        /// The type in the vnet header.
        gso_type: u8,
    },
    /// Segments of no bytes, or a segmented unit whose checksum is said to be complete.
    #[error("a unit's vnet header is contradictory: segment size {gso_size}, flags {flags}")]
    Vnet {
        /// The segment size in the vnet header.
        gso_size: u16,
        /// The flags in the vnet header.
        flags: u8,
    },
    /// The checksum to finish lies outside the packet.
    #[error("a packet of {len} bytes asks for a checksum at {at}")]
    Checksum {
        /// Bytes of the packet.
        len: usize,
        /// Where the field would be.
        at: usize,
    },
}

/// Splits `unit`, which `vnet` describes, into packets for `sink`; returns how many.
///
/// With `keep_partial`, packets whose checksum the kernel left partial stay so where they are plain TCP or UDP and
/// not a SYN; without, every checksum is finished.
///
/// # Errors
/// See [`SplitError`]. The sink has then received nothing.
pub fn split(
    vnet: &VnetHeader,
    unit: &[u8],
    keep_partial: bool,
    sink: &mut impl FnMut(PacketBuf),
) -> Result<usize, SplitError> {
    let needs_checksum = vnet.flags & VnetHeader::NEEDS_CSUM != 0;
    match vnet.gso_type & !VnetHeader::GSO_ECN {
        VnetHeader::GSO_NONE => {
            let mut packet = PacketBuf::copy_from(unit);
            if needs_checksum {
                finish_or_keep(&mut packet, vnet, keep_partial)?;
            }
            sink(packet);
            Ok(1)
        }
        VnetHeader::GSO_TCPV4 | VnetHeader::GSO_TCPV6 | VnetHeader::GSO_UDP_L4 => {
            if !needs_checksum || vnet.gso_size == 0 {
                return Err(SplitError::Vnet { gso_size: vnet.gso_size, flags: vnet.flags });
            }
            segment(vnet, unit, keep_partial, sink)
        }
        _ => Err(SplitError::Kind { gso_type: vnet.gso_type }),
    }
}

/// One packet whose checksum is partial.
fn finish_or_keep(packet: &mut PacketBuf, vnet: &VnetHeader, keep_partial: bool) -> Result<(), SplitError> {
    let (start, offset) = (usize::from(vnet.csum_start), usize::from(vnet.csum_offset));
    packet.checksum_partial = keep_partial && may_stay_partial(packet.as_slice(), start, offset);
    if !packet.checksum_partial {
        let len = packet.len();
        if !checksum::complete_at(packet.as_mut_slice(), start, offset) {
            return Err(SplitError::Checksum { len, at: start + offset });
        }
    }
    Ok(())
}

/// Whether the far end can finish this checksum without being told where it is: a whole TCP or UDP packet of exactly
/// this length. A SYN cannot stay partial, since its options may be changed on the way (the MSS).
fn may_stay_partial(packet: &[u8], start: usize, offset: usize) -> bool {
    let Some(headers) = Headers::parse(packet) else { return false };
    headers.transport == start
        && headers.end == packet.len()
        && headers.checksum_offset() == Some(offset)
        && !(headers.protocol == PROTOCOL_TCP && packet[start + 13] & TCP_SYN != 0)
}

fn segment(
    vnet: &VnetHeader,
    unit: &[u8],
    keep_partial: bool,
    sink: &mut impl FnMut(PacketBuf),
) -> Result<usize, SplitError> {
    let bad_headers = SplitError::Headers { len: unit.len() };
    let headers = headers_of_unit(vnet, unit).ok_or(bad_headers)?;
    let header_len = headers.header_len(unit).ok_or(bad_headers)?;
    let offset = headers.checksum_offset().ok_or(bad_headers)?;
    let field = headers.transport + offset;
    let (head, payload) = unit.split_at_checked(header_len).ok_or(bad_headers)?;

    let size = usize::from(vnet.gso_size);
    if header_len + size.min(payload.len()) > usize::from(u16::MAX) {
        return Err(bad_headers);
    }

    let whole_transport = unit.len() - headers.transport;
    let partial = u16::from_be_bytes([head[field], head[field + 1]]);
    // The pseudo header's sum without its length. What is above 16 bits of a length counts as well, folded.
    let without_len = checksum::subtract(partial, fold_len(whole_transport));
    let keep = keep_partial && (headers.protocol == PROTOCOL_UDP || head[headers.transport + 13] & TCP_SYN == 0);
    let id = u16::from_be_bytes([head[4], head[5]]);
    let sequence = u32::from_be_bytes([
        head[headers.transport + 4],
        head[headers.transport + 5],
        head[headers.transport + 6],
        head[headers.transport + 7],
    ]);

    let count = payload.len().div_ceil(size).max(1);
    for i in 0..count {
        let part = &payload[i * size..payload.len().min((i + 1) * size)];
        let mut packet = PacketBuf::from_parts(head, part);
        let bytes = packet.as_mut_slice();
        let transport_len = bytes.len() - headers.transport;
        set_ip_length(bytes, headers.is_v6);
        if !headers.is_v6 {
            bytes[4..6].copy_from_slice(&id.wrapping_add(i as u16).to_be_bytes());
            set_ipv4_checksum(bytes, headers.transport);
        }
        let transport = &mut bytes[headers.transport..];
        if headers.protocol == PROTOCOL_TCP {
            let here = sequence.wrapping_add((i * size) as u32);
            transport[4..8].copy_from_slice(&here.to_be_bytes());
            if i > 0 {
                transport[13] &= !TCP_CWR;
            }
            if i + 1 < count {
                transport[13] &= !(TCP_FIN | TCP_PSH);
            }
        } else {
            transport[4..6].copy_from_slice(&(transport_len as u16).to_be_bytes());
        }
        let partial = checksum::add(&[without_len, transport_len as u16]);
        transport[offset..offset + 2].copy_from_slice(&partial.to_be_bytes());
        if keep {
            packet.checksum_partial = true;
        } else {
            checksum::complete_at(bytes, headers.transport, offset);
        }
        sink(packet);
    }
    Ok(count)
}

/// The headers of a whole unit. Its length field is ignored: a unit may exceed it, and each segment gets its own.
fn headers_of_unit(vnet: &VnetHeader, unit: &[u8]) -> Option<Headers> {
    let (mut fixed, protocol) = ([0u8; 320], expected_protocol(vnet)?);
    let known = unit.len().min(fixed.len());
    fixed[..known].copy_from_slice(&unit[..known]);
    let is_v6 = unit.first()? >> 4 == 6;
    set_ip_length(&mut fixed[..known], is_v6);
    let mut headers = Headers::parse(&fixed[..known])?;
    headers.end = unit.len();
    let type_fits = match vnet.gso_type & !VnetHeader::GSO_ECN {
        VnetHeader::GSO_TCPV4 => !is_v6,
        VnetHeader::GSO_TCPV6 => is_v6,
        _ => true,
    };
    (type_fits
        && headers.protocol == protocol
        && headers.transport == usize::from(vnet.csum_start)
        && headers.checksum_offset()? == usize::from(vnet.csum_offset))
    .then_some(headers)
}

fn expected_protocol(vnet: &VnetHeader) -> Option<u8> {
    match vnet.gso_type & !VnetHeader::GSO_ECN {
        VnetHeader::GSO_TCPV4 | VnetHeader::GSO_TCPV6 => Some(PROTOCOL_TCP),
        VnetHeader::GSO_UDP_L4 => Some(PROTOCOL_UDP),
        _ => None,
    }
}

/// Writes the length of `bytes` into the IP header, where that is long enough.
pub(super) fn set_ip_length(bytes: &mut [u8], is_v6: bool) {
    let len = bytes.len();
    let (at, value) = if is_v6 { (4, len.saturating_sub(40)) } else { (2, len) };
    if let Some(field) = bytes.get_mut(at..at + 2) {
        field.copy_from_slice(&(value as u16).to_be_bytes());
    }
}

/// Sums the IPv4 header of `header_len` bytes anew.
pub(super) fn set_ipv4_checksum(bytes: &mut [u8], header_len: usize) {
    bytes[10..12].fill(0);
    let checksum = !checksum::sum(&bytes[..header_len]);
    bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
}

fn fold_len(len: usize) -> u16 {
    checksum::add(&[(len >> 16) as u16, len as u16])
}
