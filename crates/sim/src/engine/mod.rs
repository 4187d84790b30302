//! What the simulation runs on: the calendar of events, the pool of packets, the log's hash, independent random streams.

pub mod calendar;
pub mod event;
pub mod log;
pub mod pool;
pub mod streams;
