//! Packets that are in a capture and cannot be classified, by their reasons.

use crate::capture::CaptureError;
use crate::link_type::NoNetwork;
use fairspan_core::flow::layers::NoIp;

/// Why a packet was skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The capture ends within it.
    Cut,
    /// Its record contradicts itself.
    Broken,
    /// Its interface is not described.
    Interface,
    /// Its time is none.
    Time,
    /// Its line is not one of the format.
    Line,
    /// Its link type is not read.
    LinkType,
    /// It is no IP packet.
    NotIp,
    /// What was captured ends before its IP header does.
    Short,
    /// Its IP header has another version than is told before it.
    Version,
    /// Its IP header is shorter than one can be.
    Header,
}

impl Reason {
    /// All of them.
    pub const ALL: [Reason; 10] = [
        Reason::Cut,
        Reason::Broken,
        Reason::Interface,
        Reason::Time,
        Reason::Line,
        Reason::LinkType,
        Reason::NotIp,
        Reason::Short,
        Reason::Version,
        Reason::Header,
    ];

    /// Its name, in JSON and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Reason::Cut => "cut_short",
            Reason::Broken => "broken_record",
            Reason::Interface => "unknown_interface",
            Reason::Time => "impossible_time",
            Reason::Line => "malformed_line",
            Reason::LinkType => "link_type",
            Reason::NotIp => "not_ip",
            Reason::Short => "header_not_captured",
            Reason::Version => "ip_version",
            Reason::Header => "ip_header_length",
        }
    }

    /// Of a packet that begins with the IP header `ip`, from which no key can be read.
    pub fn of_header(ip: &[u8]) -> Reason {
        // One that is whole, and is not read, says that it is shorter than it is.
        let whole = ip.len() >= 20 && ip[0] >> 4 == 4;
        if whole { Reason::Header } else { Reason::Short }
    }

    /// Of the packet for which `error` stands; `None`: it stands for none.
    pub fn of(error: &CaptureError) -> Option<Reason> {
        error.is_packet().then_some(match error {
            CaptureError::Cut { .. } => Reason::Cut,
            CaptureError::Interface { .. } => Reason::Interface,
            CaptureError::Time { .. } => Reason::Time,
            CaptureError::Line { .. } => Reason::Line,
            _ => Reason::Broken,
        })
    }
}

impl From<NoNetwork> for Reason {
    fn from(why: NoNetwork) -> Reason {
        match why {
            NoNetwork::LinkType => Reason::LinkType,
            NoNetwork::NoIp(NoIp::Other) => Reason::NotIp,
            NoNetwork::NoIp(NoIp::Short) => Reason::Short,
            NoNetwork::NoIp(NoIp::Version) => Reason::Version,
        }
    }
}

/// How many packets there were, and how many of them were skipped for which reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// All packets.
    pub packets: u64,
    /// Those that were classified.
    pub classified: u64,
    skipped: [u64; Reason::ALL.len()],
}

impl Tally {
    /// A packet that was classified.
    #[inline]
    pub fn classify(&mut self) {
        self.packets += 1;
        self.classified += 1;
    }

    /// A packet that was skipped.
    pub fn skip(&mut self, reason: Reason) {
        self.packets += 1;
        self.skipped[reason as usize] += 1;
    }

    /// The reasons that were met, and how often.
    pub fn skipped(&self) -> impl Iterator<Item = (Reason, u64)> + '_ {
        Reason::ALL
            .into_iter()
            .map(|reason| (reason, self.skipped[reason as usize]))
            .filter(|(_, packets)| *packets > 0)
    }
}
