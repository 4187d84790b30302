//! Channels: the ways by which a bond reaches its peer.

pub mod memory;
