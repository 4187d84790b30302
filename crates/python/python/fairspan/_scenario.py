"""Scenarios: read and run."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Optional, Union

from . import _native, _toml
from ._law import Law
from ._progress import Progress, Wish
from ._results import Results

#: One seed, or several.
Seeds = Union[int, Iterable[int], None]
#: The text of a scenario file, its path, or a dictionary of what would be in it.
Source = Union[str, "os.PathLike[str]", Mapping[str, Any]]


class Scenario:
    """A scenario that has been read and checked.

    ``source`` is the text of a scenario file, the path of one (``pathlib.Path``), or a dictionary of its keys and tables.
    ``settings`` are keys set from outside, as ``--set`` does. ``name`` is what a text is called in errors; files that it names are
    looked for beside it. What is wrong raises :class:`ScenarioError`.

    >>> import fairspan
    >>> scenario = fairspan.Scenario({
    ...     "duration": "1s",
    ...     "node": [{"name": ["a", "b"]}],
    ...     "link": [{"name": "wire", "from": "a", "to": "b", "rate": "1Mbit", "delay": "10ms"}],
    ...     "flow": [{"name": "f", "from": "a", "to": "b", "kind": "constant", "rate": "500kbit", "size": "500B"}],
    ... }, settings={"link.wire.rate": "2Mbit"})
    >>> scenario.run().links["name"]
    ['wire', 'wire/back']
    >>> fairspan.Scenario(scenario.text.replace("10ms", "10parsec"))
    Traceback (most recent call last):
    ...
    fairspan.ScenarioError: scenario.toml:11:9: link.wire.delay: found "10parsec", expected a length of time with its unit (ns, us, ms, s, min, h), such as "25ms"
    """

    def __init__(
        self, source: Source, *, settings: Optional[Mapping[str, Any]] = None, name: Union[str, "os.PathLike[str]", None] = None
    ) -> None:
        told = [(key, value if isinstance(value, str) else _toml._value(key, value)) for key, value in (settings or {}).items()]
        if isinstance(source, os.PathLike):
            self._native = _native.Scenario.read(source, told)
        elif isinstance(source, str) and source.endswith(".toml") and "\n" not in source and "=" not in source:
            raise _native.InputError(f"a text is taken for what is in a scenario file; for the file of this name write pathlib.Path({source!r})")
        elif isinstance(source, (str, Mapping)):
            text = source if isinstance(source, str) else _toml.text(source)
            self._native = _native.Scenario(text, name or "scenario.toml", told)
        else:
            raise TypeError(f"a scenario is a text, a path or a dictionary, and this is {source!r}")

    @property
    def name(self) -> str:
        """What it is called in errors."""
        return self._native.name

    @property
    def title(self) -> str:
        """Its title; empty where it has none."""
        return self._native.title

    @property
    def description(self) -> str:
        """Its description; empty where it has none."""
        return self._native.description

    @property
    def text(self) -> str:
        """All of its text: what ``fairspan sim`` takes."""
        return self._native.text

    @property
    def settings(self) -> dict[str, str]:
        """Keys set from outside."""
        return dict(self._native.settings)

    @property
    def seeds(self) -> list[int]:
        """Each point of the sweeps runs once with each of these."""
        return self._native.seeds

    @property
    def parameters(self) -> list[str]:
        """Swept parameters."""
        return self._native.parameters

    @property
    def points(self) -> int:
        """Points of the sweeps; 1 without any."""
        return self._native.points

    def swept(self, parameters: Mapping[str, Sequence[Any]]) -> Scenario:
        """The same scenario with a sweep over each of these parameters besides its own."""
        for key, values in parameters.items():
            if isinstance(values, (str, bytes)):
                raise _native.InputError(f"{key}: {values!r} is one value; write a list of values to sweep, such as [{values!r}]")
        tables = [{"parameter": key, "values": list(values)} for key, values in parameters.items()]
        if not tables:
            return self
        text = self.text if self.text.endswith("\n") or not self.text else self.text + "\n"
        return _again(text + _toml.text({"sweep": tables}), self.name, self._native.settings, self._native.files)

    def run(
        self,
        seed: Seeds = None,
        *,
        jobs: int = 0,
        laws: Optional[Mapping[str, type[Law]]] = None,
        progress: Wish = None,
    ) -> Results:
        """Runs every point of the sweeps with every seed, on all cores (``jobs``: threads at most).

        ``seed`` is one seed or several in place of the scenario's. ``laws`` are Python classes for TCP flows, by the flow's name or
        how names begin (``"tcp*"``). ``progress``: True and False show and hide it; a function is called with the share that is
        done; by default it is shown on a terminal and in a notebook. Ctrl-C ends the runs within a second.
        """
        classes = list((laws or {}).items())
        with Progress(progress, self.title or "sim") as shown:
            wanted: _native._Runs = {
                "seeds": seeds_of(seed),
                "jobs": jobs,
                "points": None,
                "laws": classes,
                "progress": shown.function,
            }
            return Results(self._native.run_all(wanted))

    def __repr__(self) -> str:
        return f"<Scenario {self.name}: {self.title or 'no title'}, {self.points} points, {len(self.seeds)} seeds>"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_again, (self.text, self.name, self._native.settings, self._native.files))


def _again(text: str, name: str, settings: list[tuple[str, str]], files: dict[str, bytes]) -> Scenario:
    scenario = Scenario.__new__(Scenario)
    scenario._native = _native.Scenario(text, name, settings, files)
    return scenario


def seeds_of(seed: Seeds) -> list[int]:
    if seed is None:
        return []
    listed: Iterable[Any] = seed if isinstance(seed, Iterable) and not isinstance(seed, (str, bytes)) else [seed]
    seeds = [_whole(one) for one in listed]
    if not seeds:
        raise _native.InputError("seed: there is none in the list; leave it out for the scenario's own")
    return seeds


def _whole(seed: Any) -> int:
    try:
        whole = operator.index(seed)
    except TypeError:
        whole = -1
    if isinstance(seed, bool) or not 0 <= whole < 1 << 64:
        raise _native.InputError(f"seed {seed!r}: write a whole number from 0 to 2^64 - 1")
    return whole


def figures() -> dict[str, str]:
    """The figures and tables of the papers that can be run again: keys and titles.

    >>> import fairspan
    >>> fairspan.figures()["cross-check.cbr-line"]
    'Four constant-rate flows down a line of four links'
    """
    return dict(_native.figures())


def figure(key: str, *, jobs: int = 0, progress: Wish = None) -> Results:
    """Runs a figure or a table of the papers again, as ``fairspan figure KEY`` does.

    ``expectations`` of the results has what the paper says beside ours, and ``plots()`` draws it.
    """
    found = _native.figure([key])
    if len(found) > 1:
        raise _native.InputError(f"`{key}` begins several figures: {', '.join(name for name, _, _ in found)}; name one")
    _, path, text = found[0]
    return Scenario(text, name=path).run(jobs=jobs, progress=progress)
