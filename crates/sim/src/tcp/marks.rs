//! Explicit congestion notification of one end: what is agreed, what is echoed, what is answered.
//!
//! What it is: the ECN field of segments that go out, the flags AE, CWR and ECE, and which echo begins an episode. Source: RFC 3168,
//! section 6.1 (`on`); RFC 8257, sections 3.2 and 3.3 (`dctcp`); RFC 9768, sections 3.1 and 3.2 (`accurate`); RFC 9331, section 4 (`l4s`: as
//! `accurate`, but with ECT(1) for ECT(0)). On the wire `accurate` and `l4s` agree with each other.
//!
//! | RFC 3168, RFC 9768 | here |
//! |---|---|
//! | ECN-setup SYN (ECE and CWR; accurate: AE too), SYN-ACK (ECE; accurate: CWR) | [`Marks::syn`] |
//! | ECE on every ACK until CWR comes | `echo`, with `on` |
//! | CWR on the first new data after a reduction | `reduced`, with `on` |
//! | at most one reduction a window of data | `until` |
//! | r.cep, s.cep: packets with marks, from 5 on; ACE: the count modulo 8 in AE, CWR and ECE | `came`, `told` |
//!
//! Departures: with `on`, segments sent again, bare ACKs and probes of windows are not capable (6.1.4 to 6.1.6); with the others what is
//! sent again is, as in Linux. A change of what arrives is acknowledged at once, with the new state for all that it acknowledges, in
//! `dctcp` and `accurate`. Of `accurate` there are no options with counts of bytes, SYNs are not capable, and an ACK that counts more
//! than seven marks is taken for one that counts eight fewer, and one that was overtaken by a later one of the same position for one that
//! counts more. The window still grows by what an ACK with an echo acknowledges, after its reduction (6.1.2: it should not).
//! Cost: O(1) a segment.

use super::config::{Config, Ecn};
use super::segment::{Flags, Mark, Segment};

/// RFC 9768, 3.2: where both counts begin.
const FIRST: u64 = 5;
/// The flags that say a count, highest bit first.
const COUNT: [Flags; 3] = [Flags::AE, Flags::CWR, Flags::ECE];

/// One end's part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marks {
    wanted: Ecn,
    /// What both ends have agreed on.
    used: Ecn,
    /// What ACKs say: marked.
    echo: bool,
    /// The next new data tells that the window was reduced.
    reduced: bool,
    /// The window of data that has been answered ends here.
    until: u64,
    /// Packets with marks that came, and those of ours that the peer has told of.
    came: u64,
    told: u64,
}

/// What an ACK says of marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Echo {
    /// Whether it begins an episode.
    pub begins: bool,
    /// How many packets had marks; `None`: all that it acknowledges.
    pub packets: Option<u64>,
    /// Whether those are the ones that were marked: RFC 3168's echo does not tell.
    pub exact: bool,
}

impl Ecn {
    /// Whether ACKs count marks.
    fn counts(self) -> bool {
        matches!(self, Ecn::Accurate | Ecn::L4s)
    }
}

impl Marks {
    pub(super) fn new(config: &Config) -> Marks {
        // Without a handshake the peer is taken to have the same settings.
        let used = if config.handshake { Ecn::Off } else { config.ecn };
        Marks { wanted: config.ecn, used, echo: false, reduced: false, until: 0, came: FIRST, told: FIRST }
    }

    /// The flags of our SYN, or of the SYN that answers one.
    pub(super) fn syn(&self, answer: bool) -> Flags {
        match (if answer { self.used } else { self.wanted }, answer) {
            (Ecn::Off, _) => Flags::default(),
            (Ecn::Accurate | Ecn::L4s, false) => Flags::AE.with(Flags::CWR).with(Flags::ECE),
            (_, false) => Flags::ECE.with(Flags::CWR),
            // RFC 9768, table 2: the SYN was not capable.
            (Ecn::Accurate | Ecn::L4s, true) => Flags::CWR,
            (_, true) => Flags::ECE,
        }
    }

    /// The peer's SYN has come.
    pub(super) fn on_syn(&mut self, flags: Flags) {
        let [accurate, reduced, echo] = COUNT.map(|flag| flags.has(flag));
        let agreed = match (self.wanted, flags.has(Flags::ACK)) {
            (Ecn::Accurate | Ecn::L4s, true) if reduced && !echo => self.wanted,
            (Ecn::Accurate | Ecn::L4s, false) if accurate && reduced && echo => self.wanted,
            (_, true) if echo && !reduced => self.wanted,
            (_, false) if echo && reduced => self.wanted,
            _ => Ecn::Off,
        };
        let counts = accurate || (reduced && !echo);
        // RFC 9768, 3.1.2: with a peer that has only RFC 3168, that.
        self.used = if agreed.counts() && !counts { Ecn::On } else { agreed };
    }

