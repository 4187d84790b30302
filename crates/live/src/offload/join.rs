//! Joins consecutive segments of a flow into units for one write to the TUN.
//!
//! What it is: the receive offload (GRO) of Linux in user space. Sources: `tcp_gro_receive`, `inet_gro_receive`,
//! `ipv6_gro_receive` and `udp_gro_receive` for the rules; RFC 6864 for constant identifications of packets that may
//! not be fragmented; virtio 1.2 section 5.1.6.1 for what a unit must look like.
//!
//! A segment joins the unit of its flow when the headers agree in everything but length, identification, sequence
//! number, checksum, FIN, PSH; follows it without a gap; is no longer than the unit's first, and the unit has not
//! ended: a shorter segment, PSH or FIN ends it. SYN, RST, URG, a CWR after the first, pure acknowledgements, IPv4 options, IPv6
//! extension headers and fragments never join. Either all checksums of a unit are partial or all were complete and
//! right: a wrong one is left alone for the kernel to refuse.
//!
//! Departures: none in what may join; at most [`OPEN_UNITS`] flows are open at a time.
//!
//! Cost: one comparison of headers per open flow and packet; one sum over the payload where checksums are complete.
//!
//! Invariants: every packet is in exactly one unit; the order of packets within a flow never changes; a packet that
//! is not whole TCP or UDP is never overtaken by, nor overtakes, any other.

use super::checksum;
use super::header::*;
use super::split::set_ipv4_checksum;
use crate::pool::PacketBuf;

/// Flows whose last unit may still grow.
const OPEN_UNITS: usize = 8;

/// Segments of a unit at most: those of 64 kB at an Ethernet's MTU, and what fits one gathering write.
pub const MAX_SEGMENTS: usize = 64;

/// Which kinds of segments the kernel takes in units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offloads {
    /// TCP over IPv4 and IPv6.
    pub tcp: bool,
    /// UDP datagrams over IPv4 and IPv6 (Linux 6.2).
    pub udp: bool,
}

/// Why a packet cannot be written to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// It is said to have a partial checksum, and is no whole TCP or UDP packet.
    #[error("a packet of {len} bytes with a partial checksum is not a whole TCP or UDP packet")]
    Partial {
        /// Bytes of the packet.
        len: usize,
    },
}

/// One write to the TUN. [`Joiner::packets`] says of which packets.
#[derive(Clone, Copy, Debug)]
pub struct Unit {
    first: usize,
    last: usize,
    count: usize,
    /// IP bytes of the unit so far.
    len: usize,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// A packet that goes out as it is.
    Single,
    /// A packet that may have followers, and the unit of those it has.
    Segments(Segments),
}

#[derive(Clone, Copy, Debug)]
struct Segments {
    headers: Headers,
    header_len: usize,
    /// Payload bytes of the first segment, and of each but the last.
    size: usize,
    /// Nothing may follow.
    ended: bool,
    /// The identification stays (RFC 6864: atomic datagrams); known from the second segment on.
    constant_id: bool,
    /// FIN and PSH of the last segment.
    last_flags: u8,
    /// The first segment's complete checksum was found right.
    verified: bool,
}

/// The vnet header and the packet headers of a unit, in one piece.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    bytes: [u8; VnetHeader::LEN + 40 + 60],
    len: usize,
    packet_headers: usize,
}

impl Head {
    /// The head of a packet that goes out alone: the vnet header only.
    ///
    /// # Errors
    /// [`JoinError::Partial`].
    pub fn single(packet: &PacketBuf) -> Result<Head, JoinError> {
        let mut vnet = VnetHeader::default();
        if packet.checksum_partial {
            let bytes = packet.as_slice();
            let described = Headers::parse(bytes).and_then(|headers| Some((headers, headers.checksum_offset()?)));
            let Some((headers, offset)) = described.filter(|(headers, _)| headers.end == bytes.len()) else {
                return Err(JoinError::Partial { len: bytes.len() });
            };
            vnet.flags = VnetHeader::NEEDS_CSUM;
            vnet.csum_start = headers.transport as u16;
            vnet.csum_offset = offset as u16;
            vnet.hdr_len = (headers.transport + offset + 2) as u16;
        }
        let mut head = Head { bytes: [0; VnetHeader::LEN + 100], len: VnetHeader::LEN, packet_headers: 0 };
        head.bytes[..VnetHeader::LEN].copy_from_slice(&vnet.to_bytes());
        Ok(head)
    }

