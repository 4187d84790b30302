#!/usr/bin/env python3
"""Mutation testing of the core's algorithm folders with cargo-mutants; scripts/mutants.sh installs it and calls this.

Each mutant is a small change of the code. The tests that are for its folder have to fail with it: the unit tests in the
folder and the files of crates/core/tests/suite that begin with the folder's prefix. They run in a copy of the core
below target/mutants, with no more of it than the folder needs and without the unit tests of other folders, because a
mutant costs what building that takes.

What was found is kept there. A later run goes on where one stopped: it does not run again what was killed while the code
of its file stays as it is (tests may change), and runs survivors again. A survivor that is not in tests/mutants.toml
makes this fail. One that is, and is killed or gone, is told.
"""

import argparse
import hashlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
WORK = TOP / "target" / "mutants"
LISTED = TOP / "tests" / "mutants.toml"
CORE = Path("crates/core")
# Folder, and how the files of the suite begin that are for it.
FOLDERS = {
    "causal": ["striping_appendix", "striping_causal", "striping_disciplines"],
    "stripe": ["striping"],
    "select": ["select"],
    "arq": ["arq"],
    "ring": ["ring"],
    "queue": ["queue"],
    "buffer": ["buffer"],
}
# cargo-mutants' lists, and what they are called here.
LISTS = {"caught.txt": "killed", "timeout.txt": "timed out", "missed.txt": "survived", "unviable.txt": "unviable"}
# What is known of one that the unit tests do not kill, until the suite was run.
OPEN = "open"
UNIT, SUITE = ["--lib"], ["--test=suite"]
# A mutant that allocates for ever is to end, not the machine.
MEMORY = 6 << 30
MUTANT = re.compile(r"(?P<file>[^:]+):(?P<line>\d+):(?P<column>\d+): (?P<change>.*)")


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


def parts(folder):
    """The files of the copy, by their place in it: text, or the path of what is copied as it is."""
    source, suite = TOP / CORE / "src", TOP / CORE / "tests" / "suite"
    tests = set(modules(suite / "main.rs"))
    text = lambda name: "".join(path.read_text() for path in with_children(suite, name))
    begin = [name for name in tests if any(name == start or name.startswith(f"{start}_") for start in FOLDERS[folder])]
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
    manifest = (TOP / CORE / "Cargo.toml").read_text()
    files[CORE / "Cargo.toml"] = manifest.split("\n[[bench]]")[0] + "\n"
    whole = (TOP / "Cargo.toml").read_text().split("\n[profile.")[0]
    whole = re.sub(r"^members = .*$", 'members = ["crates/core"]', whole, flags=re.MULTILINE)
    files[Path("Cargo.toml")] = whole + PROFILE
    files[Path("Cargo.lock")] = (TOP / "Cargo.lock").read_text()
    return files


# What builds and runs a folder's tests in the least time in all.
PROFILE = """
[profile.dev]
opt-level = 1
debug = false
incremental = true

[profile.dev.package."*"]
opt-level = 1
"""


def copy(folder):
    """Brings the copy up to date; what is as it was keeps its time, so that it is not built again."""
    tree = WORK / folder / "tree"
    files = parts(folder)
    for path in sorted(tree.rglob("*")) if tree.exists() else []:
        place = path.relative_to(tree)
        if path.is_file() and place not in files and place.parts[0] not in ("target", "Cargo.lock"):
            path.unlink()
    for place, what in files.items():
        path = tree / place
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(what, Path):
            shutil.copy2(what, path)
        elif place.name == "Cargo.lock" and path.exists():
            continue
        elif not path.exists() or path.read_text() != what:
            path.write_text(what)
    return tree


def command(tree, folder, *more):
    base = ["cargo", "mutants", "--dir", str(tree), "-p", "fairspan-core", "--colors", "never"]
    return [*base, "-f", f"{CORE}/src/{folder}/**", "-f", f"{CORE}/src/{folder}.rs", *more]


