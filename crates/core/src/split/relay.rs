//! What a gateway does with the two ends that it has of one connection.
//!
//! What it is: the rules by which a connection is split: set up only once the far end has answered, bytes moved as far as there is
//! room, the end of a stream passed on by itself (half-close), a failure passed on as a reset, urgent data passed on as urgent, where the
//! driver knows of it, before its bytes. Keepalives are each end's own: one that nobody answers is a failure. Source: hybrid-gateways 4.2
//! (set-up: the caller is answered after the far end); RFC 9293, 3.6 (half-close), 3.8.4 and 3.8.5 (keepalives, urgent data), 3.10.7 (reset).
//!
//! It does not know TCP: a driver tells what each [`End`] is like, does what [`Relay::next`] says, and asks again until there
//! is nothing to do. How sequence numbers of both ends are made the same is the driver's: it opens the far end with the number that the
//! caller's SYN had, and accepts the caller with the one that the far end answered.
//!
//! Cost: O(1). Invariant: bytes are moved only into room that there is, and a stream's end follows all its bytes.

/// An end of the gateway's, by whom it faces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// It faces the one that opens the connection.
    Caller = 0,
    /// It faces the one that is called.
    Called = 1,
}

impl Side {
    /// Both.
    pub const BOTH: [Side; 2] = [Side::Caller, Side::Called];

    /// The other one.
    pub const fn other(self) -> Side {
        match self {
            Side::Caller => Side::Called,
            Side::Called => Side::Caller,
        }
    }
}

/// What an end is like now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// Its handshake is over, and it is not closed yet.
    pub established: bool,
    /// It ended before its time: reset, or given up.
    pub failed: bool,
    /// Bytes that arrived in order and were not moved.
    pub readable: u64,
    /// Its peer closed, and everything before was moved.
    pub finished: bool,
    /// Bytes that its send buffer takes.
    pub room: u64,
    /// Bytes that are urgent, or stand before urgent ones, from the next one to be moved; more than is readable where some have not come.
    pub urgent: u64,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The end that faces the called one is opened.
    Open,
    /// The far end has answered: the caller's SYN, held so far, is answered.
    Accept,
    /// The far end has refused, or has not answered: so is the caller.
    Refuse,
    /// So many bytes go from this end to the other.
    Move(Side, u64),
    /// The next bytes for this end, so many, are urgent.
    Urge(Side, u64),
    /// This end is closed: a FIN follows all that it was given.
    Close(Side),
    /// This end is reset.
    Abort(Side),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// A SYN came.
    Held,
    /// The far end was called.
    Called,
    /// Both ends are there.
    Open,
    /// Nothing more is done.
    Over,
}

/// A connection that is split, or about to be.
#[derive(Clone, Debug)]
pub struct Relay {
    phase: Phase,
    closed: [bool; 2],
    /// Bytes moved from each end, and up to where it was told of urgent ones.
    moved: [u64; 2],
    urged: [u64; 2],
}

impl Default for Relay {
    fn default() -> Relay {
        Relay::new()
    }
}

impl Relay {
    /// A SYN has come from the caller, and is held.
    pub const fn new() -> Relay {
        Relay { phase: Phase::Held, closed: [false; 2], moved: [0; 2], urged: [0; 2] }
    }

    /// Whether both ends are there.
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Whether nothing more will be done.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// What is to be done next, of what may be done now.
    pub fn next(&mut self, ends: [End; 2]) -> Option<Action> {
        match self.phase {
            Phase::Held => {
                self.phase = Phase::Called;
                Some(Action::Open)
            }
            Phase::Called if ends[1].failed => {
                self.phase = Phase::Over;
                Some(Action::Refuse)
            }
            Phase::Called if ends[1].established => {
                self.phase = Phase::Open;
                Some(Action::Accept)
            }
            Phase::Called | Phase::Over => None,
            Phase::Open => self.pass_on(ends),
        }
    }

