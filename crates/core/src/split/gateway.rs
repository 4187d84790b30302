//! The gateway: both servers, and what connections have of them.
//!
//! What it is: Figure 4.3 without the TCP in its middle. Packets from outside wait in the [fair-queueing
//! subsystem](super::fair) and come out as [`Turn::Up`] when they are served: what belongs to a split connection goes to the
//! driver's TCP, everything else on its way. What TCP sends goes through the FIFO subsystem and comes out as [`Turn::Out`]. In
//! [`Mode::Vanilla`] there is one queue that TCP's packets pass a second time (Figure 4.2). Source: hybrid-gateways 4.2 and 4.3.
//!
//! After any `handle_*`, `on_*` or `close`, and when [`Gateway::poll_timeout`] is due, drain [`Gateway::poll_dropped`] and
//! [`Gateway::poll`], each until it gives nothing.
//!
//! Cost: that of the queue, and O(log n) in the connections. Invariant: every packet that goes in comes out once.

use super::config::{Config, Matching, Mode};
use super::fair::Fair;
use super::matching::Gate;
use super::shares::Shares;
use crate::buffer::Reason;
use crate::queue::{ConfigError, End, MOST_ROOM, Parcel};
use crate::units::{Bytes, FlowNumber, Span, Time};
use alloc::collections::VecDeque;

/// What the send buffer of a right-hand connection is like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// Bytes that were never sent.
    pub unsent: u64,
    /// Bytes that were sent for the first time, in all.
    pub sent: u64,
    /// Bytes in the buffer, sent or not.
    pub held: u64,
    /// The smoothed round trip; zero before it is known.
    pub round_trip: Span,
    /// The same with that of the left-hand connection.
    pub whole_trip: Span,
    /// The link alone holds it back: there is something to send, its congestion window and nothing else keeps it from going, and it has lost
    /// segments.
    pub held_back: bool,
}

/// A packet whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn<P> {
    /// It came from outside: to TCP with it, or on its way.
    Up(P),
    /// TCP has sent it: on its way.
    Out(P),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Item<P> {
    packet: P,
    /// It comes from TCP.
    processed: bool,
}

impl<P: Parcel> Parcel for Item<P> {
    #[inline]
    fn size(&self) -> u32 {
        self.packet.size()
    }

    #[inline]
    fn memory(&self) -> u64 {
        self.packet.memory()
    }

    #[inline]
    fn mark(&mut self) -> bool {
        self.packet.mark()
    }

    fn host(&self, end: End) -> u128 {
        self.packet.host(end)
    }

    fn class(&self) -> u8 {
        self.packet.class()
    }

    fn is_scalable(&self) -> bool {
        self.packet.is_scalable()
    }
}

/// Both servers.
#[derive(Clone, Debug)]
pub struct Gateway<P> {
    config: Config,
    fair: Fair<Item<P>>,
    fifo: VecDeque<P>,
    shares: Shares,
}

impl<P: Parcel> Gateway<P> {
    /// An idle one. `seed` keys the hash of a stochastic discipline, and determines what a policy draws.
    ///
    /// # Errors
    /// Names the first setting that cannot work.
    pub fn new(config: &Config, seed: u64) -> Result<Gateway<P>, ConfigError> {
        config.check()?;
        let mut fair = *config;
        if config.mode != Mode::TwoServer && config.matching == Matching::Auto {
            // There is nothing to match: what waits in one queue for all cannot go by connection.
            fair.matching = Matching::Unlimited;
        }
        Ok(Gateway {
            config: *config,
            fair: Fair::new(&fair, seed)?,
            fifo: VecDeque::new(),
            shares: Shares::new(config.send_buffer),
        })
    }

    /// Other settings from now on, but for its mode.
    ///
    /// # Errors
    /// Names the first setting that cannot work; then nothing has changed.
    pub fn reconfigure(&mut self, now: Time, config: &Config) -> Result<(), ConfigError> {
        let config = Config { mode: self.config.mode, ..*config };
        config.check()?;
        let mut fair = config;
        if config.mode != Mode::TwoServer && config.matching == Matching::Auto {
            fair.matching = Matching::Unlimited;
        }
        self.fair.reconfigure(now, &fair)?;
        self.shares.set_room(config.send_buffer);
        self.config = config;
        Ok(())
    }

