//! Sockets that fill up, links that fail, interfaces that vanish and come back.

use super::Peers;
use super::eager::Eager;
use super::peer::{ChannelState, PeerState};
use crate::channel::ethernet::Mac;
use crate::channel::udp::Sent;
use crate::roles::host::Change;
use crate::sockets::{Room, sealed_frame, transport};
use fairspan_core::bond::Link;
use fairspan_core::units::{ChannelId, Time};
use std::net::{IpAddr, SocketAddr};

impl Peers {
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

    /// Sends what waits for a socket that can be written again where there is `room`.
    pub(super) fn flush_socket(&mut self, now: Time, number: usize, room: Room) {
        for peer in 0..self.peers.len() {
            for id in self.peers[peer].blocked_on(number, room) {
                self.flush_channel(now, peer, id);
            }
        }
        let still = self
            .peers
            .iter()
            .any(|peer| peer.channels().any(|(_, channel)| channel.blocked && channel.carrier.socket() == number));
        if !still {
            self.transport.sockets.want_write(number, false);
        }
    }

    pub(super) fn flush_channel(&mut self, now: Time, peer: usize, id: ChannelId) {
        let Some(channel) = self.peers[peer].channel_mut(id) else { return };
        let number = channel.carrier.socket();
        let (socket, dropped) = (&mut self.transport.sockets[number], &mut self.transport.counts.send_down);
        let station = match channel.carrier.remote() {
            Some(remote) => sealed_frame::mac_of(remote).unwrap_or(Mac::BROADCAST),
            None => socket.station((peer, id)),
        };
        let to = (channel.carrier.remote(), station);
        match channel.outbox.flush(&mut self.transport.pool, socket, to, dropped) {
            Sent::Done => self.peers[peer].set_blocked(now, id, false),
            Sent::Blocked => {
                self.peers[peer].set_blocked(now, id, true);
                self.transport.sockets.want_write(number, true);
            }
            Sent::Congested => {
                self.peers[peer].set_blocked(now, id, true);
                self.transport.retry_soon(now);
            }
            Sent::TooBig { size } => {
                self.peers[peer].set_blocked(now, id, false);
                let largest = (size + self.transport.sockets[number].outer_headers()).saturating_sub(1);
                let mtu = self.transport.sockets[number].device_mtu().map_or(largest, |mtu| mtu.min(largest));
                self.peers[peer].report_path_mtu(now, id, mtu);
            }
            Sent::Down => {
                self.peers[peer].set_blocked(now, id, false);
                let had_address = self.peers[peer].channel(id).is_some_and(|channel| channel.local.is_some());
                self.peers[peer].fail(now, id);
                if had_address {
                    // It may be that alone which is gone, and there is another one.
                    self.revive(now, peer, id);
                }
            }
        }
    }

    /// A socket failed: its interface may be gone.
    pub(super) fn socket_down(&mut self, now: Time, number: usize) {
        self.look_at_socket(now, number);
        if !self.transport.sockets.is_usable(number) {
            self.set_links_down(now, number);
        }
    }

    fn set_links_down(&mut self, now: Time, number: usize) {
        for owner in 0..self.transport.sockets[number].owners.len() {
            let (peer, id) = self.transport.sockets[number].owners[owner];
            if self.peers[peer].channel(id).is_none_or(|channel| channel.is_on(number)) {
                self.peers[peer].fail(now, id);
            }
        }
    }

    /// The connection of a socket that listens has ended, and with it what it carried.
    pub(super) fn connection_closed(&mut self, now: Time, number: usize, remote: SocketAddr) {
        for peer in 0..self.peers.len() {
            let ended =
                |channel: &ChannelState| channel.carrier.socket() == number && channel.carrier.remote() == Some(remote);
            let ended = self.peers[peer].channels().find(|(_, channel)| ended(channel)).map(|(id, _)| id);
            if let Some(id) = ended {
                self.peers[peer].fail(now, id);
                // What waited for it has nowhere to go.
                self.flush_channel(now, peer, id);
            }
        }
    }

    /// Closes connections at which nobody is any more.
    pub(super) fn expire_connections(&mut self, now: Time) {
        for (number, remote) in self.transport.sockets.expire() {
            transport::end_stream(self, now, number, remote);
        }
    }

    /// A peer in the clear whose channel failed may come back with another address.
    pub(super) fn forget_address(&mut self, peer: usize, id: ChannelId) {
        if let Some(channel) = self.peers[peer].channel(id) {
            self.transport.sockets[channel.carrier.socket()].forget_station((peer, id));
        }
    }

    /// Follows what happens to an interface of the host.
    pub(super) fn follow_interface(&mut self, now: Time, change: &Change) {
        let (name, running, mtu) = match change {
            Change::Device { name, running, mtu } => (name, running, mtu),
            Change::Address { gone } => return self.follow_address(now, *gone),
            Change::Unknown => return self.look_at_all(now),
        };
        for number in 0..self.transport.sockets.len() {
            if !self.transport.sockets[number].is_on(name) {
                continue;
            }
            self.look_at_socket(now, number);
            if let Some(mtu) = *mtu {
                self.set_device_mtu(now, number, mtu);
            }
            if *running {
                self.revive_all(now, number);
            } else {
                self.set_links_down(now, number);
            }
        }
    }

