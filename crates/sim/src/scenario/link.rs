//! One direction of a link: rate, delay, loss, queue, framing.

use super::error::Problem;
use super::form::{Errors, Form};
use super::store::Store;
use super::value::{Kind, Value};
use crate::model::{Card, Framing};
use fairspan_core::buffer::Limit;
use fairspan_core::link::{Blank, Capacity, DuringOutage, Loss, Outage, Profile, Series, Trace};
use fairspan_core::options::{Family, OptionError, Value as Options, Words};
use fairspan_core::quantity::{parse_bytes, parse_span, split};
use fairspan_core::queue::{self, DisciplineConfig, MOST_BUCKETS, MOST_QUANTUM};
use fairspan_core::shared::Shared;
use fairspan_core::units::Span;
use std::str::FromStr;

/// Longest delay of a link (see [`Profile::check`]).
pub(super) const LONGEST_DELAY: Span = Span::from_secs(60);

/// One direction as read.
#[derive(Clone, Debug)]
pub(super) struct Direction {
    pub(super) profile: Shared<Profile>,
    pub(super) framing: Framing,
    pub(super) card: Card,
    pub(super) mtu: u32,
    /// How far its clock is off, in parts per million; `None`: drawn.
    pub(super) drift: Option<f64>,
}

/// Reads one direction. `None` if its capacity cannot be read.
pub(super) fn direction(form: &mut Form<'_>, store: &Store, errors: &mut Errors<'_>) -> Option<Direction> {
    let before = errors.count();
    let capacity = capacity(form, store, errors);
    let mut delay = |key| {
        let span = form.span(key, errors)?;
        if span > LONGEST_DELAY {
            let problem = Problem::Value { found: format!("{} s", span.as_secs_f64()), expected: "at most 60s".into() };
            errors.add(form.place(key), form.key(key), problem);
        }
        Some(span)
    };
    let (delay, jitter) = (delay("delay").unwrap_or_default(), delay("jitter").unwrap_or_default());
    let reorder = form.bool("reorder", errors).unwrap_or(false);
    let loss = loss(form, errors);
    let limit = match form.value("queue") {
        Some(value) => limit(form, "queue", value, capacity.as_ref(), errors).unwrap_or(Limit::Packets(1000)),
        None => Limit::Packets(1000),
    };
    let outages = outages(form, errors);
    let held = [("lose", DuringOutage::Lose), ("hold", DuringOutage::Hold)];
    let during_outage = form.choice("during_outage", &held, errors).unwrap_or_default();
    let framing = framing(form, errors);
    let card = card(form, errors);
    let discipline = discipline(form, errors);
    let buffer = named(form, "buffer", errors).unwrap_or(discipline.usual_buffer());
    let mtu = form.bytes("mtu", 68..=65_535, errors).map_or(65_535, |bytes| bytes.as_u64() as u32);
    let drift = form.drift("drift", true, errors);
    if drift.is_some() && !matches!(capacity, None | Some(Capacity::Constant(_))) {
        form.conflict("drift", "only a link with a constant rate has a clock that is off; leave it out", errors);
    }
    let profile = Profile {
        capacity: capacity?,
        delay,
        jitter,
        reorder,
        loss,
        queue: limit,
        discipline,
        buffer,
        outages,
        during_outage,
        spells: Vec::new(),
        // Here a frame's length is what the framing makes of an IP packet: no Ethernet header to take away.
        overhead: Some(0),
    };
    // What no key's own check has found, core's finds.
    if errors.count() == before
        && let Err(error) = profile.check()
    {
        form.conflict(error.setting, error.to_string(), errors);
    }
    Some(Direction { profile: profile.into(), framing, card, mtu, drift })
}

