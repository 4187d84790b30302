//! Reading tables: each key asked for by its type; what was not asked for is unknown.

use super::error::{Problem, ReadError, closest};
use super::value::{Entry, Kind, OUTSIDE, Table, Value};
use fairspan_core::options;
use fairspan_core::quantity::{QuantityError, parse_bytes, parse_picoseconds, parse_rate, parse_span};
use fairspan_core::units::{Bytes, Rate, Span};
use std::ops::RangeInclusive;

/// Most errors that are told at once.
const MOST_ERRORS: usize = 100;
/// Longest span that a scenario may name: 6.3 years; the engine's time ends after 9.
pub(super) const LONGEST: Span = Span::from_secs(200_000_000);
/// Most bytes that a scenario may name.
const MOST_BYTES: u64 = 1 << 60;
/// Most parts in a million that a clock may be off.
const MOST_DRIFT: f64 = 100_000.0;
/// Highest rate that a scenario may name: 100 Tbit/s.
const FASTEST: u64 = 100_000_000_000_000;

/// Where errors go.
pub(super) struct Errors<'a> {
    name: &'a str,
    text: &'a str,
    list: Vec<ReadError>,
}

impl<'a> Errors<'a> {
    pub(super) fn new(name: &'a str, text: &'a str) -> Errors<'a> {
        Errors { name, text, list: Vec::new() }
    }

    pub(super) fn add(&mut self, at: u32, key: impl Into<String>, problem: Problem) {
        if self.list.len() >= MOST_ERRORS {
            return;
        }
        let (line, column) = self.place(at);
        let file = if line == 0 { String::new() } else { self.name.to_owned() };
        let error = ReadError { file, line, column, key: key.into(), problem };
        // Expansion and sweeps come by the same place more than once.
        if !self.list.contains(&error) {
            self.list.push(error);
        }
    }

    /// Line and column of an offset.
    pub(super) fn place(&self, at: u32) -> (u32, u32) {
        if at == OUTSIDE {
            return (0, 0);
        }
        let before = &self.text.as_bytes()[..(at as usize).min(self.text.len())];
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        let start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |place| place + 1);
        let column = String::from_utf8_lossy(&before[start..]).chars().count() + 1;
        (line as u32, column as u32)
    }

    pub(super) fn any(&self) -> bool {
        !self.list.is_empty()
    }

    pub(super) fn count(&self) -> usize {
        self.list.len()
    }

    /// The errors in the order of the text.
    pub(super) fn sorted(mut self) -> Vec<ReadError> {
        self.list.sort_by_key(|error| (error.line, error.column));
        self.list
    }
}

/// Defaults for one kind of table, with what has been asked of them.
pub(super) struct Defaults<'a> {
    table: Option<&'a Table>,
    path: String,
    known: Vec<&'static str>,
    forgiven: bool,
}

impl<'a> Defaults<'a> {
    pub(super) fn new(table: Option<&'a Table>, path: &str) -> Defaults<'a> {
        Defaults { table, path: path.to_owned(), known: Vec::new(), forgiven: false }
    }

    pub(super) fn none() -> Defaults<'a> {
        Defaults::new(None, "")
    }

    /// The table, all of whose keys are known elsewhere.
    pub(super) fn all_known(&self) -> Option<&'a Table> {
        self.table
    }

    /// To be called when everything that takes the defaults has been read.
    pub(super) fn finish(self, errors: &mut Errors<'_>) {
        if let Some(table) = self.table
            && !self.known.is_empty()
            && !self.forgiven
        {
            unknown(table, &self.path, &self.known, errors);
        }
    }
}

/// One table while it is read.
pub(super) struct Form<'a> {
    /// The table itself, then what stands in for keys that it lacks.
    layers: [Option<&'a Table>; 3],
    /// Where the table stands.
    pub(super) at: u32,
    path: String,
    asked: Vec<&'static str>,
    forgiven: bool,
}

