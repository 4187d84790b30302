//! Queue disciplines: which of the packets that wait goes next.
//!
//! A [`Discipline`] orders; a [buffer policy](crate::buffer) lets in, marks and evicts; a [`Queue`] is one of each, any with
//! any, chosen by a [`Config`]. A [`Server`](crate::link::Server) joins a queue with a link's rate. Packets are whatever the
//! driver says ([`Parcel`]).
//!
//! | discipline | file |
//! |---|---|
//! | first in, first out | `fifo.rs` |
//! | deficit round robin, round robin by packets | `drr.rs` |
//! | surplus round robin | `srr.rs` |
//! | start-time fair queueing | `sfq.rs` |
//! | stochastic fair queueing | `stochastic.rs` |
//!
//! Another discipline is its own file and its lines in `table.rs`, and is then a setting of bonds, links of the emulator and
//! links of the simulator.
//!
//! ```
//! use fairspan_core::buffer::{Limit, PolicyConfig};
//! use fairspan_core::queue::{Admit, Config, Queue, Opaque};
//! use fairspan_core::units::{FlowNumber, Time};
//!
//! let mut config = Config::default();
//! config.discipline = "drr:quantum=1500B".parse()?;
//! config.buffer = PolicyConfig::LongestQueue;
//! config.limit = Limit::Packets(3);
//! let mut queue = Queue::new(&config, 1)?;
//! let now = Time::ZERO;
//! for (flow, packet) in [(7, "a"), (7, "b"), (7, "c"), (9, "d")] {
//!     assert_eq!(queue.enqueue(now, FlowNumber(flow), Opaque { packet, size: 1000 }), Admit::Queued);
//!     while let Some(dropped) = queue.poll_dropped() {
//!         assert_eq!(dropped.packet.packet, "c"); // the newest of the longest queue
//!     }
//! }
//! let order: Vec<&str> = std::iter::from_fn(|| queue.dequeue(now)).map(|entry| entry.packet.packet).collect();
//! assert_eq!(order, ["a", "d", "b"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod discipline;
mod drr;
mod fifo;
mod heap;
mod parcel;

mod sfq;
mod srr;
mod stochastic;
mod store;
mod table;
mod waiting;

pub use discipline::{Discipline, Entry, Index, Taken};
pub use drr::Drr;
pub use fifo::Fifo;
pub use parcel::{Opaque, Parcel};

pub use crate::buffer::ConfigError;
pub use sfq::Sfq;
pub use srr::Srr;
pub use stochastic::Stochastic;
pub use table::{AnyDiscipline, DisciplineConfig, MOST_BUCKETS, MOST_QUANTUM};
pub use waiting::{Admit, Config, Dropped, Queue};
