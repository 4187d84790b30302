//! The configuration of one daemon: a TOML file, checked whole before anything is touched.
//!
//! Names follow WireGuard's and systemd-networkd's where those have one. An error names the file, the line, the setting,
//! what was wrong and what would be right. [`Config::load`] reads and checks; the fields of [`Config`] say what each
//! setting means and its default.

mod bond;
mod policy;
mod ring;
#[cfg(test)]
mod tests;

pub use bond::{Bond, BondLink};
pub use ring::{BondOf, Ring, RingSide, RingStation};

use self::policy::RawPolicy;
use crate::quantity::{parse_bytes, parse_rate, parse_span};
use crate::secure::{PresharedKey, PrivateKey, PublicKey};
use fairspan_core::bond::{self as core_bond, Mode, Scheduler};
use fairspan_core::select::Settings;
use fairspan_core::units::{Bytes, ChannelId, Rate, Span};
use ipnet::IpNet;
use serde::Deserialize;
use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use thiserror::Error;
use toml::Spanned;

/// A checked configuration.
#[derive(Debug)]
#[non_exhaustive]
pub struct Config {
    /// The virtual interface and the daemon.
    pub interface: Interface,
    /// The peers, in the order of the file. None where there is a bond of Ethernet links, or a ring.
    pub peers: Vec<Peer>,
    /// A bond of Ethernet links, instead of peers.
    pub bond: Option<Bond>,
    /// A node of a ring, instead of peers.
    pub ring: Option<Ring>,
    /// What works and is hardly meant: where, and what would be better.
    pub notices: Vec<ConfigError>,
}

/// `[interface]`: the virtual interface and the daemon.
#[derive(Debug)]
#[non_exhaustive]
pub struct Interface {
    /// `name`: of the TUN interface, at most 15 bytes.
    pub name: String,
    /// `address`: addresses of the interface, each with its prefix length.
    pub addresses: Vec<IpNet>,
    /// `private_key` or `private_key_file`. Needed as soon as one channel is encrypted.
    pub private_key: Option<PrivateKey>,
    /// `listen_port`: UDP port on which peers may begin; without it the daemon only calls out.
    pub listen_port: Option<u16>,
    /// `mtu`: of the interface; default: what fits all channels of all peers.
    pub mtu: Option<u16>,
    /// `fwmark`: set on every datagram sent, so that a default route through the interface makes no loop; default 51900.
    pub fwmark: u32,
    /// `table`: where routes for `allowed_ips` go; default `auto`.
    pub table: Table,
    /// `control_socket`: Unix socket for `fairspan status`; default `/run/fairspan/NAME.sock`.
    pub control_socket: PathBuf,
    /// `metrics`: address of the Prometheus endpoint; default off.
    pub metrics: Option<SocketAddr>,
    /// `record`: file into which every input of the core is written; default off. For one peer only.
    pub record: Option<PathBuf>,
    /// `offload`: 64 kB units between host and daemon; default true.
    pub offload: bool,
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

/// `[[peer]]`: the other end of one bond.
#[derive(Debug)]
#[non_exhaustive]
pub struct Peer {
    /// `name`: for people and metrics; default `peer0`, `peer1`, ...
    pub name: String,
    /// `public_key`: needed as soon as one of the peer's channels is encrypted.
    pub public_key: Option<PublicKey>,
    /// `preshared_key` or `preshared_key_file`; default none.
    pub preshared_key: Option<PresharedKey>,
    /// `allowed_ips`: what the peer may send from and what is routed to it.
    pub allowed_ips: Vec<IpNet>,
    /// `mode`; default `ordered` on UDP channels, `stripe` on Ethernet channels.
    pub mode: Mode,
    /// `policy`: how the channel of each packet is chosen in mode `flow`; default `brr`.
    pub policy: Settings,
    /// `scheduler`; default `srr`.
    pub scheduler: Scheduler,
    /// `reorder_deadline`: longest that a packet waits for an earlier one; default 500 ms.
    pub reorder_deadline: Option<Span>,
    /// `equalize`: delays of the channels that differ by up to this are made equal at arrival; default 350 ms.
    pub equalize: Option<Span>,
    /// `reorder_memory`: most bytes that wait; default 56 MB.
    pub reorder_memory: Option<Bytes>,
    /// `queue_limit`: longest that a packet from the host waits for its turn; default 100 ms.
    pub queue_limit: Option<Span>,
    /// `dead_after`: a channel silent for this long is not used; default 1 s.
    pub dead_after: Option<Span>,
    /// `copies`: how many channels carry each packet in `duplicate` mode; default all.
    pub copies: Option<u8>,
    /// `[[peer.channel]]`, numbered from 0. Empty: the peer calls and names its channels.
    pub channels: Vec<Channel>,
}

/// `[[peer.channel]]`: one link towards the peer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Channel {
    /// `name`: for people and metrics; default `channel0`, ...
    pub name: String,
    /// `device`: the interface by which the channel leaves; the channel waits for one that does not exist yet.
    pub device: Option<String>,
    /// `rate`: what we may send, counted at the link layer; default: not paced, and an equal share.
    pub rate: Option<Rate>,
    /// `peer_rate`: what the peer may send towards us; told to it; default: not paced.
    pub peer_rate: Option<Rate>,
    /// `priority`: in `backup` mode the smallest that works is used; default: the channel's number.
    pub priority: u8,
    /// `weight`: its share where not all channels have a rate; default 1.
    pub weight: u32,
    /// `mtu`: of the path, IP header included; default: the device's, else 1500.
    pub mtu: Option<u16>,
    /// `overhead`: bytes that the link adds to each IP packet and that count against `rate`; default 14 (Ethernet).
    pub overhead: u16,
    /// `kind` and what belongs to it.
    pub kind: ChannelKind,
}

