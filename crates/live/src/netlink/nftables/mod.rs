//! Tables of packet rules (nf_tables), through nfnetlink.
//!
//! By hand: what is needed is four kinds of messages and a dozen expressions, written and never read. The libraries that
//! have them are a generated file of 20,000 lines, run the program `nft`, need a C library, or are under the GPL.
//! Source: Linux `include/uapi/linux/netfilter/nf_tables.h` and `nfnetlink.h`. Numbers are big-endian there, but for those
//! that are compared with the host's own: marks, and the state of a connection.
//!
//! | file | idea |
//! |---|---|
//! | `rule` | what a rule asks of a packet, and what it does with it |
//! | `transaction` | changes of one table, all at once |
//! | `owned` | a table that goes with its process |

mod owned;
mod rule;
mod transaction;

pub use owned::OwnedTable;
pub use rule::PacketRule;
pub use transaction::{Hook, Kind, Transaction, tables};
