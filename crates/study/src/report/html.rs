//! A report as one HTML file: tables and plots, nothing fetched, no script, readable in light and dark.

use super::document::{VERSION, hash};
use super::estimate::estimates;
use super::text::{self, Rows};
use super::warnings::warnings;
use super::words::escape;
use super::{chart, timeline, transfers};
use crate::simulation::{Batch, Expected, Finished};
use fairspan_sim::results::Results;
use fairspan_sim::scenario::File;
use std::fmt::Write as _;

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1b1b1f;--soft:#5b5b66;--paper:#fff;--rule:#d9d9de;--good:#0b6b3a;--bad:#a8200d}\
@media(prefers-color-scheme:dark){:root{--ink:#e6e6ea;--soft:#a5a5b0;--paper:#17171a;--rule:#3a3a42;--good:#4cc98a;--bad:#ff8a70}}\
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:60rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.6rem;margin:0 0 .3rem}h2{font-size:1.2rem;margin:2rem 0 .6rem}p{margin:.4rem 0}.soft{color:var(--soft)}\
.wide{overflow-x:auto;width:max-content;max-width:calc(100vw - 2rem);min-width:100%;position:relative;left:50%;transform:translateX(-50%)}\
nav{margin:1rem 0;padding:.2rem 1rem;border-left:3px solid var(--rule)}nav ol{margin:.2rem 0;padding-left:1.4rem;columns:2;column-gap:3rem}nav li{overflow-wrap:anywhere}a{color:inherit}\
details{margin:.5rem 0}summary{cursor:pointer;color:var(--soft)}pre{overflow-x:auto;font-size:.85em;padding:.5rem .8rem;border:1px solid var(--rule)}\
table{border-collapse:collapse;margin:.5rem 0 1.1rem;font-size:.87rem;font-variant-numeric:tabular-nums}\
th,td{padding:.25rem .7rem;border-bottom:1px solid var(--rule);text-align:right;vertical-align:top;white-space:pre-line}\
th:first-child,td:first-child{text-align:left}td.words{text-align:left}.holds{color:var(--good)}.differs{color:var(--bad);font-weight:600}\
figure{margin:1rem 0}.plot{width:100%;height:auto;display:block}code{font-size:.9em}";

/// Runs whose own tables and series are shown; the rest is in the files beside the report.
const MOST_RUNS: usize = 12;
/// Lines of a table of all runs or points.
const MOST_LINES: usize = 2000;

/// A page that grows by parts.
#[derive(Debug)]
pub struct Page {
    title: String,
    body: String,
    /// Headings, whose numbers are the places in the page that they name.
    headings: Vec<String>,
}

impl Page {
    /// An empty page.
    pub fn new(title: &str) -> Page {
        Page { title: escape(title), body: String::new(), headings: Vec::new() }
    }

    /// A heading.
    pub fn heading(&mut self, text: &str) {
        let text = escape(text);
        let _ = writeln!(self.body, "<h2 id=\"part{}\">{text}</h2>", self.headings.len() + 1);
        self.headings.push(text);
    }

    /// What is shown when its summary is asked for.
    pub fn folded(&mut self, summary: &str, inside: impl FnOnce(&mut Page)) {
        let _ = writeln!(self.body, "<details><summary>{}</summary>", escape(summary));
        inside(self);
        self.body.push_str("</details>\n");
    }

    /// Text with its lines as they are.
    pub fn verbatim(&mut self, text: &str) {
        let _ = writeln!(self.body, "<pre>{}</pre>", escape(text));
    }

    /// A paragraph.
    pub fn paragraph(&mut self, text: &str) {
        let _ = writeln!(self.body, "<p>{}</p>", escape(text));
    }

    /// A paragraph of less weight.
    pub fn note(&mut self, text: &str) {
        let _ = writeln!(self.body, "<p class=\"soft\">{}</p>", escape(text));
    }

    /// A plot.
    pub fn plot(&mut self, svg: &str) {
        let _ = writeln!(self.body, "<figure>{svg}</figure>");
    }

    /// A table; verdicts get their colour.
    pub fn table(&mut self, rows: &Rows) {
        if rows.rows.is_empty() {
            return;
        }
        self.body.push_str("<div class=\"wide\"><table><thead><tr>");
        for cell in &rows.head {
            let _ = write!(self.body, "<th>{}</th>", escape(cell));
        }
        self.body.push_str("</tr></thead><tbody>\n");
        for row in &rows.rows {
            self.body.push_str("<tr>");
            for cell in row {
                let class = match cell.as_str() {
                    "holds" => " class=\"holds\"",
                    "differs" => " class=\"differs\"",
                    words if words.len() > 40 => " class=\"words\"",
                    _ => "",
                };
                let _ = write!(self.body, "<td{class}>{}</td>", escape(cell));
            }
            self.body.push_str("</tr>\n");
        }
        self.body.push_str("</tbody></table></div>\n");
        if rows.more > 0 {
            self.note(&format!("… and {} more, in summary.json.", rows.more));
        }
    }

    /// The whole file; with more than two headings it has a table of contents.
    pub fn finish(self) -> String {
        let Page { title, body, headings } = self;
        let mut contents = String::new();
        if headings.len() > 2 {
            contents.push_str("<nav><ol>");
            for (place, heading) in headings.iter().enumerate() {
                let _ = write!(contents, "<li><a href=\"#part{}\">{heading}</a></li>", place + 1);
            }
            contents.push_str("</ol></nav>\n");
        }
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>{title}</title>\
             <style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n{contents}{body}</body></html>\n"
        )
    }
}

