//! Families of the core, such as policies and fairness algorithms, in help texts: from their tables.

use fairspan_core::options::{Family, Member, OptionSpec};
use std::fmt::Write as _;

/// The members' names, for people: `a, b or c`.
pub(super) fn names<F: Family>() -> String {
    let names: Vec<&str> = F::MEMBERS.iter().map(|member| member.name).collect();
    match names.split_last() {
        Some((last, before)) if !before.is_empty() => format!("{} or {last}", before.join(", ")),
        _ => names.concat(),
    }
}

/// Each member and what it does, in lines of 92 columns.
pub(super) fn list<F: Family>() -> String {
    let mut text = String::new();
    for member in F::MEMBERS {
        // Broken here, so that what goes on below stands below what it belongs to.
        let mut name = member.name;
        let mut line = String::new();
        for word in member.help.split(' ') {
            if line.len() + word.len() > 70 {
                let _ = writeln!(text, "  {name:<20}{line}");
                (name, line) = ("", String::new());
            }
            line = line + " " + word;
        }
        let _ = writeln!(text, "  {name:<20}{line}");
    }
    text
}

/// The options of a member, each with its default, what it does and what it takes.
pub(super) fn options<F: Family>(member: &Member<F>, wanted: impl Fn(&OptionSpec) -> bool) -> String {
    let mut text = String::new();
    for (option, default) in member.options().filter(|(option, _)| wanted(option)) {
        let bare = if member.main == Some(option.name) { "; may stand first without its name" } else { "" };
        let _ = writeln!(text, "  {}={default}\n      {}; {}{bare}", option.name, option.help, option.expected());
    }
    text
}
