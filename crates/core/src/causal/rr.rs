//! Plain round robin, packet by packet.
//!
//! Source: striping §3.1: the state is the pointer, f the identity, g the increment. Cost: O(1).

use super::set::{ChannelSet, next_in};
use super::{Causal, SetError};
use crate::units::{Bytes, ChannelId};

/// Round robin: one packet to each member in turn, whatever its length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rr {
    mask: u64,
    at: u8,
}

impl Rr {
    /// s0: the lowest channel first. Quanta play no part.
    ///
    /// # Errors
    /// [`SetError::Empty`] when the set has no channel.
    pub fn new(set: &ChannelSet) -> Result<Rr, SetError> {
        if set.is_empty() {
            return Err(SetError::Empty);
        }
        Ok(Rr { mask: set.mask(), at: set.mask().trailing_zeros() as u8 })
    }

    /// The same turns as a set whose quanta count packets, for [`Srr`](super::Srr) and so for the stripe.
    ///
    /// # Errors
    /// [`SetError::Empty`] when the set has no channel.
    pub fn set(set: &ChannelSet) -> Result<ChannelSet, SetError> {
        let pairs: alloc::vec::Vec<_> = set.channels().map(|c| (c, 1)).collect();
        ChannelSet::of_packets(&pairs)
    }
}

impl Causal for Rr {
    fn select(&self) -> ChannelId {
        ChannelId(self.at)
    }

    fn update(&mut self, _len: Bytes) {
        self.at = next_in(self.mask, self.at);
    }

    fn pass(&mut self) {
        self.at = next_in(self.mask, self.at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_take_turns_whatever_the_lengths() {
        let set =
            ChannelSet::new(&[(ChannelId(2), Bytes::new(9)), (ChannelId(63), Bytes::new(9))], Bytes::new(1)).unwrap();
        let mut rr = Rr::new(&set).unwrap();
        let order: std::vec::Vec<u8> = [1, 5000, 1, 5000]
            .map(|len| {
                let c = rr.select().0;
                rr.update(Bytes::new(len));
                c
            })
            .into();
        assert_eq!(order, [2, 63, 2, 63]);
    }
}
