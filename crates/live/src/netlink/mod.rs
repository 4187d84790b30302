//! Interfaces, addresses, routes and rules through rtnetlink, and the lock's rules through nftables, one request at a time.
//!
//! Synchronous: a request is a message and its acknowledgement, which the kernel gives at once. What the daemon
//! changes goes through a [`Guard`], which undoes it; what happens to links meanwhile comes from a [`Monitor`].
//! Sources: rtnetlink(7), RFC 3549, Linux `Documentation/userspace-api/netlink/intro.rst` (extended acknowledgements).
//!
//! | file | idea |
//! |---|---|
//! | `request` | a connection to the kernel, a request and its answers |
//! | `interface` | interfaces and their addresses |
//! | `route`, `rule` | routes, and rules that say which table counts |
//! | `way` | routes to single addresses |
//! | `guard` | what is undone |
//! | `home` | packets with a mark are this host's |
//! | `windows` | sockets with a mark have other initial windows |
//! | `monitor` | what happens to links |
//! | `nftables` | rules for packets |
//! | `queue` | packets that the kernel holds until it hears what becomes of them |
//! | `netfilter` | a connection to netfilter |
//! | `encode` | messages by hand |

mod encode;
mod guard;
mod home;
mod interface;
mod monitor;
mod netfilter;
pub mod nftables;
pub mod queue;
mod request;
mod route;
mod rule;
mod way;
mod windows;

pub use guard::{Capture, Guard};
pub(crate) use home::Home;
pub use interface::Interface;
pub use monitor::{LinkChange, Monitor};
pub use request::{Netlink, NetlinkError, PROTOCOL};
pub(crate) use route::Destination;
pub use route::{Route, TABLE_MAIN};
pub use rule::Rule;
pub(crate) use way::Way;
pub(crate) use windows::Windows;
