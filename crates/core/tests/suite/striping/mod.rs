//! A deterministic network for the stripe's tests: two endpoints and, each way, FIFO channels with a delay and a loss
//! per frame. Time is counted, not measured; every draw comes from one seed.
#![allow(dead_code, unreachable_pub)]

use crate::network::{Network, Weather};
use fairspan_core::causal::ChannelSet;
use fairspan_core::packet::Packet;
use fairspan_core::rng::Rng;
use fairspan_core::stripe::{Config, Endpoint, ReceiverConfig};
use fairspan_core::units::{Bytes, ChannelId, Rate, Span, Time};
use fairspan_core::wire::marker::Control;
use std::collections::VecDeque;

/// Frames as they travel: control messages really are encoded and decoded.
#[derive(Clone, Debug)]
pub enum Frame {
    Data(Vec<u8>),
    Control(Vec<u8>),
}

/// From which side, and on which channel.
type Lane = (usize, usize);

/// One direction of one channel. FIFO whatever the delays.
#[derive(Clone, Debug)]
pub struct Link {
    pub delay: Span,
    pub jitter: Span,
    /// Probability that a frame is lost.
    pub loss: f64,
    /// Whether control frames are lost alike.
    pub loss_of_control: bool,
    pub up: bool,
    /// Serialisation, with a queue of `queue` bytes before it blocks.
    pub rate: Option<Rate>,
    pub queue: Bytes,
    busy_until: Time,
    pub data_bytes: u64,
    pub data_lost: u64,
}

impl Link {
    pub fn new(delay: Span) -> Link {
        Link {
            delay,
            jitter: Span::ZERO,
            loss: 0.0,
            loss_of_control: true,
            up: true,
            rate: None,
            queue: Bytes::new(3000),
            busy_until: Time::ZERO,
            data_bytes: 0,
            data_lost: 0,
        }
    }

    fn blocked(&self, now: Time) -> bool {
        self.rate.is_some_and(|rate| self.busy_until.since(now) > rate.transmit_time(self.queue))
    }

    fn send(&mut self, now: Time, lane: Lane, frame: Frame, rng: &mut Rng, network: &mut Network<(Lane, Frame)>) {
        let control = matches!(frame, Frame::Control(_));
        let len = match &frame {
            Frame::Data(b) | Frame::Control(b) => b.len(),
        };
        if let Some(rate) = self.rate {
            self.busy_until = self.busy_until.max(now) + rate.transmit_time(Bytes::from(len));
        }
        let loss = (!control || self.loss_of_control).then_some(self.loss);
        let weather = Weather { jitter: self.jitter, loss, ..Weather::fine(self.delay) };
        let left = self.busy_until.max(now);
        let number = 2 * lane.1 + lane.0;
        let arrives = self.up && network.send(left, number, &weather, rng, (lane, frame), |_, _| ());
        if !control {
            self.data_bytes += len as u64;
            self.data_lost += u64::from(!arrives);
        }
    }
}

/// Two endpoints, A (0) and B (1); `link[0]` leads from A to B.
pub struct World {
    pub now: Time,
    pub end: [Endpoint<Vec<u8>>; 2],
    pub link: [Vec<Link>; 2],
    /// Packets that the host of each side will offer, with their times.
    pub source: [VecDeque<(Time, usize)>; 2],
    /// Numbers given to the packets of each side's source.
    pub offered: [u64; 2],
    /// Numbers and times of the packets delivered at each side.
    pub delivered: [Vec<(u64, Time)>; 2],
    waiting: [VecDeque<Vec<u8>>; 2],
    network: Network<(Lane, Frame)>,
    pub rng: Rng,
}

pub fn set_of(quanta: &[u64]) -> ChannelSet {
    ChannelSet::of(quanta, Bytes::new(1500)).unwrap()
}

pub fn config() -> (Config, ReceiverConfig) {
    (Config::default(), ReceiverConfig::default())
}

impl World {
    pub fn new(set: &ChannelSet, delays: &[Span], seed: u64) -> World {
        World::with(config(), set, delays, seed)
    }

    pub fn with((config, receiver): (Config, ReceiverConfig), set: &ChannelSet, delays: &[Span], seed: u64) -> World {
        let end = |epoch| Endpoint::new(config.clone(), receiver.clone(), set, Time::ZERO, epoch).unwrap();
        let links: Vec<Link> = delays.iter().map(|&d| Link::new(d)).collect();
        World {
            now: Time::ZERO,
            end: [end(100), end(200)],
            link: [links.clone(), links],
            source: Default::default(),
            offered: [0; 2],
            delivered: Default::default(),
            waiting: Default::default(),
            network: Network::new(),
            rng: Rng::new(seed),
        }
    }

    /// Lets A's host offer a packet of each length, `gap` apart, from now on.
    pub fn offer(&mut self, lengths: impl IntoIterator<Item = usize>, gap: Span) {
        let mut at = self.source[0].back().map_or(self.now, |&(t, _)| t.max(self.now));
        for len in lengths {
            self.source[0].push_back((at, len));
            at += gap;
        }
    }

    pub fn random_lengths(&mut self, n: usize) -> Vec<usize> {
        (0..n).map(|_| 40 + self.rng.below(1461) as usize).collect()
    }

