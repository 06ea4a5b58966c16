"""A state for plain Python: records with int attributes, rows as lists, written back into the arrays afterwards.

Python's ints have no width, so what compiled code would have wrapped around shows when it is written back.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from lumen_policy.native.layout import Layout

__all__ = ["Plain", "from_plain", "to_plain"]


class Plain(SimpleNamespace):
    """The arrays of a state by name."""


@cache
def _record_type(names: tuple[str, ...]) -> type:
    return type("Record", (), {"__slots__": names})


class _Records(list[Any]):
    """Records; an assigned one is copied."""

    def __setitem__(self, index: Any, record: Any) -> None:
        own = self[index]
        for name in own.__slots__:
            setattr(own, name, getattr(record, name))


class _Grid:
    """Rows of rows."""

    __slots__ = ("rows", "shape")

    def __init__(self, array: Any) -> None:
        self.rows = _numbers(array)
        self.shape = array.shape

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, key: Any) -> Any:
        found = self.rows
        for index in key if isinstance(key, tuple) else (key,):
            found = found[index]
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        found = self.rows
        for index in key[:-1]:
            found = found[index]
        found[key[-1]] = value


def _numbers(array: Any) -> Any:
    """Nested lists of ints or floats; unsigned ones stay numpy's, which wrap around."""
    if array.dtype != np.uint64:
        return array.tolist()
    return [_numbers(row) for row in array] if array.ndim > 1 else list(array)


def _records(array: Any) -> _Records:
    names = array.dtype.names
    kind = _record_type(names)
    columns = [_numbers(array[name]) for name in names]
    made = _Records()
    for index in range(len(array)):
        record = kind()
        for name, column in zip(names, columns, strict=True):
            setattr(record, name, column[index])
        made.append(record)
    return made


def to_plain(layout: Layout, arrays: Any) -> Plain:
    """The arrays of a state as lists and records."""
    made = Plain()
    for name, field in layout.fields.items():
        array = getattr(arrays, name)
        if field.dtype.fields is not None:
            value: Any = _records(array)
        else:
            value = _Grid(array) if field.axes > 1 else _numbers(array)
        setattr(made, name, value)
    return made


def from_plain(layout: Layout, plain: Plain, arrays: Any) -> None:
    """Write everything back.

    Raises:
        OverflowError: a number that its array has no room for.
    """
    for name, field in layout.fields.items():
        array, value = getattr(arrays, name), getattr(plain, name)
        if not array.size:
            continue
        if field.dtype.fields is None:
            array[...] = np.array(value.rows if isinstance(value, _Grid) else value, field.dtype).reshape(array.shape)
        else:
            for column in field.dtype.names or ():
                array[column] = np.array([getattr(record, column) for record in value], array[column].dtype)
