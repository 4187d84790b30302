//! Sites that were invited and join: they make their keys known, and are peers from then on.
//!
//! A key is kept, and becomes that of the peer which the configuration has for the invitation. That peer is there from the beginning,
//! with its bond and its addresses, and nobody can call for it before.

use super::Peers;
use crate::channel::udp::{Datagram, Destination};
use crate::config::Peer;
use crate::secure::joining::{Heard, Verdict, Wish};
use crate::sockets::send_sealed;
use crate::status::InvitationStatus;
use crate::system::system;
use fairspan_core::bond::Handling;
use fairspan_core::units::Time;

/// Seconds since 1970, by the wall clock.
fn clock() -> u64 {
    system().wall().as_secs()
}

impl Peers {
    /// A datagram that a site sends which has no session yet; false where nobody is invited, so that it is a stranger's like any other.
    pub(super) fn hear_question(&mut self, now: Time, socket: usize, datagram: &Datagram<'_>) -> bool {
        let Some(desk) = self.guests.desk.as_mut().filter(|desk| !desk.guests().is_empty()) else { return false };
        let reply = match desk.handle(now, clock(), datagram.source, datagram.bytes) {
            Heard::Dropped => None,
            Heard::Reply(reply) => Some(reply),
            Heard::Wish(wish) => self.grant(*wish),
        };
        if let (Some(reply), Some(socket)) = (reply, self.transport.sockets.get_mut(socket)) {
            let (address, source) = (datagram.source, datagram.destination);
            // What does not arrive is asked for again.
            send_sealed(socket, Destination { address, source, tos: 0, handling: Handling::Usual }, &reply);
        }
        true
    }

    /// A guest becomes a peer, if its key can be kept. What it is told.
    fn grant(&mut self, wish: Wish) -> Option<Vec<u8>> {
        let verdict = self.admit(&wish);
        self.guests.desk.as_mut()?.settle(wish, verdict)
    }

    fn admit(&mut self, wish: &Wish) -> Verdict {
        let guest = self.guests.desk.as_ref().and_then(|desk| desk.guests().get(wish.guest));
        let Some(number) = guest.map(|guest| guest.derived.number()) else { return Verdict::NotKept };
        let is_its = |peer: &Peer| peer.invited.as_ref().is_some_and(|invited| invited.derived.number() == number);
        let Some(place) = self.config.peers.iter().position(is_its) else { return Verdict::NotKept };
        let name = self.config.peers[place].name.clone();
        if self.config.peers.iter().any(|peer| peer.public_key == Some(wish.key)) {
            tracing::warn!(peer = name, key = %wish.key, "whoever joins by this invitation has the key of another peer");
            return Verdict::KeyTaken;
        }
        if let Err(error) = self.guests.joined.keep(&number, wish.key, clock()) {
            tracing::warn!(peer = name, %error, "a site wants to join by its invitation, and that cannot be kept in `state_dir`");
            return Verdict::NotKept;
        }
        self.config.peers[place].public_key = Some(wish.key);
        match Peers::know(&self.config.peers[place], &mut self.transport) {
            Ok(id) => self.peers[place].id = id,
            Err(error) => {
                self.config.peers[place].public_key = None;
                tracing::warn!(peer = name, %error, "a site has joined by its invitation, and is no peer");
                return Verdict::KeyTaken;
            }
        }
        tracing::info!(peer = name, key = %wish.key, "a site has joined by its invitation");
        Verdict::Joined
    }

    /// How the invitation of a peer stands.
    pub(super) fn invitation_status(&self, number: usize) -> Option<InvitationStatus> {
        let peer = self.config.peers.get(number)?;
        let invited = peer.invited.as_ref()?;
        let state = match peer.public_key {
            Some(_) => "joined",
            None if self.guests.joined.is_unreadable() => "unreadable",
            None if clock() >= invited.expires => "expired",
            None => "open",
        };
        Some(InvitationStatus { state: state.to_owned(), expires: invited.expires })
    }
}
