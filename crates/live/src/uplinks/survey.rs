//! What the hub answers over each uplink.
//!
//! Each uplink has a socket of its own that is bound to its device, as the daemon's channels will have, and all ask at once. A place that
//! answers a short question is asked a long one, which shows how long a packet may be, as nothing here may be fragmented.

use super::uplink::Uplink;
use crate::channel::udp::{Destination, ReceiveBatch, Sent, UdpConfig, UdpSocket};
use crate::netlink::Netlink;
use crate::reverse_path;
use crate::secure::joining::{Answer, Caller, Question, Reply, Wanted};
use crate::secure::{OsEntropy, PrivateKey, PublicKey};
use fairspan_core::bond::Handling;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};
use thiserror::Error;

/// How long an answer is waited for, each time that one is asked for.
const PATIENCE: [Duration; 4] =
    [Duration::from_millis(600), Duration::from_millis(1000), Duration::from_millis(1500), Duration::from_millis(2000)];
/// Lengths of packets that are tried, IP header included: Ethernet, DSL with PPPoE, tunnels of others, and what IPv6 needs.
const LENGTHS: [usize; 5] = [1500, 1492, 1420, 1340, 1280];
/// The firewall mark of the daemon's datagrams, so that a default route of a bond that runs already is not taken.
const MARK: u32 = 51900;

/// The hub of an invitation.
pub struct Hub {
    /// Its public key.
    pub key: PublicKey,
    /// The invitation's secret.
    pub secret: [u8; 16],
    /// Where it is called.
    pub places: Vec<SocketAddr>,
}

/// An uplink by which the hub answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// The place that answered fastest.
    pub place: SocketAddr,
    /// The address from which alone it works, where rules choose the table of routes by that.
    pub source: Option<IpAddr>,
    /// The shortest round trip, with what the hub took to compute.
    pub rtt: Duration,
    /// The longest packet that gets through, IP header included, of those that were tried.
    pub path_mtu: usize,
    /// What the hub says.
    pub answer: Answer,
    /// Whether somebody on the way changed the address from which it came.
    pub translated: bool,
}

/// Why an uplink does not do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Failure {
    /// It is switched off or has no carrier.
    #[error("it is down or has no carrier")]
    Down,
    /// It has no address of a version that the hub has.
    #[error("it has no address of an IP version at which the hub is called")]
    NoAddress,
    /// Nothing could be sent.
    #[error("nothing can be sent there: {0}")]
    NotSent(String),
    /// Nothing came back.
    #[error("no answer")]
    NoAnswer,
    /// Nothing came back, and would be dropped.
    #[error("no answer, and {0}: `sysctl -w net.ipv4.conf.{1}.rp_filter=2`")]
    Deaf(String, String),
    /// The hub is of another version.
    #[error("the hub speaks version {0} of the protocol, this is version {1}: run the same release on both ends")]
    OtherVersion(u8, u8),
}

/// Asks the hub over all uplinks at once how the invitation stands; what came of each.
pub fn survey(hub: &Hub, key: &PrivateKey, uplinks: &[Uplink]) -> Vec<Result<Reached, Failure>> {
    let caller = || Caller::new(key.clone(), hub.key, &hub.secret);
    std::thread::scope(|scope| {
        let asked: Vec<_> = uplinks.iter().map(|uplink| scope.spawn(|| look(&caller(), hub, uplink))).collect();
        asked.into_iter().map(|thread| thread.join().unwrap_or(Err(Failure::NoAnswer))).collect()
    })
}

