//! A set of channels with a quantum each.

use crate::units::{Bytes, ChannelId};
use core::fmt;
use thiserror::Error;

/// Which channels take part, and the quantum of each a round: in bytes, or in packets for disciplines that count
/// those.
///
/// At most [`ChannelId::LIMIT`] channels; a quantum is 1 to 2^30.
#[derive(Clone, PartialEq, Eq)]
pub struct ChannelSet {
    mask: u64,
    unit: Unit,
    quantum: [u32; ChannelId::LIMIT],
}

impl fmt::Debug for ChannelSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.channels().map(|c| (c.0, self.quantum(c)))).finish()
    }
}

/// What the quanta of a [`ChannelSet`] count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Bytes: surplus round robin proper.
    #[default]
    Bytes,
    /// Packets, whatever their lengths: then surplus round robin is generalised round robin, and round robin where all
    /// quanta are one.
    Packets,
}

/// Why a set of channels was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SetError {
    /// No channel at all.
    #[error("a channel set needs at least one channel")]
    Empty,
    /// A channel number out of range.
    #[error("channel {channel} is out of range: channels are numbered 0 to 63")]
    Channel {
        /// The number.
        channel: ChannelId,
    },
    /// A channel that occurs twice.
    #[error("channel {channel} occurs twice in one channel set")]
    Twice {
        /// The number.
        channel: ChannelId,
    },
    /// A quantum that cannot hold the largest packet, or is beyond the limit.
    #[error(
        "the quantum of channel {channel} is {quantum}; it must be between {least} (the largest packet in bytes, or one packet) and 2^30"
    )]
    Quantum {
        /// The channel.
        channel: ChannelId,
        /// What was asked for.
        quantum: u64,
        /// The least that is allowed.
        least: u64,
    },
}

impl ChannelSet {
    /// The largest quantum: 2^30 bytes, so that deficits and credits fit 32 bits on the wire.
    pub const MAX_QUANTUM: u32 = 1 << 30;

    /// A set from `(channel, quantum)` pairs. Every quantum must hold the largest packet, of `max_packet` bytes
    /// (striping §5: otherwise a channel may be passed over because its deficit allows no packet).
    ///
    /// # Errors
    /// [`SetError`] names the first pair that is wrong.
    pub fn new(channels: &[(ChannelId, Bytes)], max_packet: Bytes) -> Result<ChannelSet, SetError> {
        let mut set = ChannelSet::empty();
        for &(channel, quantum) in channels {
            let slot = set.quantum.get_mut(channel.index()).ok_or(SetError::Channel { channel })?;
            if set.mask & bit(channel) != 0 {
                return Err(SetError::Twice { channel });
            }
            let (quantum, least) = (quantum.as_u64(), max_packet.as_u64().max(1));
            if quantum < least || quantum > u64::from(Self::MAX_QUANTUM) {
                return Err(SetError::Quantum { channel, quantum, least });
            }
            *slot = quantum as u32;
            set.mask |= bit(channel);
        }
        if set.mask == 0 { Err(SetError::Empty) } else { Ok(set) }
    }

    /// The set of no channel: the state before anything is known.
    pub(crate) const fn empty() -> ChannelSet {
        ChannelSet { mask: 0, unit: Unit::Bytes, quantum: [0; ChannelId::LIMIT] }
    }

    /// Channels 0 to n-1 with these quanta in bytes. See [`ChannelSet::new`].
    ///
    /// # Errors
    /// As [`ChannelSet::new`].
    pub fn of(quanta: &[u64], max_packet: Bytes) -> Result<ChannelSet, SetError> {
        let mut pairs = alloc::vec::Vec::with_capacity(quanta.len());
        for (i, &q) in quanta.iter().enumerate() {
            pairs.push((ChannelId(u8::try_from(i).unwrap_or(u8::MAX)), Bytes::new(q)));
        }
        ChannelSet::new(&pairs, max_packet)
    }

    /// A set from `(channel, packets a round)` pairs.
    ///
    /// # Errors
    /// As [`ChannelSet::new`].
    pub fn of_packets(channels: &[(ChannelId, u32)]) -> Result<ChannelSet, SetError> {
        let mut pairs = [(ChannelId(0), Bytes::ZERO); ChannelId::LIMIT];
        // More than fit have one twice, or one out of range: found within the first of them.
        let count = channels.len().min(ChannelId::LIMIT);
        for (pair, &(channel, packets)) in pairs.iter_mut().zip(channels) {
            *pair = (channel, Bytes::new(u64::from(packets)));
        }
        if let Some(&(channel, _)) = channels.get(ChannelId::LIMIT) {
            return Err(SetError::Twice { channel });
        }
        let set = ChannelSet::new(&pairs[..count], Bytes::new(1))?;
        Ok(ChannelSet { unit: Unit::Packets, ..set })
    }

