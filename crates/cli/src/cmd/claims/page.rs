//! The answers as one HTML file: verdicts first, then each claim with what its answer rests on.

use super::text;
use crate::claims::{Claim, Row, Verdict};
use crate::report::html::Page;
use crate::report::text::Rows;

/// The page of these answers.
pub(super) fn page(table: &[Claim], rows: &[Row]) -> String {
    let mut page = Page::new("The papers' claims, and ours");
    let count = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    page.paragraph(&format!(
        "{} claims: {} hold, {} calibrated, {} differ, {} not yet. Calibrated are those that hold with constants which were fitted to the \
         paper's own values, or which the paper does not tell and on which they hang. In tables, a mean over seeds has half of its 95 % interval beside it, and a star marks the line that the \
         answer's own values are of.",
        rows.len(),
        count(Verdict::Holds),
        count(Verdict::Calibrated),
        count(Verdict::Differs),
        count(Verdict::NotYet)
    ));
    let verdicts = rows.iter().map(|row| vec![row.id.clone(), row.verdict.name().to_owned()]).collect();
    page.table(&Rows { head: vec!["claim".to_owned(), "verdict".to_owned()], rows: verdicts, more: 0 });
    for row in rows {
        let Some(claim) = table.iter().find(|claim| claim.id == row.id) else { continue };
        page.heading(&format!("{}: {}", row.id, row.verdict.name()));
        page.note(&format!("{}: {}", claim.place, claim.text));
        text::values(claim, row).iter().for_each(|line| page.paragraph(line));
        page.paragraph(&row.reason);
        row.calibrated.iter().for_each(|one| page.paragraph(&text::calibrated(one)));
        for (what, tables) in [("Measured", &row.measured), ("Sensitivity", &row.sensitivity)] {
            for table in tables {
                page.note(&format!("{what}: {}", table.of));
                page.table(&text::rows(table));
            }
        }
    }
    page.finish()
}
