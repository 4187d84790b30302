//! Channels that are removed or changed while the bond runs, and what the peer is told of that.
//!
//! One that is removed is left first: nothing new goes there, and the peer is told so at once. Sockets and keys stay until what is under
//! way has arrived. Where it is the last one that works, it is used until another one does, for a while.
//!
//! A peer that only listens learns from handshakes which channels there are. So whenever that changes, each remaining one tells it by
//! new keys. The peer then drops those that are gone, as slowly: it hears of them by the fastest way, and the slowest one still brings
//! something.

use super::Peers;
use super::peer::{Leaving, PeerState};
use super::told::{hello_of, link_mtu};
use crate::config::{Channel, ChannelKind};
use crate::roles::hello::{Hello, Listed};
use crate::secure::{Endpoint, SocketId};
use crate::shell::error::DaemonError;
use crate::sockets::Carrier;
use fairspan_core::units::{ChannelId, Span, Time};

/// Longest that a channel is used which was removed, while there is no other one.
const NO_OTHER: Span = Span::from_secs(5);
/// How long what is under way may take: longer than any path's round trip, and than the peer takes to hear of it.
const UNDER_WAY: Span = Span::from_secs(2);

impl PeerState {
    /// The peer says which channels it has. The newest list of its present process counts.
    pub(super) fn hear_of_channels(&mut self, instance: u64, hello: &Hello) {
        let Some(listed) = hello.listed else {
            if hello.name.is_some() && self.told.as_ref().is_some_and(|(process, _)| *process != instance) {
                // Another process, of a version that tells of no list.
                self.told = None;
            }
            return;
        };
        let is_newest = |(process, told): &(u64, Listed)| *process != instance || told.generation <= listed.generation;
        if self.told.as_ref().is_none_or(is_newest) {
            self.told = Some((instance, listed));
        }
    }

    /// Tells of these channels from now on.
    pub(super) fn list(&mut self, channels: u64) {
        if channels != self.listed.channels {
            self.listed = Listed { generation: self.listed.generation.wrapping_add(1), channels };
        }
    }

    /// Channels that the peer had opened and has no more leave once the peer sends nothing new there; gives those. One that it has again stays.
    fn leave_unlisted(&mut self, now: Time) -> Vec<ChannelId> {
        let listed = self.told.map_or(u64::MAX, |(_, told)| told.channels);
        let is_used = |id| self.bond.channel_stats(id).is_some_and(|stats| stats.usable);
        let theirs = self.channels().filter(|(_, channel)| channel.configured.is_none());
        let gone = theirs.map(|(id, channel)| {
            let is_left = channel.leaving.is_some() || channel.lost || !is_used(id);
            (id, listed & (1 << id.index()) == 0 && is_left)
        });
        let mut new = Vec::new();
        for (id, is_gone) in gone.collect::<Vec<_>>() {
            let Some(channel) = self.channel_mut(id) else { continue };
            match (is_gone, channel.leaving) {
                (true, None) => {
                    channel.leaving = Some(Leaving { since: now, until: Some(now + UNDER_WAY) });
                    new.push(id);
                }
                (true, Some(_)) => {}
                (false, _) => channel.leaving = None,
            }
        }
        new
    }
}

impl Peers {
    /// What a peer has opened and has no more is to be removed.
    pub(super) fn drop_unlisted(&mut self, now: Time, peer: usize) {
        for id in self.peers[peer].leave_unlisted(now) {
            let name = self.peers[peer].channel_name(id);
            tracing::info!(peer = self.peers[peer].name, channel = name, "the peer has removed the channel");
        }
    }

    /// A channel that was taken out of the configuration.
    pub(super) fn leave_channel(&mut self, now: Time, peer: usize, id: ChannelId) {
        if let Some(channel) = self.peers[peer].channel_mut(id) {
            channel.leaving = Some(Leaving { since: now, until: None });
        }
    }

    /// Goes on with channels that are to be removed, and closes what nobody needs any more.
    pub(super) fn follow_leaving(&mut self, now: Time) {
        for number in 0..self.peers.len() {
            self.drop_unlisted(now, number);
            let peer = &self.peers[number];
            let others = peer.channels().any(|(_, channel)| channel.connected && channel.leaving.is_none());
            let leaving = peer.channels().filter_map(|(id, channel)| Some((id, channel.leaving?, channel.connected)));
            for (id, leaving, connected) in leaving.collect::<Vec<_>>() {
                match leaving.until {
                    _ if !connected => self.remove_channel(now, number, id),
                    Some(until) if until <= now => self.remove_channel(now, number, id),
                    None if others || leaving.since + NO_OTHER <= now => {
                        let peer = &mut self.peers[number];
                        peer.leave(now, id);
                        if let Some(channel) = peer.channel_mut(id) {
                            channel.leaving = Some(Leaving { until: Some(now + UNDER_WAY), ..leaving });
                        }
                    }
                    _ => {}
                }
            }
        }
        let peers = &self.peers;
        let is_used =
            |number| peers.iter().any(|peer| peer.channels().any(|(_, channel)| channel.carrier.socket() == number));
        self.transport.sockets.close_idle(now, is_used);
    }

