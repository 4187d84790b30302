//! `[[peer]]`: the other end of a bond, the bond's options, and the channels.

use super::class::RawClass;
use super::class::words;
use super::gateway::RawGateway;
use super::invited::Identity;
use super::name::host_and_port;
use super::policy::RawPolicy;
use super::secret::Text;
use super::{ConfigError, ETHERNET_OVERHEAD, Gateway, Interface, Invited, Reader};
use crate::quantity::{QuantityError, parse_bytes, parse_span, show_span};
use crate::secure::{PresharedKey, PublicKey};
use fairspan_core::bond::{Compression, Config as BondConfig, ConfigError as BondError, Mode, OPTIONS, Scheduler};
use fairspan_core::flow::matching::Name;
use fairspan_core::options::{Dialect, Entry, Kind, Value as OptionValue};
use fairspan_core::queue::End;
use fairspan_core::units::{Bytes, ChannelId, Rate, Span};
use ipnet::IpNet;
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use toml::{Spanned, Value};

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
    /// `invitation_file`: the peer is a site that was invited. Its key is known once it has joined; the pre-shared key is the invitation's.
    pub invited: Option<Invited>,
    /// `allowed_ips`: what the peer may send from and what is routed to it.
    pub allowed_ips: Vec<IpNet>,
    /// The settings of the bond, each by its name in a file ([`OPTIONS`]); `mode` by default [`Mode::USUAL`], and `stripe` where all
    /// channels are Ethernet in the clear; other defaults are the core's. Without channels.
    pub bond: BondConfig,
    /// `[[peer.channel]]`, numbered from 0. Empty: the peer calls and names its channels.
    pub channels: Vec<Channel>,
    /// `[peer.split]`: how TCP connections with what lies behind the peer are split; default: they are not.
    pub split: Option<Gateway>,
}

/// `[[peer.channel]]`: one link towards the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// `quota` and `quota_day`: what it may carry in a month; metered beyond that.
    pub quota: Option<Quota>,
    /// `kind` and what belongs to it.
    pub kind: ChannelKind,
    /// `tcp_endpoint`: of a `udp` channel, where the peer listens for TCP; the channel goes over to it while no UDP gets through.
    pub tcp_endpoint: Option<SocketAddr>,
    /// The name in `endpoint`, where a name stands there. Then the endpoint's address is the unspecified one until it is known.
    pub host: Option<String>,
}

impl Channel {
    /// Whether the endpoint's address is still to be found.
    pub(crate) fn is_unresolved(&self) -> bool {
        matches!(self.kind, ChannelKind::Udp { endpoint, .. } if endpoint.ip().is_unspecified())
    }
}

