//! Sizes: constant, in turn, drawn from distributions, or measured ones from files.

use super::error::Problem;
use super::form::{Errors, Form, as_number};
use super::store::Store;
use super::value::{Entry, Kind, Table, Value};
use crate::traffic::{ConfigError, Sizes};
use fairspan_core::quantity::parse_bytes;
use std::sync::Arc;

const EXPECTED: &str = "a size such as \"1000B\", a list of sizes that take turns, { uniform = [\"64B\", \"1500B\"] }, \
                        { mixture = [[\"200B\", 1], [\"1000B\", 3]] } with weights, { exponential = … }, { lognormal = … }, \
                        { pareto = … } or { cdf = … }";
const EXPONENTIAL: &str = "{ mean = \"50kB\" }, with most = \"1MB\" if it is to be cut off";
const LOGNORMAL: &str =
    "{ median = \"20kB\", sigma = 2 }, with most = \"1GB\" if it is to be cut off; sigma is above 0 and at most 10";
const PARETO: &str = "{ mean = \"100kB\", shape = 1.2 }, with most = \"1GB\" if it is to be cut off; shape is above 1, and most above mean (shape - 1) / shape";
const CDF: &str = "a file of lines `BYTES SHARE`, or pairs such as [[\"1kB\", 0.2], [\"10kB\", 1]]: sizes, and the share of what is \
                   not larger, ascending to 1";

/// The size at `key`.
pub(super) fn size_of(form: &Form<'_>, key: &str, value: &Value, most: u64, errors: &mut Errors<'_>) -> Option<u32> {
    form.bytes_of(key, value, 1..=most, errors).map(|bytes| bytes.as_u64() as u32)
}

/// The sizes at `key`, of at most `most` bytes.
pub(super) fn sizes(
    form: &mut Form<'_>,
    key: &'static str,
    most: u64,
    store: &Store,
    errors: &mut Errors<'_>,
) -> Option<Sizes> {
    let value = form.value(key)?;
    Reader { form, key, most, store }.sizes(value, errors)
}

struct Reader<'r, 'a> {
    form: &'r Form<'a>,
    key: &'static str,
    most: u64,
    store: &'r Store,
}

impl Reader<'_, '_> {
    fn wrong(&self, value: &Value, expected: &str, errors: &mut Errors<'_>) {
        self.form.wrong(self.key, value, expected, errors);
    }

    fn size(&self, value: &Value, errors: &mut Errors<'_>) -> Option<u32> {
        size_of(self.form, self.key, value, self.most, errors)
    }

    fn list(&self, value: &Value, errors: &mut Errors<'_>) -> Option<Vec<u32>> {
        match &value.kind {
            Kind::List(list) if !list.is_empty() => list.iter().map(|value| self.size(value, errors)).collect(),
            _ => {
                self.wrong(value, EXPECTED, errors);
                None
            }
        }
    }

    fn sizes(&self, value: &Value, errors: &mut Errors<'_>) -> Option<Sizes> {
        let [entry] = (match &value.kind {
            Kind::List(_) => return self.list(value, errors).map(Sizes::Alternating),
            Kind::Text(_) => return self.size(value, errors).map(Sizes::Constant),
            Kind::Table(table) => table.entries.as_slice(),
            _ => &[],
        }) else {
            self.wrong(value, EXPECTED, errors);
            return None;
        };
        let before = errors.count();
        let (found, expected) = match entry.key.as_str() {
            "uniform" => match self.list(&entry.value, errors)?[..] {
                [low, high] if low <= high => return Some(Sizes::Uniform(low, high)),
                _ => (None, "the least and the most, such as [\"64B\", \"1500B\"]"),
            },
            "mixture" => (
                self.mixture(&entry.value, errors),
                "pairs of size and weight, such as [[\"200B\", 1], [\"1000B\", 3]]",
            ),
            "exponential" => (self.exponential(entry, errors), EXPONENTIAL),
            "lognormal" => (self.lognormal(entry, errors), LOGNORMAL),
            "pareto" => (self.pareto(entry, errors), PARETO),
            "cdf" => (self.cdf(&entry.value, errors), CDF),
            _ => {
                self.wrong(value, EXPECTED, errors);
                return None;
            }
        };
        if found.is_none() && errors.count() == before {
            self.wrong(&entry.value, expected, errors);
        }
        found
    }

