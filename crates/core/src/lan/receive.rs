//! Receive balancing of `balance-alb`: each client is told another link's address for ours.
//!
//! What it is: a client sends to the Ethernet address that ARP (or, over IPv6, neighbour discovery) gave it for ours. What
//! leaves to a client says the address of the link that the client is assigned to, so that the switch brings its frames to
//! that link. Source: the kernel's bonding documentation (balance-alb) and what the Linux 6.1 driver does for ARP; RFC 826;
//! RFC 4861, sections 7.2.4 and 7.2.6.
//!
//! | what leaves | what becomes of it |
//! |---|---|
//! | an ARP answer to a client | says the assigned link's address, and leaves there |
//! | an ARP question | leaves as it is on the current link: all who hear it learn the bond's address, and are told theirs again after [`UPDATE_DELAY`] |
//! | a neighbour solicitation or an advertisement for one client | says the assigned link's address, and leaves there |
//! | an update | an ARP answer, or an advertisement with the override flag, that nobody asked for, to a client whose address for us is to change |
//!
//! Departures: IPv6 too (the driver balances IPv4 only); links get clients in proportion to their rates, where the driver
//! takes the fastest in turn; a full table tells the client that it forgets longest-unseen first, where the driver's places
//! collide. Cost: nothing for a packet that is neither ARP nor neighbour discovery; for those O(clients), at most
//! [`CLIENTS`]. Invariants: a client is assigned to a usable link while there is one; only who talked with us is told
//! anything.

use super::frame::{Arp, Neighbour};
use crate::select::Links;
use crate::set::LinkSet;
use crate::units::{ChannelId, Span, Time};
use crate::wire::mac::Mac;
use alloc::vec::Vec;
use core::net::IpAddr;

/// Most clients that are balanced; the others send to the bond's address.
pub(super) const CLIENTS: usize = 256;
/// After a question to all, how long until clients are told their own addresses again: its answer is to come first.
const UPDATE_DELAY: Span = Span::from_secs(2);
/// Between the updates of one change, and how many there are: one may be lost.
const UPDATE_INTERVAL: Span = Span::from_millis(200);
const UPDATES: u8 = 2;
/// What a link whose rate is not known counts as.
const UNKNOWN_RATE: u64 = 1_000_000_000;

/// Whoever sends to one of our addresses.
#[derive(Clone, Copy, Debug)]
struct Client {
    ours: IpAddr,
    theirs: IpAddr,
    /// Where it is, once that is known.
    mac: Option<Mac>,
    link: ChannelId,
    /// Updates that it is still to get.
    updates: u8,
    seen: Time,
}

/// A frame of the bond's own: on which link, and what.
pub(super) type Own = (ChannelId, Vec<u8>);

/// The clients.
#[derive(Clone, Debug, Default)]
pub(super) struct Balancer {
    clients: Vec<Client>,
    next: Option<Time>,
    usable: LinkSet,
    /// Our address on each link.
    macs: Vec<Mac>,
}

impl Balancer {
    /// Other links are usable now, or another one is the current one. `macs`: our address on each link.
    pub(super) fn on_links(&mut self, now: Time, links: &Links, macs: Vec<Mac>) {
        let joined = links.usable() - self.usable;
        self.usable = links.usable();
        let before = core::mem::replace(&mut self.macs, macs);
        let mut changed = false;
        for n in 0..self.clients.len() {
            let client = self.clients[n];
            let mut link = client.link;
            if !self.usable.contains(link) || !joined.is_empty() {
                // A link that came takes its share.
                let Some(best) = self.least_loaded(links, Some(n)) else { continue };
                link = best;
            }
            let moved = self.macs.get(link.index()) != before.get(client.link.index());
            self.clients[n].link = link;
            if moved && client.mac.is_some() {
                self.clients[n].updates = UPDATES;
                changed = true;
            }
        }
        if changed {
            self.next = Some(now);
        }
    }

    /// A frame that the host sends: `None`, it goes as it is; else the link that it goes on, with what is in it changed.
    pub(super) fn handle_host(
        &mut self,
        now: Time,
        bytes: &mut [u8],
        bond: Mac,
        links: &Links,
    ) -> Option<(ChannelId, Mac)> {
        if let Some(arp) = Arp::parse(bytes) {
            if arp.sender_mac != bond {
                // A bridge behind us hands on what is not ours.
                return None;
            }
            let (ours, theirs) = (arp.sender_ip.into(), arp.target_ip.into());
            if arp.operation == Arp::REQUEST {
                if arp.sender_ip != arp.target_ip && !arp.sender_ip.is_unspecified() {
                    self.assign(now, ours, theirs, None, links);
                }
                self.after_announcement(now, ours);
                return None;
            }
            if arp.operation != Arp::REPLY || !arp.target_mac.is_unicast() {
                self.after_announcement(now, ours);
                return None;
            }
            let (link, mac) = self.assign(now, ours, theirs, Some(arp.target_mac), links)?;
            bytes.get_mut(Arp::SENDER_MAC..Arp::SENDER_MAC + 6)?.copy_from_slice(&mac.0);
            return Some((link, mac));
        }
        let neighbour = Neighbour::parse(bytes)?;
        if neighbour.mac != Some(bond) {
            return None;
        }
        let (ours, theirs, their_mac) = match neighbour.advertisement {
            true if neighbour.destination.is_multicast() => {
                self.after_announcement(now, neighbour.target.into());
                return None;
            }
            true => {
                let to = bytes.first_chunk().copied().map(Mac).filter(|mac| mac.is_unicast());
                (neighbour.target, neighbour.destination, to)
            }
            // Only its target takes an address from it.
            false => (neighbour.source, neighbour.target, None),
        };
        let (link, mac) = self.assign(now, ours.into(), theirs.into(), their_mac, links)?;
        neighbour.set_mac(bytes, mac);
        Some((link, mac))
    }

