//! The bond as a whole against a reference model: the fuzzer is the network.

use fairspan_core::bond::{Bond, Codepoint, Compression, Config, Link, Mode, Scheduler};
use fairspan_core::ip::{Header, checksum};
use fairspan_core::rng::Rng;
use fairspan_core::select::Policy;
use fairspan_core::units::{ChannelId, Rate, Span, Time};
use std::collections::{HashMap, HashSet, VecDeque};

const CHANNELS: usize = 3;
const HOLD: usize = 200_000;

type Frame = (Codepoint, Vec<u8>, u8);

struct Model {
    now: Time,
    config: Config,
    ends: [Bond<Vec<u8>>; 2],
    /// Frames on their way from each end, by channel.
    flights: [Vec<VecDeque<Frame>>; 2],
    sent: [HashSet<Vec<u8>>; 2],
    delivered: [HashSet<Vec<u8>>; 2],
    newest: [HashMap<u16, u32>; 2],
    next: u32,
}

fn config(choice: u8) -> Config {
    let mut config = Config::default();
    let modes = [Mode::Ordered, Mode::Duplicate, Mode::Backup, Mode::Stripe, Mode::Plain, Mode::Flow, Mode::Reliable];
    config.mode = modes[usize::from(choice % 7)];
    let policies = ["brr:5ms", "balance-rr:flush=on", "traffic_meter", "broadcast", "brr:1ms,flush=on,flush_wait=5ms"];
    config.policy = policies[usize::from(choice / 7 % 5)].parse().expect("a policy");
    if config.mode != Mode::Stripe {
        config.scheduler = [Scheduler::Srr, Scheduler::Rr, Scheduler::Grr, Scheduler::Rfq][usize::from(choice / 7 % 4)];
    }
    if choice % 2 == 1 {
        config.compress_headers = Compression::On;
    }
    config.hold_bytes = HOLD;
    config.parity = true;
    // So small that the bound on what is held means something.
    config.queue_bytes = 1 << 17;
    config.channels = vec![Default::default(); CHANNELS];
    if choice >= 128 {
        for (n, channel) in config.channels.iter_mut().enumerate() {
            channel.rate = Some(Rate::from_mbit(1 + n as u64));
            channel.raw = choice >= 192;
        }
    }
    config
}

fn fresh(config: &Config, now: Time, seed: u64) -> Bond<Vec<u8>> {
    let mut bond = Bond::new(config.clone(), now, seed).expect("valid settings");
    for channel in 0..CHANNELS {
        bond.set_link(now, ChannelId(channel as u8), Link::Up);
    }
    bond
}

fn packet(flow: u16, number: u32, size: usize) -> Vec<u8> {
    let size = size.max(32);
    let mut p = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 1, 0, 1, 10, 2, 0, 1];
    p.extend_from_slice(&flow.to_be_bytes());
    p.extend_from_slice(&[0, 53]);
    p.extend_from_slice(&(size as u16 - 20).to_be_bytes());
    p.extend_from_slice(&[0, 0]);
    p.extend_from_slice(&number.to_be_bytes());
    p.resize(size, number as u8);
    p[2..4].copy_from_slice(&(size as u16).to_be_bytes());
    // Half of the flows are urgent: DSCP EF.
    p[1] = if flow & 4 != 0 { 46 << 2 } else { 0 };
    let sum = checksum::of(&p[..20]);
    p[10..12].copy_from_slice(&sum.to_be_bytes());
    p
}

impl Model {
    fn new(choice: u8) -> Model {
        let config = config(choice);
        let now = Time::from_millis(1000);
        let ends = [fresh(&config, now, 1), fresh(&config, now, 2)];
        Model {
            now,
            config,
            ends,
            flights: Default::default(),
            sent: Default::default(),
            delivered: Default::default(),
            newest: Default::default(),
            next: 0,
        }
        .with_queues()
    }

    fn with_queues(mut self) -> Model {
        for queues in &mut self.flights {
            queues.resize_with(CHANNELS, VecDeque::new);
        }
        self.drain(0);
        self.drain(1);
        self
    }

    fn host(&mut self, end: usize, flow: u16, size: usize) {
        self.next += 1;
        let p = packet(flow, self.next, size);
        self.sent[end].insert(p.clone());
        self.ends[end].handle_host(self.now, p);
        self.drain(end);
    }

    fn arrive(&mut self, to: usize, channel: usize, twice: bool) {
        if let Some((codepoint, bytes, tos)) = self.flights[1 - to][channel].pop_front() {
            if twice {
                self.flights[1 - to][channel].push_front((codepoint, bytes.clone(), tos));
            }
            self.ends[to].handle_channel(self.now, ChannelId(channel as u8), codepoint, bytes, tos);
            self.drain(to);
        }
    }

    fn pass(&mut self, span: Span) {
        let until = self.now + span;
        for _ in 0..2000 {
            let due = [0, 1].map(|end| self.ends[end].poll_timeout().map(|t| t.0.max(self.now)));
            let Some((end, at)) = (0..2).filter_map(|end| due[end].map(|at| (end, at))).min_by_key(|t| t.1) else {
                break;
            };
            if at > until {
                break;
            }
            self.now = at;
            self.ends[end].handle_timeout(at);
            self.drain(end);
        }
        self.now = until;
    }

