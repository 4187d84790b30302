//! The system calls that no safe crate wraps; the only place where `unsafe` is allowed.
#![allow(unsafe_code)]

pub(crate) mod packet;
