//! The policies and their options, from the core's tables.

use super::Asked;
use fairspan_core::options::{Kind, OptionSpec};
use fairspan_core::select::{POLICIES, PolicySpec};
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
    let mut text = String::from("Policies:\n");
    for spec in POLICIES {
        // Broken here, so that what goes on below stands below what it belongs to.
        let mut name = spec.name;
        let mut line = String::new();
        for word in spec.help.split(' ') {
            if line.len() + word.len() > 70 {
                let _ = writeln!(text, "  {name:<20}{line}");
                (name, line) = ("", String::new());
            }
            line = line + " " + word;
        }
        let _ = writeln!(text, "  {name:<20}{line}");
    }
    text + "\nTheir options: `fairspan select --policies`. More: docs/select.md."
}

/// The policies and their options with their defaults, for people.
pub(super) fn table() -> String {
    let mut text = String::new();
    for spec in POLICIES {
        let mode = spec.mode.map(|mode| format!(" (mode {mode})")).unwrap_or_default();
        let _ = writeln!(text, "{}{mode}: {}", spec.name, spec.help);
        for (option, default) in spec.options().filter(|(option, _)| !common(option)) {
            describe(&mut text, option, &default, spec.main == Some(option.name));
        }
        text.push('\n');
    }
    text.push_str("with every policy; on captures links do not fail, and flush alone changes anything\n");
    for (option, default) in POLICIES.iter().take(1).flat_map(PolicySpec::options).filter(|(option, _)| common(option))
    {
        describe(&mut text, option, &default, false);
    }
    text
}

/// Whether every policy has the option.
fn common(option: &OptionSpec) -> bool {
    POLICIES.iter().all(|spec| spec.options().any(|(own, _)| own.name == option.name))
}

fn describe(text: &mut String, option: &OptionSpec, default: &str, main: bool) {
    let bare = if main { "; may stand first without its name" } else { "" };
    let _ = writeln!(text, "  {}={default}\n      {}; {}{bare}", option.name, option.help, option.expected());
}
