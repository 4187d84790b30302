//! The rings paper's claims.

pub(super) mod reference;
