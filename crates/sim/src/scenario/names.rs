//! Names that stand for many: `#` is the number of the copy, `#+1` the next, `#+1%10` the next of ten in a ring.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A name with its places for numbers found.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pattern<'a> {
    parts: Vec<Part<'a>>,
}

#[derive(Clone, Debug, PartialEq)]
enum Part<'a> {
    Text(&'a str),
    Number { plus: u64, modulo: Option<u64> },
}

/// Why a name cannot be one.
pub(super) const EXPECTED: &str =
    "a name: letters, digits and `-`, `_`, `/`, `:`, and `#` (also `#+N`, `#+N%M`) for the number of each of `count`";

impl<'a> Pattern<'a> {
    /// `None` where the text cannot be a name.
    pub(super) fn parse(text: &'a str) -> Option<Pattern<'a>> {
        let mut parts = Vec::with_capacity(1);
        let mut rest = text;
        if text.is_empty() || text.len() > 100 {
            return None;
        }
        while !rest.is_empty() {
            let end = rest.find('#').unwrap_or(rest.len());
            if end > 0 {
                let literal = &rest[..end];
                if !literal.chars().all(|c| c.is_alphanumeric() || "-_/:".contains(c)) {
                    return None;
                }
                parts.push(Part::Text(literal));
                rest = &rest[end..];
                continue;
            }
            rest = &rest[1..];
            let plus = match rest.strip_prefix('+') {
                Some(after) => number(after, &mut rest)?,
                None => 0,
            };
            let modulo = match rest.strip_prefix('%') {
                Some(after) => Some(number(after, &mut rest).filter(|&modulo| modulo > 0)?),
                None => None,
            };
            parts.push(Part::Number { plus, modulo });
        }
        Some(Pattern { parts })
    }

    /// Whether the name differs from copy to copy.
    pub(super) fn varies(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Number { .. }))
    }

    /// The name of copy `index`.
    pub(super) fn expand(&self, index: u64) -> String {
        let mut name = String::new();
        self.expand_into(index, &mut name);
        name
    }

    /// The name of copy `index`, in a buffer that is cleared before.
    pub(super) fn expand_into(&self, index: u64, name: &mut String) {
        name.clear();
        for part in &self.parts {
            match part {
                Part::Text(text) => name.push_str(text),
                Part::Number { plus, modulo } => {
                    let number = index + plus;
                    let number = modulo.map_or(number, |modulo| number % modulo);
                    let _ = write!(name, "{number}");
                }
            }
        }
    }
}

fn number<'a>(text: &'a str, rest: &mut &'a str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number = text[..end].parse().ok().filter(|&number| number < 1 << 40)?;
    *rest = &text[end..];
    Some(number)
}

/// Names and the numbers of what they name.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Whether some that should be here are not, for errors of their own: then what is not found is no error.
    pub(super) incomplete: bool,
    numbers: BTreeMap<String, (u32, u32)>,
}

impl Names {
    /// Adds a name with its number and the place where it was given; the earlier place if there is one already.
    pub(super) fn add(&mut self, name: String, number: u32, at: u32) -> Result<(), u32> {
        match self.numbers.entry(name) {
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert((number, at));
                Ok(())
            }
            std::collections::btree_map::Entry::Occupied(entry) => Err(entry.get().1),
        }
    }

    pub(super) fn find(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).map(|&(number, _)| number)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &str> {
        self.numbers.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_the_number_of_the_copy() {
        let expand = |text, index| Pattern::parse(text).unwrap().expand(index);
        assert_eq!(expand("s#", 7), "s7");
        assert_eq!(expand("n#+1", 7), "n8");
        assert_eq!(expand("n#+1%8", 7), "n0");
        assert_eq!(expand("n#-n#+1%8-up", 6), "n6-n7-up");
        assert_eq!(expand("plain", 3), "plain");
        assert!(!Pattern::parse("plain").unwrap().varies());
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for text in ["", "a b", "a.b", "#+", "#%0", "#+99999999999999999999", "a*", "x\n"] {
            assert_eq!(Pattern::parse(text), None, "{text:?}");
        }
    }
}