    /// This host has another address, as when a lease of DHCP is renewed: channels go on from the one that there is now, and their peers
    /// hear of it at once.
    fn follow_address(&mut self, now: Time, gone: Option<IpAddr>) {
        for channel in self.peers.iter_mut().flat_map(PeerState::channels_mut) {
            if gone.is_some() && channel.local == gone {
                (channel.local, channel.moved) = (None, true);
            }
        }
        // What leads out by it follows, such as the route to its gateway.
        self.eager = Some(Eager::from(now));
        self.try_eagerly(now);
    }

    /// Sends something on each channel whose address is gone, so that the peer learns the new one, as far as there is one.
    fn call_from_elsewhere(&mut self, now: Time) {
        let Some(sessions) = &mut self.transport.sessions else { return };
        let moved = || self.peers.iter().flat_map(PeerState::channels).filter(|(_, channel)| channel.moved);
        if moved().next().is_none() {
            return;
        }
        for path in moved().filter_map(|(_, channel)| channel.carrier.path()) {
            sessions.refresh(now, path);
        }
        if self.transport.send_messages(None) {
            self.peers.iter_mut().flat_map(PeerState::channels_mut).for_each(|channel| channel.moved = false);
        }
    }

    /// Tries what failed again, some times within a short while.
    pub(super) fn try_eagerly(&mut self, now: Time) {
        if let Some(eager) = self.eager.filter(|eager| eager.due <= now) {
            self.eager = eager.next(now);
            self.retry_links(now);
            self.call_from_elsewhere(now);
        }
    }

    /// News of interfaces were lost: looks at each.
    fn look_at_all(&mut self, now: Time) {
        for number in 0..self.transport.sockets.len() {
            self.look_at_socket(now, number);
            if !self.transport.sockets.is_usable(number) {
                self.set_links_down(now, number);
            } else {
                self.revive_all(now, number);
            }
        }
    }

    fn set_device_mtu(&mut self, now: Time, number: usize, mtu: usize) {
        for owner in 0..self.transport.sockets[number].owners.len() {
            let (peer, id) = self.transport.sockets[number].owners[owner];
            self.peers[peer].set_device_mtu(now, id, mtu);
        }
    }

    /// Tries every link that failed again. What merely has no session is left to the sessions' own retries.
    pub(super) fn retry_links(&mut self, now: Time) {
        for number in 0..self.transport.sockets.len() {
            if self.transport.sockets[number].absent {
                self.look_at_socket(now, number);
            }
        }
        for peer in 0..self.peers.len() {
            let mut failed = self.peers[peer].failed();
            while failed != 0 {
                self.revive(now, peer, ChannelId(failed.trailing_zeros() as u8));
                failed &= failed - 1;
            }
        }
    }

    fn revive_all(&mut self, now: Time, number: usize) {
        for owner in 0..self.transport.sockets[number].owners.len() {
            let (peer, id) = self.transport.sockets[number].owners[owner];
            if self.peers[peer].channel(id).is_none_or(|channel| channel.is_on(number)) {
                self.revive(now, peer, id);
            }
        }
    }

    /// Puts a channel whose link is back to use again. A plain one at once; a sealed one if its session still stands and
    /// a message to the peer leaves, else once the sessions say so.
    pub(super) fn revive(&mut self, now: Time, peer: usize, id: ChannelId) {
        let Some(channel) = self.peers[peer].channel(id) else { return };
        let carrier = channel.carrier;
        if channel.connected
            || !self.transport.sockets.is_usable(carrier.socket())
            || !self.transport.sockets.reaches(carrier)
        {
            return;
        }
        let lost = channel.lost;
        let mut stands = true;
        if let (Some(path), Some(sessions)) = (channel.carrier.path(), &mut self.transport.sessions) {
            sessions.refresh(now, path);
            stands = sessions.can_seal(path) && !lost;
            if !self.transport.send_messages(None) {
                // There is no way to the peer: to call it up now would lose packets.
                return;
            }
        }
        if let Some(channel) = self.peers[peer].channel_mut(id) {
            channel.failed = false;
        }
        if stands {
            self.peers[peer].set_link(now, id, Link::Up);
        }
    }

    pub(super) fn look_at_socket(&mut self, now: Time, number: usize) {
        let new = self.transport.sockets.look(number);
        if new || self.transport.sockets[number].absent {
            // Nobody tells any more that there is room: what waited for it leaves now, or not at all.
            self.flush_socket(now, number, Room::Socket);
        }
        if new {
            if let Some(mtu) = self.transport.sockets[number].device_mtu() {
                self.set_device_mtu(now, number, mtu);
            }
            self.revive_all(now, number);
        }
    }
}
