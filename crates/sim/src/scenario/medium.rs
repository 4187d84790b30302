//! Media that links share: who is next, and what it costs in time.

use super::error::Problem;
use super::form::{Defaults, Errors, Form};
use super::link::limit;
use super::topology::{self, Copies, Media};
use crate::model::{Access, Medium};
use fairspan_core::buffer::Limit;

/// Most media.
const MOST: usize = 100_000;

/// Reads `[[medium]]`.
pub(super) fn read<'a>(root: &mut Form<'a>, defaults: &mut Defaults<'a>, errors: &mut Errors<'_>) -> Media {
    let mut media = Media::default();
    let before = errors.count();
    for mut form in root.tables("medium", defaults, errors) {
        add(&mut media, &mut form, errors);
        form.finish(Some(defaults), errors);
    }
    media.names.incomplete = errors.count() > before;
    media
}

fn add(media: &mut Media, form: &mut Form<'_>, errors: &mut Errors<'_>) {
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
    let total = media.list.len() as u64 + copies.count;
    if total > MOST as u64 {
        let problem = Problem::TooMany { what: "media".into(), count: total.to_string(), most: MOST as u64 };
        errors.add(form.place("count"), form.key("count"), problem);
        return;
    }
    for index in copies.numbers() {
        let name = name.expand(index);
        if !topology::register(&mut media.names, "medium", &name, media.list.len() as u32, form, errors) {
            return;
        }
        media.list.push(Medium { name, access, turnaround, gap, turn });
    }
}
