//! What a study gave: the document, its tables, and what the command line makes of it.

use crate::document::Node;
use crate::failure::{Error, detached, study};
use crate::merge::join;
use crate::table::{Rows, Table};
use arrow_array::{ArrayRef, Float64Array};
use fairspan_sim::scenario::File;
use fairspan_study::report::{self, Document, summary};
use fairspan_study::simulation::{Batch, Expected};
use pyo3::exceptions::{PyIndexError, PyKeyError};
use pyo3::prelude::*;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// The tables by the names of what they are of, where these are within a run, and which columns even a table without rows has.
const TABLES: [(&str, &[&str], &[&str]); 13] = [
    ("runs", &[], &["log_hash", "events"]),
    ("flows", &["flows"], &["name"]),
    ("transfers", &["flows", "transfers", "records"], &["flow", "start_s", "bytes", "duration_s", "slowdown"]),
    ("classes", &["flows", "transfers", "classes"], &["flow", "up_to"]),
    ("links", &["links"], &["name"]),
    ("drops", &["conservation", "dropped"], &["place", "reason", "packets"]),
    ("bonds", &["bonds"], &["name"]),
    ("rings", &["rings"], &["name"]),
    ("limits", &["rings", "limits"], &["ring", "name"]),
    ("ring_links", &["rings", "links"], &["ring", "name"]),
    ("ring_events", &["rings", "events"], &["ring", "at_s", "at", "what"]),
    ("ring_drops", &["rings", "dropped"], &["ring", "place", "reason", "packets"]),
    ("splits", &["splits"], &["name"]),
];

/// What was run in this process.
pub(crate) struct Native {
    pub(crate) file: Arc<File>,
    pub(crate) batch: Batch,
    pub(crate) expected: Vec<Expected>,
}

/// What a study gave.
#[pyclass(frozen, subclass, module = "fairspan._native")]
pub(crate) struct Results {
    text: OnceLock<String>,
    document: OnceLock<Node>,
    /// `None`: it came from elsewhere.
    native: Option<Native>,
}

impl Results {
    /// Of a document.
    pub(crate) fn of_text(text: String) -> Results {
        Results { text: OnceLock::from(text), document: OnceLock::new(), native: None }
    }

    /// Of what was run here.
    pub(crate) fn of(native: Native) -> Results {
        Results { text: OnceLock::new(), document: OnceLock::new(), native: Some(native) }
    }

    fn text(&self) -> &str {
        self.text.get_or_init(|| {
            let document =
                self.native.as_ref().map(|native| Document::new(&native.file, &native.batch, &native.expected));
            document.map(|document| document.to_json()).unwrap_or_default()
        })
    }

    fn document(&self) -> PyResult<&Node> {
        if let Some(document) = self.document.get() {
            return Ok(document);
        }
        let read = serde_json::from_str(self.text());
        let read = read.map_err(|error| Error::new_err(format!("no results of a study: {error}")))?;
        Ok(self.document.get_or_init(|| read))
    }

    fn runs(&self) -> PyResult<&[Node]> {
        Ok(self.document()?.at("runs").map_or(&[], Node::elements))
    }

    fn native(&self, what: &str) -> PyResult<&Native> {
        self.native.as_ref().ok_or_else(|| {
            Error::new_err(format!(
                "{what} needs the runs themselves, and these results came from other processes or a folder of results: run the \
                 scenario here, without `on` and `cache`"
            ))
        })
    }

    /// The rows of a list at the top of the document.
    fn listed(&self, key: &str) -> PyResult<Table> {
        let mut rows = Rows::default();
        for element in self.document()?.at(key).map_or(&[][..], Node::elements) {
            let mut cells = Vec::new();
            // Swept parameters have columns with their own names.
            for (name, node) in element.entries() {
                if name == "at" { parameters(node, &mut cells) } else { flatten(name, node, &mut cells) }
            }
            rows.add(cells);
        }
        rows.finish()
    }
}

