//! Handshakes of the [`Sessions`]: begun, answered, completed, and refused.

use super::*;

impl Sessions {
    pub(super) fn around(&mut self, span: Span) -> Span {
        // Plus or minus a fifth.
        let fifth = span.as_nanos() / 5;
        Span::from_nanos(span.as_nanos() - fifth + self.jitter.below(2 * fifth + 1))
    }

    pub(super) fn hello_of(&self, path: &Path) -> Vec<u8> {
        let peer = self.peers.get(path.peer.index()).and_then(Option::as_deref);
        path.hello.clone().or_else(|| peer.map(|peer| peer.config.hello.clone())).unwrap_or_default()
    }

    /// Sends an initiation, and says when the next one is due.
    pub(super) fn initiate(&mut self, now: Time, number: u32, path: &mut Path) {
        let doubled = self.config.handshake_retry.times(1 << path.tries.min(16)).min(self.config.handshake_retry_max);
        let wait = self.around(doubled);
        path.retry_at = Some(now + wait);
        let target = path.target();
        path.tries += 1;
        let Some(target) = target else { return };
        if path.attempts.len() >= ATTEMPTS_MAX {
            let oldest = path.attempts.remove(0);
            self.free_slot(oldest.slot);
        }
        let Some((slot, index)) = self.allocate(number) else {
            self.stats.drop(DropReason::SessionsFull);
            return;
        };
        let own = self.stamps.next(now);
        let peer = self.peers.get_mut(path.peer.index()).and_then(Option::as_deref_mut);
        let stamp = peer.map_or(own, |peer| {
            // Above what the peer says it has heard; other peers' stamps have nothing to do with that.
            if own <= peer.floor {
                peer.floor = peer.floor.saturating_add(1);
            }
            own.max(peer.floor)
        });
        let payload = InitiationPayload {
            channel: path.channel.0,
            capabilities: self.capabilities,
            instance: self.instance,
            stamp,
            hello: self.hello_of(path),
        };
        let mut message = handshake_header(INITIATION, index).to_vec();
        let started = match self.peers.get(path.peer.index()).and_then(Option::as_deref) {
            Some(peer) => Initiator::start(
                &mut *self.entropy,
                &self.private,
                &peer.config.public_key,
                peer.config.preshared_key.as_ref(),
                index,
                &payload.encode(),
                &mut message,
            )
            .map(|initiator| {
                (initiator, peer.macs.append(&mut message, path.cookie.as_ref().and_then(|cookie| cookie.fresh(now))))
            }),
            None => return self.free_slot(slot),
        };
        match started {
            Ok((initiator, mac1)) => {
                path.attempts.push(Attempt { slot, initiator, mac1 });
                self.stats.initiations_sent += 1;
                self.transmit(target, message);
            }
            // Only a peer's key that is no point of the curve leads here.
            Err(_) => self.free_slot(slot),
        }
    }

    pub(super) fn gate_limits(&self) -> GateLimits {
        GateLimits {
            handshakes_per_second: self.config.handshakes_per_second,
            handshakes_per_source: self.config.handshakes_per_source,
            sources: self.config.handshake_sources,
        }
    }

    pub(super) fn on_initiation(
        &mut self,
        now: Time,
        from: Endpoint,
        datagram: &[u8],
        version: u8,
        sender: u32,
        noise: &[u8],
    ) -> Result<Received, DropReason> {
        let mac1 = self.macs.check(datagram).ok_or(DropReason::BadMac)?;
        let limits = self.gate_limits();
        match self.gate.admit(now, &mut *self.entropy, &limits, from.address, sender, datagram, &mac1) {
            Admission::Proceed => {}
            Admission::Challenge(reply) => {
                self.transmit(from, reply);
                return Err(DropReason::CookieDemanded);
            }
            Admission::Refuse => return Err(DropReason::RateLimited),
        }
        if version != VERSION {
            self.transmit(from, self.macs.version_reply(sender, &mac1));
            self.reject(now, from.address, RejectReason::OtherVersion(version));
            return Err(DropReason::OtherVersion);
        }
        let responder =
            Responder::read(&mut *self.entropy, &self.private, sender, noise).map_err(|_| DropReason::Initiation)?;
        let Some(&peer) = self.by_key.get(&responder.remote) else {
            self.reject(now, from.address, RejectReason::UnknownPeer(responder.remote));
            return Err(DropReason::UnknownPeer);
        };
        let said = InitiationPayload::decode(&responder.payload).ok_or(DropReason::Payload)?;
        let Ok(number) = self.path_of(PeerId(peer), ChannelId(said.channel)) else {
            self.reject(now, from.address, RejectReason::Channel(said.channel));
            return Err(DropReason::Channel);
        };
        let Some(cipher) = self.capabilities.agree(said.capabilities) else {
            self.reject(now, from.address, RejectReason::Cipher);
            return Err(DropReason::Cipher);
        };
        let Some(mut path) = self.take(number) else { return Err(DropReason::UnknownPeer) };
        let result = self.answer(now, number, &mut path, from, (sender, mac1), responder, said, cipher);
        self.put_back(number, path);
        result
    }

