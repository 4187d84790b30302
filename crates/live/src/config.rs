//! The configuration of one daemon: a TOML file, checked whole before anything is touched.
//!
//! Names follow WireGuard's and systemd-networkd's where those have one. An error names the file, the line, the setting,
//! what was wrong and what would be right. [`Config::load`] reads and checks; the fields of [`Config`] say what each
//! setting means and its default.

mod bond;
mod change;
mod class;
mod confine;
mod domains;
mod fit;
mod gateway;
mod grammar;
mod host;
mod invited;
mod lock;
mod login;
mod name;
mod obstacles;
mod peer;
mod places;
mod policy;
mod port;
mod ring;
mod secret;
mod shape;
mod split;
#[cfg(test)]
mod tests;
mod values;
mod web;
mod webhook;

pub(crate) use change::paired;
pub(crate) use web::Served;

pub use bond::{Bond, BondLink};
pub use confine::Wanted;
pub use domains::{Domains, Side};
pub use gateway::{Gateway, OfPeer};
pub use invited::Invited;
pub use login::Login;
pub use peer::{Channel, ChannelKind, Peer, Quota};
pub use ring::{BondOf, Ring, RingSide, RingStation};
pub use secret::veiled;
pub use shape::Shape;
pub use webhook::Webhook;

use self::peer::RawKind;
use self::secret::Text;
use crate::folders;
use crate::secure::PrivateKey;
use crate::text_file;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use thiserror::Error;
use toml::Spanned;
use zeroize::{Zeroize, Zeroizing};

/// A checked configuration.
#[derive(Debug)]
#[non_exhaustive]
pub struct Config {
    /// The virtual interface and the daemon.
    pub interface: Interface,
    /// The peers, in the order of the file. None where the daemon is something else.
    pub peers: Vec<Peer>,
    /// Which names' addresses are reached through the bond, and which past it.
    pub domains: Vec<Domains>,
    /// A bond of Ethernet links, instead of peers.
    pub bond: Option<Bond>,
    /// A node of a ring, instead of peers.
    pub ring: Option<Ring>,
    /// A shaper between two devices, instead of peers.
    pub shape: Option<Shape>,
    /// A gateway that splits TCP connections, instead of peers.
    pub gateway: Option<Gateway>,
    /// What works and is hardly meant: where, and what would be better.
    pub notices: Vec<ConfigError>,
}

/// `[interface]`: the virtual interface and the daemon.
#[derive(Debug)]
#[non_exhaustive]
pub struct Interface {
    /// `name`: of the TUN interface, at most 15 bytes; of a port by default its device's.
    pub name: String,
    /// `device`, where `kind` is `port`: whose frames the peer gets; by default named as the interface.
    pub port: Option<String>,
    /// `address`: addresses of the interface, each with its prefix length.
    pub addresses: Vec<IpNet>,
    /// `private_key` or `private_key_file`. Needed as soon as one channel is encrypted.
    pub private_key: Option<PrivateKey>,
    /// `listen_port`: UDP port on which peers may begin; without it the daemon only calls out.
    pub listen_port: Option<u16>,
    /// `listen_tcp_port`: TCP port on which peers may begin where UDP does not reach; default none.
    pub listen_tcp_port: Option<u16>,
    /// `mtu`: of the interface; default: what fits all channels of all peers.
    pub mtu: Option<u16>,
    /// `fwmark`: set on every datagram sent, so that a default route through the interface makes no loop; default 51900.
    pub fwmark: u32,
    /// `table`: where routes for `allowed_ips` go; default `auto`.
    pub table: Table,
    /// `lock`: whether nothing may leave the host but through the interface; default false.
    pub lock: bool,
    /// `lock_except`: where it may leave in the clear all the same; default nowhere.
    pub lock_except: Vec<IpNet>,
    /// `dns`: who answers the host's questions for names while it is locked, one of each IP version; default who is asked.
    pub dns: Vec<IpAddr>,
    /// `masquerade`: whether what peers send to others leaves with this host's addresses; default false.
    pub masquerade: bool,
    /// `control_socket`: Unix socket for `fairspan status`; default `/run/fairspan/NAME.sock`.
    pub control_socket: PathBuf,
    /// `state_dir`: where the timestamps of handshakes are kept between runs; default `/var/lib/fairspan`.
    pub state_dir: PathBuf,
    /// `metrics`: address of the Prometheus endpoint; default off.
    pub metrics: Option<SocketAddr>,
    /// `web`: address of the page; default off.
    pub web: Option<SocketAddr>,
    /// `web_password`, `web_password_file`: what who looks at it has to know; default nothing.
    pub web_password: Option<Login>,
    /// `web_hosts`: names under which browsers may know it, beside addresses and `localhost`.
    pub web_hosts: Vec<String>,
    /// `web_control`: whether links may be taken out there; default false.
    pub web_control: bool,
    /// `webhook`: where alarms go; default nowhere.
    pub webhook: Option<Webhook>,
    /// `record`: file into which every input of the core is written; default off. For one peer only.
    pub record: Option<PathBuf>,
    /// `offload`: 64 kB units between host and daemon; default true.
    pub offload: bool,
    /// `padding`: whether lengths of packets are hidden; default false.
    pub padding: bool,
    /// `user`: whom the daemon runs as once it has begun; default: who started it.
    pub user: Option<String>,
    /// `confine`: what it gives up before it opens anything; default all.
    pub confine: Wanted,
}

