//! One file a command: its arguments, what it does, what it prints.

pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod claims;
mod daemon;
pub(crate) mod demo;
pub(crate) mod emulate;
pub(crate) mod explain;
mod family;
pub(crate) mod figure;
pub(crate) mod gateway;
pub(crate) mod keygen;
pub(crate) mod lock;
pub(crate) mod pages;
pub(crate) mod reload;
pub(crate) mod replay;
pub(crate) mod ring;
pub(crate) mod select;
pub(crate) mod shape;
pub(crate) mod sim;
pub(crate) mod status;
pub(crate) mod top;
pub(crate) mod trace;
pub(crate) mod up;
