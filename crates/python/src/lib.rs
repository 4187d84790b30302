//! The Python module `fairspan._native`: what the package `fairspan` (in `python/`) is made of.
//!
//! The numbers are those of `fairspan sim --json`, bit for bit, because both are the same document (`fairspan-study`). While
//! something is computed the interpreter is free for other threads, and is asked for signals every tenth of a second. Errors and
//! panics become exceptions ([`failure`]).

#![allow(
    rustdoc::broken_intra_doc_links,
    rustdoc::private_intra_doc_links,
    reason = "these documents are Python's: brackets are lists"
)]

mod captures;
mod document;
mod failure;
mod law;
mod merge;
mod results;
mod rings;
mod scenario;
mod table;
mod watch;

use pyo3::prelude::*;

/// What stands behind the package `fairspan`.
#[pymodule]
#[pyo3(name = "_native")]
fn native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    failure::add(module)?;
    module.add_class::<scenario::Scenario>()?;
    module.add_class::<results::Results>()?;
    module.add_class::<table::Table>()?;
    module.add_class::<law::Sent>()?;
    module.add_class::<law::Acked>()?;
    module.add_class::<law::Congested>()?;
    for function in [
        wrap_pyfunction!(scenario::figures, py)?,
        wrap_pyfunction!(scenario::figure, py)?,
        wrap_pyfunction!(results::merge, py)?,
        wrap_pyfunction!(captures::flows, py)?,
        wrap_pyfunction!(rings::rias, py)?,
    ] {
        module.add_function(function)?;
    }
    #[cfg(debug_assertions)]
    module.add_function(wrap_pyfunction!(panic, py)?)?;
    Ok(())
}

/// Panics, for the test of what becomes of that.
#[cfg(debug_assertions)]
#[pyfunction(name = "_panic")]
fn panic(py: Python<'_>) -> PyResult<()> {
    failure::detached(py, || panic!("tried"))
}
