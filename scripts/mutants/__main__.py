"""Mutation testing of the core's algorithm folders; scripts/mutants.sh installs what it needs and calls this.

Each mutant is a small change of the code, as cargo-mutants makes them. The tests that are for its folder have to fail with it: the unit
tests in the folder and the files of crates/core/tests/suite that FOLDERS names. All mutants of a folder are compiled into
one build (copying.py), each behind a switch (switched.py), but for those that do not compile (blame.py). Of the tests those run that come by
the mutant (tests.py). So a mutant that a test sees costs a fraction of a second, and one that none sees what all its tests take.

What was found is kept below target/mutants. A later run does not run again what was killed while the code of its file stays as it is
(tests may change), nor survivors that are listed. A survivor that is not in tests/mutants.toml makes this fail. One that is, and is killed or gone, is told.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib

from blame import Blame
from copying import CORE, TOP, code, copy, is_test, with_children
from switched import Mutant, constants, with_switches
from tests import Tests, cargo, errors, programs

WORK = TOP / "target" / "mutants"
LISTED = TOP / "tests" / "mutants.toml"
# Folder, and how the files of the suite begin that are for it.
FOLDERS = {
    "causal": ["striping_appendix", "striping_causal", "striping_disciplines"],
    "stripe": ["striping"],
    # Who pays in a full buffer, a queue finds.
    "queue": ["queue", "buffer"],
    "buffer": ["buffer"],
    "arq": ["arq"],
    "select": ["select", "lan"],
    "ring": ["ring"],
}
# What says that a test sees a mutant.
SEEN = ("killed", "timed out")
MUTANT = re.compile(r"(?P<file>[^:]+):(?P<line>\d+):(?P<column>\d+): (?P<change>.*)")


def listed(folder):
    """All mutants of a folder. Their keys outlive a change elsewhere in the file."""
    source = CORE / "src"
    command = ["cargo", "mutants", "--dir", str(TOP), "-p", "fairspan-core", "--no-config", "--list", "--json"]
    command += ["-f", f"{source}/{folder}/**", "-f", f"{source}/{folder}.rs"]
    files = sorted([*(TOP / source / folder).rglob("*.rs"), *(TOP / source).glob(f"{folder}.rs")])
    digest = hashlib.sha256("".join(f"{path}\n{path.read_text()}" for path in files).encode()).hexdigest()
    kept = WORK / f"{folder}.list.json"
    if not kept.exists() or json.loads(kept.read_text())["digest"] != digest:
        out = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps({"digest": digest, "mutants": out}))
    out = json.loads(kept.read_text())["mutants"]
    mutants, seen, lines = [], {}, {}
    for number, entry in enumerate(out, start=1):
        file = entry["file"].removeprefix(f"{source}/")
        if file not in lines:
            lines[file] = (TOP / source / file).read_text().splitlines(keepends=True)
        # In bytes; cargo-mutants counts characters of lines.
        at = lambda place: len(("".join(lines[file][: place["line"] - 1]) + lines[file][place["line"] - 1][: place["column"] - 1]).encode())
        span, change = entry["span"], MUTANT.fullmatch(entry["name"])["change"]
        key = (file, change, lines[file][span["start"]["line"] - 1].strip())
        # The same change on an equal line: the first, the second ...
        seen[key] = seen.get(key, 0) + 1
        mutants.append(
            Mutant(number, file, change, entry["genre"], entry["replacement"], at(span["start"]), at(span["end"]), (*key, seen[key]),
                   entry["function"] is not None)
        )
    return mutants


class State:
    """What became of a folder's mutants, kept in a file, by key."""

    def __init__(self, folder, mutants):
        self.path = WORK / f"{folder}.json"
        now = {file: hashlib.sha256(code(TOP / CORE / "src" / file).encode()).hexdigest() for file in {m.file for m in mutants}}
        kept = json.loads(self.path.read_text()) if self.path.exists() else {"files": {}, "found": []}
        same = {file for file, digest in kept["files"].items() if now.get(file) == digest}
        self.files = now
        self.found = {tuple(key): what for key, what in kept["found"] if key[0] in same}

    def keep(self):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps({"files": self.files, "found": [[list(key), what] for key, what in self.found.items()]}))
        new.replace(self.path)


