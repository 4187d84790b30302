//! Waiting for descriptors: epoll, over a slab of what is waited for.
//!
//! Each descriptor is known by a [`Token`]. Events are fetched in batches, and while one is handled a descriptor of a later
//! one may be closed and its slot filled anew: [`turn`](Poller::turn) tells which tokens still stand.
//!
//! Source: epoll(7); the kernel forgets a descriptor by itself when it is closed.

use super::slab::{Key, Slab};
use crate::system::system;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventFlags};
use rustix::io::Errno;
use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

/// Names a descriptor that is waited for, and no other later.
pub(crate) type Token = Key;

/// Which descriptors come first when several are ready at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Those of links: what is in transit is not to wait for what may still be held back.
    Links,
    /// The host's interface, and all else.
    Others,
}

/// What a descriptor is waited for. An error is told in any case, as something to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    /// Errors alone.
    Nothing,
    /// Something to read.
    Read,
    /// That, and room to write.
    ReadAndWrite,
    /// Room to write.
    Write,
}

/// A descriptor that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ready {
    pub(crate) token: Token,
    /// There is something to read, or an error to see.
    pub(crate) readable: bool,
    /// There is room again.
    pub(crate) writable: bool,
}

/// An epoll instance; its copies are the same one.
#[derive(Clone, Debug)]
pub(crate) struct Poller(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    epoll: OwnedFd,
    watched: RefCell<Slab<Turn>>,
}

/// A descriptor that is waited for as long as this lives; the descriptor is closed with it.
#[derive(Debug)]
pub(crate) struct Watched {
    poller: Poller,
    token: Token,
}

impl Watched {
    pub(crate) fn token(&self) -> Token {
        self.token
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.poller.forget(self.token);
    }
}

impl Poller {
    pub(crate) fn new() -> Result<Poller, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Poller(Rc::new(Inner { epoll, watched: RefCell::new(Slab::new()) })))
    }

    /// Begins to wait for something to read.
    pub(crate) fn watch(&self, fd: BorrowedFd<'_>, turn: Turn) -> Result<Token, Errno> {
        let token = self.0.watched.borrow_mut().insert(turn);
        let added = system().watch(self.0.epoll.as_fd(), fd, token.to_u64(), EventFlags::IN);
        added.inspect_err(|_| self.forget(token)).map(|()| token)
    }

    /// The same, for something that may come to nothing: what is waited for is forgotten with it.
    pub(crate) fn watched(&self, fd: BorrowedFd<'_>, turn: Turn) -> Result<Watched, Errno> {
        Ok(Watched { token: self.watch(fd, turn)?, poller: self.clone() })
    }

    /// Waits for something else from now on.
    pub(crate) fn set_interest(&self, token: Token, fd: BorrowedFd<'_>, interest: Interest) -> Result<(), Errno> {
        let flags = match interest {
            Interest::Nothing => EventFlags::empty(),
            Interest::Read => EventFlags::IN,
            Interest::ReadAndWrite => EventFlags::IN | EventFlags::OUT,
            Interest::Write => EventFlags::OUT,
        };
        system().rewatch(self.0.epoll.as_fd(), fd, token.to_u64(), flags)
    }

    /// Waits no longer for a descriptor that stays open.
    pub(crate) fn unwatch(&self, token: Token, fd: BorrowedFd<'_>) {
        let _ = system().unwatch(self.0.epoll.as_fd(), fd);
        self.forget(token);
    }

    /// A descriptor was closed: its slot is free.
    pub(crate) fn forget(&self, token: Token) {
        self.0.watched.borrow_mut().remove(token);
    }

    /// When a descriptor has its turn; `None` when it is waited for no longer, and an event of it is stale.
    pub(super) fn turn(&self, token: Token) -> Option<Turn> {
        self.0.watched.borrow().get(token).copied()
    }

    /// Waits until something is ready, at most as long as `timeout` says, and no longer than a signal allows.
    pub(super) fn wait(&self, events: &mut Vec<epoll::Event>, timeout: &Timespec) -> Result<(), Errno> {
        events.clear();
        match system().wait(self.0.epoll.as_fd(), events, timeout) {
            Ok(()) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno),
        }
    }
}

