//! One connection as the gateway has it: an end towards the caller, one towards the called, and core's rules for what passes
//! between them.
//!
//! Sequence numbers of both are the same: the far end is opened with the number that the caller's SYN had, and the caller is
//! answered with the one that the far end answered (hybrid-gateways 4.2). So a segment means the same on either side, and one that
//! passes the gateway by can be understood.

use crate::tcp::segment::{Flags, Segment};
use crate::tcp::{self, Connection};
use fairspan_core::shared::Shared;
use fairspan_core::split::{Action, End, Level, Relay, Side};
use fairspan_core::units::{FlowNumber, Span, Time};

/// A connection that is split, or about to be.
#[derive(Debug)]
pub(super) struct Spliced {
    relay: Relay,
    /// Towards the caller (from when on it is answered), towards the called.
    ends: [Option<Connection>; 2],
    settings: [Shared<tcp::Config>; 2],
    /// The SYN that is held.
    syn: Segment,
    /// The direction of packets from the caller.
    pub(super) reverse: bool,
    /// Data from the caller, and from the called.
    pub(super) flows: [FlowNumber; 2],
    /// The caller has given up before it was answered.
    abandoned: bool,
    pub(super) due: Time,
    /// What was told of its send buffers.
    pub(super) unsent: u64,
    pub(super) window: u64,
}

fn state(end: Option<&Connection>) -> End {
    end.map_or_else(End::default, |end| End {
        established: end.is_established(),
        failed: end.failure().is_some(),
        readable: end.readable(),
        finished: end.at_end_of_stream(),
        room: end.room(),
        urgent: end.urgent(),
    })
}

impl Spliced {
    /// A connection of which this SYN has come; `settings` of the ends towards the caller and towards the called.
    pub(super) fn new(
        settings: [Shared<tcp::Config>; 2],
        syn: Segment,
        reverse: bool,
        flows: [FlowNumber; 2],
    ) -> Spliced {
        Spliced {
            relay: Relay::new(),
            ends: [None, None],
            settings,
            syn,
            reverse,
            flows,
            abandoned: false,
            due: Time::MAX,
            unsent: 0,
            window: 0,
        }
    }

    /// A segment has come from that side.
    pub(super) fn handle_segment(&mut self, now: Time, from: Side, segment: &Segment) {
        match &mut self.ends[from as usize] {
            Some(end) => end.handle_segment(now, segment),
            // Before it is answered a caller can only repeat itself, or give up.
            None if segment.flags.has(Flags::RST) => {
                self.abandoned = true;
                if let Some(called) = &mut self.ends[Side::Called as usize] {
                    called.abort(now);
                }
            }
            None => {}
        }
    }

    /// Timers of either end may have run out.
    pub(super) fn handle_timeout(&mut self, now: Time) {
        self.ends.iter_mut().flatten().for_each(|end| end.handle_timeout(now));
    }

    /// Does what the rules say, until there is nothing to do; `window` says what may be offered for a flow.
    pub(super) fn advance(&mut self, now: Time, mut window: impl FnMut(FlowNumber) -> Option<u64>) {
        if !self.abandoned {
            while let Some(action) = self.relay.next([0, 1].map(|side: usize| state(self.ends[side].as_ref()))) {
                self.act(now, action);
            }
        }
        for side in Side::BOTH {
            if let (Some(end), Some(bytes)) = (&mut self.ends[side as usize], window(self.flows[side as usize])) {
                end.limit_window(bytes);
            }
        }
    }

    fn act(&mut self, now: Time, action: Action) {
        let [caller, called] = &mut self.ends;
        let [for_caller, for_called] = &self.settings;
        match action {
            Action::Open => {
                called.insert(Connection::shared(for_called.clone(), now, self.syn.sequence)).open(now);
            }
            Action::Accept => {
                let initial = called.as_ref().map_or(0, Connection::peer_initial);
                let caller = caller.insert(Connection::shared(for_caller.clone(), now, initial));
                caller.listen(now);
                caller.handle_segment(now, &self.syn);
            }
            Action::Refuse => {
                // A connection that does not exist answers a SYN with a reset.
                caller.insert(Connection::shared(for_caller.clone(), now, 0)).handle_segment(now, &self.syn);
            }
            Action::Move(from, bytes) => {
                let [from, to] = match from {
                    Side::Caller => [caller, called],
                    Side::Called => [called, caller],
                };
                if let (Some(from), Some(to)) = (from, to) {
                    let bytes = from.read(now, bytes);
                    to.write(now, bytes);
                }
            }
            Action::Urge(side, bytes) => {
                self.ends[side as usize].iter_mut().for_each(|end| end.urge(bytes));
            }
            Action::Close(side) => {
                self.ends[side as usize].iter_mut().for_each(|end| end.close(now));
            }
            Action::Abort(side) => {
                self.ends[side as usize].iter_mut().for_each(|end| end.abort(now));
            }
        }
    }

