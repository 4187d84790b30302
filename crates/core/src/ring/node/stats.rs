//! Counters of a node.

use crate::ring::fairness;

/// Counts packets, and under a name every one that was dropped: plain numbers, growing.
///
/// `station` + `received` = `sent` + `delivered` + all drops + what the node holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Packets from the station.
    pub station: u64,
    /// Data frames from neighbours.
    pub received: u64,
    /// Data frames for neighbours, and their bytes on the wire.
    pub sent: u64,
    /// Bytes of them on the wire.
    pub sent_bytes: u64,
    /// Packets for the station.
    pub delivered: u64,
    /// Data frames that were turned round at a gap.
    pub wrapped: u64,
    /// Packets of the station whose way changed while they waited.
    pub steered: u64,
    /// Packets of class A carried as class C, for want of a reservation.
    pub demoted: u64,
    /// Packets of the station that a policy marked, "congestion experienced".
    pub station_marked: u64,
    /// Control frames sent.
    pub control_sent: u64,
    /// Control frames received.
    pub control_received: u64,
    /// Control frames that were refused, for whatever reason.
    pub control_refused: u64,
    /// Of these, messages about fair rates, by [`fairness::Refused::index`].
    pub fairness_refused: [u64; fairness::REASONS.len()],
    /// Control frames that a full queue had no room for.
    pub control_overflow: u64,
    /// Dropped: from the station for itself.
    pub to_itself: u64,
    /// Dropped: from the station for a node that does not exist.
    pub unknown: u64,
    /// Dropped: from the station for a node to which no way is whole.
    pub unreachable: u64,
    /// Dropped: from the station, with the queue to its egress full; with `fifo`, with the link's queue full.
    pub station_full: u64,
    /// Dropped: from the station, by a policy that drops from a queue that stands.
    pub station_standing: u64,
    /// Dropped: in transit, with the transit queue full.
    pub transit_full: u64,
    /// Dropped: a head that is none.
    pub malformed: u64,
    /// Dropped: came over the link by which frames of its ringlet leave.
    pub wrong_side: u64,
    /// Dropped: from a neighbour that is not known to be the right one, or over a link that is down.
    pub stranger: u64,
    /// Dropped: from or for a node that does not exist, or both the same.
    pub foreign: u64,
    /// Dropped: came round to its ingress, unturned.
    pub own: u64,
    /// Dropped: crossed too many links.
    pub expired: u64,
    /// Dropped: the way on is cut, and it may not be turned round, or not again.
    pub cut: u64,
}

impl Stats {
    /// Every reason to drop a packet, by name.
    pub fn drops(&self) -> [(&'static str, u64); 13] {
        [
            ("to_itself", self.to_itself),
            ("unknown", self.unknown),
            ("unreachable", self.unreachable),
            ("station_full", self.station_full),
            ("station_standing", self.station_standing),
            ("transit_full", self.transit_full),
            ("malformed", self.malformed),
            ("wrong_side", self.wrong_side),
            ("stranger", self.stranger),
            ("foreign", self.foreign),
            ("own", self.own),
            ("expired", self.expired),
            ("cut", self.cut),
        ]
    }

    /// Every counter by name.
    pub fn each(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let others = [
            ("station", self.station),
            ("received", self.received),
            ("sent", self.sent),
            ("sent_bytes", self.sent_bytes),
            ("delivered", self.delivered),
            ("wrapped", self.wrapped),
            ("steered", self.steered),
            ("demoted", self.demoted),
            ("station_marked", self.station_marked),
            ("control_sent", self.control_sent),
            ("control_received", self.control_received),
            ("control_refused", self.control_refused),
            ("control_overflow", self.control_overflow),
        ];
        let fairness = fairness::REASONS.into_iter().zip(self.fairness_refused);
        others.into_iter().chain(fairness).chain(self.drops())
    }

    /// All that was dropped.
    pub fn dropped(&self) -> u64 {
        self.drops().iter().map(|(_, count)| count).sum()
    }
}
