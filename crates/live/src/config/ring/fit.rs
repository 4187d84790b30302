//! What the settings of a ring must be to each other: each of these is good alone, and together they could not work.

use super::super::{Channel, ChannelKind, ConfigError, Interface, Reader};
use super::settings::{Ring, RingSide};
use crate::quantity::show_rate;
use fairspan_core::ring::Side;
use fairspan_core::units::{Bytes, Rate, Span};
use std::ops::Range;

/// What a link's sender may be ahead of its rate, at least, and in time.
pub(super) const BURST: Bytes = Bytes::new(4 * 1514);
const BURST_TIME: Span = Span::from_micros(250);

/// Where the parts of `[ring]` stand in the file.
#[derive(Default)]
pub(super) struct Places {
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
        self.reserved(ring, places)
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

    fn reserved(&self, ring: &Ring, places: &Places) -> Result<(), ConfigError> {
        let most = ring.sides.iter().flatten().map(|side: &RingSide| side.rate).max().unwrap_or(ring.rate);
        let mut sum = 0u64;
        for (reservation, span) in ring.reservations.iter().zip(&places.reservations) {
            sum = sum.saturating_add(reservation.rate.as_bits_per_sec());
            if sum > most.as_bits_per_sec() {
                let (sum, most) = (show_rate(Rate::from_bits_per_sec(sum)), show_rate(most));
                let problem = format!(
                    "all reservations together are {sum}, more than this node's faster link has ({most}): lower one"
                );
                return Err(self.error(span.clone(), "ring.reservation.rate", problem));
            }
        }
        Ok(())
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
                lan("east", "") + &lan("west", &format!("secure = true\npublic_key = \"{}\"", KEYS[1])),
                13,
                "ring.west.secure",
                "encrypt both",
            ),
            (udp("east", KEYS[0]) + &udp("west", KEYS[1]), 13, "ring.west.endpoint", "address or port each"),
            (udp("east", &own), 11, "ring.east.public_key", "the other end's"),
            (station("10.8.0.1/32"), 13, "ring.station.networks", "this node's own"),
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
