//! Workloads of whole applications: transfers in an open loop, web pages, video, calls.

use super::form::{Defaults, Errors, Form};
use super::sizes::sizes;
use super::store::Store;
use super::value::{Kind, Value};
use crate::traffic::workload::{
    Arrivals, Call, Codec, Game, MOST_CLASSES, MOST_OBJECTS, Object, Transfers, Video, Web,
};
use crate::traffic::{Config, Sizes};
use fairspan_core::units::{Bytes, Rate, Span};

/// Most bytes of one transfer, object or message.
pub(super) const MOST_MESSAGE: u64 = u32::MAX as u64;
/// Most of a datagram's payload: UDP's own field.
const MOST_DATAGRAM: u64 = 65_507;

/// `kind = "transfers"`.
pub(super) fn transfers(form: &mut Form<'_>, store: &Store, errors: &mut Errors<'_>) -> Option<Config> {
    if !form.has("bytes") {
        form.missing("bytes", "the size of each transfer, such as \"100kB\" or { cdf = \"FILE\" }", errors);
    }
    let sizes = sizes(form, "bytes", MOST_MESSAGE, store, errors);
    let choices = [("poisson", 0), ("constant", 1), ("pareto", 2)];
    let arrivals = match form.choice("arrivals", &choices, errors).unwrap_or(0) {
        0 => Arrivals::Poisson,
        1 => Arrivals::Constant,
        _ => Arrivals::Pareto(1.5),
    };
    let shape = form.number("shape", 1.000_001..=100.0, errors);
    let arrivals = match (arrivals, shape) {
        (Arrivals::Pareto(_), Some(shape)) => Arrivals::Pareto(shape),
        (arrivals, None) => arrivals,
        (arrivals, Some(_)) => {
            form.conflict("shape", "only arrivals = \"pareto\" have a shape; leave it out", errors);
            arrivals
        }
    };
    let nearest = form.nearest(&["every", "offered"]);
    let (every, offered) = (form.some_span("every", errors), form.rate("offered", errors));
    let every = match nearest[..] {
        ["every"] => every,
        ["offered"] => offered.zip(sizes.as_ref()).map(|(rate, sizes)| {
            let nanos = sizes.mean() * 8e9 / rate.as_bits_per_sec() as f64;
            Span::from_nanos((nanos.round() as u64).clamp(1, super::form::LONGEST.as_nanos()))
        }),
        [] => {
            let expected = "how often one begins: every = \"10ms\" on average, or offered = \"50Mbit\" of payload";
            form.missing("every", expected, errors);
            None
        }
        _ => {
            form.conflict("offered", "every and offered exclude each other: keep one", errors);
            None
        }
    };
    let count = form.integer("transfers", 1..=u64::MAX >> 1, errors);
    let parallel = form.integer("parallel", 1..=100_000, errors).unwrap_or(10_000) as u32;
    let classes = classes(form, errors)?;
    Some(Config::Transfers(Transfers {
        arrivals,
        every: every?,
        sizes: sizes?,
        count,
        parallel,
        classes: classes.into(),
    }))
}

/// Sizes up to which classes reach.
fn classes(form: &mut Form<'_>, errors: &mut Errors<'_>) -> Option<Vec<Bytes>> {
    let Some(value) = form.value("classes") else {
        // What the papers on data centres call short and long.
        return Some(vec![Bytes::new(100_000), Bytes::new(10_000_000)]);
    };
    let expected = format!("a list of up to {} ascending sizes, such as [\"10kB\", \"1MB\"]", MOST_CLASSES - 1);
    let Kind::List(list) = &value.kind else {
        form.wrong("classes", value, expected, errors);
        return None;
    };
    let bounds: Option<Vec<Bytes>> =
        list.iter().map(|value| form.bytes_of("classes", value, 1..=u64::MAX, errors)).collect();
    let bounds = bounds?;
    if bounds.len() >= MOST_CLASSES || bounds.windows(2).any(|pair| pair[0] >= pair[1]) {
        form.wrong("classes", value, expected, errors);
        return None;
    }
    Some(bounds)
}

