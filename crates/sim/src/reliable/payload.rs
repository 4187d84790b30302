//! What both kinds of ends send, keep and count.

use fairspan_core::arq::{Header, Receiver, Sender};
use fairspan_core::units::Time;

/// What the application sends: whole packets, which are numbered so that the other end can tell whether all came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Payload {
    pub(super) number: u64,
    /// When it was first sent.
    pub(super) created: Time,
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

/// A frame with data that is to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) path: usize,
    pub(super) header: Header,
    pub(super) payload: Payload,
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
        ("delayed_acks", sum(|receiver| receiver.stats().acks)),
        ("immediate_acks", sum(|receiver| receiver.stats().requests)),
        ("most_held", receivers.clone().into_iter().map(|receiver| receiver.stats().most_held).max().unwrap_or(0)),
    ]
}
