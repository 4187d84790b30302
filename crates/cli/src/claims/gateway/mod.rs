//! The claims of the paper on hybrid gateways.

pub(crate) mod buffers;
pub(crate) mod captures;
pub(crate) mod split;
