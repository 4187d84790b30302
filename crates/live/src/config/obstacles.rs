//! What of this host keeps a daemon from starting at the moment, or from doing what its configuration says: a port in use, a device that
//! is not what it must be, a folder that its user cannot write in.
//!
//! None of it is a fault of the file, which may be meant for another host or for tomorrow. So each is a notice, and `check` alone asks:
//! `up` finds out by doing it. Nothing is changed. A port is bound and given back at once, and packet rules are shown to the kernel
//! without the word that puts them in force. What takes a privilege is left out where this process has none.
//!
//! What the running daemon of the configuration holds is no obstacle to it, and another's cannot be told from it. So all that one
//! daemon alone can have is asked for only where none answers.

use super::places::Places;
use super::{Config, ConfigError, Reader};
use crate::confinement::folders_of;
use crate::folders::{self, User};
use crate::lock::Lock;
use crate::memory;
use crate::netlink::{Destination, Netlink, TABLE_MAIN};
use crate::roles::doctor::{self, Verdict};
use crate::roles::domains::Domains;
use crate::roles::masquerade::{self, Masquerade};
use crate::roles::{Role, is_claimed, network};
use crate::sys::packet;
use crate::tun::TunError;
use crate::user;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::process::geteuid;
use rustix::thread::{CapabilitySet, capabilities};
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::HashMap;
use std::ffi::CString;
use std::fmt::Display;
use std::fs::OpenOptions;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// The kernel's TUN device.
const TUN: &str = "/dev/net/tun";
/// Whether interfaces that are made from now on have no IPv6.
const NO_IPV6: &str = "/proc/sys/net/ipv6/conf/default/disable_ipv6";

impl Config {
    /// As [`load`](Self::load). Among the notices is also what of this host, in the network namespace of this thread, stands in a
    /// daemon's way at the moment; each begins with "on this host, now".
    ///
    /// # Errors
    /// As [`load`](Self::load): nothing that depends on the moment is one.
    pub fn load_for_this_host(file: &Path) -> Result<Config, ConfigError> {
        let (mut config, text, _) = Config::load_with_files(file)?;
        let obstacles = Obstacles {
            reader: Reader::new(file, &text),
            places: Places::new(&text),
            user: daemons_user(&config),
            may_change: capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::NET_ADMIN)),
            config: &config,
        };
        obstacles.look();
        let found = obstacles.reader.notices.take();
        config.notices.extend(found);
        Ok(config)
    }
}

/// Whom the daemon will be, as far as this process can tell: another one than root may check for whomever.
fn daemons_user(config: &Config) -> Option<User> {
    match &config.interface.user {
        Some(name) => user::find(name).map(|(uid, gid)| User { name: name.clone(), uid, gid }),
        // Without its capabilities root is nobody special.
        None if geteuid().is_root() && config.interface.confine.capabilities => {
            Some(User { name: "root".to_owned(), uid: 0, gid: 0 })
        }
        None => None,
    }
}

/// Looks for obstacles.
struct Obstacles<'a> {
    reader: Reader<'a>,
    places: Places<'a>,
    config: &'a Config,
    user: Option<User>,
    /// This process may change the host's network.
    may_change: bool,
}