def build(folder, mutants, state):
    """Compiles the tests with all mutants that compile, and says which these are."""
    # Whether there is a switch for a mutant depends on the others beside it: that is tried again.
    left = [mutant for mutant in mutants if state.found.get(mutant.key) != "does not compile"]
    tree, blame = WORK / folder / "tree", Blame(left)
    texts = {str(path.relative_to(TOP / CORE / "src")): path.read_bytes() for path in with_children(TOP / CORE / "src", folder)}
    texts = {file: text for file, text in texts.items() if not is_test(TOP / CORE / "src" / file)}
    known = [
        constant for file, text in texts.items() for constant in constants(file, text, [mutant for mutant in left if mutant.file == file])
    ]
    # To check takes a fraction of the time that to build takes. The switches stand in the library alone.
    for command in (["check", "--lib"], ["test", "--no-run", "--tests"]):
        done = False
        while not done:
            began, members = time.monotonic(), [mutant for mutant in left if mutant.number not in blame.dropped]
            out = {file: with_switches(file, text, members, known, blame.copied) for file, text in texts.items()}
            for switched in out.values():
                blame.dropped.update(switched.without)
            copy(folder, FOLDERS[folder], tree, len(mutants) + 1, {file: switched.text for file, switched in out.items()})
            messages, done, told = cargo(tree, WORK / "target", *command)
            if done:
                done = not blame.again()
            elif not blame.on(list(errors(messages)), out):
                sys.exit(f"mutants: the copy does not compile\n{told}\n" + "\n".join(text for _, text, _ in errors(messages)))
            print(f"{folder}: cargo {command[0]} took {time.monotonic() - began:.0f} s; {len(blame.dropped)} do not compile", flush=True)
    state.found.update((mutant.key, blame.dropped[mutant.number]) for mutant in left if mutant.number in blame.dropped)
    state.keep()
    # Another folder's build has programs of the same names.
    kept = WORK / folder / "programs"
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    found = [shutil.copy2(program, kept) for program in programs(messages)]
    return found, [mutant for mutant in left if mutant.number not in blame.dropped]


def run(folder, mutants, state, until, jobs, accepted):
    found, left = build(folder, mutants, state)
    state.keep()
    began = time.monotonic()
    print(f"{folder}: {len(left)} mutants in the build; which tests come by them", flush=True)
    tests = Tests(found, WORK / folder / "notes", jobs)
    for test in tests.failing:
        print(f"  fails with switches that are all off, and is left out: {test.name}")
    # Those that no test saw come last, since they take the longest; a run that is cut off is to find something new.
    open_ = [mutant for mutant in left if state.found.get(mutant.key) not in SEEN and (mutant.key not in accepted or mutant.key not in state.found)]
    open_.sort(key=lambda mutant: mutant.key in state.found)
    print(f"{folder}: {len(tests.seconds)} tests, {time.monotonic() - began:.0f} s; {len(open_)} mutants to be run", flush=True)
    keys = {mutant.number: mutant.key for mutant in mutants}
    told = 0

    def tell(number, what):
        nonlocal told
        state.found[keys[number]] = what
        told += 1
        if told % 100 == 0:
            state.keep()
            print(f"{folder}: {told} of {len(open_)} run, {time.monotonic() - began:.0f} s", flush=True)

    try:
        tests.all([mutant.number for mutant in open_], until, tell)
    finally:
        state.keep()


def told(key):
    """A mutant, for people."""
    return f"{key[0]}: {key[1]}{f' ({key[3]}.)' if key[3] > 1 else ''}\n      {key[2]}"


def compare(mutants, state, folder, accepted):
    """Tells what is not as tests/mutants.toml has it; gives how many survivors are not in it."""
    keys = {mutant.key: mutant for mutant in mutants}
    survived = [key for key in keys if state.found.get(key) in ("survived", "not reached", "no switch")]
    unlisted = [key for key in survived if key not in accepted]
    for key in unlisted:
        print(f"  {state.found[key].upper()}, and is not in {LISTED.name}: {told(key)}")
    for key in accepted:
        if key[0].split("/")[0].removesuffix(".rs") != folder:
            continue
        if key not in keys:
            print(f"  in {LISTED.name}, and there is no such mutant any more: {told(key)}")
        elif state.found.get(key) in SEEN + ("does not compile",):
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
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", metavar="FOLDER", help=f"one of {', '.join(FOLDERS)}; without one, all of them")
    parser.add_argument("--minutes", type=float, default=120.0, help="ends after so many minutes; the next run goes on")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="so many tests run at a time")
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
            (WORK / f"{folder}.json").unlink(missing_ok=True)
        mutants = listed(folder)
        state = State(folder, mutants)
        if not arguments.report and time.monotonic() < until:
            run(folder, mutants, state, until, arguments.jobs, list_)
        count = lambda *what: sum(state.found.get(mutant.key) in what for mutant in mutants)
        left = count(None)
        print(
            f"{folder}: {len(mutants)} mutants, {count('killed')} killed, {count('timed out')} timed out, {count('survived')} survived, "
            f"{count('not reached')} reached by no test, {count('does not compile')} do not compile, {count('no switch')} without a switch, "
            f"{left} not run"
        )
        bad += compare(mutants, state, folder, list_)
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