    /// Payload has come; whether it has to be acknowledged at once.
    pub(super) fn on_payload(&mut self, segment: &Segment) -> bool {
        let marked = segment.mark == Mark::Experienced;
        match self.used {
            Ecn::Off => false,
            Ecn::On => {
                if segment.flags.has(Flags::CWR) {
                    self.echo = false;
                }
                self.echo |= marked;
                false
            }
            Ecn::Accurate | Ecn::Dctcp | Ecn::L4s => {
                self.came += u64::from(marked);
                std::mem::replace(&mut self.echo, marked) != marked
            }
        }
    }

    /// What a segment that is no SYN says: flags, and the field of its IP header. `new`: payload that goes for the first time.
    pub(super) fn on_send(&mut self, payload: bool, new: bool) -> (Flags, Mark) {
        let flags = match self.used {
            Ecn::Off => return (Flags::default(), Mark::default()),
            Ecn::Accurate | Ecn::L4s => {
                let bit = |place: usize| self.came >> (2 - place) & 1 == 1;
                let set = (0..COUNT.len()).filter(|place| bit(*place));
                set.fold(Flags::default(), |flags, place| flags.with(COUNT[place]))
            }
            Ecn::On | Ecn::Dctcp => {
                let echo = if self.echo { Flags::ECE } else { Flags::default() };
                let tells = new && std::mem::take(&mut self.reduced);
                if tells { echo.with(Flags::CWR) } else { echo }
            }
        };
        let capable = payload && (new || self.used != Ecn::On);
        let field = if self.used == Ecn::L4s { Mark::Scalable } else { Mark::Capable };
        (flags, if capable { field } else { Mark::default() })
    }

    /// An ACK up to `una` has come, `next` is what will be sent next: what it says of marks, if it does.
    pub(super) fn on_acknowledgment(&mut self, flags: Flags, una: u64, next: u64) -> Option<Echo> {
        let packets = match self.used {
            Ecn::Off => return None,
            _ if flags.has(Flags::SYN) => return None,
            Ecn::Accurate | Ecn::L4s => {
                let count = COUNT.iter().fold(0, |count, flag| count << 1 | u64::from(flags.has(*flag)));
                let more = count.wrapping_sub(self.told) & 7;
                self.told += more;
                if more == 0 {
                    return None;
                }
                Some(more)
            }
            Ecn::On | Ecn::Dctcp if flags.has(Flags::ECE) => None,
            Ecn::On | Ecn::Dctcp => return None,
        };
        // The first segment behind the window says so, and what arrived before it is still echoed.
        let begins = una > self.until;
        if begins {
            self.until = next;
            self.reduced = !self.used.counts();
        }
        Some(Echo { begins, packets, exact: self.used != Ecn::On })
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
            assert_eq!(ends.map(|end| end.used != Ecn::Off), [agreed; 2], "{client:?} {server:?}");
            let field = if agreed { Mark::Capable } else { Mark::Incapable };
            assert_eq!(ends.map(|mut end| end.on_send(true, true)), [(Flags::default(), field); 2]);
        }
        assert_eq!(marks(Ecn::On).syn(false), Flags::ECE.with(Flags::CWR));
        // An answer that repeats both flags is that of an end which knows nothing of them.
        let mut client = marks(Ecn::On);
        client.on_syn(Flags::SYN.with(Flags::ACK).with(Flags::ECE).with(Flags::CWR));
        assert_eq!(client.used, Ecn::Off);
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
        assert_eq!(
            sender.on_acknowledgment(echo.with(Flags::ACK), 1000, 9000),
            Some(Echo { begins: true, packets: None, exact: false })
        );
        assert_eq!(
            sender.on_acknowledgment(echo.with(Flags::ACK), 2000, 9500),
            Some(Echo { begins: false, packets: None, exact: false })
        );
        let (again, field) = sender.on_send(true, false);
        assert_eq!((again, field), (Flags::default(), Mark::Incapable), "what is sent again says nothing");
        let (told, field) = sender.on_send(true, true);
        assert_eq!((told, field), (Flags::CWR, Mark::Capable));
        assert_eq!(sender.on_send(true, true).0, Flags::default(), "once");
        receiver.on_payload(&Segment { flags: Flags::ACK.with(Flags::CWR), ..DATA });
        assert_eq!(receiver.on_send(false, false).0, Flags::default());
        assert_eq!(sender.on_acknowledgment(Flags::ACK, 9000, 12_000), None);
        // The ACK of the window's last byte left before the receiver was told.
        for (una, begins) in [(9000, false), (10_000, true)] {
            assert_eq!(
                sender.on_acknowledgment(Flags::ACK.with(Flags::ECE), una, 12_000),
                Some(Echo { begins, packets: None, exact: false })
            );
        }
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

