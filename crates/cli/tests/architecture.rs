//! Holds the code to the table of crates in DESIGN.md: who may import whom, and what each crate must not touch.
//!
//! Imports are read from `cargo metadata`, the rest from the sources, with comments and string literals taken out.

#[path = "common/imports.rs"]
mod imports;

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A crate of the workspace and what it may depend on (development aside).
struct Rule {
    package: &'static str,
    /// Crates of this workspace.
    siblings: &'static [&'static str],
    /// Other crates, if the list is closed.
    others: Option<&'static [&'static str]>,
}

const RULES: &[Rule] = &[
    Rule {
        package: "fairspan-core",
        siblings: &[],
        // Small, no_std, and none that reads a clock or entropy.
        others: Some(&["base64", "hashbrown", "foldhash", "libm", "rand_pcg", "slab", "thiserror"]),
    },
    Rule {
        package: "fairspan-sim",
        siblings: &["fairspan-core"],
        others: Some(&["libm", "roxmltree", "serde", "thiserror", "toml"]),
    },
    Rule {
        package: "fairspan-trace",
        siblings: &["fairspan-core"],
        others: Some(&["flate2", "liblzma", "ruzstd", "thiserror"]),
    },
    Rule {
        package: "fairspan-study",
        siblings: &["fairspan-core", "fairspan-sim", "fairspan-trace"],
        others: Some(&[
            "arrow-array",
            "arrow-ipc",
            "arrow-schema",
            "comfy-table",
            "serde",
            "serde_json",
            "strsim",
            "thiserror",
        ]),
    },
    Rule {
        package: "fairspan-python",
        siblings: &["fairspan-core", "fairspan-sim", "fairspan-study", "fairspan-trace"],
        others: Some(&["arrow-array", "arrow-schema", "pyo3", "serde", "serde_json"]),
    },
    Rule { package: "fairspan-live", siblings: &["fairspan-core"], others: None },
    Rule {
        package: "fairspan",
        siblings: &["fairspan-core", "fairspan-sim", "fairspan-study", "fairspan-trace", "fairspan-live"],
        others: None,
    },
    Rule {
        package: "fairspan-fuzz",
        siblings: &["fairspan-core", "fairspan-sim", "fairspan-trace"],
        others: Some(&["libfuzzer-sys"]),
    },
    Rule { package: "fairspan-example-own", siblings: &["fairspan-core", "fairspan-sim"], others: Some(&[]) },
];

/// What the core must not name: it has no clock, entropy, system, threads, nor an order that depends on hashing.
const FORBIDDEN_IN_CORE: &[&str] =
    &["std::", "unsafe", "Instant", "SystemTime", "HashMap", "HashSet", "thread_rng", "getrandom", "RandomState"];

/// Files that import each other in a circle on purpose: one type, whose methods are spread over them. DESIGN.md names them.
const CIRCLES: &[&[&str]] = &[
    &[
        "crates/core/src/bond/fragments.rs",
        "crates/core/src/bond/host.rs",
        "crates/core/src/bond/mod.rs",
        "crates/core/src/bond/receive.rs",
        "crates/core/src/bond/striped.rs",
        "crates/core/src/bond/timers.rs",
        "crates/core/src/bond/transmit.rs",
    ],
    &["crates/sim/src/ring/life.rs", "crates/sim/src/ring/mod.rs", "crates/sim/src/ring/report.rs"],
    &[
        "crates/live/src/config.rs",
        "crates/live/src/config/bond.rs",
        "crates/live/src/config/class.rs",
        "crates/live/src/config/domains.rs",
        "crates/live/src/config/gateway.rs",
        "crates/live/src/config/invited.rs",
        "crates/live/src/config/peer.rs",
        "crates/live/src/config/policy.rs",
        "crates/live/src/config/ring.rs",
        "crates/live/src/config/ring/fit.rs",
        "crates/live/src/config/ring/settings.rs",
        "crates/live/src/config/shape.rs",
    ],
    &["crates/live/src/roles/peers/mod.rs", "crates/live/src/roles/peers/report.rs"],
    &[
        "crates/live/src/roles/ring/links.rs",
        "crates/live/src/roles/ring/mod.rs",
        "crates/live/src/roles/ring/report.rs",
    ],
];

