//! Links that connect, fill up, fail and come back.

use super::RingNode;
use super::neighbour::{Neighbour, name};
use crate::channel::ethernet::Mac;
use crate::channel::udp::Sent;
use crate::config::{ChannelKind, Ring, RingSide};
use crate::quantity::show_rate;
use crate::roles::hello::Hello;
use crate::roles::host::Change;
use crate::secure::{Endpoint, Event, PathId, PeerConfig, PeerId, Sessions, SocketId};
use crate::shell::error::DaemonError;
use crate::sockets::transport::{PathOwners, log_rejected};
use crate::sockets::{Carrier, sealed_frame};
use fairspan_core::ring::Side;
use fairspan_core::units::{ChannelId, Time};

/// Makes the neighbour known to the sessions, and calls it where the configuration says where it is.
pub(super) fn call(
    now: Time,
    neighbour: &mut Neighbour,
    config: &RingSide,
    ring: &Ring,
    socket: Option<usize>,
    sessions: &mut Sessions,
    paths: &mut PathOwners<Side>,
) -> Result<(), DaemonError> {
    let Some(key) = config.public_key else { return Ok(()) };
    let place = format!("ring.{}", neighbour.name());
    let hello = Hello {
        name: Some(format!("node {} of {}, {}", ring.node, ring.nodes, neighbour.name())),
        mtu: Some(u16::try_from(neighbour.mtu).unwrap_or(u16::MAX)),
        ..Hello::default()
    };
    let mut peer = PeerConfig::new(key);
    peer.preshared_key.clone_from(&config.preshared_key);
    peer.hello = hello.encode();
    let id = match sessions.peer(key) {
        Some(id) => id,
        None => sessions.add_peer(peer).map_err(|e| DaemonError::setting(&place, e))?,
    };
    neighbour.peer = Some(id);
    let (Some(channel), Some(socket)) = (&config.channel, socket) else { return Ok(()) };
    let remote = match &channel.kind {
        ChannelKind::Udp { endpoint, .. } | ChannelKind::Tcp { endpoint, .. } => *endpoint,
        ChannelKind::Ethernet { peer_mac, .. } => sealed_frame::address_of(peer_mac.map_or(Mac::BROADCAST, Mac)),
    };
    let path = sessions
        .connect(now, id, neighbour.channel, SocketId(socket as u32), remote, hello.encode())
        .map_err(|e| DaemonError::setting(&place, e))?;
    paths.note(path, neighbour.side);
    neighbour.carrier = Some(Carrier::Sealed { path, socket, remote, stream: false });
    Ok(())
}

impl RingNode {
    /// Follows everything that the sessions tell.
    pub(super) fn follow_sessions(&mut self, now: Time) {
        while let Some(event) = self.transport.sessions.as_mut().and_then(Sessions::poll_event) {
            match event {
                Event::Established { path, peer, channel, endpoint, cipher, restarted, .. } => {
                    tracing::debug!(channel = channel.0, ?cipher, restarted, "session established");
                    self.connected(now, peer, channel, path, endpoint);
                }
                Event::Rekeyed { path } => tracing::debug!(path = path.index(), "new keys"),
                Event::Lost { path, reason, .. } => {
                    if let Some(side) = self.paths.owner(path)
                        && let Some(neighbour) = &mut self.neighbours[side.index()]
                    {
                        tracing::warn!(link = neighbour.name(), ?reason, "neighbour lost");
                        (neighbour.connected, neighbour.lost) = (false, true);
                        self.tell_link(now, side);
                    }
                }
                Event::Roamed { path, to, .. } => {
                    if let Some(side) = self.paths.owner(path) {
                        tracing::info!(link = name(side), to = sealed_frame::show(to.address), "neighbour moved");
                        self.carry(now, side, path, to);
                    }
                }
                Event::Rejected { address, reason } => log_rejected(address, reason),
            }
        }
    }

    fn connected(&mut self, now: Time, peer: PeerId, channel: ChannelId, path: PathId, endpoint: Endpoint) {
        let mut found = self.neighbours.iter().flatten().filter(|n| n.peer == Some(peer));
        let Some(side) = found.find(|n| n.channel == channel).map(|n| n.side) else {
            self.counters.wrong_link += 1;
            tracing::warn!(
                channel = channel.0,
                from = sealed_frame::show(endpoint.address),
                "a neighbour opens a link that is not between it and this node: compare `node`, `nodes`, east and west at both"
            );
            return;
        };
        self.paths.note(path, side);
        self.carry(now, side, path, endpoint);
        let Some(neighbour) = &mut self.neighbours[side.index()] else { return };
        tracing::info!(
            link = neighbour.name(),
            node = neighbour.node.number(),
            remote = sealed_frame::show(endpoint.address),
            rate = show_rate(neighbour.capacity),
            "neighbour connected"
        );
        (neighbour.connected, neighbour.failed, neighbour.lost) = (true, false, false);
        self.tell_link(now, side);
    }