def listed(tree, folder):
    """All mutants of a folder: their names with positions, and their keys, which outlive a change elsewhere in the file."""
    out = subprocess.run(command(tree, folder, "--no-config", "--list"), check=True, capture_output=True, text=True)
    names, seen = {}, {}
    for name in out.stdout.splitlines():
        found = MUTANT.fullmatch(name)
        file = Path(found["file"])
        text = (tree / file).read_text().splitlines()[int(found["line"]) - 1].strip()
        key = (str(file.relative_to(CORE / "src")), found["change"], text)
        # The same change on an equal line: the first, the second ...
        seen[key] = seen.get(key, 0) + 1
        names[name] = (*key, seen[key])
    return names


class State:
    """What became of a folder's mutants, kept in a file, by key."""

    def __init__(self, folder, tree, names):
        self.path = WORK / folder / "state.json"
        now = {file: hashlib.sha256(code(tree / CORE / "src" / file).encode()).hexdigest() for file, *_ in names.values()}
        kept = json.loads(self.path.read_text()) if self.path.exists() else {"files": {}, "found": []}
        same = {file for file, digest in kept["files"].items() if now.get(file) == digest}
        self.files = now
        self.found = {tuple(key): what for key, what in kept["found"] if key[0] in same}

    def keep(self):
        value = {"files": self.files, "found": [[list(key), what] for key, what in self.found.items()]}
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(value))
        new.replace(self.path)


def limit():
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    os.setpgid(0, 0)


def run(folder, tree, names, state, until, wanted, tests):
    """Runs these tests with the mutants of which `wanted` is known so far. Says whether it came to its end."""
    skip = [name for name, key in names.items() if state.found.get(key) != wanted]
    if len(skip) == len(names):
        return True
    if time.monotonic() >= until:
        return False
    what = {None: "the unit tests", OPEN: "what those leave, by the suite", "survived": "survivors again, by all tests"}[wanted]
    print(f"{folder}: {what}", flush=True)
    config = WORK / folder / "config.toml"
    escaped = lambda name: re.sub(r"([^\w\s/])", r"\\\1", name)
    config.write_text("exclude_re = " + json.dumps([f"^{escaped(name)}$" for name in skip]) + "\n")
    out = WORK / folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    environment = {**os.environ, "CARGO_INCREMENTAL": "1", "PROPTEST_DISABLE_FAILURE_PERSISTENCE": "1"}
    # Why a mutant fails is of no interest.
    environment |= {"PROPTEST_MAX_SHRINK_ITERS": "0", "RUST_BACKTRACE": "0", "CARGO_TARGET_DIR": str(WORK / "target")}
    arguments = command(tree, folder, "--config", str(config), "--in-place", "--output", str(out), "--minimum-test-timeout", "60")
    # For the build and for the run: what comes behind `--` is for the run alone.
    arguments += [f"--cargo-arg={argument}" for argument in tests]
    started = subprocess.Popen(arguments, env=environment, preexec_fn=limit)
    try:
        started.wait(max(1, until - time.monotonic()))
    except (subprocess.TimeoutExpired, KeyboardInterrupt) as why:
        # It puts the file back that it is about to change.
        os.killpg(started.pid, signal.SIGINT)
        started.wait()
        ended = None if isinstance(why, KeyboardInterrupt) else False
    else:
        # 0: all killed; 2: some survived; 3: some timed out. All else is no result, such as 4: the tests fail without any mutant.
        if started.returncode not in (0, 2, 3):
            sys.exit(f"mutants: cargo-mutants ended with {started.returncode} in {folder}")
        ended = True
    for file, what in LISTS.items():
        path = out / "mutants.out" / file
        for name in path.read_text().splitlines() if path.exists() else []:
            state.found[names[name]] = OPEN if what == "survived" and wanted is None else what
    state.keep()
    if ended is None:
        sys.exit(130)
    return ended


