//! The settings of a shaper, each once: names, kinds, ranges, texts and fields.

use crate::buffer::PolicyConfig;
use crate::flow::ethernet::HEADER;
use crate::options::{Kind, Table, option};
use crate::queue::DisciplineConfig;
use crate::units::{Bytes, Rate, Span};

/// What a shaper does with packets of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// What leaves at most, as it counts ([`counted`](Config::counted)). No default: it is to be just below what the narrowest
    /// link behind carries, so that packets wait here and not there.
    pub rate: Rate,
    /// Which of the packets that wait goes next. Default `drr`.
    pub discipline: DisciplineConfig,
    /// Which packets are let in, marked, dropped. Default `pfd-adaptive`.
    pub buffer: PolicyConfig,
    /// How long all that waits takes at the rate, at most; room for 20 full packets in any case. Default 100 ms.
    pub queue: Span,
    /// Bytes that the link adds to what is in an Ethernet frame, that is, to each IP packet. Default 14, the Ethernet header.
    pub overhead: u16,
    /// What each packet counts at least, with the overhead. Default 0.
    pub min_packet: u16,
    /// Whether the link carries packets in ATM cells, 48 bytes in 53. Default no.
    pub atm: bool,
}

impl Config {
    /// A shaper of that rate, all else by default.
    pub const fn new(rate: Rate) -> Config {
        Config {
            rate,
            discipline: DisciplineConfig::Drr { quantum: Bytes::new(1500) },
            buffer: PolicyConfig::PfdAdaptive,
            queue: Span::from_millis(100),
            overhead: HEADER as u16,
            min_packet: 0,
            atm: false,
        }
    }

    /// What a frame of `len` bytes, Ethernet header included, counts.
    #[inline]
    pub const fn counted(&self, len: usize) -> u32 {
        let bytes = len.saturating_sub(HEADER) as u64 + self.overhead as u64;
        let least = self.min_packet as u64;
        let bytes = if bytes < least { least } else { bytes };
        let bytes = if self.atm { bytes.div_ceil(CELL.0) * CELL.1 } else { bytes };
        if bytes > u32::MAX as u64 { u32::MAX } else { bytes as u32 }
    }
}

/// An ATM cell: what it holds, and what it is.
const CELL: (u64, u64) = (48, 53);

/// Every setting of a shaper, with its name in a file.
#[rustfmt::skip]
pub const OPTIONS: Table<Config> = Table(&[
    option!(rate: Kind::Rate(Rate::from_bits_per_sec(8_000), Rate::from_bits_per_sec(100_000_000_000), None), "what leaves at most, with all that the link adds to a packet", file "rate"),
    option!(discipline: Kind::Text(|text| text.parse::<DisciplineConfig>().map(drop)), "which of the packets that wait goes next", file "discipline"),
    option!(buffer: Kind::Text(|text| text.parse::<PolicyConfig>().map(drop)), "which packets are let in, marked, dropped", file "buffer"),
    option!(queue: Kind::Span(Span::from_millis(1), Span::from_secs(10), None), "how long all that waits takes at the rate, at most", file "queue"),
    option!(overhead: Kind::Count(0, 1000, None), "bytes that the link adds to each IP packet", file "overhead"),
    option!(min_packet: Kind::Count(0, 1000, None), "bytes that each packet counts at least, with the overhead", file "min_packet"),
    option!(atm: Kind::Flag, "whether the link carries packets in ATM cells, as most ADSL does", file "atm"),
]);
