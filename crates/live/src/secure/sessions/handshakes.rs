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
                self.transmit_from(path.source(target), target, message);
            }
            // Only a peer's key that is no point of the curve leads here.
            Err(_) => self.free_slot(slot),
        }
    }

    /// Takes an initiation that arrived: what is cheap is checked at once.
    pub(super) fn on_initiation(
        &mut self,
        now: Time,
        (from, local): (Endpoint, Option<IpAddr>),
        datagram: &[u8],
        version: u8,
        sender: u32,
        noise: &[u8],
    ) -> Result<Received, DropReason> {
        // A datagram that claims to be proven would be answered by nothing but a place in a queue: without one nothing is hashed for it.
        let established = self.offloaded && self.is_established_at(from.address);
        if self.offloaded && cookie::claims_proof(datagram) && !self.waiting.has_room(from.address, established) {
            return Err(DropReason::RateLimited);
        }
        let Some(mac1) = self.macs.check(datagram) else {
            self.tell_other_key(now, from.address);
            return Err(DropReason::BadMac);
        };
        let limit = if self.waiting.is_crowded(established) { 0 } else { self.config.handshakes_per_second };
        match self.gate.admit(now, &mut *self.entropy, limit, from.address, sender, datagram, &mac1) {
            Admission::Proceed => {}
            Admission::Challenge(reply) => {
                self.transmit_from(local, from, reply);
                return Err(DropReason::CookieDemanded);
            }
        }
        if version != VERSION {
            self.transmit_from(local, from, self.macs.version_reply(sender, &mac1));
            self.reject(now, from.address, RejectReason::OtherVersion(version));
            return Err(DropReason::OtherVersion);
        }
        let arrived = Arrived { from, local, sender, mac1, noise: noise.to_vec() };
        self.compute(now, from, work::Message::Initiation(arrived))
    }

    /// Lets a message wait for its turn where others compute; otherwise goes through its steps here and now.
    fn compute(&mut self, now: Time, from: Endpoint, message: work::Message) -> Result<Received, DropReason> {
        if self.offloaded {
            let established = self.is_established_at(from.address);
            let caller = match &message {
                work::Message::Initiation(arrived) => Some((from, arrived.local)),
                work::Message::Answer(_) => None,
            };
            let waits = self.waiting.push(from.address, established, caller, message);
            return if waits { Ok(Received::Queued) } else { Err(DropReason::RateLimited) };
        }
        let mut done = Work::begin(&self.private, message).run(&mut *self.entropy);
        while let Some(work) = self.on_done(now, done)? {
            done = work.run(&mut *self.entropy);
        }
        Ok(Received::Control)
    }

    /// Goes on with a handshake of which a step was computed; gives the next step.
    pub(super) fn on_done(&mut self, now: Time, done: Done) -> Result<Option<Work>, DropReason> {
        match done.0 {
            Outcome::Read(arrived, responder) => {
                let responder = responder.ok_or(DropReason::Initiation)?;
                self.on_read(now, arrived, responder).map(Some)
            }
            Outcome::Answered(answering, answered) => self.on_answer_made(now, *answering, answered).map(|()| None),
            Outcome::Finished(answer, finished) => self.on_finished(now, &answer, finished).map(|()| None),
        }
    }

    /// Whether an established peer is at `address`.
    pub(crate) fn is_established_at(&mut self, address: SocketAddr) -> bool {
        if std::mem::take(&mut self.moved) {
            self.established.clear();
            let up = self.paths.iter().flatten().filter(|path| path.state == State::Up);
            self.established.extend(up.filter_map(|path| Some(path.endpoint?.address)));
        }
        self.established.contains(&address)
    }

    /// Looks who began the handshake and whether it is new. What is, holds a slot from now on, and is to be answered.
    fn on_read(&mut self, now: Time, arrived: Arrived, responder: Box<Responder>) -> Result<Work, DropReason> {
        let from = arrived.from;
        let Some(&id) = self.by_key.get(&responder.remote) else {
            self.reject(now, from.address, RejectReason::UnknownPeer(responder.remote));
            return Err(DropReason::UnknownPeer);
        };
        let said = InitiationPayload::decode(&responder.payload).ok_or(DropReason::Payload)?;
        let Ok(number) = self.path_of(PeerId(id), ChannelId(said.channel)) else {
            self.reject(now, from.address, RejectReason::Channel(said.channel));
            return Err(DropReason::Channel);
        };
        let Some(cipher) = self.capabilities.agree(said.capabilities) else {
            self.reject(now, from.address, RejectReason::Cipher);
            return Err(DropReason::Cipher);
        };
        let peer = self.peers[id as usize].as_deref_mut().ok_or(DropReason::UnknownPeer)?;
        let heard = &mut peer.heard[usize::from(said.channel)];
        if said.stamp <= (*heard).max(peer.remembered) {
            self.tell_behind(now, id, number, &arrived);
            return Err(DropReason::ReplayedInitiation);
        }
        *heard = said.stamp;
        self.stamps.on_heard();
        let psk = peer.config.preshared_key.clone();
        let hello = self.paths[number as usize].as_deref().map(|path| self.hello_of(path)).unwrap_or_default();
        let (_, index) = self.allocate(number).ok_or(DropReason::SessionsFull)?;
        let payload = ResponsePayload { cipher, sender: index, instance: self.instance, hello };
        let answering = Answering { arrived, peer: id, path: number, index, cipher, said };
        Ok(Work::answer(answering, responder, psk, payload.encode()))
    }

    /// Sends the answer, and lets the session wait for its proof.
    fn on_answer_made(
        &mut self,
        now: Time,
        answering: Answering,
        answered: Option<(Vec<u8>, Box<Split>)>,
    ) -> Result<(), DropReason> {
        let Answering { arrived, peer: id, path: number, index, cipher, said } = answering;
        let slot = self.slot_of(index);
        // The path may have been removed meanwhile, and its number be another's.
        let path = self.path(PathId(number)).filter(|path| (path.peer.0, path.channel.0) == (id, said.channel));
        let peer = path.and_then(|path| self.peers[path.peer.index()].as_deref());
        let (Some((mut message, split)), Some(peer)) = (answered, peer) else {
            self.free_slot(slot);
            return Err(DropReason::Initiation);
        };
        peer.macs.append(&mut message, None);
        let indices = (index, arrived.sender);
        let made =
            self.made(now, number, indices, Role::Responder, cipher, split, (said.instance, said.stamp), said.hello);
        self.slots[usize::from(slot)] = Slot::Session(Box::new(Session::new(made)));
        let Some(mut path) = self.take(number) else { return Err(DropReason::Initiation) };
        // Steps that were computed may come back in another order.
        let place = path.pending.iter().filter_map(|&slot| self.session(slot)).filter(|other| other.stamp < said.stamp);
        path.pending.insert(place.count(), slot);
        if path.pending.len() > PENDING_MAX {
            let oldest = path.pending.remove(0);
            self.free_slot(oldest);
            self.stats.unconfirmed += 1;
        }
        self.stats.responses_sent += 1;
        self.transmit_from(arrived.local, arrived.from, message);
        self.put_back(number, path);
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "everything that makes a session")]
    pub(super) fn made(
        &mut self,
        now: Time,
        path: u32,
        (index, peer_index): (u32, u32),
        role: Role,
        cipher: Cipher,
        split: Box<Split>,
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
        let slot = self.slot_of(receiver);
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
        let path = self.path(PathId(number)).ok_or(DropReason::UnknownIndex)?;
        let initiator = path.attempts[place].initiator.clone();
        self.compute(now, from, work::Message::Answer(Answer { from, receiver, initiator, noise: noise.to_vec() }))
    }

    /// Takes what an answer came to, unless the attempt has ended meanwhile.
    fn on_finished(
        &mut self,
        now: Time,
        answer: &Answer,
        finished: Option<(Vec<u8>, Box<Split>)>,
    ) -> Result<(), DropReason> {
        let (number, place) = self.attempt(answer.receiver).ok_or(DropReason::UnknownIndex)?;
        let Some(mut path) = self.take(number) else { return Err(DropReason::UnknownIndex) };
        let result = match finished {
            // Another attempt may have got the index.
            _ if !Arc::ptr_eq(&path.attempts[place].initiator, &answer.initiator) => Err(DropReason::UnknownIndex),
            None => {
                path.refusal = Some(RejectReason::Answer);
                self.reject(now, answer.from.address, RejectReason::Answer);
                Err(DropReason::Response)
            }
            Some((payload, split)) => match ResponsePayload::decode(&payload) {
                Some(said) if self.capabilities.accepts(said.cipher) => {
                    self.on_answered(now, number, &mut path, place, answer.from, said, split);
                    Ok(())
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
        split: Box<Split>,
    ) {
        let slot = path.attempts.remove(place).slot;
        let Some(Slot::Initiated { index, .. }) = self.slots.get(usize::from(slot)) else { return };
        let indices = (*index, said.sender);
        let peer = self.peers.get(path.peer.index()).and_then(Option::as_deref);
        if peer.is_some_and(|peer| peer.has_left(now, said.instance)) {
            // An answer that was under way for longer than its process lived.
            self.free_slot(slot);
            return;
        }
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
    fn tell_behind(&mut self, now: Time, id: u32, path: u32, arrived: &Arrived) {
        let Some(peer) = self.peers.get_mut(id as usize).and_then(Option::as_deref_mut) else { return };
        // On this path: another one of the peer may have let it in, on which older timestamps were heard.
        let path = self.paths[path as usize].as_deref();
        let received = path.map_or(Time::ZERO, |path| path.last_received);
        if now < peer.tell_at.max(received + BEHIND_EVERY) {
            return;
        }
        peer.tell_at = now + BEHIND_EVERY;
        let mut nonce = [0; 16];
        self.entropy.fill(&mut nonce);
        let reply = peer.behind.seal(arrived.sender, nonce, peer.greatest(), &arrived.mac1);
        self.stats.behind_sent += 1;
        self.transmit_from(arrived.local, arrived.from, reply);
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
            // Once: a peer that tells more and more is not to set the pace.
            if !path.told {
                path.told = true;
                path.retry_at = Some(now);
                self.next = now;
            }
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
        if let Some(path) = &mut self.paths[number as usize] {
            path.refusal = Some(RejectReason::OtherVersion(version));
        }
        self.reject(now, source, RejectReason::OtherVersion(version));
        Err(DropReason::OtherVersion)
    }

    /// Somebody calls with another public key than this end's, and gets no answer: a stranger, or a peer whose configuration
    /// is wrong. Told so seldom that strangers fill no log.
    fn tell_other_key(&mut self, now: Time, address: SocketAddr) {
        if now >= self.other_key_next {
            self.other_key_next = now + OTHER_KEY_WAIT;
            self.event(Event::Rejected { address, reason: RejectReason::OtherKey });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secure::SeededEntropy;
    use crate::secure::wire::RESPONSE;

    #[test]
    fn a_peer_that_tells_a_greater_timestamp_each_time_does_not_set_the_pace_of_initiations() {
        let [a, b] = [1, 2].map(|byte| PrivateKey::from_bytes([byte; 32]));
        let evil = BehindKey::new(&b, &a.public_key());
        let mut now = Time::from_millis(1000);
        let entropy = Box::new(SeededEntropy::new(3));
        let mut sessions = Sessions::new(Config::default(), a, entropy, Past::forgotten(5), now).unwrap();
        let peer = sessions.add_peer(PeerConfig::new(b.public_key())).unwrap();
        let address = "192.0.2.2:5".parse().unwrap();
        sessions.connect(now, peer, ChannelId(0), SocketId(0), address, Vec::new()).unwrap();
        for round in 0..1000_u64 {
            while let Some(sent) = sessions.poll_transmit() {
                let Ok(Message::Initiation { sender, .. }) = decode(&sent.payload) else { panic!("{sent:?}") };
                let mac1 = sent.payload[sent.payload.len() - 32..][..16].try_into().unwrap();
                let told = evil.seal(sender, [9; 16], (1 << 40) + (round << 20), &mac1);
                assert_eq!(sessions.handle_datagram(now, SocketId(0), address, &told, &mut []), Received::Control);
            }
            now += Span::from_millis(1);
            sessions.handle_timeout(now);
        }
        // At first, once for what was told, and by the clock.
        let sent = sessions.stats().initiations_sent;
        assert!((2..=5).contains(&sent), "{sent} in a second");
    }

    #[test]
    fn indices_differ_in_their_low_halves_also_when_nearly_all_are_in_use() {
        let entropy = Box::new(SeededEntropy::new(3));
        let key = PrivateKey::from_bytes([1; 32]);
        let mut sessions = Sessions::new(Config::default(), key, entropy, Past::forgotten(5), Time::ZERO).unwrap();
        let mut of_slot = HashMap::new();
        let mut low_halves = HashSet::new();
        while let Some((slot, index)) = sessions.allocate(0) {
            assert!(low_halves.insert(index as u16) && of_slot.insert(slot, index).is_none());
        }
        assert_eq!(of_slot.len(), 1 << 16, "as many as there may be");
        assert!(of_slot.iter().all(|(slot, index)| sessions.slot_of(*index) == *slot));
        // One that is free is found again, and what named it before names nothing else.
        let (&slot, &before) = of_slot.iter().next().unwrap();
        sessions.free_slot(slot);
        let (again, index) = sessions.allocate(0).unwrap();
        assert_eq!((again, index as u16, sessions.allocate(0)), (slot, before as u16, None));
    }

    #[test]
    fn forged_answers_wait_to_be_computed_elsewhere_and_end_nothing() {
        let [a, b] = [1, 2].map(|byte| PrivateKey::from_bytes([byte; 32]));
        let (publics, now) = ([a.public_key(), b.public_key()], Time::from_millis(1000));
        let end = |key, seed| {
            let entropy = Box::new(SeededEntropy::new(seed));
            Sessions::new(Config::default(), key, entropy, Past::forgotten(5), now).unwrap()
        };
        let (mut a, mut b) = (end(a, 3), end(b, 4));
        a.offload();
        b.add_peer(PeerConfig::new(publics[0])).unwrap();
        let peer = a.add_peer(PeerConfig::new(publics[1])).unwrap();
        let addresses: [SocketAddr; 2] = ["192.0.2.1:5", "198.51.100.2:5"].map(|address| address.parse().unwrap());
        let path = a.connect(now, peer, ChannelId(0), SocketId(0), addresses[1], Vec::new()).unwrap();
        let initiation = a.poll_transmit().unwrap().payload;
        let Ok(Message::Initiation { sender, .. }) = decode(&initiation) else { panic!("no initiation") };
        b.handle_datagram(now, SocketId(0), addresses[0], &initiation, &mut []);
        let genuine = b.poll_transmit().unwrap().payload;
        // By someone who has seen the initiation.
        let mut forged = handshake_header(RESPONSE, sender).to_vec();
        forged.extend([9; 80]);
        MacKeys::new(&publics[0]).append(&mut forged, None);
        let mut queued = 0;
        for _ in 0..1000 {
            match a.handle_datagram(now, SocketId(0), addresses[1], &forged, &mut []) {
                Received::Queued => queued += 1,
                received => assert_eq!(received, Received::Dropped(DropReason::RateLimited)),
            }
        }
        assert!((1..=16).contains(&queued), "{queued} wait");
        let mut entropy = SeededEntropy::new(5);
        let mut compute = |a: &mut Sessions| {
            while let Some(work) = a.poll_work() {
                a.handle_done(now, work.run(&mut entropy));
            }
        };
        compute(&mut a);
        assert_eq!(a.stats().dropped(DropReason::Response), queued);
        for _ in 0..2 {
            assert_eq!(a.handle_datagram(now, SocketId(0), addresses[1], &genuine, &mut []), Received::Queued);
        }
        compute(&mut a);
        assert!(a.can_seal(path));
        assert_eq!((a.stats().handshakes, a.stats().dropped(DropReason::UnknownIndex)), (1, 1), "twice is once");
    }

    #[test]
    fn where_there_is_no_room_nothing_is_hashed_for_who_claims_proof_and_who_has_none_is_still_asked_for_it() {
        let [a, b] = [1, 2].map(|byte| PrivateKey::from_bytes([byte; 32]));
        let (key, now) = (b.public_key(), Time::from_millis(1000));
        let config = Config { handshakes_per_second: 1, ..Config::default() };
        let end = |key, seed| {
            let entropy = Box::new(SeededEntropy::new(seed));
            Sessions::new(config.clone(), key, entropy, Past::forgotten(5), now).unwrap()
        };
        let (mut a, mut b) = (end(a, 3), end(b, 4));
        b.offload();
        let peer = a.add_peer(PeerConfig::new(key)).unwrap();
        a.connect(now, peer, ChannelId(0), SocketId(0), "198.51.100.2:5".parse().unwrap(), Vec::new()).unwrap();
        let plain = a.poll_transmit().unwrap().payload;
        let from = |n: usize| format!("203.0.113.{n}:5").parse().unwrap();
        let take = |b: &mut Sessions, n: usize, datagram: &[u8]| {
            b.handle_datagram(now, SocketId(0), from(n), datagram, &mut [])
        };
        // The first is let in; the next one is asked for proof, and gives it.
        assert_eq!(take(&mut b, 0, &plain), Received::Queued);
        assert_eq!(take(&mut b, 1, &plain), Received::Dropped(DropReason::CookieDemanded));
        let reply = b.poll_transmit().unwrap().payload;
        let Ok(Message::CookieReply { nonce, sealed, .. }) = decode(&reply) else { panic!("no cookie") };
        let (rest, _) = plain.split_last_chunk::<16>().unwrap();
        let (body, mac1) = rest.split_last_chunk::<16>().unwrap();
        let keys = MacKeys::new(&key);
        let cookie = keys.open_cookie(nonce, sealed, mac1).unwrap();
        let mut proven = body.to_vec();
        keys.append(&mut proven, Some(&cookie));
        let queued = (0..20).filter(|_| take(&mut b, 1, &proven) == Received::Queued).count();
        assert!((1..20).contains(&queued), "a network has a bound: {queued}");
        // Nothing of it is right, and nobody looks at that.
        let mut forged = proven.clone();
        let place = forged.len() - 20;
        forged[place] ^= 1;
        assert_eq!(take(&mut b, 1, &forged), Received::Dropped(DropReason::RateLimited));
        assert_eq!(
            take(&mut b, 1, &plain),
            Received::Dropped(DropReason::CookieDemanded),
            "it may have come by chance"
        );
        while b.poll_work().is_some() {}
        assert_eq!(take(&mut b, 1, &forged), Received::Dropped(DropReason::BadMac));
        assert_eq!(take(&mut b, 1, &proven), Received::Queued);
    }
}
