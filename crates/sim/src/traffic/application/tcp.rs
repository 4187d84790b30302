//! An application over TCP as one endpoint of the world: its connections, both ends of each, and their timers.
//!
//! What happens at one instant: a segment goes to the end that it is for; the application there takes what has arrived;
//! the application writes, opens and closes; then the world takes the segments one by one. A connection that something
//! happened to is *touched* and polled until it gives nothing more and its application writes nothing more; only then its
//! timer is read. So a connection that rests costs nothing.
//!
//! Connections are numbered in the order of opening and found by number, in a ring from the oldest one that is not over;
//! one that is over is forgotten (see [`Pair::is_over`]), and segments that still arrive for it are ignored.
//!
//! Warm-up: counters of TCP count from its end on; windows and round trips are as they are.

use super::datagram::Datagrams;
use super::exchange::Exchange;
use super::ftp::Ftp;
use super::http::Http;
use super::{Application, End, Pair};
use crate::packet::{Body, Packet};
use crate::results::{TcpResult, Transfers};
use crate::scenario::model::Transport;
use crate::tcp::Config as TcpConfig;
use crate::tcp::Connection;
use crate::tcp::config::Nagle;
use crate::traffic::{Config, ConfigError};
use crate::world::endpoint::{Endpoint, Handled, Outgoing};
use fairspan_core::rng::Rng;
use fairspan_core::units::Time;
use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, VecDeque};

/// The endpoint of a flow with this traffic; `None` where a [`Source`](crate::traffic::Source) sends and nothing answers.
///
/// `start` and `stop` are the world's to call.
pub fn endpoint(
    traffic: &Config,
    transport: &Transport,
    mut rng: Rng,
) -> Result<Option<Box<dyn Endpoint>>, ConfigError> {
    traffic.check()?;
    let draws = Rng::new(rng.next_u64());
    let settings = match transport {
        Transport::Tcp(settings) => settings,
        Transport::Datagram { header } => {
            return match traffic {
                Config::RequestResponse { request, response, think, timeout } => {
                    let datagrams = Datagrams::new(request, response, *think, *timeout, *header, draws)?;
                    Ok(Some(Box::new(datagrams)))
                }
                Config::Ftp { .. } | Config::Http { .. } => Err(ConfigError::Transport { needed: "TCP" }),
                _ => Ok(None),
            };
        }
    };
    let mut settings = (**settings).clone();
    let application: Box<dyn Application> = match traffic {
        Config::Ftp { bytes, writes } => {
            if writes.is_some() {
                settings.segment_per_write = true;
                settings.nagle = Nagle::Off;
            }
            Box::new(Ftp::new(*bytes, writes.as_ref(), draws)?)
        }
        Config::Http { parallel, files, fetches, request, think } => {
            Box::new(Http::new(*parallel, files, *fetches, *request, *think, draws))
        }
        Config::RequestResponse { request, response, think, .. } => {
            Box::new(Exchange::new(request, response, *think, draws)?)
        }
        _ => return Err(ConfigError::Transport { needed: "datagrams" }),
    };
    Ok(Some(Box::new(TcpEndpoint::new(settings, application, rng))))
}

/// The connections of a flow.
#[derive(Debug)]
pub struct Pairs {
    settings: TcpConfig,
    /// Initial sequence numbers come from here.
    rng: Rng,
    /// Number of the first of `slots`.
    first: u32,
    slots: VecDeque<Slot>,
    /// Numbers of connections to be polled, in the order in which something happened to them.
    touched: VecDeque<u32>,
    timers: Timers,
    /// What connections that are over counted.
    gone: Counters,
    /// What was counted in the warm-up.
    before: Counters,
    /// The sender's window in bytes and smoothed round trip when the last connection was over.
    last: (u64, f64),
}

#[derive(Debug)]
struct Slot {
    pair: Option<Box<Pair>>,
    touched: bool,
    due: Time,
    /// When the entry comes that the timers have for it, at `due` or before; others are stale.
    queued: Time,
}

/// When which connection's timer runs out: of many connections, the next one is found without asking all.
#[derive(Debug, Default)]
struct Timers {
    heap: BinaryHeap<Reverse<(Time, u32)>>,
    /// Numbers of those that have run out; empty but for a moment.
    expired: Vec<u32>,
}

impl Timers {
    /// A connection's timer was set.
    #[inline]
    fn set(&mut self, number: u32, slot: &mut Slot) {
        if slot.due < slot.queued {
            slot.queued = slot.due;
            self.heap.push(Reverse((slot.due, number)));
        }
    }

