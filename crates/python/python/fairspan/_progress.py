"""How far runs are: with tqdm where it is installed, else one line on a terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Callable, Optional, Union

#: None: where there is a terminal or a notebook; a function is called with the share that is done.
Wish = Union[None, bool, Callable[[float], object]]

#: Runs that are over before have no progress to show.
PATIENCE = 0.3


def _notebook() -> bool:
    shell = sys.modules.get("IPython")
    found = shell.get_ipython() if shell is not None and hasattr(shell, "get_ipython") else None
    return found is not None and "IPKernelApp" in getattr(found, "config", {})


class Progress:
    """Shows how much is done, once it takes long enough to ask."""

    def __init__(self, wish: Wish, title: str) -> None:
        self._call = wish if callable(wish) else None
        shown = wish is True or (wish is None and (sys.stderr.isatty() or _notebook()))
        self._show = shown and not callable(wish)
        self._title = title
        self._began = time.monotonic()
        self._bar: Optional[Any] = None
        self._line = 0

    @property
    def function(self) -> Optional[Callable[[float, int, int, float], None]]:
        """What the simulator calls; None where nobody looks."""
        return self.update if self._show or self._call is not None else None

    def update(self, share: float, finished: int, planned: int, simulated: float) -> None:
        """``share`` of all is done."""
        if self._call is not None:
            self._call(share)
            return
        if time.monotonic() - self._began < PATIENCE:
            return
        about = f"{finished} of {planned} runs, {simulated:.1f} s simulated"
        if self._bar is None:
            self._bar = _bar(self._title)
        if self._bar:
            self._bar.n = round(100 * share, 1)
            self._bar.set_postfix_str(about, refresh=False)
            self._bar.refresh()
        else:
            line = f"{self._title} {100 * share:3.0f} % ({about})"
            print(f"\r{line:<{self._line}}", end="", file=sys.stderr, flush=True)
            self._line = len(line)

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if self._bar:
            self._bar.close()
        elif self._line:
            print(f"\r{'':<{self._line}}\r", end="", file=sys.stderr, flush=True)


def _bar(title: str) -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return False
    return tqdm(total=100, desc=title, unit="%", leave=False, bar_format="{l_bar}{bar}| {elapsed}<{remaining}{postfix}")
