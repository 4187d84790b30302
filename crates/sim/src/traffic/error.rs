//! Why a traffic cannot be made.

use fairspan_core::units::Span;

/// Why a traffic cannot be made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A rate of zero.
    #[error("rate is zero; a source needs at least 1 bit/s")]
    ZeroRate,
    /// A size of zero.
    #[error("a size is zero bytes; sizes are at least one byte")]
    ZeroSize,
    /// No size at all.
    #[error("the list of sizes is empty; give at least one")]
    NoSizes,
    /// A weight that is none.
    #[error("the weight {weight} is not a number above zero")]
    Weight {
        /// As given.
        weight: f64,
    },
    /// The range is upside down.
    #[error("sizes from {low} to {high} bytes: the first must not be above the second")]
    SizeRange {
        /// As given.
        low: u32,
        /// As given.
        high: u32,
    },
    /// A log-normal distribution that is none.
    #[error("sigma {sigma}: it must be above 0 and at most 10")]
    Sigma {
        /// As given.
        sigma: f64,
    },
    /// A bound that leaves nothing of a distribution.
    #[error("most is {most} bytes, and the least size of the distribution is not below it")]
    Most {
        /// As given.
        most: u32,
    },
    /// A share that is none.
    #[error("point {index} of the distribution has the share {share}; shares are from 0 to 1")]
    Share {
        /// From 0.
        index: usize,
        /// As given.
        share: f64,
    },
    /// A distribution function that falls.
    #[error("point {index} of the distribution lies below the one before it; sizes and shares must not fall")]
    Falls {
        /// From 0.
        index: usize,
    },
    /// A distribution function that does not reach 1.
    #[error("the last point of the distribution has the share {share}; it must be 1")]
    LastShare {
        /// As given.
        share: f64,
    },
    /// Something of an application's own that does not fit.
    #[error("{0}")]
    Application(&'static str),
    /// A Pareto distribution without a mean.
    #[error("shape {shape}: a Pareto distribution has a mean only with a shape above 1")]
    Shape {
        /// As given.
        shape: f64,
    },
    /// A period of length zero.
    #[error("the mean of the {which} periods is zero; it must be at least 1 ns")]
    ZeroPeriod {
        /// `on` or `off`.
        which: &'static str,
    },
    /// A replay that jumps back.
    #[error("packet {index} of the replay lies before its predecessor; sort them by time")]
    ReplayOrder {
        /// From 0.
        index: usize,
    },
    /// A replay that begins anew before it is over.
    #[error("the replay's period is {} s, but its last packet comes at {} s; the period must not be shorter",
        period.as_secs_f64(), last.as_secs_f64())]
    ReplayPeriod {
        /// As given.
        period: Span,
        /// The time of the last packet.
        last: Span,
    },
    /// A replay without time that would never end.
    #[error("the replay is repeated with a period of zero; it must be at least 1 ns")]
    ZeroReplayPeriod,
    /// An exchange of datagrams that waits for no time at all.
    #[error("the timeout is zero; an answer needs some time")]
    ZeroTimeout,
    /// A traffic over a transport that cannot carry it.
    #[error("this traffic needs {needed} as its transport")]
    Transport {
        /// `TCP` or `datagrams`.
        needed: &'static str,
    },
    /// HTTP without files.
    #[error("the list of files is empty; give at least one size")]
    NoFiles,
    /// HTTP without connections.
    #[error("parallel is zero; at least one fetch must be under way")]
    ZeroParallel,
    /// A message of zero bytes.
    #[error("the {which} has zero bytes; it needs at least one")]
    ZeroMessage {
        /// `request`, `file` or `transfer`.
        which: &'static str,
    },
}
