//! The table of claims: `scenarios/claims.toml`, which the program carries with it.

use serde::Deserialize;
use serde_json::{Map, Value};

/// The table's text.
const TABLE: &str = include_str!("../../../../scenarios/claims.toml");

/// What a paper says.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Claim {
    /// `PAPER.NAME`.
    pub(crate) id: String,
    /// Section, figure, table.
    #[serde(rename = "where")]
    pub(crate) place: String,
    /// How it is to hold.
    pub(crate) kind: Kind,
    /// In our words.
    pub(crate) text: String,
    /// Relative deviation up to which a number counts as the same.
    pub(crate) within: Option<f64>,
    /// The paper's values: numbers, or lists of them.
    pub(crate) values: Option<Map<String, Value>>,
    /// Figures not to be exceeded, beside the values.
    pub(crate) bounds: Option<Map<String, Value>>,
    /// Of the values.
    pub(crate) unit: Option<String>,
}

/// How a claim is to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// Exactly.
    Exact,
    /// Within a relative tolerance.
    Number,
    /// Not beyond.
    Bound,
    /// In order or shape.
    Ordering,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    claim: Vec<Claim>,
}

/// All claims, in the table's order.
pub(crate) fn table() -> Vec<Claim> {
    // The table is part of the program, and a test reads it.
    toml::from_str::<File>(TABLE)
        .map(|file| file.claim)
        .unwrap_or_else(|error| panic!("scenarios/claims.toml: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_table_is_complete_and_well_formed() {
        let table = table();
        assert_eq!(table.len(), 54);
        assert_eq!(table.iter().map(|claim| &claim.id).collect::<BTreeSet<_>>().len(), 54, "an id stands twice");
        for claim in &table {
            let (paper, name) = claim.id.split_once('.').expect("PAPER.NAME");
            assert!(
                ["striping", "rings", "brr", "gateway", "efl"].contains(&paper) && !name.is_empty(),
                "{}",
                claim.id
            );
            assert!(claim.text.len() > 40 && !claim.place.is_empty(), "{}", claim.id);
            assert_eq!(
                claim.within.is_some(),
                claim.kind == Kind::Number,
                "{}: only a number has a tolerance",
                claim.id
            );
            for value in claim.values.iter().chain(&claim.bounds).flat_map(Map::values) {
                let numbers = value.as_array().map_or_else(|| vec![value], |list| list.iter().collect());
                assert!(!numbers.is_empty() && numbers.iter().all(|n| n.is_number()), "{}: {value}", claim.id);
            }
        }
    }
}