fn capacity(form: &mut Form<'_>, store: &Store, errors: &mut Errors<'_>) -> Option<Capacity> {
    for key in ["rate", "trace", "series"] {
        form.value(key);
    }
    let column = form.text("column", errors);
    let words = Blank::ALL.iter().map(|blank| (blank.word(), *blank)).collect::<Vec<_>>();
    let blank = form.choice("blank", &words, errors).unwrap_or_default();
    let given = form.nearest(&["rate", "trace", "series"]);
    let key = match given[..] {
        [key] => key,
        [] => {
            form.missing("rate", "rate = \"10Mbit\" or \"unlimited\", trace = \"FILE\" or series = \"FILE\"", errors);
            return None;
        }
        [_, second, ..] => {
            form.conflict(second, "rate, trace and series exclude each other: keep one", errors);
            return None;
        }
    };
    if key == "rate" {
        let value = form.value("rate")?;
        if value.kind == Kind::Text("unlimited".into()) {
            return Some(Capacity::Unlimited);
        }
        return form.rate_of("rate", value, errors).map(Capacity::Constant);
    }
    let name = form.text(key, errors)?;
    let read = store.text(name).and_then(|text| {
        let capacity = if key == "trace" {
            Trace::parse(name, text).map(Capacity::Trace)
        } else {
            Series::parse_csv(name, text, column.unwrap_or("1"), blank).map(Capacity::Series)
        };
        capacity.map_err(|error| error.to_string())
    });
    match read {
        Ok(capacity) => Some(capacity),
        Err(error) => {
            errors.add(form.place(key), form.key(key), Problem::File(error));
            None
        }
    }
}

fn loss(form: &mut Form<'_>, errors: &mut Errors<'_>) -> Loss {
    form.value("loss");
    let gilbert = form.value("gilbert");
    match form.nearest(&["loss", "gilbert"])[..] {
        ["loss"] => match form.fraction("loss", errors) {
            Some(share) if share > 0.0 => Loss::Independent(share),
            _ => Loss::None,
        },
        ["gilbert"] => gilbert.and_then(|value| gilbert_loss(form, value, errors)).unwrap_or_default(),
        [] => Loss::None,
        _ => {
            form.conflict("gilbert", "loss and gilbert exclude each other: keep one", errors);
            Loss::None
        }
    }
}

fn gilbert_loss(form: &Form<'_>, value: &Value, errors: &mut Errors<'_>) -> Option<Loss> {
    const EXPECTED: &str = "\"P R [1-H [1-K]]\" as netem has them, each a share such as 1% or 0.01";
    let part = |text: &str| {
        let number = match text.strip_suffix('%') {
            Some(percent) => percent.parse::<f64>().ok()? / 100.0,
            None => text.parse().ok()?,
        };
        (0.0..=1.0).contains(&number).then_some(number)
    };
    let parts: Option<Vec<f64>> = match &value.kind {
        Kind::Text(text) => text.split_whitespace().map(part).collect(),
        _ => None,
    };
    match parts.as_deref() {
        Some([p, r]) => Some(Loss::Gilbert { p: *p, r: *r, bad: 1.0, good: 0.0 }),
        Some([p, r, bad]) => Some(Loss::Gilbert { p: *p, r: *r, bad: *bad, good: 0.0 }),
        Some([p, r, bad, good]) => Some(Loss::Gilbert { p: *p, r: *r, bad: *bad, good: *good }),
        _ => {
            form.wrong("gilbert", value, EXPECTED, errors);
            None
        }
    }
}

/// Packets, bytes, or how long a constant rate takes for them.
pub(super) fn limit(
    form: &Form<'_>,
    key: &str,
    value: &Value,
    capacity: Option<&Capacity>,
    errors: &mut Errors<'_>,
) -> Option<Limit> {
    let text = match &value.kind {
        Kind::Text(text) => text.as_str(),
        _ => "",
    };
    let bytes = |bytes: u64| (1..=queue::Config::MOST_BYTES).contains(&bytes).then_some(Limit::Bytes(bytes));
    let found = match (split(text), parse_span(text), capacity) {
        ((number, "packet" | "packets"), ..) => {
            number.parse().ok().filter(|n| (1..=queue::Config::MOST_PACKETS).contains(n)).map(Limit::Packets)
        }
        (_, Ok(span), Some(Capacity::Constant(rate))) => bytes(rate.bytes_in(span).as_u64()),
        _ => parse_bytes(text).ok().and_then(|size| bytes(size.as_u64())),
    };
    if found.is_none() {
        let expected = match capacity {
            Some(_) => {
                "bytes or packets, at least one, or a time at a constant rate, such as \"25000B\", \"50 packets\" or \"100ms\""
            }
            None => "bytes or packets, at least one, such as \"25000B\" or \"50 packets\"",
        };
        form.wrong(key, value, expected, errors);
    }
    found
}

/// A number of packets: `"50 packets"`.
pub(super) fn packets(form: &mut Form<'_>, key: &'static str, errors: &mut Errors<'_>) -> Option<u32> {
    let value = form.value(key)?;
    let found = match &value.kind {
        Kind::Text(text) => match split(text) {
            (number, "packet" | "packets") => {
                number.parse().ok().filter(|n| (1..=queue::Config::MOST_PACKETS).contains(n))
            }
            _ => None,
        },
        _ => None,
    };
    if found.is_none() {
        form.wrong(key, value, "packets, at least one, such as \"50 packets\"", errors);
    }
    found
}