    /// The bytes to write before the payloads: the vnet header first.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// How many bytes of the unit's first packet the head already contains.
    pub fn packet_headers(&self) -> usize {
        self.packet_headers
    }
}

/// The plan for a batch of packets. Its memory is used again for every batch.
#[derive(Debug, Default)]
pub struct Joiner {
    units: Vec<Unit>,
    next: Vec<usize>,
    /// Units that may still grow, oldest first.
    open: Vec<usize>,
}

/// No packet follows.
const END: usize = usize::MAX;

impl Joiner {
    /// A planner without memory of its own yet.
    pub fn new() -> Joiner {
        Joiner::default()
    }

    /// Plans how `packets` are written, in order within each flow. [`units`](Joiner::units) then gives the plan.
    pub fn plan(&mut self, packets: &[PacketBuf], offloads: Offloads) {
        self.units.clear();
        self.open.clear();
        self.next.clear();
        self.next.resize(packets.len(), END);
        for (i, packet) in packets.iter().enumerate() {
            let bytes = packet.as_slice();
            let headers = Headers::parse(bytes);
            let Some((headers, header_len)) = headers.and_then(|h| Some((h, h.header_len(bytes)?))) else {
                // It may belong to any flow (a fragment, an ICMP error): nothing passes it.
                self.open.clear();
                self.units.push(Unit { first: i, last: i, count: 1, len: bytes.len(), kind: Kind::Single });
                continue;
            };
            let same_flow = self.open.iter().position(|&unit| self.units[unit].same_flow(packets, bytes, &headers));
            if let Some(position) = same_flow {
                let unit = &mut self.units[self.open[position]];
                if unit.append(packets, packet, &headers, header_len) {
                    self.next[unit.last] = i;
                    unit.last = i;
                    if unit.ended() {
                        self.open.remove(position);
                    }
                    continue;
                }
                self.open.remove(position);
            }
            let allowed = if headers.protocol == PROTOCOL_TCP { offloads.tcp } else { offloads.udp };
            let unit = Unit::start(i, packet, &headers, header_len, allowed);
            if !unit.ended() {
                if self.open.len() == OPEN_UNITS {
                    self.open.remove(0);
                }
                self.open.push(self.units.len());
            }
            self.units.push(unit);
        }
    }

    /// The units of the last plan, in the order to write them.
    pub fn units(&self) -> &[Unit] {
        &self.units
    }

    /// The packets of `unit`, by their index in the batch, in order.
    pub fn packets(&self, unit: &Unit) -> impl Iterator<Item = usize> + use<'_> {
        let mut at = unit.first;
        std::iter::from_fn(move || {
            let here = at;
            at = *self.next.get(here)?;
            Some(here)
        })
    }
}

impl Unit {
    /// How many packets it joins.
    pub fn count(&self) -> usize {
        self.count
    }

