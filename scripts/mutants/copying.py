"""Copies as much of the core as the tests for one folder need, without the unit tests of other folders: it is compiled for each folder."""

import re
import shutil
from pathlib import Path

from switched import MODULE

TOP = Path(__file__).resolve().parent.parent.parent
CORE = Path("crates/core")


def code(path):
    """A file's text without its tests, which come last."""
    text = re.sub(r"\n#\[cfg\(test\)\]\nmod tests;\n", "\n", path.read_text())
    return re.sub(r"\n#\[cfg\(test\)\]\n(#\[[^\n]*\]\n)*mod tests \{\n.*\Z", "\n", text, flags=re.DOTALL)


def is_test(path):
    """Whether a file below a folder of the source has nothing but tests."""
    return path.name == "tests.rs" or "tests" in path.parts[len((TOP / CORE).parts) :]


def with_children(folder, name):
    """The files of a module."""
    own = folder / f"{name}.rs"
    return ([own] if own.exists() else []) + sorted((folder / name).rglob("*.rs"))


def closure(wanted, uses):
    """`wanted` and all that they use, and so on."""
    found, open_ = set(), list(wanted)
    while open_:
        name = open_.pop()
        if name not in found:
            found.add(name)
            open_ += uses(name)
    return found


def modules(root):
    """The names of the modules that a file declares."""
    return re.findall(r"^(?:pub(?:\(crate\))? )?mod (\w+);", root.read_text(), flags=re.MULTILINE)


def used(text, prefix, names):
    """Which of `names` a text names behind `prefix`."""
    text = re.sub(r"//.*", "", text)
    found = re.findall(prefix + r"::(\w+)", text)
    for group in re.findall(prefix + r"::\{(.*?)\};", text, flags=re.DOTALL):
        found += re.findall(r"(\w+)(?=::|,|\}|$)", group)
    return {name for name in found if name in names}


def only(root, names):
    """A file's text without the declarations of other modules than `names`."""
    declaration = re.compile(r"(?:pub(?:\(crate\))? )?mod (\w+);\n")
    keep = lambda line: not (found := declaration.fullmatch(line)) or found[1] in names
    return "".join(line for line in root.read_text().splitlines(keepends=True) if keep(line))


def parts(folder, starts):
    """The files of the copy, by their place in it: text, or the path of what is copied as it is."""
    source, suite = TOP / CORE / "src", TOP / CORE / "tests" / "suite"
    tests = set(modules(suite / "main.rs"))
    text = lambda name: "".join(path.read_text() for path in with_children(suite, name))
    begin = [name for name in tests if any(name == start or name.startswith(f"{start}_") for start in starts)]
    tests = closure(begin, lambda name: used(text(name), "crate", tests))
    all_ = set(modules(source / "lib.rs"))

    def uses(name):
        read = Path.read_text if name == folder else code
        return set().union(*(used(read(path), "crate", all_) for path in with_children(source, name)))

    needed = {folder}.union(*(used(text(name), "fairspan_core", all_) for name in tests))
    needed = closure(needed, uses)
    files = {}
    for name in needed:
        for path in with_children(source, name):
            if name == folder:
                files[path.relative_to(TOP)] = path.read_text()
            elif not is_test(path):
                files[path.relative_to(TOP)] = code(path)
    for name in tests:
        for path in with_children(suite, name):
            files[path.relative_to(TOP)] = path.read_text()
    files[CORE / "src" / "lib.rs"] = only(source / "lib.rs", needed)
    files[CORE / "tests" / "suite" / "main.rs"] = only(suite / "main.rs", tests)
    # Data that tests read.
    for path in [*(TOP / CORE / "tests").rglob("*"), *(TOP / CORE / "src").rglob("*")]:
        if path.is_file() and path.suffix != ".rs":
            files[path.relative_to(TOP)] = path
    return files


def copy(folder, starts, tree, count, switched):
    """Brings the copy up to date. `switched` are the files with switches, by their place below src."""
    files = parts(folder, starts)
    for place, text in switched.items():
        files[CORE / "src" / place] = text
    root = files[CORE / "src" / "lib.rs"]
    root = root.replace("#![no_std]", "#![no_std]\n" + ALLOWED).replace("#![forbid(unsafe_code)]\n", "")
    root = root.replace("#[cfg(any(test, doctest))]\nextern crate std;", "extern crate std;")
    files[CORE / "src" / "lib.rs"] = root + MODULE.replace("COUNT", str(count))
    manifest = (TOP / CORE / "Cargo.toml").read_text().split("\n[[bench]]")[0]
    manifest = manifest.replace("[lints]\nworkspace = true\n", "").replace("divan.workspace = true\n", "")
    files[CORE / "Cargo.toml"] = manifest
    whole = (TOP / "Cargo.toml").read_text().split("\n[profile.")[0]
    files[Path("Cargo.toml")] = re.sub(r"^members = .*$", 'members = ["crates/core"]', whole, flags=re.MULTILINE) + PROFILE
    for path in sorted(tree.rglob("*")) if tree.exists() else []:
        if path.is_file() and path.relative_to(tree) not in files and path.name != "Cargo.lock":
            path.unlink()
    for place, what in files.items():
        put(tree / place, what.read_bytes() if isinstance(what, Path) else what)
    if not (tree / "Cargo.lock").exists():
        shutil.copy(TOP / "Cargo.lock", tree)


def put(path, text):
    """Writes a file unless it is so already: what keeps its time is not compiled again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = text if isinstance(text, bytes) else text.encode()
    if not path.exists() or path.read_bytes() != text:
        path.write_bytes(text)


# What the compiler finds odd in a mutant is no reason to leave it out. A constant that is never done being computed is: that lint stays.
ALLOWED = """
#![feature(core_intrinsics, const_eval_select)]
#![allow(warnings, arithmetic_overflow, overflowing_literals, unconditional_panic)]
"""

# What builds and runs the tests in the least time in all.
PROFILE = """
[profile.dev]
opt-level = 1
debug = false
incremental = true

[profile.dev.package."*"]
opt-level = 0

[profile.dev.package.proptest]
opt-level = 1
"""