/// What a channel may carry in a month.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// `quota`: bytes from the outer IP header on, both directions together.
    pub bytes: Bytes,
    /// `quota_day`: the day on which a month begins, 1 to 28; default 1.
    pub day: u8,
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
    /// `tcp`: the same datagrams, in a TCP connection.
    Tcp {
        /// `endpoint`: where the peer listens.
        endpoint: SocketAddr,
        /// `source`: the local address to connect from; default: the kernel's choice.
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

impl Channel {
    /// Whether its link's MTU is that of the interface by which it leaves, also when it changes.
    pub(crate) fn follows_device(&self) -> bool {
        self.mtu.is_none() && !matches!(self.kind, ChannelKind::Tcp { .. })
    }
}

impl ChannelKind {
    /// Where the peer listens, and the local address to send from, where it is reached by IP.
    pub(crate) fn ends(&self) -> Option<(SocketAddr, Option<IpAddr>)> {
        match self {
            ChannelKind::Udp { endpoint, source } | ChannelKind::Tcp { endpoint, source } => Some((*endpoint, *source)),
            ChannelKind::Ethernet { .. } => None,
        }
    }
}

/// How often the path MTU is confirmed while large frames go: a transport that falls into a black hole tries again after some
/// 200, 600 and 1400 ms, and by the second time it should be found.
const CONFIRM_MTU: Span = Span::from_millis(100);

/// Settings of a peer that are no options of its bond, with `policy`, which may be a table.
const OWN: [&str; 10] = [
    "name",
    "public_key",
    "preshared_key",
    "preshared_key_file",
    "invitation_file",
    "allowed_ips",
    "policy",
    "channel",
    "class",
    "split",
];

#[derive(Default)]
pub(super) struct RawPeer {
    name: Option<Spanned<String>>,
    public_key: Option<Spanned<Text>>,
    preshared_key: Option<Spanned<Text>>,
    preshared_key_file: Option<Spanned<String>>,
    invitation_file: Option<Spanned<String>>,
    allowed_ips: Vec<Spanned<String>>,
    policy: Option<Spanned<RawPolicy>>,
    channel: Vec<Spanned<RawChannel>>,
    class: Vec<Spanned<RawClass>>,
    pub(super) split: Option<Spanned<RawGateway>>,
    /// Options of the bond, each as it is written.
    options: Vec<(&'static Entry<BondConfig>, Spanned<Value>)>,
}

impl RawPeer {
    /// Where an option of the bond is written, by its name in the file.
    fn place(&self, name: &str) -> Option<Range<usize>> {
        self.options.iter().find(|(entry, _)| entry.spec.file == Some(name)).map(|(_, value)| value.span())
    }
}

/// The option of that name in a file.
fn option(name: &str) -> Option<&'static Entry<BondConfig>> {
    OPTIONS.iter().find(|entry| entry.spec.file == Some(name))
}

/// A setting that a peer has.
struct Key(String);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Key, D::Error> {
        let key = String::deserialize(deserializer)?;
        if OWN.contains(&key.as_str()) || option(&key).is_some() {
            return Ok(Key(key));
        }
        let options = OPTIONS.iter().filter_map(|entry| entry.spec.file).filter(|name| !OWN.contains(name));
        let known: Vec<String> = OWN.into_iter().chain(options).map(|name| format!("`{name}`")).collect();
        Err(D::Error::custom(format!("unknown field `{key}`, expected one of {}", known.join(", "))))
    }
}

impl<'de> Deserialize<'de> for RawPeer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RawPeer, D::Error> {
        struct Settings;

        impl<'de> Visitor<'de> for Settings {
            type Value = RawPeer;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the settings of a peer")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawPeer, A::Error> {
                let mut raw = RawPeer::default();
                while let Some(Key(key)) = map.next_key()? {
                    match key.as_str() {
                        "name" => raw.name = Some(map.next_value()?),
                        "public_key" => raw.public_key = Some(map.next_value()?),
                        "preshared_key" => raw.preshared_key = Some(map.next_value()?),
                        "preshared_key_file" => raw.preshared_key_file = Some(map.next_value()?),
                        "invitation_file" => raw.invitation_file = Some(map.next_value()?),
                        "allowed_ips" => raw.allowed_ips = map.next_value()?,
                        "policy" => raw.policy = Some(map.next_value()?),
                        "channel" => raw.channel = map.next_value()?,
                        "class" => raw.class = map.next_value()?,
                        "split" => raw.split = Some(map.next_value()?),
                        _ => raw.options.extend(option(&key).zip(Some(map.next_value()?))),
                    }
                }
                Ok(raw)
            }
        }

        deserializer.deserialize_map(Settings)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawChannel {
    name: Option<Spanned<String>>,
    kind: Spanned<String>,
    device: Option<Spanned<String>>,
    endpoint: Option<Spanned<String>>,
    tcp_endpoint: Option<Spanned<String>>,
    source: Option<Spanned<String>>,
    rate: Option<Spanned<String>>,
    peer_rate: Option<Spanned<String>>,
    priority: Option<u8>,
    weight: Option<Spanned<u32>>,
    mtu: Option<Spanned<u16>>,
    overhead: Option<Spanned<u16>>,
    quota: Option<Spanned<String>>,
    quota_day: Option<Spanned<u8>>,
    peer_mac: Option<Spanned<String>>,
    ethertype: Option<Spanned<u16>>,
    secure: Option<bool>,
}

