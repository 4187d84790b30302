//! Fairspan's protocol core.
//!
//! Every protocol decision lives here and nothing else does: no clock, no entropy, no operating system, no
//! threads, no `unsafe`, no iteration in hash order. Time and randomness come in as arguments, so the same inputs
//! give the same outputs, byte for byte, in the live gateway, in the simulator and in a replayed recording.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(any(test, doctest))]
extern crate std;

pub mod arq;
pub mod bond;
pub mod buffer;
pub mod causal;
pub mod compress;
pub mod congestion;
pub mod flow;
pub mod ip;
pub mod lacp;
pub mod lan;
pub mod link;
pub mod loss;
pub mod options;
mod own;
pub mod packet;
pub mod parity;
pub mod path;
pub mod quantity;
pub mod queue;
pub mod record;
pub mod ring;
pub mod rng;
pub mod select;
pub mod set;
pub mod shape;
pub mod shared;
pub mod split;
pub mod stripe;
pub mod units;
pub mod wire;
