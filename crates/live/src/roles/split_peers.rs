//! Peers with gateways in the same daemon: TCP connections with what lies behind a peer are split before its bond (`[peer.split]`).
//!
//! Both are the machines that they are in a daemon of their own, and know nothing of each other: what leaves a gateway's socket comes out of
//! the bond's interface like any packet of this host's. A gateway has a configuration that follows from that of its peer
//! ([`Config::gateway_of`]). One that cannot be had is no reason to be without the bond: what it would split passes, and it is tried again.

use super::gateway::SplitGateway;
use super::peers::Peers;
use crate::config::{Config, Peer};
use crate::netlink::LinkChange;
use crate::reloaded::Reloaded;
use crate::secure::PublicKey;
use crate::shell::error::DaemonError;
use crate::shell::machine::{Machine, Order, TimerName};
use crate::shell::poller::{Poller, Token};
use crate::status::{GatewayStatus, Status};
use fairspan_core::units::{Span, Time};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Between two attempts to have a gateway as its file wants it: at first, and at most.
const AGAIN: (Span, Span) = (Span::from_secs(1), Span::from_secs(30));

/// What split connections go by, and who splits them. Dropping it undoes all that was done to the host's network.
pub(super) struct SplitPeers {
    /// Undone before the interface goes: then packets pass as they are.
    seats: Vec<Seat>,
    peers: Peers,
    poller: Poller,
}

/// A peer, who is known by its key, or where it has none, by its name.
struct Whose {
    key: Option<PublicKey>,
    name: String,
}

impl Whose {
    fn is(&self, peer: &Peer) -> bool {
        match (self.key, peer.public_key) {
            (None, None) => self.name == peer.name,
            (one, other) => one == other,
        }
    }
}

/// The place of a peer's gateway. Without it, or with it as it was before, the bond goes on: what it would split passes.
struct Seat {
    whose: Whose,
    slot: u32,
    gateway: Option<SplitGateway>,
    /// What the file wants and could not be done.
    failed: Option<Failed>,
}

/// A gateway that could not be had as its file wants it.
struct Failed {
    config: Config,
    why: String,
    pause: Span,
    again: Time,
}

impl Seat {
    fn new(whose: Whose, config: Config, now: Time, poller: &Poller) -> Seat {
        let mut seat = Seat { whose, slot: slot_of(&config).unwrap_or_default(), gateway: None, failed: None };
        seat.attempt(now, config, poller);
        seat
    }

    /// Has the gateway be as `config` says, now or later; what a reload tells of it.
    fn attempt(&mut self, now: Time, config: Config, poller: &Poller) -> Reloaded {
        let before = self.failed.take();
        let mut done = match (&mut self.gateway, config.own_gateway()) {
            (_, None) => Reloaded::default(),
            (Some(gateway), Some(config)) => gateway.reload(now, config),
            (None, Some(config)) => match SplitGateway::start(config, now, poller) {
                Ok(gateway) => {
                    self.gateway = Some(gateway);
                    Reloaded { ok: true, changed: vec!["begun".to_owned()], ..Reloaded::default() }
                }
                Err(error) => Reloaded { failed: vec![error.to_string()], ..Reloaded::default() },
            },
        };
        let why = done.failed.iter().chain(&done.needs_restart).cloned().collect::<Vec<_>>().join("; ");
        let peer = &self.whose.name;
        if why.is_empty() {
            if before.is_some() {
                tracing::info!(peer, "its gateway works as the file has it");
            }
        } else {
            if before.as_ref().is_none_or(|before| before.why != why) {
                tracing::warn!(
                    peer,
                    why,
                    "its gateway is not as the file has it: what it would split passes, and it is tried again"
                );
            }
            let pause = before.map_or(AGAIN.0, |before| before.pause.times(2).min(AGAIN.1));
            self.failed = Some(Failed { config, why, pause, again: now + pause });
        }
        for line in done.changed.iter_mut().chain(&mut done.failed) {
            *line = match line.strip_prefix("gateway.") {
                Some(setting) => format!("peer {peer}: split.{setting}"),
                None => format!("peer {peer}: split: {line}"),
            };
        }
        done
    }

    fn handle_timeout(&mut self, now: Time, poller: &Poller) {
        let due = self.failed.as_ref().filter(|failed| failed.again <= now);
        if let Some(config) = due.and_then(|failed| failed.config.own_gateway()) {
            self.attempt(now, config, poller);
        }
        self.gateway.iter_mut().for_each(|gateway| gateway.handle_timeout(now));
    }

    fn poll_timeout(&self) -> Option<(Time, TimerName)> {
        let again = self.failed.as_ref().map(|failed| (failed.again, TimerName("gateway")));
        let gateway = self.gateway.as_ref().and_then(Machine::poll_timeout);
        again.into_iter().chain(gateway).min_by_key(|(due, _)| *due)
    }

    fn status(&self, now: Time) -> Option<GatewayStatus> {
        let why = self.failed.as_ref().map(|failed| failed.why.clone());
        let mut status = match (&self.gateway, &self.failed) {
            (Some(gateway), _) => gateway.gateway_status(now),
            (None, Some(failed)) => SplitGateway::absent_status(failed.config.gateway.as_ref()?),
            (None, None) => return None,
        };
        status.problem = why.or(status.problem);
        Some(status)
    }
}

