//! One link of the node: who is at its other end, what carries it, and what waits to leave.

use super::classes::traffic_class;
use crate::channel::ethernet::{Codepoint, Mac};
use crate::channel::udp::{Destination, Sent};
use crate::config::{Ring, RingSide};
use crate::offload;
use crate::pool::PacketBuf;
use crate::secure::{FLAG_CHECKSUM_PARTIAL, PeerId, Sessions};
use crate::sockets::outbox::{Frame, Outbox, Pool};
use crate::sockets::socket::Socket;
use crate::sockets::{Carrier, sealed_frame, send_sealed};
use fairspan_core::bond::{Handling, Head};
use fairspan_core::ring::frame::HEAD;
use fairspan_core::ring::node::Transmit;
use fairspan_core::ring::{NodeId, Side};
use fairspan_core::units::{ChannelId, Rate, Time};
use std::net::IpAddr;

/// IPv4 and UDP: what a link is taken to add before its neighbour has called.
const USUAL_OUTER: usize = 20 + 8;

/// A link and its neighbour.
pub(super) struct Neighbour {
    pub(super) side: Side,
    /// Who belongs there.
    pub(super) node: NodeId,
    /// As the sessions know it; `None` on Ethernet in the clear.
    pub(super) peer: Option<PeerId>,
    /// Both ends number the link alike. In a ring of two nodes the neighbours are one, with two links.
    pub(super) channel: ChannelId,
    /// `None`: the neighbour has not called yet.
    pub(super) carrier: Option<Carrier>,
    /// Our address that the neighbour last sent to.
    pub(super) local: Option<IpAddr>,
    outbox: Outbox,
    /// The node was told that nothing more leaves for now.
    pub(super) blocked: bool,
    /// There is a session, or the link needs none.
    pub(super) connected: bool,
    /// Its socket or interface failed: the link is tried again every second.
    pub(super) failed: bool,
    /// The neighbour is silent: the sessions go on trying and tell when it is back.
    pub(super) lost: bool,
    /// Ethernet framing and the like.
    framing: usize,
    /// What sealing adds at most.
    seal: usize,
    /// The link's MTU, outer IP header included.
    pub(super) mtu: usize,
    /// The MTU is that of the interface, also when it changes.
    pub(super) follows_device: bool,
    /// What the link carries now.
    pub(super) capacity: Rate,
    /// The bond beneath it carries nothing, or does not answer.
    pub(super) starved: bool,
    pub(super) counters: Counters,
}

/// What a link counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub(super) control_sent: u64,
    /// Control messages that the socket did not take; the next ones make up for them.
    pub(super) control_unsent: u64,
    pub(super) control_received: u64,
    pub(super) data_sent: u64,
    pub(super) data_sent_bytes: u64,
    /// Packets that could not be sealed or queued for sending, or did not fit.
    pub(super) data_unsent: u64,
    pub(super) data_received: u64,
    pub(super) data_received_bytes: u64,
}

impl Counters {
    pub(super) fn each(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("control_sent", self.control_sent),
            ("control_unsent", self.control_unsent),
            ("control_received", self.control_received),
            ("data_sent", self.data_sent),
            ("data_sent_bytes", self.data_sent_bytes),
            ("data_unsent", self.data_unsent),
            ("data_received", self.data_received),
            ("data_received_bytes", self.data_received_bytes),
        ]
        .into_iter()
    }
}

impl Neighbour {
    pub(super) fn new(ring: &Ring, side: Side, config: &RingSide, mtu: usize, seal: usize) -> Neighbour {
        let link = match side {
            Side::East => ring.node.index(),
            Side::West => ring.neighbour(side).index(),
        };
        Neighbour {
            side,
            node: ring.neighbour(side),
            peer: None,
            channel: ChannelId((link & 1) as u8),
            carrier: None,
            local: None,
            outbox: Outbox::default(),
            blocked: false,
            connected: false,
            failed: false,
            lost: false,
            framing: config.overhead.into(),
            seal,
            mtu,
            follows_device: config.mtu.is_none(),
            capacity: config.rate,
            starved: config.bond.is_some(),
            counters: Counters::default(),
        }
    }

