//! Which names are to be asked for, and when.

use fairspan_core::units::{Span, Time};
use std::collections::BTreeMap;

/// The first wait until a name is asked for again, and the longest; it doubles.
const FIRST_WAIT: Span = Span::from_secs(2);
const LONGEST_WAIT: Span = Span::from_secs(60);

/// What is known of each name.
#[derive(Debug, Default)]
pub(super) struct Lookups {
    names: BTreeMap<String, Lookup>,
}

/// What is known of a name.
#[derive(Debug)]
pub(super) struct Lookup {
    /// When it may be asked for again, and the wait after that.
    next: Time,
    wait: Span,
    /// To be asked for.
    wanted: bool,
    /// What it is now counts for channels that are up too.
    pub(super) anew: bool,
    /// Why it has no address.
    pub(super) problem: Option<String>,
}

impl Lookups {
    /// The next name that is to be asked for.
    pub(super) fn poll(&mut self) -> Option<String> {
        let (name, lookup) = self.names.iter_mut().find(|(_, lookup)| lookup.wanted)?;
        lookup.wanted = false;
        Some(name.clone())
    }

    /// All are asked for at once, also for channels that are up.
    pub(super) fn ask_anew(&mut self, now: Time) {
        for lookup in self.names.values_mut() {
            (lookup.next, lookup.wait, lookup.wanted, lookup.anew) = (now + FIRST_WAIT, FIRST_WAIT, true, true);
        }
    }

    /// That of a name, which may be new.
    pub(super) fn of(&mut self, now: Time, host: &str) -> &mut Lookup {
        let first = Lookup { next: now, wait: FIRST_WAIT, wanted: false, anew: false, problem: None };
        self.names.entry(host.to_owned()).or_insert(first)
    }

    pub(super) fn get_mut(&mut self, host: &str) -> Option<&mut Lookup> {
        self.names.get_mut(host)
    }

    /// Forgets names that are not `used`.
    pub(super) fn retain(&mut self, used: impl Fn(&String) -> bool) {
        self.names.retain(|name, _| used(name));
    }

    /// Why a name has no address, if that is so.
    pub(super) fn problem(&self, host: &str) -> Option<&str> {
        self.names.get(host)?.problem.as_deref()
    }
}

impl Lookup {
    /// A channel that leads to the name is up, or down: then it is time to ask, or will be.
    pub(super) fn follow(&mut self, now: Time, up: bool) {
        if self.next > now {
            return;
        }
        if up {
            self.wait = FIRST_WAIT;
        } else {
            (self.wanted, self.next) = (true, now + self.wait);
            self.wait = self.wait.times(2).min(LONGEST_WAIT);
        }
    }
}
