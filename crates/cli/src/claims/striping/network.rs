//! Two stripe endpoints and FIFO channels between them, event by event, for checks that need no whole simulator.
//!
//! Time is counted in nanoseconds. A channel has a rate (or none: it takes everything at once), a delay, a jitter that
//! keeps the order, a loss, and a queue of its own; while that is full the sender is told that the channel is blocked.
//! The way back carries control messages only, at each channel's delay.

use super::{MAX, number, packet};
use fairspan_core::causal::ChannelSet;
use fairspan_core::path::train::Train;
use fairspan_core::rng::Rng;
use fairspan_core::stripe::{Config, Endpoint, ReceiverConfig};
use fairspan_core::units::{Bytes, ChannelId, Rate, Span, Time};
use fairspan_core::wire::marker::Control;
use std::collections::VecDeque;

/// One channel, towards the receiver.
#[derive(Clone, Debug)]
pub(super) struct Channel {
    /// What it transmits at; `None`: at once.
    pub(super) rate: Option<Rate>,
    /// The way there.
    pub(super) delay: Span,
    /// Added to each frame's delay, from nothing up to this; the order is kept.
    pub(super) jitter: Span,
    /// Probability that a frame is lost, marker or data.
    pub(super) loss: f64,
    /// Bytes that may wait to be transmitted before it is blocked.
    pub(super) queue: u64,
    /// Data frames that were not lost.
    pub(super) crossed: u64,
    free: Time,
    last: Time,
    flying: VecDeque<(Time, Frame)>,
    back: VecDeque<(Time, Control)>,
}

#[derive(Clone, Debug)]
enum Frame {
    Data(Vec<u8>),
    Control(Control),
}

impl Channel {
    /// A channel without rate and loss.
    pub(super) fn new(delay: Span) -> Channel {
        Channel {
            rate: None,
            delay,
            jitter: Span::ZERO,
            loss: 0.0,
            queue: 0,
            crossed: 0,
            free: Time::ZERO,
            last: Time::ZERO,
            flying: VecDeque::new(),
            back: VecDeque::new(),
        }
    }

    /// The rate as core's trains find it while nothing else is under way: frames that leave at once, and the times of their answers.
    pub(super) fn measured(&self, rng: &mut Rng) -> Option<Rate> {
        let mut train = Train::default();
        let mut now = Time::from_millis(1000);
        for token in 0.. {
            if !train.wants_to_go() {
                return None;
            }
            let frames = train.leave(now, token, MAX as usize);
            let (mut free, mut last) = (now, now);
            for place in 0..u64::from(frames) {
                free += self.rate?.transmit_time(Bytes::new(MAX));
                last = (free + self.delay + Span::from_nanos(rng.below(self.jitter.as_nanos() + 1))).max(last);
                if self.loss > 0.0 && rng.unit() < self.loss {
                    continue;
                }
                if let Some(rate) = train.on_answer(last + self.delay, (token, place), last.as_nanos()) {
                    return Some(rate.rate());
                }
            }
            now = last + Span::from_secs(4);
            if let Some(rate) = train.handle_timeout(now) {
                return Some(rate.rate());
            }
        }
        None
    }

    /// When it stops being blocked, if it is.
    fn blocked_until(&self, now: Time) -> Option<Time> {
        let room = self.rate?.transmit_time(Bytes::new(self.queue));
        (self.free.since(now) > room).then(|| Time::from_nanos(self.free.as_nanos() - room.as_nanos()))
    }

    fn send(&mut self, now: Time, frame: Frame, rng: &mut Rng) {
        if let Some(rate) = self.rate {
            let len = match &frame {
                Frame::Data(packet) => packet.len() as u64,
                // Control has a band of its own: the arithmetic is about data.
                Frame::Control(_) => 0,
            };
            self.free = self.free.max(now) + rate.transmit_time(Bytes::new(len));
        }
        if self.loss > 0.0 && rng.unit() < self.loss {
            return;
        }
        self.crossed += u64::from(matches!(frame, Frame::Data(_)));
        let jitter = Span::from_nanos(rng.below(self.jitter.as_nanos() + 1));
        let due = (self.free.max(now) + self.delay + jitter).max(self.last);
        self.last = due;
        self.flying.push_back((due, frame));
    }
}

/// What the source does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source {
    /// A packet whenever the sender takes one.
    Backlogged,
    /// A packet every so often.
    Every(Span),
    /// Bytes at this rate, evenly.
    Paced(Rate),
}

/// A packet that was delivered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delivered {
    /// Its number in the order of sending.
    pub(super) number: u64,
    /// When it was put on its channel.
    pub(super) sent: Time,
    /// When the receiver gave it out.
    pub(super) at: Time,
}

/// The network.
pub(super) struct Network {
    /// Time.
    pub(super) now: Time,
    /// The sending end and the receiving end.
    pub(super) end: [Endpoint<Vec<u8>>; 2],
    /// The channels.
    pub(super) channels: Vec<Channel>,
    /// What came out.
    pub(super) delivered: Vec<Delivered>,
    /// When each packet was sent, by number.
    pub(super) sent: Vec<Time>,
    /// Bytes sent on each channel.
    pub(super) bytes: Vec<u64>,
    /// Most bytes that have waited at the receiver, by channel.
    pub(super) most_buffered: Vec<u64>,
    source: Source,
    next_packet: Time,
    waiting: VecDeque<usize>,
    lengths: Box<dyn FnMut(&mut Rng) -> usize>,
    rng: Rng,
}

