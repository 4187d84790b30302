//! Explicit congestion notification of one end: what is agreed, what is echoed, what is answered.
//!
//! What it is: the ECN field of segments that go out, the flags ECE and CWR, and which echo begins an episode. Source: RFC 3168,
//! section 6.1 (`on`); RFC 8257, sections 3.2 and 3.3 (`dctcp`).
//!
//! | RFC 3168 | here |
//! |---|---|
//! | ECN-setup SYN (ECE and CWR), SYN-ACK (ECE) | [`Marks::syn`] |
//! | ECE on every ACK until CWR comes | `echo`, with `on` |
//! | CWR on the first new data after a reduction | `reduced` |
//! | at most one reduction a window of data | `until` |
//!
//! Departures: with `on`, segments sent again, bare ACKs and probes of windows are not capable (6.1.4 to 6.1.6); with `dctcp` what is sent again is,
//! as in Linux. With `dctcp` a change of what arrives is acknowledged at once, with the new state for all that it acknowledges.
//! Cost: O(1) a segment.

use super::config::{Config, Ecn};
use super::segment::{Flags, Mark, Segment};

/// One end's part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marks {
    mode: Ecn,
    /// Both ends want it.
    agreed: bool,
    /// What ACKs say: marked.
    echo: bool,
    /// The next new data tells that the window was reduced.
    reduced: bool,
    /// The window of data that has been answered ends here.
    until: u64,
}

impl Marks {
    pub(super) fn new(config: &Config) -> Marks {
        // Without a handshake the peer is taken to have the same settings.
        let agreed = config.ecn != Ecn::Off && !config.handshake;
        Marks { mode: config.ecn, agreed, echo: false, reduced: false, until: 0 }
    }

    /// The flags of our SYN, or of the SYN that answers one.
    pub(super) fn syn(&self, answer: bool) -> Flags {
        match (self.mode, answer) {
            (Ecn::Off, _) => Flags::default(),
            (_, false) => Flags::ECE.with(Flags::CWR),
            (_, true) if self.agreed => Flags::ECE,
            (_, true) => Flags::default(),
        }
    }

    /// The peer's SYN has come.
    pub(super) fn on_syn(&mut self, flags: Flags) {
        let asks = flags.has(Flags::ECE.with(Flags::CWR));
        let agrees = flags.has(Flags::ECE) && !flags.has(Flags::CWR);
        let wanted = if flags.has(Flags::ACK) { agrees } else { asks };
        self.agreed = self.mode != Ecn::Off && wanted;
    }

    /// Payload has come; whether it has to be acknowledged at once.
    pub(super) fn on_payload(&mut self, segment: &Segment) -> bool {
        if !self.agreed {
            return false;
        }
        let marked = segment.mark == Mark::Experienced;
        if self.mode == Ecn::Dctcp {
            return std::mem::replace(&mut self.echo, marked) != marked;
        }
        if segment.flags.has(Flags::CWR) {
            self.echo = false;
        }
        self.echo |= marked;
        false
    }

    /// What a segment that is no SYN says: flags, and the field of its IP header. `new`: payload that goes for the first time.
    pub(super) fn on_send(&mut self, payload: bool, new: bool) -> (Flags, Mark) {
        if !self.agreed {
            return (Flags::default(), Mark::default());
        }
        let mut flags = if self.echo { Flags::ECE } else { Flags::default() };
        if new && std::mem::take(&mut self.reduced) {
            flags = flags.with(Flags::CWR);
        }
        let capable = payload && (new || self.mode == Ecn::Dctcp);
        (flags, if capable { Mark::Capable } else { Mark::default() })
    }

