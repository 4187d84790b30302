//! Fairspan on Linux: the only code that touches the operating system.

mod allowed;
pub mod channel;
mod clock;
pub mod config;
pub mod confinement;
pub mod control;
pub mod day;
pub mod doctor;
pub mod emulate;
pub mod events;
mod finding;
mod folders;
pub mod helper;
pub mod icmp;
mod joined;
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
mod reverse_path;
pub mod roles;
pub mod secure;
pub mod setup;
pub mod shell;
#[cfg(test)]
mod simulated;
mod sockets;
mod state_file;
pub mod status;
mod sys;
mod system;
pub mod text_file;
pub mod tun;
pub mod uplinks;
mod user;

pub use fairspan_core::quantity;
pub use sys::heap::{Heap, count_heap, heap};
pub use sys::instructions::Instructions;
pub use sys::{Ended, default_sigpipe, enter_new_network_namespace, unblock_signals, wait_with_usage};
