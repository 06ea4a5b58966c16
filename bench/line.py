"""One figure of the bench: measured, its target, and the ratio of the two."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass

__all__ = ["Line", "median", "print_lines"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A measured figure.

    Attributes:
        name: what was measured.
        value: the median.
        target: at most this; None for a figure that is only reported.
        unit: of both.
        note: what qualifies it.
    """

    name: str
    value: float
    target: float | None
    unit: str
    note: str = ""


def median(measure: Callable[[], float], runs: int) -> float:
    """Median of ``runs`` measurements after one that is not counted."""
    measure()
    return statistics.median(measure() for _ in range(runs))


def print_lines(lines: Iterable[Line]) -> bool:
    """Print a table as it grows; True if every target holds."""
    held = True
    for line in lines:
        if line.target is None:
            verdict = ""
        else:
            good = line.value <= line.target
            held = held and good
            verdict = f"{line.value / line.target:5.2f} of {line.target:g}{'' if good else '  OVER'}"
        print(f"{line.name:<66} {line.value:>10.3f} {line.unit:<4} {verdict:<22} {line.note}", flush=True)
    return held
