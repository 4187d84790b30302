//! The end that is called.

use super::ends::{Buffer, Came, HEAD, Head, Poll, Receiving, Sending, again, downward, upward};
use socket2::{Domain, Socket, Type};
use std::collections::HashMap;
use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};

/// The key of the listening socket.
const LISTENER: u64 = u64::MAX;
/// How often a thread looks whether it shall end, in milliseconds.
const LOOK: i64 = 20;
/// Most connections that wait to be accepted (the kernel allows `net.core.somaxconn`).
const BACKLOG: i32 = 4096;

/// A listening socket; made in the namespace where it shall listen.
#[derive(Debug)]
pub(crate) struct Server {
    listener: Socket,
}

/// What became of the connections that were accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Served {
    /// All that was announced came, right, and ended there; and all that was wanted was sent.
    pub(crate) exact: u64,
    /// The client went away before.
    pub(crate) cut: u64,
    /// Bytes came that were never sent.
    pub(crate) wrong: u64,
    /// Connections that were not over when the server was stopped.
    pub(crate) open: u64,
}

struct Connection {
    socket: Socket,
    head: [u8; HEAD],
    headed: usize,
    receiving: Receiving,
    sending: Sending,
    /// The other end has ended its direction.
    ended: bool,
    /// What is waited for: to read, to write.
    waits: (bool, bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    Exact,
    Cut,
    Wrong,
}

impl Server {
    /// Listens; its connections have the congestion control `congestion`.
    pub(crate) fn listen(address: SocketAddr, congestion: &str) -> io::Result<Server> {
        let listener = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        listener.set_reuse_address(true)?;
        listener.set_tcp_congestion(congestion.as_bytes())?;
        listener.set_nonblocking(true)?;
        listener.bind(&address.into())?;
        listener.listen(BACKLOG)?;
        Ok(Server { listener })
    }

    /// Where it listens.
    #[cfg(test)]
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        let address = self.listener.local_addr()?;
        address.as_socket().ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    /// Serves until `stop` is set; with `checks` every byte is looked at.
    pub(crate) fn run(&self, checks: bool, stop: &AtomicBool) -> io::Result<Served> {
        let mut poll = Poll::new()?;
        poll.add(&self.listener, LISTENER, true, false)?;
        let mut connections: HashMap<u64, Connection> = HashMap::new();
        let mut buffer = Buffer::new(checks);
        let mut served = Served::default();
        let mut next = 0;
        while !stop.load(Ordering::Relaxed) {
            for key in poll.wait(LOOK)? {
                if key == LISTENER {
                    self.accept(&poll, &mut next, &mut connections)?;
                    continue;
                }
                let Some(connection) = connections.get_mut(&key) else { continue };
                match connection.advance(&mut buffer).unwrap_or(State::Cut) {
                    State::Open => connection.wait(&poll, key)?,
                    over => {
                        match over {
                            State::Exact => served.exact += 1,
                            State::Wrong => served.wrong += 1,
                            _ => served.cut += 1,
                        }
                        connections.remove(&key);
                    }
                }
            }
        }
        served.open = connections.len() as u64;
        Ok(served)
    }

    fn accept(&self, poll: &Poll, next: &mut u64, connections: &mut HashMap<u64, Connection>) -> io::Result<()> {
        loop {
            let socket = match self.listener.accept() {
                Ok((socket, _)) => socket,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // Reset while it waited (accept(2)).
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) => return Err(error),
            };
            socket.set_nonblocking(true)?;
            poll.add(&socket, *next, true, false)?;
            connections.insert(*next, Connection::new(socket));
            *next += 1;
        }
    }
}

impl Connection {
    fn new(socket: Socket) -> Connection {
        Connection {
            socket,
            head: [0; HEAD],
            headed: 0,
            receiving: Receiving::default(),
            sending: Sending::default(),
            ended: false,
            waits: (true, false),
        }
    }

    fn advance(&mut self, buffer: &mut Buffer) -> io::Result<State> {
        if self.headed < HEAD {
            match again((&mut &self.socket).read(&mut self.head[self.headed..]))? {
                Some(0) => return Ok(State::Cut),
                Some(count) => self.headed += count,
                None => {}
            }
            if self.headed < HEAD {
                return Ok(State::Open);
            }
            let head = Head::read(&self.head);
            self.receiving = Receiving { stream: upward(head.stream), done: 0, all: head.up };
            self.sending = Sending { stream: downward(head.stream), done: 0, all: head.down };
        }
        self.sending.advance(&self.socket, u64::MAX)?;
        if !self.ended {
            match self.receiving.advance(&self.socket, buffer, u64::MAX)? {
                Came::Bytes(_) | Came::Nothing => {}
                Came::Wrong => return Ok(State::Wrong),
                Came::End if !self.receiving.whole() => return Ok(State::Cut),
                Came::End => self.ended = true,
            }
        }
        if self.ended && self.sending.left() == 0 {
            self.socket.shutdown(Shutdown::Write)?;
            return Ok(State::Exact);
        }
        Ok(State::Open)
    }

    fn wait(&mut self, poll: &Poll, key: u64) -> io::Result<()> {
        let waits = (!self.ended, self.sending.left() > 0);
        if waits != self.waits {
            poll.change(&self.socket, key, waits.0, waits.1)?;
            self.waits = waits;
        }
        Ok(())
    }
}
