//! The running digest over everything that goes in and comes out.

use crate::bond::{Codepoint, Event, Head, Reason};
use crate::units::ChannelId;
use alloc::format;
use alloc::string::String;

/// A running digest: each word is mixed in by a 64 x 64 -> 128 bit multiplication.
#[derive(Clone, Debug)]
pub(super) struct Digest(pub(super) u64);

impl Digest {
    pub(super) fn new() -> Digest {
        Digest(0x9e37_79b9_7f4a_7c15)
    }

    fn word(&mut self, word: u64) {
        let wide = u128::from(self.0 ^ word) * 0xa076_1d64_78bd_642f_u128;
        self.0 = (wide as u64 ^ (wide >> 64) as u64).wrapping_add(0xe703_7ed1_a0b4_28db);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.word(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.word(u64::from_le_bytes(last));
    }

    pub(super) fn transmit(
        &mut self,
        channel: ChannelId,
        codepoint: Codepoint,
        head: &Head,
        body: Option<&[u8]>,
        tos: u8,
    ) {
        let raw = u64::from(codepoint == Codepoint::Raw);
        self.word(1 | u64::from(channel.0) << 8 | raw << 16 | u64::from(tos) << 24);
        self.bytes(head.as_slice());
        self.bytes(body.unwrap_or(&[]));
    }

    pub(super) fn deliver(&mut self, bytes: &[u8]) {
        self.word(2);
        self.bytes(bytes);
    }

    pub(super) fn event(&mut self, event: &Event) {
        self.word(3);
        self.bytes(name(event).as_bytes());
    }
}

/// An event as every recording has it. These texts never change.
fn name(event: &Event) -> String {
    let of =
        |what: &str, channel: &ChannelId, rest: &str| format!("{what} {{ channel: ChannelId({}), {rest} }}", channel.0);
    match event {
        Event::ChannelUp { channel, reason } => of("ChannelUp", channel, &format!("reason: {}", reason_name(*reason))),
        Event::ChannelDown { channel, reason } => {
            of("ChannelDown", channel, &format!("reason: {}", reason_name(*reason)))
        }
        Event::ChannelHeld { channel, span, failures } => {
            of("ChannelHeld", channel, &format!("span: {}, failures: {failures}", span.as_nanos()))
        }
        Event::Mtu { mtu } => format!("Mtu {{ mtu: {mtu} }}"),
        Event::PathMtu { channel, mtu } => of("PathMtu", channel, &format!("mtu: {mtu}")),
        Event::PeerRestarted { epoch } => format!("PeerRestarted {{ epoch: {epoch} }}"),
        Event::PeerVersion { channel, theirs } => of("PeerVersion", channel, &format!("theirs: {theirs}")),
    }
}

fn reason_name(reason: Reason) -> &'static str {
    match reason {
        Reason::Link => "Link",
        Reason::Silence => "Silence",
        Reason::PeerNotice => "PeerNotice",
        Reason::Stalled => "Stalled",
        Reason::Delay => "Delay",
        Reason::Loss => "Loss",
        Reason::HeldBack => "HeldBack",
        Reason::Leaving => "Leaving",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_the_text_that_the_first_recordings_have() {
        let channel = ChannelId(7);
        for (event, text) in [
            (Event::ChannelUp { channel, reason: Reason::Link }, "ChannelUp { channel: ChannelId(7), reason: Link }"),
            (
                Event::ChannelUp { channel, reason: Reason::Silence },
                "ChannelUp { channel: ChannelId(7), reason: Silence }",
            ),
            (
                Event::ChannelDown { channel, reason: Reason::PeerNotice },
                "ChannelDown { channel: ChannelId(7), reason: PeerNotice }",
            ),
            (
                Event::ChannelDown { channel, reason: Reason::Stalled },
                "ChannelDown { channel: ChannelId(7), reason: Stalled }",
            ),
            (Event::Mtu { mtu: 1400 }, "Mtu { mtu: 1400 }"),
            (Event::PathMtu { channel, mtu: 1300 }, "PathMtu { channel: ChannelId(7), mtu: 1300 }"),
            (Event::PeerRestarted { epoch: 9 }, "PeerRestarted { epoch: 9 }"),
            (Event::PeerVersion { channel, theirs: 2 }, "PeerVersion { channel: ChannelId(7), theirs: 2 }"),
        ] {
            assert_eq!(name(&event), text);
        }
    }
}
