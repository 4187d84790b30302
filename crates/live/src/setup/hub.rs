//! A hub invites a site: an entry for it in the hub's configuration, an address in the inner network, and the invitation.

use super::addresses::free_host;
use super::{Made, SetupError, Turn, failed, interface_of, quoted, replace, stem};
use crate::config::{Config, Table};
use crate::day::utc;
use crate::folders;
use crate::roles::Role;
use crate::secure::{Entropy as _, OsEntropy, PrivateKey};
use crate::system::system;
use fairspan_core::wire::invitation::{Host, Invitation, NETWORKS_MAX, PLACES_MAX, Place, SECRET_LEN, SITE_MAX};
use ipnet::IpNet;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The port of a hub whose configuration is written here.
const PORT: u16 = 51900;
/// Its inner network.
const NETWORK: &str = "10.77.0.1/24";

/// What a hub invites a site to.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The hub's configuration; it is made where there is none.
    pub file: PathBuf,
    /// What the site is called; `site1`, `site2` and so on by default.
    pub name: Option<String>,
    /// Where the hub is called: hosts with a port, or with the one at which it listens. By default the addresses of this host.
    pub places: Vec<(Host, Option<u16>)>,
    /// The hub's address in the inner network of a configuration that is made, with the network's prefix length.
    pub network: Option<IpNet>,
    /// The port at which a hub listens whose configuration is made.
    pub port: Option<u16>,
    /// The TCP port at which it listens too.
    pub tcp_port: Option<NonZeroU16>,
    /// What else the site reaches through the hub.
    pub networks: Vec<IpNet>,
    /// How long the invitation is good.
    pub lifetime: Duration,
}

/// What was done.
#[derive(Debug)]
pub struct Invited {
    /// The word that the site joins with.
    pub word: String,
    /// The site's name.
    pub name: String,
    /// The site's address.
    pub site: IpNet,
    /// The hub's address.
    pub hub: IpNet,
    /// When it expires, in seconds since 1970.
    pub expires: u64,
    /// Where the hub is called.
    pub places: Vec<Place>,
    /// The TCP port there, if it listens for that too.
    pub tcp_port: Option<NonZeroU16>,
    /// Whether none of these is an address of the internet, and nobody named them.
    pub is_private: bool,
    /// The file of keys that belongs to it.
    pub invitation_file: PathBuf,
    /// What was written into the configuration: all of it, if it was made.
    pub written: String,
    /// Whether there was no configuration before.
    pub is_new: bool,
    /// Whether the site reaches others through the hub, whose configuration does not let their answers come back.
    pub lacks_masquerade: bool,
    /// Where the daemon of this configuration answers.
    pub control_socket: PathBuf,
    /// What of the configuration works and is hardly meant, and what on this host stands in the daemon's way.
    pub notices: Vec<crate::config::ConfigError>,
}

/// Invites a site.
///
/// # Errors
/// What is wrong with the wish, the configuration or this host. Then everything is as before.
pub fn invite(wish: &Wish) -> Result<Invited, SetupError> {
    let _turn = Turn::wait(&wish.file)?;
    let mut made = Made::default();
    let before = match std::fs::read_to_string(&wish.file) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(failed(&wish.file)(error)),
    };
    let hub = match &before {
        Some(_) => Hub::known(wish)?,
        None => Hub::new(wish, &mut made)?,
    };
    let name = hub.name(wish)?;
    let (places, is_private) = places(wish, &hub)?;
    let site = free_host(hub.address, &hub.taken).ok_or_else(|| {
        SetupError::Wrong(format!("no address is free in {}: remove a [[peer]] that nobody needs", hub.address.trunc()))
    })?;
    let expires = system().wall().as_secs() + wish.lifetime.as_secs();
    let mut secret = [0; SECRET_LEN];
    OsEntropy::new().fill(&mut secret);
    let invitation = Invitation {
        hub_key: *hub.key.public_key().as_bytes(),
        secret,
        expires: u32::try_from(expires).map_err(|_| SetupError::Wrong("it would expire after the year 2106".into()))?,
        hub: hub.address.addr(),
        site,
        prefix: hub.address.prefix_len(),
        networks: networks(wish, hub.address)?,
        places: places.clone(),
        name: name.clone(),
        tcp_port: hub.tcp_port,
    };
    let word = invitation.encode().map_err(|error| SetupError::Wrong(error.to_string()))?;
    let beside = format!("{}.{name}.invitation", stem(&wish.file));
    let invitation_file = folders::of(&wish.file).join(&beside);
    made.write(&invitation_file, &format!("{word}\n"))?;
    let site = IpNet::new(site, hub.address.prefix_len()).unwrap_or(hub.address);
    let entry = format!(
        "\n# Invited on {}; whoever has the invitation may join until {}.\n[[peer]]\nname = {}\nallowed_ips = [\"{}\"]\n\
         invitation_file = {}\n",
        utc(system().wall().as_secs()),
        utc(expires),
        quoted(&name),
        IpNet::from(site.addr()),
        quoted(&beside),
    );
    let written = match &before {
        None => format!("{}{entry}", hub.head),
        Some(_) => entry.clone(),
    };
    write(wish, before.as_deref(), &written, &mut made)?;
    let checked = Config::load_for_this_host(&wish.file);
    let config = match checked {
        Ok(config) => config,
        Err(error) => {
            if let Some(before) = &before {
                replace(&wish.file, before)?;
            }
            return Err(SetupError::Wrong(error.to_string()));
        }
    };
    made.keep();
    Ok(Invited {
        word,
        name,
        site,
        hub: hub.address,
        expires,
        places,
        tcp_port: hub.tcp_port,
        is_private,
        invitation_file,
        written: written.trim_start().to_owned(),
        is_new: before.is_none(),
        lacks_masquerade: !wish.networks.is_empty() && !config.interface.masquerade,
        control_socket: config.interface.control_socket.clone(),
        notices: config.notices,
    })
}