/// The report of what was run of `file`.
pub fn report(file: &File, batch: &Batch, expected: &[Expected]) -> String {
    let title = if file.title().is_empty() { file.name() } else { file.title() };
    let mut page = Page::new(title);
    summary(&mut page, file, batch, expected);
    let plots = chart::asked(file, &batch.finished, expected);
    if !plots.is_empty() {
        page.heading("Plots");
        plots.iter().for_each(|svg| page.plot(svg));
    }
    let estimates = estimates(file, &batch.finished);
    if let Some(one) = estimates.first() {
        page.heading("Means");
        page.note(&format!("Over {} seeds, ± half of the interval that holds the mean with 95 %.", one.seeds));
        page.table(&text::means(file, &estimates, MOST_LINES));
        text::pooled(&estimates).iter().for_each(|line| page.paragraph(line));
    }
    let classes = transfers::rows(file, &batch.finished, MOST_LINES);
    if !classes.rows.is_empty() {
        page.heading("Transfers by size");
        page.note("Pooled over flows with the same classes, and over seeds. The slowdown is the duration over that on an empty path.");
        page.table(&classes);
    }
    if !expected.is_empty() {
        page.heading("Expected, and found");
        page.table(&text::expectations(file, expected));
    }
    if batch.planned > 1 {
        page.heading("All runs");
        let rows = text::runs(file, &batch.finished, MOST_LINES);
        page.folded(&format!("{} runs, a line for each", batch.finished.len()), |page| page.table(&rows));
    }
    let shown = chosen(&batch.finished);
    for run in &shown {
        if batch.planned > 1 {
            let at: Vec<String> = run.parameters.iter().map(|(key, value)| format!("{key} = {value}")).collect();
            let at = if at.is_empty() { String::new() } else { format!(", {}", at.join(", ")) };
            page.heading(&format!("Run {}{at}, seed {}", run.number, run.results.seed));
            page.folded("Series and tables", |page| one(page, &run.results));
        } else {
            page.heading("The run");
            one(&mut page, &run.results);
        }
    }
    if batch.finished.len() > shown.len() {
        let rest = batch.finished.len() - shown.len();
        page.note(&format!(
            "Shown are {} runs, evenly over the points of the sweeps, each with its first seed. The other {rest} are in \
             summary.json, runs.csv, flows.csv and links.csv.",
            shown.len()
        ));
    }
    again(&mut page, file, batch);
    page.finish()
}

/// What it is, and how it came out.
fn summary(page: &mut Page, file: &File, batch: &Batch, expected: &[Expected]) {
    if !file.description().is_empty() {
        page.paragraph(file.description());
    }
    let from = match (file.paper(), file.figure()) {
        (Some(paper), Some(figure)) => format!(", {paper}, {figure}"),
        (Some(paper), None) => format!(", {paper}"),
        _ => String::new(),
    };
    page.note(&format!(
        "{}{from}. {} of {} runs, fairspan {VERSION}. Throughput counts IP bytes that arrive, goodput payload that the \
         application gets; Mbit is 10^6 bits, kB 1000 bytes.",
        file.name(),
        batch.finished.len(),
        batch.planned
    ));
    if batch.interrupted {
        page.paragraph("Interrupted: this is what was finished.");
    }
    if !expected.is_empty() {
        let hold = expected.iter().filter(|expected| expected.holds).count();
        page.paragraph(&format!("Of {} values that the file expects, {hold} came out so.", expected.len()));
    }
    for warning in warnings(&batch.finished) {
        page.paragraph(&format!("Warning: {warning}."));
    }
}

