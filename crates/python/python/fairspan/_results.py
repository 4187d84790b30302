"""What a scenario gave."""

from __future__ import annotations

import json
import os
from typing import Any

from . import _native


class Results:
    """What the runs of a scenario gave.

    Tables are Arrow tables (:class:`Table`), which pandas, polars, DuckDB and pyarrow take as they are. Their first columns say which
    run a row is of: ``run``, ``point``, ``seed``, and a column for each swept parameter. Rates are in bit/s, times in seconds and
    sizes in bytes, as in the JSON document. What the document has inside of others, such as the percentiles of a flow's delay,
    has columns named after both: ``delay_p99``.

    >>> import fairspan
    >>> builder = fairspan.build(duration="1s").node(["a", "b"]).link("wire", "a", "b", rate="1Mbit", delay="10ms")
    >>> builder = builder.flow("f", "a", "b", kind="constant", rate="500kbit", size="500B").sweep("link.wire.rate", ["1Mbit", "2Mbit"])
    >>> results = builder.scenario().run()
    >>> len(results), results.flows["link.wire.rate"]
    (2, ['1Mbit', '2Mbit'])
    """

    def __init__(self, native: _native.Results) -> None:
        self._native = native

    @classmethod
    def from_json(cls, text: str) -> Results:
        """Results that were kept as what :meth:`json` or ``fairspan sim --json`` gave."""
        return cls(_native.Results.from_json(text))

    def json(self) -> str:
        """The document that ``fairspan sim --json`` prints, byte for byte."""
        return self._native.json()

    def to_dict(self) -> dict[str, Any]:
        """The same document as a dictionary."""
        document: dict[str, Any] = json.loads(self.json())
        return document

    @property
    def planned(self) -> int:
        """Runs in all."""
        return self._native.planned

    @property
    def holds(self) -> bool | None:
        """Whether all that the scenario expects came out; None where it expects nothing."""
        return self._native.holds

    def table(self, name: str) -> _native.Table:
        """A table by its name: those below, and ``classes``, ``ring_links``, ``ring_events`` and ``ring_drops``."""
        return self._native.table(name)

    @property
    def runs(self) -> _native.Table:
        """One row a run."""
        return self.table("runs")

    @property
    def flows(self) -> _native.Table:
        """One row for each flow of each run."""
        return self.table("flows")

    @property
    def transfers(self) -> _native.Table:
        """One row for each transfer, where the scenario asks for records of them."""
        return self.table("transfers")

    @property
    def links(self) -> _native.Table:
        """One row for each link of each run."""
        return self.table("links")

    @property
    def drops(self) -> _native.Table:
        """Packets that were dropped, by place and reason."""
        return self.table("drops")

    @property
    def bonds(self) -> _native.Table:
        """One row for each end of a bond of each run, with its counters."""
        return self.table("bonds")

    @property
    def rings(self) -> _native.Table:
        """One row for each ring of each run."""
        return self.table("rings")

    @property
    def limits(self) -> _native.Table:
        """One row for each limiter of each ring."""
        return self.table("limits")

    @property
    def splits(self) -> _native.Table:
        """One row for each gateway that splits connections."""
        return self.table("splits")

    @property
    def estimates(self) -> _native.Table:
        """What several seeds tell of each metric at each point: mean, deviation, half the width of the 95 % interval."""
        return self.table("estimates")

    @property
    def expectations(self) -> _native.Table:
        """What the scenario expects, and what came out."""
        return self.table("expectations")

    def series(self, run: int = 0) -> _native.Table:
        """What the scenario recorded over time in a run: a column ``time``, and one for each series."""
        return self._native.series(run)

    def summary(self) -> str:
        """What the command line prints without ``--json``."""
        return self._native.summary()

    def plots(self) -> list[str]:
        """The plots that the scenario asks for, as SVG."""
        return self._native.plots()

    def report(self) -> str:
        """The report as an HTML page."""
        return self._native.report()

    def write(self, folder: str | os.PathLike[str]) -> None:
        """Writes what ``fairspan sim --out FOLDER`` does: summary.json, report.html, and tables and series as CSV."""
        self._native.write(folder)

    def __len__(self) -> int:
        return len(self._native)

    def __repr__(self) -> str:
        return repr(self._native)

    def _repr_html_(self) -> str | None:
        return self._native._repr_html_()

    def __reduce__(self) -> tuple[Any, ...]:
        # What is sent to another process is the document.
        return (Results.from_json, (self.json(),))
