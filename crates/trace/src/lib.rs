//! Captures of real traffic: reading them, and what they hold.
//!
//! [`capture`] takes a file apart into packets, and [`merged`] puts several in order; [`flows`] counts the flows in them, [`info`] says
//! what they are, and [`cost`] what serving them fairly takes; [`replay`] makes of them the sizes and instants that the simulator
//! replays; [`select`] says what a bond's policy would do with them.

#![forbid(unsafe_code)]

pub mod capture;
pub mod cost;
pub mod flows;
pub mod hex;
pub mod info;
pub mod link_type;
pub mod merged;
pub mod replay;
pub mod select;
pub mod skipped;