    /// The next segment that one of the ends sends: its direction, its length as an IP packet.
    pub(super) fn poll_transmit(&mut self, now: Time) -> Option<(bool, u32, Segment)> {
        for side in Side::BOTH {
            let Some(end) = &mut self.ends[side as usize] else { continue };
            if let Some(segment) = end.poll_transmit(now) {
                // Towards the called it is the caller's direction.
                let reverse = self.reverse == (side == Side::Called);
                return Some((reverse, end.header_length(&segment) + segment.length, segment));
            }
        }
        None
    }

    /// When a timer of either end runs out next.
    pub(super) fn poll_timeout(&self) -> Time {
        self.ends.iter().flatten().filter_map(Connection::poll_timeout).min().unwrap_or(Time::MAX)
    }

    /// The send buffer for what comes from that side.
    pub(super) fn level(&self, from: Side) -> Level {
        let Some(end) = &self.ends[from.other() as usize] else { return Level::default() };
        let (unsent, held) = (end.unsent(), end.unacknowledged());
        // An end that failed, or is over, sends nothing any more.
        if end.is_closed() {
            return Level::default();
        }
        let round_trip = end.smoothed_rtt();
        let near = self.ends[from as usize].as_ref().map_or(Span::ZERO, Connection::smoothed_rtt);
        let sent = end.acknowledged() + held - unsent;
        Level { unsent, sent, held, round_trip, whole_trip: round_trip + near, held_back: end.is_held_back() }
    }

    /// The congestion window of the end that faces so.
    pub(super) fn window(&self, side: Side) -> u64 {
        self.ends[side as usize].as_ref().map_or(0, Connection::window)
    }

