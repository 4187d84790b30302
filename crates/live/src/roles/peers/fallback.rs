//! A UDP channel that goes over TCP while no UDP gets through (`tcp_endpoint`).
//!
//! Looked at once a second:
//!
//! - Over UDP, when the peer has owed an answer for [`QUIET`] although the device is there, a connection is made. Once it stands,
//!   the session goes on by it. Calls by UDP go on until then.
//! - Over TCP, the peer is asked by UDP every now and then: after [`FIRST_RETRY`], and each time after twice as long, up to
//!   [`LONGEST_RETRY`]; three times each, a second apart, as one datagram may be lost. An answer leads the channel back, and the
//!   connection is closed. Before the second and after the last a question by TCP makes a peer that went to UDP in vain come back.
//! - Over TCP, when the peer owes an answer for [`QUIET`] there too, or there is no connection, it is UDP's turn again.
//!
//! Who leads is who calls; the other end follows the newest packet ([`crate::secure::Sessions::pin`]).

use crate::secure::{Endpoint, PathId};
use fairspan_core::units::{Span, Time};

/// How long the peer may owe an answer.
const QUIET: Span = Span::from_secs(5);
const FIRST_RETRY: Span = Span::from_secs(60);
const LONGEST_RETRY: Span = Span::from_secs(600);
/// Questions at one retry, by UDP and by TCP in turn.
const QUESTIONS: u8 = 6;

/// What carries the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Udp,
    Tcp,
}

/// What is known at a look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// UDP could leave: the device is there.
    pub(super) usable: bool,
    /// The peer owes an answer.
    pub(super) waits: bool,
    /// When it was heard last.
    pub(super) heard: Time,
    /// The connection stands.
    pub(super) connected: bool,
    /// Something came by UDP while the channel was on TCP.
    pub(super) by_udp: bool,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Stay,
    /// A connection is wanted.
    Connect,
    /// No connection is wanted.
    Rest,
    /// The session goes on over that.
    Go(Way),
    /// The peer is asked by that.
    Ask(Way),
}

/// When to go over, and back.
#[derive(Debug)]
struct Decision {
    way: Way,
    /// Since when the peer is waited for on this way, at the earliest.
    since: Time,
    connecting: bool,
    retry: Time,
    wait: Span,
    asked: u8,
}

impl Decision {
    fn new(now: Time) -> Decision {
        Decision { way: Way::Udp, since: now, connecting: false, retry: now, wait: FIRST_RETRY, asked: 0 }
    }

    fn look(&mut self, now: Time, look: Look) -> Step {
        if !look.waits {
            self.since = now;
        }
        let quiet = look.waits && now.since(self.since.max(look.heard)) >= QUIET;
        match self.way {
            Way::Udp if !look.usable => {
                self.since = now;
                Step::Stay
            }
            Way::Udp if quiet && look.connected => self.go(now, Way::Tcp),
            Way::Udp if quiet => {
                self.connecting = true;
                Step::Connect
            }
            Way::Udp if !look.waits => {
                if now >= self.retry {
                    // UDP has been well for as long as TCP would have been tried.
                    self.wait = FIRST_RETRY;
                }
                if std::mem::take(&mut self.connecting) { Step::Rest } else { Step::Stay }
            }
            // A connection that is lost is made again: UDP, which was of no use, is no better meanwhile.
            Way::Tcp if look.by_udp || quiet => self.go(now, Way::Udp),
            Way::Tcp if now >= self.retry => self.ask(now),
            Way::Udp | Way::Tcp => Step::Stay,
        }
    }

    fn go(&mut self, now: Time, way: Way) -> Step {
        (self.way, self.since, self.asked) = (way, now, 0);
        self.retry = now + self.wait;
        if way == Way::Tcp {
            self.wait = self.wait.times(2).min(LONGEST_RETRY);
        }
        self.connecting = true;
        Step::Go(way)
    }

    fn ask(&mut self, now: Time) -> Step {
        let way = if self.asked.is_multiple_of(2) { Way::Udp } else { Way::Tcp };
        self.asked += 1;
        if self.asked == QUESTIONS {
            self.asked = 0;
            self.retry = now + self.wait;
            self.wait = self.wait.times(2).min(LONGEST_RETRY);
        }
        Step::Ask(way)
    }
}

/// The two ways of a channel.
#[derive(Debug)]
pub(super) struct Fallback {
    pub(super) path: PathId,
    pub(super) udp: Endpoint,
    pub(super) tcp: Endpoint,
    decision: Decision,
}

impl Fallback {
    /// Of a channel that begins by UDP.
    pub(super) fn new(now: Time, path: PathId, udp: Endpoint, tcp: Endpoint) -> Fallback {
        Fallback { path, udp, tcp, decision: Decision::new(now) }
    }

    /// What is to be done, now.
    pub(super) fn look(&mut self, now: Time, look: Look) -> Step {
        self.decision.look(now, look)
    }