    fn pass_on(&mut self, ends: [End; 2]) -> Option<Action> {
        for side in Side::BOTH {
            let (from, to) = (ends[side as usize], ends[side.other() as usize]);
            if from.failed {
                self.phase = Phase::Over;
                return (!to.failed).then_some(Action::Abort(side.other()));
            }
            let (moved, urged) = (&mut self.moved[side as usize], &mut self.urged[side as usize]);
            let urgent = moved.saturating_add(from.urgent);
            if urgent > *urged && from.urgent > 0 && to.established {
                *urged = urgent;
                return Some(Action::Urge(side.other(), from.urgent));
            }
            let bytes = from.readable.min(to.room);
            if bytes > 0 && to.established {
                *moved = moved.saturating_add(bytes);
                return Some(Action::Move(side, bytes));
            }
            let closed = &mut self.closed[side.other() as usize];
            if from.finished && from.readable == 0 && !*closed && to.established {
                *closed = true;
                if self.closed == [true; 2] {
                    self.phase = Phase::Over;
                }
                return Some(Action::Close(side.other()));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UP: End = End { established: true, failed: false, readable: 0, finished: false, room: 1000, urgent: 0 };

    fn open() -> Relay {
        let mut relay = Relay::new();
        assert_eq!(relay.next([End::default(); 2]), Some(Action::Open));
        assert_eq!(relay.next([End::default(), UP]), Some(Action::Accept));
        relay
    }

    #[test]
    fn the_caller_is_answered_only_once_the_far_end_has_answered() {
        let mut relay = Relay::new();
        assert_eq!(relay.next([End::default(); 2]), Some(Action::Open));
        for _ in 0..10 {
            assert_eq!(relay.next([End::default(); 2]), None);
        }
        assert_eq!(relay.next([End::default(), UP]), Some(Action::Accept));
        assert!(relay.is_open());
    }

    #[test]
    fn a_far_end_that_refuses_refuses_the_caller() {
        let mut relay = Relay::new();
        relay.next([End::default(); 2]);
        let failed = End { failed: true, ..End::default() };
        assert_eq!(relay.next([End::default(), failed]), Some(Action::Refuse));
        assert!(relay.is_over());
    }

    #[test]
    fn bytes_move_as_far_as_there_is_room_and_an_end_follows_them() {
        let mut relay = open();
        let full = End { readable: 1500, finished: true, ..UP };
        assert_eq!(relay.next([full, UP]), Some(Action::Move(Side::Caller, 1000)));
        let rest = End { readable: 500, ..full };
        assert_eq!(relay.next([rest, End { room: 0, ..UP }]), None, "the end of the stream waits for its bytes");
        assert_eq!(relay.next([rest, UP]), Some(Action::Move(Side::Caller, 500)));
        let done = End { readable: 0, ..full };
        assert_eq!(relay.next([done, UP]), Some(Action::Close(Side::Called)));
        assert_eq!(relay.next([done, UP]), None, "once");
        // The other half goes on.
        let answer = End { readable: 7, ..UP };
        assert_eq!(relay.next([done, answer]), Some(Action::Move(Side::Called, 7)));
        assert!(relay.is_open());
        assert_eq!(relay.next([done, End { finished: true, ..UP }]), Some(Action::Close(Side::Caller)));
        assert!(relay.is_over());
    }

    #[test]
    fn urgent_data_is_told_once_before_its_bytes_and_further_data_again() {
        let mut relay = open();
        // Five bytes are urgent, of which none has come.
        let told = End { urgent: 5, ..UP };
        assert_eq!(relay.next([told, UP]), Some(Action::Urge(Side::Called, 5)));
        assert_eq!(relay.next([told, UP]), None, "once");
        let came = End { urgent: 5, readable: 9, ..UP };
        assert_eq!(relay.next([came, End { room: 3, ..UP }]), Some(Action::Move(Side::Caller, 3)));
        assert_eq!(relay.next([End { urgent: 2, readable: 6, ..UP }, End { room: 0, ..UP }]), None, "the same bytes");
        let more = End { urgent: 6, readable: 6, ..UP };
        assert_eq!(relay.next([more, UP]), Some(Action::Urge(Side::Called, 6)));
        assert_eq!(relay.next([more, UP]), Some(Action::Move(Side::Caller, 6)));
        assert_eq!(relay.next([UP, told]), Some(Action::Urge(Side::Caller, 5)), "each direction has its own");
    }

    #[test]
    fn a_failure_of_one_end_resets_the_other() {
        for side in Side::BOTH {
            let mut relay = open();
            let mut ends = [UP; 2];
            ends[side as usize] = End { failed: true, readable: 9, ..End::default() };
            assert_eq!(relay.next(ends), Some(Action::Abort(side.other())));
            assert_eq!(relay.next(ends), None);
        }
    }
}
