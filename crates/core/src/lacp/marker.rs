//! The marker protocol: a marker follows a port's frames, and its answer tells that the partner has taken all of them.
//!
//! Source: IEEE 802.1AX-2014, 6.5 (marker responder: figure 6-27); Slow Protocols: at most ten frames of a protocol in a second.
//!
//! A marker that waits for its turn serves everybody who asks meanwhile: it leaves after all their frames. Departures: a
//! port whose link goes down answers no marker, so those under way are told lost at once. Cost: constant for each frame.
//! Invariant: of each transaction that was given out exactly one event tells, answered or lost.

use super::limit::Limit;
use super::pdu::{Marker, Pdu, PortInfo};
use crate::units::{Span, Time};
use alloc::collections::VecDeque;

/// Most markers that a port sends in a second.
pub const MARKERS_PER_SECOND: usize = 10;
/// Most answers that wait to be sent at a port.
const RESPONSES: usize = 16;

/// A port's markers and answers.
#[derive(Clone, Debug, Default)]
pub(super) struct Markers {
    /// Not sent yet, and until when its answer is waited for.
    waiting: Option<(u32, Time)>,
    /// Sent, oldest first.
    outstanding: VecDeque<(u32, Time)>,
    responses: VecDeque<Marker>,
    sent: Limit<MARKERS_PER_SECOND>,
}

impl Markers {
    /// The transaction whose answer tells that all frames given to the port until now have arrived.
    pub(super) fn ask(&mut self, now: Time, wait: Span, next: &mut u32) -> u32 {
        let until = now + wait;
        if let Some((transaction, due)) = &mut self.waiting {
            *due = until.max(*due);
            return *transaction;
        }
        let transaction = *next;
        *next = next.wrapping_add(1);
        self.waiting = Some((transaction, until));
        transaction
    }

    /// Whether somebody waits for this answer; no longer after that.
    pub(super) fn answered(&mut self, transaction: u32) -> bool {
        let place = self.outstanding.iter().position(|(id, _)| *id == transaction);
        place.and_then(|place| self.outstanding.remove(place)).is_some()
    }

    /// A transaction whose time is over; with `all`, any.
    pub(super) fn lost(&mut self, now: Time, all: bool) -> Option<u32> {
        let over = |(_, due): &(u32, Time)| all || *due <= now;
        if let Some(place) = self.outstanding.iter().position(over) {
            return self.outstanding.remove(place).map(|(id, _)| id);
        }
        self.waiting.take_if(|waiting| over(waiting)).map(|(id, _)| id)
    }

    /// Puts an answer in the queue; false where it is full.
    pub(super) fn respond(&mut self, marker: Marker) -> bool {
        let room = self.responses.len() < RESPONSES;
        if room {
            self.responses.push_back(marker);
        }
        room
    }

    /// When something is to be done.
    pub(super) fn due(&self) -> Option<Time> {
        let leaves = self.waiting.map(|(_, due)| due.min(self.sent.free()));
        let answers = (!self.responses.is_empty()).then_some(Time::ZERO);
        leaves.into_iter().chain(answers).chain(self.outstanding.iter().map(|(_, due)| *due)).min()
    }

    /// The answer or marker that the port `actor` sends now.
    pub(super) fn poll(&mut self, now: Time, actor: &PortInfo) -> Option<Pdu> {
        if let Some(marker) = self.responses.pop_front() {
            return Some(Pdu::MarkerResponse(marker));
        }
        if self.sent.free() > now {
            return None;
        }
        let (transaction, due) = self.waiting.take()?;
        self.outstanding.push_back((transaction, due));
        self.sent.take(now);
        Some(Pdu::Marker(Marker { port: actor.port, system: actor.system, transaction }))
    }
}
