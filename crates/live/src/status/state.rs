//! What all parts of a status have: named counters, and how a channel, a link or a device is.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Named counters, each a number of events since the daemon began.
pub type Counters = BTreeMap<String, u64>;

/// How a channel or a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It may carry traffic.
    Up,
    /// It may not: nothing is heard from the other end, or it has just come back.
    Down,
    /// All is well with it, and others are used: it failed again and again, or what goes there comes too late.
    Held,
    /// There is no session with the other end.
    Connecting,
    /// There is no such device.
    Absent,
    /// Its socket or interface failed, or what is beneath carries nothing.
    Failed,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            State::Up => "up",
            State::Down => "down",
            State::Held => "held",
            State::Connecting => "connecting",
            State::Absent => "absent",
            State::Failed => "failed",
        })
    }
}
