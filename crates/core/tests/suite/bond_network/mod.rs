//! Two bonds joined by a deterministic network: channels with a delay, jitter, loss, and a switch to cut them.
#![allow(dead_code, unreachable_pub)] // each test file uses its part

use crate::network::{Network, Weather};
use fairspan_core::bond::{ChannelConfig, Codepoint, Config, Event, Handling, Link};
use fairspan_core::record::Recorder;
use fairspan_core::rng::Rng;
use fairspan_core::units::{Bytes, ChannelId, Rate, Span, Time};
use std::collections::{HashMap, HashSet};

/// How one channel treats frames, in both directions.
#[derive(Clone, Copy, Debug)]
pub struct Wire {
    pub delay: Span,
    /// Delay of frames from end 1 in addition.
    pub back: Span,
    /// Uniform extra delay up to this.
    pub jitter: Span,
    /// Whether jitter lets frames overtake one another.
    pub reorders: bool,
    /// Probability of loss.
    pub loss: f64,
    /// Probability that a frame arrives twice.
    pub twice: f64,
    /// Frames from end 0, or from end 1, vanish.
    pub cut: [bool; 2],
    /// Frames above this many bytes vanish, unless they may be fragmented.
    pub largest: usize,
    /// How fast frames go, and bytes that may wait for it: what is more vanishes.
    pub narrow: Option<(Rate, usize)>,
}

impl Wire {
    pub fn new(delay_ms: u64) -> Wire {
        let delay = Span::from_millis(delay_ms);
        Wire {
            delay,
            back: Span::ZERO,
            jitter: Span::ZERO,
            reorders: false,
            loss: 0.0,
            twice: 0.0,
            cut: [false; 2],
            largest: usize::MAX,
            narrow: None,
        }
    }
}

/// A frame on its way.
#[derive(Clone, Debug)]
pub struct Flight {
    pub to: usize,
    pub channel: ChannelId,
    pub codepoint: Codepoint,
    pub bytes: Vec<u8>,
    pub tos: u8,
}

pub type End = Recorder<Vec<u8>, Vec<u8>>;

pub struct Net {
    pub now: Time,
    /// Recorded from the start.
    pub ends: [End; 2],
    pub wires: Vec<Wire>,
    pub delivered: [Vec<(Time, Vec<u8>)>; 2],
    pub events: [Vec<Event>; 2],
    /// Frames sent by each end on each channel, control included.
    pub frames: [Vec<u64>; 2],
    /// The most memory that each end held.
    pub most_held: [usize; 2],
    /// Changes frames on their way, when set.
    pub mangle: Option<fn(&mut Flight, &mut Rng)>,
    /// This end's process does not run: what comes to it waits.
    stopped: Option<usize>,
    waiting: Vec<Flight>,
    network: Network<Flight>,
    /// By channel and direction, when a narrow wire will have sent all that it was given.
    free: HashMap<usize, Time>,
    pub rng: Rng,
}

/// Settings with `wires` channels, without probes that would disturb counts.
pub fn config(wires: usize) -> Config {
    let mut config = Config::default();
    config.channels = vec![ChannelConfig::default(); wires];
    config
}

impl Net {
    pub fn new(configs: [Config; 2], wires: Vec<Wire>, seed: u64) -> Net {
        let now = Time::from_millis(1000);
        let [a, b] = configs;
        let end = |config, seed| Recorder::new(config, now, seed, Some(Vec::new())).unwrap();
        let ends = [end(a, seed), end(b, seed ^ 0xffff)];
        let count = wires.len();
        let mut net = Net {
            now,
            ends,
            wires,
            delivered: [vec![], vec![]],
            events: [vec![], vec![]],
            frames: [vec![0; count], vec![0; count]],
            most_held: [0; 2],
            mangle: None,
            stopped: None,
            waiting: Vec::new(),
            network: Network::new(),
            free: HashMap::new(),
            rng: Rng::new(seed),
        };
        for end in 0..2 {
            net.up(end);
        }
        net
    }

