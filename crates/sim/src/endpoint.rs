//! The contract between the world and what sends and receives at the ends of a flow.
//!
//! An [`Endpoint`] is both ends of one flow: an application, its transport's connections, or nothing but a responder.
//! It has no IO: packets and instants go in, packets and the instant of its next timer come out. After any input the
//! world drains [`poll_transmit`](Endpoint::poll_transmit), takes what was delivered, and asks for the timer.
//!
//! Datagram sources need none of this: the world asks a [`Source`](crate::traffic::Source) for its next packet.

pub use crate::packet::Outgoing;

use crate::packet::Packet;
use crate::results::{CallResult, GameResult, TcpResult, Transfers, VideoResult};
use fairspan_core::units::Time;

/// Both ends of a flow.
pub trait Endpoint: std::fmt::Debug + Send {
    /// The flow begins.
    fn start(&mut self, now: Time);

    /// The flow's time is over: nothing new is begun after this.
    fn stop(&mut self, now: Time);

    /// A packet has reached the end that it was for: the receiver's, or with `packet.reverse` the sender's.
    fn handle_packet(&mut self, now: Time, packet: &Packet) -> Handled;

    /// The instant that [`poll_timeout`](Endpoint::poll_timeout) gave has come.
    fn handle_timeout(&mut self, now: Time);

    /// The next packet that one of the ends sends.
    fn poll_transmit(&mut self, now: Time) -> Option<Outgoing>;

    /// When a timer of either end runs out next. It may move at any time, either way.
    fn poll_timeout(&self) -> Option<Time>;

    /// Payload bytes that receiving applications got, in order, since this was last asked.
    fn poll_delivered(&mut self) -> u64;

    /// What the transport did, where it is TCP.
    fn tcp(&self) -> Option<TcpResult> {
        None
    }

    /// Transfers or requests, where the traffic has any.
    fn transfers(&self) -> Option<Transfers> {
        None
    }

    /// What the viewer of a video saw until now.
    fn video(&self, now: Time) -> Option<VideoResult> {
        let _ = now;
        None
    }

    /// What the listener of a call heard until now.
    fn call(&self, now: Time) -> Option<CallResult> {
        let _ = now;
        None
    }

    /// What the player of a game saw until now.
    fn game(&self, now: Time) -> Option<GameResult> {
        let _ = now;
        None
    }

    /// The measurement begins: counts are forgotten, state is not.
    fn begin(&mut self, now: Time) {
        let _ = now;
    }

    /// One of the two ends is in another part of a divided world: the sender's, or with `reverse` the receiver's. From now on nothing is
    /// sent for it, and its timers do not run. Asked only of endpoints whose two ends know of each other by their packets alone.
    fn silence(&mut self, reverse: bool) {
        let _ = reverse;
    }

    /// The sender's congestion window in bytes, where it has one.
    fn window(&self) -> Option<u64> {
        None
    }
}

/// What a transport found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handled {
    /// The packet did not come next in its stream: hosts may pay for that.
    pub out_of_order: bool,
}
