//! What the hub answers over each uplink.
//!
//! Each uplink has a socket of its own that is bound to its device, as the daemon's channels will have, and all ask at once. A place that
//! answers a short question is asked a long one, which shows how long a packet may be, as nothing here may be fragmented. An uplink by
//! which no place answers over UDP asks over TCP, if the hub listens for that.

use super::failure::Failure;
use super::line::{Line, Over};
use super::uplink::Uplink;
use crate::netlink::Netlink;
use crate::reverse_path;
use crate::secure::joining::{Answer, Caller, Wanted};
use crate::secure::{PrivateKey, PublicKey};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::time::Duration;

/// How long an answer is waited for, each time that one is asked for.
const PATIENCE: [Duration; 4] =
    [Duration::from_millis(600), Duration::from_millis(1000), Duration::from_millis(1500), Duration::from_millis(2000)];
/// Lengths of packets that are tried, IP header included: Ethernet, DSL with PPPoE, tunnels of others, and what IPv6 needs.
const LENGTHS: [usize; 5] = [1500, 1492, 1420, 1340, 1280];
/// The same over TCP, which sends again by itself: the second question is for a hub that had too many.
const STREAM_PATIENCE: [Duration; 2] = [Duration::from_millis(3000), Duration::from_millis(3000)];

/// The hub of an invitation.
pub struct Hub {
    /// Its public key.
    pub key: PublicKey,
    /// The invitation's secret.
    pub secret: [u8; 16],
    /// Where it is called.
    pub places: Vec<SocketAddr>,
    /// The TCP port at which it listens too, at each place.
    pub tcp_port: Option<NonZeroU16>,
}

/// An uplink by which the hub answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// The place that answered fastest.
    pub place: SocketAddr,
    /// Where it answered over TCP, as no place did over UDP.
    pub tcp: Option<SocketAddr>,
    /// The address from which alone it works, where rules choose the table of routes by that.
    pub source: Option<IpAddr>,
    /// The shortest round trip, with what the hub took to compute.
    pub rtt: Duration,
    /// The longest packet that gets through, IP header included, of those that were tried; 0 where none was, as over TCP.
    pub path_mtu: usize,
    /// What the hub says.
    pub answer: Answer,
    /// The address and port from which it was asked, as far as this host knows; where the hub saw others, somebody on the way
    /// translates.
    pub own: Option<SocketAddr>,
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
        let over = reached.tcp.map_or(Over::Udp(reached.place), Over::Tcp);
        let patience = if reached.tcp.is_some() { &STREAM_PATIENCE[..] } else { &PATIENCE };
        let asked =
            Line::open(uplink, reached.source, over).and_then(|mut line| line.ask(&caller, Wanted::Join, 0, patience));
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
    let usable = usable(&hub.places, uplink);
    if usable.is_empty() {
        return Err(Failure::NoAddress);
    }
    let failure = match fastest(caller, uplink, &usable, None) {
        Ok(best) => return Ok(measure(caller, uplink, best)),
        Err(failure @ Failure::OtherVersion(..)) => return Err(failure),
        Err(failure) => failure,
    };
    let Some(port) = hub.tcp_port else { return Err(failure) };
    match fastest(caller, uplink, &usable, Some(port)) {
        Ok(best) => Ok(best.reached(0)),
        Err(other @ Failure::OtherVersion(..)) => Err(other),
        Err(other) => Err(Failure::Neither(Box::new(failure), Box::new(other))),
    }
}

/// The places to which a route by this device leads, each with the address from which it is asked. A hub on the same wire may answer at an
/// address of another network too; a channel that calls it there has no route, and works only as long as the hub answers for all of its addresses.
fn usable(places: &[SocketAddr], uplink: &Uplink) -> Vec<(SocketAddr, IpAddr)> {
    let own = |place: &SocketAddr| {
        let mut addresses = uplink.addresses.iter().map(|net| net.addr());
        addresses.find(|address| address.is_ipv4() == place.is_ipv4())
    };
    let routed = places.iter().filter(|place| uplink.leads_to(place.ip()));
    routed.filter_map(|place| Some((*place, own(place)?))).collect()
}

