"""Points of sweeps, run one by one, and results that are kept."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import threading
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, Optional, Union

from . import _native
from ._progress import Progress
from ._results import Results
from ._scenario import Scenario


def build() -> str:
    # The same version may be built of other sources while somebody works on it.
    global _known
    if _known is None:
        _known = hashlib.sha256(Path(_native.__file__).read_bytes()).hexdigest()
    return _known


_known: Optional[str] = None


class Store:
    """Results by their names in a folder, or at an address that fsspec understands."""

    def __init__(self, place: Union[str, "os.PathLike[str]"]) -> None:
        where = os.fspath(place)
        self._remote: Any = None
        if "://" in where:
            try:
                import fsspec
            except ImportError:
                raise _native.InputError(f"cache: {where} needs fsspec; pip install fsspec, or name a folder") from None
            self._remote, where = fsspec.core.url_to_fs(where)
            self._remote.makedirs(where, exist_ok=True)
        else:
            os.makedirs(where, exist_ok=True)
        self._where = where

    def read(self, name: str) -> Optional[str]:
        """What is kept under a name; None where there is nothing, or nothing that can be read."""
        path = f"{self._where}/{name}.json"
        try:
            text: str = self._remote.cat_file(path).decode() if self._remote else Path(path).read_text(encoding="utf-8")
            _native.Results.from_json(text)
        except (FileNotFoundError, UnicodeDecodeError, _native.Error):
            return None
        return text

    def write(self, name: str, text: str) -> None:
        """Keeps it. In a folder, whoever reads at the same time sees all of it or nothing; elsewhere what is cut is run again."""
        path = f"{self._where}/{name}.json"
        if self._remote:
            self._remote.pipe_file(path, text.encode())
            return
        handle, part = tempfile.mkstemp(prefix=f"{name}.", suffix=".part", dir=self._where)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(part, path)
        finally:
            if os.path.exists(part):
                os.unlink(part)


class Points:
    """The points of a scenario, some of which are known."""

    def __init__(self, scenario: Scenario, seeds: list[int], store: Optional[Store], shown: Progress) -> None:
        self.scenario = scenario
        self.seeds = seeds
        self._store = store
        self._shown = shown
        self._known: dict[int, str] = {}
        self._runs = scenario.points * len(seeds or scenario.seeds)
        if store is not None:
            files = {name: hashlib.sha256(content).hexdigest() for name, content in scenario._native.files.items()}
            about = [_native.__version__, build(), scenario.name, scenario.text, scenario._native.settings, sorted(files.items())]
            self._about = json.dumps([*about, seeds or scenario.seeds])
            for point in range(scenario.points):
                kept = store.read(self._name(point))
                if kept is not None:
                    self._known[point] = kept

    def _name(self, point: int) -> str:
        return hashlib.sha256(json.dumps([self._about, point]).encode()).hexdigest()

    def missing(self) -> list[int]:
        """The points that nobody has run."""
        return [point for point in range(self.scenario.points) if point not in self._known]

    def add(self, point: int, text: str) -> None:
        """What a point gave."""
        self._known[point] = text
        if self._store is not None:
            self._store.write(self._name(point), text)
        if self._shown.function:
            share = len(self._known) / max(1, self.scenario.points)
            self._shown.function(share, round(share * self._runs), self._runs, 0.0)

    def results(self) -> Results:
        """All of it."""
        return Results(_native.merge([self._known[point] for point in sorted(self._known)]))

    def run_here(self, jobs: int) -> None:
        """Runs what is missing in threads of this process."""
        stop = threading.Event()

        def look(*_: Any) -> None:
            if stop.is_set():
                raise _native.Error("stopped")

        with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
            running = {pool.submit(run, self.scenario, self.seeds, point, look): point for point in self.missing()}
            try:
                while running:
                    # Short, so that a signal is heard.
                    done, _ = wait(running, timeout=0.2, return_when=FIRST_COMPLETED)
                    for future in done:
                        self.add(running.pop(future), future.result())
            except BaseException:
                stop.set()
                for future in running:
                    future.cancel()
                raise


def run(scenario: Scenario, seeds: list[int], point: int, progress: Any = None) -> str:
    """Runs a point with all of its seeds on this thread, and gives the document."""
    wanted: _native._Runs = {"seeds": seeds, "jobs": 1, "points": (point, point + 1), "laws": [], "progress": progress}
    return scenario._native.run_all(wanted).json()
