//! What a flow sends and how: its traffic and its transport.

use super::error::{Problem, closest};
use super::form::{Defaults, Errors, Form};
use super::sizes::{size_of, sizes};
use super::store::Store;
use super::value::{Kind, Value};
use super::workload::{self, MOST_MESSAGE};
use crate::model::Transport;
use crate::tcp;
use crate::traffic::Config;
use fairspan_core::congestion::Algorithm;
use fairspan_core::units::{Bytes, Span};
use std::sync::Arc;

/// Largest IP packet.
const LARGEST: u64 = 65_535;

/// The kinds of traffic by their names in files.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Name {
    Constant,
    Poisson,
    Pareto,
    Ftp,
    Http,
    RequestResponse,
    Replay,
    Transfers,
    Web,
    Video,
    Call,
    Game,
}

const NAMES: [(&str, Name); 13] = [
    ("constant", Name::Constant),
    ("cbr", Name::Constant),
    ("poisson", Name::Poisson),
    ("pareto", Name::Pareto),
    ("ftp", Name::Ftp),
    ("http", Name::Http),
    ("request-response", Name::RequestResponse),
    ("replay", Name::Replay),
    ("transfers", Name::Transfers),
    ("web", Name::Web),
    ("video", Name::Video),
    ("call", Name::Call),
    ("game", Name::Game),
];

/// A flow's traffic and transport.
#[derive(Clone, Debug)]
pub(super) struct Sending {
    pub(super) traffic: Config,
    pub(super) transport: Transport,
    /// The largest IP packet that it sends.
    pub(super) largest: u32,
    /// Whether something flows back.
    pub(super) both_ways: bool,
}

/// Reads `kind` and what belongs to it. `defaults` is `[defaults.tcp]`.
pub(super) fn sending<'a>(
    form: &mut Form<'a>,
    defaults: &mut Defaults<'a>,
    store: &Store,
    errors: &mut Errors<'_>,
) -> Option<Sending> {
    if !form.has("kind") {
        let kinds: Vec<String> = NAMES.iter().map(|(name, _)| format!("\"{name}\"")).collect();
        form.missing("kind", &format!("one of {}", kinds.join(", ")), errors);
    }
    let Some(name) = form.choice("kind", &NAMES, errors) else {
        form.forgive();
        return None;
    };
    let traffic = traffic(name, form, store, errors);
    let is_tcp = match name {
        Name::Ftp | Name::Http | Name::Transfers | Name::Web | Name::Video => true,
        Name::RequestResponse => form.choice("transport", &[("tcp", true), ("udp", false)], errors).unwrap_or(true),
        _ => false,
    };
    let (transport, largest) = if is_tcp {
        let config = tcp("tcp", form, defaults, errors)?;
        let largest = config.mss.saturating_add(config.network_header).saturating_add(20);
        (Transport::Tcp(config.into()), largest)
    } else if let Some(Config::Call(call)) = &traffic {
        (Transport::Datagram { header: call.header }, call.codec.payload + call.header)
    } else {
        let header = form.bytes("header", 0..=1000, errors).map_or(28, |bytes| bytes.as_u64() as u32);
        let largest = match &traffic {
            Some(Config::Game(game)) => game.state.largest().max(game.input.largest()).saturating_add(header),
            _ => 0,
        };
        (Transport::Datagram { header }, largest)
    };
    let traffic = traffic?;
    if let Err(error) = traffic.check() {
        form.conflict("kind", error.to_string(), errors);
        return None;
    }
    let both_ways = is_tcp || matches!(name, Name::RequestResponse | Name::Call | Name::Game);
    let largest = match (&traffic, &transport) {
        (Config::Constant { size, .. } | Config::Poisson { size, .. } | Config::ParetoOnOff { size, .. }, _) => {
            let (least, most) = (size.least(), size.largest());
            if let Transport::Datagram { header } = transport
                && least < header
            {
                let text =
                    format!("packets of {least} B are smaller than their headers of {header} B; `size` counts both");
                form.conflict("size", text, errors);
            }
            most
        }
        (Config::Replay { packets, .. }, _) => packets.iter().map(|packet| packet.1).max().unwrap_or(0),
        _ => largest,
    };
    Some(Sending { traffic, transport, largest, both_ways })
}

