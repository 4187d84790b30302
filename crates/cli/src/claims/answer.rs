//! An answer to a claim, and the verdict that follows from it.
//!
//! Deviation is the largest of `|ours - paper| / |paper|` over all values; where the paper's value is 0 it is ours
//! itself. The verdict of a number is `holds` when the deviation is within the tolerance; of a bound when no value is
//! beyond the paper's; of an exact value when the deviation is below one in a billion (the paper's decimals aside). A
//! claim that says something beside its values, or has none, holds as its runner found. One that holds only because a constant
//! which the paper does not tell was fitted to the paper's own values, or with another value of which it does not hold, is `calibrated`.

use super::evidence::{Calibration, Evidence};
use super::table::{Claim, Kind};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What a runner found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    /// Ours, with the keys of the claim's values.
    pub(crate) ours: Map<String, Value>,
    /// Whether what the claim says in words is so. True where it says nothing beside its values.
    pub(crate) holds: bool,
    /// What was run, and why ours differs if it does.
    pub(crate) reason: String,
    /// Ours of what the claim bounds beside its values, with the keys of its bounds.
    pub(crate) bounded: Map<String, Value>,
    /// By how much ours may change, with the keys of ours, in its unit: half of the 95 % interval over the seeds. Without a key
    /// ours does not change at all.
    pub(crate) noise: Map<String, Value>,
    /// What was measured.
    pub(crate) measured: Vec<Evidence>,
    /// What becomes of it with other values of each constant that the paper does not tell.
    pub(crate) sensitivity: Vec<Evidence>,
    /// Constants that were fitted.
    pub(crate) calibrated: Vec<Calibration>,
}

impl Answer {
    /// The answer to a claim without values.
    pub(crate) fn statement(holds: bool, reason: impl Into<String>) -> Answer {
        Answer {
            ours: Map::new(),
            holds,
            reason: reason.into(),
            bounded: Map::new(),
            noise: Map::new(),
            measured: Vec::new(),
            sensitivity: Vec::new(),
            calibrated: Vec::new(),
        }
    }

    /// With values.
    pub(crate) fn with(self, ours: Map<String, Value>) -> Answer {
        Answer { ours, ..self }
    }
}

/// Whether a claim holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Verdict {
    /// It does.
    #[serde(rename = "holds")]
    Holds,
    /// It does, with constants that were fitted to the paper's values, or on which it hangs.
    #[serde(rename = "calibrated")]
    Calibrated,
    /// Ours is something else.
    #[serde(rename = "differs")]
    Differs,
    /// Nothing answers it yet.
    #[serde(rename = "not yet")]
    NotYet,
}

impl Verdict {
    /// As in the JSON document.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::Calibrated => "calibrated",
            Verdict::Differs => "differs",
            Verdict::NotYet => "not yet",
        }
    }

    /// Whether ours agrees with the paper, by fitted constants or without.
    pub(crate) fn agrees(self) -> bool {
        matches!(self, Verdict::Holds | Verdict::Calibrated)
    }
}

/// One line of the table of answers; what `claims --json` prints is a list of these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    /// The claim's id.
    pub(crate) id: String,
    /// The paper's values; `null` where the claim has none.
    pub(crate) paper: Option<Map<String, Value>>,
    /// Ours with the same keys; `null` where the claim has none, or nothing answers it.
    pub(crate) ours: Option<Map<String, Value>>,
    /// Of the values.
    pub(crate) unit: Option<String>,
    /// The largest relative one; `null` where there are no values.
    pub(crate) deviation: Option<f64>,
    /// Whether it holds.
    pub(crate) verdict: Verdict,
    /// What was run, or why it differs.
    pub(crate) reason: String,
    /// Ours of what the claim bounds beside its values.
    #[serde(default)]
    pub(crate) bounded: Map<String, Value>,
    /// By how much ours may change, with the keys of ours.
    #[serde(default)]
    pub(crate) noise: Map<String, Value>,
    /// What was measured.
    #[serde(default)]
    pub(crate) measured: Vec<Evidence>,
    /// What becomes of it with other values of each constant that the paper does not tell.
    #[serde(default)]
    pub(crate) sensitivity: Vec<Evidence>,
    /// Constants that were fitted.
    #[serde(default)]
    pub(crate) calibrated: Vec<Calibration>,
}

