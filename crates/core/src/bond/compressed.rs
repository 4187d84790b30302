//! Headers of the host's packets, compressed where the peer understands it and the setting says so ([`compress`](crate::compress)).
//!
//! A packet that goes for the first time may be compressed; what goes again, or a second time, goes whole. So a frame that is of no use
//! to the peer costs what a lost one costs: it counts as not arrived, and its packet comes again. The peer also tells which reference it
//! misses, and the flow founds another one.

use super::Bond;
use super::config::Compression;
use super::keep::About;
use super::receive::Kept;
use crate::compress::{Coding, Standing, Unfit};
use crate::packet::Packet;
use crate::units::{ChannelId, Rate, Span, Time};
use crate::wire::envelope::{COMPRESSED_LEN, Compressed as Head, Extended, KEPT_LEN, Message};

/// Beyond this rate of a channel processors limit, with the setting `auto`.
pub(super) const FASTEST: Rate = Rate::from_mbit(1_000);
/// Between two words to the peer that a reference is unknown.
const TELL_EVERY: Span = Span::from_millis(10);

impl<P: Packet> Bond<P> {
    /// How a packet goes that goes for the first time.
    #[inline]
    pub(super) fn code(&mut self, now: Time, channel: ChannelId, packet: &P, about: About) -> Coding {
        if self.compressed.to.is_none() || !self.peer.expands || !self.compresses_on(channel) {
            return Coding::Whole;
        }
        self.code_now(now, packet, about)
    }

    #[inline(never)]
    fn code_now(&mut self, now: Time, packet: &P, about: About) -> Coding {
        let Some(compressor) = &mut self.compressed.to else { return Coding::Whole };
        let standing = Standing { bucket: about.bucket, sequence: about.numbers.sequence };
        let coding = compressor.code(now, packet.bytes(), packet.size().as_u64() as usize, standing);
        match &coding {
            Coding::Whole => self.stats.uncompressed += 1,
            Coding::Coded { coded, .. } => {
                self.stats.compressed += 1;
                let saved = (KEPT_LEN + coded.skip).saturating_sub(COMPRESSED_LEN + coded.as_slice().len());
                self.stats.compressed_saved += saved as u64;
            }
        }
        coding
    }

    /// Whether headers are compressed on `channel`.
    #[inline]
    pub(super) fn compresses_on(&self, channel: ChannelId) -> bool {
        let c = &self.channels[channel];
        let measured = || c.path.control.as_ref().and_then(|control| control.measured_rate());
        match self.config.compress_headers {
            Compression::Off => false,
            Compression::On => true,
            Compression::Auto => c.rate.or_else(measured).is_some_and(|rate| rate <= FASTEST),
        }
    }

    /// A compressed frame arrived.
    pub(super) fn on_compressed(&mut self, now: Time, channel: ChannelId, tag: u8, head: Head, mut frame: P, tos: u8) {
        let Head { number, sequence, bond, stamp, form, reference } = head;
        if !self.peer.is_current(tag) && !self.on_other_tag(now, tag, Some(bond)) {
            self.stats.stale_epoch += 1;
            return;
        }
        let bytes = frame.size().as_u64() as usize;
        let restored = self.compressed.from.restore(&mut frame, COMPRESSED_LEN, form, reference, sequence);
        let (bucket, counts) = match restored {
            Ok(restored) => restored,
            Err(unfit) => return self.on_unfit(now, channel, unfit),
        };
        let before = self.channels[channel].stats.received_bytes;
        if let Some(checked) = self.check_packet(now, channel, 0, frame, None) {
            self.channels[channel].stats.received_bytes = before + bytes as u64;
            let kept = Kept { bucket, sequence, bond, stamp, again: false };
            self.on_kept(now, channel, kept, checked, tos);
        }
        if counts {
            self.on_number(now, channel, tag, number, bytes, tos, true);
        }
    }

    /// A compressed frame of which no packet came out: it counts as not arrived.
    #[cold]
    fn on_unfit(&mut self, now: Time, channel: ChannelId, unfit: Unfit) {
        match unfit {
            Unfit::Unknown(reference) => {
                self.stats.unknown_reference += 1;
                self.on_heard(now, channel);
                if self.compressed.told.is_none_or(|at| now.since(at) >= TELL_EVERY) {
                    self.compressed.told = Some(now);
                    self.send_control(channel, Message::Extended(Extended::Unknown { reference }), 0);
                }
            }
            Unfit::Malformed => {
                self.stats.bad_compressed += 1;
                self.channels[channel].stats.received_invalid += 1;
            }
            Unfit::Memory => self.stats.memory_refused += 1,
        }
    }

    /// The peer tells that it does not have a reference.
    pub(super) fn on_unknown(&mut self, tag: u8, reference: u16) {
        if !self.peer.is_current(tag) {
            self.stats.stale_epoch += 1;
        } else if let Some(compressor) = &mut self.compressed.to {
            self.stats.forgotten_reference += 1;
            compressor.forget(reference);
        }
    }
}