fn traffic(name: Name, form: &mut Form<'_>, store: &Store, errors: &mut Errors<'_>) -> Option<Config> {
    let required = |form: &mut Form<'_>, key: &'static str, expected: &str, errors: &mut Errors<'_>| {
        if !form.has(key) {
            form.missing(key, expected, errors);
        }
    };
    match name {
        Name::Constant | Name::Poisson | Name::Pareto => {
            required(form, "rate", "IP bits a second, such as \"10Mbit\"", errors);
            required(form, "size", "bytes of each IP packet, such as \"1000B\"", errors);
            let rate = form.rate("rate", errors);
            let size = sizes(form, "size", LARGEST, store, errors);
            if name != Name::Pareto {
                let (rate, size) = (rate?, size?);
                return Some(match name {
                    Name::Constant => Config::Constant { rate, size },
                    _ => Config::Poisson { rate, size },
                });
            }
            required(form, "on", "the mean length of the on periods, such as \"500ms\"", errors);
            required(form, "off", "the mean length of the off periods, such as \"500ms\"", errors);
            let (on, off) = (form.some_span("on", errors), form.some_span("off", errors));
            let shape = form.number("shape", 1.000_001..=100.0, errors).unwrap_or(1.5);
            Some(Config::ParetoOnOff { rate: rate?, size: size?, on: on?, off: off?, shape })
        }
        Name::Ftp => {
            let bytes = form.bytes("bytes", 1..=u64::MAX, errors);
            let writes = form.has("writes").then(|| sizes(form, "writes", MOST_MESSAGE, store, errors));
            form.value("writes");
            Some(Config::Ftp { bytes, writes: writes.flatten() })
        }
        Name::Http => {
            required(form, "files", "the files' sizes in turn, such as [\"25kB\", \"100kB\"]", errors);
            let parallel = form.integer("parallel", 1..=100_000, errors).unwrap_or(1) as u32;
            let fetches = form.integer("fetches", 1..=u64::MAX >> 1, errors);
            let request = form.bytes("request", 1..=MOST_MESSAGE, errors).unwrap_or(Bytes::new(200));
            let think = form.span("think", errors).unwrap_or_default();
            let value = form.value("files")?;
            let list = match &value.kind {
                Kind::List(list) => list.as_slice(),
                _ => std::slice::from_ref(value),
            };
            if list.is_empty() {
                form.wrong("files", value, "at least one size", errors);
            }
            let files: Option<Vec<Bytes>> =
                list.iter().map(|value| form.bytes_of("files", value, 1..=u64::MAX, errors)).collect();
            Some(Config::Http { parallel, files: files?, fetches, request, think })
        }
        Name::RequestResponse => {
            required(form, "request", "bytes of a request, such as \"100B\"", errors);
            required(form, "response", "bytes of an answer, such as \"1000B\"", errors);
            let request = sizes(form, "request", MOST_MESSAGE, store, errors);
            let response = sizes(form, "response", MOST_MESSAGE, store, errors);
            let think = form.span("think", errors).unwrap_or_default();
            let timeout = form.some_span("timeout", errors).unwrap_or(Span::from_secs(1));
            Some(Config::RequestResponse { request: request?, response: response?, think, timeout })
        }
        Name::Replay => {
            let period = form.some_span("period", errors);
            let (packets, file) = (form.value("packets"), form.text("file", errors));
            let packets = match (packets, file) {
                (Some(value), None) => listed(form, value, errors)?,
                (None, Some(name)) => match store.text(name).and_then(|text| replayed(name, text)) {
                    Ok(packets) => packets,
                    Err(error) => {
                        errors.add(form.place("file"), form.key("file"), Problem::File(error));
                        return None;
                    }
                },
                (Some(_), Some(_)) => {
                    form.conflict("file", "packets and file exclude each other: keep one", errors);
                    return None;
                }
                (None, None) => {
                    let expected =
                        "packets = [[\"1ms\", \"1500B\"], …], or a file: a capture, or lines `SECONDS,BYTES`";
                    if !form.has("file") {
                        form.missing("packets", expected, errors);
                    }
                    return None;
                }
            };
            Some(Config::Replay { packets: Arc::from(packets), period })
        }
        Name::Transfers => workload::transfers(form, store, errors),
        Name::Web => workload::web(form, store, errors),
        Name::Video => workload::video(form, errors),
        Name::Call => workload::call(form, errors),
        Name::Game => workload::game(form, store, errors),
    }
}

/// Packets as `[time, size]`, times since the flow's start.
fn listed(form: &Form<'_>, value: &Value, errors: &mut Errors<'_>) -> Option<Vec<(Span, u32)>> {
    const EXPECTED: &str = "pairs of time since the start and size, such as [[\"0ms\", \"1500B\"], [\"1ms\", \"40B\"]]";
    let Kind::List(list) = &value.kind else {
        form.wrong("packets", value, EXPECTED, errors);
        return None;
    };
    let mut packets = Vec::with_capacity(list.len());
    for value in list {
        let Kind::List(pair) = &value.kind else {
            form.wrong("packets", value, EXPECTED, errors);
            return None;
        };
        let [time, size] = pair.as_slice() else {
            form.wrong("packets", value, EXPECTED, errors);
            return None;
        };
        let time = form.span_of("packets", time, errors);
        packets.push((time?, size_of(form, "packets", size, LARGEST, errors)?));
    }
    if packets.is_empty() {
        form.wrong("packets", value, "at least one packet", errors);
        return None;
    }
    Some(packets)
}

