//! One TCP connection that carries datagrams, for networks that let no UDP through.
//!
//! | file | idea |
//! |---|---|
//! | `mod` | a connection: its options, reading, writing |
//! | `frames` | datagrams taken out of a stream |
//! | `run` | datagrams put into one |
//! | `stats` | what is counted |
//!
//! - The kernel holds little that it has not sent (`UNSENT_MAX`): what waits does so in the bond, which can still choose another
//!   channel for it. What the kernel does not take is told as a full buffer of a datagram socket is.
//! - A datagram that was written in part is finished before anything else is written, whatever becomes of its channel. Messages of
//!   the sessions that find no room wait behind it, so that new keys can be agreed while the connection is full.
//! - A connection on which the other end acknowledges nothing, or takes nothing, for `PATIENCE` is ended by the kernel.

pub(crate) mod frames;
pub(crate) mod run;
mod stats;

pub use stats::TcpStats;

use crate::channel::udp::Sent;
use frames::{FRAME_MAX, Frames, LENGTH};
use run::Run;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use socket2::Socket;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// Bytes that the kernel holds and has not sent; it refuses more.
const UNSENT_MAX: u32 = 131_072;
/// How long nothing may be acknowledged, or taken.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes that wait before the runs: what is left of a datagram, and messages of the sessions.
const FIRST_MAX: usize = 32_768;

/// What a read brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// So many bytes.
    Bytes(usize),
    /// Nothing waits.
    Empty,
    /// The connection has ended.
    Ended,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: Socket,
    /// What was read of the datagram that comes next.
    pub(crate) frames: Frames,
    /// What is written before anything else, from `written` on.
    first: Vec<u8>,
    written: usize,
    /// The kernel took no more.
    is_full: bool,
}

/// Sets what a socket needs before it connects, or after it was accepted.
///
/// # Errors
/// What the kernel refuses.
pub(crate) fn prepare(socket: &Socket) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_notsent_lowat(UNSENT_MAX)?;
    socket.set_tcp_user_timeout(Some(PATIENCE))
}

impl Connection {
    /// Of a socket that is connected and [prepared](prepare).
    pub(crate) fn new(socket: Socket) -> Connection {
        Connection { socket, frames: Frames::default(), first: Vec::new(), written: 0, is_full: false }
    }

    /// Its socket.
    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Whether something waits for the kernel to take it.
    pub(crate) fn wants_write(&self) -> bool {
        self.is_full
    }

    /// Reads what waits, as much as the buffer holds.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> Read {
        loop {
            return match recv(&self.socket, &mut *buffer, RecvFlags::DONTWAIT) {
                Ok((0, _)) => Read::Ended,
                Ok((count, _)) => Read::Bytes(count),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => Read::Empty,
                Err(_) => Read::Ended,
            };
        }
    }

    /// Writes a run, as far as the kernel takes it.
    pub(crate) fn send_run(&mut self, run: &mut Run, stats: &mut TcpStats) -> Sent {
        match self.send_first(stats) {
            Sent::Done => {}
            stopped => return stopped,
        }
        let all = run.rest().len();
        match self.write(run.rest(), stats) {
            Ok(written) => {
                stats.sent += run.advance(written) as u64;
                if written == all {
                    return Sent::Done;
                }
                self.first.extend_from_slice(run.take_part());
                self.fill(stats)
            }
            Err(Errno::AGAIN) => self.fill(stats),
            Err(_) => Sent::Down,
        }
    }

    /// Writes one datagram, or keeps it to be written before any run. [`Sent::Blocked`]: there is no room for it.
    pub(crate) fn send_message(&mut self, datagram: &[u8], stats: &mut TcpStats) -> Sent {
        let waiting = self.first.len() - self.written;
        if datagram.is_empty() || datagram.len() > FRAME_MAX || waiting + LENGTH + datagram.len() > FIRST_MAX {
            stats.blocked += 1;
            return Sent::Blocked;
        }
        self.first.extend_from_slice(&(datagram.len() as u16).to_be_bytes());
        self.first.extend_from_slice(datagram);
        stats.sent += 1;
        match self.send_first(stats) {
            Sent::Blocked => Sent::Done,
            sent => sent,
        }
    }

    /// Writes what comes first.
    pub(crate) fn send_first(&mut self, stats: &mut TcpStats) -> Sent {
        self.is_full = false;
        while self.written < self.first.len() {
            match self.write(&self.first[self.written..], stats) {
                Ok(written) => self.written += written,
                Err(Errno::AGAIN) => {
                    self.first.drain(..self.written);
                    self.written = 0;
                    return self.fill(stats);
                }
                Err(_) => return Sent::Down,
            }
        }
        self.first.clear();
        self.written = 0;
        Sent::Done
    }

    fn fill(&mut self, stats: &mut TcpStats) -> Sent {
        self.is_full = true;
        stats.blocked += 1;
        Sent::Blocked
    }

    fn write(&self, bytes: &[u8], stats: &mut TcpStats) -> Result<usize, Errno> {
        loop {
            match send(&self.socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(written) => {
                    stats.send_calls += 1;
                    stats.sent_bytes += written as u64;
                    return Ok(written);
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
