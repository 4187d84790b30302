//! The stripe: one stream of packets over several channels and back in order, with no byte added to a packet.
//!
//! Source: striping §4-§6.3, appendices A and B. A [`Sender`] runs surplus round robin and says where each packet
//! goes; a [`Receiver`] simulates it and so knows where the next packet will come from (logical reception). Markers
//! between the data bring the receiver back in step after a loss. An [`Endpoint`] is one of each, as a host has them.
//!
//! The calling sequence (after every input: control out, data out, deliver):
//!
//! ```
//! use fairspan_core::causal::ChannelSet;
//! use fairspan_core::stripe::{Config, Endpoint, ReceiverConfig};
//! use fairspan_core::units::{Bytes, Time};
//!
//! let set = ChannelSet::of(&[3000, 1500], Bytes::new(1500)).unwrap();
//! let now = Time::ZERO;
//! let mut a: Endpoint<Vec<u8>> = Endpoint::new(Config::default(), ReceiverConfig::default(), &set, now, 1).unwrap();
//! let mut b: Endpoint<Vec<u8>> = Endpoint::new(Config::default(), ReceiverConfig::default(), &set, now, 2).unwrap();
//! // Handshake: plans, answers, first markers. A network would carry these; here they just pass over.
//! loop {
//!     let mut quiet = true;
//!     while let Some((channel, control)) = a.poll_control(now) {
//!         b.handle_control(now, channel, &control);
//!         quiet = false;
//!     }
//!     while let Some((channel, control)) = b.poll_control(now) {
//!         a.handle_control(now, channel, &control);
//!         quiet = false;
//!     }
//!     if quiet {
//!         break;
//!     }
//! }
//! assert!(a.sender.is_established());
//! let mut delivered = Vec::new();
//! for n in 0..100u8 {
//!     let packet = vec![n; 100 + usize::from(n) * 10];
//!     let len = Bytes::from(packet.len());
//!     let channel = a.sender.next_channel(len).unwrap();
//!     b.handle_data(now, channel, packet);
//!     a.sender.on_sent(now, len);
//!     while let Some((channel, control)) = a.poll_control(now) {
//!         b.handle_control(now, channel, &control);
//!     }
//!     delivered.extend(std::iter::from_fn(|| b.poll_deliver()).map(|p| p[0]));
//! }
//! a.sender.on_idle(now);
//! assert!(delivered.into_iter().eq(0..100));
//! ```

mod config;
pub mod credit;
mod endpoint;
mod event;
pub mod fragment;
mod held;
pub mod quanta;
mod receiver;
mod sender;
mod serial;

pub use config::{Config, ConfigError, MarkerPlace, ReceiverConfig};
pub use endpoint::Endpoint;
pub use event::{EpochCause, Event, ReceiverStats, Stats, Wait};
pub use receiver::Receiver;
pub use sender::Sender;
