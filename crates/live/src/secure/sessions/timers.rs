//! What is due on the paths of the [`Sessions`]: proofs asked for, keepalives, new keys, and peers given up.

use super::*;

impl Sessions {
    pub(super) fn lose(&mut self, number: u32, path: &mut Path, reason: LostReason) {
        if path.state == State::Up {
            path.state = State::Down;
            self.event(Event::Lost { path: PathId(number), peer: path.peer, channel: path.channel, reason });
        }
    }

    /// Sends an empty packet on the session in `slot`.
    pub(super) fn send_empty(&mut self, now: Time, path: &mut Path, to: Endpoint, slot: u16, flags: u8) {
        let (padding, mut payload) = (self.padding(0), vec![0; self.sealed_len(0)]);
        let Some(Slot::Session(session)) = self.slots.get_mut(usize::from(slot)) else { return };
        if session.seal(now, flags, padding, (&[], &[]), &mut payload).is_ok() {
            path.last_sent = now;
            self.transmit_from(path.source(to), to, payload);
        }
    }

    pub(super) fn ask(&mut self, now: Time, path: &mut Path) {
        if let Some(slot) = path.current {
            if let Some(to) = path.endpoint {
                self.send_empty(now, path, to, slot, FLAG_ASK);
            }
            path.on_asked(now);
        }
    }

    // --- timers ---

    pub(super) fn deadline(&self, path: &Path) -> Time {
        let config = &self.config;
        let mut next = Time::MAX;
        let mut at = |time: Option<Time>| next = next.min(time.unwrap_or(Time::MAX));
        for session in path.older.iter().filter_map(|&slot| self.session(slot)) {
            at(Some(session.reject_at));
        }
        for session in path.pending.iter().filter_map(|&slot| self.session(slot)) {
            at(Some(session.created + config.confirm_within));
        }
        if let Some(session) = path.current.and_then(|slot| self.session(slot)) {
            at(Some(session.reject_at));
            if path.retry_at.is_none() && path.may_try() {
                at(Some(if path.rekey_wanted || path.untold { Time::ZERO } else { session.rekey_at }));
            }
        }
        at(path.retry_at);
        at(path.ask_at(config));
        at(path.silent_at(config));
        at(path.lost_at(config));
        at(path.keepalive_at());
        next
    }

    pub(super) fn service(&mut self, now: Time, number: u32, path: &mut Path) {
        self.expire(now, number, path);
        let due = |time: Option<Time>| time.is_some_and(|time| time <= now);
        if due(path.lost_at(&self.config)) {
            self.lose(number, path, LostReason::Silent);
        }
        let rekey = path
            .current
            .and_then(|slot| self.session(slot))
            .is_some_and(|session| path.rekey_wanted || path.untold || session.rekey_at <= now);
        if due(path.retry_at) {
            if path.may_try() {
                self.initiate(now, number, path);
            } else {
                // Rests until the peer speaks, or until the driver asks.
                let tries = path.tries;
                self.drop_attempts(path);
                path.tries = tries;
            }
        } else if path.retry_at.is_none() && path.may_try() && (rekey || due(path.silent_at(&self.config))) {
            self.initiate(now, number, path);
        }
        if due(path.ask_at(&self.config)) {
            self.ask(now, path);
        }
        if due(path.keepalive_at()) {
            if let (Some(slot), Some(to)) = (path.current, path.endpoint) {
                self.send_empty(now, path, to, slot, 0);
            }
            path.last_sent = now;
        }
    }

    /// Forgets what is past its time.
    pub(super) fn expire(&mut self, now: Time, number: u32, path: &mut Path) {
        let expired =
            |sessions: &Sessions, slot: u16| sessions.session(slot).is_none_or(|session| session.reject_at <= now);
        for slot in std::mem::take(&mut path.older) {
            if expired(self, slot) {
                self.free_slot(slot);
            } else {
                path.older.push(slot);
            }
        }
        for slot in std::mem::take(&mut path.pending) {
            if self.session(slot).is_none_or(|session| session.created + self.config.confirm_within <= now) {
                self.free_slot(slot);
                self.stats.unconfirmed += 1;
            } else {
                path.pending.push(slot);
            }
        }
        if let Some(slot) = path.current.filter(|&slot| expired(self, slot)) {
            self.free_slot(slot);
            path.current = None;
            path.unanswered_since = None;
            path.rekey_wanted = false;
            path.proof_wait = None;
            self.lose(number, path, LostReason::Expired);
            if path.persistent && path.retry_at.is_none() {
                path.retry_at = Some(now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secure::pair::pair;

    const SOCKET: SocketId = SocketId(1);

    /// Moves what waits between a caller and an end that is called at `local`; from which addresses the latter sent.
    fn exchange(now: Time, a: &mut Sessions, b: &mut Sessions, local: IpAddr) -> Vec<Option<IpAddr>> {
        let [caller, called] = [1, 2].map(|host| SocketAddr::from(([192, 0, 2, host], 1000)));
        let mut sources = Vec::new();
        for _ in 0..8 {
            while let Some(sent) = a.poll_transmit() {
                b.handle_datagram_to(now, SOCKET, (caller, Some(local)), &sent.payload, &mut [0; 2048]);
            }
            while let Some(sent) = b.poll_transmit() {
                sources.push(sent.source);
                let at = Some(caller.ip());
                a.handle_datagram_to(now, SOCKET, (called, at), &sent.payload, &mut [0; 2048]);
            }
        }
        sources
    }

    #[test]
    fn what_the_called_end_sends_of_itself_leaves_from_the_address_that_was_called_last() {
        let mut now = Time::from_millis(1000);
        let (mut a, mut b, peer) = pair(now);
        let [first, other] = [7, 8].map(|host| IpAddr::from([192, 0, 2, host]));
        let called = SocketAddr::from(([192, 0, 2, 2], 1000));
        let ours = a.connect(now, peer, ChannelId(0), SOCKET, called, Vec::new()).expect("a path");
        let answers = exchange(now, &mut a, &mut b, first);
        assert!(!answers.is_empty() && answers[1..].iter().all(|source| *source == Some(first)), "{answers:?}");
        let theirs = PathId(0);
        assert_eq!((a.source(ours), b.source(theirs)), (None, Some(first)), "before any data");

        // A question, which nothing from the peer brought about.
        now += Span::from_secs(1);
        b.refresh(now, theirs);
        assert_eq!(exchange(now, &mut a, &mut b, first).first(), Some(&Some(first)));

        // Nor has it to do with anything but the newest packet.
        now += Span::from_secs(1);
        a.refresh(now, ours);
        exchange(now, &mut a, &mut b, other);
        b.refresh(now, theirs);
        assert_eq!(exchange(now, &mut a, &mut b, other).first(), Some(&Some(other)));

        // And so does a new handshake that this end begins.
        now += Span::from_secs(1);
        b.say(now, theirs, vec![1]).expect("a short hello");
        assert_eq!(exchange(now, &mut a, &mut b, other).first(), Some(&Some(other)));
    }
}
