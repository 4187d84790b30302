//! What became of what was sent: round trips, deliveries, losses.
//!
//! Estimators for any sender, of a stream or of numbered packets. [`delivery_rate`] tells how fast the network delivers,
//! [`episode`] which losses are one sign of congestion. Laws of [`congestion`](crate::congestion) are told what is found here.

pub mod delivery_rate;
pub mod episode;
