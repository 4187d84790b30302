//! What the session layer tells: channels that connect, are lost, move; peers that are refused.

use super::peer::Joining;
use super::{Peers, report};
use crate::roles::hello::Hello;
use crate::secure::{Endpoint, Event, PathId, PeerId, Sessions};
use crate::sockets::transport::log_rejected;
use crate::sockets::{USUAL_MTU, sealed_frame};
use fairspan_core::bond::Link;
use fairspan_core::units::{ChannelId, Time};

/// The link-layer bytes of Ethernet.
const USUAL_FRAMING: u16 = 14;

impl Peers {
    /// Follows everything that the sessions tell.
    pub(super) fn follow_sessions(&mut self, now: Time) {
        while let Some(event) = self.transport.sessions.as_mut().and_then(Sessions::poll_event) {
            match event {
                Event::Established { path, peer, channel, endpoint, hello, cipher, restarted, instance, .. } => {
                    tracing::debug!(channel = channel.0, ?cipher, restarted, "session established");
                    self.channel_connected(now, (peer, instance), channel, path, endpoint, &hello);
                }
                Event::Rekeyed { path } => tracing::debug!(path = path.index(), "new keys"),
                Event::Lost { path, reason, .. } => {
                    if let Some((peer, channel)) = self.paths.owner(path) {
                        let peer = &mut self.peers[peer];
                        let name = peer.channel_name(channel);
                        tracing::warn!(peer = peer.name, channel = name, ?reason, "channel lost");
                        peer.set_link(now, channel, Link::Down);
                        if let Some(channel) = peer.channel_mut(channel) {
                            channel.lost = true;
                        }
                    }
                }
                Event::Roamed { path, from, to } => {
                    if let Some((number, channel)) = self.paths.owner(path) {
                        let peer = &mut self.peers[number];
                        let name = peer.channel_name(channel);
                        tracing::info!(
                            peer = peer.name,
                            channel = name,
                            to = sealed_frame::show(to.address),
                            "channel moved"
                        );
                        // What waited for the old socket is tried on the new one.
                        if peer.move_path(now, path, self.transport.sockets.carrier(path, to)) {
                            self.transport.retry_soon(now);
                        }
                        if let Some(channel) = peer.channel_mut(channel) {
                            channel.local = self.transport.source(path);
                        }
                        self.transport.sockets.on_moved(from);
                        if self.peers[number].channel(channel).is_some_and(|channel| channel.failed) {
                            // It failed where it was.
                            self.revive(now, number, channel);
                        }
                    }
                }
                Event::Rejected { address, reason } => log_rejected(address, reason),
            }
        }
    }

    fn channel_connected(
        &mut self,
        now: Time,
        (peer, instance): (PeerId, u64),
        id: ChannelId,
        path: PathId,
        endpoint: Endpoint,
        hello: &[u8],
    ) {
        let Some(number) = self.peers.iter().position(|p| p.id == Some(peer)) else { return };
        let decoded = Hello::decode(hello);
        if let Err(error) = &decoded {
            tracing::warn!(peer = self.peers[number].name, channel = id.0, %error, "the peer's hello is odd");
        }
        let is_odd = decoded.is_err();
        let hello = decoded.unwrap_or_default();
        let peer = &mut self.peers[number];
        peer.compare(now, &hello);
        peer.hear_of_channels(instance, &hello);
        let known = peer.channel(id);
        if known.is_none_or(|channel| channel.configured.is_none()) && hello.name.is_none() && !is_odd {
            // An end that has not configured a channel keeps it alive, and so does the other one: nobody has it any more.
            self.remove_channel(now, number, id);
            if let Some(sessions) = &mut self.transport.sessions {
                sessions.remove_path(path);
            }
            return;
        }
        self.paths.note(path, (number, id));
        if known.is_some_and(|c| c.configured.is_some() && c.carrier.path().is_none()) {
            // Both ends number their channels alike, and here this one is plain Ethernet.
            tracing::warn!(
                peer = peer.name,
                channel = peer.channel_name(id),
                "the peer opens this channel encrypted, and here it is plain: set `secure` alike on both ends"
            );
            return;
        }
        if known.is_some_and(|c| c.configured.is_some()) {
            if peer.move_path(now, path, self.transport.sockets.carrier(path, endpoint)) {
                self.transport.retry_soon(now);
            }
        } else {
            let joining = Joining {
                name: hello.name.unwrap_or_else(|| format!("channel{}", id.0)),
                rate: hello.rate,
                priority: hello.priority.unwrap_or(id.0),
                weight: hello.weight.unwrap_or(1).into(),
                framing: hello.overhead.unwrap_or(USUAL_FRAMING),
                mtu: hello.mtu.map_or(USUAL_MTU, usize::from),
                configured: None,
                follows_device: false,
            };
            peer.hear_of_cost(now, &joining.name, hello.metered);
            let carrier = self.transport.sockets.carrier(path, endpoint);
            if let Err(error) = peer.join(now, id, joining, carrier) {
                tracing::warn!(%error, "the peer's channel cannot join");
                return;
            }
            // It may have waited for another socket.
            self.transport.retry_soon(now);
        }
        let rate = peer.channel(id).and_then(|c| c.rate);
        report::log_joined(&peer.name, &peer.channel_name(id), &sealed_frame::show(endpoint.address), rate);
        if let Some(channel) = peer.channel_mut(id) {
            (channel.lost, channel.failed) = (false, false);
            // The first frame leaves before the peer has sent one.
            channel.local = self.transport.source(path);
        }
        peer.set_link(now, id, Link::Up);
        self.drop_unlisted(now, number);
    }
}