/// `kind`: what carries the channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChannelKind {
    /// `udp`: encrypted datagrams.
    Udp {
        /// `endpoint`: where the peer listens.
        endpoint: SocketAddr,
        /// `source`: the local address to send from; default: the kernel's choice.
        source: Option<IpAddr>,
    },
    /// `ethernet`: frames on `device`, not encrypted unless `secure`.
    Ethernet {
        /// `peer_mac`: the peer's address on that LAN; default: learnt from its first frame.
        peer_mac: Option<[u8; 6]>,
        /// `ethertype`: of data frames; control frames use the next one; default 0x88B5 (and 0x88B6).
        ethertype: u16,
        /// `secure`: encrypted like a UDP channel; default false.
        secure: bool,
    },
}

/// What is wrong with a configuration, and where.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}:{line}: {setting}{}{problem}", .file.display(), if setting.is_empty() { "" } else { ": " })]
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

/// The link-layer bytes that Ethernet adds to an IP packet, without preamble, gap and checksum.
const ETHERNET_OVERHEAD: u16 = 14;

impl Config {
    /// Reads and checks `file`.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line.
    pub fn load(file: &Path) -> Result<Config, ConfigError> {
        let text = std::fs::read_to_string(file).map_err(|e| ConfigError {
            file: file.into(),
            line: 0,
            setting: String::new(),
            problem: format!("cannot be read: {e}"),
        })?;
        Config::parse(file, &text)
    }

