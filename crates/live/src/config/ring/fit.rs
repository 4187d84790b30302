//! What the settings of a ring must be to each other: each of these is good alone, and together they could not work.

use super::super::{Channel, ChannelKind, ConfigError, IPV6_MTU, Interface, Reader, Routed};
use super::settings::Ring;
use crate::pool::PacketBuf;
use crate::quantity::show_rate;
use crate::secure;
use fairspan_core::ring::node::{ConfigError as NodeError, HEAD, Node};
use fairspan_core::ring::{Side, discovery};
use fairspan_core::units::{Bytes, Rate, Span, Time};
use std::ops::Range;

/// What a link's sender may be ahead of its rate, at least, and in time.
pub(super) const BURST: Bytes = Bytes::new(4 * 1514);
const BURST_TIME: Span = Span::from_micros(250);

/// Where the parts of `[ring]` stand in the file.
#[derive(Default)]
pub(super) struct Places {
    pub(super) whole: Range<usize>,
    /// Of the station's policy, or else of its discipline, with the setting's name.
    pub(super) queue: Option<(Range<usize>, &'static str)>,
    /// By [`Side::index`].
    pub(super) sides: [Range<usize>; 2],
    /// By number.
    pub(super) stations: Vec<Range<usize>>,
    /// By number, of the rate.
    pub(super) reservations: Vec<Range<usize>>,
}

impl Reader<'_> {
    /// Refuses what could not work together.
    pub(super) fn fits(&self, interface: &Interface, ring: &Ring, places: &Places) -> Result<(), ConfigError> {
        if let [Some(east), Some(west)] = &ring.sides
            && let (Some(one), Some(other)) = (&east.channel, &west.channel)
            && let Some((key, problem)) = same_place(ring.nodes, one, other)
        {
            let span = places.sides[Side::West.index()].clone();
            return Err(self.error(span, &format!("ring.west.{key}"), problem));
        }
        self.own_networks(interface, ring, places)?;
        self.routes_of_ring_fit(interface, ring, places)?;
        self.mtus_fit(interface, ring, places)?;
        self.node_fits(ring, places)?;
        self.control_fits(ring, places, secure::overhead(interface.padding))
    }

    /// Control messages leave most of each link to packets; `seal` is what sealing adds at most.
    fn control_fits(&self, ring: &Ring, places: &Places, seal: usize) -> Result<(), ConfigError> {
        let mut config = ring.node_config();
        for (overhead, side) in config.overhead.iter_mut().zip(&ring.sides) {
            let side = side.as_ref();
            *overhead = HEAD
                + side.map_or(0, |side| usize::from(side.overhead))
                + outer(side.and_then(|side| side.channel.as_ref()), seal);
        }
        let Some(load) = config.control_overload(true) else { return Ok(()) };
        let name = if load.side == Side::East { "east" } else { "west" };
        let there = ring.sides[load.side.index()].is_some();
        let (span, setting) = match places.sides.get(load.side.index()).filter(|_| there) {
            Some(span) => (span.clone(), format!("ring.{name}")),
            None => (places.whole.clone(), "ring.rate".to_owned()),
        };
        Err(self.error(span, &setting, load.to_string()))
    }

    fn own_networks(&self, interface: &Interface, ring: &Ring, places: &Places) -> Result<(), ConfigError> {
        for (station, span) in ring.stations.iter().zip(&places.stations) {
            if !ring.learn && !station.allowed_ips.is_empty() {
                let problem =
                    "is about what is learnt, and `learn` is false: write what lies behind the node in `networks`";
                return Err(self.error(span.clone(), "ring.station.allowed_ips", problem));
            }
            for net in &station.networks {
                let is_address = interface.addresses.iter().any(|own| *net == own.addr().into());
                if is_address || ring.networks.contains(net) {
                    let problem = format!("{net} is this node's own: it cannot be behind node {} too", station.node);
                    return Err(self.error(span.clone(), "ring.station.networks", problem));
                }
            }
        }
        Ok(())
    }

    /// What is routed to other nodes, beside where the links lead.
    fn routes_of_ring_fit(&self, interface: &Interface, ring: &Ring, places: &Places) -> Result<(), ConfigError> {
        for (station, span) in ring.stations.iter().zip(&places.stations) {
            let routed = Routed {
                setting: "ring.station.networks",
                whose: format!("node {}", station.node),
                nets: &station.networks,
            };
            for (side, at) in ring.sides.iter().zip(&places.sides) {
                if let Some(channel) = side.as_ref().and_then(|side| side.channel.as_ref()) {
                    let place = format!("ring.{}", channel.name);
                    self.leads_not_inside(interface, &routed, (&place, channel), |_| at.clone());
                }
            }
            self.default_route_fits(interface, span.clone(), &routed)?;
        }
        Ok(())
    }

