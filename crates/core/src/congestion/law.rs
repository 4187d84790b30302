//! What a sender tells congestion control, and what it is answered.
//!
//! What it is: the trait [`Law`] and its events. A sender tells each packet that goes out, each acknowledgment, each loss, mark
//! and timeout; the law answers with how much may be under way and how fast it may go. What is lost, what is sent again and
//! when, is the sender's own business.
//!
//! Units: bytes count whatever the sender counts (payload, or packets with their headers), the same in all events. Positions
//! are opaque numbers that only grow: TCP's stream positions, a channel's packet numbers. Laws compare them, to tell one round
//! from the next, and nothing else.
//!
//! A sender that numbers packets finds which loss begins a new episode with [`Episode`](crate::loss::episode::Episode).

use crate::loss::delivery_rate::Sample;
use crate::units::{Bytes, Rate, Span, Time};

/// A packet goes out, for the first time or again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// When.
    pub now: Time,
    /// Its bytes.
    pub bytes: Bytes,
    /// Bytes under way before it.
    pub in_flight: Bytes,
    /// The position after it.
    pub end: u64,
}

/// Data was delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acked {
    /// When the acknowledgment came.
    pub now: Time,
    /// Bytes that it acknowledges for the first time. With TCP these are in order (zero where SACK alone reports something),
    /// and neither the SYN nor the FIN is one.
    pub bytes: Bytes,
    /// Bytes that were under way before it (FlightSize).
    pub in_flight: Bytes,
    /// The round trip that it measures, if it does.
    pub rtt: Option<Span>,
    /// How long the newest packet waited in queues on its way, where the peer tells when it arrived.
    pub waited: Option<Span>,
    /// The smoothed round trip, this sample included; zero before the first.
    pub smoothed_rtt: Span,
    /// The position up to which data is acknowledged now (SND.UNA, or the one after the highest number acknowledged).
    pub up_to: u64,
    /// The position of the next new packet (SND.NXT).
    pub next: u64,
    /// Whether the window, and neither the application nor the peer, stopped the sender before this.
    pub limited: bool,
    /// Whether the sender's own recovery goes on, which then moves the window ([`Law::on_recovery`]).
    pub recovering: bool,
    /// What the acknowledgment says about the rate of delivery, where the law wants it.
    pub delivery: Option<Sample>,
}

/// What is known of a path's rate before anything was sent over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathRate {
    /// It was measured.
    About(Rate),
    /// It may be much more: the path jitters for longer than the measurement took.
    AtLeast(Rate),
}

impl PathRate {
    /// What was measured.
    pub fn rate(self) -> Rate {
        match self {
            PathRate::About(rate) | PathRate::AtLeast(rate) => rate,
        }
    }
}

/// A sign of congestion: a loss, a mark, a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Congested {
    /// When it was found.
    pub now: Time,
    /// Bytes lost, or marked, that were not told before.
    pub bytes: Bytes,
    /// Bytes under way (FlightSize); what limited transmit sent is not counted (RFC 5681, 3.2, step 2).
    pub in_flight: Bytes,
    /// The most that the peer's window, or a setting, allows to be under way.
    pub limit: Bytes,
    /// Whether it begins a new episode. A window of data has one episode at most (RFC 5681, 3.2; RFC 9002, 7.3.2); of timeouts
    /// of the same packet only the first begins one (RFC 5681, 3.1).
    pub begins: bool,
    /// Of marks: whether `bytes` are those that were marked, and not all of an acknowledgment with an echo (RFC 3168) that says of none which.
    pub exact: bool,
}

/// A law of congestion control: events in, a window and a rate out.
pub trait Law {
    /// A packet goes out.
    fn on_sent(&mut self, sent: &Sent);
    /// Data was delivered.
    fn on_acked(&mut self, acked: &Acked);
    /// Packets were found lost, by their order or by time.
    fn on_lost(&mut self, lost: &Congested);
    /// Packets arrived with the mark of congestion (ECN-CE).
    fn on_ecn(&mut self, marked: &Congested);
    /// The retransmission timer expired, or all of a long time was lost (RFC 9002, 7.6): nothing is taken to be under way.
    fn on_timeout(&mut self, timeout: &Congested);
    /// Nothing was sent for `idle`, which is more than a retransmission timeout, and something will be now.
    fn on_idle(&mut self, idle: Span);
    /// The sender's recovery moves the window: by duplicate ACKs (RFC 5681, 3.2), in proportion (RFC 6937), for F-RTO's two
    /// segments, or to where it ends. A law with a model of its own need not follow.
    fn on_recovery(&mut self, window: Bytes);
    /// The last episode was for nothing (RFC 4015): window and threshold are at least what they were before it. Nothing
    /// happens when there is none to take back.
    fn on_undo(&mut self);

    /// The rate of the path was measured by other means, before the sender sent anything. A law without a model of it has no use
    /// for that.
    fn on_path_rate(&mut self, _rate: PathRate) {}

    /// How much may be under way.
    fn window(&self) -> Bytes;
    /// What a recovery brings the window down to (ssthresh); `u64::MAX` bytes where there is no such bound yet.
    fn threshold(&self) -> Bytes;
    /// Whether it goes by samples of the delivery rate ([`Acked::delivery`]): where not, a sender need not measure.
    fn wants_delivery_rate(&self) -> bool;
    /// The rate that the path was found to carry; `None` where the law has no such model, or knows nothing yet.
    fn path_rate(&self) -> Option<Rate> {
        None
    }
    /// Whether it finds that a queue stands on the path; never, where it does not look for one.
    fn has_queue(&self) -> bool {
        false
    }
    /// Whether that rate may still be much less than the path carries, because no more was sent yet.
    fn is_starting(&self) -> bool {
        false
    }
    /// How fast a sender that paces sends; `None` before a round trip was measured: as fast as the window lets it.
    fn pacing_rate(&self) -> Option<Rate>;
}

#[cfg(test)]
impl Acked {
    /// `bytes` acknowledged at `ms`, with a round trip of 100 ms that was not measured now.
    pub(super) fn new(ms: u64, bytes: u64) -> Acked {
        Acked {
            now: Time::from_millis(ms),
            bytes: Bytes::new(bytes),
            in_flight: Bytes::ZERO,
            rtt: None,
            waited: None,
            smoothed_rtt: Span::from_millis(100),
            up_to: 0,
            next: 0,
            limited: true,
            recovering: false,
            delivery: None,
        }
    }
}

#[cfg(test)]
impl Congested {
    /// A new episode with `in_flight` bytes under way.
    pub(super) fn new(in_flight: u64) -> Congested {
        Congested {
            now: Time::ZERO,
            bytes: Bytes::ZERO,
            in_flight: Bytes::new(in_flight),
            limit: Bytes::new(u64::MAX),
            begins: true,
            exact: true,
        }
    }
}
