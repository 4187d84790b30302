//! What the kernel gives the channels: routing rules, room for packets, offloads, connections that it remembers.

use crate::channel::udp::UdpConfig;
use crate::config::{Channel, ChannelKind, Config};
use crate::finding::{Findings, setting};
use crate::netlink::Netlink;
use crate::roles::doctor::{changeable_features, features};
use rustix::net::sockopt;
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// From this share of its connections on, in percent, the kernel's table of connections is all but full.
const FULL: i64 = 95;

/// Whether the routing rules of this host, asked as a channel's packets are, lead by its device, where `table` has a route by it.
pub(super) fn rules(findings: &mut Findings, netlink: &mut Netlink, channel: &Channel, fwmark: u32, table: u32) {
    let (name, Some(device)) = (&channel.name, &channel.device) else { return };
    let Some((endpoint, source)) = channel.kind.ends().filter(|(endpoint, _)| !endpoint.ip().is_unspecified()) else {
        return;
    };
    let to = endpoint.ip();
    // An address that this host does not have right now is told of already, and is no matter of the rules.
    let source = source.filter(|source| is_own(netlink, *source));
    let remedy = rule(to.is_ipv6(), fwmark, device, table);
    match netlink.way_by(device, to, source, fwmark) {
        Ok(None) => findings.good("rules", format!("channel {name}: the routing rules lead to {to} by {device}")),
        Ok(Some(other)) => {
            findings.wrong(
                "rules",
                format!("channel {name}: a routing rule leads what is for {to} by {other}, not by {device}"),
                remedy,
            );
        }
        Err(error) => match error.errno() {
            Some(libc::EACCES) => findings.wrong(
                "rules",
                format!("channel {name}: a routing rule or route prohibits {to} by {device}"),
                remedy,
            ),
            Some(libc::EINVAL) => findings.wrong(
                "rules",
                format!("channel {name}: a routing rule or route drops what is for {to} by {device} (blackhole)"),
                remedy,
            ),
            Some(libc::ENETUNREACH | libc::EHOSTUNREACH) => findings.wrong(
                "rules",
                format!(
                    "channel {name}: by the routing rules, {to} cannot be reached by {device}, though there is a route"
                ),
                remedy,
            ),
            _ => findings.doubtful("rules", format!("channel {name}: {error}"), "`ip rule list` shows the rules"),
        },
    }
}

/// Whether a device of this host has an address.
fn is_own(netlink: &mut Netlink, address: IpAddr) -> bool {
    let devices = netlink.interfaces().unwrap_or_default();
    let mut all = devices.iter().flat_map(|device| netlink.addresses(&device.name).unwrap_or_default());
    all.any(|own| own.addr() == address)
}

/// What has the channel's packets, and no others, look into a table.
fn rule(is_v6: bool, fwmark: u32, device: &str, table: u32) -> String {
    let ip = if is_v6 { "ip -6" } else { "ip" };
    let marked = if fwmark == 0 { String::new() } else { format!("fwmark {fwmark} ") };
    format!(
        "`{ip} rule list` shows the rules; one before them helps: `{ip} rule add {marked}oif {device} lookup {table} priority 10`"
    )
}

/// Whether a socket gets the room that bursts of a fast link need: measured with one, and given back.
pub(super) fn buffers(findings: &mut Findings, config: &Config) {
    let is_udp = |channel: &Channel| matches!(channel.kind, ChannelKind::Udp { .. });
    let has_udp =
        config.interface.listen_port.is_some() || config.peers.iter().flat_map(|peer| &peer.channels).any(is_udp);
    if !has_udp {
        return;
    }
    let wanted = UdpConfig::new(([0, 0, 0, 0], 0).into());
    let Ok(socket) = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP)) else { return };
    if sockopt::set_socket_recv_buffer_size_force(&socket, wanted.receive_buffer).is_err() {
        let _ = socket.set_recv_buffer_size(wanted.receive_buffer);
    }
    if sockopt::set_socket_send_buffer_size_force(&socket, wanted.send_buffer).is_err() {
        let _ = socket.set_send_buffer_size(wanted.send_buffer);
    }
    // The kernel tells of twice what was asked for.
    let got = [socket.recv_buffer_size(), socket.send_buffer_size()].map(|got| got.unwrap_or(0) / 2);
    let all =
        [("receive", "rmem_max", wanted.receive_buffer, got[0]), ("send", "wmem_max", wanted.send_buffer, got[1])];
    let short = all.iter().filter(|(.., wanted, got)| got < wanted);
    let short: Vec<String> = short.map(|(what, _, wanted, got)| format!("{got} of {wanted} bytes to {what}")).collect();
    if short.is_empty() {
        let found = format!(
            "sockets get {} bytes to receive and {} to send, as they ask for",
            wanted.receive_buffer, wanted.send_buffer
        );
        return findings.good("buffers", found);
    }
    let remedy = format!(
        "run the daemon with CAP_NET_ADMIN, or `sysctl -w net.core.rmem_max={} net.core.wmem_max={}`",
        wanted.receive_buffer, wanted.send_buffer
    );
    findings.doubtful("buffers", format!("sockets get {}: bursts of fast links are lost", short.join(" and ")), remedy);
}

