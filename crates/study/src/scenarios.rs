//! The scenarios of the papers' figures: those of the checkout that the program is run in, else those it was built with.

use crate::Error;
use crate::embedded::{self, EMBEDDED};
use crate::report::nearest;
use std::path::{Path, PathBuf};

/// Folders whose scenarios are tests, not figures.
const NO_FIGURES: [&str; 2] = ["smoke", "regress"];

/// A figure or table of a paper, as a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// `PAPER.NAME`, such as `striping.fig15`.
    pub key: String,
    /// For messages, and what the names of other files in it are relative to.
    pub path: PathBuf,
    /// The scenario.
    pub text: String,
}

/// The folder `scenarios` of the checkout around the working directory.
pub fn checkout() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    here.ancestors().map(|folder| folder.join("scenarios")).find(|folder| folder.join("claims.toml").is_file())
}

/// The scenario at `path` below scenarios/, and where it is.
pub fn read(path: &str) -> Option<(PathBuf, String)> {
    if let Some(file) = checkout().map(|folder| folder.join(path)) {
        return std::fs::read_to_string(&file).ok().map(|text| (file, text));
    }
    let file = Path::new("scenarios").join(path);
    embedded::at(&file).map(|text| (file, text.to_owned()))
}

/// All figures, by key.
pub fn figures() -> Vec<Figure> {
    let mut paths = match checkout() {
        Some(folder) => below(&folder),
        None => EMBEDDED.iter().map(|(name, _)| (*name).to_owned()).collect(),
    };
    paths.sort();
    let figure = |path: String| {
        let key = key(&path)?;
        let (path, text) = read(&path)?;
        Some(Figure { key, path, text })
    };
    paths.into_iter().filter_map(figure).collect()
}

/// `striping/fig15.toml` is `striping.fig15`; what is no figure has no key.
fn key(path: &str) -> Option<String> {
    let (paper, name) = path.strip_suffix(".toml")?.split_once('/')?;
    (!NO_FIGURES.contains(&paper)).then(|| format!("{paper}.{}", name.replace('/', ".")))
}

/// The figures that `keys` name: whole keys, or the beginning of some.
///
/// # Errors
/// [`Error::Input`] where a key names none.
pub fn choose(figures: &[Figure], keys: &[String]) -> Result<Vec<Figure>, Error> {
    let mut chosen: Vec<Figure> = Vec::new();
    for key in keys {
        let exact = figures.iter().filter(|figure| figure.key == *key);
        // `striping` is a paper, `striping.fig15` may go on with `-` and words.
        let begins = figures
            .iter()
            .filter(|figure| figure.key.strip_prefix(key.as_str()).is_some_and(|rest| rest.starts_with(['.', '-'])));
        let found: Vec<&Figure> = exact.chain(begins).collect();
        if found.is_empty() {
            let near = nearest(key, figures.iter().map(|figure| figure.key.as_str()));
            let hint = if near.is_empty() { String::new() } else { format!("; did you mean `{near}`?") };
            return Err(Error::Input(format!("no figure `{key}`{hint} (`fairspan figure` lists all)")));
        }
        for figure in found {
            if !chosen.contains(figure) {
                chosen.push(figure.clone());
            }
        }
    }
    Ok(chosen)
}

/// The TOML files in the folders below `folder`, as paths below it.
fn below(folder: &Path) -> Vec<String> {
    let entries = |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let papers = entries(folder).filter(|path| path.is_dir());
    let files = papers.flat_map(|paper| entries(&paper).collect::<Vec<_>>());
    let toml = files.filter(|path| path.extension().is_some_and(|extension| extension == "toml"));
    toml.filter_map(|path| Some(path.strip_prefix(folder).ok()?.to_str()?.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_the_papers_folder_and_the_files_name() {
        assert_eq!(key("striping/fig15.toml").as_deref(), Some("striping.fig15"));
        assert_eq!(key("smoke/bond.toml"), None);
        assert_eq!(key("claims.toml"), None);
        assert_eq!(key("striping/trace.csv"), None);
    }

    #[test]
    fn the_program_carries_the_scenarios_of_its_checkout() {
        let folder = checkout().expect("tests run in the checkout");
        for path in below(&folder) {
            let (_, text) =
                EMBEDDED.iter().find(|(name, _)| *name == path).unwrap_or_else(|| panic!("{path} is missing"));
            assert_eq!(std::fs::read_to_string(folder.join(&path)).expect("a scenario"), **text, "{path}");
        }
    }

    fn figure(key: &str) -> Figure {
        Figure { key: key.into(), path: PathBuf::new(), text: String::new() }
    }

    #[test]
    fn a_key_names_a_figure_its_beginning_all_that_begin_so() {
        let figures = ["rings.fig1", "striping.fig15-pvc", "striping.fig1", "striping.table1"].map(figure);
        let keys = |wanted: &[&str]| {
            let wanted: Vec<String> = wanted.iter().map(|&key| key.to_owned()).collect();
            choose(&figures, &wanted).map(|chosen| chosen.into_iter().map(|figure| figure.key).collect::<Vec<_>>())
        };
        assert_eq!(keys(&["striping.fig15"]).unwrap(), ["striping.fig15-pvc"]);
        assert_eq!(keys(&["striping"]).unwrap().len(), 3);
        assert_eq!(keys(&["striping.fig1", "striping"]).unwrap().len(), 3, "none twice");
        let error = keys(&["striping.tabel1"]).unwrap_err().to_string();
        assert!(error.contains("did you mean `striping.table1`"), "{error}");
    }
}