    /// A frame that came: a client that is known may say where it is.
    pub(super) fn handle_link(&mut self, now: Time, bytes: &[u8]) {
        let (ours, theirs, mac): (IpAddr, IpAddr, Mac) = if let Some(arp) = Arp::parse(bytes) {
            (arp.target_ip.into(), arp.sender_ip.into(), arp.sender_mac)
        } else if let Some(Neighbour { advertisement, source, destination, target, mac: Some(mac), .. }) =
            Neighbour::parse(bytes)
        {
            if advertisement { (destination.into(), target.into(), mac) } else { (target.into(), source.into(), mac) }
        } else {
            return;
        };
        if !mac.is_unicast() {
            return;
        }
        let found = self.clients.iter_mut().find(|client| client.ours == ours && client.theirs == theirs);
        if let Some(client) = found {
            client.seen = now;
            if client.mac != Some(mac) {
                client.mac = Some(mac);
                // It heard the bond's address in the question that it answers now.
                client.updates = UPDATES;
                self.next = Some(self.next.map_or(now + UPDATE_INTERVAL, |next| next.min(now + UPDATE_INTERVAL)));
            }
        }
    }

    /// All who hear it learn the bond's address for `ours`: they are to be told theirs again.
    pub(super) fn after_announcement(&mut self, now: Time, ours: IpAddr) {
        let mut any = false;
        for client in self.clients.iter_mut().filter(|client| client.ours == ours && client.mac.is_some()) {
            client.updates = UPDATES;
            any = true;
        }
        if any {
            self.next.get_or_insert(now + UPDATE_DELAY);
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.next
    }

    /// The updates that are due.
    pub(super) fn handle_timeout(&mut self, now: Time) -> Vec<Own> {
        if self.next.is_none_or(|due| now < due) {
            return Vec::new();
        }
        let mut updates = Vec::new();
        for client in self.clients.iter_mut().filter(|client| client.updates > 0) {
            client.updates -= 1;
            let (Some(their_mac), Some(mac)) = (client.mac, self.macs.get(client.link.index()).copied()) else {
                continue;
            };
            if !self.usable.contains(client.link) {
                continue;
            }
            let frame = match (client.ours, client.theirs) {
                (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                    let arp = Arp {
                        operation: Arp::REPLY,
                        sender_mac: mac,
                        sender_ip: ours,
                        target_mac: their_mac,
                        target_ip: theirs,
                    };
                    arp.frame(their_mac, mac)
                }
                (IpAddr::V6(ours), IpAddr::V6(theirs)) => Neighbour::update(mac, ours, (their_mac, theirs)),
                _ => continue,
            };
            updates.push((client.link, frame));
        }
        let more = self.clients.iter().any(|client| client.updates > 0);
        self.next = more.then(|| now + UPDATE_INTERVAL);
        updates
    }

    /// How many clients each link has, by number.
    pub(super) fn clients(&self, link: ChannelId) -> u64 {
        self.clients.iter().filter(|client| client.link == link).count() as u64
    }

    /// The link of a client, and our address there; it is assigned one where it has none.
    fn assign(
        &mut self,
        now: Time,
        ours: IpAddr,
        theirs: IpAddr,
        mac: Option<Mac>,
        links: &Links,
    ) -> Option<(ChannelId, Mac)> {
        let found = self.clients.iter().position(|client| client.ours == ours && client.theirs == theirs);
        let n = match found {
            Some(n) => n,
            None => {
                let link = self.least_loaded(links, None)?;
                let client = Client { ours, theirs, mac, link, updates: 0, seen: now };
                if self.clients.len() < CLIENTS {
                    self.clients.push(client);
                    self.clients.len() - 1
                } else {
                    let (n, _) = self.clients.iter().enumerate().min_by_key(|(_, client)| client.seen)?;
                    self.clients[n] = client;
                    n
                }
            }
        };
        let client = &mut self.clients[n];
        client.seen = now;
        client.mac = mac.or(client.mac);
        Some((client.link, *self.macs.get(client.link.index())?))
    }

    /// The usable link with the fewest clients for its rate, those of client `without` and behind it not counted.
    fn least_loaded(&self, links: &Links, without: Option<usize>) -> Option<ChannelId> {
        let counted = &self.clients[..without.unwrap_or(self.clients.len())];
        let load = |link: ChannelId, rate: u64| {
            let clients = counted.iter().filter(|client| client.link == link).count() as u128 + 1;
            // Clients for each bit of a second, so many that the division loses nothing that matters.
            (clients << 64) / u128::from(rate.max(1))
        };
        let rates = links
            .each_usable()
            .map(|(link, state)| (link, state.rate.map_or(UNKNOWN_RATE, |rate| rate.as_bits_per_sec())));
        rates.min_by_key(|(link, rate)| load(*link, *rate)).map(|(link, _)| link)
    }
}
