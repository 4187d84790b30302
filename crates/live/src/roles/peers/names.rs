//! Endpoints that are names: their addresses are asked for at the start, while a channel is down, and when the configuration is read again.
//!
//! The helper asks the system's resolver, so nothing here waits. A name without an address is no error: its channel begins when it has
//! one. Where there are several, a channel that is down tries them in turn. A channel that is up keeps its address, whatever the name
//! says since, but for a reload.

use super::Peers;
use super::peer::{ChannelState, PeerState};
use crate::config::{Channel, ChannelKind};
use fairspan_core::units::{ChannelId, Time};
use std::net::{IpAddr, SocketAddr};

/// Gives a channel of another configuration the address that its name has here now.
pub(super) fn resolve_as(peer: &PeerState, channel: &mut Channel) {
    let Some(host) = channel.host.clone() else { return };
    let ChannelKind::Udp { endpoint, .. } = &mut channel.kind else { return };
    let same = |known: &&Channel| {
        let port = matches!(known.kind, ChannelKind::Udp { endpoint: other, .. } if other.port() == endpoint.port());
        known.host.as_ref() == Some(&host) && port
    };
    let known = || peer.channels().filter_map(|(_, channel)| channel.configured.as_deref()).filter(same);
    let named = known().find(|known| known.name == channel.name).or_else(|| known().next());
    if let Some(ChannelKind::Udp { endpoint: known, .. }) = named.map(|known| &known.kind) {
        *endpoint = *known;
        return;
    }
    // A name in place of an address: the channel stays where it is until the name's address is known.
    let before =
        peer.channels().filter_map(|(_, known)| known.configured.as_deref()).find(|known| known.name == channel.name);
    if let Some(ChannelKind::Udp { endpoint: known, .. }) = before.map(|known| &known.kind) {
        endpoint.set_ip(known.ip());
    }
}

/// The name of a channel's endpoint, if it is one.
fn host_of(channel: &ChannelState) -> Option<&str> {
    channel.configured.as_deref().filter(|_| channel.leaving.is_none())?.host.as_deref()
}

impl Peers {
    /// Asks for the names of channels that are down, at growing intervals.
    pub(super) fn follow_names(&mut self, now: Time) {
        for channel in self.peers.iter().flat_map(PeerState::channels).map(|(_, channel)| channel) {
            let Some(host) = host_of(channel) else { continue };
            self.lookups.of(now, host).follow(now, channel.connected);
        }
        let used = |name: &String| {
            let mut channels = self.peers.iter().flat_map(PeerState::channels);
            channels.any(|(_, channel)| host_of(channel) == Some(name))
        };
        self.lookups.retain(used);
    }

    /// The helper says which addresses a name has.
    pub(super) fn name_found(&mut self, now: Time, host: &str, found: Result<Vec<IpAddr>, String>) {
        let Some(lookup) = self.lookups.get_mut(host) else { return };
        let anew = std::mem::take(&mut lookup.anew);
        let found = match found {
            Ok(found) if !found.is_empty() => found,
            nothing => {
                let problem = nothing.err().unwrap_or_else(|| "it has none".into());
                if lookup.problem.is_none() {
                    tracing::warn!(host, problem, "the name has no address; asked for again from time to time");
                }
                lookup.problem = Some(problem);
                return;
            }
        };
        lookup.problem = None;
        for peer in 0..self.peers.len() {
            let channels = self.peers[peer].channels().filter(|(_, channel)| host_of(channel) == Some(host));
            let next = channels.filter_map(|(id, channel)| next_address(channel, &found, anew).map(|to| (id, to)));
            for (id, to) in next.collect::<Vec<_>>() {
                self.lead_to(now, peer, id, to);
            }
        }
    }

    fn lead_to(&mut self, now: Time, peer: usize, id: ChannelId, to: IpAddr) {
        let configured = self.peers[peer].channel(id).and_then(|channel| channel.configured.as_deref().cloned());
        let Some(mut channel) = configured else { return };
        let ChannelKind::Udp { endpoint, .. } = &mut channel.kind else { return };
        *endpoint = SocketAddr::new(to, endpoint.port());
        tracing::info!(peer = self.peers[peer].name, channel = channel.name, %endpoint, "the address of its name");
        if let Err(error) = self.change_channel(now, peer, id, &channel) {
            tracing::warn!(peer = self.peers[peer].name, channel = channel.name, %error, "it cannot lead there");
        }
    }
}

/// Where a channel is to lead that leads elsewhere, given the addresses of its name. One that is up stays, unless its address is
/// no longer one of them and the name was asked for `anew`.
fn next_address(channel: &ChannelState, found: &[IpAddr], anew: bool) -> Option<IpAddr> {
    let ChannelKind::Udp { endpoint, source } = &channel.configured.as_deref()?.kind else { return None };
    let fits = |address: &&IpAddr| source.is_none_or(|source| source.is_ipv4() == address.is_ipv4());
    let found: Vec<IpAddr> = found.iter().filter(fits).copied().collect();
    let at = found.iter().position(|address| *address == endpoint.ip());
    let next = match at {
        Some(_) if channel.connected || anew => return None,
        None if channel.connected && !anew => return None,
        Some(at) => found[(at + 1) % found.len()],
        None => *found.first()?,
    };
    (next != endpoint.ip()).then_some(next)
}