    /// The interface's IPv6 addresses need links that leave it an MTU for them.
    fn mtus_fit(&self, interface: &Interface, ring: &Ring, places: &Places) -> Result<(), ConfigError> {
        let Some(six) = interface.addresses.iter().find(|net| net.addr().is_ipv6()) else { return Ok(()) };
        for (side, span) in ring.sides.iter().zip(&places.sides) {
            let Some((side, mtu)) = side.as_ref().and_then(|side| Some((side, side.mtu?))) else { continue };
            let least =
                usize::from(IPV6_MTU) + HEAD + outer(side.channel.as_ref(), secure::overhead(interface.padding));
            if usize::from(mtu) < least {
                let name = if span == &places.sides[Side::East.index()] { "east" } else { "west" };
                let problem = format!(
                    "{mtu} leaves the ring's interface less than the {IPV6_MTU} bytes that {six} needs: write {least} or more, \
                     or leave IPv6 out of `interface.address`"
                );
                return Err(self.error(span.clone(), &format!("ring.{name}.mtu"), problem));
            }
        }
        Ok(())
    }

    /// Makes the node that `up` would make, and says of what it refuses where that stands.
    fn node_fits(&self, ring: &Ring, places: &Places) -> Result<(), ConfigError> {
        let refusal = |reservations: usize| {
            let mut config = ring.node_config();
            config.reservations.truncate(reservations);
            Node::<PacketBuf>::new(config, Time::ZERO, 0).err()
        };
        let Some(error) = refusal(ring.reservations.len()) else { return Ok(()) };
        let whole = || places.whole.clone();
        let (span, setting, problem) = match &error {
            NodeError::Reserved { side, reserved, capacity } => {
                let first = (1..=ring.reservations.len()).find(|n| refusal(*n).is_some());
                let span = first.and_then(|n| places.reservations.get(n - 1).cloned()).unwrap_or_else(whole);
                let side = if *side == Side::East { "east" } else { "west" };
                let (sum, most) = (show_rate(*reserved), show_rate(*capacity));
                let problem = format!(
                    "all reservations that take the link {side} together are {sum}, more than it carries ({most}): lower one, \
                     or say by `to` that it takes the other link"
                );
                (span, "ring.reservation.rate".to_owned(), problem)
            }
            NodeError::Queue(_) => {
                let (span, setting) = places.queue.clone().unwrap_or_else(|| (whole(), "ring.station_policy"));
                (span, setting.to_owned(), format!("cannot work: {error}"))
            }
            NodeError::Setting { setting, .. }
            | NodeError::Discovery(discovery::ConfigError::Setting { setting, .. }) => {
                (whole(), format!("ring.{setting}"), error.to_string())
            }
            _ => (whole(), "ring".to_owned(), error.to_string()),
        };
        Err(self.error(span, &setting, problem))
    }
}

/// What a link adds to a frame from the outer IP header on, or before it where frames are Ethernet's; `seal` is what sealing
/// adds at most. A link on which the neighbour calls is taken for one over IPv4.
fn outer(channel: Option<&Channel>, seal: usize) -> usize {
    match channel.map(|channel| &channel.kind) {
        None => 20 + 8 + seal,
        Some(ChannelKind::Udp { endpoint, .. }) if endpoint.is_ipv4() => 20 + 8 + seal,
        Some(ChannelKind::Udp { .. } | ChannelKind::Tcp { .. }) => 40 + 8 + seal,
        // The length before a frame.
        Some(ChannelKind::Ethernet { secure: true, .. }) => 2 + seal,
        Some(ChannelKind::Ethernet { secure: false, .. }) => 2,
    }
}

