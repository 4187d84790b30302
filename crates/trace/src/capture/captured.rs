//! A packet of a capture, and what of a capture cannot be read.

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

/// What of a capture cannot be read, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CaptureError {
    /// There is nothing in it.
    #[error("empty: there is nothing in it, not even what would tell its format")]
    Empty,
    /// None of the formats.
    #[error("neither a pcap nor a pcapng file")]
    Format,
    /// None of the formats, where more are tried.
    #[error(
        "no capture that can be read: neither pcap, pcapng, ERF, TSH nor lines `time source destination port port bytes`"
    )]
    NoFormat,
    /// It begins as a pcap file does, and ends too early for one.
    #[error("a pcap file that is cut: it ends within its first 24 bytes, which say how it is to be read")]
    CutHeader,
    /// It ends too early.
    #[error("the file ends within the record at byte {offset}; everything before it is whole")]
    Cut {
        /// Where the record begins.
        offset: u64,
        /// Whether it is a packet's.
        packet: bool,
    },
    /// A record that contradicts itself, behind which the next one that does not is looked for.
    #[error("the record at byte {offset} is broken; reading goes on where one is found that is not")]
    Lost {
        /// Where it begins.
        offset: u64,
    },
    /// A packet of an interface that was not described.
    #[error("the packet at byte {offset} names interface {interface}, which the file does not describe")]
    Interface {
        /// Where the packet's block begins.
        offset: u64,
        /// Its interface.
        interface: u32,
    },
    /// A time beyond what 64 bits of nanoseconds hold, or in no unit.
    #[error("the packet at byte {offset} has a time that cannot be told in nanoseconds")]
    Time {
        /// Where the packet begins.
        offset: u64,
    },
    /// More captured bytes than the packet's block has.
    #[error("the packet at byte {offset} claims more bytes than its block has")]
    Length {
        /// Where the packet's block begins.
        offset: u64,
    },
    /// A line of text that is no packet.
    #[error("the line at byte {offset} is not `time source destination port port bytes`")]
    Line {
        /// Where it begins.
        offset: u64,
    },
    /// The file itself cannot be read, or not be unpacked.
    #[error("at byte {offset}: {reason}")]
    Unreadable {
        /// How many bytes were read (unpacked, where it is packed).
        offset: u64,
        /// What the system or the library says.
        reason: String,
    },
}

impl CaptureError {
    /// Whether it ends the sequence.
    pub fn is_last(&self) -> bool {
        use CaptureError::{Cut, CutHeader, Empty, Format, NoFormat, Unreadable};
        matches!(self, Empty | Format | NoFormat | CutHeader | Cut { .. } | Unreadable { .. })
    }

    /// Whether packets may be gone without being counted: all that were behind it, or some.
    pub fn loses_packets(&self) -> bool {
        self.is_last() || matches!(self, CaptureError::Lost { .. })
    }

    /// Whether it stands for a packet, which the file has and which cannot be given.
    pub fn is_packet(&self) -> bool {
        use CaptureError::{Cut, Interface, Length, Line, Lost, Time};
        match self {
            Cut { packet, .. } => *packet,
            Interface { .. } | Time { .. } | Length { .. } | Line { .. } | Lost { .. } => true,
            _ => false,
        }
    }
}