impl Interface {
    /// The device that packets come from: a TUN interface, or a port.
    fn own_device(&self) -> &str {
        self.port.as_deref().unwrap_or(&self.name)
    }
}

/// `table`: where routes for the peers' `allowed_ips` go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// The main table; a default route goes into a table of its own with rules that spare the daemon's own datagrams.
    Auto,
    /// No routes are set.
    Off,
    /// This table.
    Number(u32),
}

/// What is wrong with a configuration, and where.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}{}: {setting}{}{problem}", .file.display(), self.place(), if setting.is_empty() { "" } else { ": " })]
pub struct ConfigError {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1; 0 where the file could not be read.
    pub line: usize,
    /// The setting, such as `peer.channel.rate`; empty where the TOML itself is broken.
    pub setting: String,
    /// What was wrong, and what would be right.
    pub problem: String,
}

impl ConfigError {
    fn place(&self) -> String {
        if self.line == 0 { String::new() } else { format!(":{}", self.line) }
    }
}

/// The least MTU with which the kernel does IPv6.
const IPV6_MTU: u16 = 1280;
/// The section whose settings a peer may have too.
const GATEWAY: &str = "gateway";
/// The link-layer bytes that Ethernet adds to an IP packet, without preamble, gap and checksum.
const ETHERNET_OVERHEAD: u16 = 14;

/// Where control sockets are unless configurations say otherwise.
pub const CONTROL_FOLDER: &str = "/run/fairspan";

/// `/run/fairspan/NAME.sock`
pub fn default_control_socket(interface: &str) -> PathBuf {
    Path::new(CONTROL_FOLDER).join(format!("{interface}.sock"))
}

impl Config {
    const fn without_role(interface: Interface) -> Config {
        Config {
            interface,
            peers: Vec::new(),
            domains: Vec::new(),
            bond: None,
            ring: None,
            shape: None,
            gateway: None,
            notices: Vec::new(),
        }
    }

    /// Whether peers are reached over TCP, or may begin over it.
    pub(crate) fn has_tcp(&self) -> bool {
        let mut channels = self.peers.iter().flat_map(|peer| &peer.channels);
        self.interface.listen_tcp_port.is_some()
            || channels.any(|channel| channel.tcp_endpoint.is_some() || matches!(channel.kind, ChannelKind::Tcp { .. }))
    }

    /// Reads and checks `file`.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line.
    pub fn load(file: &Path) -> Result<Config, ConfigError> {
        Config::load_with_files(file).map(|(config, ..)| config)
    }

