//! What the page shows, as one document: the links with their rates, what the history knows, and the daemon's status.

use super::history::{History, Kept};
use super::sample::Sample;
use crate::links::{LinkReading, keep_rates, links, measure};
use crate::status::Status;
use serde::Serialize;
use std::rc::Rc;

/// Rates are those of this long at least, in seconds: a look that an event brought forward does not make them jump.
const LEAST: f64 = 0.7;

/// An event of a stream, which all who look share.
pub(super) type Event = Rc<[u8]>;

/// The newest sample, and what follows from it.
#[derive(Debug)]
pub(super) struct Latest {
    /// When, in seconds since 1970.
    pub(super) at: f64,
    pub(super) status: Status,
    pub(super) links: Vec<LinkReading>,
    /// Where the history has them.
    pub(super) places: Vec<Option<usize>>,
    /// What rates are taken from next, and when that was.
    before: (Vec<LinkReading>, f64),
}

impl Latest {
    pub(super) fn new(sample: Sample, former: Option<&Latest>) -> Latest {
        let Sample { at, status } = sample;
        let counted = links(&status);
        let mut shown = counted.clone();
        let mut before = (counted, status.uptime_s);
        if let Some(former) = former {
            let (then, since) = &former.before;
            let seconds = status.uptime_s - since;
            if (0.0..LEAST).contains(&seconds) {
                before = former.before.clone();
                keep_rates(&mut shown, &former.links);
            } else {
                measure(&mut shown, then, seconds);
            }
        }
        Latest { at, status, links: shown, places: Vec::new(), before }
    }
}

#[derive(Serialize)]
struct View<'a> {
    time: f64,
    links: Vec<LinkView<'a>>,
    history: Kept,
    control: bool,
    status: &'a Status,
}

#[derive(Serialize)]
struct LinkView<'a> {
    #[serde(flatten)]
    link: &'a LinkReading,
    /// By which number the history is asked for it.
    history: Option<usize>,
}

/// The document.
pub(super) fn document(latest: &Latest, history: &History, control: bool) -> String {
    let places = latest.places.iter().copied().chain(std::iter::repeat(None));
    let links = latest.links.iter().zip(places).map(|(link, history)| LinkView { link, history }).collect();
    let view = View { time: latest.at, links, history: history.kept(), control, status: &latest.status };
    serde_json::to_string(&view).unwrap_or_default()
}

/// The same, as an event of a stream.
pub(super) fn event(latest: &Latest, history: &History, control: bool) -> Event {
    format!("data: {}\n\n", document(latest, history, control)).into_bytes().into()
}