    fn mixture(&self, value: &Value, errors: &mut Errors<'_>) -> Option<Sizes> {
        let Kind::List(list) = &value.kind else { return None };
        let pair = |value: &Value, errors: &mut Errors<'_>| match &value.kind {
            Kind::List(pair) if pair.len() == 2 => {
                let weight = as_number(&pair[1]).filter(|&weight| weight > 0.0)?;
                Some((self.size(&pair[0], errors)?, weight))
            }
            _ => None,
        };
        let pairs: Option<Vec<(u32, f64)>> = list.iter().map(|value| pair(value, errors)).collect();
        pairs.filter(|pairs| !pairs.is_empty()).map(Sizes::Mixture)
    }

    /// The table of a distribution, in which all of `keys` and perhaps `most` stand; and the bound that `most` gives.
    fn table<'v>(&self, entry: &'v Entry, keys: [&str; 2], errors: &mut Errors<'_>) -> Option<(&'v Table, u32)> {
        let Kind::Table(table) = &entry.value.kind else { return None };
        let known = |entry: &Entry| entry.key == "most" || keys.contains(&entry.key.as_str());
        if !table.entries.iter().all(known) {
            return None;
        }
        let most = match table.get("most") {
            Some(entry) => self.size(&entry.value, errors)?,
            None => self.most.min(u64::from(u32::MAX)) as u32,
        };
        Some((table, most))
    }

    fn exponential(&self, entry: &Entry, errors: &mut Errors<'_>) -> Option<Sizes> {
        let (table, most) = self.table(entry, ["mean", "mean"], errors)?;
        let mean = f64::from(self.size(&table.get("mean")?.value, errors)?);
        Some(Sizes::Exponential { mean, most })
    }

    fn lognormal(&self, entry: &Entry, errors: &mut Errors<'_>) -> Option<Sizes> {
        let (table, most) = self.table(entry, ["median", "sigma"], errors)?;
        let median = f64::from(self.size(&table.get("median")?.value, errors)?);
        let sizes = Sizes::Lognormal { median, sigma: as_number(&table.get("sigma")?.value)?, most };
        sizes.check().is_ok().then_some(sizes)
    }

    fn pareto(&self, entry: &Entry, errors: &mut Errors<'_>) -> Option<Sizes> {
        let (table, most) = self.table(entry, ["mean", "shape"], errors)?;
        let mean = f64::from(self.size(&table.get("mean")?.value, errors)?);
        let sizes = Sizes::Pareto { mean, shape: as_number(&table.get("shape")?.value)?, most };
        sizes.check().is_ok().then_some(sizes)
    }

    fn cdf(&self, value: &Value, errors: &mut Errors<'_>) -> Option<Sizes> {
        let points = match &value.kind {
            Kind::Text(name) => match self.store.text(name).and_then(|text| measured(name, text, self.most)) {
                Ok(points) => points,
                Err(error) => {
                    errors.add(value.at, self.form.key(self.key), Problem::File(error));
                    return None;
                }
            },
            Kind::List(list) => {
                let pair = |value: &Value, errors: &mut Errors<'_>| match &value.kind {
                    Kind::List(pair) if pair.len() == 2 => Some((self.size(&pair[0], errors)?, as_number(&pair[1])?)),
                    _ => None,
                };
                list.iter().map(|value| pair(value, errors)).collect::<Option<Vec<_>>>()?
            }
            _ => return None,
        };
        let sizes = Sizes::Cdf(Arc::from(points));
        match sizes.check() {
            Ok(()) => Some(sizes),
            Err(error) => {
                self.form.conflict(self.key, error.to_string(), errors);
                None
            }
        }
    }
}

/// The points of a file of lines `BYTES SHARE`. Shares up to 100 are per cent where the last one is 100. A size of zero stands for
/// one byte: such files begin with it where nothing is smaller.
fn measured(name: &str, text: &str, most: u64) -> Result<Vec<(u32, f64)>, String> {
    let mut points: Vec<(u32, f64)> = Vec::new();
    let mut lines = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let mut words = line.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty());
        let words = [words.next(), words.next(), words.next()];
        let parsed = match words {
            [Some(size), Some(share), None] => {
                bytes(size, most).zip(share.parse::<f64>().ok().filter(|s| s.is_finite()))
            }
            _ => None,
        };
        let point = parsed.ok_or_else(|| {
            let expected = format!("`BYTES SHARE`: a size up to {most} bytes, and the share of what is not larger");
            format!("{name}:{}: found `{line}`, expected {expected}", number + 1)
        })?;
        points.push(point);
        lines.push(number + 1);
    }
    if points.last().is_some_and(|last| last.1 == 100.0) {
        points.iter_mut().for_each(|point| point.1 /= 100.0);
    }
    let place = |index: usize| lines.get(index).copied().unwrap_or(0);
    match Sizes::Cdf(points.clone().into()).check() {
        Ok(()) => Ok(points),
        Err(ConfigError::Falls { index }) => {
            Err(format!("{name}:{}: it lies below the line before it; sizes and shares must not fall", place(index)))
        }
        Err(ConfigError::Share { index, share }) => {
            Err(format!("{name}:{}: the share {share}; shares are from 0 to 1, or to 100 per cent", place(index)))
        }
        Err(ConfigError::NoSizes) => Err(format!("{name}: no point in it; expected lines `BYTES SHARE`")),
        Err(error) => Err(format!("{name}: {error}")),
    }
}

/// Whole bytes, or bytes with a unit.
fn bytes(text: &str, most: u64) -> Option<u32> {
    let size = match text.parse::<f64>() {
        Ok(size) if size >= 0.0 => size.ceil() as u64,
        Ok(_) => return None,
        Err(_) => parse_bytes(text).ok()?.as_u64(),
    };
    (size <= most).then_some(size.max(1) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_sizes_and_shares_in_lines_with_comments() {
        let text = "# web\n0 0\n1000, 0.5 # half\n\n10kB\t0.75\n2.5e6 1\n";
        assert_eq!(measured("w", text, 1 << 30), Ok(vec![(1, 0.0), (1000, 0.5), (10_000, 0.75), (2_500_000, 1.0)]));
        assert_eq!(measured("w", "10 20\n20 100\n", 99), Ok(vec![(10, 0.2), (20, 1.0)]), "per cent");
        let refused = |text: &str| measured("w", text, 1000).expect_err("refused");
        assert!(refused("1 1 0.5\n").starts_with("w:1: found `1 1 0.5`, expected `BYTES SHARE`"));
        assert!(refused("10 0.5\n\n9 1\n").starts_with("w:3: it lies below"));
        assert!(refused("2000 1\n").contains("up to 1000 bytes"));
        assert!(refused("10 0.5\n").contains("0.5; it must be 1"));
        assert!(refused("10 -1\n20 1\n").starts_with("w:1: the share -1"));
        assert!(refused("10 nan\n").starts_with("w:1: found"));
        assert!(refused("# nothing\n").contains("no point in it"));
    }
}
