//! Media that links share: who is next, and what it costs in time.

use super::error::Problem;
use super::form::{Defaults, Errors, Form};
use super::link::limit;
use super::names::Names;
use super::topology::{self, Copies};
use crate::model::{Access, Medium};
use fairspan_core::link::{Capacity, DuringOutage, Limit, Profile};

/// Most media.
const MOST: usize = 100_000;

/// Media with their names.
#[derive(Debug, Default)]
pub(super) struct Media {
    pub(super) list: Vec<Medium>,
    pub(super) names: Names,
}

impl Media {
    /// Reads `[[medium]]`.
    pub(super) fn read<'a>(root: &mut Form<'a>, defaults: &mut Defaults<'a>, errors: &mut Errors<'_>) -> Media {
        let mut media = Media::default();
        let before = errors.count();
        for mut form in root.tables("medium", defaults, errors) {
            media.add(&mut form, errors);
            form.finish(Some(defaults), errors);
        }
        media.names.incomplete = errors.count() > before;
        media
    }

    fn add(&mut self, form: &mut Form<'_>, errors: &mut Errors<'_>) {
        let before = errors.count();
        let copies = Copies::read(form, errors);
        let name = topology::pattern("name", form, copies, errors);
        let words = [("first-come", Access::FirstCome), ("poll", Access::Poll)];
        let access = form.choice("access", &words, errors).unwrap_or_default();
        let turnaround = form.span("turnaround", errors).unwrap_or_default();
        let gap = form.span("gap", errors).unwrap_or_default();
        let turn = form.value("turn").and_then(|value| limit(form, "turn", value, None, errors));
        let turn = turn.unwrap_or(Limit::Packets(1));
        let Some(name) = name.filter(|_| errors.count() == before) else { return };
        let total = self.list.len() as u64 + copies.count;
        if total > MOST as u64 {
            let problem = Problem::TooMany { what: "media".into(), count: total.to_string(), most: MOST as u64 };
            errors.add(form.place("count"), form.key("count"), problem);
            return;
        }
        for index in copies.numbers() {
            let name = name.expand(index);
            if !topology::register(&mut self.names, "medium", &name, self.list.len() as u32, form, errors) {
                return;
            }
            self.list.push(Medium { name, access, turnaround, gap, turn });
        }
    }
}

/// Whether a link can share a medium; an error where it cannot.
pub(super) fn fits(form: &Form<'_>, profile: &Profile, errors: &mut Errors<'_>) -> bool {
    if !matches!(profile.capacity, Capacity::Constant(_) | Capacity::Unlimited) {
        form.conflict("medium", "a link that shares a medium has a constant `rate`", errors);
        return false;
    }
    if profile.during_outage == DuringOutage::Hold && !profile.outages.is_empty() {
        let text = "a link that stands still in an outage would keep the medium: `during_outage = \"lose\"`";
        form.conflict("medium", text, errors);
        return false;
    }
    true
}
