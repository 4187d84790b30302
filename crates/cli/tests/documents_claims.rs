//! The tables of claims in PAPERS.md are those of the kept answers (scenarios/claims.json): no figure there is written by hand.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A number with four digits, as `fairspan claims` has it.
fn short(value: f64) -> String {
    let text = if value != 0.0 && value.abs() < 1e-3 { format!("{value:.3e}") } else { format!("{value:.4}") };
    let digits = 4 - value.abs().log10().floor().clamp(0.0, 4.0) as usize;
    let text = if value.abs() >= 1.0 { format!("{value:.digits$}") } else { text };
    if text.contains('.') && !text.contains('e') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

fn number(value: &Value) -> String {
    match value {
        Value::Array(list) => list.iter().map(number).collect::<Vec<_>>().join(", "),
        Value::Number(number) => number.as_f64().map_or_else(String::new, short),
        _ => "none".to_owned(),
    }
}

/// `name paper (ours)`, one after the other.
fn values(row: &Value) -> String {
    let none = serde_json::Map::new();
    let paper = row["paper"].as_object().unwrap_or(&none);
    let one = |(key, paper): (&String, &Value)| {
        format!("{} {} ({})", key.replace('_', " "), number(paper), number(&row["ours"][key]))
    };
    paper.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// A line of a table: bars in it are text.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn table(rows: &[Value], paper: &str) -> String {
    let mut text = "| claim | verdict | the paper (ours) | what was run |\n|---|---|---|---|\n".to_owned();
    for row in rows {
        let id = row["id"].as_str().expect("an id");
        let Some(name) = id.strip_prefix(paper).and_then(|rest| rest.strip_prefix('.')) else { continue };
        let verdict = row["verdict"].as_str().expect("a verdict");
        let off = row["deviation"].as_f64().filter(|_| verdict != "holds");
        let off = off.map_or_else(String::new, |off| format!(", off by {:.0} %", 100.0 * off));
        let fitted = row["calibrated"].as_array().into_iter().flatten();
        let fitted = fitted.map(|one| {
            let text = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
            format!(" Fitted: {}, to {}.", text("constant"), text("fitted_to"))
        });
        let told = row["reason"].as_str().expect("a reason");
        text += &format!(
            "| `{name}` | {verdict}{off} | {} | {}.{} |\n",
            cell(&values(row)),
            cell(told),
            cell(&fitted.collect::<String>())
        );
    }
    text
}

#[test]
fn the_tables_of_claims_are_the_kept_answers() {
    let kept = fs::read_to_string(root().join("scenarios/claims.json")).expect("kept answers");
    let rows: Vec<Value> = serde_json::from_str(&kept).expect("a list");
    let path = root().join("PAPERS.md");
    let before = fs::read_to_string(&path).expect("a document");
    let mut text = before.clone();
    for paper in ["striping", "brr", "rings", "efl", "gateway"] {
        let (begin, end) = (format!("<!-- claims: {paper} -->\n"), format!("<!-- end of claims: {paper} -->"));
        let (head, rest) = text.split_once(&begin).unwrap_or_else(|| panic!("PAPERS.md has no {begin}"));
        let (_, tail) = rest.split_once(&end).unwrap_or_else(|| panic!("PAPERS.md has no {end}"));
        text = format!("{head}{begin}{}{end}{tail}", table(&rows, paper));
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &text).expect("written");
        return;
    }
    assert!(before == text, "PAPERS.md is not what scenarios/claims.json says; UPDATE_DOCS=1 renews it");
}

/// A document as one line, so that a sentence is found wherever its lines break.
fn flowing(name: &str) -> String {
    let text = fs::read_to_string(root().join(name)).expect("a document");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A small number as the change log writes it.
fn word(count: usize) -> &'static str {
    const WORDS: [&str; 15] = [
        "no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
        "thirteen", "fourteen",
    ];
    WORDS[count]
}