/// A swept parameter's value: a number where it is one, else as it is written, without quotation marks.
fn parameters(node: &Node, cells: &mut Vec<(String, Node)>) {
    for (name, value) in node.entries() {
        let value = match value {
            Node::Text(text) => match (text.parse::<i64>(), text.parse::<f64>()) {
                (Ok(whole), _) => Node::Whole(whole.into()),
                (_, Ok(real)) => Node::Real(real),
                _ => Node::Text(text.trim_matches('"').to_owned()),
            },
            other => other.clone(),
        };
        cells.push((name.clone(), value));
    }
}

/// The cells of what is called `name`: an object's one by one, named after both. Lists have tables of their own, or stay in the document.
fn flatten(name: &str, node: &Node, cells: &mut Vec<(String, Node)>) {
    match node {
        Node::Object(entries) => {
            for (key, node) in entries {
                // The word says nothing that its members do not.
                if key == "percentiles" {
                    flatten(name, node, cells);
                } else {
                    flatten(&format!("{name}_{}", key.replace('.', "_")), node, cells);
                }
            }
        }
        Node::List(_) => {}
        other => cells.push((name.to_owned(), other.clone())),
    }
}

/// Which run it is, in the first columns of every table.
fn which(run: &Node) -> Vec<(String, Node)> {
    let mut cells = Vec::new();
    for key in ["run", "point", "seed"] {
        cells.push((key.to_owned(), run.at(key).cloned().unwrap_or(Node::Null)));
    }
    run.at("parameters").into_iter().for_each(|node| parameters(node, &mut cells));
    cells
}

/// The rows that stand at `path` below `node`; `before` are the cells of what it is in.
fn walk(path: &[&str], node: &Node, before: &[(String, Node)], rows: &mut Rows) {
    let Some((key, rest)) = path.split_first() else {
        let mut cells = before.to_vec();
        for (name, node) in
            node.entries().iter().filter(|(name, _)| !["run", "point", "seed", "parameters"].contains(&name.as_str()))
        {
            flatten(name, node, &mut cells);
        }
        rows.add(cells);
        return;
    };
    for inner in node.at(key).map_or(&[][..], Node::elements) {
        let mut before = before.to_vec();
        if let (Some(name), false) = (inner.at("name"), rest.is_empty()) {
            before.push((key.trim_end_matches('s').to_owned(), name.clone()));
        }
        walk(rest, inner, &before, rows);
    }
}

/// The results of a study from those of its parts, each a JSON document, in the order of their points.
#[pyfunction]
pub(crate) fn merge(py: Python<'_>, parts: Vec<String>) -> PyResult<Results> {
    detached(py, || join(&parts))?.map(Results::of_text)
}

#[pymethods]
impl Results {
    /// Results that were kept as JSON.
    #[staticmethod]
    fn from_json(py: Python<'_>, text: String) -> PyResult<Results> {
        // What is no document of a study, or only nearly, is not taken for one.
        detached(py, || join(std::slice::from_ref(&text)))??;
        Ok(Results::of_text(text))
    }

    /// The document that `fairspan sim --json` prints, byte for byte.
    fn json(&self, py: Python<'_>) -> PyResult<String> {
        detached(py, || self.text().to_owned())
    }

    /// Runs of the whole study.
    #[getter]
    fn planned(&self) -> PyResult<usize> {
        match self.document()?.at("planned") {
            Some(Node::Whole(planned)) => Ok(usize::try_from(*planned).unwrap_or_default()),
            _ => Ok(0),
        }
    }

    /// Whether all that the scenario expects came out; `None` where it expects nothing.
    #[getter]
    fn holds(&self) -> PyResult<Option<bool>> {
        Ok(match self.document()?.at("holds") {
            Some(Node::Bool(holds)) => Some(*holds),
            _ => None,
        })
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(self.runs()?.len())
    }

