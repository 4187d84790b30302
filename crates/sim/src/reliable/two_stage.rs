//! Multipath TCP as the paper has it: numbers for each path, and numbers for the flow.
//!
//! Source: efl-mp 2.1, Figure 2, after M/TCP (Rojviboonchai and Aida 2002). Each path is a reliable flow of its own, with its own
//! numbers, retransmission buffer and rate. The flow's numbers travel inside. The receiver has a reorder buffer for each path, in which
//! what a path delivered waits for its turn in the flow.
//!
//! A path whose reorder buffer is full takes nothing: what comes then counts as lost on it, and is asked for again. Departure: the
//! flow's own retransmission buffer, for paths that die, is not there, as none dies here; Table 1 counts it in O(N) as well.
//!
//! Cost: O(N) for N paths a packet. Invariant: what is delivered is every number once, in order.

use super::payload::{Carried, Complexity, Frame, Payload, received, sent, take};
use fairspan_core::arq::{Config, Header, Receiver, Sender, Seq};
use fairspan_core::units::{Bytes, ChannelId, Time};
use std::collections::VecDeque;

const OWN: ChannelId = ChannelId(0);

/// Both ends.
#[derive(Debug)]
pub(super) struct TwoStage {
    senders: Vec<Sender<Payload>>,
    receivers: Vec<Receiver<Payload>>,
    reorder: Vec<VecDeque<Payload>>,
    most: usize,
    size: Bytes,
    /// The next number of the flow, where numbers are added and where they are removed.
    number: u64,
    next: u64,
    /// The path that is asked first for a packet, and for an acknowledgment.
    turn: usize,
    ready: VecDeque<Payload>,
}

impl TwoStage {
    pub(super) fn new(config: &Config, paths: usize) -> TwoStage {
        TwoStage {
            senders: (0..paths).map(|_| Sender::new(config, 1, Seq(0))).collect(),
            receivers: (0..paths).map(|_| Receiver::new(config, 1, Seq(0))).collect(),
            reorder: (0..paths).map(|_| VecDeque::with_capacity(config.reorder_packets)).collect(),
            most: config.reorder_packets,
            size: config.segment,
            number: 0,
            next: 0,
            turn: 0,
            ready: VecDeque::new(),
        }
    }

    pub(super) fn handle_data(&mut self, now: Time, path: usize, header: &Header, carried: Carried) {
        let full = self.reorder[path].len() >= self.most;
        if full && matches!(carried, Carried::Packet(payload) if payload.number != self.next) {
            self.receivers[path].handle_refused(now, OWN, header);
            return;
        }
        take(&mut self.receivers[path], now, OWN, header, carried);
        while let Some(payload) = self.receivers[path].poll_deliver() {
            self.reorder[path].push_back(payload);
        }
        let next = |line: &mut VecDeque<Payload>, next: u64| match line.front() {
            Some(head) if head.number == next => line.pop_front(),
            _ => None,
        };
        while let Some(payload) = self.reorder.iter_mut().find_map(|line| next(line, self.next)) {
            self.next += 1;
            self.ready.push_back(payload);
        }
    }

    pub(super) fn handle_ack(&mut self, now: Time, path: usize, header: &Header) {
        let _ = self.senders[path].handle_ack(now, header);
    }

    pub(super) fn poll_data(&mut self, now: Time, fresh: bool) -> Option<Frame> {
        let count = self.senders.len();
        for path in (self.turn..count).chain(0..self.turn) {
            let sender = &mut self.senders[path];
            if fresh && sender.room_at(now, self.size).is_some_and(|at| at <= now) {
                let payload = Payload { number: self.number, created: now };
                self.number += u64::from(sender.handle_packet(payload, self.size).is_ok());
            }
            if let Some(transmit) = sender.poll_transmit(now) {
                self.turn = (path + 1) % count;
                return Frame::of(path, &transmit);
            }
        }
        None
    }

    pub(super) fn poll_ack(&mut self, now: Time) -> Option<(usize, Header)> {
        self.receivers.iter_mut().enumerate().find_map(|(path, receiver)| Some((path, receiver.poll_ack(now)?)))
    }

    pub(super) fn poll_deliver(&mut self) -> Option<Payload> {
        self.ready.pop_front()
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        self.senders.iter_mut().for_each(|sender| sender.handle_timeout(now));
    }

    pub(super) fn poll_sender(&mut self, now: Time, fresh: bool) -> Option<Time> {
        let size = self.size;
        let times = self.senders.iter_mut().flat_map(|sender| {
            let room = if fresh { sender.room_at(now, size) } else { None };
            [room, sender.poll_timeout()]
        });
        times.flatten().min()
    }

    pub(super) fn poll_receiver(&self) -> Option<Time> {
        self.receivers.iter().filter_map(Receiver::poll_timeout).min()
    }

    pub(super) fn counters(&self) -> [Vec<(&'static str, u64)>; 2] {
        [sent(&self.senders), received(&self.receivers)]
    }

    pub(super) fn complexity(&self) -> Complexity {
        Complexity {
            // The flow's own too.
            sequences: self.senders.len() + 1,
            retransmission_buffers: self.senders.len(),
            reorder_buffers: self.reorder.len(),
        }
    }
}
