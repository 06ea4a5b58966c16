"""The memory of a module: named arrays behind one table of addresses.

A function that takes twenty arrays costs a compiler more than its body, so compiled code takes the address of a table
of 64-bit words. For each array it holds the address (of each row, where the first axis is short and fixed) and the
lengths of its axes; the last word says what went wrong in a function from outside (``Module.trouble``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Field", "Layout", "alignment"]

_ELEMENTS = ("int64", "int32", "int16", "int8", "uint64", "float64")


@dataclass(frozen=True, slots=True)
class Field:
    """One array: its dtype, its number of axes, and the fixed length of its first axis (0: any length)."""

    dtype: np.dtype[Any]
    axes: int
    rows: int = 0


class Layout:
    """The arrays of a state, in order.

    Args:
        fields: for each name its dtype and number of axes, and the fixed length of its first axis if it has one.

    Raises:
        TypeError: an element type that compiled code does not know, or fields that overlap or lie across words.
    """

    def __init__(self, fields: Mapping[str, tuple[Any, int] | tuple[Any, int, int]]) -> None:
        self.fields: dict[str, Field] = {}
        self.first_word: dict[str, int] = {}
        word = 0
        for name, stated in fields.items():
            field = Field(np.dtype(stated[0]), stated[1], stated[2] if len(stated) > 2 else 0)
            if field.axes < 1 or field.rows < 0:
                raise TypeError(f"{name}: {field.axes} axes, {field.rows} rows")
            _check_elements(name, field.dtype)
            self.fields[name] = field
            self.first_word[name] = word
            word += max(1, field.rows) + field.axes
        self.trouble_word = word

    def first_length(self, name: str) -> int:
        """The word with the length of the array's first axis."""
        return self.first_word[name] + max(1, self.fields[name].rows)

    def words(self, arrays: Any) -> npt.NDArray[np.int64]:
        """The table of a state: the arrays are its attributes; they must outlive the table's use.

        Raises:
            TypeError: an array that is not what was stated.
        """
        table: list[int] = []
        for name, field in self.fields.items():
            array = getattr(arrays, name)
            if (
                array.dtype != field.dtype
                or array.ndim != field.axes
                or not array.flags.c_contiguous
                or array.ctypes.data % alignment(field.dtype)
                or (field.rows and len(array) != field.rows)
            ):
                raise TypeError(f"{name}: {array.dtype} of shape {array.shape} is not what was stated")
            address = array.ctypes.data
            if field.rows:
                table += [address + row * array.strides[0] for row in range(field.rows)]
            else:
                table.append(address)
            table += array.shape
        table.append(0)
        return np.array(table, np.int64)


def alignment(dtype: np.dtype[Any]) -> int:
    """What the addresses of an array's elements are multiples of: the width of the widest number in them."""
    if dtype.fields is None:
        return dtype.itemsize
    return max(found[0].base.itemsize for found in dtype.fields.values())


def _check_elements(name: str, dtype: np.dtype[Any]) -> None:
    kinds = [dtype] if dtype.fields is None else [found[0].base for found in dtype.fields.values()]
    for kind in kinds:
        if kind.name not in _ELEMENTS or not kind.isnative:
            raise TypeError(f"{name}: elements may be {', '.join(_ELEMENTS)}, not {kind}")
    if dtype.fields is None:
        return
    end = 0
    for kind, offset in sorted(
        ((found[0], found[1]) for found in dtype.fields.values()), key=lambda pair: pair[1]
    ):
        if offset < end:
            raise TypeError(f"{name}: fields overlap at byte {offset}")
        if offset % kind.base.itemsize:
            raise TypeError(
                f"{name}: a field at byte {offset} lies across words; make the dtype with align=True"
            )
        end = offset + kind.itemsize
    if dtype.itemsize % alignment(dtype):
        raise TypeError(
            f"{name}: records of {dtype.itemsize} bytes lie across words; make the dtype with align=True"
        )
