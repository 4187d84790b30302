//! What comes of a packet that a session opened: paths that are confirmed, established and moved.

use super::*;

impl Sessions {
    #[expect(clippy::too_many_arguments, reason = "the fields of one datagram")]
    pub(super) fn open(
        &mut self,
        now: Time,
        receiver: u16,
        header: &[u8; crate::secure::DATA_HEADER_LEN],
        counter: u64,
        ciphertext: &[u8],
        tag: &[u8],
        out: &mut [u8],
    ) -> Result<(u16, Opened), DropReason> {
        let slot = self.by_index[usize::from(receiver)];
        let Some(Slot::Session(session)) = self.slots.get_mut(usize::from(slot)) else {
            return Err(DropReason::UnknownIndex);
        };
        if session.index as u16 != receiver {
            return Err(DropReason::UnknownIndex);
        }
        session.open(now, header, counter, ciphertext, tag, out).map(|opened| (slot, opened)).map_err(|error| {
            match error {
                OpenError::Expired => DropReason::Expired,
                OpenError::BufferTooSmall => DropReason::Oversized,
                OpenError::Authentication => DropReason::Authentication,
                OpenError::Replayed => DropReason::Replayed,
                OpenError::TooOld => DropReason::TooOld,
                OpenError::Malformed => DropReason::Malformed,
            }
        })
    }

    /// A packet was authenticated on the session in `slot`.
    pub(super) fn on_opened(
        &mut self,
        now: Time,
        slot: u16,
        opened: Opened,
        (from, local): (Endpoint, Option<IpAddr>),
    ) -> Result<Received, DropReason> {
        let Opened { newest, flags, len } = opened;
        let Some(Slot::Session(session)) = self.slots.get_mut(usize::from(slot)) else {
            return Ok(Received::Control);
        };
        let (number, instance) = (session.path, session.instance);
        let Some(path) = self.paths.get_mut(number as usize).and_then(Option::as_deref_mut) else {
            return Ok(Received::Control);
        };
        let peer = self.peers.get(path.peer.index()).and_then(Option::as_deref);
        if peer.is_some_and(|peer| peer.has_left(now, instance)) {
            // It was under way for so long that the peer's next process is known by another path.
            return Err(DropReason::Expired);
        }
        let first = !std::mem::replace(&mut session.proved, true);
        path.unanswered_since = None;
        path.last_received = now;
        let elsewhere = path.is_led_elsewhere(from);
        if len == 0 && flags & FLAG_ASK == 0 && !elsewhere {
            // An answer: so what was asked has arrived, too.
            path.question = None;
        }
        if newest && !elsewhere {
            path.local = local;
        }
        let away = path.endpoint != Some(from) && !elsewhere;
        let moved = newest && away && (first || path.inbound == Some(slot));
        if first || moved || path.state == State::Down || flags & FLAG_ASK != 0 {
            self.on_unusual(now, number, slot, first, moved, from, flags);
        }
        if len == 0 {
            self.stats.keepalives += 1;
            return Ok(Received::Control);
        }
        // Looked up again, since the unusual may have changed everything but the path's owner.
        let Some(path) = self.paths.get(number as usize).and_then(Option::as_deref) else {
            return Ok(Received::Control);
        };
        self.stats.opened += 1;
        self.stats.opened_bytes += len as u64;
        Ok(Received::Data(Data {
            path: PathId(number),
            peer: path.peer,
            channel: path.channel,
            flags: flags & FLAG_CHECKSUM_PARTIAL,
            len,
        }))
    }

    #[expect(clippy::too_many_arguments, reason = "what is unusual of one datagram")]
    pub(super) fn on_unusual(
        &mut self,
        now: Time,
        number: u32,
        slot: u16,
        first: bool,
        moved: bool,
        from: Endpoint,
        flags: u8,
    ) {
        let Some(mut path) = self.take(number) else { return };
        if first {
            path.inbound = Some(slot);
            if path.current == Some(slot) {
                path.proof_wait = None;
            }
        }
        if moved && path.stays_until <= now {
            self.roam(number, &mut path, from);
        }
        if path.pending.contains(&slot) {
            path.pending.retain(|&pending| pending != slot);
            self.confirm(now, number, &mut path, slot);
        } else if path.state == State::Down && path.current.is_some() {
            // The link is back before the keys have expired.
            path.tries = 0;
            self.establish(number, &mut path, slot, false);
        }
        if flags & FLAG_ASK != 0 {
            // A peer that leads may ask by another socket of ours, to see whether that way is open. A path that this end calls by
            // is led here, and an answer by a former way would draw the peer back there.
            let asked_aside = !path.persistent && path.endpoint.is_some_and(|endpoint| endpoint.socket != from.socket);
            let to = if asked_aside { Some(from) } else { path.endpoint };
            // A peer that asks may not hear this end where it was followed to: so it is answered where it is called, too.
            let called = path.configured.filter(|called| path.persistent && path.endpoint != Some(*called));
            for to in to.into_iter().chain(called) {
                self.send_empty(now, &mut path, to, slot, 0);
            }
        }
        self.put_back(number, path);
    }

