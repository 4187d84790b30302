"""What the tests share."""

import os
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
PROGRAM = os.environ.get("FAIRSPAN_PROGRAM")

#: A flow over a link, with a sweep and several seeds, and something of everything else.
WHOLE = """
title = "swept"
duration = "3s"
warm_up = "500ms"
seeds = [1, 2, 3]

[[node]]
name = ["a", "b"]

[[link]]
name = "wire"
from = "a"
to = "b"
rate = "2Mbit"
delay = "5ms"
queue = "20kB"
loss = "1%"

[[flow]]
name = "f"
from = "a"
to = "b"
kind = "poisson"
rate = "1Mbit"
size = "500B"

[[flow]]
name = "t"
from = "a"
to = "b"
kind = "ftp"

[metrics]
delay = true
reordering = true

[[sweep]]
parameter = "link.wire.rate"
values = ["1Mbit", "2Mbit"]

[[sweep]]
parameter = "link.wire.loss"
values = [0, 0.01]

[[expect]]
metric = "flow.f.throughput"
least = "0.1Mbit"
where = "nowhere"

[[plot]]
x = "link.wire.rate"
y = "flow.t.goodput"
"""


def program(*arguments, folder=None):
    """What the command line says: status, output, errors."""
    if PROGRAM is None:
        raise unittest.SkipTest("no program to compare with; cargo build -p fairspan")
    done = subprocess.run([PROGRAM, *map(str, arguments)], cwd=folder, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout, done.stderr
