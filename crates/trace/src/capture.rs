//! Captures: pcap and pcapng as a sequence of packets.
//!
//! Source: draft-ietf-opsawg-pcap (pcap, in microseconds and nanoseconds, both byte orders, and Alexey Kuznetsov's
//! modified format), draft-ietf-opsawg-pcapng (sections, interfaces, enhanced and simple packet blocks, both byte orders).
//! Blocks are taken apart by `pcap-parser`; what they mean is decided here:
//!
//! - Times are nanoseconds since the capture's own origin (1970, where its clock was right), from the interface's
//!   resolution, decimal or binary, and offset. A simple packet has no time: it gets that of the packet before it, and
//!   where there is none, that of the first one behind it that has a time.
//! - A packet's length is the original one; what was captured of it may be less. A record that claims to have captured
//!   more than it can is an error of the file.
//! - A file that ends within a record gives what was whole, then one error. A broken record ends the sequence: nothing
//!   behind it can be trusted. Blocks that are no packets are skipped.

use pcap_parser::pcapng::{self, Block, OptionCode};
use pcap_parser::{LegacyPcapBlock, PcapError, PcapHeader, nom, parse_block_be, parse_block_le};
use pcap_parser::{parse_pcap_frame, parse_pcap_frame_be, parse_pcap_frame_modified, parse_pcap_header};

/// Link types that captures name (`LINKTYPE_` of tcpdump's registry).
pub type LinkType = i32;

/// One packet of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Captured<'a> {
    /// Nanoseconds since the capture's origin.
    pub time: i64,
    /// Length on the wire in bytes.
    pub length: u32,
    /// What was captured, from its beginning.
    pub bytes: &'a [u8],
    /// Which protocol the bytes begin with.
    pub link_type: LinkType,
}

/// Why a capture, or the rest of it, cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CaptureError {
    /// Neither format.
    #[error("neither a pcap nor a pcapng file")]
    Format,
    /// It ends too early.
    #[error("the file ends within the record at byte {offset}; everything before it is whole")]
    Cut {
        /// Where the record begins.
        offset: usize,
    },
    /// A record that contradicts itself.
    #[error("the record at byte {offset} is broken; nothing behind it can be read")]
    Broken {
        /// Where it begins.
        offset: usize,
    },
    /// A packet of an interface that was not described.
    #[error("the packet at byte {offset} names interface {interface}, which the file does not describe")]
    Interface {
        /// Where the packet's block begins.
        offset: usize,
        /// Its interface.
        interface: u32,
    },
    /// A time beyond what 64 bits of nanoseconds hold, or in no unit.
    #[error("the packet at byte {offset} has a time that cannot be told in nanoseconds")]
    Time {
        /// Where the packet begins.
        offset: usize,
    },
}

/// Reads a capture that is in memory.
#[derive(Clone, Debug)]
pub struct Capture<'a> {
    data: &'a [u8],
    offset: usize,
    format: Format,
    /// The time of the packet before; `None`: no packet with a time yet.
    last: Option<i64>,
    over: bool,
}

#[derive(Clone, Debug)]
enum Format {
    Legacy { big_endian: bool, modified: bool, nanoseconds: bool, link_type: LinkType },
    Next { big_endian: bool, interfaces: Vec<Interface> },
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    link_type: LinkType,
    /// Units a second as a power: of two or of ten. `None`: no such unit.
    resolution: Option<Resolution>,
    /// Seconds.
    offset: i64,
    /// Most bytes captured; 0: no bound.
    snap: u32,
}

#[derive(Clone, Copy, Debug)]
enum Resolution {
    Decimal(u32),
    Binary(u32),
}

impl Resolution {
    fn nanoseconds(self, units: u64) -> Option<i64> {
        let ns = match self {
            Resolution::Decimal(power @ 0..=9) => u128::from(units) * 10_u128.pow(9 - power),
            Resolution::Decimal(power) => u128::from(units) / 10_u128.pow(power - 9),
            Resolution::Binary(power) => (u128::from(units) * 1_000_000_000) >> power,
        };
        i64::try_from(ns).ok()
    }
}

impl<'a> Capture<'a> {
    /// Whether `data` begins as a capture does.
    pub fn is_one(data: &[u8]) -> bool {
        Capture::new(data).is_ok()
    }