impl From<&epoll::Event> for Ready {
    fn from(event: &epoll::Event) -> Ready {
        let flags = event.flags;
        Ready {
            token: Token::from_u64(event.data.u64()),
            readable: flags != EventFlags::OUT,
            writable: flags.contains(EventFlags::OUT),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};
    use rustix::process::{Resource, getrlimit};

    const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

    /// A descriptor that is readable.
    fn readable() -> OwnedFd {
        eventfd(1, EventfdFlags::CLOEXEC).expect("an eventfd")
    }

    fn ready(poller: &Poller) -> Vec<Ready> {
        let mut events = Vec::with_capacity(1 << 17);
        poller.wait(&mut events, &AT_ONCE).expect("epoll");
        events.iter().map(Ready::from).collect()
    }

    #[test]
    fn what_is_watched_for_as_long_as_something_lives_is_forgotten_with_it() {
        let (poller, fd) = (Poller::new().expect("epoll"), readable());
        let watched = poller.watched(fd.as_fd(), Turn::Links).expect("watched");
        let token = watched.token();
        assert_eq!((poller.turn(token), ready(&poller).len()), (Some(Turn::Links), 1));
        drop((watched, fd));
        assert_eq!((poller.turn(token), ready(&poller).len()), (None, 0));
        // Its slot is used again.
        let other = readable();
        let again = poller.watched(other.as_fd(), Turn::Others).expect("watched");
        assert_eq!(again.token().slot(), token.slot());
    }

    #[test]
    fn tens_of_thousands_of_sockets_come_and_go_and_no_stale_event_is_taken_for_another() {
        let poller = Poller::new().expect("epoll");
        // As many at once as this process may have, with room for other tests.
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX).min(20_000) as usize / 2;
        let mut opened = 0;
        let mut open: Vec<(Token, OwnedFd)> = Vec::new();
        for _ in 0..6 {
            while open.len() < limit {
                let fd = readable();
                open.push((poller.watch(fd.as_fd(), Turn::Links).expect("watched"), fd));
                opened += 1;
            }
            let batch = ready(&poller);
            assert_eq!(batch.len(), limit);
            // While the batch is handled every other socket is closed, and others take the slots.
            let mut closed = Vec::new();
            let mut kept = Vec::new();
            for (n, (token, fd)) in open.drain(..).enumerate() {
                if n % 2 == 0 {
                    drop(fd);
                    poller.forget(token);
                    closed.push(token);
                } else {
                    kept.push((token, fd));
                }
            }
            for _ in 0..closed.len() {
                let fd = readable();
                kept.push((poller.watch(fd.as_fd(), Turn::Others).expect("watched"), fd));
                opened += 1;
            }
            assert!(closed.iter().all(|token| poller.turn(*token).is_none()), "stale events find nobody");
            let handled = batch.iter().filter(|ready| poller.turn(ready.token) == Some(Turn::Links)).count();
            assert_eq!(handled, limit / 2, "those that stayed, and none for a socket that was opened since");
            assert!(kept.iter().all(|(token, _)| token.slot() < limit), "slots are used again");
            // The new ones go too: the next round begins with half of the slots free.
            for (token, fd) in kept {
                match poller.turn(token) {
                    Some(Turn::Links) => open.push((token, fd)),
                    _ => {
                        drop(fd);
                        poller.forget(token);
                    }
                }
            }
            assert_eq!(ready(&poller).len(), open.len(), "the kernel forgets what is closed");
        }
        println!("{opened} sockets, {limit} at once");
    }

    #[test]
    fn a_descriptor_is_waited_for_as_it_was_asked() {
        let poller = Poller::new().expect("epoll");
        let fd = readable();
        let token = poller.watch(fd.as_fd(), Turn::Others).expect("watched");
        let told = |readable, writable| vec![Ready { token, readable, writable }];
        assert_eq!(ready(&poller), told(true, false));
        poller.set_interest(token, fd.as_fd(), Interest::ReadAndWrite).expect("changed");
        assert_eq!(ready(&poller), told(true, true));
        poller.set_interest(token, fd.as_fd(), Interest::Write).expect("changed");
        assert_eq!(ready(&poller), told(false, true));
        poller.set_interest(token, fd.as_fd(), Interest::Nothing).expect("changed");
        assert_eq!(ready(&poller), []);
        poller.unwatch(token, fd.as_fd());
        assert_eq!(poller.turn(token), None);
        let again = poller.watch(fd.as_fd(), Turn::Others).expect("watched again");
        assert!(again != token && again.slot() == token.slot());
    }
}
