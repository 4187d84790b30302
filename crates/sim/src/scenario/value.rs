//! A TOML document as a tree that knows where in the text each part stands, and that can be changed by dotted paths.

use super::error::{Problem, closest};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Offset of what does not stand in the text.
pub(super) const OUTSIDE: u32 = u32::MAX;

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Value {
    /// Byte offset in the text, or [`OUTSIDE`].
    pub(super) at: u32,
    pub(super) kind: Kind,
}

/// What a value is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(String),
    /// TOML has dates; no scenario does.
    Date,
    List(Vec<Value>),
    Table(Table),
}

/// A table in the order of the text.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Table {
    pub(super) at: u32,
    pub(super) entries: Vec<Entry>,
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) at: u32,
    pub(super) value: Value,
}

impl Value {
    /// The value for people: as in TOML, tables and lists in short.
    pub(super) fn show(&self) -> String {
        match &self.kind {
            Kind::Bool(value) => value.to_string(),
            Kind::Integer(value) => value.to_string(),
            Kind::Float(value) => value.to_string(),
            Kind::Text(text) => text.clone(),
            Kind::Date => "a date".into(),
            Kind::List(list) => {
                let mut shown: Vec<String> = list.iter().take(8).map(Value::show).collect();
                if list.len() > 8 {
                    shown.push("…".into());
                }
                format!("[{}]", shown.join(", "))
            }
            Kind::Table(table) => {
                let shown = table.entries.iter().take(8).map(|entry| format!("{} = {}", entry.key, entry.value.show()));
                format!("{{ {} }}", shown.collect::<Vec<_>>().join(", "))
            }
        }
    }

    /// Which type it has, for errors.
    pub(super) fn found(&self) -> String {
        match &self.kind {
            Kind::Bool(value) => format!("`{value}`"),
            Kind::Integer(value) => format!("the number {value}"),
            Kind::Float(value) => format!("the number {value}"),
            Kind::Text(text) => format!("\"{}\"", text.chars().take(80).collect::<String>()),
            Kind::Date => "a date".into(),
            Kind::List(_) => "a list".into(),
            Kind::Table(_) => "a table".into(),
        }
    }

    /// A value given outside a file: TOML where it is that, else the text itself.
    pub(super) fn outside(text: &str) -> Value {
        let parsed = DeValue::parse(text).ok().map(|value| convert(&value, 0));
        let mut value = parsed.unwrap_or(Value { at: OUTSIDE, kind: Kind::Text(text.into()) });
        if value.kind == Kind::Date {
            value.kind = Kind::Text(text.into());
        }
        value.move_outside();
        value
    }

    fn move_outside(&mut self) {
        self.at = OUTSIDE;
        match &mut self.kind {
            Kind::List(list) => list.iter_mut().for_each(Value::move_outside),
            Kind::Table(table) => {
                table.at = OUTSIDE;
                for entry in &mut table.entries {
                    entry.at = OUTSIDE;
                    entry.value.move_outside();
                }
            }
            _ => {}
        }
    }
}

impl Table {
    /// Parses a document; all that is wrong with it, each with its offset.
    pub(super) fn parse(text: &str) -> Result<Table, Vec<(u32, Problem)>> {
        if u32::try_from(text.len()).is_err() {
            return Err(vec![(0, Problem::File("the file is larger than 4 GB".into()))]);
        }
        let (document, errors) = DeTable::parse_recoverable(text);
        if errors.is_empty() {
            return Ok(table(document.get_ref(), 0));
        }
        let problem = |error: &toml::de::Error| {
            let at = error.span().map_or(0, |span| span.start) as u32;
            (at, Problem::Syntax(error.message().replace('\n', "; ")))
        };
        let mut problems: Vec<(u32, Problem)> = errors.iter().take(100).map(problem).collect();
        // What follows on a line is mostly the first error's doing.
        let same_line = |a: u32, b: u32| !text.as_bytes()[a.min(b) as usize..a.max(b) as usize].contains(&b'\n');
        problems.dedup_by(|later, earlier| same_line(later.0, earlier.0));
        Err(problems)
    }