/// `kind = "web"`.
pub(super) fn web(form: &mut Form<'_>, store: &Store, errors: &mut Errors<'_>) -> Option<Config> {
    if !form.has("objects") {
        let expected =
            "what a page has, such as [{ name = \"page\", bytes = \"30kB\" }, { bytes = \"80kB\", after = \"page\" }]";
        form.missing("objects", expected, errors);
    }
    let parallel = form.integer("parallel", 1..=1000, errors).unwrap_or(6) as u32;
    let pages = form.integer("fetches", 1..=u64::MAX >> 1, errors);
    let request = form.bytes("request", 1..=MOST_MESSAGE, errors).unwrap_or(Bytes::new(200));
    let think = form.span("think", errors).unwrap_or_default();
    let before = errors.count();
    let (mut objects, mut names): (Vec<Object>, Vec<&str>) = (Vec::new(), Vec::new());
    let forms = form.tables("objects", &Defaults::none(), errors);
    let empty = forms.is_empty();
    for mut inner in forms {
        let name = inner.text("name", errors).unwrap_or_default();
        if !name.is_empty() && names.contains(&name) {
            inner.conflict("name", format!("another object is called `{name}`; names are unique"), errors);
        }
        if !inner.has("bytes") {
            inner.missing("bytes", "the size of each of these objects, such as \"30kB\"", errors);
        }
        let sizes = sizes(&mut inner, "bytes", MOST_MESSAGE, store, errors);
        let count = inner.integer("count", 1..=u64::from(MOST_OBJECTS), errors).unwrap_or(1) as u32;
        let wait = inner.span("wait", errors).unwrap_or_default();
        let mut after = Vec::new();
        for (other, at) in inner.texts("after", errors).unwrap_or_default() {
            match names.iter().position(|known| *known == other) {
                Some(place) => after.push(place as u16),
                None => {
                    let expected = match names.iter().filter(|name| !name.is_empty()).count() {
                        0 => "the name of an object that stands before this one; none of them has a name".to_owned(),
                        _ => format!("an object that stands before this one: {}", names.join(", ")),
                    };
                    let problem = super::error::Problem::Value { found: format!("\"{other}\""), expected };
                    errors.add(at, inner.key("after"), problem);
                }
            }
        }
        inner.finish(None, errors);
        names.push(name);
        objects.extend(sizes.map(|sizes| Object { sizes, count, after, wait }));
    }
    if empty && form.has("objects") && errors.count() == before {
        form.conflict("objects", "a page has at least one object", errors);
    }
    if errors.count() > before || objects.is_empty() {
        return None;
    }
    Some(Config::Web(Web { objects: objects.into(), parallel, pages, request, think }))
}

/// `kind = "video"`.
pub(super) fn video(form: &mut Form<'_>, errors: &mut Errors<'_>) -> Option<Config> {
    if !form.has("levels") {
        form.missing(
            "levels",
            "the rates of the qualities, ascending, such as [\"1Mbit\", \"3Mbit\", \"6Mbit\"]",
            errors,
        );
    }
    let levels = form.value("levels").and_then(|value| levels(form, value, errors));
    let chunk = form.some_span("chunk", errors).unwrap_or(Span::from_secs(4));
    let length = form.has("length").then(|| form.some_span("length", errors)).flatten();
    form.value("length");
    let buffer = form.some_span("buffer", errors).unwrap_or(Span::from_secs(240));
    // The paper has 90 and 126 s of 240 s.
    let part = |share: u64| Span::from_nanos(buffer.as_nanos() / 40 * share);
    let reservoir = form.span("reservoir", errors).unwrap_or(part(15));
    let cushion = form.span("cushion", errors).unwrap_or(part(21));
    let resume = form.some_span("resume", errors).unwrap_or(chunk);
    let request = form.bytes("request", 1..=MOST_MESSAGE, errors).unwrap_or(Bytes::new(200));
    let levels = levels?;
    Some(Config::Video(Video { levels: levels.into(), chunk, length, buffer, reservoir, cushion, resume, request }))
}

fn levels(form: &Form<'_>, value: &Value, errors: &mut Errors<'_>) -> Option<Vec<Rate>> {
    let list = match &value.kind {
        Kind::List(list) => list.as_slice(),
        _ => std::slice::from_ref(value),
    };
    let rates: Option<Vec<Rate>> = list.iter().map(|value| form.rate_of("levels", value, errors)).collect();
    let rates = rates?;
    if rates.is_empty() || rates.windows(2).any(|pair| pair[0] >= pair[1]) {
        form.wrong("levels", value, "rates that ascend, such as [\"1Mbit\", \"3Mbit\"]", errors);
        return None;
    }
    Some(rates)
}

/// `kind = "game"`.
pub(super) fn game(form: &mut Form<'_>, store: &Store, errors: &mut Errors<'_>) -> Option<Config> {
    // 64 ticks a second.
    let tick = form.some_span("tick", errors).unwrap_or(Span::from_micros(15_625));
    let every = form.some_span("input_every", errors).unwrap_or(tick);
    let interpolation = form.span("interpolation", errors).unwrap_or(tick.times(2));
    let mut read = |key, usual| match form.value(key) {
        Some(_) => sizes(form, key, MOST_DATAGRAM, store, errors),
        None => Some(Sizes::Constant(usual)),
    };
    let (state, input) = (read("state", 300), read("input", 60));
    Some(Config::Game(Game { tick, every, interpolation, state: state?, input: input? }))
}

/// `kind = "call"`.
pub(super) fn call(form: &mut Form<'_>, errors: &mut Errors<'_>) -> Option<Config> {
    let codecs = [("g711", Codec::G711), ("g711-plain", Codec::G711_PLAIN), ("g729", Codec::G729)];
    let codec = form.choice("codec", &codecs, errors).unwrap_or(Codec::G711);
    let playout = form.span("playout", errors).unwrap_or(Span::from_millis(60));
    // IPv4, UDP and RTP.
    let header = form.bytes("header", 0..=1000, errors).map_or(40, |bytes| bytes.as_u64() as u32);
    Some(Config::Call(Call { codec, playout, header }))
}
