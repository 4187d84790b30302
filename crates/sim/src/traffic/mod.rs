//! What sources send, and when.

use fairspan_core::units::{Bytes, Rate, Span};

/// What a flow sends.
#[derive(Clone, Debug, PartialEq)]
pub enum Config {
    /// Packets of `size` bytes at a constant rate; `rate` counts the whole IP packet.
    Constant {
        /// IP bits a second.
        rate: Rate,
        /// How large each packet is.
        size: Sizes,
    },
    /// Packets with exponential gaps.
    Poisson {
        /// Mean IP bits a second.
        rate: Rate,
        /// How large each packet is.
        size: Sizes,
    },
    /// Constant rate during on periods, nothing during off periods, both Pareto.
    ParetoOnOff {
        /// IP bits a second while on.
        rate: Rate,
        /// How large each packet is.
        size: Sizes,
        /// Mean of the on periods.
        on: Span,
        /// Mean of the off periods.
        off: Span,
        /// Shape of both; above 1.
        shape: f64,
    },
    /// As much as the transport takes, without end or this many bytes.
    Ftp {
        /// Bytes in all; `None`: without end.
        bytes: Option<Bytes>,
        /// How much each write of the application has: what decides the packets' sizes where TCP sends each write by
        /// itself (no Nagle). `None`: full segments.
        writes: Option<Sizes>,
    },
    /// Fetches over TCP, `parallel` at once, each on a connection of its own.
    Http {
        /// How many at once.
        parallel: u32,
        /// Sizes of the files, in turn.
        files: Vec<Bytes>,
        /// How many fetches in all; `None`: until the flow stops.
        fetches: Option<u64>,
        /// Bytes of a request.
        request: Bytes,
        /// Pause between fetches (exponential mean); zero: none.
        think: Span,
    },
    /// A request, its answer, a pause, again, on one connection (or as datagrams).
    RequestResponse {
        /// Bytes of a request.
        request: Sizes,
        /// Bytes of an answer.
        response: Sizes,
        /// Pause from an answer to the next request.
        think: Span,
    },
    /// Packets with given gaps and sizes, once or again and again.
    Replay {
        /// (time since the start, IP bytes).
        packets: Vec<(Span, u32)>,
        /// Begins again after this long; `None`: once.
        period: Option<Span>,
    },
}

/// How large packets (or writes) are, in bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// All the same.
    Constant(u32),
    /// These in turn.
    Alternating(Vec<u32>),
    /// Drawn at random: (bytes, weight).
    Mixture(Vec<(u32, f64)>),
    /// Uniformly from the first to the second.
    Uniform(u32, u32),
}