    pub(super) fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// Sets what a dotted path names: `duration`, `link.bottleneck.rate`, `flow.2.tcp.mss`. An element of a list of
    /// tables goes by its `name` or its place from 0; keys on the way that are missing are made, elements are not.
    pub(super) fn set(&mut self, path: &str, value: Value) -> Result<(), Problem> {
        let (first, rest) = match path.split_once('.') {
            Some((first, rest)) => (first, Some(rest)),
            None => (path, None),
        };
        if first.is_empty() {
            return Err(Problem::Value {
                found: format!("the path `{path}`"),
                expected: "keys with dots between, such as `link.bottleneck.rate`".into(),
            });
        }
        let at = value.at;
        let place = self.entries.iter().position(|entry| entry.key == first);
        let Some(rest) = rest else {
            match place {
                Some(place) => self.entries[place].value = value,
                None => self.entries.push(Entry { key: first.into(), at, value }),
            }
            return Ok(());
        };
        let place = place.unwrap_or_else(|| {
            let inner = Value { at, kind: Kind::Table(Table { at, entries: Vec::new() }) };
            self.entries.push(Entry { key: first.into(), at, value: inner });
            self.entries.len() - 1
        });
        match &mut self.entries[place].value.kind {
            Kind::Table(table) => table.set(rest, value),
            Kind::List(list) => set_element(first, list, rest, value),
            _ => Err(Problem::Value {
                found: format!("`{first}`, which is {}", self.entries[place].value.found()),
                expected: format!("a table that could have `{rest}`"),
            }),
        }
    }

    /// A path with the places of elements of lists instead of their names: one spelling for each thing.
    pub(super) fn canonical(&self, path: &str) -> Vec<String> {
        let mut parts = Vec::new();
        let mut here = Some(Inner::Table(self));
        for part in path.split('.') {
            let (part, next) = match here {
                Some(Inner::Table(table)) => (part.to_owned(), table.get(part).map(|entry| &entry.value)),
                Some(Inner::List(list)) => match element(list, part) {
                    Some(place) => (place.to_string(), list.get(place)),
                    None => (part.to_owned(), None),
                },
                None => (part.to_owned(), None),
            };
            here = next.and_then(|value| match &value.kind {
                Kind::Table(table) => Some(Inner::Table(table)),
                Kind::List(list) => Some(Inner::List(list)),
                _ => None,
            });
            parts.push(part);
        }
        parts
    }

