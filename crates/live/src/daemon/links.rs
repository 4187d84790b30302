//! Sockets that fill up, links that fail, interfaces that vanish and come back.

use super::{Daemon, TOKEN_PORTS};
use crate::channel::udp::Sent;
use crate::netlink::LinkChange;
use fairspan_core::bond::Link;
use fairspan_core::units::{ChannelId, Time};
use rustix::event::epoll::{self, EventData, EventFlags};
use std::os::fd::AsFd;

/// UDP and IP headers, which a refused payload lacks.
const UDP_HEADER: usize = 8;

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
        let sent = match port.absent {
            false => channel.outbox.flush(&mut self.pool, &mut port.socket),
            true => {
                channel.outbox.clear(&mut self.pool);
                Sent::Down
            }
        };
        match sent {
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
                let ip_header = if self.ports[number].socket.local_addr().is_ipv4() { 20 } else { 40 };
                let largest = size + UDP_HEADER + ip_header - 1;
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

    /// The interface of a socket is gone.
    pub(super) fn port_down(&mut self, now: Time, number: usize) {
        self.look_at_port(now, number);
        let Some((peer, id)) = self.ports[number].owner else { return };
        if self.ports[number].absent {
            self.peers[peer].set_link(now, id, Link::Down);
        }
    }

    /// Follows what happens to the host's interfaces.
    pub(super) fn follow_interfaces(&mut self, now: Time) {
        loop {
            match self.monitor.poll() {
                Ok(Some(LinkChange::Changed(interface))) => {
                    for number in 0..self.ports.len() {
                        if !self.ports[number].is_on(&interface.name) {
                            continue;
                        }
                        self.look_at_port(now, number);
                        let Some((peer, id)) = self.ports[number].owner else { continue };
                        if !(interface.up && interface.running) {
                            self.peers[peer].set_link(now, id, Link::Down);
                        } else {
                            self.revive(now, peer, id);
                        }
                    }
                }
                Ok(Some(LinkChange::Removed { name, .. })) => {
                    for number in 0..self.ports.len() {
                        if self.ports[number].is_on(&name) {
                            tracing::warn!(interface = name, "interface is gone");
                            self.port_down(now, number);
                        }
                    }
                }
                Ok(Some(LinkChange::Missed)) => self.retry_links(now),
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(%error, "changes of interfaces are not followed");
                    return;
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

    /// Puts a channel whose link is back to use again, if its session still stands; its handshake otherwise goes on by
    /// itself.
    fn revive(&mut self, now: Time, peer: usize, id: ChannelId) {
        let (Some(sessions), Some(channel)) = (&mut self.sessions, self.peers[peer].channel(id)) else { return };
        let port = &self.ports[channel.carrier.port()];
        let path = channel.carrier.path();
        let Some(path) = path else { return };
        if channel.connected || port.absent || !port.is_running() {
            return;
        }
        sessions.refresh(now, path);
        if sessions.can_seal(path) {
            self.peers[peer].set_link(now, id, Link::Up);
        }
    }

    fn look_at_port(&mut self, now: Time, number: usize) {
        let was_absent = self.ports[number].absent;
        match self.ports[number].look() {
            Ok(true) => {
                tracing::info!(port = number, "interface is back");
                self.watch_port(number);
                if let Some((peer, id)) = self.ports[number].owner {
                    self.revive(now, peer, id);
                }
            }
            Ok(false) => {
                // A vanished interface makes its socket readable for ever: it is not waited for until it is back.
                if self.ports[number].absent && !was_absent {
                    let _ = epoll::delete(&self.epoll, self.ports[number].as_fd());
                }
            }
            Err(error) => tracing::warn!(port = number, %error, "cannot open the socket anew"),
        }
    }
}
