//! What commands print on standard output, also where that takes no more.
//!
//! The standard library's `print!` and `println!` panic there: on a full disk, or where a terminal has gone. Those of this program, of the same
//! names, go on, so that what a command undoes at its end is undone; [`refused`] then tells, and the program ends with status 1.

use std::fmt::Arguments;
use std::io::{self, Write};
use std::sync::OnceLock;

/// Why standard output took something no more.
static REFUSED: OnceLock<io::Error> = OnceLock::new();

macro_rules! print {
    ($($text:tt)*) => { $crate::say::say(format_args!($($text)*)) };
}

macro_rules! println {
    () => { $crate::say::say(format_args!("\n")) };
    ($($text:tt)*) => { $crate::say::say(format_args!("{}\n", format_args!($($text)*))) };
}

/// Prints this on standard output.
pub(crate) fn say(text: Arguments<'_>) {
    note(io::stdout().write_fmt(text));
}

/// Why not all that was said has been taken, if it has not.
pub(crate) fn refused() -> Option<&'static io::Error> {
    note(io::stdout().flush());
    REFUSED.get()
}

fn note(written: io::Result<()>) {
    if let Err(error) = written {
        REFUSED.get_or_init(|| error);
    }
}
