//! Serial numbers (RFC 1982): rounds and generations wrap around.

/// How far `a` is ahead of `b`, in serial arithmetic (RFC 1982).
pub(super) fn serial(a: u32, b: u32) -> i32 {
    a.wrapping_sub(b) as i32
}

/// Whether generation `a` comes after `b`.
pub(super) fn newer(a: u16, b: u16) -> bool {
    (a.wrapping_sub(b) as i16) > 0
}
