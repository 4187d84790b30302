//! Why a receiver drops what comes.

/// Why a packet or a row of parity was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// It was delivered before.
    Old,
    /// It was sent before go-back-N began anew.
    Outdated,
    /// Its path's buffer is full.
    Full,
    /// Its number is further ahead than any buffer reaches.
    Beyond,
    /// It came by a path that is none.
    Path,
    /// It is not what comes here: an acknowledgment, or parity where none is taken.
    Kind,
    /// It is no row of a block: too long, twice, or of another size than the block's other rows.
    Parity,
    /// It belongs to another start of the sender than this receiver follows, or to the middle of one whose beginning it has missed.
    Stream,
}
