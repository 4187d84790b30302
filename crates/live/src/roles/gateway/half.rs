//! One of the gateway's two ends of a connection: a socket of the kernel's, and what has come from it and not gone on.

use super::budget::{Budget, Weight};
use super::pipes::{Pipe, Pipes};
use super::socket::{Buffers, set_dscp};
use crate::shell::poller::{Interest, Poller, Token, Turn};
use crate::sys::tcp::{Setting, TcpInfo, send_queue, set, tcp_info};
use fairspan_core::split::relay::End;
use fairspan_core::units::Span;
use rustix::io::Errno;
use socket2::{SockRef, Socket};
use std::os::fd::AsFd;
use std::time::Duration;

/// So much of it may come at once, as far as is known before it is read.
const SOME: u64 = 1 << 30;

/// An end.
#[derive(Debug)]
pub(super) struct Half {
    pub(super) socket: Socket,
    pub(super) token: Token,
    interest: Interest,
    /// The kernel has just said that it can be read.
    promised: bool,
    /// Until the kernel says otherwise.
    readable: bool,
    writable: bool,
    established: bool,
    failed: Option<Errno>,
    finished: bool,
    aborted: bool,
    /// It faces the long link.
    pub(super) is_long: bool,
    pub(super) buffers: Buffers,
    weight: Weight,
    /// Bytes a second that it may send; -1: any.
    paced: i32,
    looked: u64,
    /// Of what it sends.
    dscp: u8,
    pipe: Option<Pipe>,
    /// Bytes that came from it, and bytes that it was given.
    pub(super) came: u64,
    pub(super) given: u64,
    pub(super) round_trip: Span,
}

impl Half {
    /// An end that is connected, or is being connected.
    ///
    /// # Errors
    /// When the kernel has no room to wait for it.
    pub(super) fn new(socket: Socket, is_long: bool, established: bool, poller: &Poller) -> Result<Half, Errno> {
        let token = poller.watch(socket.as_fd(), Turn::Links)?;
        let mut half = Half {
            socket,
            token,
            interest: Interest::Read,
            promised: false,
            readable: established,
            writable: established,
            established,
            failed: None,
            finished: false,
            aborted: false,
            is_long,
            buffers: Buffers::default(),
            weight: Weight::of(Span::ZERO),
            paced: -1,
            looked: 0,
            dscp: 0,
            pipe: None,
            came: 0,
            given: 0,
            round_trip: Span::ZERO,
        };
        if !established {
            half.wait_for(Interest::Write, poller);
        }
        // Who kills the daemon has the kernel close its sockets, and a stream that is cut off must not look like one that has ended.
        half.reset_when_dropped(true);
        half.measure();
        Ok(half)
    }

    /// For core's rules.
    pub(super) fn end(&self) -> End {
        let waiting = self.pipe.as_ref().map_or(0, |pipe| pipe.held as u64);
        End {
            established: self.established,
            failed: self.failed.is_some(),
            readable: if self.readable && !self.finished { SOME } else { waiting },
            finished: self.finished,
            room: if self.writable && self.failed.is_none() { SOME } else { 0 },
            urgent: 0,
        }
    }

    /// Why it failed.
    pub(super) fn failure(&self) -> Option<Errno> {
        self.failed
    }

    /// It can be read, or has failed.
    pub(super) fn on_readable(&mut self) {
        if !self.established {
            return self.on_answer();
        }
        self.readable = !self.finished;
        self.promised = self.readable;
        if matches!(self.interest, Interest::Nothing | Interest::Write)
            && let Some(errno) = self.error()
        {
            // Nobody reads it now, so nobody else would see it.
            self.failed = Some(errno);
        }
    }

    /// It takes more, or the far end has answered.
    pub(super) fn on_writable(&mut self) {
        if self.established {
            self.writable = true;
        } else {
            self.on_answer();
        }
    }

    fn on_answer(&mut self) {
        match self.error() {
            Some(errno) => self.failed = Some(errno),
            None if self.socket.peer_addr().is_ok() => {
                (self.established, self.readable, self.writable) = (true, true, true);
                self.measure();
            }
            None => {}
        }
    }

    fn error(&self) -> Option<Errno> {
        let error = self.socket.take_error().ok().flatten()?;
        Some(Errno::from_raw_os_error(error.raw_os_error().unwrap_or(libc::ECONNRESET)))
    }

