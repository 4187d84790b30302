//! The Python package, tried from Python: each test runs a file of `tests/python` with the module that was just built.
//!
//! `FAIRSPAN_PYTHON` names another interpreter than `python3`. Where there is none, the tests say so and are skipped.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The first version that the module works with.
const OLDEST: &str = "import sys; sys.exit(sys.version_info < (3, 9))";

/// The folder of the program that runs this test, where cargo puts what it builds.
fn built() -> PathBuf {
    let test = std::env::current_exe().expect("this test has a path");
    test.parent().and_then(Path::parent).expect("it is in a folder of cargo's").to_owned()
}

/// The package with its module, as it would be installed.
fn package() -> &'static Path {
    static PACKAGE: OnceLock<PathBuf> = OnceLock::new();
    PACKAGE.get_or_init(|| {
        let site = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("site-{}", std::process::id()));
        let package = site.join("fairspan");
        let _ = std::fs::remove_dir_all(&package);
        std::fs::create_dir_all(&package).expect("a folder");
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/fairspan");
        for entry in std::fs::read_dir(sources).expect("the package") {
            let path = entry.expect("an entry").path();
            if path.is_file() {
                std::fs::copy(&path, package.join(path.file_name().expect("a name"))).expect("copied");
            }
        }
        let module = built().join("deps/libfairspan_python.so");
        std::fs::copy(&module, package.join("_native.abi3.so")).unwrap_or_else(|e| panic!("{}: {e}", module.display()));
        site
    })
}

fn python(arguments: &[&str]) -> Option<Output> {
    let program = std::env::var_os("FAIRSPAN_PYTHON").unwrap_or_else(|| "python3".into());
    let mut command = Command::new(program);
    command.args(arguments).current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python"));
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    let given = std::env::var_os("FAIRSPAN_PROGRAM").map(PathBuf::from);
    let beside = Some(built().join("fairspan")).filter(|path| path.is_file());
    if let Some(path) = given.or(beside) {
        command.env("FAIRSPAN_PROGRAM", path);
    }
    command.env("PYTHONPATH", package()).output().ok()
}

/// Runs one file of tests; what was skipped there is told once, with the reasons.
#[track_caller]
fn passes(file: &str) {
    if !python(&["-c", OLDEST]).is_some_and(|output| output.status.success()) {
        println!("skipped: no Python from 3.9 on");
        return;
    }
    let output = python(&["-m", "unittest", "-v", file]).expect("it ran just now");
    let told = String::from_utf8_lossy(&output.stderr);
    println!("{told}");
    assert!(output.status.success(), "{told}\n{}", String::from_utf8_lossy(&output.stdout));
    let mut reasons: Vec<&str> =
        told.lines().filter_map(|line| line.split_once(" skipped ")).map(|(_, why)| why).collect();
    reasons.dedup();
    if !reasons.is_empty() {
        println!("skipped: {}", reasons.join(", ").replace(['\'', '"'], ""));
    }
}

/// A test for each file.
macro_rules! files {
    ($($name:ident: $file:literal;)*) => { $(#[test] fn $name() { passes($file); })* };
}

files! {
    results_are_those_of_the_command_line_bit_for_bit: "test_results";
    what_the_command_line_refuses_is_refused_in_its_words: "test_errors";
    scenarios_are_read_built_and_swept: "test_scenarios";
    runs_end_with_a_signal_and_go_on_in_threads_and_forks: "test_running";
    a_law_may_be_a_python_class: "test_laws";
    points_are_kept_and_not_run_again: "test_cache";
    captures_and_rings_are_those_of_the_command_line: "test_others";
    examples_in_the_docstrings_run_and_hints_are_complete: "test_documents";
    tables_are_taken_by_pandas_polars_duckdb_and_pyarrow: "test_frames";
    points_on_ray_give_the_same_bits_though_a_worker_is_killed: "test_ray";
    notebooks_run: "test_notebooks";
}
