//! The end that calls.

use super::ends::{Buffer, Came, HEAD, Head, Poll, Receiving, Sending, again, downward, upward};
use socket2::{Domain, Socket, Type};
use std::io::{self, Write};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often a thread looks whether it shall end, in milliseconds.
const LOOK: i64 = 20;
/// Reads in a row from one socket, while others wait.
const READS: usize = 4;
/// `EINPROGRESS` (asm-generic/errno.h).
const IN_PROGRESS: i32 = rustix::io::Errno::INPROGRESS.raw_os_error();

/// How a client ends its connection. Places count bytes in both directions together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// When all is sent and received.
    Orderly,
    /// By a reset at this place.
    Reset(u64),
    /// It ends its own direction at this place, before all is sent, and reads no more.
    HalfClosed(u64),
    /// From this place on it neither reads nor sends.
    Silent(u64),
}

/// One connection to make.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) to: SocketAddr,
    /// Its own address, if the routes do not choose the right one.
    pub(crate) from: Option<IpAddr>,
    /// Bytes to send.
    pub(crate) up: u64,
    /// Bytes to receive.
    pub(crate) down: u64,
    pub(crate) ending: Ending,
}

/// What became of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// All that was wanted came, right, and ended there.
    Exact,
    /// It was given up as planned, and whatever came before was right.
    Abandoned,
    /// Other bytes came than were sent.
    Wrong,
    /// It ended otherwise.
    Failed(String),
    /// It was not over when all were stopped.
    Open,
}

/// One connection's course.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) fate: Fate,
    /// Bytes that were received.
    pub(crate) received: u64,
    /// From the first SYN on: until it was answered, the first byte, and the last.
    pub(crate) connected: Option<Duration>,
    pub(crate) first: Option<Duration>,
    pub(crate) last: Option<Duration>,
}

/// All of them.
pub(crate) struct Results {
    /// In the order of the plans.
    pub(crate) records: Vec<Record>,
    /// Those that fell silent: their sockets are still open, and close when this is dropped.
    #[allow(dead_code)]
    pub(crate) silent: Vec<Socket>,
}

impl Results {
    /// What the first one that failed said.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.records.iter().find_map(|record| match &record.fate {
            Fate::Failed(why) => Some(why.as_str()),
            _ => None,
        })
    }
}

/// What all connections have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clients<'a> {
    /// The congestion control of their sockets.
    pub(crate) congestion: &'a str,
    /// Most that wait for an answer to their SYN.
    pub(crate) opening: usize,
    /// Whether every byte is looked at.
    pub(crate) checks: bool,
    /// If no connection makes any progress for so long, those that are left stay [`Fate::Open`].
    pub(crate) patience: Duration,
}

struct Connection {
    socket: Socket,
    ending: Ending,
    head: [u8; HEAD],
    headed: usize,
    sending: Sending,
    receiving: Receiving,
    shut: bool,
    waits: (bool, bool),
    begun: Instant,
}

/// Whether it goes on.
enum Step {
    On,
    Over(Fate),
    /// Abandoned, with its socket open.
    Silent,
}

