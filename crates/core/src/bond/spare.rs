//! Time that would go unused: packets of a channel that loses some go a second time, on another one that has nothing to send.
//!
//! What it is: while nothing waits and another channel is idle, what went within the last [`FRESH`] on a channel that loses more than
//! one frame in a thousand, or of which that is not known yet, goes there too. A loss then costs no round trip, which is what TCP's
//! slow start would see: its window grows while the links have time to spare, and once they are full nothing is sent twice. No
//! frame that has something new to carry waits for it. A channel that would bring it later than a repair could takes none.
//!
//! Cost: O(channels) and a copy of a packet, where a channel is idle.

use super::Bond;
use super::channel::{bit, each};
use super::frame::Transmit;
use crate::packet::Packet;
use crate::units::{ChannelId, Span, Time};

/// How long a packet is remembered for this.
const FRESH: Span = Span::from_millis(60);
/// How many of those that went first are looked at for one whose other channels have the time.
const TRIES: usize = 4;
impl<P: Packet> Bond<P> {
    /// A second frame of a packet that went lately, where a channel has the time. Nothing else is to be sent.
    #[inline]
    pub(super) fn next_spare(&mut self, now: Time) -> Option<Transmit<P>> {
        if self.protect.spare.recent.is_empty() { None } else { self.spend(now) }
    }

    #[inline(never)]
    fn spend(&mut self, now: Time) -> Option<Transmit<P>> {
        self.peer.tag()?;
        let mut tried = 0;
        while let Some(&(at, note, first)) = self.protect.spare.recent.get(tried) {
            let kept = if now.since(at) > FRESH { None } else { self.protect.keeper.as_ref()?.under_way(note) };
            let Some((about, packet)) = kept else {
                self.protect.spare.recent.remove(tried);
                continue;
            };
            let Some(channel) = self.idle(now, first, about.bucket) else {
                tried += 1;
                if tried == TRIES {
                    break;
                }
                continue;
            };
            let copy = packet.duplicate();
            self.protect.spare.recent.remove(tried);
            let Some(packet) = copy else { continue };
            self.stats.spare_copies += 1;
            return Some(self.send(now, channel, packet, about, false, Some(note)));
        }
        None
    }

    /// The channel other than `first` that has nothing to send and brings a packet of `bucket` first, before `first` could mend its loss.
    fn idle(&self, now: Time, first: ChannelId, bucket: u16) -> Option<ChannelId> {
        let reference = self.channels.reference();
        let repair = self.channels[first].path.rtt()?;
        let idle = |c: &ChannelId| {
            let c = &self.channels[*c];
            c.ready_at().is_some_and(|at| at <= now) && c.pacer.as_ref().is_some_and(|pacer| pacer.free() <= now)
        };
        let others = each(self.carriers(bucket) & !bit(first)).filter(idle);
        others.map(|c| (self.way(c, reference), c)).filter(|(way, _)| *way <= repair).min().map(|(_, channel)| channel)
    }
}
