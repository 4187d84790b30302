//! Sockets that fill up, links that fail, interfaces that vanish and come back.

use super::port::Kind;
use super::{Daemon, TOKEN_PORTS};
use crate::channel::udp::Sent;
use crate::netlink::LinkChange;
use fairspan_core::bond::Link;
use fairspan_core::units::{ChannelId, Time};
use rustix::event::epoll::{self, EventData, EventFlags};
use std::os::fd::AsFd;

/// The headers that a refused payload lacks.
const UDP_HEADER: usize = 8;
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;

impl Daemon {
    /// Begins to wait for the port's socket, which is new.
    pub(super) fn watch_port(&mut self, number: usize) {
        let port = &mut self.ports[number];
        port.wants_write = false;
        let data = EventData::new_u64(TOKEN_PORTS + number as u64);
        if let Err(error) = epoll::add(&self.epoll, port.as_fd(), data, EventFlags::IN) {
            tracing::error!(port = number, %error, "cannot wait for a socket");
        }
    }

    /// Sends what waits on the channels of a peer, as far as their sockets take it.
    pub(super) fn flush_peer(&mut self, now: Time, peer: usize) {
        let waiting: u64 = self.peers[peer]
            .channels()
            .filter(|(_, channel)| !channel.outbox.is_empty() && !channel.blocked)
            .fold(0, |set, (id, _)| set | 1 << id.index());
        let mut rest = waiting;
        while rest != 0 {
            self.flush_channel(now, peer, ChannelId(rest.trailing_zeros() as u8));
            rest &= rest - 1;
        }
    }

    /// Sends what waits for a socket that can be written again.
    pub(super) fn flush_port(&mut self, now: Time, number: usize) {
        for peer in 0..self.peers.len() {
            let blocked: Vec<ChannelId> = self.peers[peer]
                .channels()
                .filter(|(_, channel)| channel.blocked && channel.carrier.port() == number)
                .map(|(id, _)| id)
                .collect();
            for id in blocked {
                self.flush_channel(now, peer, id);
            }
        }
        let still = self
            .peers
            .iter()
            .any(|peer| peer.channels().any(|(_, channel)| channel.blocked && channel.carrier.port() == number));
        if !still {
            self.want_write(number, false);
        }
    }

    fn flush_channel(&mut self, now: Time, peer: usize, id: ChannelId) {
        let Some(channel) = self.peers[peer].channel_mut(id) else { return };
        let number = channel.carrier.port();
        let port = &mut self.ports[number];
        let station = port.station((peer, id));
        match channel.outbox.flush(&mut self.pool, port, station) {
            Sent::Done => self.peers[peer].set_blocked(now, id, false),
            Sent::Blocked => {
                self.peers[peer].set_blocked(now, id, true);
                self.want_write(number, true);
            }
            Sent::Congested => {
                self.peers[peer].set_blocked(now, id, true);
                self.congested = true;
            }
            Sent::TooBig { size } => {
                self.peers[peer].set_blocked(now, id, false);
                let largest = match &self.ports[number].kind {
                    Kind::Udp(socket) if socket.local_addr().is_ipv4() => size + UDP_HEADER + IPV4_HEADER - 1,
                    Kind::Udp(_) => size + UDP_HEADER + IPV6_HEADER - 1,
                    Kind::Ethernet { .. } => size - 1,
                };
                let mtu = self.ports[number].device_mtu().map_or(largest, |mtu| mtu.min(largest));
                self.peers[peer].report_path_mtu(now, id, mtu);
            }
            Sent::Down => {
                self.counters.send_down += 1;
                self.peers[peer].set_blocked(now, id, false);
                self.peers[peer].set_link(now, id, Link::Down);
            }
        }
    }

    fn want_write(&mut self, number: usize, wants: bool) {
        let port = &mut self.ports[number];
        if port.wants_write == wants {
            return;
        }
        port.wants_write = wants;
        let flags = if wants { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
        let data = EventData::new_u64(TOKEN_PORTS + number as u64);
        if let Err(error) = epoll::modify(&self.epoll, port.as_fd(), data, flags) {
            tracing::error!(port = number, %error, "cannot wait for a socket");
        }
    }

    /// A socket failed: its interface may be gone.
    pub(super) fn port_down(&mut self, now: Time, number: usize) {
        self.look_at_port(now, number);
        if self.ports[number].absent || !self.ports[number].is_running() {
            self.set_links_down(now, number);
        }
    }

    fn set_links_down(&mut self, now: Time, number: usize) {
        for (peer, id) in self.ports[number].owners.clone() {
            if self.peers[peer].channel(id).is_some_and(|channel| channel.connected) {
                self.peers[peer].set_link(now, id, Link::Down);
            }
        }
    }

    /// Follows what happens to the host's interfaces.
    pub(super) fn follow_interfaces(&mut self, now: Time) {
        loop {
            let (name, running) = match self.monitor.poll() {
                Ok(Some(LinkChange::Changed(interface))) => (interface.name, interface.up && interface.running),
                Ok(Some(LinkChange::Removed { name, .. })) => (name, false),
                Ok(Some(LinkChange::Missed)) => {
                    self.retry_links(now);
                    continue;
                }
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(%error, "changes of interfaces are not followed");
                    return;
                }
            };
            for number in 0..self.ports.len() {
                if !self.ports[number].is_on(&name) {
                    continue;
                }
                self.look_at_port(now, number);
                if running {
                    self.revive_all(now, number);
                } else {
                    self.set_links_down(now, number);
                }
            }
        }
    }

    /// Tries every link that failed again.
    pub(super) fn retry_links(&mut self, now: Time) {
        for number in 0..self.ports.len() {
            if self.ports[number].absent {
                self.look_at_port(now, number);
            }
        }
        for peer in 0..self.peers.len() {
            let down: Vec<ChannelId> =
                self.peers[peer].channels().filter(|(_, channel)| !channel.connected).map(|(id, _)| id).collect();
            for id in down {
                self.revive(now, peer, id);
            }
        }
    }

    fn revive_all(&mut self, now: Time, number: usize) {
        for (peer, id) in self.ports[number].owners.clone() {
            self.revive(now, peer, id);
        }
    }

    /// Puts a channel whose link is back to use again: at once on Ethernet; if its session still stands on UDP, where
    /// its handshake otherwise goes on by itself.
    fn revive(&mut self, now: Time, peer: usize, id: ChannelId) {
        let Some(channel) = self.peers[peer].channel(id) else { return };
        let port = &self.ports[channel.carrier.port()];
        if channel.connected || port.absent || !port.is_running() {
            return;
        }
        let usable = match (channel.carrier.path(), &mut self.sessions) {
            (Some(path), Some(sessions)) => {
                sessions.refresh(now, path);
                sessions.can_seal(path)
            }
            (path, _) => path.is_none(),
        };
        if usable {
            self.peers[peer].set_link(now, id, Link::Up);
        }
    }

    fn look_at_port(&mut self, now: Time, number: usize) {
        let was_absent = self.ports[number].absent;
        match self.ports[number].look() {
            Ok(true) => {
                tracing::info!(port = number, "interface is back");
                self.watch_port(number);
                self.revive_all(now, number);
            }
            Ok(false) => {
                // A vanished interface makes its socket readable for ever: it is not waited for until it is back.
                if self.ports[number].absent && !was_absent {
                    tracing::warn!(port = number, "interface is gone");
                    let _ = epoll::delete(&self.epoll, self.ports[number].as_fd());
                }
            }
            Err(error) => tracing::warn!(port = number, %error, "cannot open the socket anew"),
        }
    }
}
