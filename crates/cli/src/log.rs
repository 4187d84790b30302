//! The log of a daemon, on standard error: nobody on the other side of a link fills the disk with it.
//!
//! Of one kind of line about one peer, link or address, a few are written at once, and then one every few seconds. The next
//! one that is written says how many like it were left out. What is asked for by `--log debug` comes whole.
//!
//! The newest lines are kept for status and pages too ([`fairspan_live::events`]).

use crate::exit::BadInput;
use fairspan_live::events;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::{Format, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Lines of a kind that may come at once.
const BURST: u32 = 20;
/// After them, one in so long.
const EVERY: Duration = Duration::from_secs(5);
/// Kinds that are told apart; further ones share what is left.
const KINDS: usize = 1024;
/// The fields that say what a line is about.
const ABOUT: [&str; 5] = ["peer", "channel", "link", "node", "device"];

/// How lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Form {
    /// For people.
    #[default]
    Text,
    /// One JSON document a line, for programs.
    Json,
}

/// Begins the log; `filter` says how much of it.
pub(crate) fn start(filter: &str, form: Form) -> anyhow::Result<()> {
    let filter: Targets =
        filter.parse().map_err(|e| BadInput(format!("--log `{filter}`: {e}; write for example `debug`")))?;
    let colours = std::io::stderr().is_terminal();
    let limited = Limited { form, ..Limited::new(colours, Instant::now) };
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(colours).event_format(limited);
    tracing_subscriber::registry().with(lines).with(filter).init();
    Ok(())
}

/// Lines as usual, a limited number of each kind.
struct Limited {
    format: Format,
    form: Form,
    clock: fn() -> Instant,
    kinds: Mutex<HashMap<u64, Kind>>,
}

/// Lines alike: from one place in the program, about one thing.
struct Kind {
    /// How many may be written at `since`.
    left: u32,
    since: Instant,
    left_out: u64,
}

impl Limited {
    fn new(colours: bool, clock: fn() -> Instant) -> Limited {
        let format = Format::default().with_target(false).with_ansi(colours);
        Limited { format, form: Form::Text, clock, kinds: Mutex::default() }
    }

    /// Whether a line may be written: then how many like it were not.
    fn admit(&self, event: &Event<'_>) -> Option<u64> {
        if *event.metadata().level() > Level::INFO {
            return Some(0);
        }
        let mut about = About(DefaultHasher::new());
        event.metadata().callsite().hash(&mut about.0);
        event.record(&mut about);
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let key = about.0.finish();
        let key = if kinds.len() < KINDS || kinds.contains_key(&key) { key } else { 0 };
        let now = (self.clock)();
        let kind = kinds.entry(key).or_insert(Kind { left: BURST, since: now, left_out: 0 });
        let regained = now.duration_since(kind.since).as_secs() / EVERY.as_secs();
        if regained > 0 {
            kind.left = BURST.min(kind.left.saturating_add(u32::try_from(regained).unwrap_or(BURST)));
            kind.since += EVERY * u32::try_from(regained).unwrap_or(u32::MAX);
        }
        match kind.left.checked_sub(1) {
            Some(left) => {
                kind.left = left;
                Some(std::mem::take(&mut kind.left_out))
            }
            None => {
                kind.left_out += 1;
                None
            }
        }
    }
}

impl<S, N> FormatEvent<S, N> for Limited
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, ctx: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let Some(left_out) = self.admit(event) else { return Ok(()) };
        let level = *event.metadata().level();
        if level <= Level::INFO {
            events::keep(&level.as_str().to_ascii_lowercase(), &Words::of(event).text());
        }
        if self.form == Form::Json {
            return writeln!(writer, "{}", Words::of(event).json(level, left_out));
        }
        let mut line = String::new();
        self.format.format_event(ctx, Writer::new(&mut line), event)?;
        match left_out {
            0 => writer.write_str(&line),
            n => writeln!(writer, "{} ({n} lines like this were left out)", line.trim_end()),
        }
    }
}

/// The message of an event, and its fields.
#[derive(Default)]
struct Words {
    message: String,
    fields: Vec<(&'static str, Value)>,
}

impl Words {
    fn of(event: &Event<'_>) -> Words {
        let mut words = Words::default();
        event.record(&mut words);
        words
    }

