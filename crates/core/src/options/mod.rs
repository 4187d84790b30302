//! Options: one declarative table for the settings of each component.
//!
//! What it is: a component (a bond, a channel, a link policy, a fairness algorithm, a queue discipline) keeps its settings in a
//! `Config`, and beside it a [`Table`] with an [`option!`] for each field: name, kind with unit and range, what it does. The
//! default is the `Config`'s. Configuration files, command lines, scenarios, recordings, the handshake, `--help` and the
//! documents read the table; none of them names an option again.
//!
//! | to add | write |
//! |---|---|
//! | an option | the field in `Config`, its default, and its line of the table; all in the component's file |
//! | a choice | the enum, and its [`words!`] in the order of their numbers |
//! | a member of a [`Family`] | its own file, and its line in the family's list |
//!
//! ```
//! use fairspan_core::options::{Dialect, Kind, Table, option};
//!
//! struct Config {
//!     window: u32,
//! }
//!
//! const OPTIONS: Table<Config> =
//!     Table(&[option!(window: Kind::Count(1, 1024, None), "most intervals over which a rate is measured")]);
//!
//! let mut config = Config { window: 256 };
//! let window = OPTIONS.find("window").unwrap();
//! window.set(&mut config, window.spec.parse("16", Dialect::Plain).unwrap());
//! assert_eq!(config.window, 16);
//! let error = window.spec.parse("2000", Dialect::Plain).unwrap_err();
//! assert_eq!(error.to_string(), "window is `2000`; write a number from 1 to 1024");
//! ```
//!
//! Invariants: what [`Kind::show`] writes, [`Kind::parse`] reads back; names, words and their numbers never change meaning.

mod error;
mod family;
mod kind;
mod share;
mod table;
mod value;
mod words;

pub use error::OptionError;
pub use family::{Family, Member, build, named, parse, set, write};
pub use kind::{Dialect, Kind};
pub use share::Share;
pub use table::{Entry, Fields, OptionSpec, OutOfRange, Table, option};
pub use value::{Field, LinkRef, Value};
pub use words::{Words, words};