    /// Brings the first entry up to date.
    #[inline]
    fn settle(&mut self, first: u32, slots: &mut VecDeque<Slot>) {
        while let Some(mut entry) = self.heap.peek_mut() {
            let (time, number) = entry.0;
            let slot = slots.get_mut(number.wrapping_sub(first) as usize).filter(|slot| slot.queued == time);
            match slot {
                Some(slot) if slot.due == time => return,
                Some(slot) => {
                    slot.queued = slot.due;
                    if slot.due < Time::MAX {
                        *entry = Reverse((slot.due, number));
                        continue;
                    }
                }
                None => {}
            }
            PeekMut::pop(entry);
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    retransmitted: u64,
    timeouts: u64,
    recoveries: u64,
}

impl Counters {
    fn add(&mut self, pair: &Pair) {
        for end in End::BOTH {
            let stats = pair.end(end).stats();
            self.retransmitted += stats.retransmitted;
            self.timeouts += stats.timeouts;
            self.recoveries += stats.recoveries;
        }
    }
}

impl Pairs {
    /// None yet.
    pub fn new(settings: TcpConfig, rng: Rng) -> Pairs {
        Pairs {
            settings,
            rng,
            first: 0,
            slots: VecDeque::new(),
            touched: VecDeque::new(),
            timers: Timers::default(),
            gone: Counters::default(),
            before: Counters::default(),
            last: (0, 0.0),
        }
    }

    /// Opens the next connection, from `opener`; the other end waits for it.
    pub fn open(&mut self, now: Time, opener: End) -> &mut Pair {
        let number = self.first.wrapping_add(self.slots.len() as u32);
        let mut ends = [(); 2].map(|()| Connection::new(&self.settings, now, self.rng.next_u64() as u32));
        ends[1 - opener as usize].listen(now);
        ends[opener as usize].open(now);
        self.slots.push_back(Slot { pair: None, touched: true, due: Time::MAX, queued: Time::MAX });
        self.touched.push_back(number);
        let slot = self.slots.len() - 1;
        self.slots[slot].pair.insert(Box::new(Pair::new(number, now, ends)))
    }

    /// The connection with this number, unless it is over. It is polled after this.
    pub fn get(&mut self, number: u32) -> Option<&mut Pair> {
        let slot = self.slots.get_mut(number.wrapping_sub(self.first) as usize)?;
        let pair = slot.pair.as_mut()?;
        if !std::mem::replace(&mut slot.touched, true) {
            self.touched.push_back(number);
        }
        Some(pair)
    }

    /// Resets all connections from `end`.
    pub fn abort_all(&mut self, now: Time, end: End) {
        for offset in 0..self.slots.len() as u32 {
            if let Some(pair) = self.get(self.first.wrapping_add(offset)) {
                pair.end_mut(end).abort(now);
            }
        }
    }

    fn open_pairs(&self) -> impl Iterator<Item = &Pair> {
        self.slots.iter().filter_map(|slot| slot.pair.as_deref())
    }

    fn counters(&self) -> Counters {
        let mut sum = self.gone;
        self.open_pairs().for_each(|pair| sum.add(pair));
        sum
    }

    /// The next segment of the first of the touched connections that has one.
    fn poll_transmit(&mut self, now: Time, application: &mut dyn Application) -> Option<Outgoing> {
        while let Some(&number) = self.touched.front() {
            let Some(slot) = self.slots.get_mut(number.wrapping_sub(self.first) as usize) else {
                self.touched.pop_front();
                continue;
            };
            let Some(pair) = slot.pair.as_mut() else {
                self.touched.pop_front();
                continue;
            };
            loop {
                for end in End::BOTH {
                    let connection = pair.end_mut(end);
                    if let Some(segment) = connection.poll_transmit(now) {
                        return Some(Outgoing {
                            reverse: end == End::Receiver,
                            connection: number,
                            size: connection.header_length(&segment) + segment.length,
                            body: Body::Segment(segment),
                        });
                    }
                }
                application.serve(now, pair);
                End::BOTH.into_iter().for_each(|end| pair.flush(now, end));
                if !pair.take_moved() {
                    break;
                }
            }
            slot.touched = false;
            slot.due = pair.poll_timeout();
            self.touched.pop_front();
            if pair.is_over() {
                self.gone.add(pair);
                let sender = pair.end(End::Sender);
                self.last = (sender.window(), sender.smoothed_rtt().as_secs_f64());
                application.over(now, pair);
                slot.pair = None;
                slot.due = Time::MAX;
                while self.slots.front().is_some_and(|slot| slot.pair.is_none()) {
                    self.slots.pop_front();
                    self.first = self.first.wrapping_add(1);
                }
            } else {
                self.timers.set(number, slot);
            }
        }
        self.timers.settle(self.first, &mut self.slots);
        None
    }

    /// The numbers of the connections whose timers have run out, in their order.
    fn expired(&mut self, now: Time) -> Vec<u32> {
        let mut expired = std::mem::take(&mut self.timers.expired);
        loop {
            self.timers.settle(self.first, &mut self.slots);
            let Some(&Reverse((_, number))) = self.timers.heap.peek().filter(|entry| entry.0.0 <= now) else { break };
            self.timers.heap.pop();
            self.slots[number.wrapping_sub(self.first) as usize].queued = Time::MAX;
            expired.push(number);
        }
        expired.sort_unstable_by_key(|number| number.wrapping_sub(self.first));
        expired
    }
}

/// An application over TCP.
#[derive(Debug)]
pub struct TcpEndpoint {
    application: Box<dyn Application>,
    pairs: Pairs,
    delivered: u64,
}

impl TcpEndpoint {
    /// `application` over connections with these settings at both ends.
    pub fn new(settings: TcpConfig, application: Box<dyn Application>, rng: Rng) -> TcpEndpoint {
        TcpEndpoint { application, pairs: Pairs::new(settings, rng), delivered: 0 }
    }

    fn sender(&self) -> Option<&Connection> {
        self.pairs.open_pairs().last().map(|pair| pair.end(End::Sender))
    }
}

impl Endpoint for TcpEndpoint {
    fn start(&mut self, now: Time) {
        self.application.start(now, &mut self.pairs);
    }

    fn stop(&mut self, now: Time) {
        self.application.stop(now, &mut self.pairs);
    }

    #[inline]
    fn handle_packet(&mut self, now: Time, packet: &Packet) -> Handled {
        let (Body::Segment(segment), Some(pair)) = (&packet.body, self.pairs.get(packet.connection)) else {
            return Handled::default();
        };
        let end = if packet.reverse { End::Sender } else { End::Receiver };
        let connection = pair.end_mut(end);
        let before = connection.stats().out_of_order;
        connection.handle_segment(now, segment);
        let out_of_order = connection.stats().out_of_order != before;
        let bytes = pair.read(now, end);
        if end == End::Receiver {
            self.delivered += bytes;
        }
        Handled { out_of_order }
    }

    fn handle_timeout(&mut self, now: Time) {
        let mut expired = self.pairs.expired(now);
        for number in expired.drain(..) {
            if let Some(pair) = self.pairs.get(number) {
                End::BOTH.into_iter().for_each(|end| pair.end_mut(end).handle_timeout(now));
            }
        }
        self.pairs.timers.expired = expired;
        if self.application.poll_timeout().is_some_and(|due| due <= now) {
            self.application.handle_timeout(now, &mut self.pairs);
        }
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Outgoing> {
        self.pairs.poll_transmit(now, &mut *self.application)
    }

    fn poll_timeout(&self) -> Option<Time> {
        let due = self.pairs.timers.heap.peek().map_or(Time::MAX, |entry| entry.0.0);
        let due = self.application.poll_timeout().map_or(due, |pause| pause.min(due));
        (due < Time::MAX).then_some(due)
    }

    fn poll_delivered(&mut self) -> u64 {
        std::mem::take(&mut self.delivered)
    }

    fn tcp(&self) -> Option<TcpResult> {
        let (counters, before) = (self.pairs.counters(), self.pairs.before);
        let (window, smoothed_rtt) = match self.sender() {
            Some(sender) => (sender.window(), sender.smoothed_rtt().as_secs_f64()),
            None => self.pairs.last,
        };
        Some(TcpResult {
            retransmitted: counters.retransmitted - before.retransmitted,
            timeouts: counters.timeouts - before.timeouts,
            recoveries: counters.recoveries - before.recoveries,
            window,
            smoothed_rtt,
        })
    }

    fn transfers(&self) -> Option<Transfers> {
        self.application.transfers().map(super::Transfers::result)
    }

    fn window(&self) -> Option<u64> {
        Some(self.sender().map_or(self.pairs.last.0, Connection::window))
    }

    fn begin(&mut self) {
        self.pairs.before = self.pairs.counters();
        self.application.begin();
    }
}