/// Where the settings of a channel stand in the file.
pub(super) struct ChannelPlace {
    pub(super) whole: Range<usize>,
    pub(super) name: Option<Range<usize>>,
    pub(super) device: Option<Range<usize>>,
    pub(super) endpoint: Option<Range<usize>>,
    pub(super) tcp_endpoint: Option<Range<usize>>,
    pub(super) source: Option<Range<usize>>,
}

impl ChannelPlace {
    /// Where a setting stands; that of the whole channel where it does not.
    pub(super) fn of(&self, name: &str) -> Range<usize> {
        let place = match name {
            "name" => &self.name,
            "device" => &self.device,
            "endpoint" => &self.endpoint,
            "tcp_endpoint" => &self.tcp_endpoint,
            "source" => &self.source,
            _ => &None,
        };
        place.clone().unwrap_or(self.whole.clone())
    }
}

/// What says how a channel is carried, wherever it stands.
pub(super) struct RawKind<'a> {
    pub(super) kind: &'a Spanned<String>,
    pub(super) endpoint: Option<&'a Spanned<String>>,
    pub(super) source: Option<&'a Spanned<String>>,
    pub(super) peer_mac: Option<&'a Spanned<String>>,
    pub(super) ethertype: Option<&'a Spanned<u16>>,
    pub(super) secure: Option<bool>,
}