    /// As [`load`](Self::load), for who only locks the host or unlocks it: files of keys may be missing, as those are that systemd
    /// gives to the daemon alone.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_to_lock(file: &Path) -> Result<Config, ConfigError> {
        let text = Config::text_of(file)?;
        Reader { only_locks: true, ..Reader::new(file, &text) }.parse()
    }

    fn text_of(file: &Path) -> Result<Zeroizing<String>, ConfigError> {
        text_file::read(file, text_file::SETTINGS).map(Zeroizing::new).map_err(|error| {
            let why = match error.kind() {
                io::ErrorKind::InvalidData => "it is not text in UTF-8".to_owned(),
                _ => error.to_string(),
            };
            let unread = Reader::new(file, "").error(0..0, "", format!("cannot be read: {why}"));
            ConfigError { line: 0, ..unread }
        })
    }

    /// As [`load`](Self::load), with the text, and the files of keys that it names.
    pub(crate) fn load_with_files(file: &Path) -> Result<(Config, Zeroizing<String>, Files), ConfigError> {
        let text = Config::text_of(file)?;
        let reader = Reader::new(file, &text);
        let mut config = reader.parse()?;
        let files = reader.files.into_inner();
        if secret::has_key(&text)
            && let Some(problem) = secret::exposure(file)
        {
            config.notices.push(Reader::new(file, &text).error(0..0, "", format!("holds a key, and {problem}")));
        }
        Ok((config, text, files))
    }

    /// As [`parse`](Self::parse), with the files of keys at hand instead of sought.
    pub(crate) fn parse_given(file: &Path, text: &str, files: &Files) -> Result<Config, ConfigError> {
        Reader { given: Some(files), ..Reader::new(file, text) }.parse()
    }

    /// Checks `text`; `file` is named in errors, and key files are sought relative to its folder.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line.
    pub fn parse(file: &Path, text: &str) -> Result<Config, ConfigError> {
        Reader::new(file, text).parse()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawConfig {
    interface: Spanned<RawInterface>,
    #[serde(default)]
    peer: Vec<Spanned<peer::RawPeer>>,
    #[serde(default)]
    domains: Vec<Spanned<domains::RawDomains>>,
    bond: Option<Spanned<bond::RawBond>>,
    ring: Option<Spanned<ring::RawRing>>,
    shape: Option<Spanned<shape::RawShape>>,
    gateway: Option<Spanned<gateway::RawGateway>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawInterface {
    name: Option<Spanned<String>>,
    kind: Option<Spanned<String>>,
    device: Option<Spanned<String>>,
    #[serde(default)]
    address: Vec<Spanned<String>>,
    private_key: Option<Spanned<Text>>,
    private_key_file: Option<Spanned<String>>,
    listen_port: Option<Spanned<u16>>,
    listen_tcp_port: Option<Spanned<u16>>,
    mtu: Option<Spanned<u16>>,
    fwmark: Option<u32>,
    table: Option<Spanned<toml::Value>>,
    lock: Option<Spanned<bool>>,
    #[serde(default)]
    lock_except: Vec<Spanned<String>>,
    #[serde(default)]
    dns: Vec<Spanned<String>>,
    masquerade: Option<Spanned<bool>>,
    control_socket: Option<Spanned<PathBuf>>,
    state_dir: Option<PathBuf>,
    metrics: Option<Spanned<String>>,
    web: Option<Spanned<String>>,
    web_password: Option<Spanned<Text>>,
    web_password_file: Option<Spanned<String>>,
    #[serde(default)]
    web_hosts: Vec<Spanned<String>>,
    web_control: Option<Spanned<bool>>,
    webhook: Option<Spanned<String>>,
    webhook_password_file: Option<Spanned<String>>,
    record: Option<Spanned<PathBuf>>,
    offload: Option<bool>,
    padding: Option<bool>,
    user: Option<Spanned<String>>,
    confine: Option<Vec<Spanned<String>>>,
}

/// Networks that are routed into the tunnel: the setting that says so, and whose they are.
struct Routed<'a> {
    setting: &'static str,
    whose: String,
    nets: &'a [IpNet],
}

/// Turns raw settings into checked ones, knowing where each stands.
struct Reader<'a> {
    file: &'a Path,
    text: &'a str,
    /// What works and is hardly meant.
    notices: RefCell<Vec<ConfigError>>,
    /// What `gateway` is called in errors.
    gateway_is: &'static str,
    /// The files of keys, where others are not to be sought.
    given: Option<&'a Files>,
    /// Those that were read.
    files: RefCell<Files>,
    /// No key is needed, so one whose file is missing is stood in for.
    only_locks: bool,
}

