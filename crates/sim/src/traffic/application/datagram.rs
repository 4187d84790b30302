//! A request and its answer as datagrams, without anything between them that repairs loss.
//!
//! The flow's sender asks; the receiver answers each request that reaches it at once. Exchanges are numbered, and a packet
//! carries the number of its exchange as its connection. Without an answer after `timeout` an exchange has failed and the
//! next begins after the pause; an answer that comes later is ignored.

use super::Transfers;
use crate::endpoint::{Endpoint, Handled, Outgoing};
use crate::packet::{Body, Packet};
use crate::results;
use crate::traffic::{ConfigError, Sampler, Sizes};
use fairspan_core::rng::Rng;
use fairspan_core::units::{Span, Time};
use std::collections::VecDeque;

/// Requests and answers as datagrams.
#[derive(Debug)]
pub struct Datagrams {
    request: Sampler,
    response: Sampler,
    think: Span,
    timeout: Span,
    header: u32,
    rng: Rng,
    /// Number of the exchange under way, or of the next.
    number: u32,
    state: State,
    answers: VecDeque<Outgoing>,
    delivered: u64,
    transfers: Transfers,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not begun, or stopped.
    Idle,
    /// The next request is due.
    Pause(Time),
    /// Request bytes, when it was sent, and when it counts as failed.
    Asked { bytes: u32, begun: Time, until: Time },
}

impl Datagrams {
    /// Messages of these payload sizes, with `header` bytes more on the wire.
    pub fn new(
        request: &Sizes,
        response: &Sizes,
        think: Span,
        timeout: Span,
        header: u32,
        rng: Rng,
    ) -> Result<Datagrams, ConfigError> {
        if timeout == Span::ZERO {
            return Err(ConfigError::ZeroTimeout);
        }
        Ok(Datagrams {
            request: Sampler::new(request)?,
            response: Sampler::new(response)?,
            think,
            timeout,
            header,
            rng,
            number: 0,
            state: State::Idle,
            answers: VecDeque::new(),
            delivered: 0,
            transfers: Transfers::new(),
        })
    }

    fn datagram(&self, reverse: bool, connection: u32, payload: u32) -> Outgoing {
        Outgoing { reverse, connection, size: payload.saturating_add(self.header), body: Body::Datagram }
    }
}

impl Endpoint for Datagrams {
    fn start(&mut self, now: Time) {
        self.state = State::Pause(now);
    }

    fn stop(&mut self, _: Time) {
        if matches!(self.state, State::Pause(_)) {
            self.state = State::Idle;
        }
        // An exchange under way may end; no other follows.
        self.think = Span::MAX;
    }

    fn handle_packet(&mut self, now: Time, packet: &Packet) -> Handled {
        let payload = packet.size.saturating_sub(self.header);
        if !packet.reverse {
            self.delivered += u64::from(payload);
            let size = self.response.next(&mut self.rng);
            let answer = self.datagram(true, packet.connection, size);
            self.answers.push_back(answer);
        } else if let State::Asked { bytes, begun, .. } = self.state
            && packet.connection == self.number
        {
            self.transfers.handle_completed(now, begun, u64::from(bytes) + u64::from(payload));
            self.number = self.number.wrapping_add(1);
            self.state = State::Pause(now + self.think);
        }
        Handled::default()
    }

    fn handle_timeout(&mut self, now: Time) {
        if let State::Asked { until, .. } = self.state
            && until <= now
        {
            self.transfers.handle_failed(0);
            self.number = self.number.wrapping_add(1);
            self.state = State::Pause(now + self.think);
        }
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Outgoing> {
        if let State::Pause(due) = self.state
            && due <= now
        {
            let bytes = self.request.next(&mut self.rng);
            self.transfers.handle_begun(0);
            self.state = State::Asked { bytes, begun: now, until: now + self.timeout };
            return Some(self.datagram(false, self.number, bytes));
        }
        self.answers.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        match self.state {
            State::Idle => None,
            State::Pause(due) => (due < Time::MAX).then_some(due),
            State::Asked { until, .. } => Some(until),
        }
    }

    fn poll_delivered(&mut self) -> u64 {
        std::mem::take(&mut self.delivered)
    }

    fn transfers(&self) -> Option<results::Transfers> {
        Some(self.transfers.result())
    }

    fn begin(&mut self, _: Time) {
        self.transfers.begin();
    }
}
