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
            // That it is tried is the first question.
            path.question = Some(now);
        }
        self.refresh(now, path);
    }

    /// Asks the peer for a sign of life by this way or another; it answers by the same.
    pub fn ask_by(&mut self, now: Time, path: PathId, by: Endpoint) {
        let Some(mut taken) = self.take(path.0) else { return };
        if let Some(slot) = taken.current {
            self.send_empty(now, &mut taken, by, slot, FLAG_ASK);
            if taken.endpoint.is_some_and(|endpoint| endpoint.socket == by.socket) {
                taken.question.get_or_insert(now);
            }
        }
        self.put_back(path.0, taken);
    }

    /// By which other socket something authentic came on a path that is led, since that was asked last.
    pub fn heard_elsewhere(&mut self, path: PathId) -> Option<SocketId> {
        self.paths.get_mut(path.index()).and_then(Option::as_deref_mut)?.elsewhere.take()
    }

    /// When the peer was heard last, if something was sent on the path since, or there are no keys.
    pub fn silent_since(&self, path: PathId) -> Option<Time> {
        let silent = |path: &&Path| path.current.is_none() || path.unanswered_since.is_some();
        self.path(path).filter(silent).map(|path| path.last_received)
    }

    /// Since when questions by the way in use are not [answered](Self::ask_by), whatever else the peer sends: so what is sent to it may
    /// not arrive. Without keys, since ever.
    pub fn unanswered_since(&self, path: PathId) -> Option<Time> {
        let path = self.path(path)?;
        if path.current.is_none() { Some(Time::ZERO) } else { path.question }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secure::pair::pair;

    const UDP: SocketId = SocketId(1);
    const TCP: SocketId = SocketId(2);

    /// Moves datagrams between a caller, whose ways are by two sockets, and a responder with two; `passes` says what gets through, by
    /// the socket and whether the caller sends it.
    fn exchange(now: Time, a: &mut Sessions, b: &mut Sessions, passes: impl Fn(SocketId, bool) -> bool) {
        let address = |socket: SocketId| SocketAddr::from(([192, 0, 2, 1], 1000 + socket.0 as u16));
        for _ in 0..8 {
            while let Some(sent) = a.poll_transmit() {
                if passes(sent.socket, true) {
                    b.handle_datagram(now, sent.socket, address(sent.socket), &sent.payload, &mut [0; 2048]);
                }
            }
            while let Some(sent) = b.poll_transmit() {
                if passes(sent.socket, false) {
                    let from = SocketAddr::from(([192, 0, 2, 2], 1000 + sent.socket.0 as u16));
                    a.handle_datagram(now, sent.socket, from, &sent.payload, &mut [0; 2048]);
                }
            }
        }
    }

    /// A caller whose path is led, by UDP at first, and the end that it calls; with the two ways, and the time.
    struct Led {
        a: Sessions,
        b: Sessions,
        path: PathId,
        ends: [Endpoint; 2],
        now: Time,
    }

    impl Led {
        fn new() -> Led {
            let now = Time::from_millis(1000);
            let (mut a, mut b, peer) = pair(now);
            let ends = [UDP, TCP]
                .map(|socket| Endpoint { socket, address: SocketAddr::from(([192, 0, 2, 2], 1000 + socket.0 as u16)) });
            let path = a.connect(now, peer, ChannelId(0), UDP, ends[0].address, Vec::new()).unwrap();
            a.pin(path);
            exchange(now, &mut a, &mut b, |_, _| true);
            assert!(a.can_seal(path) && a.silent_since(path).is_none());
            Led { a, b, path, ends, now }
        }
    }

    #[test]
    fn what_the_peer_sends_of_itself_answers_no_question_and_its_answers_by_the_way_in_use_do() {
        let Led { mut a, mut b, path, ends, mut now } = Led::new();
        let theirs = PathId(0);
        a.ask_by(now, path, ends[0]);
        let asked = now;
        // Nothing of what the caller sends arrives any more.
        for _ in 0..100 {
            exchange(now, &mut a, &mut b, |_, calls| !calls);
            now += Span::from_millis(100);
            let mut data = [0; 100];
            let len = b.seal(now, theirs, 0, &[], b"data", &mut data).unwrap();
            let received = a.handle_datagram(now, UDP, ends[0].address, &data[..len], &mut [0; 100]);
            assert!(matches!(received, Received::Data(_)), "{received:?}");
            b.refresh(now, theirs);
            a.ask_by(now, path, ends[0]);
        }
        assert_eq!((a.unanswered_since(path), a.silent_since(path)), (Some(asked), None));
        // By the other way it does. An answer that comes there tells nothing of this one.
        a.ask_by(now, path, ends[1]);
        exchange(now, &mut a, &mut b, |socket, calls| !calls || socket == TCP);
        assert_eq!((a.heard_elsewhere(path), a.unanswered_since(path)), (Some(TCP), Some(asked)));
        a.ask_by(now, path, ends[0]);
        exchange(now, &mut a, &mut b, |_, _| true);
        assert_eq!(a.unanswered_since(path), None);
    }

    #[test]
    fn a_path_that_is_led_stays_until_it_is_led_on_and_its_peer_follows_at_once_without_a_handshake() {
        let Led { mut a, mut b, path, ends, mut now } = Led::new();
        let passes = |socket| move |by: SocketId, _| by == socket;
        let theirs = |b: &Sessions| b.endpoint(PathId(0)).map(|end| end.socket);
        assert_eq!(theirs(&b), Some(UDP));

        // Nothing passes by UDP any more.
        now += Span::from_secs(1);
        a.lead(now, path, ends[1]);
        exchange(now, &mut a, &mut b, passes(TCP));
        assert_eq!((theirs(&b), a.silent_since(path)), (Some(TCP), None));

        // Asked by UDP, in vain: the peer is back as soon as something newer comes by TCP.
        now += Span::from_secs(1);
        a.ask_by(now, path, ends[0]);
        exchange(now, &mut a, &mut b, passes(TCP));
        assert_eq!((a.heard_elsewhere(path), theirs(&b)), (None, Some(TCP)));

        // It passes again: the caller hears of it, and stays until it is led on.
        a.ask_by(now, path, ends[0]);
        exchange(now, &mut a, &mut b, |_, _| true);
        assert_eq!(a.endpoint(path), Some(ends[1]));
        assert_eq!((a.heard_elsewhere(path), a.heard_elsewhere(path)), (Some(UDP), None));
        a.lead(now, path, ends[0]);
        exchange(now, &mut a, &mut b, |_, _| true);
        assert_eq!((theirs(&b), a.endpoint(path)), (Some(UDP), Some(ends[0])));
        assert_eq!((a.stats().handshakes, b.stats().handshakes), (1, 1));
        let roamed = std::iter::from_fn(|| a.poll_event()).any(|event| matches!(event, Event::Roamed { .. }));
        assert!(!roamed, "nobody moved the caller but its driver");
    }
}