    /// What is written before the payloads of a unit of several packets. `None` for a single packet, whose head is
    /// [`Head::single`].
    pub fn head(&self, packets: &[PacketBuf]) -> Option<Head> {
        let Kind::Segments(segments) = &self.kind else { return None };
        if self.count == 1 {
            return None;
        }
        let Segments { headers, header_len, size, .. } = *segments;
        let first = packets[self.first].as_slice();
        let mut head =
            Head { bytes: [0; VnetHeader::LEN + 100], len: VnetHeader::LEN + header_len, packet_headers: header_len };
        let bytes = &mut head.bytes[VnetHeader::LEN..VnetHeader::LEN + header_len];
        bytes.copy_from_slice(&first[..header_len]);
        let transport_len = self.len - headers.transport;
        let is_tcp = headers.protocol == PROTOCOL_TCP;

        let mut gso_type = match (is_tcp, headers.is_v6) {
            (true, false) => VnetHeader::GSO_TCPV4,
            (true, true) => VnetHeader::GSO_TCPV6,
            (false, _) => VnetHeader::GSO_UDP_L4,
        };
        if headers.is_v6 {
            bytes[4..6].copy_from_slice(&((self.len - 40) as u16).to_be_bytes());
        } else {
            bytes[2..4].copy_from_slice(&(self.len as u16).to_be_bytes());
            set_ipv4_checksum(bytes, headers.transport);
        }
        let pseudo = checksum::pseudo_header(bytes, &headers, transport_len);
        let transport = &mut bytes[headers.transport..];
        let csum_offset = if is_tcp {
            transport[13] |= segments.last_flags;
            if transport[13] & TCP_CWR != 0 {
                gso_type |= VnetHeader::GSO_ECN;
            }
            16
        } else {
            transport[4..6].copy_from_slice(&(transport_len as u16).to_be_bytes());
            6
        };
        transport[csum_offset..csum_offset + 2].copy_from_slice(&pseudo.to_be_bytes());
        let vnet = VnetHeader {
            flags: VnetHeader::NEEDS_CSUM,
            gso_type,
            hdr_len: header_len as u16,
            gso_size: size as u16,
            csum_start: headers.transport as u16,
            csum_offset: csum_offset as u16,
        };
        head.bytes[..VnetHeader::LEN].copy_from_slice(&vnet.to_bytes());
        Some(head)
    }

    fn start(index: usize, packet: &PacketBuf, headers: &Headers, header_len: usize, allowed: bool) -> Unit {
        let bytes = packet.as_slice();
        let kind = match allowed && may_lead(bytes, headers, header_len, packet.checksum_partial) {
            false => Kind::Single,
            true => Kind::Segments(Segments {
                headers: *headers,
                header_len,
                size: headers.end - header_len,
                ended: false,
                constant_id: false,
                last_flags: 0,
                verified: packet.checksum_partial,
            }),
        };
        Unit { first: index, last: index, count: 1, len: bytes.len(), kind }
    }

    fn ended(&self) -> bool {
        match &self.kind {
            Kind::Single => true,
            Kind::Segments(segments) => segments.ended || self.count == MAX_SEGMENTS,
        }
    }

    /// Whether a packet is of the flow whose segments this unit holds: protocol, addresses and ports.
    fn same_flow(&self, packets: &[PacketBuf], bytes: &[u8], headers: &Headers) -> bool {
        let Kind::Segments(segments) = &self.kind else { return false };
        let (mine, first) = (&segments.headers, packets[self.first].as_slice());
        let addresses = if mine.is_v6 { 8..40 } else { 12..20 };
        mine.is_v6 == headers.is_v6
            && mine.protocol == headers.protocol
            && first[mine.transport..mine.transport + 4] == bytes[headers.transport..headers.transport + 4]
            && first[addresses.clone()] == bytes[addresses]
    }

    /// Takes `packet`, which is of the same flow, if the rules allow it. False leaves the unit as it is.
    fn append(&mut self, packets: &[PacketBuf], packet: &PacketBuf, headers: &Headers, header_len: usize) -> bool {
        let Kind::Segments(unit) = &mut self.kind else { return false };
        let (lead, bytes) = (&packets[self.first], packet.as_slice());
        let first = lead.as_slice();
        let payload = bytes.len() - header_len;
        if headers.transport != unit.headers.transport
            || header_len != unit.header_len
            || headers.end != bytes.len()
            || payload == 0
            || payload > unit.size
            || self.len + payload > usize::from(u16::MAX)
            || packet.checksum_partial != lead.checksum_partial
        {
            return false;
        }
        let Some(constant_id) = ip_headers_agree(first, bytes, headers, self.count) else { return false };
        if self.count > 1 && constant_id != unit.constant_id {
            return false;
        }
        let (a, b) = (&first[headers.transport..header_len], &bytes[headers.transport..header_len]);
        let mut flags = 0;
        if headers.protocol == PROTOCOL_TCP {
            if !tcp_headers_agree(a, b, self.len - header_len) {
                return false;
            }
            flags = b[13] & (TCP_FIN | TCP_PSH);
        } else if !udp_header_fits(b, bytes.len() - headers.transport, packet.checksum_partial) {
            return false;
        }
        if !packet.checksum_partial {
            // A wrong checksum must reach the kernel as it is, so that the kernel refuses and counts it.
            unit.verified = unit.verified || checksum::verifies(first, &unit.headers);
            if !unit.verified {
                unit.ended = true;
                return false;
            }
            if !checksum::verifies(bytes, headers) {
                return false;
            }
        }
        unit.constant_id = constant_id;
        unit.last_flags = flags;
        unit.ended = payload < unit.size || flags != 0;
        self.count += 1;
        self.len += payload;
        true
    }
}