    /// Its settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// A packet comes from outside; `payload`: its bytes for the send buffer behind `flow`.
    ///
    /// # Errors
    /// The packet, and why it is dropped.
    pub fn handle_packet(&mut self, now: Time, flow: FlowNumber, payload: u64, packet: P) -> Result<(), (P, Reason)> {
        let item = Item { packet, processed: false };
        self.fair.enqueue(now, flow, payload, item).map_err(|(item, reason)| (item.packet, reason))
    }

    /// TCP sends a packet.
    ///
    /// # Errors
    /// The packet, and why it is dropped: only where it waits in one queue with those from outside.
    pub fn handle_processed(&mut self, now: Time, flow: FlowNumber, packet: P) -> Result<(), (P, Reason)> {
        if self.config.mode == Mode::Vanilla {
            let item = Item { packet, processed: true };
            return self.fair.enqueue(now, flow, 0, item).map_err(|(item, reason)| (item.packet, reason));
        }
        self.fifo.push_back(packet);
        Ok(())
    }

    /// A packet whose turn it is. What TCP has sent goes first: it has had its turn before.
    pub fn poll(&mut self, now: Time) -> Option<Turn<P>> {
        if let Some(packet) = self.fifo.pop_front() {
            return Some(Turn::Out(packet));
        }
        let (_, Item { packet, processed }) = self.fair.serve(now)?;
        Some(if processed { Turn::Out(packet) } else { Turn::Up(packet) })
    }

    /// A packet that the policy dropped since.
    pub fn poll_dropped(&mut self) -> Option<(P, Reason)> {
        self.fair.poll_dropped().map(|(item, reason)| (item.packet, reason))
    }

    /// When [`poll`](Gateway::poll) may give another packet.
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.fifo.is_empty() { self.fair.poll_timeout() } else { Some(Time::ZERO) }
    }

    /// `flow` is one direction of a connection that is split from now on.
    pub fn open(&mut self, now: Time, flow: FlowNumber) {
        self.fair.open(now, flow);
        self.shares.open(flow);
    }

    /// It is split no more. A number is not to be used again while packets of it may wait.
    pub fn close(&mut self, flow: FlowNumber) {
        self.fair.close(flow);
        self.shares.close(flow);
    }

    /// The send buffer of the right-hand connection of `flow` has changed.
    pub fn on_level(&mut self, now: Time, flow: FlowNumber, level: &Level) {
        self.fair.on_level(now, flow, level.unsent, level.sent, level.round_trip, level.held_back);
        let before = self.shares.parts(flow);
        self.shares.on_held(flow, level.held, level.whole_trip);
        let after = self.shares.parts(flow);
        if before != after {
            self.fair.set_room(flow, after.clamp(1, MOST_ROOM));
        }
    }

    /// Of the right-hand connections that have sent of late, the one that waits least has a shortest round trip of `least`, and one of `least` and
    /// `wait` now. With a ceiling less is served while that shows a queue on the long link. To be told several times a second.
    pub fn on_wait(&mut self, now: Time, least: Span, wait: Span) {
        self.fair.on_wait(now, least, wait);
    }

    /// What the left-hand connection of `flow` may offer beyond what has come; `None`: what its own buffer takes.
    pub fn window(&self, flow: FlowNumber) -> Option<Bytes> {
        self.config.flow_control.then(|| self.shares.window(flow))
    }

    /// The gate of `flow`, where its rate finds itself.
    pub fn gate(&self, flow: FlowNumber) -> Option<&Gate> {
        self.fair.gate(flow)
    }

    /// Packets in the fair-queueing subsystem, and their bytes.
    pub fn waiting(&self) -> (u64, Bytes) {
        self.fair.waiting()
    }

    /// What all right-hand send buffers hold, as far as it was told.
    pub fn held(&self) -> Bytes {
        self.shares.held()
    }

    /// Packets that went in and have not come out.
    pub fn packets(&self) -> u64 {
        self.fair.held() + self.fifo.len() as u64
    }
}
