//! What sources send, and when.
//!
//! [`Source`] makes datagrams: instants and sizes. What answers
//! what it gets is in [`application`], sans IO too.

pub mod application;
pub mod clock;
pub mod error;
pub mod pareto;
pub mod sizes;
pub mod source;
pub mod workload;

pub use error::ConfigError;
pub use sizes::{Sampler, Sizes};
pub use source::Source;

use crate::tcp;
use fairspan_core::rng::Rng;
use fairspan_core::shared::Shared;
use fairspan_core::units::{Bytes, Rate, Span};
use std::fmt;
use std::sync::Arc;

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
    /// Constant rate during on periods, nothing during off periods, both Pareto (see [`pareto`]).
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
        /// How much payload each write of the application has. Each write is then sent as a segment of its own (or
        /// several, where it is larger than one): `segment_per_write` without Nagle. `None`: full segments.
        writes: Option<Sizes>,
    },
    /// Fetches over TCP, `parallel` at once, each on a connection of its own. The flow's sender is the server, which
    /// sends the files; the flow's receiver opens the connections and asks.
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
    /// A request, its answer, a pause, again, on one connection (or as datagrams). The flow's sender asks.
    RequestResponse {
        /// Bytes of a request.
        request: Sizes,
        /// Bytes of an answer.
        response: Sizes,
        /// Pause from an answer to the next request.
        think: Span,
        /// As datagrams only: a request that has no answer after this long counts as failed, and the next one follows.
        timeout: Span,
    },
    /// Packets with given gaps and sizes, once or again and again.
    Replay {
        /// (time since the start, IP bytes), in order of time. Shared: a capture may be long and its users many.
        packets: Arc<[(Span, u32)]>,
        /// Begins again this long after it began; at least the last packet's time. `None`: once.
        period: Option<Span>,
    },
    /// Transfers from the flow's sender to its receiver, which begin whether or not those before are complete, each on a connection
    /// of its own.
    Transfers(workload::Transfers),
    /// Web pages, whose objects depend on one another. The flow's sender is the server, the flow's receiver the browser.
    Web(workload::Web),
    /// A film in chunks of several qualities. The flow's sender is the server, the flow's receiver the player.
    Video(workload::Video),
    /// One direction of a call, as datagrams.
    Call(workload::Call),
    /// Both directions of a game, as datagrams. The flow's sender is the server, the flow's receiver the player.
    Game(workload::Game),
    /// Datagrams of a workload of one's own. It has no name in files.
    Own(WorkloadMaker),
}

/// Says when a flow's datagrams leave, and how large they are.
pub trait Workload {
    /// How long after the packet before (of the first: after the flow's start) the next one leaves, and its bytes as an IP packet;
    /// `None` when there are no more. `rng` is the flow's own: what else does not draw from it.
    fn next(&mut self, rng: &mut Rng) -> Option<(Span, u32)>;
}

/// Makes a workload of one's own, for [`Config::Own`].
#[derive(Clone, Copy)]
pub struct WorkloadMaker(pub fn() -> Box<dyn OwnWorkload>);

impl PartialEq for WorkloadMaker {
    /// Whether both are the same function.
    fn eq(&self, other: &WorkloadMaker) -> bool {
        std::ptr::fn_addr_eq(self.0, other.0)
    }
}

impl fmt::Debug for WorkloadMaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WorkloadMaker")
    }
}

/// What such a maker makes: whatever is a workload and can be copied.
pub trait OwnWorkload: Workload + fmt::Debug + Send + Sync {
    /// A copy of its own.
    fn copy(&self) -> Box<dyn OwnWorkload>;
}

impl<T: Workload + Clone + fmt::Debug + Send + Sync + 'static> OwnWorkload for T {
    fn copy(&self) -> Box<dyn OwnWorkload> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn OwnWorkload> {
    fn clone(&self) -> Box<dyn OwnWorkload> {
        (**self).copy()
    }
}

/// How a flow's data is carried.
#[derive(Clone, Debug)]
pub enum Transport {
    /// Datagrams with this many bytes of headers (28: IPv4 and UDP), which count in the size on the link.
    Datagram {
        /// Header bytes.
        header: u32,
    },
    /// A TCP connection (several in turn or in parallel where the traffic wants them) from `from` to `to`.
    Tcp(Shared<tcp::Config>),
}

impl Config {
    /// Whether it opens connection after connection, each with ports of its own.
    pub fn has_connections(&self) -> bool {
        matches!(self, Config::Transfers(_) | Config::Http { .. } | Config::Web(_))
    }

    /// Whether it can be made.
    pub fn check(&self) -> Result<(), ConfigError> {
        let zero_rate = |rate: &Rate| if rate.as_bits_per_sec() == 0 { Err(ConfigError::ZeroRate) } else { Ok(()) };
        match self {
            Config::Own(_) => Ok(()),
            Config::Transfers(config) => config.check(),
            Config::Web(config) => config.check(),
            Config::Video(config) => config.check(),
            Config::Call(config) => config.check(),
            Config::Game(config) => config.check(),
            Config::Constant { rate, size } | Config::Poisson { rate, size } => {
                zero_rate(rate)?;
                size.check()
            }
            Config::ParetoOnOff { rate, size, on, off, shape } => {
                zero_rate(rate)?;
                size.check()?;
                for (which, mean) in [("on", on), ("off", off)] {
                    if *mean == Span::ZERO {
                        return Err(ConfigError::ZeroPeriod { which });
                    }
                }
                let valid = *shape > 1.0 && shape.is_finite();
                if valid { Ok(()) } else { Err(ConfigError::Shape { shape: *shape }) }
            }
            Config::Ftp { bytes, writes } => {
                if *bytes == Some(Bytes::ZERO) {
                    return Err(ConfigError::ZeroMessage { which: "transfer" });
                }
                writes.as_ref().map_or(Ok(()), Sizes::check)
            }
            Config::Http { parallel, files, request, .. } => {
                if *parallel == 0 {
                    return Err(ConfigError::ZeroParallel);
                }
                if files.is_empty() {
                    return Err(ConfigError::NoFiles);
                }
                if files.contains(&Bytes::ZERO) {
                    return Err(ConfigError::ZeroMessage { which: "file" });
                }
                let empty = *request == Bytes::ZERO;
                if empty { Err(ConfigError::ZeroMessage { which: "request" }) } else { Ok(()) }
            }
            Config::RequestResponse { request, response, .. } => {
                request.check()?;
                response.check()
            }
            Config::Replay { packets, period } => {
                if let Some(index) = packets.windows(2).position(|pair| pair[1].0 < pair[0].0) {
                    return Err(ConfigError::ReplayOrder { index: index + 1 });
                }
                if packets.iter().any(|packet| packet.1 == 0) {
                    return Err(ConfigError::ZeroSize);
                }
                match (period, packets.last()) {
                    (Some(period), Some(&(last, _))) if *period < last => {
                        Err(ConfigError::ReplayPeriod { period: *period, last })
                    }
                    (Some(Span::ZERO), Some(_)) => Err(ConfigError::ZeroReplayPeriod),
                    _ => Ok(()),
                }
            }
        }
    }
}
