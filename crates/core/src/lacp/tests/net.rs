//! Systems that are wired to each other, over cables that lose, delay and are pulled.

use crate::lacp::*;
use crate::rng::Rng;
use crate::select::ieee8023ad::Config;
use crate::units::{ChannelId, Rate, Span, Time};
use crate::wire::mac::Mac;
use alloc::vec::Vec;
use std::collections::BTreeMap;

/// A system and one of its ports.
pub(super) type End = (usize, u8);

pub(super) struct Lan {
    pub(super) now: Time,
    pub(super) systems: Vec<Lacp>,
    pub(super) cables: BTreeMap<End, End>,
    pub(super) links: BTreeMap<End, PortLink>,
    /// Frames that are lost of 100.
    pub(super) loss: u64,
    pub(super) rng: Rng,
    pub(super) under_way: Vec<(Time, End, [u8; FRAME_LEN])>,
    /// When each LACPDU left.
    pub(super) sent: Vec<(Time, End)>,
    pub(super) events: Vec<(Time, usize, Event)>,
}

pub(super) const DELAY: Span = Span::from_millis(1);

impl Lan {
    pub(super) fn new(configs: &[Config]) -> Lan {
        let system = |(n, config)| Lacp::new(config, Mac([2, 0, 0, 0, 0, n as u8 + 1]));
        Lan {
            now: Time::ZERO,
            systems: configs.iter().enumerate().map(system).collect(),
            cables: BTreeMap::new(),
            links: BTreeMap::new(),
            loss: 0,
            rng: Rng::new(7),
            under_way: Vec::new(),
            sent: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Two systems, with a cable for each rate.
    pub(super) fn pair(a: Config, b: Config, mbit: &[u64]) -> Lan {
        let mut lan = Lan::new(&[a, b]);
        for (port, mbit) in mbit.iter().enumerate() {
            lan.plug((0, port as u8), (1, port as u8), *mbit);
        }
        lan
    }

    pub(super) fn set(&mut self, end: End, link: PortLink) {
        self.links.insert(end, link);
        self.systems[end.0].set_port(self.now, ChannelId(end.1), link);
        self.drain();
    }

    pub(super) fn plug(&mut self, a: End, b: End, mbit: u64) {
        self.cables.insert(a, b);
        self.cables.insert(b, a);
        for end in [a, b] {
            self.set(end, PortLink::up(Mac([2, 0, 0, 1, end.0 as u8, end.1]), Rate::from_mbit(mbit)));
        }
    }

    /// Both ends lose their carrier.
    pub(super) fn pull(&mut self, a: End) {
        let b = self.cables.remove(&a).expect("a cable");
        self.cables.remove(&b);
        for end in [a, b] {
            self.set(end, self.links[&end].down());
        }
    }

    /// Frames no longer come through, and nobody sees it.
    pub(super) fn cut(&mut self, a: End) {
        let b = self.cables.remove(&a).expect("a cable");
        self.cables.remove(&b);
    }

    pub(super) fn drain(&mut self) {
        for n in 0..self.systems.len() {
            while let Some(Transmit { port, frame }) = self.systems[n].poll_transmit() {
                if matches!(Pdu::decode(&frame), Ok(Pdu::Lacp(_))) {
                    self.sent.push((self.now, (n, port.0)));
                }
                let lost = self.rng.below(100) < self.loss;
                if let (Some(to), false) = (self.cables.get(&(n, port.0)), lost) {
                    self.under_way.push((self.now + DELAY, *to, frame));
                }
            }
            while let Some(event) = self.systems[n].poll_event() {
                self.events.push((self.now, n, event));
            }
        }
    }

    pub(super) fn run(&mut self, span: Span) {
        let end = self.now + span;
        loop {
            self.drain();
            let timers = self.systems.iter().filter_map(Lacp::poll_timeout);
            let next = timers.chain(self.under_way.iter().map(|(at, ..)| *at)).min().filter(|next| *next <= end);
            let Some(next) = next else { break };
            assert!(next > self.now || !self.under_way.is_empty(), "a timer that does not stop at {next:?}");
            self.now = self.now.max(next);
            self.under_way.sort_by_key(|(at, ..)| *at);
            while self.under_way.first().is_some_and(|(at, ..)| *at <= self.now) {
                let (_, (n, port), frame) = self.under_way.remove(0);
                self.systems[n].handle_pdu(self.now, ChannelId(port), &frame).expect("what a system sends is right");
            }
            for system in &mut self.systems {
                system.handle_timeout(self.now);
            }
        }
        self.now = end;
        self.systems.iter_mut().for_each(|system| system.handle_timeout(end));
        self.drain();
        self.check();
    }

    /// What holds always.
    pub(super) fn check(&self) {
        for (n, system) in self.systems.iter().enumerate() {
            let status = system.status();
            assert!(status.aggregators.iter().filter(|a| a.active).count() <= 1);
            for port in &status.ports {
                let of = status.aggregators.iter().filter(|a| a.ports.contains(port.port)).count();
                assert!(of <= 1 && (of == 1) == port.aggregator.is_some(), "{status}");
                if matches!(port.mux, MuxState::Collecting | MuxState::Distributing) {
                    let active = status.aggregators.iter().any(|a| a.active && a.ports.contains(port.port));
                    assert!(active && port.partner.state.has(State::SYNCHRONIZATION), "{status}");
                }
                let says = [State::COLLECTING, State::DISTRIBUTING].map(|flag| port.actor.state.has(flag));
                let does = [MuxState::Collecting, MuxState::Distributing].map(|least| port.mux as u8 >= least as u8);
                assert_eq!(says, does, "{status}");
                assert!(!says[0] || port.actor.state.has(State::SYNCHRONIZATION), "{status}");
            }
            let mut times: BTreeMap<u8, Vec<Time>> = BTreeMap::new();
            for (at, (_, port)) in self.sent.iter().filter(|(_, end)| end.0 == n) {
                times.entry(*port).or_default().push(*at);
            }
            for times in times.values() {
                for window in times.windows(MAX_TX_IN_SECOND + 1) {
                    assert!(
                        window[MAX_TX_IN_SECOND].since(window[0]) >= FAST_PERIODIC_TIME,
                        "four LACPDUs in a second"
                    );
                }
            }
        }
    }

    pub(super) fn distributing(&self, n: usize) -> u64 {
        self.systems[n].distributing().bits()
    }

    pub(super) fn port(&self, end: End) -> PortStatus {
        self.systems[end.0].port(ChannelId(end.1)).expect("a port")
    }
}
