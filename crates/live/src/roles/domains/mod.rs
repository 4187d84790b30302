//! Split tunnels by name: addresses of some names are reached through the bond, or past it.
//!
//! DNS answers that pass are held until the routes to their addresses stand, so that whoever asked finds them there. The kernel lets
//! everything pass when the process is gone, or does not keep up.
//!
//! | file | idea |
//! |---|---|
//! | `mod` | packets in, routes out |
//! | `watcher` | answers to questions that were seen |
//! | `message` | what they say |
//! | `book` | which addresses are known, how long, and why |
//! | `rules` | what the kernel shows, and where it looks |
//!
//! | an address goes | by |
//! |---|---|
//! | through the bond | a route by the interface, in the daemon's own table, before all but the local one; the peer's allowed addresses |
//! | past it | an entry "look on" there, before the default route of the same table |

mod book;
mod message;
mod rules;
mod watcher;

use crate::config::{Config, Interface, Side};
use crate::netlink::nftables::OwnedTable;
use crate::netlink::queue::PacketQueue;
use crate::netlink::{Netlink, NetlinkError, Rule, Way};
use crate::shell::DaemonError;
use crate::shell::poller::{Poller, Token, Turn};
use crate::status::{Counters, DomainAddressStatus, DomainStatus};
use book::{Book, Change, Noted, Wanted};
use fairspan_core::units::Time;
use ipnet::IpNet;
use message::Answer;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use watcher::Watcher;

/// Packets that the kernel holds at most; others pass.
const HELD: u32 = 1024;
/// Bytes of each that are looked at: more than any datagram of DNS has in use, and than a segment of Ethernet.
const LOOKED_AT: u32 = 9000;

/// What is counted here beside what the watcher counts.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    /// Addresses that are never routed.
    refused: u64,
    /// Addresses of two names that are to go by two sides.
    contested: u64,
    /// Routes that the kernel did not take.
    failed: u64,
}

/// The names of a running daemon. Dropping it undoes all that it did.
pub(crate) struct Domains {
    queue: PacketQueue,
    _table: OwnedTable,
    token: Token,
    poller: Poller,
    netlink: Netlink,
    looks: Vec<Rule>,
    /// The interface's number, and the table of addresses, which is also the mark of the daemon's own packets.
    device: u32,
    mark: u32,
    watcher: Watcher,
    book: Book,
    counts: Counts,
}

/// What of the daemon counts for addresses.
pub(super) struct Around<'a> {
    pub(super) config: &'a Config,
    /// Where the peers are, outside.
    pub(super) outer: Vec<IpAddr>,
}

impl Domains {
    /// Begins, if the configuration names any; the interface is there, with its routes.
    ///
    /// # Errors
    /// What the kernel says; what was done by then is undone.
    pub(super) fn start(config: &Config, poller: &Poller) -> Result<Option<Domains>, DaemonError> {
        if config.domains.is_empty() {
            return Ok(None);
        }
        let interface = &config.interface;
        // One process alone can have it: nothing of another daemon's is touched.
        let number = rules::queue_of(interface);
        let queue = PacketQueue::open(number, HELD, LOOKED_AT, false)?;
        let mut netlink = Netlink::open()?;
        let device = netlink.interface(&interface.name)?.index;
        for address in netlink.left_ways(interface.fwmark)? {
            netlink.remove_way(address, interface.fwmark, Way::On)?;
        }
        let table = OwnedTable::set(&rules::table_of(interface), |to| rules::write(number, to))?;
        let token = poller.watch(queue.as_fd(), Turn::Others)?;
        let mut domains = Domains {
            queue,
            _table: table,
            token,
            poller: poller.clone(),
            netlink,
            looks: Vec::new(),
            device,
            mark: interface.fwmark,
            watcher: Watcher::default(),
            book: Book::new(Wanted::of(&config.domains)),
            counts: Counts::default(),
        };
        domains.look(interface)?;
        Ok(Some(domains))
    }

