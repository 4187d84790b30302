"""Values of Python as TOML: what a scenario made of a dictionary is written as."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any


def _text(text: str) -> str:
    # TOML takes JSON's texts, but for this one sign, and it knows no surrogates.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"the key {key!r} is no text; keys of a scenario are texts such as 'rate'")
    return key if key and all(c.isascii() and (c.isalnum() or c in "_-") for c in key) else _text(key)


def _value(path: str, value: Any) -> str:
    # Numbers and arrays of NumPy and the like know what they are in Python; those that are numbers of Python too write themselves otherwise.
    if not isinstance(value, (bool, int, float, str)) and callable(getattr(value, "tolist", None)):
        value = value.tolist()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        if math.isfinite(value):
            return float.__repr__(value)
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, os.PathLike):
        return _text(os.fspath(value))
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_key(key)} = {_value(f'{path}.{key}', inner)}" for key, inner in value.items() if inner is not None)
        return "{ " + inner + " }"
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray, memoryview)):
        return "[" + ", ".join(_value(path, inner) for inner in value) + "]"
    raise TypeError(f"{path}: a scenario holds texts, numbers, lists and dictionaries, and this is {value!r}")


def text(scenario: Mapping[str, Any]) -> str:
    """The TOML text of a scenario; values that are None are left out."""
    plain, tables = [], []
    for key, value in scenario.items():
        if value is None:
            continue
        listed = isinstance(value, Sequence) and not isinstance(value, str)
        if isinstance(value, Mapping):
            tables.append((f"[{_key(key)}]", key, value))
        elif listed and value and all(isinstance(inner, Mapping) for inner in value):
            tables.extend((f"[[{_key(key)}]]", key, inner) for inner in value)
        else:
            plain.append(f"{_key(key)} = {_value(key, value)}")
    for head, name, table in tables:
        plain.append(f"\n{head}")
        plain.extend(f"{_key(key)} = {_value(f'{name}.{key}', value)}" for key, value in table.items() if value is not None)
    return "\n".join(plain) + "\n"
