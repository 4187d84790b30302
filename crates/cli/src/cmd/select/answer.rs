//! What was asked, of what, and what came out: what both ways of printing tell.

use fairspan_core::select::Settings;
use fairspan_trace::select::{LinkList, Report, Traffic};

/// A policy as it was asked for.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// As it was written.
    pub(super) text: String,
    pub(super) settings: Settings,
}

/// A policy and what it did, or why it cannot.
#[derive(Debug)]
pub(super) struct Answered<'a> {
    pub(super) asked: &'a Asked,
    pub(super) outcome: Result<Report, String>,
}

/// What everything is said about.
pub(super) struct About<'a> {
    pub(super) files: &'a [String],
    pub(super) links: &'a LinkList,
    pub(super) traffic: &'a Traffic<'a>,
    /// Files of which the rest could not be read, and why.
    pub(super) problems: &'a [String],
}
