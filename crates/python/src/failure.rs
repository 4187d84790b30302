//! What goes wrong, as exceptions.

use fairspan_sim::scenario::ReadError;
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyOSError};
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::error::Error as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

create_exception!(
    fairspan,
    Error,
    PyException,
    "What fairspan could not do. All its own exceptions are of this class."
);
create_exception!(
    fairspan,
    InputError,
    Error,
    "The input is wrong. The message says where, and what would be right, in the words of the command line."
);
create_exception!(
    fairspan,
    ScenarioError,
    InputError,
    "A scenario is wrong. `problems` is a list of all that is wrong, each with `file`, `line`, `column`, `key` and `message`."
);

/// What a problem is made of.
type Parts<'a> = (&'a str, u32, u32, &'a str, &'a str);

/// One thing that is wrong with a scenario.
#[pyclass(frozen, get_all, module = "fairspan")]
pub(crate) struct Problem {
    file: String,
    line: u32,
    column: u32,
    key: String,
    message: String,
}

#[pymethods]
impl Problem {
    #[new]
    fn new(file: String, line: u32, column: u32, key: String, message: String) -> Problem {
        Problem { file, line, column, key, message }
    }

    /// What it takes to make it again in another process.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyType>, Parts<'_>)> {
        Ok((py.get_type::<Problem>(), (&self.file, self.line, self.column, &self.key, &self.message)))
    }

    fn __repr__(&self) -> String {
        format!("<Problem {}:{}:{} {}: {}>", self.file, self.line, self.column, self.key, self.message)
    }
}

/// Adds the exceptions to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("Error", py.get_type::<Error>())?;
    module.add("InputError", py.get_type::<InputError>())?;
    module.add("ScenarioError", py.get_type::<ScenarioError>())?;
    module.add_class::<Problem>()
}

/// Input that is wrong.
pub(crate) fn input(message: impl Into<String>) -> PyErr {
    InputError::new_err(message.into())
}

/// Everything that is wrong with a scenario.
pub(crate) fn scenario(py: Python<'_>, errors: &[ReadError]) -> PyErr {
    let error = ScenarioError::new_err(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
    let problems = errors.iter().map(|error| Problem {
        file: error.file.clone(),
        line: error.line,
        column: error.column,
        key: error.key.clone(),
        message: error.problem.to_string(),
    });
    match error.value(py).setattr("problems", problems.collect::<Vec<Problem>>()) {
        Ok(()) => error,
        Err(other) => other,
    }
}

/// What a study came to.
pub(crate) fn study(error: &fairspan_study::Error) -> PyErr {
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    match error {
        // The command line puts its name before each further line.
        fairspan_study::Error::Scenario(errors) => Python::attach(|py| scenario(py, errors)),
        fairspan_study::Error::Input(text) => input(text.replace("\nfairspan: ", "\n")),
        fairspan_study::Error::Write { source, .. } => match source.raw_os_error() {
            Some(number) => PyOSError::new_err((number, format!("{error}{cause}"))),
            None => PyOSError::new_err(format!("{error}{cause}")),
        },
        _ => Error::new_err(format!("{error}{cause}")),
    }
}

/// Runs `work` without the interpreter; a panic in it becomes an exception.
pub(crate) fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    guarded(|| py.detach(work))
}

/// Runs `work`; a panic in it becomes an exception.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> PyResult<T> {
    // What `work` had at hand is not looked at again.
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let told = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let told = told.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no reason".to_owned());
        Error::new_err(format!("this is a mistake in fairspan, please report it: {told}"))
    })
}
