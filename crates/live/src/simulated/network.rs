//! The links between the hosts: what they do to a datagram, address translation, and an adversary who has heard everything.

use fairspan_core::rng::Rng;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;

/// An address that no host has.
const NOBODY: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 7));

/// A datagram outside of any host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Datagram {
    pub(super) source: SocketAddr,
    pub(super) destination: SocketAddr,
    pub(super) ecn: u8,
    /// It may be fragmented on its way, so that no MTU keeps it back.
    pub(super) fragment: bool,
    pub(super) bytes: Rc<[u8]>,
}

/// The name of the interface on a link.
pub(super) fn device(link: usize) -> String {
    format!("link{link}")
}

/// A host's own address on a link.
pub(super) fn address(link: usize, host: usize, six: bool) -> IpAddr {
    place(link, 1 + host, six)
}

/// The address that a translator shows for a host; it has two.
fn public_address(link: usize, host: usize, six: bool, which: usize) -> IpAddr {
    place(link, 100 + 50 * which + host, six)
}

fn place(link: usize, number: usize, six: bool) -> IpAddr {
    if six {
        Ipv6Addr::new(0xfd20 + link as u16, 0, 0, 0, 0, 0, 0, number as u16).into()
    } else {
        Ipv4Addr::new(10, 20 + link as u8, 0, number as u8).into()
    }
}

/// The link that an address belongs to.
pub(super) fn link_of(address: IpAddr) -> Option<usize> {
    match address {
        IpAddr::V4(a) => match a.octets() {
            [10, net @ 20..30, 0, _] => Some(usize::from(net - 20)),
            _ => None,
        },
        IpAddr::V6(a) => match a.segments() {
            [net @ 0xfd20..0xfd30, 0, 0, 0, 0, 0, 0, _] => Some(usize::from(net - 0xfd20)),
            _ => None,
        },
    }
}

fn number_of(address: IpAddr) -> usize {
    match address {
        IpAddr::V4(a) => usize::from(a.octets()[3]),
        IpAddr::V6(a) => usize::from(a.segments()[7]),
    }
}

/// One direction between two hosts on one link.
#[derive(Clone, Debug)]
pub(super) struct Way {
    pub(super) delay: u64,
    pub(super) jitter: u64,
    /// Bits per second; what waits for longer than a fifth of a second is dropped.
    pub(super) rate: Option<u64>,
    /// The largest outer packet; larger ones vanish without a word.
    pub(super) mtu: usize,
    pub(super) cut: bool,
    busy_until: u64,
    /// When the last one arrives: jitter alone reorders nothing.
    last: u64,
}

/// What happens to one in a million datagrams.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Chances {
    pub(super) lost: u64,
    pub(super) doubled: u64,
    pub(super) late: u64,
    pub(super) corrupted: u64,
    pub(super) replayed: u64,
    pub(super) forged: u64,
}

/// Translates a host's addresses on one link.
#[derive(Clone, Debug)]
struct Translator {
    public: usize,
    next_port: u16,
    bindings: Vec<(SocketAddr, u16)>,
}

/// Datagrams that the adversary remembers.
const HEARD: usize = 4096;
/// A datagram that overtakes nobody waits this long at most.
const LATE: u64 = 400_000_000;

pub(super) struct Network {
    hosts: usize,
    ways: Vec<Way>,
    translators: Vec<Option<Translator>>,
    pub(super) chances: Chances,
    chance: Rng,
    /// Link, datagram, and when it was sent.
    heard: Vec<(usize, Datagram, u64)>,
    /// What is older is not sent again: a datagram that was lost and then replayed is merely late.
    pub(super) memory: u64,
    /// Faults done to datagrams.
    pub(super) faults: u64,
}

/// Where a datagram comes to, and when.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) at: u64,
    pub(super) link: usize,
    pub(super) host: usize,
    pub(super) datagram: Datagram,
}

