//! What the two ends have in common: the head, sending, receiving, waiting.

use super::pattern;
use rustix::event::{Timespec, epoll};
use rustix::net::{RecvFlags, recv};
use socket2::Socket;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};

/// Bytes of a head.
pub(super) const HEAD: usize = 24;
/// Bytes per read and per write call.
const CHUNK: usize = 256 * 1024;
/// Calls in a row on one socket, while others wait.
const CALLS: usize = 4;
/// Events taken at once.
const EVENTS: usize = 256;

/// What a client announces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) stream: u64,
    /// What the client sends.
    pub(super) up: u64,
    /// What it wants.
    pub(super) down: u64,
}

impl Head {
    pub(super) fn bytes(self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        for (to, from) in bytes.chunks_mut(8).zip([self.stream, self.up, self.down]) {
            to.copy_from_slice(&from.to_be_bytes());
        }
        bytes
    }

    pub(super) fn read(bytes: &[u8; HEAD]) -> Head {
        let number = |at: usize| bytes[at..at + 8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        Head { stream: number(0), up: number(8), down: number(16) }
    }
}

/// The two directions of a stream have bytes of their own.
pub(super) const fn upward(stream: u64) -> u64 {
    2 * stream
}

pub(super) const fn downward(stream: u64) -> u64 {
    2 * stream + 1
}

/// One direction that is sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sending {
    pub(super) stream: u64,
    pub(super) done: u64,
    pub(super) all: u64,
}

impl Sending {
    pub(super) fn left(&self) -> u64 {
        self.all - self.done
    }

    /// Sends what the socket takes, up to the place `most`; whether it would take more.
    pub(super) fn advance(&mut self, socket: &Socket, most: u64) -> io::Result<bool> {
        for _ in 0..CALLS {
            let left = self.all.min(most).saturating_sub(self.done);
            if left == 0 {
                return Ok(true);
            }
            let piece = &pattern::from(self.stream, self.done)[..CHUNK.min(left.try_into().unwrap_or(CHUNK))];
            match again((&mut &*socket).write(piece))? {
                Some(count) => self.done += count as u64,
                None => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// What came of a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Came {
    /// So many bytes, all of them right.
    Bytes(u64),
    /// Others than were sent, or more.
    Wrong,
    /// The end.
    End,
    /// Nothing at the moment.
    Nothing,
}

/// One direction that is received.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Receiving {
    pub(super) stream: u64,
    pub(super) done: u64,
    pub(super) all: u64,
}

/// Where bytes are read into.
pub(super) struct Buffer {
    bytes: Vec<u8>,
    /// Whether they are looked at; if not, the kernel throws them away (`MSG_TRUNC`, tcp(7)), which costs no copy.
    checks: bool,
}

impl Buffer {
    pub(super) fn new(checks: bool) -> Buffer {
        Buffer { bytes: vec![0; CHUNK], checks }
    }
}

impl Receiving {
    /// Reads once, up to the place `most`.
    pub(super) fn advance(&mut self, socket: &Socket, buffer: &mut Buffer, most: u64) -> io::Result<Came> {
        let room = CHUNK.min(most.saturating_sub(self.done).max(1).try_into().unwrap_or(CHUNK));
        let bytes = &mut buffer.bytes[..room];
        let read = if buffer.checks {
            (&mut &*socket).read(bytes)
        } else {
            recv(socket, bytes, RecvFlags::TRUNC).map(|(_, count)| count).map_err(io::Error::from)
        };
        let Some(count) = again(read)? else { return Ok(Came::Nothing) };
        if count == 0 {
            return Ok(Came::End);
        }
        let right = !buffer.checks || pattern::is(self.stream, self.done, &buffer.bytes[..count]);
        self.done += count as u64;
        Ok(if right && self.done <= self.all { Came::Bytes(count as u64) } else { Came::Wrong })
    }

    pub(super) fn whole(&self) -> bool {
        self.done == self.all
    }
}

/// `None` where the socket has nothing, or no room, at the moment.
pub(super) fn again(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(count) => Ok(Some(count)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Waits for many sockets.
pub(super) struct Poll {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

impl Poll {
    pub(super) fn new() -> io::Result<Poll> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Poll { epoll, events: Vec::with_capacity(EVENTS) })
    }

    pub(super) fn add(&self, socket: impl AsFd, key: u64, reads: bool, writes: bool) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, socket, epoll::EventData::new_u64(key), flags(reads, writes))?)
    }

    pub(super) fn change(&self, socket: impl AsFd, key: u64, reads: bool, writes: bool) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, socket, epoll::EventData::new_u64(key), flags(reads, writes))?)
    }

    pub(super) fn remove(&self, socket: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, socket)?)
    }

    /// The keys of the sockets that are ready, or in trouble, after `milliseconds` at most.
    pub(super) fn wait(&mut self, milliseconds: i64) -> io::Result<Vec<u64>> {
        self.events.clear();
        let time = Timespec { tv_sec: milliseconds / 1000, tv_nsec: milliseconds % 1000 * 1_000_000 };
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), Some(&time)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(self.events.iter().map(|event| event.data.u64()).collect())
    }
}

fn flags(reads: bool, writes: bool) -> epoll::EventFlags {
    let mut flags = epoll::EventFlags::empty();
    flags.set(epoll::EventFlags::IN, reads);
    flags.set(epoll::EventFlags::OUT, writes);
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_as_it_was_written() {
        let head = Head { stream: 1, up: u64::MAX - 7, down: 1 << 40 };
        assert_eq!(Head::read(&head.bytes()), head);
    }
}
