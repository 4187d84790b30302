//! A client, a server, and one or two gateways between them, with a long link or a cable.
//!
//! ```text
//!  client  eth0 ---- lan0  gateway  sat0 ---- [ emulated ] ---- sat0  gateway  lan0 ---- eth0  server
//!  client  eth0 ---- lan0  gateway  sat0 ---------------------------------------------- eth0  server
//! ```

use crate::testbed::emulator::{self, Line};
use crate::testbed::{End, Namespace, cable, offloads_off};
use anyhow::{Context, Result};
use fairspan_live::emulate::{Emulator, Profile};
use std::fs;
use std::net::{IpAddr, SocketAddr};

/// A gateway's device towards its neighbours, and towards the long link.
pub(super) const LAN: &str = "lan0";
pub(super) const LONG: &str = "sat0";
/// The device of client and server.
const HOST: &str = "eth0";
/// Where the server listens.
const PORT: u16 = 5001;
/// The client's second address, from which come those that fall silent.
const SECOND: u8 = 3;
/// How large sockets become by themselves, as Linux ships these settings: least, at first, most.
pub(super) const RECEIVE_BUFFER: &str = "4096 131072 33554432";
pub(super) const SEND_BUFFER: &str = "4096 16384 4194304";
/// The congestion control of all ends.
pub(super) const CONGESTION: &str = "cubic";
/// That of the sockets of gateways, where no setting says otherwise: as that of the ends it works without pacing, and
/// unlike it any namespace may have it for its default.
pub(super) const GATEWAY_CONGESTION: &str = "reno";

/// A gateway's kernel gives up a peer that does not answer after some seconds, and not after a quarter of an hour or two hours
/// (tcp(7)): else nobody would wait for the end of connections that fell silent.
const IMPATIENT: [(&str, &str); 4] = [
    ("ipv4/tcp_retries2", "5"),
    ("ipv4/tcp_keepalive_time", "10"),
    ("ipv4/tcp_keepalive_intvl", "2"),
    ("ipv4/tcp_keepalive_probes", "3"),
];

/// Which address of a network, in IPv4 or IPv6.
fn address(v6: bool, net: u8, host: u8) -> String {
    if v6 { format!("fd96:{net}::{host}") } else { format!("10.96.{net}.{host}") }
}

/// The networks behind a gateway, by its index.
pub(super) fn behind(index: usize) -> [String; 2] {
    let net = index + 1;
    [format!("10.96.{net}.0/24"), format!("fd96:{net}::/64")]
}

/// A gateway's IPv4 address on the long link, by its index.
pub(super) fn long_address(index: usize) -> String {
    format!("10.96.9.{}", index + 1)
}

/// Everything that is made; dropped, it is gone.
#[derive(Debug)]
pub(super) struct Bed {
    // The emulator goes first: it holds the middle's interfaces.
    _emulator: Option<Emulator>,
    _middle: Option<Namespace>,
    pub(super) client: Namespace,
    pub(super) server: Namespace,
    /// That of the client, that of the server; or the only one.
    pub(super) gateways: Vec<Namespace>,
    v6: bool,
}

/// A network between two hosts: its number, and each host with its device.
struct Net<'a> {
    number: u8,
    left: (&'a Namespace, &'a str),
    right: (&'a Namespace, &'a str),
}

impl Bed {
    /// Builds it: with a link two gateways and the link between them, without one a gateway.
    pub(super) fn new(role: &str, link: Option<&Profile>, v6: bool) -> Result<Bed> {
        let make = |name: &str| Namespace::new(&format!("{role}-{name}"));
        let (client, server, near) = (make("client")?, make("server")?, make("near")?);
        wire(&Net { number: 1, left: (&near, LAN), right: (&client, HOST) })?;
        let (mut gateways, mut middle, mut emulator) = (vec![near], None, None);
        if let Some(link) = link {
            let (far, between) = (make("far")?, make("middle")?);
            for (gateway, port) in [(&gateways[0], "left"), (&far, "right")] {
                cable(
                    End { namespace: gateway, device: LONG, address: None },
                    End { namespace: &between, device: port, address: None },
                )?;
                // A wire carries packets, not 64 kB units.
                offloads_off(gateway, LONG)?;
            }
            let line = Line { name: "long", ends: ["left", "right"], profiles: [link.clone(), link.clone()] };
            emulator = Some(emulator::start(&between, [line])?);
            let long = Net { number: 9, left: (&gateways[0], LONG), right: (&far, LONG) };
            number(&long)?;
            introduce(&long)?;
            wire(&Net { number: 2, left: (&far, LAN), right: (&server, HOST) })?;
            middle = Some(between);
            gateways.push(far);
        } else {
            wire(&Net { number: 2, left: (&gateways[0], LONG), right: (&server, HOST) })?;
        }
        let bed = Bed { _emulator: emulator, _middle: middle, client, server, gateways, v6 };
        bed.route()?;
        bed.set()?;
        Ok(bed)
    }

