//! Captures of real traffic: reading them, and what they hold.
//!
//! [`capture`] takes a file apart into packets; [`replay`] makes of it the sizes and instants that the simulator replays.

#![forbid(unsafe_code)]

pub mod capture;
pub mod replay;
