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


def _copy(target: Any, value: Any) -> None:
    """Numbers of one row or grid into another."""
    if isinstance(target, _Grid):
        target, value = target.rows, value.rows
    for index, one in enumerate(value):
        if isinstance(one, list):
            _copy(target[index], one)
        else:
            target[index] = one


class _Records(list[Any]):
    """Records; an assigned one is copied."""

    def __setitem__(self, index: Any, record: Any) -> None:
        own = self[index]
        for name in own.__slots__:
            value = getattr(record, name)
            if isinstance(value, (list, _Grid)):
                _copy(getattr(own, name), value)
            else:
                setattr(own, name, value)


class _Grid:
    """Rows of rows."""

    __slots__ = ("rows", "shape")

    def __init__(self, rows: Any, shape: tuple[int, ...]) -> None:
        self.rows = rows
        self.shape = shape

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        found = self.rows
        indices = key if isinstance(key, tuple) else (key,)
        for index in indices:
            found = found[index]
        rest = self.shape[len(indices) :]
        return _Grid(found, rest) if len(rest) > 1 else found

    def __setitem__(self, key: Any, value: Any) -> None:
        found = self.rows
        for index in key[:-1]:
            found = found[index]
        found[key[-1]] = value


def _row_or_grid(array: Any) -> Any:
    """What stands for an array."""
    rows = _records(array) if array.dtype.fields is not None else _numbers(array)
    return _Grid(rows, array.shape) if array.ndim > 1 else rows


def _numbers(array: Any) -> Any:
    """Nested lists of ints or floats; unsigned ones stay numpy's, which wrap around."""
    if array.dtype != np.uint64:
        return array.tolist()
    return [_numbers(row) for row in array] if array.ndim > 1 else list(array)


def _records(array: Any) -> Any:
    """Nested lists whose innermost hold records."""
    if array.ndim > 1:
        return [_records(row) for row in array]
    names = array.dtype.names
    kind = _record_type(names)
    columns = []
    for name in names:
        column = array[name]
        columns.append(_numbers(column) if column.ndim < 3 else [_row_or_grid(one) for one in column])
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
    for name in layout.fields:
        setattr(made, name, _row_or_grid(getattr(arrays, name)))
    return made


def _bare(value: Any) -> Any:
    return value.rows if isinstance(value, _Grid) else value


def _column(rows: Any, name: str) -> Any:
    if isinstance(rows, _Records):
        return [_bare(getattr(record, name)) for record in rows]
    return [_column(row, name) for row in rows]


def from_plain(layout: Layout, plain: Plain, arrays: Any) -> None:
    """Write everything back.

    Raises:
        OverflowError: a number that its array has no room for.
    """
    for name, field in layout.fields.items():
        array, value = getattr(arrays, name), _bare(getattr(plain, name))
        if not array.size:
            continue
        if field.dtype.fields is None:
            array[...] = np.array(value, field.dtype)
        else:
            for column in field.dtype.names or ():
                array[column] = np.array(_column(value, column), array[column].dtype)
