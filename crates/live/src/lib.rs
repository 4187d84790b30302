//! Fairspan on Linux: the only code that touches the operating system.

pub mod netlink;
pub mod offload;
pub mod pool;
mod sys;
pub mod tun;

pub use sys::enter_new_network_namespace;