    fn drain(&mut self, end: usize) {
        while let Some(frame) = self.ends[end].poll_transmit(self.now) {
            let bytes = [frame.head.as_slice(), frame.body()].concat();
            let packet = frame.packet.unwrap_or_default();
            if self.ends[end].wants_back() {
                self.ends[end].give_back(packet);
            }
            let queue = &mut self.flights[end][frame.channel.index()];
            if queue.len() < 500 {
                queue.push_back((frame.codepoint, bytes, frame.tos));
            }
        }
        while let Some(p) = self.ends[end].poll_deliver() {
            self.check(end, p);
        }
        while self.ends[end].poll_event().is_some() {}
        let bound = HOLD + self.config.queue_bytes;
        assert!(self.ends[end].held_bytes() <= bound, "memory beyond the bound");
    }

    /// The reference: nothing invented, nothing twice, in order within a flow where the mode promises it.
    fn check(&mut self, end: usize, p: Vec<u8>) {
        assert!(self.sent[1 - end].contains(&p), "invented: {p:02x?}");
        let flow = u16::from_be_bytes([p[20], p[21]]);
        let number = u32::from_be_bytes([p[28], p[29], p[30], p[31]]);
        let policy = &self.config.policy.policy;
        let (numbered, ordered) = match self.config.mode {
            Mode::Ordered | Mode::Reliable | Mode::Backup => (true, true),
            Mode::Duplicate => (true, false),
            Mode::Flow => (
                matches!(policy, Policy::TrafficMeter(_) | Policy::Broadcast(_)),
                matches!(policy, Policy::TrafficMeter(_)),
            ),
            Mode::Plain | Mode::Stripe => (false, false),
        };
        if ordered {
            let before = self.newest[end].insert(flow, number);
            assert!(before.is_none_or(|before| before < number), "flow {flow}: {number} after {before:?}");
        }
        // Copies that the network makes are the host's to see in modes without sequence numbers.
        let once = self.delivered[end].insert(p);
        assert!(once || !numbered, "delivered twice: {flow} {number}");
    }
}

/// Two bonds, and the fuzzer decides what each host sends and what the network does: which frame arrives next, is lost
/// or comes twice, how time passes, which link goes and which end restarts.
pub fn bond(data: &[u8]) {
    let [choice, steps @ ..] = data else { return };
    let mut model = Model::new(*choice);
    for step in steps.as_chunks::<2>().0.iter().take(2000) {
        let [what, n] = *step;
        let (end, channel) = (usize::from(n & 1), usize::from(n >> 1) % CHANNELS);
        match what % 16 {
            0..4 => model.host(end, u16::from(n >> 1 & 7), usize::from(what) * 5 + 32),
            4..8 => {
                for _ in 0..1 + what / 64 {
                    model.arrive(end, channel, false);
                }
            }
            8 => model.arrive(end, channel, true),
            9 | 10 => drop(model.flights[1 - end][channel].pop_front()),
            11 => model.pass(Span::from_millis(u64::from(n))),
            12 => model.pass(Span::from_micros(u64::from(n))),
            13 => {
                let state = if n & 0x80 == 0 { Link::Up } else { Link::Down };
                model.ends[end].set_link(model.now, ChannelId(channel as u8), state);
                model.drain(end);
            }
            14 => {
                model.ends[end].set_blocked(model.now, ChannelId(channel as u8), n & 0x80 != 0);
                model.drain(end);
            }
            _ if n & 0xf0 == 0xf0 => {
                // A restart. A frame from before that comes late may bring back what was delivered: the secure layer
                // below keeps the sessions apart, a bare bond for ten seconds only. So the network is emptied.
                for queues in &mut model.flights {
                    queues.iter_mut().for_each(VecDeque::clear);
                }
                let seed = u64::from(n) << 32 | u64::from(model.next);
                model.ends[end] = fresh(&model.config, model.now, seed);
                model.drain(end);
            }
            _ => model.pass(Span::from_millis(u64::from(n) * 20)),
        }
    }
}

/// One bond, and the fuzzer is its peer: nothing may panic, grow beyond its bound, or deliver what is no packet.
pub fn bond_hostile(data: &[u8]) {
    let Some((choice, mut rest)) = data.split_first() else { return };
    let config = config(*choice);
    let mut now = Time::from_millis(1);
    let mut bond = fresh(&config, now, 1);
    let mut rng = Rng::new(u64::from(*choice));
    while let [length, channel, wait, tail @ ..] = rest {
        let (frame, tail) = tail.split_at(tail.len().min(usize::from(*length)));
        rest = tail;
        let codepoint = if channel & 0x80 != 0 { Codepoint::Raw } else { Codepoint::Envelope };
        let mut bytes = frame.to_vec();
        if channel & 0x40 != 0 {
            // A whole packet behind whatever envelope the fuzzer wrote.
            bytes.extend(packet(1, rng.next_u64() as u32, 100));
        }
        bond.handle_channel(now, ChannelId(channel & 0x3f), codepoint, bytes, *wait);
        while let Some(frame) = bond.poll_transmit(now) {
            let packet = frame.packet.unwrap_or_default();
            assert!(packet.len() < 65_536);
            if bond.wants_back() {
                bond.give_back(packet);
            }
        }
        while let Some(p) = bond.poll_deliver() {
            let header = Header::parse(&p, p.len());
            assert!(header.is_ok_and(|h| h.total == p.len()), "delivered {p:02x?}");
        }
        while bond.poll_event().is_some() {}
        assert!(bond.held_bytes() <= HOLD + config.queue_bytes);
        assert!(bond.kept_bytes() <= config.resend_bytes && bond.parity_bytes() < 8_200_000);
        now += Span::from_millis(u64::from(*wait));
        bond.handle_timeout(now);
    }
}
