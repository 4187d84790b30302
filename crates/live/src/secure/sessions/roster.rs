//! Which peers and paths there are. The number of a path that was removed is given again, so that their count is bounded by what there
//! is at one time, however often a peer opens a channel that this end removes.

use super::*;

impl Sessions {
    /// Accepts a peer from now on.
    ///
    /// # Errors
    /// The peer exists, is this end itself, or has too long a hello.
    pub fn add_peer(&mut self, config: PeerConfig) -> Result<PeerId, AddPeerError> {
        if config.public_key == self.public {
            return Err(AddPeerError::OwnKey);
        }
        if self.by_key.contains_key(&config.public_key) {
            return Err(AddPeerError::Exists(config.public_key));
        }
        if config.hello.len() > HELLO_MAX {
            return Err(AddPeerError::HelloTooLong(config.hello.len()));
        }
        let number = self.peers.len() as u32;
        self.by_key.insert(config.public_key, number);
        let macs = MacKeys::new(&config.public_key);
        let channels = usize::from(self.config.channels_per_peer);
        let peer = Peer {
            macs,
            behind: BehindKey::new(&self.private, &config.public_key),
            tell_at: self.started + BEHIND_EVERY,
            paths: vec![None; channels],
            remembered: self.remembered.remove(&config.public_key).unwrap_or(0),
            heard: vec![0; channels],
            floor: 0,
            instance: None,
            former: VecDeque::new(),
            config,
        };
        self.peers.push(Some(Box::new(peer)));
        Ok(PeerId(number))
    }

    /// The peer with this key, where there is one.
    pub fn peer(&self, key: PublicKey) -> Option<PeerId> {
        self.by_key.get(&key).map(|number| PeerId(*number))
    }

    /// Forgets a peer, its paths and their keys. No event follows.
    pub fn remove_peer(&mut self, peer: PeerId) {
        if let Some(removed) = self.peers.get_mut(peer.index()).and_then(Option::take) {
            self.by_key.remove(&removed.config.public_key);
            self.remembered.insert(removed.config.public_key, removed.greatest());
            for path in removed.paths.iter().flatten() {
                self.forget_path(*path);
            }
        }
    }

    /// Forgets a path and its keys. No event follows; the peer may open it again.
    pub fn remove_path(&mut self, path: PathId) {
        if let Some(found) = self.path(path) {
            let (peer, channel) = (found.peer, found.channel);
            if let Some(peer) = self.peers.get_mut(peer.index()).and_then(Option::as_deref_mut) {
                peer.paths[channel.index()] = None;
            }
            self.forget_path(path.0);
        }
    }

    fn forget_path(&mut self, path: u32) {
        if let Some(removed) = self.paths.get_mut(path as usize).and_then(Option::take) {
            removed.slots().for_each(|slot| self.free_slot(slot));
            self.events.retain(|event| event.path() != Some(PathId(path)));
            self.free_paths.push(path);
        }
    }