/// The setting that makes both links lead to the same place, and what would be right; none where frames of the two are told
/// apart.
fn same_place(nodes: usize, east: &Channel, west: &Channel) -> Option<(&'static str, String)> {
    match (&east.kind, &west.kind) {
        (ChannelKind::Udp { endpoint: one, .. }, ChannelKind::Udp { endpoint: other, .. }) => {
            let problem = || format!("{other} is the east neighbour's: two nodes have an address or port each");
            (nodes > 2 && one == other).then(|| ("endpoint", problem()))
        }
        (ChannelKind::Ethernet { ethertype: a, .. }, ChannelKind::Ethernet { ethertype: b, .. })
            if east.device == west.device && a.abs_diff(*b) == 1 =>
        {
            let problem = format!(
                "{b:#06x} beside the east link's {a:#06x}: each uses the next one too; leave one free between them"
            );
            Some(("ethertype", problem))
        }
        (
            ChannelKind::Ethernet { peer_mac: one, ethertype: a, secure: east_secure },
            ChannelKind::Ethernet { peer_mac: other, ethertype: b, secure: west_secure },
        ) if east.device == west.device && a == b => {
            let device = east.device.as_deref().unwrap_or_default();
            match (east_secure, west_secure) {
                (true, true) => None,
                (false, false) if one != other => None,
                (false, false) => Some((
                    "device",
                    format!(
                        "`{device}` has the east link already, and in the clear only the neighbour's address tells frames \
                         apart: name another device, another `ethertype`, or each neighbour's `peer_mac`"
                    ),
                )),
                _ => Some((
                    "secure",
                    format!(
                        "`{device}` has the east link already, in the other way: encrypt both, or give one another `ethertype`"
                    ),
                )),
            }
        }
        _ => None,
    }
}

