//! One direction of a link: what it carries, delays, loses and drops, as a function of arrival times and lengths.
//!
//! The live emulator and the simulator both run it.

pub mod capacity;
pub(crate) mod pacing;
pub mod profile;
pub mod schedule;
mod server;

pub use crate::buffer::Limit;
pub use capacity::{Blank, Capacity, CapacityError, OPPORTUNITY, Series, Trace};
pub use profile::{DuringOutage, Loss, Outage, Profile, ProfileError, Spell};
pub use schedule::{Drop as DropReason, Passage, Schedule, Verdict};
pub use server::{Served, Server};
