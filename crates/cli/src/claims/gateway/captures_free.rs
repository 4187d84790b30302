//! What of counting flows the paper does not tell, and what becomes of its claims about them with others.

use super::captures::{
    ByDefinition, ByTimeout, CHAINS, Counting, HALVES, KEYS, TABLE, by_definition, by_timeout, coarser, shorter,
};
use crate::claims::Bench;
use crate::claims::evidence::{Cell, Evidence, exact};
use crate::claims::finding::faults;
use crate::claims::variation::NOT_SO;
use fairspan_core::units::Span;

/// Something of counting that may be another.
#[derive(Clone, Copy)]
enum Varied {
    Chains,
    Key,
    Wait,
}

/// Each with what it is and its values, the first as it is used.
type Values<'a> = [(Varied, &'a str, &'a [u64]); 3];

impl Varied {
    fn set(self, usual: Counting, value: u64) -> Counting {
        match self {
            Varied::Chains => Counting { chains: u32::try_from(value).unwrap_or(u32::MAX), ..usual },
            Varied::Key => Counting { key: value, ..usual },
            Varied::Wait => Counting { wait: Span::from_millis(value), ..usual },
        }
    }
}

const WAITS: &str = "how long a packet may wait at the gateway, ms, from which follows for how long a flow without a timeout is known; the paper does not tell";

/// A table for each of the three: a line for each of its values, or of a reduced answer for the first two.
fn tables(
    bench: &Bench,
    values: &Values<'_>,
    columns: &[&str],
    mut measure: impl FnMut(Counting) -> anyhow::Result<Vec<Cell>>,
) -> anyhow::Result<Vec<Evidence>> {
    let usual = usual(values)?;
    let used = measure(usual)?;
    let mut tables = Vec::new();
    for (varied, what, values) in values {
        let mut table = Evidence::new(*what, columns);
        let most = if bench.is_reduced() { 2 } else { values.len() };
        for (n, value) in values.iter().enumerate().take(most) {
            let cells = if n == 0 { used.clone() } else { measure(varied.set(usual, *value))? };
            table.line(value.to_string(), n == 0, cells);
        }
        tables.push(table);
    }
    Ok(tables)
}

/// The first of all values: what the answers count with.
fn usual(values: &Values<'_>) -> anyhow::Result<Counting> {
    let default = Counting::of(TABLE, 1);
    let usual = values.iter().fold(default, |counting, (varied, _, values)| varied.set(counting, values[0]));
    anyhow::ensure!(usual.wait == default.wait, "the gateway lets packets wait for {:?}", default.wait);
    Ok(usual)
}

const BY_TIMEOUT: Values<'_> = [
    (Varied::Chains, "chains of the hash; the paper does not tell", &[TABLE as u64, 8192, 1024]),
    (Varied::Key, "key of the hash, which is ours", &[1, 2, 3]),
    (Varied::Wait, WAITS, &[100, 50, 200]),
];

/// Of Table 2.2.
pub(crate) fn timeouts(bench: &mut Bench) -> anyhow::Result<Vec<Evidence>> {
    let columns = [
        "dec: collisions, 10 s",
        "1 s",
        "0 s",
        "most flows, 0 s",
        "fixwest: collisions, 10 s",
        "1 s ",
        "0 s ",
        "most flows, 0 s ",
        NOT_SO,
    ];
    tables(bench, &BY_TIMEOUT, &columns, |counting| {
        let (mut cells, mut count) = (Vec::new(), 0);
        for (name, ByTimeout { most, halved, collisions }) in HALVES.iter().zip(&by_timeout(bench, counting)?) {
            count += faults(|finding| shorter(finding, name, most, halved, collisions));
            cells.extend([collisions[0], collisions[2], collisions[3], most[3]].map(|number| number as f64));
        }
        cells.push(count as f64);
        Ok(exact(&cells))
    })
}

const BY_DEFINITION: Values<'_> = [
    (Varied::Chains, "chains of the hash; the paper does not tell", &[CHAINS as u64, 256, 8192, TABLE as u64]),
    (Varied::Key, "first of the eight keys of the hash, which are ours", &[1, 9, 17]),
    (Varied::Wait, WAITS, &[100, 50, 200]),
];

/// Of Table 2.3.
pub(crate) fn aggregation(bench: &mut Bench) -> anyhow::Result<Vec<Evidence>> {
    let columns = [
        "dec: collisions by source",
        "by destination",
        "by pair",
        "by five-tuple",
        "fixwest: by source",
        "by destination ",
        "by pair ",
        "by five-tuple ",
        NOT_SO,
    ];
    tables(bench, &BY_DEFINITION, &columns, |counting| {
        let (mut cells, mut count) = (Vec::new(), 0);
        for (name, found) in HALVES.iter().zip(&by_definition(bench, counting, KEYS)?) {
            count += faults(|finding| coarser(finding, name, found));
            let ByDefinition { collisions, .. } = found;
            cells.extend(collisions.map(|number| number as f64));
        }
        cells.push(count as f64);
        Ok(exact(&cells))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_value_of_each_is_what_the_answers_count_with_and_no_other_is() {
        for (values, chains) in [(BY_TIMEOUT, TABLE), (BY_DEFINITION, CHAINS)] {
            let used = usual(&values).expect("the gateway's default");
            let answer = Counting::of(chains, 1);
            let same = |one: Counting| (one.chains, one.key, one.wait) == (answer.chains, answer.key, answer.wait);
            assert!(same(used), "{used:?}");
            for (varied, what, values) in values {
                assert!(values.len() > 1 && same(varied.set(used, values[0])), "{what}");
                assert!(values[1..].iter().all(|value| !same(varied.set(used, *value))), "{what}");
            }
        }
    }
}
