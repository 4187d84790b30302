//! What every node of a simulation is to the world: packets go in and out, timers run out, and at the end it tells what
//! it holds, what it dropped and what it measured.
//!
//! A node has no IO and knows no other node. It gets a packet or the end of a timer, and answers with what the world is
//! to do next:
//!
//! | input | output |
//! |---|---|
//! | [`begin`](Node::begin): time begins | timers, through [`Here`] |
//! | [`handle_packet`](Node::handle_packet): a packet comes to one of its ports | [`Next`]: nothing, one [`Output`], or [`poll`](Node::poll) until there is none |
//! | [`handle_timeout`](Node::handle_timeout): one of its timers has run out | the same |
//! | [`handle_room`](Node::handle_room): the answer to [`ask_room`](Node::ask_room), before each poll | none of its own: it is being polled |
//!
//! The world does each output, with all that follows from it, before it polls for the next one. So a node may be given
//! packets while it is polled; what these make belongs to the loop that runs already, and the node answers
//! [`Next::Nothing`].
//!
//! A timer is a small number of the node's own; [`Here::schedule`] sets one. There is no question for the next timeout:
//! events of one time come in the order in which they were put in, so a node puts them in at the moment when it decides.
//! An event cannot be taken back; [`Timer`](timer::Timer) is for those that are set anew.
//!
//! The kinds of nodes, and which are which, are listed in `world/nodes.rs`.

pub(crate) mod flow;
mod ideal;
pub(crate) mod link;
pub(crate) mod medium;
pub(crate) mod outbox;
pub(crate) mod processor;
pub(crate) mod timer;
pub(crate) mod waiting;

use crate::engine::Engine;
use crate::engine::event::Event;
use crate::engine::log::What;
use crate::engine::pool::{Handle, Slot};
use crate::metrics::series;
use crate::packet::Packet;
use crate::results::Results;
use fairspan_core::units::Time;

/// The engine, as the node sees it that is being handled.
#[derive(Debug)]
pub(crate) struct Here<'a> {
    pub(crate) engine: &'a mut Engine,
    /// Its number among those of its kind.
    pub(crate) number: u32,
    /// The place of its timer 0.
    pub(crate) first: u32,
    /// Where it is in the log.
    pub(crate) mark: u32,
}

impl Here<'_> {
    /// The present.
    #[inline]
    pub(crate) fn now(&self) -> Time {
        self.engine.now()
    }

    /// Whether the present is measured.
    #[inline]
    pub(crate) fn counts(&self) -> bool {
        self.engine.measured().counts(self.engine.now())
    }

    /// Sets a timer.
    #[inline]
    pub(crate) fn schedule(&mut self, timer: u32, time: Time) {
        self.engine.schedule(time, self.first + timer);
    }

    /// Sets a timer by an event whose order was taken from [`Engine::order`] before.
    #[inline]
    pub(crate) fn arm(&mut self, timer: u32, event: Event) {
        self.engine.arm(event, self.first + timer);
    }

    /// Logs what happened to a packet here.
    #[inline]
    pub(crate) fn record(&mut self, what: What, packet: Handle) {
        self.engine.record(what, self.mark, packet);
    }
}

/// What a node wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// A packet goes to the next step of its path.
    Forward(Handle),
    /// The same, and it is recorded in the capture.
    Capture(Handle),
    /// A packet that stays in the node is recorded in the capture, as [`Node::observed`] says.
    Observe(Handle),
    /// A packet was dropped here.
    Dropped(Handle),
    /// This part of the node has something to be polled.
    Poll(u32),
    /// A link has something to tell this medium.
    Share(u32),
    /// The transport at a processor's node found a packet out of order.
    OutOfOrder(u32),
}

/// What follows an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing.
    Nothing,
    /// This alone.
    Only(Output),
    /// This part of the node is to be polled until it has nothing more.
    Poll(u32),
    /// The one, then the other.
    Then(Output, u32),
}

/// What tells of packets that were dropped: place, reason, how many. Zeros are ignored.
pub(crate) type Tell<'a> = &'a mut dyn FnMut(&str, &str, u64);

/// A node of a simulation; `name` is always its scenario's name for it.
pub(crate) trait Node: std::fmt::Debug {
    /// Time begins.
    fn begin(&mut self, here: Here<'_>) {
        let _ = here;
    }

    /// A packet has come to one of its ports, which are numbers of the node's own.
    fn handle_packet(&mut self, here: Here<'_>, port: u32, packet: Handle) -> Next;

    /// A timer has run out, by this event.
    fn handle_timeout(&mut self, here: Here<'_>, timer: u32, event: Event) -> Next;

    /// The next thing to be done for one of its parts, asked for after [`Next::Poll`] until there is none.
    fn poll(&mut self, here: Here<'_>, part: u32) -> Option<Output> {
        let _ = (here, part);
        None
    }

    /// The next link whose room one of its parts must know of before it is polled; asked for until there is none.
    #[inline(always)]
    fn ask_room(&mut self, part: u32) -> Option<u32> {
        let _ = part;
        None
    }

    /// The link that this part asked about will have room for a packet at this time, which may be now.
    #[inline(always)]
    fn handle_room(&mut self, now: Time, part: u32, at: Time) {
        let _ = (now, part, at);
    }

    /// A packet of its own making was dropped somewhere.
    fn handle_lost(&mut self, packet: &Slot) {
        let _ = packet;
    }

    /// A packet that was lost together with what [`Node::handle_lost`] told.
    fn poll_lost(&mut self) -> Option<Handle> {
        None
    }

    /// The number in captures of what the packet that is to be recorded now has crossed.
    fn observed(&self) -> u32 {
        0
    }

    /// Writes what a packet of its own making has behind its headers, for a capture.
    fn write_content(&self, packet: &Packet, bytes: &mut Vec<u8>) {
        let _ = (packet, bytes);
    }

    /// Packets in it.
    fn in_flight(&self) -> u64;

    /// Packets it has dropped in all, by place and reason.
    fn dropped(&self, name: &str, tell: Tell<'_>) {
        let _ = (name, tell);
    }

    /// Names of its series with their units.
    fn series(&self, name: &str, tell: &mut dyn FnMut(String, &'static str, series::Kind)) {
        let _ = (name, tell);
    }

    /// The values of its series now, in the order of their names.
    fn sample(&mut self, now: Time, tell: &mut dyn FnMut(f64)) {
        let _ = (now, tell);
    }

    /// The warm-up is over. Tells which of its series begin anew at zero, by their order, and what they had come to.
    fn measure(&mut self, now: Time, restart: &mut dyn FnMut(usize, f64)) {
        let _ = (now, restart);
    }

    /// Puts what was measured where it belongs; time has ended.
    fn result(&mut self, here: Here<'_>, name: &str, results: &mut Results) {
        let _ = (here, name, results);
    }
}