    #[expect(clippy::too_many_arguments, reason = "everything that one handshake brings")]
    pub(super) fn answer(
        &mut self,
        now: Time,
        number: u32,
        path: &mut Path,
        from: Endpoint,
        (sender, mac1): (u32, Mac),
        responder: Responder,
        said: InitiationPayload,
        cipher: Cipher,
    ) -> Result<Received, DropReason> {
        let peer =
            self.peers.get_mut(path.peer.index()).and_then(Option::as_deref_mut).ok_or(DropReason::UnknownPeer)?;
        let heard = &mut peer.heard[path.channel.index()];
        if said.stamp <= (*heard).max(peer.remembered) {
            self.tell_behind(now, path, from, sender, &mac1);
            return Err(DropReason::ReplayedInitiation);
        }
        *heard = said.stamp;
        self.stamps.on_heard();
        let (slot, index) = self.allocate(number).ok_or(DropReason::SessionsFull)?;
        let payload = ResponsePayload { cipher, sender: index, instance: self.instance, hello: self.hello_of(path) };
        let mut message = handshake_header(RESPONSE, sender).to_vec();
        let peer = self.peers.get(path.peer.index()).and_then(Option::as_deref).ok_or(DropReason::UnknownPeer)?;
        let psk = peer.config.preshared_key.as_ref();
        let Ok(split) = responder.answer(psk, &payload.encode(), &mut message) else {
            self.free_slot(slot);
            return Err(DropReason::Initiation);
        };
        peer.macs.append(&mut message, None);
        let made = self.made(
            now,
            number,
            (index, sender),
            Role::Responder,
            cipher,
            split,
            (said.instance, said.stamp),
            said.hello,
        );
        self.slots[usize::from(slot)] = Slot::Session(Box::new(Session::new(made)));
        if path.pending.len() >= PENDING_MAX {
            let oldest = path.pending.remove(0);
            self.free_slot(oldest);
            self.stats.unconfirmed += 1;
        }
        path.pending.push(slot);
        self.stats.responses_sent += 1;
        self.transmit(from, message);
        Ok(Received::Control)
    }

    #[expect(clippy::too_many_arguments, reason = "everything that makes a session")]
    pub(super) fn made(
        &mut self,
        now: Time,
        path: u32,
        (index, peer_index): (u32, u32),
        role: Role,
        cipher: Cipher,
        split: Split,
        (instance, stamp): (u64, u64),
        hello: Vec<u8>,
    ) -> Made {
        let rekey = self.config.rekey_after.as_nanos();
        // The responder leaves the initiator time; chance keeps two ends that think alike apart.
        let extra = if role == Role::Responder { rekey / 8 } else { 0 } + self.jitter.below(rekey / 32 + 1);
        Made {
            index,
            peer_index,
            path,
            role,
            cipher,
            split,
            created: now,
            rekey_at: now + Span::from_nanos(rekey.saturating_add(extra)),
            reject_at: now + self.config.reject_after,
            limits: Limits {
                rekey_packets: self.config.rekey_after_packets,
                rekey_bytes: self.config.rekey_after_bytes,
                reject_packets: self.config.reject_after_packets,
                reject_bytes: self.config.reject_after_bytes,
            },
            instance,
            stamp,
            hello,
        }
    }

    /// The path and the place among its attempts that an index of ours names.
    pub(super) fn attempt(&self, receiver: u32) -> Option<(u32, usize)> {
        let slot = receiver as u16;
        let Some(Slot::Initiated { index, path }) = self.slots.get(usize::from(slot)) else { return None };
        if *index != receiver {
            return None;
        }
        let place = self.path(PathId(*path))?.attempts.iter().position(|attempt| attempt.slot == slot)?;
        Some((*path, place))
    }

    pub(super) fn on_response(
        &mut self,
        now: Time,
        from: Endpoint,
        datagram: &[u8],
        receiver: u32,
        noise: &[u8],
    ) -> Result<Received, DropReason> {
        self.macs.check(datagram).ok_or(DropReason::BadMac)?;
        let (number, place) = self.attempt(receiver).ok_or(DropReason::UnknownIndex)?;
        let Some(mut path) = self.take(number) else { return Err(DropReason::UnknownIndex) };
        let finished = path.attempts[place].initiator.finish(noise);
        let result = match finished {
            Err(_) => {
                self.reject(now, from.address, RejectReason::Answer);
                Err(DropReason::Response)
            }
            Ok((payload, split)) => match ResponsePayload::decode(&payload) {
                Some(said) if self.capabilities.accepts(said.cipher) => {
                    self.on_answered(now, number, &mut path, place, from, said, split);
                    Ok(Received::Control)
                }
                // Authentic and wrong: this attempt is over.
                said => {
                    let attempt = path.attempts.remove(place);
                    self.free_slot(attempt.slot);
                    Err(if said.is_some() { DropReason::Cipher } else { DropReason::Payload })
                }
            },
        };
        self.put_back(number, path);
        result
    }