    /// Checks `text`; `file` is named in errors, and key files are sought relative to its folder.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line.
    pub fn parse(file: &Path, text: &str) -> Result<Config, ConfigError> {
        let reader = Reader { file, text };
        let raw: RawConfig = toml::from_str(text).map_err(|e| {
            reader.error(e.span().unwrap_or(0..0), "", e.message().to_owned() + &reader.snippet(e.span()))
        })?;
        reader.config(raw)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawConfig {
    interface: Spanned<RawInterface>,
    #[serde(default)]
    peer: Vec<Spanned<RawPeer>>,
    bond: Option<Spanned<bond::RawBond>>,
    ring: Option<Spanned<ring::RawRing>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawInterface {
    name: Spanned<String>,
    #[serde(default)]
    address: Vec<Spanned<String>>,
    private_key: Option<Spanned<String>>,
    private_key_file: Option<Spanned<String>>,
    listen_port: Option<u16>,
    mtu: Option<Spanned<u16>>,
    fwmark: Option<u32>,
    table: Option<Spanned<toml::Value>>,
    control_socket: Option<PathBuf>,
    metrics: Option<Spanned<String>>,
    record: Option<Spanned<PathBuf>>,
    offload: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPeer {
    name: Option<Spanned<String>>,
    public_key: Option<Spanned<String>>,
    preshared_key: Option<Spanned<String>>,
    preshared_key_file: Option<Spanned<String>>,
    #[serde(default)]
    allowed_ips: Vec<Spanned<String>>,
    mode: Option<Spanned<String>>,
    policy: Option<Spanned<RawPolicy>>,
    scheduler: Option<Spanned<String>>,
    reorder_deadline: Option<Spanned<String>>,
    equalize: Option<Spanned<String>>,
    reorder_memory: Option<Spanned<String>>,
    queue_limit: Option<Spanned<String>>,
    dead_after: Option<Spanned<String>>,
    copies: Option<Spanned<u8>>,
    #[serde(default)]
    channel: Vec<Spanned<RawChannel>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawChannel {
    name: Option<String>,
    kind: Spanned<String>,
    device: Option<Spanned<String>>,
    endpoint: Option<Spanned<String>>,
    source: Option<Spanned<String>>,
    rate: Option<Spanned<String>>,
    peer_rate: Option<Spanned<String>>,
    priority: Option<u8>,
    weight: Option<Spanned<u32>>,
    mtu: Option<Spanned<u16>>,
    overhead: Option<Spanned<u16>>,
    peer_mac: Option<Spanned<String>>,
    ethertype: Option<Spanned<u16>>,
    secure: Option<bool>,
}

/// What says how a channel is carried, wherever it stands.
struct RawKind<'a> {
    kind: &'a Spanned<String>,
    endpoint: Option<&'a Spanned<String>>,
    source: Option<&'a Spanned<String>>,
    peer_mac: Option<&'a Spanned<String>>,
    ethertype: Option<&'a Spanned<u16>>,
    secure: Option<bool>,
}

/// Turns raw settings into checked ones, knowing where each stands.
struct Reader<'a> {
    file: &'a Path,
    text: &'a str,
}

impl Reader<'_> {
    fn error(&self, span: Range<usize>, setting: &str, problem: impl Display) -> ConfigError {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        ConfigError { file: self.file.into(), line, setting: setting.into(), problem: problem.to_string() }
    }

    fn snippet(&self, span: Option<Range<usize>>) -> String {
        let line = span.and_then(|s| {
            let start = self.text.get(..s.start)?.rfind('\n').map_or(0, |n| n + 1);
            self.text.get(start..)?.lines().next()
        });
        line.map(|l| format!(" (in `{}`)", l.trim())).unwrap_or_default()
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
        text: Option<&Spanned<String>>,
        file: Option<&Spanned<String>>,
        setting: &str,
    ) -> Result<Option<T>, ConfigError>
    where
        T: FromStr,
        T::Err: Display,
    {
        // Never shows the key itself: errors end up in logs.
        let bad = |span, setting: &str, e: T::Err| {
            self.error(span, setting, format!("{e}; a key is 44 characters of base64, as `fairspan keygen` prints it"))
        };
        match (text, file) {
            (Some(_), Some(f)) => {
                Err(self.error(f.span(), setting, format!("given twice: keep `{setting}` or `{setting}_file`")))
            }
            (Some(t), None) => t.get_ref().parse().map(Some).map_err(|e| bad(t.span(), setting, e)),
            (None, Some(f)) => {
                let path = self.file.parent().unwrap_or(Path::new("")).join(f.get_ref());
                let name = format!("{setting}_file");
                let content = std::fs::read_to_string(&path)
                    .map_err(|e| self.error(f.span(), &name, format!("{}: {e}", path.display())))?;
                content.trim().parse().map(Some).map_err(|e| bad(f.span(), &name, e))
            }
            (None, None) => Ok(None),
        }
    }

    fn config(&self, raw: RawConfig) -> Result<Config, ConfigError> {
        let interface_span = raw.interface.span();
        let interface = self.interface(raw.interface.into_inner())?;
        if let Some(ring) = raw.ring {
            let other = raw.peer.first().map(Spanned::span).or(raw.bond.as_ref().map(Spanned::span));
            if let Some(span) = other {
                let problem = "a file has a [ring], a [bond] of Ethernet links or [[peer]]s: give each its own file";
                return Err(self.error(span, "ring", problem));
            }
            if let Some(record) = &interface.record {
                let problem = format!("`{}`: only a bond with a [[peer]] is recorded: leave it out", record.display());
                return Err(self.error(interface_span, "interface.record", problem));
            }
            let ring = self.ring(&interface, ring)?;
            return Ok(Config { interface, peers: Vec::new(), bond: None, ring: Some(ring), notices: Vec::new() });
        }
        if let Some(bond) = raw.bond {
            if let Some(peer) = raw.peer.first() {
                let problem = "a file has a [bond] of Ethernet links or [[peer]]s: give each its own file";
                return Err(self.error(peer.span(), "peer", problem));
            }
            let alone = [
                (interface.private_key.is_some(), "private_key", "nothing is encrypted on plain Ethernet links"),
                (interface.listen_port.is_some(), "listen_port", "nobody calls: the links are plain Ethernet"),
                (interface.record.is_some(), "record", "only a bond with a [[peer]] is recorded"),
            ];
            if let Some((_, setting, why)) = alone.iter().find(|(given, ..)| *given) {
                let problem = format!("has no meaning beside [bond]: {why}; leave it out");
                return Err(self.error(interface_span, &format!("interface.{setting}"), problem));
            }
            let bond = self.bond(&interface, bond)?;
            return Ok(Config { interface, peers: Vec::new(), bond: Some(bond), ring: None, notices: Vec::new() });
        }
        if raw.peer.is_empty() {
            let problem = "there is none: add a [[peer]], a [bond] of Ethernet links, or a [ring]";
            return Err(self.error(interface_span, "peer", problem));
        }
        if raw.peer.len() > 1
            && let Some(record) = &interface.record
        {
            let problem = format!("`{}`: a recording is of one bond: keep one [[peer]]", record.display());
            return Err(self.error(interface_span, "interface.record", problem));
        }
        let mut peers: Vec<Peer> = Vec::new();
        let mut notices = Vec::new();
        for (number, raw) in raw.peer.into_iter().enumerate() {
            let span = raw.span();
            let (peer, notice) = self.peer(number, &interface, raw)?;
            notices.extend(notice);
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
            self.stations(span, &peers)?;
        }
        Ok(Config { interface, peers, bond: None, ring: None, notices })
    }

    /// Ethernet channels on one device with one EtherType must be told apart: the last peer's from all others.
    fn stations(&self, span: Range<usize>, peers: &[Peer]) -> Result<(), ConfigError> {
        let all: Vec<(&Channel, Option<[u8; 6]>, u16, bool)> = peers
            .iter()
            .flat_map(|peer| &peer.channels)
            .filter_map(|channel| match channel.kind {
                ChannelKind::Ethernet { peer_mac, ethertype, secure } => Some((channel, peer_mac, ethertype, secure)),
                ChannelKind::Udp { .. } => None,
            })
            .collect();
        for (n, (channel, mac, ethertype, secure)) in all.iter().enumerate() {
            for (other, other_mac, other_type, other_secure) in &all[..n] {
                if channel.device != other.device {
                    continue;
                }
                if ethertype.abs_diff(*other_type) == 1 {
                    let problem = format!(
                        "of `{}` is the control EtherType of `{}`, or the other way round: leave one free between them",
                        channel.name, other.name
                    );
                    return Err(self.error(span, "peer.channel.ethertype", problem));
                }
                if ethertype == other_type && secure != other_secure {
                    let problem = format!(
                        "`{}` and `{}` share a device and an ethertype: set both alike, or give one another ethertype",
                        channel.name, other.name
                    );
                    return Err(self.error(span, "peer.channel.secure", problem));
                }
                if ethertype == other_type && !secure && mac == other_mac {
                    let problem = format!(
                        "`{}` and `{}` share a device and an ethertype, and frames could not be told apart: \
                         give each peer its own address",
                        channel.name, other.name
                    );
                    return Err(self.error(span, "peer.channel.peer_mac", problem));
                }
            }
        }
        Ok(())
    }

    fn interface(&self, raw: RawInterface) -> Result<Interface, ConfigError> {
        let name = self.device_name(&raw.name, "interface.name")?;
        let addresses = raw
            .address
            .iter()
            .map(|a| self.parsed(a, "interface.address", "10.77.0.1/24"))
            .collect::<Result<Vec<IpNet>, _>>()?;
        let private_key = self.key(raw.private_key.as_ref(), raw.private_key_file.as_ref(), "interface.private_key")?;
        let mtu = self.mtu(raw.mtu.as_ref(), "interface.mtu")?;
        let table = match raw.table.as_ref() {
            None => Table::Auto,
            Some(v) => match v.get_ref() {
                toml::Value::String(s) if s == "auto" => Table::Auto,
                toml::Value::String(s) if s == "off" => Table::Off,
                toml::Value::Integer(n) if (1..=i64::from(u32::MAX)).contains(n) => Table::Number(*n as u32),
                other => {
                    let problem = format!("{other} is none of \"auto\", \"off\" or a table's number");
                    return Err(self.error(v.span(), "interface.table", problem));
                }
            },
        };
        let metrics =
            raw.metrics.as_ref().map(|m| self.parsed(m, "interface.metrics", "127.0.0.1:9310")).transpose()?;
        Ok(Interface {
            control_socket: raw.control_socket.unwrap_or_else(|| crate::control::default_path(&name)),
            name,
            addresses,
            private_key,
            listen_port: raw.listen_port,
            mtu,
            fwmark: raw.fwmark.unwrap_or(51900),
            table,
            metrics,
            record: raw.record.map(Spanned::into_inner),
            offload: raw.offload.unwrap_or(true),
        })
    }

    /// The peer, and what of it works and is hardly meant.
    fn peer(
        &self,
        number: usize,
        interface: &Interface,
        raw: Spanned<RawPeer>,
    ) -> Result<(Peer, Option<ConfigError>), ConfigError> {
        let span = raw.span();
        let raw = raw.into_inner();
        let allowed_ips = self.networks(&raw.allowed_ips, "peer.allowed_ips")?;
        let mut channels = Vec::new();
        for (n, raw) in raw.channel.into_iter().enumerate() {
            channels.push(self.channel(n, raw)?);
        }
        if channels.len() > ChannelId::LIMIT {
            let problem = format!("{} channels: at most {} make one bond", channels.len(), ChannelId::LIMIT);
            return Err(self.error(span, "peer.channel", problem));
        }
        let public_key: Option<PublicKey> = self.key(raw.public_key.as_ref(), None, "peer.public_key")?;
        let plain = !channels.is_empty()
            && channels.iter().all(|c| matches!(c.kind, ChannelKind::Ethernet { secure: false, .. }));
        if !plain {
            if public_key.is_none() {
                return Err(self.error(span, "peer.public_key", "missing: encrypted channels need the peer's key"));
            }
            if interface.private_key.is_none() {
                let problem = "missing: encrypted channels need a key; `fairspan keygen` makes one";
                return Err(self.error(span, "interface.private_key", problem));
            }
        }
        if channels.is_empty() && interface.listen_port.is_none() {
            let problem = "none, and interface.listen_port is not set: nobody could begin; add a [[peer.channel]]";
            return Err(self.error(span, "peer.channel", problem));
        }
        let mode = match raw.mode.as_ref() {
            None if plain => Mode::Stripe,
            None => Mode::Ordered,
            Some(m) => match m.get_ref().as_str() {
                "ordered" => Mode::Ordered,
                "stripe" => Mode::Stripe,
                "duplicate" => Mode::Duplicate,
                "backup" => Mode::Backup,
                "plain" => Mode::Plain,
                "flow" => Mode::Flow,
                other => {
                    let problem = format!("`{other}` is none of ordered, stripe, duplicate, backup, plain, flow");
                    return Err(self.error(m.span(), "peer.mode", problem));
                }
            },
        };
        let scheduler = match raw.scheduler.as_ref() {
            None => Scheduler::Srr,
            Some(s) => match s.get_ref().as_str() {
                "srr" => Scheduler::Srr,
                "rr" => Scheduler::Rr,
                "grr" => Scheduler::Grr,
                "rfq" => Scheduler::Rfq,
                other => {
                    let problem = format!("`{other}` is none of srr, rr, grr, rfq");
                    return Err(self.error(s.span(), "peer.scheduler", problem));
                }
            },
        };
        if let Some(s) = &raw.scheduler
            && mode == Mode::Stripe
            && scheduler == Scheduler::Rfq
        {
            let problem =
                "mode = \"stripe\" works with `srr`, `grr` and `rr`: write one of these, or choose another mode";
            return Err(self.error(s.span(), "peer.scheduler", problem));
        }
        if let Some(s) = &raw.scheduler
            && mode == Mode::Flow
        {
            let problem = "in mode \"flow\" the policy chooses channels: write `policy`, and leave this out";
            return Err(self.error(s.span(), "peer.scheduler", problem));
        }
        let (policy, notice) = match &raw.policy {
            Some(policy) if mode != Mode::Flow => {
                let problem =
                    format!("is for mode = \"flow\", and this is mode `{mode}`: write that mode, or leave this out");
                return Err(self.error(policy.span(), "peer.policy", problem));
            }
            Some(policy) => self.peer_policy(policy, &channels)?,
            None => (core_bond::Config::default().policy, None),
        };
        if let Some(dead_after) = &raw.dead_after
            && policy.supervision.silence().is_some()
        {
            let problem = "the policy's arp_interval and missed_max say that: keep them, or this";
            return Err(self.error(dead_after.span(), "peer.dead_after", problem));
        }
        if let Some(copies) = &raw.copies
            && (*copies.get_ref() == 0 || mode != Mode::Duplicate)
        {
            let problem = "needs mode = \"duplicate\" and is at least 1";
            return Err(self.error(copies.span(), "peer.copies", problem));
        }
        let peer = Peer {
            name: match raw.name {
                Some(n) if n.get_ref().is_empty() || n.get_ref().len() > 64 => {
                    return Err(self.error(n.span(), "peer.name", "must have 1 to 64 bytes"));
                }
                Some(n) => n.into_inner(),
                None => format!("peer{number}"),
            },
            public_key,
            preshared_key: self.key(
                raw.preshared_key.as_ref(),
                raw.preshared_key_file.as_ref(),
                "peer.preshared_key",
            )?,
            allowed_ips,
            mode,
            policy,
            scheduler,
            reorder_deadline: self.quantity(raw.reorder_deadline.as_ref(), "peer.reorder_deadline", parse_span)?,
            equalize: self.quantity(raw.equalize.as_ref(), "peer.equalize", parse_span)?,
            reorder_memory: self.quantity(raw.reorder_memory.as_ref(), "peer.reorder_memory", parse_bytes)?,
            queue_limit: self.quantity(raw.queue_limit.as_ref(), "peer.queue_limit", parse_span)?,
            dead_after: self.quantity(raw.dead_after.as_ref(), "peer.dead_after", parse_span)?,
            copies: raw.copies.map(Spanned::into_inner),
            channels,
        };
        Ok((peer, notice))
    }

    fn channel(&self, number: usize, raw: Spanned<RawChannel>) -> Result<Channel, ConfigError> {
        let span = raw.span();
        let raw = raw.into_inner();
        let device = raw.device.as_ref().map(|d| self.device_name(d, "peer.channel.device")).transpose()?;
        let kind = self.kind(
            "peer.channel",
            span,
            device.is_some(),
            &RawKind {
                kind: &raw.kind,
                endpoint: raw.endpoint.as_ref(),
                source: raw.source.as_ref(),
                peer_mac: raw.peer_mac.as_ref(),
                ethertype: raw.ethertype.as_ref(),
                secure: raw.secure,
            },
        )?;
        Ok(Channel {
            name: raw.name.unwrap_or_else(|| format!("channel{number}")),
            device,
            rate: self.positive_rate(raw.rate.as_ref(), "peer.channel.rate")?,
            peer_rate: self.positive_rate(raw.peer_rate.as_ref(), "peer.channel.peer_rate")?,
            priority: raw.priority.unwrap_or(number.min(255) as u8),
            weight: self.weight(raw.weight.as_ref(), "peer.channel.weight")?,
            mtu: self.mtu(raw.mtu.as_ref(), "peer.channel.mtu")?,
            overhead: raw.overhead.map_or(ETHERNET_OVERHEAD, Spanned::into_inner),
            kind,
        })
    }

    /// What carries a channel; `place` is where its settings stand.
    fn kind(
        &self,
        place: &str,
        span: Range<usize>,
        has_device: bool,
        raw: &RawKind<'_>,
    ) -> Result<ChannelKind, ConfigError> {
        let setting = |name: &str| format!("{place}.{name}");
        let misplaced = |field: Option<Range<usize>>, name: &str, kind: &str| match field {
            Some(span) => Err(self.error(span, &setting(name), format!("belongs to kind = \"{kind}\" only"))),
            None => Ok(()),
        };
        match raw.kind.get_ref().as_str() {
            "udp" => {
                misplaced(raw.peer_mac.map(Spanned::span), "peer_mac", "ethernet")?;
                misplaced(raw.ethertype.map(Spanned::span), "ethertype", "ethernet")?;
                if raw.secure == Some(false) {
                    let problem = "a udp channel is always encrypted: leave it out";
                    return Err(self.error(span, &setting("secure"), problem));
                }
                let Some(endpoint) = raw.endpoint else {
                    let problem = "missing: say where the peer listens, such as \"203.0.113.1:51900\"; the side that \
                                   listens has no [[peer.channel]]";
                    return Err(self.error(span, &setting("endpoint"), problem));
                };
                let source: Option<IpAddr> =
                    raw.source.map(|s| self.parsed(s, &setting("source"), "192.0.2.1")).transpose()?;
                let endpoint_addr: SocketAddr = self.parsed(endpoint, &setting("endpoint"), "203.0.113.1:51900")?;
                if source.is_some_and(|s| s.is_ipv4() != endpoint_addr.is_ipv4()) {
                    let problem = "is not of the family of `endpoint`";
                    return Err(self.error(span, &setting("source"), problem));
                }
                Ok(ChannelKind::Udp { endpoint: endpoint_addr, source })
            }
            "ethernet" => {
                misplaced(raw.endpoint.map(Spanned::span), "endpoint", "udp")?;
                misplaced(raw.source.map(Spanned::span), "source", "udp")?;
                if !has_device {
                    return Err(self.error(span, &setting("device"), "missing: an ethernet channel names its device"));
                }
                let ethertype = raw.ethertype.map_or(0x88B5, |e| *e.get_ref());
                if ethertype < 0x0600 || ethertype == 0xFFFF {
                    let problem = "an EtherType is 0x0600 to 0xFFFE (control frames use the next one)";
                    return Err(self.error(span, &setting("ethertype"), problem));
                }
                let peer_mac = raw.peer_mac.map(|m| self.mac(m, &setting("peer_mac"))).transpose()?;
                Ok(ChannelKind::Ethernet { peer_mac, ethertype, secure: raw.secure.unwrap_or(false) })
            }
            other => {
                let problem = format!("`{other}` is none of udp, ethernet");
                Err(self.error(raw.kind.span(), &setting("kind"), problem))
            }
        }
    }

    /// Networks, or single addresses.
    fn networks(&self, texts: &[Spanned<String>], setting: &str) -> Result<Vec<IpNet>, ConfigError> {
        let network = |text: &Spanned<String>| {
            let net: IpNet = match text.get_ref().parse::<IpAddr>() {
                Ok(address) => address.into(),
                Err(_) => self.parsed(text, setting, "10.77.0.2/32")?,
            };
            if net.addr() != net.network() {
                let problem = format!("`{net}` has bits behind its prefix: write `{}`", net.trunc());
                return Err(self.error(text.span(), setting, problem));
            }
            Ok(net)
        };
        texts.iter().map(network).collect()
    }

    fn positive_rate(&self, value: Option<&Spanned<String>>, setting: &str) -> Result<Option<Rate>, ConfigError> {
        let rate = self.quantity(value, setting, parse_rate)?;
        match (rate, value) {
            (Some(r), Some(v)) if r.as_bits_per_sec() < 1_000 => {
                Err(self.error(v.span(), setting, "must be at least 1kbit; leave it out for no limit"))
            }
            _ => Ok(rate),
        }
    }

    fn weight(&self, value: Option<&Spanned<u32>>, setting: &str) -> Result<u32, ConfigError> {
        match value {
            Some(v) if !(1..=1000).contains(v.get_ref()) => {
                Err(self.error(v.span(), setting, format!("{} is not from 1 to 1000", v.get_ref())))
            }
            other => Ok(other.map_or(1, |v| *v.get_ref())),
        }
    }

    fn mtu(&self, value: Option<&Spanned<u16>>, setting: &str) -> Result<Option<u16>, ConfigError> {
        match value {
            Some(v) if *v.get_ref() < 576 => {
                Err(self.error(v.span(), setting, format!("{} is below 576, what every IPv4 host takes", v.get_ref())))
            }
            other => Ok(other.map(|v| *v.get_ref())),
        }
    }

    fn device_name(&self, value: &Spanned<String>, setting: &str) -> Result<String, ConfigError> {
        let name = value.get_ref();
        let legal = (1..=15).contains(&name.len())
            && name != "."
            && name != ".."
            && name.bytes().all(|b| b.is_ascii_graphic() && b != b'/' && b != b':' && b != b'%');
        if legal {
            Ok(name.clone())
        } else {
            let problem =
                format!("`{name}` is no interface name: 1 to 15 letters, digits, `-`, `_`, `.`, such as `fs0`");
            Err(self.error(value.span(), setting, problem))
        }
    }

    fn mac(&self, value: &Spanned<String>, setting: &str) -> Result<[u8; 6], ConfigError> {
        let mut mac = [0; 6];
        let mut parts = value.get_ref().split(':');
        let mut good = true;
        for byte in &mut mac {
            match parts.next().filter(|p| p.len() == 2).and_then(|p| u8::from_str_radix(p, 16).ok()) {
                Some(b) => *byte = b,
                None => good = false,
            }
        }
        if good && parts.next().is_none() && mac[0] & 1 == 0 && mac != [0; 6] {
            Ok(mac)
        } else {
            let problem = format!("`{}` is no unicast address such as `02:00:5e:10:00:01`", value.get_ref());
            Err(self.error(value.span(), setting, problem))
        }
    }
}