/// Whether a packet may be the first of several.
fn may_lead(bytes: &[u8], headers: &Headers, header_len: usize, partial: bool) -> bool {
    let plain_ip = if headers.is_v6 {
        headers.transport == 40
    } else {
        headers.transport == 20 && bytes[6] & 0xa0 == 0 && checksum::sum(&bytes[..20]) == 0xffff
    };
    if !plain_ip || headers.end != bytes.len() || bytes.len() == header_len {
        return false;
    }
    let transport = &bytes[headers.transport..header_len];
    if headers.protocol == PROTOCOL_UDP {
        return udp_header_fits(transport, bytes.len() - headers.transport, partial);
    }
    let closing = TCP_FIN | TCP_SYN | TCP_RST | TCP_PSH | TCP_URG;
    transport[13] & TCP_ACK != 0 && transport[13] & closing == 0
}

/// Whether the IP headers of the unit's first packet and of its packet number `nth` agree. The answer says if the
/// identification stays constant, instead of counting up.
fn ip_headers_agree(first: &[u8], bytes: &[u8], headers: &Headers, nth: usize) -> Option<bool> {
    if headers.is_v6 {
        // Version, traffic class, flow label; hop limit. Addresses and next header were compared.
        return (first[..4] == bytes[..4] && first[7] == bytes[7]).then_some(false);
    }
    // Version, length and TOS; fragment bits; time to live.
    if first[..2] != bytes[..2] || first[6..8] != bytes[6..8] || first[8] != bytes[8] {
        return None;
    }
    if checksum::sum(&bytes[..20]) != 0xffff {
        return None;
    }
    let id = |bytes: &[u8]| u16::from_be_bytes([bytes[4], bytes[5]]);
    if id(bytes) == id(first).wrapping_add(nth as u16) {
        return Some(false);
    }
    let may_fragment = bytes[6] & 0x40 == 0;
    (!may_fragment && id(bytes) == id(first)).then_some(true)
}

/// Whether TCP header `b` continues `a` after `offset` bytes of payload: sequence number, and all that is neither
/// checksum nor FIN nor PSH. The headers are equally long.
fn tcp_headers_agree(a: &[u8], b: &[u8], offset: usize) -> bool {
    let sequence = |h: &[u8]| u32::from_be_bytes([h[4], h[5], h[6], h[7]]);
    let differing = a[13] ^ b[13];
    sequence(b) == sequence(a).wrapping_add(offset as u32)
        && differing & !(TCP_FIN | TCP_PSH | TCP_CWR) == 0
        && b[13] & TCP_CWR == 0
        // Acknowledgement; data offset and the flag beside it; window; urgent pointer and options.
        && a[8..13] == b[8..13]
        && a[14..16] == b[14..16]
        && a[18..] == b[18..]
}

/// Whether a UDP header has the length of its packet, and a checksum.
fn udp_header_fits(header: &[u8], transport_len: usize, partial: bool) -> bool {
    usize::from(u16::from_be_bytes([header[4], header[5]])) == transport_len && (partial || header[6..8] != [0, 0])
}
