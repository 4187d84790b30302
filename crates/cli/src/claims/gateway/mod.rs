//! The claims of the paper on hybrid gateways.

pub(crate) mod buffers;
pub(crate) mod captures;
mod free;
pub(crate) mod orders;
mod points;
pub(crate) mod split;
mod split_free;
mod today;

#[cfg(test)]
pub(crate) use split_free::VARIATIONS;