impl Network {
    /// A network of `channels` with these quanta; the source is silent until [`Network::offer`].
    pub(super) fn new(set: &ChannelSet, channels: Vec<Channel>, config: Config, seed: u64) -> Result<Network, String> {
        let mut receiver = ReceiverConfig::default();
        receiver.buffer_bytes = Bytes::new(1 << 30);
        receiver.buffer_packets = 1 << 24;
        let end = |epoch| {
            Endpoint::new(config.clone(), receiver.clone(), set, Time::ZERO, epoch).map_err(|error| error.to_string())
        };
        let count = channels.len();
        Ok(Network {
            now: Time::ZERO,
            end: [end(1)?, end(2)?],
            channels,
            delivered: Vec::new(),
            sent: Vec::new(),
            bytes: vec![0; count],
            most_buffered: vec![0; count],
            source: Source::Every(Span::MAX),
            next_packet: Time::MAX,
            waiting: VecDeque::new(),
            lengths: Box::new(|_| 0),
            rng: Rng::new(seed),
        })
    }

    /// The source sends from now on, packets of these lengths.
    pub(super) fn offer(&mut self, source: Source, lengths: impl FnMut(&mut Rng) -> usize + 'static) {
        self.source = source;
        self.lengths = Box::new(lengths);
        self.next_packet = match source {
            Source::Backlogged => Time::MAX,
            Source::Every(_) | Source::Paced(_) => self.now,
        };
    }

    /// The source falls silent.
    pub(super) fn stop(&mut self) {
        self.source = Source::Every(Span::MAX);
        self.next_packet = Time::MAX;
        self.waiting.clear();
    }

    /// Runs for `span`.
    pub(super) fn run_for(&mut self, span: Span) {
        let until = self.now + span;
        loop {
            self.pump();
            let next = self.next_event();
            if next > until {
                break;
            }
            self.now = self.now.max(next);
            self.arrive();
            for end in &mut self.end {
                if end.poll_timeout().is_some_and(|at| at <= self.now) {
                    end.handle_timeout(self.now);
                }
            }
        }
        self.now = until;
    }

    fn next_event(&self) -> Time {
        let mut next = self.next_packet;
        for channel in &self.channels {
            next = channel.flying.front().map_or(next, |&(at, _)| next.min(at));
            next = channel.back.front().map_or(next, |&(at, _)| next.min(at));
            if !self.waiting.is_empty() {
                next = channel.blocked_until(self.now).map_or(next, |at| next.min(at));
            }
        }
        self.end.iter().filter_map(Endpoint::poll_timeout).fold(next, Time::min)
    }

    fn arrive(&mut self) {
        for i in 0..self.channels.len() {
            let id = ChannelId(i as u8);
            while self.channels[i].back.front().is_some_and(|&(at, _)| at <= self.now) {
                if let Some((_, control)) = self.channels[i].back.pop_front() {
                    self.end[0].handle_control(self.now, id, &control);
                }
            }
            while self.channels[i].flying.front().is_some_and(|&(at, _)| at <= self.now) {
                match self.channels[i].flying.pop_front() {
                    Some((_, Frame::Data(packet))) => self.end[1].handle_data(self.now, id, packet),
                    Some((_, Frame::Control(control))) => self.end[1].handle_control(self.now, id, &control),
                    None => {}
                }
                self.deliver();
                let (_, bytes) = self.end[1].receiver.buffered(id);
                self.most_buffered[i] = self.most_buffered[i].max(bytes.as_u64());
            }
        }
    }

    fn deliver(&mut self) {
        while let Some(packet) = self.end[1].poll_deliver() {
            let number = number(&packet);
            let sent = self.sent.get(number as usize).copied().unwrap_or(Time::MAX);
            self.delivered.push(Delivered { number, sent, at: self.now });
        }
    }

    fn control(&mut self) {
        while let Some((id, control)) = self.end[0].poll_control(self.now) {
            self.channels[id.index()].send(self.now, Frame::Control(control), &mut self.rng);
        }
        while let Some((id, control)) = self.end[1].poll_control(self.now) {
            let channel = &mut self.channels[id.index()];
            channel.back.push_back((self.now + channel.delay, control));
        }
    }

    fn pump(&mut self) {
        while self.next_packet <= self.now {
            let len = (self.lengths)(&mut self.rng);
            self.waiting.push_back(len);
            self.next_packet += match self.source {
                Source::Every(gap) => gap,
                Source::Paced(rate) => rate.transmit_time(Bytes::from(len)),
                Source::Backlogged => Span::MAX,
            };
        }
        loop {
            for (i, channel) in self.channels.iter().enumerate() {
                let blocked = channel.blocked_until(self.now).is_some();
                self.end[0].sender.set_blocked(ChannelId(i as u8), blocked);
            }
            self.control();
            if self.waiting.is_empty() && matches!(self.source, Source::Backlogged) {
                let len = (self.lengths)(&mut self.rng);
                self.waiting.push_back(len);
            }
            let Some(&len) = self.waiting.front() else {
                self.end[0].sender.on_idle(self.now);
                self.control();
                break;
            };
            let Ok(id) = self.end[0].sender.next_channel(Bytes::from(len)) else { break };
            self.waiting.pop_front();
            let frame = Frame::Data(packet(self.sent.len() as u64, len));
            self.sent.push(self.now);
            self.bytes[id.index()] += len as u64;
            self.channels[id.index()].send(self.now, frame, &mut self.rng);
            self.end[0].sender.on_sent(self.now, Bytes::from(len));
        }
        self.deliver();
    }

    /// Whether the peer has seen the plan on every channel, so that data flows.
    pub(super) fn is_established(&self) -> bool {
        self.end[0].sender.is_established()
    }
}