    /// The path of a channel, made if need be. With no other call it accepts what the peer opens.
    pub(super) fn path_of(&mut self, peer: PeerId, channel: ChannelId) -> Result<u32, ConnectError> {
        let known = self.peers.get_mut(peer.index()).and_then(Option::as_deref_mut).ok_or(ConnectError::UnknownPeer)?;
        let entry = known.paths.get_mut(channel.index()).ok_or(ConnectError::Channel(channel))?;
        if let Some(path) = *entry {
            return Ok(path);
        }
        let number = self.free_paths.pop().unwrap_or(self.paths.len() as u32);
        *entry = Some(number);
        if self.paths.len() <= number as usize {
            self.paths.push(None);
        }
        self.paths[number as usize] = Some(Box::new(Path::new(peer, channel, known.config.keepalive)));
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secure::pair::pair;

    const ENDS: [&str; 2] = ["192.0.2.1:1000", "192.0.2.2:1000"];

    /// Moves datagrams between the two until none is left; the last that the first one sent.
    fn exchange(now: Time, a: &mut Sessions, b: &mut Sessions) -> Vec<u8> {
        let [at_a, at_b] = ENDS.map(|end| end.parse().unwrap());
        let mut last = Vec::new();
        for _ in 0..8 {
            while let Some(sent) = a.poll_transmit() {
                b.handle_datagram(now, SocketId(0), at_a, &sent.payload, &mut [0; 2048]);
                last = sent.payload;
            }
            while let Some(sent) = b.poll_transmit() {
                a.handle_datagram(now, SocketId(0), at_b, &sent.payload, &mut [0; 2048]);
            }
        }
        last
    }

    #[test]
    fn paths_that_come_and_go_take_no_more_numbers_than_there_are_at_one_time_and_leave_nothing() {
        let mut now = Time::from_millis(1000);
        let (mut a, mut b, peer) = pair(now);
        let theirs = b.by_key.values().next().copied().map(PeerId).unwrap();
        let to = ENDS[1].parse().unwrap();
        let kept = a.connect(now, peer, ChannelId(9), SocketId(0), to, Vec::new()).unwrap();
        for round in 0..200_u8 {
            let channel = ChannelId(round % 4);
            let path = a.connect(now, peer, channel, SocketId(0), to, vec![round]).unwrap();
            let last = exchange(now, &mut a, &mut b);
            assert!(a.can_seal(path) && a.can_seal(kept), "round {round}");
            let established = std::iter::from_fn(|| b.poll_event()).filter_map(|event| match event {
                Event::Established { path, channel: of, hello, .. } if of == channel => Some((path, hello)),
                _ => None,
            });
            let (other, hello) = established.last().expect("the peer's end");
            assert_eq!(hello, [round]);
            // Events that nobody has fetched go with the path, which is not told of any more.
            a.remove_path(path);
            b.remove_path(other);
            assert!(a.events.iter().all(|event| event.path() != Some(path)) && !a.can_seal(path));
            let late = b.handle_datagram(now, SocketId(0), ENDS[0].parse().unwrap(), &last, &mut [0; 2048]);
            assert_eq!(late, Received::Dropped(DropReason::UnknownIndex));
            assert!(a.paths.len().max(b.paths.len()) <= 2, "round {round}: {} {}", a.paths.len(), b.paths.len());
            while a.poll_event().is_some() {}
            now += Span::from_millis(100);
        }
        b.remove_peer(theirs);
        assert_eq!(b.free_paths.len(), b.paths.len());
        assert!(b.slots.iter().all(|slot| matches!(slot, Slot::Free)));
    }

    #[test]
    fn an_answer_that_was_computed_for_a_path_that_is_gone_is_not_given_to_another_one_of_its_number() {
        let now = Time::from_millis(1000);
        let (mut a, mut b, peer) = pair(now);
        b.offload();
        let (from, to) = (ENDS[0].parse().unwrap(), ENDS[1].parse().unwrap());
        a.connect(now, peer, ChannelId(1), SocketId(0), to, Vec::new()).unwrap();
        let call = a.poll_transmit().unwrap().payload;
        assert_eq!(b.handle_datagram(now, SocketId(0), from, &call, &mut [0; 2048]), Received::Queued);
        let mut entropy = crate::secure::SeededEntropy::new(3);
        let read = b.poll_work().unwrap().run(&mut entropy);
        b.handle_done(now, read);
        let answer = b.poll_work().expect("the second step").run(&mut entropy);
        let theirs = b.by_key.values().next().copied().map(PeerId).unwrap();
        b.remove_path(PathId(0));
        let other = b.connect(now, theirs, ChannelId(2), SocketId(0), from, Vec::new()).unwrap();
        assert_eq!(other, PathId(0), "the number is given again");
        while b.poll_transmit().is_some() {}
        b.handle_done(now, answer);
        assert!(b.poll_transmit().is_none() && b.path(other).unwrap().pending.is_empty());
    }
}
