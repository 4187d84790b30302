//! Whether this host's own packet rules drop what the channels need: the calls of peers, what leaves for the other end, and its answers.

use super::ruleset::{Dropped, Hook, Packet, Ruleset};
use crate::config::{Channel, ChannelKind, Config};
use crate::finding::Findings;
use crate::netlink::Route;
use crate::status::{State, Status};
use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::process::{Command, Stdio};

/// Ports that a caller may have.
const ANY: (u16, u16) = (1, u16::MAX);

/// Looks at the rules of the network namespace of this thread; `routes` are its routes, and `running` is what the daemon tells.
pub(super) fn examine(findings: &mut Findings, config: &Config, routes: &[Route], running: Option<&Status>) {
    let text = match Command::new("nft").args(["-j", "list", "ruleset"]).stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => output.stdout,
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return findings.doubtful("firewall", format!("`nft -j list ruleset`: {why}"), "run this as root");
        }
        Err(error) if error.kind() == ErrorKind::NotFound => return without_nft(findings),
        Err(error) => return findings.doubtful("firewall", format!("`nft`: {error}"), "run this as root"),
    };
    let Some(rules) = Ruleset::parse(&text) else {
        return findings.doubtful(
            "firewall",
            "`nft -j list ruleset` prints no list of rules",
            "look at its rules yourself",
        );
    };
    let before = findings.count();
    if has_legacy() {
        let remedy = "look with `iptables-legacy -S` whether they let the channels' packets pass";
        findings.doubtful("firewall", "this host has rules of iptables-legacy, which are not read", remedy);
    }
    // Whose calls come needs nothing.
    let listens = [(config.interface.listen_port, "udp"), (config.interface.listen_tcp_port, "tcp")];
    for (port, protocol) in listens.into_iter().filter(|_| !all_called(config, running)) {
        port.into_iter().for_each(|port| calls(findings, &rules, routes, (port, protocol)));
    }
    config.peers.iter().flat_map(|peer| &peer.channels).for_each(|channel| ways(findings, &rules, channel));
    if findings.count() == before {
        findings.good("firewall", "no packet rule of this host drops for certain what the channels need");
    }
}

/// Without the program that lists them, whether there are rules at all.
fn without_nft(findings: &mut Findings) {
    let has_rules = has_legacy() || crate::netlink::nftables::tables(None).is_ok_and(|tables| !tables.is_empty());
    if has_rules {
        let remedy =
            "install `nftables`, whose program `nft` lists them, or look whether they let the channels' packets pass";
        findings.doubtful("firewall", "this host has packet rules, and nothing that lists them", remedy);
    }
}

/// Whether the kernel has tables of the old `iptables` that may drop something.
fn has_legacy() -> bool {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    ["/proc/net/ip_tables_names", "/proc/net/ip6_tables_names"].into_iter().any(|path| may_drop(&text(path)))
}

/// Whether one of these tables may drop something.
fn may_drop(tables: &str) -> bool {
    tables.lines().any(|table| matches!(table.trim(), "filter" | "raw" | "mangle"))
}

/// Whether each peer that calls this host has a channel that is up.
fn all_called(config: &Config, running: Option<&Status>) -> bool {
    let Some(status) = running else { return false };
    let mut callers = config.peers.iter().filter(|peer| peer.channels.is_empty()).peekable();
    callers.peek().is_some()
        && callers.all(|caller| {
            let peer = status.peers.iter().find(|peer| peer.name == caller.name);
            peer.is_some_and(|peer| peer.channels.iter().any(|channel| channel.state == State::Up))
        })
}

/// Whether peers may call at a port of this host.
fn calls(findings: &mut Findings, rules: &Ruleset, routes: &[Route], (port, protocol): (u16, &str)) {
    for is_v6 in [false, true] {
        let outside: Vec<&str> = routes
            .iter()
            .filter(|route| route.destination.prefix_len() == 0 && route.destination.addr().is_ipv6() == is_v6)
            .map(|route| route.device.as_str())
            .collect();
        // A host without a default route is called from beside it, if at all.
        let devices: Vec<Option<&str>> = match (outside.is_empty(), is_v6) {
            (false, _) => outside.into_iter().map(Some).collect(),
            (true, false) => vec![None],
            (true, true) => continue,
        };
        let dropped = devices.into_iter().find_map(|device| {
            let packet = Packet {
                hook: Hook::Input,
                is_v6,
                protocol,
                device,
                other: None,
                source_port: ANY,
                destination_port: (port, port),
                state: Some("new"),
            };
            rules.drops(&packet).map(|dropped| (device, dropped))
        });
        let Some((device, Dropped { family, table, chain })) = dropped else { continue };
        let by = device.map_or_else(String::new, |device| format!(" by {device}"));
        let version = if is_v6 { "IPv6" } else { "IPv4" };
        let found = format!(
            "this host's packet rules drop calls from anybody over {version} to {} port {port}{by}: chain {chain} of table {family} {table}",
            protocol.to_uppercase()
        );
        let remedy = format!(
            "`nft insert rule {family} {table} {chain} {protocol} dport {port} accept`, and the same where that firewall is configured"
        );
        // Perhaps nobody calls over IPv6.
        match is_v6 {
            true => findings.doubtful("firewall", found, remedy),
            false => findings.wrong("firewall", found, remedy),
        }
    }
}

