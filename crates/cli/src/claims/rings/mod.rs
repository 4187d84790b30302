//! The rings paper's claims.

pub(super) mod bound;
mod cycle;
mod oscillation;
pub(super) mod reference;
pub(super) mod rpr;
pub(super) mod simulated;
