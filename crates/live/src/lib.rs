//! Fairspan on Linux: the only code that touches the operating system.

mod allowed;
pub mod channel;
mod clock;
pub mod config;
pub mod confinement;
pub mod control;
pub mod emulate;
pub mod events;
mod folders;
pub mod helper;
pub mod icmp;
pub mod links;
pub mod lock;
mod memory;
mod metrics;
pub mod netlink;
pub mod notify;
pub mod offload;
pub mod pool;
mod privilege;
mod recorded;
pub mod reloaded;
pub mod roles;
pub mod secure;
pub mod shell;
#[cfg(test)]
mod simulated;
mod sockets;
mod state_file;
pub mod status;
mod sys;
mod system;
pub mod tun;
mod user;

pub use fairspan_core::quantity;
pub use sys::heap::{Heap, count_heap, heap};
pub use sys::instructions::Instructions;
pub use sys::{Ended, default_sigpipe, enter_new_network_namespace, unblock_signals, wait_with_usage};