    #[expect(clippy::too_many_arguments, reason = "everything that one handshake brings")]
    pub(super) fn on_answered(
        &mut self,
        now: Time,
        number: u32,
        path: &mut Path,
        place: usize,
        from: Endpoint,
        said: ResponsePayload,
        split: Split,
    ) {
        let slot = path.attempts.remove(place).slot;
        let Some(Slot::Initiated { index, .. }) = self.slots.get(usize::from(slot)) else { return };
        let indices = (*index, said.sender);
        let made = self.made(now, number, indices, Role::Initiator, said.cipher, split, (said.instance, 0), said.hello);
        self.slots[usize::from(slot)] = Slot::Session(Box::new(Session::new(made)));
        if path.endpoint != Some(from) {
            self.roam(number, path, from);
        }
        path.unanswered_since = None;
        self.confirm(now, number, path, slot);
        self.ask(now, path);
        path.on_proof_wanted();
    }

    pub(super) fn on_cookie(
        &mut self,
        now: Time,
        receiver: u32,
        nonce: &[u8],
        sealed: &[u8],
    ) -> Result<Received, DropReason> {
        let (number, place) = self.attempt(receiver).ok_or(DropReason::UnknownIndex)?;
        let path = self.paths[number as usize].as_deref_mut().ok_or(DropReason::UnknownIndex)?;
        let peer = self.peers.get(path.peer.index()).and_then(Option::as_deref).ok_or(DropReason::UnknownPeer)?;
        let value = peer.macs.open_cookie(nonce, sealed, &path.attempts[place].mac1).ok_or(DropReason::BadReply)?;
        path.cookie = Some(Cookie { value, since: now });
        self.stats.cookies += 1;
        if !path.hurried {
            path.hurried = true;
            path.retry_at = Some(now);
            self.next = now;
        }
        Ok(Received::Control)
    }

    /// Tells a peer that is silent otherwise, now and then, which timestamp it must exceed.
    fn tell_behind(&mut self, now: Time, path: &Path, to: Endpoint, sender: u32, mac1: &Mac) {
        let Some(peer) = self.peers.get_mut(path.peer.index()).and_then(Option::as_deref_mut) else { return };
        let others = peer.paths.iter().flatten().filter_map(|&path| self.paths[path as usize].as_deref());
        let received = others.fold(path.last_received, |received, other| received.max(other.last_received));
        if now < peer.tell_at.max(received + BEHIND_EVERY) {
            return;
        }
        peer.tell_at = now + BEHIND_EVERY;
        let mut nonce = [0; 16];
        self.entropy.fill(&mut nonce);
        let reply = peer.behind.seal(sender, nonce, peer.greatest(), mac1);
        self.stats.behind_sent += 1;
        self.transmit(to, reply);
    }

    pub(super) fn on_behind(
        &mut self,
        now: Time,
        receiver: u32,
        nonce: &[u8],
        sealed: &[u8],
    ) -> Result<Received, DropReason> {
        let (number, place) = self.attempt(receiver).ok_or(DropReason::UnknownIndex)?;
        let path = self.paths[number as usize].as_deref_mut().ok_or(DropReason::UnknownIndex)?;
        let peer = self.peers.get_mut(path.peer.index()).and_then(Option::as_deref_mut);
        let peer = peer.ok_or(DropReason::UnknownPeer)?;
        let heard = peer.behind.open(nonce, sealed, &path.attempts[place].mac1).ok_or(DropReason::BadReply)?;
        self.stats.behind += 1;
        if heard > peer.floor {
            peer.floor = heard;
            path.retry_at = Some(now);
            self.next = now;
        }
        Ok(Received::Control)
    }

    pub(super) fn on_version(
        &mut self,
        now: Time,
        source: SocketAddr,
        datagram: &[u8],
        receiver: u32,
        version: u8,
    ) -> Result<Received, DropReason> {
        let (number, place) = self.attempt(receiver).ok_or(DropReason::UnknownIndex)?;
        let path = self.paths[number as usize].as_deref().ok_or(DropReason::UnknownIndex)?;
        let peer = self.peers.get(path.peer.index()).and_then(Option::as_deref).ok_or(DropReason::UnknownPeer)?;
        if version == VERSION || !peer.macs.check_version_reply(datagram, &path.attempts[place].mac1) {
            return Err(DropReason::BadReply);
        }
        self.reject(now, source, RejectReason::OtherVersion(version));
        Err(DropReason::OtherVersion)
    }
}