    /// Whether nothing more will come of it.
    pub(super) fn is_over(&self) -> bool {
        (self.abandoned || self.relay.is_over()) && self.ends.iter().flatten().all(Connection::is_closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairspan_core::units::Time;
    use std::collections::VecDeque;

    /// How long a segment takes from the caller to the gateway, and from there to the called.
    const WAYS: [Span; 2] = [Span::from_millis(10), Span::from_millis(250)];
    const INITIAL: u32 = u32::MAX - 100;

    /// A caller and a called with the gateway between them.
    struct Line {
        now: Time,
        hosts: [Connection; 2],
        gateway: Option<Spliced>,
        settings: [tcp::Config; 2],
        /// Under way, by when they arrive: on which side of the gateway, and whether to it.
        under_way: VecDeque<(Time, Side, bool, Segment)>,
        /// Segments that were sent on each side.
        sent: [Vec<(Time, Segment)>; 2],
        /// A host that hears and says nothing any more.
        gone: Option<Side>,
    }

    fn settings(changes: &[(&str, &str)]) -> tcp::Config {
        let mut config = tcp::Config::default();
        changes.iter().for_each(|(name, value)| config.set(name, value).expect("a setting"));
        config
    }

    impl Line {
        /// Both hosts have the first settings, the gateway's ends the others.
        fn new(hosts: &tcp::Config, gateway: &tcp::Config) -> Line {
            let now = Time::ZERO;
            let mut both = [INITIAL, 7].map(|initial| Connection::new(hosts, now, initial));
            both[1].listen(now);
            both[0].open(now);
            Line {
                now,
                hosts: both,
                gateway: None,
                settings: [gateway.clone(), gateway.clone()],
                under_way: VecDeque::new(),
                sent: [Vec::new(), Vec::new()],
                gone: None,
            }
        }

        fn send(&mut self, side: Side, to_gateway: bool, segment: Segment) {
            self.sent[side as usize].push((self.now, segment));
            let at = self.now + WAYS[side as usize];
            let place = self.under_way.iter().position(|(other, ..)| *other > at).unwrap_or(self.under_way.len());
            self.under_way.insert(place, (at, side, to_gateway, segment));
        }

        /// All that can be sent now, is.
        fn settle(&mut self) {
            for side in Side::BOTH {
                while let Some(segment) = self.hosts[side as usize].poll_transmit(self.now) {
                    if self.gone != Some(side) {
                        self.send(side, true, segment);
                    }
                }
            }
            while let Some(gateway) = &mut self.gateway {
                gateway.advance(self.now, |_| None);
                let Some((reverse, _, segment)) = gateway.poll_transmit(self.now) else { break };
                self.send(if reverse { Side::Caller } else { Side::Called }, false, segment);
            }
        }

        /// Runs for so long, in virtual time.
        fn run(&mut self, span: Span) {
            let until = self.now + span;
            self.settle();
            loop {
                let timers = self.hosts.iter().filter_map(Connection::poll_timeout);
                let gateway = self.gateway.as_ref().map(Spliced::poll_timeout);
                let arrives = self.under_way.front().map(|(at, ..)| *at);
                let next = timers.chain(gateway).chain(arrives).min().unwrap_or(Time::MAX).max(self.now);
                if next > until {
                    break;
                }
                self.now = next;
                while self.under_way.front().is_some_and(|(at, ..)| *at <= next) {
                    let Some((_, side, to_gateway, segment)) = self.under_way.pop_front() else { break };
                    self.arrive(side, to_gateway, &segment);
                }
                self.hosts.iter_mut().for_each(|host| host.handle_timeout(next));
                self.gateway.iter_mut().for_each(|gateway| gateway.handle_timeout(next));
                self.settle();
            }
            self.now = until;
        }

        fn arrive(&mut self, side: Side, to_gateway: bool, segment: &Segment) {
            if !to_gateway {
                if self.gone != Some(side) {
                    self.hosts[side as usize].handle_segment(self.now, segment);
                }
                return;
            }
            match &mut self.gateway {
                Some(gateway) => gateway.handle_segment(self.now, side, segment),
                None => {
                    let flows = [FlowNumber(1), FlowNumber(2)];
                    self.gateway = Some(Spliced::new(self.settings.clone().map(Into::into), *segment, false, flows));
                }
            }
        }

        fn host(&mut self, side: Side) -> &mut Connection {
            &mut self.hosts[side as usize]
        }

        /// Segments that passed on a side since then.
        fn since(&self, side: Side, from: Time) -> usize {
            self.sent[side as usize].iter().filter(|(at, _)| *at > from).count()
        }
    }

    #[test]
    fn urgent_data_is_urgent_at_the_other_end_before_it_arrives_and_where_it_ends() {
        let mut line = Line::new(&settings(&[]), &settings(&[]));
        line.run(Span::from_secs(2));
        for (from, to) in [(Side::Caller, Side::Called), (Side::Called, Side::Caller)] {
            let now = line.now;
            line.host(from).urge(5);
            line.run(Span::from_millis(300));
            assert_eq!((line.host(to).urgent(), line.host(to).readable()), (5, 0), "it is told before there is any");
            line.host(from).write(now, 3000);
            line.run(Span::from_secs(2));
            assert_eq!((line.host(to).urgent(), line.host(to).readable()), (5, 3000));
            let now = line.now;
            line.host(to).read(now, 4);
            assert_eq!(line.host(to).urgent(), 1);
            line.host(to).read(now, 1);
            assert_eq!(line.host(to).urgent(), 0, "and no further");
            line.host(to).read(now, 3000);
            // What stands between makes no difference: the end of urgent data is a place in the stream.
            line.host(from).write(now, 100_000);
            line.host(from).urge(7);
            line.host(from).write(now, 8);
            line.run(Span::from_secs(5));
            assert_eq!((line.host(to).urgent(), line.host(to).readable()), (100_007, 100_008));
            let now = line.now;
            line.host(to).read(now, 100_008);
        }
    }

    #[test]
    fn an_idle_caller_s_questions_are_answered_by_the_gateway_and_go_no_further() {
        let kept = settings(&[("keepalive", "10s"), ("keepalive_probes", "2"), ("keepalive_interval", "1s")]);
        let mut line = Line::new(&kept, &settings(&[]));
        // The called asks too.
        line.run(Span::from_secs(2));
        let begun = line.now;
        line.run(Span::from_secs(100));
        for side in Side::BOTH {
            assert!(line.hosts[side as usize].is_established());
            let asked = line.hosts[side as usize].stats().keepalives;
            assert!((9..=10).contains(&asked), "{asked} questions in 100 s");
            assert_eq!(line.since(side, begun) as u64, 2 * asked, "each is answered where it was asked");
        }
    }

    #[test]
    fn an_end_that_falls_silent_is_asked_by_the_gateway_and_its_end_is_told_to_the_other_one() {
        for gone in Side::BOTH {
            let kept = [("keepalive", "600s"), ("keepalive_interval", "60s"), ("keepalive_probes", "5")];
            let mut line = Line::new(&settings(&[]), &settings(&kept));
            line.run(Span::from_secs(2));
            let (now, other) = (line.now, gone.other());
            line.host(other).write(now, 100);
            line.run(Span::from_secs(2));
            line.gone = Some(gone);
            line.run(Span::from_secs(896));
            assert!(line.host(other).is_established(), "{gone:?}: not before the last question");
            assert!(!line.gateway.as_ref().is_some_and(Spliced::is_over));
            line.run(Span::from_secs(10));
            assert_eq!(line.host(other).failure(), Some(tcp::Failure::Reset), "{gone:?}");
            assert!(line.gateway.as_ref().is_some_and(Spliced::is_over), "{gone:?}: nothing is left of it");
        }
    }
}