    /// Whether the kernel could have the rules, and the queue be had: nothing is changed.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn attempt(config: &Config) -> Result<(), NetlinkError> {
        if config.domains.is_empty() {
            return Ok(());
        }
        let number = rules::queue_of(&config.interface);
        PacketQueue::open(number, HELD, LOOKED_AT, false)?;
        OwnedTable::attempt(&rules::table_of(&config.interface), |to| rules::write(number, to)).map(|_| ())
    }

    /// Has the kernel look into the table of addresses, as far as it does not.
    fn look(&mut self, interface: &Interface) -> Result<(), NetlinkError> {
        self.looks.clear();
        for rule in rules::looks(interface) {
            match self.netlink.add_rule(&rule) {
                // A kernel without IPv6 has no such packets.
                Err(error) if rule.is_v6 && matches!(error.errno(), Some(libc::EAFNOSUPPORT | libc::EOPNOTSUPP)) => {
                    continue;
                }
                Err(error) if error.errno() == Some(libc::EEXIST) => {}
                other => other?,
            }
            self.looks.push(rule);
        }
        Ok(())
    }

    /// Whether `token` is its own.
    pub(super) fn is(&self, token: Token) -> bool {
        self.token == token
    }

    /// Takes what the kernel shows; it goes on as soon as the routes stand. Whether addresses came or went.
    pub(super) fn receive(&mut self, now: Time, around: &Around<'_>) -> bool {
        let mut packets = Vec::new();
        let received = self.queue.receive(|packet| packets.push((packet.id, packet.len, packet.bytes.to_vec())));
        if let Err(error) = received {
            tracing::debug!(%error, "the kernel shows no answers of DNS");
        }
        let mut changed = false;
        for (number, length, bytes) in packets {
            for answer in self.watcher.packet(now, &bytes, length) {
                changed |= self.learn(now, &answer, around);
            }
            self.queue.accept(number, None);
        }
        self.queue.flush();
        changed
    }

    fn learn(&mut self, now: Time, answer: &Answer, around: &Around<'_>) -> bool {
        let Some((name, side)) = self.book.wanted().find(&answer.names) else { return false };
        let mut changed = false;
        for &(address, ttl) in &answer.addresses {
            if !self.book.has(address, side) && !self.may_go(address, side, around) {
                self.counts.refused += 1;
                continue;
            }
            match self.book.note(now, name, address, ttl) {
                Noted::New(changes) => {
                    tracing::debug!(name, %address, ?side, "an address of a name");
                    self.apply(&changes);
                    changed = true;
                }
                Noted::Contested => self.counts.contested += 1,
                Noted::Known | Noted::Unwanted => {}
            }
        }
        changed
    }

    /// Whether an address may go by a side, whoever says that it is a name's.
    fn may_go(&mut self, address: IpAddr, side: Side, around: &Around<'_>) -> bool {
        let interface = &around.config.interface;
        if !is_public(address) || is_settled(address, around.config) || around.outer.contains(&address) {
            return false;
        }
        match side {
            Side::Past => true,
            Side::Through(_) => {
                interface.speaks(address) && self.netlink.is_far(address, self.mark).unwrap_or_default()
            }
        }
    }

    fn way(&self, side: Side) -> Way {
        match side {
            Side::Through(_) => Way::Through(self.device),
            Side::Past => Way::On,
        }
    }

    fn apply(&mut self, changes: &[Change]) {
        for change in changes {
            let (address, done) = match *change {
                Change::Add(address, side) => (address, self.netlink.add_way(address, self.mark, self.way(side))),
                Change::Remove(address, side) => (address, self.netlink.remove_way(address, self.mark, self.way(side))),
            };
            if let Err(error) = done {
                self.counts.failed += 1;
                tracing::debug!(%error, "an address of a name does not go as it should");
                if let Change::Add(..) = change {
                    // The next answer tries it again.
                    self.book.forget(address);
                }
            }
        }
    }

    /// Once a second: what is too old goes. Whether addresses went.
    pub(super) fn expire(&mut self, now: Time) -> bool {
        let gone = self.book.expire(now);
        self.apply(&gone);
        !gone.is_empty()
    }

    /// Follows another configuration, with names.
    ///
    /// # Errors
    /// What the kernel says.
    pub(super) fn follow(&mut self, around: &Around<'_>) -> Result<bool, NetlinkError> {
        let wanted = Wanted::of(&around.config.domains);
        let differs = wanted != *self.book.wanted();
        let mut changes = self.book.follow(wanted);
        let (config, outer) = (around.config, &around.outer);
        changes.extend(self.book.retain(|address, _| !is_settled(address, config) && !outer.contains(&address)));
        self.apply(&changes);
        self.look(&config.interface)?;
        self.restore();
        Ok(differs)
    }

    /// Routes that went with the interface's addresses are there again.
    pub(super) fn restore(&mut self) {
        let all: Vec<Change> = self.book.entries().map(|(address, entry)| Change::Add(address, entry.side)).collect();
        self.apply(&all);
    }

    /// The addresses that belong to peers, by their numbers.
    pub(super) fn of_peers(&self) -> impl Iterator<Item = (IpNet, usize)> {
        self.book.entries().filter_map(|(address, entry)| match entry.side {
            Side::Through(peer) => Some((address.into(), peer)),
            Side::Past => None,
        })
    }

    pub(super) fn count(&self, counters: &mut Counters) {
        let seen = &self.watcher.counts;
        for (name, count) in [
            ("answers", seen.answers),
            ("unasked", seen.unasked),
            ("unread", seen.unread),
            ("missed", self.queue.missed()),
            ("refused", self.counts.refused),
            ("contested", self.counts.contested),
            ("failed", self.counts.failed),
            ("evicted", self.book.evicted),
        ] {
            counters.insert(format!("domains_{name}"), count);
        }
    }

    /// Which names have which addresses now.
    pub(super) fn status(&self, now: Time, peer: impl Fn(usize) -> String) -> Vec<DomainStatus> {
        let mut addresses: BTreeMap<&str, Vec<DomainAddressStatus>> = BTreeMap::new();
        for (address, entry) in self.book.entries() {
            let Some(above) = self.book.above(entry) else { continue };
            addresses.entry(above).or_default().push(DomainAddressStatus {
                address: address.to_string(),
                asked: entry.name.clone(),
                expires_s: entry.until.since(now).as_secs_f64().floor(),
            });
        }
        let told = self.book.wanted().names().map(|(name, side)| {
            let mut addresses = addresses.remove(name).unwrap_or_default();
            addresses.sort_by(|one, other| (&one.asked, &one.address).cmp(&(&other.asked, &other.address)));
            let (way, peer) = match side {
                Side::Through(number) => ("through", Some(peer(number))),
                Side::Past => ("past", None),
            };
            DomainStatus { name: name.to_owned(), way: way.to_owned(), peer, addresses }
        });
        told.collect()
    }
}

