//! The files that a scenario names, read once.

use super::value::{Kind, Table, Value};
use std::collections::BTreeMap;

/// Keys whose value is the name of a file.
const KEYS: [&str; 4] = ["trace", "series", "file", "cdf"];

/// Contents by name, or why there are none.
#[derive(Clone, Debug, Default)]
pub(super) struct Store {
    files: BTreeMap<String, Result<Vec<u8>, String>>,
}

impl Store {
    /// Loads every file that the document or a swept value names, and that is not here yet.
    pub(super) fn load<'a>(
        &mut self,
        root: &Table,
        swept: impl Iterator<Item = (&'a str, &'a Value)>,
        files: &mut dyn FnMut(&str) -> Result<Vec<u8>, String>,
    ) {
        let mut names = Vec::new();
        for entry in
            root.entries.iter().filter(|entry| matches!(entry.key.as_str(), "link" | "flow" | "graph" | "defaults"))
        {
            collect(&entry.value, &mut names);
        }
        for (path, value) in swept {
            let last = path.rsplit('.').next().unwrap_or_default();
            match &value.kind {
                Kind::Text(name) if KEYS.contains(&last) => names.push(name.clone()),
                _ => collect(value, &mut names),
            }
        }
        for name in names {
            self.files.entry(name).or_insert_with_key(|name| files(name));
        }
    }

    /// A file's content as text.
    pub(super) fn text(&self, name: &str) -> Result<&str, String> {
        match self.files.get(name) {
            Some(Ok(bytes)) => std::str::from_utf8(bytes).map_err(|_| format!("{name} is not a text file")),
            Some(Err(error)) => Err(format!("{name}: {error}")),
            None => Err(format!("{name} was not loaded")),
        }
    }
}

fn collect(value: &Value, names: &mut Vec<String>) {
    match &value.kind {
        Kind::Table(table) => {
            for entry in &table.entries {
                match &entry.value.kind {
                    Kind::Text(name) if KEYS.contains(&entry.key.as_str()) => names.push(name.clone()),
                    _ => collect(&entry.value, names),
                }
            }
        }
        Kind::List(list) => list.iter().for_each(|value| collect(value, names)),
        _ => {}
    }
}
