//! The rings paper's claims.

mod agent;
pub(super) mod bound;
pub(super) mod convergence;
mod cycle;
pub(crate) mod free;
mod oscillation;
pub(super) mod reference;
pub(super) mod rpr;
pub(super) mod simulated;
pub(super) mod tcp;
pub(super) mod unbalanced;