    /// The neighbour is reached in this way from now on.
    fn carry(&mut self, now: Time, side: Side, path: PathId, to: Endpoint) {
        let Some(neighbour) = &mut self.neighbours[side.index()] else { return };
        let (before, overhead) = (neighbour.carrier.map(|carrier| carrier.socket()), neighbour.overhead());
        neighbour.carrier = Some(self.transport.sockets.carrier(path, to));
        neighbour.local = self.transport.source(path);
        // What waited for the old socket is tried on the new one.
        if neighbour.blocked && before != Some(to.socket.0 as usize) {
            self.transport.retry_soon(now);
        }
        if neighbour.overhead() != overhead {
            // From IPv4 to IPv6 or back: less or more fits.
            let overhead = neighbour.overhead();
            self.node.set_overhead(side, overhead);
            self.fit_mtu(now);
        }
    }

    /// Tells the node whether a link may be used.
    pub(super) fn tell_link(&mut self, now: Time, side: Side) {
        if let Some(neighbour) = &self.neighbours[side.index()] {
            self.node.set_link(now, side, neighbour.is_up());
            self.dirty = true;
        }
    }

    fn fail(&mut self, now: Time, side: Side) {
        if let Some(neighbour) = &mut self.neighbours[side.index()] {
            neighbour.failed = true;
            // It may be our address that is gone.
            neighbour.local = None;
            self.tell_link(now, side);
        }
    }

    /// Sends what waits on a link.
    pub(super) fn flush(&mut self, now: Time, side: Side) {
        let Some(neighbour) = &mut self.neighbours[side.index()] else { return };
        let Some(carrier) = neighbour.carrier else { return };
        let number = carrier.socket();
        let (socket, dropped) = (&mut self.transport.sockets[number], &mut self.transport.counts.send_down);
        let blocked = match neighbour.flush(&mut self.transport.pool, socket, dropped) {
            Sent::Done => false,
            Sent::Blocked => {
                self.transport.sockets.want_write(number, true);
                true
            }
            Sent::Congested => {
                self.transport.retry_soon(now);
                true
            }
            Sent::TooBig { size } => {
                let largest = (size + self.transport.sockets[number].outer_headers()).saturating_sub(1);
                let mtu = self.transport.sockets[number].device_mtu().map_or(largest, |mtu| mtu.min(largest));
                self.set_mtu(now, side, mtu);
                false
            }
            Sent::Down => {
                self.fail(now, side);
                false
            }
        };
        if let Some(neighbour) = &mut self.neighbours[side.index()]
            && neighbour.blocked != blocked
        {
            neighbour.blocked = blocked;
            self.node.set_blocked(now, side, blocked);
            self.dirty = true;
        }
    }

    /// Sends what waits for a socket that can be written again.
    pub(super) fn flush_socket(&mut self, now: Time, number: usize) {
        for side in self.sides_of(number) {
            if self.neighbours[side.index()].as_ref().is_some_and(|n| n.blocked) {
                self.flush(now, side);
            }
        }
        if !self.sides_of(number).any(|side| self.neighbours[side.index()].as_ref().is_some_and(|n| n.blocked)) {
            self.transport.sockets.want_write(number, false);
        }
    }

    /// The links that a socket carries.
    fn sides_of(&self, number: usize) -> impl Iterator<Item = Side> + use<> {
        let carried = Side::BOTH.map(|side| {
            let neighbour = self.neighbours[side.index()].as_ref();
            let carrier = neighbour.and_then(|neighbour| neighbour.carrier);
            carrier.is_some_and(|carrier| carrier.socket() == number).then_some(side)
        });
        carried.into_iter().flatten()
    }

    /// A socket failed: its interface may be gone.
    pub(super) fn socket_down(&mut self, now: Time, number: usize) {
        self.look_at_socket(now, number);
        if !self.transport.sockets.is_usable(number) {
            self.sides_of(number).for_each(|side| self.fail(now, side));
        }
    }

