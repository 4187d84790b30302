//! Conversations of an 802.3ad bond that move behind markers: [`Flush`] with the Marker protocol as its markers.
//!
//! What it is: IEEE 802.1AX-2014, sections 6.2.4 and 6.5. Flows move when links join or leave the aggregator; a flow's
//! frames are held until the partner has answered a marker behind its last frame on the old link. Departures: flows are
//! buckets of a keyed hash of the 5-tuple; what is not IP is one flow. The standard allows ten slow-protocol frames a second on a
//! link, so an answer may take 100 ms longer than the link does. Cost: that of [`Flush`]. Invariant: a marker leaves behind
//! the frames that it is to confirm, since all that a link sends passes one queue.

use crate::flow::Buckets;
use crate::flow::ethernet::{self, Tags, VLAN};
use crate::ip;
use crate::lacp::Lacp;
use crate::select::flush::{self, BUCKETS, Flush, Place};
use crate::set::LinkSet;
use crate::units::{ChannelId, Span, Time};
use alloc::vec::Vec;

/// Most bytes that are held.
const HELD: usize = 4 << 20;
/// After so long an answer that did not come will not come.
const LOST_AFTER: Span = Span::from_secs(2);

/// The flows and what they wait for.
#[derive(Debug)]
pub(super) struct Conversations<P> {
    flush: Flush<P>,
    buckets: Buckets,
    /// Under way: the transaction of a link, and the marker that it stands for.
    asked: Vec<(ChannelId, u32, u32)>,
}

impl<P> Conversations<P> {
    pub(super) fn new(config: flush::Config, seed: u64) -> Conversations<P> {
        Conversations {
            flush: Flush::new(config, HELD, seed as u32),
            buckets: Buckets::new(seed, BUCKETS),
            asked: Vec::new(),
        }
    }

    pub(super) fn counters(&self) -> &flush::Counters {
        self.flush.counters()
    }

    /// The flow of a frame.
    pub(super) fn flow(&self, bytes: &[u8]) -> u16 {
        let mut tags = Tags::new(bytes, ethernet::ether_type(bytes).unwrap_or(0), ethernet::HEADER);
        tags.pass(&VLAN, usize::MAX);
        let Some(packet) = bytes.get(tags.at..) else { return 0 };
        ip::Header::parse(packet, packet.len()).map_or(0, |header| self.buckets.bucket(&header, packet))
    }

    /// Where a frame goes for which the policy chose `wanted`; `None`: it is held.
    ///
    /// # Errors
    /// It is to be dropped.
    pub(super) fn place(
        &mut self,
        now: Time,
        flow: u16,
        wanted: ChannelId,
        cost: usize,
        frame: P,
    ) -> Result<Option<(ChannelId, P)>, P> {
        match self.flush.place(now, flow, wanted, cost, frame) {
            Place::Queue(link, frame) => Ok(Some((link, frame))),
            Place::Held => Ok(None),
            Place::Refused(frame) => Err(frame),
        }
    }

    /// A frame of `flow` leaves on `link`.
    pub(super) fn on_sent(&mut self, flow: u16, link: ChannelId) {
        self.flush.on_queued(flow, link);
        self.flush.on_left(link, 1);
    }

    /// A frame that is held no longer, where it goes, and its flow.
    pub(super) fn poll_release(&mut self) -> Option<(ChannelId, u16, P)> {
        self.flush.poll_release()
    }

    /// A frame whose link went down while it was held.
    pub(super) fn poll_again(&mut self) -> Option<P> {
        self.flush.poll_again()
    }

    pub(super) fn on_links(&mut self, now: Time, usable: LinkSet) {
        self.flush.on_links(now, usable);
    }

    /// Asks for the markers that are due; whether there was one.
    pub(super) fn mark(&mut self, now: Time, lacp: &mut Lacp) -> bool {
        let before = self.asked.len();
        for link in self.flush.due(now).iter() {
            let Some(transaction) = lacp.ask(now, link, LOST_AFTER) else { continue };
            if let Some(token) = self.flush.mark(now, link) {
                self.asked.push((link, transaction, token));
            }
        }
        self.asked.len() > before
    }

    /// A marker of `link` was answered, or is lost.
    pub(super) fn on_marker(&mut self, now: Time, link: ChannelId, transaction: u32, answered: bool) {
        let flush = &mut self.flush;
        self.asked.retain(|(on, number, token)| {
            let this = *on == link && *number == transaction;
            if this && answered {
                flush.on_answer(now, *token);
            }
            !this
        });
    }

    pub(super) fn poll_timeout(&self, open: LinkSet) -> Option<Time> {
        self.flush.poll_timeout(open)
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        self.flush.handle_timeout(now);
    }
}
