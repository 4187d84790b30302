//! Link selection: for each packet the link that carries it, so that flows keep their order with nothing at the receiver.
//!
//! A [`Policy`] names a way of choosing and its options (each policy's file has the table of its own); a [`Selector`] is such a
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
//! # Ok::<(), fairspan_core::options::OptionError>(())
//! ```
//!
//! One from a crate outside goes into [`Policy::Own`].

/// The list of all policies: the name here, and the settings that say everything else.
macro_rules! policies {
    ($use:ident) => {
        $use! {
            /// `balance-rr`, Linux mode 0.
            BalanceRr(crate::select::balance_rr::Config),
            /// `active-backup`, Linux mode 1.
            ActiveBackup(crate::select::active_backup::Config),
            /// `balance-xor`, Linux mode 2.
            BalanceXor(crate::select::xor::Config),
            /// `broadcast`, Linux mode 3.
            Broadcast(crate::select::broadcast::Config),
            /// `802.3ad`, Linux mode 4.
            Ieee8023ad(crate::select::ieee8023ad::Config),
            /// `balance-tlb`, Linux mode 5.
            BalanceTlb(crate::select::tlb::Config),
            /// `balance-alb`, Linux mode 6: what is sent. What is received is balanced by the Ethernet bond.
            BalanceAlb(crate::select::alb::Config),
            /// `brr`, mode 7 of the burst-round-robin paper.
            Brr(crate::select::brr::Config),
            /// `flowlet`.
            Flowlet(crate::select::flowlet::Config),
            /// `least_queue`.
            LeastQueue(crate::select::least_queue::Config),
            /// `n_to_one`.
            NToOne(crate::select::n_to_one::Config),
            /// `n_to_one_primary`.
            NToOnePrimary(crate::select::n_to_one::PrimaryConfig),
            /// `cut_off_least_queue`.
            CutOffLeastQueue(crate::select::cut_off_least_queue::Config),
            /// `layer34-xor`.
            Layer34Xor(crate::select::xor::Layer34Config),
            /// `fastest_transmit`.
            FastestTransmit(crate::select::fastest_transmit::Config),
            /// `traffic_meter`.
            TrafficMeter(crate::select::traffic_meter::Config),
            /// `potent`.
            Potent(crate::select::potent::Config),
        }
    };
}

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
pub mod own;
pub mod potent;
pub mod supervision;
pub mod tlb;
pub mod traffic_meter;
pub mod xor;

mod fading;
mod idle;
mod links;
mod policy;
mod selector;
mod settings;
mod speeds;

pub use crate::flow::{Frame, Layer};
pub use links::{LinkState, Links};
pub use policy::{Policy, Selector};
pub use selector::{BurstStats, PolicyConfig, Select};
pub use settings::{POLICIES, PolicySpec, Settings};