    /// Both ends alike, and long enough up to know each other.
    pub fn settled(config: Config, wires: Vec<Wire>, seed: u64) -> Net {
        let mut net = Net::new([config.clone(), config], wires, seed);
        net.run(Span::from_millis(700));
        net
    }

    fn up(&mut self, end: usize) {
        for channel in 0..self.wires.len() {
            self.ends[end].set_link(self.now, ChannelId(channel as u8), Link::Up);
        }
        self.drain(end);
    }

    /// The end's process dies and another one starts.
    pub fn restart(&mut self, end: usize, config: Config, seed: u64) {
        self.ends[end] = Recorder::new(config, self.now, seed, Some(Vec::new())).unwrap();
        self.up(end);
    }

    pub fn host(&mut self, end: usize, packet: Vec<u8>) {
        self.ends[end].handle_host(self.now, packet);
        self.drain(end);
    }

    pub fn set_link(&mut self, end: usize, channel: u8, state: Link) {
        self.ends[end].set_link(self.now, ChannelId(channel), state);
        self.drain(end);
    }

    /// Takes everything that the end has to give.
    pub fn drain(&mut self, end: usize) {
        while let Some(frame) = self.ends[end].poll_transmit(self.now) {
            let bytes = [frame.head.as_slice(), frame.body()].concat();
            assert_eq!(bytes.len(), frame.size());
            if let Some(packet) = frame.packet
                && self.ends[end].wants_back()
            {
                self.ends[end].give_back(packet);
            }
            self.frames[end][frame.channel.index()] += 1;
            let flight =
                Flight { to: 1 - end, channel: frame.channel, codepoint: frame.codepoint, bytes, tos: frame.tos };
            self.send(end, flight, frame.handling == Handling::Fragment);
        }
        while let Some(packet) = self.ends[end].poll_deliver() {
            self.delivered[end].push((self.now, packet));
        }
        while let Some(event) = self.ends[end].poll_event() {
            self.events[end].push(event);
        }
        self.most_held[end] = self.most_held[end].max(self.ends[end].held_bytes());
    }

    fn send(&mut self, from: usize, flight: Flight, fragments: bool) {
        let wire = self.wires[flight.channel.index()];
        if wire.cut[from] || flight.bytes.len() > wire.largest && !fragments {
            return;
        }
        let Wire { jitter, reorders, .. } = wire;
        let (loss, twice) = (Some(wire.loss), Some(wire.twice));
        let delay = wire.delay + if from == 1 { wire.back } else { Span::ZERO };
        let weather = Weather { jitter, reorders, loss, twice, ..Weather::fine(delay) };
        let mangle = |flight: &mut Flight, rng: &mut Rng| {
            if let Some(mangle) = self.mangle {
                mangle(flight, rng);
            }
        };
        let lane = 2 * flight.channel.index() + from;
        let mut leaves = self.now;
        if let Some((rate, room)) = wire.narrow {
            let free = self.free.entry(lane).or_default();
            if rate.bytes_in(free.since(self.now)) > Bytes::from(room) {
                return;
            }
            *free = self.now.max(*free) + rate.transmit_time(Bytes::from(flight.bytes.len()));
            leaves = *free;
        }
        self.network.send(leaves, lane, &weather, &mut self.rng, flight, mangle);
    }