impl Row {
    /// The line for `claim`, with what a runner found.
    pub(crate) fn new(claim: &Claim, answer: Option<Answer>) -> Row {
        let unit = claim.unit.clone();
        let (id, paper) = (claim.id.clone(), claim.values.clone());
        let Some(answer) = answer else {
            return Row {
                id,
                paper,
                ours: None,
                unit,
                deviation: None,
                verdict: Verdict::NotYet,
                reason: "not built".to_owned(),
                bounded: Map::new(),
                noise: Map::new(),
                measured: Vec::new(),
                sensitivity: Vec::new(),
                calibrated: Vec::new(),
            };
        };
        let ours = claim.values.is_some().then_some(answer.ours);
        let deviation = deviation(paper.as_ref(), ours.as_ref());
        let good =
            answer.holds && values_hold(claim, ours.as_ref(), deviation) && beyond(claim, &answer.bounded).is_none();
        let verdict = match (good, answer.calibrated.is_empty()) {
            (true, true) => Verdict::Holds,
            (true, false) => Verdict::Calibrated,
            (false, _) => Verdict::Differs,
        };
        Row {
            id,
            paper,
            ours,
            unit,
            deviation,
            verdict,
            reason: answer.reason,
            bounded: answer.bounded,
            noise: answer.noise,
            measured: answer.measured,
            sensitivity: answer.sensitivity,
            calibrated: answer.calibrated,
        }
    }

    /// Whether this line, kept from an earlier run, is one that its own values give.
    pub(crate) fn check(&self, claim: &Claim) -> Result<(), String> {
        if self.id != claim.id || self.paper != claim.values || self.unit != claim.unit {
            return Err("the kept line is not the table's: id, paper's values or unit".to_owned());
        }
        if self.verdict == Verdict::NotYet {
            let empty = self.ours.is_none() && self.deviation.is_none();
            return if empty { Ok(()) } else { Err("not yet, and yet it has values".to_owned()) };
        }
        if let (Some(paper), Some(ours)) = (&self.paper, &self.ours)
            && !paper.keys().eq(ours.keys())
        {
            return Err(format!("ours has the keys {:?}", ours.keys().collect::<Vec<_>>()));
        }
        if self.ours.is_some() != self.paper.is_some() {
            return Err("ours and the paper's values do not belong together".to_owned());
        }
        let again = deviation(self.paper.as_ref(), self.ours.as_ref());
        let same = match (again, self.deviation) {
            (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * a.abs().max(1.0),
            (None, None) => true,
            _ => false,
        };
        if !same {
            return Err(format!("deviation {:?}, but the values give {again:?}", self.deviation));
        }
        if self.verdict.agrees() && !values_hold(claim, self.ours.as_ref(), again) {
            return Err("holds, but its values do not".to_owned());
        }
        if let Some(key) = beyond(claim, &self.bounded).filter(|_| self.verdict.agrees()) {
            return Err(format!("holds, but {key} is beyond its bound, or missing"));
        }
        if self.verdict.agrees() && (self.verdict == Verdict::Calibrated) == self.calibrated.is_empty() {
            return Err(format!("{}, and {} constants were fitted", self.verdict.name(), self.calibrated.len()));
        }
        // A number says nothing beside its values.
        let number = claim.kind == Kind::Number && self.ours.is_some();
        if self.verdict == Verdict::Differs && number && self.reason.is_empty() {
            return Err("differs, and does not say why".to_owned());
        }
        Ok(())
    }
}

/// Pairs of (paper, ours); `None` in place of ours where it is missing.
fn pairs(paper: &Map<String, Value>, ours: &Map<String, Value>) -> Vec<(f64, Option<f64>)> {
    let mut pairs = Vec::new();
    for (key, value) in paper {
        let ours = ours.get(key).unwrap_or(&Value::Null);
        match value.as_array() {
            Some(list) => {
                for (i, value) in list.iter().enumerate() {
                    pairs.extend(value.as_f64().map(|paper| (paper, ours.get(i).and_then(Value::as_f64))));
                }
            }
            None => pairs.extend(value.as_f64().map(|paper| (paper, ours.as_f64()))),
        }
    }
    pairs
}

/// The largest relative deviation over all values that ours has.
pub(crate) fn deviation(paper: Option<&Map<String, Value>>, ours: Option<&Map<String, Value>>) -> Option<f64> {
    pairs(paper?, ours?).into_iter().filter_map(|(paper, ours)| Some(relative(paper, ours?))).reduce(f64::max)
}

/// Ours against the paper's; ours itself where the paper has 0.
pub(crate) fn relative(paper: f64, ours: f64) -> f64 {
    if paper == 0.0 { ours.abs() } else { ((ours - paper) / paper).abs() }
}

/// The first of a claim's bounds that ours exceeds, or does not tell.
fn beyond<'a>(claim: &'a Claim, ours: &Map<String, Value>) -> Option<&'a str> {
    let kept = |(key, bound): (&String, &Value)| {
        let ours = ours.get(key).and_then(Value::as_f64);
        bound.as_f64().zip(ours).is_some_and(|(bound, ours)| ours <= bound)
    };
    claim.bounds.iter().flatten().find(|bound| !kept(*bound)).map(|(key, _)| key.as_str())
}

