//! Fetches of files, each on a connection of its own: what the program http_load does against a server.
//!
//! The flow's receiver (the client) opens a connection and writes the request; the flow's sender (the server) reads all
//! of it, writes the file and closes; the client reads to the end and closes. `parallel` such fetches are under way at
//! once; each place pauses for an exponential time between its fetches. Files are fetched in turn over all places. A
//! fetch's duration is from the opening of its connection to the end of its stream at the client. A connection that fails,
//! or a stream that ends short, is a failed fetch; its place goes on as after any other.

use super::{Application, End, Pair, Pairs, Transfers};
use crate::traffic::pareto::exponential;
use fairspan_core::rng::Rng;
use fairspan_core::units::{Bytes, Span, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A client that fetches files.
#[derive(Clone, Debug)]
pub struct Http {
    parallel: u32,
    files: Box<[u64]>,
    next_file: usize,
    left: u64,
    request: u64,
    think: Span,
    rng: Rng,
    stopped: bool,
    /// When places that pause go on.
    pauses: BinaryHeap<Reverse<Time>>,
    transfers: Transfers,
}

/// A fetch is over, and its place has gone on.
const DONE: u64 = u64::MAX;

impl Http {
    /// `parallel` fetches at once of `files` in turn, `fetches` in all (`None`: until stopped).
    pub fn new(
        parallel: u32,
        files: &[Bytes],
        fetches: Option<u64>,
        request: Bytes,
        think: Span,
        transfers: Transfers,
        rng: Rng,
    ) -> Http {
        Http {
            parallel,
            files: files.iter().map(|file| file.as_u64()).collect(),
            next_file: 0,
            left: fetches.unwrap_or(u64::MAX),
            request: request.as_u64(),
            think,
            rng,
            stopped: false,
            pauses: BinaryHeap::new(),
            transfers,
        }
    }

    fn fetch(&mut self, now: Time, pairs: &mut Pairs) {
        if self.stopped || self.left == 0 {
            return;
        }
        self.left -= u64::from(self.left != u64::MAX);
        let pair = pairs.open(now, End::Receiver);
        pair.mark = self.files[self.next_file];
        self.transfers.handle_begun(pair.mark);
        self.next_file = (self.next_file + 1) % self.files.len();
        pair.write(now, End::Receiver, self.request);
    }

    /// A fetch is over: its place pauses. Also without a pause the next one begins by the timer, outside of the pair.
    fn rest(&mut self, now: Time) {
        let pause = match self.think {
            Span::ZERO => Span::ZERO,
            think => Span::from_nanos(exponential(think.as_nanos() as f64, &mut self.rng) as u64),
        };
        self.pauses.push(Reverse(now + pause));
    }
}

impl Application for Http {
    fn start(&mut self, now: Time, pairs: &mut Pairs) {
        for _ in 0..self.parallel {
            self.fetch(now, pairs);
        }
    }

    fn stop(&mut self, _: Time, _: &mut Pairs) {
        self.stopped = true;
        self.pauses.clear();
    }

    fn serve(&mut self, now: Time, pair: &mut Pair) {
        if pair.mark == DONE {
            return;
        }
        let size = pair.mark;
        let asked = pair.received(End::Sender) >= self.request;
        if asked && !pair.is_closing(End::Sender) {
            pair.write(now, End::Sender, size);
            pair.close(now, End::Sender);
        }
        if pair.end(End::Receiver).at_end_of_stream() {
            pair.close(now, End::Receiver);
            if pair.received(End::Receiver) == size {
                self.transfers.handle_completed(now, pair.opened, size);
            } else {
                self.transfers.handle_failed(size);
            }
            pair.mark = DONE;
            self.rest(now);
        }
    }

    fn over(&mut self, now: Time, pair: &Pair) {
        if pair.mark != DONE {
            self.transfers.handle_failed(pair.mark);
            self.rest(now);
        }
    }

    fn handle_timeout(&mut self, now: Time, pairs: &mut Pairs) {
        while self.pauses.peek().is_some_and(|pause| pause.0 <= now) {
            self.pauses.pop();
            self.fetch(now, pairs);
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        if self.stopped || self.left == 0 { None } else { self.pauses.peek().map(|pause| pause.0) }
    }

    fn transfers(&self) -> Option<&Transfers> {
        Some(&self.transfers)
    }

    fn begin(&mut self, _: Time) {
        self.transfers.begin();
    }
}
