//! `[gateway]`: TCP connections that go by a long link are split in two, and what waits before it shares it fairly.

use super::login::Login;
use super::secret::Text;
use super::{ConfigError, Interface, Reader};
use crate::quantity::{parse_bytes, parse_rate, parse_span, split as number_and_unit};
use fairspan_core::buffer::Limit;
use fairspan_core::queue;
use fairspan_core::split::config::{Config as Split, OPTIONS};
use fairspan_core::units::{Bytes, Rate, Span};
use ipnet::IpNet;
use serde::Deserialize;
use std::net::SocketAddr;
use std::ops::Range;
use toml::{Spanned, Value};

/// `[gateway]`: a host that splits TCP connections between its other devices and a long one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gateway {
    /// `long`: the device of the long link, such as a satellite's, or a bond's interface. No default.
    pub long: String,
    /// `inside`: the devices where callers are; default, empty: every device but `long` and `lo`.
    pub inside: Vec<String>,
    /// `transparent`: whether connections are split that neither end addressed to the gateway; default true.
    pub transparent: bool,
    /// `proxy`: where clients may ask for a connection by SOCKS5 or HTTP CONNECT; default nowhere.
    pub proxy: Option<SocketAddr>,
    /// `proxy_user`, `proxy_password`, `proxy_password_file`: what these clients have to know; default nothing.
    pub proxy_login: Option<Login>,
    /// `proxy_local`: whether these clients may reach this host itself, by its own addresses, loopback and link-local ones;
    /// default false.
    pub proxy_local: bool,
    /// `fair_queueing`: whether all packets to the long link wait in the gateway's queue, and not only those that ask for a
    /// connection; default true.
    pub fair_queueing: bool,
    /// `matching`, `discipline`, `buffer`, `queue`, each by default as in a scenario. The ceiling is
    /// [`rate`](Gateway::rate), and the room of all send buffers half of [`memory`](Gateway::memory).
    pub split: Split,
    /// `rate`, in bits per second: what the long link carries; default: not known, no bound.
    pub rate: Option<Rate>,
    /// `congestion`: the kernel's name for the congestion control of sockets on the long side; default: the kernel's own.
    pub congestion: Option<String>,
    /// `initial_window`, in bytes: what a socket on the long side may send before anything is acknowledged; default: the kernel's.
    pub initial_window: Option<Bytes>,
    /// `memory`, in bytes: all sockets' buffers together; default 1 GB.
    pub memory: Bytes,
    /// `connection_memory`, in bytes: the buffers of one socket at most; default 64 MB, or 24 times `initial_window` where
    /// that is more, or `memory` where that is less.
    pub connection_memory: Bytes,
    /// `half_open`: connections whose far end has not answered yet, at most; more pass unsplit. Default 1024.
    pub half_open: u32,
    /// `except`: networks whose connections are never split, whichever end lies there; default none.
    pub except: Vec<IpNet>,
    /// `except_ports`: destination ports that are never split; default none.
    pub except_ports: Vec<u16>,
    /// `bypass_below`, a time: destinations are not split for ten minutes where the longer of both sides has a shorter round
    /// trip; default 10 ms, and 0: all are split.
    pub bypass_below: Span,
    /// Whose connections are split, where it is a `[peer.split]`; `None`: all that go by the long link.
    pub of_peer: Option<OfPeer>,
}

/// What a gateway within a daemon of peers does for one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OfPeer {
    /// Which of the daemon's gateways it is: its marks, its queue in the kernel, and its packet rules follow from that.
    pub slot: u32,
    /// Networks, the longest prefixes first, and whether each is behind this peer. Of other peers those that lie within its own.
    pub networks: Vec<(IpNet, bool)>,
}

impl Gateway {
    /// The section that has its settings.
    pub(crate) fn section(&self) -> &'static str {
        if self.of_peer.is_some() { "peer.split" } else { "gateway" }
    }
}

/// `[gateway]` as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawGateway {
    long: Option<Spanned<String>>,
    #[serde(default)]
    inside: Vec<Spanned<String>>,
    transparent: Option<Spanned<bool>>,
    proxy: Option<Spanned<String>>,
    proxy_user: Option<Spanned<String>>,
    proxy_password: Option<Spanned<Text>>,
    proxy_password_file: Option<Spanned<String>>,
    proxy_local: Option<Spanned<bool>>,
    fair_queueing: Option<bool>,
    matching: Option<Spanned<Value>>,
    discipline: Option<Spanned<Value>>,
    buffer: Option<Spanned<Value>>,
    queue: Option<Spanned<String>>,
    rate: Option<Spanned<String>>,
    congestion: Option<Spanned<String>>,
    initial_window: Option<Spanned<String>>,
    memory: Option<Spanned<String>>,
    connection_memory: Option<Spanned<String>>,
    half_open: Option<Spanned<i64>>,
    #[serde(default)]
    except: Vec<Spanned<String>>,
    #[serde(default)]
    except_ports: Vec<Spanned<i64>>,
    bypass_below: Option<Spanned<String>>,
}

