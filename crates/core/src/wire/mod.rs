//! Frame formats, byte for byte, with their test vectors.

mod control;
pub mod envelope;
pub mod etherip;
mod extended;
mod head;
pub mod invitation;
pub mod mac;
pub mod marker;
pub mod parity;
pub mod short;
pub mod stamp;
