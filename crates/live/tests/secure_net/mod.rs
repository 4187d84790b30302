//! Two session layers joined by a seeded network that loses, delays, reorders and duplicates.

use fairspan_core::rng::Rng;
use fairspan_core::units::{ChannelId, Span, Time};
use fairspan_live::secure::*;
use std::net::SocketAddr;

pub(crate) const A: usize = 0;
pub(crate) const B: usize = 1;
/// Nanoseconds from 1970 to then.
pub(crate) const YEAR_2020: u64 = 1_577_836_800_000_000_000;

/// What the network does to a datagram.
#[derive(Clone, Copy)]
pub(crate) struct Weather {
    pub(crate) loss: f64,
    pub(crate) duplicate: f64,
    pub(crate) delay: Span,
    pub(crate) jitter: Span,
}

impl Weather {
    pub(crate) const FINE: Weather =
        Weather { loss: 0.0, duplicate: 0.0, delay: Span::from_millis(10), jitter: Span::from_millis(0) };
}

/// A datagram on its way, or recorded.
#[derive(Clone, Debug)]
pub(crate) struct Flying {
    pub(crate) due: Time,
    pub(crate) from: usize,
    pub(crate) bytes: Vec<u8>,
}

pub(crate) struct Net {
    pub(crate) now: Time,
    pub(crate) rng: Rng,
    pub(crate) weather: Weather,
    pub(crate) keys: [PrivateKey; 2],
    pub(crate) address: [SocketAddr; 2],
    pub(crate) ends: [Sessions; 2],
    pub(crate) configs: [Config; 2],
    pub(crate) psks: [Option<PresharedKey>; 2],
    pub(crate) peers: [PeerId; 2],
    pub(crate) paths: [Option<PathId>; 2],
    pub(crate) flying: Vec<Flying>,
    /// Everything ever sent.
    pub(crate) recorded: Vec<Flying>,
    /// Packets opened at each end.
    pub(crate) delivered: [Vec<Vec<u8>>; 2],
    pub(crate) events: [Vec<Event>; 2],
    /// Datagrams to other addresses than the two ends', where there are strangers.
    pub(crate) strays: Option<Vec<Transmit>>,
    born: u64,
}

pub(crate) fn sessions(config: &Config, key: &PrivateKey, seed: u64, now: Time) -> Sessions {
    // The wall clock is right.
    remembering(config, key, seed, Past::forgotten(YEAR_2020 + now.as_nanos()), now)
}

pub(crate) fn remembering(config: &Config, key: &PrivateKey, seed: u64, past: Past, now: Time) -> Sessions {
    Sessions::new(config.clone(), key.clone(), Box::new(SeededEntropy::new(seed)), past, now).unwrap()
}

impl Net {
    pub(crate) fn new(seed: u64) -> Net {
        Net::with(seed, [Config::default(), Config::default()], [None, None])
    }

    pub(crate) fn with(seed: u64, configs: [Config; 2], psks: [Option<PresharedKey>; 2]) -> Net {
        println!("seed {seed}");
        let mut entropy = SeededEntropy::new(seed);
        let keys = [PrivateKey::generate(&mut entropy), PrivateKey::generate(&mut entropy)];
        let now = Time::from_millis(1000);
        let mut ends =
            [sessions(&configs[A], &keys[A], seed + 1000, now), sessions(&configs[B], &keys[B], seed + 2000, now)];
        let peers = [add(&mut ends[A], &keys[B], &psks[A]), add(&mut ends[B], &keys[A], &psks[B])];
        Net {
            now,
            rng: Rng::new(seed),
            weather: Weather::FINE,
            keys,
            address: ["192.0.2.1:1000".parse().unwrap(), "192.0.2.2:2000".parse().unwrap()],
            ends,
            configs,
            psks,
            peers,
            paths: [None, None],
            flying: Vec::new(),
            recorded: Vec::new(),
            delivered: [Vec::new(), Vec::new()],
            events: [Vec::new(), Vec::new()],
            strays: None,
            born: seed + 3000,
        }
    }

    /// `end` opens channel 0 to the other.
    pub(crate) fn connect(&mut self, end: usize) {
        let hello = if end == A { b"from a".to_vec() } else { b"from b".to_vec() };
        let to = self.address[1 - end];
        self.paths[end] =
            Some(self.ends[end].connect(self.now, self.peers[end], ChannelId(0), SocketId(0), to, hello).unwrap());
        self.drain(end);
    }

    /// `end` dies and comes back with nothing but its configuration, and a clock that is right.
    pub(crate) fn restart(&mut self, end: usize) {
        self.restart_with(end, Past::forgotten(YEAR_2020 + self.now.as_nanos()));
    }

