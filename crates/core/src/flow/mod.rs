//! Flows: which packets belong together, and what is remembered of each flow.
//!
//! The rooms, each the only one of its kind in this core:
//! - [`frame`] and [`ethernet`]: a packet as it is read here, its EtherType and its tags; [`ip`](crate::ip) reads what is
//!   behind them;
//! - [`key`]: the 5-tuple, from the headers;
//! - [`hash`]: the keyed hash of it: [`FlowHash`] numbers flows with 64 bits, [`Buckets`] sorts them into a few;
//! - [`table`]: what each flow did last, for a bounded number of flows, with expiry;
//! - [`flows`]: hash and table together, with the rule for fragments;
//! - [`slots`]: an exact map for owners of flows' state, who give a flow up when its last packet left;
//! - [`gaps`]: which of a flow's numbers are missing;
//! - [`definition`]: other things to call a flow than the 5-tuple: pairs, hosts, networks;
//! - [`layers`] and [`reading`]: the way to a captured packet's IP header, outermost or innermost, and [`fragments`]: the ports of those
//!   that have none;
//! - [`activity`]: how many flows are active under several timeouts at once;
//! - [`accounts`]: what the flows of a queue sent, lost and waited, [`ways`]: by which ways they left, and [`label`]: what a flow is called;
//! - [`matching`]: whether a packet is one of those that a traffic class names.

pub mod accounts;
pub mod activity;
pub mod definition;
pub mod ethernet;
pub mod flows;
pub mod fragments;
pub mod frame;
pub mod gaps;
pub mod hash;
pub mod key;
pub mod label;
pub mod layers;
pub mod matching;
pub mod reading;
pub mod slots;
pub mod table;
pub mod ways;

pub use accounts::Accounts;
pub use activity::Activity;
pub use definition::Definition;
pub use flows::Flows;
pub use frame::{Frame, Layer};
pub use hash::{Buckets, FlowHash, FlowId};
pub use key::Key;
pub use label::Label;
pub use reading::Reading;