    /// Ends what is still under way of removed channels where a new one takes its number, or its place on a LAN.
    pub(super) fn make_way(&mut self, now: Time, (peer, id): (usize, ChannelId), channel: &Channel) {
        let is_ethernet = |channel: &Channel| matches!(channel.kind, ChannelKind::Ethernet { .. });
        let beside = |left: &Channel| is_ethernet(left) && is_ethernet(channel) && left.device == channel.device;
        for number in 0..self.peers.len() {
            let left = self.peers[number].channels().filter(|(other, left)| {
                let is_beside = left.configured.as_deref().is_some_and(beside);
                left.leaving.is_some() && (is_beside || (number, *other) == (peer, id))
            });
            for id in left.map(|(id, _)| id).collect::<Vec<_>>() {
                self.remove_channel(now, number, id);
            }
        }
    }

    /// A channel is no more.
    pub(super) fn remove_channel(&mut self, now: Time, peer: usize, id: ChannelId) {
        self.flush_channel(now, peer, id);
        let Some(removed) = self.peers[peer].remove(now, id) else { return };
        self.transport.sockets[removed.carrier.socket()].remove_owner((peer, id));
        for end in removed.fallback.iter().flat_map(|fallback| fallback.ends()) {
            self.transport.sockets[end.socket.0 as usize].remove_owner((peer, id));
        }
        if let Some(path) = removed.carrier.path() {
            self.paths.forget(path);
            if let Some(sessions) = &mut self.transport.sessions {
                sessions.remove_path(path);
            }
        }
    }

    /// Gives a channel that goes on the settings of `after`. Where it leads elsewhere or by another device, what the peer still sends
    /// the former way arrives.
    ///
    /// # Errors
    /// What no time heals, of a new socket; the channel is as before then.
    pub(super) fn change_channel(
        &mut self,
        now: Time,
        peer: usize,
        id: ChannelId,
        after: &Channel,
    ) -> Result<(), DaemonError> {
        let Some(channel) = self.peers[peer].channel(id) else { return Ok(()) };
        let (carrier, before) = (channel.carrier, channel.configured.clone());
        if let (Carrier::Sealed { path, .. }, ChannelKind::Udp { endpoint, source }) = (carrier, &after.kind)
            && let Some(Channel { device, kind: ChannelKind::Udp { endpoint: former, source: from }, .. }) =
                before.as_deref()
        {
            let mut socket = carrier.socket();
            if (device, from) != (&after.device, source)
                || former.is_ipv4() != endpoint.is_ipv4()
                || former.ip().is_unspecified()
            {
                socket = self.transport.sockets.open_channel(after)?;
                self.transport.sockets[carrier.socket()].remove_owner((peer, id));
                self.transport.sockets[socket].add_owner((peer, id), after)?;
                self.transport.sockets.watch_new();
            }
            if socket != carrier.socket() || former != endpoint {
                let to = Endpoint { socket: SocketId(socket as u32), address: *endpoint };
                if let Some(sessions) = &mut self.transport.sessions {
                    sessions.redirect(now, path, to);
                }
                self.peers[peer].move_path(now, path, self.transport.sockets.carrier(path, to));
                // It may have waited for the former socket, or have failed with it.
                self.transport.retry_soon(now);
                if let Some(channel) = self.peers[peer].channel_mut(id) {
                    channel.failed = !channel.connected;
                }
            }
        }
        let number = self.peers[peer].channel(id).map_or(carrier, |channel| channel.carrier).socket();
        let mtu = link_mtu(&self.transport.sockets[number], after);
        self.peers[peer].change(now, id, after, mtu);
        if !self.transport.sockets.is_usable(number) {
            self.peers[peer].fail(now, id);
        }
        Ok(())
    }

    /// Tells the peer what holds now of each channel that is configured here.
    pub(super) fn tell_channels(&mut self, now: Time, peer: usize) {
        let each = self.peers[peer].channels().filter(|(_, channel)| channel.leaving.is_none());
        let configured = each.filter_map(|(id, channel)| Some((id, channel.configured.as_deref()?.clone())));
        let channels: Vec<(ChannelId, Channel)> = configured.collect();
        for (id, channel) in &channels {
            let carrier = self.peers[peer].channel(*id).map(|channel| channel.carrier);
            let Some(Carrier::Sealed { path, socket, .. }) = carrier else { continue };
            let mtu = link_mtu(&self.transport.sockets[socket], channel);
            let hello = hello_of(&self.peers[peer], channel, mtu).encode();
            if let Some(sessions) = &mut self.transport.sessions
                && let Err(error) = sessions.say(now, path, hello)
            {
                tracing::warn!(peer = self.peers[peer].name, channel = channel.name, %error, "the peer is not told");
            }
        }
    }
}
