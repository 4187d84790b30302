//! The striping paper's theorems and arithmetic, held against the core's own machines over random inputs, and its
//! measurements.

pub(super) mod discipline;
pub(super) mod figures;
pub(super) mod fragments;
mod network;
pub(super) mod order;
pub(super) mod rates;
pub(super) mod skew;

use super::Answer;
use fairspan_core::causal::ChannelSet;
use fairspan_core::rng::Rng;
use fairspan_core::units::Bytes;

/// The longest packet of random streams.
const MAX: u64 = 1500;

/// The answer of a check: what was tried, or what went wrong.
fn told(outcome: Result<String, String>) -> Answer {
    match outcome {
        Ok(tried) => Answer::statement(true, tried),
        Err(problem) => Answer::statement(false, problem),
    }
}

/// Random quanta that hold the longest packet, for two to seven channels mostly, sometimes for up to 64.
fn random_quanta(rng: &mut Rng) -> Vec<u64> {
    let channels = if rng.below(4) == 0 { 8 + rng.below(57) } else { 2 + rng.below(6) };
    (0..channels).map(|_| MAX + rng.below(20_000)).collect()
}

fn set_of(quanta: &[u64]) -> Result<ChannelSet, String> {
    ChannelSet::of(quanta, Bytes::new(MAX)).map_err(|error| error.to_string())
}

/// Random lengths: any, or the shortest and the longest only, which is the hardest mixture.
fn random_lengths(rng: &mut Rng, packets: usize) -> Vec<usize> {
    let extremes = rng.below(2) == 0;
    let length = |rng: &mut Rng| match (extremes, rng.below(2)) {
        (true, 0) => 8,
        (true, _) => MAX as usize,
        (false, _) => 8 + rng.below(MAX - 7) as usize,
    };
    (0..packets).map(|_| length(rng)).collect()
}

/// A packet that carries its number.
fn packet(number: u64, len: usize) -> Vec<u8> {
    let mut packet = vec![0; len.max(8)];
    packet[..8].copy_from_slice(&number.to_be_bytes());
    packet
}

/// The number that [`packet`] wrote.
fn number(packet: &[u8]) -> u64 {
    packet.first_chunk::<8>().map_or(u64::MAX, |bytes| u64::from_be_bytes(*bytes))
}