/// The place that answers fastest: over TCP if there is a port for that, else over UDP.
fn fastest(
    caller: &Caller,
    uplink: &Uplink,
    usable: &[(SocketAddr, IpAddr)],
    tcp: Option<NonZeroU16>,
) -> Result<Looked, Failure> {
    // All at once, since one that does not answer takes seconds.
    let found: Vec<Result<Looked, Failure>> = std::thread::scope(|scope| {
        let asked: Vec<_> = usable.iter().map(|end| scope.spawn(move || look_at(caller, uplink, *end, tcp))).collect();
        asked.into_iter().map(|thread| thread.join().unwrap_or(Err(Failure::NoAnswer))).collect()
    });
    let failure = found.iter().find_map(|found| found.as_ref().err().cloned()).unwrap_or(Failure::NoAnswer);
    found.into_iter().filter_map(Result::ok).min_by_key(|looked| looked.rtt).ok_or(failure)
}

/// A place that answers.
struct Looked {
    place: SocketAddr,
    line: Line,
    answer: Answer,
    rtt: Duration,
}

impl Looked {
    fn reached(&self, path_mtu: usize) -> Reached {
        let Looked { place, line, answer, rtt } = self;
        let tcp = match line.over() {
            Over::Udp(_) => None,
            Over::Tcp(place) => Some(place),
        };
        Reached { place: *place, tcp, source: line.source(), rtt: *rtt, path_mtu, answer: *answer, own: line.own() }
    }
}

/// Asks at one place: from whichever address the kernel takes, as that goes on where the address changes; and then from that of the device.
fn look_at(
    caller: &Caller,
    uplink: &Uplink,
    (place, own): (SocketAddr, IpAddr),
    tcp: Option<NonZeroU16>,
) -> Result<Looked, Failure> {
    let (over, patience) = match tcp {
        Some(port) => (Over::Tcp(SocketAddr::new(place.ip(), port.get())), &STREAM_PATIENCE[..]),
        None => (Over::Udp(place), &PATIENCE[..3]),
    };
    let mut failure = Failure::NoAnswer;
    for source in [None, Some(own)] {
        let looked = Line::open(uplink, source, over).and_then(|mut line| {
            let (answer, rtt) = line.ask(caller, Wanted::Look, 0, patience)?;
            Ok(Looked { place, line, answer, rtt })
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
fn measure(caller: &Caller, uplink: &Uplink, mut looked: Looked) -> Reached {
    let headers = if looked.place.is_ipv4() { 28 } else { 48 };
    let mut path_mtu = 0;
    let patience = [looked.rtt * 3 + Duration::from_millis(400); 2];
    for length in LENGTHS.into_iter().filter(|length| *length <= uplink.mtu.max(1280) as usize) {
        if let Ok((_, again)) = looked.line.ask(caller, Wanted::Look, length - headers, &patience) {
            (looked.rtt, path_mtu) = (looked.rtt.min(again), length);
            break;
        }
    }
    looked.reached(path_mtu)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::{Route, TABLE_MAIN};
    use crate::uplinks::Kind;

    /// A device with `addresses` and routes to these networks.
    fn device(addresses: &[&str], networks: &[&str]) -> Uplink {
        let route = |network: &&str| Route {
            destination: network.parse().expect("a network"),
            device: "eth1".to_owned(),
            gateway: None,
            table: TABLE_MAIN,
            metric: None,
        };
        Uplink {
            device: "eth1".to_owned(),
            kind: Kind::Ethernet,
            mtu: 1500,
            running: true,
            addresses: addresses.iter().map(|address| address.parse().expect("an address")).collect(),
            routes: networks.iter().map(route).collect(),
        }
    }

    #[test]
    fn a_hub_is_asked_where_a_route_by_the_device_leads_and_nowhere_else() {
        let places: Vec<SocketAddr> = ["10.9.1.1:51900", "10.9.2.1:51900", "[fd09:1::1]:51900"]
            .map(|place| place.parse().expect("a place"))
            .into();
        let asked = |uplink: &Uplink| usable(&places, uplink).iter().map(|(place, _)| *place).collect::<Vec<_>>();
        let both = ["10.9.1.2/24", "fd09:1::2/64"];
        assert_eq!(asked(&device(&both, &["10.9.1.0/24"])), places[..1], "on the wire of the first");
        assert_eq!(asked(&device(&both, &["10.9.1.0/24", "fd09:1::/64"])), [places[0], places[2]]);
        assert_eq!(asked(&device(&both, &["0.0.0.0/0"])), places[..2], "by a default route to all of IPv4");
        assert_eq!(asked(&device(&["10.9.1.2/24"], &["0.0.0.0/0", "::/0"])), places[..2], "it has no IPv6 address");
    }
}
