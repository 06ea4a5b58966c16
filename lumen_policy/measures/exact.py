"""Exact sums of picoseconds: int64 arrays in, Python ints out, one rounding at the very end."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from lumen_policy.replay.contract import PS_PER_S

__all__ = ["CHUNK", "ExactBins", "chunks", "exact_sum", "picoseconds", "seconds"]

IntArray = npt.NDArray[np.int64]

CHUNK = 1 << 16
"""Entries handled at once: keeps temporaries in cache and limb sums inside int64."""

_LIMB_BITS = 32
_LIMB_MASK = (1 << _LIMB_BITS) - 1


def chunks(size: int) -> Iterator[slice]:
    """Slices of at most ``CHUNK`` entries that cover ``range(size)``."""
    for start in range(0, size, CHUNK):
        yield slice(start, min(start + CHUNK, size))


def exact_sum(values: IntArray) -> int:
    """Σ values without overflow, whatever their size and number.

    Args:
        values: shape (n,), int64.
    """
    total = 0
    for part in chunks(values.size):
        chunk = values[part]
        total += (int((chunk >> _LIMB_BITS).sum()) << _LIMB_BITS) + int((chunk & _LIMB_MASK).sum())
    return total


class ExactBins:
    """Sums of int64 values per bin that cannot overflow (two 32-bit limbs), with counts beside them."""

    __slots__ = ("_counts", "_high", "_low")

    def __init__(self, bins: int) -> None:
        self._counts = np.zeros(bins, dtype=np.int64)
        self._high = np.zeros(bins, dtype=np.int64)
        self._low = np.zeros(bins, dtype=np.int64)

    def add(self, index: IntArray, values: IntArray, counts: IntArray | int) -> None:
        """Adds ``values`` to the sums and ``counts`` to the counts at ``index``; indices may repeat."""
        np.add.at(self._counts, index, counts)
        np.add.at(self._high, index, values >> _LIMB_BITS)
        np.add.at(self._low, index, values & _LIMB_MASK)

    def counts(self) -> list[int]:
        """Samples per bin."""
        counts: list[int] = self._counts.tolist()
        return counts

    def sums(self) -> list[int]:
        """Exact sum per bin."""
        return [
            (high << _LIMB_BITS) + low
            for high, low in zip(self._high.tolist(), self._low.tolist(), strict=True)
        ]


def seconds(picoseconds: int, divisor: int = 1) -> float:
    """picoseconds / (divisor · 10¹²) in seconds, rounded once."""
    return float(Fraction(picoseconds, divisor * PS_PER_S))


def picoseconds(seconds: float) -> int:
    """The nearest picosecond of a decimal number of seconds (0.1 is 10¹¹ exactly)."""
    return round(Fraction(repr(float(seconds))) * PS_PER_S)
