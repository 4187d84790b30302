//! What differs between the configuration of a running daemon and another one.

use super::{Config, Gateway, Interface, Peer};
use crate::secure::PresharedKey;
use std::collections::BTreeSet;

/// Which peer of `old` each of `new` is: the one with its key, or where it has none, with its name.
pub(crate) fn paired(old: &[Peer], new: &[Peer]) -> Vec<Option<usize>> {
    let is_same = |one: &Peer, other: &Peer| match (one.public_key, other.public_key) {
        (None, None) => one.name == other.name,
        (one, other) => one == other,
    };
    new.iter().map(|peer| old.iter().position(|before| is_same(before, peer))).collect()
}

impl Config {
    /// The settings in which `new` differs and that a running daemon does not take over, by name.
    pub(crate) fn needing_restart(&self, new: &Config) -> BTreeSet<String> {
        let mut names: BTreeSet<String> = self.interface.needing_restart(&new.interface);
        let role = |of: &Config| [of.bond.is_some(), of.ring.is_some(), of.shape.is_some(), of.gateway.is_some()];
        if role(self) != role(new) {
            names.insert("peer, bond, ring, shape or gateway".into());
        }
        if let (Some(before), Some(after)) = (&self.shape, &new.shape) {
            let differs = [("shape.a", before.a != after.a), ("shape.b", before.b != after.b)];
            names.extend(differs.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name.to_owned()));
        }
        if let (Some(before), Some(after)) = (&self.gateway, &new.gateway) {
            names.extend(before.needing_restart(after).map(|name| format!("gateway.{name}")));
        }
        let pairs = paired(&self.peers, &new.peers);
        for (peer, before) in new.peers.iter().zip(&pairs) {
            let Some(before) = before.map(|before| &self.peers[before]) else { continue };
            if !before.has_preshared_key_of(peer) {
                names.insert("peer.preshared_key".into());
            }
            let differs = before.bond.differences(&peer.bond).filter(|(_, live)| !live);
            names.extend(differs.map(|(name, _)| format!("peer.{name}")));
            if let (Some(before), Some(after)) = (&before.split, &peer.split) {
                names.extend(before.needing_restart(after).map(|name| format!("peer.split.{name}")));
            }
        }
        let stays = pairs.len() == self.peers.len() && pairs.iter().enumerate().all(|(n, before)| *before == Some(n));
        if !stays && new.interface.port.is_some() {
            names.insert("peer.public_key".into());
        }
        if !stays && new.interface.record.is_some() {
            names.insert("peer (interface.record is of the one that there is)".into());
        }
        names
    }
}

impl Peer {
    fn has_preshared_key_of(&self, other: &Peer) -> bool {
        let bytes = |peer: &Peer| peer.preshared_key.as_ref().map(PresharedKey::to_base64);
        bytes(self) == bytes(other)
    }
}

impl Gateway {
    /// What is part of rules, sockets or listeners that are made at the start.
    fn needing_restart(&self, new: &Gateway) -> impl Iterator<Item = &'static str> + use<> {
        let settings = [
            ("long", self.long != new.long),
            ("inside", self.inside != new.inside),
            ("transparent", self.transparent != new.transparent),
            ("proxy", self.proxy != new.proxy),
            ("fair_queueing", self.fair_queueing != new.fair_queueing),
            ("congestion", self.congestion != new.congestion),
            ("initial_window", self.initial_window != new.initial_window),
        ];
        settings.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name)
    }
}

impl Interface {
    fn needing_restart(&self, new: &Interface) -> BTreeSet<String> {
        let key = |interface: &Interface| interface.private_key.as_ref().map(|key| key.public_key());
        // With a `port` the name is only what it is called, but control sockets are found by it.
        let settings = [
            ("name", self.name != new.name),
            ("kind", self.port.is_some() != new.port.is_some()),
            ("device", self.port != new.port),
            ("private_key", key(self) != key(new)),
            ("listen_port", self.listen_port != new.listen_port),
            ("listen_tcp_port", self.listen_tcp_port != new.listen_tcp_port),
            ("fwmark", self.fwmark != new.fwmark),
            ("table", self.table != new.table),
            ("lock", self.lock != new.lock),
            ("lock_except", self.lock_except != new.lock_except),
            ("dns", self.dns != new.dns),
            ("masquerade", self.masquerade != new.masquerade),
            ("control_socket", self.control_socket != new.control_socket),
            ("state_dir", self.state_dir != new.state_dir),
            ("metrics", self.metrics != new.metrics),
            ("web", self.web != new.web),
            ("web_password", self.web_password != new.web_password),
            ("web_hosts", self.web_hosts != new.web_hosts),
            ("web_control", self.web_control != new.web_control),
            ("webhook", self.webhook != new.webhook),
            ("record", self.record != new.record),
            ("offload", self.offload != new.offload),
            ("padding", self.padding != new.padding),
            ("user", self.user != new.user),
            ("confine", self.confine != new.confine),
        ];
        let differs = settings.into_iter().filter(|(_, differs)| *differs);
        differs.map(|(name, _)| format!("interface.{name}")).collect()
    }
}