def told(key):
    """A mutant, for people."""
    return f"{key[0]}: {key[1]}{f' ({key[3]}.)' if key[3] > 1 else ''}\n      {key[2]}"


def compare(names, state, folder, accepted):
    """Tells what is not as tests/mutants.toml has it; gives how many survivors are not in it."""
    survived = [key for key in names.values() if state.found.get(key) == "survived"]
    unlisted = [key for key in survived if key not in accepted]
    for key in unlisted:
        print(f"  SURVIVED, and is not in {LISTED.name}: {told(key)}")
    for key in accepted:
        if key[0].split("/")[0].removesuffix(".rs") != folder:
            continue
        if key not in names.values():
            print(f"  in {LISTED.name}, and there is no such mutant any more: {told(key)}")
        elif state.found.get(key) not in ("survived", OPEN, None):
            print(f"  in {LISTED.name}, and {state.found[key]}: {told(key)}")
    return len(unlisted)


def accepted():
    """The survivors that are in the list, with their reasons."""
    entries = tomllib.loads(LISTED.read_text()).get("survivor", [])
    for entry in entries:
        missing = [name for name in ("file", "change", "line", "reason") if not str(entry.get(name, "")).strip()]
        if missing:
            sys.exit(f"mutants: an entry of {LISTED.name} has no {', '.join(missing)}: {entry}")
    keys = {(entry["file"], entry["change"], entry["line"], entry.get("nth", 1)): entry["reason"] for entry in entries}
    if len(keys) != len(entries):
        sys.exit(f"mutants: {LISTED.name} has an entry twice")
    return keys


def main():
    # What a shell starts in the background ignores Ctrl-C; this is to end by it, and by what ends services, in good order.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", metavar="FOLDER", help=f"one of {', '.join(FOLDERS)}; without one, all of them")
    parser.add_argument("--minutes", type=float, default=120.0, help="ends after so many minutes; the next run goes on")
    parser.add_argument("--anew", action="store_true", help="forgets what earlier runs found")
    parser.add_argument("--report", action="store_true", help="runs nothing: tells what is known")
    arguments = parser.parse_args()
    unknown = [folder for folder in arguments.folders if folder not in FOLDERS]
    if unknown:
        parser.error(f"no folder {', '.join(unknown)}: there are {', '.join(FOLDERS)}")
    until = time.monotonic() + 60 * arguments.minutes
    list_, bad, open_ = accepted(), 0, 0
    for folder in arguments.folders or FOLDERS:
        if arguments.anew and not arguments.report:
            shutil.rmtree(WORK / folder, ignore_errors=True)
        tree = copy(folder)
        names = listed(tree, folder)
        state = State(folder, tree, names)
        if not arguments.report and time.monotonic() < until:
            # Most are killed by the unit tests, which are built and run in less time. Survivors wait until the rest is done: a run
            # that is cut off is to find something new.
            for wanted, tests in [(None, UNIT), (OPEN, SUITE), ("survived", UNIT + SUITE)]:
                if not run(folder, tree, names, state, until, wanted, tests):
                    break
        count = lambda what: sum(state.found.get(key) == what for key in names.values())
        left = sum(state.found.get(key) in (None, OPEN) for key in names.values())
        print(
            f"{folder}: {len(names)} mutants, {count('killed')} killed, {count('timed out')} timed out, {count('survived')} survived, "
            f"{count('unviable')} do not compile, {left} not or not wholly run"
        )
        bad += compare(names, state, folder, list_)
        open_ += left
    if open_:
        print(f"{open_} mutants have no result yet; the next run goes on with them")
    if bad:
        print(f"{bad} survivors are not in tests/mutants.toml: kill them by a test, or list them with the reason")
    sys.exit(1 if bad else 0)


try:
    main()
except KeyboardInterrupt:
    sys.exit(130)