    /// `end` dies and comes back with its configuration and this past.
    pub(crate) fn restart_with(&mut self, end: usize, past: Past) {
        self.born += 1;
        self.ends[end] = remembering(&self.configs[end], &self.keys[end], self.born, past, self.now);
        self.peers[end] = add(&mut self.ends[end], &self.keys[1 - end], &self.psks[end]);
        self.paths[end] = None;
    }

    /// Seals and sends a packet; false without a session.
    pub(crate) fn send(&mut self, end: usize, body: &[u8]) -> bool {
        let Some(path) = self.paths[end] else { return false };
        let mut out = vec![0; self.ends[end].sealed_len(body.len()) + 2];
        match self.ends[end].seal(self.now, path, 0, &body[..body.len() / 2], &body[body.len() / 2..], &mut out) {
            Ok(len) => {
                assert_eq!(len, self.ends[end].sealed_len(body.len()));
                out.truncate(len);
                self.fly(end, out);
                self.drain(end);
                true
            }
            Err(SealError::NoSession) => false,
            Err(error) => panic!("{error}"),
        }
    }

    fn fly(&mut self, from: usize, bytes: Vec<u8>) {
        self.recorded.push(Flying { due: self.now, from, bytes: bytes.clone() });
        let copies = 1 + usize::from(self.rng.unit() < self.weather.duplicate);
        for _ in 0..copies {
            if self.rng.unit() >= self.weather.loss {
                let jitter = Span::from_nanos(self.rng.below(self.weather.jitter.as_nanos() + 1));
                self.flying.push(Flying { due: self.now + self.weather.delay + jitter, from, bytes: bytes.clone() });
            }
        }
    }

    pub(crate) fn drain(&mut self, end: usize) {
        while let Some(sent) = self.ends[end].poll_transmit() {
            match &mut self.strays {
                Some(strays) if sent.destination != self.address[1 - end] => strays.push(sent),
                _ => {
                    assert_eq!(sent.destination, self.address[1 - end]);
                    self.fly(end, sent.payload);
                }
            }
        }
        while let Some(event) = self.ends[end].poll_event() {
            if let Event::Established { path, .. } = &event {
                self.paths[end] = Some(*path);
            }
            self.events[end].push(event);
        }
    }

    /// Gives `end` a datagram as coming from the other's address.
    pub(crate) fn give(&mut self, end: usize, bytes: &[u8]) -> Received {
        self.give_from(end, self.address[1 - end], bytes)
    }

    pub(crate) fn give_from(&mut self, end: usize, source: SocketAddr, bytes: &[u8]) -> Received {
        let mut out = vec![0; bytes.len()];
        let received = self.ends[end].handle_datagram(self.now, SocketId(0), source, bytes, &mut out);
        if let Received::Data(data) = received {
            self.delivered[end].push(out[..data.len].to_vec());
        }
        received
    }

    /// Lets `span` pass.
    pub(crate) fn run(&mut self, span: Span) {
        let end = self.now + span;
        loop {
            let arrival = self.flying.iter().map(|flying| flying.due).min();
            let timers = self.ends.iter().filter_map(Sessions::poll_timeout).min();
            let next = arrival.into_iter().chain(timers).min().unwrap_or(Time::MAX).max(self.now);
            if next > end {
                break;
            }
            self.now = next;
            for side in [A, B] {
                self.ends[side].handle_timeout(next);
                assert!(self.ends[side].poll_timeout().is_none_or(|time| time > next), "a deadline that stays");
                self.drain(side);
            }
            if let Some(place) = self.flying.iter().position(|flying| flying.due <= next) {
                let arrived = self.flying.remove(place);
                self.give(1 - arrived.from, &arrived.bytes);
                self.drain(1 - arrived.from);
            }
        }
        self.now = end;
    }

    /// Connects from A and waits until both ends have told so.
    pub(crate) fn establish(&mut self) {
        self.connect(A);
        self.run(Span::from_millis(500));
        for end in [A, B] {
            assert!(matches!(self.events[end].first(), Some(Event::Established { .. })), "{:?}", self.events[end]);
        }
    }

    pub(crate) fn is_up(&self, end: usize) -> bool {
        self.paths[end].is_some_and(|path| self.ends[end].can_seal(path))
    }

    pub(crate) fn count(&self, end: usize, which: impl Fn(&Event) -> bool) -> usize {
        self.events[end].iter().filter(|event| which(event)).count()
    }
}

fn add(end: &mut Sessions, key: &PrivateKey, psk: &Option<PresharedKey>) -> PeerId {
    let mut config = PeerConfig::new(key.public_key());
    config.preshared_key = psk.clone();
    config.hello = b"answer".to_vec();
    end.add_peer(config).unwrap()
}