    pub(super) fn roam(&mut self, number: u32, path: &mut Path, to: Endpoint) {
        if path.is_led_elsewhere(to) {
            return;
        }
        match path.endpoint {
            Some(from) if self.config.roaming => {
                path.endpoint = Some(to);
                self.stats.roamed += 1;
                self.event(Event::Roamed { path: PathId(number), from, to });
            }
            Some(_) => {}
            None => path.endpoint = Some(to),
        }
    }

    /// Makes the session in `slot` the one that seals: both ends have it.
    pub(super) fn confirm(&mut self, now: Time, number: u32, path: &mut Path, slot: u16) {
        let Some(Slot::Session(session)) = self.slots.get_mut(usize::from(slot)) else { return };
        let (instance, stamp, role) = (session.instance, session.stamp, session.role);
        let hello = std::mem::take(&mut session.hello);
        if let Some(peer) = self.peers.get_mut(path.peer.index()).and_then(Option::as_deref_mut) {
            peer.came_as(instance, now + self.config.reject_after);
        }
        self.stats.handshakes += 1;
        path.refusal = None;
        let restarted = path.instance.is_some_and(|known| known != instance);
        path.instance = Some(instance);
        if let Some(old) = path.current.replace(slot) {
            path.older.insert(0, old);
        }
        // What a former process of the peer still has under way is of no use to the present one.
        let kept = if restarted { 0 } else { OLDER_MAX };
        while path.older.len() > kept {
            if let Some(old) = path.older.pop() {
                self.free_slot(old);
            }
        }
        // An initiator that completed one of its tries has given up those before. What the peer was answered while
        // this end's own handshake completed stays: the peer may complete it too.
        if role == Role::Responder {
            for pending in std::mem::take(&mut path.pending) {
                match self.session(pending) {
                    Some(other) if other.stamp > stamp => path.pending.push(pending),
                    _ => self.free_slot(pending),
                }
            }
        }
        self.drop_attempts(path);
        path.rekey_wanted = false;
        path.untold &= role == Role::Responder;
        path.proof_wait = None;
        (path.asked_at, path.question) = (None, None);
        path.last_sent = path.last_sent.max(now);
        let news = path.state == State::Down || restarted || path.peer_hello != hello;
        path.peer_hello = hello;
        if news {
            self.establish(number, path, slot, restarted);
        } else {
            self.event(Event::Rekeyed { path: PathId(number) });
        }
    }

    pub(super) fn establish(&mut self, number: u32, path: &mut Path, slot: u16, restarted: bool) {
        let (Some(session), Some(endpoint), Some(instance)) = (self.session(slot), path.endpoint, path.instance) else {
            return;
        };
        let (role, cipher) = (session.role, session.cipher);
        path.state = State::Up;
        (path.unreachable, path.unreachable_told) = (None, 0);
        self.event(Event::Established {
            path: PathId(number),
            peer: path.peer,
            channel: path.channel,
            endpoint,
            hello: path.peer_hello.clone(),
            instance,
            restarted,
            role,
            cipher,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secure::pair::pair;

    /// Whoever holds one packet back, and lets it in at another address of the end that is called, must not part the ends for good.
    #[test]
    fn an_end_that_was_led_where_it_is_not_heard_is_found_again_where_it_calls() {
        const SOCKET: SocketId = SocketId(1);
        let mut now = Time::from_millis(1000);
        let (mut a, mut b, peer) = pair(now);
        let [caller, called, deaf] = [1, 2, 3].map(|host| SocketAddr::from(([192, 0, 2, host], 1000)));
        let (ours, theirs) = (PathId(0), PathId(0));
        assert_eq!(a.connect(now, peer, ChannelId(0), SOCKET, called, Vec::new()), Ok(ours));
        // What is sent to the deaf address is lost; what is sent from it is not. Gives where the caller sent to.
        let exchange = |now: Time, a: &mut Sessions, b: &mut Sessions| {
            let mut to = Vec::new();
            for _ in 0..8 {
                while let Some(sent) = a.poll_transmit() {
                    to.push(sent.destination);
                    if sent.destination == called {
                        let from = (caller, Some(called.ip()));
                        b.handle_datagram_to(now, SOCKET, from, &sent.payload, &mut [0; 2048]);
                    }
                }
                while let Some(sent) = b.poll_transmit() {
                    let from = SocketAddr::new(sent.source.expect("where it was called"), 1000);
                    a.handle_datagram(now, SOCKET, from, &sent.payload, &mut [0; 2048]);
                }
            }
            to
        };
        exchange(now, &mut a, &mut b);
        assert!(a.can_seal(ours) && b.can_seal(theirs));

        now += Span::from_secs(1);
        let mut data = [0; 100];
        let len = a.seal(now, ours, 0, &[], b"data", &mut data).expect("keys");
        b.handle_datagram_to(now, SOCKET, (caller, Some(deaf.ip())), &data[..len], &mut [0; 100]);
        b.refresh(now, theirs);
        assert_eq!(exchange(now, &mut a, &mut b), [deaf, called], "it is answered where it is called, too");
        assert_eq!(b.source(theirs), Some(called.ip()));
        now += Span::from_secs(1);
        b.refresh(now, theirs);
        assert_eq!(exchange(now, &mut a, &mut b), [called], "and once, where both agree");
    }
}