/// Asks the hub to let this site join, over the uplinks that reach it, one after the other until one brings an answer.
///
/// # Errors
/// That of the last one.
pub fn join(hub: &Hub, key: &PrivateKey, uplinks: &[(&Uplink, Reached)]) -> Result<Answer, Failure> {
    let caller = Caller::new(key.clone(), hub.key, &hub.secret);
    let mut failure = Failure::NoAnswer;
    for (uplink, reached) in uplinks {
        let asked = Line::open(uplink, reached.source, reached.place)
            .and_then(|mut line| line.ask(&caller, Wanted::Join, 0, &PATIENCE));
        match asked {
            Ok((answer, _)) => return Ok(answer),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// What one uplink is good for.
fn look(caller: &Caller, hub: &Hub, uplink: &Uplink) -> Result<Reached, Failure> {
    if !uplink.running {
        return Err(Failure::Down);
    }
    let own = |place: &SocketAddr| {
        let mut addresses = uplink.addresses.iter().map(|net| net.addr());
        addresses.find(|address| address.is_ipv4() == place.is_ipv4())
    };
    let usable: Vec<(SocketAddr, IpAddr)> = hub.places.iter().filter_map(|place| Some((*place, own(place)?))).collect();
    if usable.is_empty() {
        return Err(Failure::NoAddress);
    }
    // All at once, since one that does not answer takes seconds.
    let found: Vec<Result<Looked, Failure>> = std::thread::scope(|scope| {
        let asked: Vec<_> = usable.iter().map(|end| scope.spawn(|| look_at(caller, uplink, *end))).collect();
        asked.into_iter().map(|thread| thread.join().unwrap_or(Err(Failure::NoAnswer))).collect()
    });
    let failure = found.iter().find_map(|found| found.as_ref().err().cloned()).unwrap_or(Failure::NoAnswer);
    let best = found.into_iter().filter_map(Result::ok).min_by_key(|looked| looked.rtt);
    best.map(|best| measure(caller, uplink, best)).ok_or(failure)
}

/// A place that answers.
struct Looked {
    line: Line,
    answer: Answer,
    rtt: Duration,
}

/// Asks at one place: from whichever address the kernel takes, as that goes on where the address changes; and then from that of the device.
fn look_at(caller: &Caller, uplink: &Uplink, (place, own): (SocketAddr, IpAddr)) -> Result<Looked, Failure> {
    let mut failure = Failure::NoAnswer;
    for source in [None, Some(own)] {
        let looked = Line::open(uplink, source, place).and_then(|mut line| {
            let (answer, rtt) = line.ask(caller, Wanted::Look, 0, &PATIENCE[..3])?;
            Ok(Looked { line, answer, rtt })
        });
        match looked {
            Ok(looked) => return Ok(looked),
            Err(error) => failure = error,
        }
    }
    let obstacle = Netlink::open()
        .ok()
        .and_then(|mut netlink| reverse_path::obstacle(&mut netlink, &uplink.device, place.ip(), Some(own)));
    Err(match obstacle {
        Some(obstacle) if failure == Failure::NoAnswer => Failure::Deaf(obstacle, uplink.device.clone()),
        _ => failure,
    })
}

/// How long a packet may be on the way to a place that answers, and how long it takes.
fn measure(caller: &Caller, uplink: &Uplink, looked: Looked) -> Reached {
    let Looked { mut line, answer, mut rtt } = looked;
    let headers = if line.place.is_ipv4() { 28 } else { 48 };
    let mut path_mtu = 0;
    let patience = [rtt * 3 + Duration::from_millis(400); 2];
    for length in LENGTHS.into_iter().filter(|length| *length <= uplink.mtu.max(1280) as usize) {
        if let Ok((_, again)) = line.ask(caller, Wanted::Look, length - headers, &patience) {
            (rtt, path_mtu) = (rtt.min(again), length);
            break;
        }
    }
    let translated = line.own().is_some_and(|own| own != answer.seen);
    Reached { place: line.place, source: line.source, rtt, path_mtu, answer, translated }
}

/// A way to one place.
struct Line {
    socket: UdpSocket,
    received: ReceiveBatch,
    place: SocketAddr,
    source: Option<IpAddr>,
    cookie: Option<[u8; 16]>,
    /// The address to which the last answer came.
    local: Option<IpAddr>,
}

impl Line {
    fn open(uplink: &Uplink, source: Option<IpAddr>, place: SocketAddr) -> Result<Line, Failure> {
        let any: IpAddr = if place.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let mut config = UdpConfig::new(SocketAddr::new(source.unwrap_or(any), 0));
        config.device = Some(uplink.device.clone());
        config.mark = Some(MARK);
        let socket = UdpSocket::open(config.clone()).or_else(|_| {
            // To set a mark takes a privilege, and without it there is most often no need for one.
            config.mark = None;
            UdpSocket::open(config)
        });
        let socket = socket.map_err(|error| Failure::NotSent(error.to_string()))?;
        Ok(Line { socket, received: ReceiveBatch::new(), place, source, cookie: None, local: None })
    }

    /// Our end of it, once an answer has come.
    fn own(&self) -> Option<SocketAddr> {
        self.local.map(|local| SocketAddr::new(local, self.socket.local_addr().port()))
    }

    /// Asks, a few times; the answer and how long it took.
    fn ask(
        &mut self,
        caller: &Caller,
        wanted: Wanted,
        len: usize,
        patience: &[Duration],
    ) -> Result<(Answer, Duration), Failure> {
        let mut failure = Failure::NoAnswer;
        for wait in patience {
            // A hub under load wants the question again, with a proof of the address.
            for _ in 0..2 {
                let question = caller.ask(&mut OsEntropy::new(), wanted, len, self.cookie.as_ref());
                let Some(question) = question else { return Err(failure) };
                let begin = Instant::now();
                let destination =
                    Destination { address: self.place, source: self.source, tos: 0, handling: Handling::Usual };
                match self.socket.send_one(destination, &question.datagram) {
                    Sent::Done | Sent::Blocked | Sent::Congested => {}
                    Sent::TooBig { .. } => return Err(Failure::NotSent("it is too long".into())),
                    Sent::Down => failure = Failure::NotSent("no route, or the address is gone".into()),
                }
                match self.reply(&question, begin, *wait) {
                    Some(Reply::Answer(answer)) => return Ok((answer, begin.elapsed())),
                    Some(Reply::Cookie(cookie)) => self.cookie = Some(cookie),
                    Some(Reply::OtherVersion(version)) => {
                        return Err(Failure::OtherVersion(version, crate::secure::VERSION));
                    }
                    None => break,
                }
            }
        }
        Err(failure)
    }

    /// The reply to a question, if one comes in time.
    fn reply(&mut self, question: &Question, begin: Instant, wait: Duration) -> Option<Reply> {
        loop {
            let left = wait.checked_sub(begin.elapsed())?;
            let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
            let ready = poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&left));
            if ready == Ok(0) {
                return None;
            }
            self.socket.receive(&mut self.received);
            for datagram in self.received.datagrams() {
                if let Some(reply) = question.read(datagram.bytes) {
                    self.local = datagram.destination;
                    return Some(reply);
                }
            }
        }
    }
}