/// Whether the devices of channels take many datagrams at once.
pub(super) fn offloads(findings: &mut Findings, config: &Config) {
    let channels = config.peers.iter().flat_map(|peer| &peer.channels);
    let devices: BTreeSet<&String> = channels
        .filter(|channel| matches!(channel.kind, ChannelKind::Udp { .. }))
        .filter_map(|channel| channel.device.as_ref())
        .collect();
    for device in devices {
        // One that is not there is told of already.
        let Ok(active) = features(device) else { continue };
        let changeable = changeable_features(device).unwrap_or_default();
        checksums(findings, device, &active, &changeable);
    }
}

/// Whether a device with these features takes many datagrams at once, or could.
fn checksums(findings: &mut Findings, device: &str, active: &[String], changeable: &[String]) {
    let has = |features: &[String]| features.iter().any(|name| name.starts_with("tx-checksum-ip"));
    if has(active) {
        findings.good("offload", format!("{device} takes many datagrams at once"));
    } else if has(changeable) {
        let found = format!(
            "{device} computes no checksums (tx-checksumming is off), so each datagram leaves by itself, which costs processor time at high rates"
        );
        findings.doubtful("offload", found, format!("`ethtool -K {device} tx on`"));
    } else {
        findings
            .good("offload", format!("the driver of {device} computes no checksums: each datagram leaves by itself"));
    }
}

/// Whether the kernel has room for connections that it remembers, where it does.
pub(super) fn connections(findings: &mut Findings) {
    let of = |name: &str| setting(&format!("net/netfilter/nf_conntrack_{name}"));
    let (Some(count), Some(most)) = (of("count"), of("max")) else { return };
    table(findings, count, most);
}

fn table(findings: &mut Findings, count: i64, most: i64) {
    if most > 0 && count.saturating_mul(100) >= most.saturating_mul(FULL) {
        let found =
            format!("the kernel remembers {count} connections of at most {most}: packets of new ones are dropped");
        let remedy = format!("`sysctl -w net.netfilter.nf_conntrack_max={}`", most.saturating_mul(4));
        findings.wrong("conntrack", found, remedy);
    } else {
        findings.good("conntrack", format!("the kernel remembers {count} connections of at most {most}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Verdict;

    #[test]
    fn a_device_without_checksums_is_doubtful_only_where_they_can_be_switched_on() {
        let verdict = |active: &[String], changeable: &[String]| {
            let mut findings = Findings::default();
            checksums(&mut findings, "ppp0", active, changeable);
            findings.all()[0].verdict
        };
        let has = ["tx-checksum-ip-generic".to_owned()];
        assert_eq!(verdict(&has, &has), Verdict::Good);
        assert_eq!(verdict(&[], &has), Verdict::Doubtful);
        assert_eq!(verdict(&[], &[]), Verdict::Good, "no driver of PPPoE has any");
    }

    #[test]
    fn the_rule_that_helps_names_the_table_with_the_route_and_never_all_packets() {
        assert!(rule(false, 7, "eth1", 101).contains("`ip rule add fwmark 7 oif eth1 lookup 101 priority 10`"));
        assert!(rule(true, 0, "eth1", 254).contains("`ip -6 rule add oif eth1 lookup 254 priority 10`"));
    }

    #[test]
    fn a_table_of_connections_that_is_all_but_full_is_wrong() {
        let verdict = |count, most| {
            let mut findings = Findings::default();
            table(&mut findings, count, most);
            findings.all()[0].verdict
        };
        assert_eq!(verdict(0, 262_144), Verdict::Good);
        assert_eq!(verdict(249_000, 262_144), Verdict::Good);
        assert_eq!(verdict(249_100, 262_144), Verdict::Wrong);
        assert_eq!(verdict(5, 0), Verdict::Good, "without a bound");
    }
}