/// Files of keys, by their paths.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Files(BTreeMap<PathBuf, String>);

impl Drop for Files {
    fn drop(&mut self) {
        self.0.values_mut().for_each(Zeroize::zeroize);
    }
}

impl<'a> Reader<'a> {
    fn new(file: &'a Path, text: &'a str) -> Reader<'a> {
        let (notices, files) = (RefCell::default(), RefCell::default());
        Reader { file, text, notices, gateway_is: GATEWAY, given: None, files, only_locks: false }
    }
}

/// A secret, where it stands or is named, and by which setting.
type Secret = (Zeroizing<String>, Range<usize>, String);

impl Reader<'_> {
    /// Reads and checks all of it.
    fn parse(&self) -> Result<Config, ConfigError> {
        let raw: RawConfig = toml::from_str(self.text).map_err(|error| self.ungrammatical(&error))?;
        if let Some(line) = secret::misplaced_key(self.text) {
            let start = self.text.split_inclusive('\n').take(line).map(str::len).sum();
            let problem = "a key stands here, where it would be shown: keys belong in `private_key`, `preshared_key` and \
                           `public_key`, or in a file that `private_key_file` or `preshared_key_file` names";
            return Err(self.error(start..start, "", problem));
        }
        let mut config = self.config(raw)?;
        config.notices.append(&mut self.notices.take());
        Ok(config)
    }

    /// The one way to a [`ConfigError`], so that none shows a secret.
    fn error(&self, span: Range<usize>, setting: &str, problem: impl Display) -> ConfigError {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let veil = |text: &str| secret::veiled(self.text, text);
        let below = setting.strip_prefix(GATEWAY).filter(|below| below.is_empty() || below.starts_with('.'));
        let setting = below.map_or_else(|| setting.to_owned(), |below| format!("{}{below}", self.gateway_is));
        let file = secret::veiled("", &self.file.display().to_string()).into();
        ConfigError { file, line, setting: veil(&setting), problem: veil(&problem.to_string()) }
    }

    fn notice(&self, span: Range<usize>, setting: &str, problem: impl Display) {
        let notice = self.error(span, setting, problem);
        self.notices.borrow_mut().push(notice);
    }

    fn parsed<T>(&self, value: &Spanned<String>, setting: &str, right: &str) -> Result<T, ConfigError>
    where
        T: FromStr,
        T::Err: Display,
    {
        value.get_ref().parse().map_err(|e| {
            self.error(value.span(), setting, format!("`{}`: {e}; write for example `{right}`", value.get_ref()))
        })
    }

    fn quantity<T>(
        &self,
        value: Option<&Spanned<String>>,
        setting: &str,
        parse: fn(&str) -> Result<T, crate::quantity::QuantityError>,
    ) -> Result<Option<T>, ConfigError> {
        value.map(|v| parse(v.get_ref()).map_err(|e| self.error(v.span(), setting, e))).transpose()
    }

    /// A key given as text or in a file; `setting` is the text's name.
    fn key<T>(
        &self,
        text: Option<&Spanned<Text>>,
        file: Option<&Spanned<String>>,
        setting: &str,
    ) -> Result<Option<T>, ConfigError>
    where
        T: FromStr,
        T::Err: Display,
    {
        let parsed = |text: &str, span: Range<usize>, setting: &str| {
            let text = text.trim();
            if !text.is_empty() && text.trim_end_matches('=').bytes().all(|c| c == b'A') {
                let problem = "is all zeros, which is nobody's key: write one that `fairspan keygen` prints";
                return Err(self.error(span, setting, problem));
            }
            text.parse().map(Some).map_err(|e| self.error(span, setting, e))
        };
        match self.secret(text, file, setting)? {
            Some((text, span, setting)) => parsed(&text, span, &setting),
            None => Ok(None),
        }
    }

    /// A secret that stands in the file or in one that it names. Of a file what stands before the end of its last line.
    fn secret(
        &self,
        text: Option<&Spanned<Text>>,
        file: Option<&Spanned<String>>,
        setting: &str,
    ) -> Result<Option<Secret>, ConfigError> {
        match (text, file) {
            (Some(_), Some(f)) => {
                Err(self.error(f.span(), setting, format!("given twice: keep `{setting}` or `{setting}_file`")))
            }
            (Some(t), None) => {
                Ok(Some((Zeroizing::new(t.get_ref().as_str().to_owned()), t.span(), setting.to_owned())))
            }
            (None, Some(f)) => {
                let folder = self.file.parent().unwrap_or(Path::new(""));
                let path = folder.join(f.get_ref());
                let name = format!("{setting}_file");
                // Not the path: it may be the key itself.
                let content = self.key_file(&path).map_err(|e| {
                    let problem = format!(
                        "the file that it names cannot be read: {e}; a name without `/` before it is one in `{}`",
                        folder.display()
                    );
                    self.error(f.span(), &name, problem)
                })?;
                if let Some(problem) = secret::exposure(&path) {
                    self.notice(f.span(), &name, format!("the file that it names holds a key, and {problem}"));
                }
                let content = Zeroizing::new(content.trim_end_matches(['\r', '\n']).to_owned());
                Ok(Some((content, f.span(), name)))
            }
            (None, None) => Ok(None),
        }
    }

    /// What is in a file of a key.
    fn key_file(&self, path: &Path) -> io::Result<Zeroizing<String>> {
        if let Some(given) = self.given {
            return given.0.get(path).cloned().map(Zeroizing::new).ok_or_else(|| io::ErrorKind::NotFound.into());
        }
        let content = match text_file::read(path, text_file::SETTINGS) {
            Err(_) if self.only_locks => Zeroizing::new(secret::NO_KEY.to_owned()),
            read => Zeroizing::new(read?),
        };
        self.files.borrow_mut().0.insert(path.to_owned(), content.to_string());
        Ok(content)
    }

    fn config(&self, raw: RawConfig) -> Result<Config, ConfigError> {
        let interface_span = raw.interface.span();
        let may_fail_open = raw.interface.get_ref().lock.is_none();
        let dns: Vec<_> = raw.interface.get_ref().dns.iter().map(Spanned::span).collect();
        let kind = raw.interface.get_ref().kind.clone();
        let masquerade = raw.interface.get_ref().masquerade.as_ref().map(Spanned::span);
        let interface = self.interface(raw.interface)?;
        self.masquerade_fits(&interface, masquerade, !raw.peer.is_empty())?;
        self.domains_have_peers(&raw.domains, &interface, !raw.peer.is_empty())?;
        if let Some(gateway) = raw.gateway {
            self.no_port(kind.as_ref(), "[gateway]")?;
            let alone = raw.ring.is_none() && raw.bond.is_none() && raw.shape.is_none();
            let gateway = Some(self.gateway(&interface, gateway, alone, raw.peer.first().map(Spanned::span))?);
            return Ok(Config { gateway, ..Config::without_role(interface) });
        }
        if let Some(shape) = raw.shape {
            self.no_port(kind.as_ref(), "[shape]")?;
            let alone = raw.ring.is_none() && raw.bond.is_none() && raw.peer.is_empty();
            let shape = Some(self.shape(&interface, shape, alone)?);
            return Ok(Config { shape, ..Config::without_role(interface) });
        }
        if let Some(ring) = raw.ring {
            self.no_port(kind.as_ref(), "[ring]")?;
            let other = raw.peer.first().map(Spanned::span).or(raw.bond.as_ref().map(Spanned::span));
            self.ring_alone(&interface, interface_span, other)?;
            let span = ring.span();
            let ring = self.ring(&interface, ring)?;
            for station in ring.stations.iter().filter(|_| may_fail_open) {
                self.fails_open(&interface, span.clone(), "ring.station.networks", &station.networks);
            }
            return Ok(Config { ring: Some(ring), ..Config::without_role(interface) });
        }
        if let Some(bond) = raw.bond {
            self.no_port(kind.as_ref(), "[bond]")?;
            if let Some(peer) = raw.peer.first() {
                let problem = "a file has a [bond] of Ethernet links or [[peer]]s: give each its own file";
                return Err(self.error(peer.span(), "peer", problem));
            }
            let alone = [
                (interface.private_key.is_some(), "private_key", "nothing is encrypted on plain Ethernet links"),
                (interface.listen_port.is_some(), "listen_port", "nobody calls: the links are plain Ethernet"),
                (interface.listen_tcp_port.is_some(), "listen_tcp_port", "nobody calls: the links are plain Ethernet"),
                (interface.record.is_some(), "record", "only a bond with a [[peer]] is recorded"),
                (interface.padding, "padding", "nothing is encrypted on plain Ethernet links"),
                (interface.lock, "lock", "what a bond of Ethernet links carries leaves in the clear anyway"),
            ];
            if let Some((_, setting, why)) = alone.iter().find(|(given, ..)| *given) {
                let problem = format!("has no meaning beside [bond]: {why}; leave it out");
                return Err(self.error(interface_span, &format!("interface.{setting}"), problem));
            }
            let bond = self.bond(&interface, bond)?;
            return Ok(Config { bond: Some(bond), ..Config::without_role(interface) });
        }
        if raw.peer.is_empty() {
            let problem =
                "there is none: add a [[peer]], a [bond] of Ethernet links, a [ring], a [shape], or a [gateway]";
            return Err(self.error(interface_span, "peer", problem));
        }
        self.record_is_of_one(&interface, interface_span, raw.peer.len())?;
        let mut peers: Vec<Peer> = Vec::new();
        let (mut notices, mut splits) = (Vec::new(), Vec::new());
        for (number, raw) in raw.peer.into_iter().enumerate() {
            let span = raw.span();
            splits.push(raw.get_ref().split.as_ref().map(Spanned::span));
            let (peer, places, notice) = self.peer(number, &interface, raw)?;
            notices.extend(notice);
            if interface.port.is_none() {
                self.routes_fit(&interface, span.clone(), &peer, &places)?;
            }
            if may_fail_open {
                self.fails_open(&interface, span.clone(), "peer.allowed_ips", &peer.allowed_ips);
            }
            if peers.iter().any(|p| p.name == peer.name) {
                let problem = format!("`{}` names two peers: give each its own", peer.name);
                return Err(self.error(span, "peer.name", problem));
            }
            for net in &peer.allowed_ips {
                if let Some(other) = peers.iter().find(|p| p.allowed_ips.contains(net)) {
                    let problem = format!("{net} belongs to peer `{}` already: give it to one", other.name);
                    return Err(self.error(span, "peer.allowed_ips", problem));
                }
            }
            if peer.public_key.is_some() && peers.iter().any(|p| p.public_key == peer.public_key) {
                return Err(self.error(span, "peer.public_key", "names two peers: each has a key of its own"));
            }
            peers.push(peer);
            self.invited_once(span.clone(), &peers)?;
            if interface.port.is_some() {
                self.peers_of_port(span.clone(), &peers)?;
            }
            self.stations(span, &peers)?;
        }
        self.windows_fit(&interface, &peers, &splits)?;
        self.dns_is_reached(&interface, &dns, &peers)?;
        let domains = self.domains(&interface, &raw.domains, &peers)?;
        Ok(Config { peers, domains, notices, ..Config::without_role(interface) })
    }

    /// What a ring cannot stand beside; `other`: where another role stands.
    fn ring_alone(
        &self,
        interface: &Interface,
        interface_span: Range<usize>,
        other: Option<Range<usize>>,
    ) -> Result<(), ConfigError> {
        if let Some(span) = other {
            let problem = "a file has a [ring], a [bond] of Ethernet links or [[peer]]s: give each its own file";
            return Err(self.error(span, "ring", problem));
        }
        if let Some(record) = &interface.record {
            let problem = format!("`{}`: only a bond with a [[peer]] is recorded: leave it out", record.display());
            return Err(self.error(interface_span, "interface.record", problem));
        }
        if interface.listen_tcp_port.is_some() {
            let problem = "is for [[peer]]s: the nodes of a ring call each other over UDP; leave it out";
            return Err(self.error(interface_span, "interface.listen_tcp_port", problem));
        }
        Ok(())
    }

    fn interface(&self, raw: Spanned<RawInterface>) -> Result<Interface, ConfigError> {
        let (span, raw) = (raw.span(), raw.into_inner());
        let (name, port) = self.name_and_port(span.clone(), &raw)?;
        let addresses = self.addresses(&raw.address)?;
        let private_key = self.key(raw.private_key.as_ref(), raw.private_key_file.as_ref(), "interface.private_key")?;
        let mtu = self.mtu(raw.mtu.as_ref(), "interface.mtu")?;
        if let (Some(span), Some(six)) = (
            raw.mtu.as_ref().filter(|mtu| *mtu.get_ref() < IPV6_MTU).map(Spanned::span),
            addresses.iter().find(|net| net.addr().is_ipv6()),
        ) {
            let problem = format!(
                "is below the {IPV6_MTU} bytes that IPv6 needs, and {six} could not be added: raise it, or leave IPv6 out of \
                 `interface.address`"
            );
            return Err(self.error(span, "interface.mtu", problem));
        }
        let table = self.table(raw.table.as_ref())?;
        let metrics = raw
            .metrics
            .as_ref()
            .map(|metrics| self.listening(metrics, "interface.metrics", "127.0.0.1:9310"))
            .transpose()?;
        for (name, port, example) in
            [("listen_port", &raw.listen_port, 51900), ("listen_tcp_port", &raw.listen_tcp_port, 443)]
        {
            if let Some(port) = port.as_ref().filter(|port| *port.get_ref() == 0) {
                let problem =
                    format!("0 is no port that a peer could call: write one such as {example}, or leave it out");
                return Err(self.error(port.span(), &format!("interface.{name}"), problem));
            }
        }
        let web = self.web(&raw)?;
        let webhook = self.webhook(&raw)?;
        let (at, control_socket) = match raw.control_socket {
            Some(path) => (path.span(), path.into_inner()),
            None => (raw.name.as_ref().map_or(span, Spanned::span), default_control_socket(&name)),
        };
        self.control_socket_fits(at, &control_socket)?;
        if let Some(record) = &raw.record {
            self.record_fits(record.span(), record.get_ref())?;
        }
        let fwmark = raw.fwmark.unwrap_or(51900);
        let lock = self.lock(raw.lock.as_ref(), fwmark)?;
        Ok(Interface {
            lock,
            lock_except: self.lock_except(&raw.lock_except, lock)?,
            dns: self.dns(&raw.dns, lock, &addresses)?,
            masquerade: raw.masquerade.is_some_and(Spanned::into_inner),
            control_socket,
            state_dir: raw.state_dir.unwrap_or_else(folders::state),
            name,
            port,
            addresses,
            private_key,
            listen_port: raw.listen_port.map(Spanned::into_inner),
            listen_tcp_port: raw.listen_tcp_port.map(Spanned::into_inner),
            mtu,
            fwmark,
            table,
            metrics,
            web: web.address,
            web_password: web.password,
            web_hosts: web.hosts,
            web_control: web.may_control,
            webhook,
            record: raw.record.map(Spanned::into_inner),
            offload: raw.offload.unwrap_or(true),
            padding: raw.padding.unwrap_or(false),
            user: self.user(raw.user),
            confine: self.confine(raw.confine.as_deref())?,
        })
    }
}
