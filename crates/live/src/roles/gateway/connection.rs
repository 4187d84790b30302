//! A connection that is split: the two ends of the gateway's that it has, and what is done with them.

use super::half::Half;
use super::headers::Way;
use super::pipes::Pipes;
use super::request::Request;
use crate::shell::poller::Poller;
use crate::sys::tcp::{receive_queue, send_queue};
use fairspan_core::split::Level;
use fairspan_core::split::relay::{Action, End, Relay, Side};
use fairspan_core::units::{FlowNumber, Time};
use rustix::io::Errno;
use socket2::Socket;
use std::net::SocketAddr;
use std::os::fd::AsFd;

/// Bytes that one end may move before others have their turn.
const BURST: u64 = 1 << 20;

/// What is to be done for a connection that its own sockets cannot do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// The far end has answered: so is the caller.
    Accept,
    /// The far end has not been reached.
    Refuse(Errno),
    /// It is over.
    End,
}

/// A SYN that the kernel holds until the far end has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) id: u32,
    pub(super) sequence: u32,
}

/// What a connection is that a client of the proxy asked for.
#[derive(Debug)]
pub(super) struct Explicit {
    /// The client, until its end is one of the connection's.
    pub(super) socket: Option<Socket>,
    pub(super) request: Request,
    /// What it sent for the far end before that has answered.
    pub(super) early: Vec<u8>,
    /// Addresses that are still to be tried.
    pub(super) others: Vec<SocketAddr>,
    /// Whom it asked for.
    pub(super) name: String,
    /// That of its SYN.
    pub(super) dscp: u8,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    /// From the caller to the called.
    pub(super) way: Way,
    /// The caller is where the long link is.
    pub(super) from_long: bool,
    pub(super) halves: [Option<Half>; 2],
    relay: Relay,
    /// The two directions, by the side from which data comes.
    pub(super) flows: [FlowNumber; 2],
    /// The SYN that waits for the far end's answer.
    pub(super) held: Option<Held>,
    /// The DSCP of what comes from each side; what leaves by the other has it too.
    pub(super) dscp: [u8; 2],
    /// How it was asked for, if not by a SYN.
    pub(super) explicit: Option<Box<Explicit>>,
    pub(super) since: Time,
    /// When the far end had answered.
    pub(super) answered: Option<Time>,
    /// Bytes that were moved, when the rates were last looked at.
    pub(super) looked: [u64; 2],
    /// Bytes a second in the second before, by the side from which they came.
    pub(super) rates: [u64; 2],
}

impl Connection {
    /// The called is being called.
    pub(super) fn new(way: Way, from_long: bool, called: Half, flows: [FlowNumber; 2], now: Time) -> Connection {
        let mut relay = Relay::new();
        relay.next([End::default(); 2]);
        Connection {
            way,
            from_long,
            halves: [None, Some(called)],
            relay,
            flows,
            held: None,
            dscp: [0; 2],
            explicit: None,
            since: now,
            answered: None,
            looked: [0; 2],
            rates: [0; 2],
        }
    }

    /// The side that does not face the long link.
    pub(super) fn inside(&self) -> Side {
        if self.from_long { Side::Called } else { Side::Caller }
    }

    /// Both ends are there.
    pub(super) fn is_open(&self) -> bool {
        self.relay.is_open() && self.halves.iter().all(Option::is_some)
    }

    /// The far end has answered, and the caller's own socket is still to come.
    pub(super) fn awaits_caller(&self) -> bool {
        self.relay.is_open() && self.halves[Side::Caller as usize].is_none()
    }

    /// Does what there is to do now, and moves at most about `most` bytes for it: how many were moved, and what is asked.
    pub(super) fn advance(&mut self, most: u64, pipes: &mut Pipes) -> (u64, Option<Asked>) {
        let most = most.min(BURST);
        let mut left = most;
        while left > 0 {
            let ends = self.halves.each_ref().map(|half| half.as_ref().map_or(End::default(), Half::end));
            match self.relay.next(ends) {
                Some(Action::Move(side, _)) => left = left.saturating_sub(self.move_from(side, left, pipes).max(1)),
                Some(Action::Close(side)) => self.half(side).into_iter().for_each(Half::close),
                Some(Action::Abort(side)) => self.half(side).into_iter().for_each(|half| half.abort()),
                Some(Action::Accept) => return (most - left, Some(Asked::Accept)),
                Some(Action::Refuse) => {
                    let why = self.half(Side::Called).and_then(|half| half.failure());
                    return (most - left, Some(Asked::Refuse(why.unwrap_or(Errno::CONNREFUSED))));
                }
                // What is urgent stays in its place: the kernel does not say ahead of time which bytes these are.
                Some(Action::Open | Action::Urge(..)) => {}
                None => break,
            }
        }
        (most - left, self.relay.is_over().then_some(Asked::End))
    }

