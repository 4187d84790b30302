//! A request, its answer, a pause, again, on one connection that stays.
//!
//! The flow's sender asks. An exchange's duration is from the write of the request to the last byte of the answer; its
//! bytes are those of both. Since an answer is read before the next request is written, byte counts tell messages apart.

use super::{Application, End, Pair, Pairs, Transfers};
use crate::traffic::{ConfigError, Sampler, Sizes};
use fairspan_core::rng::Rng;
use fairspan_core::units::{Span, Time};

/// Requests and answers.
#[derive(Clone, Debug)]
pub struct Exchange {
    request: Sampler,
    response: Sampler,
    think: Span,
    rng: Rng,
    stopped: bool,
    /// When the next request is due.
    next: Option<Time>,
    under_way: Option<Message>,
    connection: u32,
    transfers: Transfers,
}

#[derive(Clone, Copy, Debug)]
struct Message {
    begun: Time,
    request: u32,
    response: u32,
    /// Bytes that the other end has when the message is complete.
    request_end: u64,
    response_end: u64,
    answered: bool,
}

impl Exchange {
    /// Messages of these sizes, with this pause from an answer to the next request.
    pub fn new(
        request: &Sizes,
        response: &Sizes,
        think: Span,
        transfers: Transfers,
        rng: Rng,
    ) -> Result<Exchange, ConfigError> {
        Ok(Exchange {
            request: Sampler::new(request)?,
            response: Sampler::new(response)?,
            think,
            rng,
            stopped: false,
            next: None,
            under_way: None,
            connection: 0,
            transfers,
        })
    }

    fn ask(&mut self, now: Time, pair: &mut Pair) {
        let (request, response) = (self.request.next(&mut self.rng), self.response.next(&mut self.rng));
        self.next = None;
        self.transfers.handle_begun(u64::from(request) + u64::from(response));
        self.under_way = Some(Message {
            begun: now,
            request,
            response,
            request_end: pair.received(End::Receiver) + u64::from(request),
            response_end: pair.received(End::Sender) + u64::from(response),
            answered: false,
        });
        pair.write(now, End::Sender, u64::from(request));
    }
}

impl Application for Exchange {
    fn start(&mut self, now: Time, pairs: &mut Pairs) {
        let pair = pairs.open(now, End::Sender);
        self.connection = pair.number();
        self.ask(now, pair);
    }

    fn stop(&mut self, now: Time, pairs: &mut Pairs) {
        self.stopped = true;
        self.next = None;
        if let Some(pair) = pairs.get(self.connection).filter(|_| self.under_way.is_none()) {
            pair.close(now, End::Sender);
        }
    }

    fn serve(&mut self, now: Time, pair: &mut Pair) {
        if let Some(message) = &mut self.under_way {
            if !message.answered && pair.received(End::Receiver) >= message.request_end {
                message.answered = true;
                pair.write(now, End::Receiver, u64::from(message.response));
            }
            if message.answered && pair.received(End::Sender) >= message.response_end {
                let bytes = u64::from(message.request) + u64::from(message.response);
                self.transfers.handle_completed(now, message.begun, bytes);
                self.under_way = None;
                if self.stopped {
                    pair.close(now, End::Sender);
                } else {
                    self.next = Some(now + self.think);
                }
            }
        }
        if pair.end(End::Receiver).at_end_of_stream() {
            pair.close(now, End::Receiver);
        }
    }

    fn over(&mut self, _: Time, _: &Pair) {
        self.next = None;
        if let Some(message) = self.under_way.take() {
            self.transfers.handle_failed(u64::from(message.request) + u64::from(message.response));
        }
    }

    fn handle_timeout(&mut self, now: Time, pairs: &mut Pairs) {
        if self.next.is_some_and(|next| next <= now)
            && let Some(pair) = pairs.get(self.connection)
        {
            self.ask(now, pair);
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.next
    }

    fn transfers(&self) -> Option<&Transfers> {
        Some(&self.transfers)
    }

    fn begin(&mut self, _: Time) {
        self.transfers.begin();
    }
}
