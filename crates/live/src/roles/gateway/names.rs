//! Clients of the proxy who wait for the addresses of a name.

use super::proxy::Wanted;
use fairspan_core::units::{Span, Time};
use std::collections::HashMap;

/// How long they wait.
const WITHIN: Span = Span::from_secs(30);

/// All of them, each name asked for once.
#[derive(Debug, Default)]
pub(super) struct Names {
    waiting: HashMap<String, Vec<(Time, Wanted)>>,
    /// Names that are still to be asked for.
    lookups: Vec<String>,
    count: usize,
}

impl Names {
    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn wait_for(&mut self, now: Time, name: &str, wanted: Wanted) {
        let waiting = self.waiting.entry(name.to_owned()).or_insert_with(|| {
            self.lookups.push(name.to_owned());
            Vec::new()
        });
        waiting.push((now, wanted));
        self.count += 1;
    }

    /// A name to be asked for.
    pub(super) fn poll(&mut self) -> Option<String> {
        self.lookups.pop()
    }

    /// Those who wait for a name that was answered.
    pub(super) fn take(&mut self, name: &str) -> Vec<Wanted> {
        let waiting = self.waiting.remove(name).unwrap_or_default();
        self.count -= waiting.len();
        waiting.into_iter().map(|(_, wanted)| wanted).collect()
    }

    /// Those who have waited too long.
    pub(super) fn take_late(&mut self, now: Time) -> Vec<Wanted> {
        let mut late = Vec::new();
        self.waiting.retain(|_, waiting| {
            let (gone, left) = std::mem::take(waiting).into_iter().partition(|(since, _)| now.since(*since) > WITHIN);
            *waiting = left;
            late.extend(Vec::<(Time, Wanted)>::into_iter(gone).map(|(_, wanted)| wanted));
            !waiting.is_empty()
        });
        self.count -= late.len();
        late
    }
}