/// What the site reaches through the hub, each network once.
fn networks(wish: &Wish, inner: IpNet) -> Result<Vec<(IpAddr, u8)>, SetupError> {
    let mut networks = Vec::new();
    for net in wish.networks.iter().map(IpNet::trunc) {
        if net.addr().is_ipv4() != inner.addr().is_ipv4() {
            let problem = format!(
                "--route {net} is not of the IP version of the network inside ({}), and the site has no other address",
                inner.trunc()
            );
            return Err(SetupError::Wrong(problem));
        }
        if net != inner.trunc() && !networks.contains(&(net.addr(), net.prefix_len())) {
            networks.push((net.addr(), net.prefix_len()));
        }
    }
    Ok(networks)
}

/// Writes a new configuration, or what is new behind an old one.
fn write(wish: &Wish, before: Option<&str>, written: &str, made: &mut Made) -> Result<(), SetupError> {
    match before {
        None => made.write(&wish.file, written),
        Some(before) => {
            if std::fs::read_to_string(&wish.file).map_err(failed(&wish.file))? != before {
                return Err(SetupError::Wrong(format!(
                    "{}: somebody else has just changed it: do the same again",
                    wish.file.display()
                )));
            }
            let end = if before.ends_with('\n') || before.is_empty() { "" } else { "\n" };
            replace(&wish.file, &format!("{before}{end}{written}"))
        }
    }
}

/// What an invitation needs to know of the hub.
struct Hub {
    key: PrivateKey,
    /// Its address inside, with the network's prefix length.
    address: IpNet,
    port: u16,
    tcp_port: Option<NonZeroU16>,
    interface: String,
    names: Vec<String>,
    taken: Vec<IpNet>,
    /// Of a configuration that is made, what stands before its peers.
    head: String,
}

impl Hub {
    /// One whose configuration is there.
    fn known(wish: &Wish) -> Result<Hub, SetupError> {
        let config = Config::load(&wish.file).map_err(|error| SetupError::Wrong(error.to_string()))?;
        let wrong = |problem: &str| SetupError::Wrong(format!("{}: {problem}", wish.file.display()));
        if Role::of(&config) != Role::Peers || config.interface.port.is_some() {
            return Err(wrong("this is no hub of sites: `fairspan invite` is for an interface with [[peer]]s"));
        }
        if wish.network.is_some() || wish.port.is_some() || wish.tcp_port.is_some() {
            return Err(wrong(
                "is there already, and says itself what its `address`, `listen_port` and `listen_tcp_port` are: leave --network, --port \
                 and --tcp-port out",
            ));
        }
        let interface = &config.interface;
        let key = interface.private_key.clone();
        let key = key.ok_or_else(|| wrong("interface.private_key_file is missing, and an invitation is to a key"))?;
        let port = interface.listen_port;
        let port =
            port.ok_or_else(|| wrong("interface.listen_port is missing: write one such as 51900, where sites call"))?;
        if interface.table == Table::Off {
            return Err(wrong("with interface.table = \"off\" sites are not routed to: write [[peer]]s by hand"));
        }
        let address = interface
            .addresses
            .iter()
            .copied()
            .find(|net| usize::from(net.prefix_len()) < usize::from(net.max_prefix_len()) - 1);
        let address = address.ok_or_else(|| {
            wrong("interface.address has no network with room for a site: write one such as \"10.77.0.1/24\"")
        })?;
        Ok(Hub {
            key,
            address,
            port,
            tcp_port: interface.listen_tcp_port.and_then(NonZeroU16::new),
            interface: interface.name.clone(),
            names: config.peers.iter().map(|peer| peer.name.clone()).collect(),
            taken: config
                .peers
                .iter()
                .flat_map(|peer| peer.allowed_ips.clone())
                .chain(interface.addresses.iter().map(|net| net.addr().into()))
                .collect(),
            head: String::new(),
        })
    }