    /// Follows what happens to an interface of the host.
    pub(super) fn follow_interface(&mut self, now: Time, change: &Change) {
        for number in 0..self.transport.sockets.len() {
            let usable = match change {
                Change::Address { .. } => continue,
                Change::Unknown => {
                    self.look_at_socket(now, number);
                    self.transport.sockets.is_usable(number)
                }
                Change::Device { name, .. } if !self.transport.sockets[number].is_on(name) => continue,
                Change::Device { running, mtu, .. } => {
                    self.look_at_socket(now, number);
                    if let Some(mtu) = *mtu {
                        self.sides_of(number).for_each(|side| self.set_device_mtu(now, side, mtu));
                    }
                    *running
                }
            };
            for side in self.sides_of(number) {
                if usable { self.revive(now, side) } else { self.fail(now, side) }
            }
        }
    }

    /// Tries every link that failed again. What merely has no session is left to the sessions' own retries.
    pub(super) fn retry_links(&mut self, now: Time) {
        for number in 0..self.transport.sockets.len() {
            if self.transport.sockets[number].absent {
                self.look_at_socket(now, number);
            }
        }
        for side in Side::BOTH {
            if self.neighbours[side.index()].as_ref().is_some_and(|n| n.failed) {
                self.revive(now, side);
            }
        }
    }

    /// Puts a link whose socket works again to use. A plain one at once; a sealed one if its session still stands and a
    /// message to the neighbour leaves, else once the sessions say so.
    fn revive(&mut self, now: Time, side: Side) {
        let Some(neighbour) = &self.neighbours[side.index()] else { return };
        let Some(carrier) = neighbour.carrier.filter(|_| neighbour.failed || !neighbour.connected) else { return };
        if !self.transport.sockets.is_usable(carrier.socket()) {
            return;
        }
        let mut stands = true;
        if let (Some(path), Some(sessions)) = (carrier.path(), &mut self.transport.sessions) {
            sessions.refresh(now, path);
            stands = sessions.can_seal(path) && !neighbour.lost;
            if !self.transport.send_messages(None) {
                return;
            }
        }
        if let Some(neighbour) = &mut self.neighbours[side.index()] {
            neighbour.failed = false;
            neighbour.connected |= stands;
        }
        self.tell_link(now, side);
    }

    /// A neighbour in the clear that fell silent may come back with another address.
    pub(super) fn forget_address(&mut self, side: Side) {
        if let Some(neighbour) = &self.neighbours[side.index()]
            && let Some(socket) = neighbour.carrier.and_then(|carrier| self.transport.sockets.get_mut(carrier.socket()))
        {
            socket.forget_station(neighbour.owner());
        }
    }

    fn look_at_socket(&mut self, now: Time, number: usize) {
        if self.transport.sockets.look(number) {
            if let Some(mtu) = self.transport.sockets[number].device_mtu() {
                self.sides_of(number).for_each(|side| self.set_device_mtu(now, side, mtu));
            }
            self.sides_of(number).for_each(|side| self.revive(now, side));
        }
    }

    fn set_device_mtu(&mut self, now: Time, side: Side, mtu: usize) {
        if self.neighbours[side.index()].as_ref().is_some_and(|n| n.follows_device) {
            self.set_mtu(now, side, mtu);
        }
    }

    /// A link carries packets of this size, outer IP header included.
    fn set_mtu(&mut self, now: Time, side: Side, mtu: usize) {
        if let Some(neighbour) = &mut self.neighbours[side.index()]
            && neighbour.mtu != mtu
        {
            neighbour.mtu = mtu;
            tracing::info!(link = name(side), mtu, "MTU of the link");
            self.fit_mtu(now);
        }
    }

    /// The bond beneath a link carries something else than before.
    pub(super) fn follow_capacity(&mut self, now: Time, side: Side) {
        let Some(rate) = self.followers[side.index()].as_mut().and_then(|(_, follower)| follower.poll()) else {
            return;
        };
        let Some(neighbour) = &mut self.neighbours[side.index()] else { return };
        neighbour.starved = rate.as_bits_per_sec() == 0;
        match neighbour.starved {
            true => {
                tracing::warn!(link = name(side), "the bond beneath carries nothing, or its daemon does not answer")
            }
            false => {
                tracing::info!(link = name(side), rate = show_rate(rate), "capacity of the bond beneath");
                neighbour.capacity = rate;
                self.node.set_capacity(now, side, rate);
            }
        }
        self.tell_link(now, side);
    }
}