    /// The capture in `data`, which is a whole file.
    pub fn new(data: &'a [u8]) -> Result<Capture<'a>, CaptureError> {
        let next = data.get(..4) == Some(&[0x0a, 0x0d, 0x0d, 0x0a]);
        let (offset, format) = if next {
            (0, Format::Next { big_endian: false, interfaces: Vec::new() })
        } else {
            let (rest, header) = parse_pcap_header(data).map_err(|_| CaptureError::Format)?;
            (data.len() - rest.len(), Format::legacy(&header))
        };
        Ok(Capture { data, offset, format, last: None, over: false })
    }

    fn next_packet(&mut self) -> Result<Option<Captured<'a>>, CaptureError> {
        let data = self.data;
        while self.offset < data.len() {
            let offset = self.offset;
            let rest = &data[offset..];
            let unreadable = |error: nom::Err<PcapError<&[u8]>>| match error {
                nom::Err::Incomplete(_) => CaptureError::Cut { offset },
                _ => CaptureError::Broken { offset },
            };
            match &mut self.format {
                Format::Legacy { big_endian, modified, nanoseconds, link_type } => {
                    let parse = match (*modified, *big_endian) {
                        (true, _) => parse_pcap_frame_modified,
                        (false, true) => parse_pcap_frame_be,
                        (false, false) => parse_pcap_frame,
                    };
                    let (left, frame): (_, LegacyPcapBlock<'a>) = parse(rest).map_err(unreadable)?;
                    self.offset = data.len() - left.len();
                    let unit = if *nanoseconds { 1 } else { 1000 };
                    let time = i64::from(frame.ts_sec) * 1_000_000_000 + i64::from(frame.ts_usec) * unit;
                    self.last = Some(time);
                    // Some writers leave the original length out.
                    let length = frame.origlen.max(frame.caplen);
                    return Ok(Some(Captured { time, length, bytes: frame.data, link_type: *link_type }));
                }
                Format::Next { big_endian, interfaces } => {
                    // A section tells its byte order by itself.
                    if let (Some([0x0a, 0x0d, 0x0d, 0x0a]), Some(magic)) = (rest.get(..4), rest.get(8..12)) {
                        *big_endian = magic == [0x1a, 0x2b, 0x3c, 0x4d];
                    }
                    let parse = if *big_endian { parse_block_be } else { parse_block_le };
                    let (left, block) = parse(rest).map_err(unreadable)?;
                    self.offset = data.len() - left.len();
                    match block {
                        Block::SectionHeader(_) => interfaces.clear(),
                        Block::InterfaceDescription(description) => {
                            interfaces.push(Interface::new(&description, *big_endian));
                        }
                        Block::EnhancedPacket(packet) => {
                            let interface = interfaces
                                .get(packet.if_id as usize)
                                .ok_or(CaptureError::Interface { offset, interface: packet.if_id })?;
                            let units = (u64::from(packet.ts_high) << 32) | u64::from(packet.ts_low);
                            let time = interface.time(units).ok_or(CaptureError::Time { offset })?;
                            let bytes =
                                packet.data.get(..packet.caplen as usize).ok_or(CaptureError::Broken { offset })?;
                            self.last = Some(time);
                            let length = packet.origlen.max(packet.caplen);
                            return Ok(Some(Captured { time, length, bytes, link_type: interface.link_type }));
                        }
                        Block::SimplePacket(packet) => {
                            let interface =
                                interfaces.first().ok_or(CaptureError::Interface { offset, interface: 0 })?;
                            let most = if interface.snap == 0 { u32::MAX } else { interface.snap };
                            let captured = (packet.origlen.min(most) as usize).min(packet.data.len());
                            let bytes = &packet.data[..captured];
                            let (length, link_type) = (packet.origlen, interface.link_type);
                            let time = match self.last {
                                Some(last) => last,
                                None => self.first_time(),
                            };
                            self.last = Some(time);
                            return Ok(Some(Captured { time, length, bytes, link_type }));
                        }
                        _ => {}
                    }
                }
            }
        }
        Ok(None)
    }
}

impl Capture<'_> {
    /// The time of the first packet from here on that has one; zero if none has.
    fn first_time(&self) -> i64 {
        // No packet's time; with it, the simple packets ahead do not ask in their turn.
        const NONE: i64 = i64::MIN;
        let mut ahead = Capture { last: Some(NONE), ..self.clone() };
        while let Ok(Some(packet)) = ahead.next_packet() {
            if packet.time != NONE {
                return packet.time;
            }
        }
        0
    }
}

impl Format {
    fn legacy(header: &PcapHeader) -> Format {
        Format::Legacy {
            big_endian: header.is_bigendian(),
            modified: header.is_modified_format(),
            nanoseconds: header.is_nanosecond_precision(),
            // The upper bits tell of the check sequence.
            link_type: header.network.0 & 0x0fff_ffff,
        }
    }
}

impl Interface {
    fn new(description: &pcapng::InterfaceDescriptionBlock<'_>, big_endian: bool) -> Interface {
        let value = |code| description.options.iter().find(|option| option.code == code).map(|option| option.value());
        let resolution = match value(OptionCode::IfTsresol).and_then(|value| value.first().copied()) {
            None => Some(Resolution::Decimal(6)),
            Some(power @ 0..=37) => Some(Resolution::Decimal(u32::from(power))),
            Some(power @ 0x80..=0xdf) => Some(Resolution::Binary(u32::from(power & 0x7f))),
            Some(_) => None,
        };
        let offset =
            value(OptionCode::IfTsoffset).and_then(|value| value.get(..8)).and_then(|value| value.try_into().ok());
        let offset = offset.map_or(0, if big_endian { i64::from_be_bytes } else { i64::from_le_bytes });
        Interface { link_type: description.linktype.0, resolution, offset, snap: description.snaplen }
    }

    fn time(&self, units: u64) -> Option<i64> {
        let offset = self.offset.checked_mul(1_000_000_000)?;
        self.resolution?.nanoseconds(units)?.checked_add(offset)
    }
}

impl<'a> Iterator for Capture<'a> {
    type Item = Result<Captured<'a>, CaptureError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let packet = self.next_packet().transpose();
        self.over = !matches!(packet, Some(Ok(_)));
        packet
    }
}