/// Whether the values alone speak for the claim: all there, and as its kind asks.
fn values_hold(claim: &Claim, ours: Option<&Map<String, Value>>, deviation: Option<f64>) -> bool {
    let Some(paper) = &claim.values else { return true };
    let Some(ours) = ours else { return false };
    let pairs = pairs(paper, ours);
    if pairs.iter().any(|(_, ours)| ours.is_none()) {
        return false;
    }
    match claim.kind {
        Kind::Number => deviation.is_none_or(|deviation| deviation <= claim.within.unwrap_or(0.0)),
        Kind::Exact => deviation.is_none_or(|deviation| deviation <= 1e-9),
        Kind::Bound => pairs.iter().all(|&(paper, ours)| ours.is_some_and(|ours| ours <= paper)),
        Kind::Ordering => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn claim(kind: &str, within: Option<f64>, values: Value) -> Claim {
        let mut claim = json!({ "id": "x.y", "where": "1", "kind": kind, "text": "", "within": within });
        if !values.is_null() {
            claim["values"] = values;
        }
        serde_json::from_value(claim).unwrap()
    }

    fn row(claim: &Claim, ours: Value, holds: bool) -> Row {
        let ours = ours.as_object().cloned().unwrap_or_default();
        Row::new(claim, Some(Answer::statement(holds, "because").with(ours)))
    }

    #[test]
    fn the_largest_relative_deviation_decides_a_number() {
        let c = claim("number", Some(0.1), json!({ "a": 10.0, "b": [4, 0.0] }));
        let good = row(&c, json!({ "a": 10.9, "b": [4.2, 0.0] }), true);
        assert_eq!(good.verdict, Verdict::Holds);
        assert!((good.deviation.unwrap() - 0.09).abs() < 1e-12, "{good:?}");
        let bad = row(&c, json!({ "a": 10.0, "b": [4.5, 0.0] }), true);
        assert_eq!((bad.verdict, bad.deviation), (Verdict::Differs, Some(0.125)));
        // The paper has 0: ours itself counts.
        assert_eq!(row(&c, json!({ "a": 10.0, "b": [4, 0.2] }), true).deviation, Some(0.2));
        // The values agree, the words do not.
        assert_eq!(row(&c, json!({ "a": 10.0, "b": [4, 0.0] }), false).verdict, Verdict::Differs);
    }

    #[test]
    fn a_missing_value_never_holds() {
        let c = claim("number", Some(0.1), json!({ "a": 10.0, "b": [4, 5] }));
        for ours in [json!({ "a": 10.0 }), json!({ "a": 10.0, "b": [4] }), json!({ "a": 10.0, "b": [4, null] })] {
            assert_eq!(row(&c, ours.clone(), true).verdict, Verdict::Differs, "{ours}");
        }
    }

    #[test]
    fn a_bound_is_not_to_be_exceeded_and_an_exact_value_not_to_be_missed() {
        let bound = claim("bound", None, json!({ "a": 0.08 }));
        assert_eq!(row(&bound, json!({ "a": 0.01 }), true).verdict, Verdict::Holds);
        assert_eq!(row(&bound, json!({ "a": 0.081 }), true).verdict, Verdict::Differs);
        let exact = claim("exact", None, json!({ "a": 0.25 }));
        assert_eq!(row(&exact, json!({ "a": 0.25 }), true).verdict, Verdict::Holds);
        assert_eq!(row(&exact, json!({ "a": 0.2500001 }), true).verdict, Verdict::Differs);
    }

    #[test]
    fn without_values_the_statement_decides_and_without_an_answer_nothing_does() {
        let c = claim("ordering", None, Value::Null);
        let held = row(&c, Value::Null, true);
        assert_eq!((held.verdict, &held.ours, held.deviation), (Verdict::Holds, &None, None));
        assert_eq!(row(&c, Value::Null, false).verdict, Verdict::Differs);
        let none = Row::new(&c, None);
        assert_eq!((none.verdict, none.check(&c)), (Verdict::NotYet, Ok(())));
    }

    #[test]
    fn a_kept_line_that_its_values_contradict_is_found() {
        let c = claim("number", Some(0.1), json!({ "a": 10.0 }));
        let good = row(&c, json!({ "a": 10.5 }), true);
        assert_eq!(good.check(&c), Ok(()));
        for change in [
            |row: &mut Row| row.deviation = Some(0.04),
            |row: &mut Row| row.ours = Some(json!({ "a": 12.0 }).as_object().cloned().unwrap()),
            |row: &mut Row| row.ours = None,
            |row: &mut Row| row.verdict = Verdict::NotYet,
            |row: &mut Row| row.unit = Some("s".into()),
            |row: &mut Row| row.ours = Some(json!({ "b": 10.5 }).as_object().cloned().unwrap()),
        ] {
            let mut changed = good.clone();
            change(&mut changed);
            assert!(changed.check(&c).is_err(), "{changed:?}");
        }
        let wrong = Row { verdict: Verdict::Holds, ..row(&c, json!({ "a": 12.0 }), true) };
        assert!(wrong.check(&c).is_err());
    }

    #[test]
    fn what_a_claim_bounds_beside_its_values_is_not_to_be_exceeded_and_not_to_be_left_out() {
        let c: Claim = serde_json::from_value(json!({
            "id": "x.y", "where": "1", "kind": "number", "text": "", "within": 0.1,
            "values": { "a": 10.0 }, "bounds": { "apart": 0.02 }
        }))
        .unwrap();
        let with = |bounded: Value| {
            let ours = json!({ "a": 10.0 }).as_object().cloned().unwrap();
            let bounded = bounded.as_object().cloned().unwrap();
            Row::new(&c, Some(Answer { bounded, ..Answer::statement(true, "because").with(ours) }))
        };
        let inside = with(json!({ "apart": 0.02 }));
        assert_eq!((inside.verdict, inside.check(&c)), (Verdict::Holds, Ok(())));
        for outside in [json!({ "apart": 0.020_1 }), json!({}), json!({ "apart": null })] {
            let row = with(outside);
            assert_eq!((row.verdict, row.check(&c)), (Verdict::Differs, Ok(())));
            assert!(Row { verdict: Verdict::Holds, ..row }.check(&c).is_err());
        }
    }

    #[test]
    fn what_holds_by_a_fitted_constant_is_calibrated_and_says_by_which() {
        let c = claim("number", Some(0.1), json!({ "a": 10.0 }));
        let table = Evidence::new("window", &["a"]);
        let fitted = Calibration::new("22 segments", "Figure 11", &table);
        let answer = |value: f64| {
            let ours = json!({ "a": value }).as_object().cloned().unwrap();
            Answer { calibrated: vec![fitted.clone()], ..Answer::statement(true, "because").with(ours) }
        };
        let held = Row::new(&c, Some(answer(10.5)));
        assert_eq!((held.verdict, held.check(&c)), (Verdict::Calibrated, Ok(())));
        assert!(held.verdict.agrees());
        // Fitted, and still off.
        assert_eq!(Row::new(&c, Some(answer(11.5))).verdict, Verdict::Differs);
        for wrong in [
            Row { calibrated: Vec::new(), ..held.clone() },
            Row { verdict: Verdict::Holds, ..held.clone() },
            Row { ours: json!({ "a": 12.0 }).as_object().cloned(), deviation: Some(0.2), ..held.clone() },
        ] {
            assert!(wrong.check(&c).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_line_prints_exactly_the_agreed_keys() {
        let line = serde_json::to_value(row(&claim("ordering", None, Value::Null), Value::Null, true)).unwrap();
        let keys: Vec<&String> = line.as_object().unwrap().keys().collect();
        let agreed = ["id", "paper", "ours", "unit", "deviation", "verdict", "reason"];
        let beside = ["bounded", "noise", "measured", "sensitivity", "calibrated"];
        assert_eq!(keys.len(), agreed.len() + beside.len());
        for key in agreed.iter().chain(&beside) {
            assert!(keys.iter().any(|k| k == key), "{key}");
        }
    }
}
