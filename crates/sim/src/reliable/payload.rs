//! What both kinds of ends send, keep and count.

use fairspan_core::arq::{Content, Header, Octets, Receiver, Sender, Transmit};
use fairspan_core::parity;
use fairspan_core::units::{ChannelId, Time};

/// What the application sends: whole packets, which are numbered so that the other end can tell whether all came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Payload {
    pub(super) number: u64,
    /// When it was first sent.
    pub(super) created: Time,
}

/// Octets of a payload under parity.
const OCTETS: usize = 16;

impl Octets for Payload {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.number.to_be_bytes());
        out.extend_from_slice(&self.created.as_nanos().to_be_bytes());
    }

    fn read(octets: &[u8]) -> Option<Payload> {
        let (number, created) = octets.split_at_checked(OCTETS / 2)?;
        let created = Time::from_nanos(u64::from_be_bytes(created.try_into().ok()?));
        Some(Payload { number: u64::from_be_bytes(number.try_into().ok()?), created })
    }
}

/// What follows a header: a packet, or a row of parity for packets.
#[derive(Clone, Copy, Debug)]
pub(super) enum Carried {
    Packet(Payload),
    Parity([u8; parity::LENGTH + OCTETS]),
}

/// The state that a scheme keeps for a flow (efl-mp, Table 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Complexity {
    /// Places where numbers are added, and removed.
    pub sequences: usize,
    /// Retransmission buffers.
    pub retransmission_buffers: usize,
    /// Reorder buffers.
    pub reorder_buffers: usize,
}

/// A frame that a sender sends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) path: usize,
    pub(super) header: Header,
    pub(super) carried: Carried,
    pub(super) size: u32,
}

impl Frame {
    /// A sender's frame by a path; none where parity is not that of payloads.
    pub(super) fn of(path: usize, transmit: &Transmit<'_, Payload>) -> Option<Frame> {
        let carried = match transmit.content {
            Content::Packet(payload) => Carried::Packet(*payload),
            Content::Parity(row) => Carried::Parity(row.try_into().ok()?),
        };
        Some(Frame { path, header: transmit.header, carried, size: transmit.size.as_u64() as u32 })
    }
}

/// A frame has come to a receiver. What it drops it has counted.
#[inline]
pub(super) fn take(receiver: &mut Receiver<Payload>, now: Time, path: ChannelId, header: &Header, carried: Carried) {
    let _ = match carried {
        Carried::Packet(payload) => receiver.handle_packet(now, path, header, payload),
        Carried::Parity(row) => receiver.handle_parity(now, path, header, &row),
    };
}

/// What senders counted together.
pub(super) fn sent<'a>(senders: impl IntoIterator<Item = &'a Sender<Payload>> + Clone) -> Vec<(&'static str, u64)> {
    let sum = |value: fn(&Sender<Payload>) -> u64| senders.clone().into_iter().map(value).sum();
    vec![
        ("packets", sum(|sender| sender.stats().packets)),
        ("retransmitted", sum(|sender| sender.stats().retransmitted)),
        ("restarts", sum(|sender| sender.stats().restarts)),
        ("timeouts", sum(|sender| sender.stats().timeouts)),
        ("acks", sum(|sender| sender.stats().acks)),
        ("requests", sum(|sender| sender.stats().requests)),
        ("old_acks", sum(|sender| sender.stats().old)),
        ("parity", sum(|sender| sender.stats().parity)),
        ("probes", sum(|sender| sender.stats().probes)),
        ("downs", sum(|sender| sender.stats().downs)),
        ("ups", sum(|sender| sender.stats().ups)),
        ("failed", sum(|sender| u64::from(sender.failed().is_some()))),
    ]
}

/// What receivers counted together.
pub(super) fn received<'a>(
    receivers: impl IntoIterator<Item = &'a Receiver<Payload>> + Clone,
) -> Vec<(&'static str, u64)> {
    let sum = |value: fn(&Receiver<Payload>) -> u64| receivers.clone().into_iter().map(value).sum();
    vec![
        ("delivered", sum(|receiver| receiver.stats().delivered)),
        ("old", sum(|receiver| receiver.stats().old)),
        ("outdated", sum(|receiver| receiver.stats().outdated)),
        ("full", sum(|receiver| receiver.stats().full)),
        ("emptied", sum(|receiver| receiver.stats().emptied)),
        ("parity", sum(|receiver| receiver.stats().parity)),
        ("rebuilt", sum(|receiver| receiver.stats().rebuilt)),
        ("delayed_acks", sum(|receiver| receiver.stats().acks)),
        ("immediate_acks", sum(|receiver| receiver.stats().requests)),
        ("most_held", receivers.clone().into_iter().map(|receiver| receiver.stats().most_held).max().unwrap_or(0)),
    ]
}