pub(super) fn outages(form: &mut Form<'_>, errors: &mut Errors<'_>) -> Vec<Outage> {
    let mut outages = Vec::new();
    for (text, at) in form.texts("outages", errors).unwrap_or_default() {
        match outage(text) {
            Some(outage) => outages.push(outage),
            None => {
                let expected = "START+LENGTH or START+LENGTH/PERIOD, the length above zero and below the period, such \
                                as \"5s+2s/60s\"";
                let problem = Problem::Value { found: format!("\"{text}\""), expected: expected.into() };
                errors.add(at, form.key("outages"), problem);
            }
        }
    }
    outages
}

fn outage(text: &str) -> Option<Outage> {
    let span = |text: &str| parse_span(text).ok().filter(|&span| span <= super::form::LONGEST);
    let (start, rest) = text.split_once('+')?;
    let (length, every) = match rest.split_once('/') {
        Some((length, every)) => (length, Some(span(every)?)),
        None => (rest, None),
    };
    let (start, length) = (span(start)?, span(length)?);
    let fits = length > Span::ZERO && every.is_none_or(|every| every > length);
    fits.then_some(Outage { start, length, every })
}

fn framing(form: &mut Form<'_>, errors: &mut Errors<'_>) -> Framing {
    let Some(value) = form.value("framing") else { return Framing::None };
    let text = match &value.kind {
        Kind::Text(text) => text.as_str(),
        _ => "",
    };
    match text {
        "none" => Framing::None,
        "ethernet" => Framing::Ethernet,
        "atm-aal5" => Framing::AtmAal5,
        _ => match parse_bytes(text).ok().filter(|bytes| bytes.as_u64() <= 10_000) {
            Some(bytes) => Framing::Bytes(bytes.as_u64() as u32),
            None => {
                let expected = "\"none\", \"ethernet\", \"atm-aal5\", or bytes for each packet up to 10000B, such as \
                                \"4B\"";
                form.wrong("framing", value, expected, errors);
                Framing::None
            }
        },
    }
}

fn card(form: &mut Form<'_>, errors: &mut Errors<'_>) -> Card {
    let Some(mut inner) = form.table("card", errors) else { return Card::default() };
    let card = Card {
        packet: inner.span("packet", errors).unwrap_or_default(),
        per_byte_ps: inner.picoseconds("per_byte", errors).unwrap_or_default(),
    };
    inner.finish(None, errors);
    card
}

/// Which packet goes next. Its options may stand for themselves, as `quantum` and `buckets`, or in the text.
fn discipline(form: &mut Form<'_>, errors: &mut Errors<'_>) -> DisciplineConfig {
    let mut discipline: DisciplineConfig = named(form, "discipline", errors).unwrap_or_default();
    let quantum = form.bytes("quantum", 1..=MOST_QUANTUM, errors).map(|quantum| Options::Bytes(Some(quantum)));
    let buckets = form.integer("buckets", 1..=u64::from(MOST_BUCKETS), errors).map(|n| Options::Count(Some(n)));
    for (key, value) in [("quantum", quantum), ("buckets", buckets)] {
        if let (Some(value), Some(field)) = (value, discipline.field_mut(key)) {
            field.take(value);
        }
    }
    discipline
}

/// A member of a family, perhaps with options: `codel:target=5ms`.
pub(super) fn named<F: Family + FromStr<Err = OptionError>>(
    form: &mut Form<'_>,
    key: &'static str,
    errors: &mut Errors<'_>,
) -> Option<F> {
    let value = form.value(key)?;
    let text = match &value.kind {
        Kind::Text(text) => text.as_str(),
        _ => "",
    };
    match text.parse() {
        Ok(found) => return Some(found),
        Err(OptionError::Unknown { .. }) => {
            let names: Vec<&'static str> = F::MEMBERS.iter().map(|member| member.name).collect();
            form.not_one_of(key, value, text, &names, errors);
        }
        Err(error) => form.conflict(key, error.to_string(), errors),
    }
    None
}

/// Whether a link can share a medium; an error where it cannot.
pub(super) fn fits_medium(form: &Form<'_>, profile: &Profile, errors: &mut Errors<'_>) -> bool {
    if !matches!(profile.capacity, Capacity::Constant(_)) {
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
