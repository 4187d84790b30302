//! A gateway that splits TCP connections: two servers, and the rate that matches one to the other.
//!
//! What it is: a gateway before a long link ends each TCP connection and carries it on with one of its own. What has come to
//! it and is acknowledged cannot be dropped any more, so fair queueing and buffer management have to stand before its TCP.
//! There are two servers: the fair-queueing subsystem holds what comes from outside and serves it at the matching rate, the FIFO
//! subsystem passes on what comes down from TCP. Packets that are not split go through the first and past TCP. Source:
//! hybrid-gateways, chapter 4 (4.3, Figure 4.3).
//!
//! | file | what it is |
//! |---|---|
//! | `gateway.rs` | both servers, and what connections have of them |
//! | `fair.rs` | the fair-queueing subsystem: a discipline, a policy, one server, and a gate for each split connection |
//! | `matching.rs` | a gate: the matching rate of one connection, found from the level and drain of its send buffer |
//! | `follow.rs` | how fast datagrams go beside such connections, where they follow them |
//! | `standing.rs` | how much less is served while a queue stands on the long link itself |
//! | `shares.rs` | shares of the send buffers by round trip (3.4.3), and the windows that follow |
//! | `relay.rs` | what the gateway does with the two ends of a connection: set-up, moving, half-close, reset, urgent data |
//! | `config.rs` | settings |
//!
//! It has no TCP: the simulator's gateway has the simulator's, a live one the kernel's. "Right-hand" is the connection on which
//! data goes on, "left-hand" the one on which it came; a connection that carries data both ways has each of them twice.

pub mod config;
pub mod fair;
mod follow;
pub mod gateway;
pub mod matching;
pub mod relay;
pub mod shares;
mod standing;

pub use config::{Config, Datagrams, Matching, Mode};
pub use gateway::{Gateway, Level, Turn};
pub use relay::{Action, End, Relay, Side};
