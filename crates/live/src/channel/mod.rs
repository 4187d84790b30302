//! The channels that carry a bond.

pub mod ethernet;
pub mod tcp;
pub mod udp;