impl Obstacles<'_> {
    fn look(&self) {
        let interface = &self.config.interface;
        let told = self.memory();
        self.folders(told);
        let asked = UnixStream::connect(&interface.control_socket);
        // Who may not ask cannot tell.
        let is_running = asked.as_ref().err().is_none_or(|error| error.kind() == io::ErrorKind::PermissionDenied);
        if asked.is_ok() {
            self.tell(
                "interface.control_socket",
                "interface.control_socket",
                "a daemon answers there, and `fairspan up` would not start another: `fairspan reload` has it take over this file",
            );
        }
        if let Ok(mut netlink) = Netlink::open() {
            self.devices(&mut netlink, is_running);
            if !is_running {
                self.interface(&mut netlink);
                self.routes(&mut netlink);
            }
        }
        if !is_running {
            self.ports();
        }
        self.kernel(is_running);
    }

    /// The one way to a notice about this host. `place` is the path of the setting in the file.
    fn tell(&self, place: &str, setting: &str, problem: impl Display) {
        self.reader.notice(self.places.of(place), setting, format!("on this host, now: {problem}"));
    }

    /// Tells why nothing is kept between runs, or not safely, where that is so. It hinders no start.
    fn memory(&self) -> bool {
        let interface = &self.config.interface;
        let problem = interface.private_key.as_ref().and_then(|_| memory::problem(&interface.state_dir));
        let Some(problem) = problem else { return false };
        self.reader.notice(self.places.of("interface.state_dir"), "interface.state_dir", problem);
        true
    }

    /// Whether the daemon's user can write where it has to; `told`: of `state_dir` something was told already.
    fn folders(&self, told: bool) {
        let Some(user) = &self.user else { return };
        let interface = &self.config.interface;
        for folder in folders_of(interface).into_iter().filter(|folder| !(told && folder.setting == "state_dir")) {
            let setting = format!("interface.{}", folder.setting);
            // The daemon makes it, and gives it to its user, before it is that user.
            let is_given = interface.user.is_some() && (!folder.path.exists() || folder.is_given());
            if let Some(above) = folders::dangling(folder.path) {
                let problem = format!("`{}` leads to nothing: make the folder that it names", above.display());
                self.tell(&setting, &setting, problem);
            } else if !is_given && let Some(where_) = user.cannot_write(folder.path) {
                let problem = format!(
                    "{where_}: name a folder of its own, which is made where there is none, or give it this one \
                     (`chown {} {}`)",
                    user.name,
                    folder.path.display()
                );
                self.tell(&setting, &setting, problem);
            }
        }
        let Some(record) = &interface.record else { return };
        let folder = folders::of(record);
        if !folder.exists() {
            let problem = format!("there is no folder `{}`: make it", folder.display());
            self.tell("interface.record", "interface.record", problem);
        } else if let Some(where_) = user.cannot_write(folder) {
            let problem = format!("{where_}: name a file in a folder of its own");
            self.tell("interface.record", "interface.record", problem);
        }
    }

    /// The interface that is to be made, and what it takes.
    fn interface(&self, netlink: &mut Netlink) {
        const SETTING: &str = "interface.name";
        let interface = &self.config.interface;
        let is_made = match Role::of(self.config) {
            Role::Peers => interface.port.is_none(),
            Role::EthernetBond | Role::Ring => true,
            Role::Shaper | Role::Gateway => false,
        };
        if !is_made {
            return;
        }
        if netlink.interface(&interface.name).is_ok() {
            self.tell(SETTING, SETTING, TunError::NameInUse { name: interface.name.clone() });
        }
        let opened = OpenOptions::new().read(true).write(true).open(TUN);
        let lacks = |kind| opened.as_ref().is_err_and(|error: &io::Error| error.kind() == kind);
        let of_user = self.user.as_ref().is_some_and(|user| !user.may_use(Path::new(TUN), 0o6));
        if lacks(io::ErrorKind::PermissionDenied) || (opened.is_ok() && of_user) {
            self.tell(SETTING, SETTING, TunError::NoAccess);
        } else if opened.is_err() {
            self.tell(SETTING, SETTING, TunError::NoDriver);
        }
        let six = interface.addresses.iter().position(|net| net.addr().is_ipv6());
        if let Some(number) = six.filter(|_| new_have_no_v6()) {
            let problem = without_v6(&interface.addresses[number]);
            self.tell(&format!("interface.address.{number}"), "interface.address", problem);
        }
    }

    /// Routes that somebody else has set already.
    fn routes(&self, netlink: &mut Netlink) {
        let config = self.config;
        let mut wanted = Vec::new();
        for (n, peer) in config.peers.iter().enumerate().filter(|_| config.interface.port.is_none()) {
            let nets = peer.allowed_ips.iter().enumerate();
            wanted.extend(nets.map(|(m, net)| (format!("peer.{n}.allowed_ips.{m}"), "peer.allowed_ips", net)));
        }
        for (n, station) in config.ring.iter().flat_map(|ring| ring.stations.iter().enumerate()) {
            let nets = station.networks.iter().enumerate();
            let place = |m| format!("ring.station.{n}.networks.{m}");
            wanted.extend(nets.map(|(m, net)| (place(m), "ring.station.networks", net)));
        }
        let no_v6 = new_have_no_v6();
        let mut tables: HashMap<u32, Vec<Destination>> = HashMap::new();
        for (place, setting, net) in wanted {
            let Some(route) = network::route(&config.interface, &config.interface.name, net) else { continue };
            if net.addr().is_ipv6() && no_v6 {
                self.tell(&place, setting, without_v6(&format_args!("a route to {net}")));
                continue;
            }
            let taken =
                tables.entry(route.table).or_insert_with(|| netlink.destinations(route.table).unwrap_or_default());
            if taken.iter().any(|other| other.is_as(&route)) {
                let table = if route.table == TABLE_MAIN { String::new() } else { format!(" table {}", route.table) };
                let problem = format!(
                    "there is a route to {net} already, and a second one cannot be added: find out who needs it and remove it \
                     (`ip route del {net}{table}`), write more specific networks, or set routes yourself and write `table = \"off\"`"
                );
                self.tell(&place, setting, problem);
            }
        }
    }

    /// The devices that the configuration names.
    fn devices(&self, netlink: &mut Netlink, is_running: bool) {
        let config = self.config;
        let mut own = Vec::new();
        if let Some(port) = &config.interface.port {
            let setting = if self.places.of("interface.device") == self.places.of("interface") {
                "interface.name"
            } else {
                "interface.device"
            };
            own.push((setting.to_owned(), setting, port));
        }
        for (n, link) in config.bond.iter().flat_map(|bond| bond.links.iter().enumerate()) {
            own.push((format!("bond.link.{n}.device"), "bond.link.device", &link.device));
        }
        if let Some(shape) = &config.shape {
            own.push(("shape.a".to_owned(), "shape.a", &shape.a));
            own.push(("shape.b".to_owned(), "shape.b", &shape.b));
        }
        for (place, setting, device) in own {
            if !self.exists(netlink, &place, setting, device) {
                continue;
            }
            if !is_ethernet(device) {
                let problem = format!("`{device}` is no Ethernet device, and without one no start: name another");
                self.tell(&place, setting, problem);
            } else if !is_running && is_claimed(device) {
                let problem = format!("another daemon has `{device}`: end that one, or name another device");
                self.tell(&place, setting, problem);
            }
            for address in netlink.addresses(device).unwrap_or_default() {
                if !matches!(address.addr(), IpAddr::V6(six) if six.is_unicast_link_local()) {
                    let problem = format!(
                        "`{device}` has the address {address}, where this host answers by itself: `ip address del {address} dev \
                         {device}`"
                    );
                    self.tell(&place, setting, problem);
                }
            }
        }
        self.channels(netlink);
    }

    /// Where the channels of peers and the links of a ring leave.
    fn channels(&self, netlink: &mut Netlink) {
        let mut channels = Vec::new();
        for (n, peer) in self.config.peers.iter().enumerate() {
            for (m, channel) in peer.channels.iter().enumerate() {
                channels.push((format!("peer.{n}.channel.{m}"), "peer.channel", channel));
            }
        }
        for (name, side) in ["ring.east", "ring.west"].iter().zip(self.config.ring.iter().flat_map(|ring| &ring.sides))
        {
            if let Some(channel) = side.as_ref().and_then(|side| side.channel.as_ref()) {
                channels.push(((*name).to_owned(), name, channel));
            }
        }
        for (place, section, channel) in channels {
            let (at, setting) = (|name: &str| format!("{place}.{name}"), |name: &str| format!("{section}.{name}"));
            if let Some(device) = &channel.device
                && self.exists(netlink, &at("device"), &setting("device"), device)
                && channel.kind.ends().is_none()
                && !is_ethernet(device)
            {
                let problem = format!("`{device}` is no Ethernet device, and no frame can leave by it: name another");
                self.tell(&at("device"), &setting("device"), problem);
            }
            let source = channel.kind.ends().and_then(|(_, source)| source);
            if let Some(source) = source.filter(|source| !is_of_this_host(*source)) {
                let problem = format!(
                    "no interface has the address {source}: the channel begins when one has; `ip address` lists those that there are"
                );
                self.tell(&at("source"), &setting("source"), problem);
            }
        }
    }

    /// Whether there is such an interface; tells where there is none.
    fn exists(&self, netlink: &mut Netlink, place: &str, setting: &str, device: &str) -> bool {
        let exists = netlink.interface(device).is_ok();
        if !exists {
            let problem =
                format!("there is no interface `{device}`: it is waited for; `ip link` lists those that there are");
            self.tell(place, setting, problem);
        }
        exists
    }

    /// Whether the ports can be had at which the daemon answers.
    fn ports(&self) {
        let interface = &self.config.interface;
        let both = [IpAddr::from(Ipv4Addr::UNSPECIFIED), Ipv6Addr::UNSPECIFIED.into()];
        let of_all = |port: u16| both.map(|address| SocketAddr::new(address, port)).to_vec();
        let proxy = self.config.gateway.as_ref().and_then(|gateway| gateway.proxy);
        for (setting, kind, addresses) in [
            ("interface.listen_port", Type::DGRAM, interface.listen_port.map(of_all)),
            ("interface.listen_tcp_port", Type::STREAM, interface.listen_tcp_port.map(of_all)),
            ("interface.metrics", Type::STREAM, interface.metrics.map(|address| vec![address])),
            ("interface.web", Type::STREAM, interface.web.map(|address| vec![address])),
            ("gateway.proxy", Type::STREAM, proxy.map(|address| vec![address])),
        ] {
            for address in addresses.into_iter().flatten() {
                let is_own = interface.addresses.iter().any(|own| own.addr() == address.ip());
                let Err(error) = bind(kind, address) else { continue };
                let (port, flag) = (address.port(), if kind == Type::DGRAM { 'u' } else { 't' });
                let problem = match error.raw_os_error() {
                    Some(libc::EADDRINUSE) => format!(
                        "port {port} is in use: end the program that has it (`ss -nlp{flag} sport = :{port}` shows which), or write \
                         another"
                    ),
                    Some(libc::EADDRNOTAVAIL) if !address.ip().is_unspecified() && !is_own => {
                        missing(setting, address.ip())
                    }
                    _ => continue,
                };
                self.tell(setting, setting, problem);
                break;
            }
        }
    }

    /// What the kernel has to have for the rules of a lock or of a gateway.
    fn kernel(&self, is_running: bool) {
        if self.may_change
            && let Err(error) = Lock::of(self.config).attempt()
        {
            self.tell("interface.lock", "interface.lock", error);
        }
        if self.may_change
            && !is_running
            && let Err(error) = Masquerade::attempt(self.config)
        {
            let needs =
                "`masquerade` needs nf_tables with its expressions `masq` and sets (modules nf_tables, nft_masq)";
            self.tell("interface.masquerade", "interface.masquerade", format!("{error}: {needs}"));
        }
        if let Some(problem) = masquerade::problem(self.config) {
            self.tell("interface.masquerade", "interface.masquerade", problem);
        }
        if is_running {
            return;
        }
        if self.may_change
            && let Err(error) = Domains::attempt(self.config)
        {
            let needs = "names need nf_tables and its queue (modules nf_tables, nfnetlink_queue, nft_queue), and an `fwmark` that no other \
                         daemon has";
            self.tell("domains", "domains", format!("{error}: {needs}"));
        }
        let needs_privilege = ["rules", "queue"];
        let together = doctor::Together::of(self.config);
        for (peer, config) in self.config.gateways() {
            let place = peer.map_or("gateway".to_owned(), |number| format!("peer.{number}.split"));
            let section = if peer.is_some() { "peer.split" } else { "gateway" };
            for finding in doctor::examine(&config, doctor::Daemon::Absent, together) {
                let is_known = self.may_change || !needs_privilege.contains(&finding.subject);
                if finding.verdict == Verdict::Wrong && is_known {
                    // That of a peer's gateway is the daemon's own.
                    let setting = finding.setting.filter(|setting| peer.is_none() || *setting != "long");
                    let setting = setting.map_or_else(String::new, |setting| format!(".{setting}"));
                    let remedy = finding.remedy.map_or_else(String::new, |remedy| format!(": {remedy}"));
                    let problem = format!("{}{remedy}", finding.found);
                    self.tell(&format!("{place}{setting}"), &format!("{section}{setting}"), problem);
                }
            }
        }
    }
}