    /// A table by its name.
    fn table(&self, py: Python<'_>, name: &str) -> PyResult<Table> {
        if ["estimates", "expectations"].contains(&name) {
            return detached(py, || self.listed(name))?;
        }
        let Some((_, path, base)) = TABLES.iter().find(|(known, _, _)| *known == name) else {
            let known: Vec<&str> =
                TABLES.iter().map(|(name, _, _)| *name).chain(["estimates", "expectations"]).collect();
            let near = report::nearest(name, known.iter().copied());
            return Err(PyKeyError::new_err(format!(
                "no table `{name}`; did you mean `{near}`? There are {}",
                known.join(", ")
            )));
        };
        detached(py, || {
            let mut rows = Rows::default();
            for run in self.runs()? {
                walk(path, run, &which(run), &mut rows);
            }
            if rows.is_empty() {
                let first = self.runs()?.first().map(which).unwrap_or_default();
                let first = first.into_iter().map(|(name, _)| name).chain(base.iter().map(|&name| name.to_owned()));
                rows = Rows::with(&first.collect::<Vec<_>>());
            }
            rows.finish()
        })?
    }

    /// What was recorded over time in a run: a column `time`, and one for each series.
    #[pyo3(signature = (run = 0))]
    fn series(&self, run: usize) -> PyResult<Table> {
        let runs = self.runs()?;
        let Some(node) = runs.get(run) else {
            return Err(PyIndexError::new_err(format!("run {run}; there are {} runs, from 0", runs.len())));
        };
        let real = |node: &Node| match node {
            Node::Real(value) => Some(*value),
            Node::Whole(value) => Some(*value as f64),
            _ => None,
        };
        let interval = node.at("series_interval_s").and_then(real).unwrap_or(0.0);
        let text = |node: &Node, key: &str| match node.at(key) {
            Some(Node::Text(text)) => text.clone(),
            _ => String::new(),
        };
        let all = node.at("series").map_or(&[][..], Node::elements);
        let values = |series: &Node| series.at("values").map_or(0, |values| values.elements().len());
        let points = all.iter().map(values).max().unwrap_or(0);
        // A point tells of the interval that ends with it.
        let time = Float64Array::from_iter_values((1..=points).map(|point| point as f64 * interval));
        let mut columns: Vec<(String, String, ArrayRef)> = vec![("time".into(), "s".into(), Arc::new(time))];
        for series in all {
            let values = series.at("values").map_or(&[][..], Node::elements);
            let column = Float64Array::from_iter((0..points).map(|point| values.get(point).and_then(real)));
            columns.push((text(series, "name"), text(series, "unit"), Arc::new(column)));
        }
        let seed = match node.at("seed") {
            Some(Node::Whole(seed)) => seed.to_string(),
            _ => String::new(),
        };
        Table::of(columns, HashMap::from([("seed".to_owned(), seed)]))
    }

    /// What the command line prints without `--json`.
    fn summary(&self, py: Python<'_>) -> PyResult<String> {
        let Native { file, batch, expected } = self.native("summary()")?;
        detached(py, || summary::summary(file, batch, expected))
    }

    /// The plots that the scenario asks for, as SVG.
    fn plots(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let Native { file, batch, expected } = self.native("plots()")?;
        detached(py, || report::plots(file, &batch.finished, expected))
    }

    /// The report as an HTML page.
    fn report(&self, py: Python<'_>) -> PyResult<String> {
        let Native { file, batch, expected } = self.native("report()")?;
        detached(py, || report::html::report(file, batch, expected))
    }

    /// Writes what `fairspan sim --out FOLDER` does.
    fn write(&self, py: Python<'_>, folder: PathBuf) -> PyResult<()> {
        let Native { file, batch, expected } = self.native("write()")?;
        detached(py, || {
            report::folder(&folder)?;
            report::write(&folder, file, batch, expected)
        })?
        .map_err(|error| study(&error))
    }

    fn _repr_html_(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let Ok(Native { file, batch, expected }) = self.native("") else { return Ok(None) };
        detached(py, || {
            let text = summary::summary(file, batch, expected);
            let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            let plots = report::plots(file, &batch.finished, expected);
            let plots = plots.iter().map(|svg| format!("<figure>{svg}</figure>")).collect::<String>();
            Some(format!("<pre>{text}</pre>{plots}"))
        })
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        match &self.native {
            Some(_) => self.summary(py),
            None => Ok(format!("<Results of {} runs>", self.runs()?.len())),
        }
    }
}
