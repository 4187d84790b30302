//! What a configured channel is: to the peer, which is told of it, to its link, and to what it was before.

use super::peer::PeerState;
use crate::config::{Channel, ChannelKind};
use crate::roles::hello::Hello;
use crate::sockets::USUAL_MTU;
use crate::sockets::socket::Socket;
use fairspan_core::units::ChannelId;

/// The channels of which the peer is told, as a set of bits.
pub(super) fn listed<'a>(channels: impl Iterator<Item = (ChannelId, &'a Channel)>) -> u64 {
    let sealed = |channel: &Channel| !matches!(channel.kind, ChannelKind::Ethernet { secure: false, .. });
    channels.filter(|(_, channel)| sealed(channel)).fold(0, |set, (id, _)| set | 1 << id.index())
}

/// What the peer is told of a channel.
pub(super) fn hello_of(peer: &PeerState, channel: &Channel, mtu: usize) -> Hello {
    Hello {
        name: Some(channel.name.clone()),
        rate: channel.peer_rate,
        priority: Some(channel.priority),
        overhead: Some(channel.overhead),
        mtu: Some(mtu.min(usize::from(u16::MAX)) as u16),
        mode: Some(peer.mode),
        scheduler: Some(peer.scheduler),
        weight: Some(channel.weight.min(u32::from(u16::MAX)) as u16),
        listed: Some(peer.listed),
        cuts: peer.bond.config().fragment_delay.is_some(),
        metered: peer.bond.config().metered.0.iter().any(|name| name.0 == channel.name),
    }
}

/// The MTU of the link that a channel goes by.
pub(super) fn link_mtu(socket: &Socket, channel: &Channel) -> usize {
    let device_mtu = if channel.follows_device() { socket.device_mtu() } else { None };
    channel.mtu.map_or(device_mtu.unwrap_or(USUAL_MTU), usize::from)
}

/// Whether a channel can become the other one without beginning anew.
pub(super) fn goes_on(before: &Channel, after: &Channel) -> bool {
    let is_udp = |channel: &Channel| matches!(channel.kind, ChannelKind::Udp { .. }) && channel.tcp_endpoint.is_none();
    (is_udp(before) && is_udp(after)) || leads_alike(before, after)
}

/// Whether two channels lead the same way.
pub(super) fn leads_alike(one: &Channel, other: &Channel) -> bool {
    one.kind == other.kind
        && one.device == other.device
        && one.tcp_endpoint == other.tcp_endpoint
        && one.host == other.host
}
