//! What the settings of an interface, its peers and their channels must be to each other and to the host: each of these is
//! good alone, and could not work, or is hardly meant.

use super::domains::RawDomains;
use super::host::is_host;
use super::peer::{Channel, ChannelKind, ChannelPlace, Peer};
use super::secret::Text;
use super::{ConfigError, Interface, Reader, Routed, Table};
use crate::secure::PublicKey;
use fairspan_core::bond::{CHANNEL_OPTIONS, ChannelConfig, Config as BondConfig, ConfigError as BondError};
use fairspan_core::units::Rate;
use ipnet::IpNet;
use std::ops::Range;
use toml::Spanned;

/// Longest name in bytes: what the peer takes.
const NAME_MAX: usize = 64;
/// The kernel's own tables: `default`, `main`, `local`.
const OWN_TABLES: std::ops::RangeInclusive<u32> = 253..=255;
const MAIN_TABLE: u32 = 254;

/// Heads that are written with too few or too many brackets, and what is right.
const HEADS: [(&str, &str); 11] = [
    ("[peer]", "[[peer]]"),
    ("[peer.channel]", "[[peer.channel]]"),
    ("[domains]", "[[domains]]"),
    ("[bond.link]", "[[bond.link]]"),
    ("[ring.station]", "[[ring.station]]"),
    ("[ring.reservation]", "[[ring.reservation]]"),
    ("[[interface]]", "[interface]"),
    ("[[bond]]", "[bond]"),
    ("[[ring]]", "[ring]"),
    ("[[gateway]]", "[gateway]"),
    ("[[peer.split]]", "[peer.split]"),
];

