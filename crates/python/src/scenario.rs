//! Scenarios: read, looked at, and run.

use crate::failure::{self, Error, detached, input, study};
use crate::law::Laws;
use crate::results::{Native, Results};
use crate::watch::{Failure, Waiting};
use fairspan_sim::scenario::{File, Run};
use fairspan_study::scenarios::{choose, figures as kept};
use fairspan_study::simulation::{self, Options};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

/// What is to be run of a scenario, and how: a dictionary.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Wanted {
    /// In place of the scenario's, if there are any.
    seeds: Vec<u64>,
    /// Threads at most; 0: as many as there are cores.
    jobs: usize,
    /// The first point of the sweeps that is wanted, and the one after the last.
    points: Option<(usize, usize)>,
    /// Names of flows, and the classes of their laws.
    laws: Vec<(String, Py<PyAny>)>,
    /// Called with the share that is done, runs that are over, runs in all and simulated seconds.
    progress: Option<Py<PyAny>>,
}

/// A scenario that has been read and checked.
#[pyclass(frozen, subclass, module = "fairspan._native")]
pub(crate) struct Scenario {
    file: Arc<File>,
    /// The files that it reads, as they were then.
    files: Given,
}

/// Files that are not looked for: their names, and what is in them.
type Given = HashMap<String, Vec<u8>>;

impl Scenario {
    fn parse(
        py: Python<'_>,
        path: &Path,
        text: &str,
        settings: &[(String, String)],
        given: &Given,
    ) -> PyResult<Scenario> {
        let mut files = Given::new();
        let mut find = |name: &str| {
            let content = match given.get(name) {
                Some(content) => content.clone(),
                None => simulation::beside(path, name)?,
            };
            files.insert(name.to_owned(), content.clone());
            Ok(content)
        };
        let file = detached(py, || simulation::parse(path, text, settings, &mut find))?;
        let file = file.map_err(|errors| failure::scenario(py, &errors))?;
        Ok(Scenario { file: Arc::new(file), files })
    }

    /// The file with these seeds in place of its own.
    fn seeded(&self, seeds: Vec<u64>) -> PyResult<Arc<File>> {
        if seeds.is_empty() {
            return Ok(Arc::clone(&self.file));
        }
        let mut file = File::clone(&self.file);
        simulation::set_seeds(&mut file, seeds, "seed").map_err(|error| study(&error))?;
        Ok(Arc::new(file))
    }
}

#[pymethods]
impl Scenario {
    /// Reads TOML text, which is called `name` in errors; files that it names are looked for beside that.
    #[new]
    #[pyo3(signature = (text, name, settings, files = Given::new()))]
    fn new(
        py: Python<'_>,
        text: &str,
        name: PathBuf,
        settings: Vec<(String, String)>,
        files: Given,
    ) -> PyResult<Scenario> {
        Scenario::parse(py, &name, text, &settings, &files)
    }

    /// Reads a file.
    #[staticmethod]
    fn read(py: Python<'_>, path: PathBuf, settings: Vec<(String, String)>) -> PyResult<Scenario> {
        let text = py.detach(|| std::fs::read_to_string(&path)).map_err(|error| match error.raw_os_error() {
            Some(number) => PyOSError::new_err((number, error.to_string(), path.clone())),
            None => input(format!("{}: {error}", path.display())),
        })?;
        Scenario::parse(py, &path, &text, &settings, &Given::new())
    }

    #[getter]
    fn name(&self) -> &str {
        self.file.name()
    }

    #[getter]
    fn files<'py>(&self, py: Python<'py>) -> HashMap<&str, Bound<'py, PyBytes>> {
        self.files.iter().map(|(name, content)| (name.as_str(), PyBytes::new(py, content))).collect()
    }

    #[getter]
    fn title(&self) -> &str {
        self.file.title()
    }

    #[getter]
    fn description(&self) -> &str {
        self.file.description()
    }

    #[getter]
    fn text(&self) -> &str {
        self.file.text()
    }

    #[getter]
    fn settings(&self) -> Vec<(String, String)> {
        self.file.settings().to_vec()
    }

    #[getter]
    fn seeds(&self) -> Vec<u64> {
        self.file.seeds().to_vec()
    }

    #[getter]
    fn parameters(&self) -> Vec<String> {
        self.file.parameters().map(str::to_owned).collect()
    }

    #[getter]
    fn points(&self) -> usize {
        self.file.points()
    }

    /// Runs it.
    fn run_all(&self, py: Python<'_>, wanted: Wanted) -> PyResult<Results> {
        let Wanted { seeds, jobs, points, laws, progress } = wanted;
        let file = self.seeded(seeds)?;
        let failure = Arc::new(Failure::new(None));
        let laws = Laws::new(laws, &file, Arc::clone(&failure))?;
        let prepare = |run: &mut Run| laws.put(run);
        let ran = detached(py, || {
            let seeds = file.seeds().len();
            let options = Options {
                jobs,
                captures: None,
                runs: points.map(|(first, end)| (first * seeds, end.saturating_mul(seeds))),
                prepare: (!laws.is_empty()).then_some(&prepare),
            };
            let batch = simulation::run(&file, &options, &mut Waiting::new(progress.as_ref(), &failure))?;
            let expected = simulation::expected(&file, &batch)?;
            Ok((batch, expected))
        })?;
        // What a law or a signal said comes first: the runs were ended for it.
        if let Some(error) = failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Err(error);
        }
        let (batch, expected) = ran.map_err(|error: fairspan_study::Error| study(&error))?;
        if batch.interrupted {
            return Err(Error::new_err("the runs were ended before they were done"));
        }
        Ok(Results::of(Native { file, batch, expected }))
    }
}

/// The figures and tables of the papers: their keys and titles.
#[pyfunction]
pub(crate) fn figures(py: Python<'_>) -> PyResult<Vec<(String, String)>> {
    let all = py.detach(kept);
    let title = |figure: fairspan_study::scenarios::Figure| {
        let scenario = Scenario::parse(py, &figure.path, &figure.text, &[], &Given::new())?;
        Ok((figure.key, scenario.file.title().to_owned()))
    };
    all.into_iter().map(title).collect()
}

/// The text and the path of each figure that `keys` name.
#[pyfunction]
pub(crate) fn figure(keys: Vec<String>) -> PyResult<Vec<(String, PathBuf, String)>> {
    let chosen = choose(&kept(), &keys).map_err(|error| study(&error))?;
    Ok(chosen.into_iter().map(|figure| (figure.key, figure.path, figure.text)).collect())
}