/// Whether what a channel sends leaves, and whether the other end's answers are let in.
fn ways(findings: &mut Findings, rules: &Ruleset, channel: &Channel) {
    let mut wanted: Vec<(&str, SocketAddr)> = channel.tcp_endpoint.iter().map(|endpoint| ("tcp", *endpoint)).collect();
    match channel.kind {
        ChannelKind::Udp { endpoint, .. } => wanted.push(("udp", endpoint)),
        ChannelKind::Tcp { endpoint, .. } => wanted.push(("tcp", endpoint)),
        ChannelKind::Ethernet { .. } => {}
    }
    let name = &channel.name;
    for (protocol, endpoint) in wanted.into_iter().filter(|(_, endpoint)| !endpoint.ip().is_unspecified()) {
        let there = (endpoint.port(), endpoint.port());
        let out = Packet {
            hook: Hook::Output,
            is_v6: endpoint.ip().is_ipv6(),
            protocol,
            device: channel.device.as_deref(),
            other: Some(IpAddr::to_canonical(&endpoint.ip())),
            source_port: own_ports(),
            destination_port: there,
            state: Some("new"),
        };
        let answer = Packet {
            hook: Hook::Input,
            source_port: there,
            destination_port: own_ports(),
            state: Some("established"),
            ..out.clone()
        };
        let upper = protocol.to_uppercase();
        if let Some(Dropped { family, table, chain }) = rules.drops(&out) {
            let found = format!(
                "channel {name}: this host's packet rules drop what goes to {endpoint} over {upper}: chain {chain} of table {family} {table}"
            );
            let version = if endpoint.is_ipv6() { "ip6" } else { "ip" };
            let remedy = format!(
                "`nft insert rule {family} {table} {chain} {version} daddr {} {protocol} dport {} accept`, and the same where that firewall is configured",
                endpoint.ip(),
                endpoint.port()
            );
            findings.wrong("firewall", found, remedy);
        }
        if let Some(Dropped { family, table, chain }) = rules.drops(&answer) {
            let found = format!(
                "channel {name}: this host's packet rules drop what {endpoint} answers over {upper}: chain {chain} of table {family} {table}"
            );
            let remedy = format!(
                "`nft insert rule {family} {table} {chain} ct state established accept`, and the same where that firewall is configured"
            );
            findings.wrong("firewall", found, remedy);
        }
    }
}

/// The ports of which the kernel gives one to a channel.
fn own_ports() -> (u16, u16) {
    let text = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut ports = text.split_whitespace().filter_map(|port| port.parse().ok());
    match (ports.next(), ports.next()) {
        (Some(first), Some(last)) => (first, last),
        _ => ANY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Verdict;

    #[test]
    fn calls_over_ipv6_that_are_dropped_are_doubtful_since_perhaps_nobody_makes_them() {
        let rules = br#"{"nftables":[{"chain":{"family":"inet","table":"t","name":"input","type":"filter","hook":"input","policy":"drop"}}]}"#;
        let rules = Ruleset::parse(rules).expect("rules");
        let route = |destination: &str| Route {
            destination: destination.parse().expect("a network"),
            device: "eth0".to_owned(),
            gateway: None,
            table: crate::netlink::TABLE_MAIN,
            metric: None,
        };
        let mut findings = Findings::default();
        calls(&mut findings, &rules, &[route("0.0.0.0/0"), route("::/0")], (51_900, "udp"));
        let all = findings.all();
        assert_eq!(all.iter().map(|found| found.verdict).collect::<Vec<_>>(), [Verdict::Wrong, Verdict::Doubtful]);
        assert!(all[0].found.contains("from anybody over IPv4"), "{}", all[0].found);
    }

    #[test]
    fn tables_of_the_old_iptables_may_drop_unless_they_translate_only() {
        assert!(may_drop("nat\nfilter\n") && may_drop("raw\n") && may_drop("mangle\n"));
        assert!(!may_drop("nat\n") && !may_drop(""));
    }
}