    /// One whose configuration is to be made.
    fn new(wish: &Wish, made: &mut Made) -> Result<Hub, SetupError> {
        let address = match wish.network {
            Some(net)
                if net.addr() == net.network()
                    && usize::from(net.prefix_len()) < usize::from(net.max_prefix_len()) - 1 =>
            {
                let first =
                    free_host(net, &[]).ok_or_else(|| SetupError::Wrong(format!("{net} has no room for hosts")))?;
                IpNet::new(first, net.prefix_len()).unwrap_or(net)
            }
            Some(net) if usize::from(net.prefix_len()) < usize::from(net.max_prefix_len()) - 1 => net,
            Some(net) => {
                return Err(SetupError::Wrong(format!(
                    "--network {net} has no room for a site: write for example 10.77.0.1/24"
                )));
            }
            None => NETWORK.parse().unwrap_or_default(),
        };
        if let Some(used) = super::site::overlap(address, "").map_err(|error| SetupError::Wrong(error.to_string()))? {
            let problem = format!(
                "{} overlaps with {used} of this host: name another network, as with `--network 10.133.7.1/24`",
                address.trunc()
            );
            return Err(SetupError::Wrong(problem));
        }
        let port = wish.port.unwrap_or(PORT);
        let interface = interface_of(&wish.file);
        let beside = format!("{}.key", stem(&wish.file));
        let key = made.key(&folders::of(&wish.file).join(&beside))?;
        let tcp = wish.tcp_port.map(|port| format!("listen_tcp_port = {port}\n")).unwrap_or_default();
        // What lies behind the hub answers the hub, and needs no route to the site.
        let translates = if wish.networks.is_empty() { "" } else { "masquerade = true\n" };
        let head = format!(
            "# A hub, written by `fairspan invite`; each site that joins is a [[peer]].\n[interface]\nname = {}\naddress = [\"{address}\"]\n\
             private_key_file = {}\nlisten_port = {port}\n{tcp}{translates}",
            quoted(&interface),
            quoted(&beside),
        );
        Ok(Hub { key, address, port, tcp_port: wish.tcp_port, interface, names: Vec::new(), taken: Vec::new(), head })
    }

    /// What the site is called: it becomes a part of a file's name.
    fn name(&self, wish: &Wish) -> Result<String, SetupError> {
        let Some(name) = &wish.name else {
            let folder = folders::of(&wish.file);
            let is_free = |name: &String| {
                !self.names.contains(name) && !folder.join(format!("{}.{name}.invitation", stem(&wish.file))).exists()
            };
            let mut numbered = (1..).map(|n: u32| format!("site{n}"));
            return numbered.find(is_free).ok_or_else(|| SetupError::Wrong("no name is free".into()));
        };
        let is_good = (1..=SITE_MAX / 2).contains(&name.len())
            && name.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_'));
        if !is_good {
            let problem = "--name: 1 to 32 letters, digits, `-` and `_`, as it becomes a part of a file's name";
            return Err(SetupError::Wrong(problem.into()));
        }
        if self.names.contains(name) {
            let problem = format!(
                "{}: a peer is called {name} already: choose another name, or remove that [[peer]] and `fairspan reload`",
                wish.file.display()
            );
            return Err(SetupError::Wrong(problem));
        }
        Ok(name.clone())
    }
}

/// Where the hub is called, and whether that is out of reach of the internet as far as can be seen.
fn places(wish: &Wish, hub: &Hub) -> Result<(Vec<Place>, bool), SetupError> {
    if wish.networks.len() > NETWORKS_MAX || wish.places.len() > PLACES_MAX {
        let problem = format!("an invitation has at most {PLACES_MAX} places and {NETWORKS_MAX} networks");
        return Err(SetupError::Wrong(problem));
    }
    let place = |host: Host, port: Option<u16>| Place { host, port: port.unwrap_or(hub.port) };
    if !wish.places.is_empty() {
        return Ok((wish.places.iter().map(|(host, port)| place(host.clone(), *port)).collect(), false));
    }
    let found = super::places_of_this_host(&hub.interface).map_err(|error| SetupError::Wrong(error.to_string()))?;
    let (found, is_public): (Vec<IpAddr>, bool) = found;
    if found.is_empty() {
        let problem =
            "this host has no address at which a site could call it: name one, as with `--endpoint hub.example.net`";
        return Err(SetupError::Wrong(problem.into()));
    }
    Ok((found.into_iter().map(|address| place(Host::Address(address), None)).collect(), !is_public))
}

impl Invited {
    /// The folder of the configuration.
    pub fn folder(&self) -> &Path {
        folders::of(&self.invitation_file)
    }
}