    // RFC 9768, 3.1.
    #[test]
    fn accurate_marks_are_used_with_a_peer_that_has_them_and_others_with_one_that_has_not() {
        let used = |client, server| pair(client, server).map(|end| end.used);
        assert_eq!(used(Ecn::Accurate, Ecn::Accurate), [Ecn::Accurate; 2]);
        assert_eq!(used(Ecn::Accurate, Ecn::On), [Ecn::On; 2]);
        assert_eq!(used(Ecn::On, Ecn::Accurate), [Ecn::On; 2]);
        assert_eq!(used(Ecn::Accurate, Ecn::Off), [Ecn::Off; 2]);
        assert_eq!(used(Ecn::Off, Ecn::Accurate), [Ecn::Off; 2]);
    }

    // RFC 9331, 4.1 to 4.3.
    #[test]
    fn l4s_says_ect_1_and_counts_with_a_peer_that_counts_and_is_as_rfc_3168_with_another_one() {
        for (client, server, client_field, server_field) in [
            (Ecn::L4s, Ecn::L4s, Mark::Scalable, Mark::Scalable),
            (Ecn::L4s, Ecn::Accurate, Mark::Scalable, Mark::Capable),
            (Ecn::Accurate, Ecn::L4s, Mark::Capable, Mark::Scalable),
            (Ecn::L4s, Ecn::On, Mark::Capable, Mark::Capable),
            (Ecn::On, Ecn::L4s, Mark::Capable, Mark::Capable),
            (Ecn::L4s, Ecn::Off, Mark::Incapable, Mark::Incapable),
        ] {
            let [mut client_end, mut server_end] = pair(client, server);
            let fields = [client_end.on_send(true, true).1, server_end.on_send(true, true).1];
            assert_eq!(fields, [client_field, server_field], "{client:?} {server:?}");
            // What is sent again is capable where marks are counted.
            assert_eq!(client_end.on_send(true, false).1 == client_field, client_end.used != Ecn::On);
            server_end.on_payload(&Segment { mark: Mark::Experienced, ..DATA });
            let (flags, _) = server_end.on_send(false, false);
            let echo = client_end.on_acknowledgment(flags.with(Flags::ACK), 1000, 9000);
            assert_eq!(
                echo.map(|echo| echo.exact),
                (server != Ecn::Off).then_some(client_end.used == Ecn::L4s || client_end.used == Ecn::Accurate)
            );
        }
    }

    // RFC 9768, 3.2.2.
    #[test]
    fn accurate_marks_are_counted_and_what_acks_lost_is_told_by_the_next() {
        let [mut sender, mut receiver] = pair(Ecn::Accurate, Ecn::Accurate);
        let marked = Segment { mark: Mark::Experienced, ..DATA };
        // 5 is 101.
        assert_eq!(receiver.on_send(false, false), (Flags::AE.with(Flags::ECE), Mark::Incapable));
        let mut ack = |receiver: &mut Marks, una, next| {
            let (flags, _) = receiver.on_send(false, false);
            sender.on_acknowledgment(flags.with(Flags::ACK), una, next)
        };
        assert_eq!(ack(&mut receiver, 1000, 9000), None);
        for _ in 0..3 {
            receiver.on_payload(&marked);
        }
        assert_eq!(ack(&mut receiver, 4000, 9000), Some(Echo { begins: true, packets: Some(3), exact: true }));
        // Two ACKs are lost, each of two marks; the third tells of all.
        for _ in 0..6 {
            receiver.on_payload(&marked);
        }
        assert_eq!(ack(&mut receiver, 8000, 12_000), Some(Echo { begins: false, packets: Some(6), exact: true }));
        assert_eq!(ack(&mut receiver, 9000, 12_000), None);
        assert_eq!(sender.on_send(true, true).1, Mark::Capable);
    }
}
