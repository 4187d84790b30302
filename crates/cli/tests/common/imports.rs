//! Which source file takes names from which, read from `use` lines and paths.
//!
//! A name that a module only hands on (`use` or `pub use`) is followed to the file that defines it, so a module's face ties
//! nothing together. `mod` lines are no imports.

use std::collections::{BTreeMap, BTreeSet};

/// A module: the names on the way to it from its crate's root.
type Module = Vec<String>;

/// One crate: for each file, by its path below `src`, the files from which it takes names.
pub(crate) type Imports = BTreeMap<String, BTreeSet<String>>;

struct Source {
    path: String,
    /// Its code without `use` items.
    rest: String,
    uses: Vec<Use>,
}

/// One path of a `use` item.
#[derive(Clone)]
struct Use {
    path: Vec<String>,
    /// What it is called here.
    name: String,
    /// `pub use`: it may be there for others alone.
    public: bool,
}

/// Reads a crate from its files: path below `src`, and code without comments, strings and tests.
pub(crate) fn read(files: &[(String, String)]) -> Imports {
    let sources: BTreeMap<Module, Source> =
        files.iter().map(|(path, code)| (module(path), source(path, code))).collect();
    let mut imports = Imports::new();
    for (module, source) in &sources {
        let own = source.uses.iter().filter(|item| !item.public || names(&source.rest, &item.name));
        let mut paths: Vec<Vec<String>> = own.map(|item| item.path.clone()).collect();
        paths.extend(inline(&source.rest));
        let targets = paths.iter().filter_map(|path| resolve(&sources, module, path, 0));
        let targets = targets.filter(|target| target != module).map(|target| sources[&target].path.clone());
        imports.insert(source.path.clone(), targets.collect());
    }
    imports
}

/// Circles: files each of which reaches every other of its circle over imports.
pub(crate) fn circles(imports: &Imports) -> Vec<BTreeSet<String>> {
    let reach = |from: &String| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(file) = open.pop() {
            for next in &imports[&file] {
                if seen.insert(next.clone()) {
                    open.push(next.clone());
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&String, BTreeSet<String>> = imports.keys().map(|file| (file, reach(file))).collect();
    let circle = |file: &&String| -> BTreeSet<String> {
        let back = reached[file].iter().filter(|other| reached[*other].contains(*file));
        back.cloned().collect()
    };
    let all: BTreeSet<BTreeSet<String>> = imports.keys().map(|file| circle(&file)).collect();
    all.into_iter().filter(|circle| circle.len() > 1).collect()
}

fn module(path: &str) -> Module {
    let path = path.strip_suffix(".rs").unwrap_or(path);
    let mut names: Module = path.split('/').map(str::to_owned).collect();
    if names.last().is_some_and(|last| last == "mod") || matches!(path, "lib" | "main") {
        names.pop();
    }
    names
}

fn source(path: &str, code: &str) -> Source {
    let (mut rest, mut uses) = (String::new(), Vec::new());
    let mut left = code;
    while let Some(at) = next_use(left) {
        rest.push_str(&left[..at]);
        let item = &left[at + "use ".len()..];
        let end = item.find(';').unwrap_or(item.len());
        let public = left[..at].rsplit('\n').next().unwrap_or_default().contains("pub");
        expand(&item[..end].split_whitespace().collect::<Vec<_>>().join(" "), &[], public, &mut uses);
        left = &item[end..];
    }
    rest.push_str(left);
    Source { path: path.to_owned(), rest, uses }
}

/// Where the next `use` item begins: the word stands first in its line, or behind `pub` and what is in its parentheses.
fn next_use(code: &str) -> Option<usize> {
    code.match_indices("use ").map(|(at, _)| at).find(|at| {
        let before = code[..*at].rsplit('\n').next().unwrap_or_default().trim();
        before.is_empty() || (before.starts_with("pub") && (before == "pub" || before.ends_with(')')))
    })
}

/// Whether a word stands in code, `mod` lines aside.
fn names(code: &str, word: &str) -> bool {
    let lines = code.lines().filter(|line| !(line.contains("mod ") && line.trim_end().ends_with(';')));
    lines.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_')).any(|part| part == word)
}

/// The paths of a `use` tree.
fn expand(tree: &str, before: &[String], public: bool, uses: &mut Vec<Use>) {
    let tree = tree.trim();
    if let Some(open) = tree.find('{') {
        let mut head = before.to_vec();
        head.extend(segments(&tree[..open]));
        let inner = &tree[open + 1..tree.rfind('}').unwrap_or(tree.len())];
        let (mut depth, mut begin) = (0, 0);
        for (at, c) in inner.char_indices().chain([(inner.len(), ',')]) {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    expand(&inner[begin..at], &head, public, uses);
                    begin = at + 1;
                }
                _ => {}
            }
        }
        return;
    }
    let (path, alias) = tree.split_once(" as ").unwrap_or((tree, ""));
    let mut all = before.to_vec();
    all.extend(segments(path));
    if all.len() > 1 && all.last().is_some_and(|last| last == "self" || last == "*") {
        all.pop();
    }
    if let Some(last) = all.last() {
        let name = if alias.is_empty() { last.clone() } else { alias.trim().to_owned() };
        uses.push(Use { path: all, name, public });
    }
}

fn segments(path: &str) -> Vec<String> {
    path.split("::").map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Paths of two names and more in code.
fn inline(code: &str) -> Vec<Vec<String>> {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    let mut paths = Vec::new();
    for word in code.split(|c: char| !part(c) && c != ':') {
        let names = segments(word);
        if word.contains("::") && !word.starts_with(':') && names.len() > 1 {
            paths.push(names);
        }
    }
    paths
}

/// The module whose file defines what a path in `from` names; `None` if it is outside of the crate.
fn resolve(sources: &BTreeMap<Module, Source>, from: &Module, path: &[String], depth: u32) -> Option<Module> {
    let (first, rest) = path.split_first()?;
    let mut at = from.clone();
    match first.as_str() {
        "crate" => at.clear(),
        "self" => {}
        "super" => drop(at.pop()?),
        child => {
            at.push(child.to_owned());
            if !sources.contains_key(&at) {
                return None;
            }
        }
    }
    let mut rest = rest;
    while let Some((name, behind)) = rest.split_first() {
        let mut inner = at.clone();
        match name.as_str() {
            "super" => drop(inner.pop()?),
            _ => inner.push(name.clone()),
        }
        if !sources.contains_key(&inner) {
            // A name that the module has from elsewhere?
            let given = sources.get(&at)?.uses.iter().find(|item| item.name == *name && item.path.len() > 1);
            if let Some(handed) = given.filter(|_| depth < 8) {
                let mut whole = handed.path.clone();
                whole.extend_from_slice(behind);
                return resolve(sources, &at, &whole, depth + 1);
            }
            break;
        }
        at = inner;
        rest = behind;
    }
    sources.contains_key(&at).then_some(at)
}