const MEMORY: Bytes = Bytes::new(1_000_000_000);
const CONNECTION_MEMORY: Bytes = Bytes::new(64_000_000);
/// What a socket needs for a link that loses, in initial windows: half is for each direction, half of that for the kernel's own needs. BBR has two
/// windows under way, a third waits for what was lost the first time, and more for what is lost again.
const WINDOWS: u64 = 24;
const HALF_OPEN: u32 = 1024;
const BYPASS_BELOW: Span = Span::from_millis(10);
/// Longest name of a congestion control: TCP_CA_NAME_MAX of Linux, less the NUL.
const CONGESTION_MAX: usize = 15;

/// A bound of a setting, and how people write it.
type Bound<T> = (T, &'static str);

/// What a link carries that a queue is served at.
const RATES: [Bound<Rate>; 2] =
    [(Rate::from_bits_per_sec(8_000), "8kbit"), (Rate::from_bits_per_sec(100_000_000_000), "100Gbit")];
/// From two full packets of Ethernet on; more than `connection_memory` has no effect.
const INITIAL_WINDOWS: [Bound<Bytes>; 2] = [(Bytes::new(3_000), "3kB"), (Bytes::new(1_000_000_000), "1GB")];
const MEMORIES: [Bound<Bytes>; 2] = [(Bytes::new(1_000_000), "1MB"), (Bytes::new(1_000_000_000_000), "1000GB")];
/// The kernel doubles what it is told, and counts in 31 bits.
const CONNECTION_MEMORIES: [Bound<Bytes>; 2] = [(Bytes::new(64_000), "64kB"), (Bytes::new(1_000_000_000), "1GB")];
const BYPASSES: [Bound<Span>; 2] = [(Span::ZERO, "0ms"), (Span::from_secs(10), "10s")];

impl Reader<'_> {
    /// The section. `alone` says that no section of another role stands beside it, `peer` where the first peer stands.
    pub(super) fn gateway(
        &self,
        interface: &Interface,
        raw: Spanned<RawGateway>,
        alone: bool,
        peer: Option<Range<usize>>,
    ) -> Result<Gateway, ConfigError> {
        let span = raw.span();
        let raw = raw.into_inner();
        self.gateway_alone(interface, span.clone(), alone, peer)?;
        let Some(long) = &raw.long else {
            let problem = "missing: name the device of the long link, such as \"sat0\"";
            return Err(self.error(span, "gateway.long", problem));
        };
        let long = self.link_device(long, "gateway.long")?;
        self.gateway_settings(&raw, span, long)
    }

    /// As a `[peer.split]`, before the bond's interface.
    pub(super) fn gateway_of_peer(&self, raw: Spanned<RawGateway>, interface: &str) -> Result<Gateway, ConfigError> {
        let (span, raw) = (raw.span(), raw.into_inner());
        let place = |value: &Option<Spanned<String>>| value.as_ref().map(Spanned::span);
        let proxy = "clients ask a gateway of its own file: write it into the [gateway] of another daemon";
        let meaningless = [
            (place(&raw.long), "long", "it is the bond's interface: leave it out"),
            (raw.transparent.as_ref().map(Spanned::span), "transparent", "it is always so: leave it out"),
            (place(&raw.proxy), "proxy", proxy),
            (place(&raw.proxy_user), "proxy_user", proxy),
            (raw.proxy_password.as_ref().map(Spanned::span), "proxy_password", proxy),
            (place(&raw.proxy_password_file), "proxy_password_file", proxy),
            (raw.proxy_local.as_ref().map(Spanned::span), "proxy_local", proxy),
        ];
        for (place, name, why) in meaningless {
            if let Some(place) = place {
                return Err(self.error(place, &format!("gateway.{name}"), format!("has no meaning here: {why}")));
            }
        }
        self.gateway_settings(&raw, span, interface.to_owned())
    }

    fn gateway_settings(&self, raw: &RawGateway, span: Range<usize>, long: String) -> Result<Gateway, ConfigError> {
        let inside = self.inside(&raw.inside, &long)?;
        let proxy =
            raw.proxy.as_ref().map(|proxy| self.listening(proxy, "gateway.proxy", "10.0.0.1:1080")).transpose()?;
        let proxy_login = self.proxy_login(raw)?;
        let open = proxy.filter(|proxy| proxy.ip().is_unspecified() && proxy_login.is_none());
        if let (Some(address), Some(text)) = (open, &raw.proxy) {
            let problem = format!(
                "`{address}` answers at every address of this host, that of `{long}` too, and connects whoever reaches it: \
                 write an address of an inside device, or add `proxy_password`"
            );
            self.notice(text.span(), "gateway.proxy", problem);
        }
        if let (None, Some(off)) = (proxy, raw.transparent.as_ref().filter(|transparent| !*transparent.get_ref())) {
            let problem = "false without a `proxy` leaves nothing to split: add `proxy`, or leave it out";
            return Err(self.error(off.span(), "gateway.transparent", problem));
        }
        if proxy.is_none() {
            let place = |value: &Option<Spanned<String>>| value.as_ref().map(Spanned::span);
            for (name, place) in [
                ("proxy_local", raw.proxy_local.as_ref().map(Spanned::span)),
                ("proxy_password", raw.proxy_password.as_ref().map(Spanned::span)),
                ("proxy_password_file", place(&raw.proxy_password_file)),
            ] {
                place.into_iter().for_each(|place| {
                    self.notice(place, &format!("gateway.{name}"), "has no effect without `proxy`");
                });
            }
        }
        let rate = self.within(raw.rate.as_ref(), "gateway.rate", parse_rate, RATES)?;
        let (memory, connection_memory, initial_window) = self.gateway_memory(raw, span.clone())?;
        let half_open = self.number(raw.half_open.as_ref(), "gateway.half_open", 1, 65_536)?.unwrap_or(HALF_OPEN);
        Ok(Gateway {
            long,
            inside,
            transparent: raw.transparent.as_ref().is_none_or(|transparent| *transparent.get_ref()),
            proxy,
            proxy_login,
            proxy_local: raw.proxy_local.as_ref().is_some_and(|local| *local.get_ref()),
            fair_queueing: raw.fair_queueing.unwrap_or(true),
            split: self.splitting(raw, span, rate, memory)?,
            rate,
            congestion: raw.congestion.as_ref().map(|name| self.congestion_name(name)).transpose()?,
            initial_window,
            memory,
            connection_memory,
            half_open,
            except: self.networks(&raw.except, "gateway.except")?,
            except_ports: self.except_ports(&raw.except_ports)?,
            bypass_below: self
                .within(raw.bypass_below.as_ref(), "gateway.bypass_below", parse_span, BYPASSES)?
                .unwrap_or(BYPASS_BELOW),
            of_peer: None,
        })
    }

    /// What clients of the proxy have to know, if anything.
    fn proxy_login(&self, raw: &RawGateway) -> Result<Option<Login>, ConfigError> {
        const SETTING: &str = "gateway.proxy_password";
        let fits = |text: &str| (1..=Login::LONGEST).contains(&text.len()) && !text.contains(char::is_control);
        let password = self.secret(raw.proxy_password.as_ref(), raw.proxy_password_file.as_ref(), SETTING)?;
        let Some((password, place, setting)) = password else {
            let Some(name) = &raw.proxy_user else { return Ok(None) };
            let problem = "is a name without a password: add `proxy_password` or `proxy_password_file`";
            return Err(self.error(name.span(), "gateway.proxy_user", problem));
        };
        if !fits(&password) {
            let problem = "is no password that a client could say: write 1 to 255 bytes, without control characters";
            return Err(self.error(place, &setting, problem));
        }
        let name = raw.proxy_user.as_ref();
        if let Some(name) = name.filter(|name| !fits(name.get_ref()) || name.get_ref().contains(':')) {
            let problem =
                "is no name that a client could say: write 1 to 255 bytes, with no `:` and no control characters";
            return Err(self.error(name.span(), "gateway.proxy_user", problem));
        }
        Ok(Some(Login::new(name.map(|name| name.get_ref().clone()), password)))
    }

    /// A gateway stands alone in its file, and has no interface of its own.
    fn gateway_alone(
        &self,
        interface: &Interface,
        span: Range<usize>,
        alone: bool,
        peer: Option<Range<usize>>,
    ) -> Result<(), ConfigError> {
        if !alone {
            let problem = "stands beside a [ring], a [bond] or a [shape]: give each its own file";
            return Err(self.error(span, "gateway", problem));
        }
        if let Some(peer) = peer {
            let problem =
                "stands beside a [gateway]: give each its own file; the gateway's `long` is the bond's interface";
            return Err(self.error(peer, "peer", problem));
        }
        let meaningless = [
            (!interface.addresses.is_empty(), "address", "a gateway makes no interface"),
            (interface.mtu.is_some(), "mtu", "a gateway makes no interface: set the devices' MTU"),
            (interface.private_key.is_some(), "private_key", "nothing is encrypted"),
            (interface.listen_port.is_some(), "listen_port", "no peer calls"),
            (interface.listen_tcp_port.is_some(), "listen_tcp_port", "no peer calls; clients ask at `gateway.proxy`"),
            (interface.record.is_some(), "record", "only a bond with a [[peer]] is recorded"),
            (interface.padding, "padding", "nothing is encrypted"),
            (interface.lock, "lock", "a gateway has no tunnel by which all could leave"),
        ];
        if let Some((_, setting, why)) = meaningless.iter().find(|(given, ..)| *given) {
            let problem = format!("has no meaning beside [gateway]: {why}; leave it out");
            return Err(self.error(span, &format!("interface.{setting}"), problem));
        }
        Ok(())
    }

    fn inside(&self, texts: &[Spanned<String>], long: &str) -> Result<Vec<String>, ConfigError> {
        const SETTING: &str = "gateway.inside";
        let mut devices: Vec<String> = Vec::new();
        for text in texts {
            let device = self.link_device(text, SETTING)?;
            let problem = if device == long {
                format!("`{device}` is the long link's device: name those on the other side, or leave it out for all")
            } else if devices.contains(&device) {
                format!("`{device}` is there twice: leave one out")
            } else {
                devices.push(device);
                continue;
            };
            return Err(self.error(text.span(), SETTING, problem));
        }
        Ok(devices)
    }

    /// What core decides with.
    fn splitting(
        &self,
        raw: &RawGateway,
        span: Range<usize>,
        rate: Option<Rate>,
        memory: Bytes,
    ) -> Result<Split, ConfigError> {
        let mut split = Split::default();
        let options = [("matching", &raw.matching), ("discipline", &raw.discipline), ("buffer", &raw.buffer)];
        for (name, value) in options {
            if let Some((value, entry)) = value.as_ref().zip(OPTIONS.find(name)) {
                self.option("gateway", entry, value, &mut split)?;
            }
        }
        if let Some(text) = &raw.queue {
            split.queue = self.queue_room(text, rate)?;
        }
        (split.ceiling, split.send_buffer) = (rate, Bytes::new(memory.as_u64() / 2));
        split.check().map_err(|problem| self.error(span, "gateway", problem))?;
        if raw.fair_queueing == Some(false) {
            let queue = raw.queue.as_ref().map(Spanned::span);
            let place = |value: &Option<Spanned<Value>>| value.as_ref().map(Spanned::span);
            let unused = options.iter().take(3).map(|(name, value)| (*name, place(value))).chain([("queue", queue)]);
            for (name, place) in unused {
                let Some(place) = place else { continue };
                let problem = "has no effect with `fair_queueing = false`: nothing waits in the gateway's queue";
                self.notice(place, &format!("gateway.{name}"), problem);
            }
        }
        Ok(split)
    }

    /// Room in packets, in bytes, or in the time that the link takes for it.
    fn queue_room(&self, text: &Spanned<String>, rate: Option<Rate>) -> Result<Limit, ConfigError> {
        const SETTING: &str = "gateway.queue";
        let written = text.get_ref();
        let bytes = |bytes: u64| (1..=queue::Config::MOST_BYTES).contains(&bytes).then_some(Limit::Bytes(bytes));
        let found = match (number_and_unit(written), parse_span(written), rate) {
            ((number, "packet" | "packets"), ..) => {
                number.parse().ok().filter(|n| (1..=queue::Config::MOST_PACKETS).contains(n)).map(Limit::Packets)
            }
            (_, Ok(time), Some(rate)) if time > Span::ZERO => bytes(rate.bytes_in(time).as_u64()),
            (_, Ok(time), None) if time > Span::ZERO => {
                let problem = format!("`{written}` is a time, which says how much only with `rate`: add `rate`");
                return Err(self.error(text.span(), SETTING, problem));
            }
            _ => parse_bytes(written).ok().and_then(|size| bytes(size.as_u64())),
        };
        found.ok_or_else(|| {
            let problem = format!(
                "`{written}` is none of packets, bytes or a time at `rate`: write for example \"1000 packets\", \"2MB\" or \
                 \"100ms\""
            );
            self.error(text.span(), SETTING, problem)
        })
    }

    /// `memory`, `connection_memory` and `initial_window`, of which each bounds the next.
    fn gateway_memory(
        &self,
        raw: &RawGateway,
        span: Range<usize>,
    ) -> Result<(Bytes, Bytes, Option<Bytes>), ConfigError> {
        let memory = self.within(raw.memory.as_ref(), "gateway.memory", parse_bytes, MEMORIES)?.unwrap_or(MEMORY);
        let own = raw.connection_memory.as_ref();
        let one = self.within(own, "gateway.connection_memory", parse_bytes, CONNECTION_MEMORIES)?;
        let window =
            self.within(raw.initial_window.as_ref(), "gateway.initial_window", parse_bytes, INITIAL_WINDOWS)?;
        let wanted = window.map_or(0, |window| window.as_u64().saturating_mul(WINDOWS)).max(CONNECTION_MEMORY.as_u64());
        let connection = one.unwrap_or(Bytes::new(wanted).min(memory).min(CONNECTION_MEMORIES[1].0));
        let place = |value: &Option<Spanned<String>>| value.as_ref().map_or(span.clone(), Spanned::span);
        if connection > memory {
            let problem = "is more than `memory`, which all sockets have together: lower it, or raise `memory`";
            return Err(self.error(place(&raw.connection_memory), "gateway.connection_memory", problem));
        }
        if window.is_some_and(|window| window > connection) {
            let problem = "is more than `connection_memory`, which a socket cannot hold: lower it, or raise that";
            return Err(self.error(place(&raw.initial_window), "gateway.initial_window", problem));
        }
        Ok((memory, connection, window))
    }

    /// The name that the kernel has for a congestion control; whether it has that one, it says at the start.
    fn congestion_name(&self, name: &Spanned<String>) -> Result<String, ConfigError> {
        let text = name.get_ref();
        let plausible = (1..=CONGESTION_MAX).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte));
        if plausible {
            return Ok(text.clone());
        }
        let problem = format!(
            "`{text}` is no name of a congestion control: write one that `sysctl net.ipv4.tcp_available_congestion_control` \
             lists, such as \"cubic\" or \"bbr\""
        );
        Err(self.error(name.span(), "gateway.congestion", problem))
    }

    fn except_ports(&self, numbers: &[Spanned<i64>]) -> Result<Vec<u16>, ConfigError> {
        const SETTING: &str = "gateway.except_ports";
        let mut ports: Vec<u16> = Vec::new();
        for number in numbers {
            let port = self.number(Some(number), SETTING, 1, u16::MAX.into())?.unwrap_or_default() as u16;
            if ports.contains(&port) {
                return Err(self.error(number.span(), SETTING, format!("{port} is there twice: leave one out")));
            }
            ports.push(port);
        }
        Ok(ports)
    }

    /// A quantity from the first bound to the second.
    fn within<T: PartialOrd>(
        &self,
        value: Option<&Spanned<String>>,
        setting: &str,
        parse: fn(&str) -> Result<T, crate::quantity::QuantityError>,
        [(least, from), (most, to)]: [Bound<T>; 2],
    ) -> Result<Option<T>, ConfigError> {
        let found = self.quantity(value, setting, parse)?;
        match (value, found) {
            (Some(text), Some(found)) if !(least..=most).contains(&found) => {
                Err(self.error(text.span(), setting, format!("`{}` is not from {from} to {to}", text.get_ref())))
            }
            (_, found) => Ok(found),
        }
    }

    fn number(
        &self,
        value: Option<&Spanned<i64>>,
        setting: &str,
        least: u32,
        most: u32,
    ) -> Result<Option<u32>, ConfigError> {
        let Some(value) = value else { return Ok(None) };
        let number = u32::try_from(*value.get_ref()).ok().filter(|number| (least..=most).contains(number));
        number.map(Some).ok_or_else(|| {
            self.error(value.span(), setting, format!("{} is not from {least} to {most}", value.get_ref()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config as File;
    use super::*;
    use fairspan_core::split::config::Matching;
    use std::path::Path;

    const HEAD: &str = "[interface]\nname = \"gw0\"\n[gateway]\n";

    fn parse(text: &str) -> Result<File, ConfigError> {
        File::parse(Path::new("x.toml"), text)
    }

    #[test]
    fn defaults_are_the_documented_ones() {
        let config = parse(&format!("{HEAD}long = \"sat0\"\n")).expect("good");
        assert!(config.notices.is_empty() && config.peers.is_empty(), "{:?}", config.notices);
        let mut split = Split::default();
        split.send_buffer = Bytes::new(500_000_000);
        let expected = Gateway {
            long: "sat0".into(),
            inside: Vec::new(),
            transparent: true,
            proxy: None,
            proxy_login: None,
            proxy_local: false,
            fair_queueing: true,
            split,
            rate: None,
            congestion: None,
            initial_window: None,
            memory: Bytes::new(1_000_000_000),
            connection_memory: Bytes::new(64_000_000),
            half_open: 1024,
            except: Vec::new(),
            except_ports: Vec::new(),
            bypass_below: Span::from_millis(10),
            of_peer: None,
        };
        assert_eq!(config.gateway, Some(expected));
    }

    #[test]
    fn a_connection_has_memory_for_its_initial_window_on_a_link_that_loses_where_there_is_so_much() {
        for (settings, expected) in [
            ("initial_window = \"2MB\"", 64),
            ("initial_window = \"5MB\"", 120),
            ("initial_window = \"10MB\"\nmemory = \"80MB\"", 80),
        ] {
            let gateway = parse(&format!("{HEAD}long = \"sat0\"\n{settings}\n")).expect(settings).gateway;
            assert_eq!(gateway.map(|gateway| gateway.connection_memory), Some(Bytes::new(expected * 1_000_000)));
        }
    }

    #[test]
    fn every_setting_is_read() {
        let text = format!(
            "{HEAD}long = \"sat0\"\ninside = [\"lan0\", \"lan1\"]\ntransparent = false\nproxy = \"10.0.0.1:1080\"\nproxy_user = \"alice\"\n\
             proxy_password = \"correct horse\"\nproxy_local = true\n\
             fair_queueing = true\nmatching = \"1.7Mbit\"\ndiscipline = \"drr:quantum=3000\"\nbuffer = \"codel:target=10ms\"\n\
             queue = \"100ms\"\nrate = \"70Mbit\"\ncongestion = \"bbr\"\ninitial_window = \"4MB\"\n\
             memory = \"100MB\"\nconnection_memory = \"8MB\"\nhalf_open = 7\nexcept = [\"10.0.0.0/8\", \"2001:db8::1\"]\n\
             except_ports = [22, 179]\nbypass_below = \"0ms\"\n"
        );
        let config = parse(&text).expect("good");
        assert!(config.notices.is_empty(), "{:?}", config.notices);
        let mut split = Split::default();
        split.matching = Matching::Bits(Rate::from_bits_per_sec(1_700_000));
        split.discipline = "drr:quantum=3000".parse().expect("a discipline");
        split.buffer = "codel:target=10ms".parse().expect("a policy");
        split.queue = Limit::Bytes(875_000);
        (split.ceiling, split.send_buffer) = (Some(Rate::from_mbit(70)), Bytes::new(50_000_000));
        let expected = Gateway {
            long: "sat0".into(),
            inside: vec!["lan0".into(), "lan1".into()],
            transparent: false,
            proxy: Some("10.0.0.1:1080".parse().expect("an address")),
            proxy_login: Some(Login::new(Some("alice".into()), "correct horse".to_owned().into())),
            proxy_local: true,
            fair_queueing: true,
            split,
            rate: Some(Rate::from_mbit(70)),
            congestion: Some("bbr".into()),
            initial_window: Some(Bytes::new(4_000_000)),
            memory: Bytes::new(100_000_000),
            connection_memory: Bytes::new(8_000_000),
            half_open: 7,
            except: vec!["10.0.0.0/8".parse().expect("a network"), "2001:db8::1/128".parse().expect("a network")],
            except_ports: vec![22, 179],
            bypass_below: Span::ZERO,
            of_peer: None,
        };
        assert_eq!(config.gateway, Some(expected));
    }

    #[test]
    fn the_queue_is_packets_bytes_or_a_time_and_little_memory_bounds_each_connection() {
        let read = |more: &str| {
            let text = format!("{HEAD}long = \"sat0\"\n{more}");
            parse(&text).expect(more).gateway.expect("a gateway")
        };
        assert_eq!(read("queue = \"50 packets\"").split.queue, Limit::Packets(50));
        assert_eq!(read("queue = \"25kB\"\nfair_queueing = true").split.queue, Limit::Bytes(25_000));
        assert_eq!(read("queue = \"1s\"\nrate = \"8Mbit\"").split.queue, Limit::Bytes(1_000_000));
        assert_eq!(read("memory = \"2MB\"").connection_memory, Bytes::new(2_000_000));
    }

    #[test]
    fn what_works_and_is_hardly_meant_is_told() {
        let notices = |more: &str| parse(&format!("{HEAD}long = \"sat0\"\n{more}")).expect(more).notices;
        let found = notices("fair_queueing = false\nbuffer = \"pfd\"\nqueue = \"1MB\"\n");
        let found: Vec<_> = found.iter().map(|notice| (notice.line, notice.setting.as_str())).collect();
        assert_eq!(found, [(6, "gateway.buffer"), (7, "gateway.queue")]);
        let found = notices("proxy = \"0.0.0.0:1080\"\n");
        assert!(found.len() == 1 && found[0].setting == "gateway.proxy", "{found:?}");
        assert!(found[0].problem.contains("`sat0`"), "{found:?}");
        assert!(notices("proxy = \"10.0.0.1:1080\"\nproxy_local = true\n").is_empty());
        let found = notices("proxy_local = true\n");
        assert!(found.len() == 1 && found[0].problem.contains("without `proxy`"), "{found:?}");
    }

    #[test]
    fn what_is_part_of_rules_and_sockets_needs_a_restart_and_nothing_else() {
        let base = "long = \"sat0\"\nproxy = \"10.0.0.1:1080\"\n";
        let read = |text: &str| parse(&format!("{HEAD}{text}")).expect(text);
        let with = |line: &str| {
            let key = line.split(' ').next().unwrap_or_default();
            let others: String =
                base.lines().filter(|other| !other.starts_with(key)).map(|l| format!("{l}\n")).collect();
            read(&format!("{others}{line}\n"))
        };
        let all = [
            ("long = \"sat1\"", true),
            ("inside = [\"lan0\"]", true),
            ("transparent = false", true),
            ("proxy = \"10.0.0.1:1081\"", true),
            ("proxy_local = true", false),
            ("proxy_password = \"hunter2\"", false),
            ("fair_queueing = false", true),
            ("matching = \"unlimited\"", false),
            ("discipline = \"drr\"", false),
            ("buffer = \"codel\"", false),
            ("queue = \"10 packets\"", false),
            ("rate = \"70Mbit\"", false),
            ("congestion = \"bbr\"", true),
            ("initial_window = \"4MB\"", true),
            ("memory = \"900MB\"", false),
            ("connection_memory = \"1MB\"", false),
            ("half_open = 7", false),
            ("except = [\"10.0.0.0/8\"]", false),
            ("except_ports = [22]", false),
            ("bypass_below = \"0ms\"", false),
        ];
        for (line, restart) in all {
            let (before, after) = (read(base), with(line));
            assert_ne!(before.gateway, after.gateway, "{line}");
            let needing: Vec<String> = before.needing_restart(&after).into_iter().collect();
            let expected = restart.then(|| format!("gateway.{}", line.split(' ').next().unwrap_or_default()));
            assert_eq!(needing, Vec::from_iter(expected), "{line}");
        }
        let shape = "[interface]\nname = \"gw0\"\n[shape]\na = \"eth0\"\nb = \"eth1\"\nrate = \"1Mbit\"\n";
        let needing = read(base).needing_restart(&parse(shape).expect("a shaper"));
        assert!(needing.iter().any(|name| name.contains("gateway")), "{needing:?}");
    }

    /// Each row: what follows `[gateway]`, the line and setting that the error names, and a word of advice.
    #[test]
    fn each_error_names_line_setting_and_what_would_be_right() {
        let with = |more: &str| format!("long = \"sat0\"\n{more}\n");
        let rows = [
            ("inside = [\"lan0\"]".to_owned(), 3, "gateway.long", "sat0"),
            ("long = \"lo\"".to_owned(), 4, "gateway.long", "this host alone"),
            ("long = \"a/b\"".to_owned(), 4, "gateway.long", "1 to 15"),
            (with("inside = [\"lan0\", \"sat0\"]"), 5, "gateway.inside", "on the other side"),
            (with("inside = [\"lo\"]"), 5, "gateway.inside", "this host alone"),
            (with("inside = [\"lan0\", \"lan0\"]"), 5, "gateway.inside", "leave one out"),
            (with("transparent = false"), 5, "gateway.transparent", "add `proxy`"),
            (with("proxy = \"here\""), 5, "gateway.proxy", "10.0.0.1:1080"),
            (with("proxy = \"10.0.0.1:0\""), 5, "gateway.proxy", "10.0.0.1:1080"),
            (with("proxy = \"224.0.0.1:1080\""), 5, "gateway.proxy", "of this host"),
            (with("proxy_user = \"alice\""), 5, "gateway.proxy_user", "add `proxy_password`"),
            (with("proxy_user = \"a:b\"\nproxy_password = \"x\""), 5, "gateway.proxy_user", "no `:`"),
            (with("proxy_password = \"\""), 5, "gateway.proxy_password", "1 to 255"),
            (with("proxy_password = \"x\"\nproxy_password_file = \"y\""), 6, "gateway.proxy_password", "given twice"),
            (with("proxy_password_file = \"/nonexistent\""), 5, "gateway.proxy_password_file", "cannot be read"),
            (with("matching = \"fast\""), 5, "gateway.matching", "540 packets/s"),
            (with("discipline = \"fair\""), 5, "gateway.discipline", "drr"),
            (with("buffer = \"red:gentle=maybe\""), 5, "gateway.buffer", "on or off"),
            (with("queue = \"0 packets\""), 5, "gateway.queue", "1000 packets"),
            (with("queue = \"100\""), 5, "gateway.queue", "1000 packets"),
            (with("queue = \"100ms\""), 5, "gateway.queue", "add `rate`"),
            (with("rate = \"1Mbit\"\nqueue = \"0s\""), 6, "gateway.queue", "100ms"),
            (with("rate = \"fast\""), 5, "gateway.rate", "100Mbit"),
            (with("rate = \"1kbit\""), 5, "gateway.rate", "from 8kbit to 100Gbit"),
            (with("congestion = \"\""), 5, "gateway.congestion", "cubic"),
            (with("congestion = \"BBR v3\""), 5, "gateway.congestion", "cubic"),
            (with("congestion = \"abcdefghijklmnop\""), 5, "gateway.congestion", "cubic"),
            (with("initial_window = \"1kB\""), 5, "gateway.initial_window", "from 3kB to 1GB"),
            (
                with("connection_memory = \"8MB\"\ninitial_window = \"9MB\""),
                6,
                "gateway.initial_window",
                "`connection_memory`",
            ),
            (with("initial_window = \"2MB\"\nmemory = \"1MB\""), 5, "gateway.initial_window", "`connection_memory`"),
            (with("memory = \"10kB\""), 5, "gateway.memory", "from 1MB to 1000GB"),
            (with("connection_memory = \"2GB\""), 5, "gateway.connection_memory", "from 64kB to 1GB"),
            (
                with("connection_memory = \"300MB\"\nmemory = \"100MB\""),
                5,
                "gateway.connection_memory",
                "raise `memory`",
            ),
            (with("half_open = 0"), 5, "gateway.half_open", "from 1 to 65536"),
            (with("except = [\"10.0.0.1/8\"]"), 5, "gateway.except", "10.0.0.0/8"),
            (with("except_ports = [22, 70000]"), 5, "gateway.except_ports", "from 1 to 65535"),
            (with("except_ports = [0]"), 5, "gateway.except_ports", "from 1 to 65535"),
            (with("except_ports = [22, 22]"), 5, "gateway.except_ports", "leave one out"),
            (with("bypass_below = \"1min\""), 5, "gateway.bypass_below", "from 0ms to 10s"),
            (with("mode = \"vanilla\""), 5, "", "`matching`"),
            (with("ceiling = \"1Mbit\""), 5, "", "`rate`"),
            (with("send_buffer = \"1MB\""), 5, "", "`memory`"),
            (with("[[peer]]"), 5, "peer", "the bond's interface"),
            (with("[shape]\na = \"eth0\"\nb = \"eth1\"\nrate = \"1Mbit\""), 3, "gateway", "its own file"),
            (with("[bond]\npolicy = \"balance-rr\""), 3, "gateway", "its own file"),
            (with("[ring]\nnode = 1\nnodes = 2\nrate = \"1Mbit\""), 3, "gateway", "its own file"),
        ];
        for (text, line, setting, advice) in rows {
            let error = parse(&format!("{HEAD}{text}")).expect_err(&text);
            assert_eq!((error.line, error.setting.as_str()), (line, setting), "{text}\n{error}");
            assert!(error.problem.contains(advice), "{text}\n{error}");
        }
        for (setting, name) in [
            ("address = [\"10.0.0.1/24\"]", "address"),
            ("mtu = 1500", "mtu"),
            ("listen_port = 1", "listen_port"),
            ("listen_tcp_port = 1", "listen_tcp_port"),
            ("record = \"x.record\"", "record"),
            ("padding = true", "padding"),
            ("lock = true", "lock"),
            ("private_key = \"YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXoxMjM0NTY=\"", "private_key"),
        ] {
            let text = format!("[interface]\nname = \"gw0\"\n{setting}\n[gateway]\nlong = \"sat0\"\n");
            let error = parse(&text).expect_err(setting).to_string();
            assert!(error.contains(&format!("interface.{name}: has no meaning beside [gateway]")), "{error}");
        }
        let error = parse("[interface]\nname = \"gw0\"\n[[gateway]]\nlong = \"sat0\"\n").expect_err("two").to_string();
        assert!(error.contains("write `[gateway]`"), "{error}");
    }
}
