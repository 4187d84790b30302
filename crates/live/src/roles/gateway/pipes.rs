//! Pipes through which bytes go from one socket to another inside the kernel (splice(2)).
//!
//! A pipe is of use only while something is in it. So a connection takes one when bytes come, and gives it back when they all have
//! gone: ten thousand connections share a few pipes, and those that are stuck keep one each.

use rustix::fd::AsFd;
use rustix::io::{Errno, write};
use rustix::net::{RecvFlags, recv};
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use std::os::fd::OwnedFd;

/// Room of a pipe, where the kernel grants it.
const ROOM: usize = 256 << 10;
/// Bytes that are copied at once: an empty pipe takes them whole.
const COPIED: usize = 4096;
/// Idle pipes that are kept.
const KEPT: usize = 64;

/// A pipe, and how many bytes are in it.
#[derive(Debug)]
pub(super) struct Pipe {
    out: OwnedFd,
    into: OwnedFd,
    room: usize,
    pub(super) held: usize,
}

impl Pipe {
    fn open() -> Result<Pipe, Errno> {
        let (out, into) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let room = fcntl_setpipe_size(&into, ROOM).unwrap_or(64 << 10);
        Ok(Pipe { out, into, room, held: 0 })
    }

    /// Takes at most so many bytes from a socket; 0: its stream has ended.
    ///
    /// # Errors
    /// `EAGAIN`: nothing is there; else what became of the connection.
    pub(super) fn fill(&mut self, from: impl AsFd, most: usize) -> Result<usize, Errno> {
        let moved = splice(&from, None, &self.into, None, most.min(self.room), FLAGS)?;
        if moved == 0 {
            // Urgent data is no end: where the other side has closed already, the kernel says the same before both.
            return self.fill_by_copy(from);
        }
        self.held += moved;
        Ok(moved)
    }

    /// The same for what the kernel does not splice: urgent data, and what stands behind it. Few bytes at a time, into an empty pipe.
    ///
    /// # Errors
    /// As of [`fill`](Pipe::fill).
    pub(super) fn fill_by_copy(&mut self, from: impl AsFd) -> Result<usize, Errno> {
        let mut bytes = [0; COPIED];
        let (length, _) = recv(from, &mut bytes, RecvFlags::DONTWAIT)?;
        let mut left = &bytes[..length];
        while !left.is_empty() {
            let written = write(&self.into, left)?;
            self.held += written;
            left = left.get(written..).unwrap_or_default();
        }
        Ok(length)
    }

    /// Gives what is in it to a socket, as far as that takes it.
    ///
    /// # Errors
    /// `EAGAIN`: it takes nothing now; else what became of the connection.
    pub(super) fn empty(&mut self, to: impl AsFd) -> Result<usize, Errno> {
        let moved = splice(&self.out, None, to, None, self.held, FLAGS)?;
        self.held -= moved;
        Ok(moved)
    }
}

const FLAGS: SpliceFlags = SpliceFlags::MOVE.union(SpliceFlags::NONBLOCK);

/// Pipes that nobody uses.
#[derive(Debug, Default)]
pub(super) struct Pipes(Vec<Pipe>);

impl Pipes {
    /// An empty pipe.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`: no more descriptors.
    pub(super) fn take(&mut self) -> Result<Pipe, Errno> {
        self.0.pop().map_or_else(Pipe::open, Ok)
    }

    /// One that is used no more; what is still in it is lost.
    pub(super) fn put(&mut self, pipe: Pipe) {
        if pipe.held == 0 && self.0.len() < KEPT {
            self.0.push(pipe);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};
    use socket2::SockRef;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    #[test]
    fn bytes_pass_whole_and_in_order_and_an_empty_pipe_serves_again() {
        let mut pipes = Pipes::default();
        let (mut from, near) = UnixStream::pair().expect("sockets");
        let (far, mut to) = UnixStream::pair().expect("sockets");
        near.set_nonblocking(true).expect("set");
        let mut pipe = pipes.take().expect("a pipe");
        assert_eq!(pipe.fill(&near, 100), Err(Errno::AGAIN));
        from.write_all(b"hello").expect("sent");
        assert_eq!(pipe.fill(&near, 100), Ok(5));
        assert_eq!((pipe.empty(&far), pipe.held), (Ok(5), 0));
        let mut got = [0; 5];
        to.read_exact(&mut got).expect("read");
        assert_eq!(&got, b"hello");
        drop(from);
        assert_eq!(pipe.fill(&near, 100), Ok(0), "the end");
        pipes.put(pipe);
        assert_eq!(pipes.0.len(), 1);
        let mut pipe = pipes.take().expect("a pipe");
        to.write_all(b"left").expect("sent");
        assert_eq!(pipe.fill(&far, 100), Ok(4));
        pipes.put(pipe);
        assert!(pipes.0.is_empty(), "what holds bytes of one connection never serves another");
    }

    #[test]
    fn urgent_data_before_the_end_of_a_stream_is_not_taken_for_that_end() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let from = TcpStream::connect(listener.local_addr().expect("its address")).expect("connected");
        let (near, _) = listener.accept().expect("accepted");
        SockRef::from(&near).set_out_of_band_inline(true).expect("set");
        (&from).write_all(b"abc").expect("sent");
        SockRef::from(&from).send_out_of_band(b"U").expect("sent");
        (&from).write_all(b"def").expect("sent");
        from.shutdown(std::net::Shutdown::Write).expect("closed");
        let mut end = [PollFd::new(&near, PollFlags::RDHUP)];
        assert_eq!(poll(&mut end, None), Ok(1), "all of it has arrived, and the end behind it");
        near.set_nonblocking(true).expect("set");
        let mut pipe = Pipe::open().expect("a pipe");
        while pipe.fill(&near, 100).expect("there is something, or the end") > 0 {}
        let mut got = [0; 100];
        assert_eq!(rustix::io::read(&pipe.out, &mut got), Ok(7));
        assert_eq!(&got[..7], b"abcUdef");
    }
}
