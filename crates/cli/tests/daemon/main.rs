//! Daemons in network namespaces: one program, so that it links once and its tests, which wait for most of their time, wait
//! together.

#[path = "../common/child.rs"]
mod child;
mod common;
#[path = "../../../live/tests/privilege/mod.rs"]
mod privilege;

mod bond;
mod classes;
mod confinement;
mod ethernet;
mod flow;
mod handshakes;
mod hostile;
mod lifecycle;
mod links;
mod lock;
mod network;
mod path_mtu;
mod port;
mod reliable;
mod reload;
mod ring;
mod ring_hostile;
mod tcp;
mod unreachable;
