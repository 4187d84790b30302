//! What a daemon asks of the operating system: time, randomness, waiting, datagrams, the TUN interface, and the host's network.
//!
//! One trait stands between a daemon and the kernel. Outside of tests the kernel is all there is, and a call through the trait
//! is the kernel's. In tests a thread may enter a host in memory, as it would a network namespace: everything that the
//! thread opens from then on belongs to that host. Sockets towards raw Ethernet, the control socket and files are the
//! kernel's in either case.

mod calls;
mod linux;

pub(crate) use calls::{Outgoing, System};

use linux::Linux;

/// The system of this thread. The compiler sees that it is the kernel, and calls that directly.
#[cfg(not(test))]
#[inline]
pub(crate) fn system() -> &'static dyn System {
    &Linux
}

/// The system of this thread: the kernel, or the host in memory that it entered.
#[cfg(test)]
pub(crate) fn system() -> std::rc::Rc<dyn System> {
    ENTERED.with(|entered| entered.borrow().clone())
}

#[cfg(test)]
thread_local! {
    static ENTERED: std::cell::RefCell<std::rc::Rc<dyn System>> =
        std::cell::RefCell::new(std::rc::Rc::new(Linux));
}

/// Enters a host in memory, or the kernel's again; tells which was entered before.
#[cfg(test)]
pub(crate) fn enter(host: std::rc::Rc<dyn System>) -> std::rc::Rc<dyn System> {
    ENTERED.with(|entered| entered.replace(host))
}
