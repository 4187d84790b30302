//! Fairspan on Linux: the only code that touches the operating system.

pub mod channel;
pub mod netlink;
pub mod offload;
pub mod pool;
pub mod secure;
mod sys;
pub mod tun;

pub use sys::enter_new_network_namespace;
