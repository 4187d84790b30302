//! The rings paper's claims.

pub(super) mod bound;
pub(super) mod reference;