    /// What a dotted path names.
    #[cfg(test)]
    pub(super) fn lookup(&self, path: &str) -> Option<&Value> {
        let Some((first, rest)) = path.split_once('.') else { return self.get(path).map(|entry| &entry.value) };
        match &self.get(first)?.value.kind {
            Kind::Table(table) => table.lookup(rest),
            Kind::List(list) => {
                let (name, rest) = rest.split_once('.')?;
                match &list.get(element(list, name)?)?.kind {
                    Kind::Table(table) => table.lookup(rest),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

/// What has parts of its own.
enum Inner<'a> {
    Table(&'a Table),
    List(&'a [Value]),
}

/// Singular names of lists, for errors.
fn singular(key: &str) -> &'static str {
    match key {
        "node" => "node",
        "link" => "link",
        "bond" => "bond",
        "ring" => "ring",
        "flow" => "flow",
        "channels" => "channel",
        _ => "element",
    }
}

fn name_of(value: &Value) -> Option<&str> {
    let Kind::Table(table) = &value.kind else { return None };
    match &table.get("name")?.value.kind {
        Kind::Text(name) => Some(name),
        _ => None,
    }
}

fn element(list: &[Value], name: &str) -> Option<usize> {
    let by_name = list.iter().position(|value| name_of(value) == Some(name));
    by_name.or_else(|| name.parse().ok().filter(|&place| place < list.len()))
}

fn set_element(key: &str, list: &mut [Value], path: &str, value: Value) -> Result<(), Problem> {
    let (name, rest) = path.split_once('.').unwrap_or((path, ""));
    let Some(place) = element(list, name) else {
        let close = closest(name, list.iter().filter_map(name_of));
        return Err(Problem::NoSuch { what: singular(key), found: name.into(), close });
    };
    match &mut list[place].kind {
        Kind::Table(table) if !rest.is_empty() => table.set(rest, value),
        Kind::Table(_) => Err(Problem::Value {
            found: format!("`{key}.{name}`, which is a whole {}", singular(key)),
            expected: format!("one of its keys, such as `{key}.{name}.KEY`"),
        }),
        _ if rest.is_empty() => {
            list[place] = value;
            Ok(())
        }
        _ => Err(Problem::Value { found: list[place].found(), expected: format!("a table that could have `{rest}`") }),
    }
}

fn table(table: &DeTable<'_>, at: usize) -> Table {
    let entry = |(key, value): (&Spanned<toml::de::DeString<'_>>, &Spanned<DeValue<'_>>)| {
        let start = key.span().start;
        Entry { key: key.get_ref().to_string(), at: start as u32, value: convert(value, start) }
    };
    let mut entries: Vec<Entry> = table.iter().map(entry).collect();
    entries.sort_by_key(|entry| entry.at);
    Table { at: at as u32, entries }
}

fn convert(value: &Spanned<DeValue<'_>>, key: usize) -> Value {
    let start = value.span().start;
    let kind = match value.get_ref() {
        DeValue::String(text) => Kind::Text(text.to_string()),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Kind::Integer(number),
            Err(_) => Kind::Float(number.as_str().parse().unwrap_or(f64::INFINITY)),
        },
        DeValue::Float(number) => Kind::Float(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(value) => Kind::Bool(*value),
        DeValue::Datetime(_) => Kind::Date,
        DeValue::Array(list) => Kind::List(list.iter().map(|value| convert(value, value.span().start)).collect()),
        DeValue::Table(inner) => Kind::Table(table(inner, if start == 0 { key } else { start })),
    };
    Value { at: start as u32, kind }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Table {
        Table::parse("duration = \"5s\"\n[[link]]\nname = \"a\"\nrate = \"1Mbit\"\n[[link]]\nname = \"b\"\n").unwrap()
    }

    #[test]
    fn a_dotted_path_sets_by_name_and_by_place_and_makes_missing_keys() {
        let mut table = document();
        table.set("link.b.loss", Value::outside("1%")).unwrap();
        table.set("link.0.rate", Value::outside("2Mbit")).unwrap();
        table.set("metrics.delay", Value::outside("true")).unwrap();
        assert_eq!(table.lookup("link.b.loss").unwrap().kind, Kind::Text("1%".into()));
        assert_eq!(table.lookup("link.a.rate").unwrap().kind, Kind::Text("2Mbit".into()));
        assert_eq!(table.lookup("metrics.delay").unwrap().kind, Kind::Bool(true));
    }

    #[test]
    fn a_name_and_a_place_are_two_spellings_of_one_path() {
        let table = document();
        assert_eq!(table.canonical("link.b.rate"), ["link", "1", "rate"]);
        assert_eq!(table.canonical("link.b.rate"), table.canonical("link.1.rate"));
        assert_eq!(table.canonical("link.c.rate"), ["link", "c", "rate"]);
        assert_eq!(table.canonical("metrics.delay"), ["metrics", "delay"]);
    }

    #[test]
    fn a_path_to_nothing_says_what_is_close() {
        let mut table = Table::parse("[[link]]\nname = \"bottleneck\"\n").unwrap();
        let problem = table.set("link.botleneck.rate", Value::outside("1Mbit")).unwrap_err();
        let close = Some("bottleneck".to_owned());
        assert_eq!(problem, Problem::NoSuch { what: "link", found: "botleneck".into(), close });
        assert!(document().set("duration.x", Value::outside("1")).is_err());
        assert!(document().set("", Value::outside("1")).is_err());
        assert!(document().set("link.a", Value::outside("1")).is_err());
    }

    #[test]
    fn every_part_knows_its_place() {
        let table = document();
        let text = "duration = \"5s\"\n[[link]]\nname = \"a\"\nrate = \"1Mbit\"\n";
        assert_eq!(table.lookup("link.a.rate").unwrap().at as usize, text.find("\"1Mbit").unwrap());
    }

    #[test]
    fn all_syntax_errors_come_at_once() {
        let errors = Table::parse("a = = 1\nb = 2\nc = [1,\n").unwrap_err();
        assert!(errors.len() >= 2, "{errors:?}");
    }
}
