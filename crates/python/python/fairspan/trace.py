"""Captures: what flows are in them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional, Union

from . import _native

#: A path, or several.
Paths = Union[str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]]]


@dataclass(frozen=True)
class Flows:
    """What was counted."""

    #: Packets in all.
    packets: int
    #: Those that were told to belong to a flow.
    classified: int
    #: The others, by the reason.
    skipped: dict[str, int]
    #: One row for each definition under each timeout, with the columns of ``fairspan trace flows --csv``.
    table: _native.Table


def flows(
    path: Paths,
    *,
    definitions: Sequence[str] = ("five-tuple", "pair", "destination", "source"),
    timeouts: Sequence[Union[str, float, None]] = (1, 5, 10, None),
    headers: str = "plain",
    table_size: int = 65_536,
    most_flows: int = 1 << 23,
    seed: int = 1,
    format: Optional[str] = None,
) -> Flows:
    """Counts the flows of captures by several definitions and timeouts in one pass, as ``fairspan trace flows`` does.

    ``path`` is a capture (pcap, pcapng, ERF, TSH or text of the Internet Traffic Archive, also packed), or several that are one
    sequence by their times. A timeout is a number of seconds, a text such as ``"500ms"``, or None for a flow that never ends. What
    cannot be read to its end is a warning, and what is no capture at all an :class:`InputError`. ``docs/trace.md`` has the rest.
    """
    if not path:
        raise _native.InputError("path: there is no capture in the list")
    paths: list[str | os.PathLike[str]] = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    wanted: _native._Captures = {
        "paths": paths,
        "definitions": list(definitions),
        "timeouts": ["none" if timeout is None else str(timeout) for timeout in timeouts],
        "headers": headers,
        "table_size": table_size,
        "most_flows": most_flows,
        "seed": seed,
        "format": format,
    }
    packets, classified, skipped, table, problems = _native.flows(wanted)
    for problem in problems:
        warnings.warn(problem, stacklevel=2)
    return Flows(packets, classified, dict(skipped), table)
