//! Credit flow control: the receiver grants buffer space per channel, the sender spends it.
//!
//! Source: striping §6.3.1, after Kung and Chapman 1993 (flow-controlled virtual channels). Counters are totals since
//! the epoch began, modulo 2^32, in bytes and in packets:
//!
//! | counter | kept by | meaning |
//! |---|---|---|
//! | sent | sender | data sent on the channel; every marker carries it |
//! | arrived | receiver | data that arrived, or is known lost: a marker in FIFO place raises it to its `sent` |
//! | grant | receiver -> sender | `arrived - buffered + limit` |
//!
//! A total replaces whatever was lost: losing any grant, or any data, costs time and never space. The sender takes
//! the greatest grant it has heard, so grants may overtake each other.
//!
//! Totals run on while a channel leaves the set and joins again; only a new epoch restarts them.
//!
//! Invariant: `sent - (arrived - buffered) <= limit`, so the receiver's buffer never overflows. Cost: O(1).

use crate::units::{Bytes, ChannelId};

/// The sender's side: what was sent, and what may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreditGate {
    enforced: bool,
    channel: [Account; ChannelId::LIMIT],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Account {
    sent_bytes: u32,
    sent_packets: u32,
    grant_bytes: u32,
    grant_packets: u32,
}

impl CreditGate {
    /// A gate with nothing sent and nothing granted; one that is not `enforced` admits everything, and still counts.
    pub fn new(enforced: bool) -> CreditGate {
        CreditGate { enforced, channel: [Account::default(); ChannelId::LIMIT] }
    }

    /// Begins a new epoch: all totals 0.
    pub fn reset(&mut self) {
        self.channel = [Account::default(); ChannelId::LIMIT];
    }

    /// Whether one packet of `len` bytes more is covered by the grant.
    #[inline]
    pub fn admits(&self, channel: ChannelId, len: Bytes) -> bool {
        if !self.enforced {
            return true;
        }
        self.channel.get(channel.index()).is_some_and(|a| {
            let bytes = a.grant_bytes.wrapping_sub(a.sent_bytes) as i32;
            let packets = a.grant_packets.wrapping_sub(a.sent_packets) as i32;
            packets > 0 && i64::from(bytes) >= len.as_u64() as i64
        })
    }

    /// One packet of `len` bytes was sent on `channel`.
    #[inline]
    pub fn on_sent(&mut self, channel: ChannelId, len: Bytes) {
        let a = &mut self.channel[usize::from(channel.0 & 63)];
        a.sent_bytes = a.sent_bytes.wrapping_add(len.as_u64() as u32);
        a.sent_packets = a.sent_packets.wrapping_add(1);
    }

    /// The totals sent on `channel`: bytes, packets.
    pub fn sent(&self, channel: ChannelId) -> (u32, u32) {
        self.channel.get(channel.index()).map_or((0, 0), |a| (a.sent_bytes, a.sent_packets))
    }

    /// The receiver grants these totals on `channel`; an older, smaller grant changes nothing.
    pub fn grant(&mut self, channel: ChannelId, bytes: u32, packets: u32) {
        if let Some(a) = self.channel.get_mut(channel.index()) {
            if (bytes.wrapping_sub(a.grant_bytes) as i32) > 0 {
                a.grant_bytes = bytes;
            }
            if (packets.wrapping_sub(a.grant_packets) as i32) > 0 {
                a.grant_packets = packets;
            }
        }
    }
}

/// The receiver's side of one channel: what arrived or is known lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrivals {
    bytes: u32,
    packets: u32,
    /// The byte total of the last grant that was told.
    told: u32,
}

impl Arrivals {
    /// A packet of `len` bytes arrived.
    #[inline]
    pub fn on_arrival(&mut self, len: u32) {
        self.bytes = self.bytes.wrapping_add(len);
        self.packets = self.packets.wrapping_add(1);
    }

    /// A marker in FIFO place says what was sent before it: what did not arrive is lost. Returns the packets lost.
    pub fn on_marker(&mut self, sent_bytes: u32, sent_packets: u32) -> u32 {
        let lost = sent_packets.wrapping_sub(self.packets);
        self.bytes = sent_bytes;
        self.packets = sent_packets;
        if (lost as i32) > 0 { lost } else { 0 }
    }

    /// The grant in bytes and packets, when `buffered` of the `limit` is in use.
    pub fn grant(&self, buffered: (u32, u32), limit: (u32, u32)) -> (u32, u32) {
        (
            self.bytes.wrapping_sub(buffered.0).wrapping_add(limit.0),
            self.packets.wrapping_sub(buffered.1).wrapping_add(limit.1),
        )
    }

    /// Notes that a grant was told.
    pub fn on_told(&mut self, grant_bytes: u32) {
        self.told = grant_bytes;
    }

    /// How many bytes the grant has grown since it was told.
    pub fn untold(&self, grant_bytes: u32) -> u32 {
        grant_bytes.wrapping_sub(self.told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_data_and_lost_grants_leak_no_credit() {
        let (channel, limit) = (ChannelId(0), (3000, 10));
        let mut gate = CreditGate::new(true);
        let mut arrivals = Arrivals::default();
        assert!(!gate.admits(channel, Bytes::new(1)));
        // Totals wrap around many times; every other packet is lost, and two of three grants.
        for i in 0..10_000_000u32 / 1000 {
            let (bytes, packets) = arrivals.grant((0, 0), limit);
            if i % 3 == 0 {
                gate.grant(channel, bytes, packets);
            }
            if gate.admits(channel, Bytes::new(1000)) {
                gate.on_sent(channel, Bytes::new(1000));
                if i % 2 == 0 {
                    arrivals.on_arrival(1000);
                }
            }
            let (sent, n) = gate.sent(channel);
            arrivals.on_marker(sent, n);
        }
        assert!(gate.sent(channel).1 > 9000, "{:?}", gate.sent(channel));
    }

    #[test]
    fn a_marker_tells_how_many_packets_were_lost_before_it_and_never_fewer_than_none() {
        let mut arrivals = Arrivals::default();
        arrivals.on_arrival(100);
        assert_eq!([arrivals.on_marker(100, 1), arrivals.on_marker(900, 4), arrivals.on_marker(900, 4)], [0, 3, 0]);
        assert_eq!(arrivals.on_marker(800, 2), 0);
        assert_eq!(arrivals.grant((0, 0), (1000, 10)), (1800, 12));
    }

    #[test]
    fn a_new_epoch_counts_from_nothing() {
        let mut gate = CreditGate::new(true);
        gate.grant(ChannelId(5), 2000, 2);
        gate.on_sent(ChannelId(5), Bytes::new(100));
        gate.reset();
        assert_eq!(gate, CreditGate::new(true));
    }

    #[test]
    fn what_a_grant_has_grown_by_since_it_was_told_is_known_around_the_end() {
        let mut arrivals = Arrivals::default();
        assert_eq!(arrivals.untold(700), 700);
        arrivals.on_told(u32::MAX - 9);
        assert_eq!(arrivals.untold(20), 30);
    }

    #[test]
    fn an_older_grant_takes_nothing_back() {
        let mut gate = CreditGate::new(true);
        gate.grant(ChannelId(5), 2000, 2);
        gate.grant(ChannelId(5), 1000, 1);
        assert!(gate.admits(ChannelId(5), Bytes::new(2000)));
        assert!(!gate.admits(ChannelId(5), Bytes::new(2001)));
        gate.on_sent(ChannelId(5), Bytes::new(1));
        gate.on_sent(ChannelId(5), Bytes::new(1));
        assert!(!gate.admits(ChannelId(5), Bytes::new(1)));
    }
}
