//! The channels that carry a bond.

pub mod udp;
