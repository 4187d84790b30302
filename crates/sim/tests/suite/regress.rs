//! Every kept scenario still does what it did: the hash of its event log is the one that `scenarios/regress/hashes.json`
//! keeps.
//!
//! A log's hash covers every packet that entered, left or was dropped anywhere, with its time. The quick test runs the
//! first, the middle and the last run of each file for its first [`EVENTS`] events; the long one runs all points of all
//! files to their end, with all seeds, or with the first where there are more than [`SEEDS`]. A change that is meant to change what happens renews the file
//! with `UPDATE_HASHES=1`, and says why under `changed` in it; `UPDATE_HASHES=gateway/` renews what begins so, and runs only
//! that.

use fairspan_sim::scenario::File;
use fairspan_sim::world::World;
use serde_json::{Map, Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// How far the quick test follows a run.
const EVENTS: u64 = 20_000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

/// How many seeds a file may have of which the long test runs all.
const SEEDS: usize = 5;

/// What is renewed: what begins so.
fn renewed() -> Option<String> {
    let value = std::env::var_os("UPDATE_HASHES")?.to_string_lossy().into_owned();
    Some(if value == "1" { String::new() } else { value })
}

/// The kept scenarios, as paths below `scenarios`.
fn kept() -> Vec<String> {
    let mut found = Vec::new();
    for folder in fs::read_dir(root()).expect("scenarios are there") {
        let folder = folder.expect("an entry").path();
        if !folder.is_dir() {
            continue;
        }
        for file in fs::read_dir(&folder).expect("a folder") {
            let path = file.expect("an entry").path();
            if path.extension().is_some_and(|extension| extension == "toml") {
                let name = path.strip_prefix(root()).expect("below").to_string_lossy().into_owned();
                found.push(name);
            }
        }
    }
    found.retain(|name| renewed().is_none_or(|prefix| name.starts_with(&prefix)));
    found.sort();
    found
}

fn read(name: &str) -> File {
    let path = root().join(name);
    let text = fs::read_to_string(&path).expect("readable");
    let folder = path.parent().expect("a folder").to_owned();
    let mut files = |name: &str| fs::read(folder.join(name)).map_err(|error| error.to_string());
    File::parse(name, &text, &mut files).unwrap_or_else(|errors| panic!("{name}: {errors:?}"))
}

/// What a run has done after so many events: how many they were, and the log's hash.
fn after(file: &File, run: usize, events: u64) -> String {
    let built = file.run(run).expect("a run of the file").unwrap_or_else(|errors| panic!("{errors:?}"));
    let mut world = World::new(&built.scenario).unwrap_or_else(|error| panic!("{error}"));
    world.advance_some(world.end(), events);
    format!("{} events {:016x}", world.events(), world.log_hash())
}

/// Compares `found` with what the list keeps under `part`, or renews the list.
fn compare(part: &str, found: Map<String, Value>) {
    let path = root().join("regress/hashes.json");
    let mut list: Value = fs::read_to_string(&path)
        .map(|text| serde_json::from_str(&text).expect("the list is JSON"))
        .unwrap_or_else(|_| json!({}));
    if let Some(prefix) = renewed() {
        let kept = list[part].as_object().cloned().unwrap_or_default();
        let others = kept.into_iter().filter(|(name, _)| !name.starts_with(&prefix));
        list[part] = Value::Object(others.chain(found).collect());
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder can be made");
        let text = serde_json::to_string_pretty(&list).expect("it is JSON");
        fs::write(&path, text + "\n").expect("the list can be written");
        return;
    }
    let kept = list[part].as_object().unwrap_or_else(|| panic!("the list has no part `{part}`"));
    let differ: Vec<String> = kept
        .keys()
        .chain(found.keys().filter(|name| !kept.contains_key(*name)))
        .filter(|name| kept.get(*name) != found.get(*name))
        .map(|name| format!("{name}: kept {:?}, found {:?}", kept.get(name), found.get(name)))
        .collect();
    assert!(differ.is_empty(), "what the scenarios do has changed:\n{}", differ.join("\n"));
}

#[test]
fn every_kept_scenario_begins_as_it_did() {
    let mut found = Map::new();
    for name in kept() {
        let file = read(&name);
        let last = file.count() - 1;
        let mut runs = vec![0, last / 2, last];
        runs.dedup();
        for run in runs {
            found.insert(format!("{name} run {run}"), json!(after(&file, run, EVENTS)));
        }
    }
    compare("begin", found);
}

#[test]
#[ignore = "minutes in a release build: `make test-all` runs it"]
fn every_run_of_every_kept_scenario_does_what_it_did() {
    let of = |name: String| {
        let file = read(&name);
        let (count, seeds) = (file.count(), file.count() / file.points());
        let runs = (0..count).filter(move |run| seeds <= SEEDS || run % seeds == 0);
        runs.map(move |run| (name.clone(), run)).collect::<Vec<_>>()
    };
    let jobs: Vec<(String, usize)> = kept().into_iter().flat_map(of).collect();
    let next = std::sync::atomic::AtomicUsize::new(0);
    let found = std::sync::Mutex::new(Map::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((name, run)) = jobs.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    let done = after(&read(name), *run, u64::MAX);
                    found.lock().expect("no thread failed").insert(format!("{name} run {run}"), json!(done));
                }
            });
        }
    });
    compare("whole", found.into_inner().expect("no thread failed"));
}