    fn route(&self) -> Result<()> {
        for v6 in [false, true] {
            let family = if v6 { "-6" } else { "-4" };
            let default = |host: &Namespace, by: String| host.ip(&[family, "route", "add", "default", "via", &by]);
            default(&self.client, address(v6, 1, 1))?;
            default(&self.server, address(v6, 2, 1))?;
            if let [near, far] = &self.gateways[..] {
                default(near, address(v6, 9, 2))?;
                default(far, address(v6, 9, 1))?;
            }
            let prefix = if v6 { 64 } else { 24 };
            let second = format!("{}/{prefix}", address(v6, 1, SECOND));
            self.client.ip(&["address", "add", &second, "dev", HOST, if v6 { "nodad" } else { "noprefixroute" }])?;
        }
        Ok(())
    }

    /// All hosts: the buffers that Linux ships, and nothing remembered of former connections. Gateways forward.
    fn set(&self) -> Result<()> {
        for (host, forwards) in
            [(&self.client, false), (&self.server, false)].into_iter().chain(self.gateways.iter().map(|g| (g, true)))
        {
            let mut settings = vec![
                ("ipv4/tcp_rmem", RECEIVE_BUFFER),
                ("ipv4/tcp_wmem", SEND_BUFFER),
                ("ipv4/tcp_no_metrics_save", "1"),
            ];
            if forwards {
                settings.extend([("ipv4/ip_forward", "1"), ("ipv6/conf/all/forwarding", "1")]);
                settings.push(("ipv4/tcp_congestion_control", GATEWAY_CONGESTION));
                settings.extend(IMPATIENT);
            }
            host.enter(|| {
                for (name, value) in settings {
                    fs::write(format!("/proc/sys/net/{name}"), value).with_context(|| format!("net/{name}"))?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Where the server listens.
    pub(super) fn server_address(&self) -> Result<SocketAddr> {
        Ok(SocketAddr::new(address(self.v6, 2, 2).parse()?, PORT))
    }

    /// The address at which the first gateway is called by the client.
    pub(super) fn gateway_address(&self) -> Result<SocketAddr> {
        Ok(SocketAddr::new(address(self.v6, 1, 1).parse()?, PORT))
    }

    /// An address of the client's.
    pub(super) fn client_address(&self, second: bool) -> Result<IpAddr> {
        Ok(address(self.v6, 1, if second { SECOND } else { 2 }).parse()?)
    }

    /// Takes the client's second address away: from then on nobody is there, and nobody says so.
    pub(super) fn forget_second_address(&self) -> Result<()> {
        let prefix = if self.v6 { 64 } else { 24 };
        let second = format!("{}/{prefix}", address(self.v6, 1, SECOND));
        self.client.ip(&["address", "del", &second, "dev", HOST]).map(drop)
    }

    /// Gives it back.
    pub(super) fn restore_second_address(&self) -> Result<()> {
        let prefix = if self.v6 { 64 } else { 24 };
        let second = format!("{}/{prefix}", address(self.v6, 1, SECOND));
        let flag = if self.v6 { "nodad" } else { "noprefixroute" };
        self.client.ip(&["address", "add", &second, "dev", HOST, flag]).map(drop)
    }
}

/// Joins the two by a cable and gives them addresses.
fn wire(net: &Net<'_>) -> Result<()> {
    cable(
        End { namespace: net.left.0, device: net.left.1, address: None },
        End { namespace: net.right.0, device: net.right.1, address: None },
    )?;
    number(net)
}

/// Gives both ends an address of each family, and one by which IPv6 asks for its neighbours (RFC 4861, 7.2.2).
fn number(net: &Net<'_>) -> Result<()> {
    for ((namespace, device), host) in [(net.left, 1), (net.right, 2)] {
        let [v4, v6] = [false, true].map(|v6| address(v6, net.number, host));
        namespace.ip(&["address", "add", &format!("{v4}/24"), "dev", device])?;
        for own in [v6, format!("fe80::{host}")] {
            namespace.ip(&["address", "add", &format!("{own}/64"), "dev", device, "nodad"])?;
        }
    }
    Ok(())
}

/// Tells both ends each other's Ethernet address for good: nobody asks for it over a long link.
fn introduce(net: &Net<'_>) -> Result<()> {
    for ((namespace, device), (other, its), host) in [(net.left, net.right, 2), (net.right, net.left, 1)] {
        let link = other.ip(&["-o", "link", "show", its])?;
        let ethernet = link.split_whitespace().skip_while(|word| *word != "link/ether").nth(1);
        let ethernet = ethernet.with_context(|| format!("{its} has no Ethernet address: {link}"))?;
        for v6 in [false, true] {
            let to = address(v6, net.number, host);
            namespace.ip(&["neighbour", "replace", &to, "lladdr", ethernet, "dev", device, "nud", "permanent"])?;
        }
    }
    Ok(())
}
