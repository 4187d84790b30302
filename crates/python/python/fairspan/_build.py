"""Scenarios built in code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._scenario import Scenario


class Builder:
    """A scenario that grows table by table.

    Each method adds a table of the scenario file (``docs/scenarios.md`` has all keys) and gives the builder back. A key that is a
    word of Python has an underscore behind it, such as ``from_``. :meth:`scenario` checks the whole.

    >>> import fairspan
    >>> builder = fairspan.build(duration="1s").node(["a", "b"]).link("wire", "a", "b", rate="1Mbit", delay="10ms")
    >>> scenario = builder.flow("f", "a", "b", kind="constant", rate="500kbit", size="500B").scenario()
    >>> scenario.points, scenario.seeds
    (1, [1])
    """

    def __init__(self, **keys: Any) -> None:
        self._tables: dict[str, Any] = {_plain(key): value for key, value in keys.items()}

    def add(self, table: str, **keys: Any) -> Builder:
        """Adds a table ``[[table]]``."""
        self._tables.setdefault(table, []).append({_plain(key): value for key, value in keys.items()})
        return self

    def node(self, name: str | list[str], **keys: Any) -> Builder:
        """Adds a node, or several of one kind."""
        return self.add("node", name=name, **keys)

    def link(self, name: str, from_: str, to: str, **keys: Any) -> Builder:
        """Adds a link between two nodes."""
        return self.add("link", name=name, from_=from_, to=to, **keys)

    def flow(self, name: str, from_: str, to: str, **keys: Any) -> Builder:
        """Adds a flow between two nodes."""
        return self.add("flow", name=name, from_=from_, to=to, **keys)

    def bond(self, name: str, **keys: Any) -> Builder:
        """Adds a bond."""
        return self.add("bond", name=name, **keys)

    def sweep(self, parameter: str | list[str], values: list[Any] | None = None, **keys: Any) -> Builder:
        """Adds a sweep over a parameter such as ``"link.wire.rate"``."""
        return self.add("sweep", parameter=parameter, values=values, **keys)

    def expect(self, metric: str, **keys: Any) -> Builder:
        """Adds something that should come out."""
        return self.add("expect", metric=metric, **keys)

    def plot(self, **keys: Any) -> Builder:
        """Adds a plot."""
        return self.add("plot", **keys)

    def to_dict(self) -> dict[str, Any]:
        """The tables so far."""
        return {key: list(value) if isinstance(value, list) else value for key, value in self._tables.items()}

    def scenario(self, name: str = "scenario.toml") -> Scenario:
        """Checks the whole, and makes a scenario of it."""
        from ._scenario import Scenario

        return Scenario(self.to_dict(), name=name)


def build(**keys: Any) -> Builder:
    """Begins a scenario with the keys at its top, such as ``duration="10s"`` or ``seeds="1..10"``."""
    return Builder(**keys)


def _plain(key: str) -> str:
    return key[:-1] if key.endswith("_") else key
