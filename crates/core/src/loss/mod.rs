//! What became of what was sent: round trips, deliveries, losses.
//!
//! For any sender, of a stream or of numbered packets: [`scoreboard`] keeps what is outstanding, [`rack`] finds what is lost by
//! time and probes for a lost tail, [`rtt`] smooths round trips and gives the timeout, [`delivery_rate`] tells how fast the
//! network delivers, and [`episode`] which losses are one sign of congestion. Laws of [`congestion`](crate::congestion) are told
//! what is found here.

pub mod delivery_rate;
pub mod episode;
pub mod rack;
pub mod rtt;
pub mod scoreboard;
