//! What a configuration names of its host: devices, files, a user, addresses. What a daemon could not begin with, or never use, is
//! refused here, where the line is known.

use super::peer::{Channel, ChannelKind};
use super::{ConfigError, Interface, Reader, Wanted};
use crate::{recorded, user};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use toml::Spanned;

/// Longest path of a control socket: what the kernel takes, less what is added while it is made.
const SOCKET_PATH_MAX: usize = 96;
/// The kernel's own device, which leads to this host.
const LOOPBACK: &str = "lo";
/// Names that no interface can be given: under them stand the settings of all.
const RESERVED: [&str; 3] = [LOOPBACK, "all", "default"];
/// EtherTypes that others own: frames of them are taken by the host, or lose their tag on the way.
const TAKEN: [(u16, &str); 6] = [
    (0x0800, "IPv4"),
    (0x0806, "ARP"),
    (0x86dd, "IPv6"),
    (0x8100, "VLAN tags"),
    (0x88a8, "VLAN tags"),
    (0x8809, "LACP"),
];

impl Reader<'_> {
    /// The name of an interface that is to be made.
    pub(super) fn new_name(&self, value: &Spanned<String>) -> Result<String, ConfigError> {
        let name = self.device_name(value, "interface.name")?;
        if RESERVED.contains(&name.as_str()) {
            let problem =
                format!("`{name}` is a name that the kernel keeps for itself: choose another one, such as `fs0`");
            return Err(self.error(value.span(), "interface.name", problem));
        }
        Ok(name)
    }

    /// A device by which the other end, or a LAN, is reached.
    pub(super) fn link_device(&self, value: &Spanned<String>, setting: &str) -> Result<String, ConfigError> {
        let device = self.device_name(value, setting)?;
        if device == LOOPBACK {
            let problem = "`lo` leads to this host alone: name the device that leads to the other end, such as `eth1`";
            return Err(self.error(value.span(), setting, problem));
        }
        Ok(device)
    }

    /// Where a file is to be made: it must be possible there.
    pub(super) fn file_fits(&self, span: Range<usize>, setting: &str, path: &Path) -> Result<(), ConfigError> {
        let bytes = path.as_os_str().as_bytes();
        let above = path.ancestors().skip(1).find(|above| above.exists());
        let problem = if bytes.is_empty() {
            "is empty: name a file".to_owned()
        } else if bytes.contains(&0) {
            "has a NUL character in it, which no path can: leave it out".to_owned()
        } else if path.is_dir() || bytes.ends_with(b"/") {
            format!("`{}` is a folder: name a file in it", path.display())
        } else if let Some(above) = above.filter(|above| !above.is_dir()) {
            format!("`{}` is no folder: choose another path", above.display())
        } else {
            return Ok(());
        };
        Err(self.error(span, setting, problem))
    }

    /// What stands at the place of the control socket must be one, or nothing.
    pub(super) fn control_socket_fits(&self, span: Range<usize>, path: &Path) -> Result<(), ConfigError> {
        const SETTING: &str = "interface.control_socket";
        self.file_fits(span.clone(), SETTING, path)?;
        let problem = if path.as_os_str().len() > SOCKET_PATH_MAX {
            format!("is longer than {SOCKET_PATH_MAX} bytes, which the kernel does not take: choose a shorter path")
        } else if std::fs::symlink_metadata(path).is_ok_and(|found| !found.file_type().is_socket()) {
            format!("`{}` is there already and is no socket: choose another path", path.display())
        } else {
            return Ok(());
        };
        Err(self.error(span, SETTING, problem))
    }

    /// What stands at the place of the recording must be an older one, or nothing.
    pub(super) fn record_fits(&self, span: Range<usize>, path: &Path) -> Result<(), ConfigError> {
        const SETTING: &str = "interface.record";
        self.file_fits(span.clone(), SETTING, path)?;
        match recorded::obstacle(path) {
            Some(what) => Err(self.error(
                span,
                SETTING,
                format!("`{}` is there already and is {what}: choose another path", path.display()),
            )),
            None => Ok(()),
        }
    }

    /// A recording is of one bond.
    pub(super) fn record_is_of_one(
        &self,
        interface: &Interface,
        span: Range<usize>,
        peers: usize,
    ) -> Result<(), ConfigError> {
        match interface.record.as_ref().filter(|_| peers > 1) {
            Some(record) => {
                let problem = format!("`{}`: a recording is of one bond: keep one [[peer]]", record.display());
                Err(self.error(span, "interface.record", problem))
            }
            None => Ok(()),
        }
    }

    /// An address of this host where the daemon answers; `example`: a good one.
    pub(super) fn listening(
        &self,
        text: &Spanned<String>,
        setting: &str,
        example: &str,
    ) -> Result<SocketAddr, ConfigError> {
        let address: SocketAddr = self.parsed(text, setting, example)?;
        let problem = if address.port() == 0 {
            format!("has port 0, and nobody would know where to ask: write for example \"{example}\"")
        } else if !address.ip().is_unspecified() && !is_host(address.ip()) {
            format!("is no host's address: write one of this host, such as \"{example}\"")
        } else if needs_device(address) {
            "is an address of one link: say which by its number, such as `[fe80::1%2]`, or write another address"
                .to_owned()
        } else {
            return Ok(address);
        };
        Err(self.error(text.span(), setting, problem))
    }

    /// `confine`: which restraints the daemon is to have.
    pub(super) fn confine(&self, words: Option<&[Spanned<String>]>) -> Result<Wanted, ConfigError> {
        let wanted = match words {
            Some(words) => Wanted::of(words.iter().map(|word| word.get_ref().as_str())),
            None => Wanted::of(Wanted::WORDS.into_iter()),
        };
        wanted.map_err(|word| {
            let span = words.into_iter().flatten().find(|given| given.get_ref() == word).map_or(0..0, Spanned::span);
            let problem = format!("`{word}` is none of {}", Wanted::WORDS.join(", "));
            self.error(span, "interface.confine", problem)
        })
    }

    /// The user whom the daemon is to become: `useradd` may still come.
    pub(super) fn user(&self, text: Option<Spanned<String>>) -> Option<String> {
        let text = text?;
        if user::find(text.get_ref()).is_none() {
            let problem =
                format!("there is no user `{}` in /etc/passwd, and without it no start: make one", text.get_ref());
            self.notice(text.span(), "interface.user", problem);
        }
        Some(text.into_inner())
    }

    /// The EtherType of an Ethernet link; that of its control frames is the next one.
    pub(super) fn ethertype(&self, value: &Spanned<u16>, setting: &str) -> Result<u16, ConfigError> {
        let ethertype = *value.get_ref();
        if !(0x0600..0xffff).contains(&ethertype) {
            let problem = "an EtherType is 0x0600 to 0xFFFE (control frames use the next one)";
            return Err(self.error(value.span(), setting, problem));
        }
        match TAKEN.iter().find(|(taken, _)| (ethertype..=ethertype + 1).contains(taken)) {
            Some((taken, whose)) => {
                let problem = format!(
                    "{taken:#06x} is that of {whose}, and {ethertype:#06x} and the next one are used: write another, or leave it out"
                );
                Err(self.error(value.span(), setting, problem))
            }
            None => Ok(ethertype),
        }
    }

    /// A UDP channel that leads to a name.
    pub(super) fn named(
        &self,
        place: &str,
        endpoint: &Spanned<String>,
        port: u16,
        source: Option<IpAddr>,
    ) -> Result<ChannelKind, ConfigError> {
        let problem = if place != "peer.channel" {
            "is a name: a neighbour of a ring is found by its address, so write that, such as \"203.0.113.1:51900\""
        } else if port == 0 {
            "has port 0, where nobody listens: write the peer's `listen_port`"
        } else {
            let endpoint = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port);
            return Ok(ChannelKind::Udp { endpoint, source });
        };
        Err(self.error(endpoint.span(), &format!("{place}.endpoint"), problem))
    }

    /// Where a UDP channel leads to, and from where, must be places that reach each other.
    pub(super) fn ends_fit(
        &self,
        place: &str,
        has_device: bool,
        (endpoint, at): (SocketAddr, Range<usize>),
        source: Option<(IpAddr, Range<usize>)>,
    ) -> Result<(), ConfigError> {
        let ip = endpoint.ip();
        let mapped = |ip: IpAddr| matches!(ip, IpAddr::V6(six) if six.to_ipv4_mapped().is_some());
        let problem = if endpoint.port() == 0 {
            "has port 0, where nobody listens: write the peer's `listen_port`"
        } else if !is_host(ip) {
            "is no host's address: write one at which the peer is reached, such as \"203.0.113.1:51900\""
        } else if mapped(ip) {
            "is an IPv4 address in IPv6's writing: write it as \"203.0.113.1:51900\""
        } else if needs_device(endpoint) && !has_device {
            "is an address of one link: name the `device` on that link"
        } else if ip.is_loopback() && has_device {
            "is this host itself, which no device leads to: write the peer's address, or leave `device` out"
        } else {
            ""
        };
        if !problem.is_empty() {
            return Err(self.error(at, &format!("{place}.endpoint"), problem));
        }
        let Some((source, at)) = source else { return Ok(()) };
        let problem = if source.is_ipv4() != endpoint.is_ipv4() || mapped(source) {
            "is not of the family of `endpoint`"
        } else if !is_host(source) {
            "is no host's address: write one of this host's, or leave it out"
        } else if source.is_loopback() && !ip.is_loopback() {
            "is the loopback's, from which nothing leaves: write an address of the device, or leave it out"
        } else if needs_device(SocketAddr::new(source, 0)) && !has_device {
            "is an address of one link: name the `device` that has it"
        } else {
            return Ok(());
        };
        Err(self.error(at, &format!("{place}.source"), problem))
    }

    /// A channel does not lead through the interface that it serves. `at`: where a setting of it stands.
    pub(super) fn leads_outside(
        &self,
        interface: &Interface,
        place: &str,
        channel: &Channel,
        at: impl Fn(&str) -> Range<usize>,
    ) -> Result<(), ConfigError> {
        let refused = |name: &str, problem: String| Err(self.error(at(name), &format!("{place}.{name}"), problem));
        let own = interface.own_device();
        if channel.device.as_deref() == Some(own) {
            let problem = match interface.port {
                Some(_) => format!("`{own}` is the port, whose frames would go round in a loop: name another device"),
                None => format!("`{own}` is the daemon's own interface: name a device below it"),
            };
            return refused("device", problem);
        }
        let Some((endpoint, source)) = channel.kind.ends() else { return Ok(()) };
        let is_own = |ip: IpAddr| interface.addresses.iter().any(|own| own.addr() == ip);
        for (name, endpoint) in [("endpoint", Some(endpoint)), ("tcp_endpoint", channel.tcp_endpoint)] {
            if let Some(ip) = endpoint.map(|endpoint| endpoint.ip()).filter(|ip| is_own(*ip)) {
                return refused(name, format!("{ip} is this interface's own address: write the peer's"));
            }
        }
        match source.filter(|source| is_own(*source)) {
            Some(source) => {
                let problem = format!(
                    "{source} is this interface's own address, and the channel would lead into itself: write one of the \
                     device below it, or leave it out"
                );
                refused("source", problem)
            }
            None => Ok(()),
        }
    }
}

/// Whether this can be the address of one host.
pub(super) fn is_host(address: IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    !address.is_unspecified() && !address.is_multicast() && !broadcast
}

/// Whether an address means another host on each link, and none is named.
fn needs_device(address: SocketAddr) -> bool {
    let of_a_link = |ip: &Ipv6Addr| ip.is_unicast_link_local();
    matches!(address, SocketAddr::V6(six) if of_a_link(six.ip()) && six.scope_id() == 0)
}
