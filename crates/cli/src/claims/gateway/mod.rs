//! The claims of the paper on hybrid gateways.

pub(crate) mod buffers;
pub(crate) mod captures;
mod free;
mod today;
pub(crate) mod split;