/// The simulator's floors, from the ground up: what stands on one imports from it and from those below.
const FLOORS: &[&[&str]] = &[
    &["multilink.rs", "steps.rs", "results.rs", "tcp/"],
    &["packet.rs", "wire.rs", "engine/"],
    &["endpoint.rs", "metrics/"],
    &["traffic/"],
    &["model.rs", "error.rs"],
    &["node/"],
    &["bond/", "reliable/", "ring/", "split/"],
    &["world/"],
    &["scenario/"],
    &["lib.rs"],
];

const SOURCES: [&str; 7] = [
    "crates/core/src",
    "crates/sim/src",
    "crates/trace/src",
    "crates/study/src",
    "crates/live/src",
    "crates/cli/src",
    "crates/python/src",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace is there")
}

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}

/// Every Rust source below `directory`.
fn sources(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap_or_else(|e| panic!("{}: {e}", directory.display())) {
        let path = entry.expect("a directory entry").path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Whether the module beside or above it includes `path` for tests only.
fn only_for_tests(path: &Path) -> bool {
    let module = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let directory = path.parent().unwrap_or(path);
    let above = [directory.join("mod.rs"), directory.join("lib.rs"), directory.with_extension("rs")];
    let declaration = format!("#[cfg(test)]\nmod {module};");
    let declared = above.iter().any(|above| fs::read_to_string(above).is_ok_and(|text| text.contains(&declaration)));
    // What is below a module for tests is for tests.
    declared || (!directory.ends_with("src") && directory.parent().is_some() && only_for_tests(directory))
}

/// Where the module of a source's tests begins, whoever sees it; one that is a file of its own ends nothing.
fn test_module(text: &str) -> Option<usize> {
    let mark = "\n#[cfg(test)]\n";
    text.match_indices(mark).map(|(at, _)| at).find(|at| {
        let item = text[at + mark.len()..].lines().next().unwrap_or_default();
        names(item, "mod") && !item.ends_with(';')
    })
}

/// The code of a source: without comments, string literals, and everything from its test module on.
fn code(text: &str) -> String {
    let text = &text[..test_module(text).unwrap_or(text.len())];
    let mut code = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    let mut depth = 0_u32;
    while let Some(c) = rest.next() {
        match (c, rest.peek()) {
            ('/', Some('*')) => {
                rest.next();
                depth += 1;
            }
            ('*', Some('/')) if depth > 0 => {
                rest.next();
                depth -= 1;
            }
            _ if depth > 0 => {}
            ('/', Some('/')) => {
                if rest.by_ref().any(|c| c == '\n') {
                    code.push('\n');
                }
            }
            ('"', _) => {
                while let Some(c) = rest.next() {
                    match c {
                        '\\' => drop(rest.next()),
                        '"' => break,
                        _ => {}
                    }
                }
                code.push_str("\"\"");
            }
            // A character literal of a quotation mark, or one that is escaped; a lifetime has neither.
            ('\'', Some('"' | '\\')) => {
                rest.next();
                rest.next();
            }
            _ => code.push(c),
        }
    }
    code
}

/// Whether `word` stands in `code` not as a part of a longer name.
fn names(code: &str, word: &str) -> bool {
    let part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let open_ended = word.ends_with(|c: char| !c.is_alphanumeric());
    code.match_indices(word).any(|(at, _)| {
        !part(code[..at].chars().next_back()) && (open_ended || !part(code[at + word.len()..].chars().next()))
    })
}

#[test]
fn crates_import_only_what_the_design_allows() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("packages");
    let ours: BTreeSet<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    for package in packages {
        let name = package["name"].as_str().expect("a name");
        let rule = RULES
            .iter()
            .find(|rule| rule.package == name)
            .unwrap_or_else(|| panic!("{name} is not in DESIGN.md's table: add it there and here"));
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let needed = dependency["name"].as_str().expect("a name");
            if dependency["kind"] == "dev" {
                continue;
            }
            if ours.contains(needed) {
                assert!(rule.siblings.contains(&needed), "{name} must not import {needed}");
            } else if let Some(others) = rule.others {
                assert!(others.contains(&needed), "{name} must not import {needed}; allowed: {others:?}");
            }
        }
    }
    for rule in RULES {
        assert!(ours.contains(rule.package), "{} is gone: take it out of the table", rule.package);
    }
}