impl SplitPeers {
    /// Opens everything that `config` names. A gateway that cannot be had is tried again.
    ///
    /// # Errors
    /// The first thing that the bonds could not have; what was done by then is undone.
    pub(super) fn start(config: Config, now: Time, poller: &Poller) -> Result<SplitPeers, DaemonError> {
        let wanted = wanted(&config, &[]);
        if wanted.is_empty() {
            // Else the first gateway does it.
            SplitGateway::clear_killed();
        }
        let peers = Peers::start(config, now, poller)?;
        let seats = wanted.into_iter().map(|(whose, config)| Seat::new(whose, config, now, poller)).collect();
        Ok(SplitPeers { seats, peers, poller: poller.clone() })
    }

    /// Has the gateways be those of a configuration that the peers have taken over.
    fn follow(&mut self, now: Time, wanted: Vec<(Whose, Config)>, done: &mut Reloaded) {
        let mut before = std::mem::take(&mut self.seats);
        for (whose, config) in wanted {
            let slot = slot_of(&config);
            let known = before.iter().position(|seat| Some(seat.slot) == slot);
            let mut seat = match known.map(|at| before.swap_remove(at)) {
                Some(seat) => Seat { whose, ..seat },
                None => Seat { whose, slot: slot.unwrap_or_default(), gateway: None, failed: None },
            };
            let Reloaded { changed, failed, .. } = seat.attempt(now, config, &self.poller);
            done.changed.extend(changed);
            done.failed.extend(failed);
            self.seats.push(seat);
        }
        for seat in before {
            done.changed.push(format!("peer {}: split: ended", seat.whose.name));
        }
        done.ok = done.failed.is_empty();
    }
}

/// The gateways of a configuration. Those that there are keep their slots, and others get what is free.
fn wanted(config: &Config, there: &[Seat]) -> Vec<(Whose, Config)> {
    let peers = || config.peers.iter().enumerate().filter(|(_, peer)| peer.split.is_some());
    let slot = |peer: &Peer| there.iter().find(|seat| seat.whose.is(peer)).map(|seat| seat.slot);
    let mut taken: BTreeSet<u32> = there.iter().map(|seat| seat.slot).collect();
    let mut wanted = Vec::new();
    for (number, peer) in peers() {
        let slot = slot(peer).or_else(|| (0..).find(|slot| !taken.contains(slot)));
        taken.extend(slot);
        let whose = Whose { key: peer.public_key, name: peer.name.clone() };
        wanted.extend(config.gateway_of(number, slot).map(|config| (whose, config)));
    }
    wanted
}

fn gateways(seats: &mut [Seat]) -> impl Iterator<Item = &mut SplitGateway> {
    seats.iter_mut().filter_map(|seat| seat.gateway.as_mut())
}

fn slot_of(config: &Config) -> Option<u32> {
    config.gateway.as_ref()?.of_peer.as_ref().map(|peer| peer.slot)
}

impl Machine for SplitPeers {
    fn order(&self) -> Order {
        self.peers.order()
    }

    fn handle_readable(&mut self, now: Time, token: Token) -> Result<(), DaemonError> {
        match gateways(&mut self.seats).find(|gateway| gateway.has(token)) {
            Some(gateway) => gateway.handle_readable(now, token),
            None => self.peers.handle_readable(now, token),
        }
    }

    fn handle_writable(&mut self, now: Time, token: Token) {
        match gateways(&mut self.seats).find(|gateway| gateway.has(token)) {
            Some(gateway) => gateway.handle_writable(now, token),
            None => self.peers.handle_writable(now, token),
        }
    }

    fn handle_link_change(&mut self, now: Time, change: LinkChange) -> Result<(), DaemonError> {
        for gateway in gateways(&mut self.seats) {
            gateway.handle_link_change(now, change.clone())?;
        }
        self.peers.handle_link_change(now, change)
    }

    fn handle_timeout(&mut self, now: Time) {
        self.peers.handle_timeout(now);
        self.seats.iter_mut().for_each(|seat| seat.handle_timeout(now, &self.poller));
    }

    fn handle_housekeeping(&mut self, now: Time) {
        self.peers.handle_housekeeping(now);
        gateways(&mut self.seats).for_each(|gateway| gateway.handle_housekeeping(now));
    }

    fn poll_timeout(&self) -> Option<(Time, TimerName)> {
        let gateways = self.seats.iter().filter_map(Seat::poll_timeout);
        gateways.chain(self.peers.poll_timeout()).min_by_key(|(due, _)| *due)
    }

    fn drain(&mut self, now: Time) -> Result<(), DaemonError> {
        for gateway in gateways(&mut self.seats) {
            gateway.drain(now)?;
        }
        self.peers.drain(now)
    }

    fn interface(&self) -> &str {
        self.peers.interface()
    }

    fn mtu(&self) -> usize {
        self.peers.mtu()
    }

    fn poll_lookup(&mut self) -> Option<String> {
        self.peers.poll_lookup()
    }

    fn handle_addresses(&mut self, now: Time, host: &str, found: Result<Vec<IpAddr>, String>) {
        self.peers.handle_addresses(now, host, found);
    }

    fn reload(&mut self, now: Time, config: Config) -> Reloaded {
        let wanted = wanted(&config, &self.seats);
        let mut done = self.peers.reload(now, config);
        if done.is_taken() {
            self.follow(now, wanted, &mut done);
        }
        done
    }

    fn take_out(&mut self, now: Time, of: &str, name: &str, out: bool) -> Result<(), String> {
        self.peers.take_out(now, of, name, out)
    }

    fn report(&self, now: Time, status: &mut Status) {
        self.peers.report(now, status);
        for seat in &self.seats {
            let peer = status.peers.iter_mut().find(|peer| peer.name == seat.whose.name);
            peer.into_iter().for_each(|peer| peer.split = seat.status(now).map(Box::new));
        }
    }
}
