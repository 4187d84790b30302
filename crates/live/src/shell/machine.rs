//! What the shell drives: a role of the daemon as a state machine with inputs, outputs and timers.

use super::error::DaemonError;
use super::poller::Token;
use crate::config::Config;
use crate::netlink::LinkChange;
use crate::reloaded::Reloaded;
use crate::status::Status;
use fairspan_core::units::Time;
use std::fmt;
use std::net::IpAddr;

/// What a timer is for, in a word or two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimerName(pub(crate) &'static str);

impl fmt::Display for TimerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// When timers that are due have their turn after a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Before what came in: what they release leaves at once.
    TimersFirst,
    /// After it: what waited while the process did not run belongs to the time before.
    InputFirst,
}

/// A role: what it does with packets, between the host and the links.
///
/// After each sleep the shell hands over what is ready, links before all else, and calls
/// [`handle_timeout`](Self::handle_timeout) (before or after that, as [`order`](Self::order) says), then
/// [`drain`](Self::drain). All calls after one sleep have the same time, and no call blocks.
///
/// A machine waits for its descriptors through a copy of the shell's [`Poller`](super::poller::Poller), and knows them by
/// token; what the shell hands over is never stale.
pub(crate) trait Machine {
    /// Whether timers or what came in has its turn first.
    fn order(&self) -> Order;

    /// A descriptor has something to read, or an error to see.
    ///
    /// # Errors
    /// What leaves the daemon without its purpose.
    fn handle_readable(&mut self, now: Time, token: Token) -> Result<(), DaemonError>;

    /// A descriptor has room again, where the machine asked for it.
    fn handle_writable(&mut self, _now: Time, _token: Token) {}

    /// Something happened to an interface of the host.
    ///
    /// # Errors
    /// What leaves the daemon without its purpose: its own interface was deleted.
    fn handle_link_change(&mut self, now: Time, change: LinkChange) -> Result<(), DaemonError>;

    /// Handles what is due at `now`, if anything is.
    fn handle_timeout(&mut self, now: Time);

    /// Once a second: what failed is tried again.
    fn handle_housekeeping(&mut self, now: Time);

    /// When to be woken at the latest, and why.
    fn poll_timeout(&self) -> Option<(Time, TimerName)>;

    /// Moves everything that there is to move, until nothing is left.
    ///
    /// # Errors
    /// What leaves the daemon without its purpose.
    fn drain(&mut self, now: Time) -> Result<(), DaemonError>;

    /// The name of the interface towards the host.
    fn interface(&self) -> &str;

    /// The interface's MTU now, in bytes.
    fn mtu(&self) -> usize;

    /// A name whose addresses are to be asked for.
    fn poll_lookup(&mut self) -> Option<String> {
        None
    }

    /// The addresses of a name, or why there are none.
    fn handle_addresses(&mut self, _now: Time, _host: &str, _found: Result<Vec<IpAddr>, String>) {}

    /// Takes over another configuration, all of it or nothing.
    fn reload(&mut self, _now: Time, _config: Config) -> Reloaded {
        Reloaded::impossible(
            "a running daemon takes over the settings of peers, of a [shape] and of a [gateway] only: for a [bond] or a [ring] start it again",
        )
    }

    /// Takes a link out of use while there are others, or in again: `name` of the peer `of`.
    ///
    /// # Errors
    /// Why not.
    fn take_out(&mut self, _now: Time, _of: &str, _name: &str, _out: bool) -> Result<(), String> {
        Err("only channels of peers can be taken out".to_owned())
    }

    /// Fills in what there is to tell at `now`, beside what every daemon tells.
    fn report(&self, now: Time, status: &mut Status);
}