#[test]
fn the_core_has_no_clock_entropy_system_threads_or_unsafe() {
    let directory = root().join(SOURCES[0]);
    let library = fs::read_to_string(directory.join("lib.rs")).expect("lib.rs");
    assert!(library.contains("#![no_std]") && library.contains("#![forbid(unsafe_code)]"));
    for path in sources(&directory).into_iter().filter(|path| !only_for_tests(path)) {
        let code = code(&fs::read_to_string(&path).expect("a source"));
        for word in FORBIDDEN_IN_CORE {
            let at = path.strip_prefix(root()).unwrap_or(&path).display();
            assert!(!names(&code, word), "{at} names `{word}`");
        }
    }
}

#[test]
fn unsafe_code_stands_only_in_the_system_module_of_live_and_says_why() {
    for path in SOURCES.iter().flat_map(|directory| sources(&root().join(directory))) {
        let text = fs::read_to_string(&path).expect("a source");
        let relative = path.strip_prefix(root()).unwrap_or(&path).to_owned();
        if !names(&code(&text), "unsafe") {
            continue;
        }
        let system = relative.starts_with("crates/live/src/sys") || relative == Path::new("crates/live/src/sys.rs");
        assert!(system, "{} has unsafe code; it belongs into crates/live/src/sys.rs", relative.display());
        let lines: Vec<&str> = text.lines().collect();
        for (number, line) in lines.iter().enumerate() {
            let begins = ["unsafe {", "unsafe impl", "unsafe extern"].iter().any(|begin| line.contains(begin));
            if !begins || line.trim_start().starts_with("//") {
                continue;
            }
            let before = &lines[number.saturating_sub(8)..=number];
            let explained = before.iter().any(|line| line.contains("SAFETY"));
            assert!(explained, "{}:{}: unsafe without a SAFETY comment", relative.display(), number + 1);
        }
    }
}

/// Every Rust source that people read, tests and fuzz targets with them.
fn all_sources() -> Vec<PathBuf> {
    ["crates", "examples", "fuzz"].iter().flat_map(|directory| sources(&root().join(directory))).collect()
}

#[test]
fn a_file_holds_one_idea_in_at_most_700_lines() {
    for path in all_sources() {
        let lines = fs::read_to_string(&path).expect("a source").lines().count();
        assert!(lines <= 700, "{} has {lines} lines: it is two files", path.display());
    }
}

#[test]
fn a_function_has_at_most_100_lines() {
    for path in all_sources() {
        let text = fs::read_to_string(&path).expect("a source");
        let lines: Vec<&str> = text.lines().collect();
        for (number, line) in lines.iter().enumerate() {
            let begins = line.trim_start();
            if begins.starts_with("//") || !names(begins, "fn") || line.trim_end().ends_with(';') {
                continue;
            }
            // Formatted code ends a function with a brace under its first letter.
            let end = format!("{}}}", &line[..line.len() - begins.len()]);
            let length = lines[number..].iter().position(|line| *line == end).map_or(0, |last| last + 1);
            let opens = lines[number..].iter().take(12).any(|line| line.ends_with('{'));
            assert!(!opens || length <= 100, "{}:{}: {length} lines in one function", path.display(), number + 1);
        }
    }
}

