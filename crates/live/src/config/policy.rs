//! `policy`: text such as `"brr:12ms"`, or a table such as `{ name = "brr", threshold = "12ms" }`.

use super::{ConfigError, Reader};
use fairspan_core::select::{Policy, Settings};
use toml::{Spanned, Value};

impl Reader<'_> {
    /// The policy that `value` says; `setting` names it in errors.
    pub(super) fn policy(&self, value: &Spanned<Value>, setting: &str) -> Result<Settings, ConfigError> {
        let wrong = |problem: String| self.error(value.span(), setting, problem);
        let table = match value.get_ref() {
            Value::String(text) => {
                return text.parse().map_err(|e: fairspan_core::select::PolicyError| wrong(e.to_string()));
            }
            Value::Table(table) => table,
            other => {
                return Err(wrong(format!(
                    "`{other}`: write \"brr:12ms\" or {{ name = \"brr\", threshold = \"12ms\" }}"
                )));
            }
        };
        let Some(Value::String(name)) = table.get("name") else {
            return Err(wrong("the policy's `name` is missing: write { name = \"brr\", threshold = \"12ms\" }".into()));
        };
        let mut settings = Settings::from(Policy::named(name).map_err(|e| wrong(e.to_string()))?);
        for (option, value) in table.iter().filter(|(key, _)| *key != "name") {
            let text = match value {
                Value::String(text) => text.clone(),
                Value::Integer(n) => n.to_string(),
                Value::Boolean(flag) => flag.to_string(),
                other => return Err(wrong(format!("{option} = {other}: write text, a number, true or false"))),
            };
            settings.set(option, &text).map_err(|e| wrong(e.to_string()))?;
        }
        Ok(settings)
    }
}