impl Drop for Domains {
    fn drop(&mut self) {
        self.poller.unwatch(self.token, self.queue.as_fd());
        let all = self.book.retain(|_, _| false);
        self.apply(&all);
        for rule in std::mem::take(&mut self.looks) {
            match self.netlink.remove_rule(&rule) {
                Err(error) if error.errno() != Some(libc::ENOENT) => {
                    tracing::warn!(%error, "a change to the network stays");
                }
                _ => {}
            }
        }
    }
}

/// Whether an address can be that of a host elsewhere at all.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(four) => {
            let first = four.octets()[0];
            !(first == 0 || first >= 224 || four.is_loopback() || four.is_link_local())
        }
        IpAddr::V6(six) => {
            let is_four = six.to_ipv4().is_some();
            !(is_four || six.is_unspecified() || six.is_multicast() || six.is_unicast_link_local())
        }
    }
}

/// Whether the file says by itself where an address belongs: to the interface's networks, to a peer, or to what a channel calls.
fn is_settled(address: IpAddr, config: &Config) -> bool {
    let own = &config.interface.addresses;
    let channels = config.peers.iter().flat_map(|peer| &peer.channels);
    let called = channels.flat_map(|channel| {
        let endpoint = channel.kind.ends().map(|(endpoint, _)| endpoint.ip());
        [endpoint, channel.tcp_endpoint.map(|endpoint| endpoint.ip())]
    });
    let peers = config.peers.iter().flat_map(|peer| &peer.allowed_ips).filter(|net| net.prefix_len() > 0);
    own.iter().chain(peers).any(|net| net.contains(&address)) || called.flatten().any(|called| called == address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn no_address_is_routed_that_is_of_no_host_elsewhere_or_that_the_file_settles() {
        let text = "[interface]\nname = \"fs0\"\naddress = [\"10.77.0.2/24\", \"fd77::2/64\"]\nprivate_key = \
                    \"QHRWemFtcGxlLWtleS1leGFtcGxlLWtleS1leGFtcGw=\"\n[[peer]]\npublic_key = \
                    \"TrMvSoP4jYQlY6RIzBgbssQqY3vxI2Pi+y71lOWWXX0=\"\nallowed_ips = [\"0.0.0.0/0\", \"10.88.0.0/16\"]\n[[peer.channel]]\nkind = \
                    \"udp\"\nendpoint = \"203.0.113.1:51900\"\ntcp_endpoint = \"203.0.113.2:443\"\n[[domains]]\nnames = [\"a.example\"]\n";
        let config = Config::parse(Path::new("fs0.toml"), text).expect("accepted");
        let may = |text: &str| {
            let address: IpAddr = text.parse().expect("an address");
            is_public(address) && !is_settled(address, &config)
        };
        for bad in [
            "0.0.0.0",
            "0.1.2.3",
            "127.0.0.1",
            "127.9.9.9",
            "169.254.1.1",
            "224.0.0.1",
            "239.1.2.3",
            "255.255.255.255",
            "240.0.0.1",
            "::",
            "::1",
            "fe80::1",
            "ff02::1",
            "::ffff:192.0.2.1",
            "::192.0.2.1",
            "10.77.0.1",
            "fd77::1",
            "10.88.3.4",
            "203.0.113.1",
            "203.0.113.2",
        ] {
            assert!(!may(bad), "{bad}");
        }
        for good in ["192.0.2.1", "203.0.113.3", "10.78.0.1", "2001:db8::1", "fd78::1", "1.1.1.1"] {
            assert!(may(good), "{good}");
        }
    }
}