    /// An ACK up to `una` has come, `next` is what will be sent next: whether it echoes a mark, and whether that begins an
    /// episode.
    pub(super) fn on_acknowledgment(&mut self, flags: Flags, una: u64, next: u64) -> Option<bool> {
        if !self.agreed || !flags.has(Flags::ECE) || flags.has(Flags::SYN) {
            return None;
        }
        let begins = una >= self.until;
        if begins {
            self.until = next;
            self.reduced = true;
        }
        Some(begins)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(ecn: Ecn) -> Marks {
        Marks::new(&Config { ecn, ..Config::default() })
    }

    const DATA: Segment = Segment {
        sequence: 0,
        acknowledgment: 0,
        length: 1000,
        flags: Flags::ACK,
        window: 0,
        urgent: 0,
        mark: Mark::Capable,
        options: NONE,
    };
    const NONE: super::super::segment::Options = super::super::segment::Options {
        mss: None,
        window_scale: None,
        sack_permitted: false,
        timestamps: None,
        sack: [(0, 0); 4],
        sack_count: 0,
    };

    /// Two ends after their SYNs.
    fn pair(client: Ecn, server: Ecn) -> [Marks; 2] {
        let [mut client, mut server] = [client, server].map(marks);
        server.on_syn(Flags::SYN.with(client.syn(false)));
        client.on_syn(Flags::SYN.with(Flags::ACK).with(server.syn(true)));
        [client, server]
    }

    // RFC 3168, 6.1.1.
    #[test]
    fn it_is_in_use_where_both_ends_want_it() {
        for (client, server, agreed) in [
            (Ecn::On, Ecn::On, true),
            (Ecn::On, Ecn::Off, false),
            (Ecn::Off, Ecn::On, false),
            (Ecn::Dctcp, Ecn::Dctcp, true),
        ] {
            let ends = pair(client, server);
            assert_eq!(ends.map(|end| end.agreed), [agreed; 2], "{client:?} {server:?}");
            let field = if agreed { Mark::Capable } else { Mark::Incapable };
            assert_eq!(ends.map(|mut end| end.on_send(true, true)), [(Flags::default(), field); 2]);
        }
        assert_eq!(marks(Ecn::On).syn(false), Flags::ECE.with(Flags::CWR));
        // An answer that repeats both flags is that of an end which knows nothing of them.
        let mut client = marks(Ecn::On);
        client.on_syn(Flags::SYN.with(Flags::ACK).with(Flags::ECE).with(Flags::CWR));
        assert!(!client.agreed);
    }

    // RFC 3168, 6.1.2 and 6.1.3.
    #[test]
    fn a_mark_is_echoed_until_the_sender_says_that_it_has_reduced_once_a_window() {
        let [mut sender, mut receiver] = pair(Ecn::On, Ecn::On);
        receiver.on_payload(&DATA);
        assert_eq!(receiver.on_send(false, false), (Flags::default(), Mark::Incapable));
        receiver.on_payload(&Segment { mark: Mark::Experienced, ..DATA });
        receiver.on_payload(&DATA);
        let (echo, _) = receiver.on_send(false, false);
        assert_eq!(echo, Flags::ECE, "also after data without a mark");
        // Of a window of data up to 9000 the first echo begins an episode, and no other.
        assert_eq!(sender.on_acknowledgment(echo.with(Flags::ACK), 1000, 9000), Some(true));
        assert_eq!(sender.on_acknowledgment(echo.with(Flags::ACK), 2000, 9500), Some(false));
        let (again, field) = sender.on_send(true, false);
        assert_eq!((again, field), (Flags::default(), Mark::Incapable), "what is sent again says nothing");
        let (told, field) = sender.on_send(true, true);
        assert_eq!((told, field), (Flags::CWR, Mark::Capable));
        assert_eq!(sender.on_send(true, true).0, Flags::default(), "once");
        receiver.on_payload(&Segment { flags: Flags::ACK.with(Flags::CWR), ..DATA });
        assert_eq!(receiver.on_send(false, false).0, Flags::default());
        assert_eq!(sender.on_acknowledgment(Flags::ACK, 9000, 12_000), None);
        assert_eq!(sender.on_acknowledgment(Flags::ACK.with(Flags::ECE), 9000, 12_000), Some(true));
    }

    // RFC 8257, 3.2.
    #[test]
    fn with_dctcp_each_change_is_told_at_once_and_each_ack_says_what_came() {
        let [_, mut receiver] = pair(Ecn::Dctcp, Ecn::Dctcp);
        let marked = Segment { mark: Mark::Experienced, ..DATA };
        let at_once = [DATA, marked, marked, DATA, DATA].map(|segment| receiver.on_payload(&segment));
        assert_eq!(at_once, [false, true, false, true, false]);
        receiver.on_payload(&marked);
        assert_eq!(receiver.on_send(false, false).0, Flags::ECE);
        receiver.on_payload(&DATA);
        assert_eq!(receiver.on_send(false, false).0, Flags::default());
    }
}
