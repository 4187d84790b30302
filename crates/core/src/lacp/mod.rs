//! Link aggregation by IEEE 802.1AX: LACP and the marker protocol, sans IO.
//!
//! [`Lacp`] is one system and its ports. It is given the frames that come ([`is_slow_protocol`] tells which), the ports'
//! links and the time; it gives the frames to send and says which ports carry the bond's traffic
//! ([`Lacp::distributing`]). With the same settings it behaves to its partner as the Linux bonding driver's mode 4 does.
//!
//! ```
//! use fairspan_core::lacp::{Lacp, PortLink};
//! use fairspan_core::select::ieee8023ad::Config;
//! use fairspan_core::units::{ChannelId, Rate, Time};
//! use fairspan_core::wire::mac::Mac;
//!
//! let [here, there] = [Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2])];
//! let [mut a, mut b] = [here, there].map(|mac| Lacp::new(&Config::default(), mac));
//! let mut now = Time::ZERO;
//! for port in [ChannelId(0), ChannelId(1)] {
//!     a.set_port(now, port, PortLink::up(here, Rate::from_mbit(1000)));
//!     b.set_port(now, port, PortLink::up(there, Rate::from_mbit(1000)));
//! }
//! while now < Time::from_millis(5000) {
//!     while let Some(sent) = a.poll_transmit() {
//!         b.handle_pdu(now, sent.port, &sent.frame)?;
//!     }
//!     while let Some(sent) = b.poll_transmit() {
//!         a.handle_pdu(now, sent.port, &sent.frame)?;
//!     }
//!     now = a.poll_timeout().into_iter().chain(b.poll_timeout()).min().expect("LACP has timers").max(now);
//!     a.handle_timeout(now);
//!     b.handle_timeout(now);
//! }
//! assert_eq!((a.distributing().len(), b.distributing().len()), (2, 2));
//! # Ok::<(), fairspan_core::lacp::PduError>(())
//! ```

mod churn;
mod limit;
mod marker;
mod mux;
mod pdu;
mod periodic;
mod port;
mod receive;
mod selection;
mod states;
mod status;
mod system;
mod transmit;

pub use churn::Churn;
pub use marker::MARKERS_PER_SECOND;
pub use pdu::{
    ETHER_TYPE, FRAME_LEN, Lacpdu, Marker, Pdu, PduError, PortInfo, SLOW_PROTOCOLS, State, is_slow_protocol,
};
pub use port::{PortLink, PortStats};
pub use states::{MuxState, PeriodicState, ReceiveState};
pub use status::{AggregatorStatus, PortStatus, Status};
pub use system::{Event, Lacp, Transmit};

use crate::units::Span;

/// Between LACPDUs to a partner that asks for them fast.
pub const FAST_PERIODIC_TIME: Span = Span::from_secs(1);
/// Between LACPDUs to a partner that asks for them slowly.
pub const SLOW_PERIODIC_TIME: Span = Span::from_secs(30);
/// Without a LACPDU for this long, a partner that was asked for them fast is in doubt.
pub const SHORT_TIMEOUT_TIME: Span = Span::from_secs(3);
/// Without a LACPDU for this long, a partner that was asked for them slowly is in doubt.
pub const LONG_TIMEOUT_TIME: Span = Span::from_secs(90);
/// A port out of synchronization for this long has churned.
pub const CHURN_DETECTION_TIME: Span = Span::from_secs(60);
/// A port waits this long for others that may join its aggregator.
pub const AGGREGATE_WAIT_TIME: Span = Span::from_secs(2);
/// Most LACPDUs of a port in [`FAST_PERIODIC_TIME`].
pub const MAX_TX_IN_SECOND: usize = 3;

#[cfg(test)]
mod tests;
