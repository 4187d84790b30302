//! What can be wrong with a scenario, or with a run.

use crate::results::Conservation;
use fairspan_core::link::ProfileError;
use thiserror::Error;

/// Why a world cannot be made of a scenario, or what a run has found to be wrong.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum WorldError {
    /// A number that names nothing.
    #[error("{what}: there is no {kind} {number}; there are {count}")]
    Unknown {
        /// Who refers to it.
        what: String,
        /// `node`, `link`, `bond`, `ring`.
        kind: &'static str,
        /// The number, from 0.
        number: u32,
        /// How many there are.
        count: usize,
    },
    /// More of something than the engine can number.
    #[error("{count} {what}; at most {most} are possible")]
    TooMany {
        /// What.
        what: &'static str,
        /// How many.
        count: usize,
        /// How many there may be.
        most: usize,
    },
    /// Longer than the engine's time.
    #[error("a duration of {seconds} s; it must be below 2^58 ns (9.1 years)")]
    TooLong {
        /// The duration.
        seconds: f64,
    },
    /// A path that does not lead from the sender to the receiver.
    #[error("{what}: hop {hop} starts at node `{found}`, but the packet is at `{expected}` then")]
    Path {
        /// The flow or channel and the direction.
        what: String,
        /// Which hop, from 0; one more than there are for the path's end.
        hop: usize,
        /// Where the hop begins.
        found: String,
        /// Where it should.
        expected: String,
    },
    /// A path without a hop.
    #[error("{what}: the path is empty; it needs at least one link, bond or ring")]
    NoPath {
        /// The flow and the direction.
        what: String,
    },
    /// A link's settings.
    #[error("link `{link}`: {error}")]
    Link {
        /// The link.
        link: String,
        /// What is wrong.
        error: ProfileError,
    },
    /// A flow's traffic or transport.
    #[error("flow `{flow}`: {error}")]
    Flow {
        /// The flow.
        flow: String,
        /// What is wrong.
        error: String,
    },
    /// A reliable flow's settings.
    #[error("reliable flow `{flow}`: {error}")]
    Reliable {
        /// The flow.
        flow: String,
        /// What is wrong.
        error: String,
    },
    /// A bond's settings.
    #[error("bond `{bond}`: {error}")]
    Bond {
        /// The bond.
        bond: String,
        /// What is wrong.
        error: String,
    },
    /// A splitting gateway's settings.
    #[error("split `{split}`: {error}")]
    Split {
        /// The gateway.
        split: String,
        /// What is wrong.
        error: String,
    },
    /// A ring's settings.
    #[error("ring `{ring}`: {error}")]
    Ring {
        /// The ring.
        ring: String,
        /// What is wrong.
        error: String,
    },
    /// A connection that could send without end at one instant.
    #[error("flow `{flow}`: no link of its paths has a rate or a delay, so it would send without end at one instant")]
    Instant {
        /// The flow.
        flow: String,
    },
    /// Packets were lost by the simulator itself, or made out of nothing: a bug.
    #[error(
        "packets are not conserved: {} sent, but {} delivered + {} dropped + {} in flight",
        .0.sent, .0.delivered, .0.dropped.iter().map(|d| d.packets).sum::<u64>(), .0.in_flight
    )]
    Conservation(Conservation),
}