impl Network {
    pub(super) fn new(seed: u64, hosts: usize, links: usize) -> Network {
        let way = Way { delay: 5_000_000, jitter: 0, rate: None, mtu: 1500, cut: false, busy_until: 0, last: 0 };
        Network {
            hosts,
            ways: vec![way; links * hosts * hosts],
            translators: vec![None; links * hosts],
            chances: Chances::default(),
            chance: Rng::new(seed),
            heard: Vec::new(),
            memory: u64::MAX,
            faults: 0,
        }
    }

    /// The direction from one host to another.
    pub(super) fn way(&mut self, link: usize, from: usize, to: usize) -> &mut Way {
        &mut self.ways[(link * self.hosts + from) * self.hosts + to]
    }

    /// Puts a translator before a host, or gives the one that is there other ports and perhaps another address.
    pub(super) fn translate(&mut self, link: usize, host: usize) {
        let draw = self.chance.below(4);
        let translator = &mut self.translators[link * self.hosts + host];
        let (public, next_port) = match translator {
            Some(before) if draw == 0 => (1 - before.public, before.next_port),
            Some(before) => (before.public, before.next_port),
            None => (0, 1024),
        };
        *translator = Some(Translator { public, next_port, bindings: Vec::new() });
    }

    pub(super) fn is_translated(&self, link: usize, host: usize) -> bool {
        self.translators[link * self.hosts + host].is_some()
    }

    fn draw(&mut self, chance: u64) -> bool {
        let drawn = chance > 0 && self.chance.below(1_000_000) < chance;
        self.faults += u64::from(drawn);
        drawn
    }

    /// A host sends; what comes of it, in no order.
    pub(super) fn send(&mut self, now: u64, link: usize, host: usize, mut datagram: Datagram, out: &mut Vec<Arrival>) {
        self.leave(link, host, &mut datagram);
        if self.heard.len() < HEARD {
            self.heard.push((link, datagram.clone(), now));
        } else {
            let place = self.chance.below(HEARD as u64) as usize;
            self.heard[place] = (link, datagram.clone(), now);
        }
        let chances = self.chances;
        if self.draw(chances.replayed) {
            self.replay(now, out);
        }
        if self.draw(chances.forged) {
            self.forge(now, out);
        }
        if self.draw(chances.lost) {
            return;
        }
        if self.draw(chances.corrupted) {
            let mut bytes = datagram.bytes.to_vec();
            self.corrupt(&mut bytes);
            datagram.bytes = bytes.into();
        }
        if self.draw(chances.doubled) {
            self.carry(now, link, host, datagram.clone(), out);
        }
        self.carry(now, link, host, datagram, out);
    }

    /// The source becomes the one that others see.
    fn leave(&mut self, link: usize, host: usize, datagram: &mut Datagram) {
        let Some(translator) = &mut self.translators[link * self.hosts + host] else { return };
        let inner = datagram.source;
        let known = translator.bindings.iter().find(|(bound, _)| *bound == inner).map(|(_, port)| *port);
        let port = known.unwrap_or_else(|| {
            translator.next_port = translator.next_port.wrapping_add(1).max(1024);
            translator.bindings.push((inner, translator.next_port));
            translator.next_port
        });
        let public = public_address(link, host, inner.is_ipv6(), translator.public);
        datagram.source = SocketAddr::new(public, port);
    }

    /// Whose the destination is, which becomes that host's own.
    fn find(&self, link: usize, datagram: &mut Datagram) -> Option<usize> {
        if link_of(datagram.destination.ip()) != Some(link) {
            return None;
        }
        let number = number_of(datagram.destination.ip());
        if (1..=self.hosts).contains(&number) {
            // What is behind a translator is not reached but through it.
            return Some(number - 1).filter(|host| !self.is_translated(link, *host));
        }
        let (which, host) = (number.checked_sub(100)? / 50, (number - 100) % 50);
        let translator = self.translators.get(link * self.hosts + host)?.as_ref()?;
        let to = translator.bindings.iter().find(|(_, port)| *port == datagram.destination.port())?;
        datagram.destination = to.0;
        (host < self.hosts && which == translator.public).then_some(host)
    }

