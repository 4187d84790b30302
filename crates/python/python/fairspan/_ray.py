"""Points of a sweep on the machines of Ray."""

from __future__ import annotations

import os
from typing import Any

from . import _cache, _native

#: How often a point is begun again whose process or machine died.
RETRIES = 20
#: Tasks for each core, so that none waits long for the last.
TASKS = 8


def run(points: _cache.Points, on: str) -> None:
    """Runs what is missing of ``points``; ``on`` is ``"ray"`` or the address of a cluster."""
    try:
        import ray
    except ImportError:
        raise _native.InputError('on: Ray is not installed; pip install "ray", or leave `on` out to run on this machine') from None
    begun = not ray.is_initialized()
    if begun:
        address = None if on == "ray" else on
        ray.init(address=address, log_to_driver=False, configure_logging=False, include_dashboard=False if address is None else None)
    elif on != "ray":
        raise _native.InputError(f"on: Ray is already connected to a cluster; on=\"ray\" uses that one, and {on} needs ray.shutdown() before")
    try:
        _spread(ray, points)
    finally:
        if begun:
            ray.shutdown()


def _spread(ray: Any, points: _cache.Points) -> None:
    missing = points.missing()
    resources: Any = ray.cluster_resources
    cores = max(1, int(resources().get("CPU", os.cpu_count() or 1)))
    size = max(1, len(missing) // (TASKS * cores))
    chunks = [missing[begin : begin + size] for begin in range(0, len(missing), size)]
    # The scenario goes to each machine once, with the files that it names.
    scenario = ray.put(points.scenario)
    task = ray.remote(num_cpus=1, max_retries=RETRIES)(_chunk)
    running: dict[Any, list[int]] = {task.remote(scenario, points.seeds, chunk, _cache.build()): chunk for chunk in chunks}
    try:
        while running:
            done, _ = ray.wait(list(running), num_returns=1, timeout=0.2)
            for reference in done:
                try:
                    texts = ray.get(reference)
                except ray.exceptions.RayTaskError as error:
                    raise (error.cause or error) from None
                for point, text in zip(running.pop(reference), texts):
                    points.add(point, text)
    except BaseException:
        for reference in running:
            ray.cancel(reference, force=True)
        raise


def _chunk(scenario: Any, seeds: list[int], chunk: list[int], build: str) -> list[str]:
    if _cache.build() != build:
        raise _native.Error("on: a machine of Ray has another build of fairspan than this process, whose numbers may differ; install the same wheel there")
    return [_cache.run(scenario, seeds, point) for point in chunk]
