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
mod doctor;
mod domains;
mod ethernet;
mod flow;
mod fragments;
mod gateway;
mod gateway_bond;
mod gateway_errors;
mod gateway_host;
mod gateway_proxy;
mod gateway_segments;
mod handshakes;
mod hostile;
mod invite;
mod lifecycle;
mod links;
mod lock;
mod masquerade;
mod middlebox;
mod network;
mod obstacles;
mod path_mtu;
mod port;
mod refused;
mod reliable;
mod reload;
mod removed;
mod ring;
mod ring_hostile;
mod shape;
mod split_peers;
mod tcp;
mod unreachable;
mod web;
mod webhook;
