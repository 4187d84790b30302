//! A report as a folder of files.

#[cfg(feature = "arrow")]
use super::arrow;
use super::document::Document;
use super::{html, series, sheet, transfers};
use crate::Error;
use crate::simulation::{Batch, Expected};
use fairspan_sim::scenario::File;
use std::path::Path;

/// Makes the folder for a report.
///
/// # Errors
/// [`Error::Input`] where that is not possible.
pub fn make(path: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(path).map_err(|error| Error::Input(format!("--out {}: {error}", path.display())))
}

/// Writes everything into `folder`: summary.json, report.html, the results as CSV files, and a CSV file for the series of each
/// run, with an Arrow file beside it if the program was built with that feature.
///
/// # Errors
/// When a file cannot be written.
pub fn write(folder: &Path, file: &File, batch: &Batch, expected: &[Expected]) -> Result<(), Error> {
    let put = |name: &str, text: String| {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|error| Error::write(&path, error))
    };
    put("summary.json", Document::new(file, batch, expected).to_json() + "\n")?;
    put("report.html", html::report(file, batch, expected))?;
    for (name, text) in sheet::all(file, &batch.finished).into_iter().chain(transfers::sheets(file, &batch.finished)) {
        put(name, text)?;
    }
    for run in batch.finished.iter().filter(|run| !run.results.series.is_empty()) {
        let name = if batch.planned > 1 { format!("series-{}", run.number) } else { "series".to_owned() };
        series::write(&folder.join(format!("{name}.csv")), &run.results)?;
        #[cfg(feature = "arrow")]
        arrow::write(&folder.join(format!("{name}.arrow")), file.title(), &run.results)?;
    }
    Ok(())
}