impl Clients<'_> {
    /// Makes all connections; to be called in the namespace that they come from. Ends when all are over, or `stop` is set.
    /// Every byte that is received is added to `received`.
    pub(crate) fn run(&self, plans: &[Plan], stop: &AtomicBool, received: &AtomicU64) -> io::Result<Results> {
        let mut poll = Poll::new()?;
        let mut buffer = Buffer::new(self.checks);
        let blank = Record { fate: Fate::Open, received: 0, connected: None, first: None, last: None };
        let mut results = Results { records: vec![blank; plans.len()], silent: Vec::new() };
        let mut connections: Vec<Option<Connection>> = Vec::with_capacity(plans.len());
        let (mut opening, mut left) = (0, plans.len());
        let mut progress = Instant::now();
        while left > 0 && !stop.load(Ordering::Relaxed) && progress.elapsed() < self.patience {
            while opening < self.opening && connections.len() < plans.len() {
                let key = connections.len();
                match self.open(&plans[key], key as u64, &poll) {
                    Ok(connection) => {
                        connections.push(Some(connection));
                        opening += 1;
                    }
                    Err(error) => {
                        results.records[key].fate = Fate::Failed(format!("not opened: {error}"));
                        connections.push(None);
                        left -= 1;
                    }
                }
            }
            for key in poll.wait(LOOK)? {
                progress = Instant::now();
                let index = key as usize;
                let Some(slot) = connections.get_mut(index) else { continue };
                let (Some(connection), record) = (slot.as_mut(), &mut results.records[index]) else { continue };
                let was_opening = record.connected.is_none();
                let before = record.received;
                let step = connection.advance(record, &mut buffer).unwrap_or_else(|error| Step::Over(failed(&error)));
                received.fetch_add(record.received - before, Ordering::Relaxed);
                let over = !matches!(step, Step::On);
                if was_opening && (over || record.connected.is_some()) {
                    opening -= 1;
                }
                match step {
                    Step::On => connection.wait(&poll, key)?,
                    Step::Over(fate) => record.fate = fate,
                    Step::Silent => record.fate = Fate::Abandoned,
                }
                if over {
                    left -= 1;
                    if let Some(connection) = slot.take() {
                        poll.remove(&connection.socket)?;
                        if matches!(connection.ending, Ending::Silent(_) | Ending::HalfClosed(_)) {
                            results.silent.push(connection.socket);
                        }
                    }
                }
            }
        }
        Ok(results)
    }

    fn open(&self, plan: &Plan, key: u64, poll: &Poll) -> io::Result<Connection> {
        let socket = Socket::new(Domain::for_address(plan.to), Type::STREAM, None)?;
        socket.set_tcp_congestion(self.congestion.as_bytes())?;
        socket.set_nonblocking(true)?;
        if let Some(from) = plan.from {
            socket.bind(&SocketAddr::new(from, 0).into())?;
        }
        let begun = Instant::now();
        match socket.connect(&plan.to.into()) {
            Err(error) if error.raw_os_error() != Some(IN_PROGRESS) => return Err(error),
            _ => {}
        }
        poll.add(&socket, key, false, true)?;
        let head = Head { stream: key, up: plan.up, down: plan.down };
        Ok(Connection {
            socket,
            ending: plan.ending,
            head: head.bytes(),
            headed: 0,
            sending: Sending { stream: upward(key), done: 0, all: plan.up },
            receiving: Receiving { stream: downward(key), done: 0, all: plan.down },
            shut: false,
            waits: (false, true),
            begun,
        })
    }
}

impl Connection {
    fn advance(&mut self, record: &mut Record, buffer: &mut Buffer) -> io::Result<Step> {
        if record.connected.is_none() {
            if let Some(error) = self.socket.take_error()? {
                return Err(error);
            }
            record.connected = Some(self.begun.elapsed());
        }
        while self.headed < HEAD {
            match again((&mut &self.socket).write(&self.head[self.headed..]))? {
                Some(count) => self.headed += count,
                None => return Ok(Step::On),
            }
        }
        let place = match self.ending {
            Ending::Orderly => u64::MAX,
            Ending::Reset(place) | Ending::HalfClosed(place) | Ending::Silent(place) => place,
        };
        self.sending.advance(&self.socket, place.saturating_sub(self.receiving.done))?;
        if self.sending.left() == 0 && !self.shut {
            self.socket.shutdown(Shutdown::Write)?;
            self.shut = true;
        }
        for _ in 0..READS {
            let moved = self.sending.done + self.receiving.done;
            if moved >= place {
                return self.abandon();
            }
            match self.receiving.advance(&self.socket, buffer, place - self.sending.done)? {
                Came::Bytes(count) => {
                    record.received += count;
                    let now = self.begun.elapsed();
                    record.first.get_or_insert(now);
                    record.last = Some(now);
                }
                Came::Nothing => break,
                Came::Wrong => return Ok(Step::Over(Fate::Wrong)),
                Came::End if self.receiving.whole() && self.shut => return Ok(Step::Over(Fate::Exact)),
                Came::End => {
                    let (came, all) = (self.receiving.done, self.receiving.all);
                    return Ok(Step::Over(Fate::Failed(format!("ended after {came} bytes of {all}"))));
                }
            }
        }
        Ok(Step::On)
    }

    fn abandon(&mut self) -> io::Result<Step> {
        match self.ending {
            Ending::Orderly => {}
            // RST instead of FIN (socket(7)): the socket is closed with its connection.
            Ending::Reset(_) => self.socket.set_linger(Some(Duration::ZERO))?,
            Ending::HalfClosed(_) => {
                self.socket.shutdown(Shutdown::Write)?;
                return Ok(Step::Silent);
            }
            Ending::Silent(_) => return Ok(Step::Silent),
        }
        Ok(Step::Over(Fate::Abandoned))
    }

    fn wait(&mut self, poll: &Poll, key: u64) -> io::Result<()> {
        let waits = (true, self.headed < HEAD || self.sending.left() > 0);
        if waits != self.waits {
            poll.change(&self.socket, key, waits.0, waits.1)?;
            self.waits = waits;
        }
        Ok(())
    }
}

fn failed(error: &io::Error) -> Fate {
    Fate::Failed(error.to_string())
}
