//! Captures of real traffic: reading them, and what they hold.
//!
//! [`capture`] takes a file apart into packets; [`replay`] makes of it the sizes and instants that the simulator replays;
//! [`select`] says what a bond's policy would do with them.

#![forbid(unsafe_code)]

pub mod capture;
pub mod hex;
pub mod link_type;
pub mod replay;
pub mod select;
