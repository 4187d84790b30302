//! Independent random streams from one seed: one for each purpose and entity, so that a flow or link more changes
//! nobody else's draws.

use fairspan_core::rng::Rng;

/// What a stream is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Purpose {
    /// A link's loss and jitter, by link.
    Link = 1,
    /// The key of a queue discipline's hash, by link.
    Queue = 2,
    /// The drift of a source's clock, by flow.
    Drift = 3,
    /// What a source or application draws, by flow.
    Traffic = 4,
    /// Initial sequence numbers of a transport, by flow.
    Transport = 5,
    /// A host's processing times, by node.
    Processor = 6,
    /// A bond's end, by bond and end.
    Bond = 7,
    /// What the ends of a flow take for each packet, by flow.
    Outbox = 8,
    /// Faults of control frames, and wander, by ring and way.
    Ring = 9,
    /// A ring's nodes, by ring.
    RingNode = 10,
    /// What a splitting gateway's policy draws, by gateway.
    Split = 11,
    /// How far a link's clock is off, by link.
    LinkDrift = 12,
}

/// The seed of the stream of `purpose` for entity `index`.
pub fn seed(seed: u64, purpose: Purpose, index: u64) -> u64 {
    // Each step is one round of SplitMix64 (Steele, Lea, Flood 2014), a bijection of its sum.
    let mut state = seed;
    for part in [purpose as u64, index] {
        state = state.wrapping_add(part.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        state ^= state >> 31;
    }
    state
}

/// The generator of the stream of `purpose` for entity `index`.
pub fn stream(root: u64, purpose: Purpose, index: u64) -> Rng {
    Rng::new(seed(root, purpose, index))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_streams_of_neighbouring_seeds_purposes_and_entities_begin_alike() {
        let purposes = [Purpose::Link, Purpose::Queue, Purpose::Drift, Purpose::Traffic, Purpose::Bond];
        let mut seen = BTreeSet::new();
        for root in 0..20 {
            for purpose in purposes {
                for index in 0..200 {
                    assert!(seen.insert(stream(root, purpose, index).next_u64()), "{root} {purpose:?} {index}");
                }
            }
        }
    }
}
