//! What goes between the daemon's loop and the page's thread.

use crate::status::Status;
use std::sync::mpsc::SyncSender;

/// What the daemon tells.
#[derive(Debug)]
pub(super) struct Sample {
    /// When, in seconds since 1970.
    pub(super) at: f64,
    pub(super) status: Status,
}

/// Somebody wants a link to be taken out, or in again.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) of: String,
    pub(crate) name: String,
    pub(crate) out: bool,
    pub(super) answer: SyncSender<Result<(), String>>,
}