    /// Where both ways end.
    pub(super) fn ends(&self) -> [Endpoint; 2] {
        [self.udp, self.tcp]
    }

    /// Where a way ends.
    pub(super) fn end(&self, way: Way) -> Endpoint {
        match way {
            Way::Udp => self.udp,
            Way::Tcp => self.tcp,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A network, and what the channel makes of it, a second at a time.
    struct World {
        decision: Decision,
        now: Time,
        udp: bool,
        tcp: bool,
        connected: bool,
        waits: bool,
        heard: Time,
        by_udp: bool,
        asked: Vec<(u64, Way)>,
    }

    impl World {
        fn new(udp: bool, tcp: bool) -> World {
            let now = Time::from_millis(1_000_000);
            let (waits, heard, asked) = (true, Time::ZERO, Vec::new());
            World { decision: Decision::new(now), now, udp, tcp, connected: false, waits, heard, by_udp: false, asked }
        }

        fn second(&mut self) -> Step {
            self.now += Span::from_secs(1);
            // The bond asks, and the peer answers where the way is open.
            let open = match self.decision.way {
                Way::Udp => self.udp,
                Way::Tcp => self.tcp && self.connected,
            };
            self.waits = !open;
            if open {
                self.heard = self.now;
            }
            let World { waits, heard, connected, .. } = *self;
            let by_udp = std::mem::take(&mut self.by_udp);
            let step = self.decision.look(self.now, Look { usable: true, waits, heard, connected, by_udp });
            match step {
                Step::Connect => self.connected = self.tcp,
                Step::Rest => self.connected = false,
                Step::Ask(way) => {
                    self.by_udp = way == Way::Udp && self.udp;
                    self.asked.push((self.now.since(Time::ZERO).as_nanos() / 1_000_000_000, way));
                }
                Step::Stay | Step::Go(_) => {}
            }
            step
        }

        fn seconds(&mut self, count: usize) {
            for _ in 0..count {
                self.second();
            }
        }
    }

    #[test]
    fn a_channel_goes_over_tcp_when_udp_is_silent_and_asks_by_udp_ever_more_seldom() {
        let mut world = World::new(true, true);
        world.seconds(1000);
        assert_eq!((world.decision.way, world.connected), (Way::Udp, false), "nothing is tried while UDP is well");
        world.udp = false;
        world.seconds(7);
        assert_eq!(world.decision.way, Way::Tcp);
        world.seconds(3600);
        assert_eq!(world.decision.way, Way::Tcp);
        let first: Vec<u64> = world.asked.iter().step_by(QUESTIONS.into()).map(|(at, _)| *at).collect();
        let waits: Vec<u64> = first.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(waits[..4], [125, 245, 485, 605], "{first:?}");
        let ways: Vec<Way> = world.asked[..6].iter().map(|(_, way)| *way).collect();
        assert_eq!(ways, [Way::Udp, Way::Tcp].repeat(3));
        world.udp = true;
        world.seconds(606);
        assert_eq!((world.decision.way, world.connected), (Way::Udp, false));
        // What was well for long enough is tried soon again.
        world.seconds(700);
        world.udp = false;
        world.seconds(10);
        world.asked.clear();
        world.seconds(60);
        assert!(!world.asked.is_empty());
    }

    #[test]
    fn where_neither_gets_through_both_are_tried_and_the_first_that_does_is_taken() {
        for (udp, tcp, way) in [(true, false, Way::Udp), (false, true, Way::Tcp)] {
            let mut world = World::new(false, false);
            world.seconds(300);
            (world.udp, world.tcp) = (udp, tcp);
            world.seconds(30);
            assert_eq!(world.decision.way, way);
        }
        // A connection that stands and brings nothing.
        let mut world = World::new(false, false);
        let mut ways = Vec::new();
        for _ in 0..100 {
            world.connected = true;
            if let Step::Go(way) = world.second() {
                ways.push(way);
            }
            world.waits = true;
            world.tcp = false;
        }
        assert!(ways.len() > 10 && ways[..4] == [Way::Tcp, Way::Udp, Way::Tcp, Way::Udp], "{ways:?}");
    }

    #[test]
    fn a_device_that_is_away_is_no_reason_to_go_over() {
        let mut decision = Decision::new(Time::ZERO);
        for second in 1..100 {
            let look = Look { usable: false, waits: true, heard: Time::ZERO, connected: false, by_udp: false };
            assert_eq!(decision.look(Time::from_millis(1000 * second), look), Step::Stay);
        }
    }

    #[test]
    fn a_channel_whose_peer_is_heard_seldom_as_it_has_nothing_to_say_stays() {
        let mut decision = Decision::new(Time::ZERO);
        for second in 1..100_u64 {
            let now = Time::from_millis(1000 * second);
            // It is asked every five seconds, and answers within one.
            let heard = Time::from_millis(1000 * (second - second % 5));
            let look = Look { usable: true, waits: second % 5 == 4, heard, connected: false, by_udp: false };
            assert_eq!(decision.look(now, look), Step::Stay);
        }
    }
}
