"""Sweeps: here, on Ray, and with results that are kept."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Optional, Union

from . import _cache, _native, _ray
from ._law import Law
from ._progress import Progress, Wish
from ._results import Results
from ._scenario import Scenario, Seeds, Source, seeds_of


def sweep(
    scenario: Union[Scenario, Source],
    parameters: Optional[Mapping[str, Sequence[Any]]] = None,
    *,
    seeds: Seeds = None,
    jobs: int = 0,
    laws: Optional[Mapping[str, type[Law]]] = None,
    on: Optional[str] = None,
    cache: Union[str, "os.PathLike[str]", None] = None,
    progress: Wish = None,
) -> Results:
    """Runs a scenario at every combination of the values of some parameters, with every seed.

    ``parameters`` are keys of the scenario and lists of values, besides the sweeps of the scenario itself.
    ``on="ray"`` runs the points on the machines of Ray, started here or already connected to; an address such as
    ``"ray://host:10001"`` connects to a cluster. ``cache`` keeps the results of each point in a folder, or with fsspec at an address such as
    ``"s3://bucket/folder"``: a point that was run before with the same scenario, settings, seeds, files and version is not run again.
    However it is run, the results are the same, bit for bit.

    >>> import fairspan
    >>> scenario = fairspan.build(duration="1s").node(["a", "b"]).link("wire", "a", "b", rate="1Mbit", delay="10ms")
    >>> scenario = scenario.flow("f", "a", "b", kind="constant", rate="900kbit", size="500B").scenario()
    >>> results = fairspan.sweep(scenario, {"link.wire.rate": ["500kbit", "1Mbit"]}, seeds=[1, 2])
    >>> results.flows["seed"]
    [1, 2, 1, 2]
    """
    whole = scenario if isinstance(scenario, Scenario) else Scenario(scenario)
    whole = whole.swept(parameters or {})
    if on is None and cache is None:
        return whole.run(seeds, jobs=jobs, laws=laws, progress=progress)
    if laws:
        raise _native.InputError("laws: a law in Python works without `on` and `cache`: its code is not known elsewhere")
    chosen = seeds_of(seeds)
    store = _cache.Store(cache) if cache is not None else None
    with Progress(progress, whole.title or "sweep") as shown:
        points = _cache.Points(whole, chosen, store, shown)
        if on is None:
            points.run_here(jobs)
        else:
            _ray.run(points, on)
        return points.results()