/// Packets as lines `SECONDS,BYTES`, times since the first packet's.
fn replayed(name: &str, text: &str) -> Result<Vec<(Span, u32)>, String> {
    let mut packets: Vec<(Span, u32)> = Vec::new();
    let mut origin = 0.0;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let parsed = line.split_once(',').and_then(|(time, size)| {
            let time: f64 = time.trim().parse().ok().filter(|time: &f64| (0.0..=1e12).contains(time))?;
            let size: u32 = size.trim().parse().ok().filter(|size| (1..=LARGEST as u32).contains(size))?;
            Some((time, size))
        });
        let wrong = |expected| format!("{name}:{}: found `{line}`, expected {expected}", number + 1);
        let (time, size) =
            parsed.ok_or_else(|| wrong("`SECONDS,BYTES`: a time, and the bytes of an IP packet from 1 to 65535"))?;
        if packets.is_empty() {
            origin = time;
        }
        let since = (time - origin) * 1e9;
        if since < 0.0 {
            return Err(wrong("a time not before the line above"));
        }
        let since = Span::from_nanos(since.round() as u64);
        if packets.last().is_some_and(|last| last.0 > since) || since > super::form::LONGEST {
            return Err(wrong("a time not before the line above, at most six years after the first"));
        }
        packets.push((since, size));
    }
    if packets.is_empty() {
        Err(format!("{name}: no packet in it; expected lines `SECONDS,BYTES`"))
    } else {
        Ok(packets)
    }
}

/// TCP's settings at `key` (a preset's name, or a table with `preset` and settings) over `[defaults.tcp]`.
pub(super) fn tcp<'a>(
    key: &'static str,
    form: &mut Form<'a>,
    defaults: &mut Defaults<'a>,
    errors: &mut Errors<'_>,
) -> Option<tcp::Config> {
    let mut tables = Vec::new();
    let mut preset: Option<(String, u32)> = None;
    if let Some(table) = defaults.all_known() {
        tables.push((table, "defaults.tcp".to_owned()));
    }
    if let Some(value) = form.value(key) {
        match &value.kind {
            Kind::Text(name) => preset = Some((name.clone(), value.at)),
            Kind::Table(table) => tables.push((table, form.key(key))),
            _ => {
                form.wrong(key, value, "a preset's name, or a table of settings", errors);
                return None;
            }
        }
    }
    if preset.is_none() {
        for (table, _) in &tables {
            if let Some(entry) = table.get("preset") {
                preset = Some((entry.value.show(), entry.value.at));
            }
        }
    }
    let mut config = match &preset {
        None => tcp::Config::default(),
        Some((name, at)) => match tcp::Config::preset(name) {
            Ok(config) => config,
            Err(_) => {
                let names: Vec<String> = tcp::Config::PRESETS.iter().map(|name| format!("\"{name}\"")).collect();
                let close = closest(name, tcp::Config::PRESETS.iter().copied());
                let close = close.map_or(String::new(), |close| format!(" (did you mean \"{close}\"?)"));
                let expected = format!("a preset: {}{close}", names.join(", "));
                errors.add(*at, form.key(key), Problem::Value { found: format!("\"{name}\""), expected });
                return None;
            }
        },
    };
    let before = errors.count();
    // Who says how large the buffer is does not ask for it to grow, as a socket's does not with SO_RCVBUF.
    let says = |key| tables.iter().any(|(table, _)| table.get(key).is_some());
    let fixed = says("receive_buffer") && !says("receive_buffer_maximum");
    for (table, path) in tables {
        for entry in table.entries.iter().filter(|entry| entry.key != "preset") {
            let named = || format!("{path}.{}", entry.key);
            match config.set(&entry.key, &entry.value.show()) {
                Ok(()) => {}
                Err(tcp::SettingError::Value { expected, .. }) => {
                    let problem = Problem::Value { found: entry.value.found(), expected: expected.into() };
                    errors.add(entry.value.at, named(), problem);
                }
                Err(_) => {
                    let mut known: Vec<String> = tcp::Config::NAMES.iter().map(|&name| name.to_owned()).collect();
                    known.push("preset".into());
                    let close = closest(&entry.key, known.iter().map(String::as_str));
                    errors.add(entry.at, named(), Problem::UnknownKey { found: entry.key.clone(), close, known });
                }
            }
        }
    }
    if fixed {
        config.receive_buffer_maximum = config.receive_buffer;
    }
    if matches!(config.ecn, tcp::config::Ecn::Off | tcp::config::Ecn::On) {
        match config.congestion {
            Algorithm::Dctcp => {
                form.conflict(
                    key,
                    "DCTCP goes by each mark of congestion: set ecn = \"dctcp\" or \"accurate\" too",
                    errors,
                );
            }
            Algorithm::Prague => {
                form.conflict(key, "Prague goes by a count of marks: set ecn = \"l4s\" too", errors);
            }
            _ => {}
        }
    }
    let scalable = matches!(config.congestion, Algorithm::Prague | Algorithm::Dctcp | Algorithm::Bbr);
    if config.ecn == tcp::config::Ecn::L4s && !scalable {
        // RFC 9331, 4.3.
        form.conflict(
            key,
            "ecn = \"l4s\" says that each mark is answered in proportion: prague, dctcp and bbr do",
            errors,
        );
    }
    (errors.count() == before).then_some(config)
}
