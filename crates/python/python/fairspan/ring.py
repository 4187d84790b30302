"""Packet rings: fair rates."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Union

from . import _native


def rias(problem: Union[Mapping[str, Any], str, "os.PathLike[str]"], *, compare: bool = False) -> _native.Table:
    """RIAS fair rates of the flows of a ring, as ``fairspan ring rias`` computes them.

    ``problem`` is a dictionary, JSON text, or the path of a file; ``docs/rings.md`` tells what is in it. ``compare`` adds flow max-min
    and proportionally fair rates. The table has a row for each flow; ``bottleneck`` is the link that holds it, or None where its
    demand does.

    >>> import fairspan
    >>> flows = [{"from": 1, "to": 3}, {"from": 2, "to": 3, "demand": 0.2}]
    >>> table = fairspan.ring.rias({"nodes": 4, "capacity": 1, "flows": flows})
    >>> table["rate"], table["bottleneck"]
    ([0.8, 0.2], [2, None])
    """
    name = "problem.json"
    if isinstance(problem, os.PathLike):
        name, text = os.fspath(problem), Path(problem).read_text(encoding="utf-8")
    else:
        text = problem if isinstance(problem, str) else json.dumps(problem)
    return _native.rias(text, name, compare)
