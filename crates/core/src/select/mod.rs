//! Link selection: for each packet the link that carries it, so that flows keep their order with nothing at the receiver.
//!
//! A [`Policy`] names a way of choosing and its options ([`options`] is the one table of them); a [`Selector`] is such a
//! policy at work. The gateway's bonds, the simulator and the capture analyser all drive the same selectors:
//!
//! ```
//! use fairspan_core::select::{Frame, Layer, Links, LinkState, Select, Selector, Settings};
//! use fairspan_core::units::Time;
//!
//! let settings: Settings = "balance-rr:2".parse()?;
//! let links = Links::new([LinkState::default(), LinkState::default()]);
//! let mut selector = Selector::new(&settings, &links, 1)?;
//! let frame = Frame { bytes: &[0; 60], len: 60, layer: Layer::Ethernet };
//! let mut link = || selector.select(Time::ZERO, &frame, &links).first().map(|link| link.index());
//! assert_eq!([link(), link(), link(), link()], [Some(0), Some(1), Some(1), Some(0)]);
//! # Ok::<(), fairspan_core::select::PolicyError>(())
//! ```

pub mod active_backup;
pub mod adaptive;
pub mod alb;
pub mod balance_rr;
pub mod broadcast;
pub mod brr;
pub mod cut_off_least_queue;
pub mod fastest_transmit;
pub mod flowlet;
pub mod flush;
pub mod hash;
pub mod ieee8023ad;
pub mod least_queue;
pub mod n_to_one;
pub mod options;
pub mod potent;
pub mod supervision;
pub mod tlb;
pub mod traffic_meter;
pub mod xor;

mod fading;
mod idle;
mod links;
mod policy;
mod speeds;

pub use crate::flow::{Frame, Layer};
pub use links::{LinkState, Links};
pub use policy::{POLICIES, Policy, PolicyError, PolicySpec, Selector, Settings};

use crate::set::LinkSet;
use crate::units::{ChannelId, Time};

/// Chooses links for packets.
pub trait Select {
    /// The links that carry `frame`: one, or all of several copies; empty where no link is usable. Any bytes may come.
    fn select(&mut self, now: Time, frame: &Frame<'_>, links: &Links) -> LinkSet;

    /// As [`Select::select`], for a caller that can let a packet wait for its instant: also when the packet may begin to leave
    /// its link, those behind it waiting as well. A policy that does not need that says: at once.
    fn select_held(&mut self, now: Time, frame: &Frame<'_>, links: &Links) -> (LinkSet, Time) {
        (self.select(now, frame, links), Time::ZERO)
    }

    /// Links joined, left, came up, went down or have other rates. To be called before the next `select`.
    fn on_links(&mut self, _now: Time, _links: &Links) {}

    /// When [`Select::handle_timeout`] is to be called at the latest.
    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    /// Does what is due at `now`. Calling it early or late does no harm.
    fn handle_timeout(&mut self, _now: Time, _links: &Links) {}

    /// The one link that carries what is not balanced, of the policies that have one (`active-backup`, `balance-tlb`,
    /// `balance-alb`): an Ethernet bond listens to it and announces when it changes.
    fn current(&self) -> Option<ChannelId> {
        None
    }
}
