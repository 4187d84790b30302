//! What is wrong with a scenario file, where, and what would be right.

use std::fmt;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadError {
    /// The file; empty for a value that was set from outside the file.
    pub file: String,
    /// The line, from 1; 0 for a value that was set from outside the file.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
    /// The key's path, such as `link.bottleneck.rate`; empty where the error is about no key.
    pub key: String,
    /// What is wrong.
    pub problem: Problem,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            f.write_str("set from outside the file: ")?;
        } else {
            write!(f, "{}:{}:{}: ", self.file, self.line, self.column)?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        write!(f, "{}", self.problem)
    }
}

impl std::error::Error for ReadError {}

/// What is wrong, and what would be right.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The text is not TOML.
    #[error("not TOML: {0}")]
    Syntax(String),
    /// A key that nothing takes.
    #[error("unknown key `{found}`{}; expected one of {}", near(.close), list(.known))]
    UnknownKey {
        /// The key.
        found: String,
        /// A known key that is spelt alike.
        close: Option<String>,
        /// The keys that are known here.
        known: Vec<String>,
    },
    /// A key that must be there.
    #[error("`{key}` is missing; expected {expected}")]
    Missing {
        /// The key.
        key: String,
        /// What would be right.
        expected: String,
    },
    /// A value of the wrong type, out of range, or without a meaning.
    #[error("found {found}, expected {expected}")]
    Value {
        /// What it says.
        found: String,
        /// What would be right.
        expected: String,
    },
    /// A name that nothing has.
    #[error("there is no {what} `{found}`{}", near(.close))]
    NoSuch {
        /// `node`, `link`, …
        what: &'static str,
        /// The name.
        found: String,
        /// A name that is spelt alike.
        close: Option<String>,
    },
    /// Two things of one name.
    #[error("a second {what} called `{name}`; names are given once, the first is on line {first}")]
    Double {
        /// `node`, `link`, …
        what: &'static str,
        /// The name.
        name: String,
        /// The line of the first.
        first: u32,
    },
    /// No way from one node to the other.
    #[error("`{to}` cannot be reached from `{from}`: {why}")]
    Unreachable {
        /// Where the way would begin.
        from: String,
        /// Where it would end.
        to: String,
        /// What is in the way.
        why: String,
    },
    /// A path that passes a node twice.
    #[error("the path goes in a circle: it passes `{node}` twice; name links in the order from sender to receiver")]
    Circle {
        /// The node.
        node: String,
    },
    /// A file that the scenario names cannot be read or understood.
    #[error("{0}")]
    File(String),
    /// Settings that do not work together.
    #[error("{0}")]
    Conflict(String),
    /// More than is sensible.
    #[error("{count} {what}; at most {most} work here")]
    TooMany {
        /// What there is too much of.
        what: String,
        /// How many.
        count: String,
        /// The bound.
        most: u64,
    },
}

fn near(close: &Option<String>) -> String {
    close.as_ref().map_or(String::new(), |close| format!(" (did you mean `{close}`?)"))
}

fn list(known: &[String]) -> String {
    known.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ")
}

/// The candidate closest to `found`, if it is close enough to be what was meant: at most a third of the letters differ.
pub(super) fn closest<'a>(found: &str, candidates: impl Iterator<Item = &'a str>) -> Option<String> {
    let most = (found.chars().count() / 3).clamp(1, 4);
    let scored = candidates.take(10_000).map(|candidate| (distance(found, candidate, most), candidate));
    scored.filter(|&(distance, _)| distance <= most).min_by_key(|&(distance, _)| distance).map(|(_, c)| c.to_owned())
}

/// Edits (insert, delete, replace, swap of neighbours) between two words; a value above `most` once it exceeds that.
fn distance(a: &str, b: &str, most: usize) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().take(64).collect());
    if a.len().abs_diff(b.len()) > most {
        return most + 1;
    }
    let (mut before_last, mut last) = (vec![0; b.len() + 1], (0..=b.len()).collect::<Vec<_>>());
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let differs = usize::from(a[i - 1] != b[j - 1]);
            row[j] = (last[j] + 1).min(row[j - 1] + 1).min(last[j - 1] + differs);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_spelt_alike_are_found_and_others_are_not() {
        let known = ["rate", "delay", "discipline", "queue"];
        let find = |word| closest(word, known.into_iter());
        assert_eq!(find("rat").as_deref(), Some("rate"));
        assert_eq!(find("dealy").as_deref(), Some("delay"));
        assert_eq!(find("disipline").as_deref(), Some("discipline"));
        assert_eq!(find("bandwidth"), None);
        assert_eq!(find(""), None);
    }

    #[test]
    fn an_error_reads_as_place_key_and_what_would_be_right() {
        let problem =
            Problem::UnknownKey { found: "rat".into(), close: Some("rate".into()), known: vec!["rate".into()] };
        let error = ReadError { file: "x.toml".into(), line: 3, column: 1, key: "link.a.rat".into(), problem };
        let text = "x.toml:3:1: link.a.rat: unknown key `rat` (did you mean `rate`?); expected one of `rate`";
        assert_eq!(error.to_string(), text);
    }
}