    /// What the quanta count.
    #[inline]
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// The channels as a bit mask, channel 0 lowest.
    pub fn mask(&self) -> u64 {
        self.mask
    }

    /// Whether `channel` takes part.
    pub fn contains(&self, channel: ChannelId) -> bool {
        self.mask & bit(channel) != 0
    }

    /// The quantum of `channel`; 0 when it does not take part.
    pub fn quantum(&self, channel: ChannelId) -> u32 {
        self.quantum.get(channel.index()).copied().unwrap_or(0)
    }

    /// How many channels take part.
    pub fn len(&self) -> usize {
        self.mask.count_ones() as usize
    }

    /// Whether no channel takes part (after [`without`](ChannelSet::without) only).
    pub fn is_empty(&self) -> bool {
        self.mask == 0
    }

    /// The channels in increasing order.
    pub fn channels(&self) -> impl Iterator<Item = ChannelId> + use<> {
        bits(self.mask)
    }

    /// The set without the channels of `mask`; may be empty.
    #[must_use]
    pub fn without(&self, mask: u64) -> ChannelSet {
        let mut set = self.clone();
        for channel in bits(self.mask & mask) {
            set.quantum[channel.index()] = 0;
        }
        set.mask &= !mask;
        set
    }

    /// The sum of all quanta: the bytes of one round, or its packets.
    pub fn round_bytes(&self) -> Bytes {
        Bytes::new(self.quantum.iter().map(|&q| u64::from(q)).sum())
    }
}

/// The mask with only `channel` in it; 0 when out of range.
pub(crate) fn bit(channel: ChannelId) -> u64 {
    1u64.checked_shl(u32::from(channel.0)).unwrap_or(0)
}

/// The channels of a mask in increasing order.
pub(crate) fn bits(mut mask: u64) -> impl Iterator<Item = ChannelId> {
    core::iter::from_fn(move || {
        if mask == 0 {
            return None;
        }
        let channel = ChannelId(mask.trailing_zeros() as u8);
        mask &= mask - 1;
        Some(channel)
    })
}

/// The member of `mask` after `at` in cyclic order; `at` itself when it is the only one. `mask` is not 0.
pub(crate) fn next_in(mask: u64, at: u8) -> u8 {
    let above = mask & u64::MAX.checked_shl(u32::from(at) + 1).unwrap_or(0);
    (if above != 0 { above } else { mask }).trailing_zeros() as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantum_below_the_largest_packet_is_refused_by_name() {
        assert_eq!(
            ChannelSet::of(&[1500, 1499], Bytes::new(1500)),
            Err(SetError::Quantum { channel: ChannelId(1), quantum: 1499, least: 1500 })
        );
        assert_eq!(ChannelSet::of(&[], Bytes::new(1500)), Err(SetError::Empty));
        assert_eq!(ChannelSet::of(&[1; 65], Bytes::new(1)), Err(SetError::Channel { channel: ChannelId(64) }));
        let twice = [(ChannelId(3), Bytes::new(9)), (ChannelId(3), Bytes::new(9))];
        assert_eq!(ChannelSet::new(&twice, Bytes::new(9)), Err(SetError::Twice { channel: ChannelId(3) }));
    }

    #[test]
    fn a_quantum_of_a_gibibyte_is_the_largest() {
        let most = 1_073_741_824;
        assert_eq!(ChannelSet::of(&[most], Bytes::new(1)).unwrap().quantum(ChannelId(0)), most as u32);
        let refused = SetError::Quantum { channel: ChannelId(0), quantum: most + 1, least: 1 };
        assert_eq!(ChannelSet::of(&[most + 1], Bytes::new(1)), Err(refused));
    }

    #[test]
    fn what_is_taken_out_of_a_set_has_no_quantum_any_more_and_the_rest_stays() {
        let set = ChannelSet::of(&[100, 200, 300], Bytes::new(1)).unwrap();
        // Channel 5 is no member.
        let rest = set.without(bit(ChannelId(1)) | bit(ChannelId(5)));
        assert_eq!((rest.mask(), rest.len(), rest.is_empty(), rest.round_bytes()), (0b101, 2, false, Bytes::new(400)));
        assert_eq!([0, 1, 2, 5].map(|c| rest.quantum(ChannelId(c))), [100, 0, 300, 0]);
        let none = rest.without(u64::MAX);
        assert_eq!((none.mask(), none.is_empty(), none.round_bytes()), (0, true, Bytes::ZERO));
    }

    #[test]
    fn the_next_member_is_found_in_cyclic_order() {
        let mask = 1 | 1 << 5 | 1 << 63;
        assert_eq!([next_in(mask, 0), next_in(mask, 4), next_in(mask, 5), next_in(mask, 63)], [5, 5, 63, 0]);
        assert_eq!(next_in(1 << 63, 63), 63);
        assert_eq!(next_in(1, 0), 0);
    }
}
