//! What a daemon can be.

mod hello;
pub mod lan;
mod network;
pub mod peers;
pub mod ring;
