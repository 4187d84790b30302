//! A report as one HTML file: tables and plots, nothing fetched, no script, readable in light and dark.

use super::chart;
use super::text::{self, Rows};
use super::words::escape;
use crate::simulation::{Batch, Expected};
use fairspan_sim::results::Results;
use fairspan_sim::scenario::File;
use std::fmt::Write as _;

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1b1b1f;--soft:#5b5b66;--paper:#fff;--rule:#d9d9de;--good:#0b6b3a;--bad:#a8200d}\
@media(prefers-color-scheme:dark){:root{--ink:#e6e6ea;--soft:#a5a5b0;--paper:#17171a;--rule:#3a3a42;--good:#4cc98a;--bad:#ff8a70}}\
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:60rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.6rem;margin:0 0 .3rem}h2{font-size:1.2rem;margin:2rem 0 .6rem}p{margin:.4rem 0}.soft{color:var(--soft)}\
.wide{overflow-x:auto}table{border-collapse:collapse;margin:.5rem 0 1.1rem;font-size:.87rem;font-variant-numeric:tabular-nums}\
th,td{padding:.25rem .7rem;border-bottom:1px solid var(--rule);text-align:right;vertical-align:top;white-space:pre-line}\
th:first-child,td:first-child{text-align:left}td.words{text-align:left}.holds{color:var(--good)}.differs{color:var(--bad);font-weight:600}\
figure{margin:1rem 0}.plot{width:100%;height:auto;display:block}code{font-size:.9em}";

/// Runs whose own tables and series are shown; the rest is in the files beside the report.
const MOST_RUNS: usize = 12;

/// A page that grows by parts.
#[derive(Debug)]
pub(crate) struct Page(String);

impl Page {
    /// An empty page.
    pub(crate) fn new(title: &str) -> Page {
        let title = escape(title);
        Page(format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>{title}</title>\
             <style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n"
        ))
    }

    /// A heading.
    pub(crate) fn heading(&mut self, text: &str) {
        let _ = writeln!(self.0, "<h2>{}</h2>", escape(text));
    }

    /// A paragraph.
    pub(crate) fn paragraph(&mut self, text: &str) {
        let _ = writeln!(self.0, "<p>{}</p>", escape(text));
    }

    /// A paragraph of less weight.
    pub(crate) fn note(&mut self, text: &str) {
        let _ = writeln!(self.0, "<p class=\"soft\">{}</p>", escape(text));
    }

    /// A plot.
    pub(crate) fn plot(&mut self, svg: &str) {
        let _ = writeln!(self.0, "<figure>{svg}</figure>");
    }

    /// A table; verdicts get their colour.
    pub(crate) fn table(&mut self, rows: &Rows) {
        if rows.rows.is_empty() {
            return;
        }
        self.0.push_str("<div class=\"wide\"><table><thead><tr>");
        for cell in &rows.head {
            let _ = write!(self.0, "<th>{}</th>", escape(cell));
        }
        self.0.push_str("</tr></thead><tbody>\n");
        for row in &rows.rows {
            self.0.push_str("<tr>");
            for cell in row {
                let class = match cell.as_str() {
                    "holds" => " class=\"holds\"",
                    "differs" => " class=\"differs\"",
                    words if words.len() > 40 => " class=\"words\"",
                    _ => "",
                };
                let _ = write!(self.0, "<td{class}>{}</td>", escape(cell));
            }
            self.0.push_str("</tr>\n");
        }
        self.0.push_str("</tbody></table></div>\n");
        if rows.more > 0 {
            self.note(&format!("… and {} more, in summary.json.", rows.more));
        }
    }

    /// The whole file.
    pub(crate) fn finish(mut self) -> String {
        self.0.push_str("</body></html>\n");
        self.0
    }
}

/// The report of what was run of `file`.
pub(crate) fn report(file: &File, batch: &Batch, expected: &[Expected]) -> String {
    let title = if file.title().is_empty() { file.name() } else { file.title() };
    let mut page = Page::new(title);
    if !file.description().is_empty() {
        page.paragraph(file.description());
    }
    let from = match (file.paper(), file.figure()) {
        (Some(paper), Some(figure)) => format!(", {paper}, {figure}"),
        (Some(paper), None) => format!(", {paper}"),
        _ => String::new(),
    };
    page.note(&format!(
        "{}{from}. {} of {} runs. Throughput counts IP bytes that arrive, goodput payload that the application gets; \
         Mbit is 10^6 bits, kB 1000 bytes.",
        file.name(),
        batch.finished.len(),
        batch.planned
    ));
    if batch.interrupted {
        page.paragraph("Interrupted: this is what was finished.");
    }
    for svg in chart::over_points(file, &batch.finished, expected) {
        page.plot(&svg);
    }
    if !expected.is_empty() {
        page.heading("Expected, and found");
        page.table(&text::expectations(file, expected));
    }
    if batch.planned > 1 {
        page.heading("Runs");
        page.table(&text::runs(file, &batch.finished));
    }
    for run in batch.finished.iter().take(MOST_RUNS) {
        if batch.planned > 1 {
            let at: Vec<String> = run.parameters.iter().map(|(key, value)| format!("{key} = {value}")).collect();
            let at = if at.is_empty() { String::new() } else { format!(", {}", at.join(", ")) };
            page.heading(&format!("Run {}{at}, seed {}", run.number, run.results.seed));
        }
        one(&mut page, &run.results);
    }
    if batch.finished.len() > MOST_RUNS {
        page.note(&format!("The other {} runs are in summary.json.", batch.finished.len() - MOST_RUNS));
    }
    page.finish()
}

fn one(page: &mut Page, results: &Results) {
    for svg in chart::over_time(results) {
        page.plot(&svg);
    }
    page.table(&text::flows(results));
    page.table(&text::links(results));
    page.table(&text::bonds(results));
    text::ring_tables(results).for_each(|rows| page.table(&rows));
    page.table(&text::drops(results));
    let conservation = &results.conservation;
    let dropped: u64 = conservation.dropped.iter().map(|dropped| dropped.packets).sum();
    page.note(&format!(
        "Goodput {} in all over {} s, Jain's index {:.4}. {} packets sent = {} delivered + {dropped} dropped + {} on the \
         way. Seed {}, log hash {}, {} events.",
        text::quantity(results.goodput, "bit/s"),
        super::words::short(results.measured_s),
        results.jain,
        conservation.sent,
        conservation.delivered,
        conservation.in_flight,
        results.seed,
        super::document::hash(results.log_hash),
        results.events
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_escapes_what_it_is_given_and_fetches_nothing() {
        let mut page = Page::new("<script>alert(1)</script>");
        page.paragraph("a & b");
        let rows = Rows { head: vec!["x".into()], rows: vec![vec!["<b>".into()], vec!["differs".into()]], more: 3 };
        page.table(&rows);
        let html = page.finish();
        assert!(!html.contains("<script") && !html.contains("<b>") && !html.contains("http"), "{html}");
        assert!(html.contains("class=\"differs\"") && html.contains("and 3 more"), "{html}");
        assert_eq!(html.matches("<td").count(), html.matches("</td>").count());
    }
}
