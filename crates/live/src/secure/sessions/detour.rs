//! Paths that the driver leads by other ways: it decides which, and learns what comes by the others.
//!
//! A path that is led does not follow its peer from one socket to another. If both ends did, each would follow where the other was a
//! way's delay before, and they could change places for ever. So one end leads, and the other follows the newest packet as always.

use super::*;

impl Sessions {
    /// From now on the driver leads the path: it stays with its socket until [`lead`](Self::lead).
    pub fn pin(&mut self, path: PathId) {
        if let Some(path) = self.paths.get_mut(path.index()).and_then(Option::as_deref_mut) {
            path.pinned = true;
        }
    }

    /// The path goes by `to` from now on, and is tried at once.
    pub fn lead(&mut self, now: Time, path: PathId, to: Endpoint) {
        if let Some(path) = self.paths.get_mut(path.index()).and_then(Option::as_deref_mut) {
            (path.configured, path.endpoint, path.elsewhere) = (Some(to), Some(to), None);
        }
        self.refresh(now, path);
    }

    /// Asks the peer for a sign of life by another way; it answers by the same.
    pub fn ask_by(&mut self, now: Time, path: PathId, by: Endpoint) {
        let Some(mut taken) = self.take(path.0) else { return };
        if let Some(slot) = taken.current {
            self.send_empty(now, &mut taken, by, slot, FLAG_ASK);
        }
        self.put_back(path.0, taken);
    }

    /// By which other socket something authentic came on a path that is led, since that was asked last.
    pub fn heard_elsewhere(&mut self, path: PathId) -> Option<SocketId> {
        self.paths.get_mut(path.index()).and_then(Option::as_deref_mut)?.elsewhere.take()
    }

    /// Whether the peer owes a path an answer; and when it was heard last.
    pub fn waits(&self, path: PathId) -> (bool, Time) {
        self.path(path).map_or((false, Time::ZERO), |path| {
            (path.current.is_none() || path.unanswered_since.is_some(), path.last_received)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secure::SeededEntropy;

    const UDP: SocketId = SocketId(1);
    const TCP: SocketId = SocketId(2);

    /// Moves datagrams between a caller, whose ways are by two sockets, and a responder with two; `passes` says what gets through.
    fn exchange(now: Time, a: &mut Sessions, b: &mut Sessions, passes: impl Fn(SocketId) -> bool) {
        let address = |socket: SocketId| SocketAddr::from(([192, 0, 2, 1], 1000 + socket.0 as u16));
        for _ in 0..8 {
            while let Some(sent) = a.poll_transmit() {
                if passes(sent.socket) {
                    b.handle_datagram(now, sent.socket, address(sent.socket), &sent.payload, &mut [0; 2048]);
                }
            }
            while let Some(sent) = b.poll_transmit() {
                if passes(sent.socket) {
                    let from = SocketAddr::from(([192, 0, 2, 2], 1000 + sent.socket.0 as u16));
                    a.handle_datagram(now, sent.socket, from, &sent.payload, &mut [0; 2048]);
                }
            }
        }
    }

    #[test]
    fn a_path_that_is_led_stays_until_it_is_led_on_and_its_peer_follows_at_once_without_a_handshake() {
        let keys = [1, 2].map(|byte| PrivateKey::from_bytes([byte; 32]));
        let mut now = Time::from_millis(1000);
        let [mut a, mut b] = keys.each_ref().map(|key| {
            let entropy = Box::new(SeededEntropy::new(7));
            Sessions::new(Config::default(), key.clone(), entropy, Past::forgotten(5), now).unwrap()
        });
        let peer = a.add_peer(PeerConfig::new(keys[1].public_key())).unwrap();
        b.add_peer(PeerConfig::new(keys[0].public_key())).unwrap();
        let ends = [UDP, TCP]
            .map(|socket| Endpoint { socket, address: SocketAddr::from(([192, 0, 2, 2], 1000 + socket.0 as u16)) });
        let path = a.connect(now, peer, ChannelId(0), UDP, ends[0].address, Vec::new()).unwrap();
        a.pin(path);
        exchange(now, &mut a, &mut b, |_| true);
        assert!(a.can_seal(path) && !a.waits(path).0);
        let theirs = |b: &Sessions| b.endpoint(PathId(0)).map(|end| end.socket);
        assert_eq!(theirs(&b), Some(UDP));

        // Nothing passes by UDP any more.
        now += Span::from_secs(1);
        a.lead(now, path, ends[1]);
        exchange(now, &mut a, &mut b, |socket| socket == TCP);
        assert_eq!((theirs(&b), a.waits(path)), (Some(TCP), (false, now)));

        // Asked by UDP, in vain: the peer is back as soon as something newer comes by TCP.
        now += Span::from_secs(1);
        a.ask_by(now, path, ends[0]);
        exchange(now, &mut a, &mut b, |socket| socket == TCP);
        assert_eq!((a.heard_elsewhere(path), theirs(&b)), (None, Some(TCP)));

        // It passes again: the caller hears of it, and stays until it is led on.
        a.ask_by(now, path, ends[0]);
        exchange(now, &mut a, &mut b, |_| true);
        assert_eq!(a.endpoint(path), Some(ends[1]));
        assert_eq!((a.heard_elsewhere(path), a.heard_elsewhere(path)), (Some(UDP), None));
        a.lead(now, path, ends[0]);
        exchange(now, &mut a, &mut b, |_| true);
        assert_eq!((theirs(&b), a.endpoint(path)), (Some(UDP), Some(ends[0])));
        assert_eq!((a.stats().handshakes, b.stats().handshakes), (1, 1));
        let roamed = std::iter::from_fn(|| a.poll_event()).any(|event| matches!(event, Event::Roamed { .. }));
        assert!(!roamed, "nobody moved the caller but its driver");
    }
}
