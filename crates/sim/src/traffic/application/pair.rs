//! Both ends of one connection, with what the application has still to write there.

use crate::tcp::{Connection, Failure, State};
use fairspan_core::units::Time;

/// Which end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// At the flow's sender.
    Sender = 0,
    /// At the flow's receiver.
    Receiver = 1,
}

impl End {
    /// Both.
    pub const BOTH: [End; 2] = [End::Sender, End::Receiver];
}

/// A connection with this much to send needs no more yet: no window is larger.
const ENOUGH: u64 = 1 << 32;

/// Both ends of one connection.
#[derive(Clone, Debug)]
pub struct Pair {
    number: u32,
    ends: [Connection; 2],
    outbox: [Outbox; 2],
    received: [u64; 2],
    moved: bool,
    /// The application's own mark, such as which of its transfers this is.
    pub mark: u64,
    /// When it was opened.
    pub opened: Time,
}

/// What an end has still to write.
#[derive(Clone, Copy, Debug, Default)]
struct Outbox {
    bytes: u64,
    /// Close when all is written.
    close: bool,
    closed: bool,
}

impl Pair {
    /// A connection with this number.
    pub fn new(number: u32, now: Time, ends: [Connection; 2]) -> Pair {
        Pair { number, ends, outbox: [Outbox::default(); 2], received: [0; 2], moved: false, mark: 0, opened: now }
    }

    /// Its number in its flow.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// One end.
    pub fn end(&self, end: End) -> &Connection {
        &self.ends[end as usize]
    }

    /// One end, to be driven.
    pub fn end_mut(&mut self, end: End) -> &mut Connection {
        &mut self.ends[end as usize]
    }

    /// Payload bytes that the application at `end` got in all.
    pub fn received(&self, end: End) -> u64 {
        self.received[end as usize]
    }

    /// The application at `end` writes, `u64::MAX` bytes for a backlog without end; what the send buffer does not take waits and follows by itself.
    pub fn write(&mut self, now: Time, end: End, bytes: u64) {
        let outbox = &mut self.outbox[end as usize];
        outbox.bytes = outbox.bytes.saturating_add(bytes);
        self.flush(now, end);
    }

    /// Bytes written that the send buffer at `end` has not taken.
    pub fn waiting(&self, end: End) -> u64 {
        self.outbox[end as usize].bytes
    }

    /// The application at `end` closes, after everything that it wrote.
    pub fn close(&mut self, now: Time, end: End) {
        self.outbox[end as usize].close = true;
        self.flush(now, end);
    }

    /// Whether the application at `end` has closed.
    pub fn is_closing(&self, end: End) -> bool {
        self.outbox[end as usize].close
    }

    /// Moves what waits into the send buffer.
    pub fn flush(&mut self, now: Time, end: End) {
        let (outbox, connection) = (&mut self.outbox[end as usize], &mut self.ends[end as usize]);
        if outbox.bytes > 0 && !outbox.closed && connection.unsent() < ENOUGH {
            let taken = connection.write(now, outbox.bytes);
            // A backlog without end stays one.
            if outbox.bytes != u64::MAX {
                outbox.bytes -= taken;
            }
            self.moved |= taken > 0;
        }
        // Before that, closing would delete the connection with what was written (RFC 9293, 3.10.4).
        if outbox.close && !outbox.closed && outbox.bytes == 0 && connection.is_established() {
            outbox.closed = true;
            connection.close(now);
            self.moved = true;
        }
    }

    /// Whether anything was written or closed since this was last asked.
    pub fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    /// The application at `end` takes everything that is there: how many bytes.
    pub fn read(&mut self, now: Time, end: End) -> u64 {
        let connection = &mut self.ends[end as usize];
        if connection.readable() == 0 {
            return 0;
        }
        let bytes = connection.read(now, u64::MAX);
        self.received[end as usize] += bytes;
        bytes
    }

    /// Whether nothing more will come of it: an end gave its peer up, or both are closed. An end in TIME-WAIT counts as
    /// closed once the other one is: nobody is there whose FIN it could have to acknowledge again. So does one that still
    /// listens. Of an end that is not among those `here` nothing is known.
    pub fn is_over(&self, here: &[End]) -> bool {
        let rests = |end: &Connection| matches!(end.state(), State::Closed | State::TimeWait | State::Listen);
        let given_up = |end: &Connection| end.failure() == Some(Failure::TimedOut);
        let know = here.len() == End::BOTH.len();
        self.ends.iter().any(given_up)
            || (know && self.ends.iter().all(rests) && self.ends.iter().any(Connection::is_closed))
    }

    /// When a timer of one of these ends runs out.
    #[inline]
    pub fn poll_timeout(&self, ends: &[End]) -> Time {
        ends.iter().filter_map(|end| self.end(*end).poll_timeout()).min().unwrap_or(Time::MAX)
    }
}
