//! The two ways of a channel that has a `tcp_endpoint`, as its fallback wants them.

use super::Peers;
use super::fallback::{Fallback, Look, Step, Way};
use crate::config;
use crate::secure::{Endpoint, PathId, SocketId};
use crate::shell::DaemonError;
use fairspan_core::path::State;
use fairspan_core::units::{ChannelId, Time};
use std::net::SocketAddr;

impl Peers {
    /// Opens the other way of a channel, which rests until it is wanted.
    pub(super) fn open_fallback(
        &mut self,
        now: Time,
        (peer, id): (usize, ChannelId),
        channel: &config::Channel,
        path: PathId,
        to: SocketAddr,
    ) -> Result<(), DaemonError> {
        let Some(state) = self.peers[peer].channel(id) else { return Ok(()) };
        let Some(address) = state.carrier.remote() else { return Ok(()) };
        let udp = Endpoint { socket: SocketId(state.carrier.socket() as u32), address };
        let number = self.transport.sockets.open_resting(channel, to);
        self.transport.sockets[number].add_owner((peer, id), channel)?;
        if let Some(sessions) = &mut self.transport.sessions {
            sessions.pin(path);
        }
        let tcp = Endpoint { socket: SocketId(number as u32), address: to };
        if let Some(state) = self.peers[peer].channel_mut(id) {
            state.fallback = Some(Box::new(Fallback::new(now, path, udp, tcp)));
        }
        Ok(())
    }

    /// Looks at every channel that may go over TCP.
    pub(super) fn follow_fallbacks(&mut self, now: Time) {
        for peer in 0..self.peers.len() {
            let mut which = self.peers[peer]
                .channels()
                .filter(|(_, channel)| channel.fallback.is_some())
                .fold(0_u64, |set, (id, _)| set | 1 << id.index());
            while which != 0 {
                self.follow_fallback(now, peer, ChannelId(which.trailing_zeros() as u8));
                which &= which - 1;
            }
        }
    }

    fn follow_fallback(&mut self, now: Time, peer: usize, id: ChannelId) {
        let Some(sessions) = &mut self.transport.sessions else { return };
        let is_unused = self.peers[peer].bond.channel_path(now, id).is_none_or(|path| path.state == State::Down);
        let channel = self.peers[peer].channel_mut(id);
        let Some(fallback) = channel.and_then(|channel| channel.fallback.as_mut()) else { return };
        let (udp, tcp) = (fallback.udp.socket.0 as usize, fallback.tcp.socket.0 as usize);
        let silent = sessions.silent_since(fallback.path);
        let doubtful = is_unused || silent.is_some();
        let look = Look {
            usable: self.transport.sockets.is_usable(udp),
            doubtful,
            owes: match fallback.way() {
                Way::Udp => sessions.unanswered_since(fallback.path).filter(|_| doubtful),
                Way::Tcp => silent,
            },
            connected: !self.transport.sockets[tcp].absent,
            by_udp: sessions.heard_elsewhere(fallback.path) == Some(fallback.udp.socket),
        };
        let (step, path) = (fallback.look(now, look), fallback.path);
        match step {
            Step::Stay => {}
            Step::Connect => {
                self.transport.sockets.set_resting(tcp, false);
                self.look_at_socket(now, tcp);
            }
            Step::Rest => self.transport.sockets.set_resting(tcp, true),
            Step::Ask(way) => {
                let end = fallback.end(way);
                // Where the peer is now, if it is that way that is in use.
                let by = sessions.endpoint(path).filter(|at| at.socket == end.socket).unwrap_or(end);
                sessions.ask_by(now, path, by);
                self.transport.send_messages(None);
            }
            Step::Go(way) => {
                let to = fallback.end(way);
                self.go_over(now, peer, id, path, to);
                let name = self.peers[peer].channel_name(id);
                let over = if way == Way::Tcp { "TCP, as UDP brings no answer" } else { "UDP" };
                tracing::info!(peer = self.peers[peer].name, channel = name, over, "channel goes over");
            }
        }
    }

    /// The channel's session goes on there.
    fn go_over(&mut self, now: Time, peer: usize, id: ChannelId, path: PathId, to: Endpoint) {
        let carrier = self.transport.sockets.carrier(path, to);
        if self.peers[peer].move_path(now, path, carrier) {
            self.transport.retry_soon(now);
        }
        if let Some(sessions) = &mut self.transport.sessions {
            sessions.lead(now, path, to);
        }
        self.transport.send_messages(None);
        if self.peers[peer].channel(id).is_some_and(|channel| channel.failed) {
            // It failed where it was.
            self.revive(now, peer, id);
        }
    }
}
