//! One connection as the gateway has it: an end towards the caller, one towards the called, and core's rules for what passes
//! between them.
//!
//! Sequence numbers of both are the same: the far end is opened with the number that the caller's SYN had, and the caller is
//! answered with the one that the far end answered (hybrid-gateways 4.2). So a segment means the same on either side, and one that
//! passes the gateway by can be understood.

use crate::tcp::segment::{Flags, Segment};
use crate::tcp::{self, Connection};
use fairspan_core::split::{Action, End, Level, Relay, Side};
use fairspan_core::units::{FlowNumber, Span, Time};

/// A connection that is split, or about to be.
#[derive(Debug)]
pub(super) struct Spliced {
    relay: Relay,
    /// Towards the caller (from when on it is answered), towards the called.
    ends: [Option<Connection>; 2],
    settings: [tcp::Config; 2],
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
    })
}

impl Spliced {
    /// A connection of which this SYN has come; `settings` of the ends towards the caller and towards the called.
    pub(super) fn new(settings: [tcp::Config; 2], syn: Segment, reverse: bool, flows: [FlowNumber; 2]) -> Spliced {
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
                called.insert(Connection::new(for_called, now, self.syn.sequence)).open(now);
            }
            Action::Accept => {
                let initial = called.as_ref().map_or(0, Connection::peer_initial);
                let caller = caller.insert(Connection::new(for_caller, now, initial));
                caller.listen(now);
                caller.handle_segment(now, &self.syn);
            }
            Action::Refuse => {
                // A connection that does not exist answers a SYN with a reset.
                caller.insert(Connection::new(for_caller, now, 0)).handle_segment(now, &self.syn);
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
        Level { unsent, sent: end.acknowledged() + held - unsent, held, round_trip, whole_trip: round_trip + near }
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
