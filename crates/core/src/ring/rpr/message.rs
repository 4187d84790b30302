//! RPR's control message: one fair rate and the node that it is of, for the neighbour upstream.
//!
//! | bytes | what |
//! |---|---|
//! | 0 | 0x52 |
//! | 1 | version, 1 |
//! | 2 | nodes of the ring |
//! | 3 | the node whose link the rate is of; the sender's number where nothing is congested |
//! | 4-7 | sequence number of the sender, big endian |
//! | 8-9 | the rate for a weight of one, in 65,534ths of the nominal rate, big endian; 0xFFFF: nothing is congested |
//!
//! As in IEEE 802.17 the rate has 16 bits and all ones mean the full rate; addresses, TTL and checks are the ring's.

use crate::ring::NodeId;
use crate::ring::fairness::Refused;

/// Length of a message.
pub const LENGTH: usize = 10;
const TAG: u8 = 0x52;
const VERSION: u8 = 1;
const FULL: u16 = 0xFFFF;
/// The nominal rate in a message's unit.
pub const WHOLE: f64 = 65_534.0;

/// What a message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Nodes of the ring.
    pub nodes: u8,
    /// Whose link the rate is of.
    pub origin: NodeId,
    /// Of the sender.
    pub sequence: u32,
    /// The rate in [`WHOLE`]ths of the nominal rate; `None`: nothing is congested.
    pub rate: Option<u16>,
}

impl Message {
    /// As it is on the wire.
    pub fn write(&self) -> [u8; LENGTH] {
        let mut bytes = [TAG, VERSION, self.nodes, self.origin.number(), 0, 0, 0, 0, 0, 0];
        bytes[4..8].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[8..].copy_from_slice(&self.rate.map_or(FULL, |rate| rate.min(FULL - 1)).to_be_bytes());
        bytes
    }

    /// From the wire. The ring's size and the origin's place in it are the reader's to check.
    ///
    /// # Errors
    /// Another length, tag or version; an origin of 0.
    pub fn read(bytes: &[u8]) -> Result<Message, Refused> {
        let &[TAG, VERSION, nodes, origin, a, b, c, d, high, low] = bytes else { return Err(Refused::Malformed) };
        let rate = u16::from_be_bytes([high, low]);
        Ok(Message {
            nodes,
            origin: NodeId::new(origin).ok_or(Refused::Sender)?,
            sequence: u32::from_be_bytes([a, b, c, d]),
            rate: (rate != FULL).then_some(rate),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_these_ten_bytes() {
        let origin = NodeId::new(4).unwrap();
        let message = Message { nodes: 10, origin, sequence: 0x0102_0304, rate: Some(0x4000) };
        let bytes = [0x52, 1, 10, 4, 1, 2, 3, 4, 0x40, 0];
        assert_eq!(message.write(), bytes);
        assert_eq!(Message::read(&bytes), Ok(message));
        let none = Message { rate: None, ..message };
        assert_eq!(none.write()[8..], [0xFF, 0xFF]);
        assert_eq!(Message::read(&none.write()), Ok(none));
        let most = Message { rate: Some(0xFFFF), ..message };
        assert_eq!(most.write()[8..], [0xFF, 0xFE], "a rate is none of the words");
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let good = [0x52, 1, 10, 4, 1, 2, 3, 4, 0x40, 0];
        assert_eq!(Message::read(&good[..9]), Err(Refused::Malformed));
        assert_eq!(Message::read(&[&good[..], &[0]].concat()), Err(Refused::Malformed));
        assert_eq!(Message::read(&[]), Err(Refused::Malformed));
        for (at, value, reason) in [(0, 0x53, Refused::Malformed), (1, 2, Refused::Malformed), (3, 0, Refused::Sender)]
        {
            let mut bad = good;
            bad[at] = value;
            assert_eq!(Message::read(&bad), Err(reason));
        }
    }
}
