//! Names that stand for many: `#` is the number of the copy, `#+1` the next, `#+1%10` the next of ten in a ring.

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

/// Names and the numbers of what they name: a hash table with linear probing, walked only in the order of adding.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Whether some that should be here are not, for errors of their own: then what is not found is no error.
    pub(super) incomplete: bool,
    /// Name, number, and the place where it was given.
    entries: Vec<(Box<str>, u32, u32)>,
    /// Places in `entries`, one more; zero is free. A power of two, at most half full.
    slots: Vec<u32>,
}

impl Names {
    /// Adds a name with its number and the place where it was given; the earlier place if there is one already.
    pub(super) fn add(&mut self, name: &str, number: u32, at: u32) -> Result<(), u32> {
        if self.slots.len() < 2 * (self.entries.len() + 1) {
            self.grow();
        }
        match self.slot(name) {
            (_, Some(entry)) => Err(self.entries[entry].2),
            (slot, None) => {
                self.entries.push((name.into(), number, at));
                self.slots[slot] = self.entries.len() as u32;
                Ok(())
            }
        }
    }

    pub(super) fn find(&self, name: &str) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        self.slot(name).1.map(|entry| self.entries[entry].1)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| &*entry.0)
    }

    /// The slot of a name with its entry, or the free one where it belongs.
    fn slot(&self, name: &str) -> (usize, Option<usize>) {
        let mask = self.slots.len() - 1;
        let mut slot = hash(name) as usize & mask;
        loop {
            match self.slots[slot] as usize {
                0 => return (slot, None),
                entry if *self.entries[entry - 1].0 == *name => return (slot, Some(entry - 1)),
                _ => slot = (slot + 1) & mask,
            }
        }
    }

    fn grow(&mut self) {
        self.slots = vec![0; (self.slots.len() * 2).max(16)];
        for entry in 0..self.entries.len() {
            let slot = self.slot(&self.entries[entry].0).0;
            self.slots[slot] = entry as u32 + 1;
        }
    }
}

/// FNV-1a with its high bits folded in: neighbouring numbers at the end of names spread.
fn hash(name: &str) -> u64 {
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = name.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, fold);
    (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
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
    fn names_are_found_after_the_table_has_grown_and_doubles_are_told() {
        let mut names = Names::default();
        assert_eq!(names.find("n0"), None);
        for number in 0..10_000 {
            assert_eq!(names.add(&format!("n{number}"), number, number + 5), Ok(()));
        }
        for number in 0..10_000 {
            assert_eq!(names.find(&format!("n{number}")), Some(number));
        }
        assert_eq!(names.find("n10000"), None);
        assert_eq!(names.add("n77", 1, 1), Err(82));
        assert_eq!(names.all().count(), 10_000);
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for text in ["", "a b", "a.b", "#+", "#%0", "#+99999999999999999999", "a*", "x\n"] {
            assert_eq!(Pattern::parse(text), None, "{text:?}");
        }
    }
}
