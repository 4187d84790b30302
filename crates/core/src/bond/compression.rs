//! What a bond remembers of compressed headers, in both directions.

use super::config::{Compression, Config};
use super::preset::{Preset, Protection};
use crate::compress::{Coding, Compressor, Decompressor};
use crate::path::flight::Settled;
use crate::units::{ChannelId, Time};
use alloc::boxed::Box;

/// What both directions remember.
#[derive(Debug)]
pub(super) struct Compressed {
    /// `None`: nothing that is sent is compressed.
    pub(super) to: Option<Box<Compressor>>,
    pub(super) from: Decompressor,
    /// When the peer was last told that a reference is unknown.
    pub(super) told: Option<Time>,
}

impl Compressed {
    /// What `config` asks for; `epoch` is random.
    pub(super) fn new(preset: Preset, config: &Config, epoch: u32) -> Compressed {
        let compresses = preset.protect == Protection::Resend && config.compress_headers != Compression::Off;
        // The low eight bits of the epoch are the tag, which two processes may share.
        let to = compresses.then(|| Box::new(Compressor::new((epoch >> 8) as u16)));
        Compressed { to, from: Decompressor::default(), told: None }
    }

    /// The packet of that coding went as the frame `place` of `channel`.
    #[inline]
    pub(super) fn sent(&mut self, channel: ChannelId, place: u64, coding: &Coding) {
        if let (Coding::Coded { awaits: Some(reference), .. }, Some(compressor)) = (coding, &mut self.to) {
            compressor.sent(channel, place, *reference);
        }
    }

    /// The peer told of a frame.
    #[inline]
    pub(super) fn settle(&mut self, channel: ChannelId, settled: &Settled) {
        if let Some(compressor) = &mut self.to {
            compressor.settle(channel, settled.number, settled.delivered);
        }
    }

    /// The peer is another one.
    pub(super) fn forget_peer(&mut self) {
        if let Some(compressor) = &mut self.to {
            compressor.forget_all();
        }
        self.from.forget_all();
    }
}