    /// `east` or `west`.
    pub(super) fn name(&self) -> &'static str {
        name(self.side)
    }

    /// Whether the node may use the link, as far as the driver knows.
    pub(super) fn is_up(&self) -> bool {
        self.connected && !self.failed && !self.starved
    }

    /// What is added to each packet from the outer IP header on.
    fn encapsulation(&self) -> usize {
        HEAD + match self.carrier {
            Some(Carrier::Plain { .. }) => sealed_frame::LENGTH,
            Some(carrier) => carrier.overhead(self.seal),
            None => USUAL_OUTER + self.seal,
        }
    }

    /// What the link carries for each packet beyond its own bytes.
    pub(super) fn overhead(&self) -> usize {
        self.framing + self.encapsulation()
    }

    /// The largest packet that fits.
    pub(super) fn packet_mtu(&self) -> usize {
        self.mtu.saturating_sub(self.encapsulation())
    }

    /// Sends a control frame at once; what finds no room is lost.
    pub(super) fn send_control(
        &mut self,
        now: Time,
        socket: &mut Socket,
        sessions: Option<&mut Sessions>,
        scratch: &mut Vec<u8>,
        frame: &[u8],
    ) {
        let sent = match (self.carrier, sessions) {
            (Some(Carrier::Sealed { path, remote, .. }), Some(sessions)) => {
                scratch.resize(sessions.sealed_len(frame.len()), 0);
                sessions.seal(now, path, 0, &[], frame, scratch).ok().map(|len| {
                    let destination =
                        Destination { address: remote, source: self.local, tos: 0, handling: Handling::Usual };
                    send_sealed(socket, destination, &scratch[..len])
                })
            }
            (Some(Carrier::Plain { .. }), _) => {
                let station = sealed_frame::address_of(socket.station(self.owner()));
                Some(send_sealed(
                    socket,
                    Destination { address: station, source: None, tos: 0, handling: Handling::Usual },
                    frame,
                ))
            }
            _ => None,
        };
        match sent {
            Some(Sent::Done) => self.counters.control_sent += 1,
            _ => self.counters.control_unsent += 1,
        }
    }

    /// Puts a data frame into the outbox, sealed where the link is.
    pub(super) fn push(
        &mut self,
        now: Time,
        pool: &mut Pool,
        sessions: Option<&mut Sessions>,
        frame: Transmit<PacketBuf>,
    ) {
        let mut packet = frame.packet;
        let bytes = packet.len() as u64;
        let taken = match (self.carrier, sessions) {
            (Some(Carrier::Sealed { path, remote, .. }), Some(sessions)) => {
                let flags = if packet.checksum_partial { FLAG_CHECKSUM_PARTIAL } else { 0 };
                // The outer ECN field stays zero: what the links mark is not carried on.
                let tos = traffic_class(packet.as_slice()) & 0xfc;
                let destination = Destination { address: remote, source: self.local, tos, handling: Handling::Usual };
                let len = sessions.sealed_len(HEAD + packet.len());
                self.outbox.push_sealed(pool, destination, len, |out| {
                    sessions.seal(now, path, flags, &frame.head, packet.as_slice(), out).ok()
                })
            }
            (Some(Carrier::Plain { .. }), _) => {
                // Nothing here carries the flag of a partial checksum.
                let mut head = Head::EMPTY;
                let length = sealed_frame::length(HEAD + packet.len());
                let fits = length.is_some_and(|length| head.push(&length) && head.push(&frame.head));
                fits && offload::complete_checksum(&mut packet)
                    && self.outbox.push_frame(Frame { codepoint: Codepoint::Envelope, head, packet: Some(packet) })
            }
            _ => false,
        };
        if taken {
            self.counters.data_sent += 1;
            self.counters.data_sent_bytes += bytes;
        } else {
            self.counters.data_unsent += 1;
        }
    }

    /// Whether something waits that the socket may take.
    pub(super) fn is_waiting(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Sends what waits, as far as the socket takes it; what is [dropped](Outbox::flush) is counted.
    pub(super) fn flush(&mut self, pool: &mut Pool, socket: &mut Socket, dropped: &mut u64) -> Sent {
        let station = match self.carrier.and_then(|carrier| carrier.remote()) {
            Some(remote) => sealed_frame::mac_of(remote).unwrap_or(Mac::BROADCAST),
            None => socket.station(self.owner()),
        };
        self.outbox.flush(pool, socket, (None, station), dropped)
    }

    /// Whose its socket's frames are.
    pub(super) fn owner(&self) -> (usize, ChannelId) {
        (self.side.index(), self.channel)
    }
}

/// `east` or `west`.
pub(super) fn name(side: Side) -> &'static str {
    match side {
        Side::East => "east",
        Side::West => "west",
    }
}