impl Reader<'_> {
    /// The first head with too few or too many brackets, where the file makes no sense for that.
    pub(super) fn wrong_brackets(&self) -> Option<ConfigError> {
        let mut start = 0;
        for line in self.text.split_inclusive('\n') {
            let head = line.split('#').next().unwrap_or_default().trim();
            if let Some((_, right)) = HEADS.iter().find(|(wrong, _)| *wrong == head) {
                let why = if right.starts_with("[[") { "there may be several" } else { "there is one" };
                return Some(self.error(start..start, "", format!("`{head}`: write `{right}`, as {why}")));
            }
            start += line.len();
        }
        None
    }

    /// The interface's addresses.
    pub(super) fn addresses(&self, texts: &[Spanned<String>]) -> Result<Vec<IpNet>, ConfigError> {
        const SETTING: &str = "interface.address";
        let mut nets: Vec<IpNet> = Vec::new();
        for text in texts {
            let net: IpNet = self.parsed(text, SETTING, "10.77.0.1/24")?;
            let address = net.addr();
            if !is_host(address) {
                let problem = format!("`{address}` is no host's address: write for example `10.77.0.1/24`");
                return Err(self.error(text.span(), SETTING, problem));
            }
            if address.is_loopback() {
                let problem = format!(
                    "`{address}` is the loopback's, and leads to this host alone: write another, such as `10.77.0.1/24`"
                );
                return Err(self.error(text.span(), SETTING, problem));
            }
            if nets.iter().any(|other| other.addr() == address) {
                let problem = format!("`{address}` is there twice, and an interface has it once: leave one out");
                return Err(self.error(text.span(), SETTING, problem));
            }
            nets.push(net);
        }
        Ok(nets)
    }

    /// The other end's key.
    pub(super) fn public_key(
        &self,
        interface: &Interface,
        text: Option<&Spanned<Text>>,
        setting: &str,
    ) -> Result<Option<PublicKey>, ConfigError> {
        let (Some(key), Some(text)) = (self.key::<PublicKey>(text, None, setting)?, text) else { return Ok(None) };
        let own = interface.private_key.as_ref();
        let problem = if key.is_of_small_order() {
            "is nobody's key: write what `fairspan pubkey` prints at the other end"
        } else if own.is_some_and(|own| own.public_key() == key) {
            "is this end's own key: write the other end's, which `fairspan pubkey` prints from its private key"
        } else if own.is_some_and(|own| own.is_written_as(&key)) {
            "is this end's private key, which stays on this host: write the other end's public key, and make new keys if \
             this file was shown to anybody"
        } else {
            return Ok(Some(key));
        };
        Err(self.error(text.span(), setting, problem))
    }

    /// A rate, or an overhead, within what a bond takes of its links.
    pub(super) fn link_fits(
        &self,
        span: Option<Range<usize>>,
        setting: &str,
        rate: Option<Rate>,
        overhead: u16,
    ) -> Result<(), ConfigError> {
        let mut link = ChannelConfig::default();
        (link.rate, link.framing) = (rate, overhead.into());
        let wrong = CHANNEL_OPTIONS.out_of_range(&link);
        match wrong.and_then(|wrong| CHANNEL_OPTIONS.iter().find(|entry| entry.spec.name == wrong.option)).zip(span) {
            Some((entry, span)) => {
                Err(self.error(span, setting, format!("is out of bounds: {}", entry.spec.expected())))
            }
            None => Ok(()),
        }
    }

    /// Fragments need the rate of each channel that this end names, and time for something on it.
    pub(super) fn fragments(
        &self,
        place: Option<Range<usize>>,
        bond: &BondConfig,
        channels: &[Channel],
    ) -> Result<(), ConfigError> {
        const SETTING: &str = "peer.fragment_delay";
        let Some(place) = place.filter(|_| bond.fragment_delay.is_some()) else { return Ok(()) };
        if let Some(channel) = channels.iter().find(|channel| channel.rate.is_none()) {
            let problem = format!("needs the rate of each channel, and `{}` has none: give it a `rate`", channel.name);
            return Err(self.error(place, SETTING, problem));
        }
        let mut whole = bond.clone();
        whole.channels = channels
            .iter()
            .map(|channel| {
                let mut config = ChannelConfig::default();
                (config.rate, config.framing) = (channel.rate, channel.overhead.into());
                config
            })
            .collect();
        match whole.validate() {
            Err(error @ BondError::Unsupported { .. }) => Err(self.error(place, SETTING, error)),
            _ => Ok(()),
        }
    }

    /// The channels of a peer among each other and beside the interface.
    pub(super) fn channels_fit(
        &self,
        interface: &Interface,
        channels: &[Channel],
        places: &[ChannelPlace],
    ) -> Result<(), ConfigError> {
        for (n, (channel, place)) in channels.iter().zip(places).enumerate() {
            let at = |field: &Option<Range<usize>>| field.clone().unwrap_or(place.whole.clone());
            if !(1..=NAME_MAX).contains(&channel.name.len()) || channel.name.chars().any(char::is_control) {
                let problem = format!("must have 1 to {NAME_MAX} bytes, and no control characters");
                return Err(self.error(at(&place.name), "peer.channel.name", problem));
            }
            if channels[..n].iter().any(|other| other.name == channel.name) {
                let problem = format!("`{}` names two channels of this peer: give each its own", channel.name);
                return Err(self.error(at(&place.name), "peer.channel.name", problem));
            }
            self.leads_outside(interface, "peer.channel", channel, |name| place.of(name))?;
            if matches!(channel.kind, ChannelKind::Ethernet { .. }) {
                continue;
            }
            if channel.host.is_some() && interface.lock {
                let problem = "is a name, and with `lock` names are asked for through the tunnel alone, which is not there before: \
                               write an address, or put the name into /etc/hosts";
                self.notice(place.of("endpoint"), "peer.channel.endpoint", problem);
            }
            let alike = |other: &&Channel| {
                other.device == channel.device && other.kind == channel.kind && other.host == channel.host
            };
            if let Some(other) = channels[..n].iter().find(alike) {
                let problem = format!(
                    "`{}` and `{}` leave by the same device to the same place, and fail together: give each a `device`, \
                     `source` or `endpoint` of its own",
                    other.name, channel.name
                );
                self.notice(place.whole.clone(), "peer.channel", problem);
            }
        }
        Ok(())
    }

    /// Ethernet channels on one device with one EtherType must be told apart: the last peer's from all others.
    pub(super) fn stations(&self, span: Range<usize>, peers: &[Peer]) -> Result<(), ConfigError> {
        let all: Vec<(&Channel, Option<[u8; 6]>, u16, bool)> = peers
            .iter()
            .flat_map(|peer| &peer.channels)
            .filter_map(|channel| match channel.kind {
                ChannelKind::Ethernet { peer_mac, ethertype, secure } => Some((channel, peer_mac, ethertype, secure)),
                ChannelKind::Udp { .. } | ChannelKind::Tcp { .. } => None,
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

    /// What is routed to a peer, beside where its channels lead and what draws it there.
    pub(super) fn routes_fit(
        &self,
        interface: &Interface,
        span: Range<usize>,
        peer: &Peer,
        places: &[ChannelPlace],
    ) -> Result<(), ConfigError> {
        let routed =
            Routed { setting: "peer.allowed_ips", whose: format!("peer `{}`", peer.name), nets: &peer.allowed_ips };
        if peer.allowed_ips.is_empty() {
            let problem = "is empty: nothing is routed to this peer, and nothing from it is let in; write its addresses and \
                           what lies behind it";
            self.notice(span.clone(), routed.setting, problem);
        }
        let is_own = |net: &&IpNet| {
            let is_one = net.prefix_len() == net.max_prefix_len();
            is_one && interface.addresses.iter().any(|own| own.addr() == net.addr())
        };
        if let Some(own) = peer.allowed_ips.iter().find(is_own) {
            let problem = format!(
                "{} is an `address` of this end, so that nothing goes to the peer and nothing of the peer's own is let in: write the other end's",
                own.addr()
            );
            self.notice(span.clone(), routed.setting, problem);
        }
        for (channel, place) in peer.channels.iter().zip(places) {
            self.leads_not_inside(interface, &routed, ("peer.channel", channel), |name| place.of(name));
        }
        self.default_route_fits(interface, span, &routed)
    }

    /// Tells of a channel whose own datagrams may be led into the tunnel.
    pub(super) fn leads_not_inside(
        &self,
        interface: &Interface,
        routed: &Routed<'_>,
        (place, channel): (&str, &Channel),
        at: impl Fn(&str) -> Range<usize>,
    ) {
        if channel.device.is_some() || interface.table == Table::Off {
            return;
        }
        let routes = routed.setting.rsplit('.').next().unwrap_or_default();
        let endpoint = channel.kind.ends().map(|(endpoint, _)| endpoint);
        for (name, endpoint) in [("endpoint", endpoint), ("tcp_endpoint", channel.tcp_endpoint)] {
            let Some(ip) = endpoint.map(|endpoint| endpoint.ip()) else { continue };
            // A default route spares what carries the mark.
            let inside = |net: &&IpNet| net.prefix_len() > 0 && net.contains(&ip);
            if let Some(net) = routed.nets.iter().find(inside) {
                let problem = format!(
                    "{ip} lies in {net}, which is routed into the tunnel, so the tunnel may be led into itself: name the \
                     `device` by which the channel leaves, or take the address out of `{routes}`"
                );
                self.notice(at(name), &format!("{place}.{name}"), problem);
            }
        }
    }

    /// Names are those of a bond with peers, and of an interface.
    pub(super) fn domains_have_peers(
        &self,
        sections: &[Spanned<RawDomains>],
        interface: &Interface,
        has_peers: bool,
    ) -> Result<(), ConfigError> {
        let Some(first) = sections.first() else { return Ok(()) };
        let problem = if !has_peers {
            "is for [[peer]]s, through or past which addresses are reached: leave it out".to_owned()
        } else if interface.port.is_some() {
            "has no meaning for a port, which routes nothing: leave it out".to_owned()
        } else if interface.table != Table::Auto {
            "needs `table = \"auto\"` in [interface], as addresses become routes in a table of the daemon's own: leave `table` out"
                .to_owned()
        } else if interface.fwmark == 0 || OWN_TABLES.contains(&interface.fwmark) {
            format!(
                "needs another `fwmark` than {}, which marks nothing or is the kernel's own table: leave `fwmark` out",
                interface.fwmark
            )
        } else {
            return Ok(());
        };
        Err(self.error(first.span(), "domains", problem))
    }

    /// A default route must spare the daemon's own datagrams.
    pub(super) fn default_route_fits(
        &self,
        interface: &Interface,
        span: Range<usize>,
        routed: &Routed<'_>,
    ) -> Result<(), ConfigError> {
        let Some(default) = routed.nets.iter().find(|net| net.prefix_len() == 0) else { return Ok(()) };
        let (mark, whose) = (interface.fwmark, &routed.whose);
        let (setting, problem) = match interface.table {
            Table::Auto if mark == 0 => (
                "interface.fwmark",
                format!(
                    "0 marks nothing, and {default} of {whose} would draw the daemon's own datagrams into the tunnel: \
                     leave it out, or write another number"
                ),
            ),
            Table::Auto if OWN_TABLES.contains(&mark) => (
                "interface.fwmark",
                format!(
                    "is also the table that {default} of {whose} goes to, and {mark} is the kernel's own: write another number"
                ),
            ),
            Table::Number(MAIN_TABLE) => (
                "interface.table",
                format!(
                    "{MAIN_TABLE} is the main table, where {default} of {whose} would draw the daemon's own datagrams \
                     into the tunnel: write \"auto\", which spares them"
                ),
            ),
            Table::Number(table) => {
                let problem = format!(
                    "{default} goes to table {table}, at which nothing looks but rules of your own: add them, so that they \
                     spare mark {mark}, or write `table = \"auto\"`"
                );
                self.notice(span, routed.setting, problem);
                return Ok(());
            }
            Table::Auto | Table::Off => return Ok(()),
        };
        Err(self.error(span, setting, problem))
    }
}
