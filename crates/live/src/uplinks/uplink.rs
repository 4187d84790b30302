//! Devices with a route that leads to the hub, in whatever table.

use crate::netlink::{Interface, Netlink, NetlinkError, Route};
use ipnet::IpNet;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// What a device is, as far as the system tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An Ethernet port, or what looks like one.
    Ethernet,
    /// Wi-Fi.
    Wifi,
    /// A modem for mobile networks, or one that dials.
    Modem,
    /// A tunnel of some program.
    Tunnel,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Ethernet => "Ethernet",
            Kind::Wifi => "Wi-Fi",
            Kind::Modem => "modem",
            Kind::Tunnel => "tunnel",
        })
    }
}

/// A device by which the hub may be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uplink {
    /// Its name.
    pub device: String,
    /// What it is.
    pub kind: Kind,
    /// Its MTU in bytes.
    pub mtu: u32,
    /// Whether it is switched on and can carry packets.
    pub running: bool,
    /// Its addresses, but for those of the link alone.
    pub addresses: Vec<IpNet>,
    /// The routes that lead there, the one that counts first.
    pub routes: Vec<Route>,
}

impl Uplink {
    /// Whether a route by this device leads to `place`.
    pub(super) fn leads_to(&self, place: IpAddr) -> bool {
        self.routes.iter().any(|route| leads_to(route, place))
    }
}

fn leads_to(route: &Route, place: IpAddr) -> bool {
    match route.destination.prefix_len() {
        0 => route.destination.addr().is_ipv4() == place.is_ipv4(),
        _ => route.destination.contains(&place),
    }
}

/// Devices of this network namespace by which at least one of the places may be reached, the one that the kernel would take first. With
/// several tables of routes there may be some that it takes for nobody yet.
///
/// # Errors
/// What the kernel says.
pub fn find(places: &[IpAddr]) -> Result<Vec<Uplink>, NetlinkError> {
    let mut netlink = Netlink::open()?;
    let leads_there = |route: &Route| places.iter().any(|place| leads_to(route, *place));
    let mut routes: Vec<Route> = netlink.all_routes()?.into_iter().filter(leads_there).collect();
    routes.sort_by_key(|route| (std::cmp::Reverse(route.destination.prefix_len()), route.metric.unwrap_or(0)));
    let mut uplinks: Vec<Uplink> = Vec::new();
    for route in routes {
        if let Some(known) = uplinks.iter_mut().find(|uplink| uplink.device == route.device) {
            known.routes.push(route);
            continue;
        }
        let Interface { name, mtu, running, .. } = netlink.interface(&route.device)?;
        if name == "lo" {
            continue;
        }
        let mut addresses = netlink.addresses(&name)?;
        addresses.retain(|net| match net.addr() {
            IpAddr::V4(address) => !address.is_link_local(),
            IpAddr::V6(address) => !address.is_unicast_link_local(),
        });
        let kind = kind_of(&name, &Path::new("/sys/class/net").join(&name));
        uplinks.push(Uplink { device: name, kind, mtu, running, addresses, routes: vec![route] });
    }
    Ok(uplinks)
}

/// What a device is: what the system says of it in `folder`, or its name where nothing is said.
fn kind_of(name: &str, folder: &Path) -> Kind {
    let text = |file: &str| std::fs::read_to_string(folder.join(file)).unwrap_or_default();
    let is_there = |file: &str| -> bool { PathBuf::from(folder).join(file).exists() };
    let uevent = text("uevent");
    let devtype = uevent.lines().find_map(|line| line.strip_prefix("DEVTYPE=")).unwrap_or_default();
    // ARPHRD_PPP; ARPHRD_RAWIP of modems; tunnels of IPv4 and IPv6; what has no link layer at all, as WireGuard.
    let hardware: u32 = text("type").trim().parse().unwrap_or(1);
    match (devtype, hardware) {
        ("wlan", _) => Kind::Wifi,
        ("wwan", _) => Kind::Modem,
        ("wireguard" | "vxlan" | "geneve" | "gre", _) => Kind::Tunnel,
        _ if is_there("wireless") || is_there("phy80211") => Kind::Wifi,
        _ if is_there("tun_flags") => Kind::Tunnel,
        (_, 512 | 519) => Kind::Modem,
        (_, 768 | 769 | 776 | 778 | 823 | 65_534) => Kind::Tunnel,
        _ if name.starts_with("ww") || name.starts_with("ppp") => Kind::Modem,
        _ if name.starts_with("wl") => Kind::Wifi,
        _ => Kind::Ethernet,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_what_the_system_says_and_else_what_its_name_says() {
        let folder = tempfile::tempdir().expect("a folder");
        let nothing = folder.path().join("nothing");
        for (name, kind) in [
            ("eth0", Kind::Ethernet),
            ("enp3s0", Kind::Ethernet),
            ("wlan0", Kind::Wifi),
            ("wwan0", Kind::Modem),
            ("ppp0", Kind::Modem),
        ] {
            assert_eq!(kind_of(name, &nothing), kind, "{name}");
        }
        let said = |file: &str, text: &str, kind: Kind| {
            let device = folder.path().join(format!("{file}-{}", text.trim()));
            std::fs::create_dir(&device).expect("made");
            std::fs::write(device.join(file), text).expect("written");
            assert_eq!(kind_of("eth0", &device), kind, "{file} {text}");
        };
        said("uevent", "INTERFACE=x\nDEVTYPE=wwan\n", Kind::Modem);
        said("uevent", "DEVTYPE=wlan\nIFINDEX=3\n", Kind::Wifi);
        said("uevent", "DEVTYPE=wireguard\n", Kind::Tunnel);
        said("tun_flags", "0x1001\n", Kind::Tunnel);
        said("type", "519\n", Kind::Modem);
        said("type", "776\n", Kind::Tunnel);
        said("type", "1\n", Kind::Ethernet);
    }
}