    /// As people read it.
    fn text(&self) -> String {
        let fields = self.fields.iter().map(|(name, value)| match value {
            Value::String(text) => format!("{name}={text}"),
            other => format!("{name}={other}"),
        });
        let message = Some(self.message.clone()).filter(|message| !message.is_empty());
        message.into_iter().chain(fields).collect::<Vec<_>>().join(" ")
    }

    /// As programs do.
    fn json(&self, level: Level, left_out: u64) -> Value {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let fields: serde_json::Map<String, Value> =
            self.fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let mut line = json!({
            "time": since.as_millis() as f64 / 1e3,
            "level": level.as_str().to_ascii_lowercase(),
            "message": self.message,
            "fields": fields,
        });
        if left_out > 0 {
            line["left_out"] = left_out.into();
        }
        line
    }

    fn add(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::String(text)) => self.message = text,
            (name, value) => self.fields.push((name, value)),
        }
    }
}

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into());
    }
}

/// What a line is about.
struct About(DefaultHasher);

impl Visit for About {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if ABOUT.contains(&field.name()) {
            format!("{}{value:?}", field.name()).hash(&mut self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{self, Write};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use tracing_subscriber::fmt::MakeWriter;

    /// Milliseconds since a moment.
    static NOW: AtomicU64 = AtomicU64::new(0);

    fn clock() -> Instant {
        static BEGIN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        *BEGIN.get_or_init(Instant::now) + Duration::from_millis(NOW.load(Ordering::SeqCst))
    }

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Page {
        fn take(&self) -> String {
            String::from_utf8(std::mem::take(&mut self.0.lock().expect("a page"))).expect("text")
        }
    }

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("a page").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl<'a> MakeWriter<'a> for Page {
        type Writer = Page;

        fn make_writer(&'a self) -> Page {
            self.clone()
        }
    }

    #[test]
    fn a_peer_that_causes_260_lines_a_second_gets_a_few_and_the_others_theirs() {
        let page = Page::default();
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(page.clone())
            .with_ansi(false)
            .event_format(Limited::new(false, clock));
        let _log = tracing::subscriber::set_default(tracing_subscriber::registry().with(lines));
        let moved = |peer: &str, to: u64| tracing::info!(peer, to, "channel moved");
        for n in 0..2_600 {
            NOW.store(n * 1000 / 260, Ordering::SeqCst);
            moved("loud", n);
        }
        let text = page.take();
        assert_eq!(text.lines().count(), BURST as usize + 1, "{text}");
        let last = text.lines().last().expect("a line");
        assert!(last.contains("to=1300") && last.ends_with("(1280 lines like this were left out)"), "{last}");

        // What another peer causes, what is of another kind, and what was asked for, is written.
        moved("quiet", 1);
        tracing::warn!(peer = "loud", "channel lost");
        for _ in 0..100 {
            tracing::debug!(peer = "loud", "asked for");
        }
        let text = page.take();
        assert_eq!(text.lines().count(), 102, "{text}");
        assert!(!text.contains("left out"), "{text}");

        // Kinds without end take no memory without end.
        for n in 0..5 * KINDS {
            moved(&n.to_string(), 1);
        }
        assert!(page.take().lines().count() <= KINDS + BURST as usize);
    }

    #[test]
    fn a_line_for_programs_is_one_document_with_its_fields_and_is_kept_as_people_read_it() {
        let page = Page::default();
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(page.clone())
            .event_format(Limited { form: Form::Json, ..Limited::new(false, Instant::now) });
        let _log = tracing::subscriber::set_default(tracing_subscriber::registry().with(lines));
        tracing::warn!(peer = "hub \"x\"\n", mtu = 1400, up = false, "channel down");
        let text = page.take();
        assert_eq!(text.lines().count(), 1, "{text}");
        let line: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!((&line["level"], &line["message"]), (&json!("warn"), &json!("channel down")));
        assert_eq!(line["fields"], json!({"peer": "hub \"x\"\n", "mtu": 1400, "up": false}));
        assert!(line["time"].as_f64().is_some_and(|time| time > 1e9) && line.get("left_out").is_none());
    }

    #[test]
    fn a_filter_is_a_level_or_levels_by_place() {
        for good in ["debug", "off", "info,fairspan_live::secure=debug"] {
            assert!(good.parse::<Targets>().is_ok(), "{good}");
        }
        let refused = start("info,fairspan_live=loud", Form::Text).expect_err("no such level").to_string();
        assert!(
            refused.contains("--log `info,fairspan_live=loud`") && refused.contains("for example `debug`"),
            "{refused}"
        );
    }
}