impl<'a> Form<'a> {
    pub(super) fn new(own: &'a Table, path: String, defaults: &Defaults<'a>) -> Form<'a> {
        Form {
            layers: [Some(own), defaults.table, None],
            at: own.at,
            path,
            asked: Vec::with_capacity(24),
            forgiven: false,
        }
    }

    /// A table whose missing keys are those of `base` and its defaults.
    pub(super) fn over(own: &'a Table, key: &str, base: &Form<'a>) -> Form<'a> {
        let layers = [Some(own), base.layers[0], base.layers[1]];
        Form { layers, at: own.at, path: base.key(key), asked: Vec::with_capacity(24), forgiven: false }
    }

    fn find(&self, key: &str) -> Option<&'a Entry> {
        self.layers.iter().flatten().find_map(|table| table.get(key))
    }

    /// The keys among `keys` that the first table with any of them has: what excludes one another is not mixed with
    /// the defaults.
    pub(super) fn nearest(&self, keys: &[&'static str]) -> Vec<&'static str> {
        let having = |table: &&Table| keys.iter().copied().filter(|key| table.get(key).is_some()).collect::<Vec<_>>();
        self.layers.iter().flatten().map(having).find(|found| !found.is_empty()).unwrap_or_default()
    }

    /// The path of a key in this table.
    pub(super) fn key(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// The value of a key; from now on the key is known.
    pub(super) fn value(&mut self, key: &'static str) -> Option<&'a Value> {
        self.asked.push(key);
        self.find(key).map(|entry| &entry.value)
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.find(key).is_some()
    }

    /// Where a key's value stands, or the table.
    pub(super) fn place(&self, key: &str) -> u32 {
        self.find(key).map_or(self.at, |entry| entry.value.at)
    }

    pub(super) fn missing(&self, key: &str, expected: &str, errors: &mut Errors<'_>) {
        let problem = Problem::Missing { key: key.into(), expected: expected.into() };
        errors.add(self.at, self.path.clone(), problem);
    }

    /// Lets all further keys pass: what decides which are known is itself wrong, and said so.
    pub(super) fn forgive(&mut self) {
        self.forgiven = true;
    }

    pub(super) fn wrong(&self, key: &str, value: &Value, expected: impl Into<String>, errors: &mut Errors<'_>) {
        errors.add(value.at, self.key(key), Problem::Value { found: value.found(), expected: expected.into() });
    }

    pub(super) fn conflict(&self, key: &str, text: impl Into<String>, errors: &mut Errors<'_>) {
        errors.add(self.place(key), self.key(key), Problem::Conflict(text.into()));
    }

    pub(super) fn text(&mut self, key: &'static str, errors: &mut Errors<'_>) -> Option<&'a str> {
        let value = self.value(key)?;
        match &value.kind {
            Kind::Text(text) => Some(text),
            _ => {
                self.wrong(key, value, "a text in quotes", errors);
                None
            }
        }
    }

    /// A text, or a list of texts; each with its place.
    pub(super) fn texts(&mut self, key: &'static str, errors: &mut Errors<'_>) -> Option<Vec<(&'a str, u32)>> {
        let value = self.value(key)?;
        let list = match &value.kind {
            Kind::List(list) => list.as_slice(),
            _ => std::slice::from_ref(value),
        };
        let mut texts = Vec::with_capacity(list.len());
        for value in list {
            match &value.kind {
                Kind::Text(text) => texts.push((text.as_str(), value.at)),
                _ => {
                    self.wrong(key, value, "a text in quotes, or a list of them", errors);
                    return None;
                }
            }
        }
        Some(texts)
    }

    pub(super) fn bool(&mut self, key: &'static str, errors: &mut Errors<'_>) -> Option<bool> {
        let value = self.value(key)?;
        match value.kind {
            Kind::Bool(value) => Some(value),
            _ => {
                self.wrong(key, value, "true or false", errors);
                None
            }
        }
    }

    pub(super) fn integer(
        &mut self,
        key: &'static str,
        range: RangeInclusive<u64>,
        errors: &mut Errors<'_>,
    ) -> Option<u64> {
        let value = self.value(key)?;
        let number = match value.kind {
            Kind::Integer(number) => u64::try_from(number).ok(),
            _ => None,
        };
        let number = number.filter(|number| range.contains(number));
        if number.is_none() {
            let expected = format!("a whole number from {} to {}", range.start(), range.end());
            self.wrong(key, value, expected, errors);
        }
        number
    }

    /// A number from a range.
    pub(super) fn number(
        &mut self,
        key: &'static str,
        range: RangeInclusive<f64>,
        errors: &mut Errors<'_>,
    ) -> Option<f64> {
        let value = self.value(key)?;
        let number = as_number(value).filter(|number| range.contains(number));
        if number.is_none() {
            self.wrong(key, value, format!("a number from {} to {}", range.start(), range.end()), errors);
        }
        number
    }

    /// A share of one: `"1%"` or `0.01`.
    pub(super) fn fraction(&mut self, key: &'static str, errors: &mut Errors<'_>) -> Option<f64> {
        let value = self.value(key)?;
        let number = as_fraction(value).filter(|number| (0.0..=1.0).contains(number));
        if number.is_none() {
            self.wrong(key, value, "a share from 0 to 1, such as \"1%\" or 0.01", errors);
        }
        number
    }

    pub(super) fn rate(&mut self, key: &'static str, errors: &mut Errors<'_>) -> Option<Rate> {
        let value = self.value(key)?;
        self.rate_of(key, value, errors)
    }

    pub(super) fn rate_of(&self, key: &str, value: &Value, errors: &mut Errors<'_>) -> Option<Rate> {
        const EXPECTED: &str = "a rate with its unit (bit, kbit, Mbit, Gbit), such as \"10Mbit\"";
        let rate = self.quantity(key, value, EXPECTED, parse_rate, errors)?;
        if (1..=FASTEST).contains(&rate.as_bits_per_sec()) {
            return Some(rate);
        }
        self.wrong(key, value, "a rate from 1bit to 100000Gbit", errors);
        None
    }

    pub(super) fn span(&mut self, key: &'static str, errors: &mut Errors<'_>) -> Option<Span> {
        let value = self.value(key)?;
        self.span_of(key, value, errors)
    }

    pub(super) fn span_of(&self, key: &str, value: &Value, errors: &mut Errors<'_>) -> Option<Span> {
        const EXPECTED: &str = "a length of time with its unit (ns, us, ms, s, min, h), such as \"25ms\"";
        let span = self.quantity(key, value, EXPECTED, parse_span, errors)?;
        if span <= LONGEST {
            return Some(span);
        }
        self.wrong(key, value, "at most 200000000s", errors);
        None
    }

    /// A span above zero.
    pub(super) fn some_span(&mut self, key: &'static str, errors: &mut Errors<'_>) -> Option<Span> {
        let span = self.span(key, errors)?;
        if span > Span::ZERO {
            return Some(span);
        }
        let value = self.value(key)?;
        self.wrong(key, value, "a length of time above zero", errors);
        None
    }

    /// How far a clock is off, in parts per million: `"500ppm"` or `"off"`; below zero where `either_way`.
    pub(super) fn drift(&mut self, key: &'static str, either_way: bool, errors: &mut Errors<'_>) -> Option<f64> {
        let value = self.value(key)?;
        let least = if either_way { -MOST_DRIFT } else { 0.0 };
        let number = match &value.kind {
            Kind::Text(text) if text == "off" => Some(0.0),
            Kind::Text(text) => text.strip_suffix("ppm").and_then(|number| number.trim().parse().ok()),
            _ => None,
        };
        let number = number.filter(|number| (least..=MOST_DRIFT).contains(number));
        if number.is_none() {
            let expected = format!("\"off\", or parts per million from {least}ppm to {MOST_DRIFT}ppm");
            self.wrong(key, value, expected, errors);
        }
        number
    }

    pub(super) fn picoseconds(&mut self, key: &'static str, errors: &mut Errors<'_>) -> Option<u64> {
        const EXPECTED: &str = "a length of time with its unit (ps, ns, us, ms, s), such as \"0.4ns\"";
        let value = self.value(key)?;
        self.quantity(key, value, EXPECTED, parse_picoseconds, errors)
    }

    pub(super) fn bytes(
        &mut self,
        key: &'static str,
        range: RangeInclusive<u64>,
        errors: &mut Errors<'_>,
    ) -> Option<Bytes> {
        let value = self.value(key)?;
        self.bytes_of(key, value, range, errors)
    }

    pub(super) fn bytes_of(
        &self,
        key: &str,
        value: &Value,
        range: RangeInclusive<u64>,
        errors: &mut Errors<'_>,
    ) -> Option<Bytes> {
        const EXPECTED: &str = "a number of bytes with its unit (B, kB, MB, GB), such as \"1500B\"";
        let bytes = self.quantity(key, value, EXPECTED, parse_bytes, errors)?;
        let (least, most) = (*range.start(), (*range.end()).min(MOST_BYTES));
        if (least..=most).contains(&bytes.as_u64()) {
            return Some(bytes);
        }
        self.wrong(key, value, format!("from {least}B to {most}B"), errors);
        None
    }

    fn quantity<T>(
        &self,
        key: &str,
        value: &Value,
        expected: &str,
        parse: impl Fn(&str) -> Result<T, QuantityError>,
        errors: &mut Errors<'_>,
    ) -> Option<T> {
        let problem = match &value.kind {
            Kind::Text(text) => match parse(text) {
                Ok(quantity) => return Some(quantity),
                Err(QuantityError::Negative { .. }) => format!("zero or more: {expected}"),
                Err(QuantityError::TooLarge { .. }) => format!("less: it does not fit in 64 bits; {expected}"),
                Err(_) => expected.to_owned(),
            },
            Kind::Integer(0) => match parse("0") {
                Ok(quantity) => return Some(quantity),
                Err(_) => expected.to_owned(),
            },
            _ => expected.to_owned(),
        };
        self.wrong(key, value, problem, errors);
        None
    }

    pub(super) fn choice<T: Copy>(
        &mut self,
        key: &'static str,
        choices: &[(&'static str, T)],
        errors: &mut Errors<'_>,
    ) -> Option<T> {
        let value = self.value(key)?;
        let text = match &value.kind {
            Kind::Text(text) => text.as_str(),
            _ => "",
        };
        if let Some(&(_, choice)) = choices.iter().find(|(name, _)| *name == text) {
            return Some(choice);
        }
        let names: Vec<&'static str> = choices.iter().map(|choice| choice.0).collect();
        self.not_one_of(key, value, text, &names, errors);
        None
    }

    /// The value's text is none of the names that there are.
    pub(super) fn not_one_of(
        &self,
        key: &str,
        value: &Value,
        text: &str,
        names: &[&'static str],
        errors: &mut Errors<'_>,
    ) {
        let quoted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
        let close = closest(text, names.iter().copied());
        let close = close.map_or(String::new(), |close| format!(" (did you mean \"{close}\"?)"));
        self.wrong(key, value, format!("one of {}{close}", quoted.join(", ")), errors);
    }

    /// Sets an option in `config` where the table has its key: by its name, its kind and its range.
    pub(super) fn option<C>(&mut self, entry: &'static options::Entry<C>, config: &mut C, errors: &mut Errors<'_>) {
        let (key, kind) = (entry.spec.name, entry.spec.kind);
        let word = |word: Option<&str>, value: &Value| matches!(&value.kind, Kind::Text(text) if word == Some(text));
        let Some(value) = self.value(key) else { return };
        let read = match kind {
            options::Kind::Flag => self.bool(key, errors).map(options::Value::Flag),
            options::Kind::Count(least, most, _) => {
                self.integer(key, least..=most, errors).map(|n| options::Value::Count(Some(n)))
            }
            options::Kind::Bytes(.., or) if word(or, value) => Some(options::Value::Bytes(None)),
            options::Kind::Bytes(least, most, _) => {
                self.bytes(key, least..=most, errors).map(|bytes| options::Value::Bytes(Some(bytes)))
            }
            options::Kind::Rate(.., or) if word(or, value) => Some(options::Value::Rate(None)),
            options::Kind::Rate(..) => self.rate(key, errors).map(|rate| options::Value::Rate(Some(rate))),
            options::Kind::Span(.., or) if word(or, value) => Some(options::Value::Span(None)),
            options::Kind::Span(..) => self.span(key, errors).map(|span| options::Value::Span(Some(span))),
            // A choice of which two are yes and no.
            options::Kind::Choice(words) if matches!(value.kind, Kind::Bool(_)) && words.contains(&"true") => {
                let flag = self.bool(key, errors);
                flag.and_then(|flag| kind.parse(if flag { "true" } else { "false" }, options::Dialect::Plain))
            }
            options::Kind::Choice(words) => {
                let choices: Vec<(&'static str, usize)> = words.iter().copied().zip(0..).collect();
                self.choice(key, &choices, errors).map(options::Value::Choice)
            }
            _ => {
                let text = self.text(key, errors);
                text.and_then(|text| match entry.spec.parse(text, options::Dialect::Plain) {
                    Ok(value) => Some(value),
                    Err(_) => {
                        self.wrong(key, value, entry.spec.expected(), errors);
                        None
                    }
                })
            }
        };
        if let Some(read) = read {
            entry.set(config, read);
        }
    }

    /// Words and numbers, one or a list of them, as one text with commas between them.
    fn words(&mut self, key: &'static str, expected: &str, errors: &mut Errors<'_>) -> Option<String> {
        let value = self.value(key)?;
        let list = match &value.kind {
            Kind::List(list) => list.as_slice(),
            _ => std::slice::from_ref(value),
        };
        let word = |value: &Value| match &value.kind {
            Kind::Text(text) if !text.contains(',') => Some(text.clone()),
            Kind::Integer(number) => Some(number.to_string()),
            _ => None,
        };
        let words: Option<Vec<String>> = list.iter().map(word).collect();
        if words.is_none() {
            self.wrong(key, value, expected, errors);
        }
        words.map(|words| words.join(","))
    }

    /// As [`Form::option`], of an option whose text is a list.
    pub(super) fn list_option<C>(
        &mut self,
        entry: &'static options::Entry<C>,
        config: &mut C,
        errors: &mut Errors<'_>,
    ) {
        let (key, options::Kind::Text(check)) = (entry.spec.name, entry.spec.kind) else { return };
        let Some(text) = self.words(key, "a word or a number, or a list of them", errors) else { return };
        match check(&text) {
            Ok(()) => entry.set(config, options::Value::Text(text)),
            Err(error) => self.conflict(key, error.to_string(), errors),
        }
    }

    /// A table in this one, without defaults.
    pub(super) fn table(&mut self, key: &'static str, errors: &mut Errors<'_>) -> Option<Form<'a>> {
        let value = self.value(key)?;
        match &value.kind {
            Kind::Table(table) => Some(Form::new(table, self.key(key), &Defaults::none())),
            _ => {
                self.wrong(key, value, "a table", errors);
                None
            }
        }
    }

    /// A table in this one, unread.
    pub(super) fn raw_table(&mut self, key: &'static str, errors: &mut Errors<'_>) -> Option<&'a Table> {
        let value = self.value(key)?;
        match &value.kind {
            Kind::Table(table) => Some(table),
            _ => {
                self.wrong(key, value, "a table", errors);
                None
            }
        }
    }

    /// A list of tables, `[[key]]`, each called by its `name` or its place.
    pub(super) fn tables(
        &mut self,
        key: &'static str,
        defaults: &Defaults<'a>,
        errors: &mut Errors<'_>,
    ) -> Vec<Form<'a>> {
        let Some(value) = self.value(key) else { return Vec::new() };
        let Kind::List(list) = &value.kind else {
            self.wrong(key, value, format!("a list of tables: write `[[{key}]]`"), errors);
            return Vec::new();
        };
        let mut forms = Vec::with_capacity(list.len());
        for (place, value) in list.iter().enumerate() {
            let Kind::Table(table) = &value.kind else {
                self.wrong(key, value, "a table", errors);
                continue;
            };
            let name = match table.get("name").map(|entry| &entry.value.kind) {
                Some(Kind::Text(name)) => name.clone(),
                _ => place.to_string(),
            };
            forms.push(Form::new(table, self.key(&format!("{key}.{name}")), defaults));
        }
        forms
    }

    /// Tells what was not asked for.
    pub(super) fn finish(self, defaults: Option<&mut Defaults<'a>>, errors: &mut Errors<'_>) {
        if let Some(own) = self.layers[0]
            && !self.forgiven
        {
            unknown(own, &self.path, &self.asked, errors);
        }
        if let Some(defaults) = defaults {
            defaults.forgiven |= self.forgiven;
            defaults.known.extend(self.asked);
            defaults.known.sort_unstable();
            defaults.known.dedup();
        }
    }
}

fn unknown(table: &Table, path: &str, known: &[&'static str], errors: &mut Errors<'_>) {
    for entry in &table.entries {
        if known.contains(&entry.key.as_str()) {
            continue;
        }
        let close = closest(&entry.key, known.iter().copied());
        let mut known: Vec<String> = known.iter().map(|&key| key.to_owned()).collect();
        known.sort_unstable();
        known.dedup();
        let key = if path.is_empty() { entry.key.clone() } else { format!("{path}.{}", entry.key) };
        errors.add(entry.at, key, Problem::UnknownKey { found: entry.key.clone(), close, known });
    }
}

/// A finite number.
pub(super) fn as_number(value: &Value) -> Option<f64> {
    match value.kind {
        Kind::Integer(number) => Some(number as f64),
        Kind::Float(number) => Some(number).filter(|number| number.is_finite()),
        _ => None,
    }
}

/// A number, or a text with a percent sign.
pub(super) fn as_fraction(value: &Value) -> Option<f64> {
    match &value.kind {
        Kind::Text(text) => {
            let trimmed = text.trim();
            let number = match trimmed.strip_suffix('%') {
                Some(percent) => percent.trim().parse::<f64>().ok()? / 100.0,
                None => trimmed.parse().ok()?,
            };
            Some(number).filter(|number| number.is_finite())
        }
        _ => as_number(value),
    }
}
