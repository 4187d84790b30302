//! `[ring]`: a node of a packet ring, its two neighbours, and what lies behind the other nodes.

mod fit;
mod settings;

pub use settings::{BondOf, Ring, RingSide, RingStation};

use super::secret::Text;
use super::{Channel, ChannelKind, ConfigError, ETHERNET_OVERHEAD, Interface, RawKind, Reader, default_control_socket};
use crate::quantity::{parse_bytes, parse_rate, parse_span};
use fairspan_core::buffer::PolicyConfig;
use fairspan_core::queue::DisciplineConfig;
use fairspan_core::ring::algorithm::Algorithm;
use fairspan_core::ring::control::{MOST_RESERVATIONS, Reservation};
use fairspan_core::ring::protection::Protection;
use fairspan_core::ring::topology::UNIT_WEIGHT;
use fairspan_core::ring::{Class, MOST_NODES, NodeId, Side};
use fairspan_core::units::{Bytes, Rate, Span};
use fairspan_core::wire::envelope;
use serde::Deserialize;
use std::ops::Range;
use toml::Spanned;

/// What a bond of UDP channels adds to a packet: Ethernet, IPv4 and UDP, the seal, and the envelope of mode `reliable`.
const BOND_OVERHEAD: u16 = ETHERNET_OVERHEAD + 28 + crate::secure::OVERHEAD as u16 + envelope::KEPT_LEN as u16;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRing {
    node: Spanned<i64>,
    nodes: Spanned<i64>,
    rate: Spanned<String>,
    algorithm: Option<Spanned<String>>,
    interval: Option<Spanned<String>>,
    protection: Option<Spanned<String>>,
    weight: Option<Spanned<toml::Value>>,
    keepalive: Option<Spanned<String>>,
    silence: Option<Spanned<String>>,
    hold_off: Option<Spanned<String>>,
    restore_after: Option<Spanned<String>>,
    transit_buffer: Option<Spanned<String>>,
    station_buffer: Option<Spanned<String>>,
    station_discipline: Option<Spanned<String>>,
    station_policy: Option<Spanned<String>>,
    burst: Option<Spanned<String>>,
    #[serde(default)]
    networks: Vec<Spanned<String>>,
    learn: Option<bool>,
    east: Option<Spanned<RawSide>>,
    west: Option<Spanned<RawSide>>,
    #[serde(default, rename = "station")]
    stations: Vec<Spanned<RawStation>>,
    #[serde(default, rename = "reservation")]
    reservations: Vec<Spanned<RawReservation>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSide {
    kind: Spanned<String>,
    public_key: Option<Spanned<Text>>,
    preshared_key: Option<Spanned<Text>>,
    preshared_key_file: Option<Spanned<String>>,
    device: Option<Spanned<String>>,
    endpoint: Option<Spanned<String>>,
    source: Option<Spanned<String>>,
    rate: Option<Spanned<String>>,
    capacity: Option<Spanned<String>>,
    overhead: Option<Spanned<u16>>,
    mtu: Option<Spanned<u16>>,
    peer_mac: Option<Spanned<String>>,
    ethertype: Option<Spanned<u16>>,
    secure: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStation {
    node: Spanned<i64>,
    #[serde(default)]
    networks: Vec<Spanned<String>>,
    #[serde(default)]
    allowed_ips: Vec<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawReservation {
    class: Spanned<String>,
    rate: Spanned<String>,
    to: Option<Spanned<i64>>,
}

impl Reader<'_> {
    pub(super) fn ring(&self, interface: &Interface, raw: Spanned<RawRing>) -> Result<Ring, ConfigError> {
        let span = raw.span();
        let raw = raw.into_inner();
        let nodes = usize::try_from(*raw.nodes.get_ref()).ok().filter(|nodes| (2..=MOST_NODES).contains(nodes));
        let nodes = nodes.ok_or_else(|| {
            let problem = format!("{}: a ring has 2 to {MOST_NODES} nodes", raw.nodes.get_ref());
            self.error(raw.nodes.span(), "ring.nodes", problem)
        })?;
        let node = self.ring_node(&raw.node, nodes, "ring.node")?;
        let rate = self.required_rate(&raw.rate, "ring.rate")?;
        let algorithm = match &raw.algorithm {
            Some(text) => self.parsed(text, "ring.algorithm", "dvsr")?,
            None => Algorithm::default(),
        };
        let protection = self.protection(raw.protection.as_ref())?;
        let time = |value: Option<&Spanned<String>>, name: &str, least: &str, most: &str, default: u64| {
            let setting = format!("ring.{name}");
            let (time, bound) =
                (self.quantity(value, &setting, parse_span)?, |text| parse_span(text).unwrap_or_default());
            match (time, value) {
                (Some(time), Some(v)) if !(bound(least)..=bound(most)).contains(&time) => {
                    Err(self.error(v.span(), &setting, format!("is from {least} to {most}")))
                }
                (time, _) => Ok(time.unwrap_or(Span::from_millis(default))),
            }
        };
        // Messages more often would do nothing but keep the node awake; with more seldom ones shares follow no load.
        let interval = time(raw.interval.as_ref(), "interval", "100us", "1s", 1)?;
        let keepalive = time(raw.keepalive.as_ref(), "keepalive", "1ms", "1s", 5)?;
        let silence = time(raw.silence.as_ref(), "silence", "3ms", "10s", 25)?;
        let hold_off = time(raw.hold_off.as_ref(), "hold_off", "0ms", "10s", 0)?;
        let restore_after = time(raw.restore_after.as_ref(), "restore_after", "0ms", "600s", 100)?;
        if silence < keepalive.times(3) {
            let problem = "is less than three times `keepalive`: one lost sign of life would be a failure";
            return Err(self.error(raw.silence.or(raw.keepalive).map_or(span, |v| v.span()), "ring.silence", problem));
        }
        let buffer = |value: Option<&Spanned<String>>, setting: &str, default: Bytes| {
            let bytes = self.quantity(value, setting, parse_bytes)?.unwrap_or(default);
            match value {
                // Several of the largest packets, or nothing would ever be sent; more delays everything for seconds.
                Some(v) if !(6_000..=256_000_000).contains(&bytes.as_u64()) => {
                    Err(self.error(v.span(), setting, "is from 6kB to 256MB"))
                }
                _ => Ok(bytes),
            }
        };
        let transit_buffer = buffer(raw.transit_buffer.as_ref(), "ring.transit_buffer", Bytes::new(256_000))?;
        let station_buffer = buffer(raw.station_buffer.as_ref(), "ring.station_buffer", Bytes::new(256_000))?;
        let (station_discipline, station_policy) =
            self.waiting(raw.station_discipline.as_ref(), raw.station_policy.as_ref(), &algorithm)?;
        let queue =
            [(&raw.station_policy, "ring.station_policy"), (&raw.station_discipline, "ring.station_discipline")];
        let queue = queue.into_iter().find_map(|(text, name)| Some((text.as_ref()?.span(), name)));
        let burst = match &raw.burst {
            Some(v) => {
                let bytes = self.quantity(Some(v), "ring.burst", parse_bytes)?.unwrap_or(fit::BURST);
                if bytes.as_u64() > transit_buffer.as_u64() / 2 {
                    let problem = "is more than half of `transit_buffer`: transit would be lost; lower it";
                    return Err(self.error(v.span(), "ring.burst", problem));
                }
                bytes
            }
            None => fit::usual_burst(rate, transit_buffer),
        };
        let networks = self.networks(&raw.networks, "ring.networks")?;
        let mut places = fit::Places { whole: span.clone(), queue, ..fit::Places::default() };
        let sides = self.sides(interface, rate, nodes, span, [raw.east, raw.west], &mut places)?;
        places.reservations = raw.reservations.iter().map(|raw| raw.get_ref().rate.span()).collect();
        let reservations = self.reservations(node, nodes, raw.reservations)?;
        let stations = self.stations_behind(node, nodes, raw.stations, &mut places)?;
        let ring = Ring {
            node,
            nodes,
            rate,
            algorithm,
            interval,
            protection,
            weight: raw.weight.as_ref().map_or(Ok(UNIT_WEIGHT), |w| self.ring_weight(w))?,
            reservations,
            keepalive,
            silence,
            hold_off,
            restore_after,
            transit_buffer,
            station_buffer,
            station_discipline,
            station_policy,
            burst,
            networks,
            learn: raw.learn.unwrap_or(true),
            sides,
            stations,
        };
        self.fits(interface, &ring, &places)?;
        Ok(ring)
    }

    fn protection(&self, value: Option<&Spanned<String>>) -> Result<Protection, ConfigError> {
        match value.map(|text| (text, text.get_ref().as_str())) {
            None => Ok(Protection::default()),
            Some((_, "steer")) => Ok(Protection::Steer),
            Some((_, "wrap")) => Ok(Protection::Wrap),
            Some((text, other)) => {
                let problem = format!("`{other}` is none of steer, wrap");
                Err(self.error(text.span(), "ring.protection", problem))
            }
        }
    }

    /// Which of the station's packets to another node goes next, and which are let in.
    fn waiting(
        &self,
        discipline: Option<&Spanned<String>>,
        policy: Option<&Spanned<String>>,
        algorithm: &Algorithm,
    ) -> Result<(DisciplineConfig, PolicyConfig), ConfigError> {
        const PLACES: [&str; 2] = ["ring.station_discipline", "ring.station_policy"];
        let discipline_of = match discipline {
            Some(text) => self.parsed(text, PLACES[0], "sfq")?,
            None => DisciplineConfig::default(),
        };
        let policy_of = match policy {
            Some(text) => self.parsed(text, PLACES[1], "codel:target=5ms")?,
            None => discipline_of.usual_buffer(),
        };
        let plain = [discipline_of == DisciplineConfig::Fifo, policy_of == PolicyConfig::DropTail];
        for ((text, place), plain) in [discipline, policy].into_iter().zip(PLACES).zip(plain) {
            if let Some(text) = text.filter(|_| *algorithm == Algorithm::Fifo && !plain) {
                let problem = "with `algorithm = \"fifo\"` the station has no queue of its own: leave it out, or take \
                               another algorithm, such as dvsr";
                return Err(self.error(text.span(), place, problem));
            }
        }
        Ok((discipline_of, policy_of))
    }

    /// The links to the neighbours.
    fn sides(
        &self,
        interface: &Interface,
        rate: Rate,
        nodes: usize,
        span: Range<usize>,
        [east, west]: [Option<Spanned<RawSide>>; 2],
        places: &mut fit::Places,
    ) -> Result<[Option<RingSide>; 2], ConfigError> {
        let mut sides = [None, None];
        for (side, raw) in [(Side::East, east), (Side::West, west)] {
            if let Some(raw) = raw {
                places.sides[side.index()] = raw.span();
                sides[side.index()] = Some(self.side(interface, rate, side, raw)?);
            }
        }
        if sides.iter().all(Option::is_none) {
            let problem = "there is no neighbour: add [ring.east], [ring.west] or both";
            return Err(self.error(span, "ring", problem));
        }
        if let [Some(east), Some(west)] = &sides
            && (east.public_key.is_some() && east.public_key == west.public_key) != (nodes == 2)
            && east.public_key.is_some()
            && west.public_key.is_some()
        {
            let problem = match nodes {
                2 => "in a ring of two nodes both neighbours are the same node: give both the same key",
                _ => "both neighbours have the same key, and are two nodes: each has a key of its own",
            };
            return Err(self.error(span, "ring.west.public_key", problem));
        }
        Ok(sides)
    }

    /// What lies behind other nodes.
    fn stations_behind(
        &self,
        node: NodeId,
        nodes: usize,
        raw: Vec<Spanned<RawStation>>,
        places: &mut fit::Places,
    ) -> Result<Vec<RingStation>, ConfigError> {
        let mut stations: Vec<RingStation> = Vec::new();
        for raw in raw {
            let span = raw.span();
            let raw = raw.into_inner();
            let number = self.ring_node(&raw.node, nodes, "ring.station.node")?;
            if number == node {
                let problem = "is this node: write what lies behind it in `ring.networks`";
                return Err(self.error(raw.node.span(), "ring.station.node", problem));
            }
            let networks = self.networks(&raw.networks, "ring.station.networks")?;
            for net in &networks {
                if let Some(other) = stations.iter().find(|s| s.networks.contains(net)) {
                    let problem = format!("{net} is behind node {} already: give it to one", other.node);
                    return Err(self.error(span.clone(), "ring.station.networks", problem));
                }
            }
            let allowed_ips = self.networks(&raw.allowed_ips, "ring.station.allowed_ips")?;
            places.stations.push(span);
            stations.push(RingStation { node: number, networks, allowed_ips });
        }
        Ok(stations)
    }

    fn reservations(
        &self,
        node: NodeId,
        nodes: usize,
        raw: Vec<Spanned<RawReservation>>,
    ) -> Result<Vec<Reservation>, ConfigError> {
        if let Some(first_too_many) = raw.get(MOST_RESERVATIONS) {
            let problem = format!("a node makes at most {MOST_RESERVATIONS} reservations");
            return Err(self.error(first_too_many.span(), "ring.reservation", problem));
        }
        let mut reservations = Vec::new();
        for raw in raw {
            let span = raw.span();
            let raw = raw.into_inner();
            let class = match raw.class.get_ref().as_str() {
                "A" => Class::A,
                "B" => Class::B,
                other => {
                    let problem = format!("`{other}` is none of A, B; class C reserves nothing");
                    return Err(self.error(raw.class.span(), "ring.reservation.class", problem));
                }
            };
            let rate = self.required_rate(&raw.rate, "ring.reservation.rate")?;
            let to = raw.to.as_ref().map(|to| self.ring_node(to, nodes, "ring.reservation.to")).transpose()?;
            if to == Some(node) {
                return Err(self.error(
                    span,
                    "ring.reservation.to",
                    "is this node: name another, or leave it out for all",
                ));
            }
            reservations.push(Reservation { to, class, rate });
        }
        Ok(reservations)
    }

    fn ring_node(&self, value: &Spanned<i64>, nodes: usize, setting: &str) -> Result<NodeId, ConfigError> {
        let number = u8::try_from(*value.get_ref()).ok();
        number.and_then(NodeId::new).filter(|node| node.index() < nodes).ok_or_else(|| {
            let problem = format!("{}: the nodes are numbered from 1 to {nodes}", value.get_ref());
            self.error(value.span(), setting, problem)
        })
    }

    /// A weight in thousandths.
    fn ring_weight(&self, value: &Spanned<toml::Value>) -> Result<u32, ConfigError> {
        let weight = match value.get_ref() {
            toml::Value::Integer(n) => *n as f64,
            toml::Value::Float(n) => *n,
            _ => f64::NAN,
        };
        let thousandths = (weight * f64::from(UNIT_WEIGHT)).round();
        if (1.0..=f64::from(1000 * UNIT_WEIGHT)).contains(&thousandths) {
            return Ok(thousandths as u32);
        }
        let problem = format!("`{}` is no number from 0.001 to 1000", value.get_ref());
        Err(self.error(value.span(), "ring.weight", problem))
    }

    fn required_rate(&self, value: &Spanned<String>, setting: &str) -> Result<Rate, ConfigError> {
        match self.quantity(Some(value), setting, parse_rate)? {
            Some(rate) if rate.as_bits_per_sec() >= 1_000 => Ok(rate),
            _ => Err(self.error(value.span(), setting, "must be at least 1kbit, such as `100Mbit`")),
        }
    }

    fn side(
        &self,
        interface: &Interface,
        ring: Rate,
        side: Side,
        raw: Spanned<RawSide>,
    ) -> Result<RingSide, ConfigError> {
        let span = raw.span();
        let raw = raw.into_inner();
        let place = match side {
            Side::East => "ring.east",
            Side::West => "ring.west",
        };
        let setting = |name: &str| format!("{place}.{name}");
        let device = raw.device.as_ref().map(|d| self.link_device(d, &setting("device"))).transpose()?;
        let bond = raw.capacity.as_ref().map(|text| self.bond_of(interface, text, &setting("capacity"))).transpose()?;
        let rate = match &raw.rate {
            Some(rate) => self.required_rate(rate, &setting("rate"))?,
            None => ring,
        };
        if rate.as_bits_per_sec() > ring.as_bits_per_sec().saturating_mul(11) / 10 {
            let problem = "is above the ring's rate, to which all shares refer, by more than the tenth that control messages may \
                           take: write what the fastest link carries in `ring.rate`";
            return Err(self.error(raw.rate.map_or(span, |r| r.span()), &setting("rate"), problem));
        }
        let mtu = self.mtu(raw.mtu.as_ref(), &setting("mtu"))?;
        let default = if bond.is_some() { BOND_OVERHEAD } else { ETHERNET_OVERHEAD };
        let overhead = raw.overhead.as_ref().map_or(default, |o| *o.get_ref());
        self.link_fits(raw.overhead.as_ref().map(Spanned::span), &setting("overhead"), None, overhead)?;
        let listens = raw.kind.get_ref() == "udp" && raw.endpoint.is_none();
        let channel = if listens {
            for (given, name) in
                [(raw.device.as_ref().map(Spanned::span), "device"), (raw.source.as_ref().map(Spanned::span), "source")]
            {
                if let Some(span) = given {
                    let problem = "goes with `endpoint`: without one the neighbour calls, on interface.listen_port";
                    return Err(self.error(span, &setting(name), problem));
                }
            }
            if interface.listen_port.is_none() {
                let problem = "missing, and interface.listen_port is not set: neither end could begin; set one of them";
                return Err(self.error(span, &setting("endpoint"), problem));
            }
            None
        } else {
            let kind = self.kind(
                place,
                span.clone(),
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
            let channel = Channel {
                name: place.trim_start_matches("ring.").to_owned(),
                device,
                rate: Some(rate),
                peer_rate: None,
                priority: 0,
                weight: 1,
                mtu,
                overhead,
                quota: None,
                kind,
                host: None,
                tcp_endpoint: None,
            };
            let stands = |name: &str| match name {
                "device" => raw.device.as_ref().map(Spanned::span),
                "source" => raw.source.as_ref().map(Spanned::span),
                _ => raw.endpoint.as_ref().map(Spanned::span),
            };
            self.leads_outside(interface, place, &channel, |name| stands(name).unwrap_or(span.clone()))?;
            Some(channel)
        };
        let public_key = self.public_key(interface, raw.public_key.as_ref(), &setting("public_key"))?;
        let plain = channel.as_ref().is_some_and(|c| matches!(c.kind, ChannelKind::Ethernet { secure: false, .. }));
        if plain && public_key.is_some() {
            let problem = "nothing is encrypted on this link: leave it out, or write `secure = true`";
            return Err(self.error(span, &setting("public_key"), problem));
        }
        if !plain && public_key.is_none() {
            let problem = "missing: the link is encrypted, and the neighbour is known by its key";
            return Err(self.error(span, &setting("public_key"), problem));
        }
        if !plain && interface.private_key.is_none() {
            let problem = "missing: encrypted links need a key; `fairspan keygen` makes one";
            return Err(self.error(span, "interface.private_key", problem));
        }
        let preshared_key =
            self.key(raw.preshared_key.as_ref(), raw.preshared_key_file.as_ref(), &setting("preshared_key"))?;
        Ok(RingSide { public_key, preshared_key, channel, rate, bond, overhead, mtu })
    }

    /// `bond:NAME`, `bond:NAME/PEER` or `bond:/PATH`.
    fn bond_of(&self, interface: &Interface, text: &Spanned<String>, setting: &str) -> Result<BondOf, ConfigError> {
        let bond = text.get_ref().strip_prefix("bond:").and_then(|bond| {
            if bond.starts_with('/') {
                return Some(BondOf { socket: bond.into(), peer: None });
            }
            let (name, peer) = bond.split_once('/').map_or((bond, None), |(name, peer)| (name, Some(peer.to_owned())));
            let good = !name.is_empty() && peer.as_ref().is_none_or(|peer| !peer.is_empty());
            good.then(|| BondOf { socket: default_control_socket(name), peer })
        });
        if bond.as_ref().is_some_and(|bond| bond.socket == interface.control_socket) {
            let problem = format!("`{}` is this node itself: name the bond beneath the link", text.get_ref());
            return Err(self.error(text.span(), setting, problem));
        }
        bond.ok_or_else(|| {
            let problem = format!(
                "`{}` is no bond: write `bond:NAME` with the name of its interface, `bond:NAME/PEER` where it has several \
                 peers, or `bond:/PATH` of its control socket; a fixed capacity is `rate`",
                text.get_ref()
            );
            self.error(text.span(), setting, problem)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;
    use std::path::Path;

    const OWN_KEY: &str = "MTIzNDU2Nzg5MGFiY2RlZmdoaWprbG1ub3BxcnN0dXY=";
    pub(super) const KEYS: [&str; 2] =
        ["YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXoxMjM0NTY=", "TrMvSoP4jYQlY6RIzBgbssQqY3vxI2Pi+y71lOWWXX0="];

    /// Seven lines of `[interface]` and `[ring]`; then its neighbours.
    pub(super) fn file(ring: &str, sides: &str) -> String {
        format!(
            "[interface]\nname = \"ring0\"\nprivate_key = \"{OWN_KEY}\"\n[ring]\nnode = 1\nnodes = 4\nrate = \"100Mbit\"\n{ring}\n{sides}",
        )
    }

    pub(super) fn east(more: &str) -> String {
        format!("[ring.east]\nkind = \"udp\"\npublic_key = \"{}\"\n{more}", KEYS[1])
    }

    pub(super) const CALLED: &str = "endpoint = \"192.0.2.1:51900\"";

    pub(super) fn parse(text: &str) -> Result<Config, ConfigError> {
        Config::parse(Path::new("x.toml"), text)
    }

    #[test]
    fn a_link_may_carry_control_messages_beside_what_shares_refer_to() {
        let side = |rate: &str| parse(&file("", &east(&format!("{CALLED}\nrate = \"{rate}\""))));
        let ring = side("102Mbit").unwrap().ring.expect("a ring");
        assert_eq!(ring.sides[0].as_ref().map(|side| side.rate), Some(Rate::from_mbit(102)));
        assert_eq!(side("111Mbit").unwrap_err().setting, "ring.east.rate");
    }

    #[test]
    fn what_is_left_out_has_the_defaults() {
        let ring = parse(&file("", &east(CALLED))).unwrap().ring.expect("a ring");
        assert_eq!((ring.node.number(), ring.nodes, ring.weight, ring.learn), (1, 4, UNIT_WEIGHT, true));
        assert_eq!((ring.algorithm.to_string().as_str(), ring.protection), ("dvsr", Protection::Steer));
        assert_eq!((ring.interval, ring.silence), (Span::from_millis(1), Span::from_millis(25)));
        assert_eq!(ring.burst, Bytes::new(6056));
        assert_eq!((ring.station_discipline, ring.station_policy), (DisciplineConfig::Fifo, PolicyConfig::DropTail));
        let [Some(east), None] = &ring.sides else { panic!("{:?}", ring.sides) };
        assert_eq!((east.rate, east.overhead, &east.bond), (Rate::from_mbit(100), 14, &None));
        assert_eq!((ring.neighbour(Side::East).number(), ring.neighbour(Side::West).number()), (2, 4));
    }

    #[test]
    fn the_station_s_queue_is_named_by_the_text_that_all_queues_are_named_by() {
        for (settings, discipline, policy) in [
            ("station_discipline = \"sfq\"", "sfq", "longest-queue"),
            ("station_policy = \"codel\"", "fifo", "codel:target=5ms,interval=100ms"),
            (
                "station_discipline = \"drr:quantum=3000\"\nstation_policy = \"drop-front\"",
                "drr:quantum=3000",
                "drop-front",
            ),
        ] {
            let ring = parse(&file(settings, &east(CALLED))).unwrap().ring.expect("a ring");
            assert_eq!(ring.station_discipline, discipline.parse().unwrap(), "{settings}");
            assert_eq!(ring.station_policy, policy.parse().unwrap(), "{settings}");
        }
    }

    #[test]
    fn a_fast_ring_may_burst_longer_and_a_bond_adds_what_it_adds() {
        let side = east(&format!("{CALLED}\ncapacity = \"bond:fs0/hub\""));
        let text = file("", &side).replace("100Mbit", "1Gbit");
        let ring = parse(&text).unwrap().ring.expect("a ring");
        assert_eq!(ring.burst, Bytes::new(31_250));
        let [Some(east), None] = &ring.sides else { panic!("{:?}", ring.sides) };
        let bond = BondOf { socket: "/run/fairspan/fs0.sock".into(), peer: Some("hub".into()) };
        assert_eq!((east.overhead, &east.bond), (80, &Some(bond)));
        let path = side.replace("bond:fs0/hub", "bond:/tmp/x.sock");
        let ring = parse(&file("", &path)).unwrap().ring.expect("a ring");
        let bond = ring.sides[0].as_ref().and_then(|side| side.bond.clone());
        assert_eq!(bond, Some(BondOf { socket: "/tmp/x.sock".into(), peer: None }));
    }

    #[test]
    fn in_a_ring_of_two_both_links_lead_to_one_neighbour() {
        let west =
            |key: &str| format!("{}\n[ring.west]\nkind = \"udp\"\npublic_key = \"{key}\"\n{CALLED}\n", east(CALLED));
        let two = |text: String| text.replace("nodes = 4", "nodes = 2");
        assert!(parse(&two(file("", &west(KEYS[1])))).is_ok());
        assert!(parse(&file("", &west(KEYS[0]).replacen("192.0.2.1", "192.0.2.2", 1))).is_ok());
        let error = parse(&two(file("", &west(KEYS[0])))).unwrap_err();
        assert_eq!((error.setting.as_str(), error.problem.contains("the same key")), ("ring.west.public_key", true));
        let error = parse(&file("", &west(KEYS[1]))).unwrap_err();
        assert_eq!((error.setting.as_str(), error.problem.contains("key of its own")), ("ring.west.public_key", true));
    }

    /// Each row: settings of `[ring]`, of its neighbours, the line and setting that the error names, and a word of advice.
    #[test]
    fn each_error_names_line_setting_and_what_would_be_right() {
        let good = east(CALLED);
        let lan = |more: &str| format!("[ring.east]\nkind = \"ethernet\"\ndevice = \"eth1\"\n{more}");
        let and = |more: &str| format!("{good}\n{more}");
        let station = |text: &str| and(&format!("[[ring.station]]\n{text}"));
        let reserve = |text: &str| and(&format!("[[ring.reservation]]\n{text}"));
        let rows = [
            ("algorithm = \"tdm\"", good.clone(), 8, "ring.algorithm", "known are"),
            ("interval = \"10us\"", good.clone(), 8, "ring.interval", "from 100us to 1s"),
            ("protection = \"hope\"", good.clone(), 8, "ring.protection", "steer, wrap"),
            ("weight = 0", good.clone(), 8, "ring.weight", "0.001 to 1000"),
            ("weight = \"heavy\"", good.clone(), 8, "ring.weight", "0.001 to 1000"),
            ("silence = \"10ms\"", good.clone(), 8, "ring.silence", "three times"),
            ("transit_buffer = \"1kB\"", good.clone(), 8, "ring.transit_buffer", "from 6kB"),
            ("station_discipline = \"fair\"", good.clone(), 8, "ring.station_discipline", "stochastic"),
            ("station_discipline = \"drr:quantum=0\"", good.clone(), 8, "ring.station_discipline", "quantum"),
            ("station_policy = \"blue\"", good.clone(), 8, "ring.station_policy", "longest-queue"),
            (
                "station_policy = \"codel:target=1s,interval=1ms\"",
                good.clone(),
                8,
                "ring.station_policy",
                "must be greater",
            ),
            (
                "algorithm = \"fifo\"\nstation_discipline = \"sfq\"",
                good.clone(),
                9,
                "ring.station_discipline",
                "another algorithm",
            ),
            (
                "algorithm = \"fifo\"\nstation_policy = \"codel\"",
                good.clone(),
                9,
                "ring.station_policy",
                "leave it out",
            ),
            ("burst = \"200kB\"", good.clone(), 8, "ring.burst", "half of `transit_buffer`"),
            ("networks = [\"10.0.0.1/8\"]", good.clone(), 8, "ring.networks", "10.0.0.0/8"),
            ("", String::new(), 4, "ring", "[ring.east]"),
            ("", east(""), 9, "ring.east.endpoint", "listen_port"),
            ("", east("device = \"eth1\""), 12, "ring.east.device", "goes with `endpoint`"),
            ("", east(&format!("{CALLED}\nrate = \"1Gbit\"")), 13, "ring.east.rate", "`ring.rate`"),
            ("", east(&format!("{CALLED}\noverhead = 257")), 13, "ring.east.overhead", "from 0 to 256"),
            ("", east(&format!("{CALLED}\ncapacity = \"1Gbit\"")), 13, "ring.east.capacity", "bond:NAME"),
            ("", east(&format!("{CALLED}\ncapacity = \"bond:\"")), 13, "ring.east.capacity", "bond:NAME"),
            ("", east(&format!("{CALLED}\ndevice = \"ring0\"")), 13, "ring.east.device", "own interface"),
            ("", east(&format!("{CALLED}\ndevice = \"lo\"")), 13, "ring.east.device", "this host alone"),
            ("", east(&format!("{CALLED}\ncapacity = \"bond:ring0\"")), 13, "ring.east.capacity", "this node itself"),
            ("", east(&format!("{CALLED}\npeer_mac = \"02:00:00:00:00:01\"")), 13, "ring.east.peer_mac", "ethernet"),
            ("", format!("[ring.east]\nkind = \"udp\"\n{CALLED}"), 9, "ring.east.public_key", "known by its key"),
            ("", lan(&format!("public_key = \"{}\"", KEYS[1])), 9, "ring.east.public_key", "secure = true"),
            ("", lan("secure = true"), 9, "ring.east.public_key", "missing"),
            ("", lan("ethertype = 5"), 12, "ring.east.ethertype", "0x0600"),
            ("", "[ring.east]\nkind = \"ethernet\"".into(), 9, "ring.east.device", "names its device"),
            ("", station("node = 5\nnetworks = []"), 14, "ring.station.node", "from 1 to 4"),
            ("", station("node = 1\nnetworks = []"), 14, "ring.station.node", "ring.networks"),
            ("", reserve("class = \"C\"\nrate = \"1Mbit\""), 14, "ring.reservation.class", "A, B"),
            (
                "",
                reserve("class = \"A\"\nrate = \"101Mbit\""),
                15,
                "ring.reservation.rate",
                "more than it carries (100 Mbit",
            ),
            ("", reserve("class = \"A\"\nrate = \"1Mbit\"\nto = 1"), 13, "ring.reservation.to", "this node"),
            ("", and("[[peer]]\nallowed_ips = []"), 13, "ring", "its own file"),
        ];
        for (ring, sides, line, setting, advice) in rows {
            let text = file(ring, &sides);
            let error = parse(&text).expect_err(&text);
            assert_eq!((error.line, error.setting.as_str()), (line, setting), "{text}\n{error}");
            assert!(error.problem.contains(advice), "{text}\n{error}");
        }
        for (old, new, setting) in [
            ("nodes = 4", "nodes = 1", "ring.nodes"),
            ("nodes = 4", "nodes = 256", "ring.nodes"),
            ("node = 1", "node = 5", "ring.node"),
            ("node = 1", "node = 0", "ring.node"),
            ("node = 1", "node = -1", "ring.node"),
            ("node = 1", "node = 257", "ring.node"),
            ("nodes = 4", "nodes = -4", "ring.nodes"),
            ("100Mbit", "0", "ring.rate"),
        ] {
            let error = parse(&file("", &good).replacen(old, new, 1)).expect_err(new);
            assert_eq!(error.setting, setting, "{error}");
        }
    }

    #[test]
    fn a_network_behind_two_nodes_is_refused() {
        let station = |node: u8| format!("[[ring.station]]\nnode = {node}\nnetworks = [\"10.9.0.0/16\"]\n");
        let error = parse(&file("", &format!("{}\n{}{}", east(CALLED), station(2), station(3)))).unwrap_err();
        assert_eq!(error.setting, "ring.station.networks");
        assert!(error.problem.contains("behind node 2 already"), "{error}");
    }
}
