//! What is sent besides a packet, so that a loss does no harm: its copies on other channels, or itself once more when it is lost.
//!
//! The packet itself goes by the first channel that takes it; its copies wait here until the next polls. Cost: O(1) a
//! copy. Memory: the copies of one packet. What is sent again is kept by a [`Keeper`], where the mode has one.

use super::config::Config;
use super::cover::Cover;
use super::frame::Transmit;
use super::keep::Keeper;
use super::preset::{Preset, Protection};
use crate::link::pacing::Pacer;
use crate::packet::Packet;
use crate::path::flight::Note;
use crate::units::{Bytes, ChannelId, Rate, Time};
use alloc::boxed::Box;
use alloc::collections::VecDeque;

/// How many of the packets that went last are remembered for a second frame.
const MOST: usize = 1024;

/// The packets that went last, on channels that may lose them.
#[derive(Debug, Default)]
pub(super) struct Spare {
    pub(super) recent: VecDeque<(Time, Note, ChannelId)>,
}

impl Spare {
    /// The packet of `note` went on `channel`.
    #[inline]
    pub(super) fn add(&mut self, now: Time, note: Note, channel: ChannelId) {
        if self.recent.len() == MOST {
            self.recent.pop_front();
        }
        self.recent.push_back((now, note, channel));
    }
}

/// Second frames of urgent packets, in a second, and how many may go at once.
const URGENT_RATE: u64 = 1_000;
const URGENT_BURST: u64 = 20;

/// An urgent packet that went once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Again {
    pub(super) since: Time,
    pub(super) note: Note,
    pub(super) first: ChannelId,
}

/// The urgent packets that are to go a second time.
#[derive(Debug)]
pub(super) struct Twice {
    pub(super) waiting: VecDeque<Again>,
    /// When the first of them may go, if it may not yet.
    pub(super) at: Option<Time>,
    /// A "byte" is a packet.
    pacer: Pacer,
}

impl Twice {
    fn new() -> Twice {
        let pacer = Pacer::new(Rate::from_bits_per_sec(URGENT_RATE * 8), Bytes::new(URGENT_BURST));
        Twice { waiting: VecDeque::new(), at: None, pacer }
    }

    /// The urgent packet of `note` went by `first`, which may lose it.
    pub(super) fn add(&mut self, now: Time, note: Note, first: ChannelId) {
        if self.pacer.ready_at() <= now {
            self.pacer.on_sent(now, 1);
            self.waiting.push_back(Again { since: now, note, first });
        }
    }
}

/// The frames that protect those already sent.
#[derive(Debug)]
pub(super) struct Protect<P> {
    protection: Protection,
    copies: usize,
    waiting: VecDeque<Transmit<P>>,
    /// Where what is lost is sent again.
    pub(super) keeper: Option<Box<Keeper<P>>>,
    pub(super) spare: Spare,
    pub(super) twice: Twice,
    /// Where urgent packets have parity.
    pub(super) cover: Option<Box<Cover<P>>>,
}

impl<P: Packet> Protect<P> {
    /// What `config` asks for.
    pub(super) fn new(preset: Preset, config: &Config) -> Protect<P> {
        let copies = match preset.protect {
            Protection::None | Protection::Resend => 1,
            Protection::Copies => copies(config),
        };
        let keeper = (preset.protect == Protection::Resend)
            .then(|| Box::new(Keeper::new(config.resend_bytes, config.buckets, config.classes.0.len())));
        Protect {
            protection: preset.protect,
            copies,
            waiting: VecDeque::new(),
            keeper,
            spare: Spare::default(),
            twice: Twice::new(),
            cover: cover(preset.protect, config),
        }
    }

    /// Other bounds, from the next packet on.
    pub(super) fn set_bounds(&mut self, config: &Config) {
        if self.makes_copies() {
            self.copies = copies(config);
        }
        if let Some(keeper) = &mut self.keeper {
            keeper.set_limit(config.resend_bytes);
        }
        if config.parity != self.cover.is_some() {
            self.cover = cover(self.protection, config);
        }
    }

    /// On how many channels a packet goes, itself included.
    #[inline]
    pub(super) fn copies(&self) -> usize {
        self.copies
    }

    /// Whether copies are made at all.
    pub(super) fn makes_copies(&self) -> bool {
        self.protection == Protection::Copies
    }

    /// Whether nothing waits.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.keeper.as_ref().is_none_or(|keeper| !keeper.has_again())
    }

    /// A copy that is to follow.
    pub(super) fn push(&mut self, copy: Transmit<P>) {
        self.waiting.push_back(copy);
    }

    /// The next copy.
    pub(super) fn pop(&mut self) -> Option<Transmit<P>> {
        self.waiting.pop_front()
    }

    /// `channel` takes no more frames.
    pub(super) fn forget(&mut self, channel: ChannelId) {
        self.waiting.retain(|frame| frame.channel != channel);
    }
}

/// What puts urgent packets into blocks, if anything does.
fn cover<P: Packet>(protection: Protection, config: &Config) -> Option<Box<Cover<P>>> {
    (config.parity && protection == Protection::Resend).then(|| Box::new(Cover::new(config.classes.0.len())))
}

/// How many channels carry each packet.
fn copies(config: &Config) -> usize {
    if config.copies == 0 { ChannelId::LIMIT } else { config.copies }
}

#[cfg(test)]
mod tests {
    use super::super::config::Mode;
    use super::super::frame::{Codepoint, Handling};
    use super::*;
    use crate::wire::envelope::Head;
    use alloc::vec::Vec;

    fn protect(mode: Mode, copies: usize) -> Protect<Vec<u8>> {
        let config = Config { mode, copies, ..Config::default() };
        Protect::new(Preset::of(&config), &config)
    }

    #[test]
    fn only_copies_make_a_packet_go_by_more_than_one_channel() {
        assert_eq!(protect(Mode::Ordered, 3).copies(), 1);
        assert_eq!(protect(Mode::Duplicate, 3).copies(), 3);
        assert_eq!(protect(Mode::Duplicate, 0).copies(), ChannelId::LIMIT, "all");
    }

    #[test]
    fn urgent_packets_go_twice_at_most_a_thousand_times_a_second() {
        let mut twice = Twice::new();
        for tick in 0..10_000 {
            twice.add(Time::from_nanos(100_000 * tick), Note { slot: tick as u32, generation: 0 }, ChannelId(1));
        }
        let count = twice.waiting.len() as u64;
        assert!((URGENT_RATE..=URGENT_RATE + URGENT_BURST + 1).contains(&count), "{count} in a second");
        let first: Vec<u32> = twice.waiting.iter().take(20).map(|again| again.note.slot).collect();
        assert_eq!(first, Vec::from_iter(0..20), "some at once");
    }

    #[test]
    fn copies_for_a_channel_that_is_no_more_are_forgotten() {
        let mut protect = protect(Mode::Duplicate, 0);
        for n in [1, 2, 1, 3] {
            let frame = Transmit {
                channel: ChannelId(n),
                codepoint: Codepoint::Envelope,
                head: Head::EMPTY,
                packet: Some(Vec::from([n])),
                skip: 0,
                tos: 0,
                handling: Handling::Usual,
            };
            protect.push(frame);
        }
        protect.forget(ChannelId(1));
        assert_eq!(
            [protect.pop(), protect.pop(), protect.pop()].map(|f| f.map(|f| f.channel.0)),
            [Some(2), Some(3), None]
        );
        assert!(protect.is_empty());
    }
}