/// Sentences of the change log and the design that quote a kept answer or a constant of DVSR, as these have them now.
fn quoted(rows: &[Value], constants: &str) -> [(&'static str, String); 5] {
    let of = |paper: &str| {
        rows.iter().filter(|row| row["id"].as_str().expect("an id").starts_with(paper)).collect::<Vec<_>>()
    };
    let agree =
        |rows: &[&Value]| rows.iter().filter(|row| row["verdict"] == "holds" || row["verdict"] == "calibrated").count();
    let row = |id: &str| rows.iter().find(|row| row["id"] == id).unwrap_or_else(|| panic!("no answer to {id}"));
    let (striping, brr) = (of("striping."), of("brr."));
    let grr = row("striping.grr-worst-case")["deviation"].as_f64().expect("a deviation");
    let limiters = row("rings.dvsr-unbalanced")["measured"][0]["lines"].as_array().expect("lines").iter();
    let limiter = limiters.map(|line| line["cells"][0][0].as_f64().expect("a number")).fold(0.0, f64::max);
    let drain = constants.split_once("const MOST_DRAIN: f64 = ").and_then(|(_, rest)| rest.split_once(';'));
    let drain: f64 = drain.expect("MOST_DRAIN").0.parse().expect("a number");
    let spare = fairspan_core::ring::dvsr::Config::default().spare.as_f64();
    [
        ("CHANGELOG.md", format!("{} of {} claims hold, the worst case", word(agree(&striping)), word(striping.len()))),
        ("CHANGELOG.md", format!("the worst case of GRR differs by {:.0} %", 100.0 * grr)),
        (
            "CHANGELOG.md",
            format!("adaptive threshold as scenarios; {} of {} claims hold", word(agree(&brr)), word(brr.len())),
        ),
        ("CHANGELOG.md", format!("all downstream rates and differs ({limiter:.2} % where the paper has 0.1 %")),
        (
            "DESIGN.md",
            format!(
                "does not give away {} % of each link and what control messages take, and it keeps up to {} % more",
                short(100.0 * spare),
                short(100.0 * drain)
            ),
        ),
    ]
}

#[test]
fn what_the_change_log_and_the_design_quote_is_what_was_kept() {
    let kept = fs::read_to_string(root().join("scenarios/claims.json")).expect("kept answers");
    let mut rows: Vec<Value> = serde_json::from_str(&kept).expect("a list");
    let constants = fs::read_to_string(root().join("crates/core/src/ring/dvsr.rs")).expect("a source file");
    for (document, sentence) in quoted(&rows, &constants) {
        assert!(flowing(document).contains(&sentence), "{document} does not say: {sentence}");
    }
    // Each of them would be missed with another answer, or another constant.
    let before = quoted(&rows, &constants);
    for row in &mut rows {
        row["verdict"] = "differs".into();
        row["deviation"] = 0.5.into();
        if row["id"] == "rings.dvsr-unbalanced" {
            row["measured"][0]["lines"][0]["cells"][0][0] = 0.5.into();
        }
    }
    let after = quoted(&rows, &constants.replace("MOST_DRAIN: f64 = 0.003;", "MOST_DRAIN: f64 = 0.005;"));
    for ((document, before), (_, after)) in before.iter().zip(&after) {
        assert!(before != after && !flowing(document).contains(after), "{after}");
    }
}

#[test]
fn numbers_are_short_and_none_is_lost() {
    let shown: Vec<String> = [0.25, 18.3, 1.054e-5, 540.0, -0.05, 83_904.0, 0.0].map(short).into();
    assert_eq!(shown, ["0.25", "18.3", "1.054e-5", "540", "-0.05", "83904", "0"]);
    assert_eq!(number(&serde_json::json!([0.5, null])), "0.5, none");
}

/// Answers that rest on nothing which a paper leaves open.
const WITHOUT_CONSTANTS: [(&str, &str); 12] = [
    ("striping.fig5-trace", "the figure's own numbers"),
    ("striping.theorem-3.1", "a theorem, over random streams"),
    ("striping.srr-fairness", "a bound, over random streams"),
    ("striping.fifo", "a theorem, over random delays and jitter"),
    ("striping.quantum-from-delay", "arithmetic, over random rates and delays"),
    ("rings.rias-examples", "arithmetic"),
    ("rings.proposition-1", "a proposition, over random rings"),
    ("gateway.complexity", "operations, counted"),
    ("gateway.mix", "what two captures hold"),
    ("gateway.cost", "operations, counted on two captures"),
    ("efl.complexity", "state, counted"),
    ("efl.reduces-to-tcp", "an equality, over random arrivals"),
];

/// Reduced answers that go without, for the time that it would take.
const NOT_REDUCED: [&str; 2] = ["rings.parking-lot", "rings.parallel-parking-lot"];

#[test]
fn an_answer_without_a_sensitivity_table_is_on_a_list_and_one_with_a_table_is_on_none() {
    for (name, reduced) in [("claims.json", &[][..]), ("claims-reduced.json", &NOT_REDUCED[..])] {
        let kept = fs::read_to_string(root().join("scenarios").join(name)).expect("kept answers");
        let rows: Vec<Value> = serde_json::from_str(&kept).expect("a list");
        let without = rows.iter().filter(|row| row["sensitivity"].as_array().expect("a list").is_empty());
        let mut without: Vec<&str> = without.map(|row| row["id"].as_str().expect("an id")).collect();
        let mut listed: Vec<&str> = WITHOUT_CONSTANTS.iter().map(|(id, _)| *id).collect();
        listed.extend(reduced);
        without.sort_unstable();
        listed.sort_unstable();
        assert_eq!(without, listed, "{name}");
        for table in rows.iter().flat_map(|row| row["sensitivity"].as_array().expect("a list")) {
            assert!(table["lines"].as_array().expect("lines").len() > 1, "{name}: {}", table["of"]);
        }
    }
}