    /// Runs until `until`, doing everything that is due before or at it.
    pub fn run_until(&mut self, until: Time) {
        loop {
            self.pump(0);
            self.pump(1);
            let next = self.next_event().filter(|&t| t <= until);
            let Some(next) = next else { break };
            self.now = self.now.max(next);
            self.arrive();
            for end in &mut self.end {
                if end.poll_timeout().is_some_and(|t| t <= self.now) {
                    end.handle_timeout(self.now);
                    assert!(end.poll_timeout().is_none_or(|t| t > self.now), "a timer that stays due");
                }
            }
        }
        self.now = until;
    }

    pub fn run_for(&mut self, span: Span) {
        self.run_until(self.now + span);
    }

    /// Runs until both ends are settled and nothing waits, for a minute at most.
    pub fn settle(&mut self) {
        for _ in 0..6000 {
            self.run_for(Span::from_millis(10));
            let quiet = self.source.iter().all(VecDeque::is_empty) && self.waiting.iter().all(VecDeque::is_empty);
            if quiet && self.end[0].sender.is_settled() && self.network.frames().all(|((side, _), _)| *side != 0) {
                return;
            }
        }
        panic!("not settled after a minute: {:#?}", self.end[0].sender);
    }

    fn next_event(&self) -> Option<Time> {
        let flying = self.network.next();
        let timers = self.end.iter().filter_map(Endpoint::poll_timeout);
        let sources = self.source.iter().filter_map(|s| s.front().map(|&(t, _)| t));
        let unblock = (0..2).flat_map(|side| {
            let waits = !self.waiting[side].is_empty();
            self.link[side].iter().filter(move |l| waits && l.blocked(self.now)).map(|l| {
                let room = l.rate.unwrap().transmit_time(l.queue);
                Time::from_nanos(l.busy_until.as_nanos() - room.as_nanos())
            })
        });
        flying.into_iter().chain(timers).chain(sources).chain(unblock).min()
    }

    fn arrive(&mut self) {
        while self.network.next().is_some_and(|due| due <= self.now) {
            let Some(((side, channel), frame)) = self.network.take() else { break };
            let (end, channel) = (&mut self.end[1 - side], ChannelId(channel as u8));
            match frame {
                Frame::Data(packet) => end.handle_data(self.now, channel, packet),
                Frame::Control(bytes) => end.handle_control(self.now, channel, &Control::decode(&bytes).unwrap()),
            }
            self.deliver(1 - side);
        }
    }

    fn deliver(&mut self, side: usize) {
        while let Some(packet) = self.end[side].poll_deliver() {
            let number = u64::from_be_bytes(packet[..8].try_into().unwrap());
            self.delivered[side].push((number, self.now));
        }
    }

    fn send(&mut self, side: usize, channel: ChannelId, frame: Frame) {
        let lane = (side, channel.index());
        self.link[side][lane.1].send(self.now, lane, frame, &mut self.rng, &mut self.network);
    }

    fn control(&mut self, side: usize) {
        while let Some((channel, control)) = self.end[side].poll_control(self.now) {
            let mut bytes = vec![];
            control.encode(&mut bytes);
            self.send(side, channel, Frame::Control(bytes));
        }
    }

    fn pump(&mut self, side: usize) {
        while self.source[side].front().is_some_and(|&(t, _)| t <= self.now) {
            let (_, len) = self.source[side].pop_front().unwrap();
            let mut packet = vec![0; len.max(8)];
            packet[..8].copy_from_slice(&self.offered[side].to_be_bytes());
            self.offered[side] += 1;
            self.waiting[side].push_back(packet);
        }
        loop {
            for i in 0..self.link[side].len() {
                let blocked = self.link[side][i].blocked(self.now);
                self.end[side].sender.set_blocked(ChannelId(i as u8), blocked);
            }
            self.control(side);
            let Some(packet) = self.waiting[side].front() else {
                self.end[side].sender.on_idle(self.now);
                self.control(side);
                break;
            };
            let Ok(channel) = self.end[side].sender.next_channel(packet.size()) else { break };
            let packet = self.waiting[side].pop_front().unwrap();
            let len = packet.size();
            self.send(side, channel, Frame::Data(packet));
            self.end[side].sender.on_sent(self.now, len);
        }
        self.deliver(side);
    }

    pub fn backlog(&self) -> usize {
        self.waiting[0].len()
    }

    /// The numbers delivered at B.
    pub fn numbers(&self) -> Vec<u64> {
        self.delivered[1].iter().map(|&(n, _)| n).collect()
    }

    /// B got every packet that A's host offered, in order.
    pub fn assert_all_in_order(&self) {
        let numbers = self.numbers();
        let bad = numbers.iter().zip(0u64..).position(|(&n, i)| n != i);
        assert!(
            bad.is_none() && numbers.len() as u64 == self.offered[0],
            "{} of {} delivered, first wrong at {bad:?}: {:?}\n{:?}\n{:?}",
            numbers.len(),
            self.offered[0],
            bad.map(|i| &numbers[i.saturating_sub(3)..(i + 6).min(numbers.len())]),
            self.end[0].sender.stats(),
            self.end[1].receiver.stats()
        );
    }

    /// B got nothing twice, and nothing out of order from packet `from` on.
    pub fn assert_in_order_from(&self, from: u64) {
        let tail: Vec<u64> = self.numbers().into_iter().filter(|&n| n >= from).collect();
        let bad = tail.windows(2).position(|w| w[0] >= w[1]);
        assert!(bad.is_none(), "out of order at {:?} of {}: {:?}", bad, tail.len(), bad.map(|i| &tail[i..i + 2]));
    }
}

pub fn ms(n: u64) -> Span {
    Span::from_millis(n)
}
