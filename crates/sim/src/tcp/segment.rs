//! The TCP segment, as it is on the wire less the payload's content.

/// A TCP segment. Sequence numbers and windows are as on the wire: 32 bits that wrap, and a window still to be scaled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Sequence number of the first byte (of the SYN, where it is set).
    pub sequence: u32,
    /// Acknowledgment number; counts where `flags` has ACK.
    pub acknowledgment: u32,
    /// Bytes of payload.
    pub length: u32,
    /// SYN, ACK, FIN, RST, PSH, URG, ECE, CWR, AE.
    pub flags: Flags,
    /// The window field.
    pub window: u16,
    /// The urgent pointer: from `sequence` to behind the last urgent byte; counts where `flags` has URG.
    pub urgent: u16,
    /// The field of the IP header for marks of congestion, which travels with it.
    pub mark: Mark,
    /// Options follow.
    pub options: Options,
}

/// The ECN field of an IP header (RFC 3168, section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Mark {
    /// Not-ECT: a queue that would mark it drops it.
    #[default]
    Incapable = 0,
    /// ECT(1): the sender answers each mark in proportion (RFC 9331).
    Scalable = 1,
    /// ECT(0).
    Capable = 2,
    /// CE: a queue has marked it.
    Experienced = 3,
}

/// The flags of a segment, as their bits on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u16);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Flags = Flags(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: Flags = Flags(0x02);
    /// Reset the connection.
    pub const RST: Flags = Flags(0x04);
    /// Push.
    pub const PSH: Flags = Flags(0x08);
    /// The acknowledgment field counts.
    pub const ACK: Flags = Flags(0x10);
    /// The urgent pointer counts.
    pub const URG: Flags = Flags(0x20);
    /// ECN echo.
    pub const ECE: Flags = Flags(0x40);
    /// Congestion window reduced.
    pub const CWR: Flags = Flags(0x80);
    /// Accurate ECN (RFC 9768), which was the nonce sum.
    pub const AE: Flags = Flags(0x100);

    /// Whether all of `other` is set.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets.
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// The options of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Maximum segment size (RFC 9293), on SYNs.
    pub mss: Option<u16>,
    /// Window scale (RFC 7323), on SYNs.
    pub window_scale: Option<u8>,
    /// SACK permitted (RFC 2018), on SYNs.
    pub sack_permitted: bool,
    /// Timestamp value and echo reply (RFC 7323), in milliseconds.
    pub timestamps: Option<(u32, u32)>,
    /// SACK blocks, left and right edge; the first `sack_count` count.
    pub sack: [(u32, u32); 4],
    /// How many of `sack` count: at most 4, and 3 beside timestamps.
    pub sack_count: u8,
}

impl Options {
    /// Bytes of the options, without what fills the last word.
    pub fn length(&self) -> u32 {
        let mut length: u32 = 0;
        if self.mss.is_some() {
            length += 4;
        }
        if self.window_scale.is_some() {
            length += 3;
        }
        if self.sack_permitted {
            length += 2;
        }
        if self.timestamps.is_some() {
            length += 10;
        }
        if self.sack_count > 0 {
            length += 2 + 8 * u32::from(self.sack_count);
        }
        length
    }
}

impl Segment {
    /// Bytes of the TCP header with its options, as on the wire: a multiple of four from 20 to 60.
    pub fn header_length(&self) -> u32 {
        20 + self.options.length().div_ceil(4) * 4
    }
}
