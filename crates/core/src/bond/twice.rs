//! Calls that lose nothing: an urgent packet goes twice where its channel may lose it.
//!
//! What it is: parity ahead of need in blocks of one packet, in mode `reliable`. A repair costs a round trip, which a call does not
//! have, and a longer block would wait for the call's next packet, 20 ms later. The second frame goes at once by the channel that
//! brings it first among the others, if that takes at most [`SLACK`] longer; otherwise by the same channel after [`GAP`], so that a
//! short burst of losses does not take both. What the peer has told of by then goes once.
//!
//! Bounds: a thousand second frames a second ([`Twice`](super::protect::Twice)), and none of a packet that is older than [`LATE`].
//! Cost: O(channels) a second frame.

use super::Bond;
use super::channel::{bit, each};
use super::frame::Transmit;
use super::protect::Again;
use crate::packet::Packet;
use crate::units::{ChannelId, Span, Time};

/// How much later than the first frame another channel may bring the second one.
const SLACK: Span = Span::from_millis(15);
/// How much later the second frame leaves by the same channel.
const GAP: Span = Span::from_millis(5);
/// How old a packet may be that goes a second time.
const LATE: Span = Span::from_millis(20);

impl<P: Packet> Bond<P> {
    /// The second frame of an urgent packet, if one is due.
    pub(super) fn next_second(&mut self, now: Time) -> Option<Transmit<P>> {
        self.protect.twice.at = None;
        self.peer.tag()?;
        while let Some(&Again { since, note, first }) = self.protect.twice.waiting.front() {
            let kept = if now.since(since) > LATE { None } else { self.protect.keeper.as_ref()?.under_way(note) };
            let Some((about, packet)) = kept else {
                self.protect.twice.waiting.pop_front();
                continue;
            };
            let Some((at, channel)) = self.second_by(now, since, first, about.bucket) else {
                self.protect.twice.waiting.pop_front();
                continue;
            };
            if at > now {
                self.protect.twice.at = Some(at);
                return None;
            }
            let copy = packet.duplicate();
            self.protect.twice.waiting.pop_front();
            let Some(packet) = copy else { continue };
            self.stats.urgent_copies += 1;
            return Some(self.send(now, channel, packet, about, false, Some(note)));
        }
        None
    }

    /// When and by which channel the second frame goes of a packet of `bucket` that went by `first`.
    fn second_by(&self, now: Time, since: Time, first: ChannelId, bucket: u16) -> Option<(Time, ChannelId)> {
        let reference = self.channels.reference();
        let most = self.way(first, reference) + SLACK;
        let ready = |c: ChannelId| Some((self.channels[c].ready_at()?.max(now), c));
        let others = each(self.carriers(bucket) & !bit(first)).filter(|c| self.way(*c, reference) <= most);
        others.filter_map(ready).min().or_else(|| {
            let (at, _) = ready(first).filter(|_| self.channels.usable & bit(first) != 0)?;
            Some((at.max(since + GAP), first))
        })
    }

    /// When the next second frame may go.
    #[inline]
    pub(super) fn second_at(&self) -> Option<Time> {
        self.protect.twice.at.filter(|_| !self.protect.twice.waiting.is_empty())
    }
}
