//! What a daemon has to be able to do, by its configuration: system calls follow from it, and whether it can take another configuration over.

#![cfg_attr(
    not(target_pointer_width = "64"),
    expect(dead_code, reason = "calls of processors of 32 bits are not filtered")
)]

use super::files::tcp_ports;
use crate::config::{Channel, ChannelKind, Config, Wanted};
use std::net::SocketAddr;

/// What a configuration has a daemon do, beside what every one does.
#[derive(Clone, Debug)]
pub(crate) struct Needs {
    /// Bonds of Ethernet links are none of peers.
    pub(super) is_bond: bool,
    /// Settings of the kernel are read and timestamps kept by all but those, shapers and gateways.
    pub(super) files: bool,
    /// Handshakes are computed and timestamps kept beside the packets, a bond's capacity is asked for, a page is served, and alarms are brought to a webhook.
    pub(super) threads: bool,
    pub(super) udp: bool,
    pub(super) tcp: bool,
    /// TCP ports, and whether they are bound rather than connected to.
    pub(super) tcp_ports: Vec<(u16, bool)>,
    pub(super) frames: bool,
    /// TCP connections are split.
    pub(super) splits: bool,
    /// What it is confined by.
    pub(super) confined: Wanted,
    /// Where metrics and a page are served.
    pub(super) served: [Option<SocketAddr>; 2],
    /// Where alarms go.
    pub(super) webhook: Option<SocketAddr>,
}

impl Needs {
    /// The setting for which a daemon that was confined for this cannot take over `other`.
    pub(crate) fn lacks(&self, other: &Needs) -> Option<&'static str> {
        let within = |one: bool, other: bool| one || !other;
        // Calls, ports that Landlock closed, and the capability to call in the name of who has a port below 1024.
        let is_confined = self.confined.seccomp || self.confined.landlock || self.confined.capabilities;
        if is_confined && !within(self.splits, other.splits) {
            return Some(
                "peer.split (the first, for which the daemon gave up calls, ports or capabilities when it began: interface.confine)",
            );
        }
        // TCP is called by who splits, and then by no channel.
        let has_tcp = within(self.tcp, other.tcp) || (!is_confined && other.splits && other.tcp_ports.is_empty());
        if !(within(self.udp, other.udp) && has_tcp && within(self.frames, other.frames)) {
            return Some(
                "peer.channel.kind (the first of its kind, whose sockets the daemon cannot open: interface.confine)",
            );
        }
        // Who splits may call any.
        let has = |port: &(u16, bool)| self.splits || self.tcp_ports.contains(port);
        let lacking = !other.tcp_ports.iter().all(has);
        lacking.then_some("peer.channel.endpoint (a TCP port that the daemon cannot connect to: interface.confine)")
    }

    pub(crate) fn of(config: &Config) -> Needs {
        let interface = &config.interface;
        let sides = || config.ring.iter().flat_map(|ring| ring.sides.iter().flatten());
        let of_sides = sides().filter_map(|side| side.channel.as_ref());
        let channels: Vec<&Channel> = config.peers.iter().flat_map(|peer| &peer.channels).chain(of_sides).collect();
        let is_udp = |channel: &&Channel| matches!(channel.kind, ChannelKind::Udp { .. });
        let is_tcp = |channel: &&Channel| matches!(channel.kind, ChannelKind::Tcp { .. });
        Needs {
            is_bond: config.bond.is_some(),
            files: config.bond.is_none() && config.shape.is_none() && config.gateway.is_none(),
            threads: interface.private_key.is_some()
                || interface.web.is_some()
                || interface.webhook.is_some()
                || sides().any(|side| side.bond.is_some()),
            udp: interface.listen_port.is_some() || channels.iter().any(is_udp),
            tcp: config.has_tcp() || config.splits(),
            tcp_ports: tcp_ports(config),
            frames: config.bond.is_some()
                || config.shape.is_some()
                || interface.port.is_some()
                || !channels.iter().all(|channel| is_udp(channel) || is_tcp(channel)),
            splits: config.splits(),
            confined: interface.confine,
            served: [interface.metrics, interface.web],
            webhook: interface.webhook.as_ref().map(|hook| hook.address),
        }
    }
}