    fn half(&mut self, side: Side) -> Option<&mut Half> {
        self.halves[side as usize].as_mut()
    }

    fn move_from(&mut self, side: Side, most: u64, pipes: &mut Pipes) -> u64 {
        let [caller, called] = &mut self.halves;
        match (side, caller, called) {
            (Side::Caller, Some(from), Some(to)) | (Side::Called, Some(to), Some(from)) => {
                from.move_to(to, most, pipes)
            }
            _ => 0,
        }
    }

    /// Waits for what is of use now.
    pub(super) fn settle(&mut self, poller: &Poller) {
        let [caller, called] = &mut self.halves;
        let between = [&*caller, &*called].map(|half| half.as_ref().map_or(0, Half::between));
        let alone = caller.is_none();
        for (half, waiting) in [(caller, between[1]), (called, between[0])] {
            half.iter_mut().for_each(|half| half.settle(waiting > 0, alone, poller));
        }
    }

    /// The send buffer for what comes from that side.
    pub(super) fn level(&self, from: Side) -> Level {
        let [Some(near), Some(far)] = [from, from.other()].map(|side| self.halves[side as usize].as_ref()) else {
            return Level::default();
        };
        let (held, unsent) = send_queue(far.socket.as_fd());
        let between = near.between() + receive_queue(near.socket.as_fd());
        Level {
            unsent: unsent + between,
            sent: far.given.saturating_sub(unsent),
            held: held + between,
            round_trip: far.round_trip,
            whole_trip: far.round_trip + near.round_trip,
            // Datagrams follow nobody here.
            held_back: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{self, Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    /// The end of a gateway's, and the far end of it.
    fn end(poller: &Poller) -> (Half, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let far = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
        let near = listener.accept().expect("accepted").0;
        near.set_nonblocking(true).expect("set");
        (Half::new(Socket::from(near), true, true, poller).expect("an end"), far)
    }

    #[test]
    fn a_connection_moves_no_more_than_it_may_before_others_have_their_turn_and_goes_on_after() {
        const ALL: usize = 1 << 20;
        const MOST: u64 = 64 << 10;
        let poller = Poller::new().expect("epoll");
        let ((caller, mut client), (called, mut server)) = (end(&poller), end(&poller));
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let way = Way { source: address, destination: address };
        let mut connection = Connection::new(way, false, called, [FlowNumber(1), FlowNumber(2)], Time::ZERO);
        let mut pipes = Pipes::default();
        assert_eq!(connection.advance(MOST, &mut pipes).1, Some(Asked::Accept));
        connection.halves[0] = Some(caller);
        let writer = std::thread::spawn(move || {
            client.write_all(&vec![7; ALL]).expect("written");
            client
        });
        let reader = std::thread::spawn(move || {
            let mut all = vec![0; ALL];
            server.read_exact(&mut all).expect("all of it");
            all.iter().all(|byte| *byte == 7)
        });
        let mut steps = Vec::new();
        while !reader.is_finished() {
            connection.half(Side::Caller).expect("an end").on_readable();
            connection.half(Side::Called).expect("an end").on_writable();
            let (moved, asked) = connection.advance(MOST, &mut pipes);
            assert_eq!(asked, None);
            steps.push(moved);
        }
        assert!(reader.join().expect("read"), "as it was written");
        // One that moves nothing counts for a byte.
        let (moved, longest) = (steps.iter().sum::<u64>(), steps.iter().copied().max());
        assert!(moved >= ALL as u64 && longest.is_some_and(|longest| longest <= MOST), "{longest:?}");
        drop(writer.join());
    }

    /// A killed daemon drops its sockets so.
    #[test]
    fn a_stream_that_is_cut_off_is_reset_and_one_that_has_ended_ends_with_all_its_bytes() {
        let poller = Poller::new().expect("epoll");
        let ((cut, mut reader), (mut ended, mut other)) = (end(&poller), end(&poller));
        let mut all = Vec::new();
        drop(cut);
        assert_eq!(reader.read_to_end(&mut all).map_err(|error| error.kind()), Err(io::ErrorKind::ConnectionReset));
        (&ended.socket).write_all(b"whole").expect("sent");
        ended.close();
        drop(ended);
        assert_eq!(other.read_to_end(&mut all).map_err(|error| error.kind()), Ok(5));
        assert_eq!(all, b"whole");
    }
}