    fn carry(&mut self, now: u64, link: usize, from: usize, mut datagram: Datagram, out: &mut Vec<Arrival>) {
        let Some(host) = self.find(link, &mut datagram) else { return };
        let size = datagram.bytes.len() + if datagram.source.is_ipv6() { 48 } else { 28 };
        let late = self.chances.late;
        let late = if self.draw(late) { self.chance.below(LATE) } else { 0 };
        let jitter = self.way(link, from, host).jitter;
        let jitter = if jitter == 0 { 0 } else { self.chance.below(jitter) };
        let way = self.way(link, from, host);
        if way.cut || size > way.mtu && !datagram.fragment {
            return;
        }
        let mut at = now;
        if let Some(rate) = way.rate {
            if way.busy_until > now + 200_000_000 {
                return;
            }
            way.busy_until = way.busy_until.max(now) + size as u64 * 8_000_000_000 / rate;
            at = way.busy_until;
        }
        way.last = way.last.max(at + way.delay + jitter);
        let at = way.last + late;
        out.push(Arrival { at, link, host, datagram });
    }

    fn corrupt(&mut self, bytes: &mut [u8]) {
        for _ in 0..1 + self.chance.below(3) {
            let place = self.chance.below(bytes.len().max(1) as u64) as usize;
            if let Some(byte) = bytes.get_mut(place) {
                *byte ^= 1 << self.chance.below(8);
            }
        }
    }

    /// Something that was ever sent arrives again: at its destination or elsewhere, from where it came or from elsewhere.
    pub(super) fn replay(&mut self, now: u64, out: &mut Vec<Arrival>) {
        if self.heard.is_empty() {
            return;
        }
        let (link, mut datagram, at) = self.heard[self.chance.below(self.heard.len() as u64) as usize].clone();
        if now - at > self.memory {
            return;
        }
        match self.chance.below(4) {
            0 => datagram.source = self.someone(link),
            1 => datagram.destination = self.heard[self.chance.below(self.heard.len() as u64) as usize].1.destination,
            _ => {}
        }
        self.inject(now, link, datagram, out);
    }

    /// Something that was never sent arrives, from an address that may be a peer's.
    pub(super) fn forge(&mut self, now: u64, out: &mut Vec<Arrival>) {
        if self.heard.is_empty() {
            return;
        }
        let (link, mut datagram, at) = self.heard[self.chance.below(self.heard.len() as u64) as usize].clone();
        // What is forged may come out as it was.
        if now - at > self.memory {
            return;
        }
        let mut bytes = datagram.bytes.to_vec();
        match self.chance.below(3) {
            0 => self.corrupt(&mut bytes),
            1 => bytes.truncate(self.chance.below(bytes.len() as u64 + 1) as usize),
            _ => {
                let kept = self.chance.below(17) as usize;
                bytes.iter_mut().skip(kept).for_each(|byte| *byte = self.chance.next_u64() as u8);
            }
        }
        datagram.bytes = bytes.into();
        if self.chance.below(2) == 0 {
            datagram.source = self.someone(link);
        }
        self.inject(now, link, datagram, out);
    }

    /// An address that somebody sends from, or nobody.
    fn someone(&mut self, link: usize) -> SocketAddr {
        match self.chance.below(3) {
            0 => SocketAddr::new(NOBODY, self.chance.below(65_536) as u16),
            _ => {
                let (_, other, _) = &self.heard[self.chance.below(self.heard.len() as u64) as usize];
                if link_of(other.source.ip()) == Some(link) { other.source } else { other.destination }
            }
        }
    }

    fn inject(&mut self, now: u64, link: usize, mut datagram: Datagram, out: &mut Vec<Arrival>) {
        if datagram.source.is_ipv6() != datagram.destination.is_ipv6() {
            datagram.source = SocketAddr::new(datagram.destination.ip(), datagram.source.port());
        }
        if let Some(host) = self.find(link, &mut datagram) {
            let at = now + 1_000_000 + self.chance.below(20_000_000);
            out.push(Arrival { at, link, host, datagram });
        }
    }
}
