"""Builds the core's tests once with all mutants of a folder, and runs against each mutant the tests that come by it."""

import json
import math
import os
import resource
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock

# A mutant that allocates for ever is to end, not the machine.
MEMORY = 4 << 30
# Seconds of the processor: what a run of tests may take, given what it takes without a mutant.
LONGEST = lambda usual: math.ceil(1 + 3 * usual)
# A mutant is first met by tests that take so many seconds together, then by three times as many, and so on.
FIRST = 0.05
ENVIRONMENT = {
    **os.environ,
    "RUSTC_BOOTSTRAP": "1",
    "RUSTFLAGS": "",
    "RUST_BACKTRACE": "0",
    "CARGO_TERM_COLOR": "never",
    # The same cases each time.
    "PROPTEST_RNG_SEED": "1",
    "PROPTEST_MAX_SHRINK_ITERS": "0",
    "PROPTEST_DISABLE_FAILURE_PERSISTENCE": "1",
    # By default this test takes eight seconds, which each mutant that it comes by would cost.
    "FAIRSPAN_ARQ_FRAMES": "300000",
}


@dataclass(frozen=True)
class Test:
    program: str
    name: str


def cargo(tree, target, *arguments):
    """The messages of a cargo command, and whether it did it."""
    done = subprocess.run(
        ["cargo", *arguments, "--message-format=json", "--quiet", "-p", "fairspan-core"],
        cwd=tree, env={**ENVIRONMENT, "CARGO_TARGET_DIR": str(target)}, capture_output=True, text=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")], done.returncode == 0, done.stderr


def errors(messages):
    """What the compiler objects to: (code, text, spans)."""
    for message in messages:
        told = message.get("message")
        if message.get("reason") == "compiler-message" and told["level"] == "error" and told["spans"]:
            yield (told["code"] or {}).get("code"), told["rendered"], told["spans"]


def programs(messages):
    return [message["executable"] for message in messages if message.get("reason") == "compiler-artifact" and message.get("executable")]


def once(program, names, longest, environment):
    """Runs these tests; gives the status and the processor's seconds."""

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (longest, longest))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    started = subprocess.Popen(
        [program, "--exact", "--test-threads=1", "--quiet", *names],
        env={**ENVIRONMENT, **environment},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=limit, start_new_session=True,
    )
    try:
        _, status, used = os.wait4(started.pid, 0)
    except BaseException:
        started.kill()
        raise
    started.returncode = os.waitstatus_to_exitcode(status)
    return started.returncode, used.ru_utime + used.ru_stime


class Tests:
    """The tests of a build, with what each takes and which mutants it comes by."""

    def __init__(self, found, notes, jobs):
        self.jobs = jobs
        self.seconds, self.by_mutant, self.failing = {}, {}, []
        tests = []
        for program in found:
            listed = subprocess.run([program, "--list", "--format=terse"], capture_output=True, text=True, check=True).stdout
            tests += [Test(program, line.removesuffix(": test")) for line in listed.splitlines() if line.endswith(": test")]
        notes.mkdir(parents=True, exist_ok=True)

        def note(pair):
            number, test = pair
            path = notes / str(number)
            path.unlink(missing_ok=True)
            status, seconds = once(test.program, [test.name], 3600, {"FAIRSPAN_SEEN": str(path)})
            seen = path.read_bytes() if path.exists() else b""
            path.unlink(missing_ok=True)
            return test, status, seconds, [n for n, byte in enumerate(seen) if byte]

        with ThreadPoolExecutor(jobs) as pool:
            for test, status, seconds, seen in pool.map(note, enumerate(tests)):
                if status != 0:
                    self.failing.append(test)
                    continue
                self.seconds[test] = seconds
                for number in seen:
                    self.by_mutant.setdefault(number, []).append(test)

    def try_(self, number):
        """What becomes of a mutant. The short tests come first."""
        tests = sorted(self.by_mutant.get(number, []), key=lambda test: (self.seconds[test], test.name))
        if not tests:
            return "not reached"
        room = FIRST
        while tests:
            batch, taken = [], 0.0
            while tests and (not batch or taken + self.seconds[tests[0]] <= room):
                taken += self.seconds[tests[0]]
                batch.append(tests.pop(0))
            room *= 3
            for program in sorted({test.program for test in batch}):
                names = [test.name for test in batch if test.program == program]
                status, _ = once(program, names, LONGEST(taken), {"FAIRSPAN_MUTANT": str(number)})
                if status in (-signal.SIGXCPU, -signal.SIGKILL):
                    return "timed out"
                if status != 0:
                    return "killed"
        return "survived"

    def all(self, numbers, until, tell):
        """Tries these mutants until the time is over, and tells each answer."""
        stopped, one_at_a_time = False, Lock()

        def one(number):
            if stopped or time.monotonic() >= until:
                return
            what = self.try_(number)
            with one_at_a_time:
                tell(number, what)

        with ThreadPoolExecutor(self.jobs) as pool:
            try:
                for _ in pool.map(one, numbers):
                    pass
            finally:
                # The pool waits for what was begun, and for nothing else.
                stopped = True