    /// Moves what there is to the other end, at most about `most` bytes; how many went.
    pub(super) fn move_to(&mut self, other: &mut Half, most: u64, pipes: &mut Pipes) -> u64 {
        let mut pipe = match self.pipe.take().map_or_else(|| pipes.take(), Ok) {
            Ok(pipe) => pipe,
            Err(errno) => {
                self.failed = Some(errno);
                return 0;
            }
        };
        let mut moved = 0;
        while moved < most {
            if pipe.held == 0 && !self.fill(&mut pipe, most - moved) {
                break;
            }
            match pipe.empty(&other.socket) {
                Ok(bytes) => moved += bytes as u64,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    other.writable = false;
                    break;
                }
                Err(errno) => {
                    other.failed = Some(errno);
                    break;
                }
            }
        }
        other.given += moved;
        if pipe.held > 0 {
            self.pipe = Some(pipe);
        } else {
            pipes.put(pipe);
        }
        moved
    }

    /// Whether anything came.
    fn fill(&mut self, pipe: &mut Pipe, most: u64) -> bool {
        let promised = std::mem::take(&mut self.promised);
        let filled = match pipe.fill(&self.socket, usize::try_from(most).unwrap_or(usize::MAX)) {
            // It can be read, and not spliced: urgent data is next.
            Err(Errno::AGAIN) if promised => pipe.fill_by_copy(&self.socket),
            filled => filled,
        };
        match filled {
            Ok(0) => (self.finished, self.readable) = (true, false),
            Ok(bytes) => {
                self.came += bytes as u64;
                return true;
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => self.readable = false,
            Err(errno) => self.failed = Some(errno),
        }
        false
    }

    /// Bytes that came from it, were read, and not taken by the other end.
    pub(super) fn between(&self) -> u64 {
        self.pipe.as_ref().map_or(0, |pipe| pipe.held as u64)
    }

    /// Waits for what is of use now; `paused`: nothing is to be read for the time being.
    pub(super) fn settle(&mut self, other_has_for_it: bool, paused: bool, poller: &Poller) {
        if !self.established || self.failed.is_some() {
            return;
        }
        let reads = !self.finished && self.pipe.is_none() && !paused;
        self.wait_for(
            match (reads, other_has_for_it) {
                (true, true) => Interest::ReadAndWrite,
                (true, false) => Interest::Read,
                (false, true) => Interest::Write,
                (false, false) => Interest::Nothing,
            },
            poller,
        );
    }

    fn wait_for(&mut self, interest: Interest, poller: &Poller) {
        if self.interest != interest && poller.set_interest(self.token, self.socket.as_fd(), interest).is_ok() {
            self.interest = interest;
        }
    }

    /// Nothing more will be given to it: what it was given is the kernel's to send, whatever becomes of the daemon.
    pub(super) fn close(&mut self) {
        let _ = self.socket.shutdown(std::net::Shutdown::Write);
        self.reset_when_dropped(false);
    }

    /// It is reset when it is dropped.
    pub(super) fn abort(&mut self) {
        self.aborted = true;
        self.reset_when_dropped(true);
    }

    fn reset_when_dropped(&self, is_reset: bool) {
        let _ = SockRef::from(&self.socket).set_linger(is_reset.then_some(Duration::ZERO));
    }

    /// What the kernel knows of it; its round trip is noted.
    pub(super) fn measure(&mut self) -> TcpInfo {
        let info = tcp_info(self.socket.as_fd()).unwrap_or_default();
        if info.round_trip > Span::ZERO {
            self.round_trip = info.round_trip;
        }
        info
    }

    /// By what it shares memory.
    pub(super) fn weight(&self) -> Weight {
        self.weight
    }

    pub(super) fn set_weight(&mut self, weight: Weight) {
        self.weight = weight;
    }

    /// Has its share of the memory from now on.
    pub(super) fn share(&mut self, budget: &Budget) {
        let share = budget.share(self.weight);
        if share != self.buffers {
            self.buffers = share;
            share.apply(&self.socket);
        }
    }

    /// Bytes that it was given since the last look.
    pub(super) fn look_at_given(&mut self) -> u64 {
        self.given - std::mem::replace(&mut self.looked, self.given)
    }

    /// Its shortest round trip, and how much longer it is now, where both are known.
    pub(super) fn wait(&mut self) -> Option<(Span, Span)> {
        let info = self.measure();
        let is_known = info.least_round_trip > Span::ZERO && info.round_trip > Span::ZERO;
        is_known.then(|| (info.least_round_trip, info.round_trip - info.least_round_trip))
    }

    /// Sends no faster than this, in bytes a second.
    pub(super) fn pace(&mut self, rate: Option<u64>) {
        let wanted = rate.map_or(-1, |rate| i32::try_from(rate).unwrap_or(-1));
        // A tenth more or less is not worth a system call.
        let near = wanted > 0 && self.paced > 0 && (wanted - self.paced).abs() < self.paced / 10;
        if wanted != self.paced && !near && set(self.socket.as_fd(), Setting::PacingRate, wanted).is_ok() {
            self.paced = wanted;
        }
    }

    /// What it sends has this DSCP.
    pub(super) fn mark(&mut self, dscp: u8) {
        if dscp != self.dscp && set_dscp(&self.socket, dscp).is_ok() {
            self.dscp = dscp;
        }
    }

    /// Whether it sends as fast as it may.
    pub(super) fn is_at_its_pace(&self, info: &TcpInfo) -> bool {
        u64::try_from(self.paced).is_ok_and(|paced| info.delivery_rate >= paced / 10 * 9)
    }

    /// Bytes that were given to it and not acknowledged; none of one that has failed or is reset.
    pub(super) fn held(&self) -> u64 {
        if self.failed.is_some() || self.aborted { 0 } else { send_queue(self.socket.as_fd()).0 }
    }

    /// Nothing of it is waited for any more; its pipe goes back.
    pub(super) fn detach(&mut self, poller: &Poller, pipes: &mut Pipes) {
        poller.unwatch(self.token, self.socket.as_fd());
        self.pipe.take().into_iter().for_each(|pipe| pipes.put(pipe));
    }
}