impl Reader<'_> {
    /// The peer, where its channels stand, and what of it works and is hardly meant.
    pub(super) fn peer(
        &self,
        number: usize,
        interface: &Interface,
        raw: Spanned<RawPeer>,
    ) -> Result<(Peer, Vec<ChannelPlace>, Option<ConfigError>), ConfigError> {
        let span = raw.span();
        let mut raw = raw.into_inner();
        let allowed_ips = self.networks(&raw.allowed_ips, "peer.allowed_ips")?;
        let (mut channels, mut places) = (Vec::new(), Vec::new());
        for (n, raw) in std::mem::take(&mut raw.channel).into_iter().enumerate() {
            places.push(ChannelPlace {
                whole: raw.span(),
                name: raw.get_ref().name.as_ref().map(Spanned::span),
                device: raw.get_ref().device.as_ref().map(Spanned::span),
                endpoint: raw.get_ref().endpoint.as_ref().map(Spanned::span),
                tcp_endpoint: raw.get_ref().tcp_endpoint.as_ref().map(Spanned::span),
                source: raw.get_ref().source.as_ref().map(Spanned::span),
            });
            channels.push(self.channel(n, raw)?);
        }
        self.channels_fit(interface, &channels, &places)?;
        if channels.len() > ChannelId::LIMIT {
            let problem = format!("{} channels: at most {} make one bond", channels.len(), ChannelId::LIMIT);
            return Err(self.error(span, "peer.channel", problem));
        }
        let public_key = self.public_key(interface, raw.public_key.as_ref(), "peer.public_key")?;
        let plain = !channels.is_empty()
            && channels.iter().all(|c| matches!(c.kind, ChannelKind::Ethernet { secure: false, .. }));
        let identity = Identity {
            public_key: raw.public_key.as_ref(),
            preshared_key: raw
                .preshared_key
                .as_ref()
                .map(Spanned::span)
                .or(raw.preshared_key_file.as_ref().map(Spanned::span)),
            has_channels: !channels.is_empty(),
            invitation_file: raw.invitation_file.as_ref(),
        };
        let invited = self.invited(interface, &identity, &allowed_ips)?;
        if !plain {
            if public_key.is_none() && invited.is_none() {
                return Err(self.error(span, "peer.public_key", "missing: encrypted channels need the peer's key"));
            }
            if interface.private_key.is_none() {
                let problem = "missing: encrypted channels need a key; `fairspan keygen` makes one";
                return Err(self.error(span, "interface.private_key", problem));
            }
        }
        if channels.is_empty() && interface.listen_port.is_none() && interface.listen_tcp_port.is_none() {
            let problem = "none, and interface.listen_port is not set: nobody could begin; add a [[peer.channel]]";
            return Err(self.error(span, "peer.channel", problem));
        }
        let (bond, notice) = self.bond_of_peer(&raw, span, plain, &channels, &allowed_ips)?;
        let split = raw.split.take().map(|split| self.split(interface, split, &allowed_ips)).transpose()?;
        let preshared_key =
            self.key(raw.preshared_key.as_ref(), raw.preshared_key_file.as_ref(), "peer.preshared_key")?;
        let preshared_key = invited.as_ref().map(|invited| invited.derived.preshared_key().clone()).or(preshared_key);
        let peer = Peer {
            name: match raw.name {
                Some(n) if !(1..=64).contains(&n.get_ref().len()) || n.get_ref().chars().any(char::is_control) => {
                    let problem = "must have 1 to 64 bytes, and no control characters";
                    return Err(self.error(n.span(), "peer.name", problem));
                }
                Some(n) => n.into_inner(),
                None => format!("peer{number}"),
            },
            public_key,
            preshared_key,
            invited,
            allowed_ips,
            bond,
            channels,
            split,
        };
        Ok((peer, places, notice))
    }

    /// The settings of a peer's bond, and what of them works and is hardly meant. `plain`: all channels are Ethernet in the
    /// clear.
    fn bond_of_peer(
        &self,
        raw: &RawPeer,
        span: Range<usize>,
        plain: bool,
        channels: &[Channel],
        allowed_ips: &[IpNet],
    ) -> Result<(BondConfig, Option<ConfigError>), ConfigError> {
        let mut bond = BondConfig::usual();
        (bond.confirm_mtu, bond.parity) = (CONFIRM_MTU, true);
        // In the clear the checksum is finished when a frame leaves, and not known before.
        let clear = channels.iter().any(|c| matches!(c.kind, ChannelKind::Ethernet { secure: false, .. }));
        if !clear {
            bond.compress_headers = Compression::Auto;
        }
        if plain {
            bond.mode = Mode::Stripe;
        }
        for (entry, value) in &raw.options {
            // The same as none: what its channels let it be.
            if entry.spec.file == Some("mode") && value.get_ref().as_str() == Some("auto") {
                continue;
            }
            self.option("peer", entry, value, &mut bond)?;
        }
        let named = |name: &str| raw.place(name).is_some();
        let (discipline, buffer) = (bond.discipline, bond.buffer);
        // Behind a peer to which everything goes is the rest of the world: who shares the bond are the hosts on this side.
        let users = if allowed_ips.iter().any(|net| net.prefix_len() == 0) { End::Source } else { End::Destination };
        bond = bond.with_queue(named("discipline").then_some(discipline), named("buffer").then_some(buffer), users);
        let wrong = |name: &str, problem: &str| match raw.place(name) {
            Some(place) => Err(self.error(place, &format!("peer.{name}"), problem)),
            None => Ok(()),
        };
        if bond.mode == Mode::Stripe && bond.scheduler == Scheduler::Rfq {
            wrong(
                "scheduler",
                "mode = \"stripe\" works with `srr`, `grr` and `rr`: write one of these, or choose another mode",
            )?;
        }
        if bond.mode == Mode::Flow {
            wrong("scheduler", "in mode \"flow\" the policy chooses channels: write `policy`, and leave this out")?;
        }
        let mut notice = None;
        if let Some(policy) = &raw.policy {
            if bond.mode != Mode::Flow {
                let mode = bond.mode;
                let problem =
                    format!("is for mode = \"flow\", and this is mode `{mode}`: write that mode, or leave this out");
                return Err(self.error(policy.span(), "peer.policy", problem));
            }
            (bond.policy, notice) = self.peer_policy(policy, channels)?;
        }
        if bond.policy.supervision.silence().is_some() {
            wrong("dead_after", "the policy's arp_interval and missed_max say that: keep them, or this")?;
        }
        if bond.mode != Mode::Reliable {
            wrong("compress_headers", "needs mode = \"reliable\"")?;
        }
        if clear && bond.compress_headers != Compression::Off {
            wrong(
                "compress_headers",
                "needs channels that are sealed: write `secure = true` for each, or leave this out",
            )?;
        }
        if bond.mode != Mode::Stripe {
            for setting in
                ["confirm_order", "credits", "fragment_delay", "marker_place", "marker_rounds", "stripe_buffer"]
            {
                wrong(setting, "needs mode = \"stripe\"")?;
            }
        }
        if bond.mode != Mode::Duplicate {
            wrong("copies", "needs mode = \"duplicate\"")?;
        }
        if matches!(bond.mode, Mode::Stripe | Mode::Flow) {
            let problem = "counts for nothing in modes \"stripe\" and \"flow\": choose another mode, or leave it out";
            wrong("metered", problem)?;
            if channels.iter().any(|channel| channel.quota.is_some()) {
                return Err(self.error(span, "peer.channel.quota", problem));
            }
        }
        let is_none = |name: &&Name| !channels.is_empty() && channels.iter().all(|channel| channel.name != name.0);
        if let Some(name) = bond.metered.0.iter().find(is_none) {
            wrong("metered", &format!("names `{}`, and no channel has that name", name.0))?;
        }
        self.fragments(raw.place("fragment_delay"), &bond, channels)?;
        bond.classes = self.classes(&raw.class, &bond, channels)?;
        bond.dead_after_idle = bond.dead_after_idle.max(bond.dead_after);
        match bond.validate() {
            Ok(()) => Ok((bond, notice)),
            Err(BondError::Order { setting: "dead_after", bound, .. }) => {
                let bound = show_span(Span::from_nanos(bound));
                let problem = format!("must be longer than {bound}, two signs of life: write a longer time");
                let place = raw.place("dead_after").unwrap_or(span);
                Err(self.error(place, "peer.dead_after", problem))
            }
            Err(error) => Err(self.error(span, "peer", error)),
        }
    }

    /// Sets an option of a component to what is written; `section` is where.
    pub(super) fn option<C>(
        &self,
        section: &str,
        entry: &Entry<C>,
        value: &Spanned<Value>,
        config: &mut C,
    ) -> Result<(), ConfigError> {
        let name = format!("{section}.{}", entry.spec.file.unwrap_or(entry.spec.name));
        let expected = || entry.spec.expected();
        let read = match (value.get_ref(), entry.spec.kind) {
            (Value::Boolean(flag), Kind::Flag) => Ok(OptionValue::Flag(*flag)),
            // A choice of which two are yes and no.
            (Value::Boolean(flag), Kind::Choice(words)) if words.contains(&"true") => {
                entry.spec.kind.parse(&flag.to_string(), Dialect::Plain).ok_or_else(expected)
            }
            (Value::Integer(n), Kind::Count(..)) => {
                entry.spec.kind.parse(&n.to_string(), Dialect::Plain).ok_or_else(expected)
            }
            (Value::String(text), Kind::Choice(words)) => entry
                .spec
                .kind
                .parse(text, Dialect::Plain)
                .ok_or_else(|| format!("`{text}` is none of {}", words.join(", "))),
            // What is no quantity at all says so itself.
            (Value::String(text), Kind::Span(..)) => quantity(parse_span(text), entry, text),
            (Value::String(text), Kind::Bytes(..)) => quantity(parse_bytes(text), entry, text),
            (Value::String(text), Kind::Text(check)) => {
                check(text).map(|()| OptionValue::Text(text.clone())).map_err(|error| error.to_string())
            }
            (value @ Value::Array(_), Kind::Text(check)) => words(value)
                .ok_or_else(expected)
                .and_then(|text| check(&text).map(|()| OptionValue::Text(text)).map_err(|error| error.to_string())),
            (Value::String(text), kind) if !matches!(kind, Kind::Flag | Kind::Count(..)) => {
                kind.parse(text, Dialect::Plain).ok_or_else(expected)
            }
            _ => Err(expected()),
        };
        match read {
            Ok(read) => {
                entry.set(config, read);
                Ok(())
            }
            Err(problem) => Err(self.error(value.span(), &name, problem)),
        }
    }

    fn channel(&self, number: usize, raw: Spanned<RawChannel>) -> Result<Channel, ConfigError> {
        let span = raw.span();
        let raw = raw.into_inner();
        let device = raw.device.as_ref().map(|d| self.link_device(d, "peer.channel.device")).transpose()?;
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
        if let (ChannelKind::Tcp { .. }, Some(mtu)) = (&kind, &raw.mtu) {
            let problem = "a connection has no path MTU that a channel could use: leave it out";
            return Err(self.error(mtu.span(), "peer.channel.mtu", problem));
        }
        let tcp_endpoint =
            self.tcp_endpoint(&kind, device.is_some(), raw.tcp_endpoint.as_ref(), raw.source.as_ref())?;
        let rate = self.positive_rate(raw.rate.as_ref(), "peer.channel.rate")?;
        let peer_rate = self.positive_rate(raw.peer_rate.as_ref(), "peer.channel.peer_rate")?;
        let overhead = raw.overhead.as_ref().map_or(ETHERNET_OVERHEAD, |o| *o.get_ref());
        let place = |value: Option<&Spanned<String>>| value.map(Spanned::span);
        self.link_fits(place(raw.rate.as_ref()), "peer.channel.rate", rate, 0)?;
        self.link_fits(place(raw.peer_rate.as_ref()), "peer.channel.peer_rate", peer_rate, 0)?;
        self.link_fits(raw.overhead.as_ref().map(Spanned::span), "peer.channel.overhead", None, overhead)?;
        Ok(Channel {
            name: raw.name.map_or_else(|| format!("channel{number}"), Spanned::into_inner),
            device,
            rate,
            peer_rate,
            priority: raw.priority.unwrap_or(number.min(255) as u8),
            weight: self.weight(raw.weight.as_ref(), "peer.channel.weight")?,
            mtu: self.mtu(raw.mtu.as_ref(), "peer.channel.mtu")?,
            overhead,
            quota: self.quota(&kind, raw.quota.as_ref(), raw.quota_day.as_ref())?,
            kind,
            host: raw.endpoint.as_ref().and_then(|endpoint| Some(host_and_port(endpoint.get_ref())?.0)),
            tcp_endpoint,
        })
    }

    /// What a channel may carry in a month.
    fn quota(
        &self,
        kind: &ChannelKind,
        text: Option<&Spanned<String>>,
        day: Option<&Spanned<u8>>,
    ) -> Result<Option<Quota>, ConfigError> {
        if let Some(day) = day {
            if !(1..=28).contains(day.get_ref()) {
                let problem = "must be from 1 to 28";
                return Err(self.error(day.span(), "peer.channel.quota_day", problem));
            }
            if text.is_none() {
                let problem = "needs `quota`: what the channel may carry from that day on";
                return Err(self.error(day.span(), "peer.channel.quota_day", problem));
            }
        }
        let Some(text) = text else { return Ok(None) };
        let wrong = |problem: String| self.error(text.span(), "peer.channel.quota", problem);
        if matches!(kind, ChannelKind::Ethernet { secure: false, .. }) {
            return Err(wrong("is kept by the peer's key, and this channel is plain: leave it out".into()));
        }
        let bytes = parse_bytes(text.get_ref()).map_err(|error| wrong(error.to_string()))?;
        if bytes == Bytes::ZERO {
            return Err(wrong("is nothing at all: name the channel in `metered` instead".into()));
        }
        Ok(Some(Quota { bytes, day: day.map_or(1, |day| *day.get_ref()) }))
    }

    /// Where a channel goes while no UDP gets through.
    fn tcp_endpoint(
        &self,
        kind: &ChannelKind,
        has_device: bool,
        text: Option<&Spanned<String>>,
        source: Option<&Spanned<String>>,
    ) -> Result<Option<SocketAddr>, ConfigError> {
        const SETTING: &str = "peer.channel.tcp_endpoint";
        let Some(text) = text else { return Ok(None) };
        let ChannelKind::Udp { source: from, endpoint } = kind else {
            let problem = "belongs to kind = \"udp\" only: it is where the channel goes while no UDP gets through";
            return Err(self.error(text.span(), SETTING, problem));
        };
        if endpoint.ip().is_unspecified() {
            let problem = "goes with an `endpoint` that is an address, and not a name: write the address there";
            return Err(self.error(text.span(), SETTING, problem));
        }
        let endpoint: SocketAddr = self.parsed(text, SETTING, "203.0.113.1:443")?;
        let source = from.zip(source.map(Spanned::span));
        self.ends_fit("peer.channel", has_device, (endpoint, text.span()), source).map_err(|error| {
            let setting = error.setting.replace(".endpoint", ".tcp_endpoint");
            ConfigError { setting, ..error }
        })?;
        Ok(Some(endpoint))
    }

    /// What carries a channel; `place` is where its settings stand.
    pub(super) fn kind(
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
            kind @ ("udp" | "tcp") => {
                if kind == "tcp" && place != "peer.channel" {
                    let problem = "`tcp` is for a channel of a [[peer]]: write udp or ethernet";
                    return Err(self.error(raw.kind.span(), &setting("kind"), problem));
                }
                misplaced(raw.peer_mac.map(Spanned::span), "peer_mac", "ethernet")?;
                misplaced(raw.ethertype.map(Spanned::span), "ethertype", "ethernet")?;
                if raw.secure == Some(false) {
                    let problem = format!("a {kind} channel is always encrypted: leave it out");
                    return Err(self.error(span, &setting("secure"), problem));
                }
                let Some(endpoint) = raw.endpoint else {
                    let problem = "missing: say where the peer listens, such as \"203.0.113.1:51900\"; the side that \
                                   listens has no [[peer.channel]]";
                    return Err(self.error(span, &setting("endpoint"), problem));
                };
                let source: Option<IpAddr> =
                    raw.source.map(|s| self.parsed(s, &setting("source"), "192.0.2.1")).transpose()?;
                if let Some((_, port)) = host_and_port(endpoint.get_ref()) {
                    if kind == "tcp" {
                        let problem =
                            "a tcp channel takes an address, and no name: write one such as \"203.0.113.1:443\"";
                        return Err(self.error(endpoint.span(), &setting("endpoint"), problem));
                    }
                    return self.named(place, endpoint, port, source);
                }
                let endpoint_addr: SocketAddr = self.parsed(endpoint, &setting("endpoint"), "203.0.113.1:51900")?;
                let source_at = source.zip(raw.source.map(Spanned::span));
                self.ends_fit(place, has_device, (endpoint_addr, endpoint.span()), source_at)?;
                let endpoint = endpoint_addr;
                Ok(match kind {
                    "tcp" => ChannelKind::Tcp { endpoint, source },
                    _ => ChannelKind::Udp { endpoint, source },
                })
            }
            "ethernet" => {
                misplaced(raw.endpoint.map(Spanned::span), "endpoint", "udp")?;
                misplaced(raw.source.map(Spanned::span), "source", "udp")?;
                if !has_device {
                    return Err(self.error(span, &setting("device"), "missing: an ethernet channel names its device"));
                }
                let ethertype = raw.ethertype.map(|e| self.ethertype(e, &setting("ethertype"))).transpose()?;
                let ethertype = ethertype.unwrap_or(0x88B5);
                let peer_mac = raw.peer_mac.map(|m| self.mac(m, &setting("peer_mac"))).transpose()?;
                Ok(ChannelKind::Ethernet { peer_mac, ethertype, secure: raw.secure.unwrap_or(false) })
            }
            other => {
                let problem = format!("`{other}` is none of udp, tcp, ethernet");
                Err(self.error(raw.kind.span(), &setting("kind"), problem))
            }
        }
    }
}

/// The value of an option that is a quantity; what is none says so itself.
fn quantity<T, C>(parsed: Result<T, QuantityError>, entry: &Entry<C>, text: &str) -> Result<OptionValue, String> {
    parsed.map_err(|e| e.to_string())?;
    let outside = || format!("is `{text}`; {}", entry.spec.expected());
    entry.spec.kind.parse(text, Dialect::Plain).ok_or_else(outside)
}
