//! The settings of a stripe's two ends.

use crate::causal::{ChannelSet, SetError, Unit};
use crate::options::words;
use crate::units::{Bytes, Span};
use thiserror::Error;

/// Settings of a [`Sender`](super::Sender).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// The longest packet in bytes; every quantum in bytes must hold it. Default 1500.
    pub max_packet: Bytes,
    /// Markers on every channel after this many rounds. Default 8.
    pub marker_rounds: u32,
    /// Where in such a round. Default its end.
    pub marker_place: MarkerPlace,
    /// Longest time without markers while packets flow. Default 20 ms.
    pub marker_interval: Span,
    /// While idle the interval doubles, after three repetitions, up to this. Default 5 s.
    pub idle_interval: Span,
    /// Least time between two falls into idleness that send markers at once; a fall that comes sooner sends them
    /// when the time is over. Default 5 ms.
    pub idle_gap: Span,
    /// First interval between repetitions of a plan that is not yet seen; it doubles up to `patience`. Default 30 ms.
    pub announce_interval: Span,
    /// How long a channel may stay silent, after others have answered, before it is left out. Default 1 s.
    pub patience: Span,
    /// How many rounds ahead a change is announced at first; doubled each time that the peer was later. Default 4.
    pub lead_rounds: u32,
    /// Whether to send only what the receiver has granted buffer space for. Default false.
    pub credits: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            max_packet: Bytes::new(1500),
            marker_rounds: 8,
            marker_place: MarkerPlace::End,
            marker_interval: Span::from_millis(20),
            idle_interval: Span::from_secs(5),
            idle_gap: Span::from_millis(5),
            announce_interval: Span::from_millis(30),
            patience: Span::from_secs(1),
            lead_rounds: 4,
            credits: false,
        }
    }
}

/// Where in a round the markers go out, on all channels together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MarkerPlace {
    /// Between two rounds: every channel has had its whole turn.
    #[default]
    End,
    /// After the first packet of a round.
    Start,
    /// When half of what a round carries has gone.
    Middle,
}

words!(MarkerPlace { End = "end", Start = "start", Middle = "middle" });

/// Why a configuration or a channel set was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// The channel set.
    #[error(transparent)]
    Set(#[from] SetError),
    /// A setting that must not be zero.
    #[error("{setting} is 0; it must be at least 1")]
    Zero {
        /// The setting's name.
        setting: &'static str,
    },
}

/// Settings of a [`Receiver`](super::Receiver).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReceiverConfig {
    /// Most bytes buffered on one channel, at most 2^30. Default 4 MB: 300 ms at 100 Mbit/s.
    pub buffer_bytes: Bytes,
    /// Most packets buffered on one channel, at most 2^30. Default 8192.
    pub buffer_packets: u32,
    /// First interval between requests for a reset; it doubles up to 32 times this. Default 30 ms.
    pub request_interval: Span,
    /// Whether to answer with a new grant whenever it has grown by half the buffer. Default false.
    pub credits: bool,
}

impl Default for ReceiverConfig {
    fn default() -> ReceiverConfig {
        ReceiverConfig {
            buffer_bytes: Bytes::new(4_000_000),
            buffer_packets: 8192,
            request_interval: Span::from_millis(30),
            credits: false,
        }
    }
}

/// Whether every quantum holds the longest packet.
pub(super) fn check(channels: &ChannelSet, max_packet: Bytes) -> Result<(), ConfigError> {
    if channels.is_empty() {
        return Err(SetError::Empty.into());
    }
    if channels.unit() == Unit::Packets {
        return Ok(());
    }
    let least = max_packet.as_u64();
    for channel in channels.channels() {
        let quantum = u64::from(channels.quantum(channel));
        if quantum < least {
            return Err(SetError::Quantum { channel, quantum, least }.into());
        }
    }
    Ok(())
}
