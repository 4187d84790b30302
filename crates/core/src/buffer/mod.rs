//! Buffer policies: which packets are let in, marked, refused or evicted.
//!
//! A policy ([`Policy`]) sees each packet when it comes and when it is about to go, with what waits besides
//! ([`Backlog`], [`Leaving`]), and answers with a [`Verdict`]. It never holds packets and knows nothing of their order:
//! that is a [discipline's](crate::queue::Discipline), and any policy works with any discipline.
//!
//! | policy | file | refuses | evicts | marks |
//! |---|---|---|---|---|
//! | drop-tail | `tail.rs` | what comes to a full buffer | | |
//! | drop-front | `front.rs` | | the oldest packet | |
//! | longest queue | `longest.rs` | | the newest packet of the longest queue | |
//! | CoDel | `codel.rs` | what comes to a full buffer | | packets of a queue that stands; drops those that cannot be |
//!
//! Another policy is its own file and its lines in `table.rs`, and is then a setting of bonds, links of the emulator
//! and links of the simulator.

mod codel;
mod front;
mod longest;
mod policy;
mod table;
mod tail;

pub use codel::CoDel;
pub use front::DropFront;
pub use longest::LongestQueue;
pub use policy::{Backlog, Bounds, ConfigError, Leaving, Limit, Policy, Room, Verdict, Victim};
pub use table::{AnyPolicy, PolicyConfig, Reason};
pub use tail::DropTail;