/// Whether interfaces that are made now have no IPv6.
fn new_have_no_v6() -> bool {
    std::fs::read_to_string(NO_IPV6).map_or(true, |text| text.trim() == "1")
}

fn without_v6(what: &impl Display) -> String {
    format!(
        "new interfaces have no IPv6, and {what} could not be added: `sysctl -w net.ipv6.conf.default.disable_ipv6=0`, or leave it out"
    )
}

/// Whether frames of Ethernet leave by a device; one of which nothing can be told is taken for one.
fn is_ethernet(device: &str) -> bool {
    let asked = || -> io::Result<bool> {
        let name = CString::new(device).map_err(|_| io::ErrorKind::InvalidInput)?;
        let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        Ok(packet::device(socket.as_fd(), &name)?.ethernet)
    };
    asked().unwrap_or(true)
}

/// Whether an interface has this address, so that a socket can have it.
fn is_of_this_host(address: IpAddr) -> bool {
    // One of a link is that of a device, which is not asked for here.
    let of_a_link = matches!(address, IpAddr::V6(six) if six.is_unicast_link_local());
    let bound = bind(Type::DGRAM, SocketAddr::new(address, 0));
    of_a_link || !bound.is_err_and(|error| error.raw_os_error() == Some(libc::EADDRNOTAVAIL))
}

/// What it means for a setting that no interface has its address.
fn missing(setting: &str, address: IpAddr) -> String {
    let then = match setting {
        "interface.web" => "the page waits for it, and traffic goes on",
        "interface.metrics" => "the metrics wait for it, and traffic goes on",
        _ => "without one no start",
    };
    format!("no interface has the address {address}, and {then}: `ip address` lists those that there are")
}

/// Binds an address as a daemon does, and gives it back.
fn bind(kind: Type, address: SocketAddr) -> io::Result<()> {
    let protocol = if kind == Type::DGRAM { Protocol::UDP } else { Protocol::TCP };
    let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    if kind == Type::STREAM {
        // Connections of before may still be ending.
        socket.set_reuse_address(true)?;
    }
    socket.bind(&address.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_and_metrics_alone_wait_for_an_address_that_no_interface_has() {
        let of = |setting| missing(setting, "192.0.2.1".parse().expect("an address"));
        assert!(of("interface.web").contains("the page waits for it") && !of("interface.web").contains("no start"));
        assert!(of("interface.metrics").contains("the metrics wait for it"));
        assert!(of("gateway.proxy").contains("192.0.2.1, and without one no start"));
    }
}
