//! A UDP channel that goes over TCP while no UDP gets through (`tcp_endpoint`).
//!
//! Looked at once a second:
//!
//! - Over UDP, while nothing comes or the bond does not use the channel, although the device is there, the peer is asked. When it has
//!   answered nothing for [`QUIET`], whatever else it sends, a connection is made: UDP may pass in one direction only. Once the connection
//!   stands, the session goes on by it. Calls by UDP go on until then.
//! - Over TCP, the peer is asked by UDP every now and then: after [`FIRST_RETRY`], and each time after twice as long, up to
//!   [`LONGEST_RETRY`]; three times each, a second apart, as one datagram may be lost. What comes by UDP within [`QUIET`] of that leads
//!   the channel back, and the connection is closed; what comes at other times was under way for long, and tells nothing. Before the
//!   second and after the last a question by TCP makes a peer that went to UDP in vain come back.
//! - Over TCP, when nothing has come for [`QUIET`] in spite of something sent, or there is no connection, it is UDP's turn again. TCP
//!   itself sees to it that what is sent arrives.
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
    /// The bond does not use the channel, or nothing has come since something was sent.
    pub(super) doubtful: bool,
    /// Since when the peer owes an answer, if it does.
    pub(super) owes: Option<Time>,
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
    /// What comes by UDP until then is an answer.
    hears_until: Time,
}

impl Decision {
    fn new(now: Time) -> Decision {
        let (way, since, retry, hears_until) = (Way::Udp, now, now, now);
        Decision { way, since, connecting: false, retry, wait: FIRST_RETRY, asked: 0, hears_until }
    }

    fn look(&mut self, now: Time, look: Look) -> Step {
        if look.owes.is_none() {
            self.since = now;
        }
        let quiet = look.owes.is_some_and(|owes| now.since(self.since.max(owes)) >= QUIET);
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
            Way::Udp if look.owes.is_none() && self.connecting => {
                self.connecting = false;
                Step::Rest
            }
            Way::Udp => {
                if look.owes.is_none() && now >= self.retry {
                    // UDP has been well for as long as TCP would have been tried.
                    self.wait = FIRST_RETRY;
                }
                if look.doubtful { Step::Ask(Way::Udp) } else { Step::Stay }
            }
            // A connection that is lost is made again: UDP, which was of no use, is no better meanwhile.
            Way::Tcp if quiet || (look.by_udp && now <= self.hears_until) => self.go(now, Way::Udp),
            Way::Tcp if now >= self.retry => self.ask(now),
            Way::Tcp => Step::Stay,
        }
    }

    fn go(&mut self, now: Time, way: Way) -> Step {
        (self.way, self.since, self.asked, self.hears_until) = (way, now, 0, now);
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
        if way == Way::Udp {
            self.hears_until = now + QUIET;
        }
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

    /// What carries the channel.
    pub(super) fn way(&self) -> Way {
        self.decision.way
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
        owes: Option<Time>,
        by_udp: bool,
        asked: Vec<(u64, Way)>,
    }

    impl World {
        fn new(udp: bool, tcp: bool) -> World {
            let now = Time::from_millis(1_000_000);
            let (owes, asked) = (Some(Time::ZERO), Vec::new());
            World { decision: Decision::new(now), now, udp, tcp, connected: false, owes, by_udp: false, asked }
        }

        fn second(&mut self) -> Step {
            self.now += Span::from_secs(1);
            // The bond asks, and the peer answers where the way is open.
            let open = match self.decision.way {
                Way::Udp => self.udp,
                Way::Tcp => self.tcp && self.connected,
            };
            self.owes = if open { None } else { self.owes.or(Some(self.now)) };
            let World { owes, connected, .. } = *self;
            let by_udp = std::mem::take(&mut self.by_udp);
            let (way, doubtful) = (self.decision.way, owes.is_some());
            let step = self.decision.look(self.now, Look { usable: true, doubtful, owes, connected, by_udp });
            match step {
                Step::Connect => self.connected = self.tcp,
                Step::Rest => self.connected = false,
                Step::Ask(by) if way == Way::Tcp => {
                    self.by_udp = by == Way::Udp && self.udp;
                    self.asked.push((self.now.since(Time::ZERO).as_nanos() / 1_000_000_000, by));
                }
                Step::Ask(_) | Step::Stay | Step::Go(_) => {}
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
            world.tcp = false;
        }
        assert!(ways.len() > 10 && ways[..4] == [Way::Tcp, Way::Udp, Way::Tcp, Way::Udp], "{ways:?}");
    }

    #[test]
    fn a_device_that_is_away_is_no_reason_to_go_over() {
        let mut decision = Decision::new(Time::ZERO);
        for second in 1..100 {
            let look = Look { usable: false, doubtful: true, owes: Some(Time::ZERO), connected: false, by_udp: false };
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
            let owes = (second % 5 == 4).then_some(heard);
            let look = Look { usable: true, doubtful: false, owes, connected: false, by_udp: false };
            assert_eq!(decision.look(now, look), Step::Stay);
        }
    }

    #[test]
    fn a_channel_that_is_in_doubt_is_asked_about_and_stays_while_that_is_answered() {
        let mut decision = Decision::new(Time::ZERO);
        let mut look = |second: u64, owes: Option<u64>| {
            let owes = owes.map(|second| Time::from_millis(1000 * second));
            let look = Look { usable: true, doubtful: true, owes, connected: false, by_udp: false };
            decision.look(Time::from_millis(1000 * second), look)
        };
        for second in 1..100 {
            // Each answer takes up to four seconds.
            let owes = (second % 4 != 0).then_some(second - second % 4);
            assert_eq!(look(second, owes), Step::Ask(Way::Udp));
        }
        assert_eq!(
            [100, 104, 105].map(|second| look(second, Some(100))),
            [Step::Ask(Way::Udp), Step::Ask(Way::Udp), Step::Connect]
        );
    }

    #[test]
    fn what_comes_late_by_udp_leads_no_channel_back_unless_it_was_asked_for() {
        let mut world = World::new(false, true);
        world.seconds(20);
        assert_eq!(world.decision.way, Way::Tcp);
        for _ in 0..20 {
            world.by_udp = true;
            assert_eq!((world.second(), world.decision.way), (Step::Stay, Way::Tcp));
        }
        // Asked, in vain; and what comes long after.
        while world.asked.len() < usize::from(QUESTIONS) {
            world.second();
        }
        world.seconds(5);
        world.by_udp = true;
        assert_eq!((world.second(), world.decision.way), (Step::Stay, Way::Tcp));
        world.udp = true;
        world.seconds(125);
        assert_eq!(world.decision.way, Way::Udp);
    }
}