    /// Lets `span` pass.
    pub fn run(&mut self, span: Span) {
        let until = self.now + span;
        let mut steps = 0u64;
        loop {
            let flight = self.network.next();
            let runs = |end: &usize| self.stopped != Some(*end);
            let timers =
                [0, 1].map(|end| Some(end).filter(runs).and_then(|end| Some(self.ends[end].poll_timeout()?.0)));
            let next = [flight, timers[0], timers[1]].into_iter().flatten().min();
            let Some(next) = next.filter(|t| *t <= until) else { break };
            steps += 1;
            assert!(
                steps < 5_000_000,
                "the timers never come to rest: {:?} {:?}",
                self.ends[0].poll_timeout(),
                self.ends[1].poll_timeout()
            );
            self.now = self.now.max(next);
            if flight == Some(next) {
                let flight = self.network.take().unwrap();
                let to = flight.to;
                if self.stopped == Some(to) {
                    self.waiting.push(flight);
                    continue;
                }
                self.ends[to].handle_channel(self.now, flight.channel, flight.codepoint, flight.bytes, flight.tos);
                self.drain(to);
            } else {
                for (end, timer) in timers.into_iter().enumerate() {
                    if timer == Some(next) {
                        self.ends[end].handle_timeout(self.now);
                        self.drain(end);
                    }
                }
            }
        }
        self.now = until;
    }

    /// The end's process does not run for so long. Then its timers run out late, and it reads what has come.
    pub fn stand_still(&mut self, end: usize, span: Span) {
        self.stopped = Some(end);
        self.run(span);
        self.stopped = None;
        self.ends[end].handle_timeout(self.now);
        for Flight { channel, codepoint, bytes, tos, .. } in std::mem::take(&mut self.waiting) {
            self.ends[end].handle_channel(self.now, channel, codepoint, bytes, tos);
        }
        self.drain(end);
    }

    /// Packets on their way.
    pub fn in_flight(&self) -> usize {
        self.network.frames().count()
    }
}

/// Packet `number` of `flow`: an IPv4 UDP datagram of `size` bytes, checksums right, DF set.
pub fn packet(flow: u16, number: u32, size: usize) -> Vec<u8> {
    let size = size.max(36);
    let mut p = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 1, 0, 1, 10, 2, 0, 1];
    p.extend_from_slice(&(1000 + flow).to_be_bytes());
    p.extend_from_slice(&[0, 53]);
    p.extend_from_slice(&(size as u16 - 20).to_be_bytes());
    p.extend_from_slice(&[0, 0]);
    p.extend_from_slice(&number.to_be_bytes());
    p.extend((0..size - 32).map(|n| (n as u32 ^ number) as u8));
    p[2..4].copy_from_slice(&(size as u16).to_be_bytes());
    let sum = fairspan_core::ip::checksum::of(&p[..20]);
    p[10..12].copy_from_slice(&sum.to_be_bytes());
    p
}

/// Flow and number of a packet made by [`packet`].
pub fn identity(packet: &[u8]) -> (u16, u32) {
    let flow = u16::from_be_bytes([packet[20], packet[21]]) - 1000;
    (flow, u32::from_be_bytes([packet[28], packet[29], packet[30], packet[31]]))
}

/// The reference model of an ordered bond: nothing invented or changed, nothing twice, each flow in order.
pub fn check_ordered(sent: &[Vec<u8>], delivered: &[(Time, Vec<u8>)]) -> Result<(), String> {
    check_once(sent, delivered)?;
    let mut newest: HashMap<u16, u32> = HashMap::new();
    for (at, p) in delivered {
        let (flow, number) = identity(p);
        if let Some(before) = newest.insert(flow, number)
            && before >= number
        {
            return Err(format!("flow {flow}: {number} delivered after {before} at {at:?}"));
        }
    }
    Ok(())
}

/// Nothing invented or changed, nothing twice.
pub fn check_once(sent: &[Vec<u8>], delivered: &[(Time, Vec<u8>)]) -> Result<(), String> {
    let sent: HashSet<&[u8]> = sent.iter().map(|p| &p[..]).collect();
    let mut seen = HashSet::new();
    for (at, p) in delivered {
        if !sent.contains(&p[..]) {
            return Err(format!("invented at {at:?}: {p:02x?}"));
        }
        if !seen.insert(&p[..]) {
            return Err(format!("twice, at {at:?}: {:?}", identity(p)));
        }
    }
    Ok(())
}
