//! Peers with gateways in the same daemon: TCP connections with what lies behind a peer are split before its bond (`[peer.split]`).
//!
//! Both are the machines that they are in a daemon of their own, and know nothing of each other: what leaves a gateway's socket comes out of
//! the bond's interface like any packet of this host's. A gateway has a configuration that follows from that of its peer
//! ([`Config::gateway_of`]).

use super::gateway::SplitGateway;
use super::peers::Peers;
use crate::config::{Config, Peer};
use crate::netlink::LinkChange;
use crate::reloaded::Reloaded;
use crate::secure::PublicKey;
use crate::shell::error::DaemonError;
use crate::shell::machine::{Machine, Order, TimerName};
use crate::shell::poller::{Poller, Token};
use crate::status::Status;
use fairspan_core::units::Time;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// What split connections go by, and who splits them. Dropping it undoes all that was done to the host's network.
pub(super) struct SplitPeers {
    /// Undone before the interface goes: then packets pass as they are.
    gateways: Vec<(Whose, SplitGateway)>,
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

impl SplitPeers {
    /// Opens everything that `config` names.
    ///
    /// # Errors
    /// The first thing that failed; what was done by then is undone.
    pub(super) fn start(config: Config, now: Time, poller: &Poller) -> Result<SplitPeers, DaemonError> {
        let wanted = wanted(&config, &[]);
        let peers = Peers::start(config, now, poller)?;
        let mut all = SplitPeers { gateways: Vec::new(), peers, poller: poller.clone() };
        for (whose, config) in wanted {
            let gateway = SplitGateway::start(config, now, poller)?;
            all.gateways.push((whose, gateway));
        }
        Ok(all)
    }

    /// Has the gateways be those of a configuration that the peers have taken over.
    fn follow(&mut self, now: Time, wanted: Vec<(Whose, Config)>, done: &mut Reloaded) {
        let mut before = std::mem::take(&mut self.gateways);
        for (whose, config) in wanted {
            let slot = slot_of(&config);
            let known = before.iter().position(|(_, gateway)| Some(gateway.slot()) == slot);
            let gateway = match known.map(|at| before.swap_remove(at).1) {
                Some(mut gateway) => {
                    let Reloaded { changed, failed, .. } = gateway.reload(now, config);
                    let of_peer = |line: &String| match line.strip_prefix("gateway.") {
                        Some(setting) => format!("peer {}: split.{setting}", whose.name),
                        None => format!("peer {}: split: {line}", whose.name),
                    };
                    done.changed.extend(changed.iter().map(of_peer));
                    done.failed.extend(failed.iter().map(of_peer));
                    gateway
                }
                None => match SplitGateway::start(config, now, &self.poller) {
                    Ok(gateway) => {
                        done.changed.push(format!("peer {}: split: begun", whose.name));
                        gateway
                    }
                    Err(error) => {
                        done.failed.push(format!("peer {}: split: {error}", whose.name));
                        continue;
                    }
                },
            };
            self.gateways.push((whose, gateway));
        }
        for (whose, gateway) in before {
            drop(gateway);
            done.changed.push(format!("peer {}: split: ended", whose.name));
        }
        done.ok = done.failed.is_empty();
    }
}

/// The gateways of a configuration. Those that there are keep their slots, and others get what is free.
fn wanted(config: &Config, there: &[(Whose, SplitGateway)]) -> Vec<(Whose, Config)> {
    let peers = || config.peers.iter().enumerate().filter(|(_, peer)| peer.split.is_some());
    let slot = |peer: &Peer| there.iter().find(|(whose, _)| whose.is(peer)).map(|(_, gateway)| gateway.slot());
    let mut taken: BTreeSet<u32> = there.iter().map(|(_, gateway)| gateway.slot()).collect();
    let mut wanted = Vec::new();
    for (number, peer) in peers() {
        let slot = slot(peer).or_else(|| (0..).find(|slot| !taken.contains(slot)));
        taken.extend(slot);
        let whose = Whose { key: peer.public_key, name: peer.name.clone() };
        wanted.extend(config.gateway_of(number, slot).map(|config| (whose, config)));
    }
    wanted
}

fn slot_of(config: &Config) -> Option<u32> {
    config.gateway.as_ref()?.of_peer.as_ref().map(|peer| peer.slot)
}

impl Machine for SplitPeers {
    fn order(&self) -> Order {
        self.peers.order()
    }

    fn handle_readable(&mut self, now: Time, token: Token) -> Result<(), DaemonError> {
        match self.gateways.iter_mut().find(|(_, gateway)| gateway.has(token)) {
            Some((_, gateway)) => gateway.handle_readable(now, token),
            None => self.peers.handle_readable(now, token),
        }
    }

    fn handle_writable(&mut self, now: Time, token: Token) {
        match self.gateways.iter_mut().find(|(_, gateway)| gateway.has(token)) {
            Some((_, gateway)) => gateway.handle_writable(now, token),
            None => self.peers.handle_writable(now, token),
        }
    }

    fn handle_link_change(&mut self, now: Time, change: LinkChange) -> Result<(), DaemonError> {
        for (_, gateway) in &mut self.gateways {
            gateway.handle_link_change(now, change.clone())?;
        }
        self.peers.handle_link_change(now, change)
    }

    fn handle_timeout(&mut self, now: Time) {
        self.peers.handle_timeout(now);
        self.gateways.iter_mut().for_each(|(_, gateway)| gateway.handle_timeout(now));
    }

    fn handle_housekeeping(&mut self, now: Time) {
        self.peers.handle_housekeeping(now);
        self.gateways.iter_mut().for_each(|(_, gateway)| gateway.handle_housekeeping(now));
    }

    fn poll_timeout(&self) -> Option<(Time, TimerName)> {
        let gateways = self.gateways.iter().filter_map(|(_, gateway)| gateway.poll_timeout());
        gateways.chain(self.peers.poll_timeout()).min_by_key(|(due, _)| *due)
    }

    fn drain(&mut self, now: Time) -> Result<(), DaemonError> {
        for (_, gateway) in &mut self.gateways {
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
        let wanted = wanted(&config, &self.gateways);
        let mut done = self.peers.reload(now, config);
        if done.is_taken() {
            self.follow(now, wanted, &mut done);
        }
        done
    }

    fn report(&self, now: Time, status: &mut Status) {
        self.peers.report(now, status);
        for (whose, gateway) in &self.gateways {
            let peer = status.peers.iter_mut().find(|peer| peer.name == whose.name);
            peer.into_iter().for_each(|peer| peer.split = Some(Box::new(gateway.gateway_status(now))));
        }
    }
}