/// The imports of a crate between its files, tests aside.
fn imports_of(directory: &str) -> imports::Imports {
    let directory = root().join(directory);
    let files = sources(&directory).into_iter().filter(|path| !only_for_tests(path)).map(|path| {
        let name = path.strip_prefix(&directory).unwrap_or(&path).to_string_lossy().into_owned();
        (name, code(&fs::read_to_string(&path).expect("a source")))
    });
    imports::read(&files.collect::<Vec<_>>())
}

#[test]
fn the_circles_of_imports_between_files_are_those_listed() {
    let circles = SOURCES.iter().flat_map(|directory| {
        let paths = move |circle: BTreeSet<String>| circle.iter().map(|file| format!("{directory}/{file}")).collect();
        imports::circles(&imports_of(directory)).into_iter().map(paths)
    });
    let circles: BTreeSet<BTreeSet<String>> = circles.collect();
    let listed: BTreeSet<BTreeSet<String>> =
        CIRCLES.iter().map(|circle| circle.iter().map(|file| (*file).to_owned()).collect()).collect();
    let new: Vec<_> = circles.difference(&listed).collect();
    let gone: Vec<_> = listed.difference(&circles).collect();
    assert!(new.is_empty(), "these files import each other in a circle: {new:#?}");
    assert!(
        gone.is_empty(),
        "these circles are gone, or smaller: take them out of the list, and of DESIGN.md: {gone:#?}"
    );
}

#[test]
fn no_import_of_the_simulator_goes_upward() {
    let floor = |file: &str| {
        let all = FLOORS.iter().enumerate().flat_map(|(floor, places)| places.iter().map(move |place| (floor, place)));
        let mut found = all.filter(|(_, place)| file.starts_with(**place));
        found.next().unwrap_or_else(|| panic!("crates/sim/src/{file} stands on no floor: give it one")).0
    };
    for (file, taken) in imports_of("crates/sim/src") {
        for other in taken {
            assert!(floor(&file) >= floor(&other), "crates/sim/src/{file} imports {other}, which is above it");
        }
    }
}

#[test]
fn imports_are_followed_to_the_file_that_defines_the_name() {
    let files = [
        ("lib.rs", "pub mod a; mod b;"),
        ("a/mod.rs", "mod inner;\npub use inner::{Deep, other as Renamed};\npub struct Own;"),
        ("a/inner.rs", "use super::Own;\npub struct Deep;"),
        ("b.rs", "use crate::a::{self, Deep};\nfn f() { crate::a::Renamed(); x.use_it() }"),
    ];
    let imports = imports::read(&files.map(|(path, code)| (path.to_owned(), code.to_owned())));
    let taken = |file: &str| imports[file].iter().map(String::as_str).collect::<Vec<_>>();
    assert_eq!(taken("b.rs"), ["a/inner.rs", "a/mod.rs"]);
    assert_eq!(taken("a/inner.rs"), ["a/mod.rs"]);
    assert_eq!(taken("a/mod.rs"), [""; 0], "it hands on");
    assert!(imports::circles(&imports).is_empty());
    let files =
        [("lib.rs", "mod a;"), ("a.rs", "mod b;\nfn f(x: b::X) {}"), ("a/b.rs", "use super::f;\npub struct X;")];
    let circles = imports::circles(&imports::read(&files.map(|(path, code)| (path.to_owned(), code.to_owned()))));
    assert_eq!(circles.len(), 1, "{circles:?}");
}

#[test]
fn the_scanner_sees_code_and_neither_comments_nor_strings() {
    let text = "// std::time\n/* std::a /* b */ std:: */ let a = \"std::net \\\" unsafe\"; let c = '\"'; core::mem\n\
                #[cfg(test)]\nconst FEW: u8 = core::u8::MIN;\n#[cfg(test)]\npub(super) mod tests { std::x }\n";
    let code = code(text);
    assert!(!names(&code, "std::") && !names(&code, "unsafe"), "{code}");
    assert!(names(&code, "core::"), "{code}");
    assert!(names("unsafe { }", "unsafe") && !names("unsafe_code", "unsafe") && !names("no_std::x", "std::"));
}
