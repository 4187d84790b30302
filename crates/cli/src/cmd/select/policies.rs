//! The policies and their options, from the core's tables.

use super::answer::Asked;
use crate::cmd::family;
use fairspan_core::options::{Kind, OptionSpec};
use fairspan_core::select::{POLICIES, Settings};
use std::fmt::Write as _;

/// What `--all` tries: each policy with its defaults, `balance-xor` with each hash, and `brr` with the threshold that
/// adapts.
pub(super) fn all() -> Vec<Asked> {
    let mut texts = Vec::new();
    for spec in POLICIES {
        texts.push(spec.name.to_owned());
        let main = spec.options().find(|(option, _)| Some(option.name) == spec.main);
        match (spec.name, main.map(|(option, _)| option.kind)) {
            ("balance-xor", Some(Kind::Choice(hashes))) => {
                texts.extend(hashes.iter().map(|hash| format!("{}:{hash}", spec.name)));
            }
            ("brr", _) => texts.push("brr:adaptive".to_owned()),
            _ => {}
        }
    }
    let mut asked: Vec<Asked> = Vec::new();
    for text in texts {
        // The default hash is there already, under the policy's own name.
        if let Ok(settings) = text.parse()
            && !asked.iter().any(|before| before.settings == settings)
        {
            asked.push(Asked { text, settings });
        }
    }
    asked
}

/// The policies, for `--help`.
pub(super) fn help() -> String {
    let list = family::list::<Settings>();
    format!("Policies:\n{list}\nTheir options: `fairspan select --policies`. More: docs/select.md.")
}

/// The policies and their options with their defaults, for people.
pub(super) fn table() -> String {
    let mut text = String::new();
    for spec in POLICIES {
        let mode = spec.mode.map(|mode| format!(" (mode {mode})")).unwrap_or_default();
        let options = family::options(spec, |option| !common(option));
        let _ = writeln!(text, "{}{mode}: {}\n{options}", spec.name, spec.help);
    }
    text.push_str("with every policy; on captures links do not fail, and flush alone changes anything\n");
    text + &POLICIES.first().map(|spec| family::options(spec, common)).unwrap_or_default()
}

/// Whether every policy has the option.
fn common(option: &OptionSpec) -> bool {
    POLICIES.iter().all(|spec| spec.options().any(|(own, _)| own.name == option.name))
}