/// How far sending may be ahead where nobody says: what the rate asks for, and no more than half of what transit has room
/// for.
pub(super) fn usual_burst(rate: Rate, transit_buffer: Bytes) -> Bytes {
    let wanted = BURST.as_u64().max(rate.bytes_in(BURST_TIME).as_u64());
    Bytes::new(wanted.min(transit_buffer.as_u64() / 2))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{CALLED, KEYS, east, file, parse};
    use super::*;

    /// Each row: the neighbours and what follows them, the line and setting that the error names, and a word of advice.
    #[test]
    fn settings_that_exclude_each_other_are_named_with_what_would_be_right() {
        let lan = |side: &str, more: &str| format!("[ring.{side}]\nkind = \"ethernet\"\ndevice = \"eth1\"\n{more}\n");
        let both = |more: &str| lan("east", more) + &lan("west", more);
        let station = |net: &str| format!("{}[[ring.station]]\nnode = 2\nnetworks = [\"{net}\"]\n", lan("east", ""));
        let reserve = |side: &str, rates: &[&str]| {
            let each = rates.iter().map(|rate| format!("[[ring.reservation]]\nclass = \"A\"\nrate = \"{rate}\"\n"));
            lan("east", side) + &each.collect::<String>()
        };
        let udp = |side: &str, key: &str| format!("[ring.{side}]\nkind = \"udp\"\npublic_key = \"{key}\"\n{CALLED}\n");
        let mac = "peer_mac = \"02:00:00:00:00:01\"";
        let own = parse(&file("", &east(CALLED))).unwrap().interface.private_key.unwrap().public_key().to_string();
        let rows = [
            (both(""), 13, "ring.west.device", "peer_mac"),
            (both(mac), 13, "ring.west.device", "peer_mac"),
            (
                lan("east", "ethertype = 0x9000") + &lan("west", "ethertype = 0x9001"),
                13,
                "ring.west.ethertype",
                "leave one free",
            ),
            (
                lan("east", "") + &lan("west", &format!("secure = true\npublic_key = \"{}\"", KEYS[1])),
                13,
                "ring.west.secure",
                "encrypt both",
            ),
            (udp("east", KEYS[0]) + &udp("west", KEYS[1]), 13, "ring.west.endpoint", "address or port each"),
            (udp("east", &own), 11, "ring.east.public_key", "the other end's"),
            (station("10.8.0.1/32"), 13, "ring.station.networks", "this node's own"),
            (station("10.7.0.0/16\", \"10.7.0.0/16"), 15, "ring.station.networks", "leave one out"),
            (station("10.9.0.0/16"), 13, "ring.station.networks", "this node's own"),
            (
                format!(
                    "learn = false\n{}[[ring.station]]\nnode = 2\nallowed_ips = [\"10.7.0.0/16\"]\n",
                    lan("east", "")
                ),
                14,
                "ring.station.allowed_ips",
                "`networks`",
            ),
            (reserve("rate = \"10Mbit\"", &["11Mbit"]), 15, "ring.reservation.rate", "lower one"),
            (reserve("", &["60Mbit", "50Mbit"]), 18, "ring.reservation.rate", "110 Mbit/s, more than"),
            // The west link is the slower one.
            (
                lan("east", "")
                    + &lan("west", "ethertype = 0x9000\nrate = \"10Mbit\"")
                    + "[[ring.reservation]]\nclass = \"B\"\nrate = \"20Mbit\"\n",
                20,
                "ring.reservation.rate",
                "the link west",
            ),
        ];
        for (sides, line, setting, advice) in rows {
            let text = file("networks = [\"10.9.0.0/16\"]", &sides).replacen(
                "name = \"ring0\"",
                "name = \"ring0\"\naddress = [\"10.8.0.1/24\"]",
                1,
            );
            let error = parse(&text).expect_err(&text);
            assert_eq!((error.line, error.setting.as_str()), (line + 1, setting), "{text}\n{error}");
            assert!(error.problem.contains(advice), "{text}\n{error}");
        }
    }

    #[test]
    fn a_default_route_through_the_ring_spares_the_links_own_datagrams_and_is_told_where_it_fails_open() {
        let text = |more: &str, net: &str| {
            let station = format!("\n[[ring.station]]\nnode = 2\nnetworks = [\"{net}\"]\n");
            file("", &(east(CALLED) + &station)).replacen("name", &format!("{more}\nname"), 1)
        };
        for (more, setting) in [
            ("fwmark = 0", "interface.fwmark"),
            ("fwmark = 254", "interface.fwmark"),
            ("table = 254", "interface.table"),
        ] {
            let error = parse(&text(more, "0.0.0.0/0")).expect_err(more);
            assert_eq!((error.setting.as_str(), error.line), (setting, 14), "{error}");
            assert!(error.problem.contains("of node 2"), "{error}");
            assert!(parse(&text(more, "10.7.0.0/16")).is_ok(), "{more}");
        }
        for (more, net, told) in [
            ("lock = false", "0.0.0.0/0", None),
            ("table = \"off\"", "0.0.0.0/0", None),
            ("", "0.0.0.0/0", Some(("ring.station.networks", "`lock = true`"))),
            ("table = 7", "0.0.0.0/0", Some(("ring.station.networks", "rules of your own"))),
            ("", "10.7.0.0/16", None),
            ("", "192.0.2.0/24", Some(("ring.east.endpoint", "name the `device`"))),
        ] {
            let notices = parse(&text(more, net)).expect(more).notices;
            assert_eq!(
                notices.first().map(|notice| notice.setting.as_str()),
                told.map(|(setting, _)| setting),
                "{more}"
            );
            assert!(told.is_none_or(|(_, words)| notices[0].problem.contains(words)), "{notices:?}");
        }
    }

    /// At 1 Mbit/s control messages of a millisecond would be all that passes.
    #[test]
    fn a_link_that_control_messages_would_eat_is_refused_with_the_interval_that_works() {
        let ring = |interval: &str, keepalive: &str, rate: &str| {
            let lan = format!("[ring.east]\nkind = \"ethernet\"\ndevice = \"eth1\"\nrate = \"{rate}\"\n");
            let settings = format!("interval = \"{interval}\"\nkeepalive = \"{keepalive}\"\nsilence = \"200ms\"");
            parse(&file(&settings, &lan))
        };
        assert!(ring("1ms", "5ms", "3Mbit").is_ok());
        let error = ring("1ms", "5ms", "1Mbit").expect_err("too slow");
        assert_eq!(error.setting, "ring.east");
        let told = error.problem.split("interval = \"").nth(1).and_then(|rest| rest.split('"').next()).expect("a time");
        assert!(error.problem.contains("or use links of"), "{error}");
        assert!(ring(told, "5ms", "1Mbit").is_ok(), "{error}");
        let error = ring("1ms", "5ms", "200kbit").expect_err("keepalives alone take more");
        assert!(error.problem.contains("keepalive = \""), "{error}");
    }

    #[test]
    fn reservations_that_take_different_links_may_be_more_together_than_one_carries() {
        let to = |node: u8| format!("[[ring.reservation]]\nclass = \"A\"\nrate = \"60Mbit\"\nto = {node}\n");
        let lan = |side: &str, n: u8| format!("[ring.{side}]\nkind = \"ethernet\"\ndevice = \"eth{n}\"\n");
        let both = lan("east", 1) + &lan("west", 2);
        assert!(parse(&file("", &(both.clone() + &to(2) + &to(4)))).is_ok());
        assert!(parse(&file("", &(both + &to(2) + &to(2)))).is_err());
    }

    #[test]
    fn an_ipv6_address_needs_links_and_an_interface_that_leave_it_1280_bytes() {
        let with = |address: &str, mtu: u16, side: &str| {
            let head = format!("name = \"ring0\"\naddress = [\"{address}\"]\nmtu = {mtu}");
            parse(&file("", &east(&format!("{CALLED}\n{side}"))).replacen("name = \"ring0\"", &head, 1))
        };
        let six = "fd77::1/64";
        // A ring's head, the seal, UDP and IPv4.
        let least = 1280 + HEAD + secure::OVERHEAD + 28;
        assert!(with(six, 1280, &format!("mtu = {least}")).is_ok());
        let error = with(six, 1280, &format!("mtu = {}", least - 1)).expect_err("too narrow");
        assert_eq!((error.line, error.setting.as_str()), (11, "ring.east.mtu"));
        assert!(error.problem.contains(&least.to_string()), "{error}");
        let error = with(six, 1279, "").expect_err("too narrow");
        assert_eq!((error.line, error.setting.as_str()), (4, "interface.mtu"));
        assert!(with("10.8.0.1/24", 1000, "mtu = 1100").is_ok(), "IPv4 needs less");
    }

    /// What `up` makes of a file that was read is what it was checked by, so no value that passes is refused later.
    #[test]
    fn a_ring_that_is_accepted_is_one_that_the_node_takes() {
        let values = [
            ("algorithm", ["fifo", "dvsr", "rpr-am", "rpr-cm", "dba", "max-min"].as_slice()),
            ("interval", &["99us", "100us", "1s", "2s"]),
            ("keepalive", &["1ms", "8ms", "9ms", "1s"]),
            ("silence", &["3ms", "14ms", "15ms", "10s", "11s"]),
            ("hold_off", &["0ms", "10s", "11s"]),
            ("restore_after", &["0ms", "600s", "601s"]),
            ("transit_buffer", &["5999B", "6kB", "256MB", "257MB"]),
            ("station_buffer", &["5999B", "6kB", "256MB", "257MB"]),
            ("burst", &["0B", "128kB", "129kB"]),
            ("station_discipline", &["fifo", "sfq", "drr:quantum=1", "drr:quantum=0", "stochastic:queues=0", "srr"]),
            (
                "station_policy",
                &[
                    "drop-front",
                    "longest-queue",
                    "codel:target=0ms",
                    "codel:target=5ms,interval=4ms",
                    "codel:interval=0ms",
                ],
            ),
        ];
        let (mut taken, mut refused) = (0, 0);
        for (setting, values) in values {
            for value in values {
                match parse(&file(&format!("{setting} = \"{value}\""), &east(CALLED))) {
                    Ok(config) => {
                        let node = config.ring.expect("a ring").node_config();
                        assert!(Node::<PacketBuf>::new(node, Time::ZERO, 1).is_ok(), "{setting} = {value}");
                        taken += 1;
                    }
                    Err(error) => {
                        let named = error.setting.as_str();
                        assert!(named == format!("ring.{setting}") || named == "ring.silence", "{value}: {error}");
                        assert_eq!(error.line, 8, "{error}");
                        refused += 1;
                    }
                }
            }
        }
        println!("{taken} taken, {refused} refused");
        assert!(taken > 20 && refused > 10, "{taken} taken, {refused} refused");
    }

    #[test]
    fn links_that_can_be_told_apart_may_share_a_device() {
        let lan = |side: &str, more: &str| format!("[ring.{side}]\nkind = \"ethernet\"\ndevice = \"eth1\"\n{more}\n");
        let mac = |n: u8| format!("peer_mac = \"02:00:00:00:00:0{n}\"");
        assert!(parse(&file("", &(lan("east", &mac(1)) + &lan("west", &mac(2))))).is_ok());
        assert!(parse(&file("", &(lan("east", "") + &lan("west", "ethertype = 0x9000")))).is_ok());
        let sealed = |key: &str| format!("secure = true\npublic_key = \"{key}\"");
        assert!(parse(&file("", &(lan("east", &sealed(KEYS[0])) + &lan("west", &sealed(KEYS[1]))))).is_ok());
    }

    #[test]
    fn a_default_burst_never_fills_the_transit_buffer() {
        let burst = |mbit, buffer| usual_burst(Rate::from_mbit(mbit), Bytes::new(buffer)).as_u64();
        assert_eq!((burst(100, 256_000), burst(1_000, 256_000)), (6_056, 31_250));
        assert_eq!((burst(100_000, 256_000), burst(100, 6_000)), (128_000, 3_000));
    }
}