/// The first run of each point, of many points evenly some.
fn chosen(finished: &[Finished]) -> Vec<&Finished> {
    let points: Vec<&Finished> = finished.chunk_by(|a, b| a.point == b.point).map(|runs| &runs[0]).collect();
    if points.len() == 1 {
        return finished.iter().take(MOST_RUNS).collect();
    }
    let count = points.len().min(MOST_RUNS);
    (0..count).map(|n| points[n * (points.len() - 1) / (count - 1).max(1)]).collect()
}

/// What it takes to run this again.
fn again(page: &mut Page, file: &File, batch: &Batch) {
    page.heading("To run it again");
    let quoted = |text: &str| {
        let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "._-/=:%+,".contains(c));
        if plain { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
    };
    let mut command = format!("fairspan sim {}", quoted(file.name()));
    for (key, value) in file.settings() {
        let _ = write!(command, " --set {}", quoted(&format!("{key}={value}")));
    }
    if file.seeds_are_set() {
        for seed in file.seeds() {
            let _ = write!(command, " --seed {seed}");
        }
    }
    page.paragraph(&format!("With fairspan {VERSION} and the text below as {}:", file.name()));
    page.verbatim(&command);
    let bits = batch.finished.first().map_or(String::new(), |run| {
        format!("The same run has the same log hash: run {} has {}.", run.number, hash(run.results.log_hash))
    });
    page.note(&bits);
    page.folded("The scenario", |page| page.verbatim(file.text()));
}

fn one(page: &mut Page, results: &Results) {
    for svg in timeline::of_run(results) {
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
        "Goodput {} in all over {} s, Jain's index {}. {} packets sent = {} delivered + {dropped} dropped + {} on the \
         way. Seed {}, log hash {}, {} events.",
        text::quantity(results.goodput, "bit/s"),
        super::words::short(results.measured_s),
        text::index(results.jain),
        conservation.sent,
        conservation.delivered,
        conservation.in_flight,
        results.seed,
        hash(results.log_hash),
        results.events
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_several_parts_begins_with_a_table_of_contents_that_leads_to_each() {
        let mut page = Page::new("t");
        ["one", "two & more", "three"].iter().for_each(|text| page.heading(text));
        page.folded("all <runs>", |page| page.verbatim("a < b"));
        let html = page.finish();
        let (contents, body) = html.split_once("</nav>").expect("a table of contents");
        for (number, text) in ["one", "two &amp; more", "three"].into_iter().enumerate() {
            let number = number + 1;
            assert!(contents.contains(&format!("<a href=\"#part{number}\">{text}</a>")), "{contents}");
            assert!(body.contains(&format!("<h2 id=\"part{number}\">{text}</h2>")), "{body}");
        }
        assert!(body.contains("<summary>all &lt;runs&gt;</summary>") && body.contains("<pre>a &lt; b</pre>"), "{body}");
    }

    #[test]
    fn of_many_points_those_are_shown_that_lie_evenly_with_their_first_seeds() {
        let run = |number: usize| {
            let results = Results { seed: (number % 4) as u64, ..Results::default() };
            Finished { number, point: number / 4, parameters: vec![], results }
        };
        let all: Vec<Finished> = (0..400).map(run).collect();
        let shown = chosen(&all);
        assert_eq!((shown.len(), shown[0].point, shown[11].point), (MOST_RUNS, 0, 99));
        assert!(shown.iter().all(|run| run.results.seed == 0));
        assert_eq!(chosen(&all[..4]).len(), 4, "of one point all seeds");
        assert!(chosen(&[]).is_empty());
    }

    #[test]
    fn a_page_escapes_what_it_is_given_and_fetches_nothing() {
        let mut page = Page::new("<script>alert(1)</script>");
        page.paragraph("a & b");
        let rows = Rows { head: vec!["x".into()], rows: vec![vec!["<b>".into()], vec!["differs".into()]], more: 3 };
        page.table(&rows);
        let html = page.finish();
        assert!(!html.contains("<script") && !html.contains("<b>") && !html.contains("http"), "{html}");
        assert!(html.contains("class=\"differs\"") && html.contains("and 3 more"), "{html}");
        assert!(!html.contains("<nav>"), "one part needs no table of contents");
        assert_eq!(html.matches("<td").count(), html.matches("</td>").count());
    }
}
