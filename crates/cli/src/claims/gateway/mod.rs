//! The claims of the paper on hybrid gateways.

pub(crate) mod buffers;
pub(crate) mod captures;
pub(crate) mod captures_free;
mod free;
pub(crate) mod orders;
mod points;
pub(crate) mod split;
pub(crate) mod split_free;
mod today;
