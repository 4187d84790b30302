//! What goes to a channel: frames, and control messages that wait to become one.

use crate::packet::Packet;
use crate::units::ChannelId;
use crate::wire::envelope::Head;

/// What a frame starts with, told apart by the channel below: by EtherType, say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codepoint {
    /// The frame is the original packet: data of modes `stripe` and `flow` where [`super::ChannelConfig::raw`] is set.
    Raw,
    /// The frame starts with an envelope.
    Envelope,
}

/// What the layer below may do with a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Handling {
    /// Send it by one call with others.
    #[default]
    Usual,
    /// Nothing but send it by itself: it is to show what passes, and must not be lost with others.
    Alone,
    /// Let it be fragmented. It is longer than what the path is known to carry: an IPv6 packet of up to 1280 bytes, which has to
    /// pass all the same, or one that was taken before the path narrowed.
    Fragment,
}

/// A frame to send: the bytes of `head`, then the bytes of `packet` but the first `skip`.
#[derive(Debug, PartialEq, Eq)]
pub struct Transmit<P> {
    /// On which channel.
    pub channel: ChannelId,
    /// With which code point.
    pub codepoint: Codepoint,
    /// The envelope; empty for [`Codepoint::Raw`].
    pub head: Head,
    /// What follows it: the host's packet, or padding and messages of the bond's own.
    pub packet: Option<P>,
    /// How many bytes at the packet's beginning do not go: the head says what they are. Zero but for compressed frames. The packet that
    /// is to be [given back](super::Bond::give_back) has them.
    pub skip: usize,
    /// The type of service of the outer header: DSCP and ECN.
    pub tos: u8,
    /// What the layer below may do with it.
    pub handling: Handling,
}

impl<P: Packet> Transmit<P> {
    /// How long the frame is, envelope included.
    #[inline]
    pub fn size(&self) -> usize {
        let packet = self.packet.as_ref().map_or(0, |packet| packet.size().as_u64() as usize);
        self.head.len() + packet.saturating_sub(self.skip)
    }

    /// The bytes of the packet that go.
    #[inline]
    pub fn body(&self) -> &[u8] {
        self.packet.as_ref().and_then(|packet| packet.bytes().get(self.skip..)).unwrap_or(&[])
    }
}

/// A control message that waits to be sent: its head, and zero bytes up to a length.
#[derive(Debug)]
pub(super) struct Control {
    pub(super) channel: ChannelId,
    pub(super) head: Head,
    pub(super) padded: usize,
}
