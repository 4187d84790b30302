//! Puts the scenarios into the program: a table of (path below scenarios/, text).

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let root = manifest.join("../../scenarios").canonicalize()?;
    println!("cargo::rerun-if-changed={}", root.display());
    let mut files = Vec::new();
    collect(&root, &mut files)?;
    files.sort();
    let mut table = String::from("&[\n");
    for file in files {
        println!("cargo::rerun-if-changed={}", file.display());
        let name = file.strip_prefix(&root).map_err(io::Error::other)?.to_string_lossy().replace('\\', "/");
        // The text of the table is the same wherever the sources lie, and so is the program.
        let _ = writeln!(
            table,
            "    ({name:?}, include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), {:?}))),",
            format!("/../../scenarios/{name}")
        );
    }
    table.push_str("]\n");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join("scenarios.rs"), table)
}

/// The scenarios of the folders below `folder`: TOML files, and what they refer to.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect_all(&path, files)?;
        }
    }
    Ok(())
}

fn collect_all(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    println!("cargo::rerun-if-changed={}", folder.display());
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let text = path.extension().is_some_and(|e| ["toml", "csv", "graphml", "trace"].iter().any(|text| e == *text));
        if path.is_dir() {
            collect_all(&path, files)?;
        } else if text {
            files.push(path);
        }
    }
    Ok(())
}
