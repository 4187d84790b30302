//! The simulator: hosts, routers, links and TCP, packet by packet, with the core's own state machines in between.
//!
//! The same scenario with the same seed gives the same bytes: there is no clock, no entropy, no file and no thread
//! here. [`scenario`] reads a scenario, [`world`] runs it, [`results`] is what comes out.

mod bond;
pub mod endpoint;
pub mod engine;
mod error;
pub mod metrics;
pub mod model;
pub mod multilink;
mod node;
pub mod packet;
pub mod reliable;
pub mod results;
mod ring;
pub mod scenario;
mod split;
pub mod steps;
pub mod tcp;
pub mod traffic;
pub mod wire;
pub mod world;
