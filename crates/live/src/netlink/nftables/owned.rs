//! A table that goes with its process.

use super::rule::Queueing;
use super::transaction::{Transaction, tables};
use crate::netlink::netfilter::Netfilter;
use crate::netlink::request::NetlinkError;

/// What is done with a transaction that is written.
type End = fn(Transaction, &mut Netfilter, &str) -> Result<(), NetlinkError>;

/// A table that the kernel removes when this value is dropped or its process is killed, with all its rules. (A kernel before
/// Linux 5.12 cannot: there a killed process leaves it, and the next one of that name replaces it.)
///
/// Only the socket that made an owned table may change it.
#[derive(Debug)]
pub struct OwnedTable {
    name: String,
    netfilter: Netfilter,
    /// It is this one's to delete.
    is_set: bool,
    /// The kernel removes it with its socket.
    owned: bool,
    queueing: Queueing,
}

impl OwnedTable {
    /// The table of this name is what `write` says, in both IP versions. `write` is called once for each way that the kernel
    /// may know to do it, and writes the same each time.
    ///
    /// # Errors
    /// What the kernel says: `EBUSY` where another process owns a table of this name. Then everything is as it was.
    pub fn set(name: &str, write: impl Fn(&mut Transaction)) -> Result<OwnedTable, NetlinkError> {
        let mut table = OwnedTable::unset(name)?;
        table.write(&write, Transaction::commit_by)?;
        table.is_set = true;
        Ok(table)
    }

    /// Whether the kernel could [`set`](Self::set) it, and nothing is changed. Gives whether the table would
    /// [go with its process](Self::goes_with_its_process).
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub fn attempt(name: &str, write: impl Fn(&mut Transaction)) -> Result<bool, NetlinkError> {
        let mut table = OwnedTable::unset(name)?;
        table.write(&write, Transaction::attempt_by)?;
        Ok(table.owned)
    }

    fn unset(name: &str) -> Result<OwnedTable, NetlinkError> {
        let netfilter = Netfilter::open(&action(name))?;
        Ok(OwnedTable { name: name.to_owned(), netfilter, is_set: false, owned: true, queueing: Queueing::default() })
    }

    /// The table becomes what `write` says, in one step: no packet sees anything but the old or the new rules.
    ///
    /// # Errors
    /// What the kernel says. Then everything is as it was.
    pub fn replace(&mut self, write: impl Fn(&mut Transaction)) -> Result<(), NetlinkError> {
        let before = (self.owned, self.queueing);
        self.write(&write, Transaction::commit_by).inspect_err(|_| (self.owned, self.queueing) = before)
    }

    /// Whether the kernel removes it even when the process is killed.
    pub fn goes_with_its_process(&self) -> bool {
        self.owned
    }

    /// Whether the kernel has it still: another program that empties all tables spares an owned one only.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn is_there(&self) -> Result<bool, NetlinkError> {
        tables(Some(&self.name)).map(|found| !found.is_empty())
    }

    /// Tries the ways in which kernels do it, from the best; each transaction is ended by `end`.
    fn write(&mut self, write: &impl Fn(&mut Transaction), end: End) -> Result<(), NetlinkError> {
        loop {
            let error = match self.try_to(write, end) {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            match error.errno() {
                // The expression is not known here.
                Some(libc::ENOENT) if self.queueing == Queueing::Native => self.queueing = Queueing::Target,
                // The flag is not known here.
                Some(libc::EOPNOTSUPP | libc::EINVAL) if self.owned => self.owned = false,
                Some(libc::EPERM) if self.is_there() == Ok(true) => return Err(of_another(error)),
                _ => return Err(error),
            }
        }
    }

    fn try_to(&mut self, write: &impl Fn(&mut Transaction), end: End) -> Result<(), NetlinkError> {
        let mut transaction = Transaction::queueing_by(&self.name, self.queueing);
        // Only what is there can be deleted, and then it is gone. A table that is there cannot become an owned one.
        transaction.create();
        transaction.delete();
        if self.owned {
            transaction.create_owned()
        } else {
            transaction.create()
        }
        write(&mut transaction);
        end(transaction, &mut self.netfilter, &action(&self.name))
    }
}

fn action(name: &str) -> String {
    format!("set the packet rules {name}")
}

/// The kernel's error says only that this is not permitted.
fn of_another(error: NetlinkError) -> NetlinkError {
    match error {
        NetlinkError::Refused { action, message, .. } if message.is_empty() => NetlinkError::Refused {
            action,
            errno: libc::EBUSY,
            message: "another process owns a table of this name".to_owned(),
        },
        other => other,
    }
}

impl Drop for OwnedTable {
    fn drop(&mut self) {
        if !self.is_set {
            return;
        }
        let mut transaction = Transaction::of(&self.name);
        transaction.delete();
        let action = format!("remove the packet rules {}", self.name);
        match transaction.commit_by(&mut self.netfilter, &action) {
            // The socket that owns it may be open in a child of this process a little longer, so it was worth trying.
            Err(_) if self.owned => {}
            Err(error) if error.errno() != Some(libc::ENOENT) => tracing::warn!(%error, "packet rules stay"),
            _ => {}
        }
    }
}
