//! What is under way on a channel that has become slow takes another way.
//!
//! What it is: a link that falls to a hundredth of its rate for a second keeps for that second what is under way on it. Nothing of it is lost, so
//! nothing goes again, and a receiver that keeps order has all else wait until it gives up what is missing. Here the sender reckons when each
//! of these frames arrives at the rate that the channel has now. What another channel brings much sooner goes there too, before new packets. What
//! comes twice is dropped by the receiver.
//!
//! | symbol | meaning | here |
//! |---|---|---|
//! | x | bytes under way up to a frame, with its own | [`Flight::doubt`](crate::path::flight::Flight::doubt) |
//! | C | the channel's rate, once its law has found it | `known_rate` |
//! | b | twice the channel's delay without queues: what is under way for that long is so because the way is long | |
//! | a | until a frame that goes by another channel now arrives | `first_arrival` |
//!
//! A frame goes again where x/C > b + a + [`SOONER`]. The other channels carry at least C together, so what goes there does not take longer in the end.
//!
//! Source: ours. Cost: little a report of the peer, but O(frames under way) where a channel is slow. Invariant: a packet goes again only if
//! no other frame carried it since, so a frame causes that once.

use super::Bond;
use super::channel::{bit, each};
use crate::packet::Packet;
use crate::units::{ChannelId, Rate, Span, Time};

/// How much sooner another channel has to bring a packet: less than a receiver waits for it, and more than what a law leaves waiting or
/// what jitters.
const SOONER: Span = Span::from_millis(200);

impl<P: Packet> Bond<P> {
    /// Sends again what is under way on `channel` and would arrive much later than by another one. The peer has just told of that channel.
    #[inline]
    pub(super) fn look_for_detours(&mut self, now: Time, channel: ChannelId) {
        let c = &self.channels[channel];
        if let (Some(_), Some(flight), Some(rate)) = (&self.protect.keeper, &c.path.flight, c.known_rate())
            && rate.transmit_time(flight.in_flight()) > SOONER
            && c.is_sure_of_rate()
        {
            self.detour(now, channel, rate);
        }
    }

    #[inline(never)]
    fn detour(&mut self, now: Time, channel: ChannelId, rate: Rate) {
        let others = self.channels.in_use() & !bit(channel);
        let elsewhere: Rate = each(others).filter_map(|other| self.channels[other].known_rate()).sum();
        let Some((arrival, ..)) = self.first_arrival(now, others, None).filter(|_| elsewhere >= rate) else { return };
        let Some(delay) = self.channels[channel].path.delay.delay(self.channels.reference()) else { return };
        let stays = rate.bytes_in(delay.times(2) + arrival.since(now) + SOONER);
        let Some(flight) = &mut self.channels[channel].path.flight else { return };
        flight.doubt(stays);
        while let Some(doubted) = self.channels[channel].path.flight.as_mut().and_then(|flight| flight.poll_settled()) {
            // What none of the others may carry stays where it is.
            let about = self.protect.keeper.as_ref().and_then(|keeper| keeper.lost_by(channel, doubted));
            let goes = about.is_some_and(|about| self.carriers(about.bucket) & others != 0);
            if let Some(keeper) = self.protect.keeper.as_mut().filter(|_| goes) {
                keeper.settle(channel, doubted, &mut self.stats);
                self.stats.detoured += 1;
            }
        }
    }
}
